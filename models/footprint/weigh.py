"""Memory footprint of a node: the whole, population by population, and while tables move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from forecache.sim.errors import InputError

from ..layouts.allocator import Allocator
from ..layouts.collections import (
    Content,
    hash_content,
    list_content,
    set_content,
    sorted_set_content,
)
from ..layouts.generations import Generation, generation
from ..layouts.keys import Blocks, key_blocks, string_blocks
from ..layouts.tables import NO_TABLE, SLOTS, TableBytes, slot_tables_bytes, table_bytes
from .baseline import Baseline, baseline
from .schema import Hashes, Lists, MemoryScenario, Population, Sets, SortedSets, Strings

_SLOT_METADATA_BYTES = 16
"""What a table among others has beside its struct: its place in the list of those that move
(kvstore.c)."""


@dataclass(frozen=True)
class NodeFootprint:
    """Where data lies: rules, allocator, and in cluster mode the slots it serves."""

    generation: Generation
    allocator: Allocator
    slots: int | None = None
    """Slots served in cluster mode; None without."""

    @property
    def cluster(self) -> bool:
        """Whether cluster mode is on."""
        return self.slots is not None


class KeyBytes(NamedTuple):
    """What one key of a population weighs, without tables of keys.

    `content` is its collection's.
    """

    blocks: Blocks
    content: Content

    @property
    def settled(self) -> float:
        """When its collection's table has moved."""
        return self.blocks.total + self.content.items + self.content.table

    @property
    def moving(self) -> float:
        """While that table moves, if it ever did."""
        return self.settled + self.content.rehash


_NO_CONTENT = Content(0.0)


def key_weight(node: NodeFootprint, population: Population) -> KeyBytes:
    """What one key of a population weighs on average."""
    if population.ttl in (0.0, 1.0):
        return _key_weight(node, population, ttl=population.ttl > 0.0)
    without = _key_weight(node, population, ttl=False)
    having = _key_weight(node, population, ttl=True)
    share = population.ttl
    mixed = (
        (1.0 - share) * a + share * b for a, b in zip(without.blocks, having.blocks, strict=True)
    )
    return KeyBytes(Blocks(*mixed), without.content)


def _key_weight(node: NodeFootprint, population: Population, *, ttl: bool) -> KeyBytes:
    g, allocator, key_bytes = node.generation, node.allocator, population.key_bytes
    if isinstance(population, Strings):
        parts = [0.0] * len(Blocks._fields)
        for value_bytes, share in population.sizes:
            blocks = string_blocks(
                g,
                allocator,
                key_bytes=key_bytes,
                value_bytes=value_bytes,
                integers=population.integers,
                ttl=ttl,
                cluster=node.cluster,
            )
            for place, size in enumerate(blocks):
                parts[place] += share * size
        return KeyBytes(Blocks(*parts), _NO_CONTENT)
    blocks = key_blocks(g, allocator, key_bytes=key_bytes, ttl=ttl, cluster=node.cluster)
    return KeyBytes(blocks, _content(g, allocator, population))


def _content(
    g: Generation, allocator: Allocator, population: Sets | Hashes | SortedSets | Lists
) -> Content:
    match population:
        case Sets():
            return set_content(
                g,
                allocator,
                members=population.members,
                member_bytes=population.member_bytes,
                integers=population.integers,
            )
        case Hashes():
            return hash_content(
                g,
                allocator,
                fields=population.fields,
                field_bytes=population.field_bytes,
                value_bytes=population.value_bytes,
            )
        case SortedSets():
            return sorted_set_content(
                g,
                allocator,
                members=population.members,
                member_bytes=population.member_bytes,
                score_digits=population.score_digits,
            )
        case Lists():
            return list_content(
                g,
                allocator,
                elements=population.elements,
                element_bytes=population.element_bytes,
            )


def key_table(node: NodeFootprint, keys: float) -> TableBytes:
    """The node's tables for a number of keys: of all keys, or of those with a time to live."""
    g = node.generation
    if node.slots is not None and g.slots == "tables":
        struct = g.table_struct_bytes + _SLOT_METADATA_BYTES
        return slot_tables_bytes(
            g.table, keys, slots=node.slots, struct_bytes=struct, allocator=node.allocator
        )
    return table_bytes(g.table, round(keys), node.allocator) if keys > 0 else NO_TABLE


