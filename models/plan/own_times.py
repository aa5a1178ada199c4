"""What today's nodes say of their own time, taken into the prediction.

A server that runs has the best calibration there is, for its host, engine and load. Predicted is
what it says under its load: the time inside commands, and the CPU time of its main thread. Three
factors (`Corrections`), uncertain as the parts of a request are, are conditioned on these, draw by
draw (docs/statistics.md has the formulas; Y. Hoffman and E. Ribak, Astrophysical Journal Letters
380, L5, 1991).

What a command takes inside is nearly the same under any load. The rest includes sleeping and
waking, most of a light load's CPU time and hardly any of a heavy one's, so that the model in
between has to explain both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from forecache.sim.streams import generator

from ..breakdown.explain import steps_of
from ..prediction.predict import DRAWS, SERVER_CPU, Prediction, predict_cases
from ..prediction.simulation import times_of
from ..prediction.system import (
    INSIDE,
    SLEEP,
    CorrectedSystem,
    Corrections,
    Numbers,
    System,
    corrected,
)
from ..scenario.schema import Scenario
from ..scenario.sweeps import Case
from .results import OwnTimes, ThreadShare

LEAST_RPS = 500.0
"""With fewer commands a second, each finds cold caches and a core at rest, and takes many times as
long as under load: GETs of a production server with 103 commands a second took 10 us inside."""

INSIDE_ERROR, CPU_ERROR = 0.05, 0.05
"""Relative standard errors of what the model makes of another load than the measured one."""

COLD_US, COLD_ROOT_US, COLD_SHARE = 0.5, 0.6, 0.4
"""What an idle thread's caches cost (cores that rest lose them to others): of commands, so many us
after each sleep, and the idle share of the time times so many us for the root of what is inside, in
us; of the rest of a request that share times the last. Fitted to a Xeon 6 guest (`make evidence
STUDY=looks`, seed 7001, four engines): GET, HGETALL of 30 fields and LRANGE of 100 elements take
0.35 to 0.74 us more inside at 10% of the load than in saturation, and 0.6 to 1.7 at 2%; sequences
of 15 to 50 commands 0.05 to 1 us more a command at 10%."""

COLD_ERROR = 0.5
"""Relative standard error of all of this."""

OWN_ERRORS = Corrections(0.15, 0.05, 1.0)
"""Standard errors of the logarithms besides what is uncertain of host and engine. Hypervisors
differ by ten times in what a sleep takes, and one with how deep it is."""

PIPELINE_ERROR = 0.7
"""Of the rest where nothing tells how many commands come at once, before Redis 6.0: they share
reading and writing. Of `PIPELINES` the one is taken that leaves least to be corrected."""

PIPELINES = (1, 4, 16, 64)

ITEMS_ERROR = 0.6
"""Of what is inside, where commands name or return items whose number INFO does not tell."""

TIMER_SHARE = 0.001
"""Of the time, what the timer's turns take (assumed), with as large an error."""

ONE_LOOK_ERROR = 0.1
"""More where one look tells of a server's whole life, in which loads were not alike."""

_ROUNDS, _STEPS = 2, 4
_REPLICATIONS = 2


@dataclass(frozen=True)
class OwnTimeCorrections:
    """Corrections of a system by what its nodes say of their own time.

    Attributes
    ----------
    system
        With all corrections.
    of_mix, drawn_of_mix
        What of these belongs to the commands and not to host or engine, and goes along to another
        machine: the most probable, and that of each draw.
    """

    system: CorrectedSystem
    of_mix: Corrections
    drawn_of_mix: tuple[Corrections, ...]

    def of(self, system: System) -> System:
        """Another system with what holds for it: all of it on the same host."""
        here = system.host.id == self.system.host.id
        nominal, drawn = self.of_mix, self.drawn_of_mix
        if here:
            nominal, drawn = self.system.nominal_corrections, self.system.drawn_corrections
        return CorrectedSystem(
            *(system.host, system.engine, system.generator),
            nominal_corrections=nominal,
            drawn_corrections=drawn,
            observed=here,
        )


def corrections_from(
    scenario: Scenario, system: System, own: OwnTimes, *, rate_rps: float, seed: int
) -> tuple[OwnTimeCorrections | None, list[ThreadShare]]:
    """What a node's own times say of its system, and the parts of these.

    Parameters
    ----------
    scenario
        Of that node at its mean load.
    own
        What it says, or several on average.
    rate_rps
        Its operations a second.

    Returns
    -------
    tuple
        None where the load is too light to tell.
    """
    found: OwnTimeCorrections | None = None
    scenario, before = _at_rate(scenario, system, rate_rps, seed)
    after = before
    if rate_rps >= LEAST_RPS:
        nominal, *drawn = np.log(np.maximum(_drawn_us(before, system, seed), 1e-9))
        deviations = np.array(drawn) - nominal
        for _ in range(_ROUNDS):  # each counts turns and sleeps anew
            found = _conditioned(after, system, deviations, own, rate_rps=rate_rps, seed=seed)
            after = _predicted(scenario, found.system, seed)
    shown = after if found is not None else None
    return found, _shares(own, before, shown, rate_rps=rate_rps)


