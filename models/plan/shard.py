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
from .offers import Offer
from .schema import MOST_SHARDS, Choices, PlanDemand, PlanScenario

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


def left_serving(plan: PlanScenario, offer: Offer, shards: int) -> int:
    """Shards that have to hold the slo in the worst case that is to be survived.

    A lost primary of a shard with replicas has a successor; without them the others take over.
    0: nothing would be left.
    """
    if offer.replicas > 0:
        return shards
    objectives, left = plan.objectives, shards
    for what, survives in (("node", objectives.losing_a_node), ("zone", objectives.losing_a_zone)):
        if survives != "nothing":
            left = min(left, shards - nodes_lost(shards, what=what, zones=plan.demand.zones))
    return left


def may_be_chosen(plan: PlanScenario, offer: Offer) -> str | None:
    """Why an offer can't survive what it has to, however many shards it has; None if it can."""
    objectives = plan.objectives
    for what, survives in (("node", objectives.losing_a_node), ("zone", objectives.losing_a_zone)):
        if survives == "data" and offer.replicas == 0:
            return f"without replicas the data of a lost {what} are gone"
    return None


def fewest(choices: Choices, holds_from: int) -> int | None:
    """The fewest shards that are allowed and not fewer than needed; None if there are none."""
    shards = max(choices.shards.least, holds_from)
    return shards if shards <= min(choices.shards.most, MOST_SHARDS) else None
