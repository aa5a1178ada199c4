"""How many keys of a mixture fit: the model turned round, by bisection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from forecache.hwprofiles import load_host
from forecache.sim.errors import InputError

from .baseline import process_bytes
from .resident import resident
from .schema import MemoryScenario
from .tables import buckets_of, most_entries
from .weigh import Weight, beside_of, key_table, key_weight, node_of, weigh_keys

_MOST_KEYS = 10**13


@dataclass(frozen=True)
class Doubling:
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
class Fitting:
    """How many keys fit on a node.

    Attributes
    ----------
    keys
        The most, when tables have moved.
    keys_while_rehashing
        The most of which tables can also be moved.
    limit, limit_bytes
        What says so: `maxmemory` or `memory`.
    next_doubling
        Of the table of keys, beyond `keys`.
    """

    keys: int
    keys_while_rehashing: int
    limit: str
    limit_bytes: float
    next_doubling: Doubling


class Mixture:
    """A scenario's data with any number of keys on a node, in the same proportions.

    Raises
    ------
    InputError
        The scenario's engine isn't known, or it has no keys.
    """

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
        """What so many keys weigh on a node."""
        counts = tuple(share * keys for share in self._shares)
        return weigh_keys(self.node, self.scenario.data, counts, self._per_key, self._beside)

    def most_resident(self, used_bytes: float) -> float:
        """What the machine has to have for so much used memory."""
        forking = self.scenario.forking
        return resident(
            used_bytes,
            fragmentation=self.scenario.fragmentation,
            process_bytes=process_bytes(self.node.allocator),
            writes_per_s=None if forking is None else forking.writes_per_s,
            child_s=None if forking is None else forking.child_s,
        ).most

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


def limits_of(scenario: MemoryScenario) -> dict[str, float]:
    """Bytes by limit: `maxmemory` of used memory, `memory` of resident memory."""
    limits: dict[str, float] = {}
    if scenario.maxmemory_bytes is not None:
        limits["maxmemory"] = scenario.maxmemory_bytes
    if scenario.memory_bytes is not None:
        limits["memory"] = scenario.memory_bytes
    elif scenario.host is not None:
        limits["memory"] = load_host(scenario.host).speed().memory_gib * 2**30
    return limits


def keys_that_fit(scenario: MemoryScenario) -> Fitting | None:
    """The largest count of keys on a node whose memory stays within every limit.

    Returns
    -------
    Fitting or None
        Of the limit that is met first; None if the scenario has none.

    Raises
    ------
    InputError
        The engine or host isn't known, or not one key fits.
    """
    limits = limits_of(scenario)
    if not limits:
        return None
    mixture = Mixture(scenario)
    found = [_fitting(mixture, limit, limit_bytes) for limit, limit_bytes in limits.items()]
    return min(found, key=lambda each: each.keys)


def _fitting(mixture: Mixture, limit: str, limit_bytes: float) -> Fitting:
    def fits(used_bytes: float) -> bool:
        needed = used_bytes if limit == "maxmemory" else mixture.most_resident(used_bytes)
        return needed <= limit_bytes

    most = _largest(lambda keys: fits(mixture.weight(keys).used_bytes))
    if most == 0:
        raise InputError(
            f"field '{_FIELDS[limit]}': found {limit_bytes:,.0f} bytes; valid is enough for a key "
            f"beside the {mixture.weight(0).used_bytes:,.0f} that a node holds without data."
        )
    moving = _largest(lambda keys: fits(mixture.weight(keys).rehashing_bytes))
    return Fitting(most, moving, limit, limit_bytes, mixture.next_doubling(most))


_FIELDS = {"maxmemory": "maxmemory_bytes", "memory": "memory_bytes"}


def _largest(fits: Callable[[int], bool]) -> int:
    """The largest number that still fits, 0 if none does; what fits must have no gaps."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while high < _MOST_KEYS and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
