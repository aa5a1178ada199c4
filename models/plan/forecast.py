"""How far a plan goes: now and at the horizon, when growth reaches a limit, what failures leave.

Also what nodes cost against headroom, of everything that was raced: what more money buys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from forecache.sim.statistics import Estimate

from ..advice.limits import find_limits
from ..cost.bill import replicas_elsewhere
from ..prediction.caveats import not_covered
from ..prediction.predict import Prediction
from ..prediction.replication import staleness_ms
from ..step_times.stages import stream_times
from .bill import bill_lines
from .offers import term_prices
from .results import (
    AfterLoss,
    FrontPoint,
    Milestone,
    PlanSetting,
    RankedPlan,
    ReadReplica,
    ShardState,
)
from .schema import PlanScenario
from .search import RACED, BoundedOffer
from .shard import (
    LOSSES,
    Offer,
    fails_over,
    feeds_replicas,
    memory_room,
    memory_used,
    next_failover_count,
    node_scenario,
    nodes_lost,
    reads_elsewhere,
    shard_loads,
    shards_after_loss,
    survives_losses,
    why_never,
    why_no_failover,
)
from .trials import FULL, Chance, Trial, Trials, objective_chance

MOST_MONTHS = 240.0
"""Twenty years: beyond it a limit is not told."""


def plan_setting(offer: Offer, shards: int, threads: int) -> PlanSetting:
    """What to run of an offer."""
    engine = offer.engine
    return PlanSetting(offer.name, engine.engine, engine.version, shards, offer.replicas, threads)


def forecast(plan: PlanScenario, entry: BoundedOffer, seed: int) -> RankedPlan:
    """The plan that a settled offer is, and how far it goes."""
    return _forecast(plan, entry.offer, entry.holding, seed, why=entry.why)


def forecast_current(plan: PlanScenario, offer: Offer, seed: int) -> RankedPlan:
    """The same of the current deployment, whether it meets the objectives or not."""
    today = plan.today
    assert today is not None  # asked only then
    return forecast_setting(plan, offer, shards=today.shards, threads=today.io_threads, seed=seed)


def forecast_setting(
    plan: PlanScenario, offer: Offer, *, shards: int, threads: int, seed: int
) -> RankedPlan:
    """The same of any number of shards and threads."""
    trial = Trials(plan, offer, seed=seed).trial(threads, shards, FULL)
    why = _never(plan, offer, trial.shards) or (trial.why_not if trial.misses else None)
    return _forecast(plan, offer, trial, seed, why=why or trial.why_not or "", misses=bool(why))


def _never(plan: PlanScenario, offer: Offer, shards: int) -> str | None:
    """Why so many shards cannot do, whatever a simulation says; None if they may."""
    never = why_never(plan, offer)
    if never is None and not survives_losses(plan, offer, shards):
        never = why_no_failover(plan, offer, shards)
    used = memory_used(plan, offer, shards, months=plan.demand.horizon_months)
    most = 1.0 - plan.objectives.memory_headroom
    if never is None and used > most:
        never = f"its data take {used:.0%} of a node's memory, {most:.0%} allowed"
    return never


def _forecast(
    plan: PlanScenario, offer: Offer, trial: Trial, seed: int, *, why: str, misses: bool = False
) -> RankedPlan:
    trials, shards, threads = Trials(plan, offer, seed=seed), trial.shards, trial.threads
    months = plan.demand.horizon_months
    later, known = trial.prediction, trial.chance
    after_loss = shards_after_loss(plan, offer, shards) != shards or trials.worst != trials.loads
    if later is None or known is None or after_loss:
        later, known = trials.chance(threads, serving=shards, effort=FULL)
    busiest = trials.busiest(threads, serving=shards)
    part = busiest.part(plan.demand)
    grows = plan.demand.growth(months) > 1.0 or plan.demand.data_growth(months) > 1.0
    now, now_known = later, known
    capacity_rps = trial.capacity_rps
    if grows:
        now = trials.predict(
            node_scenario(plan, offer, threads, serving=shards, load=busiest), FULL
        )
        now_known = objective_chance(
            now, capacity_rps=part * capacity_rps, asked=plan.objectives.slo.probability, seed=seed
        )
    with ThreadPoolExecutor(1) as alone:
        [limit] = find_limits([later], seed=seed, executor=alone)

    def state(prediction: Prediction, chance: Chance, at: float) -> ShardState:
        rate_rps = (prediction.case.scenario.workload.rate_rps or 0.0) / part
        room = memory_room(plan, offer, serving=shards, months=at)
        return ShardState(
            months=at,
            rate_rps=rate_rps,
            capacity_rps=capacity_rps,
            cpu_headroom=1.0 - rate_rps / capacity_rps,
            limit_rps=None if limit.at_rps is None else limit.at_rps / part,
            memory_needed_bytes=room.needed_bytes,
            memory_usable_bytes=room.limit.usable_bytes,
            memory_headroom=1.0 - room.needed_bytes / room.limit.usable_bytes,
            p50_ms=prediction.estimate("p50_ms"),
            p99_ms=prediction.estimate("p99_ms"),
            p999_ms=prediction.estimate("p999_ms"),
            probability=chance.value,
            probability_low=chance.low,
            probability_high=chance.high,
            draws=chance.draws,
        )

    states = state(now, now_known, 0.0), state(later, known, months)
    return RankedPlan(
        setting=plan_setting(offer, shards, threads),
        usd_per_month=offer.nodes_usd(shards),
        usd_per_node_month=offer.usd_per_month,
        payment=offer.payment,
        price_note=offer.price_note,
        meets=trial.holds and not misses,
        is_open=trial.is_open and not misses,
        missed_where=known.cause,
        why=why,
        now=states[0],
        horizon=states[1],
        bottleneck=limit.station,
        milestones=_milestones(plan, offer, shards, states[0], objective=limit.objective),
        failures=[_after_loss(trials, trial, states[1], what) for what in LOSSES],
        warnings=_warnings(offer, later, shards),
        bill_usd_per_month=offer.bill_usd(shards),
        bill=bill_lines(offer, shards),
        not_priced=list(offer.beside.not_priced),
        terms=term_prices(plan.choices, offer.name, offer.system),
        replica_reads=replica_reads(trials, threads, shards),
    )


def _milestones(
    plan: PlanScenario, offer: Offer, shards: int, now: ShardState, *, objective: bool
) -> list[Milestone]:
    """Limits that growth reaches, the earliest first."""
    demand, asked = plan.demand, plan.objectives
    yearly = demand.growth_per_year
    data_yearly = demand.data_growth(12.0) - 1.0
    found: list[Milestone] = []
    if yearly > 0:
        least = asked.cpu_headroom
        reached = (1.0 - least) * now.capacity_rps / now.rate_rps
        if least > 0:
            found.append(Milestone(f"CPU headroom of {least:.0%}", months_until(reached, yearly)))
        if now.limit_rps is not None:
            ends = "latency objective" if objective else "capacity of a node"
            found.append(Milestone(ends, months_until(now.limit_rps / now.rate_rps, yearly)))
    if data_yearly > 0:
        least = asked.memory_headroom
        for share, words in ((1.0 - least, f"memory headroom of {least:.0%}"), (1.0, "memory")):
            if share < 1.0 or words == "memory":
                found.append(Milestone(words, _memory_months(plan, offer, shards, share)))
    return sorted(found, key=lambda each: math.inf if each.months is None else each.months)


def months_until(factor: float, yearly: float) -> float | None:
    """Months until a growing load reaches a multiple of today's; None beyond `MOST_MONTHS`."""
    if factor <= 1.0:
        return 0.0
    months = 12.0 * math.log(factor) / math.log1p(yearly)
    return months if months <= MOST_MONTHS else None


