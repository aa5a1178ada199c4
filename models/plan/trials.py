"""Whether a number of shards of an offer holds, by simulation of one shard's primary.

A shard holds if its load leaves the headroom asked for below what it serves in saturation, and if
the objective is met with the probability asked for. Where the loss of nodes without replicas is to
be survived, the objective has to be met by those that are left.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from forecache.sim.words import chance as in_words

from ..advice.objective import LATENCIES, probability
from ..prediction.predict import DRAWS, REPLICATIONS, REQUESTS, Prediction, predict_cases
from ..scenario.schema import Scenario
from ..scenario.sweeps import Case
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


@dataclass(frozen=True)
class Trial:
    """A number of shards that was tried.

    Attributes
    ----------
    shards, threads
        What was.
    rate_rps, capacity_rps
        Of the busiest primary at the peak, and what it serves in saturation.
    probability
        That the objective is met in the worst case that is to be survived; None where the load is
        too much without a look at latencies.
    latencies_ms
        Of the nominal numbers then, by name; infinite where requests pile up.
    prediction
        The whole of it; None where none was made, or few draws.
    why_not
        Why it doesn't hold; None if it does.
    """

    shards: int
    threads: int
    rate_rps: float
    capacity_rps: float
    probability: float | None
    latencies_ms: dict[str, float]
    prediction: Prediction | None
    why_not: str | None

    @property
    def holds(self) -> bool:
        """Whether it does."""
        return self.why_not is None

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

    def capacity_rps(self, threads: int, *, serving: int) -> float:
        """What a primary serves in saturation with its share of the keys."""
        key = threads, serving
        if key not in self._capacities:
            scenario = saturating(self.scenario(threads, serving=serving))
            effort = Effort(0, 1, SATURATING_REQUESTS)
            found = self.predict(scenario, effort).mean("throughput_rps")
            self._capacities[key] = found
        return self._capacities[key]

    def trial(self, threads: int, shards: int, effort: Effort) -> Trial:
        """Whether so many shards hold."""
        key = threads, shards, effort
        if key not in self._found:
            self._found[key] = self._tried(threads, shards, effort)
        return self._found[key]

    def scenario(self, threads: int, *, serving: int) -> Scenario:
        """Of a primary at the horizon's peak."""
        return node_scenario(self.plan, self.offer, threads, serving=serving, months=self.months)

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
            return Trial(*known, None, {}, None, why)

        if rate_rps > (1.0 - asked.cpu_headroom) * capacity_rps:
            return refused(
                f"the peak takes {rate_rps / capacity_rps:.1%} of what a node serves, "
                f"{1.0 - asked.cpu_headroom:.0%} allowed"
            )
        left = left_serving(self.plan, self.offer, shards)
        if left < 1:
            return refused("no node would be left")
        worst = self.scenario(threads, serving=left)
        worst_rps = worst.workload.rate_rps or 0.0
        serves_rps = self.capacity_rps(threads, serving=left)
        if worst_rps > serves_rps:
            return refused(
                f"the {left} that are left would have {worst_rps / serves_rps:.0%} of what they "
                "serve"
            )
        prediction = self.predict(worst, effort)
        likely = probability(prediction, capacity_rps=serves_rps) or 0.0
        latencies = {name: prediction.mean(name) for name in LATENCIES}
        why = None if likely >= asked.slo.probability else missed(likely, prediction)
        kept = prediction if effort == FULL else None
        return Trial(*known, likely, latencies, kept, why)


def missed(likely: float, prediction: Prediction) -> str:
    """That an objective is met with too low a probability, in words."""
    slo = prediction.case.scenario.slo
    assert slo is not None  # plans have one
    if prediction.overloaded:
        return "requests pile up"
    asked = {name: bound for name in LATENCIES if (bound := getattr(slo, name)) is not None}
    found = ", ".join(
        f"{name[:-3]} {prediction.mean(name):.3g} ms of {bound:g}" for name, bound in asked.items()
    )
    told = in_words(likely)
    if told == in_words(slo.probability):
        told = f"{math.floor(1e4 * likely) / 100:.2f}%"  # short of it by less than a percent
    return f"{found}: met with {told}, {slo.probability * 100:.4g}% asked"
