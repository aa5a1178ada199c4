"""Which measurement would narrow an answer most.

What decides is the logarithm of one predicted figure: the throughput of the recommended setting
(p99 under a given rate of requests), or its ratio to that of a rival which may yet be the better
choice. The squares of what one standard error of each uncertain number does to it (`effects`), with
the correlations that a fit brings, split the part of the interval that draws of the same numbers
gave; a measurement takes away what belongs to the numbers it tells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from forecache.sim.plain import Result

from ..engines.generator import GENERATOR_NAMES
from ..engines.profile import HAND_OVER_WORK, WORK_NAMES
from ..prediction.predict import Prediction
from ..prediction.uncertainty import Z95, host_ranges
from .effects import Part, Uncertain, correlations, deciding_metric, effects, uncertain_numbers
from .objective import KNEE
from .paired import paired_parts

MEASURED_ERROR = 0.05
"""Relative standard error with which a measurement tells a number: that of an observed point."""

LEAST_SHARE = 0.01
"""Measurements that tell less of the variance than this are not worth a line."""

_OPEN_Z = 1.645
"""A rival that is better with less than 5% probability does not keep the decision open."""

OBSERVABLE = ("redis", "valkey")
"""Engines that `forecache observe` starts."""

_NETWORK = frozenset({"network_gbit_per_s", "network_one_way_us", "network_packets_per_s"})
_NOT_PROFILED = _NETWORK | {"tlb_reach_bytes"}
"""Leaves of a host that `forecache profile` can't tell; an engine observed there tells the last,
as part of the time its user code takes."""

_INSTRUCTIONS = frozenset(name for name in WORK_NAMES if "_instructions" in name) - HAND_OVER_WORK
_SINGLE_THREAD = frozenset(WORK_NAMES) - HAND_OVER_WORK


@dataclass(frozen=True)
class Measurement:
    """Something a person can measure, and which numbers that determines.

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
    """What a measurement would gain."""

    what: str
    commands: list[str]
    needs_host: bool
    share: float
    """Share of the variance from uncertain numbers that it removes."""
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


def strongest_rival(chosen: Prediction, others: Sequence[Prediction]) -> Prediction | None:
    """The setting most likely to be the better choice after all; None if none is.

    That is by the uncertain numbers, which measurements can narrow; the model's error they can't.
    Fewer threads are the better choice if they reach 95% of the throughput, more threads if the
    chosen ones don't.
    """
    if deciding_metric(chosen) != "throughput_rps":
        return None
    best, smallest = None, _OPEN_Z
    for other in others:
        fewer = other.case.scenario.io_threads < chosen.case.scenario.io_threads
        needed = math.log(KNEE) if fewer else -math.log(KNEE)
        reached = other.mean("throughput_rps") / chosen.mean("throughput_rps")
        ratio = math.log(max(1e-9, reached))
        error = paired_parts(chosen, other, "throughput_rps").parameters / Z95
        if error > 0.0 and (needed - ratio) / error < smallest:
            best, smallest = other, (needed - ratio) / error
    return best


def variance_left(
    measurement: Measurement | None,
    numbers: Sequence[Uncertain],
    moves: np.ndarray,
    correlation: np.ndarray,
) -> float:
    """Variance of what decides after a measurement, if any.

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


def possible_measurements(chosen: Prediction) -> list[Measurement]:
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
                {"speed": leaves | {"tlb_reach_bytes"}, "work": _SINGLE_THREAD},
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


def next_measurement(
    chosen: Prediction,
    others: Sequence[Prediction],
    *,
    seed: int,
    executor: Executor | None = None,
    moves: np.ndarray | None = None,
) -> MeasureNext:
    """Which measurements would narrow a prediction, and by how much each.

    Parameters
    ----------
    chosen
        The recommended setting.
    others
        Settings that could have been recommended instead.
    seed
        Of the predictions' draws.
    executor
        Where to run; here if left out.
    moves : (numbers,)
        Of what decides, where it is known better than by `effects`.
    """
    metric = deciding_metric(chosen)
    rival = strongest_rival(chosen, others)
    if rival is None:
        parts = chosen.parts(metric)
        spread, model = parts.parameters, parts.discrepancy
        fixed = math.hypot(parts.monte_carlo, model, parts.windows)
    else:
        pair = paired_parts(chosen, rival, metric)
        spread, model = pair.parameters, pair.model
        fixed = math.hypot(pair.chance, model)
    numbers = uncertain_numbers(chosen.system)
    if moves is None:
        moves = effects(chosen, rival, numbers, seed=seed, executor=executor)
    correlation = correlations(chosen.system, numbers)
    total = variance_left(None, numbers, moves, correlation)
    gains = []
    for measurement in possible_measurements(chosen) if total > 0.0 else []:
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
    name = "throughput" if deciding_metric(chosen) == "throughput_rps" else "p99"
    if rival is not None:
        name += f" at {_setting(rival)} against that"
    return f"{name} at {_setting(chosen)}"


def _setting(prediction: Prediction) -> str:
    given = prediction.case.given or {"io_threads": prediction.case.scenario.io_threads}
    return ", ".join(f"{key.replace('_', '-')} {value}" for key, value in given.items())
