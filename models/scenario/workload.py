"""What the clients of a scenario ask for, how much of it, and when."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, Discriminator, Field, Tag, model_validator

from forecache.hwprofiles.files import FieldError, read_text
from forecache.hwprofiles.record import Record as _Record
from forecache.sim.errors import InputError

from .command_table import (
    COMMANDS,
    DESCRIBED_BY,
    CommandRow,
    DataType,
    commands_on,
    optional,
    record_by_command,
    with_items,
)

MOST_OUTSTANDING = 2_000_000
"""Requests that all clients may have on the way: a run keeps some 50 bytes for each."""

RATES = ("rate_rps", "rate_profile", "bursts", "trace")
"""What may say when requests of an open loop arrive."""

_FREE = "pipeline 1 and no think_us with arrival open_loop"

CONSTANT_RATE: dict[str, None] = dict.fromkeys(("rate_profile", "bursts", "trace"))
"""Changes to a workload that leave `rate_rps` to say it."""


class UniformSizes(_Record):
    """Value sizes drawn evenly between two bounds, both included."""

    distribution: Literal["uniform"]
    """Which kind of sizes."""
    low: int = Field(ge=0, le=512 * 2**20)
    """Smallest size, in bytes."""
    high: int = Field(ge=0, le=512 * 2**20)
    """Largest size, in bytes; not below `low`."""

    @model_validator(mode="after")
    def _ordered(self) -> UniformSizes:
        if self.low > self.high:
            raise ValueError(f"low not above high (found {self.low} and {self.high})")
        return self


class WeightedSizes(_Record):
    """Value sizes with weights: `{values: [64, 4096], weights: [0.9, 0.1]}`."""

    distribution: Literal["weighted"] = "weighted"
    """Which kind of sizes."""
    values: list[Annotated[int, Field(ge=0, le=512 * 2**20)]] = Field(min_length=1, max_length=32)
    """Sizes in bytes."""
    weights: list[Annotated[float, Field(gt=0, le=1e9)]] = Field(min_length=1)
    """How often each comes, in any unit; as many as `values`."""

    @model_validator(mode="after")
    def _paired(self) -> WeightedSizes:
        if len(self.values) != len(self.weights):
            raise ValueError(f"as many weights as values ({len(self.values)})")
        return self


class Zipf(_Record):
    """Popularity of rank r proportional to r ** -exponent."""

    zipf: float = Field(gt=0, le=3)
    """The exponent."""


class HotSet(_Record):
    """A share of the keys that gets a share of the requests."""

    keys: float = Field(gt=0, lt=1)
    """Share of the keys that is hot."""
    requests: float = Field(gt=0, lt=1)
    """Share of the requests that goes to it."""


class HotSetPopularity(_Record):
    """`{hot_set: {keys: 0.1, requests: 0.9}}`."""

    hot_set: HotSet
    """Which share of the keys gets which share of the requests."""


def _sizes_kind(value: object) -> str:
    """Which kind of sizes a user means, so that a mistake is told about that kind only."""
    if isinstance(value, UniformSizes):
        return "uniform_sizes"
    if isinstance(value, WeightedSizes):
        return "weighted_sizes"
    if not isinstance(value, Mapping):
        return "one_size"
    return f"{value.get('distribution', 'weighted')}_sizes"


def _popularity_kind(value: object) -> str | None:
    if isinstance(value, Zipf) or (isinstance(value, Mapping) and "zipf" in value):
        return "zipf_law"
    if isinstance(value, HotSetPopularity) or (isinstance(value, Mapping) and "hot_set" in value):
        return "hot_keys"
    return "word" if value == "uniform" else None


ValueSizes = Annotated[
    Annotated[int, Field(ge=0, le=512 * 2**20), Tag("one_size")]
    | Annotated[UniformSizes, Tag("uniform_sizes")]
    | Annotated[WeightedSizes, Tag("weighted_sizes")],
    Discriminator(
        _sizes_kind,
        custom_error_type="sizes",
        custom_error_message="A size in bytes, or a mapping with distribution uniform or weighted",
    ),
]

Popularity = Annotated[
    Annotated[Literal["uniform"], Tag("word")]
    | Annotated[Zipf, Tag("zipf_law")]
    | Annotated[HotSetPopularity, Tag("hot_keys")],
    Discriminator(
        _popularity_kind,
        custom_error_type="popularity",
        custom_error_message="'uniform', {zipf: 0.99}, or {hot_set: {keys: 0.1, requests: 0.9}}",
    ),
]


class Asked(_Record):
    """How often a command comes; a bare number stands for its share."""

    share: float = Field(gt=0, le=1)
    """Share of this command among all."""

    @model_validator(mode="before")
    @classmethod
    def _share(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError("a share, such as 0.8 or 80%, or a mapping with share")
        return {"share": value} if isinstance(value, int | float) else value

    @property
    def items(self) -> int:
        """Keys, members, fields, elements or entries of the command."""
        more = type(self).model_fields.keys() - Asked.model_fields.keys()
        return next((getattr(self, name) for name in more & _ITEMS), 1)


_ITEMS = {"keys", "members", "fields", "elements", "entries"}

AskedKeys = with_items(Asked, "keys")
AskedMembers = with_items(Asked, "members")
AskedFields = with_items(Asked, "fields")
AskedElements = with_items(Asked, "elements")
AskedEntries = with_items(Asked, "entries")


Calling = Literal["transaction", "script"]
"""What calls several commands: MULTI and EXEC around them, or an EVALSHA."""

Calls = dict[str, Annotated[int, Field(ge=1, le=10_000)]]
"""Commands, and how often each is called."""


class AskedOther(Asked):
    """Any other command, described by its cost; or a transaction or a script, by its commands."""

    name: str = Field(max_length=64)
    """What it is called, in lower case: letters, digits, `_`, `.`, `|` and `-`."""
    execution_us: float | None = Field(default=None, gt=0, le=1e6)
    """CPU time of executing it; this, `transaction` or `script`. `usec_per_call` of INFO
    commandstats includes the look-up of its key: with that number say `keys: 0`, since with one key
    the look-up is added."""
    transaction: Calls | None = Field(default=None, min_length=1)
    """Commands between MULTI and EXEC, all sent at once: `{get: 1, incr: 2}`."""
    script: Calls | None = Field(default=None, min_length=1)
    """Commands that a script calls, which EVALSHA names with their keys and arguments."""
    request_bytes: int | None = Field(default=None, ge=1, le=64 * 2**20)
    """Bytes of its request on the wire; without it those of a transaction or a script follow from
    its commands."""
    reply_bytes: int | None = Field(default=None, ge=1, le=64 * 2**20)
    """Bytes of its reply on the wire; without it a transaction replies with all that its commands
    reply, and a script with an integer."""
    writes: bool | None = None
    """Whether it goes to the append-only file and to replicas; of a transaction or a script the
    commands that write do."""
    keys: int | None = Field(default=None, ge=0, le=1)
    """Keys of strings that it looks up, 1 if nothing is said; those of a transaction or a script
    follow from its commands."""

    def __hash__(self) -> int:
        """Of what is not a mapping."""
        return hash((self.name, self.share))

    @property
    def items(self) -> int:
        """One."""
        return 1

    @property
    def calling(self) -> Calling | None:
        """Whether it is a transaction or a script; None if it is given by its cost."""
        if self.transaction is not None:
            return "transaction"
        return None if self.script is None else "script"

    @property
    def calls(self) -> Mapping[str, int]:
        """The commands of a transaction or a script."""
        return self.transaction or self.script or {}

    @model_validator(mode="after")
    def _named(self) -> AskedOther:
        if not re.fullmatch(r"[a-z][a-z0-9_.|-]*", self.name):
            valid = "lower-case letters, digits, _ . | and -, beginning with a letter"
            raise FieldError("name", found=self.name, valid=valid)
        return self

    @model_validator(mode="after")
    def _whole(self) -> AskedOther:
        ways = ("execution_us", "transaction", "script")
        given = [name for name in ways if getattr(self, name) is not None]
        if len(given) != 1:
            name = given[-1] if given else ways[0]
            valid = "one of execution_us, transaction and script"
            raise FieldError(name, found=getattr(self, name), valid=valid)
        for name in ("request_bytes", "reply_bytes"):
            if not self.calls and getattr(self, name) is None:
                valid = "its bytes on the wire, which execution_us does not tell"
                raise FieldError(name, found=None, valid=valid)
        for name in ("writes", "keys"):
            if self.calls and (value := getattr(self, name)) is not None:
                raise FieldError(name, found=value, valid=f"no such field with {given[0]}")
        for command in self.calls:
            if command not in COMMANDS:
                valid = "commands of the table, such as get, set or incr"
                raise FieldError(given[0], found=command, valid=valid)
        return self


def _share_of(name: str, row: CommandRow) -> tuple[Any, Any]:
    """The field of a mix about a command."""
    words = name.upper()
    if not row.work:
        return float, Field(default=0.0, ge=0, le=1, description=f"Share of {words}.")
    meaning = {
        "one": "its share",
        "all": "its share",
        "keys": "its share and how many keys it has, `{share: 0.1, keys: 10}`",
    }.get(row.items, f"a bare share, or `{{share: 0.1, {row.items}: 2}}`")
    return optional(Asked, row, f"{words}: {meaning}")


class Mix(record_by_command(_share_of)):  # type: ignore[misc]
    """Shares of the commands; they add up to one."""

    other: list[AskedOther] | None = Field(default=None, min_length=1, max_length=100)
    """Any other commands, transactions and scripts: `[{name: search, share: 0.02, execution_us: 85,
    request_bytes: 60, reply_bytes: 900}, {name: checkout, share: 0.1, transaction: {get: 1, incr:
    2}}, {name: limit, share: 0.1, script: {incr: 1, expire: 1}}]`."""

    @model_validator(mode="after")
    def _complete(self) -> Mix:
        names = [*COMMANDS, *(each.name for each in self.other or ())]
        for number, each in enumerate(self.other or ()):
            if names.count(each.name) > 1:
                valid = "a name that no other command of the mix or of the table has"
                raise FieldError(f"other[{number}].name", found=each.name, valid=valid)
        total = sum(asked.share for asked in self.commands.values())
        if abs(total - 1.0) > 1e-6:
            raise ValueError(f"shares that add up to 1 (found {total:g})")
        return self

    @property
    def commands(self) -> dict[str, Asked]:
        """Every command that comes at all."""
        shares = {name: getattr(self, name) for name in COMMANDS}
        return {
            name: Asked(share=share) if isinstance(share, float | int) else share
            for name, share in shares.items()
            if share
        } | {each.name: each for each in self.other or ()}


class Collection(_Record):
    """Keys that hold collections of one type, all alike."""

    items: ClassVar[str]
    """What each has, and the field that says how many."""

    keys: int = Field(default=100_000, ge=1, le=10**10)
    """How many there are."""

    @property
    def size(self) -> int:
        """Members, fields, elements or entries of each."""
        return int(getattr(self, self.items))

    @property
    def item_bytes(self) -> int:
        """Bytes of a member, an element or a field's name."""
        names = (f"{name}_bytes" for name in ("member", "element", "field"))
        return next(getattr(self, name) for name in names if name in type(self).model_fields)

    @property
    def field_value_bytes(self) -> int:
        """Bytes of a field's value, if there is one."""
        return int(getattr(self, "value_bytes", 0))


