"""The node that one shard of a plan is: what it is asked for, its memory, what a failure leaves."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from forecache.sim.errors import InputError

from ..engines.commands import LOG
from ..engines.profile import EngineProfile
from ..footprint.answers import forking_of, of_node
from ..footprint.baseline import process_bytes
from ..footprint.limits import Room, host_limit, room
from ..footprint.node import node_room
from ..footprint.schema import MemoryScenario
from ..footprint.weigh import beside_of, node_of, weigh
from ..layouts.generations import generation
from ..layouts.tables import SLOTS
from ..memory.key_lines import SLABS
from ..scenario.schema import GeneratorSettings, Scenario
from ..scenario.workload import CONSTANT_RATE, Zipf
from .bill.price import MANAGED
from .offers import Offer
from .schema import MOST_SHARDS, PlanDemand, PlanScenario

LOSSES = ("node", "zone")
"""What may be lost."""

_GENERATORS = 64
"""Threads that send at most: clients of a cache are many, and not what limits a node."""

_RANKS = 100_000
"""Of the most popular keys, those whose weights are added one by one."""


def node_scenario(
    plan: PlanScenario, offer: Offer, threads: int, *, serving: int, months: float = 0.0
) -> Scenario:
    """The scenario of the busiest primary at the peak.

    Parameters
    ----------
    serving
        Shards that serve: all, or those that are left.
    months
        From now on, in which demand has grown.
    """
    demand = plan.demand
    rate_rps = demand.peak_rps * demand.growth(months) * busiest_share(demand, serving)
    workload = demand.workload(rate_rps=rate_rps, share=demand.data_growth(months) / serving)
    return Scenario(
        host=offer.host.instance or offer.host.id,
        engine=offer.engine.engine,
        engine_version=offer.engine.version,
        io_threads=threads,
        tls=demand.tls,
        persistence=demand.persistence,
        replicas=offer.replicas if feeds_replicas(offer.engine) else 0,
        workload=workload,
        load_generator=GeneratorSettings(
            tool=offer.system.generator.id, threads=min(_GENERATORS, demand.clients_per_node)
        ),
        slo=plan.objectives.slo,
    )


def check_offer(plan: PlanScenario, offer: Offer) -> None:
    """Refuse an offer that can't be simulated with what is demanded.

    Raises
    ------
    InputError
        A command or what is kept on disk isn't modelled of its engine, say.
    """
    for threads in offer.threads:
        offer.system.inputs(node_scenario(plan, offer, threads, serving=MOST_SHARDS))


def feeds_replicas(engine: EngineProfile) -> bool:
    """Whether the work of feeding replicas was counted; where it wasn't, it is left out."""
    return LOG in engine.commands


def saturating(scenario: Scenario) -> Scenario:
    """The same clients, who ask again at once."""
    closed = {"arrival": "closed_loop", "rate_rps": None, "think_us": 0.0} | CONSTANT_RATE
    workload = scenario.workload.model_copy(update=closed)
    return scenario.model_copy(update={"workload": workload})


def busiest_share(demand: PlanDemand, serving: int) -> float:
    """Share of the operations that go to the shard with the most popular key or the busiest slot.

    All others are taken to be spread evenly.
    """
    top = max(_top_share(demand), demand.hot_slot)
    return top + (1.0 - top) / serving


def _top_share(demand: PlanDemand) -> float:
    """Share of the operations that go to the most popular key; 0 where keys are alike."""
    if not isinstance(demand.popularity, Zipf):
        return 0.0
    return _zipf_top(demand.keys, demand.popularity.zipf)


@lru_cache(maxsize=64)
def _zipf_top(keys: int, exponent: float) -> float:
    ranks = np.arange(1, min(keys, _RANKS) + 1, dtype=float)
    total = float((ranks**-exponent).sum())
    low, high = len(ranks) + 0.5, keys + 0.5
    if high > low:  # the rest by its integral between half ranks
        if abs(exponent - 1.0) < 1e-9:
            total += math.log(high / low)
        else:
            total += (high ** (1 - exponent) - low ** (1 - exponent)) / (1 - exponent)
    return 1.0 / total


def room_of(plan: PlanScenario, offer: Offer, *, serving: int, months: float = 0.0) -> Room:
    """What a primary's memory needs, against what its machine leaves to it."""
    threads = offer.threads[0]
    node = node_scenario(plan, offer, threads, serving=serving, months=months)
    described = None
    if offer.engine.layout != SLABS:
        described = _described(node, offer.replicas, serving=serving)
    if described is None:
        return node_room(node, offer.engine, offer.host)
    grown = plan.demand.data_growth(months)
    if plan.demand.data is None:
        shards, data = 1, described.data  # the node's own part of what is worked on
    else:
        shards = serving
        data = [
            each.model_copy(update={"keys": round(each.keys * grown)}) for each in plan.demand.data
        ]
    footprint = node_of(described)
    weight = weigh(footprint, data, beside=beside_of(described, footprint), shards=shards)
    return room(
        host_limit(offer.host, offer.engine.engine),
        weight.used_bytes,
        fragmentation=described.fragmentation,
        process_bytes=process_bytes(footprint.allocator),
        forking=forking_of(node),
    )


