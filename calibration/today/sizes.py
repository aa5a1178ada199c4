"""Sizes of keys and values, from bytes that went over the network and from memory in use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forecache.models.engines.commands import CommandKind, bulk_bytes
from forecache.models.footprint.schema import MemoryScenario
from forecache.models.footprint.weigh import beside_of, key_weight, node_of, weigh
from forecache.models.layouts.generations import generation
from forecache.models.layouts.tables import SLOTS
from forecache.sim.errors import InputError

from .nodes import TodaysNode

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
        value = solved(traffic.replied_bytes, traffic.output_bytes, 0, MOST_VALUE_BYTES)
    if value is None:
        return Sizes(None, None)
    key = solved(
        lambda size: traffic.asked_bytes(size, value), traffic.input_bytes, 1, MOST_KEY_BYTES
    )
    return Sizes(key, value)


Populations = Callable[[int], Sequence[Mapping[str, Any]]]
"""What keys there are if something of them has a size, as `kind: memory` describes them."""


def memory_of(node: TodaysNode) -> dict[str, Any]:
    """Fields of `kind: memory` of a node of today, but for its data."""
    engine, version = node.last.engine
    slots = node.cluster.get("cluster_size", "")
    shards = int(slots) if slots.isascii() and slots.isdigit() and len(slots) <= 4 else 1
    cluster = node.last.text("cluster_enabled") == "1" and _knows_slots(engine, version)
    return {
        "engine": engine,
        "engine_version": version,
        "cluster": cluster,
        "slots_served": max(1, round(SLOTS / max(1, shards))) if cluster else None,
        "clients": node.clients,
        "commands": min(500, len(node.last.commands)),
        "replicas": min(64, int(node.last.number("connected_slaves") or 0)),
    }


def _knows_slots(engine: str, version: str) -> bool:
    """Whether memory of cluster mode is modelled."""
    try:
        return generation(engine, version).slots is not None
    except InputError:
        return False


def used_by(node: Mapping[str, Any], data: Sequence[Mapping[str, Any]]) -> float | None:
    """Memory that a node uses with some data; None where its layout isn't known.

    Parameters
    ----------
    node
        Its fields, as `memory_of` has them.
    """
    scenario = MemoryScenario(**node, data=data)  # type: ignore[arg-type]
    try:
        where = node_of(scenario)
    except InputError:
        return None
    return weigh(where, scenario.data, beside=beside_of(scenario, where)).used_bytes


def size_in_memory(
    node: Mapping[str, Any], populations: Populations, used_bytes: float
) -> int | None:
    """The size with which a node uses so much memory.

    None where its layout isn't known, or no size does.
    """
    if used_by(node, populations(1)) is None:
        return None
    return solved(
        lambda size: used_by(node, populations(size)) or 0.0, used_bytes, 0, MOST_VALUE_BYTES
    )


def size_in_a_key(
    node: Mapping[str, Any], population: Populations, weight_bytes: float
) -> int | None:
    """The size with which a key of the only population weighs so much; None as above."""

    def weighs(size: int) -> float:
        scenario = MemoryScenario(**node, data=population(size))  # type: ignore[arg-type]
        return key_weight(node_of(scenario), scenario.data[0]).settled

    try:
        return solved(weighs, weight_bytes, 0, MOST_VALUE_BYTES)
    except InputError:
        return None


def solved(grows: Callable[[int], float], target: float, low: int, high: int) -> int | None:
    """The size at which something that grows comes nearest to what was found; None if none does."""
    least, most = low, high
    if grows(most) < target or grows(least) > target:
        return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if grows(middle) <= target else (least, middle)
    return least if target - grows(least) <= grows(most) - target else most