def _at_rate(
    scenario: Scenario, system: System, rate_rps: float, seed: int
) -> tuple[Scenario, Prediction]:
    """The load and its prediction, a closed loop with pauses that give that rate."""
    found = _predicted(scenario, system, seed)
    load = scenario.workload
    if load.arrival == "open_loop" or load.think_us <= 0.0:
        return scenario, found
    served = 1e6 * load.clients * load.pipeline
    longer_us = served / found.mean("throughput_rps") - served / rate_rps
    think_us = max(0.0, load.think_us - longer_us)
    scenario = scenario.with_workload(think_us=think_us)
    return scenario, _predicted(scenario, system, seed)


def _predicted(scenario: Scenario, system: System, seed: int) -> Prediction:
    case = Case({}, scenario)
    [found] = predict_cases([(case, system)], seed=seed, draws=0, replications=_REPLICATIONS)
    return found


def _drawn_us(prediction: Prediction, system: System, seed: int) -> np.ndarray:
    """(1 + draws, 3) parts of a request at the nominal numbers and at drawn ones."""
    numbers = [system.numbers(), *(system.numbers(draw=n, seed=seed) for n in range(DRAWS))]
    return np.array([_parts_us(prediction, system, each) for each in numbers])


def _conditioned(
    prediction: Prediction,
    system: System,
    deviations: np.ndarray,
    own: OwnTimes,
    *,
    rate_rps: float,
    seed: int,
) -> OwnTimeCorrections:
    """The corrections, with turns and sleeps as a prediction counted them."""
    scenario = prediction.case.scenario
    sleeps = _sleeps(prediction)
    own_errors = np.array(OWN_ERRORS)
    if not scenario.workload.only_get_and_set:
        own_errors[0] = ITEMS_ERROR
    if own.commands_a_read is None:
        own_errors[1] = PIPELINE_ERROR
    covariance = np.cov(deviations.T) + np.diag(own_errors**2)

    measured = [own.inside * 1e6 / rate_rps]
    once = 0.0 if own.between_looks else ONE_LOOK_ERROR
    idle = 1.0 - min(1.0, own.busy) if own.busy is not None else 0.5
    cold_error = COLD_ERROR * _cold_us(measured[0], idle, sleeps) / measured[0]
    errors = [math.hypot(INSIDE_ERROR, once, cold_error)]
    if own.busy is not None and (busy := own.busy - own.fixed - TIMER_SHARE) > own.inside:
        measured.append(busy * 1e6 / rate_rps)
        errors.append(
            math.hypot(CPU_ERROR, once, COLD_ERROR * COLD_SHARE * idle, TIMER_SHARE / busy)
        )
    noise = np.array(errors)

    mean, nominal = np.zeros(3), system.numbers()
    for _ in range(_STEPS):
        work = corrected(nominal.work, Corrections(*mean.tolist()))
        parts = _parts_us(prediction, system, replace(nominal, work=work))
        inside = parts[0] + _cold_us(parts[0], idle, sleeps)
        parts[1] *= _colder(idle)
        cpu = inside + parts[1] + parts[2]
        predicted = np.log([inside, cpu][: len(measured)])
        moves = parts.copy()
        moves[0] += 0.5 * idle * COLD_ROOT_US * math.sqrt(parts[0])
        response = np.array([[moves[0] / inside, 0.0, 0.0], moves / cpu])[: len(measured)]
        seen = response @ covariance @ response.T + np.diag(noise**2)
        gain = np.linalg.solve(seen, response @ covariance).T
        target = np.log(measured) - predicted + response @ mean
        mean = gain @ target

    # Of the commands' own part alone: what goes along to another machine.
    alone = (own_errors**2)[0] * np.linalg.solve(seen, response[:, 0])
    random = generator(seed, _PURPOSE)
    after, of_mix = [], []
    for deviation in deviations:
        unknown = own_errors * random.standard_normal(3)
        error = noise * random.standard_normal(len(measured))
        left = target - response @ (deviation + unknown) - error
        after.append(Corrections(*(unknown + gain @ left).tolist()))
        of_mix.append(Corrections(inside=float(unknown[0] + alone @ left)))
    found = CorrectedSystem(
        *(system.host, system.engine, system.generator),
        nominal_corrections=Corrections(*mean.tolist()),
        drawn_corrections=tuple(after),
    )
    return OwnTimeCorrections(found, Corrections(inside=float(alone @ target)), tuple(of_mix))


def _sleeps(prediction: Prediction) -> float:
    """Sleeps of the main thread a request."""
    result = prediction.nominal[0].result
    return result.counters["blocks"] / max(1, result.completions)


def _cold_us(inside_us: float, idle: float, sleeps: float) -> float:
    """Extra time inside commands on a thread with such a share of idle time, in us.

    Parameters
    ----------
    sleeps
        A request.
    """
    return sleeps * COLD_US + idle * COLD_ROOT_US * math.sqrt(inside_us)


def _colder(idle: float) -> float:
    """Factor by which the rest of a request takes longer then."""
    return math.exp(COLD_SHARE * idle)


