"""What a user describes: workload, load generator, host, engine, and what may vary.

A scenario is checked by these schemas and expanded into cases, one per point of its sweep. Any
number or word may be replaced by `{sweep: [...]}`; several sweeps make their product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from forecache.hwprofiles.files import parse
from forecache.sim.errors import InputError

from .arrivals import Arrivals, Bursts, RatePiece, read_trace

MOST_OUTSTANDING = 2_000_000
"""Requests that all clients may have on the way: a run keeps some 50 bytes for each."""

RATES = ("rate_rps", "rate_profile", "bursts", "trace")
"""What may say when requests of an open loop arrive."""

CONSTANT_RATE: dict[str, None] = dict.fromkeys(("rate_profile", "bursts", "trace"))
"""Changes to a workload that leave `rate_rps` to say it."""

MOST_POINTS = 10_000
"""Points of a sweep."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class UniformSizes(_Record):
    """Value sizes drawn evenly between two bounds, both included."""

    distribution: Literal["uniform"]
    low: int = Field(ge=0, le=512 * 2**20)
    high: int = Field(ge=0, le=512 * 2**20)

    @model_validator(mode="after")
    def _ordered(self) -> UniformSizes:
        if self.low > self.high:
            raise ValueError(f"low not above high (found {self.low} and {self.high})")
        return self


class WeightedSizes(_Record):
    """Value sizes with weights: `{values: [64, 4096], weights: [0.9, 0.1]}`."""

    distribution: Literal["weighted"] = "weighted"
    values: list[Annotated[int, Field(ge=0, le=512 * 2**20)]] = Field(min_length=1, max_length=32)
    weights: list[Annotated[float, Field(gt=0, le=1e9)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _paired(self) -> WeightedSizes:
        if len(self.values) != len(self.weights):
            raise ValueError(f"as many weights as values ({len(self.values)})")
        return self


class Zipf(_Record):
    """Popularity of rank r proportional to r ** -exponent."""

    zipf: float = Field(gt=0, le=3)


class HotSet(_Record):
    """A share of the keys that gets a share of the requests."""

    keys: float = Field(gt=0, lt=1)
    requests: float = Field(gt=0, lt=1)


class HotSetPopularity(_Record):
    """`{hot_set: {keys: 0.1, requests: 0.9}}`."""

    hot_set: HotSet


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
    return None if isinstance(value, Mapping) else "word"


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
        custom_error_message="'uniform', a mapping with zipf, or one with hot_set",
    ),
]


class Asked(_Record):
    """How often a command comes; a bare number stands for its share."""

    share: float = Field(gt=0, le=1)

    @model_validator(mode="before")
    @classmethod
    def _share(cls, value: object) -> object:
        return {"share": value} if isinstance(value, int | float) else value

    @property
    def items(self) -> int:
        """Keys, members or fields of the command."""
        return 1


class AskedKeys(Asked):
    """A command of several keys."""

    keys: int = Field(ge=1, le=10_000)

    @property
    def items(self) -> int:
        """Keys."""
        return self.keys


class AskedMembers(Asked):
    """A command of one or more members of a sorted set."""

    members: int = Field(default=1, ge=1, le=10_000)

    @property
    def items(self) -> int:
        """Members."""
        return self.members


class AskedFields(Asked):
    """A command of one or more fields of a hash."""

    fields: int = Field(default=1, ge=1, le=10_000)

    @property
    def items(self) -> int:
        """Fields."""
        return self.fields


class Mix(_Record):
    """Shares of the commands; they add up to one."""

    get: float = Field(default=0.0, ge=0, le=1)
    set: float = Field(default=0.0, ge=0, le=1)
    mget: AskedKeys | None = None
    mset: AskedKeys | None = None
    zadd: AskedMembers | None = None
    zrange: AskedMembers | None = None
    hset: AskedFields | None = None
    hget: Asked | None = None
    hgetall: Asked | None = None

    @model_validator(mode="after")
    def _complete(self) -> Mix:
        total = sum(asked.share for asked in self.commands.values())
        if abs(total - 1.0) > 1e-6:
            raise ValueError(f"shares that add up to 1 (found {total:g})")
        return self

    @property
    def commands(self) -> dict[str, Asked]:
        """Every command that comes at all."""
        asked = {
            name: Asked(share=share)
            for name, share in (("get", self.get), ("set", self.set))
            if share > 0
        }
        others = ("mget", "mset", "zadd", "zrange", "hset", "hget", "hgetall")
        return asked | {n: found for n in others if (found := getattr(self, n)) is not None}


