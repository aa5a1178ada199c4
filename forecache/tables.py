"""Tables on standard output for what is catalogued, captured or observed."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from forecache.hwprofiles.schema import HostProfile

# Wide enough that a file or a pipe gets every row on one line.
_PIPE_COLUMNS = 200


def console() -> Console:
    """Return a console on standard output, as wide as the terminal, or wide when there is none."""
    return Console(
        width=None if sys.stdout.isatty() else _PIPE_COLUMNS, highlight=False, soft_wrap=False
    )


def table(title: str, *headings: str) -> Table:
    """Return an empty table; a heading that starts with `>` makes a column of numbers."""
    made = Table(
        title=escape(title) or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for heading in headings:
        made.add_column(heading.lstrip(">"), justify="right" if heading[0] == ">" else "left")
    return made


def number(value: float | None) -> str:
    """Return a number with four significant digits, or a dash for an unknown one."""
    if value is None:
        return "–"
    if abs(value) >= 1e4 and float(value).is_integer():
        return f"{int(value):,}".replace(",", " ")
    return f"{value:.4g}"


def size(value_bytes: float) -> str:
    """Return a size in KiB or MiB."""
    if value_bytes >= 2**20:
        return f"{value_bytes / 2**20:.4g} MiB"
    return f"{value_bytes / 2**10:.4g} KiB"


def span(row: Mapping[str, Any]) -> str:
    """Return the range of a row, empty when there is none."""
    if row.get("low") is None or row.get("high") is None:
        return ""
    return f"{number(row['low'])} – {number(row['high'])}"


def print_listing(result: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print hosts, instances and engines, one row each."""
    out = console()
    hosts = table("Hosts", "name", "what", "ISA", ">cores", ">GHz", ">last cache", ">memory ns")
    for row in result["hosts"]:
        hosts.add_row(
            escape(row["id"]),
            escape(row["title"]),
            row["isa"],
            number(row["cores"]),
            number(row["clock_ghz"]),
            size(row["l3_bytes"]),
            number(row["dram_latency_ns"]),
        )
    out.print(hosts)
    instances = table(
        "Instances", "name", "host", ">vCPUs", ">memory GiB", ">network Gbit/s", ">USD/h"
    )
    for row in result["instances"]:
        base, burst = row["baseline_gbit_per_s"], row["burst_gbit_per_s"]
        instances.add_row(
            escape(row["id"]),
            row["host"],
            number(row["vcpus"]),
            number(row["memory_gib"]),
            number(base) if base == burst else f"{number(base)}, bursts {number(burst)}",
            number(row["price_usd_per_hour"]),
        )
    out.print(instances)
    prices = sorted({row["price"] for row in result["instances"]})
    out.print(f"Prices: {'; '.join(prices)}. An Intel vCPU is half a core.\n")
    engines = table("Engines", "name", "what")
    for row in result["engines"]:
        engines.add_row(escape(str(row["id"])), escape(str(row.get("title", ""))))
    if result["engines"]:
        out.print(engines)
    out.print("`forecache catalog NAME` shows one of them with the origin of every number.")


def print_entry(result: Mapping[str, Any]) -> None:
    """Print one entry of the catalogue with range and origin of every number."""
    out = console()
    out.print(f"[bold]{escape(result['id'])}[/bold]: {escape(result['title'])}")
    for name, value in result["about"].items():
        out.print(f"{escape(name)}: {escape(str(value))}")
    out.print(_origin_table(result["rows"]))
    if result["sources"]:
        sources = table("Sources", "id", "what", "where")
        for key, source in result["sources"].items():
            where = source.get("url") or source.get("file") or ""
            sources.add_row(escape(str(key)), escape(str(source.get("title", ""))), escape(where))
        out.print(sources)
    for note in result["notes"]:
        out.print(f"- {escape(str(note))}")


def _origin_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    made = table("", "what", ">value", ">range", "unit", "origin", "source", "how")
    for row in rows:
        made.add_row(
            escape(row["name"]),
            number(row["value"]),
            span(row),
            escape(row["unit"] or ""),
            row["kind"] or "",
            escape(row["source"] or ""),
            escape(row["method"] or ""),
        )
    return made


def print_host(host: "HostProfile") -> None:
    """Print a captured host: every number with its range."""
    out = console()
    out.print(f"[bold]{escape(host.id)}[/bold]: {escape(host.title)}")
    made = table("", "what", ">value", ">range", "unit", "origin")
    for path, leaf in host.quantities():
        row = {"low": leaf.low, "high": leaf.high}
        made.add_row(escape(path), number(leaf.value), span(row), escape(leaf.unit), leaf.kind)
    out.print(made)
    for note in host.notes:
        out.print(f"- {escape(note)}")
