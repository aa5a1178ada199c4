"""Observed points, simulated with what was fitted to some of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forecache.models.prediction.predict import Prediction, predict_cases
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case

from ..bundle.points import ObservedPoint
from .fit import Calibration
from .scenarios import scenario_of

Progress = Callable[[str], None]

REQUESTS = 20_000


def predict_points(
    fitted: Calibration,
    points: Sequence[ObservedPoint],
    *,
    draws: int,
    progress: Progress | None = None,
) -> list[Prediction]:
    """Simulate observed points with the fitted engine, load generator and host.

    The simulation is told the conditions of a point and the fitted work only; batches, turns of
    the loop, sleeps and wake-ups come out of it.

    Parameters
    ----------
    draws
        Runs at drawn numbers, for the interval's part from parameters.
    """
    system = System(fitted.host, fitted.profile, fitted.generator)
    cases = [(case_of(point, system), system) for point in points]
    return predict_cases(cases, draws=draws, replications=2, requests=REQUESTS, progress=progress)


def case_of(point: ObservedPoint, system: System) -> Case[Scenario]:
    """An observed point as a case of the model."""
    engine = system.engine
    return Case(
        given=point.given.model_dump(mode="json", exclude_defaults=True),
        scenario=scenario_of(point.given, engine=engine.engine, engine_version=engine.version),
    )
