"""Figures of a sweep, for page, paper and notebook, and as lines of characters on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from forecache.sim.statistics import Estimate

from ..document import PLOT_PX, WIDE_PX, Column, Figure, Part, Section, Text, TextTable, words
from ..text.curves import Curves, curves_of, evenly
from ..text.formats import UNKNOWN, block, listed, quantity, sentence
from ..text.settings import setting_name, value_text
from . import drawing

_SKETCH_WIDTH = 78
"""Of a terminal of 80 columns, whose lines are indented below the name of a panel."""
_THOUSANDS = {"k": "thousands", "M": "millions", "G": "billions"}
"""In which things are counted."""


class CurveQuantity(NamedTuple):
    """A quantity of all points of a sweep."""

    name: str
    """What `plot` calls its figure."""
    title: str
    unit: str
    values: Sequence[Estimate | None]


def curve_figures(
    given: Sequence[Mapping[str, Any]],
    quantities: Sequence[CurveQuantity],
    *,
    aside: Sequence[bool] = (),
) -> list[Figure]:
    """A figure for each quantity that is known at different values of the swept fields.

    On a terminal the first of several fields has lines, a character for each value.

    Parameters
    ----------
    aside
        Of each point, whether something else than the server limits it.
    """
    figures: list[Figure] = []
    for name, heading, unit, values in quantities:
        made = curves_of(heading, unit, given, values, aside=aside)
        if made is None:
            continue
        by = [setting_name(key) for key in (made.axis, made.lines, made.panels) if key]
        title = f"{made.title} by {listed(by)}"
        shared = made.lines and any(each.high > each.low for each in made.values)
        notes = [made.left_out, _TOGETHER if shared and not figures else ""]
        figures.append(
            Figure(
                name,
                drawing("curves", made),
                title=title,
                caption=" ".join(sentence(note) for note in notes if note),
                label=f"Predicted {title[:1].lower()}{title[1:]}: {_spoken(made, unit)}.",
                width_px=PLOT_PX if made.panels and made.numeric else WIDE_PX,
                sketch=[_sketch(made, title)] if len(by) > 1 and not figures else [],
            )
        )
    return figures


_TOGETHER = (
    "Intervals are those of each line alone: what lines share, such as the speed of a host, moves "
    "all of them together. `forecache compare` has the interval of a difference."
)


def _spoken(made: Curves, unit: str) -> str:
    """What a screen reader says: where each line begins and ends."""
    return "; ".join(
        f"{' '.join(word for word in (panel, name, 'from') if word)} "
        f"{quantity(curve[0].estimate.value, unit)} at {value_text(curve[0].x)} to "
        f"{quantity(curve[-1].estimate.value, unit)} at {value_text(curve[-1].x)}"
        for panel, lines in made.by_panel.items()
        for name, curve in lines.items()
    )


def _sketch(made: Curves, title: str) -> Part:
    """A row for each line, a cell for each value: how high it is, and its number."""
    unit, highest = made.unit, max(each.value for each in made.values) or 1.0
    symbol = unit.symbol.strip()
    rows = [(panel, name) for panel, lines in made.by_panel.items() for name in lines]
    cells = {
        (panel, name, value_text(each.x)): (
            f"{block(each.estimate.value / highest)} {unit.number(each.estimate.value)}"
        )
        for panel, lines in made.by_panel.items()
        for name, curve in lines.items()
        for each in curve
    }
    widest = 2 + max(len(text) for text in [*cells.values(), *map(value_text, made.xs)])
    # Panels of one line each are the lines.
    names = [name if made.lines else panel for panel, name in rows]
    head = setting_name(made.lines or made.panels)
    groups = [panel for panel, _ in rows] if made.lines and made.panels else []
    lead = max(map(len, (head, *names)))
    xs = evenly(made.xs, max(2, (_SKETCH_WIDTH - lead) // widest))
    columns = [
        Column(value_text(x), [cells.get((*row, value_text(x)), UNKNOWN) for row in rows])
        for x in xs
    ]
    return Section(
        f"{title}, in {_THOUSANDS.get(symbol, symbol)}" if symbol else title,
        [
            TextTable(
                [words(head, names), *columns],
                groups={groups.index(panel): panel for panel in dict.fromkeys(groups)},
                lead=1,
            ),
            *([Text(made.left_out, "muted")] if made.left_out else []),
        ],
    )
