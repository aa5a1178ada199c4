"""The catalogue in a terminal: lists, and one entry with range and origin of every number."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..text.formats import byte_size, number
from .columns import Column, print_columns
from .console import ruled_table, span

_NAME_COLUMNS = 36


def print_listing(result: Mapping[str, Sequence[Mapping[str, Any]]], console: Console) -> None:
    """Print everything but single instances, one row each."""
    _print_rows(
        console,
        *("Hosts", "name", "what*", "ISA", ">cores", ">GHz", ">last cache", ">memory ns"),
        rows=[
            (
                row["id"],
                row["title"],
                row["isa"],
                number(row["cores"]),
                number(row["clock_ghz"]),
                byte_size(row["l3_bytes"]),
                number(row["dram_latency_ns"]),
            )
            for row in result["hosts"]
        ],
    )
    _print_rows(
        console,
        *("Instances", "family", "what*", "host", "a vCPU is", ">vCPUs", ">to GiB"),
        rows=[
            (
                row["id"],
                row["title"],
                row["host"],
                _VCPU[row["threads_per_core"]],
                f"{row['least_vcpus']}–{row['most_vcpus']}",
                number(row["most_memory_gib"]),
            )
            for row in result["families"]
        ],
    )
    console.print(
        f"{len(result['instances'])} instances; `forecache catalog --family NAME`, `--provider`, "
        "`--arch` and `--min-memory` list them.\n"
    )
    _print_rows(
        console,
        *("Managed nodes", "name", "service", ">vCPUs", ">usable GiB", ">Gbit/s*", ">USD/h"),
        rows=[
            (
                row["id"],
                row["service"],
                number(row["vcpus"]),
                number(row["usable_bytes"] and row["usable_bytes"] / 2**30),
                _bandwidth(row["baseline_gbit_per_s"], row["burst_gbit_per_s"]),
                number(row["usd_per_hour"]),
            )
            for row in result["managed_nodes"]
        ],
    )
    _print_rows(
        console,
        *("Engines", "name", "what*", "threads*"),
        rows=[
            (row["id"], row["title"], row["policy"].replace("_", " ")) for row in result["engines"]
        ],
    )
    _print_rows(
        console,
        *("Load generators", "name", "what*"),
        rows=[(row["id"], row["title"]) for row in result["load_generators"]],
    )
    _print_rows(
        console,
        *("Datasets", "name", "what*", ">points", ">held out"),
        rows=[
            (
                row["id"],
                row["title"] + (f" ({row['not_predicted']})" if row["not_predicted"] else ""),
                number(row["points"]),
                number(row["validation_points"]),
            )
            for row in result["datasets"]
        ],
    )
    console.print(
        "`forecache catalog NAME` shows one of them with the origin of every number; managed nodes "
        "are all above."
    )


_VCPU = {1: "a core", 2: "half a core"}


def print_instances(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print instances, one row each."""
    if not rows:
        console.print("No instance is like that.")
        return
    _print_rows(
        console,
        *("Instances", "name", "host", ">vCPUs", ">cores", ">GiB", ">Gbit/s*", ">USD/h"),
        rows=[
            (
                row["id"],
                row["host"],
                number(row["vcpus"]),
                number(max(1, row["vcpus"] // row["threads_per_core"])),
                number(row["memory_gib"]),
                _network(row),
                number(row["price_usd_per_hour"]),
            )
            for row in rows
        ],
    )
    prices = sorted({row["price"] for row in rows if row["price"]})
    if prices:
        console.print(f"Prices: {'; '.join(prices)}.")
    if any(row["network"] == "limit" for row in rows):
        console.print("≤: the most the provider lets through, which it does not guarantee.")


def _network(row: Mapping[str, Any]) -> str:
    if row["network"] == "limit":
        return f"≤ {number(row['burst_gbit_per_s'])}"
    return _bandwidth(row["baseline_gbit_per_s"], row["burst_gbit_per_s"])


def _bandwidth(base: float | None, burst: float | None) -> str:
    return number(base) if burst in (None, base) else f"{number(base)} to {number(burst)}"


def _print_rows(
    console: Console, title: str, *headings: str, rows: Sequence[tuple[str, ...]]
) -> None:
    """Print a titled table that cuts no word, in several below each other where it is too wide.

    A heading that starts with `>` makes a column of numbers; cells of one that ends with `*` wrap.
    """
    console.print(title, style="bold")
    cells = list(zip(*rows, strict=True)) or [()] * len(headings)
    columns = [
        Column(
            heading.strip(">*"),
            list(of_column),
            wraps=heading.endswith("*"),
            to_the_right=heading.startswith(">"),
        )
        for heading, of_column in zip(headings, cells, strict=True)
    ]
    print_columns(columns, console)
    console.print()


def print_entry(result: Mapping[str, Any], console: Console) -> None:
    """Print one entry of the catalogue with range and origin of every number."""
    console.print(f"[bold]{escape(result['id'])}[/bold]: {escape(result['title'])}")
    for name, value in result["about"].items():
        console.print(f"{escape(name)}: {escape(str(value))}")
    origins = _origin_table if console.width >= 120 else _origins
    console.print(origins(result["rows"]))
    if result["sources"]:
        sources = Table.grid(padding=(0, 2))
        sources.add_column(no_wrap=True)
        sources.add_column(overflow="fold")
        for key, source in result["sources"].items():
            where = source.get("url") or source.get("file") or ""
            taken = [
                f"takes {dataset} points {', '.join(map(str, points))}"
                for dataset, points in (source.get("points") or {}).items()
            ]
            parts = [str(source.get("title") or ""), where, *taken]
            text = ", ".join(part for part in parts if part)
            sources.add_row(escape(str(key)), escape(text))
        console.print("\nSources", style="bold")
        console.print(sources)
        console.print()
    for note in result["notes"]:
        console.print(f"- {escape(str(note))}")


def _origin_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    made = ruled_table("", "what", ">value", ">range", "unit", "origin", "source", "how")
    for row in rows:
        made.add_row(
            escape(row["name"]),
            number(row["value"]),
            _span(row),
            escape(row["unit"] or ""),
            row["kind"] or "",
            escape(row["source"] or ""),
            escape(row["method"] or ""),
        )
    return made


def _origins(rows: Iterable[Mapping[str, Any]]) -> Table:
    """The same for a narrow terminal: one paragraph a number instead of eight narrow columns."""
    made = Table.grid(padding=(0, 2))
    made.add_column(max_width=_NAME_COLUMNS, overflow="fold")
    made.add_column(overflow="fold", ratio=1)
    for row in rows:
        unit = "" if row["unit"] in (None, "1") else f" {row['unit']}"
        bounds = f" ({_span(row)})" if _span(row) else ""
        origin = ", ".join(text for text in (row["kind"], row["source"]) if text)
        how = f": {row['method']}" if row["method"] else ""
        made.add_row(
            escape(row["name"]), escape(f"{number(row['value'])}{unit}{bounds}; {origin}{how}")
        )
    return made


def _span(row: Mapping[str, Any]) -> str:
    return span(row["low"], row["high"])