class WorkloadSortedSets(Collection):
    """The sorted sets that ZADD, ZRANGE and others work on, all alike."""

    items = "members"
    members: int = Field(default=100, ge=1, le=10**9)
    """Members of each."""
    member_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of a member."""


class WorkloadHashes(Collection):
    """The hashes that HSET, HGET and others work on, all alike."""

    items = "fields"
    fields: int = Field(default=10, ge=1, le=10**9)
    """Fields of each."""
    field_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of a field's name."""
    value_bytes: int = Field(default=16, ge=0, le=64 * 1024)
    """Bytes of a field's value."""


class WorkloadLists(Collection):
    """The lists that LPUSH, LRANGE and others work on, all alike."""

    items = "elements"
    elements: int = Field(default=100, ge=1, le=10**9)
    """Elements of each."""
    element_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of an element."""


class WorkloadSets(Collection):
    """The sets that SADD, SISMEMBER and others work on, all alike."""

    items = "members"
    members: int = Field(default=100, ge=1, le=10**9)
    """Members of each."""
    member_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of a member; of a whole number, its digits."""
    integers: bool = False
    """Whether the members are whole numbers, of which small sets keep an array."""


class WorkloadStreams(Collection):
    """The streams that XADD, XRANGE and others work on, all alike; an entry has one field."""

    items = "entries"
    entries: int = Field(default=1000, ge=1, le=10**9)
    """Entries of each."""
    field_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of a field's name."""
    value_bytes: int = Field(default=16, ge=0, le=64 * 1024)
    """Bytes of a field's value."""


