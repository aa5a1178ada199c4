"""Memory footprint: used and resident memory, what fits, each population by part."""

from collections.abc import Sequence

from forecache.models.footprint.answers import (
    Fitting,
    MemoryAnswer,
    MemoryPoint,
    PopulationMemory,
)
from forecache.sim.statistics import Estimate

from ..document import Column, Document, Facts, Part, Section, Text, TextTable, Warnings, words
from ..text.formats import UNKNOWN, byte_size, count, estimate_text, plain
from ..text.settings import setting_name, setting_text, varying_keys
from ..tidy import sweep_table, tidy
from .curves import CurveQuantity, curve_figures

_PARTS = ("table", "entry", "key", "object", "value", "expires")
_BESIDE = {
    "startup": "the server itself",
    "cluster": "cluster state",
    "clients": "connections",
    "commands": "statistics of commands",
    "replication": "replication",
}
_LIMITS = {
    "maxmemory": "maxmemory",
    "memory": "what the machine leaves to the server",
    "managed node": "the node's maxmemory less what is reserved",
}
_LEGEND = (
    "Bytes per key; table: its share of the table of keys, value: with its collection's own table, "
    "expires: entry and share of the table of times to live."
)


def memory(answer: MemoryAnswer) -> Document:
    """A line per point where there are several, then the first, or only, point by part."""
    points, first = answer.points, answer.points[0]
    sections = []
    if len(points) > 1:
        used_bytes = [point.used_memory_bytes for point in points]
        drawn = CurveQuantity("used_memory_bytes", "Used memory", "bytes", used_bytes)
        figures = curve_figures([point.given for point in points], [drawn])
        sections.append(Section("", [*figures, _sweep(points)]))
    words = ", ".join(f"{key} {plain(value)}" for key, value in first.given.items())
    where = [Text(_where(first), "muted")] if len(points) > 1 else []
    title = f"With {words}" if where and words else ""
    sections.append(Section(title, [*where, *_point_parts(first)]))
    return Document(
        about="" if len(points) > 1 else _where(first),
        headline=_headline(points),
        sections=sections,
        tables={
            "points": lambda: sweep_table("memory", points, given=[p.given for p in points]),
            "populations": lambda: tidy(
                [
                    {
                        "point": number,
                        **point.given,
                        "type": population.type,
                        "keys": population.keys,
                        "bytes_per_key": population.bytes_per_key,
                        **{f"{name}_bytes_per_key": x for name, x in population.parts.items()},
                    }
                    for number, point in enumerate(points)
                    for population in point.populations
                ]
            ),
        },
    )


def _headline(points: Sequence[MemoryPoint]) -> str:
    """What is used; of a sweep the least and the most."""
    ordered = sorted(points, key=lambda point: point.used_memory_bytes.value)
    least, most = ordered[0], ordered[-1]
    used = f"{byte_size(least.used_memory_bytes.value)} used"
    if least is most:
        return f"{used} by {count(round(least.keys))} keys"
    highest = byte_size(most.used_memory_bytes.value)
    return f"{used} with {setting_text(least.given)}, {highest} with {setting_text(most.given)}"


def _sweep(points: Sequence[MemoryPoint]) -> TextTable:
    given = [point.given for point in points]
    keys = varying_keys(given)
    return TextTable(
        [
            *(Column(setting_name(key), [plain(x.get(key)) for x in given]) for key in keys),
            Column("used (95%)", list(map(_used, points))),
            Column("resident", [byte_size(point.resident_bytes) for point in points]),
            Column("forking", [byte_size(point.forked_bytes.value) for point in points]),
            Column("keys that fit", list(map(_fitting, points))),
        ],
        lead=len(keys),
    )


def _used(point: MemoryPoint) -> str:
    used = point.used_memory_bytes
    return estimate_text(used.value, used.low, used.high, "bytes")


def _fitting(point: MemoryPoint) -> str:
    fits = UNKNOWN if point.fits is None else _keys(point.fits.keys)
    return f"{fits}, too few" if point.room is not None and not point.room.fits else fits


def _where(point: MemoryPoint) -> str:
    engine, node = point.engine, point.node
    where = f"{engine.name} {engine.version}, {engine.allocator}"
    if node.cluster:
        where += f", {plain(node.slots)} slots"
        where += f", one of {node.shards} shards" if node.shards > 1 else ""
    return where


def _point_parts(point: MemoryPoint) -> list[Part]:
    shortfall = point.room.shortfall if point.room is not None else ""
    return [
        Warnings([*([shortfall] if shortfall else []), *point.warnings]),
        Facts(_facts(point)),
        _populations(point.populations),
        Text(_LEGEND, "muted"),
    ]


def _facts(point: MemoryPoint) -> list[tuple[str, str]]:
    beside = [
        f"{words} {byte_size(point.beside[name])}"
        for name, words in _BESIDE.items()
        if point.beside[name]
    ]
    forked = point.forked_bytes
    bounds = f"{byte_size(forked.low)} if nothing is written meanwhile, "
    bounds += f"{byte_size(forked.high)} if everything is"
    likely = "" if forked.value is None else f"{byte_size(forked.value)}; "
    ends = point.resident_low_bytes, point.resident_high_bytes
    return [
        ("Used memory", _used(point)),
        ("  of that", ", ".join(beside)),
        ("While tables move", byte_size(point.rehashing_bytes)),
        ("Resident", estimate_text(point.resident_bytes, *ends, "bytes")),
        ("While a child lives", f"{likely}{bounds}"),
        *([] if (lives := forked.child_s) is None else [("  which takes", _seconds(lives))]),
        ("Keys", _keys(point.keys)),
        *([] if point.fits is None else _fits_facts(point.fits)),
    ]


def _seconds(lives: Estimate) -> str:
    if lives.low == lives.high:
        return f"{lives.value:,.3g} s"
    return f"{lives.value:,.2g} s ({lives.low:,.2g} to {lives.high:,.2g})"


def _fits_facts(fits: Fitting) -> list[tuple[str, str]]:
    doubling = fits.next_doubling
    return [
        (
            "Keys that fit",
            f"{_keys(fits.keys)} ({_keys(fits.keys_low)} to {_keys(fits.keys_high)}) in "
            f"{byte_size(fits.limit_bytes)}, {_LIMITS[fits.limit]}; "
            f"{_keys(fits.keys_while_rehashing)} with room for tables to move",
        ),
        (
            "Tables double",
            f"at {_keys(doubling.keys)} keys: +{byte_size(doubling.adds_bytes)}, and "
            f"{byte_size(doubling.while_moving_bytes)} while they move",
        ),
    ]


def _populations(populations: Sequence[PopulationMemory]) -> TextTable:
    kinds = [population.type.replace("_", " ") for population in populations]
    return TextTable(
        [
            Column("keys", [_keys(population.keys) for population in populations]),
            words("of", kinds),
            *(Column(name, [_bytes(each.parts[name]) for each in populations]) for name in _PARTS),
            Column("bytes/key", [_bytes(each.bytes_per_key) for each in populations]),
        ],
        lead=2,
    )


def _bytes(size: float) -> str:
    if size == 0:
        return "0"
    return f"{size:.1f}" if size < 100 and size != round(size) else count(round(size))


def _keys(keys: float) -> str:
    """`18.0 M`; small counts in full."""
    for unit, symbol in ((1e9, " G"), (1e6, " M")):
        if keys >= unit:
            return f"{keys / unit:.3g}{symbol}"
    return count(round(keys))
