"""Two nodes side by side, on a terminal."""

from rich.console import Console
from rich.text import Text

from forecache.models.advice.compare import NodeComparison

from ..text.differences import HEADER, LEGEND, rows, side_phrase, warnings
from .columns import Column, print_most_columns
from .console import print_warnings

_DISPENSABLE = ("before", "after")
_WRAPPED = (*_DISPENSABLE, HEADER[-1])


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
    print_most_columns(columns, console, dispensable=_DISPENSABLE)
    console.print(Text(LEGEND, "dim"))
    print_warnings(warnings(answer), console)
