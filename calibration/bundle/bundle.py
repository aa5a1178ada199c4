"""The observation bundle: a folder with everything a fit needs, written whole or not at all.

`manifest.yaml` says what was run where, `points.jsonl` has one point a line with every repetition,
`info/` the engine's INFO after each point, `config.yaml` its configuration as it reports it, and
`host.yaml` the profile of the host, if one was given. Where the engine was profiled,
`profiles.jsonl` has what was found, and `profiles/` the counts per function; `commands.json` has
instructions of commands beyond GET and SET, where they were counted. A compact bundle has
`points.jsonl.gz` and no INFO. One that is meant for others lies beside its folder once more, as one
file with a hash of each of its files.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import statistics
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from forecache.hwprofiles import HostProfile
from forecache.hwprofiles.files import (
    dump_yaml,
    parse,
    read_text,
    read_yaml,
    write_bytes_atomic,
)
from forecache.hwprofiles.record import Record as _Section
from forecache.sim.errors import InputError
from forecache.sim.plain import Result

from .points import Conditions, ObservedPoint
from .profiles import (
    CommandCounts,
    Depth,
    Profile,
    parse_records,
    read_counts,
    read_profiles,
    write_profiles,
)

FORMAT = "forecache-bundle/1"
COMMANDS_FILE = "commands.json"

HASHES_FILE = "SHA256SUMS"
"""Of an archive: a line for each other file, as `sha256sum` writes and checks them."""

LICENCE = "Apache-2.0"
"""Under which a contributor gives a bundle, and this project publishes it."""

RECIPE_FILE = "recipe.txt"
"""A folder with it is none yet: `observe --recipe` filled it, and `observe/recipe.py` reads it."""


class Engine(_Section):
    """Which engine answered. `build` is its own build id, `allocator` its malloc.

    `compiler` is the version of gcc, or what called itself one.
    """

    name: str
    version: str
    path: str
    sha256: str
    build: str | None = None
    allocator: str | None = None
    compiler: str | None = None


class ObservedMachine(_Section):
    """Where it ran: what /proc says, and which core did what."""

    cpu_model: str
    kernel: str
    architecture: str
    cores_available: int
    main_thread_core: int
    io_thread_cores: list[int]
    generator_cores: list[int]


class Method(_Section):
    """How it was measured."""

    tool: str
    design: str
    repetitions: int
    warm_up_s: float
    window_s: float
    seed: int
    generator_receive_bytes: int


class Manifest(_Section):
    """Top of a bundle.

    `depth` is how deep the host allowed to look: `clock` is CPU time only. `profiles` is the number
    of profiles, and `profiling` says which profilers were used and why. `starts` has the server CPU
    time per request of windows of one point, in ns, by start. `contributor` measured it for
    others to use, under `licence`.
    """

    format: Literal["forecache-bundle/1"] = "forecache-bundle/1"
    created: str
    forecache_version: str
    elapsed_s: float
    depth: Depth = "clock"
    engine: Engine
    machine: ObservedMachine
    method: Method
    points: int
    profiles: int = 0
    profiling: str | None = None
    starts: list[list[float]] = Field(default_factory=list)
    left_out: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    contributor: str | None = None
    licence: str | None = None


@dataclass(frozen=True)
class Bundle:
    """An observation, loaded.

    Attributes
    ----------
    path
        Its folder.
    manifest
        What was run.
    points
        In the order of the design.
    config
        The engine's configuration by name, as text, with one I/O thread or the fewest observed.
    host
        Profile of the host, or None when none was given.
    profiles
        What profilers found; none where none was used.
    commands
        Instructions of commands beyond GET and SET; None where they were not counted.
    """

    path: Path
    manifest: Manifest
    points: list[ObservedPoint]
    config: dict[str, str]
    host: HostProfile | None
    profiles: list[Profile] = field(default_factory=list)
    commands: CommandCounts | None = None

    @classmethod
    def load(cls, path: str | Path) -> Bundle:
        """Read a bundle, from this machine or another."""
        folder = Path(path)
        if not folder.is_dir():
            raise InputError(f"{folder}: is not a folder; valid is an observation bundle.")
        manifest_file = folder / "manifest.yaml"
        data = read_yaml(manifest_file)
        if data.get("format") != FORMAT:
            raise InputError(
                f"{manifest_file}: format: found {data.get('format')!r}; valid is {FORMAT}."
            )
        manifest = parse(Manifest, data, file=manifest_file)
        packed = folder / "points.jsonl.gz"
        file = packed if packed.is_file() else folder / "points.jsonl"
        points = read_points(file, expected=manifest.points)
        for point in points:
            if point.info is not None and not (folder / point.info).is_file():
                raise InputError(f"{folder / point.info}: no such file, but a point names it.")
        config = {name: str(value) for name, value in read_yaml(folder / "config.yaml").items()}
        host_file = folder / "host.yaml"
        host = (
            parse(HostProfile, read_yaml(host_file), file=host_file)
            if host_file.is_file()
            else None
        )
        profiles = (
            read_profiles(folder / "profiles.jsonl", expected=manifest.profiles)
            if manifest.profiles
            else []
        )
        counts_file = folder / COMMANDS_FILE
        commands = read_counts(counts_file) if counts_file.is_file() else None
        of = (manifest.engine.name, manifest.engine.version)
        if commands is not None and (commands.engine, commands.version) != of:
            raise InputError(
                f"{counts_file}: found counts of {commands.engine} {commands.version}; valid is "
                f"{' '.join(of)}, which was observed."
            )
        return cls(folder, manifest, points, config, host, profiles, commands)

    def info_text(self, point: ObservedPoint) -> str | None:
        """The engine's INFO after a point, or None when the bundle has none."""
        return None if point.info is None else read_text(self.path / point.info)


