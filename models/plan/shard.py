"""An offer, and the node that one of its shards is: load, memory, what a failure leaves, bounds.

An offer is a machine, an engine and a number of replicas.

How many shards are needed at least follows from memory, network and one thread's work, without a
simulation. What such a bound leaves out (queues, hand-over between threads, the spread of what is
not known) only makes more shards necessary, so an offer whose bound costs more than a plan that
holds can be left alone. All are taken at the nominal numbers: what fails there is likelier to fail
than not, and plans hold with a probability of at least a half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from forecache.hwprofiles.schema import HostProfile
from forecache.sim.errors import InputError
from forecache.sim.words import byte_size

from ..cost.bill import Bill, BillLine
from ..cost.schema import MOST_SHARDS
from ..engines.commands import LOG
from ..engines.profile import EngineProfile
from ..footprint.answers import forking_of, of_node
from ..footprint.limits import Room, host_limit, room
from ..footprint.node import node_room
from ..footprint.saving import child_of, writer_of
from ..footprint.schema import MemoryScenario
from ..footprint.weigh import beside_of, node_of, process_bytes, weigh
from ..layouts.generations import generation
from ..layouts.tables import SLOTS
from ..memory.contents import SLABS
from ..prediction.system import System
from ..scenario.schema import Followed, GeneratorSettings, Scenario
from ..scenario.workload import Zipf
from ..step_times.inputs import NodeInputs
from ..step_times.persistence import code_shares
from ..step_times.stages import node_times
from .schema import PlanDemand, PlanScenario, ReadsFrom

MANAGED = "cache."
"""What names of node types of a service begin with."""

LOSSES = ("node", "zone")
"""What may be lost."""

_GENERATORS = 64
"""Threads that send at most: clients of a cache are many, and not what limits a node."""

_RANKS = 100_000
"""Of the most popular keys, those whose weights are added one by one."""


@dataclass(frozen=True)
class Offer:
    """A machine with an engine on it, and how many replicas a shard has.

    Attributes
    ----------
    name, family
        Of the instance, or of a service's node type: cache.r7g.large, cache.r7g.
    system
        Host, engine and load generator, as simulations take them.
    replicas
        Of each shard.
    payment, usd_per_month, price_note
        How it is paid, what one node costs, and whose price that is.
    threads
        The numbers of threads that may be run, in order.
    support, beside
        What one node costs more for an old version, and what a plan costs beside its nodes, however
        many (`bill.py`).
    """

    name: str
    family: str
    system: System
    replicas: int
    payment: str
    usd_per_month: float
    price_note: str
    threads: tuple[int, ...]
    support: BillLine | None = None
    beside: Bill = field(default_factory=Bill)

    @property
    def engine(self) -> EngineProfile:
        """Its engine."""
        return self.system.engine

    @property
    def host(self) -> HostProfile:
        """Its host."""
        return self.system.host

    @property
    def engine_words(self) -> str:
        """Name and version of its engine."""
        return f"{self.engine.engine} {self.engine.version}"

    @property
    def managed(self) -> bool:
        """Whether a service runs it."""
        return self.name.startswith(MANAGED)

    @property
    def words(self) -> str:
        """For a sentence: `r7g.large with valkey 9.1`."""
        return f"{self.name} with {self.engine_words}"

    def nodes_usd(self, shards: int) -> float:
        """What the nodes of so many shards cost a month: what all offers have a price of."""
        each = self.usd_per_month + (0.0 if self.support is None else self.support.usd)
        return shards * (1 + self.replicas) * each

    def bill_usd(self, shards: int) -> float | None:
        """The whole bill of a month; None where some of it has no known price."""
        return None if self.beside.not_priced else self.nodes_usd(shards) + self.beside.usd


@dataclass(frozen=True)
class NodePart:
    """What one node of a shard does.

    Attributes
    ----------
    reads
        Share of the reads of its shard.
    primary
        Whether clients send it the writes; else it executes them as its primary has.
    """

    reads: float = 1.0
    primary: bool = True

    def part(self, demand: PlanDemand) -> float:
        """Share of its shard's operations that clients send to it."""
        asked = demand.operations
        return asked.part(reads=self.reads, writes=float(self.primary)) / asked.a_second


