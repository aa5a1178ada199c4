"""From a simulated prediction to the inputs that move it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from forecache.sim.effort import check_work
from forecache.sim.processes import usable_cores

from ...prediction.predict import DRAW_REQUESTS, Prediction, Progress
from ...prediction.run_length import run_s
from ..effects import Part, metric_of, uncertain_numbers
from ..next_measurement import next_measurement
from .choices import ChoiceInputs, PointOf
from .evaluation import (
    REST,
    BoundSurrogate,
    Evaluate,
    Evaluated,
    InputGroup,
    StandIn,
    evaluated,
    indices_of,
    no_indices,
    screening,
    surrogate_of,
)
from .indices import Design
from .numbers import UncertainInputs
from .results import ElementaryEffects, Indices, Sensitivity

MOST_S = 90.0
"""Seconds of one core that the runs of one set of inputs may take, as estimated."""

SAMPLES = (512, 256, 128, 64)
"""Rows of a design of simulations: the most that can be had within `MOST_S`."""

SURROGATE_SAMPLES = 8192
SCREENING_ROWS = 8

MOST_INPUTS = 12
"""So many inputs need no screening, and at most as many are kept by it."""

LEAST_SHARE = 0.01
"""Of the sum of mean squared elementary effects, or of the surrogate's indices, what an input needs
to be kept. All that are not kept are one more input together, so that nothing is lost."""

_PILOTS = 3.0
"""Times as long as a run a choice takes: it has a pilot run of its own, and may be larger."""

_FEWEST_EACH = 2
"""Values for each number of a linear regression, at least."""

_PART_OF: dict[Part, str] = {"speed": "host", "work": "work", "generator": "generator"}


def sensitivity(
    prediction: Prediction,
    asked: Sequence[PointOf],
    *,
    seed: int,
    executor: Executor,
    progress: Progress | None = None,
) -> Sensitivity:
    """Which inputs move a prediction, told by simulation or, where it takes long, a surrogate.

    Parameters
    ----------
    prediction
        Of one point, with draws.
    asked
        All points of its scenario, for the ranges of what a user can choose.
    seed
        Of the prediction, and of all runs.
    executor
        Where to simulate.
    """
    told = uncertain_indices(prediction, seed=seed, executor=executor, progress=progress)
    choices = ChoiceInputs.of(asked, (prediction.case, prediction.system))
    return Sensitivity(
        quantity="throughput_rps" if metric_of(prediction) == "throughput_rps" else "p99_ms",
        at=dict(prediction.case.given),
        uncertain=told.indices,
        surrogate_unexplained=told.unexplained,
        choices=_choice_indices(
            choices, prediction, seed=seed, executor=executor, progress=progress
        ),
        measure_next=next_measurement(prediction, [], seed=seed, moves=told.moves),
    )


@dataclass(frozen=True)
class ToldOfNumbers:
    """What is told of the uncertain numbers of a prediction.

    Attributes
    ----------
    unexplained
        Share of the variance that the surrogate misses.
    moves : (numbers,)
        What one standard error of each of `uncertain_numbers` does to the logarithm of the
        quantity, by linear regression over the same runs; None where too few of them are finite, or
        nothing was simulated.
    """

    indices: Indices
    unexplained: float
    moves: np.ndarray | None


def uncertain_indices(
    prediction: Prediction, *, seed: int, executor: Executor, progress: Progress | None = None
) -> ToldOfNumbers:
    """Indices of the uncertain numbers; parameters as of `sensitivity`."""
    metric = metric_of(prediction)
    inputs = UncertainInputs.of(prediction)
    if not inputs.names:
        return ToldOfNumbers(no_indices(inert=inputs.inert), unexplained=0.0, moves=None)
    surrogate = surrogate_of(inputs, metric=metric, seed=seed)

    def evaluate(steps: np.ndarray, numbers: Sequence[int]) -> np.ndarray:
        return inputs.simulated(steps, numbers, metric=metric, seed=seed, executor=executor)

    groups = min(len(inputs.names), MOST_INPUTS) + 1
    rows = _rows(groups, each_s=_run_s(prediction), about="uncertain numbers", progress=progress)
    if not rows:
        indices = _by_surrogate(inputs, surrogate, seed=seed)
        return ToldOfNumbers(indices, surrogate.unexplained, moves=None)
    indices, found = _simulated(inputs, evaluate, surrogate, rows=rows, seed=seed)
    return ToldOfNumbers(indices, _unexplained(surrogate, found), _moves(inputs, found))


def _run_s(prediction: Prediction) -> float:
    """Seconds of one core that one run takes, as estimated."""
    assert prediction.pilot is not None
    nominal = prediction.system.inputs(prediction.case.scenario)
    return run_s(nominal, prediction.pilot, requests=DRAW_REQUESTS, brief=True)


def _rows(groups: int, *, each_s: float, about: str, progress: Progress | None) -> int:
    """Rows of a design that there is time to simulate; 0 for too few. Says how long it takes."""
    for rows in SAMPLES:
        runs = rows * (groups + 3)
        if runs * each_s <= MOST_S:
            check_work(
                runs * each_s,
                f"sensitivity to {about}, {runs:,} runs",
                smaller="a scenario that takes less",
                progress=progress,
                workers=usable_cores(),
            )
            return rows
    return 0


def _simulated(
    inputs: UncertainInputs, evaluate: Evaluate, surrogate: BoundSurrogate, *, rows: int, seed: int
) -> tuple[Indices, Evaluated]:
    """Indices of uncertain numbers by simulation, those that do little together."""
    count = len(inputs.names)
    kept, screened, screening_runs = list(range(count)), list[ElementaryEffects](), 0
    if count > MOST_INPUTS:
        # Points of its own, so that what is kept does not depend on the luck of the indices.
        design = Design.of(inputs.covariance, rows=SCREENING_ROWS, seed=seed + 1)
        screened, squares = screening(design, inputs.titles, evaluate)
        # What matters in few places may be in none of the screening's; the surrogate knows it.
        shares = np.maximum(_shares(squares), _shares(_surrogate_totals(inputs, surrogate, seed)))
        largest = np.argsort(-shares)[:MOST_INPUTS]
        kept = sorted(i for i in largest.tolist() if shares[i] >= LEAST_SHARE)
        screened.sort(key=lambda each: -each.mean_absolute)
        screening_runs = SCREENING_ROWS * (count + 1)
    groups = [InputGroup(inputs.titles[number], [number]) for number in kept]
    if len(kept) < count:
        groups.append(InputGroup(REST, [number for number in range(count) if number not in kept]))
    design = Design.of(inputs.covariance, rows=rows, seed=seed)
    found = evaluated(design, groups, evaluate, chance=True)
    stand_in = StandIn(
        evaluated(design, groups, surrogate.at, chance=False).values,
        evaluated(_many(inputs, seed=seed), groups, surrogate.at, chance=False).values.totals(),
    )
    indices = indices_of(
        found,
        groups,
        basis="simulation",
        seed=seed,
        stand_in=stand_in,
        screened=screened,
        screening_runs=screening_runs,
        inert=inputs.inert,
    )
    return indices, found


def _shares(values: np.ndarray) -> np.ndarray:
    return values / max(np.finfo(float).tiny, values.sum())


def _surrogate_totals(inputs: UncertainInputs, surrogate: BoundSurrogate, seed: int) -> np.ndarray:
    """(numbers,) index of every number by the surrogate."""
    groups = [InputGroup(title, [number]) for number, title in enumerate(inputs.titles)]
    found = evaluated(_many(inputs, seed=seed), groups, surrogate.at, chance=False)
    return found.values.totals()


def _by_surrogate(inputs: UncertainInputs, surrogate: BoundSurrogate, *, seed: int) -> Indices:
    """Indices of all uncertain numbers by the surrogate."""
    groups = [InputGroup(title, [number]) for number, title in enumerate(inputs.titles)]
    found = evaluated(_many(inputs, seed=seed), groups, surrogate.at, chance=False)
    return indices_of(found, groups, basis="surrogate", seed=seed, inert=inputs.inert)


def _many(inputs: UncertainInputs, *, seed: int) -> Design:
    """The design of a surrogate."""
    return Design.of(inputs.covariance, rows=SURROGATE_SAMPLES, seed=seed + 2)


def _choice_indices(
    choices: ChoiceInputs,
    prediction: Prediction,
    *,
    seed: int,
    executor: Executor,
    progress: Progress | None,
) -> Indices | None:
    """Indices of what a user can choose, at the nominal numbers; None where that takes too long."""
    metric = metric_of(prediction)
    if not choices.inputs:
        return no_indices(inert=0)

    def evaluate(steps: np.ndarray, numbers: Sequence[int]) -> np.ndarray:
        return choices.simulated(steps, numbers, metric=metric, seed=seed, executor=executor)

    each_s = _PILOTS * _run_s(prediction)
    rows = _rows(len(choices.inputs), each_s=each_s, about="choices", progress=progress)
    if not rows:
        return None
    groups = [InputGroup(each.name, [n], each.values) for n, each in enumerate(choices.inputs)]
    design = Design.of(np.eye(len(groups)), rows=rows, seed=seed)
    found = evaluated(design, groups, evaluate, chance=True)
    return indices_of(found, groups, basis="simulation", seed=seed)


def _unexplained(surrogate: BoundSurrogate, found: Evaluated) -> float:
    """Share of the variance of simulations that a surrogate made from others misses."""
    values = found.independent
    finite = np.isfinite(values)
    if np.count_nonzero(finite) < _FEWEST_EACH:
        return 1.0
    missed = values[finite] - surrogate.values(found.steps[finite])
    return min(1.0, float(np.var(missed) / max(np.finfo(float).tiny, np.var(values[finite]))))


def _moves(inputs: UncertainInputs, found: Evaluated) -> np.ndarray | None:
    """(numbers,) what one standard error of each of `uncertain_numbers` does, by regression.

    None where too few values are finite: `effects` tells it from the draws then.
    """
    finite = np.isfinite(found.independent)
    scaled = found.steps[finite] / inputs.errors
    if len(scaled) < _FEWEST_EACH * (1 + len(inputs.names)):
        return None
    columns = np.column_stack([np.ones(len(scaled)), scaled])
    slopes = np.linalg.lstsq(columns, found.independent[finite], rcond=None)[0][1:]
    known = dict(zip(inputs.names, slopes.tolist(), strict=True))
    numbers = uncertain_numbers(inputs.prediction.system)
    return np.array([known.get(f"{_PART_OF[each.part]}.{each.name}", 0.0) for each in numbers])
