"""Which measurement would narrow an answer most.

What decides is the logarithm of one predicted figure: the throughput of the recommended setting
(p99 under a given rate of requests), or its ratio to that of a rival which may yet be the better
choice. Every uncertain number is moved by one standard error down and up, all else equal and under
the same random streams. The squares of these effects, with the correlations that a fit brings,
split the part of the interval that draws of the same numbers gave; a measurement takes away what
belongs to the numbers it tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from forecache.sim.plain import Result

from ..engines.generator import GENERATOR_NAMES
from ..engines.profile import HAND_OVER_WORK, WORK_NAMES
from ..prediction.predict import REPLICATIONS, Metrics, Prediction
from ..prediction.run_length import window
from ..prediction.simulation import pilot_run, run, times_of
from ..prediction.system import System
from ..prediction.uncertainty import host_ranges, moved
from ..step_times.inputs import NodeInputs
from .choice import KNEE, ratio_margin

_MANY, _FEW = (40_000, 50), (4_000, 20)
"""Measured requests of each run, and round trips of every client. Few do where uncertain numbers
move what decides by `_WIDE` and more."""
_WIDE = 0.1

MEASURED_ERROR = 0.05
"""Relative standard error with which a measurement tells a number: that of an observed point."""

LEAST_SHARE = 0.01
"""Measurements that tell less of the variance than this are not worth a line."""

_Z95 = 1.959963984540054
_OPEN_Z = 1.645
"""A rival that is better with less than 5% probability does not keep the decision open."""

OBSERVABLE = ("redis", "valkey")
"""Engines that `forecache observe` starts."""

_NETWORK = frozenset({"network_gbit_per_s", "network_one_way_us", "network_packets_per_s"})
_NOT_PROFILED = _NETWORK | {"user_ipc", "tlb_reach_bytes"}
"""Leaves of a host that `forecache profile` can't tell; an engine observed there tells the first
two of them together, as the time its user code takes."""

_INSTRUCTIONS = frozenset(name for name in WORK_NAMES if "_instructions" in name) - HAND_OVER_WORK
_SINGLE_THREAD = frozenset(WORK_NAMES) - HAND_OVER_WORK

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


@dataclass(frozen=True)
class Measurement:
    """Something a person can measure, and which numbers that tells.

    Attributes
    ----------
    what
        In words, without the margin it leaves.
    commands
        To be typed in this order; none where no command of forecache does it.
    needs_host
        Whether it has to be done on the predicted host.
    tells
        Names of numbers by part.
    halves
        It repeats what was done: the variance of the numbers is halved, not told anew.
    """

    what: str
    commands: tuple[str, ...]
    needs_host: bool
    tells: Mapping[Part, frozenset[str]]
    halves: bool = False


@dataclass(frozen=True)
class Gain(Result):
    """What a measurement would bring."""

    what: str
    commands: list[str]
    needs_host: bool
    share: float
    """Of the variance from uncertain numbers, what it takes away."""
    margin: float
    """Relative half width of the 95% interval afterwards."""


@dataclass(frozen=True)
class MeasureNext(Result):
    """Which measurements would narrow an answer."""

    quantity: str
    """In words."""
    margin: float
    """Relative half width of its 95% interval."""
    model_margin: float
    """What of it is the model's own error, which no such measurement narrows."""
    measurements: list[Gain]
    """By what they bring."""


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
    for part, numbers in ranges:
        for name, bounds in sorted(numbers.items()):
            down, up = moved(bounds, -1.0), moved(bounds, 1.0)
            error = math.log(up / down) / 2.0 if down > 0.0 else (up - down) / (up + down)
            if error > 0.0:
                found.append(Uncertain(part, name, down, up, error))
    return found


def correlations(system: System, numbers: Sequence[Uncertain]) -> np.ndarray:
    """(numbers, numbers) correlations of their logarithms: those of a fit, else none."""
    matrix = np.eye(len(numbers))
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


def rival_of(chosen: Prediction, others: Sequence[Prediction]) -> Prediction | None:
    """The setting most likely to be the better choice after all; None where none is likely to be.

    Fewer threads are the better choice if they reach 95% of the throughput, more threads if the
    chosen ones don't.
    """
    if metric_of(chosen) != "throughput_rps":
        return None
    best, smallest = None, _OPEN_Z
    for other in others:
        fewer = other.case.scenario.io_threads < chosen.case.scenario.io_threads
        needed = math.log(KNEE) if fewer else -math.log(KNEE)
        reached = other.mean("throughput_rps") / chosen.mean("throughput_rps")
        ratio = math.log(max(1e-9, reached))
        error = ratio_margin(chosen, other) / _Z95
        if error > 0.0 and (needed - ratio) / error < smallest:
            best, smallest = other, (needed - ratio) / error
    return best


