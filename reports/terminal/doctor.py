"""What a machine allows, in a terminal: what is here, then how to get what is missing."""

from collections.abc import Sequence

from rich.console import Console, OverflowMethod
from rich.table import Table
from rich.text import Text

from forecache.calibration.doctor.abilities import Diagnosis

_MARKS = {
    "yes": ("✓", "green"),
    "limited": ("~", "yellow"),
    "no": ("✗", "red"),
    "unknown": ("?", "dim"),
}
_LEGEND = "✓ all that forecache can use  ~ less than that  ✗ no  ? not known"


def print_diagnosis(diagnosis: Diagnosis, console: Console, *, whole: bool = True) -> None:
    """Print what is here and what it helps, then how to get what is not.

    Parameters
    ----------
    whole
        Say all of it. Otherwise each thing has one line, cut where the console ends, so that
        everything fits a screen.
    """
    overflow: OverflowMethod = "fold" if whole else "ellipsis"
    names = [ability.title for ability in diagnosis.abilities]
    table = _grid(3, names, overflow=overflow)
    table.add_row(Text("  this machine", style="dim"), Text("found", style="dim"), Text("helps"))
    for ability in diagnosis.abilities:
        mark, style = _MARKS[ability.status]
        name = Text.assemble((mark, style), f" {ability.title}")
        table.add_row(name, Text(ability.found), Text(ability.helps))
    console.print(table)
    lacking = [ability for ability in diagnosis.abilities if ability.get]
    if lacking:
        console.print()
        console.print(Text("What would help", style="bold"))
        ways = _grid(2, names, overflow=overflow)
        for ability in lacking:
            ways.add_row(Text(f"  {ability.title}"), Text(ability.get))
        console.print(ways)
    console.print(Text(_LEGEND if whole else f"{_LEGEND}\nall of it: --all", style="dim"))


def _grid(columns: int, names: Sequence[str], *, overflow: OverflowMethod) -> Table:
    """Names whole, and what is said of them folded or cut."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=2 + max(map(len, names)))
    cut = overflow == "ellipsis"
    for number in range(1, columns):
        table.add_column(overflow=overflow, no_wrap=cut, style="dim" if number == 2 else "")
    return table