class Collections(_Record):
    """What collections are like, where commands work on them."""

    sorted_sets: WorkloadSortedSets | None = None
    """What ZADD, ZRANGE and others work on, where commands on sorted sets are asked for: 100,000 of
    100 members unless something else is said."""
    hashes: WorkloadHashes | None = None
    """What HSET, HGET and others work on, likewise: 100,000 of 10 fields."""
    lists: WorkloadLists | None = None
    """What LPUSH, LRANGE and others work on, likewise: 100,000 of 100 elements."""
    sets: WorkloadSets | None = None
    """What SADD, SMEMBERS and others work on, likewise: 100,000 of 100 members."""
    streams: WorkloadStreams | None = None
    """What XADD, XRANGE and others work on, likewise: 100,000 of 1,000 entries."""


WORKLOADS: dict[DataType, type[Collection]] = {
    "sorted_set": WorkloadSortedSets,
    "hash": WorkloadHashes,
    "list": WorkloadLists,
    "set": WorkloadSets,
    "stream": WorkloadStreams,
}
"""What is said of the collections of a type."""


class SlowCommand(_Record):
    """A command now and then that keeps the main thread busy, such as KEYS or a long script."""

    duration_ms: float = Field(gt=0, le=60_000)
    """How long it keeps the main thread busy."""
    every_s: float | None = Field(default=None, gt=0, le=86_400)
    """Mean time from one to the next; this or `share`."""
    share: float | None = Field(default=None, gt=0, le=0.5)
    """Share of all requests that are such commands; this or `every_s`."""

    @model_validator(mode="after")
    def _one(self) -> SlowCommand:
        if (self.every_s is None) == (self.share is None):
            raise ValueError("one of every_s and share")
        if self.every_s is not None and self.duration_ms >= 900.0 * self.every_s:
            raise ValueError(
                f"a duration of less than nine tenths of every_s (found {self.duration_ms:g} ms "
                f"every {self.every_s:g} s)"
            )
        return self


