"""What the data of a scenario weighs, and how many keys fit: the answer of `forecache memory`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from forecache.hwprofiles import load_host
from forecache.sim.errors import InputError
from forecache.sim.plain import Result
from forecache.sim.statistics import Estimate
from forecache.sim.words import byte_size

from ..engines.commands import command_kinds, executed_kinds
from ..engines.profile import EngineProfile, load_engine
from ..layouts.blocks import Blocks
from ..layouts.generations import taken_as
from ..layouts.tables import buckets_of, most_entries
from ..prices.table import host_of
from ..results.consistency import Checked
from ..results.displayed import Displayed
from ..scenario.command_table import commands_on
from ..scenario.schema import Persistence, Scenario
from ..scenario.source import NODE, ScenarioFile, ScenarioSource, read_scenario
from ..scenario.sweeps import Case, expand
from ..scenario.workload import AskedOther, Workload
from .errors import resident_ends, used_interval
from .limits import MemoryLimit, Room, host_limit, resident, room
from .saving import child_of_memory
from .schema import Forking, MemoryScenario, Population, Strings
from .weigh import (
    KeyBytes,
    Weight,
    beside_of,
    key_table,
    key_weight,
    node_of,
    process_bytes,
    weigh,
    weigh_keys,
)

# --- how many keys fit: the model turned round, by bisection --------------------------------------


_MOST_KEYS = 10**13


@dataclass(frozen=True)
class Doubling(Result):
    """When the table of keys doubles next.

    Attributes
    ----------
    keys
        Of the node, when it does; with a table for each slot the count around which they do.
    adds_bytes
        What it weighs more from then on.
    while_moving_bytes
        What the old one weighs until it has moved.
    """

    keys: int
    adds_bytes: float
    while_moving_bytes: float


@dataclass(frozen=True)
class Fitting(Result):
    """How many keys fit on a node.

    Attributes
    ----------
    keys
        The most, when tables have moved.
    keys_low, keys_high
        Ends of its 95% interval: with as much memory as the data may need, and with as little.
    keys_while_rehashing
        The most of which tables can also be moved.
    limit, limit_bytes
        What says so: `maxmemory`, `memory` or `managed node`, and how much it leaves.
    next_doubling
        Of the table of keys, beyond `keys`.
    """

    keys: int
    keys_low: int
    keys_high: int
    keys_while_rehashing: int
    limit: str
    limit_bytes: float
    next_doubling: Doubling


class Mixture:
    """A scenario's data with any number of keys on a node, in the same proportions."""

    def __init__(self, scenario: MemoryScenario) -> None:
        self.scenario = scenario
        self.node = node_of(scenario)
        total = sum(population.keys for population in scenario.data)
        if total == 0:
            raise InputError("field 'data': found no keys; valid is a population with some.")
        self._shares = tuple(population.keys / total for population in scenario.data)
        self._per_key = tuple(key_weight(self.node, each) for each in scenario.data)
        self._beside = beside_of(scenario, self.node)
        self._child = child_of_memory(scenario)

    def weight(self, keys: float) -> Weight:
        """Memory footprint of a number of keys on one node."""
        counts = tuple(share * keys for share in self._shares)
        return weigh_keys(self.node, self.scenario.data, counts, self._per_key, self._beside)

    def room(self, used_bytes: float, limit: MemoryLimit, *, untouched_bytes: float = 0.0) -> Room:
        """What the node needs for so much used memory, against a limit."""
        return room(
            limit,
            used_bytes,
            fragmentation=self.scenario.fragmentation,
            process_bytes=process_bytes(self.node.allocator),
            forking=self._child,
            untouched_bytes=untouched_bytes,
        )

    def needed_ends(self, weight: Weight, limit: MemoryLimit) -> tuple[float, float]:
        """Ends of the 95% interval of what the node needs while data grow, against a limit."""
        used = used_interval(self.scenario, self.node.generation, weight, growing=True)
        if limit.of == "used":
            return used.low, used.high
        low, high = resident_ends(self.scenario, used, weight)
        return low.most, high.most

    def next_doubling(self, keys: int) -> Doubling:
        """The next doubling of the table of keys beyond a count."""
        g, slots = self.node.generation, self.node.slots
        tables = slots if slots is not None and g.slots == "tables" else 1
        if tables == 1:
            at = most_entries(g.table, buckets_of(g.table, max(1, keys)))
            before, after = key_table(self.node, at), key_table(self.node, at + 1)
            return Doubling(at + 1, after.settled - before.settled, after.rehash)
        # Slots differ: half of them have doubled when the mean is at the limit.
        mean = keys / tables
        buckets = buckets_of(g.table, max(1, round(mean)))
        at = tables * most_entries(g.table, buckets)
        one = replace(self.node, slots=None)
        before = key_table(one, most_entries(g.table, buckets))
        after = key_table(one, most_entries(g.table, buckets) + 1)
        return Doubling(at + 1, tables * (after.settled - before.settled), tables * after.rehash)


