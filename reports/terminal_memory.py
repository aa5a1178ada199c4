"""Memory footprint, in a terminal: used and resident memory, what fits, each population by part."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .columns import Column, print_columns
from .console import print_warning
from .formats import UNKNOWN, byte_size, count, plain
from .settings import setting_name, varying_keys
from .shapes import Json, mapping, number, rows

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


def print_memory(result: Json, console: Console) -> None:
    """Print what `forecache memory` found: a line per point where there are several, then the
    first, or only, point by part."""
    points = rows(result, "points")
    if len(points) > 1:
        _print_sweep(points, console)
        console.print()
        given = mapping(points[0], "given")
        if given:
            words = ", ".join(f"{key} {plain(value)}" for key, value in given.items())
            console.print(Text(f"With {words}", style="bold"))
    if points:
        _print_point(points[0], console)


def _print_sweep(points: list[Json], console: Console) -> None:
    def of(name: str, cells: Iterable[str]) -> Column:
        return Column(name, list(cells))

    given = [mapping(point, "given") for point in points]
    keys = varying_keys(given)
    used = [number(mapping(point, "used_memory_bytes"), "value") for point in points]
    forked = [number(mapping(point, "forked_bytes"), "value") for point in points]
    columns = [
        *(of(setting_name(key), (plain(each.get(key)) for each in given)) for key in keys),
        of("used", map(byte_size, used)),
        of("resident", (byte_size(number(point, "resident_bytes")) for point in points)),
        of("forking", map(byte_size, forked)),
        of("keys that fit", map(_fitting, points)),
    ]
    print_columns(columns, console, lead=len(keys))


def _fitting(point: Json) -> str:
    fits = _keys(number(mapping(point, "fits"), "keys"))
    return f"{fits}, too few" if mapping(point, "room").get("fits") is False else fits


def _print_point(point: Json, console: Console) -> None:
    engine, node = mapping(point, "engine"), mapping(point, "node")
    where = f"{engine.get('name')} {engine.get('version')}, {engine.get('allocator')}"
    if node.get("cluster"):
        where += f", {plain(node.get('slots'))} slots"
        shards = number(node, "shards") or 1
        where += f", one of {shards:.0f} shards" if shards > 1 else ""
    console.print(Text(where, style="dim"))
    shortfall = mapping(point, "room").get("shortfall")
    if shortfall:
        print_warning(str(shortfall), console)
    _print_facts(point, console)
    console.print()
    _print_populations(rows(point, "populations"), console)
    console.print(Text(_LEGEND, style="dim"))


def _print_facts(point: Json, console: Console) -> None:
    used, forked = mapping(point, "used_memory_bytes"), mapping(point, "forked_bytes")
    beside = mapping(point, "beside")
    lines = [
        ("Used memory", f"{byte_size(number(used, 'value'))} ({_range(used)})"),
        ("  of that", ", ".join(
            f"{words} {byte_size(size)}"
            for name, words in _BESIDE.items()
            if (size := number(beside, name))
        )),
        ("While tables move", byte_size(number(point, "rehashing_bytes"))),
        ("Resident", byte_size(number(point, "resident_bytes"))),
        ("While a child lives", _forked(forked)),
        ("Keys", _keys(number(point, "keys"))),
    ]  # fmt: skip
    fits = mapping(point, "fits")
    if fits:
        limit = _LIMITS.get(str(fits.get("limit")), str(fits.get("limit")))
        within = byte_size(number(fits, "limit_bytes"))
        doubling = mapping(fits, "next_doubling")
        lines += [
            (
                "Keys that fit",
                f"{_keys(number(fits, 'keys'))} in {within}, {limit}; "
                f"{_keys(number(fits, 'keys_while_rehashing'))} with room for tables to move",
            ),
            (
                "Tables double",
                f"at {_keys(number(doubling, 'keys'))} keys: "
                f"+{byte_size(number(doubling, 'adds_bytes'))}, and "
                f"{byte_size(number(doubling, 'while_moving_bytes'))} while they move",
            ),
        ]
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for name, text in lines:
        table.add_row(Text(name), Text(text))
    console.print(table)


def _forked(forked: Json) -> str:
    value = number(forked, "value")
    bounds = f"{byte_size(number(forked, 'low'))} if nothing is written meanwhile, "
    bounds += f"{byte_size(number(forked, 'high'))} if everything is"
    return bounds if value is None else f"{byte_size(value)}; {bounds}"


def _range(estimate: Json) -> str:
    return f"{byte_size(number(estimate, 'low'))} to {byte_size(number(estimate, 'high'))}"


def _print_populations(populations: list[Json], console: Console) -> None:
    parts = [mapping(population, "parts") for population in populations]
    kinds = [str(population.get("type")).replace("_", " ") for population in populations]
    columns = [
        Column("keys", [_keys(number(population, "keys")) for population in populations]),
        Column("of", kinds, to_the_right=False),
        *(Column(name, [_bytes(number(each, name)) for each in parts]) for name in _PARTS),
        Column("bytes/key", [_bytes(number(each, "bytes_per_key")) for each in populations]),
    ]
    print_columns(columns, console, lead=2)


def _bytes(size: float | None) -> str:
    if size is None:
        return UNKNOWN
    if size == 0:
        return "0"
    return f"{size:.1f}" if size < 100 and size != round(size) else count(round(size))


def _keys(keys: float | None) -> str:
    """`18.0 M`; small counts in full."""
    if keys is None:
        return UNKNOWN
    for unit, symbol in ((1e9, " G"), (1e6, " M"), (1e4, "")):
        if keys >= unit and symbol:
            return f"{keys / unit:.3g}{symbol}"
    return count(round(keys))
