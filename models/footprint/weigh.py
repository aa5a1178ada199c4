"""Memory footprint of a node: the whole, population by population, and while tables move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from forecache.sim.errors import InputError

from ..layouts.allocator import Allocator, untouched_bytes
from ..layouts.collections import (
    Content,
    hash_content,
    list_content,
    set_content,
    sorted_set_content,
    stream_content,
)
from ..layouts.generations import Generation, generation
from ..layouts.keys import Blocks, key_blocks, string_blocks
from ..layouts.strings import spare_room, string_bytes
from ..layouts.tables import NO_TABLE, SLOTS, TableBytes, slot_tables_bytes, table_bytes
from .baseline import Baseline, baseline
from .schema import (
    Hashes,
    Lists,
    MemoryScenario,
    Population,
    Sets,
    SortedSets,
    Streams,
    Strings,
)


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
    """What one key of a population weighs on average, without tables of keys.

    `content` is its collection's. Of a string, `fewer` and `more` are by how much its spare room
    may be off, and `untouched` the pages of it, and of its block, that nothing was written to.
    """

    blocks: Blocks
    content: Content
    fewer: float = 0.0
    more: float = 0.0
    untouched: float = 0.0

    @property
    def settled(self) -> float:
        """When its collection's table has moved."""
        return self.blocks.total + self.content.items + self.content.table

    @property
    def rehashing(self) -> float:
        """While that table moves, if it ever did."""
        return self.settled + self.content.rehash

    @property
    def least(self) -> float:
        """Settled, with the least spare room."""
        return self.settled - self.fewer

    @property
    def most(self) -> float:
        """With the most spare room, while the table moves if it still may."""
        return self.settled + self.more + self.content.moving

    @property
    def most_rehashing(self) -> float:
        """The same whether or not the table still may move."""
        return self.rehashing + self.more


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
    return without._replace(blocks=Blocks(*mixed))


def _key_weight(node: NodeFootprint, population: Population, *, ttl: bool) -> KeyBytes:
    g, allocator, key_bytes = node.generation, node.allocator, population.key_bytes
    if isinstance(population, Strings):
        return _string_weight(node, population, ttl=ttl)
    blocks = key_blocks(g, allocator, key_bytes=key_bytes, ttl=ttl, cluster=node.cluster)
    return KeyBytes(blocks, _content(g, allocator, population))


def _string_weight(node: NodeFootprint, population: Strings, *, ttl: bool) -> KeyBytes:
    """The mean over the sizes of values."""
    g, allocator = node.generation, node.allocator
    parts, fewer, more, untouched = [0.0] * len(Blocks._fields), 0.0, 0.0, 0.0
    for value_bytes, share in population.sizes:

        def with_room(spare_bytes: int, value_bytes: int = value_bytes) -> Blocks:
            return string_blocks(
                g,
                allocator,
                key_bytes=population.key_bytes,
                value_bytes=value_bytes,
                integers=population.integers,
                ttl=ttl,
                cluster=node.cluster,
                spare_bytes=spare_bytes,
            )

        room = spare_room(g, value_bytes)
        blocks = with_room(room.usual)
        for place, size in enumerate(blocks):
            parts[place] += share * size
        fewer += share * (blocks.value - with_room(room.least).value)
        more += share * (with_room(room.most).value - blocks.value)
        touched = string_bytes(g.keys, value_bytes)
        untouched += share * untouched_bytes(int(blocks.value), touched)
    return KeyBytes(Blocks(*parts), _NO_CONTENT, fewer, more, untouched)


def _content(
    g: Generation, allocator: Allocator, population: Sets | Hashes | SortedSets | Lists | Streams
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
        case Streams():
            return stream_content(
                allocator,
                entries=population.entries,
                field_bytes=population.field_bytes,
                value_bytes=population.value_bytes,
            )


def key_table(node: NodeFootprint, keys: float, *, expires: bool = False) -> TableBytes:
    """The node's tables for a number of keys: of all keys, or of those with a time to live."""
    g = node.generation
    if node.slots is not None and g.slots == "tables":
        metadata = g.slot_expires_metadata_bytes if expires else g.slot_metadata_bytes
        struct = g.table_struct_bytes + metadata
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
    def tables(self) -> float:
        """Tables of keys that have moved."""
        return self.table.settled + self.expires_table.settled

    @property
    def used_bytes(self) -> float:
        """`used_memory` when all tables have moved."""
        return self.beside.total + self.tables + self._of_keys("settled")

    @property
    def rehashing_bytes(self) -> float:
        """The most it is while the last doubling of every table is under way."""
        moving = self.table.rehash + self.expires_table.rehash
        return self.beside.total + self.tables + moving + self._of_keys("rehashing")

    @property
    def least_bytes(self) -> float:
        """Settled, with idle connections and the least spare room in strings."""
        fixed = self.beside.total - self.beside.clients + self.beside.clients_low
        return fixed + self.tables + self._of_keys("least")

    def most_bytes(self, *, stalled: bool = False) -> float:
        """The most it may be now.

        Tables move if they still may, the buffers of all connections are full, and strings have the
        most spare room.

        Parameters
        ----------
        stalled
            Whether moves may stand still for a while, as during the life of a child
            (dict_can_resize in dict.c): then any table may be moving.
        """
        fixed = self.beside.total - self.beside.clients + self.beside.clients_high
        tables = (self.table, self.expires_table)
        moving = sum(each.rehash if stalled else each.moving for each in tables)
        return fixed + self.tables + moving + self._of_keys("most_rehashing" if stalled else "most")

    @property
    def untouched_bytes(self) -> float:
        """Of used memory, what is never written to and so not resident: ends of large blocks."""
        return self._of_keys("untouched")

    def _of_keys(self, state: str) -> float:
        return sum(
            keys * float(getattr(each, state))
            for keys, each in zip(self.keys, self.per_key, strict=True)
        )


def node_of(scenario: MemoryScenario) -> NodeFootprint:
    """Where a scenario's data lies."""
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
    """Refuse cluster mode where its index of keys isn't modelled."""
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
        argument_bytes=max(map(_longest_argument, scenario.data)),
        allocator=node.allocator,
    )


def _longest_argument(population: Population) -> int:
    """The longest argument with which a population is written."""
    match population:
        case Strings():
            return 0 if population.integers else max(size for size, _ in population.sizes)
        case Hashes() | Streams():
            return max(population.field_bytes, population.value_bytes)
        case Lists():
            return population.element_bytes
        case _:
            return population.member_bytes


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
        expires_table=key_table(node, expiring, expires=True),
        beside=beside,
    )