@dataclass(frozen=True)
class Weight:
    """Memory footprint of a node, in bytes.

    Attributes
    ----------
    keys
        Keys of each population on the node.
    per_key
        What one key of each weighs.
    table, expires_table
        Tables of all keys and of those with a time to live.
    beside
        What the node holds beside the data.
    """

    keys: tuple[float, ...]
    per_key: tuple[KeyBytes, ...]
    table: TableBytes
    expires_table: TableBytes
    beside: Baseline

    @property
    def _tables(self) -> float:
        return self.table.settled + self.expires_table.settled

    @property
    def used_bytes(self) -> float:
        """`used_memory` when all tables have moved."""
        return self.beside.total + self._tables + self._of_keys("settled")

    @property
    def rehashing_bytes(self) -> float:
        """The most it is while the last doubling of every table is under way."""
        moving = self.table.rehash + self.expires_table.rehash
        return self.beside.total + self._tables + moving + self._of_keys("moving")

    @property
    def low_bytes(self) -> float:
        """Settled, with idle connections."""
        return self.used_bytes - self.beside.clients + self.beside.clients_low

    @property
    def high_bytes(self) -> float:
        """While tables move, with the reply buffers of all connections full."""
        return self.rehashing_bytes - self.beside.clients + self.beside.clients_high

    def _of_keys(self, state: str) -> float:
        return sum(
            keys * float(getattr(each, state))
            for keys, each in zip(self.keys, self.per_key, strict=True)
        )


def node_of(scenario: MemoryScenario) -> NodeFootprint:
    """Where a scenario's data lies.

    Raises
    ------
    InputError
        The engine, or cluster mode of its version, isn't known.
    """
    g = generation(scenario.engine, scenario.engine_version)
    slots = None
    if scenario.cluster:
        check_cluster(g)
        slots = served_slots(scenario)
    return NodeFootprint(g, scenario.allocator or g.allocator, slots)


def served_slots(scenario: MemoryScenario) -> int:
    """Slots that a node of a scenario in cluster mode serves."""
    return scenario.slots_served or max(1, round(SLOTS / scenario.shards))


def check_cluster(g: Generation) -> None:
    """Refuse cluster mode where its index of keys isn't modelled.

    Raises
    ------
    InputError
        It isn't.
    """
    if g.slots is None:
        raise InputError(
            f"field 'cluster': found true; valid with {g.name} is false: up to Redis 6.2 a radix "
            "tree finds the keys of a slot, whose memory is not modelled."
        )


def beside_of(scenario: MemoryScenario, node: NodeFootprint) -> Baseline:
    """What a scenario's node holds beside its data."""
    return baseline(
        node.generation,
        cluster=node.cluster,
        databases=scenario.databases,
        clients=scenario.clients,
        commands=scenario.commands,
        replicas=scenario.replicas,
        repl_backlog_bytes=scenario.repl_backlog_bytes,
    )


def weigh(
    node: NodeFootprint,
    data: Sequence[Population],
    *,
    beside: Baseline | None = None,
    shards: int = 1,
) -> Weight:
    """Memory footprint of a node.

    Parameters
    ----------
    node
        Where it lies.
    data
        What lies there, population by population.
    beside
        What the node holds beside it; that of a node with one connection without it.
    shards
        Nodes that share the data evenly.
    """
    per_key = tuple(key_weight(node, population) for population in data)
    keys = tuple(population.keys / shards for population in data)
    return weigh_keys(
        node, data, keys, per_key, beside or baseline(node.generation, cluster=node.cluster)
    )


def weigh_keys(
    node: NodeFootprint,
    data: Sequence[Population],
    keys: tuple[float, ...],
    per_key: tuple[KeyBytes, ...],
    beside: Baseline,
) -> Weight:
    """The same for other counts of keys, whose weights are known: only tables are new."""
    expiring = sum(n * population.ttl for n, population in zip(keys, data, strict=True))
    return Weight(
        keys=keys,
        per_key=per_key,
        table=key_table(node, sum(keys)),
        expires_table=key_table(node, expiring),
        beside=beside,
    )
