"""Where the time of a request goes, in a terminal."""

from rich.console import Console
from rich.markup import escape

from forecache.models.advice.node_answers import Explained, ExplainedPoint
from forecache.models.breakdown.timeline import TimelineFile

from ..text import explained as text
from ..text.settings import setting_text
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
    if point.journey:
        made = ruled_table(text.stations_title(setting, point.journey), *text.STATION_COLUMNS)
        for cells in text.station_rows(point.journey):
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