ALL_OPERATIONS = NodePart()
"""Of a primary that nobody reads beside."""


def node_scenario(
    plan: PlanScenario,
    offer: Offer,
    threads: int,
    *,
    serving: int,
    months: float = 0.0,
    load: NodePart = ALL_OPERATIONS,
) -> Scenario:
    """The scenario of a node of the busiest shard at the peak.

    Parameters
    ----------
    serving
        Shards that serve: all, or those that are left.
    months
        From now on, in which demand has grown.
    """
    demand, asked = plan.demand, plan.demand.operations
    rate_rps = demand.peak_rps * demand.growth(months) * busiest_share(demand, serving)
    mix = follows = None
    if load != ALL_OPERATIONS:
        mix = asked.mix(reads=load.reads, writes=float(load.primary))
    writes = asked.part(reads=0.0, writes=1.0)
    if not load.primary and writes > 0:
        each = writes / asked.part(reads=load.reads, writes=0.0)
        follows = Followed(per_request=each, mix=asked.mix(reads=0.0, writes=1.0))
    workload = demand.workload(
        rate_rps=rate_rps * load.part(demand), share=demand.data_growth(months) / serving, mix=mix
    )
    return Scenario(
        host=offer.host.instance or offer.host.id,
        engine=offer.engine.engine,
        engine_version=offer.engine.version,
        io_threads=threads,
        tls=demand.tls,
        persistence=demand.persistence,
        replicas=offer.replicas if load.primary and feeds_replicas(offer.engine) else 0,
        follows=follows,
        workload=workload,
        load_generator=GeneratorSettings(
            tool=offer.system.generator.id, threads=min(_GENERATORS, demand.clients_per_node)
        ),
        slo=plan.objectives.slo,
    )


def check_offer(plan: PlanScenario, offer: Offer) -> None:
    """Refuse an offer that can't be simulated with what is demanded, with an `InputError`.

    A command, say, or what is kept on disk, may not be modelled of its engine.
    """
    for threads in offer.threads:
        offer.system.inputs(node_scenario(plan, offer, threads, serving=MOST_SHARDS))


def feeds_replicas(engine: EngineProfile) -> bool:
    """Whether the work of feeding replicas was counted; where it wasn't, it is left out."""
    return LOG in engine.commands


def busiest_share(demand: PlanDemand, serving: int) -> float:
    """Share of the operations that go to the shard with the most popular key or the busiest slot.

    All others are taken to be spread evenly.
    """
    top = demand.hot_slot
    if isinstance(demand.popularity, Zipf):
        top = max(top, _zipf_top(demand.keys, demand.popularity.zipf))
    return top + (1.0 - top) / serving


@lru_cache(maxsize=64)
def _zipf_top(keys: int, exponent: float) -> float:
    """Share of the operations that go to the most popular key."""
    ranks = np.arange(1, min(keys, _RANKS) + 1, dtype=float)
    total = float((ranks**-exponent).sum())
    low, high = len(ranks) + 0.5, keys + 0.5
    if high > low:  # the rest by its integral between half ranks
        if abs(exponent - 1.0) < 1e-9:
            total += math.log(high / low)
        else:
            total += (high ** (1 - exponent) - low ** (1 - exponent)) / (1 - exponent)
    return 1.0 / total


