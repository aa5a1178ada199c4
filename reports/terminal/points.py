"""The points of a sweep in a terminal: a row each, or a block each where a row doesn't fit."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from forecache.models.results.points import Point
from forecache.sim.statistics import Estimate

from ..text.formats import UNKNOWN, is_wide, milliseconds, percent, rate_with_margin
from ..text.points import (
    mean_percent,
    point_warnings,
    short_limit,
    swept_columns,
    threads_alike,
)
from .columns import Column, print_most_columns
from .console import print_warnings

_MEANINGS = {
    "main": "main thread",
    "I/O": "I/O threads",
    "work": "worker threads",
    "load": "load generator",
}
# Left out one after the other where the terminal is too narrow for all columns.
_DISPENSABLE = ("load", "p50", "I/O", "work", "main")


def print_points(points: Sequence[Point], console: Console) -> None:
    """Print the points that `forecache simulate` predicted, one row each.

    The leading columns are what the sweep varies. Where not all columns fit, the less important
    ones are left out; where even the others don't, every point is a block of lines. No word is cut.
    """
    shown = print_most_columns(_columns(points), console, dispensable=_DISPENSABLE)
    if shown:
        print_legend(shown, console)
        _print_wide(points, console)
    print_warnings(point_warnings(points), console)


def _columns(points: Sequence[Point]) -> list[Column]:
    """All columns: what is swept, then what is predicted."""

    def of(
        name: str, cells: Iterable[str], *, wraps: bool = False, to_the_right: bool = True
    ) -> Column:
        return Column(name, list(cells), wraps=wraps, to_the_right=to_the_right)

    def latency(estimate: Estimate | None) -> str:
        return milliseconds(estimate.value) if estimate else UNKNOWN

    alike = threads_alike(points)
    main = of("main", (percent(point.main_thread_utilisation) for point in points))
    return [
        *(of(name, cells, wraps=True) for name, cells in swept_columns(points)),
        of(
            "requests/s ±95%",
            (rate_with_margin(point.throughput_rps) for point in points),
            to_the_right=False,
        ),
        of("p50", (latency(point.p50_ms) for point in points)),
        of("p99", (latency(point.p99_ms) for point in points)),
        *([] if alike else [main]),
        of(
            "work" if alike else "I/O",
            (mean_percent(point.io_thread_utilisation) for point in points),
        ),
        of("load", (percent(point.load_generator_utilisation) for point in points)),
        of("limit", map(short_limit, points), wraps=True, to_the_right=False),
        of(
            "verdict",
            (point.verdict.lower() for point in points),
            to_the_right=False,
        ),
    ]


def _print_wide(points: Sequence[Point], console: Console) -> None:
    if any(is_wide(point.throughput_rps) for point in points):
        text = "a range: the interval is too wide for ±; `forecache explain` says what narrows it"
        console.print(Text(text, style="dim"))


def print_legend(columns: list[Column], console: Console) -> None:
    """Say of which threads the columns that are shown tell how busy they are."""
    names = [column.name for column in columns if column.name in _MEANINGS]
    if not names or not columns[0].cells:
        return
    meanings = [_MEANINGS[name] for name in names]
    *others, last = meanings
    listed = f"{', '.join(others)} and {last}" if others else last
    are = "are" if others or last.endswith("s") else "is"
    console.print(Text(f"{', '.join(names)}: how busy the {listed} {are}", style="dim"))