def limits_of(scenario: MemoryScenario) -> list[MemoryLimit]:
    """What limits used or resident memory: `maxmemory`, and the machine or managed node."""
    limits = []
    if (most := scenario.maxmemory_bytes) is not None:
        words = f"maxmemory leaves {byte_size(most)} to the server"
        limits.append(MemoryLimit("maxmemory", "used", most, most, "maxmemory_bytes", words))
    if (most := scenario.memory_bytes) is not None:
        words = f"the machine leaves {byte_size(most)} to the server"
        limits.append(MemoryLimit("memory", "resident", most, most, "memory_bytes", words))
    elif scenario.host is not None:
        limits.append(
            host_limit(load_host(host_of(scenario.host, scenario.engine)), scenario.engine)
        )
    return limits


def tightest_room(scenario: MemoryScenario, weight: Weight) -> Room | None:
    """What the data need against the limit that they come closest to; None without one."""
    mixture = Mixture(scenario)
    rooms = [
        mixture.room(weight.used_bytes, limit, untouched_bytes=weight.untouched_bytes)
        for limit in limits_of(scenario)
    ]
    return max(rooms, key=lambda each: each.needed_bytes / each.limit.usable_bytes, default=None)


def keys_that_fit(scenario: MemoryScenario) -> Fitting | None:
    """The largest count of keys on a node whose memory stays within every limit.

    Returns
    -------
    Fitting or None
        Of the limit that is met first; None if the scenario has none.
    """
    limits = limits_of(scenario)
    if not limits:
        return None
    mixture = Mixture(scenario)
    return min((_fitting(mixture, limit) for limit in limits), key=lambda each: each.keys)


def _fitting(mixture: Mixture, limit: MemoryLimit) -> Fitting:
    def needs(weight: Weight, used_bytes: float) -> Room:
        return mixture.room(used_bytes, limit, untouched_bytes=weight.untouched_bytes)

    def fits(keys: int) -> bool:
        weight = mixture.weight(keys)
        return needs(weight, weight.used_bytes).fits

    def fits_while_rehashing(keys: int) -> bool:
        weight = mixture.weight(keys)
        return needs(weight, weight.rehashing_bytes).fits

    most = _largest(fits)
    if most == 0:
        nothing = mixture.weight(0)
        empty = needs(nothing, nothing.used_bytes).needed_bytes
        raise InputError(
            f"field '{limit.field}': found {limit.usable_bytes:,.0f} bytes; valid is enough for a "
            f"key beside the {empty:,.0f} that a node holds without data."
        )

    def surely(keys: int) -> bool:
        return mixture.needed_ends(mixture.weight(keys), limit)[1] <= limit.usable_bytes

    def perhaps(keys: int) -> bool:
        return mixture.needed_ends(mixture.weight(keys), limit)[0] <= limit.usable_bytes

    return Fitting(
        keys=most,
        keys_low=min(most, _largest(surely, near=most)),
        keys_high=max(most, _largest(perhaps, near=most)),
        keys_while_rehashing=_largest(fits_while_rehashing, near=most),
        limit=limit.name,
        limit_bytes=limit.usable_bytes,
        next_doubling=mixture.next_doubling(most),
    )


def _largest(fits: Callable[[int], bool], *, near: int = 1) -> int:
    """The largest number that still fits, 0 if none does; what fits must have no gaps.

    Parameters
    ----------
    near
        Where to begin to look.
    """
    low = high = near
    while low and not fits(low):
        low, high = low // 2, low
    if low == high:
        high = 2 * low
        while high < _MOST_KEYS and fits(high):
            low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# --- answers --------------------------------------------------------------------------------------


MEMORY = "memory"


@dataclass(frozen=True)
class MemoryEngine(Result):
    """Whose memory it is."""

    name: str
    version: str
    allocator: str


@dataclass(frozen=True)
class MemoryNode(Result):
    """The node's part of a cluster."""

    cluster: bool
    slots: int | None
    shards: int


@dataclass(frozen=True)
class PopulationMemory(Result):
    """What keys of one kind take."""

    type: str
    what: dict[str, Any]
    """The fields of the scenario that describe them."""
    keys: float
    """On the node."""
    bytes_per_key: float
    parts: dict[str, float]
    """The same by part, in bytes."""