def effects(
    chosen: Prediction,
    rival: Prediction | None,
    numbers: Sequence[Uncertain],
    *,
    spread: float,
    seed: int,
) -> np.ndarray:
    """(numbers,) by how much one standard error of each moves the logarithm that decides.

    Every number is moved down and up, since a limit may hide one of the two; the effect is half of
    the way between them. What chance adds to its square is taken off.

    Parameters
    ----------
    spread
        By how much all of them together move it, about.
    """
    metric = metric_of(chosen)
    length = _FEW if spread >= _WIDE else _MANY
    settings = [prediction for prediction in (chosen, rival) if prediction]
    probes = [_probe(prediction, metric, length, seed=seed) for prediction in settings]

    def decides(number: Uncertain | None, value: float, replication: int = 0) -> float:
        logarithms = [probe(number, value, replication) for probe in probes]
        return logarithms[-1] - logarithms[0] if rival else logarithms[0]

    with ThreadPoolExecutor() as pool:
        nominal = [pool.submit(decides, None, 0.0, n) for n in range(REPLICATIONS)]
        below, above = (
            np.array(list(pool.map(decides, numbers, values)))
            for values in ([n.down for n in numbers], [n.up for n in numbers])
        )
        by_chance = np.var([each.result() for each in nominal], ddof=1)
    moves = (above - below) / 2.0
    squares = np.maximum(0.0, moves**2 - by_chance / 2.0)
    return np.asarray(np.sign(moves) * np.sqrt(squares))


def _probe(
    prediction: Prediction, metric: str, length: tuple[int, int], *, seed: int
) -> Callable[[Uncertain | None, float, int], float]:
    """A function that simulates a setting, with one number replaced if it is given one."""
    base = prediction.system.inputs(prediction.case.scenario)
    pilot = prediction.pilot or pilot_run(base, times_of(base), seed=seed)
    requests, round_trips = length
    window_ps = window(base, pilot, requests=requests, round_trips=round_trips)

    def logarithm(number: Uncertain | None, value: float, replication: int) -> float:
        inputs = base if number is None else _replaced(base, number.part, number.name, value)
        result = run(
            inputs, requests=requests, seed=seed, replication=replication, window_ps=window_ps
        )
        return math.log(max(Metrics.of(result).values[metric], 1e-12))

    return logarithm


def _replaced(base: NodeInputs, part: Part, name: str, value: float) -> NodeInputs:
    if part == "work":
        changed: dict[str, Any] = {name: value}
        return replace(base, work=replace(base.work, **changed))
    if part == "generator":
        return replace(base, generator=replace(base.generator, **{name: value}))
    speed = replace(base.speed, **{name: value})  # type: ignore[arg-type]
    return replace(base, speed=speed, generator_speed=speed)


def variance_left(
    measurement: Measurement | None,
    numbers: Sequence[Uncertain],
    moves: np.ndarray,
    correlation: np.ndarray,
) -> float:
    """Variance of what decides once a measurement, if any, has told its numbers.

    Parameters
    ----------
    moves : (numbers,)
        From `effects`.
    correlation : (numbers, numbers)
        From `correlations`.
    """
    left = correlation
    told = [] if measurement is None else _told(measurement, numbers)
    if measurement is not None and measurement.halves:
        scale = np.ones(len(numbers))
        scale[told] = math.sqrt(0.5)
        left = correlation * np.outer(scale, scale)
    elif told:
        # Gaussian: each told number observed with `MEASURED_ERROR`, in units of its own error.
        noise = np.diag([(MEASURED_ERROR / numbers[i].error) ** 2 for i in told])
        gain = np.linalg.solve(correlation[np.ix_(told, told)] + noise, correlation[told])
        left = correlation - correlation[:, told] @ gain
    return max(0.0, float(moves @ left @ moves))


def _told(measurement: Measurement, numbers: Sequence[Uncertain]) -> list[int]:
    return [
        index
        for index, number in enumerate(numbers)
        if number.name in measurement.tells.get(number.part, frozenset())
    ]