# --- open loops whose rate changes: in given pieces, in bursts, or as a file recorded it ----------

_PS_PER_S = 10**12

MOST_TRACED = 1_000_000
"""Rows of a trace."""

LONGEST_TRACE_S = 86_400.0

_BURSTS = 40
"""Bursts of a window, if it may be that long."""


class RatePiece(_Record):
    """A rate of requests that holds for a time."""

    duration_s: float = Field(ge=1e-6, le=86_400)
    """How long this rate lasts."""
    rate_rps: float = Field(ge=0, le=1e8)
    """Requests a second meanwhile."""


class Bursts(_Record):
    """Two rates that take turns at random: a Markov-modulated Poisson process of two states.

    `calm_s` and `burst_s` are how long each state lasts on average.
    """

    calm_rps: float = Field(ge=0, le=1e8)
    """Requests a second between bursts."""
    burst_rps: float = Field(gt=0, le=1e8)
    """Requests a second within one."""
    calm_s: float = Field(ge=1e-6, le=86_400)
    """Mean time between bursts."""
    burst_s: float = Field(ge=1e-6, le=86_400)
    """Mean length of a burst."""

    @property
    def mean_rate_rps(self) -> float:
        """Over all time."""
        requests = self.calm_rps * self.calm_s + self.burst_rps * self.burst_s
        return requests / (self.calm_s + self.burst_s)


@dataclass(frozen=True)
class ArrivalTrace:
    """Requests of a file: when each falls due, from the first one on, and its command.

    Attributes
    ----------
    period_ps
        Time after which it begins again: one mean gap behind the last request.
    """

    due_ps: np.ndarray
    commands: tuple[str, ...]
    period_ps: int

    @property
    def mean_rate_rps(self) -> float:
        """Over a period."""
        return len(self.due_ps) / self.period_ps * _PS_PER_S


