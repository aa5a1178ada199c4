"""Downhill from a start to the most probable numbers: damped Gauss-Newton steps.

Levenberg and Marquardt: a step minimises the objective as the derivatives have it, plus a multiple
of its own squared length in standard errors. Several multiples are tried in the simulation and the
best one is taken, so that no step makes the objective worse. Random streams stay the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .points import JointPoint, log_throughputs_at, sensitivities
from .prior import error_covariance, prior_covariance

DISCREPANCY = 0.05
"""Relative standard error of the model in the objective: one for all starts, so that their ends
can be compared."""

STEP = 1.0
"""Standard errors by which a number is moved for its derivative: clients move in waves, so that a
window's count has a grain of up to 2%."""

LEAST_GAIN = 1.0
"""Of the objective, for which a step is taken; the grain of windows moves it by about as much."""

_DAMPINGS = (0.0, 0.5, 2.0, 8.0, 32.0)


@dataclass(frozen=True)
class Reached:
    """Numbers, and what the simulation says there.

    Attributes
    ----------
    mean
        (names,) of the numbers, in standard errors of what was known of them.
    off
        (points,) measured less predicted logarithms of throughput.
    objective
        Minus twice the logarithm of the density of numbers and measurements, but for a constant.
    """

    mean: np.ndarray
    off: np.ndarray
    objective: float


class Slope:
    """The objective over the numbers of these names, and the way down.

    Parameters
    ----------
    observed
        (points,) measured logarithms of throughput.
    """

    def __init__(
        self, names: Sequence[str], points: Sequence[JointPoint], observed: np.ndarray
    ) -> None:
        self.names, self._points, self._observed = list(names), list(points), observed
        self._known = np.linalg.inv(prior_covariance(self.names))
        self._weights = np.linalg.inv(error_covariance(self._points, DISCREPANCY))

    def places(self, means: Sequence[np.ndarray]) -> list[Reached]:
        """What the simulation says at each of these numbers."""
        wheres = [dict(zip(self.names, mean.tolist(), strict=True)) for mean in means]
        found = self._observed - log_throughputs_at(self._points, wheres)
        return [
            Reached(mean, off, float(mean @ self._known @ mean + off @ self._weights @ off))
            for mean, off in zip(means, found, strict=True)
        ]

    def derivatives(self, place: Reached) -> np.ndarray:
        """(points, names) change of the logarithm of throughput by number."""
        where = dict(zip(self.names, place.mean.tolist(), strict=True))
        return sensitivities(self._points, self.names, where, step=STEP)

    def below(self, place: Reached, derivatives: np.ndarray) -> Reached | None:
        """The best place that a damped step leads to; nothing if none gains enough."""
        gradient = derivatives.T @ self._weights @ place.off - self._known @ place.mean
        curvature = self._known + derivatives.T @ self._weights @ derivatives
        steps = [np.linalg.solve(curvature + d * self._known, gradient) for d in _DAMPINGS]
        best = min(
            self.places([place.mean + step for step in steps]), key=lambda each: each.objective
        )
        return best if best.objective <= place.objective - LEAST_GAIN else None


@dataclass
class Walk:
    """A way downhill from one start.

    Derivatives are simulated once in a while and corrected by what each step showed (Broyden's
    rule), which is a tenth of the work and enough until a step gains nothing.

    Attributes
    ----------
    start
        What the start is called.
    first
        Where it began; `place` is where it is now.
    derivatives
        At `place`; nothing before they are simulated.
    simulated
        Whether they were simulated there, not corrected.
    steps
        Taken so far.
    ended
        Whether no step gains any more.
    """

    start: str
    slope: Slope
    first: Reached
    place: Reached
    derivatives: np.ndarray | None = None
    simulated: bool = True
    steps: int = 0
    ended: bool = False

    def go(self, most: int) -> None:
        """Go downhill with derivatives simulated `most` times at most, as far as steps gain."""
        for _ in range(most):
            if not self.ended:
                here = self.steps
                self.slopes()
                self._step_on()
                self.ended = self.steps == here

    def slopes(self) -> np.ndarray:
        """(points, names) derivatives where it is, simulated there."""
        if self.derivatives is None or not self.simulated:
            self.derivatives, self.simulated = self.slope.derivatives(self.place), True
        return self.derivatives

    def _step_on(self) -> None:
        """Steps with the derivatives at hand, until none gains."""
        while self.derivatives is not None:
            below = self.slope.below(self.place, self.derivatives)
            if below is None:
                return
            move, change = below.mean - self.place.mean, self.place.off - below.off
            missed = change - self.derivatives @ move
            self.derivatives = self.derivatives + np.outer(missed, move) / (move @ move)
            self.place, self.simulated = below, False
            self.steps += 1
