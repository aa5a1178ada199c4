"""Where the time of a request goes, in a terminal."""

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from forecache.models.advice.node_answers import Explained, ExplainedPoint
from forecache.models.advice.sensitivity import Indices, InputIndex, Sensitivity
from forecache.models.breakdown.timeline import TimelineFile

from ..text import explained as text
from ..text.explained import (
    input_name,
    sensitivity_groups,
    sensitivity_notes,
    sensitivity_title,
    share_with_bounds,
    spread_phrase,
)
from ..text.settings import setting_text
from .columns import Column, print_most_columns
from .console import ruled_table


def print_explanation(answer: Explained, console: Console) -> None:
    """Print the CPU time of a request's stages, and its latency station by station.

    Of a sweep every point gets a line, and one the tables: the recommended one if there is.
    """
    points, shown = answer.points, answer.shown
    settings = text.settings_of(answer)
    if len(points) > 1:
        for index, point in enumerate(points):
            marked = index == shown.point and shown.recommended
            line = f"{'▶' if marked else ' '} {settings[index]}: {text.in_short(point)}"
            console.print(escape(line), style="bold" if marked else None)
        which = text.which_phrase(shown, settings)
        hint = f"{which}; for another, name only that one in the scenario.\n"
        console.print(hint, style="dim")
    _print_point(points[shown.point], settings[shown.point], console)
    if answer.timeline:
        console.print(_timeline_line(answer.timeline), soft_wrap=True)
    console.print("`--json` also lists every number behind this, with its range and origin.")


def _print_point(point: ExplainedPoint, setting: str, console: Console) -> None:
    made = ruled_table(text.stages_title(setting), *text.STAGE_COLUMNS)
    for cells in text.stage_rows(point):
        made.add_row(*map(escape, cells))
    console.print(made)
    if point.latency_breakdown:
        made = ruled_table(
            text.stations_title(setting, point.latency_breakdown), *text.STATION_COLUMNS
        )
        for cells in text.station_rows(point.latency_breakdown):
            made.add_row(*map(escape, cells))
        console.print(made)
    for sentence in text.limit_sentences(point):
        console.print(escape(sentence))


def _timeline_line(timeline: TimelineFile) -> str:
    given = setting_text(timeline.given)
    return escape(
        f"Timeline{f' at {given}' if given else ''}: {timeline.window_ms:g} ms, "
        f"{timeline.requests} requests; open {timeline.file} in ui.perfetto.dev"
    )


# --- which inputs move the answer ----------------------------------------------------------------


_CELLS = 20
_LEGEND = "━ up to the lower end of the interval, ─ up to the upper one"


def print_sensitivity(found: Sensitivity, console: Console) -> None:
    """Print the indices of uncertain numbers and, apart, of what the user can choose."""
    console.print()
    console.print(Text(sensitivity_title(found), style="bold"))
    for name, indices in sensitivity_groups(found):
        console.print()
        console.print(Text(spread_phrase(name, indices)))
        if indices.indices:
            _print_indices(indices, console)
    console.print()
    for note in [_LEGEND, *sensitivity_notes(found)]:
        console.print(Text(note, style="dim"))


def _print_indices(indices: Indices, console: Console) -> None:
    rows = indices.indices
    highest = max(row.total.high for row in rows)
    columns = [
        Column("input", list(map(input_name, rows)), wraps=True, to_the_right=False),
        Column("share", list(map(share_with_bounds, rows)), to_the_right=False),
        Column("", [_bar(row, highest) for row in rows], to_the_right=False, style="blue"),
    ]
    print_most_columns(columns, console, dispensable=("",))


def _bar(index: InputIndex, highest: float) -> str:
    if highest <= 0:
        return ""
    low, high = (
        round(_CELLS * min(1.0, end / highest)) for end in (index.total.low, index.total.high)
    )
    return "━" * low + "─" * (high - low)
