"""How many shards are needed at least: from memory, network and one thread's work.

Nothing is simulated. What a bound leaves out (queues, hand-over between threads, the spread of what
is not known) only makes more shards necessary, so an offer whose bound costs more than a plan that
holds can be left alone. All are taken at the nominal numbers: what fails there is likelier to fail
than not, and plans hold with a probability of at least a half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..footprint.limits import gib
from ..step_times.inputs import NodeInputs
from ..step_times.stages import node_times
from ..step_times.stalls import code_shares
from .offers import Offer
from .schema import MOST_SHARDS, PlanScenario
from .shard import left_serving, node_scenario, room_of

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
        In a sentence's part: `96.2 GiB of data with 43.2 GiB for each`.
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
        left = left_serving(plan, offer, shards)
        return (
            left > 0
            and memory_used(plan, offer, shards, months=months)
            <= 1.0 - plan.objectives.memory_headroom
            and room_of(plan, offer, serving=left, months=months).fits
        )

    shards = _least(fits)
    if 1 < shards <= MOST_SHARDS and left_serving(plan, offer, shards - 1) < 1:
        why = f"of {shards - 1} nothing is left after a lost node or zone"
        return Bound(shards, "failures", why)
    room = room_of(plan, offer, serving=min(shards, MOST_SHARDS), months=months)
    why = f"{gib(room.needed_bytes)} GiB a shard with {gib(room.limit.usable_bytes)} GiB for it"
    return Bound(shards, "memory", why)


def memory_used(plan: PlanScenario, offer: Offer, shards: int, *, months: float) -> float:
    """What is needed of what a machine leaves to the server."""
    room = room_of(plan, offer, serving=shards, months=months)
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
    """The bound of what is used most, by the durations that so many shards have."""
    months, most = plan.demand.horizon_months, 1.0 - plan.objectives.cpu_headroom

    def rate_of(serving: int) -> float:
        scenario = node_scenario(plan, offer, threads, serving=serving, months=months)
        return scenario.workload.rate_rps or 0.0

    scenario = node_scenario(plan, offer, threads, serving=shards, months=months)
    rate_rps = rate_of(shards)
    uses = _uses(offer.system.inputs(scenario), rate_rps)
    what, used, why = max(uses, key=lambda row: row[1])

    def enough(count: int) -> bool:
        left = left_serving(plan, offer, count)
        if left < 1 or rate_of(count) / rate_rps * used > most:
            return False
        return rate_of(left) / rate_rps * used <= 1.0

    return Bound(_least(enough), what, why)


def _uses(inputs: NodeInputs, rate_rps: float) -> list[tuple[str, float, str]]:
    """Stations with the share that a load takes of each, and that in words."""
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
