"""Sizes of keys and values, from bytes that went over the network and from memory in use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from forecache.models.engines.commands import CommandKind, bulk_bytes
from forecache.models.footprint.schema import MemoryScenario
from forecache.models.footprint.weigh import beside_of, node_of, weigh
from forecache.sim.errors import InputError

MOST_KEY_BYTES = 64 * 1024
MOST_VALUE_BYTES = 64 * 2**20
LEAST_COMMANDS = 1000
"""Of fewer, what is asked besides them may weigh as much."""

_NIL_BYTES, _STATUS_BYTES = 5, 5


@dataclass(frozen=True)
class Traffic:
    """What clients sent and received in some time.

    Attributes
    ----------
    calls
        GET, SET, MGET and MSET.
    keys_a_command
        Of MGET and MSET.
    found
        Share of the keys that were read and are there.
    """

    calls: Mapping[str, float]
    keys_a_command: Mapping[str, int]
    found: float
    input_bytes: float
    output_bytes: float

    def keys_read(self) -> float:
        """Keys that were asked for."""
        return self._count("get") + self._count("mget") * self._keys("mget")

    def replied_bytes(self, value_bytes: int) -> float:
        """Bytes of all replies, if values have a size."""
        read = self.found * bulk_bytes(value_bytes) + (1.0 - self.found) * _NIL_BYTES
        headers = self._count("mget") * (3 + len(str(self._keys("mget"))))
        statuses = (self._count("set") + self._count("mset")) * _STATUS_BYTES
        return self.keys_read() * read + headers + statuses

    def asked_bytes(self, key_bytes: int, value_bytes: int) -> float:
        """Bytes of all requests, if keys and values have a size."""
        return sum(
            count * CommandKind(name, value_bytes, 1.0, self._keys(name)).request_bytes(key_bytes)
            for name, count in self.calls.items()
        )

    def _count(self, name: str) -> float:
        return self.calls.get(name, 0.0)

    def _keys(self, name: str) -> int:
        return self.keys_a_command.get(name, 1)


@dataclass(frozen=True)
class Sizes:
    """Sizes in bytes; None where they can't be told."""

    key_bytes: int | None
    value_bytes: int | None


def sizes_of(traffic: Traffic) -> Sizes:
    """What the bytes of requests and replies say.

    Replies tell the values that were read, requests then the keys; what is written is taken to be
    as large as what is read. Where nothing is read, only the sum of both is known.
    """
    commands = sum(traffic.calls.values())
    if commands < LEAST_COMMANDS:
        return Sizes(None, None)
    value: int | None = None
    if traffic.keys_read() * traffic.found >= LEAST_COMMANDS:
        value = _solved(traffic.replied_bytes, traffic.output_bytes, 0, MOST_VALUE_BYTES)
    if value is None:
        return Sizes(None, None)
    key = _solved(
        lambda size: traffic.asked_bytes(size, value), traffic.input_bytes, 1, MOST_KEY_BYTES
    )
    return Sizes(key, value)


def value_bytes_in_memory(scenario: MemoryScenario, used_bytes: float) -> int | None:
    """The size of all values with which a node of strings uses so much memory.

    Parameters
    ----------
    scenario
        The node with one population of strings, whose values have any size.

    None where its layout isn't known, or no size does.
    """
    try:
        node = node_of(scenario)
    except InputError:
        return None
    beside, [strings] = beside_of(scenario, node), scenario.data

    def used(value_bytes: int) -> float:
        changed = strings.model_copy(update={"value_bytes": value_bytes})
        return weigh(node, [changed], beside=beside).used_bytes

    return _solved(used, used_bytes, 0, MOST_VALUE_BYTES)


def _solved(grows: Callable[[int], float], target: float, low: int, high: int) -> int | None:
    """The size at which something that grows comes nearest to what was found; None if none does."""
    least, most = low, high
    if grows(most) < target or grows(least) > target:
        return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if grows(middle) <= target else (least, middle)
    return least if target - grows(least) <= grows(most) - target else most