def read_trace(file: str) -> ArrivalTrace:
    """Read a CSV file of times in seconds, in order, and commands.

    Raises
    ------
    InputError
        The file or one of its lines is no such thing; names the line.
    """
    path = Path(file)
    changed_ns = path.stat().st_mtime_ns if path.is_file() else 0
    return _read_trace(file, changed_ns)


@lru_cache(maxsize=8)
def _read_trace(file: str, changed_ns: int) -> ArrivalTrace:
    del changed_ns  # part of the cache's key
    times_s: list[float] = []
    commands: list[str] = []
    for number, line in enumerate(read_text(Path(file)).splitlines(), start=1):
        words = [word.strip() for word in line.split(",")]
        if not line.strip() or (number == 1 and words == ["time_s", "command"]):
            continue
        where = f"{file}, line {number}"
        if len(words) != 2 or not words[1].isalpha():
            raise InputError(f"{where}: found {line!r}; valid is `seconds,command`.")
        time_s = _seconds(words[0], where)
        if times_s and time_s < times_s[-1]:
            raise InputError(
                f"{where}: found time {time_s:g} after {times_s[-1]:g}; valid are times in order."
            )
        times_s.append(time_s)
        commands.append(words[1].lower())
        if len(times_s) > MOST_TRACED:
            raise InputError(f"{where}: found more than {MOST_TRACED} requests; valid are those.")
    if len(times_s) < 2 or times_s[-1] == times_s[0]:
        raise InputError(
            f"{file}: found {len(times_s)} requests at one time; valid are two at different times "
            "at least."
        )
    if times_s[-1] - times_s[0] > LONGEST_TRACE_S:
        raise InputError(f"{file}: found more than {LONGEST_TRACE_S:g} s; valid is a day at most.")
    due_ps = np.rint((np.array(times_s) - times_s[0]) * _PS_PER_S).astype(np.int64)
    gap_ps = max(1, round(int(due_ps[-1]) / (len(due_ps) - 1)))
    return ArrivalTrace(due_ps, tuple(commands), int(due_ps[-1]) + gap_ps)


def _seconds(word: str, where: str) -> float:
    try:
        time_s = float(word)
    except ValueError:
        time_s = math.nan
    if not 0.0 <= time_s < math.inf:
        raise InputError(f"{where}: found time {word!r}; valid are seconds from 0 on.")
    return time_s


