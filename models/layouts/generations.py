"""What each version of an engine keeps in memory for a key, a table, a collection, a connection.

Read for behaviour and constants in dict.c, hashtable.c, kvstore.c, object.c, entry.c, quicklist.c,
t_hash.c, t_set.c, t_zset.c, networking.c and config.c of Redis 2.8.6, 6.2, 7.0.15 and 7.4 and of
Valkey 7.2.5, 8.0.1, 8.1.0, 9.0.0 and 9.1.0. Of Redis 8.2 to 8.6 only what is written about them:
key and small value share an object as in Valkey 8.1 (object.c), which hangs in its bucket (dict.c);
nothing of it was checked live. Hashes and sorted sets of 8.6, up to 16.7 and 30.5% smaller than
those of 8.4 by its announcement, are taken for those of 8.4. What a server holds
before the first key is measured, see `baseline`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Literal

from forecache.hwprofiles.files import did_you_mean, parse, read_yaml
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError

from ..scenario.versions import is_newer, newest, taken_as_newest
from .allocator import Allocator
from .tables import TableKind

KeyLayout = Literal[
    "objects",
    "dict",
    "dict_embedded_key",
    "dict_embedded_value",
    "hashtable",
    "hashtable_embedded_value",
]
"""How a key and its value hang together: every string an object (Redis 2.8); entry, key and object
apart; the key inside the entry; key and small value inside the object, with a dict and with a
hashtable; and the value in the place of the pointer to it."""


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
    packed
        What small collections are packed in.
    packed_sets
        Members up to which a set of strings is packed (set-max-listpack-entries); 0 for never.
    set_table
        How a large set keeps its members: `objects`, `entries` of a dict, `direct` (a lone member
        of a bucket needs no entry), or `members` in a hashtable.
    hash_table
        How a large hash keeps a field: `objects`, `entries`, `beside` (field with a pointer to its
        value), or `inside` (with the value, if both are small).
    sorted_set_table
        `objects`, `entries` with nodes that point to the member, `nodes` in a hashtable that point
        to it, or `inside`: nodes with the member.
    lists
        `linked` (a ziplist while small, then a linked list), `quicklist`, or `packed_first` (a
        listpack while small, then a quicklist).
    list_node_bytes
        Of a quicklist's node.
    quicklist_margin_bytes
        By how much a new element is overestimated when a node is asked whether it takes it.
    skip_list_header_bytes
        The header node has room for all levels (ZSKIPLIST_MAXLEVEL).
    backlog_bytes
        repl-backlog-size by default.
    """

    engine: str
    versions: tuple[str, ...]
    keys: KeyLayout
    allocator: Allocator
    table_struct_bytes: int
    slots: Literal["links", "tables"] | None
    packed: Literal["ziplist", "listpack"]
    packed_sets: int
    set_table: Literal["objects", "entries", "direct", "members"]
    hash_table: Literal["objects", "entries", "beside", "inside"]
    sorted_set_table: Literal["objects", "entries", "nodes", "inside"]
    lists: Literal["linked", "quicklist", "packed_first"]
    list_node_bytes: int
    quicklist_margin_bytes: int
    skip_list_header_bytes: int
    backlog_bytes: int

    @property
    def table(self) -> TableKind:
        """Kind of the tables of keys."""
        return "dict_direct" if self.keys == "dict_embedded_value" else self.collection_table

    @property
    def collection_table(self) -> TableKind:
        """Kind of the tables of fields, members of sorted sets and, but for `direct`, of sets."""
        return "hashtable" if self.keys.startswith("hashtable") else "dict"

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
        one = parse(Generation, {**base, **row}, file=file)
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
    found = next(
        (each for each in same for known in _spellings(asked) if known in each.versions), None
    )
    if found is None and taken_as(engine, version) is not None:
        return same[-1]
    if found is None:
        valid = ", ".join(known for each in same for known in sorted(each.versions))
        raise InputError(
            f"field 'engine_version': found {version!r}; valid for the memory of {engine} are "
            f"{valid}."
        )
    return found


def taken_as(engine: str, version: str | None) -> str | None:
    """What to say of a version that is newer than all known ones of an engine; None of others."""
    name = _MANAGED.get(engine, engine)
    known = [each for g in GENERATIONS if g.engine == name for each in g.versions]
    if version is None or not known or not is_newer(version, known):
        return None
    return taken_as_newest(engine, version, newest(known))


def _spellings(version: str) -> Iterator[str]:
    """`8.0.1`, then `8.0`."""
    yield version
    if version.count(".") >= 2:
        yield ".".join(version.split(".")[:2])
