"""Whether a number of shards of an offer holds, by simulation of one shard's primary.

A shard holds if its load leaves the headroom asked for below what it serves in saturation, and if
the objective is met with the probability asked for (`chances.py`). Where the loss of
nodes without replicas is to be survived, the objective has to be met by those that are left.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from forecache.sim.statistics import mean_interval
from forecache.sim.words import chance as in_words

from ..advice.objective import LATENCIES
from ..prediction.predict import DRAWS, REPLICATIONS, REQUESTS, Prediction, predict_cases
from ..scenario.schema import Scenario
from ..scenario.sweeps import Case
from .chances import MOST_DRAWS, Chance, chance_of
from .offers import Offer
from .schema import PlanScenario
from .shard import left_serving, node_scenario, saturating

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
        Of the busiest primary at the peak, and what it serves in saturation.
    chance
        That the objective is met in the worst case that is to be survived; None where the load is
        too much without a look at latencies.
    latencies_ms
        Of the nominal numbers then, by name; infinite where requests pile up.
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
    latencies_ms: dict[str, float]
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
        self._capacities: dict[tuple[int, int], float] = {}
        self._found: dict[tuple[int, int, Effort], Trial] = {}
        self._chances: dict[tuple[int, int, Effort], tuple[Prediction, Chance]] = {}

    def capacity_rps(self, threads: int, *, serving: int) -> float:
        """What a primary serves in saturation with its share of the keys."""
        key = threads, serving
        if key not in self._capacities:
            found = self._saturated(threads, serving, runs=1).mean("throughput_rps")
            self._capacities[key] = found
        return self._capacities[key]

    def takes_too_much(self, rate_rps: float, most: float, *, threads: int, serving: int) -> bool:
        """Whether a load is known to take more than a share of what a primary serves."""
        load = rate_rps / self.capacity_rps(threads, serving=serving)
        if abs(load / most - 1.0) > CAPACITY_ERROR:
            return load > most
        runs = self._saturated(threads, serving, runs=MORE_RUNS).nominal
        return rate_rps > most * mean_interval([r.values["throughput_rps"] for r in runs]).high

    def chance(self, threads: int, *, serving: int, effort: Effort) -> tuple[Prediction, Chance]:
        """A primary at the horizon's peak, and how probable it is that it meets the objective."""
        key = threads, serving, effort
        if key not in self._chances:
            prediction = self.predict(self.scenario(threads, serving=serving), effort)
            chance = chance_of(
                prediction,
                capacity_rps=self.capacity_rps(threads, serving=serving),
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

    def scenario(self, threads: int, *, serving: int) -> Scenario:
        """Of a primary at the horizon's peak."""
        return node_scenario(self.plan, self.offer, threads, serving=serving, months=self.months)

    def _saturated(self, threads: int, serving: int, *, runs: int) -> Prediction:
        scenario = saturating(self.scenario(threads, serving=serving))
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
            return Trial(*known, None, {}, None, why, misses=True)

        most = 1.0 - asked.cpu_headroom
        if self.takes_too_much(rate_rps, most, threads=threads, serving=shards):
            return refused(
                f"the peak takes {rate_rps / capacity_rps:.1%} of what a node serves, "
                f"{most:.0%} allowed"
            )
        left = left_serving(self.plan, self.offer, shards)
        if left < 1:
            return refused("no node would be left")
        worst_rps = self.scenario(threads, serving=left).workload.rate_rps or 0.0
        serves_rps = self.capacity_rps(threads, serving=left)
        if worst_rps > (1.0 + CAPACITY_ERROR) * serves_rps:
            return refused(
                f"the {left} that are left would have {worst_rps / serves_rps:.0%} of what they "
                "serve"
            )
        prediction, chance = self.chance(threads, serving=left, effort=effort)
        latencies = {name: prediction.mean(name) for name in LATENCIES}
        kept, wanted = prediction if effort == FULL else None, asked.slo.probability
        why = None if chance.value >= wanted else missed(chance, prediction)
        return Trial(
            *known, chance, latencies, kept, why, chance.misses(wanted), chance.is_open(wanted)
        )


def missed(chance: Chance, prediction: Prediction) -> str:
    """That an objective is met with too low a probability, in words."""
    slo = prediction.case.scenario.slo
    assert slo is not None  # plans have one
    if prediction.overloaded:
        return "requests pile up"
    bounds = {name: bound for name in LATENCIES if (bound := getattr(slo, name)) is not None}
    found = ", ".join(
        f"{name[:-3]} {prediction.mean(name):.3g} ms of {bound:g}" for name, bound in bounds.items()
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
