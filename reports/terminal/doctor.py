"""What a machine allows, in a terminal: a line a thing, then how to get what is missing."""

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


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Print what is here and what it helps, then how to get what is not."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold", style="dim")
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
        console.print(_ways(lacking))
    console.print(Text(_LEGEND, style="dim"))


def _ways(lacking: list[Ability]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for ability in lacking:
        table.add_row(Text(f"  {ability.title}"), Text(ability.get))
    return table
