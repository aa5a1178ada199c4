"""A sweep as curves: which field goes along the axis, which makes the lines, which the panels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forecache.sim.statistics import Estimate

from .formats import Unit, is_number, quantity_unit
from .settings import setting_name, setting_text, short_names, value_text

MOST_LINES = 6
"""More could not be told apart, even by colour and marker."""
_MOST_PANELS = 12
_PANEL_FIELD = "host"
"""Versions and settings are compared on one machine, so a machine gets a panel to itself."""


@dataclass(frozen=True)
class CurvePoint:
    """What is predicted at one point of a line."""

    x: Any
    """Of the field along the axis."""
    estimate: Estimate
    aside: bool
    """Whether something else than the server limits here."""


@dataclass(frozen=True)
class Curves:
    """A quantity over up to three swept fields.

    Attributes
    ----------
    axis, lines, panels
        The fields; empty where there is none.
    xs
        Values along the axis, in ascending order if they are numbers, else as in the file.
    by_panel
        By the text of a panel's value, by the text of a line's value.
    left_out
        What of the sweep is not drawn, in a sentence; empty if everything is.
    """

    title: str
    unit: Unit
    axis: str
    lines: str
    panels: str
    xs: Sequence[Any]
    by_panel: Mapping[str, Mapping[str, Sequence[CurvePoint]]]
    left_out: str

    @property
    def is_time(self) -> bool:
        """Whether the quantity is a time, in which small differences count where it is small."""
        return self.unit.symbol.strip() in ("ns", "µs", "ms", "s")

    @property
    def numeric(self) -> bool:
        """Whether the axis has numbers."""
        return all(map(is_number, self.xs))

    @property
    def names(self) -> list[str]:
        """Names of the lines in all panels, each once."""
        return list(dict.fromkeys(name for lines in self.by_panel.values() for name in lines))

    @property
    def values(self) -> list[Estimate]:
        """Everything that is drawn."""
        every = (curve for lines in self.by_panel.values() for curve in lines.values())
        return [each.estimate for curve in every for each in curve]


def curves_of(
    title: str,
    unit: str,
    given: Sequence[Mapping[str, Any]],
    values: Sequence[Estimate | None],
    *,
    aside: Sequence[bool] = (),
) -> Curves | None:
    """Lay a sweep out as curves.

    The number with the most values goes along the axis; without numbers the field with the most
    values does. Of the others, the two that move the quantity most are drawn: hosts as panels, else
    the field that moves it less. Further ones are held at their first value.

    Parameters
    ----------
    unit
        Of the quantity, as results over time declare units.
    given, values
        The swept fields of each point, and what is predicted there.

    Returns
    -------
    Curves or None
        None where fewer than two values of any field are known.
    """
    keys = list(dict.fromkeys(key for fields in given for key in fields))
    short = dict(zip(keys, short_names(keys), strict=True))
    rows = [
        ({short[key]: each for key, each in fields.items()}, value, flag)
        for fields, value, flag in zip(given, values, aside or [False] * len(given), strict=True)
        if value is not None and math.isfinite(value.value)
    ]
    swept = _swept([fields for fields, _, _ in rows])
    if not swept:
        return None
    numbers = [key for key in swept if all(map(is_number, swept[key]))]
    axis = max(numbers or list(swept), key=lambda key: len(swept[key]))
    others = sorted(
        (key for key in swept if key != axis),
        key=lambda key: _effect([(fields, value.value) for fields, value, _ in rows], key),
    )
    left_out = []
    for key in others[:-2]:
        first = swept[key][0]
        rows = [row for row in rows if row[0].get(key) == first]
        left_out.append(f"drawn at {setting_text({key: first})}")
    lines, panels = _roles(others[-2:], swept)
    for key, most in ((lines, MOST_LINES), (panels, _MOST_PANELS)):
        count = len(swept.get(key, []))
        if count > most:
            kept = [value_text(value) for value in evenly(swept[key], most)]
            rows = [row for row in rows if value_text(row[0].get(key)) in kept]
            left_out.append(f"{most} of {count} values of {setting_name(key)}")
    xs = sorted(swept[axis]) if axis in numbers else swept[axis]
    curves: dict[str, dict[str, list[CurvePoint]]] = {}
    for fields, value, flag in rows:
        panel, line = (value_text(fields.get(key)) if key else "" for key in (panels, lines))
        curve = curves.setdefault(panel, {}).setdefault(line, [])
        curve.append(CurvePoint(fields.get(axis), value, flag))
    for by_line in curves.values():
        for curve in by_line.values():
            curve.sort(key=lambda each: xs.index(each.x))
    highest = max(value.value for _, value, _ in rows)
    return Curves(
        title, quantity_unit(unit, highest), axis, lines, panels, xs, curves, "; ".join(left_out)
    )  # fmt: skip


def _swept(given: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The fields that vary, and their values in order, without fields that follow from another.

    Of fields that vary as one, the first counts.
    """
    found: dict[str, list[Any]] = {}
    columns: dict[str, list[str]] = {}
    for key in dict.fromkeys(key for fields in given for key in fields):
        texts = [value_text(fields.get(key)) for fields in given]
        different = list(dict.fromkeys(texts))
        if len(different) > 1:
            columns[key] = texts
            found[key] = [given[texts.index(text)].get(key) for text in different]
    order = sorted(columns, key=lambda key: -len(found[key]))
    following = {
        key
        for place, key in enumerate(order)
        for other in order[:place]
        if len(set(zip(columns[other], columns[key], strict=True))) == len(found[other])
    }
    return {key: values for key, values in found.items() if key not in following}


def _effect(rows: Sequence[tuple[Mapping[str, Any], float]], key: str) -> float:
    """By which factor a field moves the quantity on average, as a logarithm."""
    groups: dict[str, list[float]] = {}
    for fields, value in rows:
        if value > 0:
            others = repr({name: each for name, each in fields.items() if name != key})
            groups.setdefault(others, []).append(math.log(value))
    spans = [max(values) - min(values) for values in groups.values()]
    return sum(spans) / len(spans) if spans else 0.0


def _roles(keys: Sequence[str], swept: Mapping[str, Sequence[Any]]) -> tuple[str, str]:
    """Which field makes the lines and which the panels, of at most two; "" where there is none."""
    panels, lines = keys if len(keys) == 2 else ("", *keys) if keys else ("", "")
    if lines == _PANEL_FIELD and panels:
        panels, lines = lines, panels
    too_many = len(swept.get(lines, ())) > MOST_LINES
    if panels:
        swapped = panels != _PANEL_FIELD and len(swept[panels]) <= MOST_LINES
    else:
        # Of numbers some are enough.
        swapped = not all(map(is_number, swept.get(lines, ())))
    return (panels, lines) if too_many and swapped else (lines, panels)


def evenly(values: Sequence[Any], most: int) -> list[Any]:
    """At most so many values, evenly chosen, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(place * (len(values) - 1) / (most - 1))] for place in range(most)]
