"""A document of every kind of answer: what is said of it, in which order, and its tables.

To show a new kind, write a function that takes an answer and returns a `Document`, and name it in
`BUILDERS`. A builder is imported when an answer of its kind is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..document import Document, Draw

BUILDERS = {
    "Bundle": "machine.bundle",
    "CalibrationReport": "calibration.calibration",
    "CheckAnswer": "check.check",
    "CostAnswer": "cost.cost",
    "Diagnosis": "machine.diagnosis",
    "Explained": "explained.explained",
    "HostProfile": "machine.host",
    "LatencyDistribution": "node.latency",
    "MemoryAnswer": "memory.memory",
    "NodeComparison": "node.compared",
    "PlanAnswer": "plan.plan",
    "Recommended": "recommended.recommended",
    "RunsOverTime": "over_time.runs_over_time",
    "Side": "node.side",
    "Simulated": "node.simulated",
    "Study": "study.study",
    "StudyTarget": "study.study_target",
    "SweptPoints": "node.swept",
    "TodayAnswer": "today.today",
    "ToolReport": "machine.tool",
    "Validation": "calibration.validation",
}
"""By the name of a class, the module and the function that make its document."""


def document(answer: Any) -> Document:
    """The document of an answer.

    Raises
    ------
    TypeError
        There is none of its kind.
    """
    for kind in type(answer).__mro__:
        if kind.__name__ in BUILDERS:
            module, _, name = BUILDERS[kind.__name__].partition(".")
            build: Callable[[Any], Document] = getattr(import_module(f"{__name__}.{module}"), name)
            return build(answer)
    raise TypeError(f"nothing shows a {type(answer).__name__}")


def drawing(name: str, *arguments: Any, **options: Any) -> Draw:
    """A function of `figures` with what it draws; matplotlib is imported when it is called."""

    def draw(width_px: float) -> Any:
        from .. import figures

        return getattr(figures, name)(*arguments, width_px=width_px, **options)

    return draw
