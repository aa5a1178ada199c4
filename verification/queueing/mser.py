"""MSER-5: where the warm-up of a series ends.

Predictions don't use it: their warm-up follows from round trips and the engine's own decisions
about threads. Tests hold that against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

MSER_BATCH = 5
"""Observations a batch."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """How much of a series to throw away.

    Attributes
    ----------
    cut : int
        Number of observations to drop from the start.
    accepted : bool
        False if the best cut lies beyond half of the series: it's too short to tell.
    """

    cut: int
    accepted: bool


def mser5(series: ArrayLike) -> WarmUp:
    """Where the warm-up of a series ends, by MSER-5.

    The series is averaged in batches of five; the cut is the one that minimises the squared
    standard error of what is left. Cuts that leave fewer than five batches are not considered,
    because a handful of batches can look steady by accident. For several replications use
    `mser5_across`.

    Sources: K. P. White, "An effective truncation heuristic for bias reduction in simulation
    output", Simulation 69(6), 1997; K. P. White, M. J. Cobb, S. C. Spratt, "A comparison of five
    steady-state truncation heuristics for simulation", WSC 2000 (batches of five).

    Parameters
    ----------
    series : array_like
        Observations in order of time, at least 50.

    Returns
    -------
    WarmUp
        `accepted` is False if the best cut drops more than half of the series.

    Raises
    ------
    ValueError
        If the series is shorter than ten batches.
    """
    values = np.asarray(series, dtype=float)
    n_batches = values.size // MSER_BATCH
    if n_batches < 10:
        raise ValueError(f"MSER-5 needs at least 50 observations, got {values.size}")
    batches = values[: n_batches * MSER_BATCH].reshape(n_batches, MSER_BATCH).mean(axis=1)
    # Sums over the batches from each cut to the end. Centred first: squares of a large mean would
    # drown the differences.
    batches = batches - batches.mean()
    left = np.arange(n_batches, 0, -1, dtype=float)
    sums = np.cumsum(batches[::-1])[::-1]
    squares = np.cumsum(batches[::-1] ** 2)[::-1]
    criterion = np.maximum(squares - sums**2 / left, 0.0) / left**2
    cut = int(np.argmin(criterion[: n_batches - 4]))
    return WarmUp(cut=cut * MSER_BATCH, accepted=cut <= n_batches // 2)


def mser5_across(replications: Sequence[ArrayLike]) -> WarmUp:
    """One warm-up for all replications: MSER-5 on their average, observation by observation.

    Prefer this to a cut for each replication. In a correlated series (a queue at high load) the
    best cut tends to fall before a stretch that is low by chance, and dropping what came before
    biases every replication the same way. Averaging takes these stretches out and leaves the
    transient, which all replications share (P. D. Welch 1983 averages for the same reason).

    Parameters
    ----------
    replications : sequence of array_like
        The series of each replication; the shortest decides how far they are averaged.

    Raises
    ------
    ValueError
        If there is no replication, or the shortest is too short for `mser5`.
    """
    if len(replications) == 0:
        raise ValueError("a warm-up across replications needs at least one")
    series = [np.asarray(replication, dtype=float) for replication in replications]
    shortest = min(values.size for values in series)
    return mser5(np.mean([values[:shortest] for values in series], axis=0))
