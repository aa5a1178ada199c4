"""Which of some files are of nodes, which are RDB files, and which have `--bigkeys`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from forecache.hwprofiles.files import read_text
from forecache.sim.errors import InputError

from ..keyspace.big_keys import BigKeys, held_by, is_big_keys, parse_big_keys
from ..keyspace.groups import KeysHeld, held_in
from ..keyspace.rdb import About, RdbReader, is_rdb, open_rdb
from ..keyspace.values import Kind
from .nodes import TodaysNode, nodes_of


@dataclass(frozen=True)
class Told:
    """What files tell.

    Attributes
    ----------
    nodes
        Those that INFO is of.
    held
        The keys, by RDB files or else by `--bigkeys`; None without either.
    memory_bytes
        Of a key with its value, by type, on average: `--memkeys`.
    dumps, scans
        RDB files, and scans of nodes.
    """

    nodes: list[TodaysNode]
    held: KeysHeld | None = None
    memory_bytes: Mapping[Kind, float] = field(default_factory=dict)
    dumps: Sequence[About] = ()
    scans: int = 0


def read_files(
    files: Sequence[str | Path], *, progress: Callable[[str], None] | None = None
) -> Told:
    """Read files of nodes, RDB files, and what `--bigkeys` and `--memkeys` print, in any order.

    Raises
    ------
    InputError
        A file can't be read or is damaged.
    """
    texts: list[str | Path] = []
    readers: list[RdbReader] = []
    scans: list[BigKeys] = []
    for file in files:
        if is_rdb(file):
            readers.append(RdbReader(open_rdb(file), file=str(file)))
        elif is_big_keys(text := read_text(file)):
            scans.append(parse_big_keys(text, file=str(file)))
        else:
            texts.append(file)
    counted = [scan for scan in scans if not scan.of_memory]
    weighed = [scan for scan in scans if scan.of_memory]
    held = _held(readers, counted or weighed, progress)
    return Told(
        nodes_of(texts), held, _memory(weighed), [each.about for each in readers], len(scans)
    )


def _held(
    readers: Sequence[RdbReader],
    scans: Sequence[BigKeys],
    progress: Callable[[str], None] | None,
) -> KeysHeld | None:
    """The keys of all RDB files, or else of all scans."""
    if not readers:
        return held_by(scans) if scans else None
    if progress is not None:
        progress("reading RDB files")
    found = held_in(chain.from_iterable(readers), how="RDB")
    if not found.groups:
        raise InputError(f"{readers[0].file}: found no key; valid is an RDB file with keys.")
    return found


def _memory(scans: Sequence[BigKeys]) -> dict[Kind, float]:
    totals: dict[Kind, tuple[int, int]] = {}
    for each in (each for scan in scans for each in scan.types):
        keys, total = totals.get(each.kind, (0, 0))
        totals[each.kind] = keys + each.keys, total + each.total
    return {kind: total / keys for kind, (keys, total) in totals.items()}
