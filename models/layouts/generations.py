"""What each version of an engine keeps in memory for a key, a table, a collection, a connection.

Read for behaviour and constants in dict.c, hashtable.c, kvstore.c, object.c, entry.c, quicklist.c,
t_hash.c, t_set.c, t_zset.c, networking.c and config.c of Redis 2.6.17, 2.8.6, 3.0.5, 3.2.6,
4.0.14, 5.0.6, 6.2, 7.0.15, 7.4, 8.0 and 8.6 and of Valkey 7.2.5, 8.0.1, 8.1, 9.0.0 and 9.1.0. Of
Redis 8.2 and 8.4 only what is written about them: key and small value share an object as in Valkey
8.1 (object.c), which hangs in its bucket (dict.c). What a server holds before the first key is
measured, see `ServerBytes`. By how much live servers differ from all this is in
`footprint/errors.yaml`.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Literal

from forecache.hwprofiles.files import did_you_mean, parse, read_yaml
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError

from ..scenario.versions import find_version, is_newer, newest, taken_as_newest
from .allocator import Allocator
from .tables import TableKind

KeyLayout = Literal[
    "objects",
    "objects_embedded",
    "dict",
    "dict_embedded_key",
    "dict_embedded_value",
    "hashtable",
    "hashtable_embedded_value",
]
"""How a key and its value hang together: every value an object and a string apart (Redis 2.8), but
for short ones inside their objects (3.0); the same with headers of strings as short as their length
allows (from 3.2 on); the key inside the entry; key and small value inside the object, with a dict
and with a hashtable; and the value in the place of the pointer to it."""


class ServerBytes(Record):
    """What a server holds beside its data, in bytes; measured in fresh servers (INFO memory).

    Attributes
    ----------
    startup
        Without clients, with one database (used_memory_startup).
    database
        Of each further one.
    cluster
        What cluster mode adds: state of the cluster and arrays of slots.
    client, idle_client
        A connection that has just been active, without what its reply buffer may hold then, and one
        that waits.
    reply_buffer
        What the reply buffer of an active connection may take besides.
    """

    startup: float
    database: float
    cluster: float
    client: float
    idle_client: float
    reply_buffer: float


class Generation(Record):
    """Rules and constants of one version.

    Attributes
    ----------
    keys
        How keys and values lie.
    allocator
        The one that comes with the engine.
    table_struct_bytes
        Of a table, beside its arrays.
    slots
        What cluster mode adds to find the keys of a slot: two `links` in each entry, or `tables`,
        one for each slot. None where it isn't modelled: a radix tree of keys up to Redis 6.2.
    slot_metadata_bytes, slot_expires_metadata_bytes
        What each slot's table of keys, and of keys with a time to live, has beside its struct: its
        place in the list of those that move (kvstore.c), in Redis from 8.0 on also histograms of
        sizes (5 types of 60 counters).
    packed
        What small collections are packed in.
    packed_sets
        Members up to which a set of strings is packed (set-max-listpack-entries); 0 for never.
    set_table
        How a large set keeps its members: `objects`, `entries` of a dict, `direct` (a lone member
        of a bucket needs no entry), or `members` in a hashtable.
    hash_table
        How a large hash keeps a field: `objects`, `entries`, or `inside` (with the value, if both
        are small).
    sorted_set_table
        `objects`, `entries` with nodes that point to the member, `nodes` in a hashtable that point
        to it, or `inside`: nodes with the member.
    numbers_keep_room
        Whether a whole number keeps the block of the short string that it came as
        (tryObjectEncoding in object.c, Redis 3.0 to 4.0).
    lists
        `linked` (a ziplist while small, then a linked list), `quicklist`, or `packed_first` (a
        listpack while small, then a quicklist).
    quicklist_bytes, list_node_bytes
        Of a quicklist's struct and of a node.
    quicklist_margin_bytes
        By how much a new element is overestimated when a node is asked whether it takes it.
    skip_list_bytes, skip_list_header_bytes
        A skip list's struct, and its header node, which has room for all levels
        (ZSKIPLIST_MAXLEVEL).
    large_arguments
        How a connection makes room for an argument of 32 KiB or more, which becomes the value
        itself (`blocks.py`): `grown` ahead for it and for the next one, `first_grown` for it while
        the next one gets `exact` room, or always `exact`.
    trims_strings
        Whether SET gives back spare room of more than a tenth (tryObjectEncoding in object.c, from
        Redis 2.6.16 on).
    backlog_bytes
        repl-backlog-size by default.
    server
        What it holds beside its data.
    server_measured
        Whether that was measured on this very version.
    """

    engine: str
    versions: tuple[str, ...]
    keys: KeyLayout
    allocator: Allocator
    table_struct_bytes: int
    slots: Literal["links", "tables"] | None
    slot_metadata_bytes: int
    slot_expires_metadata_bytes: int
    packed: Literal["ziplist", "listpack"]
    packed_sets: int
    set_table: Literal["objects", "entries", "direct", "members"]
    hash_table: Literal["objects", "entries", "inside"]
    sorted_set_table: Literal["objects", "entries", "nodes", "inside"]
    numbers_keep_room: bool
    lists: Literal["linked", "quicklist", "packed_first"]
    quicklist_bytes: int
    list_node_bytes: int
    quicklist_margin_bytes: int
    skip_list_bytes: int
    skip_list_header_bytes: int
    large_arguments: Literal["grown", "first_grown", "exact"]
    trims_strings: bool
    backlog_bytes: int
    server: ServerBytes
    server_measured: bool

    @property
    def table(self) -> TableKind:
        """Kind of the tables of keys."""
        return "dict_direct" if self.keys == "dict_embedded_value" else self.collection_table

    @property
    def collection_table(self) -> TableKind:
        """Kind of the tables of collections, but for those of a dict without entries."""
        return "hashtable" if self.keys.startswith("hashtable") else "dict"

    @property
    def field_table(self) -> TableKind:
        """Kind of the tables of fields."""
        return self._table_of(direct=self.hash_table == "inside")

    @property
    def member_table(self) -> TableKind:
        """Kind of the tables of members of sorted sets."""
        return self._table_of(direct=self.sorted_set_table == "inside")

    def _table_of(self, *, direct: bool) -> TableKind:
        kind = self.collection_table
        return "dict_direct" if direct and kind == "dict" else kind

    @property
    def key_in_object(self) -> bool:
        """Whether an object holds its key, and there is no entry."""
        return self.keys in ("dict_embedded_value", "hashtable", "hashtable_embedded_value")

    @property
    def name(self) -> str:
        """`valkey 8.1`."""
        return f"{self.engine} {self.versions[0]}"


def _read() -> tuple[Generation, ...]:
    """All versions, each completed by the one it is like."""
    file = Path(str(resources.files(__package__) / "generations.yaml"))
    found: dict[str, Generation] = {}
    for row in read_yaml(file)["generations"]:
        like = row.pop("like", None)
        base = {} if like is None else found[like].model_dump()
        measured = {"server_measured": "server" in row}
        one = parse(Generation, {**base, **measured, **row}, file=file)
        found[one.name] = one
    return tuple(found.values())


GENERATIONS = _read()
"""Oldest first, engine by engine."""

_MANAGED = {"elasticache-redis": "redis", "elasticache-valkey": "valkey"}
"""Managed engines are taken for the open ones they come from: what they add isn't public."""

