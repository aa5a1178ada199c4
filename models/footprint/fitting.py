"""How many keys of a mixture fit: the model turned round, by bisection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from forecache.hwprofiles import load_host
from forecache.sim.errors import InputError
from forecache.sim.plain import Result

from ..layouts.tables import buckets_of, most_entries
from .baseline import process_bytes
from .errors import resident_ends, used_interval
from .limits import MemoryLimit, Room, gib, host_limit, room
from .schema import MemoryScenario
from .weigh import NodeFootprint, Weight, beside_of, key_table, key_weight, node_of, weigh_keys

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

    def weight(self, keys: float) -> Weight:
        """Memory footprint of a number of keys on one node."""
        counts = tuple(share * keys for share in self._shares)
        return weigh_keys(self.node, self.scenario.data, counts, self._per_key, self._beside)

    def room(self, used_bytes: float, limit: MemoryLimit, *, untouched_bytes: float = 0.0) -> Room:
        """What the node needs for so much used memory, against a limit."""
        return _room(self.scenario, self.node, used_bytes, limit, untouched_bytes=untouched_bytes)

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
        words = f"maxmemory leaves {gib(most)} GiB to the server"
        limits.append(MemoryLimit("maxmemory", "used", most, most, "maxmemory_bytes", words))
    if (most := scenario.memory_bytes) is not None:
        words = f"the machine leaves {gib(most)} GiB to the server"
        limits.append(MemoryLimit("memory", "resident", most, most, "memory_bytes", words))
    elif scenario.host is not None:
        limits.append(host_limit(load_host(scenario.host), scenario.engine))
    return limits


def _room(
    scenario: MemoryScenario,
    node: NodeFootprint,
    used_bytes: float,
    limit: MemoryLimit,
    *,
    untouched_bytes: float,
) -> Room:
    return room(
        limit,
        used_bytes,
        fragmentation=scenario.fragmentation,
        process_bytes=process_bytes(node.allocator),
        forking=scenario.forking,
        untouched_bytes=untouched_bytes,
    )


def tightest_room(scenario: MemoryScenario, weight: Weight) -> Room | None:
    """What the data need against the limit that they come closest to; None without one."""
    node = node_of(scenario)
    rooms = [
        _room(scenario, node, weight.used_bytes, limit, untouched_bytes=weight.untouched_bytes)
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
