"""Sobol indices against closed forms, and those of the quickstart against brute force.

Brute force is the definition, with nothing of the estimator in it: all numbers but one are drawn,
that one is drawn several times given the others, and the variance over these is averaged.
"""

import math
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

import numpy as np
from scipy.stats import norm

from forecache.models.advice.cases import load_cases
from forecache.models.advice.effects import deciding_metric
from forecache.models.advice.sensitivity import UncertainInputs, uncertain_indices
from forecache.models.advice.sobol import Design, Evaluations, evaluate_design, total_order
from forecache.models.prediction.predict import Prediction, predict_cases
from forecache.sim.processes import workers

from ..check import Check, Finding, within_range

SEED = 11
QUICKSTART = "examples/quickstart.yaml"
IO_THREADS = 8

POINTS = 2500
"""Places at which brute force draws a number several times; `--share` takes some of them."""

_EACH = 4
_INPUTS = 4
"""The largest indices, which brute force is worth for."""

_EXPERIMENTS = 400
_ROWS = 128
_SIGMAS = 3.0


def _ishigami(steps: np.ndarray) -> np.ndarray:
    """T. Ishigami, T. Homma, An importance quantification technique in uncertainty analysis for
    computer models, ISUMA 1990, with a = 7 and b = 0.1."""
    x = math.pi * (2.0 * norm.cdf(steps) - 1.0)
    return np.asarray(np.sin(x[:, 0]) * (1.0 + 0.1 * x[:, 2] ** 4) + 7.0 * np.sin(x[:, 1]) ** 2)


def ishigami_totals() -> np.ndarray:
    """(3,) its total-order indices, by its variances."""
    pi_4 = math.pi**4
    alone, second = 0.5 * (1.0 + 0.1 * pi_4 / 5.0) ** 2, 49.0 / 8.0
    together = 0.01 * math.pi**8 * (1.0 / 18.0 - 1.0 / 50.0)
    return np.array([alone + together, second, together]) / (alone + second + together)


_SLOPES = np.array([1.0, -2.0, 0.5, 0.3])
_CORRELATION = np.array(
    [[1.0, 0.5, 0.0, 0.0], [0.5, 1.0, -0.3, 0.0], [0.0, -0.3, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
)


def _additive(steps: np.ndarray) -> np.ndarray:
    return np.asarray(steps @ _SLOPES)


def additive_totals(covariance: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """(numbers,) of a sum of jointly normal numbers: one over the precision is the variance that a
    number has once all others are known."""
    left = slopes**2 / np.diag(np.linalg.inv(covariance))
    return np.asarray(left / (slopes @ covariance @ slopes))


def _closed_forms() -> list[Finding]:
    findings = []
    cases = [
        ("Ishigami's function", _ishigami, np.eye(3), ishigami_totals()),
        ("a sum of correlated", _additive, _CORRELATION, additive_totals(_CORRELATION, _SLOPES)),
    ]
    for name, function, covariance, truth in cases:
        inside, sums = np.zeros(len(truth)), np.zeros(len(truth))
        for seed in range(_EXPERIMENTS):
            design = Design.of(covariance, rows=_ROWS, seed=seed)
            found = total_order(_values(design, function), seed=seed)
            inside += [e.low <= known <= e.high for e, known in zip(found, truth, strict=True)]
            sums += [e.value for e in found]
        for number, known in enumerate(truth.tolist()):
            mean = float(sums[number] / _EXPERIMENTS)
            subject = f"{name}: mean index {number + 1}"
            findings.append(within_range(subject, known, mean, 0.95 * known, 1.05 * known))
            # Points of a low discrepancy are better than the bootstrap of independent ones says.
            covered = float(inside[number] / _EXPERIMENTS)
            subject = f"{name}: 95% intervals with index {number + 1}"
            findings.append(within_range(subject, 0.95, covered, 0.92, 1.0))
    return findings


def _values(design: Design, function: Callable[[np.ndarray], np.ndarray]) -> Evaluations:
    alone = [[number] for number in range(len(design.root))]
    return evaluate_design(design, alone, lambda x, _: function(x), chance=False)


def brute_force(
    inputs: UncertainInputs, number: int, *, points: int, executor: Executor
) -> tuple[float, float]:
    """The total-order index of one number by two loops, and its standard error."""
    random = np.random.Generator(np.random.Philox([SEED, number]))
    covariance = inputs.covariance
    count = len(covariance)
    others = [index for index in range(count) if index != number]
    known = covariance[np.ix_(others, others)]
    weights = np.linalg.solve(known, covariance[others, number])
    left = math.sqrt(covariance[number, number] - covariance[number, others] @ weights)
    outer = random.multivariate_normal(np.zeros(count - 1), known, size=points)
    steps = np.empty((points, _EACH, count))
    steps[:, :, others] = outer[:, None, :]
    steps[:, :, number] = (outer @ weights)[:, None] + left * random.standard_normal(
        (points, _EACH)
    )
    metric = deciding_metric(inputs.prediction)
    # As in what is checked, chance is no input: one row of the design, one set of random numbers.
    streams = np.repeat(np.arange(points) + 50_000, _EACH).tolist()
    values = inputs.simulated(
        steps.reshape(-1, count), streams, metric=metric, seed=SEED, executor=executor
    ).reshape(points, _EACH)
    inner = values.var(axis=1, ddof=1)

    def index(rows: np.ndarray) -> float:
        return float(inner[rows].mean() / values[rows].var())

    resampled = [index(random.integers(points, size=points)) for _ in range(400)]
    return index(np.arange(points)), float(np.std(resampled))


def _quickstart(executor: Executor) -> Prediction:
    """The recommended setting of the quickstart."""
    asked = load_cases(QUICKSTART)
    case = next(each for each in asked if each[0].scenario.io_threads == IO_THREADS)
    [prediction] = predict_cases([case], seed=SEED, executor=executor)
    return prediction


def _findings(*, points: int) -> list[Finding]:
    findings = _closed_forms()
    with workers() as executor:
        prediction = _quickstart(executor)
        told, *_ = uncertain_indices(prediction, seed=SEED, executor=executor)
        inputs = UncertainInputs.of(prediction)
        single = [each for each in told.indices if each.inputs == 1][:_INPUTS]
        for each in single:
            number = inputs.titles.index(each.name)
            value, error = brute_force(inputs, number, points=points, executor=executor)
            own = (each.total.high - each.total.low) / (2.0 * 1.96)
            off = _SIGMAS * math.hypot(own, error)
            print(
                f"  {each.name}: {each.total.value:.3f} ({each.total.low:.3f}-"
                f"{each.total.high:.3f}), brute force {value:.3f} ± {error:.3f}",
                flush=True,
            )
            findings.append(
                within_range(each.name, value, each.total.value, value - off, value + off)
            )
    return findings


def check(points: int = POINTS) -> Check:
    """The check, with brute force at a number of points."""
    return Check(
        "sensitivity",
        "Sobol indices against closed forms, and the quickstart's against brute force",
        partial(_findings, points=points),
    )


CHECKS = [check()]
