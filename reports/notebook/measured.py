"""Tables and figures of what was measured: checks, validations, calibrations, studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forecache.calibration.check.answers import CheckAnswer
from forecache.calibration.fit.report import CalibrationReport
from forecache.calibration.validate.comparison import Validation
from forecache.models.results.displayed import Displayed

from .. import figures
from ..study_answer import Study
from ..text.accuracy import quantities
from .tables import Tables, points_table
from .tidy import TidyTable, flat_table

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
    if isinstance(result, Study):
        return {"points": lambda: _targets(result)}
    return {}


def _targets(study: Study) -> TidyTable:
    every = [(target.name, point) for target in study.targets for point in target.points]
    return points_table([p for _, p in every], more=[{"target": name} for name, _ in every])


def measured_figures(result: Displayed) -> Figures:
    """The figures of such a result; none of others."""
    if isinstance(result, CalibrationReport):
        return {
            name: lambda name=name, found=found: figures.accuracy(found, quantity=name)
            for name, found in quantities(result.points).items()
        }
    if isinstance(result, Study):
        return {
            target.name: lambda target=target: figures.scaling(target) for target in result.targets
        }
    return {}
