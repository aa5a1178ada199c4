"""What the page says of where the width of intervals comes from, and what would narrow them."""

from collections.abc import Sequence
from typing import Any

from forecache.models.advice.next_measurement import MeasureNext
from forecache.models.advice.node_answers import Recommended, StudyTarget
from forecache.models.advice.sensitivity import Sensitivity

from .. import figures
from ..text.explained import (
    input_name,
    sensitivity_groups,
    sensitivity_notes,
    share_with_bounds,
    spread_phrase,
)
from ..text.explained import sensitivity_title as moves_title
from ..text.formats import margin, sentence
from ..text.method import sensitivity_title
from ..text.points import chosen_point
from ..text.wording import interval_parts, known_phrase, narrowing
from .drawing import Drawer

_ABOUT = (
    "Throughput’s 95% interval consists of four parts. Their squares add up to the square of the "
    "whole, on a logarithmic scale."
)


def sensitivity_view(targets: Sequence[tuple[str, Recommended]], drawer: Drawer) -> dict[str, Any]:
    """Return the template's context, by target: parts of the interval, gains of measurements and,
    where they were asked for, which inputs move the answer."""
    return {
        "about": [_ABOUT],
        "targets": [
            {
                "title": sensitivity_title(target, name),
                "parts": interval_parts(chosen_point(target).uncertainty),
                **gains_view(target.recommendation.measure_next),
                "moved": _moved(target, drawer),
            }
            for name, target in targets
        ],
    }


def _moved(target: Recommended, drawer: Drawer) -> dict[str, Any] | None:
    found = target.sensitivity if isinstance(target, StudyTarget) else None
    return None if found is None else moved_view(found, drawer)


def moved_view(found: Sensitivity, drawer: Drawer) -> dict[str, Any]:
    """Which inputs move an answer, as title, figure, table and sentences."""
    groups = sensitivity_groups(found)
    title = moves_title(found)
    spreads = [f"{spread_phrase(name, indices)}." for name, indices in groups]
    return {
        "title": title,
        "figure": drawer.draw(
            lambda width: figures.sensitivity(found, width_px=width),
            title="Total-order Sobol indices",
            caption="With 95% intervals; uncertain numbers and what can be chosen, apart.",
            label=f"{title}: the share of the variance behind each input.",
        ),
        "columns": [("input", False), ("share of the variance", True)],
        "rows": [
            (input_name(index), share_with_bounds(index))
            for _, indices in groups
            for index in indices.indices
        ],
        "sentences": [*spreads, *sensitivity_notes(found)],
    }


def gains_view(measure_next: MeasureNext) -> dict[str, Any]:
    """What each measurement would bring, as rows."""
    return {
        "about": sentence(known_phrase(measure_next)),
        "gains": [
            (gain.what, margin(gain.margin), " && ".join(gain.commands))
            for gain in narrowing(measure_next)
        ],
    }
