"""Tables on standard output for what is catalogued, captured or observed."""

import os
import re
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal, NoReturn, cast

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from forecache.calibration.bundle.bundle import Bundle
    from forecache.calibration.observe.tool_profile import ToolReport
    from forecache.hwprofiles.schema import HostProfile
    from forecache.models.advice.node_answers import Explained, ExplainedPoint
    from forecache.models.breakdown.timeline import TimelineFile

# What a file or a pipe gets; a listing with sources is wider, so that a row stays one line.
_PIPE_COLUMNS = 120
_LISTING_COLUMNS = 200
_NAME_COLUMNS = 36


class _Console(Console):
    """A console that leaves it to the command line to end when the reader of a pipe goes away."""

    def on_broken_pipe(self) -> NoReturn:
        """Raise what was caught; rich itself would exit with 1, which here stands for a bug."""
        _, error, _ = sys.exc_info()
        raise error or BrokenPipeError


def console(*, pipe_columns: int = _PIPE_COLUMNS) -> Console:
    """Return a console on standard output, as wide as the terminal or as `COLUMNS` says.

    Parameters
    ----------
    pipe_columns
        Width where there is no terminal.
    """
    sized = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    file = None if sys.stdout.isatty() else cast(IO[str], _Trimmed(sys.stdout))
    return _Console(file=file, width=None if sized else pipe_columns, highlight=False)


