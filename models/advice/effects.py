"""By how much each uncertain number moves a prediction, told from its draws.

A number acts through the times of steps. A throughput is first of all what the stations allow
(`throughput_bound`): its mean elasticities to the service times need no simulation. What the bound
leaves of the draws, or all of a latency, is regressed on the logarithms of the service times. These
elasticities price what one standard error of a number does to the service times. Nothing is
simulated for it; docs/statistics.md tells how that compares with simulation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from forecache.sim.executors import Submitted

from ..prediction.predict import Prediction
from ..prediction.system import System
from ..prediction.uncertainty import LearnedNumber, host_ranges, moved, symmetric_root
from ..step_times.inputs import NodeInputs
from .throughput_bound import service_times_us, throughput_bound

Part = Literal["speed", "work", "generator"]
"""The field of `NodeInputs` that holds a number: of the host, the engine or the load generator."""


@dataclass(frozen=True)
class Uncertain:
    """An uncertain number: one standard error below and above, and that error relative to it."""

    part: Part
    name: str
    down: float
    up: float
    error: float


def uncertain_numbers(system: System) -> list[Uncertain]:
    """The numbers that draws of a system vary, each with its standard error."""
    engine = system.engine
    # A fit's covariance holds on the host it was made on; elsewhere the ranges are drawn.
    fitted = (engine.covariance or {}) if system.observed_here else {}
    found = []
    for name in sorted(fitted):
        value, error = engine.work[name].best, math.sqrt(fitted[name][name])
        down, up = value * math.exp(-error), value * math.exp(error)
        found.append(Uncertain("work", name, down, up, error))
    ranges: list[tuple[Part, Mapping[str, tuple[float, float, float]]]] = [
        ("work", {k: v for k, v in engine.uncertain().items() if k not in fitted}),
        ("generator", system.generator.uncertain()),
        # What a capture leaves open is part of what was fitted to an engine on that very host.
        ("speed", {} if system.observed_here else host_ranges(system.host)),
    ]
    learned: dict[Part, Mapping[str, LearnedNumber]] = {}
    if not system.observed_here:
        learned = {"work": system.learned.work, "speed": system.learned.host}
    for part, numbers in ranges:
        for name, own in sorted(numbers.items()):
            bounds, at, off = learned.get(part, {}).get(name, (own, 0.0, 1.0))
            down, up = moved(bounds, at - off), moved(bounds, at + off)
            if up > down:
                error = math.log(up / down) / 2.0 if down > 0.0 else (up - down) / (up + down)
                found.append(Uncertain(part, name, down, up, error))
    return found


def correlations(system: System, numbers: Sequence[Uncertain]) -> np.ndarray:
    """(numbers, numbers) correlations of their logarithms: those of a fit, else none.

    A fit on this very host has its own; on a host of the catalogue those of the joint fit hold.
    """
    matrix = np.eye(len(numbers))
    if not system.observed_here:
        learned = system.learned
        order = [*(("speed", name) for name in learned.host), *(("work", n) for n in learned.work)]
        at = {key: index for index, key in enumerate(order)}
        rows = {n: at[a.part, a.name] for n, a in enumerate(numbers) if (a.part, a.name) in at}
        for i, first in rows.items():
            for j, second in rows.items():
                if i != j:
                    matrix[i, j] = learned.correlation[first, second]
    fitted = (system.engine.covariance or {}) if system.observed_here else {}
    for i, a in enumerate(numbers):
        for j, b in enumerate(numbers):
            if i != j and a.part == b.part == "work" and a.name in fitted and b.name in fitted:
                matrix[i, j] = fitted[a.name].get(b.name, 0.0) / (a.error * b.error)
    return matrix


def metric_of(prediction: Prediction) -> str:
    """The figure that decides: throughput, or p99 where a given rate is kept up with."""
    given = prediction.open_loop and not prediction.overloaded
    return "p99_ms" if given else "throughput_rps"


_STEP = 0.1
"""Of a standard error: how far a number is moved to see what it does to service times."""

_PENALTIES = 10.0 ** np.arange(1.0, -3.5, -0.5)
"""Of the regression, as shares of the largest squared singular value of standardised service times:
from next to no effect to hardly any penalty."""

_SAMPLES = 4000
"""Of the uncertain numbers, over which elasticities of a bound are averaged: 20 draws hold too few
of those in which a station far from busy is the limit."""


def effects(
    chosen: Prediction,
    rival: Prediction | None,
    numbers: Sequence[Uncertain],
    *,
    seed: int,
    executor: Executor | None = None,
) -> np.ndarray:
    """(numbers,) by how much one standard error of each moves the logarithm that decides.

    Parameters
    ----------
    rival
        Whose ratio to `chosen` decides; None: the metric of `chosen` does.
    seed
        Of the draws.
    executor
        Where to run; here, one after the other, if left out.
    """
    metric = metric_of(chosen)
    predictions = [chosen] if rival is None else [chosen, rival]
    if executor is None or rival is None:
        found = [_effects_on(each, metric, numbers, seed) for each in predictions]
    else:
        with Submitted(executor) as calls:
            pending = [calls.submit(_effects_on, p, metric, numbers, seed) for p in predictions]
            found = [future.result() for future in pending]
    return found[0] if rival is None else found[1] - found[0]


def _effects_on(
    prediction: Prediction, metric: str, numbers: Sequence[Uncertain], seed: int
) -> np.ndarray:
    scenario, system = prediction.case.scenario, prediction.system
    base = system.inputs(scenario)
    nominal_us = service_times_us(prediction, base)

    def change(inputs: NodeInputs) -> np.ndarray:
        return log_changes(service_times_us(prediction, inputs), nominal_us)

    logs = prediction.log_draws(metric)
    bounded = np.isfinite(logs)
    if np.count_nonzero(bounded) < 2 or not numbers:
        return np.zeros(len(numbers))
    draws = np.array([change(system.inputs(scenario, draw=n, seed=seed)) for n in range(len(logs))])
    moves = np.array([change(_moved_a_little(base, number)) / _STEP for number in numbers])
    if metric != "throughput_rps":
        return np.asarray(moves @ ridge_elasticities(draws[bounded], logs[bounded])[0])
    bound = throughput_bound(prediction, nominal_us)
    random = np.random.Generator(np.random.Philox(seed))
    normals = random.standard_normal((_SAMPLES, len(numbers)))
    samples = normals @ symmetric_root(correlations(system, numbers)) @ moves
    elasticities = bound.elasticities(samples)
    elasticities += ridge_elasticities(draws[bounded], (logs - bound.logs(draws))[bounded])[0]
    return np.asarray(moves @ elasticities)


def log_changes(times_us: np.ndarray, nominal_us: np.ndarray) -> np.ndarray:
    """(resources,) logarithms of service times over the nominal ones; 0 of what takes no time."""
    known = nominal_us > 0.0
    ratios = np.divide(times_us, nominal_us, out=np.ones_like(times_us), where=known)
    return np.asarray(np.log(np.maximum(ratios, 1e-9)))


def ridge_elasticities(service_times: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, float]:
    """(resources,) elasticity of a prediction to each service time, by ridge regression.

    Also the mean square by which draws that were left out are missed.

    Of the penalties the one that leaves the smallest error in draws left out one at a time: D. M.
    Allen, The Relationship between Variable Selection and Data Augmentation and a Method for
    Prediction, Technometrics 16(1), 1974.

    Parameters
    ----------
    service_times : (draws, resources)
        Logarithms.
    values : (draws,)
        Logarithms of what is predicted.
    """
    centred = service_times - service_times.mean(axis=0)
    spread = centred.std(axis=0)
    varies = spread > 1e-9
    elasticities = np.zeros(len(spread))
    off = values - values.mean()
    if not varies.any():
        return elasticities, float(np.mean(off**2))
    left, singular, right = np.linalg.svd(centred[:, varies] / spread[varies], full_matrices=False)
    along = left.T @ off
    least = math.inf
    for penalty in _PENALTIES:
        damping = singular**2 + penalty * singular[0] ** 2
        kept = singular**2 / damping
        # A draw pulls the fit, mean included, towards itself by its leverage.
        leverage = left**2 @ kept + 1.0 / len(values)
        error = float(np.mean(((off - left @ (kept * along)) / (1.0 - leverage)) ** 2))
        if error < least:
            least = error
            elasticities[varies] = right.T @ (singular / damping * along) / spread[varies]
    return elasticities, least


def _moved_a_little(base: NodeInputs, number: Uncertain) -> NodeInputs:
    """The inputs with one number moved up by `_STEP` of its standard error."""
    part, step = number.part, _STEP * (number.up - number.down) / 2.0
    changed: dict[str, Any] = {number.name: getattr(getattr(base, part), number.name) + step}
    if part == "work":
        return replace(base, work=replace(base.work, **changed))
    if part == "generator":
        return replace(base, generator=replace(base.generator, **changed))
    speed = replace(base.speed, **changed)
    return replace(base, speed=speed, generator_speed=speed)