def _memory_months(plan: PlanScenario, offer: Offer, shards: int, share: float) -> float | None:
    """Months until data take a share of the memory; None beyond `MOST_MONTHS`."""

    def full(months: float) -> bool:
        return memory_used(plan, offer, shards, months=months) > share

    if full(0.0):
        return 0.0
    return _first_month(full)


def _first_month(reached: Callable[[float], bool]) -> float | None:
    """The first month, to a tenth, from which on a condition holds; None if it never does."""
    if not reached(MOST_MONTHS):
        return None
    low, high = 0.0, MOST_MONTHS
    while high - low > 0.1:
        middle = (low + high) / 2.0
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _after_loss(trials: Trials, trial: Trial, horizon: ShardState, what: str) -> AfterLoss:
    """What is left of a plan at the horizon's peak without a node, or without a zone."""
    plan, offer, shards = trials.plan, trials.offer, trial.shards
    zones = plan.demand.zones
    lost = nodes_lost(shards, what=what, zones=zones)
    left = shards - lost if zones > 1 or what == "node" else 0
    replaced = offer.replicas > 0 and (what == "node" or zones > 1)
    if left < 1 and not replaced:
        nodes = shards * (1 + offer.replicas)
        return AfterLoss(
            what, nodes, 0, 0.0, 0.0, 0.0, None, 0.0, 1.0, False, "nothing is left", False
        )
    by_itself = fails_over(offer, shards, what=what, zones=zones)
    goes_on = by_itself or plan.objectives.failover == "by_hand"
    note = _takeover(offer, shards, lost, by_itself=by_itself)
    if replaced:
        # A replica takes the place of each lost primary, with the same data and load.
        gone = 1 if what == "node" else math.ceil(shards * (1 + offer.replicas) / zones)
        headroom, p99_ms, probability = horizon.cpu_headroom, horizon.p99_ms, horizon.probability
        loads = shard_loads(plan, offer, what)
        if loads != trials.loads:  # fewer nodes have the reads
            served_rps = trials.capacity_rps(trial.threads, serving=shards, loads=loads)
            headroom, p99_ms, probability = 1.0 - horizon.rate_rps / served_rps, None, 0.0
            if headroom >= 0.0:
                prediction, chance = trials.chance(
                    trial.threads, serving=shards, effort=FULL, loads=loads
                )
                p99_ms, probability = prediction.estimate("p99_ms"), chance.value
        met = probability >= plan.objectives.slo.probability
        holds = goes_on and met and horizon.memory_headroom >= 0.0
        return AfterLoss(
            what, gone, shards, horizon.rate_rps, headroom, horizon.memory_headroom,
            p99_ms, probability, 0.0, holds, note, by_itself,
        )  # fmt: skip
    found = _taken_over(trials, trial, what, lost, left)
    return replace(found, holds=goes_on and found.holds, note=note, by_itself=by_itself)