def read_points(file: Path, *, expected: int) -> list[ObservedPoint]:
    """Read `points.jsonl`, which must have `expected` lines."""
    if file.suffix != ".gz":
        text = read_text(file)
    else:  # of a compact bundle
        try:
            text = gzip.decompress(file.read_bytes()).decode()
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise InputError(f"{file}: found no gzipped text ({error}); valid is one.") from None
    return parse_records(ObservedPoint, text, file=file, noun="point", expected=expected)


def write_bundle(
    folder: Path,
    *,
    manifest: Manifest,
    points: Sequence[ObservedPoint],
    info: Sequence[str],
    configs: dict[str, dict[str, str]],
    host: HostProfile | None,
    profiles: Sequence[Profile] = (),
    evidence: Mapping[str, bytes] | None = None,
) -> None:
    """Fill an empty folder with a bundle; `configs` and `evidence` map file names to contents."""
    (folder / "info").mkdir()
    lines = []
    for number, (point, text) in enumerate(zip(points, info, strict=True), start=1):
        name = f"info/{number:03d}.txt"
        (folder / name).write_text(text, encoding="utf-8")
        data = point.model_copy(update={"info": name}).model_dump(mode="json")
        lines.append(json.dumps(data, separators=(",", ":")) + "\n")
    (folder / "points.jsonl").write_text("".join(lines), encoding="utf-8")
    for name, config in configs.items():
        (folder / name).write_text(dump_yaml(dict(config)), encoding="utf-8")
    if host is not None:
        text = dump_yaml(host.model_dump(mode="json", exclude_none=True))
        (folder / "host.yaml").write_text(text, encoding="utf-8")
    if profiles:
        write_profiles(folder / "profiles.jsonl", profiles)
    for name, content in (evidence or {}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    document: dict[str, Any] = manifest.model_dump(mode="json")
    (folder / "manifest.yaml").write_text(dump_yaml(document), encoding="utf-8")


def is_name(text: str) -> bool:
    """Whether it can name a contributor: printable, and at most 80 letters."""
    return bool(text.strip()) and text.isprintable() and len(text) <= 80


def archive_of(folder: Path) -> Path:
    """Where the archive of a bundle is: beside its folder."""
    return folder.parent / f"{folder.name}.tar.gz"


def write_archive(folder: Path) -> Path:
    """Write a bundle as one file beside its folder, with the hash of each of its files."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    sums = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    files[HASHES_FILE] = "".join(sums).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{folder.name}/{name}")  # of nobody, and of no time
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    out = archive_of(folder)
    write_bytes_atomic(out, packed.getvalue())
    return out


def require_new(out: Path) -> None:
    """Refuse a target that exists, before any work is done, or whose parent can't be written."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: exists already; valid is a new or empty folder.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out.parent).close()
    except OSError as error:
        raise InputError(f"{out}: can't be written ({error.strerror}).") from None


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A temporary sibling of `out` that takes its name when the block ends well, else vanishes."""
    require_new(out)
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        temporary.chmod(0o755)
        yield temporary
        temporary.rename(out)  # replaces an empty folder
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


# --- what `observe` answers: each point as the median of its repetitions --------------------------


@dataclass(frozen=True)
class ObservedMedians(Result):
    """Medians of a point over its repetitions; None of what a benchmark tool doesn't report."""

    given: Conditions
    throughput_rps: float | None
    mean_ms: float | None
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    server_cpu_ns_per_request: float | None
    main_thread_utilisation: float | None
    """From 0 to 1, as the next."""
    generator_utilisation: float | None
    repetitions: int
    flags: list[str]
    """What disturbed some of them."""


@dataclass(frozen=True)
class BundleSummary(Result):
    """What was run, and what was observed."""

    bundle: str
    """Its path."""
    manifest: Manifest
    """Engine, machine, method, depth and warnings."""
    points: list[ObservedMedians]


_MEDIANS = [
    f.name for f in fields(ObservedMedians) if f.name not in ("given", "repetitions", "flags")
]


def bundle_summary(bundle: Bundle) -> BundleSummary:
    """What was run and the median of every point over its repetitions."""
    points = [
        ObservedMedians(
            given=point.given,
            **{name: _median(point.repetitions, name) for name in _MEDIANS},
            repetitions=len(point.repetitions),
            flags=sorted({flag for row in point.repetitions for flag in row.flags}),
        )
        for point in bundle.points
    ]
    return BundleSummary(str(bundle.path), bundle.manifest, points)


def _median(repetitions: Iterable[Any], name: str) -> float | None:
    """The median of what is known."""
    known = [value for row in repetitions if (value := getattr(row, name)) is not None]
    return statistics.median(known) if known else None
