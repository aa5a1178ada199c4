"""Whether a number of shards of an offer holds, by simulation of one shard's primary.

A shard holds if its load leaves the headroom asked for below what it serves in saturation, and if
the objective is met with the probability asked for. Where the loss of nodes without replicas is to
be survived, the objective has to be met by those that are left.

A probability that is a mean over draws has their error: of twenty draws in which nothing is missed,
one in ten may be missed all the same. While the interval of such a mean holds the probability that
is asked for, more draws are made, up to `MOST_DRAWS`. What they still can't tell apart differs by a
few points; it is decided by the mean, and the answer says that it is open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from forecache.sim.statistics import mean_interval
from forecache.sim.words import chance as in_words

from ..advice.objective import (
    log_error,
    log_margins,
    network_limit_chances,
    objective_bounds,
    share_met,
)
from ..prediction.predict import (
    DRAWS,
    REPLICATIONS,
    REQUESTS,
    Metrics,
    Prediction,
    drawn_runs,
    predict_cases,
)
from ..prediction.uncertainty import Z95, title_of
from ..scenario.schema import Scenario
from ..scenario.sweeps import Case
from .schema import PlanScenario
from .shard import (
    ALL_OPERATIONS,
    NodePart,
    Offer,
    node_scenario,
    shard_loads,
    shards_after_loss,
    worst_loads,
)

# --- how probable it is that an objective is met --------------------------------------------------

MOST_DRAWS = 160
"""Draws after which a decision may stay open: then 90% is known to 5 points, 95% to 4."""

_SURE = 0.99
"""A probability from which nobody asks what makes draws miss."""

_LEAST_RUNS = 4
"""Runs whose spread says something about those that were not made."""

_CHANCE_OF_ANY = 0.01
"""That chance alone lets some number look as if it explained the draws that miss."""


@dataclass(frozen=True)
class Chance:
    """The probability that an objective is met, with what so many draws leave open of it.

    Attributes
    ----------
    low, high
        Of the 95% interval of `value`, from the number of draws alone.
    cause
        The uncertain number that makes draws miss, in words; empty if none stands out.
    """

    value: float
    low: float
    high: float
    draws: int
    cause: str = ""

    def misses(self, asked: float) -> bool:
        """Whether the draws tell that it is less than `asked`."""
        return self.high < asked

    def is_open(self, asked: float) -> bool:
        """Whether they can't tell it from `asked`."""
        return self.low < asked <= self.high


def objective_chance(
    prediction: Prediction,
    *,
    capacity_rps: float,
    asked: float,
    seed: int,
    most_draws: int = MOST_DRAWS,
) -> Chance:
    """The probability that a prediction meets its objective, with more draws where it is near.

    Parameters
    ----------
    capacity_rps
        What the node serves in saturation, as in `objective.probability`.
    asked
        The probability that decides.
    seed
        Of the prediction.
    """
    runs = list(prediction.drawn)
    found = _chance(prediction, runs, capacity_rps)
    while found.is_open(asked) and len(runs) < most_draws:
        more = range(len(runs), min(most_draws, 2 * len(runs)))
        runs += drawn_runs(prediction, more, seed=seed)
        found = _chance(prediction, runs, capacity_rps)
    if found.value >= _SURE:
        return found
    return replace(found, cause=_cause(prediction, runs, capacity_rps, seed))


def _chance(prediction: Prediction, runs: Sequence[Metrics], capacity_rps: float) -> Chance:
    """The probability by these runs: that the network carries the load, times what runs say."""
    network = math.prod(limit.carries for limit in network_limit_chances(prediction))
    shares = [share_met(prediction, run, capacity_rps=capacity_rps) for run in runs]
    carried = [n for n, share in enumerate(shares) if share is not None]
    if not carried:
        return Chance(0.0, 0.0, network, len(runs))
    mean = float(np.mean([shares[n] for n in carried]))
    low, high = proportion_interval(mean, len(carried))
    some = [runs[n] for n in carried]
    low = max(low, min(mean, 1.0 - _most_that_miss(prediction, some, capacity_rps)))
    return Chance(network * mean, network * low, network * high, len(runs))