class _Trimmed:
    """A stream whose lines end without the spaces that fill up a table; a terminal hides them."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write whole lines, which rich always does."""
        self._stream.write(re.sub(r" +$", "", text, flags=re.MULTILINE))
        return len(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def table(title: str, *headings: str) -> Table:
    """Return an empty table; a heading that starts with `>` makes a column of numbers."""
    made = Table(
        title=escape(title) or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for heading in headings:
        made.add_column(heading.lstrip(">"), justify="right" if heading.startswith(">") else "left")
    return made


def narrow_table(first: str, *headings: str) -> Table:
    """Return an empty table for 80 columns: no rules, one space between columns, no word cut."""
    made = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    made.add_column(first, no_wrap=True, overflow="fold")
    for heading in headings:
        justify: Literal["left", "right"] = "right" if heading.startswith(">") else "left"
        made.add_column(heading.lstrip(">"), justify=justify, overflow="fold")
    return made


def number(value: float | None) -> str:
    """Return a number with four significant digits, or a dash for an unknown one."""
    if value is None:
        return "–"
    if abs(value) >= 1e4 and float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:.4g}"


def percentage(fraction: float | None) -> str:
    """Return a fraction in whole per cent, or a dash for an unknown one."""
    return "–" if fraction is None else f"{fraction:.0%}"


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
    """Print everything but single instances, one row each."""
    out = console(pipe_columns=_LISTING_COLUMNS)
    _print_rows(
        out,
        *("Hosts", "name", "what*", "ISA", ">cores", ">GHz", ">last cache", ">memory ns"),
        rows=[
            (
                row["id"],
                row["title"],
                row["isa"],
                number(row["cores"]),
                number(row["clock_ghz"]),
                size(row["l3_bytes"]),
                number(row["dram_latency_ns"]),
            )
            for row in result["hosts"]
        ],
    )
    _print_rows(
        out,
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
    out.print(
        f"{len(result['instances'])} instances; `forecache catalog --family NAME`, `--provider`, "
        "`--arch` and `--min-memory` list them.\n"
    )
    _print_rows(
        out,
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
        out,
        *("Engines", "name", "what*", "threads*"),
        rows=[
            (row["id"], row["title"], row["policy"].replace("_", " ")) for row in result["engines"]
        ],
    )
    _print_rows(
        out,
        *("Load generators", "name", "what*"),
        rows=[(row["id"], row["title"]) for row in result["load_generators"]],
    )
    _print_rows(
        out,
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
    out.print("`forecache catalog NAME` shows one of them with the origin of every number.")


_VCPU = {1: "a core", 2: "half a core"}


def print_instances(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print instances, one row each."""
    out = console(pipe_columns=_LISTING_COLUMNS)
    if not rows:
        out.print("No instance is like that.")
        return
    _print_rows(
        out,
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
        out.print(f"Prices: {'; '.join(prices)}.")
    if any(row["network"] == "limit" for row in rows):
        out.print("≤: the most the provider lets through, which it does not guarantee.")


def _network(row: Mapping[str, Any]) -> str:
    if row["network"] == "limit":
        return f"≤ {number(row['burst_gbit_per_s'])}"
    return _bandwidth(row["baseline_gbit_per_s"], row["burst_gbit_per_s"])


def _bandwidth(base: float | None, burst: float | None) -> str:
    return number(base) if burst in (None, base) else f"{number(base)} to {number(burst)}"


def _print_rows(out: Console, title: str, *headings: str, rows: Sequence[tuple[str, ...]]) -> None:
    """Print a titled table that cuts no word, in several below each other where it is too wide.

    A heading that starts with `>` makes a column of numbers; cells of one that ends with `*` wrap.
    """
    from forecache.reports.terminal.columns import Column, print_columns

    out.print(title, style="bold")
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
    print_columns(columns, out)
    out.print()


def print_entry(result: Mapping[str, Any]) -> None:
    """Print one entry of the catalogue with range and origin of every number."""
    out = console(pipe_columns=_LISTING_COLUMNS)
    out.print(f"[bold]{escape(result['id'])}[/bold]: {escape(result['title'])}")
    for name, value in result["about"].items():
        out.print(f"{escape(name)}: {escape(str(value))}")
    out.print(_origin_table(result["rows"]) if out.width >= 120 else _origins(result["rows"]))
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
        out.print("\nSources", style="bold")
        out.print(sources)
        out.print()
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


def _origins(rows: Iterable[Mapping[str, Any]]) -> Table:
    """The same for a narrow terminal: one paragraph a number instead of eight narrow columns."""
    made = Table.grid(padding=(0, 2))
    made.add_column(max_width=_NAME_COLUMNS, overflow="fold")
    made.add_column(overflow="fold", ratio=1)
    for row in rows:
        unit = "" if row["unit"] in (None, "1") else f" {row['unit']}"
        bounds = f" ({span(row)})" if span(row) else ""
        origin = ", ".join(text for text in (row["kind"], row["source"]) if text)
        how = f": {row['method']}" if row["method"] else ""
        made.add_row(
            escape(row["name"]), escape(f"{number(row['value'])}{unit}{bounds}; {origin}{how}")
        )
    return made


def print_host(host: "HostProfile") -> None:
    """Print a captured host: every number with its range."""
    out = console()
    out.print(f"[bold]{escape(host.id)}[/bold]: {escape(host.title)}")
    made = narrow_table("what", ">value", ">range", "unit", "origin")
    for path, leaf in host.quantities():
        row = {"low": leaf.low, "high": leaf.high}
        made.add_row(escape(path), number(leaf.value), span(row), escape(leaf.unit), leaf.kind)
    out.print(made)
    for note in host.notes:
        out.print(f"- {escape(note)}")


def print_tool(report: "ToolReport") -> None:
    """Print what a benchmark tool takes: its numbers, and each point measured against fitted."""
    out = console()
    profile = report.profile
    out.print(f"[bold]{escape(profile.title)}[/bold]")
    made = narrow_table("what", ">value", ">range", "unit", "origin")
    for name, leaf in profile.work.items():
        row = {"low": leaf.low, "high": leaf.high}
        made.add_row(escape(name), number(leaf.value), span(row), escape(leaf.unit), leaf.kind)
    out.print(made)
    made = narrow_table(
        "pipeline",
        ">clients",
        ">CPU us a request",
        ">range",
        ">fitted",
        ">server us",
        ">requests/s",
    )
    for point, fitted_us in zip(report.points, report.fitted_us, strict=True):
        made.add_row(
            str(point.pipeline),
            str(point.clients),
            number(statistics.median(point.cpu_us)),
            f"{number(min(point.cpu_us))} – {number(max(point.cpu_us))}",
            number(fitted_us),
            number(statistics.median(point.server_cpu_us)),
            f"{statistics.median(point.throughput_rps):,.0f}",
        )
    out.print(made)
    errors = [abs(error) for error in report.errors]
    out.print(
        f"Fitted to {percentage(statistics.median(errors))} in the median, "
        f"{percentage(max(errors))} at worst. Sleeping and waking take "
        f"{report.wake_factor:.2f} times what the host's profile says."
    )
    if not report.counted:
        out.print("valgrind is not on PATH: instructions are those that were counted elsewhere.")


def print_bundle(bundle: "Bundle") -> None:
    """Print what was observed, one row a point, medians over the repetitions."""
    from forecache.calibration.bundle.summary import bundle_summary

    out = console()
    engine, machine = bundle.manifest.engine, bundle.manifest.machine
    out.print(f"[bold]{escape(engine.name)} {escape(engine.version)}[/bold] ({engine.path})")
    out.print(f"on {escape(machine.cpu_model)}, kernel {escape(machine.kernel)}")
    made = narrow_table(
        "point", "role", ">requests/s", ">CPU ns", ">p99 ms", ">main", ">load", "flags"
    )
    made.columns[0].no_wrap = False
    for row, point in zip(bundle_summary(bundle).points, bundle.points, strict=True):
        made.add_row(
            escape(point.given.label()),
            "held out" if point.given.role == "holdout" else point.given.role,
            number(row.throughput_rps and round(row.throughput_rps)),
            number(row.server_cpu_ns_per_request and round(row.server_cpu_ns_per_request)),
            number(row.p99_ms),
            percentage(row.main_thread_utilisation),
            percentage(row.generator_utilisation),
            escape(", ".join(row.flags)),
        )
    out.print(made)
    out.print(
        "P pipeline, v value bytes, k keys, c clients; CPU ns: of the server, per request; main, "
        "load: how busy the main thread and the load generator were",
        style="dim",
    )
    for text in [*bundle.manifest.warnings, *bundle.manifest.left_out]:
        out.print(f"- {escape(text)}")


def print_explanation(answer: "Explained") -> None:
    """Print the CPU time of a request's stages, and its latency station by station.

    Of a sweep every point gets a line, and one the tables: the recommended one if there is.
    """
    from forecache.reports.text.explained import in_short, settings_of, which_phrase

    out = console()
    points, shown = answer.points, answer.shown
    settings = settings_of(answer)
    if len(points) > 1:
        for index, point in enumerate(points):
            marked = index == shown.point and shown.recommended
            line = f"{'▶' if marked else ' '} {settings[index]}: {in_short(point)}"
            out.print(escape(line), style="bold" if marked else None)
        hint = (
            f"{which_phrase(shown, settings)}; for another, name only that one in the scenario.\n"
        )
        out.print(hint, style="dim")
    _print_point(points[shown.point], settings[shown.point], out)
    if answer.timeline:
        out.print(_timeline_line(answer.timeline), soft_wrap=True)
    out.print("`--json` also lists every number behind this, with its range and origin.")


def _print_point(point: "ExplainedPoint", setting: str, out: Console) -> None:
    from forecache.reports.text import explained as text

    made = table(text.stages_title(setting), *text.STAGE_COLUMNS)
    for cells in text.stage_rows(point):
        made.add_row(*map(escape, cells))
    out.print(made)
    if point.journey:
        made = table(text.stations_title(setting, point.journey), *text.STATION_COLUMNS)
        for cells in text.station_rows(point.journey):
            made.add_row(*map(escape, cells))
        out.print(made)
    for sentence in text.limit_sentences(point):
        out.print(escape(sentence))


def _timeline_line(timeline: "TimelineFile") -> str:
    from forecache.reports.text.settings import setting_text

    given = setting_text(timeline.given)
    return escape(
        f"Timeline{f' at {given}' if given else ''}: {timeline.window_ms:g} ms, "
        f"{timeline.requests} requests; open {timeline.file} in ui.perfetto.dev"
    )
