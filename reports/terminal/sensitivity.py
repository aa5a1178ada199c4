"""Which inputs move an answer, as bars in a terminal."""

from rich.console import Console
from rich.text import Text

from forecache.models.advice.sensitivity.results import Indices, InputIndex, Sensitivity

from ..text.sensitivity import (
    input_name,
    sensitivity_groups,
    sensitivity_notes,
    sensitivity_title,
    share_with_bounds,
    spread_phrase,
)
from .columns import Column, print_most_columns

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