class Parts(NamedTuple):
    """What a node's only thread computes under a predicted load, as shares of the time."""

    inside: float
    rest: float
    asleep: float

    @property
    def busy(self) -> float:
        """All of it."""
        return min(1.0, self.inside + self.rest + self.asleep)


def parts_under(prediction: Prediction, *, rate_rps: float) -> Parts:
    """What a node's only thread computes at a rate, with what its idle time costs.

    Parameters
    ----------
    prediction
        Under about that load.
    """
    rate = rate_rps / 1e6
    sleeps = _sleeps(prediction)
    inside, rest, asleep = _parts_us(prediction).tolist()
    found = Parts(rate * inside, rate * rest, rate * asleep)
    for _ in range(_SETTLED):
        idle = 1.0 - found.busy
        cold = inside + _cold_us(inside, idle, sleeps)
        found = Parts(rate * cold, rate * rest * _colder(idle), rate * asleep)
    return found


def nominal_awake_us(prediction: Prediction) -> float:
    """CPU time a request but for sleeping, in us."""
    system = prediction.system
    return float(_parts_us(prediction, system, system.numbers())[:2].sum())


def awake_us(prediction: Prediction, *, seed: int) -> np.ndarray:
    """(draws,) the same with drawn numbers; turns and calls are those of the nominal runs."""
    drawn = _drawn_us(prediction, prediction.system, seed)[1:, :2]
    return np.asarray(drawn.sum(axis=1))


_SETTLED = 8
_PURPOSE = 8107
"""Of the random numbers in `streams`."""


def _parts_us(
    prediction: Prediction, system: System | None = None, numbers: Numbers | None = None
) -> np.ndarray:
    """(3,) CPU time a request inside commands, of the rest, and of sleeping.

    Parameters
    ----------
    prediction
        Whose turns and sleeps are counted.
    system, numbers
        That steps are priced with; those of the prediction if left out.
    """
    own_steps, longer = steps_of(prediction), 1.0
    # Turns of the loop that no step prices belong to the rest.
    left_us = prediction.mean(SERVER_CPU) - sum(us for *_, us in own_steps)
    steps = own_steps
    if system is not None and numbers is not None:
        inputs = system.inputs_of(prediction.case.scenario, numbers)
        steps = steps_of(prediction, times=times_of(inputs))
        # Sleeps are counted with their time, and no step prices them anew.
        own = prediction.system.inputs(prediction.case.scenario)
        longer = (inputs.work.wake_scale * inputs.speed.whole_block_ns) / (
            own.work.wake_scale * own.speed.whole_block_ns
        )
    inside = sum(us for stage, _, us in steps if stage in INSIDE)
    asleep = sum(us for stage, _, us in steps if stage in SLEEP)
    rest = sum(us for *_, us in steps) - inside - asleep
    return np.array([inside, rest + left_us, longer * asleep])


def _shares(
    own: OwnTimes, before: Prediction, after: Prediction | None, *, rate_rps: float
) -> list[ThreadShare]:
    """The parts of a main thread's time, the whole first."""

    def of(prediction: Prediction | None) -> dict[str, float]:
        if prediction is None:
            return {}
        parts = parts_under(prediction, rate_rps=rate_rps)
        whole = sum(parts) + own.fixed + TIMER_SHARE
        return {"whole": whole, **parts._asdict()}

    first, then = of(before), of(after)
    rest = None if own.busy is None else max(0.0, own.busy - own.inside - own.fixed)
    rows = [
        ("all of it", own.busy, "whole"),
        ("inside commands", own.inside, "inside"),
        ("the rest, sleeping and waking", rest, ""),
        ("of that reading, parsing, replying, turns", None, "rest"),
        ("of that sleeping and waking", None, "asleep"),
    ]
    for each in (first, then):
        if each:
            each[""] = each["rest"] + each["asleep"]
    if own.busy is None:  # CPU time of several threads is none of the main one's
        rows = rows[1:2]
    found = [
        ThreadShare(part, measured, first.get(key), then.get(key), True)
        for part, measured, key in rows
    ]
    told = [
        ("the timer (assumed)", None, TIMER_SHARE),
        ("forks", own.forks, own.forks),
        ("expiry cycles", own.expiry, own.expiry),
        ("INFO, CONFIG, what replicas ask", own.administration, own.administration),
    ]
    # What INFO tells of these is taken over as it is.
    found += [
        ThreadShare(part, measured, share, None if after is None else share, False)
        for part, measured, share in told
        if share > 0.0
    ]
    return found


def mean_times(nodes: Sequence[tuple[OwnTimes, float]]) -> tuple[OwnTimes, float] | None:
    """Several nodes as one: means of their times and rates; None without any.

    Parameters
    ----------
    nodes
        The times and the operations a second of each.
    """
    if not nodes:
        return None
    times, rates = [own for own, _ in nodes], [rate for _, rate in nodes]

    means: dict[str, Any] = {}
    for name in vars(times[0]):
        values = [getattr(own, name) for own in times]
        means[name] = None if None in values else float(np.mean(values))
    means["between_looks"] = all(own.between_looks for own in times)
    return OwnTimes(**means), float(np.mean(rates))
