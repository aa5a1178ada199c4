"""What most of a bill is, and what would cut it: changes to the chosen plan, each simulated.

A plan is the cheapest of its nodes. Where most of its bill is traffic between zones, other nodes
change little, but clients may: each lever is the same machine, shards and threads with one thing
done otherwise, priced and forecast as any plan is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, NamedTuple

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

RATIO = RatioRange(low=0.4, high=0.8)
"""Their bytes after for bytes before (assumed: JSON of 1 KB shrinks to 0.3 to 0.5 with gzip or
zstd, what is packed or random hardly at all)."""

BATCH = 10
"""Keys of one command with the lever of batches."""

MOST_REPLICAS = 5
"""That a plan may have."""


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


class _Change(NamedTuple):
    """What is done otherwise, with the scenarios of it: the first, then ends of what is assumed."""

    what: str
    fields: dict[str, Any]
    scenarios: Sequence[PlanScenario]
    replicas: int
    risk: str
    assumes: str = ""


def find_levers(
    plan: PlanScenario, offer: Offer, best: RankedPlan, *, seed: int, executor: Executor
) -> list[Lever]:
    """What would cut a bill of which most is traffic between zones, the largest saving first."""
    part = largest_part(best)
    if part is None or part.what != TRAFFIC_PART:
        return []
    changes = [*_of_zones(plan, offer), *_of_bytes(plan, offer)]
    calls = [executor.submit(_lever, offer, best, change, seed) for change in changes]
    found = [lever for call in calls if (lever := call.result()) is not None]
    return sorted(found, key=lambda lever: -lever.saves_usd.value)


def _lever(offer: Offer, best: RankedPlan, change: _Change, seed: int) -> Lever | None:
    """The plan with a change; None where it can't be simulated on its engine."""
    setting, before = best.setting, best.bill_usd_per_month
    assert before is not None  # its largest part is known
    changed = replace(offer, replicas=change.replicas)
    try:
        check_offer(change.scenarios[0], changed)
    except InputError:
        return None
    offers = [with_bill(scenario, changed) for scenario in change.scenarios]
    saved = [before - (each.bill_usd(setting.shards) or 0.0) for each in offers]
    found = forecast_setting(
        change.scenarios[0], offers[0], shards=setting.shards, threads=setting.io_threads, seed=seed
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


def _of_zones(plan: PlanScenario, offer: Offer) -> Iterator[_Change]:
    """Who reads where."""
    zones, near = plan.demand.zones, _with(plan, reads_from="same_zone")
    risk = (
        "a read may miss what was just written; clients have to know their zone (AZ affinity in "
        "Valkey GLIDE, nearest in Lettuce)"
    )
    if zones == 1:
        return
    if offer.replicas and plan.demand.reads_from != "same_zone":
        fields: dict[str, Any] = {"demand.reads_from": "same_zone"}
        yield _Change("reads in the client’s own zone", fields, [near], offer.replicas, risk)
    if offer.replicas < zones - 1 <= MOST_REPLICAS and offer.engine.engine != "memcached":
        what = f"reads in the client’s own zone with {zones - 1} replicas"
        if offer.replicas:
            risk = f"as with fewer replicas; writes are copied to {zones - 1} other zones"
        fields = {"demand.reads_from": "same_zone", "choices.replicas": [zones - 1]}
        yield _Change(what, fields, [near], zones - 1, risk)
    objectives = plan.objectives.model_copy(update={"losing_a_zone": "nothing"})
    yield _Change(
        "nodes and clients in one zone",
        {"demand.zones": 1, "objectives.losing_a_zone": "nothing"},
        [_with(plan, zones=1).model_copy(update={"objectives": objectives})],
        offer.replicas,
        "the loss of that zone takes the cache, its data and its clients",
    )


def _of_bytes(plan: PlanScenario, offer: Offer) -> Iterator[_Change]:
    """How much is sent."""
    demand = plan.demand
    largest = max(size for size, _ in sizes_of(demand.value_bytes))
    if demand.compression is None and largest > ABOVE_BYTES:
        said = Compression(algorithm="zstd", above_bytes=ABOVE_BYTES, ratio=RATIO)
        mean = Ratios(said).ratio(largest)
        yield _Change(
            f"values above {ABOVE_BYTES} B compressed by clients",
            {"demand.compression": said.model_dump(exclude_none=True, exclude_defaults=True)},
            [
                with_stored_values(plan, Ratios(said), factor=ratio / mean.value)
                for ratio in (mean.value, mean.low, mean.high)
            ],
            offer.replicas,
            "clients spend CPU time on it, which a plan with a sample measures",
            f"they shrink to {mean.value:.0%} ({mean.low:.0%} to {mean.high:.0%}), to be measured "
            "with demand.compression.sample",
        )
    operations = demand.operations.by_command
    together = {"get": "mget", "set": "mset"}
    if operations.keys() & together.keys() and not operations.keys() & {*together.values()}:
        batches: dict[str, Any] = {
            together.get(name, name): {"a_second": asked.a_second / BATCH, "keys": BATCH}
            if name in together
            else asked.model_dump()
            for name, asked in operations.items()
        }
        yield _Change(
            f"{BATCH} keys a command, by MGET and MSET",
            {"demand.operations": batches},
            [_with(plan, operations=AskedOperations(**batches))],
            offer.replicas,
            "clients need as many keys at once, all in one slot ({hash tags}); p99 is of a batch",
        )
