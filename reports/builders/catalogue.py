"""The catalogue: lists, and one entry with range and origin of every number."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..document import Column, Document, Facts, Items, Part, Section, Text, TextTable, words
from ..text.formats import byte_size, number, span

Row = Mapping[str, Any]
Cell = Callable[[Row], str]

_VCPU = {1: "a core", 2: "half a core"}


def listing(result: Mapping[str, Sequence[Row]]) -> Document:
    """Everything but single instances, one row each."""
    counted = (
        f"{len(result['instances'])} instances; `forecache catalog --family NAME`, `--provider`, "
        "`--arch` and `--min-memory` list them."
    )
    origins = (
        "`forecache catalog NAME` shows one of them with the origin of every number; managed nodes "
        "are all above."
    )
    return _document(
        ", ".join(
            f"{len(result[kind])} {kind.replace('_', ' ')}"
            for kind in ("hosts", "instances", "engines", "load_generators", "datasets")
        ),
        [
            _rows(
                "Hosts",
                result["hosts"],
                ("name", "id"),
                ("what*", "title"),
                ("ISA", "isa"),
                (">cores", lambda row: number(row["cores"])),
                (">GHz", lambda row: number(row["clock_ghz"])),
                (">last cache", lambda row: byte_size(row["l3_bytes"])),
                (">memory ns", lambda row: number(row["dram_latency_ns"])),
            ),
            _rows(
                "Instances",
                result["families"],
                ("family", "id"),
                ("what*", "title"),
                ("host", "host"),
                ("a vCPU is", lambda row: _VCPU[row["threads_per_core"]]),
                (">vCPUs", lambda row: f"{row['least_vcpus']}–{row['most_vcpus']}"),
                (">to GiB", lambda row: number(row["most_memory_gib"])),
            ),
            Text(counted),
            _rows(
                "Managed nodes",
                result["managed_nodes"],
                ("name", "id"),
                ("service", "service"),
                (">vCPUs", lambda row: number(row["vcpus"])),
                (
                    ">usable GiB",
                    lambda row: number(row["usable_bytes"] and row["usable_bytes"] / 2**30),
                ),
                (">Gbit/s*", _bandwidth),
                (">USD/h", lambda row: number(row["usd_per_hour"])),
            ),
            _rows(
                "Engines",
                result["engines"],
                ("name", "id"),
                ("what*", "title"),
                ("threads*", lambda row: row["policy"].replace("_", " ")),
            ),
            _rows("Load generators", result["load_generators"], ("name", "id"), ("what*", "title")),
            _rows(
                "Datasets",
                result["datasets"],
                ("name", "id"),
                ("what*", _dataset),
                (">points", lambda row: number(row["points"])),
                (">held out", lambda row: number(row["validation_points"])),
            ),
            Text(origins),
        ],
    )


def _dataset(row: Row) -> str:
    return f"{row['title']} ({row['not_predicted']})" if row["not_predicted"] else row["title"]


def instances(rows: Sequence[Row]) -> Document:
    """Instances, one row each."""
    if not rows:
        return _document("No instance is like that", [])
    parts: list[Part] = [
        _rows(
            "",
            rows,
            ("name", "id"),
            ("host", "host"),
            (">vCPUs", lambda row: number(row["vcpus"])),
            (">cores", lambda row: number(max(1, row["vcpus"] // row["threads_per_core"]))),
            (">GiB", lambda row: number(row["memory_gib"])),
            (">Gbit/s*", _network),
            (">USD/h", lambda row: number(row["price_usd_per_hour"])),
        )
    ]
    prices = sorted({row["price"] for row in rows if row["price"]})
    if prices:
        parts.append(Text(f"Prices: {'; '.join(prices)}."))
    if any(row["network"] == "limit" for row in rows):
        parts.append(Text("≤: the most the provider lets through, which it does not guarantee."))
    return _document(f"{len(rows)} instance{'s' * (len(rows) != 1)}", parts)


def _network(row: Row) -> str:
    limited = row["network"] == "limit"
    return f"≤ {number(row['burst_gbit_per_s'])}" if limited else _bandwidth(row)


def _bandwidth(row: Row) -> str:
    base, burst = row["baseline_gbit_per_s"], row["burst_gbit_per_s"]
    return number(base) if burst in (None, base) else f"{number(base)} to {number(burst)}"


def _document(headline: str, parts: Sequence[Part]) -> Document:
    return Document(about="", headline=headline, sections=[Section("", parts)])


def _rows(title: str, rows: Sequence[Row], *columns: tuple[str, str | Cell]) -> Section:
    """A table of rows: of each column its heading, and a field or what makes a cell.

    A heading that starts with `>` makes a column of numbers; cells of one that ends with `*` wrap.
    """
    made = [
        Column(
            heading.strip(">*"),
            [row[cell] if isinstance(cell, str) else cell(row) for row in rows],
            wraps=heading.endswith("*"),
            numeric=heading.startswith(">"),
        )
        for heading, cell in columns
    ]
    return Section(title, [TextTable(made, lead=1)])


def entry(result: Row, *, wide: bool) -> Document:
    """One entry with range and origin of every number.

    Parameters
    ----------
    wide
        Whether there is room for a table with all columns; otherwise a number is a paragraph.
    """
    rows = result["rows"]
    about = [Text(f"{name}: {value}") for name, value in result["about"].items()]
    numbers: Part = Facts([_origin(row) for row in rows])
    if wide:
        numbers = TextTable(
            [
                words("what", [row["name"] for row in rows]),
                Column("value", [number(row["value"]) for row in rows]),
                Column("range", [span(row["low"], row["high"]) for row in rows]),
                *(
                    words(name, [row[field] or "" for row in rows], wraps=True)
                    for name, field in (
                        ("unit", "unit"),
                        ("origin", "kind"),
                        ("source", "source"),
                        ("how", "method"),
                    )
                ),
            ],
            lead=1,
        )
    parts: list[Part] = [*about, numbers]
    if result["sources"]:
        sources = [(str(key), _source(source)) for key, source in result["sources"].items()]
        parts.append(Section("Sources", [Facts(sources)]))
    parts.append(Items([str(note) for note in result["notes"]]))
    title = f"{result['id']}: {result['title']}"
    return Document(about="", headline=title, sections=[Section(title, parts, tone="plain")])


def _origin(row: Row) -> tuple[str, str]:
    """A number's name, and its value, range and origin in a sentence."""
    unit = "" if row["unit"] in (None, "1") else f" {row['unit']}"
    bounds = span(row["low"], row["high"])
    origin = ", ".join(text for text in (row["kind"], row["source"]) if text)
    how = f": {row['method']}" if row["method"] else ""
    value = f"{number(row['value'])}{unit}{f' ({bounds})' if bounds else ''}"
    return row["name"], f"{value}; {origin}{how}"


def _source(source: Row) -> str:
    where = source.get("url") or source.get("file") or ""
    taken = [
        f"takes {dataset} points {', '.join(map(str, points))}"
        for dataset, points in (source.get("points") or {}).items()
    ]
    return ", ".join(part for part in (str(source.get("title") or ""), where, *taken) if part)
