"""Capacity plans over many seeds: what is decided is what many more draws say, and stays so.

`python -m verification plans` draws random plans and makes each with several seeds. A reference of
`REFERENCE_DRAWS` draws, whose probability is their plain mean, says whether what is recommended
holds, and whether one shard fewer would have.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr

from forecache.models.plan.answer import load_plan, plan
from forecache.models.plan.offers import find_offers
from forecache.models.plan.schema import PlanScenario
from forecache.models.plan.shard import Offer, memory_used
from forecache.models.plan.trials import Effort, Trials
from forecache.models.prediction.predict import Prediction
from forecache.sim.errors import InfeasibleError, InputError
from forecache.sim.executors import InThisThread

from .check import Check, Finding, within_range
from .consistency.draws import Draws

SCENARIOS, SEEDS = 24, 6
"""Random plans, and seeds with which each is made."""

REFERENCE_DRAWS, REFERENCE_SEED = 400, 777
HEADROOM_ERROR = 0.015
"""Share by which one fewer has to stay clear of a headroom so that this was not what ruled it out:
one run knows what a node serves to 1.2%."""

_ERRORS = 2.0
"""Standard errors of the reference by which it has to differ from what is asked."""

_INSTANCES = (
    *("c7g.large", "c7g.xlarge", "r7g.large", "r7g.2xlarge", "r8g.large", "m8g.xlarge"),
    *("r7g.medium", "m7i.large", "n2-standard-8", "Standard_D8ps_v5"),
)
_ENGINES = (("valkey", "8.1"), ("valkey", "9.1"), ("redis", "8.2"), ("redis", "7.2"))


def random_plan(number: int, *, seed: int = 1) -> dict[str, Any]:
    """A plan of a few offers, with an objective that may or may not be near."""
    draws = Draws(seed, "plan", number)
    rate = draws.size(50_000, 3_000_000)
    reads = draws.between(0.5, 1.0)
    engine, version = draws.one_of(_ENGINES)
    first = draws.one_of(_INSTANCES)
    others = [name for name in _INSTANCES if name != first and draws.chance(0.15)]
    return {
        "kind": "plan",
        "demand": {
            "operations": {"get": rate * reads, "set": rate * (1.0 - reads) + 1.0},
            "peak_to_mean": draws.one_of((1.0, 1.5)),
            "keys": draws.count(1_000_000, 100_000_000),
            "value_bytes": draws.count(50, 2_000),
            "clients_per_node": draws.count(50, 500),
            "zones": 1,
        },
        "objectives": {
            "slo": {
                "p99_ms": draws.one_of((0.3, 0.5, 1.0, 2.0)),
                "probability": draws.one_of((0.8, 0.9, 0.95)),
            },
            "cpu_headroom": draws.one_of((0.0, 0.1, 0.2, 0.3)),
            "losing_a_node": "nothing",
        },
        "choices": {
            "instances": [first, *others],
            "engines": [{"engine": engine, "versions": [version]}],
            "io_threads": draws.one_of(([1], [1, 4], "automatic")),
        },
    }


@dataclass(frozen=True)
class Decision:
    """What a plan recommends with one seed; nothing if it finds none."""

    instance: str = ""
    engine: str = ""
    shards: int = 0
    replicas: int = 0
    io_threads: int = 0
    usd: float = math.inf


def decided(data: Any, seed: int) -> Decision:
    """What a plan recommends with a seed."""
    try:
        answer = plan(data, seed=seed, executor=InThisThread())
    except InfeasibleError:
        return Decision()
    best = answer.recommended
    assert best is not None  # else it is infeasible
    setting = best.setting
    nodes = setting.nodes * best.usd_per_node_month
    return Decision(
        setting.instance,
        f"{setting.engine} {setting.engine_version}",
        setting.shards,
        setting.replicas,
        setting.io_threads,
        round(nodes, 2),
    )


@dataclass(frozen=True)
class Verdict:
    """What the reference says of a decision."""

    probability: float
    error: float
    missed: bool
    """Whether it does not hold."""
    one_fewer: bool
    """Whether one shard fewer would hold."""


def judged(data: Any, decision: Decision) -> Verdict:
    """A decision held against the reference."""
    scenario, _ = load_plan(data)
    offer = next(
        each
        for each in find_offers(scenario)[0]
        if (each.name, each.engine_words, each.replicas)
        == (decision.instance, decision.engine, decision.replicas)
    )
    asked = scenario.objectives.slo.probability
    value, error = reference(scenario, offer, decision.io_threads, decision.shards)
    missed = value + _ERRORS * error < asked
    fewer = decision.shards - 1
    if fewer < scenario.choices.shards.least or not _leaves_headroom(
        scenario, offer, decision.io_threads, fewer
    ):
        return Verdict(value, error, missed, one_fewer=False)
    less, less_error = reference(scenario, offer, decision.io_threads, fewer)
    return Verdict(value, error, missed, one_fewer=less - _ERRORS * less_error > asked)


def reference(
    scenario: PlanScenario, offer: Offer, threads: int, shards: int
) -> tuple[float, float]:
    """The probability that a plan meets its objective, by many draws, with its standard error."""
    trials = Trials(scenario, offer, seed=REFERENCE_SEED)
    capacity_rps = trials.capacity_rps(threads, serving=shards)
    node = trials.scenario(threads, serving=shards)
    shares = plain_shares(trials.predict(node, Effort(REFERENCE_DRAWS, 4, 20_000)), capacity_rps)
    value = float(np.mean(shares))
    # As if one more had met it and one more had not: a mean of 1 has an error too.
    smooth = (value * len(shares) + 1.0) / (len(shares) + 2.0)
    return value, math.sqrt(smooth * (1.0 - smooth) / len(shares))


def plain_shares(prediction: Prediction, capacity_rps: float) -> list[float]:
    """How probable it is that each draw meets the objective: 0 of an overloaded one."""
    case, system = prediction.case.scenario, prediction.system
    error = max(math.hypot(system.discrepancy(case), system.variation), 1e-9)
    slo = case.slo
    assert slo is not None  # plans have one
    spare = math.log(capacity_rps / prediction.mean("throughput_rps"))
    usual_us = np.mean([m.result.server_useful_cpu_us_per_request for m in prediction.nominal])
    found = []
    for run in prediction.drawn:
        slower = run.result.server_useful_cpu_us_per_request / usual_us
        margins = [spare - math.log(slower)]
        for name in ("p50_ms", "p99_ms", "p999_ms"):
            if (bound := getattr(slo, name)) is not None:
                margins.append(math.log(bound / run.values[name]))
        found.append(0.0 if run.overloaded else float(ndtr(min(margins) / error)))
    return found


def _leaves_headroom(scenario: PlanScenario, offer: Offer, threads: int, shards: int) -> bool:
    """Whether memory and load leave the headroom that is asked for, and clearly so."""
    asked, months = scenario.objectives, scenario.demand.horizon_months
    trials = Trials(scenario, offer, seed=REFERENCE_SEED)
    rate = trials.scenario(threads, serving=shards).workload.rate_rps or 0.0
    load = rate / trials.capacity_rps(threads, serving=shards)
    return memory_used(
        scenario, offer, shards, months=months
    ) <= 1.0 - asked.memory_headroom and load <= (1.0 - HEADROOM_ERROR) * (1.0 - asked.cpu_headroom)


@dataclass(frozen=True)
class OverSeeds:
    """What one plan decides with each seed, and what the reference says of each decision."""

    decisions: list[Decision]
    verdicts: dict[Decision, Verdict]

    @property
    def agreeing(self) -> float:
        """Share of the seeds with the most frequent cost of nodes."""
        costs = Counter(each.usd for each in self.decisions)
        return max(costs.values()) / len(self.decisions)

    def share(self, name: str) -> float:
        """Of the decisions, those of which a field of their verdict is true."""
        held = [self.verdicts[each] for each in self.decisions if each in self.verdicts]
        return float(np.mean([getattr(each, name) for each in held])) if held else 0.0


def over_seeds(data: Any, seeds: Sequence[int]) -> OverSeeds | None:
    """A plan with some seeds; None where it isn't valid."""
    try:
        decisions = [decided(data, seed) for seed in seeds]
    except InputError:
        return None
    verdicts = {each: judged(data, each) for each in dict.fromkeys(decisions) if each.shards}
    return OverSeeds(decisions, verdicts)


def plans(*, scenarios: int = SCENARIOS, seeds: int = SEEDS) -> list[Finding]:
    """Random plans over seeds, against the reference."""
    with ProcessPoolExecutor() as pool:
        each = partial(over_seeds, seeds=range(1, seeds + 1))
        made = [found for found in pool.map(each, map(random_plan, range(scenarios))) if found]
    held = [found for found in made if found.verdicts]
    agreeing = float(np.mean([found.agreeing for found in made]))
    missed = float(np.mean([found.share("missed") for found in held]))
    fewer = float(np.mean([found.share("one_fewer") for found in held]))
    return [
        within_range("share of seeds that recommend the most frequent cost", 1, agreeing, 0.9, 1),
        within_range("share of recommendations that miss by the reference", 0, missed, 0, 0.02),
        within_range("share for which one shard fewer holds by it", 0, fewer, 0, 0.1),
    ]


def check(share: float = 1.0) -> Check:
    """The check with a share of its scenarios."""
    return Check(
        "plans",
        "random capacity plans over seeds, against many more draws",
        partial(plans, scenarios=math.ceil(share * SCENARIOS)),
    )


CHECKS = [check()]
