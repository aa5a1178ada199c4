"""By how much each uncertain number moves a prediction, told from its draws.

A number acts through the times of steps. A throughput is first of all what the stations allow
(`throughput_bound`): its mean elasticities to the service times need no simulation. What the bound
leaves of the draws, or all of a latency, is regressed on the logarithms of the service times. These
elasticities price what one standard error of a number does to the service times. Nothing is
simulated for it; docs/statistics.md tells how that compares with simulation.

No station is busy for more than all of the time, and no more requests are under way than clients
have sent: the asymptotic bounds of operational analysis (P. J. Denning and J. P. Buzen, The
Operational Analysis of Queueing Network Models, ACM Computing Surveys 10(3), 1978). Which station
bounds a throughput may change from draw to draw, where several are nearly busy.
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
from ..prediction.simulation import times_near
from ..prediction.system import System
from ..prediction.uncertainty import LearnedNumber, host_ranges, moved, symmetric_root
from ..step_times.inputs import NodeInputs

RESOURCES = (
    *("main", "I/O", "worker", "generator", "waking", "packet", "bandwidth", "one way"),
    "interrupt",
)
"""What a request takes time of."""

_PS_PER_US = 1e6
_SERVER = ("main", "I/O", "worker")


def service_times_us(prediction: Prediction, inputs: NodeInputs) -> np.ndarray:
    """(resources,) service times of a request at other numbers, with the counts of the run.

    Of the network and of interrupts it is in proportion only: a packet, a KiB, an interrupt.
    """
    times = times_near(inputs, prediction.pilot)
    found = dict.fromkeys(RESOURCES, 0.0)
    for _, thread, time_us in steps_of(prediction, times=times):
        found[thread] += time_us
    generator_ps = times.generator_recv_ps + times.generator_reply_ps
    generator_ps += times.generator_request_ps + times.generator_send_ps
    waking_ps = times.wake_latency_ps.mean() + times.wake_send_ps + times.thread_wake_ps
    found["generator"] = generator_ps / _PS_PER_US
    found["waking"] = waking_ps / _PS_PER_US
    found["packet"] = times.packet_ps / _PS_PER_US
    found["bandwidth"] = times.wire_ps_per_kib / _PS_PER_US
    found["one way"] = 2 * times.one_way_ps / _PS_PER_US
    if inputs.scenario.interrupt_cores > 0:
        found["interrupt"] = times.softirq_ps / _PS_PER_US
    return np.array([found[name] for name in RESOURCES])


@dataclass(frozen=True)
class ThroughputBound:
    """The throughput that stations allow, relative to the nominal one.

    Attributes
    ----------
    busy : (stations, resources)
        Share of the time in which a station works with each resource, at the nominal numbers.
    constant : (stations,)
        The same of what no uncertain number changes.
    """

    busy: np.ndarray
    constant: np.ndarray

    def logs(self, changes: np.ndarray) -> np.ndarray:
        """(draws,) logarithm of the throughput, by `changes` (draws, resources) of log times."""
        return -np.log(self._utilisations(changes).max(axis=1))

    def elasticities(self, changes: np.ndarray) -> np.ndarray:
        """(resources,) mean elasticity of the throughput to each service time over draws.

        In one draw it is that resource's share of the work of the station that is the limit.
        """
        utilisations = self._utilisations(changes)
        limits = utilisations.argmax(axis=1)
        work = self.busy[limits] * np.exp(changes)
        return np.asarray(-(work / utilisations.max(axis=1)[:, None]).mean(axis=0))

    def _utilisations(self, changes: np.ndarray) -> np.ndarray:
        """(draws, stations), at the nominal throughput."""
        return np.asarray(self.constant + np.exp(changes) @ self.busy.T)


def throughput_bound(prediction: Prediction, nominal_us: np.ndarray) -> ThroughputBound:
    """The bound of a prediction's stations: each utilisation is throughput times service time.

    Time in which threads spin is no work. A station of several servers is all of them.

    Parameters
    ----------
    nominal_us : (resources,)
        From `service_times_us`.
    """
    scenario, workload = prediction.case.scenario, prediction.case.scenario.workload
    per_us = prediction.mean("throughput_rps") / 1e6
    taken = dict(zip(RESOURCES, (per_us * nominal_us).tolist(), strict=True))
    threads = max(1, len(prediction.io_thread_utilisation))
    groups, limits = prediction.system.sharing(scenario), prediction.network_limits
    # Of the server's threads every sleep was counted; a reply wakes a thread that is not at work.
    result = prediction.nominal[0].result
    wakes = result.counters["blocks"] / max(1, result.completions)
    wakes += 1.0 - prediction.utilisation["load generator"]
    in_flight = workload.clients * workload.pipeline
    travels = (*_SERVER, "generator", "one way")

    def of(servers: float, *names: str) -> dict[str, float]:
        return {name: taken[name] / servers for name in names}

    stations = [
        of(1, "main"),
        of(threads, "I/O"),
        of(threads, "worker"),
        of(groups.generator_cores or scenario.generator_threads, "generator"),
        of(groups.server_cores or math.inf, *_SERVER, *(("generator",) if groups.shared else ())),
        of(groups.quota_cores or math.inf, *_SERVER),
        {"packet": limits["packets"]},
        {"bandwidth": limits["bandwidth"]},
        {"interrupt": prediction.utilisation["interrupts"]},
        {**of(in_flight, *travels), "waking": wakes * taken["waking"] / in_flight},  # clients
        {},  # arrivals
    ]
    pauses = per_us * workload.think_us / in_flight
    arrivals = per_us * 1e6 / prediction.offered_rps if prediction.open_loop else 0.0
    busy = [[station.get(name, 0.0) for name in RESOURCES] for station in stations]
    constant = [0.0] * (len(stations) - 2)
    return ThroughputBound(np.array(busy), np.array([*constant, pauses, arrivals]))


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


def deciding_metric(prediction: Prediction) -> str:
    """The metric that decides: throughput, or p99 where a given rate is kept up with."""
    given = prediction.open_loop and not prediction.overloaded
    return "p99_ms" if given else "throughput_rps"


SMALL_STEP = 0.1
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
    """(numbers,) effect of one standard error of each on the logarithm of what decides.

    Parameters
    ----------
    rival
        Whose ratio to `chosen` decides; None: the metric of `chosen` does.
    seed
        Of the draws.
    executor
        Where to run; here, one after the other, if left out.
    """
    metric = deciding_metric(chosen)
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
    base = prediction.system.inputs(prediction.case.scenario)
    nominal_us = service_times_us(prediction, base)
    bound, elasticities, _ = fit_draws(prediction, metric, nominal_us, seed=seed, fewest=2)
    if elasticities is None or not numbers:
        return np.zeros(len(numbers))
    moved_us = [service_times_us(prediction, _moved_a_little(base, each)) for each in numbers]
    moves = np.array([log_changes(each, nominal_us) / SMALL_STEP for each in moved_us])
    if bound is not None:
        random = np.random.Generator(np.random.Philox(seed))
        normals = random.standard_normal((_SAMPLES, len(numbers)))
        samples = normals @ symmetric_root(correlations(prediction.system, numbers)) @ moves
        elasticities = bound.elasticities(samples) + elasticities
    return np.asarray(moves @ elasticities)


def fit_draws(
    prediction: Prediction, metric: str, nominal_us: np.ndarray, *, seed: int, fewest: int
) -> tuple[ThroughputBound | None, np.ndarray | None, float]:
    """How a metric depends on service times: the bound, and a regression of the rest over draws.

    Parameters
    ----------
    nominal_us : (resources,)
        From `service_times_us`.
    fewest
        Draws with a finite value that a regression needs.

    Returns
    -------
    tuple
        The bound, None of a latency, which has none; (resources,) elasticities of what it leaves,
        None with too few draws; the share of the variance over draws that both miss, each draw
        left out of the regression in turn.
    """
    scenario, system = prediction.case.scenario, prediction.system
    bound = throughput_bound(prediction, nominal_us) if metric == "throughput_rps" else None
    logs = prediction.log_draws(metric)
    kept = np.isfinite(logs)
    if np.count_nonzero(kept) < fewest:
        return bound, None, 1.0
    inputs = (system.inputs(scenario, draw=n, seed=seed) for n in np.flatnonzero(kept).tolist())
    changes = np.array(
        [log_changes(service_times_us(prediction, each), nominal_us) for each in inputs]
    )
    left = logs[kept] - (0.0 if bound is None else bound.logs(changes))
    elasticities, missed = ridge_elasticities(changes, left)
    return bound, elasticities, min(1.0, missed / max(1e-18, float(np.var(logs[kept]))))


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
    """The inputs with one number moved up by `SMALL_STEP` of its standard error."""
    part, step = number.part, SMALL_STEP * (number.up - number.down) / 2.0
    changed: dict[str, Any] = {number.name: getattr(getattr(base, part), number.name) + step}
    if part == "work":
        return replace(base, work=replace(base.work, **changed))
    if part == "generator":
        return replace(base, generator=replace(base.generator, **changed))
    speed = replace(base.speed, **changed)
    return replace(base, speed=speed, generator_speed=speed)
