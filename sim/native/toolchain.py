"""Builds the shared library of a folder of C sources: `python sim/native/toolchain.py`.

It needs a C compiler and no headers of Python: `CC`, or the first of cc, gcc and clang that is
found, or the one in the package `ziglang`, which installs where there is none.

This module imports nothing of this project, because `setup.py` runs it before there is any.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""Where includes begin."""

FOLDERS = (
    "models/node/native",
    "models/over_time/cluster/load/native",
    "models/over_time/node_life/native",
    "calibration/drive/native",
    "hwprofiles/capture/native",
)
"""Folders of C sources below `ROOT`."""

FLAGS = (
    *("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden"),
    # The same bits on every processor: no fused multiplication and addition.
    "-ffp-contract=off",
)
_LINK_FLAGS = ("-shared", "-s")
_MINUTES = 5

TARGET = "FORECACHE_TARGET"
"""A variable that names another machine to build for: x86_64 or aarch64, with ziglang."""

_GLIBC = (2, 28)
"""The oldest C library that a wheel for another machine runs with."""


def compiler() -> list[str]:
    """The command of a C compiler.

    Raises
    ------
    OSError
        If there is none.
    """
    if target := os.environ.get(TARGET):
        glibc = ".".join(map(str, _GLIBC))
        return [sys.executable, "-m", "ziglang", "cc", "-target", f"{target}-linux-gnu.{glibc}"]
    if named := os.environ.get("CC"):
        return shlex.split(named)
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        # Left to itself it builds for the very processor at hand.
        return [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
    raise OSError("no C compiler: found none of cc, gcc, clang, nor the Python package ziglang")


def wheel_platform(target: str) -> str:
    """The platform in the name of a wheel that is built for another machine."""
    return f"manylinux_{'_'.join(map(str, _GLIBC))}_{target}"


def sources(folder: Path) -> list[Path]:
    """The files that the library of a folder is made of, headers included."""
    shared = ROOT / "sim" / "native"
    return sorted({*folder.glob("*.[ch]"), *shared.glob("*.[ch]")})


def digest(folder: Path) -> str:
    """What tells one state of the sources from another."""
    found = hashlib.sha256(" ".join((*FLAGS, *_LINK_FLAGS)).encode())
    for path in sources(folder):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def library_path(folder: Path) -> Path:
    """Where the library of a folder lies, whether it has been built or not."""
    return folder / f"_{digest(folder)}.so"


def is_current(folder: Path) -> bool:
    """Whether the library was built from the present sources."""
    return library_path(folder).exists()


def build(folder: Path, to: Path | None = None) -> Path:
    """Build the library of a folder, beside its sources or in another folder; returns its path.

    Its files are compiled on all cores. It appears whole or not at all, so that processes may
    build at the same time.

    Raises
    ------
    OSError
        If there is no compiler, or it fails; with what it said.
    """
    path = (to or folder) / library_path(folder).name
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".build-") as work:
        units = {unit: Path(work) / f"{unit.stem}.o" for unit in sorted(folder.glob("*.c"))}
        made = Path(work) / path.name
        with ThreadPoolExecutor(os.cpu_count()) as cores:
            # Going through the results raises what a compilation raised.
            list(cores.map(_compile, units.keys(), units.values()))
        run([*compiler(), *_LINK_FLAGS, "-o", str(made), *map(str, units.values()), "-lm"])
        made.replace(path)
    for old in path.parent.glob("_*.so"):
        if old != path:
            old.unlink(missing_ok=True)
    return path


def _compile(unit: Path, to: Path) -> None:
    run([*compiler(), *FLAGS, "-I", str(ROOT), "-c", "-o", str(to), str(unit)])


def run(command: list[str]) -> None:
    """Run a compiler; an `OSError` with what it said if it fails."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60 * _MINUTES, check=False
    )
    if done.returncode:
        raise OSError(f"{shlex.join(command)} failed:\n{done.stderr.strip()}")


if __name__ == "__main__":
    for name in FOLDERS:
        print(build(ROOT / name))
