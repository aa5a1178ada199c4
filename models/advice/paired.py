"""Whether two predictions differ: the ratio of one quantity, and what the two do not share of it.

Both are made with the same random streams and the same draws of every uncertain number, so that
what they have in common cancels: numbers of the host, of the load generator, of an engine's work.
Of the model's own errors a part is common too. How much is left of them was measured, by the kind
of pair (`UNSHARED`). Where something else than the server bounds both, such as the network, hardly
any error of the server reaches the ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from forecache.sim.plain import Result
from forecache.sim.statistics import Estimate, student_t
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from ..prediction.predict import LATENCIES, SERVER_CPU, Prediction
from ..prediction.system import System
from ..prediction.uncertainty import Z95
from ..scenario.schema import Scenario

Verdict = Literal["higher", "lower", "no clear difference"]

LEAST_DIFFERENCE = 0.01
"""A smaller difference is not reported, however well it is known."""

PairKind = Literal["settings", "versions", "loads", "families", "hosts"]

UNSHARED: dict[PairKind, float] = {
    "settings": 0.61,
    "versions": 0.88,
    "loads": 0.86,
    "families": 1.4,
    "hosts": 1.0,
}
"""Standard error of the model in a ratio, over that of two predictions with nothing in common.

Estimated by `make evidence STUDY=ratios` from pairs of measured points that no fit has seen, so
that 95% of the measured ratios lie in their intervals (docs/scores.md, "Ratios of two
predictions"). Above 1, errors are larger than either prediction's own says. A pair is of the last
kind in this order that holds: `settings` differ in what the server is told, such as io-threads;
`versions` in the engine; `loads` in what clients ask or how; `families` are Redis or Valkey
against Memcached; `hosts` are two hosts, whatever else differs.
"""

CALIBRATED_HERE = 2.0
"""Model error of an engine that was calibrated on the very host, over what its profile says.

The profile's error is that of points of the calibration's own hour, start of the server and load
generator. Two engines that were calibrated so share none of them, and their ratios miss by more:
with this factor as many of them are inside as of shipped engines on hosts of others (same study).
"""

_LEVEL = 0.95

_GENERATOR, _NETWORK = "load generator", "network"
_BANDWIDTH = "bandwidth"
_NOT_OF_SERVER = frozenset({_GENERATOR, _NETWORK})


@dataclass(frozen=True)
class PairedQuantity(Result):
    """One quantity of both, and the second over the first."""

    quantity: str
    first: Estimate | None
    """None where it has none, such as a latency under overload."""
    second: Estimate | None
    ratio: Estimate | None
    """Paired, with a 95% interval; None where one of the two is missing."""
    verdict: Verdict | None
    """`higher` or `lower` if the second differs by at least 1% and the interval of the ratio leaves
    out 1. None without a ratio."""


@dataclass(frozen=True)
class RatioParts:
    """Half widths of the three parts of a ratio's 95% interval, on the log scale.

    Attributes
    ----------
    chance
        In the simulation, from the replications in pairs.
    parameters
        From uncertain numbers, by the draws in pairs.
    model
        The part of the model's own errors that the two do not share.
    """

    chance: float
    parameters: float
    model: float

    @property
    def half(self) -> float:
        """Half width of the whole interval."""
        return math.hypot(self.chance, self.parameters, self.model)


@dataclass(frozen=True)
class RatioSide:
    """What one prediction brings to the ratio of a quantity.

    Attributes
    ----------
    scenario, system
        Which say what it has in common with the other one.
    nominal : (replications,)
        Logarithms of the quantity.
    drawn : (draws,)
        The same at drawn numbers; infinite for a latency under overload.
    error
        By how much a model error of the server's times at the end of its 95% interval moves the
        quantity, on the log scale.
    bounded_error
        The same where both sides are known to be bounded by the same thing beside the server.
    bound
        What that is: two sides with equal ones share it. None where the server is the limit.
    """

    scenario: Scenario
    system: System
    nominal: np.ndarray
    drawn: np.ndarray
    error: float
    bounded_error: float
    bound: tuple[str, ...] | None

    @staticmethod
    def of(prediction: Prediction, name: str) -> RatioSide:
        """The side of a prediction.

        Parameters
        ----------
        name
            Of the quantity.
        """
        error, bounded = _errors(prediction, name)
        values = [max(run.values[name], 1e-12) for run in prediction.nominal]
        return RatioSide(
            scenario=prediction.case.scenario,
            system=prediction.system,
            nominal=np.log(values),
            drawn=prediction.log_draws(name),
            error=error,
            bounded_error=bounded,
            bound=_bound(prediction, prediction.bottleneck),
        )


def paired_quantity(first: Prediction, second: Prediction, name: str) -> PairedQuantity:
    """One predicted quantity of both; no ratio of a latency where one is overloaded."""
    values = first.estimate(name), second.estimate(name)
    if name in LATENCIES and (first.overloaded or second.overloaded):
        return PairedQuantity(name, *values, None, None)
    ratio = paired_ratio(first, second, name)
    return PairedQuantity(name, *values, ratio, ratio_verdict(ratio))


def paired_ratio(first: Prediction, second: Prediction, name: str) -> Estimate:
    """Second over first, with the 95% interval of a ratio under the same draws.

    One measured window of each differs by more: see `windows` of either.
    """
    value = second.mean(name) / max(first.mean(name), 1e-12)
    return ratio_interval(value, paired_parts(first, second, name).half)


def paired_parts(first: Prediction, second: Prediction, name: str) -> RatioParts:
    """What the interval of the ratio of one quantity consists of."""
    return ratio_parts(RatioSide.of(first, name), RatioSide.of(second, name))


def ratio_parts(first: RatioSide, second: RatioSide) -> RatioParts:
    """The parts of a ratio's interval, from what each side brings to it."""
    nominal = _both(first.nominal, second.nominal)
    return RatioParts(
        chance=_half(nominal) / math.sqrt(max(1, len(nominal))),
        parameters=_half(_both(first.drawn, second.drawn)),
        model=_model_half(first, second),
    )


def ratio_interval(value: float, half: float) -> Estimate:
    """A ratio with an interval that is symmetric on the log scale."""
    return Estimate(value, value * math.exp(-half), value * math.exp(half))


def capacity_ratio_half(
    first: Prediction, second: Prediction, *, bound_by: str = "", busy: tuple[float, float] = (1, 1)
) -> float:
    """Half the 95% interval, on the log scale, of the ratio of what two nodes serve in saturation.

    That is taken to be in inverse proportion to the CPU time of a request, as in `objective.py`.

    Parameters
    ----------
    bound_by
        The station that limits both in saturation, if it is the same one.
    busy
        How busy the server's busiest station is on either then.
    """
    sides = [RatioSide.of(each, SERVER_CPU) for each in (first, second)]
    bounds = [_bound(each, bound_by) for each in (first, second)]
    shared = bounds[0] is not None and bounds[0] == bounds[1]
    drawn = zip(first.drawn, second.drawn, strict=False)
    times = [[run.result.server_useful_cpu_us_per_request for run in pair] for pair in drawn]
    logs = np.array([math.log(second_us / first_us) for first_us, second_us in times])
    if not shared:
        return math.hypot(_half(logs), _model_half(*sides))
    spare = min(-math.log(min(1.0, max(share, 1e-9))) for share in busy)
    return max(0.0, math.hypot(_half(logs), _model_half(*sides)) - spare)


def server_busy(prediction: Prediction) -> float:
    """How busy the busiest station of the server is: neither load generator nor network."""
    utilisation = prediction.utilisation
    return max(share for name, share in utilisation.items() if name not in _NOT_OF_SERVER)


def pair_kind(first: RatioSide, second: RatioSide) -> PairKind:
    """What two predictions differ in."""
    systems = first.system, second.system
    if len({each.host.base_id for each in systems}) > 1:
        return "hosts"
    if len({each.engine.threading.threads_alike for each in systems}) > 1:
        return "families"
    if _asked_by_clients(first.scenario) != _asked_by_clients(second.scenario):
        return "loads"
    return "settings" if systems[0].engine.id == systems[1].engine.id else "versions"


def ratio_verdict(ratio: Estimate) -> Verdict:
    """What the interval of a ratio says."""
    worth_a_word = abs(math.log(max(ratio.value, 1e-12))) >= math.log1p(LEAST_DIFFERENCE)
    if worth_a_word and ratio.low > 1.0:
        return "higher"
    return "lower" if worth_a_word and ratio.high < 1.0 else NO_CLEAR_DIFFERENCE


def _both(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Logarithms of the ratio, of those pairs in which both have a value."""
    common = min(len(first), len(second))
    first, second = first[:common], second[:common]
    known = np.isfinite(first) & np.isfinite(second)
    differences: np.ndarray = second[known] - first[known]
    return differences


def _half(log_ratios: np.ndarray) -> float:
    if len(log_ratios) < 2:
        return 0.0
    return student_t(_LEVEL, len(log_ratios) - 1) * float(np.std(log_ratios, ddof=1))


def _model_half(first: RatioSide, second: RatioSide) -> float:
    if first.scenario == second.scenario and first.system == second.system:
        return 0.0
    shared = first.bound is not None and first.bound == second.bound
    errors = [each.bounded_error if shared else each.error for each in (first, second)]
    return UNSHARED[pair_kind(first, second)] * math.hypot(*errors)


def _errors(prediction: Prediction, name: str) -> tuple[float, float]:
    """How far a model error moves a quantity; and how far where both sides share what bounds it."""
    error = prediction.model_error
    if prediction.system.observed_here:
        error *= CALIBRATED_HERE
    half = Z95 * error
    workload = prediction.case.scenario.workload
    latency = name in LATENCIES
    if name == SERVER_CPU or (latency and (prediction.open_loop or workload.think_us > 0)):
        return half, half
    bounded = max(0.0, half + math.log(max(min(1.0, server_busy(prediction)), 1e-9)))
    if prediction.open_loop:
        # Throughput is what is offered, unless the error is larger than what is to spare.
        return half if prediction.overloaded else bounded, bounded
    # A client's cycle is a round trip and a pause, and the pause has no error.
    pauses = workload.think_us * prediction.mean("throughput_rps") / 1e6
    pauses = min(1.0, pauses / (workload.clients * workload.pipeline))
    return max(bounded, math.log(pauses + (1.0 - pauses) * math.exp(half))), bounded


def _bound(prediction: Prediction, station: str) -> tuple[str, ...] | None:
    """What bounds a prediction that a station limits; None if that is part of the server."""
    scenario, system = prediction.case.scenario, prediction.system
    if station == _GENERATOR:
        return station, system.host.id, system.generator.id, _asked_by_clients(scenario)
    if station != _NETWORK:
        return None
    limits = prediction.network_limits
    if max(limits, key=limits.__getitem__) == _BANDWIDTH:
        # Bytes are counted, whatever is asked.
        return station, _BANDWIDTH, system.host.id
    return station, system.host.id, _asked_by_clients(scenario)


def _asked_by_clients(scenario: Scenario) -> str:
    """The requests of clients and how they are sent, as a key."""
    return scenario.model_dump_json(include={"workload", "load_generator", "transport", "tls"})