@dataclass(frozen=True)
class Arrivals:
    """How requests of an open loop arrive, if not at a constant rate: at most one of the three."""

    profile: Sequence[RatePiece] | None = None
    bursts: Bursts | None = None
    trace: ArrivalTrace | None = None

    @property
    def mean_rate_rps(self) -> float | None:
        """Over all time; None if there is nothing."""
        if self.profile is not None:
            total_s = sum(piece.duration_s for piece in self.profile)
            return sum(piece.duration_s * piece.rate_rps for piece in self.profile) / total_s
        if self.bursts is not None:
            return self.bursts.mean_rate_rps
        return None if self.trace is None else self.trace.mean_rate_rps

    @property
    def cycle_ps(self) -> int:
        """Time after which it begins again, in bursts on average; 0: no need to look."""
        if self.profile is not None:
            return sum(round(piece.duration_s * _PS_PER_S) for piece in self.profile)
        if self.bursts is not None:
            return round((self.bursts.calm_s + self.bursts.burst_s) * _PS_PER_S)
        return 0 if self.trace is None else self.trace.period_ps

    def measured_ps(self, wanted_ps: int, *, most_ps: int) -> int:
        """Length of a window that holds whole cycles and, of random bursts, several."""
        if self.cycle_ps == 0:
            return wanted_ps
        cycles = math.ceil(wanted_ps / self.cycle_ps)
        if self.bursts is not None:
            cycles = max(cycles, min(_BURSTS, most_ps // self.cycle_ps))
        return max(1, cycles) * self.cycle_ps

    def tables(self, generators: int, codes: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Fields of `NodeTimes`.

        Parameters
        ----------
        generators
            Threads that share the requests.
        codes
            Of each command: its codes as often as they come, for the traced requests in turn.
        """
        pieces: list[tuple[float, float]] = []
        if self.profile is not None:
            pieces = [(piece.duration_s, piece.rate_rps) for piece in self.profile]
        elif self.bursts is not None:
            b = self.bursts
            pieces = [(b.calm_s, b.calm_rps), (b.burst_s, b.burst_rps)]
        tables: dict[str, list[int]] = {
            "piece_ps": [round(lasts_s * _PS_PER_S) for lasts_s, _ in pieces],
            "piece_gap_ps": [
                max(1, round(generators * _PS_PER_S / rate)) if rate > 0 else 0
                for _, rate in pieces
            ],
            "trace_due_ps": [],
            "trace_code": [],
        }
        found = {name: np.array(values, np.int64) for name, values in tables.items()}
        if self.trace is not None:
            found["trace_due_ps"] = self.trace.due_ps
            found["trace_code"] = np.array(
                [codes[c][row % len(codes[c])] for row, c in enumerate(self.trace.commands)],
                np.int64,
            )
        return found


# --- all of it -----------------------------------------------------------------------------------


class Workload(Collections):
    """What the clients ask for, and when.

    `arrival` is `closed_loop` (each client waits for the replies to its batch, then thinks for
    `think_us`) or `open_loop` (requests arrive as a Poisson process of `rate_rps` over all
    clients, whatever the server does; latency counts from the intended time).
    """

    arrival: Literal["closed_loop", "open_loop"] = "closed_loop"
    """Whether clients wait for replies before they ask again; open_loop where a rate is given."""
    clients: int = Field(default=50, ge=1, le=100_000)
    """Connections of the load."""
    pipeline: int = Field(default=1, ge=1, le=1024)
    """Commands that a client sends at once; 1 in an open loop."""
    think_us: float = Field(default=0.0, ge=0, le=1e7)
    """Closed loop: pause of a client between its replies and its next batch."""
    rate_rps: float | None = Field(default=None, gt=0, le=1e8)
    """Open loop: requests a second of all clients together."""
    rate_profile: list[RatePiece] | None = Field(default=None, min_length=1, max_length=1000)
    """Open loop: rates in turn, over and over."""
    bursts: Bursts | None = None
    """Open loop: two rates that take turns at random."""
    trace: str | None = None
    """Open loop: a CSV file of times in seconds and commands, replayed over and over."""
    command: Literal["get", "set"] | None = None
    """The only command; this or `mix`."""
    mix: Mix | None = None
    """Shares of commands; without it and `command` 80% GET and 20% SET."""
    keys: int = Field(default=1_000_000, ge=1, le=10**11)
    """Keys of the database that GET, SET, MGET and MSET work on."""
    key_bytes: int | float = Field(default=16, ge=1, le=64 * 1024)
    """Bytes of a key; their mean where keys differ, such as 6.9 of decimal numbers to ten
    million."""
    value_bytes: ValueSizes = 512
    """Bytes of a value, or a distribution of them."""
    popularity: Popularity = "uniform"
    """How requests spread over keys: `uniform`, `{zipf: 0.99}`, or `{hot_set: {keys: 0.1, requests:
    0.9}}`."""
    slow_command: SlowCommand | None = None
    """A command that occupies the main thread now and then."""
    key_pattern: Literal["random", "sequential", "own_ranges", "one_sequence"] = "random"
    """`sequential`: keys are visited in the order in which they were written; `own_ranges`: each
    connection walks a range of keys of its own in that order (memtier_benchmark's P:P);
    `one_sequence`: all connections walk the keys together, each takes the next one
    (valkey-benchmark's --sequential)."""
    operations_before_get_phase: str | None = None
    """A remark on how the database was filled; the model doesn't use it."""

    @model_validator(mode="before")
    @classmethod
    def _with_a_rate(cls, value: object) -> object:
        """A rate without `arrival` is that of an open loop, since a closed one has none."""
        if isinstance(value, Mapping) and "arrival" not in value and any(map(value.get, RATES)):
            return {**value, "arrival": "open_loop"}
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Workload:
        if self.command is not None and self.mix is not None:
            raise FieldError("command", found=self.command, valid="command or mix, not both")
        self._check_rate()
        for data_type, field in DESCRIBED_BY.items():
            described = getattr(self, field)
            if described is not None and data_type not in self.collections:
                first, *_, last = commands_on(data_type)
                valid = f"{field} only with a command on them in mix, one of {first} to {last}"
                raise FieldError(field, found=described.model_dump(), valid=valid)
        if self.clients * self.pipeline > MOST_OUTSTANDING:
            raise FieldError(
                "clients",
                found=self.clients,
                valid=f"clients times pipeline of at most {MOST_OUTSTANDING} "
                f"(found {self.clients * self.pipeline})",
            )
        return self

    def _check_rate(self) -> None:
        """Refuse an open loop without a rate, and one that has to wait for clients."""
        given = [name for name in RATES if getattr(self, name) is not None]
        if len(given) != (self.arrival == "open_loop"):
            name = given[-1] if given else RATES[0]
            value = getattr(self, name)
            raise FieldError(
                name,
                found=value.model_dump() if isinstance(value, BaseModel) else value,
                valid=f"one of {', '.join(RATES)} with arrival open_loop, and only there "
                f"(found {', '.join(given) or 'none'} with {self.arrival})",
            )
        if self.rate_profile is not None and not any(p.rate_rps > 0 for p in self.rate_profile):
            raise FieldError("rate_profile", found=[0.0], valid="a rate above 0 somewhere")
        if self.arrival == "open_loop":
            if self.pipeline != 1:
                raise FieldError("pipeline", found=self.pipeline, valid=_FREE)
            if self.think_us:
                raise FieldError("think_us", found=self.think_us, valid=_FREE)

    @property
    def varying(self) -> Arrivals:
        """How requests arrive, if not at `rate_rps`; reads the trace."""
        trace = None if self.trace is None else read_trace(self.trace)
        return Arrivals(self.rate_profile, self.bursts, trace)

    @property
    def mean_rate_rps(self) -> float | None:
        """Requests a second that arrive on average; None in a closed loop."""
        return self.rate_rps if self.rate_rps is not None else self.varying.mean_rate_rps

    @cached_property
    def commands(self) -> dict[str, Asked]:
        """The commands with their shares, which add up to one."""
        if self.command is not None:
            return {self.command: Asked(share=1.0)}
        return (self.mix or Mix(get=0.8, set=0.2)).commands

    @cached_property
    def executed(self) -> set[str]:
        """Commands of the table that are asked for, or that a transaction or a script calls."""
        others = [asked for asked in self.commands.values() if isinstance(asked, AskedOther)]
        called = {command for other in others for command in other.calls}
        return called | (self.commands.keys() & COMMANDS.keys())

    @cached_property
    def collections(self) -> dict[DataType, Collection]:
        """What the collections are like that commands work on: as is said, or the defaults."""
        asked = {COMMANDS[name].type for name in self.executed}
        return {
            data_type: getattr(self, DESCRIBED_BY[data_type]) or like()
            for data_type, like in WORKLOADS.items()
            if data_type in asked
        }

    @property
    def whole_key_bytes(self) -> int:
        """Size of most keys, where their sizes differ: of decimal numbers the longest."""
        return math.ceil(self.key_bytes)

    @property
    def get_fraction(self) -> float:
        """Share of GET among the commands."""
        get = self.commands.get("get")
        return 0.0 if get is None else get.share

    @property
    def only_get_and_set(self) -> bool:
        """Whether there are no other commands, as most load generators know no others."""
        return self.commands.keys() <= {"get", "set"}

    @cached_property
    def sizes(self) -> list[tuple[int, float]]:
        """Value sizes in bytes with weights that add up to one; a uniform range as 16 sizes."""
        return sizes_of(self.value_bytes)


def sizes_of(value: ValueSizes, *, of_a_range: int = 16) -> list[tuple[int, float]]:
    """Sizes in bytes with weights that add up to one; a uniform range as so many sizes at most."""
    if isinstance(value, int):
        return [(value, 1.0)]
    if isinstance(value, UniformSizes):
        count = min(of_a_range, value.high - value.low + 1)
        width = (value.high - value.low + 1) / count
        return [(int(value.low + (i + 0.5) * width), 1.0 / count) for i in range(count)]
    total = sum(value.weights)
    return [(v, w / total) for v, w in zip(value.values, value.weights, strict=True)]