_MANAGED_VERSIONS = {"7.1": "7.0"}
"""ElastiCache for Redis 7.1 comes from Redis 7.0."""


def is_managed(engine: str) -> bool:
    """Whether an engine is a service's own, whose additions aren't known."""
    return engine in _MANAGED


def engines() -> list[str]:
    """Names of engines that have a footprint."""
    return sorted({each.engine for each in GENERATIONS} | set(_MANAGED))


def generation(engine: str, version: str | None = None) -> Generation:
    """The rules of an engine's version; of the newest known without a version.

    A release has the rules of its version: `8.0.1` those of `8.0`. A version newer than all known
    ones has those of the newest (`taken_as`).

    Raises
    ------
    InputError
        The engine or its version has no known layout.
    """
    name = _MANAGED.get(engine, engine)
    same = [each for each in GENERATIONS if each.engine == name]
    if not same:
        raise InputError(f"field 'engine': found {engine!r}; {did_you_mean(engine, engines())}")
    if version is None:
        return same[-1]
    asked = _MANAGED_VERSIONS.get(version, version) if engine in _MANAGED else version
    by_version = {known: each for each in same for known in each.versions}
    found = find_version(asked, by_version)
    if found is None:
        valid = ", ".join(known for each in same for known in sorted(each.versions))
        raise InputError(
            f"field 'engine_version': found {version!r}; valid for the memory of {engine} are "
            f"{valid}."
        )
    return by_version[found]


@lru_cache(maxsize=256)
def taken_as(engine: str, version: str | None) -> str | None:
    """What to say of a version that is newer than all known ones of an engine; None of others."""
    name = _MANAGED.get(engine, engine)
    known = [each for g in GENERATIONS if g.engine == name for each in g.versions]
    if version is None or not known or not is_newer(version, known):
        return None
    return taken_as_newest(engine, version, newest(known))