@dataclass(frozen=True)
class ForkedMemory(Result):
    """Resident memory of server and child together, in bytes."""

    value: float | None
    """At the child's end; None where nothing forks."""
    low: float
    """If nothing is written meanwhile."""
    high: float
    """If every page is."""
    child_s: Estimate | None = None
    """How long the child lives."""


@dataclass(frozen=True)
class MemoryPoint(Result):
    """The memory footprint at one point of a sweep."""

    given: dict[str, Any]
    engine: MemoryEngine
    node: MemoryNode
    keys: float
    """Of one node."""
    used_memory_bytes: Estimate
    """With its 95% interval: tables have moved or, at the upper end, may still move; connections
    are idle or their buffers full; the data of each type differ as those of live servers did."""
    rehashing_bytes: float
    populations: list[PopulationMemory]
    beside: dict[str, float]
    """What the node holds beside data, by part, in bytes."""
    resident_bytes: float
    resident_low_bytes: float
    """Ends of its 95% interval; fragmentation is assumed unless it is given."""
    resident_high_bytes: float
    forked_bytes: ForkedMemory
    fits: Fitting | None
    """How many keys do; None where nothing limits."""
    room: Room | None
    """Whether the scenario's do."""
    warnings: list[str]


@dataclass(frozen=True)
class MemoryProvenance(Result):
    """What made the answer."""

    forecache_version: str
    date: str


@dataclass(frozen=True)
class MemoryAnswer(Displayed):
    """What `memory` answers."""

    kind: str
    points: list[MemoryPoint]
    provenance: MemoryProvenance


def memory(source: ScenarioSource) -> MemoryAnswer:
    """What the data of every point of a scenario weighs.

    Parameters
    ----------
    source
        A scenario of `kind: memory`, or one of a node, whose keys and values are taken; path of its
        file, or its content.
    """
    given = read_scenario(source)
    file, points = given.name, []
    for case in _cases(given):
        try:
            points.append(_point(case))
            check_memory(points[-1])
        except InputError as error:
            raise InputError(f"{file}: {error}") from None
    from forecache import __version__

    made = MemoryProvenance(__version__, datetime.now(UTC).isoformat(timespec="seconds"))
    return MemoryAnswer(MEMORY, points, made)


def check_memory(point: MemoryPoint) -> None:
    """Check a point.

    Raises
    ------
    RuntimeError
        It contradicts itself.
    """
    checked = Checked(f"memory {point.given or ''}".strip())
    used, forked = point.used_memory_bytes, point.forked_bytes
    checked.estimate("used memory", used)
    if forked.value is not None:
        checked.estimate("forked_bytes", Estimate(forked.value, forked.low, forked.high))
    for row in point.populations:
        for part, size in row.parts.items():
            checked.not_negative(f"{part} of {row.type}", size)
        checked.sum(f"bytes per key of {row.type}", row.bytes_per_key, row.parts.values())
    data = [row.keys * row.bytes_per_key for row in point.populations]
    checked.sum("keys", point.keys, [row.keys for row in point.populations])
    checked.sum("used memory", used.value, [*data, *point.beside.values()])
    checked.estimate(
        "resident memory",
        Estimate(point.resident_bytes, point.resident_low_bytes, point.resident_high_bytes),
    )


def _cases(given: ScenarioFile) -> list[Case[MemoryScenario]]:
    data, file = given.data, given.name
    if given.kind([MEMORY, NODE]) == MEMORY:
        return expand(data, file=file, schema=MemoryScenario)
    cases: list[Case[MemoryScenario]] = []
    for case in expand(data, file=file, schema=Scenario):
        try:
            scenario = of_node(case.scenario)
        except InputError as error:
            raise InputError(f"{file}: {error}") from None
        if all(scenario != other.scenario for other in cases):
            cases.append(Case(case.given, scenario))
    # What is swept but changes nothing here, such as io_threads, isn't told.
    varying = {
        name
        for name in {key for case in cases for key in case.given}
        if len({repr(case.given[name]) for case in cases}) > 1
    }
    return [
        Case({k: v for k, v in case.given.items() if k in varying}, case.scenario) for case in cases
    ]


def of_node(scenario: Scenario, engine: EngineProfile | None = None) -> MemoryScenario:
    """The memory of a node's scenario: its keys and values, connections and replicas.

    Parameters
    ----------
    engine
        The one that it names; looked up if left out.
    """
    engine = engine or load_engine(scenario.engine, scenario.engine_version)
    workload = scenario.workload
    return MemoryScenario(
        name=scenario.name,
        engine=engine.engine,
        engine_version=scenario.engine_version or engine.version,
        clients=workload.clients,
        commands=len(workload.executed | workload.commands.keys()),
        replicas=scenario.replicas,
        host=scenario.host,
        forking=forking_of(scenario),
        data=_populations(workload),
    )


