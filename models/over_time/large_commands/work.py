"""The work of large commands per member, by engine version: files in `engines/`.

Instructions were counted (`evidence/counts/large_command_counts.py`); the memory a command waits
for is described in `touches`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import parse, read_yaml, shipped
from forecache.hwprofiles.quantity import Quantity, Source, ranges_of
from forecache.hwprofiles.record import Record as _Record
from forecache.sim.errors import InputError

from ...prediction.uncertainty import Drawn, draw_ranges
from ...results.intervals import RelativeError
from ...scenario.versions import is_newer, newest

Layout = Literal["objects", "dict", "hashtable"]
"""How members lie in memory: Redis to 3.2 (entry, object, string), Redis 4 to 7.4 and Valkey to 8.0
(entry, string), Valkey 8.1 on (a bucket of seven, string)."""

Growth = Literal["whole_copies", "size_classes"]

COUNTED = (
    *("import_inline", "import_protocol", "smembers", "sinter_same", "sinter_equal"),
    *("sinter_disjoint", "sunion_same", "sunion_equal", "sunion_disjoint", "sdiff_same"),
    *("sdiff_equal", "sdiff_disjoint", "flushdb", "keys"),
)
"""Commands that are counted: `same` names one key twice, `equal` two keys with the same members."""

_BUCKET_SLOTS = 7
"""Entries of a bucket of Valkey's table (hashtable.c)."""


class Counted(_Record):
    """Instructions per member, per byte of a member, and per entry that a growing table moves."""

    member: Quantity
    byte: Quantity
    moved: Quantity | None = None


class ClientWork(_Record):
    """What the command-line client of that version does with a reply, and to send a bulk load."""

    reply: Counted
    pipe: Counted
    growth: Growth
    """How the text it prints grows: its string gets a MiB at a time, for which jemalloc before 4.0
    copies all of it once per chunk of 4 MiB (huge_ralloc), and later ones once per size class."""

    def drawn(self, draw: Drawn) -> ClientWork:
        """The same with each counted number drawn within its range."""
        parts = {
            name: _drawn(getattr(self, name), f"client.{name}", draw) for name in ("reply", "pipe")
        }
        return self.model_copy(update=parts)


def _drawn(work: Counted, part: str, draw: Drawn) -> Counted:
    leaves = {name: leaf for name, leaf in work if leaf is not None}
    drawn = draw_ranges(part, ranges_of(leaves), draw)
    return work.model_copy(
        update={
            name: leaves[name].model_copy(update={"value": value}) for name, value in drawn.items()
        }
    )


class LargeErrors(_Record):
    """How far off an engine's commands were, of those that were measured; nothing is fitted to
    them."""

    main_thread: RelativeError
    """CPU time of the main thread."""
    lasts: RelativeError
    """Time until the client has printed all of it."""


class LargeWork(_Record):
    """One engine version."""

    id: str
    engine: str
    version: str
    versions: list[str]
    """Versions of this engine that it stands for; others of `relatives` besides."""
    relatives: dict[str, list[str]] = Field(default={})
    layout: Layout
    lazy_free: bool
    """Whether FLUSHDB can free in the background."""
    lazy_free_default: bool = False
    """Whether it does so unless told otherwise."""
    sources: dict[str, Source]
    instructions: dict[str, Counted]
    client: ClientWork | None = None
    errors: LargeErrors

    @model_validator(mode="after")
    def _complete(self) -> LargeWork:
        different = set(COUNTED) ^ set(self.instructions)
        if different:
            raise ValueError(f"one entry under instructions for each command: {min(different)}")
        return self

    def drawn(self, draw: Drawn) -> LargeWork:
        """The same with each counted number drawn within its range."""
        client = self.client
        counted = {
            name: _drawn(work, f"large commands.{name}", draw)
            for name, work in self.instructions.items()
        }
        changed: dict[str, Any] = {"instructions": counted}
        if client is not None:
            changed["client"] = client.drawn(draw)
        return self.model_copy(update=changed)

    def instructions_of(
        self, command: str, *, members: float, member_bytes: float, built: float = 0.0
    ) -> float:
        """Instructions of a counted command.

        Parameters
        ----------
        members
            Of the first set; of all that is freed, found or loaded for `flushdb`, `keys` and
            imports.
        built
            Members of a table that the command fills.
        """
        work = self.instructions[command]
        total = members * (work.member.best + work.byte.best * member_bytes)
        if work.moved is not None:
            total += work.moved.best * moved_entries(self.layout, built)
        return max(0.0, total)


def buckets_of(layout: Layout, members: float) -> float:
    """Buckets of a table, by its number of entries (dict.c, hashtable.c)."""
    slots = _BUCKET_SLOTS if layout == "hashtable" else 1
    return float(2 ** max(2, math.ceil(math.log2(max(1.0, members / slots)))))


def moved_entries(layout: Layout, members: float) -> float:
    """Entries that a table moved while it grew to its size, one by one.

    Each addition moves a bucket. A dict of Redis doubles when it has as many entries as buckets, so
    a bucket has one entry, and the move ends when the next one begins: a dict that is filled moves
    one entry per addition all the time, and is halfway through when it stops. Valkey's table
    doubles at seven entries a bucket and has moved all of them a seventh of the way to the next.
    """
    if members < 1:
        return 0.0
    if layout == "hashtable":
        return _BUCKET_SLOTS * max(0.0, buckets_of(layout, members) - 1.0)
    return max(0.0, members - 4.0)


@dataclass(frozen=True)
class Chosen:
    """The work to use for a version, and whether it was counted on that very one."""

    work: LargeWork
    counted: bool
    taken_as: str | None = None
    """The newest known version, where the one that was asked for is newer than that."""


@lru_cache(maxsize=1)
def all_work() -> Mapping[str, LargeWork]:
    """All shipped files by id."""
    files = shipped("forecache.models.over_time.large_commands", "engines")
    return {name: parse(LargeWork, read_yaml(files[name]), file=files[name]) for name in files}


def load_work(engine: str, version: str) -> Chosen:
    """The work of an engine version; that of the newest known for one that is newer than it.

    Raises
    ------
    InputError
        Nothing like it was counted.
    """

    def fits(known: str) -> bool:
        return version == known or version.startswith(known + ".")

    for work in all_work().values():
        if work.engine == engine and fits(work.version):
            return Chosen(work, counted=True)
    for work in all_work().values():
        names = work.relatives.get(engine, []) + (work.versions if work.engine == engine else [])
        if any(fits(name) for name in names):
            return Chosen(work, counted=False)
    known: dict[str, set[str]] = {}
    for work in all_work().values():
        known.setdefault(work.engine, set()).update([work.version, *work.versions])
        for name, versions in work.relatives.items():
            known.setdefault(name, set()).update(versions)
    others = "; the work of large commands on other versions was not counted."
    if engine not in known:
        raise InputError(
            f"field 'engine': found {engine!r}; valid is one of {', '.join(sorted(known))}{others}"
        )
    if is_newer(version, known[engine]):
        latest = newest(known[engine])
        return replace(load_work(engine, latest), counted=False, taken_as=latest)
    valid = ", ".join(sorted(known[engine], key=_as_numbers))
    raise InputError(
        f"field 'engine_version': found {version!r}; valid for {engine} is one of {valid}{others}"
    )


def _as_numbers(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]
