"""What a machine allows, in a terminal: what is here, then how to get what is missing."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from forecache.calibration.doctor.abilities import Ability, Diagnosis

_MARKS = {
    "yes": ("✓", "green"),
    "limited": ("~", "yellow"),
    "no": ("✗", "red"),
    "unknown": ("?", "dim"),
}
_LEGEND = "✓ all that forecache can use  ~ less than that  ✗ no  ? not known"
_FOUND_SHARE = 0.48
"""Of the width beside the names, where lines are cut."""


def print_diagnosis(diagnosis: Diagnosis, console: Console, *, whole: bool = True) -> None:
    """Print what is here and what it helps, then how to get what is not.

    Parameters
    ----------
    whole
        Say all of it. Otherwise each thing has one line, cut where its column ends, with what would
        help in place of what it helps: everything fits a screen of 80 columns and 24 lines.
    """
    if not whole:
        _print_lines(diagnosis, console)
        return
    names_width = _names_width(diagnosis)
    table = _grid(3, names_width)
    table.add_row(*_HEADER, Text("helps"))
    for ability in diagnosis.abilities:
        table.add_row(_marked(ability), Text(ability.found), Text(ability.helps))
    console.print(table)
    lacking = [ability for ability in diagnosis.abilities if ability.get]
    if lacking:
        console.print()
        console.print(Text("What would help", style="bold"))
        ways = _grid(2, names_width)
        for ability in lacking:
            ways.add_row(Text(f"  {ability.title}"), Text(ability.get))
        console.print(ways)
    console.print(Text(_LEGEND, style="dim"))


def _print_lines(diagnosis: Diagnosis, console: Console) -> None:
    names_width = _names_width(diagnosis)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=names_width)
    beside = console.width - names_width - 4
    cut = max(1, int(_FOUND_SHARE * beside))
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=cut)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(1, beside - cut))
    table.add_row(*_HEADER, Text("helps, or → what would help", style="dim"))
    for ability in diagnosis.abilities:
        last = Text(f"→ {ability.get}") if ability.get else Text(ability.helps, style="dim")
        table.add_row(_marked(ability), Text(ability.found), last)
    console.print(table)
    console.print(Text(f"{_LEGEND}\nall of it: --all", style="dim"))


_HEADER = (Text("  this machine", style="dim"), Text("found", style="dim"))


def _marked(ability: Ability) -> Text:
    mark, style = _MARKS[ability.status]
    return Text.assemble((mark, style), f" {ability.title}")


def _names_width(diagnosis: Diagnosis) -> int:
    return 2 + max(len(ability.title) for ability in diagnosis.abilities)


def _grid(columns: int, names_width: int) -> Table:
    """Names whole, and what is said of them folded."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=names_width)
    for number in range(1, columns):
        table.add_column(overflow="fold", style="dim" if number == 2 else "")
    return table
