"""By how much each uncertain number moves a prediction, told from its draws.

A number acts through the times of steps. So the logarithm of what is predicted is regressed, over
the draws, on the logarithms of a few service times, one for each station (ridge regression: draws
are few). These elasticities price what one standard error of a number does to the service times.
Nothing is simulated for it; docs/statistics.md tells how that compares with simulation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from forecache.sim.executors import Submitted

from ..breakdown.explain import steps_of
from ..prediction.predict import Prediction
from ..prediction.simulation import times_of
from ..prediction.system import System
from ..prediction.uncertainty import host_ranges, learned_of, moved
from ..step_times.inputs import NodeInputs

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
    learned = {} if system.observed_here else learned_of(system.host, engine)
    for part, numbers in ranges:
        for name, bounds in sorted(numbers.items()):
            known = learned.get(name) if part == "work" else None
            at, off = (0.0, 1.0) if known is None else (known.mean, known.error)
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
    together = None if system.observed_here else system.host.posterior
    if together is not None:
        prefixes = {"speed": "", "work": f"{system.engine.policy}."}
        known = [
            (n, f"{prefixes[a.part]}{a.name}") for n, a in enumerate(numbers) if a.part in prefixes
        ]
        for i, first in known:
            for j, second in known:
                if i != j:
                    matrix[i, j] = together.correlated(first, second)
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

_RIDGE = 0.01
"""Penalty of the regression, as a share of the largest squared singular value of standardised
service times."""


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
    nominal = _service_times(prediction, base)
    known = nominal > 0.0

    def change(inputs: NodeInputs) -> np.ndarray:
        times = _service_times(prediction, inputs)[known]
        return np.log(np.maximum(times, 1e-9) / nominal[known])

    logs = prediction.log_draws(metric)
    draws = np.array([change(system.inputs(scenario, draw=n, seed=seed)) for n in range(len(logs))])
    bounded = np.isfinite(logs)
    if np.count_nonzero(bounded) < 2 or not numbers:
        return np.zeros(len(numbers))
    elasticities = _elasticities(draws[bounded], logs[bounded])
    moves = [change(_moved_a_little(base, number)) / _STEP for number in numbers]
    return np.asarray(np.array(moves) @ elasticities)


def _service_times(prediction: Prediction, inputs: NodeInputs) -> np.ndarray:
    """(stations,) time that a request takes of each at other numbers, with the run's counts.

    Of waking and of the network it is in proportion only, which is all that its logarithm needs: a
    wake-up of each kind, a packet and a KiB.
    """
    times = times_of(inputs)
    by_thread = {"main": 0.0, "I/O": 0.0, "worker": 0.0}
    for _, thread, time_us in steps_of(prediction, times=times):
        by_thread[thread] += time_us
    generator_ps = times.generator_recv_ps + times.generator_reply_ps
    generator_ps += times.generator_request_ps + times.generator_send_ps
    waking_ps = times.wake_latency_ps.mean() + times.wake_send_ps + times.thread_wake_ps
    network_ps = times.packet_ps + times.wire_ps_per_kib
    return np.array(
        [*by_thread.values(), generator_ps, waking_ps, network_ps, 2 * times.one_way_ps], float
    )


def _elasticities(service_times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(stations,) elasticity of a prediction to each service time.

    Parameters
    ----------
    service_times : (draws, stations)
        Logarithms.
    values : (draws,)
        Logarithms of what is predicted.
    """
    centred = service_times - service_times.mean(axis=0)
    spread = centred.std(axis=0)
    varies = spread > 1e-9
    scaled = centred[:, varies] / spread[varies]
    elasticities = np.zeros(len(spread))
    if varies.any():
        left, singular, right = np.linalg.svd(scaled, full_matrices=False)
        shrunk = singular / (singular**2 + _RIDGE * singular[0] ** 2)
        elasticities[varies] = right.T @ (shrunk * (left.T @ (values - values.mean())))
        elasticities[varies] /= spread[varies]
    return elasticities


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