class SortedSets(_Record):
    """The sorted sets that ZADD and ZRANGE work on, all alike."""

    keys: int = Field(ge=1, le=10**10)
    members: int = Field(ge=1, le=10**9)
    member_bytes: int = Field(default=16, ge=1, le=64 * 1024)


class Hashes(_Record):
    """The hashes that HSET, HGET and HGETALL work on, all alike."""

    keys: int = Field(ge=1, le=10**10)
    fields: int = Field(ge=1, le=10**9)
    field_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    value_bytes: int = Field(default=16, ge=0, le=64 * 1024)


class SlowCommand(_Record):
    """A command now and then that keeps the main thread busy, such as KEYS or a long script."""

    duration_ms: float = Field(gt=0, le=60_000)
    every_s: float | None = Field(default=None, gt=0, le=86_400)
    share: float | None = Field(default=None, gt=0, le=0.5)

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


class Workload(_Record):
    """What the clients ask for, and when.

    `arrival` is `closed_loop` (each client waits for the replies to its batch, then thinks for
    `think_us`) or `open_loop` (requests arrive as a Poisson process of `rate_rps` over all
    clients, whatever the server does; latency counts from the intended time).
    """

    arrival: Literal["closed_loop", "open_loop"] = "closed_loop"
    clients: int = Field(default=50, ge=1, le=100_000)
    pipeline: int = Field(default=1, ge=1, le=1024)
    think_us: float = Field(default=0.0, ge=0, le=1e7)
    rate_rps: float | None = Field(default=None, gt=0, le=1e8)
    rate_profile: list[RatePiece] | None = Field(default=None, min_length=1, max_length=1000)
    bursts: Bursts | None = None
    trace: str | None = None
    """A CSV file of times in seconds and commands."""
    command: Literal["get", "set"] | None = None
    mix: Mix | None = None
    keys: int = Field(default=1_000_000, ge=1, le=10**11)
    key_bytes: int = Field(default=16, ge=1, le=64 * 1024)
    value_bytes: ValueSizes = 512
    popularity: Popularity = "uniform"
    sorted_sets: SortedSets | None = None
    hashes: Hashes | None = None
    slow_command: SlowCommand | None = None
    key_pattern: Literal["random", "sequential"] = "random"
    """`sequential`: keys are visited in the order in which they were written."""
    operations_before_get_phase: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Workload:
        if self.command is not None and self.mix is not None:
            raise ValueError("command or mix, not both")
        given = [name for name in RATES if getattr(self, name) is not None]
        if len(given) != (self.arrival == "open_loop"):
            raise ValueError(
                f"one of {', '.join(RATES)} with arrival open_loop, and only there (found "
                f"{', '.join(given) or 'none'} with {self.arrival})"
            )
        if self.rate_profile is not None and not any(p.rate_rps > 0 for p in self.rate_profile):
            raise ValueError("a rate_profile with a rate above 0")
        if self.arrival == "open_loop" and (self.pipeline != 1 or self.think_us):
            raise ValueError("pipeline 1 and no think_us with arrival open_loop")
        for field, commands in (
            ("sorted_sets", {"zadd", "zrange"}),
            ("hashes", {"hset", "hget", "hgetall"}),
        ):
            found = sorted(commands & set(self.commands))
            if found and getattr(self, field) is None:
                raise ValueError(f"{field}, which {found[0]} in the mix needs")
            if not found and getattr(self, field) is not None:
                raise ValueError(f"{field} only with one of {', '.join(sorted(commands))} in mix")
        if self.clients * self.pipeline > MOST_OUTSTANDING:
            raise ValueError(
                f"clients times pipeline of at most {MOST_OUTSTANDING} "
                f"(found {self.clients * self.pipeline})"
            )
        return self

    @property
    def varying(self) -> Arrivals:
        """How requests arrive, if not at `rate_rps`; reads the trace."""
        trace = None if self.trace is None else read_trace(self.trace)
        return Arrivals(self.rate_profile, self.bursts, trace)

    @property
    def mean_rate_rps(self) -> float | None:
        """Requests a second that arrive on average; None in a closed loop."""
        return self.rate_rps if self.rate_rps is not None else self.varying.mean_rate_rps

    @property
    def commands(self) -> dict[str, Asked]:
        """The commands with their shares, which add up to one."""
        if self.command is not None:
            return {self.command: Asked(share=1.0)}
        return (self.mix or Mix(get=0.8, set=0.2)).commands

    @property
    def get_fraction(self) -> float:
        """Share of GET among the commands."""
        get = self.commands.get("get")
        return 0.0 if get is None else get.share

    @property
    def only_get_and_set(self) -> bool:
        """Whether there are no other commands, as most load generators know no others."""
        return self.commands.keys() <= {"get", "set"}

    @property
    def sizes(self) -> list[tuple[int, float]]:
        """Value sizes in bytes with weights that add up to one; a uniform range as 16 sizes."""
        value = self.value_bytes
        if isinstance(value, int):
            return [(value, 1.0)]
        if isinstance(value, UniformSizes):
            count = min(16, value.high - value.low + 1)
            width = (value.high - value.low + 1) / count
            return [(int(value.low + (i + 0.5) * width), 1.0 / count) for i in range(count)]
        total = sum(value.weights)
        return [(v, w / total) for v, w in zip(value.values, value.weights, strict=True)]

    @property
    def mean_value_bytes(self) -> float:
        """Mean size of a value."""
        return sum(size * weight for size, weight in self.sizes)