def measurements_for(chosen: Prediction) -> list[Measurement]:
    """What a person could measure next, for a prediction's host, engine and load generator."""
    system, scenario = chosen.system, chosen.case.scenario
    host, engine = system.host.id, system.engine
    binary = f"{engine.engine}-server"
    observe = (
        f"forecache observe --design auto --host host.yaml --engine {binary} --out bundle",
        "forecache calibrate bundle --out engine.yaml",
    )
    profile = ("forecache profile --out host.yaml",)
    leaves = frozenset(name for name in host_ranges(system.host) if name not in _NOT_PROFILED)
    found = []
    if not system.observed_here:
        again = " again" if system.host.captured else ""
        found.append(Measurement(f"profile {host} itself{again}", profile, True, {"speed": leaves}))
    observable = engine.engine in OBSERVABLE
    if observable and not system.observed_here:
        found.append(
            Measurement(
                f"profile {host} itself, observe {engine.engine} there and calibrate",
                (*profile, *observe),
                True,
                {"speed": leaves | {"user_ipc", "tlb_reach_bytes"}, "work": _SINGLE_THREAD},
            )
        )
    if observable and (engine.observed is None or engine.reuse is not None):
        found.append(
            Measurement(
                f"observe {engine.engine} {engine.version} on any machine and calibrate",
                (*profile, *observe),
                False,
                {"work": _SINGLE_THREAD},
            )
        )
    elif observable and engine.observed is not None:
        found.append(
            Measurement(
                f"observe {engine.engine} again, with as many points",
                observe,
                False,
                {"work": _SINGLE_THREAD},
                halves=True,
            )
        )
        if engine.observed.depth == "clock":
            found.append(
                Measurement(
                    "count the engine’s instructions while observing it",
                    (f"{observe[0]} --profiler callgrind", observe[1]),
                    False,
                    {"work": _INSTRUCTIONS},
                )
            )
    cores = max(2, scenario.io_threads) + scenario.generator_threads
    if observable:
        found.append(
            Measurement(
                f"measure {engine.engine} at several io-threads on {cores} cores or more",
                (),
                False,
                {"work": HAND_OVER_WORK},
            )
        )
    network = frozenset() if scenario.same_host else _NETWORK
    found.append(
        Measurement(
            f"measure {system.generator.id} alone: its CPU time per request"
            + (" and the network it uses" if network else ""),
            (),
            False,
            {"generator": frozenset(GENERATOR_NAMES), "speed": network},
        )
    )
    return found


def next_measurement(chosen: Prediction, others: Sequence[Prediction], *, seed: int) -> MeasureNext:
    """Which measurements would tighten a prediction, and by how much each.

    Parameters
    ----------
    chosen
        The recommended setting.
    others
        Settings that could have been recommended instead.
    """
    metric = metric_of(chosen)
    rival = rival_of(chosen, others)
    if rival is None:
        parts = chosen.parts(metric)
        spread, model = parts.parameters, parts.discrepancy
        fixed = math.hypot(parts.monte_carlo, model)
    else:
        spread, model, fixed = ratio_margin(chosen, rival), 0.0, 0.0
    numbers = uncertain_numbers(chosen.system)
    moves = effects(chosen, rival, numbers, spread=spread, seed=seed)
    correlation = correlations(chosen.system, numbers)
    total = variance_left(None, numbers, moves, correlation)
    gains = []
    for measurement in measurements_for(chosen) if total > 0.0 else []:
        left = variance_left(measurement, numbers, moves, correlation) / total
        gains.append(
            Gain(
                what=measurement.what,
                commands=list(measurement.commands),
                needs_host=measurement.needs_host,
                share=1.0 - left,
                margin=math.hypot(fixed, spread * math.sqrt(left)),
            )
        )
    kept = [gain for gain in gains if gain.share >= LEAST_SHARE]
    return MeasureNext(
        quantity=_quantity(chosen, rival),
        margin=math.hypot(fixed, spread),
        model_margin=model,
        measurements=sorted(kept, key=lambda gain: gain.margin),
    )


def _quantity(chosen: Prediction, rival: Prediction | None) -> str:
    name = "throughput" if metric_of(chosen) == "throughput_rps" else "p99"
    if rival is not None:
        name += f" at {_setting(rival)} against that"
    return f"{name} at {_setting(chosen)}"


def _setting(prediction: Prediction) -> str:
    given = prediction.case.given or {"io_threads": prediction.case.scenario.io_threads}
    return ", ".join(f"{key.replace('_', '-')} {value}" for key, value in given.items())
