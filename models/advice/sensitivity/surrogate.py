"""What stands in for a simulation: the bounds of the stations, and a regression of the rest.

It is made from the draws that a prediction has anyway, as `effects` is, and takes microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...prediction.predict import Prediction
from ..effects import log_changes, ridge_elasticities
from ..throughput_bound import ThroughputBound, service_times_us, throughput_bound
from .numbers import UncertainInputs

_STEP = 0.1
"""Of a standard error: how far a number is moved to see what it does to service times."""

_FEWEST_DRAWS = 4


@dataclass(frozen=True)
class BoundSurrogate:
    """The logarithm of a quantity, up to a constant, from steps of the uncertain numbers.

    Attributes
    ----------
    moves : (numbers, resources)
        What a step of one does to the logarithms of service times.
    elasticities : (resources,)
        Of what the bound leaves.
    bound
        None for a latency, which has none.
    unexplained
        Share of the variance over draws that it misses, each left out of the fit in turn.
    """

    moves: np.ndarray
    elasticities: np.ndarray
    bound: ThroughputBound | None
    unexplained: float

    def at(self, steps: np.ndarray, _: Sequence[int] = ()) -> np.ndarray:
        """`values`, as simulations are asked; there are no random numbers to choose."""
        return self.values(steps)

    def values(self, steps: np.ndarray) -> np.ndarray:
        """(rows,) by (rows, numbers) steps."""
        changes = steps @ self.moves
        bound = 0.0 if self.bound is None else self.bound.logs(changes)
        return np.asarray(bound + changes @ self.elasticities)


def surrogate_of(inputs: UncertainInputs, *, metric: str, seed: int) -> BoundSurrogate:
    """The surrogate of a prediction, from its draws.

    Parameters
    ----------
    seed
        Of these draws.
    """
    prediction: Prediction = inputs.prediction
    scenario, system = prediction.case.scenario, prediction.system
    nominal_us = service_times_us(prediction, system.inputs(scenario))

    def moved(name: str, error: float) -> np.ndarray:
        numbers = system.numbers_at({name: _STEP * error})
        times_us = service_times_us(prediction, system.inputs_of(scenario, numbers))
        return log_changes(times_us, nominal_us) / (_STEP * error)

    pairs = zip(inputs.names, inputs.errors.tolist(), strict=True)
    moves = np.array([moved(name, error) for name, error in pairs]).reshape(-1, len(nominal_us))
    logs = prediction.log_draws(metric)
    kept = np.isfinite(logs)
    bound = throughput_bound(prediction, nominal_us) if metric == "throughput_rps" else None
    if np.count_nonzero(kept) < _FEWEST_DRAWS:
        return BoundSurrogate(moves, np.zeros(len(nominal_us)), bound, 1.0)
    changes = np.array(
        [
            log_changes(
                service_times_us(prediction, system.inputs(scenario, draw=n, seed=seed)), nominal_us
            )
            for n in np.flatnonzero(kept).tolist()
        ]
    )
    left = logs[kept] - (0.0 if bound is None else bound.logs(changes))
    elasticities, missed = ridge_elasticities(changes, left)
    return BoundSurrogate(
        moves, elasticities, bound, min(1.0, missed / max(1e-18, np.var(logs[kept])))
    )
