"""What most of a bill is, and what would cut it: changes to the chosen plan, each simulated.

A plan is the cheapest of its nodes. Where most of its bill is traffic between zones, other nodes
change little, but clients may: each lever is the same machine, shards and threads with one thing
done otherwise, priced and forecast as any plan is.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

from forecache.sim.errors import InputError
from forecache.sim.statistics import Estimate

from ..cost.bill import BACKUPS, CLIENTS, REPLICAS, BillLine
from ..scenario.workload import sizes_of
from .bill import with_bill
from .compression import Ratios, with_stored_values
from .forecast import forecast_setting
from .results import BillPart, Lever, RankedPlan
from .schema import AskedOperations, Compression, PlanScenario, RatioRange
from .shard import Offer, check_offer

NODES_PART, TRAFFIC_PART, BACKUPS_PART = "nodes", "traffic between zones", "backups"
"""What a bill consists of."""

ABOVE_BYTES = 512
"""Values that the lever of compression compresses."""

RATIO = Estimate(0.6, 0.4, 0.8)
"""Their bytes after for bytes before (assumed: JSON of 1 KB shrinks to 0.3 to 0.5 with gzip or
zstd, what is packed or random hardly at all)."""

BATCH = 10
"""Keys of one command with the lever of batches."""


def largest_part(plan: RankedPlan) -> BillPart | None:
    """What makes up more than half of a bill of several parts; None where nothing does.

    None also where something belongs to the bill that has no known price.
    """
    total = plan.bill_usd_per_month
    parts = bill_parts(plan.bill)
    if not total or len(parts) < 2:
        return None
    what, usd = max(parts.items(), key=lambda part: part[1])
    share = usd / total
    return BillPart(what, usd, share, total) if share > 0.5 else None


def bill_parts(lines: Sequence[BillLine]) -> dict[str, float]:
    """What each part of a bill costs, of those that cost anything."""
    names = {BACKUPS: BACKUPS_PART, CLIENTS: TRAFFIC_PART, REPLICAS: TRAFFIC_PART}
    found: dict[str, float] = {}
    for line in lines:
        part = names.get(line.what, NODES_PART)
        found[part] = found.get(part, 0.0) + line.usd
    return {part: usd for part, usd in found.items() if usd > 0.0}


@dataclass(frozen=True)
class _Change:
    """What is done otherwise; `ends` are the scenarios with the least and the most of it."""

    what: str
    fields: dict[str, Any]
    scenario: PlanScenario
    replicas: int
    risk: str
    assumes: str = ""
    ends: tuple[PlanScenario, ...] = ()


def find_levers(
    plan: PlanScenario, offer: Offer, best: RankedPlan, *, seed: int, executor: Executor
) -> list[Lever]:
    """What would cut a bill of which most is traffic between zones, the largest saving first."""
    part = largest_part(best)
    if part is None or part.what != TRAFFIC_PART:
        return []
    calls = [
        executor.submit(_lever, offer, best, change, seed)
        for make in (_own_zone, _replica_in_each, _one_zone, _compressed, _batches)
        if (change := make(plan, offer)) is not None
    ]
    found = [lever for call in calls if (lever := call.result()) is not None]
    return sorted(found, key=lambda lever: -lever.saves_usd.value)


def _lever(offer: Offer, best: RankedPlan, change: _Change, seed: int) -> Lever | None:
    """The plan with a change; None where it can't be simulated on its engine."""
    setting, before = best.setting, best.bill_usd_per_month
    assert before is not None  # its largest part is known
    changed = replace(offer, replicas=change.replicas)
    try:
        check_offer(change.scenario, changed)
    except InputError:
        return None
    bills = [
        with_bill(scenario, changed).bill_usd(setting.shards)
        for scenario in (change.scenario, *change.ends)
    ]
    saved = [before - usd for usd in bills if usd is not None]
    found = forecast_setting(
        change.scenario,
        with_bill(change.scenario, changed),
        shards=setting.shards,
        threads=setting.io_threads,
        seed=seed,
    )
    return Lever(
        what=change.what,
        change=change.fields,
        saves_usd=Estimate(saved[0], min(saved), max(saved)),
        assumes=change.assumes,
        risk=change.risk,
        plan=found,
    )


