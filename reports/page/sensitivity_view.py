"""What the page says of where the width of intervals comes from, and what would narrow them."""

from collections.abc import Sequence
from typing import Any

from forecache.models.advice.next_measurement import MeasureNext
from forecache.models.advice.node_answers import Recommended

from ..text.formats import margin
from ..text.method import sensitivity_title
from ..text.points import chosen_point
from ..text.wording import interval_parts, known_phrase

_ABOUT = (
    "Throughput’s 95% interval consists of four parts. Their squares add up to the square of the "
    "whole, on a logarithmic scale."
)


def sensitivity_view(targets: Sequence[tuple[str, Recommended]]) -> dict[str, Any]:
    """Return the template's context: parts of the interval and gains of measurements by target."""
    return {
        "about": [_ABOUT],
        "targets": [
            {
                "title": sensitivity_title(target, name),
                "parts": interval_parts(chosen_point(target).uncertainty),
                **gains_view(target.recommendation.measure_next),
            }
            for name, target in targets
        ],
    }


def gains_view(measure_next: MeasureNext) -> dict[str, Any]:
    """What each measurement would bring, as rows."""
    about = known_phrase(measure_next)
    return {
        "about": f"{about[0].upper()}{about[1:]}.",
        "gains": [
            (gain.what, margin(gain.margin), " && ".join(gain.commands))
            for gain in measure_next.measurements
        ],
    }