class Tls(_Record):
    """Encrypted connections; `tls: true` is short for these defaults.

    `new_connections_per_s` come besides those of the load, each with a full handshake, and ask for
    nothing.
    """

    certificate: Literal["ecdsa-p256", "rsa-2048"] = "ecdsa-p256"
    new_connections_per_s: float = Field(default=0.0, ge=0, le=1e5)


class Snapshot(_Record):
    """A snapshot by a forked child every so often; `child_s` is how long the child lives."""

    every_s: float = Field(gt=0, le=86_400)
    child_s: float = Field(gt=0)

    @model_validator(mode="after")
    def _shorter(self) -> Snapshot:
        if self.child_s > self.every_s:
            raise ValueError(
                f"child_s not above every_s (found {self.child_s:g} and {self.every_s:g})"
            )
        return self


class Persistence(_Record):
    """What is kept on disk: an append-only file, snapshots, or both.

    `fsync_ms` is how long an fsync of the append-only file takes, which replies wait for with
    `aof: always`.
    """

    aof: Literal["everysec", "always"] | None = None
    fsync_ms: float | None = Field(default=None, gt=0, le=10_000)
    snapshot: Snapshot | None = None

    @model_validator(mode="after")
    def _some(self) -> Persistence:
        if self.aof is None and self.snapshot is None:
            raise ValueError("aof, snapshot or both")
        if (self.aof == "always") != (self.fsync_ms is not None):
            raise ValueError("fsync_ms with aof always, and only there")
        return self


PersistenceChoice = Annotated[
    Annotated[Literal["none"], Tag("word")] | Annotated[Persistence, Tag("kept")],
    Discriminator(
        lambda value: "kept" if isinstance(value, Mapping | Persistence) else "word",
        custom_error_type="persistence",
        custom_error_message="'none', or a mapping with aof, snapshot or both",
    ),
]


class LoadGenerator(_Record):
    """Who sends the load; it is a station of the model like any other."""

    tool: str = "valkey-benchmark"
    threads: int | None = Field(default=None, ge=1, le=1024)
    connections_per_thread: int | None = Field(default=None, ge=1)
    cores: int | None = Field(default=None, ge=1)
    same_host: bool = False


class Slo(_Record):
    """What must hold for a setting to be recommended."""

    p50_ms: float | None = Field(default=None, gt=0)
    p99_ms: float | None = Field(default=None, gt=0)
    p999_ms: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _some(self) -> Slo:
        if self.p50_ms is None and self.p99_ms is None and self.p999_ms is None:
            raise ValueError("at least one of p50_ms, p99_ms, p999_ms")
        return self


