"""Memory footprint of a node: the whole, population by population, and while tables move.

What a node holds beside its data (itself, cluster state, connections, replication) is in
`layouts/generations.yaml` (`ServerBytes`): measured in fresh servers of Redis 2.8.19, 3.0.5, 3.2.6,
5.0.6, 6.2.11, 7.0.15, 8.0.6 and 8.6.3 and of Valkey 8.0.1, 8.1.1 and 9.1.2, as Debian builds them
or as a package bundles them. Other versions take those of the one that they are like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from forecache.sim.errors import InputError

from ..layouts.allocator import Allocator, size_class, untouched_bytes
from ..layouts.blocks import (
    Blocks,
    Content,
    hash_content,
    key_blocks,
    list_content,
    query_buffer_bytes,
    set_content,
    sorted_set_content,
    spare_room,
    stream_content,
    string_blocks,
    string_bytes,
)
from ..layouts.generations import Generation, generation
from ..layouts.tables import NO_TABLE, SLOTS, TableBytes, slot_tables_bytes, table_bytes
from .schema import Hashes, Lists, MemoryScenario, Population, Streams, Strings

# --- beside the data ------------------------------------------------------------------------------


PROCESS_BYTES, _PROCESS_WITH_LIBC_BYTES = 11.1e6, 5.5e6
"""Resident memory beyond used memory of a server without data (measured: 3 to 15 MB, by build)."""

PROCESS_RANGE_BYTES = (3.0e6, 15.5e6)
"""Of nine builds, the least and the most (evidence/live/footprint_check.py)."""

REPLICA_BYTES = 50_000.0
"""A replica's connection and its block of the stream (measured: 38 to 57 KB)."""

COMMAND_BYTES = 24_944.0
"""Histogram of latencies that each command in use has from Redis 7.0 on (latency-tracking;
measured)."""


def process_bytes(allocator: Allocator) -> float:
    """Resident memory beyond used memory: code, libraries, what the allocator keeps for itself."""
    return _PROCESS_WITH_LIBC_BYTES if allocator.startswith("libc") else PROCESS_BYTES


@dataclass(frozen=True)
class Baseline:
    """Bytes beside the data.

    Attributes
    ----------
    startup
        Of a server without data and connections.
    cluster
        State of the cluster and arrays of slots.
    clients
        Active connections.
    commands
        Statistics of the commands in use.
    replication
        Backlog and connections of replicas.
    clients_low, clients_high
        The same when all are idle; and when the reply buffer of each is full, and each keeps a
        query buffer for another argument as large as the largest.
    """

    startup: float
    cluster: float
    clients: float
    commands: float
    replication: float
    clients_low: float
    clients_high: float

    @property
    def total(self) -> float:
        """With active connections."""
        return self.startup + self.cluster + self.clients + self.commands + self.replication


def baseline(
    g: Generation,
    *,
    cluster: bool = False,
    databases: int = 16,
    clients: int = 1,
    commands: int = 2,
    replicas: int = 0,
    repl_backlog_bytes: int | None = None,
    argument_bytes: int = 0,
    allocator: Allocator | None = None,
) -> Baseline:
    """What a node of a generation holds beside its data.

    Parameters
    ----------
    argument_bytes
        The longest argument that clients send.
    allocator
        The engine's own without it.
    """
    server = g.server
    backlog = g.backlog_bytes if repl_backlog_bytes is None else repl_backlog_bytes
    tracked = g.packed == "listpack"
    # In cluster mode all keys are in the first.
    more_databases = 0 if cluster else databases - 1
    asked = query_buffer_bytes(g, argument_bytes)
    kept = size_class(asked, allocator or g.allocator) if asked else 0
    return Baseline(
        startup=server.startup + server.database * more_databases,
        cluster=server.cluster if cluster else 0.0,
        clients=clients * server.client,
        commands=commands * COMMAND_BYTES if tracked else 0.0,
        replication=(backlog + replicas * REPLICA_BYTES) if replicas else 0.0,
        clients_low=clients * server.idle_client,
        clients_high=clients * (server.client + server.reply_buffer + kept),
    )


# --- data -----------------------------------------------------------------------------------------


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
    described = {name: value for name, value in population if name not in _OF_ALL_TYPES}
    return KeyBytes(blocks, _CONTENTS[population.type](g, allocator, **described))


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


_CONTENTS: Mapping[str, Callable[..., Content]] = {
    "set": set_content,
    "hash": hash_content,
    "sorted_set": sorted_set_content,
    "list": list_content,
    "stream": stream_content,
}
"""By type of data; each takes the fields that describe a population of it, by their names."""

_OF_ALL_TYPES = ("type", "keys", "key_bytes", "ttl")


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