def replica_reads(trials: Trials, threads: int, shards: int) -> ReadReplica | None:
    """The busiest replica of a shard at the horizon's peak; None where none is read from."""
    plan, offer = trials.plan, trials.offer
    if trials.loads[-1].primary:
        return None
    primary, replica = trials.loads[0], trials.loads[-1]
    sender, found = (
        trials.chance(threads, serving=shards, effort=FULL, loads=[load])[0]
        for load in (primary, replica)
    )
    scenario = trials.scenario(threads, serving=shards, load=replica)
    rate_rps, writes_rps, busy = scenario.workload.rate_rps or 0.0, 0.0, 0.0
    if scenario.follows is not None:
        writes_rps = rate_rps * scenario.follows.per_request
        busy = writes_rps * stream_times(offer.system.inputs(scenario)).write_ns / 1e9
    served_rps = trials.node_capacity_rps(threads, serving=shards, load=replica)
    zones, reads_from = plan.demand.zones, plan.demand.reads_from
    far = replicas_elsewhere(offer.replicas, zones) > 0
    return ReadReplica(
        reads=replica.reads,
        primary_reads=primary.reads if primary.primary else 0.0,
        crossing=reads_elsewhere(reads_from, replicas=offer.replicas, zones=zones),
        rate_rps=rate_rps,
        writes_rps=writes_rps,
        writes_busy=busy,
        cpu_headroom=1.0 - rate_rps / served_rps,
        p99_ms=found.estimate("p99_ms"),
        stale_p50_ms=staleness_ms(sender, found, "p50_ms", between_zones=far),
        stale_p99_ms=staleness_ms(sender, found, "p99_ms", between_zones=far),
    )