def memory_room(plan: PlanScenario, offer: Offer, *, serving: int, months: float = 0.0) -> Room:
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
    forking, child = forking_of(node), None
    if forking is not None:
        child = child_of(
            footprint.generation,
            list(zip(weight.keys, data, strict=True)),
            forking,
            used_bytes=weight.used_bytes,
            per_key=weight.per_key,
            writer=writer_of(offer.host.speed(), weight.used_bytes),
        )
    return room(
        host_limit(offer.host, offer.engine.engine),
        weight.used_bytes,
        fragmentation=described.fragmentation,
        process_bytes=process_bytes(footprint.allocator),
        forking=child,
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


# --- who is read from ----------------------------------------------------------------------------


def read_shares(reads_from: ReadsFrom, nodes: Sequence[int], clients: Sequence[int]) -> np.ndarray:
    """(clients, nodes) share of the reads of a zone's clients that each node of a shard gets.

    As Valkey GLIDE does with AZ_AFFINITY_REPLICAS_AND_PRIMARY: clients read from the replicas in
    their own zone in turn, where there is none from the primary if it is there, else from any
    replica.

    Parameters
    ----------
    nodes
        Zone of each node, the primary's first.
    clients
        Zones of the clients.
    """
    found = np.zeros((len(clients), len(nodes)))
    replicas = list(range(1, len(nodes)))
    for row, zone in zip(found, clients, strict=True):
        near = [node for node in replicas if nodes[node] == zone]
        if reads_from == "any":
            chosen = [0, *replicas]
        elif reads_from == "primary" or not replicas:
            chosen = [0]
        else:
            chosen = near or ([0] if nodes[0] == zone else replicas)
        row[chosen] = 1.0 / len(chosen)
    return found


def reads_elsewhere(reads_from: ReadsFrom, *, replicas: int, zones: int) -> float:
    """Share of the reads that cross zones; nodes of a shard go from zone to zone."""
    nodes = np.arange(1 + replicas) % zones
    shares = read_shares(reads_from, nodes.tolist(), range(zones))
    return float(shares[nodes != np.arange(zones)[:, None]].sum() / zones)


def shard_loads(plan: PlanScenario, offer: Offer, lost: str | None = None) -> tuple[NodePart, ...]:
    """What the primary of a shard does, then its busiest replica, if replicas are read from.

    Parameters
    ----------
    lost
        `node` or `zone`: what the shards that suffer most from its loss have to do then. Clients of
        a lost zone are taken to come from the others.
    """
    demand, zones = plan.demand, plan.demand.zones
    reads = demand.operations.part(reads=1.0, writes=0.0)
    if demand.reads_from == "primary" or offer.replicas == 0 or not reads:
        return (ALL_OPERATIONS,)
    nodes = [node % zones for node in range(1 + offer.replicas)]
    left = [(nodes, list(range(zones)))]
    if lost == "node":
        left = [(nodes[:n] + nodes[n + 1 :], list(range(zones))) for n in range(len(nodes))]
    elif lost == "zone":
        left = [
            ([n for n in nodes if n != zone], [z for z in range(zones) if z != zone])
            for zone in range(zones)
        ]
    shares = [
        read_shares(demand.reads_from, some, clients).mean(axis=0)
        for some, clients in left
        if some and clients
    ]
    if not shares:
        return (ALL_OPERATIONS,)
    primary = NodePart(max(float(each[0]) for each in shares))
    most = max((float(n) for each in shares for n in each[1:]), default=0.0)
    replica = NodePart(most, primary=False)
    return tuple(load for load in (primary, replica) if load.part(demand) > 0.0)


def worst_loads(plan: PlanScenario, offer: Offer) -> tuple[NodePart, ...]:
    """The same in the worst case that is to be survived, each of both by itself."""
    losses = [what for what in LOSSES if survives(plan, what) != "nothing"]
    every = [load for lost in (None, *losses) for load in shard_loads(plan, offer, lost)]
    return tuple(
        max((load for load in every if load.primary is primary), key=lambda load: load.reads)
        for primary in dict.fromkeys(load.primary for load in every)
    )


# --- what a failure leaves ------------------------------------------------------------------------


def nodes_lost(shards: int, *, what: str, zones: int) -> int:
    """Primaries that are lost with a node, or with the zone that has most of them."""
    return 1 if what == "node" else math.ceil(shards / zones)


def survives(plan: PlanScenario, what: str) -> str:
    """What has to survive the loss of a node or a zone: `data`, `load` or `nothing`."""
    objectives = plan.objectives
    return objectives.losing_a_node if what == "node" else objectives.losing_a_zone


def shards_after_loss(plan: PlanScenario, offer: Offer, shards: int) -> int:
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


def why_never(plan: PlanScenario, offer: Offer) -> str | None:
    """Why an offer can't survive what it has to, however many shards it has; None if it can."""
    for what in LOSSES:
        if survives(plan, what) == "data" and offer.replicas == 0:
            return f"without replicas the data of a lost {what} are gone"
    if next_failover_count(plan, offer, 1) is None:
        return why_no_failover(plan, offer, MOST_SHARDS)
    return None


def fails_over(offer: Offer, shards: int, *, what: str, zones: int) -> bool:
    """Whether an offer fails over by itself when a node, or a zone, is lost."""
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
    """After which losses a plan has to fail over by itself.

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


def survives_losses(plan: PlanScenario, offer: Offer, shards: int) -> bool:
    """Whether so many shards fail over by themselves after each loss that asks for it."""
    zones = plan.demand.zones
    return all(
        fails_over(offer, shards, what=what, zones=zones) for what in losses_to_fail_over(plan)
    )


def next_failover_count(plan: PlanScenario, offer: Offer, shards: int) -> int | None:
    """The least number of shards, from `shards` on, that fails over by itself; None without one."""
    more = range(shards, MOST_SHARDS + 1)
    return next((count for count in more if survives_losses(plan, offer, count)), None)


def why_no_failover(plan: PlanScenario, offer: Offer, shards: int) -> str:
    """Why so many shards don't fail over by themselves, and what allows that."""
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


def fewest_shards(plan: PlanScenario, offer: Offer, holds_from: int) -> int | None:
    """The fewest shards from a number on that are allowed and fail over; None without any."""
    shards = next_failover_count(plan, offer, max(plan.choices.shards.least, holds_from))
    return shards if shards is not None and shards <= plan.choices.shards.most else None


# --- how many shards are needed at least ----------------------------------------------------------

_PS_PER_S = 1e12


@dataclass(frozen=True)
class Bound:
    """How many shards are needed at least, and what for.

    Attributes
    ----------
    shards
        `MOST_SHARDS` + 1 where no number is enough.
    what
        `memory`, `failures`, `network`, `packets` or the thread that does the work.
    why
        In a sentence's part: `96.2 GiB a shard with 43.2 GiB for it`.
    """

    shards: int
    what: str
    why: str

    @property
    def possible(self) -> bool:
        """Whether some number of shards may be enough."""
        return self.shards <= MOST_SHARDS


def memory_bound(plan: PlanScenario, offer: Offer) -> Bound:
    """The fewest shards whose memory is enough, at the horizon and after what is survived."""
    months = plan.demand.horizon_months

    def fits(shards: int) -> bool:
        left = shards_after_loss(plan, offer, shards)
        return (
            left > 0
            and memory_used(plan, offer, shards, months=months)
            <= 1.0 - plan.objectives.memory_headroom
            and memory_room(plan, offer, serving=left, months=months).fits
        )

    shards = _least(fits)
    if 1 < shards <= MOST_SHARDS and shards_after_loss(plan, offer, shards - 1) < 1:
        why = f"of {shards - 1} nothing is left after a lost node or zone"
        return Bound(shards, "failures", why)
    room = memory_room(plan, offer, serving=min(shards, MOST_SHARDS), months=months)
    why = f"{byte_size(room.needed_bytes)} a shard with {byte_size(room.limit.usable_bytes)} for it"
    return Bound(shards, "memory", why)


def memory_used(plan: PlanScenario, offer: Offer, shards: int, *, months: float) -> float:
    """Share of the memory for the server that is needed."""
    room = memory_room(plan, offer, serving=shards, months=months)
    return room.needed_bytes / room.limit.usable_bytes


def load_bound(plan: PlanScenario, offer: Offer, threads: int, *, least: int) -> Bound:
    """The fewest shards that the network and the busiest thread allow.

    Parameters
    ----------
    least
        How many are needed anyway.
    """
    # Fewer keys a shard are found in nearer caches: what the first guess asks for is known to be
    # enough, so its keys are the fewest that have to be considered.
    guess = _busiest(plan, offer, threads, shards=least)
    if guess.shards > least:
        guess = _busiest(plan, offer, threads, shards=min(guess.shards, MOST_SHARDS))
    return guess if guess.shards > least else Bound(least, "", "")


def _busiest(plan: PlanScenario, offer: Offer, threads: int, *, shards: int) -> Bound:
    """The bound of the busiest station, with durations of so many shards."""
    months, most = plan.demand.horizon_months, 1.0 - plan.objectives.cpu_headroom

    def rate_of(serving: int) -> float:
        scenario = node_scenario(plan, offer, threads, serving=serving, months=months)
        return scenario.workload.rate_rps or 0.0

    rate_rps = rate_of(shards)

    def busiest(loads: Sequence[NodePart]) -> tuple[str, float, str]:
        found: list[tuple[str, float, str]] = []
        for load in loads:
            scenario = node_scenario(plan, offer, threads, serving=shards, months=months, load=load)
            found += _uses(offer.system.inputs(scenario), scenario.workload.rate_rps or 0.0)
        return max(found, key=lambda row: row[1])

    loads, after = shard_loads(plan, offer), worst_loads(plan, offer)
    what, used, why = busiest(loads)
    worst = (what, used, why) if after == loads else busiest(after)

    def enough(count: int) -> bool:
        left = shards_after_loss(plan, offer, count)
        if left < 1 or rate_of(count) / rate_rps * used > most:
            return False
        return rate_of(left) / rate_rps * worst[1] <= 1.0

    if worst[1] > used / most:  # what a loss leaves asks for more shards than the headroom
        what, _, why = worst
    return Bound(_least(enough), what, why)


def _uses(inputs: NodeInputs, rate_rps: float) -> list[tuple[str, float, str]]:
    """Stations with the share of each that a load takes, and that in words."""
    times = node_times(inputs)
    shares = code_shares(times)
    speed = inputs.speed
    bits = 8.0 * rate_rps * max(inputs.request_bytes, inputs.reply_bytes)
    packets = 2.0 * rate_rps
    stall_ps = np.minimum(times.stall_ps.mean(axis=1), times.prefetched_stall_by_code_ps)
    main_ps = float(np.dot(shares, times.execute_by_code_ps + stall_ps))
    name = "the main thread"
    if inputs.lone or inputs.engine.threading.threads_alike:
        main_ps += times.poll_event_ps + times.read_event_ps + times.recv_ps
        main_ps += times.write_event_ps + times.send_ps
        main_ps += float(np.dot(shares, times.parse_by_code_ps))
    if inputs.engine.threading.threads_alike:
        main_ps, name = main_ps / inputs.scenario.io_threads, "the worker threads"
    gbit = speed.network_gbit_per_s
    each_us = main_ps / 1e6
    return [
        (name, rate_rps * main_ps / _PS_PER_S, f"{each_us:.3g} µs an operation on {name} alone"),
        ("the network", bits / (gbit * 1e9), f"its baseline of {gbit:.3g} Gbit/s"),
        (
            "the packets of its network",
            packets / speed.network_packets_per_s,
            f"{speed.network_packets_per_s / 1e6:.3g} million packets a second (assumed)",
        ),
    ]


def _least(enough: Callable[[int], bool]) -> int:
    """The least number of shards that is enough; one more than there may be if none is."""
    if not enough(MOST_SHARDS):
        return MOST_SHARDS + 1
    low, high = 0, MOST_SHARDS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
