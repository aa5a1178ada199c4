"""Results in a terminal: readable at 80 columns, with or without colour.

Every function prints to the rich console it is given and treats strings as text, never as rich
markup. Commands and configuration are printed unwrapped, so that they can be copied.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from forecache.models.advice.compare import NodeComparison
from forecache.models.advice.next_measurement import MeasureNext
from forecache.models.advice.node_answers import NodeAnswer, Recommended
from forecache.models.advice.recommend import Recommendation
from forecache.models.advice.thread_plan import ThreadPlan
from forecache.models.results.points import Point

from ..text.differences import HEADER, LEGEND, rows, side_phrase, warnings
from ..text.formats import (
    is_wide,
    margin,
)
from ..text.point_columns import PointColumn, meanings, point_columns
from ..text.points import (
    SETTING,
    by_threads,
    chosen_point,
    point_warnings,
    standing,
    subtitle_phrase,
    swept_columns,
    target_warnings,
)
from ..text.settings import setting_name
from ..text.thread_plan import configuration_text, cpu_rows, gain_phrase, title_phrase
from ..text.wording import (
    action,
    headline_facts,
    key_facts,
    knee_phrase,
    known_phrase,
    loss_phrase,
    narrowing,
    tightening_phrases,
)
from .columns import Column, print_most_columns
from .console import print_warning, print_warnings

if TYPE_CHECKING:
    from ..study_answer import Study

_BAR_CELLS = 8
_CHECK = "Check it with"
_LEGEND_MEETS = "meets: how probable it is that the objective is met"


def print_study(study: "Study", console: Console) -> None:
    """Print what a study found: for each target the recommendation, then the accuracy."""
    from .accuracy import print_accuracy  # with all of calibration, which no prediction needs

    console.print(Text(study.title, style="bold"), Text(study.created, style="dim"))
    for warning in study.warnings:
        print_warning(warning, console)
    for target in study.targets:
        console.print()
        console.print(Rule(Text(target.name), align="left", style="dim"))
        print_answer(target, console)
    console.print()
    console.print(Rule("Calibration", align="left", style="dim"))
    print_accuracy(study.calibration, console)


def print_answer(target: Recommended, console: Console) -> None:
    """Print what `forecache recommend` found for one host: subject, recommendation, warnings."""
    print_subtitle(target, target.points, console)
    print_recommendation(target, console)
    print_warnings(target_warnings(target), console)


def print_subtitle(answer: NodeAnswer, points: Sequence[Point], console: Console) -> None:
    """Print which host and engine an answer is about; how many where its points sweep them."""
    console.print(Text(subtitle_phrase(answer, points), style="dim"))


def print_recommendation(target: Recommended, console: Console) -> None:
    """Print a recommendation: the setting, its facts, the alternatives, how to check it."""
    recommendation, point = target.recommendation, chosen_point(target)
    met = standing(recommendation) == "recommended"
    console.print(Text(action(recommendation), style="bold green" if met else "bold yellow"))
    console.print(Text("; ".join(headline_facts(recommendation, point)), style="bold"))
    console.print(Text(knee_phrase(recommendation)))
    _print_facts(key_facts(recommendation, point), console)
    console.print()
    _print_curve(target, console)
    _print_candidates(recommendation, console)
    if recommendation.thread_plan is not None:
        print_thread_plan(recommendation.thread_plan, console)
    _print_checks(recommendation, console)


def _print_facts(facts: list[tuple[str, str]], console: Console) -> None:
    console.print()
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in facts:
        table.add_row(Text(label), Text(text))
    console.print(table)


def _bar(value: float, highest: float) -> str:
    """Return a bar of at most eight cells, in steps of half a cell."""
    if highest <= 0:
        return ""
    halves = round(2 * _BAR_CELLS * max(0.0, min(1.0, value / highest)))
    return "━" * (halves // 2) + ("╸" if halves % 2 else "")


def _print_curve(target: Recommended, console: Console) -> None:
    """Print the throughput curve as a table with bars, the recommended row marked.

    What does not fit is left out, the bars first.
    """
    points = [point for _, point in by_threads(target)]
    marked = points.index(chosen_point(target))
    throughput = [point.throughput_rps for point in points]
    highest = max(estimate.value for estimate in throughput)
    threads = [f"{point.given[SETTING]:g}" for point in points]
    settings = [f"{'▶ ' if i == marked else ''}{text}" for i, text in enumerate(threads)]
    bars = [_bar(estimate.value, highest) for estimate in throughput]
    first, *others = point_columns(points, "recommend")
    columns = [
        Column(setting_name(SETTING), settings),
        _column(first),
        Column("", bars, to_the_right=False, style="blue"),
        *map(_column, others),
    ]
    dispensable = ("", *_dispensable(others))
    shown = print_most_columns(columns, console, dispensable=dispensable, marked=marked)
    print_legend(shown, console)
    if any(column.name == "meets" for column in shown):
        console.print(Text(_LEGEND_MEETS, style="dim"))


def _column(found: PointColumn) -> Column:
    """A column of points in a terminal: numbers to the right, those with intervals to the left."""
    return Column(
        found.heading,
        found.cells,
        wraps=found.form == "short",
        to_the_right=found.is_numeric and found.form == "value",
    )


def _dispensable(columns: Sequence[PointColumn]) -> list[str]:
    """Headings of those that a narrow terminal leaves out, the first one in front."""
    yielding = [each for each in columns if each.quantity.yields]
    return [each.heading for each in sorted(yielding, key=lambda each: each.quantity.yields)]


def _print_candidates(recommendation: Recommendation, console: Console) -> None:
    """Print each alternative with its loss of throughput and why it was not chosen."""
    if not recommendation.regret:
        return
    console.print()
    console.print(Text("Why not another setting", style="bold"))
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", max_width=24)
    table.add_column(overflow="fold", ratio=1)
    for row in recommendation.regret:
        table.add_row(
            Text(str(row.io_threads)), Text(loss_phrase(row)), Text(row.why_not, style="dim")
        )
    console.print(Padding(table, (0, 0, 0, 1)))


def _print_checks(recommendation: Recommendation, console: Console) -> None:
    checks = (
        (recommendation.conf_file, configuration_text(recommendation)),
        (_CHECK, recommendation.benchmark_command),
    )
    for label, text in checks:
        if text.strip():
            console.print()
            console.print(Text(label, style="bold"))
            for line in text.strip().splitlines():
                console.print(Text("  " + line, style="cyan"), soft_wrap=True)
    if recommendation.benchmark_note:
        console.print(Padding(Text(recommendation.benchmark_note, style="dim"), (0, 0, 0, 2)))
    if recommendation.no_benchmark_command:
        console.print()
        console.print(Text(_CHECK, style="bold"))
        console.print(Padding(Text(recommendation.no_benchmark_command), (0, 0, 0, 2)))
    advice = "; ".join(tightening_phrases(recommendation.measure_next))
    if advice:
        console.print()
        console.print(Text.assemble(("To tighten this estimate: ", "bold"), advice))


def print_measurements(measure_next: MeasureNext, console: Console) -> None:
    """Print what `forecache explain` would measure next, and what each measurement would bring."""
    console.print()
    console.print(Text("To tighten this estimate", style="bold"))
    console.print(Text(known_phrase(measure_next)))
    for gain in narrowing(measure_next):
        console.print()
        console.print(Text(f"{gain.what}: {margin(gain.margin)}"))
        for command in gain.commands:
            console.print(Text("  " + command, style="cyan"), soft_wrap=True)


# --- points of a sweep ---------------------------------------------------------------------------


def print_points(points: Sequence[Point], console: Console) -> None:
    """Print the points that `forecache simulate` predicted, one row each.

    The leading columns are what the sweep varies. Where not all columns fit, the less important
    ones are left out; where even the others don't, every point is a block of lines. No word is cut.
    """
    found = point_columns(points, "simulate")
    swept = [Column(name, cells, wraps=True) for name, cells in swept_columns(points)]
    columns = [*swept, *map(_column, found)]
    shown = print_most_columns(columns, console, dispensable=_dispensable(found))
    if shown:
        print_legend(shown, console)
        _print_wide(points, console)
    print_warnings(point_warnings(points), console)


def _print_wide(points: Sequence[Point], console: Console) -> None:
    if any(is_wide(point.throughput_rps) for point in points):
        text = "a range: the interval is too wide for ±; `forecache explain` says what narrows it"
        console.print(Text(text, style="dim"))


def print_legend(columns: list[Column], console: Console) -> None:
    """Say of which threads the columns that are shown tell how busy they are."""
    known = meanings()
    names = [column.name for column in columns if column.name in known]
    if not names or not columns[0].cells:
        return
    *others, last = (known[name] for name in names)
    listed = f"{', '.join(others)} and {last}" if others else last
    are = "are" if others or last.endswith("s") else "is"
    console.print(Text(f"{', '.join(names)}: how busy the {listed} {are}", style="dim"))


# --- a thread plan -------------------------------------------------------------------------------


def print_thread_plan(plan: ThreadPlan, console: Console) -> None:
    """Print who gets which CPUs, what that gains, and how to install it."""
    console.print()
    console.print(Text(title_phrase(plan), style="bold"))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", style="cyan")
    for who, cpus in cpu_rows(plan):
        table.add_row(Text(who), Text(cpus))
    console.print(Padding(table, (0, 0, 0, 2)))
    for note in plan.notes:
        console.print(Text(note, style="dim"))
    gain = gain_phrase(plan)
    if gain:
        console.print(Text(gain))
    if plan.start:
        console.print()
        console.print(Text("Start it with", style="bold"))
        console.print(Text("  " + plan.start, style="cyan"), soft_wrap=True)
        console.print(
            Text("--emit DIR writes all of it, with systemd units and scripts for interrupts.")
        )


# --- two nodes side by side ----------------------------------------------------------------------


_SIDES = ("before", "after")
_WRAPPED = (*_SIDES, HEADER[-1])


def print_comparison(answer: NodeComparison, console: Console) -> None:
    """Print what is compared, then a row for each quantity."""
    for called, side in (("before", answer.first), ("after", answer.second)):
        console.print(Text(f"{called:8}{side_phrase(side)}", style="dim"))
    console.print()
    cells = [list(column) for column in zip(*rows(answer), strict=True)]
    columns = [
        Column(name, own, wraps=name in _WRAPPED, to_the_right=0 < index < len(HEADER) - 1)
        for index, (name, own) in enumerate(zip(HEADER, cells, strict=True))
    ]
    print_most_columns(columns, console, dispensable=_SIDES)
    console.print(Text(LEGEND, "dim"))
    print_warnings(warnings(answer), console)
