"""What uncertain numbers do to a prediction, told from its draws, against simulation.

`models/advice/effects.py` simulates nothing of its own. Here each group of numbers that a
measurement would tell (the host, an engine's work, handing over, the load generator) is held at its
nominal values in draws that are otherwise the same ("pick and freeze"). The share of the variance
that goes away is one less the covariance of the two sets of runs over the variance of the first. It
has a standard error of some 0.05 itself. What one prediction says from its 20 draws has another, of
0.01 for throughput and of 0.2 for the p99 of an open loop: the mean over several is compared, and
their spread is printed.
"""

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from forecache.models.advice.answers import load_cases
from forecache.models.advice.effects import (
    correlations,
    deciding_metric,
    effects,
    uncertain_numbers,
)
from forecache.models.advice.next_measurement import (
    Measurement,
    possible_measurements,
    variance_left,
)
from forecache.models.prediction.predict import DRAW_REQUESTS, Metrics, Prediction, predict_cases
from forecache.models.prediction.run_length import window
from forecache.models.prediction.simulation import run
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case

from ..check import Check, Finding, within_range

SEED = 7
DRAWS = 400
"""In which numbers are held; what is told has those that every prediction has."""

PREDICTIONS = 8
"""With a seed each, from whose draws the shares are told."""

_HOST = "graviton3-c7g.4xlarge"
_WORKLOAD: dict[str, Any] = {"clients": 650, "keys": 3_000_000, "mix": {"get": 0.8, "set": 0.2}}
SCENARIOS: dict[str, dict[str, Any]] = {
    "valkey 9.1, 8 threads": {"engine": "valkey", "engine_version": "9.1", "io_threads": 8},
    "valkey 9.1, 50 clients": {
        "engine": "valkey",
        "engine_version": "9.1",
        "io_threads": 4,
        "workload": {**_WORKLOAD, "clients": 50},
    },
    "valkey 8.0, 9 threads": {"engine": "valkey", "engine_version": "8.0", "io_threads": 9},
    "redis 7.0, 4 threads": {"engine": "redis", "engine_version": "7.0", "io_threads": 4},
    "redis 8.2, 6 threads": {"engine": "redis", "engine_version": "8.2", "io_threads": 6},
    "valkey 9.1, 200,000/s": {
        "engine": "valkey",
        "engine_version": "9.1",
        "io_threads": 3,
        "workload": {**_WORKLOAD, "arrival": "open_loop", "rate_rps": 200_000, "clients": 400},
    },
}

MOST_OFF = 0.1
"""How far shares may be off in the mean over the groups of a scenario, besides twice the standard
error of the difference."""


def _held(prediction: Prediction, draw: int, tells: Mapping[str, frozenset[str]]) -> float:
    """The logarithm of what decides in a draw, numbers of a group held at their nominal values."""
    scenario, system = prediction.case.scenario, prediction.system
    nominal = system.inputs(scenario)
    inputs = system.inputs(scenario, draw=draw, seed=SEED)
    for part, names in tells.items():
        numbers = getattr(inputs, part)
        known = {
            name: getattr(getattr(nominal, part), name) for name in names if hasattr(numbers, name)
        }
        inputs = replace(inputs, **{part: replace(numbers, **known)})
    inputs = replace(inputs, generator_speed=inputs.speed)
    assert prediction.pilot is not None
    window_ps = window(nominal, prediction.pilot, requests=DRAW_REQUESTS)
    result = run(
        inputs, requests=DRAW_REQUESTS, seed=SEED, replication=1000 + draw, window_ps=window_ps
    )
    return math.log(Metrics.of(result).values[deciding_metric(prediction)])


class Share(NamedTuple):
    """Of the variance of a prediction, the part that a measurement would take away."""

    what: str
    simulated: float
    told: float
    told_spread: float
    """Standard deviation of what single predictions say."""

    @property
    def error(self) -> float:
        """Standard error of the difference of both."""
        correlation = 1.0 - self.simulated
        return math.hypot(
            (1.0 - correlation**2) / math.sqrt(DRAWS), self.told_spread / math.sqrt(PREDICTIONS)
        )


def shares(fields: Mapping[str, Any]) -> list[Share]:
    """Of each group of numbers, its share by simulation and as predictions say it."""
    [(case, system)] = load_cases({"host": _HOST, "workload": _WORKLOAD, **fields})
    told = [_told(case, system, seed) for seed in range(SEED, SEED + PREDICTIONS)]
    [prediction] = predict_cases([(case, system)], seed=SEED)
    found = []
    with ThreadPoolExecutor() as pool:

        def logs(tells: Mapping[str, frozenset[str]]) -> np.ndarray:
            return np.array(list(pool.map(partial(_held, prediction, tells=tells), range(DRAWS))))

        drawn = logs({})
        for measurement in _measurements(prediction):
            covariance = np.cov(drawn, logs(measurement.tells))
            simulated = 1.0 - float(covariance[0, 1] / covariance[0, 0])
            each = [by_name[measurement.what] for by_name in told]
            found.append(
                Share(
                    measurement.what, simulated, float(np.mean(each)), float(np.std(each, ddof=1))
                )
            )
    return found


def _told(case: Case[Scenario], system: System, seed: int) -> dict[str, float]:
    """What one prediction says, by measurement."""
    [prediction] = predict_cases([(case, system)], seed=seed)
    numbers = uncertain_numbers(system)
    moves = effects(prediction, None, numbers, seed=seed)
    correlation = correlations(system, numbers)
    total = variance_left(None, numbers, moves, correlation)
    return {
        measurement.what: 1.0 - variance_left(measurement, numbers, moves, correlation) / total
        for measurement in _measurements(prediction)
    }


def _measurements(prediction: Prediction) -> list[Measurement]:
    """Those that would tell numbers; not those that halve the model's own error."""
    return [each for each in possible_measurements(prediction) if not each.halves]


def _findings() -> list[Finding]:
    findings = []
    for name, fields in SCENARIOS.items():
        rows = shares(fields)
        for row in rows:
            said = f"{row.told:.2f} ± {row.told_spread:.2f} told"
            print(f"  {name}: {row.what}: {row.simulated:.2f} simulated, {said}", flush=True)
        off = float(np.mean([abs(row.simulated - row.told) for row in rows]))
        most = MOST_OFF + 2.0 * float(np.mean([row.error for row in rows]))
        subject = f"shares of variance, mean difference: {name}"
        findings.append(within_range(subject, 0.0, off, 0.0, most))
    return findings


CHECKS = [
    Check(
        "effects",
        "what a measurement would tell, from the draws alone and with its numbers held",
        _findings,
    )
]
