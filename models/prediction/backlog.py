"""Whether an open loop's backlog has settled, or grows.

The backlog is the requests that are due and not completed. Below capacity it has a stationary
distribution, beyond capacity it grows by what arrives less what can be done. Both are told from one
run by the means of equal parts of its window (batch means).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..node.simulate import Flow, NodeResult

SATURATED = 0.95
"""Utilisation from which a station counts as the limit."""

PARTS = 8
"""Equal parts of a window whose means are compared."""

_FEWEST_PARTS = 4
"""Fewer say little of how much they vary."""

_SETTLED_T = 2.0
"""A growth of fewer standard errors is no trend. One in twenty windows shows more by chance alone:
it is looked at once more, twice as long."""

_DRAINS_T = -3.0
"""A backlog that shrinks by more standard errors was left by how the run began."""

_OVERLOADED_T = 3.0
"""A growth of more standard errors is overload: one window of a hundred by chance, and only one
that kept showing a trend while it was lengthened is asked."""

_LEAST_ERROR = 0.001
"""Relative standard error that the throughput of a window has at least. Parts of a run that repeat
each other exactly would claim to know it better than their ends do."""

_PS_PER_S = 1e12


@dataclass(frozen=True)
class Growth:
    """Requests a second by which a backlog grows, and its standard error.

    Attributes
    ----------
    caught_up
        Whether the connections did catch up with what was due, late in the window. Then the backlog
        is what queues are; if not, what completes is what can be done.
    speeds_up
        Whether more completes in the second half of the window than in the first, by more than
        chance: threads are being started.
    left_over
        Whether the window begins with more than connections carry, and than is ever due in its
        second half: with what the run's beginning left.
    """

    rps: float
    error_rps: float
    caught_up: bool
    speeds_up: bool = False
    left_over: bool = False

    @property
    def in_errors(self) -> float:
        """The growth in standard errors."""
        return self.rps / self.error_rps


def growth_of(result: NodeResult) -> Growth:
    """The growth of the backlog of one run of an open loop.

    Where connections never catch up, it is the rate of arrivals less that of completions, which
    hardly varies; else what arrived in the window and did not complete.
    """
    flow = result.flow
    if flow is None:
        raise ValueError("a closed loop has no backlog")
    begins_ps, ends_ps = flow.window_ps
    window_s = (ends_ps - begins_ps) / _PS_PER_S
    arrived = result.counters["arrivals"]
    late = _late(flow)
    caught_up = bool(late.min() <= flow.connections)
    left_over = bool(flow.at_start > max(flow.connections, late.max()))
    changes = np.diff(_at_parts(flow, flow.backlog if caught_up else flow.completed))
    # Of Poisson arrivals, and of as many completions.
    least = math.sqrt(2.0 * max(arrived, 1)) / window_s
    rps = (arrived - result.completions) / window_s
    if not caught_up:
        rps = flow.rate_rps - result.throughput_rps
        least = least if len(changes) < _FEWEST_PARTS else _LEAST_ERROR * flow.rate_rps
    found = 0.0
    if len(changes) >= _FEWEST_PARTS:
        found = float(np.std(changes, ddof=1)) * math.sqrt(len(changes)) / window_s
    error_rps = max(found, least)
    half_s = window_s / 2.0
    halves = changes[: len(changes) // 2].sum(), changes[len(changes) // 2 :].sum()
    # The difference of two halves errs twice as much as their mean does.
    speeds_up = not caught_up and (halves[1] - halves[0]) / half_s > 2.0 * _SETTLED_T * error_rps
    return Growth(rps, error_rps, caught_up, bool(speeds_up), left_over)


def _late(flow: Flow) -> np.ndarray:
    """The backlog in a window's second half, or in its last cycle if that is longer."""
    begins_ps, ends_ps = flow.window_ps
    since_ps = min((begins_ps + ends_ps) / 2, ends_ps - flow.cycle_ps)
    return np.append(flow.backlog[flow.times_ps >= since_ps], flow.at_end)


def _at_parts(flow: Flow, counts: np.ndarray) -> np.ndarray:
    """A count at the ends of equal parts of the window; of whole cycles, where there are some."""
    begins_ps, ends_ps = flow.window_ps
    parts = PARTS
    if flow.cycle_ps > 0:
        parts = min(PARTS, round((ends_ps - begins_ps) / flow.cycle_ps))
    if parts < _FEWEST_PARTS or len(counts) < PARTS:
        return counts[:0]
    return np.interp(np.linspace(begins_ps, ends_ps, parts + 1), flow.times_ps, counts)


def is_decided(growth: Growth) -> bool:
    """Whether a backlog shows no trend, or grows because all that can be done is done."""
    if growth.caught_up:
        return _DRAINS_T < growth.in_errors < _SETTLED_T and not growth.left_over
    return grows([growth]) and not growth.speeds_up


def grows(growths: Sequence[Growth]) -> bool:
    """Whether the backlog grows in runs of one scenario, taken together."""
    together = mean_growth(growths)
    return together.in_errors > _OVERLOADED_T


def mean_growth(growths: Sequence[Growth]) -> Growth:
    """The mean growth of runs that differ in their random streams only."""
    count = len(growths)
    error_rps = math.sqrt(sum(growth.error_rps**2 for growth in growths)) / count
    mean_rps = sum(growth.rps for growth in growths) / count
    return Growth(mean_rps, error_rps, any(growth.caught_up for growth in growths))
