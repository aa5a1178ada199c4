"""Does the wheel install where nothing is, and run? How long does it take, how large is it?

    python verification/install.py dist                              this Python, no extra
    python verification/install.py dist --python python3.13 --extra all

For every Python a fresh virtual environment gets the wheel that fits this machine, and answers the
quickstart; for an extra another one gets it as well, `forecache doctor` must find it there, and
what it is for is done once (`extras.py`). Prints a table in Markdown: packages, MiB on disk without
pip, seconds of `pip install` and of what was done, by the clock and of CPUs. Downloads count,
unless --cache lets pip keep them. Needs a package index, and nothing but Python's own library. Exit
code 0: all works; 1: something failed, with the last line of what it said; 2: bad input.
"""

import argparse
import json
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from extras import USES

QUICKSTART = Path(__file__).resolve().parents[1] / "examples" / "quickstart.yaml"
RECOMMENDED = {"io_threads": 8}
"""What README.md prints of it."""
_NOT_FOR_USERS = ("dev", "benchmark", "docs")
_MOST_S = 1800
_MIB = 2**20


class Failure(Exception):
    """A command failed; with what it said last."""


class Spent(NamedTuple):
    """What a command took: by the clock, and of CPUs, which other programs disturb less."""

    wall_s: float
    cpu_s: float


class Installed(NamedTuple):
    """One installation."""

    python: str
    machine: str
    extra: str
    size_mib: float
    packages: int
    install: "Spent"
    done: str
    """What it was used for."""
    use: "Spent"


def wheel_in(folder: Path) -> Path:
    """The newest wheel of a folder that this machine can use.

    Raises
    ------
    Failure
        There is none.
    """
    machine = platform.machine()
    found = sorted(folder.glob(f"forecache-*_{machine}.whl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise Failure(f"{folder}: found no wheel for {machine}; valid is what `make wheel` writes.")
    return found[-1]


def extras_of(wheel: Path) -> list[str]:
    """The extras that are for users, as the wheel's metadata names them."""
    import zipfile

    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(name).decode()
    found = re.findall(r"^Provides-Extra: (\S+)$", metadata, re.MULTILINE)
    return [extra for extra in found if extra not in _NOT_FOR_USERS]


def install(python: str, wheel: Path, extra: str, folder: Path, *, cache: bool) -> Installed:
    """Install into a fresh environment, and answer the quickstart or use the extra.

    Raises
    ------
    Failure
        Something failed, or the extra is not found.
    """
    _run([python, "-m", "venv", str(folder)])
    here = folder / "bin" / "python"
    [packages_folder] = folder.glob("lib/python*/site-packages")
    before = size_bytes(packages_folder)
    wanted = f"{wheel}[{extra}]" if extra != "none" else str(wheel)
    flags = [
        "--quiet",
        "--no-compile",
        "--only-binary=:all:",
        *([] if cache else ["--no-cache-dir"]),
    ]
    _, spent = _timed([str(here), "-m", "pip", "install", *flags, wanted])
    # Before anything is imported, which writes bytecode.
    size = size_bytes(packages_folder) - before
    listed = json.loads(_run([str(here), "-m", "pip", "list", "--format=json"]))
    program = str(folder / "bin" / "forecache")
    if extra != "none":
        _check_extra(program, extra)
        done, text = USES[extra]
        script = folder.parent / "use.py"
        script.write_text(text)
        _, used = _timed([str(here), str(script), str(QUICKSTART.parent)], folder=folder.parent)
    else:
        done = "the quickstart"
        said, used = _timed([program, "recommend", "--quiet", "--json", str(QUICKSTART)])
        found = json.loads(said)["recommendation"]["setting"]
        if found != RECOMMENDED:
            raise Failure(f"the quickstart recommends {found}, not {RECOMMENDED}")
    version = _run([str(here), "-c", "import platform; print(platform.python_version())"]).strip()
    return Installed(
        version, platform.machine(), extra, size / _MIB, len(listed) - 1, spent, done, used
    )


def _check_extra(program: str, extra: str) -> None:
    """`forecache doctor` finds all packages of the extra."""
    diagnosis = json.loads(_run([program, "doctor", "--quiet", "--json"]))
    [ability] = [each for each in diagnosis["abilities"] if each["id"] == "extras"]
    packages = ability["values"]["packages"][extra]
    absent = [name for name, version in packages.items() if version is None]
    if absent:
        raise Failure(f"forecache doctor does not find {', '.join(absent)} of the extra {extra}")


def _timed(command: Sequence[str], *, folder: Path | None = None) -> tuple[str, Spent]:
    """What a command prints, and takes with its children."""
    start_s, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    said = _run(command, folder=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return said, Spent(time.monotonic() - start_s, cpu_s)


def size_bytes(folder: Path) -> int:
    """What the files of a folder hold."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _run(command: Sequence[str], *, folder: Path | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_MOST_S, check=False, cwd=folder
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it printed nothing"]
        raise Failure(f"{Path(command[0]).name} {command[1]}: {said[-1]}")
    return done.stdout


def table(rows: Sequence[Installed]) -> Iterator[str]:
    """The installations as Markdown."""
    yield "| Python | machine | extra | packages | MiB | install, s | used for | s |"
    yield "|---|---|---|--:|--:|--:|---|--:|"
    for row in rows:
        name = "none" if row.extra == "none" else f"`{row.extra}`"
        yield (
            f"| {row.python} | {row.machine} | {name} | {row.packages} | {row.size_mib:.0f} | "
            f"{_seconds(row.install)} | {row.done} | {_seconds(row.use)} |"
        )


def _seconds(spent: Spent) -> str:
    return f"{spent.wall_s:.0f} ({spent.cpu_s:.0f} of CPU)"


def main() -> int:
    """Install with every Python and every extra."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the wheels are")
    parser.add_argument("--python", action="append", metavar="PYTHON", help="may be repeated")
    parser.add_argument(
        "--extra", action="append", default=[], help="may be repeated; or all, none"
    )
    parser.add_argument("--cache", action="store_true", help="let pip keep and use downloads")
    given = parser.parse_args()
    pythons = given.python or [sys.executable]
    absent = [python for python in pythons if shutil.which(python) is None]
    if absent:
        parser.error(f"--python: found {', '.join(absent)}; valid is a program on PATH")
    try:
        wheel = wheel_in(given.folder)
    except Failure as failure:
        parser.error(str(failure))
    known = ["none", *extras_of(wheel)]
    extras = known if "all" in given.extra else given.extra or ["none"]
    if unknown := [extra for extra in extras if extra not in known]:
        parser.error(f"--extra: found {', '.join(unknown)}; valid is all, {', '.join(known)}")
    rows, failures = [], 0
    for python in pythons:
        for extra in extras:
            with tempfile.TemporaryDirectory(prefix="forecache-install-") as scratch:
                name = f"{Path(python).name}, extra {extra}"
                try:
                    folder = Path(scratch) / "venv"
                    rows.append(install(python, wheel, extra, folder, cache=given.cache))
                    print(f"PASS  {name}", file=sys.stderr)
                except (Failure, subprocess.TimeoutExpired) as failure:
                    failures += 1
                    print(f"FAIL  {name}: {failure}", file=sys.stderr)
    print(f"{wheel.name}, {wheel.stat().st_size / _MIB:.1f} MiB\n")
    print("\n".join(table(rows)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
