"""Instructions of commands beyond GET and SET, counted by running the engine in valgrind.

The study `command-counts` counts every command of the table, at points that follow from its row,
and keeps the counts in `evidence/counts/command_counts/`, where it counts only what an engine's
file doesn't have yet; `command-work` makes the section `commands` of the shipped engine profiles
from what lies there. A command that an engine doesn't know is left out of both.

No state drifts: a command that writes works on copies of one key, which RESTORE puts there before
anything is counted, each of them written to once; large collections, of which there are few copies,
change by a few per cent. So RPOP finds a list of as many elements as
LRANGE does, SADD adds a member that isn't there, and PERSIST finds a time to live.

Counts are exact: the stages that are counted have nothing but these commands. What remains
uncertain is how they depend on numbers of keys, members and fields, for which up to three numbers
per command stand; see `models.commands.COMMAND_WORK`. A skip list's depth makes no difference worth
a number.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from forecache.calibration.bundle.profiles import Stage
from forecache.calibration.drive.engine_process import EngineProcess, engine_version, find_engine
from forecache.calibration.drive.resp import RespClient
from forecache.calibration.observe.measure import plan_cores
from forecache.calibration.observe.profilers.attribution import charge
from forecache.calibration.observe.profilers.callgrind import Counts
from forecache.calibration.observe.profilers.programs import version_of
from forecache.calibration.observe.profilers.session import Session
from forecache.hwprofiles.files import dump_yaml, parse, read_yaml
from forecache.hwprofiles.quantity import Quantity
from forecache.models.engines.commands import (
    ARGUMENT,
    COMMAND_WORK,
    LOG,
    LOG_WORD,
    CommandKind,
    work_terms,
)
from forecache.models.engines.profile import EngineProfile
from forecache.models.scenario.command_table import (
    COMMANDS,
    CommandRow,
    DataType,
    Encoding,
    Term,
    Word,
)
from forecache.models.scenario.versions import minor_version
from forecache.sim.errors import EngineError, InputError

from ..harness import EMBEDDED, Asked, Files, Progress, say
from .leaf import counted_leaf

FOLDER = Path("evidence/counts/command_counts")
ENGINES = Path("models/engines")

_COMMANDS = 200
"""Commands at a point, fewer where each of them has many items."""

_PIPELINE = 10
_STRINGS = 1000
_ITEM_BYTES, _DIGITS = 16, 7
_PREFIX = {"string": "key", "sorted_set": "z", "hash": "h", "list": "l", "set": "s", "stream": "x"}

RANGE = 1.1
"""Half width of the range of a count as a factor: the count is exact, how it depends on sizes, on
scores and on what else the engine is asked to do, is not."""

SIZES: dict[Encoding, tuple[int, ...]] = {
    "string": (0,),
    "listpack": (32, 8, 128),
    "intset": (64, 480),
    "table": (8_000, 1_000),
    "quicklist": (100, 16, 4_000),
    "stream": (50, 1_000),
}
"""Of collections in each encoding; numbers of items are varied at the first."""

_MOST_PACKED_MEMBERS = 118
"""Of a set that grows: beyond 128 members that are no numbers (`set-max-listpack-entries` of Redis
7.2 and later) it becomes a table, which costs twenty times what adding a member does."""

VALUE_SIZES = (16, 1024, 16_384)
"""Of values that a command looks through."""

_COPIED_ENTRIES = 8_000
"""Entries of all copies of a large collection, of which there are no more than that makes; of one
of up to 512 there is a copy for each command."""

_FIRST_MS = 1_700_000_000_000
"""Of the first entry's id in a stream; each further one is a millisecond later."""

_KILOMETRES_A_DEGREE = 111.2


