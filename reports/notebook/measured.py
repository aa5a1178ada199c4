"""Tables and figures of what was measured: checks, validations, calibrations, studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from forecache.calibration.check.answers import CheckAnswer
from forecache.calibration.doctor.abilities import Diagnosis
from forecache.calibration.fit.report import CalibrationReport
from forecache.calibration.validate.comparison import Validation
from forecache.models.results.displayed import Displayed

from .. import figures
from ..study_answer import Study
from ..text.accuracy import accuracy_rows, calibration_warnings, quantities
from ..text.formats import plain
from ..text.settings import engine_name
from .card import Card
from .tables import Tables, points_table
from .tidy import TidyTable, flat_table, tidy

Figures = Mapping[str, Callable[[], Any]]


def measured_tables(result: Displayed) -> Tables:
    """The tables of such a result; none of others."""
    if isinstance(result, CheckAnswer):
        return {
            "quantities": lambda: flat_table(result.quantities),
            "causes": lambda: flat_table(result.causes),
        }
    if isinstance(result, Validation):
        return {"points": lambda: flat_table(result.points)}
    if isinstance(result, CalibrationReport):
        return {
            "points": lambda: flat_table(result.points),
            "parameters": lambda: flat_table(result.parameters),
        }
    if isinstance(result, Diagnosis):
        return {"abilities": lambda: _abilities(result)}
    if isinstance(result, Study):
        return {"points": lambda: _targets(result)}
    return {}


def measured_card(result: Displayed) -> Card | None:
    """What is shown of such a result; None of others, and of those whose table says it all."""
    if isinstance(result, CheckAnswer):
        return _checked(result)
    if isinstance(result, CalibrationReport):
        return Card(
            f"The work of {result.engine.id}, observed on {result.host.title}",
            header=["quantity", "points", "median error", "worst", "number"],
            rows=accuracy_rows(result),
            warnings=calibration_warnings(result),
        )
    return None


def _checked(answer: CheckAnswer) -> Card:
    outside = ", ".join(each.quantity for each in answer.outside)
    return Card(
        "The prediction holds" if answer.holds else f"Outside the interval: {outside or 'nothing'}",
        about=f"{answer.host.title}, {engine_name(answer.engine)}",
        lines=[cause.what for cause in answer.causes[:3]],
        header=["quantity", "predicted", "low", "high", "measured", "ratio"],
        rows=[
            [
                each.quantity,
                *map(plain, (each.predicted.value, each.predicted.low, each.predicted.high)),
                plain(each.measured),
                plain(each.ratio),
            ]
            for each in answer.quantities
        ],
        warnings=answer.warnings,
    )


def _abilities(diagnosis: Diagnosis) -> TidyTable:
    said = ("id", "title", "status", "found", "helps", "get")
    return tidy([{name: getattr(each, name) for name in said} for each in diagnosis.abilities])


def _targets(study: Study) -> TidyTable:
    every = [(target.name, point) for target in study.targets for point in target.points]
    return points_table([p for _, p in every], more=[{"target": name} for name, _ in every])


def measured_figures(result: Displayed) -> Figures:
    """The figures of such a result; none of others."""
    if isinstance(result, CalibrationReport):
        return {
            name: partial(figures.accuracy, found, quantity=name)
            for name, found in quantities(result.points).items()
        }
    if isinstance(result, Study):
        return {each.name: partial(figures.scaling, each) for each in result.targets}
    return {}
