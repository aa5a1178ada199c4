"""What was measured, in a terminal: a host, a benchmark tool, an observed engine."""

import statistics
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from forecache.calibration.bundle.bundle import Bundle, bundle_summary
from forecache.calibration.observe.tool_profile import ToolReport
from forecache.hwprofiles.quantity import Quantity
from forecache.hwprofiles.schema import HostProfile

from ..text.formats import number, percent
from .console import narrow_table, span


def print_host(host: HostProfile, console: Console) -> None:
    """Print a captured host: every number with its range."""
    console.print(f"[bold]{escape(host.id)}[/bold]: {escape(host.title)}")
    console.print(_quantities(host.quantities()))
    for note in host.notes:
        console.print(f"- {escape(note)}")


def _quantities(named: Iterable[tuple[str, Quantity]]) -> Table:
    made = narrow_table("what", ">value", ">range", "unit", "origin")
    for name, leaf in named:
        bounds = span(leaf.low, leaf.high)
        made.add_row(escape(name), number(leaf.value), bounds, escape(leaf.unit), leaf.kind)
    return made


def print_tool(report: ToolReport, console: Console) -> None:
    """Print what a benchmark tool takes: its numbers, and each point measured against fitted."""
    profile = report.profile
    console.print(f"[bold]{escape(profile.title)}[/bold]")
    console.print(_quantities(profile.work.items()))
    made = narrow_table(
        "pipeline",
        ">clients",
        ">CPU µs a request",
        ">range",
        ">fitted",
        ">server µs",
        ">requests/s",
    )
    for point, fitted_us in zip(report.points, report.fitted_us, strict=True):
        made.add_row(
            str(point.pipeline),
            str(point.clients),
            number(statistics.median(point.cpu_us)),
            span(min(point.cpu_us), max(point.cpu_us)),
            number(fitted_us),
            number(statistics.median(point.server_cpu_us)),
            f"{statistics.median(point.throughput_rps):,.0f}",
        )
    console.print(made)
    errors = [abs(error) for error in report.errors]
    console.print(
        f"Fitted to {percent(statistics.median(errors))} in the median, "
        f"{percent(max(errors))} at worst. Sleeping and waking take "
        f"{report.wake_factor:.2f} times what the host's profile says."
    )
    if not report.counted:
        console.print(
            "valgrind is not on PATH: instructions are those that were counted elsewhere."
        )


def print_bundle(bundle: Bundle, console: Console) -> None:
    """Print what was observed, one row a point, medians over the repetitions."""
    engine, machine = bundle.manifest.engine, bundle.manifest.machine
    console.print(f"[bold]{escape(engine.name)} {escape(engine.version)}[/bold] ({engine.path})")
    console.print(f"on {escape(machine.cpu_model)}, kernel {escape(machine.kernel)}")
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
            percent(row.main_thread_utilisation),
            percent(row.generator_utilisation),
            escape(", ".join(row.flags)),
        )
    console.print(made)
    console.print(
        "P pipeline, v value bytes, k keys, c clients; CPU ns: of the server, per request; main, "
        "load: how busy the main thread and the load generator were",
        style="dim",
    )
    for text in [*bundle.manifest.warnings, *bundle.manifest.left_out]:
        console.print(f"- {escape(text)}")