def _described(node: Scenario, replicas: int, *, serving: int) -> MemoryScenario | None:
    """The memory scenario of a node; None where the layout of its engine is not known."""
    try:
        described = of_node(node)
        rules = generation(described.engine, described.engine_version)
    except InputError:
        return None
    described = described.model_copy(update={"replicas": replicas})
    if serving == 1 or rules.slots is None:
        return described
    slots = max(1, round(SLOTS / serving))
    return described.model_copy(update={"cluster": True, "slots_served": slots})


def nodes_lost(shards: int, *, what: str, zones: int) -> int:
    """Primaries that are lost with a node, or with the zone that has most of them."""
    return 1 if what == "node" else math.ceil(shards / zones)


def survives(plan: PlanScenario, what: str) -> str:
    """What has to survive the loss of a node or a zone: `data`, `load` or `nothing`."""
    objectives = plan.objectives
    return objectives.losing_a_node if what == "node" else objectives.losing_a_zone


def left_serving(plan: PlanScenario, offer: Offer, shards: int) -> int:
    """Shards that have to hold the slo in the worst case that is to be survived.

    A lost primary of a shard with replicas has a successor; without them the others take over.
    0: nothing would be left.
    """
    if offer.replicas > 0:
        return shards
    left = shards
    for what in LOSSES:
        if survives(plan, what) != "nothing":
            left = min(left, shards - nodes_lost(shards, what=what, zones=plan.demand.zones))
    return left


def may_be_chosen(plan: PlanScenario, offer: Offer) -> str | None:
    """Why an offer can't survive what it has to, however many shards it has; None if it can."""
    for what in LOSSES:
        if survives(plan, what) == "data" and offer.replicas == 0:
            return f"without replicas the data of a lost {what} are gone"
    if next_that_fails_over(plan, offer, 1) is None:
        return stranded(plan, offer, MOST_SHARDS)
    return None


def fails_over(offer: Offer, shards: int, *, what: str, zones: int) -> bool:
    """Whether an offer goes on by itself when a node, or a zone, is lost."""
    service = offer.managed or offer.engine.engine == "memcached"
    return service or elects(shards, offer.replicas, what=what, zones=zones)


def elects(shards: int, replicas: int, *, what: str, zones: int) -> bool:
    """Whether the primaries that are left promote replicas in place of those that are lost.

    In a cluster of Redis or Valkey that takes the votes of more than half of all primaries, those
    that are lost included (cluster specification, "Replica election and promotion"). The slots of a
    primary without replicas are served by none until somebody gives them to others.
    """
    lost = nodes_lost(shards, what=what, zones=zones)
    return replicas > 0 and shards - lost > shards / 2


def losses_to_fail_over(plan: PlanScenario) -> list[str]:
    """After which losses a plan has to go on by itself.

    Those that something has to survive; and if nothing is said of one, that which today's cluster
    gets over by itself, since it isn't to be replaced by one that doesn't.
    """
    if plan.objectives.failover == "by_hand":
        return []
    said = plan.objectives.model_fields_set
    return [
        what
        for what in LOSSES
        if survives(plan, what) != "nothing"
        or (f"losing_a_{what}" not in said and _today_fails_over(plan, what))
    ]


def _today_fails_over(plan: PlanScenario, what: str) -> bool:
    today, zones = plan.today, plan.demand.zones
    if today is None or today.replicas == 0 or (what == "zone" and zones == 1):
        return False
    managed = today.instance.startswith(MANAGED)
    return managed or elects(today.shards, today.replicas, what=what, zones=zones)


def goes_on(plan: PlanScenario, offer: Offer, shards: int) -> bool:
    """Whether so many shards go on by themselves after each loss after which they have to."""
    zones = plan.demand.zones
    return all(
        fails_over(offer, shards, what=what, zones=zones) for what in losses_to_fail_over(plan)
    )


def next_that_fails_over(plan: PlanScenario, offer: Offer, shards: int) -> int | None:
    """The least number of shards from `shards` on that goes on by itself; None without one."""
    more = range(shards, MOST_SHARDS + 1)
    return next((count for count in more if goes_on(plan, offer, count)), None)


def stranded(plan: PlanScenario, offer: Offer, shards: int) -> str:
    """Why so many shards don't go on by themselves, and what allows it."""
    if offer.replicas == 0:
        why = "without replicas nobody takes over the slots of a lost primary by itself"
    else:
        zones = plan.demand.zones
        what = next(
            loss
            for loss in losses_to_fail_over(plan)
            if not fails_over(offer, shards, what=loss, zones=zones)
        )
        left = shards - nodes_lost(shards, what=what, zones=zones)
        of = f"{left} of {shards} primaries" if shards < MOST_SHARDS else "half of the primaries"
        why = f"after a lost {what} {of} are left, no majority that promotes a replica"
    return f"{why} (objectives.failover by_hand allows it)"


def fewest(plan: PlanScenario, offer: Offer, holds_from: int) -> int | None:
    """The fewest shards that are allowed, not fewer than needed and go on by themselves.

    None if there are none.
    """
    shards = next_that_fails_over(plan, offer, max(plan.choices.shards.least, holds_from))
    return shards if shards is not None and shards <= plan.choices.shards.most else None