def _takeover(offer: Offer, shards: int, lost: int, *, by_itself: bool) -> str:
    """Which nodes take over from those that are lost, and who triggers it."""
    if offer.replicas == 0:
        others = "the others take over, and its data are filled again"
        return others if by_itself else f"{others}, once someone has given them its slots"
    if offer.managed:
        return "replicas take over, the service sees to it"
    if by_itself:
        return "replicas take over by vote of the other primaries"
    left = shards - lost
    return (
        f"{left} of {shards} primaries {'is' if left == 1 else 'are'} left, no majority that "
        "promotes a replica: someone has to"
    )


def _taken_over(trials: Trials, trial: Trial, what: str, lost: int, left: int) -> AfterLoss:
    """The others have the load and, once it is filled again, the data of what is lost."""
    plan, offer, threads = trials.plan, trials.offer, trial.threads
    rate_rps = trials.scenario(threads, serving=left).workload.rate_rps or 0.0
    capacity_rps = trials.capacity_rps(threads, serving=left)
    p99: Estimate | None = None
    chance = None
    if rate_rps <= capacity_rps:  # else requests pile up, whatever a simulation says of them
        prediction, chance = trials.chance(threads, serving=left, effort=FULL)
        p99 = prediction.estimate("p99_ms")
    used = memory_used(plan, offer, left, months=plan.demand.horizon_months)
    met = chance is not None and chance.value >= plan.objectives.slo.probability
    return AfterLoss(
        what=what,
        nodes_lost=lost,
        serving=left,
        rate_rps=rate_rps,
        cpu_headroom=1.0 - rate_rps / capacity_rps,
        memory_headroom=1.0 - used,
        p99_ms=p99,
        probability=0.0 if chance is None else chance.value,
        data_lost=lost / trial.shards,
        holds=met and used <= 1.0,
        note="",
        by_itself=True,
    )


def _warnings(offer: Offer, prediction: Prediction, shards: int) -> list[str]:
    """What the prediction of a plan leaves out."""
    found = not_covered(prediction.case.scenario, offer.system)
    if offer.managed:
        found.append(
            "how many threads a node of the service runs is not published: io-threads is what it "
            "would take"
        )
    if offer.replicas and not feeds_replicas(offer.engine):
        found.append(f"the work of {offer.engine.id} for replicas was not counted, and is left out")
    if shards > 1 and offer.engine.engine == "redis" and offer.engine.version < "7":
        found.append(
            f"memory of {offer.engine_words} is that without cluster mode, whose index of keys is "
            "not modelled"
        )
    return found


_MORE = (1.0, 1.1, 1.25, 1.5, 2.0)
"""Multiples of the fewest shards that are told."""


def headroom_front(plan: PlanScenario, entries: Sequence[BoundedOffer]) -> list[FrontPoint]:
    """Points of all raced offers, the cheapest first, with those on the front marked.

    With more shards than it takes, an offer's capacity a shard is that with the fewest: fewer keys
    are found a little faster.
    """
    points = [
        point
        for entry in entries
        if entry.stage >= RACED and not entry.impossible
        for point in _points(plan, entry)
    ]
    points.sort(key=lambda each: (each.usd_per_month, -each.headroom))
    best, found = -math.inf, list[FrontPoint]()
    for each in points:
        above = each.headroom > best + 1e-9
        best = max(best, each.headroom)
        found.append(replace(each, on_front=above))
    return found


def _points(plan: PlanScenario, entry: BoundedOffer) -> list[FrontPoint]:
    offer, threads = entry.offer, entry.threads[0]
    months, most = plan.demand.horizon_months, plan.choices.shards.most
    asked = dict.fromkeys(min(most, math.ceil(entry.shards * more)) for more in _MORE)
    counts = dict.fromkeys(next_failover_count(plan, offer, count) for count in asked)
    found = []
    for shards in counts:
        if shards is None or shards > most:
            continue
        scenario = node_scenario(plan, offer, threads, serving=shards, months=months)
        rate_rps = scenario.workload.rate_rps or 0.0
        load = 1.0 - rate_rps / entry.capacity_rps[threads]
        memory = 1.0 - memory_used(plan, offer, shards, months=months)
        by = "load" if load <= memory else "memory"
        setting = plan_setting(offer, shards, threads)
        found.append(
            FrontPoint(setting, offer.nodes_usd(shards), min(load, memory), by, on_front=False)
        )
    return found