class Scenario(_Record):
    """One case: everything a simulation of one point needs to be told."""

    name: str | None = None
    host: str | None
    engine: str
    engine_version: str | None = None
    transport: Literal["tcp", "unix_socket"] = "tcp"
    tls: Tls | None = None
    io_threads: int = Field(default=1, ge=1, le=256)
    cores: int | None = Field(default=None, ge=1)
    irq_cores: int = Field(default=0, ge=0, le=1024)
    """Cores of the host, beside those of the server, that only take packets from the network."""
    persistence: PersistenceChoice = "none"
    replicas: int = Field(default=0, ge=0, le=64)
    main_thread_pinned: bool = True
    other_busy_threads: int = Field(default=0, ge=0, le=256)
    """Threads of other programs that never pause, on the server's cores."""
    prefetch_batch: int | None = Field(default=None, ge=0, le=128)
    events_per_io_thread: int | None = Field(default=None, ge=0, le=1000)
    io_threads_do_reads: bool | None = None
    """io-threads-do-reads of Redis 6 to 7.4 and Valkey 7.2, which is no unless set."""
    workload: Workload = Workload()
    load_generator: LoadGenerator = LoadGenerator()
    slo: Slo | None = None

    @property
    def interrupt_cores(self) -> int:
        """Cores of the server that take packets from its network, if there is one between."""
        return 0 if self.same_host else self.irq_cores

    @property
    def generator_threads(self) -> int:
        """Threads of the load generator: as given, else what the tool would be run with."""
        threads = self.load_generator.threads or 16
        return min(threads, self.workload.clients)

    @property
    def same_host(self) -> bool:
        """Whether the load generator shares the server's host, as over a Unix socket it must."""
        return self.load_generator.same_host or self.transport == "unix_socket"

    @field_validator("tls", mode="before")
    @classmethod
    def _short(cls, tls: object) -> object:
        return ({} if tls else None) if isinstance(tls, bool) else tls

    @model_validator(mode="after")
    def _encrypted(self) -> Scenario:
        if self.tls is not None and self.transport == "unix_socket":
            raise ValueError("tls with transport tcp (found unix_socket)")
        return self

    @field_validator("engine_version", mode="before")
    @classmethod
    def _quoted(cls, version: object) -> object:
        if isinstance(version, int | float):
            raise ValueError('a version in quotes, such as "8.1", which is not the number 8.10')
        return version


class Case(BaseModel):
    """A scenario at one point of its sweep; `given` holds only what the sweep varies."""

    model_config = ConfigDict(frozen=True)
    given: dict[str, Any]
    scenario: Scenario


def _sweeps(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    if not isinstance(data, Mapping):
        return
    if set(data) == {"sweep"}:
        yield path, data["sweep"]
        return
    for key, value in data.items():
        yield from _sweeps(value, (*path, str(key)))


def _replaced(data: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    return {**data, path[0]: _replaced(data[path[0]], path[1:], value)}


def expand(data: Mapping[str, Any], *, file: str) -> list[Case]:
    """The cases of a scenario, in the order of its sweeps.

    Parameters
    ----------
    data
        The content of a scenario file.
    file
        What to call it in error messages.

    Raises
    ------
    InputError
        A field is unknown, missing or out of range, or a sweep is empty or repeats a value.
    """
    sweeps = list(_sweeps(data))
    if sweeps and not sweeps[0][0]:
        raise InputError(f"{file}: found a sweep at the top level; valid is a sweep of a field.")
    for path, values in sweeps:
        where = ".".join(path)
        if not isinstance(values, list) or not values:
            raise InputError(
                f"{file}: field {where}.sweep: found {values!r}; valid is a list of at least one "
                "value."
            )
        if any(values.index(value) != index for index, value in enumerate(values)):
            raise InputError(f"{file}: field {where}.sweep: found a value twice in {values!r}.")
    points = math.prod(len(values) for _, values in sweeps)
    if points > MOST_POINTS:
        raise InputError(f"{file}: found sweeps of {points} points; valid are {MOST_POINTS}.")
    names = [".".join(path) for path, _ in sweeps]
    cases = []
    for combination in itertools.product(*(values for _, values in sweeps)):
        concrete: Any = dict(data)
        for (path, _), value in zip(sweeps, combination, strict=True):
            concrete = _replaced(concrete, path, value)
        scenario = parse(Scenario, concrete, file=file)
        given = {
            name.removeprefix("workload."): value
            for name, value in zip(names, combination, strict=True)
        }
        cases.append(Case(given=given, scenario=scenario))
    return cases