def proportion_interval(share: float, count: int, *, z: float = Z95) -> tuple[float, float]:
    """The interval of a proportion of which `count` draws gave a share (E. B. Wilson, 1927).

    It does not collapse where all draws agree, as that of the normal approximation does.
    """
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    spread = math.sqrt(share * (1.0 - share) / count + z**2 / (4 * count**2))
    half = z * spread / (1 + z**2 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def _most_that_miss(prediction: Prediction, runs: Sequence[Metrics], capacity_rps: float) -> float:
    """Upper bound of the share of draws that miss, by how far all runs stay from each bound.

    Where every run is many of their standard deviations away from a bound, so are those that were
    not made. Distances are taken to be normal on the log scale, as the numbers are that are drawn,
    and to be the less known the fewer runs there are.
    """
    if len(runs) < _LEAST_RUNS or any(run.overloaded for run in runs):
        return 1.0
    rows = [_distances(prediction, run, capacity_rps) for run in runs]
    if min(min(row.values()) for row in rows) <= 0.0:
        return 1.0
    own = {*objective_bounds(prediction), "capacity"}
    total = 0.0
    for name in rows[0]:
        logs = np.array([row[name] for row in rows])
        error = log_error(prediction, name, upward=True) if name in own else 0.0
        spread = math.hypot(float(np.std(logs, ddof=1)), error, 1e-9)
        steps = float(np.mean(logs)) / spread
        steps -= Z95 * math.sqrt(1.0 / len(logs) + steps**2 / (2 * len(logs)))
        total += float(ndtr(-steps))
    return min(1.0, total)


def _distances(prediction: Prediction, run: Metrics, capacity_rps: float) -> dict[str, float]:
    """How far a run is from each bound, on the log scale: of latencies and of stations."""
    result = run.result
    stations = {
        "load generator": result.load_generator_utilisation,
        "interrupts": result.interrupt_utilisation,
        "cores": result.core_utilisation,
        "CPU quota": result.quota_utilisation,
    }
    used = {name: -math.log(share) for name, share in stations.items() if share > 0.0}
    return log_margins(prediction, run, capacity_rps=capacity_rps) | used


def _cause(prediction: Prediction, runs: Sequence[Metrics], capacity_rps: float, seed: int) -> str:
    """What makes draws miss: a limit of the network, or the number that correlates with it."""
    shares = [share_met(prediction, run, capacity_rps=capacity_rps) for run in runs]
    misses = np.array([0.0 if share is None else 1.0 - share for share in shares])
    limits = network_limit_chances(prediction)
    tightest = min(limits, key=lambda limit: limit.carries, default=None)
    if tightest is None or 1.0 - tightest.carries <= float(np.mean(misses)):
        return _correlated(prediction, misses, seed)
    needed, low, high = map(_rounded, (tightest.needed, tightest.low, tightest.high))
    limit = _LIMITS[tightest.leaf]
    return f"missed if {limit} is below {needed}; {low} to {high} is what is known of it (95%)"


_LIMITS = {
    "network_packets_per_s": "what the network carries in packets a second",
    "network_gbit_per_s": "what the network carries in Gbit/s",
    "network_flow_gbit_per_s": "what one connection carries in Gbit/s",
}
"""Limits of the network, in words."""


def _rounded(value: float) -> str:
    """A number with three digits: `1,700,000`, `0.52`."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"


def _correlated(prediction: Prediction, misses: np.ndarray, seed: int) -> str:
    """The number whose draws correlate most with misses, if significantly; else empty."""
    count = len(misses)
    if count < 10 or np.ptp(misses) < 0.5:
        return ""
    names, steps = prediction.system.drawn_steps(range(count), seed=seed)
    steps = (steps - steps.mean(axis=0)) / np.maximum(steps.std(axis=0), 1e-12)
    standard = (misses - misses.mean()) / misses.std()
    correlation = steps.T @ standard / count
    best = int(np.argmax(np.abs(correlation)))
    found = float(correlation[best])
    t = abs(found) * math.sqrt((count - 2) / max(1e-9, 1.0 - found**2))
    if 2.0 * float(ndtr(-t)) * len(names) > _CHANCE_OF_ANY:
        return ""
    side = "high" if found > 0 else "low"
    return f"missed above all where {title_of(names[best])} is {side}"


# --- numbers of shards that are tried -------------------------------------------------------------

SATURATING_REQUESTS = 12_000
"""Measured requests of the run that says what a node serves in saturation, as in
`advice/limits.py`."""


class Effort(NamedTuple):
    """How much is simulated."""

    draws: int
    replications: int
    requests: int


RACING = Effort(draws=6, replications=1, requests=10_000)
"""Tells offers apart: the draws are the first of those of a full simulation, with its streams."""

FULL = Effort(DRAWS, REPLICATIONS, REQUESTS)
"""As every prediction has it."""


CAPACITY_ERROR = 0.012
"""To which one such run knows what a node serves: twelve seeds differ by 0.06 to 0.6% (standard
deviation), by engine and host."""

MORE_RUNS = 8
"""Runs that say what a node serves where one leaves open whether its headroom is left."""


@dataclass(frozen=True)
class Trial:
    """A number of shards that was tried.

    Attributes
    ----------
    shards, threads
        What was.
    rate_rps, capacity_rps
        Of the busiest shard at the peak, and what it gets when its busiest node is saturated.
    chance
        That the objective is met in the worst case that is to be survived; None where the load is
        too much without a look at latencies.
    prediction
        The whole of it; None where none was made, or few draws.
    why_not
        Why it doesn't hold; None if it does.
    misses
        Whether the draws tell so: where they can't, their mean decides.
    is_open
        Whether they can't tell the probability from what is asked.
    """

    shards: int
    threads: int
    rate_rps: float
    capacity_rps: float
    chance: Chance | None
    prediction: Prediction | None
    why_not: str | None
    misses: bool
    is_open: bool = False

    @property
    def holds(self) -> bool:
        """Whether it does."""
        return self.why_not is None

    @property
    def probability(self) -> float:
        """That the objective is met; 0 where the load is too much."""
        return 0.0 if self.chance is None else self.chance.value

    @property
    def load(self) -> float:
        """Share of what a node serves that the peak takes."""
        return self.rate_rps / self.capacity_rps


class Trials:
    """Trials of one offer; nothing is simulated twice."""

    def __init__(self, plan: PlanScenario, offer: Offer, *, seed: int) -> None:
        self.plan, self.offer, self.seed = plan, offer, seed
        self.months = plan.demand.horizon_months
        self.loads, self.worst = shard_loads(plan, offer), worst_loads(plan, offer)
        self._capacities: dict[tuple[int, int, NodePart], float] = {}
        self._found: dict[tuple[int, int, Effort], Trial] = {}
        self._chances: dict[tuple[int, int, Effort, NodePart], tuple[Prediction, Chance]] = {}

    def node_capacity_rps(self, threads: int, *, serving: int, load: NodePart) -> float:
        """What a node serves in saturation with its share of the keys."""
        key = threads, serving, load
        if key not in self._capacities:
            found = self._saturated(threads, serving, runs=1, load=load).mean("throughput_rps")
            self._capacities[key] = found
        return self._capacities[key]

    def _whole_rps(self, threads: int, serving: int, load: NodePart) -> float:
        served = self.node_capacity_rps(threads, serving=serving, load=load)
        return served / load.part(self.plan.demand)

    def busiest(
        self, threads: int, *, serving: int, loads: Sequence[NodePart] | None = None
    ) -> NodePart:
        """The node of a shard that is saturated first."""
        return min(
            self.loads if loads is None else loads,
            key=lambda load: self._whole_rps(threads, serving, load),
        )

    def capacity_rps(
        self, threads: int, *, serving: int, loads: Sequence[NodePart] | None = None
    ) -> float:
        """What a shard gets when its busiest node is saturated, with its share of the keys."""
        load = self.busiest(threads, serving=serving, loads=loads)
        return self._whole_rps(threads, serving, load)

    def takes_too_much(self, rate_rps: float, most: float, *, threads: int, serving: int) -> bool:
        """Whether a load is known to take more than a share of what a shard serves."""
        used = rate_rps / self.capacity_rps(threads, serving=serving)
        if abs(used / most - 1.0) > CAPACITY_ERROR:
            return used > most
        load = self.busiest(threads, serving=serving)
        runs = self._saturated(threads, serving, runs=MORE_RUNS, load=load).nominal
        served = mean_interval([run.values["throughput_rps"] for run in runs]).high
        return rate_rps * load.part(self.plan.demand) > most * served

    def chance(
        self,
        threads: int,
        *,
        serving: int,
        effort: Effort,
        loads: Sequence[NodePart] | None = None,
    ) -> tuple[Prediction, Chance]:
        """The busiest node at the horizon's peak, and how probably it meets the objective."""
        load = self.busiest(threads, serving=serving, loads=loads)
        key = threads, serving, effort, load
        if key not in self._chances:
            scenario = self.scenario(threads, serving=serving, load=load)
            prediction = self.predict(scenario, effort)
            chance = objective_chance(
                prediction,
                capacity_rps=self.node_capacity_rps(threads, serving=serving, load=load),
                asked=self.plan.objectives.slo.probability,
                seed=self.seed,
                most_draws=MOST_DRAWS if effort == FULL else effort.draws,
            )
            self._chances[key] = prediction, chance
        return self._chances[key]

    def trial(self, threads: int, shards: int, effort: Effort) -> Trial:
        """Whether so many shards hold."""
        key = threads, shards, effort
        if key not in self._found:
            self._found[key] = self._tried(threads, shards, effort)
        return self._found[key]

    def scenario(self, threads: int, *, serving: int, load: NodePart = ALL_OPERATIONS) -> Scenario:
        """Of a node at the horizon's peak."""
        return node_scenario(
            self.plan, self.offer, threads, serving=serving, months=self.months, load=load
        )

    def _saturated(self, threads: int, serving: int, *, runs: int, load: NodePart) -> Prediction:
        scenario = self.scenario(threads, serving=serving, load=load).saturated()
        return self.predict(scenario, Effort(0, runs, SATURATING_REQUESTS))

    def predict(self, scenario: Scenario, effort: Effort) -> Prediction:
        """One point, in this thread: other offers are at work beside it."""
        with ThreadPoolExecutor(1) as alone:
            [found] = predict_cases(
                [(Case(given={}, scenario=scenario), self.offer.system)],
                seed=self.seed,
                draws=effort.draws,
                replications=effort.replications,
                requests=effort.requests,
                executor=alone,
            )
        return found

    def _tried(self, threads: int, shards: int, effort: Effort) -> Trial:
        asked = self.plan.objectives
        rate_rps = self.scenario(threads, serving=shards).workload.rate_rps or 0.0
        capacity_rps = self.capacity_rps(threads, serving=shards)
        known = shards, threads, rate_rps, capacity_rps

        def refused(why: str) -> Trial:
            return Trial(*known, None, None, why, misses=True)

        most = 1.0 - asked.cpu_headroom
        if self.takes_too_much(rate_rps, most, threads=threads, serving=shards):
            return refused(
                f"the peak takes {rate_rps / capacity_rps:.1%} of what a node serves, "
                f"{most:.0%} allowed"
            )
        left = shards_after_loss(self.plan, self.offer, shards)
        if left < 1:
            return refused("no node would be left")
        worst_rps = self.scenario(threads, serving=left).workload.rate_rps or 0.0
        serves_rps = self.capacity_rps(threads, serving=left, loads=self.worst)
        if worst_rps > (1.0 + CAPACITY_ERROR) * serves_rps:
            return refused(
                f"the {left} that are left would have {worst_rps / serves_rps:.0%} of what they "
                "serve"
            )
        prediction, chance = self.chance(threads, serving=left, effort=effort, loads=self.worst)
        kept, wanted = prediction if effort == FULL else None, asked.slo.probability
        why = None if chance.value >= wanted else miss_reason(chance, prediction)
        return Trial(*known, chance, kept, why, chance.misses(wanted), chance.is_open(wanted))


def miss_reason(chance: Chance, prediction: Prediction) -> str:
    """Why an objective counts as missed, in words."""
    slo = prediction.case.scenario.slo
    assert slo is not None  # plans have one
    if prediction.overloaded:
        return "requests pile up"
    found = ", ".join(
        f"{name[:-3]} {prediction.mean(name):.3g} ms of {bound:g}"
        for name, bound in objective_bounds(prediction).items()
    )
    asked = f"{slo.probability * 100:.4g}% asked"
    cause = f" ({chance.cause})" if chance.cause else ""
    told = in_words(chance.value)
    if told == in_words(slo.probability):
        told = f"{math.floor(1e4 * chance.value) / 100:.2f}%"  # short of it by less than a percent
    if chance.is_open(slo.probability):
        low, high = in_words(chance.low), in_words(chance.high)
        told += f" ({low} to {high} by {chance.draws} draws)"
    return f"{found}: met with {told}, {asked}{cause}"