def forking_of(scenario: Scenario) -> Forking | None:
    """The child of a node's snapshots, if it makes any."""
    kept = scenario.persistence if isinstance(scenario.persistence, Persistence) else None
    if kept is None or kept.snapshot is None:
        return None
    file = kept.snapshot.model_dump(exclude={"every_s"})
    return Forking(writes_per_s=_writes_per_s(scenario), **file)


def _writes_per_s(scenario: Scenario) -> float | None:
    """Keys written a second; None for a closed loop that writes, whose rate isn't known here."""
    written = sum(
        k.share * k.items for k in executed_kinds(command_kinds(scenario)) if k.row.writes
    )
    rate = scenario.workload.mean_rate_rps
    if rate is None:
        return None if written else 0.0
    return rate * written


def _populations(workload: Workload) -> list[Population]:
    found: list[Population] = []
    others = [asked for asked in workload.commands.values() if isinstance(asked, AskedOther)]
    on_keys = any(other.keys != 0 for other in others if not other.calls)
    if not workload.collections or on_keys or workload.executed & {*commands_on("string")}:
        found.append(
            Strings(
                type="string",
                keys=workload.keys,
                key_bytes=workload.whole_key_bytes,
                value_bytes=workload.value_bytes,
            )
        )
    for data_type, collection in workload.collections.items():
        described = collection.model_dump() | {"type": data_type}
        found.append(
            _COLLECTION.validate_python(described | {"key_bytes": workload.whole_key_bytes})
        )
    return found


_COLLECTION: TypeAdapter[Population] = TypeAdapter(
    Annotated[Population, Field(discriminator="type")]
)


def _point(case: Case[MemoryScenario]) -> MemoryPoint:
    scenario = case.scenario
    node = node_of(scenario)
    weight = weigh(node, scenario.data, beside=beside_of(scenario, node), shards=scenario.shards)
    child = child_of_memory(scenario)
    held = resident(
        weight.used_bytes,
        fragmentation=scenario.fragmentation,
        process_bytes=process_bytes(node.allocator),
        forking=child,
        untouched_bytes=weight.untouched_bytes,
    )
    used = used_interval(scenario, node.generation, weight)
    low, high = resident_ends(scenario, used, weight)
    version = scenario.engine_version or node.generation.versions[0]
    beside = ("startup", "cluster", "clients", "commands", "replication")
    return MemoryPoint(
        given=case.given,
        engine=MemoryEngine(scenario.engine, version, node.allocator),
        node=MemoryNode(node.cluster, node.slots, scenario.shards),
        keys=sum(weight.keys),
        used_memory_bytes=used,
        rehashing_bytes=weight.rehashing_bytes,
        populations=_population_memory(scenario, weight),
        beside={name: getattr(weight.beside, name) for name in beside},
        resident_bytes=held.resident,
        resident_low_bytes=min(low.resident, held.resident),
        resident_high_bytes=max(high.resident, held.resident),
        forked_bytes=ForkedMemory(
            held.forked,
            held.forked_low,
            held.forked_high,
            None if child is None else child.lives_s(weight.used_bytes),
        ),
        fits=keys_that_fit(scenario),
        room=tightest_room(scenario, weight),
        warnings=warnings_of(scenario),
    )


def warnings_of(scenario: MemoryScenario) -> list[str]:
    """Why the answer may be off: the version is newer than all whose layout is known."""
    told = taken_as(scenario.engine, scenario.engine_version)
    return [] if told is None else [told]


def _population_memory(scenario: MemoryScenario, weight: Weight) -> list[PopulationMemory]:
    """Each population with the memory of a key of it, its share of the tables included."""
    keys = sum(weight.keys)
    expiring = sum(n * p.ttl for n, p in zip(weight.keys, scenario.data, strict=True))
    table = weight.table.settled / keys if keys else 0.0
    expires = weight.expires_table.settled / expiring if expiring else 0.0
    found = []
    for count, population, each in zip(weight.keys, scenario.data, weight.per_key, strict=True):
        parts = parts_of(each, table=table, expires_table=population.ttl * expires)
        what = population.model_dump(mode="json", exclude={"type", "keys"})
        total = sum(parts.values())
        found.append(PopulationMemory(population.type, what, count, total, parts))
    return found


def parts_of(each: KeyBytes, *, table: float, expires_table: float) -> dict[str, float]:
    """What a key weighs by part: its share of the table of keys, its blocks, what keeps its time to
    live, and its collection."""
    blocks: Blocks = each.blocks
    return {
        "table": table,
        "entry": blocks.entry,
        "key": blocks.key,
        "object": blocks.object,
        "value": blocks.value + each.content.items + each.content.table,
        "expires": blocks.expires + expires_table,
    }