@dataclass(frozen=True)
class Point:
    """One command as it is sent.

    `size` counts what the collection has, `value_bytes` those of a string's value; `integers` says
    that members are whole numbers.
    """

    command: str
    items: int = 1
    size: int = 0
    value_bytes: int = _ITEM_BYTES
    integers: bool = False

    @property
    def row(self) -> CommandRow:
        """What the table says."""
        return COMMANDS[self.command]

    @property
    def template(self) -> Template:
        """The key that it works on."""
        row = self.row
        return Template(
            row.type, self.size, self.value_bytes, self.integers, row.holds, row.expires
        )

    def words(
        self, random: np.random.Generator, copy: int | None = None, *, place: float | None = None
    ) -> list[str]:
        """One command with keys, members and scores drawn at random.

        Parameters
        ----------
        copy
            Number of the copy of the key; without it the key itself.
        place
            Where in the collection its members, or the range it asks for, lie: from 0 at the
            beginning to 1 at the end, instead of anywhere.
        """
        row, template = self.row, self.template
        drawn = random.integers(0, self.size or _STRINGS, self.items)
        scores = random.integers(0, self.size, self.items) if "score" in row.each else drawn
        first = int(random.integers(0, max(1, self.size - self.items + 1)))
        # Places on Earth are a grid, whose middle member lies at a border.
        if place is not None and self.size and row.holds != "places":
            named = self.items if row.each else 1
            drawn = ((np.arange(self.items) % named + place) / named * self.size).astype(int)
            first = int(place * max(1, self.size - self.items + 1))
        ranks, keys = iter((first, first + self.items - 1)), iter(range(2))
        entry = first // 2 if row.holds == "delivered" else first

        def said(word: Word, item: int) -> str:
            match word:
                case "key":
                    of_many = int(drawn[item]) if "key" in row.each else copy
                    return template.name(of_many, 0 if "key" in row.each else next(keys))
                case "member" | "field" | "element":
                    return template.item(int(drawn[item]))
                case "absent":
                    return template.item(int(random.integers(10**6, 10**7)))
                case "value":
                    return "v" * self.value_bytes
                case "index":
                    return str(next(ranks))
                case "last":
                    return str(self.items - 1)
                case "count":
                    return str(self.items)
                case "score":
                    return str(scores[item])
                case "number":
                    return "123456"
                case "offset":
                    return str(int(random.integers(0, 8 * self.value_bytes)))
                case "id":
                    return f"{_FIRST_MS + entry}-0"
                case "name":
                    return f"name:{int(random.integers(0, 10**9)):011d}"
                case "radius":
                    return f"{_radius_km(self.items, self.size):.3f}"
                case "unit":
                    return "km"
                case "coordinate":
                    return f"{random.random():.7f}"
                case _:
                    return word

        asked = [(word, 0) for word in row.words]
        if row.each:
            asked += [(word, item) for item in range(self.items) for word in row.each]
        # Before 4.0 an HSET takes one field.
        command = "hmset" if self.command == "hset" and self.items > 1 else self.command
        return [command, *(said(word, item) for word, item in asked)]


def _radius_km(items: int, size: int) -> float:
    """Within which so many of `size` places in a degree by a degree lie, on average."""
    return float(_KILOMETRES_A_DEGREE * np.sqrt(items / size / np.pi))


