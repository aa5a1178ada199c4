"""Do intervals that promise 95% hold the truth 95 times in a hundred?

Each experiment is what a user would run: ten replications of a queue, one interval. The truth is
known, so it can be counted how often the interval holds it. At 2,000 experiments the count of an
exact 95% interval has a standard deviation of half a percentage point.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from forecache.sim.histogram import LatencyHistogram
from forecache.sim.statistics import mean_interval, paired_difference

from ..check import Check, Finding, within_range
from .queues import EXPONENTIAL, open_queue, record_all
from .sequential import run_replications

SEED = 20_250_102
NOMINAL = 0.95
LOWEST, HIGHEST = 0.93, 0.97
EXPERIMENTS = 2_000
REPLICATIONS = 10
LOAD = 0.5
SERVICE_PS = 1e6
WARM_UP = 500
CUSTOMERS = 20_000
THREADS = 2


def _sojourns(replication: int, mean_ps: float = SERVICE_PS) -> np.ndarray:
    total = WARM_UP + CUSTOMERS
    completions_ps, sojourns_ps = np.zeros((2, total), np.int64)
    open_queue(
        *(SEED, replication, total, 1, SERVICE_PS / LOAD, mean_ps, EXPONENTIAL, 1.0),
        *(completions_ps, sojourns_ps),
    )
    return sojourns_ps[WARM_UP:]


def _experiment(number: int) -> tuple[bool, bool, bool]:
    """Whether the intervals of mean, p99 and p99 from histograms hold the truth."""
    mean_ps = SERVICE_PS / (1.0 - LOAD)
    p99_ps = -math.log(0.01) * mean_ps
    first = number * REPLICATIONS
    samples = [_sojourns(replication) for replication in range(first, first + REPLICATIONS)]
    histograms = []
    for sample in samples:
        histogram = LatencyHistogram()
        record_all(histogram.counts, sample)
        histograms.append(histogram)
    return (
        mean_interval([sample.mean() for sample in samples]).contains(mean_ps),
        mean_interval([np.quantile(sample, 0.99) for sample in samples]).contains(p99_ps),
        mean_interval([h.quantile(0.99) for h in histograms]).contains(p99_ps),
    )


def _finding(subject: str, hits: int, experiments: int) -> Finding:
    return within_range(subject, NOMINAL, hits / experiments, LOWEST, HIGHEST)


def of_means_and_quantiles() -> list[Finding]:
    """Ten replications of M/M/1; mean, p99 of all values and p99 of the histograms."""
    with ThreadPoolExecutor(THREADS) as executor:
        hits = np.array(list(executor.map(_experiment, range(EXPERIMENTS)))).sum(axis=0)
    subjects = ["mean", "p99 of the values", "p99 of the histograms"]
    return [
        _finding(f"M/M/1, {REPLICATIONS} replications: {subject}", int(hit), EXPERIMENTS)
        for subject, hit in zip(subjects, hits, strict=True)
    ]


def _paired_experiment(number: int, *, faster_ps: float) -> tuple[bool, float]:
    truth_ps = SERVICE_PS / (1.0 - LOAD)
    load = LOAD * faster_ps / SERVICE_PS
    truth_ps -= faster_ps / (1.0 - load)
    first = number * REPLICATIONS
    numbers = range(first, first + REPLICATIONS)
    one = np.array([_sojourns(replication).mean() for replication in numbers])
    two = np.array([_sojourns(replication, faster_ps).mean() for replication in numbers])
    return paired_difference(one, two).contains(truth_ps), variance_reduction(one, two)


def variance_reduction(first: np.ndarray, second: np.ndarray) -> float:
    """Variance that independent samples would give a difference, over the variance it has.

    Above 1 the common random numbers helped.
    """
    independent = float(first.var(ddof=1) + second.var(ddof=1))
    paired = float((first - second).var(ddof=1))
    return independent / paired if paired else math.inf


def of_paired_differences() -> list[Finding]:
    """Two speeds of one server under common random numbers, and what these are worth."""
    experiments = 1_000
    run = partial(_paired_experiment, faster_ps=0.9 * SERVICE_PS)
    with ThreadPoolExecutor(THREADS) as executor:
        outcomes = list(executor.map(run, range(experiments)))
    hits = sum(hit for hit, _ in outcomes)
    reduction = float(np.median([reduction for _, reduction in outcomes]))
    return [
        _finding("M/M/1 at two speeds: paired difference", hits, experiments),
        within_range("variance reduction (1: none), median", 1.0, reduction, 2.0, math.inf),
    ]


def _sequential_experiment(number: int) -> bool:
    rng = np.random.default_rng([SEED, number])
    result = run_replications(
        lambda _replication: {"value": float(rng.gamma(25.0, 0.04))},
        precision={"value": 0.05},
        maximum=1_000,
    )
    return result.estimates["value"].contains(1.0)


def of_stopping_rule() -> list[Finding]:
    """Stopping when the interval is narrow enough doesn't spoil it much.

    A run that stops on its own spread stops too early when the spread is small by accident. The
    loss is known and bounded; checkpoints keep it inside the range.
    """
    experiments = 4_000
    hits = sum(_sequential_experiment(number) for number in range(experiments))
    return [_finding("stop at 5% half width: mean", hits, experiments)]


CHECKS = [
    Check("coverage", "95% intervals of means and quantiles", of_means_and_quantiles),
    Check("coverage-paired", "95% intervals of paired differences", of_paired_differences),
    Check("coverage-stopping", "95% intervals after stopping when precise", of_stopping_rule),
]
