"""Instructions of commands beyond GET and SET, counted by running the engine in valgrind.

Every command of the table is counted, at points that follow from its row (`points_of`); one that an
engine doesn't know is left out. What the counts make of an engine profile is in
`fit/command_work.py`.

No state drifts: a command that writes works on copies of one key, which RESTORE puts there before
anything is counted, each of them written to once; large collections, of which there are few copies,
change by a few per cent. So RPOP finds a list of as many elements as
LRANGE does, SADD adds a member that isn't there, and PERSIST finds a time to live.

Counts are exact: the stages that are counted have nothing but these commands. What remains
uncertain is how they depend on numbers of keys, members and fields, for which up to three numbers
per command stand; see `COMMAND_WORK` of `models/engines/commands.py`. A skip list's depth makes no
difference worth a number.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from forecache.models.engines.commands import CALLING
from forecache.models.scenario.command_table import (
    COMMANDS,
    CommandRow,
    DataType,
    Encoding,
    Term,
    Word,
)
from forecache.models.scenario.workload import Calling
from forecache.sim.errors import EngineError, InputError

from ..bundle.profiles import ITEM_BYTES, CommandCounts, CountedCalls, CountedPoint, Stage
from ..drive.connection import RESP, Address, RespClient
from ..drive.servers import EngineProcess, engine_version, server_kind
from .measure import plan_cores
from .profilers.attribution import charge
from .profilers.callgrind import Counts
from .profilers.programs import version_of
from .profilers.session import Session

_COMMANDS = 200
"""Commands at a point, fewer where each of them has many items."""

_PIPELINE = 10
_STRINGS = 1000
_PREFIX = {"string": "key", "sorted_set": "z", "hash": "h", "list": "l", "set": "s", "stream": "x"}

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
class SentCommand:
    """One command as it is sent.

    `size` counts what the collection has, `value_bytes` those of a string's value; `integers` says
    that members are whole numbers.
    """

    command: str
    items: int = 1
    size: int = 0
    value_bytes: int = ITEM_BYTES
    integers: bool = False

    @property
    def row(self) -> CommandRow:
        """What the table says."""
        return COMMANDS[self.command]

    @property
    def template(self) -> CountedKey:
        """The key that it works on."""
        row = self.row
        return CountedKey(
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
                    # Within which so many of `size` places in a degree by a degree lie on average.
                    share = self.items / self.size
                    return f"{_KILOMETRES_A_DEGREE * np.sqrt(share / np.pi):.3f}"
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


@dataclass(frozen=True)
class CountedKey:
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
                held = "100" if self.holds == "numbers" else "w" * ITEM_BYTES
                yield ["HMSET", name, *(word for item in items for word in (item, held))]
            elif self.type == "list":
                yield ["RPUSH", name, *items]
            elif self.type == "set":
                yield ["SADD", name, *items]
            elif self.type == "stream":
                for n in numbers:
                    yield ["XADD", name, f"{_FIRST_MS + n}-0", self.item(0), "w" * ITEM_BYTES]
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


def points_of(command: str) -> list[SentCommand]:
    """Where a command is counted: its encodings, sizes of data, and numbers of items."""
    row = COMMANDS[command]
    found = []
    work: dict[Encoding, tuple[Term, ...]] = row.work or {"string": ()}
    for encoding, terms in work.items():
        values = VALUE_SIZES if "byte" in terms else (ITEM_BYTES,)
        integers = encoding == "intset"
        sizes = SIZES[encoding]
        if encoding == "listpack" and "absent" in row.each:
            sizes = tuple(min(size, _MOST_PACKED_MEMBERS) for size in sizes)
        for size in sizes:
            counts = [size] if row.items == "all" else [1]
            if size == sizes[0] and row.items not in ("one", "all"):
                counts = [n for n in (1, 4, 16) if n <= max(size, 16)]
            found += [SentCommand(command, n, size, v, integers) for n in counts for v in values]
    return found


CALLS = (1, 4, 16)
"""GETs in a transaction or a script, where calling them is counted."""

_SCRIPT = "for i = 1, #KEYS do redis.call('GET', KEYS[i]) end return 1"

LOGGED_POINTS = [
    SentCommand("set"),
    SentCommand("mset", 16),
    SentCommand("zadd", 1, 8_000),
    SentCommand("hset", 1, 8_000),
]
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


class ServerInValgrind(NamedTuple):
    """A server whose instructions are counted, with a connection to it."""

    counts: Counts
    control: RespClient
    address: Address

    def client(self) -> RespClient:
        """Another connection."""
        return RespClient(self.address, timeout_s=_ANSWER_LIMIT_S)


@contextmanager
def in_valgrind(binary: Path, *options: str) -> Iterator[ServerInValgrind]:
    """A server run by callgrind with these options, on one core, with few timers."""
    with tempfile.TemporaryDirectory(prefix="forecache-valgrind-") as folder:
        out = Path(folder) / "counts"
        wrapper = [
            *("valgrind", "--quiet", "--tool=callgrind", *options),
            *(f"--callgrind-out-file={out}", f"--vgdb-prefix={folder}/vgdb"),
        ]
        plan, config = plan_cores(io_threads=1, generator_threads=1), {"hz": "1"}
        with (
            EngineProcess(binary, cores={plan.main}, config=config, wrapper=wrapper) as process,
            RespClient(process.control_address, timeout_s=_ANSWER_LIMIT_S) as control,
        ):
            counts = Counts(Session(process, control, plan), out)
            yield ServerInValgrind(counts, control, process.control_address)


def count_commands(
    binary: Path, *, known: CommandCounts | None = None, progress: Callable[[str], None]
) -> CommandCounts:
    """Instructions per command in parsing and in executing, for every point.

    Parameters
    ----------
    known
        Earlier counts of the same build, of which nothing is counted again.

    Raises
    ------
    InputError
        They are of another build.
    EngineError
        The engine doesn't start, stops answering, or valgrind isn't there.
    """
    name, version = engine_version(binary)
    build = build_of(binary)
    if known is not None and known.build not in (None, build):
        raise InputError(
            f"counts of {name} {version}: field 'build': found {known.build!r}, and {binary} is "
            f"{build!r}; valid is the same build, or no such file: then all commands are counted."
        )
    before = [] if known is None else known.points
    points, calling = list(before), [] if known is None else list(known.calling)
    logged = [] if known is None else list(known.logged)
    with in_valgrind(binary) as server:
        counts, control = server.counts, server.control
        for setting, value in _SETTINGS:
            with suppress(EngineError):  # not every version knows it
                control.command("CONFIG", "SET", setting, value)
        settings = control.command("CONFIG", "GET", "*-max-*list*")
        for command in COMMANDS:
            if any(point.command == command for point in before):
                continue
            try:
                # Of its own, since after an error replies to the rest of a pipeline follow.
                with server.client() as client:
                    of_one = [_count_one(p, counts, client) for p in points_of(command)]
            except EngineError as error:
                control.command("PING")  # a broken connection says nothing of the command
                progress(f"{name} {version}: {command} is left out ({error})")
                continue
            points += of_one
            found = ", ".join(f"{point.execute:.0f}" for point in of_one)
            progress(f"{name} {version}: {command} {found}")
        calling = calling or [
            _count_calling(how, calls, counts, control) for how in CALLING for calls in CALLS
        ]
        if not logged:
            _log_commands(control)
            logged = [_count_one(p, counts, control) for p in LOGGED_POINTS]
    return CommandCounts(
        engine=name,
        version=version,
        build=build if known is None else known.build,
        date=datetime.now(UTC).date().isoformat(),
        tool=version_of(["valgrind", "--version"]),
        settings=[str(each) for each in settings] if isinstance(settings, list) else [],
        calling=tuple(calling),
        logged=tuple(logged),
        points=sorted(points, key=lambda point: [*COMMANDS].index(point.command)),
    )


def check_counting(binary: Path) -> None:
    """Refuse to count the commands of an engine that speaks no RESP, or without valgrind."""
    if server_kind(binary).protocol is not RESP:
        raise InputError(f"commands: found {binary.name}; valid is a server of Redis or Valkey.")
    if shutil.which("valgrind") is None:
        raise InputError("commands: needs valgrind on PATH, in which they are counted.")


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

    def __init__(self, point: SentCommand, control: RespClient, *, commands: int) -> None:
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


def _count_one(point: SentCommand, counts: Counts, control: RespClient) -> CountedPoint:
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
    parse, execute = _each(counts, commands)
    return CountedPoint(
        command=point.command,
        items=point.items,
        size=point.size,
        value_bytes=point.value_bytes,
        integers=point.integers,
        parse=parse,
        execute=execute,
    )


def _each(counts: Counts, commands: int) -> tuple[float, float]:
    """Instructions of parsing and of executing each of so many sent since the last look."""
    found, _ = charge(counts.dump(), counts.on.stages)

    def each(*stages: Stage) -> float:
        return round(sum(found.get(stage, {}).get("Ir", 0.0) for stage in stages) / commands, 1)

    return each("parse"), each("lookup", "execute", "reply", "memory")


def _count_calling(how: Calling, calls: int, counts: Counts, control: RespClient) -> CountedCalls:
    """Instructions of a transaction or a script that calls so many GETs."""
    random = np.random.default_rng(1)
    point = SentCommand("get")
    Ground(point, control, commands=_PIPELINE)
    sha1 = str(control.command("SCRIPT", "LOAD", _SCRIPT))

    def send(times: int) -> None:
        for _ in range(times):
            copies = random.integers(0, _STRINGS, calls)
            gets = [point.words(random, int(copy)) for copy in copies]
            sent = [["MULTI"], *gets, ["EXEC"]]
            if how == "script":
                sent = [["EVALSHA", sha1, str(calls), *(key for _, key in gets)]]
            control.pipeline(sent * _PIPELINE)

    batches = _COMMANDS // _PIPELINE // calls + 1
    send(1)
    counts.skip()
    send(batches)
    parse, execute = _each(counts, batches * _PIPELINE)
    return CountedCalls(how=how, calls=calls, parse=parse, execute=execute)
