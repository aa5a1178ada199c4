"""Do the steps of `Containerfile` work? Tried in a chroot, where no container engine runs.

    sudo python verification/container.py build/container            the command of `docker run`
    sudo python verification/container.py build/container -- doctor  another one

Every stage becomes a folder that debootstrap has filled with the Debian release of its FROM; RUN
runs in it, COPY copies into it, and at last ENTRYPOINT runs with CMD or what follows `--`. Needs
root, debootstrap, and Debian's archive and PyPI. Exit code 2: it can't be done here; otherwise
that of the step that failed, or of the command.

A chroot isn't a container: it has no limits, no network of its own, and root is root.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
ARCHIVE = "http://deb.debian.org/debian"
_IGNORED = shutil.ignore_patterns("__pycache__", "_*.so")
_PASSED = ("PIP_", "http_proxy", "https_proxy", "no_proxy")
_INSIDE = """
root=$1; shift
for folder in proc sys dev; do mount --rbind /$folder "$root/$folder"; done
[ -z "$PIP_CERT" ] || { touch "$root/certificates"; mount --bind "$PIP_CERT" "$root/certificates"; }
exec chroot "$root" "$@"
"""
"""In mounts of its own, which end with it. A mirror's certificate comes along."""


class Stage:
    """One image that is made, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.working = "/"

    def run(self, command: Sequence[str]) -> int:
        """Run a command inside; returns its exit code."""
        shutil.copy("/etc/resolv.conf", self.root / "etc" / "resolv.conf")
        passed = {name: value for name, value in os.environ.items() if name.startswith(_PASSED)}
        if "PIP_CERT" in passed:
            passed |= {"PIP_CERT": "/certificates", "SSL_CERT_FILE": "/certificates"}
        given = [f"{name}={value}" for name, value in (passed | self.environment).items()]
        inside = ["/usr/bin/env", "-i", "-C", self.working, "HOME=/root", *given, *command]
        outside = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", _INSIDE]
        environment = os.environ | {"PIP_CERT": os.environ.get("PIP_CERT", "")}
        return subprocess.run(
            [*outside, "sh", str(self.root), *inside], env=environment, check=False
        ).returncode

    def inside(self, path: str) -> Path:
        """Where a path of the image is outside."""
        return self.root / (Path(self.working) / path).relative_to("/")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """(instruction, rest) of each line that is no comment; a backslash continues a line."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def fill(root: Path, image: str) -> None:
    """Fill a folder with the Debian release that an image is of."""
    release = re.fullmatch(r"debian:(\w+)-slim", image)
    if release is None:
        raise SystemExit(f"FROM {image}: valid here is debian:RELEASE-slim")
    kept = root.parent / f"debian-{release[1]}"
    if not (kept / ".filled").exists():
        shutil.rmtree(kept, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", release[1], str(kept), ARCHIVE]
        if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode != 0:
            raise SystemExit(f"debootstrap could not fill {kept}")
        (kept / ".filled").touch()
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", str(kept), str(root)], check=True)


def copy(stage: Stage, stages: dict[str, Stage], rest: str) -> None:
    """COPY [--from=STAGE] SOURCE... TARGET."""
    words = shlex.split(rest)
    base = CHECKOUT
    if words[0].startswith("--from="):
        base = stages[words.pop(0).removeprefix("--from=")].root
    *sources, target = words
    to = stage.inside(target)
    for source in sources:
        path = base / source.lstrip("/")
        if path.is_dir():
            ignored = _IGNORED if base == CHECKOUT else None
            shutil.copytree(path, to, symlinks=True, ignore=ignored, dirs_exist_ok=True)
        else:
            into = to / path.name if target.endswith("/") else to
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, into)


def build(text: str, folder: Path) -> tuple[Stage, list[str], list[str]]:
    """The last stage, its ENTRYPOINT and its CMD."""
    stages: dict[str, Stage] = {}
    stage = Stage(folder)
    entry: list[str] = []
    command: list[str] = []
    for word, rest in instructions(text):
        print(f"{word} {rest}", file=sys.stderr, flush=True)
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            stage = Stage(folder / (name or "final"))
            stages[name or "final"] = stage
            fill(stage.root, image)
        elif word == "RUN":
            if code := stage.run(["sh", "-c", rest]):
                print(f"failed with {code}: RUN {rest}", file=sys.stderr)
                sys.exit(code)
        elif word == "COPY":
            copy(stage, stages, rest)
        elif word == "ENV":
            name, _, value = rest.partition("=")
            stage.environment[name] = value
        elif word == "WORKDIR":
            stage.working = rest
            stage.inside(rest).mkdir(parents=True, exist_ok=True)
        elif word == "ENTRYPOINT":
            entry = json.loads(rest)
        elif word == "CMD":
            command = json.loads(rest)
        else:
            raise SystemExit(
                f"{word}: valid here is FROM, RUN, COPY, ENV, WORKDIR, ENTRYPOINT, CMD"
            )
    return stage, entry, command


def main() -> int:
    """Build, then run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the roots go, about 1.5 GB")
    parser.add_argument("command", nargs="*", help="instead of CMD")
    given = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        parser.error("needs root and debootstrap (apt-get install debootstrap)")
    given.folder.mkdir(parents=True, exist_ok=True)
    text = (CHECKOUT / "Containerfile").read_text(encoding="utf-8")
    stage, entry, command = build(text, given.folder.resolve())
    code = stage.run([*entry, *(given.command or command)])
    print(f"{stage.inside('.')}: exit code {code}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