def _with(plan: PlanScenario, **demand: Any) -> PlanScenario:
    return plan.model_copy(update={"demand": plan.demand.model_copy(update=demand)})


_STALE = (
    "a read may miss what was just written; clients have to know their zone (AZ affinity in Valkey "
    "GLIDE, nearest in Lettuce)"
)


def _own_zone(plan: PlanScenario, offer: Offer) -> _Change | None:
    demand = plan.demand
    if demand.zones == 1 or offer.replicas == 0 or demand.reads_from == "same_zone":
        return None
    return _Change(
        "reads in the client’s own zone",
        {"demand.reads_from": "same_zone"},
        _with(plan, reads_from="same_zone"),
        offer.replicas,
        _STALE,
    )


def _replica_in_each(plan: PlanScenario, offer: Offer) -> _Change | None:
    replicas = plan.demand.zones - 1
    if not offer.replicas < replicas <= 5 or offer.engine.engine == "memcached":
        return None
    return _Change(
        f"the same with {replicas} replicas, one node in every zone",
        {"demand.reads_from": "same_zone", "choices.replicas": [replicas]},
        _with(plan, reads_from="same_zone"),
        replicas,
        _STALE,
    )


def _one_zone(plan: PlanScenario, offer: Offer) -> _Change | None:
    if plan.demand.zones == 1:
        return None
    objectives = plan.objectives.model_copy(update={"losing_a_zone": "nothing"})
    return _Change(
        "nodes and clients in one zone",
        {"demand.zones": 1, "objectives.losing_a_zone": "nothing"},
        _with(plan, zones=1).model_copy(update={"objectives": objectives}),
        offer.replicas,
        "the loss of that zone takes the cache, its data and its clients",
    )


def _compressed(plan: PlanScenario, offer: Offer) -> _Change | None:
    demand = plan.demand
    largest = max(size for size, _ in sizes_of(demand.value_bytes))
    if demand.compression is not None or largest <= ABOVE_BYTES:
        return None
    said = Compression(
        algorithm="zstd",
        above_bytes=ABOVE_BYTES,
        ratio=RatioRange(low=RATIO.low, high=RATIO.high),
    )
    stored = [
        with_stored_values(plan, Ratios(said), factor=ratio / RATIO.value)
        for ratio in (RATIO.value, RATIO.low, RATIO.high)
    ]
    return _Change(
        f"values above {ABOVE_BYTES} B compressed by clients",
        {"demand.compression": said.model_dump(exclude_none=True, exclude_defaults=True)},
        stored[0],
        offer.replicas,
        "clients spend CPU time, which a plan with a sample measures, and readers must know it",
        f"they shrink to {RATIO.value:.0%} ({RATIO.low:.0%} to {RATIO.high:.0%}): measure it with "
        "demand.compression.sample",
        (stored[1], stored[2]),
    )


def _batches(plan: PlanScenario, offer: Offer) -> _Change | None:
    together = {"get": "mget", "set": "mset"}
    operations = plan.demand.operations.model_dump(exclude_none=True)
    if any(batch in operations for batch in together.values()):
        return None
    batches: dict[str, Any] = {}
    for name, asked in operations.items():
        if name in together:
            batches[together[name]] = {"a_second": asked["a_second"] / BATCH, "keys": BATCH}
        else:
            batches[name] = asked
    if batches == operations:
        return None
    return _Change(
        f"{BATCH} keys a command, by MGET and MSET",
        {"demand.operations": batches},
        _with(plan, operations=AskedOperations(**batches)),
        offer.replicas,
        "clients need as many keys at once, all in one slot ({hash tags}); p99 is of a whole batch",
    )
