"""What nodes cost against headroom, of everything that was raced: what more money buys."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .bounds import memory_used
from .forecast import setting_of
from .race import RACED, Entry
from .results import FrontPoint
from .schema import PlanScenario
from .shard import next_that_fails_over, node_scenario

_MORE = (1.0, 1.1, 1.25, 1.5, 2.0)
"""Multiples of the fewest shards that are told."""


def front_of(plan: PlanScenario, entries: Sequence[Entry]) -> list[FrontPoint]:
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
        found.append(
            FrontPoint(each.setting, each.usd_per_month, each.headroom, each.limited_by, above)
        )
    return found


def _points(plan: PlanScenario, entry: Entry) -> list[FrontPoint]:
    offer, threads = entry.offer, entry.threads[0]
    months, most = plan.demand.horizon_months, plan.choices.shards.most
    asked = dict.fromkeys(min(most, math.ceil(entry.shards * more)) for more in _MORE)
    counts = dict.fromkeys(next_that_fails_over(plan, offer, count) for count in asked)
    found = []
    for shards in counts:
        if shards is None or shards > most:
            continue
        scenario = node_scenario(plan, offer, threads, serving=shards, months=months)
        rate_rps = scenario.workload.rate_rps or 0.0
        load = 1.0 - rate_rps / entry.capacity_rps[threads]
        memory = 1.0 - memory_used(plan, offer, shards, months=months)
        by = "load" if load <= memory else "memory"
        setting = setting_of(offer, shards, threads)
        found.append(
            FrontPoint(setting, offer.nodes_usd(shards), min(load, memory), by, on_front=False)
        )
    return found