@dataclass(frozen=True)
class Template:
    """A key that commands work on, or copies of which they change."""

    type: DataType
    size: int
    value_bytes: int
    integers: bool
    holds: str
    expires: bool

    def name(self, copy: int | None = None, further: int = 0) -> str:
        """Name of the key, of a copy, or of a string by its number; 16 bytes long."""
        if copy is None:
            return f"{_PREFIX[self.type]}{self.size}:{self.holds[:3]}{self.integers:d}"
        return f"{_PREFIX[self.type]}:{copy + 100_000 * further:0{15 - len(_PREFIX[self.type])}d}"

    def item(self, number: int) -> str:
        """A member, a field's name or an element."""
        return str(10**6 + number) if self.integers else f"item:{number:011d}"

    def made_by(self) -> Iterator[list[str]]:
        """The commands that make it."""
        name, value = self.name(), "v" * self.value_bytes
        if self.type == "string" and self.holds == "hyperloglog":
            for first in range(0, 20_000, 500):
                yield ["PFADD", name, *(f"e{number}" for number in range(first, first + 500))]
            yield ["PFCOUNT", name]
        elif self.type == "string":
            yield ["SET", name, "100" if self.holds == "numbers" else value]
        for first in range(0, self.size, 500):
            numbers = range(first, min(self.size, first + 500))
            items = [self.item(n) for n in numbers]
            if self.type == "hash":
                held = "100" if self.holds == "numbers" else "w" * _ITEM_BYTES
                yield ["HMSET", name, *(word for item in items for word in (item, held))]
            elif self.type == "list":
                yield ["RPUSH", name, *items]
            elif self.type == "set":
                yield ["SADD", name, *items]
            elif self.type == "stream":
                for n in numbers:
                    yield ["XADD", name, f"{_FIRST_MS + n}-0", self.item(0), "w" * _ITEM_BYTES]
            elif self.holds == "places":
                side = max(2, round(np.sqrt(self.size)))
                places = [(f"{n % side / side:.7f}", f"{n // side / side:.7f}") for n in numbers]
                pairs = zip(places, items, strict=True)
                yield ["GEOADD", name, *(word for place, i in pairs for word in (*place, i))]
            elif self.type == "sorted_set":
                scored = zip(numbers, items, strict=True)
                yield ["ZADD", name, *(word for n, item in scored for word in (str(n), item))]
        if self.holds == "delivered":
            yield ["XGROUP", "CREATE", name, "G", "0"]
            half = str(self.size // 2)
            yield ["XREADGROUP", "GROUP", "G", "C", "COUNT", half, "STREAMS", name, ">"]


def points_of(command: str) -> list[Point]:
    """Where a command is counted: its encodings, sizes of data, and numbers of items."""
    row = COMMANDS[command]
    found = []
    work: dict[Encoding, tuple[Term, ...]] = row.work or {"string": ()}
    for encoding, terms in work.items():
        values = VALUE_SIZES if "byte" in terms else (_ITEM_BYTES,)
        integers = encoding == "intset"
        sizes = SIZES[encoding]
        if encoding == "listpack" and "absent" in row.each:
            sizes = tuple(min(size, _MOST_PACKED_MEMBERS) for size in sizes)
        for size in sizes:
            counts = [size] if row.items == "all" else [1]
            if size == sizes[0] and row.items not in ("one", "all"):
                counts = [n for n in (1, 4, 16) if n <= max(size, 16)]
            found += [Point(command, n, size, v, integers) for n in counts for v in values]
    return found


LOGGED_POINTS = [Point("set"), Point("mset", 16), Point("zadd", 1, 8_000), Point("hset", 1, 8_000)]
"""Writes that are counted again with an append-only file."""

_SETTINGS = (
    ("prefetch-batch-max-size", "0"),  # what fetching takes is work of its own
    ("dynamic-hz", "no"),
    # Or what was deleted before a point is freed by a thread of its own while that is counted.
    ("lazyfree-lazy-user-del", "no"),
    ("lazyfree-lazy-server-del", "no"),
)

_REWRITE_LIMIT_S = 120.0

_ANSWER_LIMIT_S = 300.0
"""A server in valgrind takes its time for thousands of members."""


def count(binary: Path, *, known: Collection[str] = (), progress: Progress = say) -> dict[str, Any]:
    """Instructions per command in parsing and in executing, for every point.

    Parameters
    ----------
    known
        Commands that need not be counted again, nor what logging takes if those of `LOGGED_POINTS`
        are among them.
    """
    name, version = engine_version(binary)
    rows = []
    with tempfile.TemporaryDirectory(prefix="forecache-valgrind-") as folder:
        out = Path(folder) / "counts"
        wrapper = [
            *("valgrind", "--quiet", "--tool=callgrind"),
            *(f"--callgrind-out-file={out}", f"--vgdb-prefix={folder}/vgdb"),
        ]
        plan = plan_cores(io_threads=1, generator_threads=1)
        config = {"hz": "1"}
        with (
            EngineProcess(binary, cores={plan.main}, config=config, wrapper=wrapper) as process,
            RespClient(process.control_address, timeout_s=_ANSWER_LIMIT_S) as control,
        ):
            for setting, value in _SETTINGS:
                with suppress(EngineError):  # not every version knows it
                    control.command("CONFIG", "SET", setting, value)
            counts = Counts(Session(process, control, plan), out)
            settings = control.command("CONFIG", "GET", "*-max-*list*")
            for command in COMMANDS:
                if command in known:
                    continue
                try:
                    # Of its own, since after an error replies to the rest of a pipeline follow.
                    with RespClient(process.control_address, timeout_s=_ANSWER_LIMIT_S) as client:
                        of_one = [_count_one(p, counts, client) for p in points_of(command)]
                except EngineError as error:
                    control.command("PING")  # a broken connection says nothing of the command
                    progress(f"{name} {version}: {command} is left out ({error})")
                    continue
                rows += of_one
                found = ", ".join(f"{row['execute']:.0f}" for row in of_one)
                progress(f"{name} {version}: {command} {found}")
            logged = {}
            if not {point.command for point in LOGGED_POINTS} <= {*known}:
                _log_commands(control)
                logged["logged"] = [_count_one(p, counts, control) for p in LOGGED_POINTS]
    return {
        "engine": name,
        "version": version,
        "build": build_of(binary),
        "date": datetime.now(UTC).date().isoformat(),
        "tool": version_of(["valgrind", "--version"]),
        "settings": settings,
        **logged,
        "points": rows,
    }


def build_of(binary: Path) -> str | None:
    """The id of an engine's build, as it says itself; builds of one version differ by a fifth."""
    found = re.search(r"build=(\w+)", version_of([str(binary), "--version"]))
    return found[1] if found else None


def _log_commands(control: RespClient) -> None:
    """Switch the append-only file on, and wait for its first rewrite."""
    control.command("CONFIG", "SET", "appendfsync", "no")
    control.command("CONFIG", "SET", "appendonly", "yes")
    ends = time.monotonic() + _REWRITE_LIMIT_S
    while "aof_rewrite_in_progress:1" in control.info("persistence") or (
        "aof_rewrite_scheduled:1" in control.info("persistence")
    ):
        if time.monotonic() > ends:
            raise EngineError("the first rewrite of the append-only file takes too long.")
        time.sleep(0.5)


RESTORE = """
local dump = redis.call('DUMP', KEYS[1])
for i = 2, #KEYS do
  redis.call('DEL', KEYS[i])
  redis.call('RESTORE', KEYS[i], ARGV[1], dump)
end
"""


class Ground:
    """The key that a point works on, and copies of it that are put where they were.

    Parameters
    ----------
    commands
        How many are sent, each of which has a copy to write to.
    """

    def __init__(self, point: Point, control: RespClient, *, commands: int) -> None:
        self._control, self._point = control, point
        template, row = point.template, point.row
        self._copies = commands if point.size <= 512 else max(1, _COPIED_ENTRIES // point.size)
        if template.type == "string":
            self._copies = _STRINGS
        elif not row.writes:
            self._copies = 0
        keys = 1 if row.each else row.words.count("key")
        self._names = [template.name(n, key) for key in range(keys) for n in range(self._copies)]
        name = template.name()
        control.command("DEL", name)
        for words in template.made_by():
            control.command(*words)
        if template.size:
            # What has grown piece by piece may be on its way to more buckets, and each look-up
            # would take it a step further; a copy has its size from the beginning.
            control.command("EVAL", RESTORE, 2, name, f"{name}:whole", 0)
            control.command("RENAME", f"{name}:whole", name)
        self.restore()

    def restore(self) -> None:
        """Put all copies where they were."""
        expires, name = 10**8 if self._point.row.expires else 0, self._point.template.name()
        for first in range(0, len(self._names), 100):
            names = self._names[first : first + 100]
            self._control.command("EVAL", RESTORE, len(names) + 1, name, *names, expires)

    def send(self, random: np.random.Generator, commands: int) -> None:
        """Send so many commands, each to the next copy."""
        for first in range(0, commands, _PIPELINE):
            copies = [
                n % self._copies if self._copies else None for n in range(first, first + _PIPELINE)
            ]
            self._control.pipeline([self._point.words(random, copy) for copy in copies])


def _count_one(point: Point, counts: Counts, control: RespClient) -> dict[str, Any]:
    """Instructions per command at a point."""
    random = np.random.default_rng(1)
    few = max(1, point.items // 4)
    commands = max(_PIPELINE, _COMMANDS // few // _PIPELINE * _PIPELINE)
    ground = Ground(point, control, commands=commands)
    ground.send(random, _PIPELINE)
    if point.row.writes:
        ground.restore()
    counts.skip()
    ground.send(random, commands)
    found, _ = charge(counts.dump(), counts.on.stages)

    def each(*stages: Stage) -> float:
        return round(sum(found.get(stage, {}).get("Ir", 0.0) for stage in stages) / commands, 1)

    return {
        "command": point.command,
        "items": point.items,
        "size": point.size,
        **({"value_bytes": point.value_bytes} if point.value_bytes != _ITEM_BYTES else {}),
        **({"integers": True} if point.integers else {}),
        "parse": each("parse"),
        "execute": each("lookup", "execute", "reply", "memory"),
    }


def leaves(counts: dict[str, Any], *, source: str) -> dict[str, Quantity]:
    """The work that counts of all points say, by the names of `COMMAND_WORK`.

    Each command in each encoding is a line through its points, by least squares of the relative
    error, with no coefficient below zero.
    """
    groups: dict[tuple[str, ...], list[tuple[list[float], float]]] = {}
    words: list[tuple[int, float]] = []
    for row in counts["points"]:
        kind = _kind_of(row)
        if kind.command in ("get", "mget"):
            words.append((kind.arguments, row["parse"]))
        if terms := work_terms(kind):
            counted = [float(times) for times in terms.values()]
            groups.setdefault(tuple(terms), []).append((counted, row["execute"]))
    arguments, parsing = np.array(words).T
    slope = np.polyfit(arguments, parsing, 1)[0]
    found = {ARGUMENT: _leaf(float(slope), 0.0, source, f"{len(words)} points")}
    for names, rows in groups.items():
        matrix = np.array([row[0] for row in rows])
        seen = np.array([row[1] for row in rows])
        fitted, _ = nnls(matrix / seen[:, None], np.ones(len(seen)))
        worst = float(np.max(np.abs(matrix @ fitted / seen - 1.0)))
        for name, value in zip(names, fitted, strict=True):
            how = f"{len(rows)} points, none further than {worst:.0%} from the line"
            found[name] = _leaf(float(value), worst, source, how)
    found |= _log_leaves(counts, source=source)
    return {name: found[name] for name in COMMAND_WORK if name in found}


def _log_leaves(counts: dict[str, Any], *, source: str) -> dict[str, Quantity]:
    """What the append-only file adds to a write, by its words."""
    plain = {(r["command"], r["items"], r["size"]): r for r in counts["points"]}
    terms, more = [], []
    for row in counts["logged"]:
        before = plain[row["command"], row["items"], row["size"]]
        terms.append([1.0, float(_kind_of(row).arguments)])
        more.append(row["execute"] + row["parse"] - before["execute"] - before["parse"])
    matrix, seen = np.array(terms), np.array(more)
    fitted, _ = nnls(matrix / seen[:, None], np.ones(len(seen)))
    worst = float(np.max(np.abs(matrix @ fitted / seen - 1.0)))
    how = f"{len(seen)} writes with and without a log, none further than {worst:.0%} from the line"
    names = zip((LOG, LOG_WORD), fitted, strict=True)
    return {name: _leaf(float(value), worst, source, how) for name, value in names}


def _kind_of(row: dict[str, Any]) -> CommandKind:
    integers = row.get("integers", False)
    without_values = COMMANDS[row["command"]].type in ("sorted_set", "set", "list")
    return CommandKind(
        row["command"],
        0 if without_values else row.get("value_bytes", _ITEM_BYTES),
        share=1.0,
        items=row["items"],
        size=row["size"],
        item_bytes=(_DIGITS if integers else _ITEM_BYTES) if row["size"] else 0,
        integers=integers,
    )


def _leaf(value: float, worst: float, source: str, how: str) -> Quantity:
    method = f"counted with callgrind, {how}"
    return counted_leaf(value, max(RANGE, 1.0 + worst), source=source, method=method)


SOURCE = "command-counts"


def counted() -> dict[str, Path]:
    """The counts by the id of the profile of the version that was counted; others reuse these."""
    found = {}
    for path in sorted(FOLDER.glob("*.json")):
        engine, _, version = path.stem.partition("-")
        profile_id = f"{engine}-{minor_version(version)}"
        if (ENGINES / f"{profile_id}.yaml").exists():
            found[profile_id] = path
    return found


def artefact(asked: Asked) -> Files:
    """Count the commands of the engines at hand, but for those that are counted."""
    files = {}
    for engine in asked.engines(("redis-server", "valkey-server", EMBEDDED)):
        binary = find_engine(engine)
        out = FOLDER / f"{'-'.join(engine_version(binary))}.json"
        before = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"points": []}
        build = build_of(binary)
        if before.get("build", build) != build:
            raise InputError(
                f"{out}: field 'build': found {before['build']!r}, and {binary} is {build!r}; "
                "valid is the same build, or no such file: then all commands are counted."
            )
        known = {row["command"] for row in before["points"]}
        found = count(binary, known=known, progress=asked.progress)
        points = sorted(
            [*before.pop("points"), *found.pop("points")],
            key=lambda row: [*COMMANDS].index(row["command"]),
        )
        rows = ",\n".join(f"  {json.dumps(row)}" for row in points)
        files[out] = f'{json.dumps(before | found)[:-1]}, "points": [\n{rows}\n]}}\n'
    return files


def profiles(_asked: Asked) -> Files:
    """The shipped engine profiles with the work of commands that was counted."""
    files = {}
    for profile_id, path_of_counts in counted().items():
        path = ENGINES / f"{profile_id}.yaml"
        counts = json.loads(path_of_counts.read_text(encoding="utf-8"))
        data = dict(read_yaml(path))
        source = {
            "title": f"forecache: instructions of commands on {path_of_counts.stem}, in valgrind",
            "file": path_of_counts.as_posix(),
            "accessed": counts["date"],
        }
        data["sources"] = {**data["sources"], SOURCE: source}
        found = leaves(counts, source=SOURCE)
        data["commands"] = {name: leaf.model_dump(mode="json") for name, leaf in found.items()}
        parse(EngineProfile, data, file=path)
        files[path] = dump_yaml(data)
    return files
