"""Memory footprint, in a terminal: used and resident memory, what fits, each population by part."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from forecache.models.footprint.answers import (
    Fitting,
    ForkedMemory,
    MemoryAnswer,
    MemoryPoint,
    PopulationMemory,
)

from ..text.formats import UNKNOWN, byte_size, count, plain
from ..text.quantities import estimate_text
from ..text.settings import setting_name, varying_keys
from .columns import Column, print_columns
from .console import print_warning

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


def print_memory(answer: MemoryAnswer, console: Console) -> None:
    """Print what `forecache memory` found: a line per point where there are several, then the
    first, or only, point by part."""
    first = answer.points[0]
    if len(answer.points) > 1:
        _print_sweep(answer.points, console)
        console.print()
        if first.given:
            words = ", ".join(f"{key} {plain(value)}" for key, value in first.given.items())
            console.print(Text(f"With {words}", style="bold"))
    _print_point(first, console)


def _print_sweep(points: list[MemoryPoint], console: Console) -> None:
    def of(name: str, cells: Iterable[str]) -> Column:
        return Column(name, list(cells))

    given = [point.given for point in points]
    keys = varying_keys(given)
    columns = [
        *(of(setting_name(key), (plain(each.get(key)) for each in given)) for key in keys),
        of("used (95%)", map(_used, points)),
        of("resident", (byte_size(point.resident_bytes) for point in points)),
        of("forking", (byte_size(point.forked_bytes.value) for point in points)),
        of("keys that fit", map(_fitting, points)),
    ]
    print_columns(columns, console, lead=len(keys))


def _used(point: MemoryPoint) -> str:
    used = point.used_memory_bytes
    return estimate_text(used.value, used.low, used.high, "bytes")


def _fitting(point: MemoryPoint) -> str:
    fits = UNKNOWN if point.fits is None else _keys(point.fits.keys)
    return f"{fits}, too few" if point.room is not None and not point.room.fits else fits


def _print_point(point: MemoryPoint, console: Console) -> None:
    engine, node = point.engine, point.node
    where = f"{engine.name} {engine.version}, {engine.allocator}"
    if node.cluster:
        where += f", {plain(node.slots)} slots"
        where += f", one of {node.shards} shards" if node.shards > 1 else ""
    console.print(Text(where, style="dim"))
    if point.room is not None and point.room.shortfall:
        print_warning(point.room.shortfall, console)
    for warning in point.warnings:
        print_warning(warning, console)
    _print_facts(point, console)
    console.print()
    _print_populations(point.populations, console)
    console.print(Text(_LEGEND, style="dim"))


def _print_facts(point: MemoryPoint, console: Console) -> None:
    beside = [
        f"{words} {byte_size(point.beside[name])}"
        for name, words in _BESIDE.items()
        if point.beside[name]
    ]
    lines = [
        (
            "Used memory",
            _used(point),
        ),
        ("  of that", ", ".join(beside)),
        ("While tables move", byte_size(point.rehashing_bytes)),
        ("Resident", _resident(point)),
        ("While a child lives", _forked(point.forked_bytes)),
        ("Keys", _keys(point.keys)),
    ]
    if point.fits is not None:
        lines += _fits_lines(point.fits)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for name, text in lines:
        table.add_row(Text(name), Text(text))
    console.print(table)


def _resident(point: MemoryPoint) -> str:
    ends = point.resident_low_bytes, point.resident_high_bytes
    return estimate_text(point.resident_bytes, *ends, "bytes")


def _fits_lines(fits: Fitting) -> list[tuple[str, str]]:
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


def _forked(forked: ForkedMemory) -> str:
    bounds = f"{byte_size(forked.low)} if nothing is written meanwhile, "
    bounds += f"{byte_size(forked.high)} if everything is"
    return bounds if forked.value is None else f"{byte_size(forked.value)}; {bounds}"


def _print_populations(populations: list[PopulationMemory], console: Console) -> None:
    kinds = [population.type.replace("_", " ") for population in populations]
    columns = [
        Column("keys", [_keys(population.keys) for population in populations]),
        Column("of", kinds, to_the_right=False),
        *(Column(name, [_bytes(each.parts[name]) for each in populations]) for name in _PARTS),
        Column("bytes/key", [_bytes(each.bytes_per_key) for each in populations]),
    ]
    print_columns(columns, console, lead=2)


def _bytes(size: float) -> str:
    if size == 0:
        return "0"
    return f"{size:.1f}" if size < 100 and size != round(size) else count(round(size))


def _keys(keys: float) -> str:
    """`18.0 M`; small counts in full."""
    for unit, symbol in ((1e9, " G"), (1e6, " M"), (1e4, "")):
        if keys >= unit and symbol:
            return f"{keys / unit:.3g}{symbol}"
    return count(round(keys))
