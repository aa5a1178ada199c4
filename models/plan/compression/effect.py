"""What compression by clients changes: memory, network, and the clients' CPU time."""

from __future__ import annotations

from forecache.sim.statistics import Estimate

from ...engines.commands import command_kinds
from ...scenario.command_table import COMMANDS
from ...scenario.workload import sizes_of
from ..bounds import memory_bound
from ..offers import Offer
from ..results import CompressionEffect
from ..schema import MOST_SHARDS, PlanScenario
from ..shard import node_scenario, room_of
from .ratios import Ratios, compressed, sizes_told, spread_of


def effect_of(
    plan: PlanScenario, ratios: Ratios, offer: Offer, *, shards: int | None
) -> CompressionEffect:
    """What compression changes of a plan.

    Parameters
    ----------
    plan
        With the values as clients have them.
    offer, shards
        Machine, engine and replicas of the best plan, and its shards; None where nothing holds.
    """
    low, high = spread_of(plan.demand, ratios)
    ends = [compressed(plan, ratios, factor=factor) for factor in (1.0, low, high)]
    months = plan.demand.horizon_months
    memory = without = needed = None
    if shards is not None:
        rooms = [room_of(each, offer, serving=shards, months=months) for each in ends]
        memory = Estimate(*(each.needed_bytes for each in rooms))
        without = room_of(plan, offer, serving=shards, months=months).needed_bytes
        bound = memory_bound(plan, offer).shards
        needed = bound if bound <= MOST_SHARDS else None
    each_us = _client_us(plan, ratios)
    mean_us = None
    if each_us is not None:
        shares = {
            name: asked.share for name, asked in plan.demand.operations.mix().commands.items()
        }
        mean_us = _sum([(shares[name], each) for name, each in each_us.items()])
    said = ratios.compression
    return CompressionEffect(
        algorithm=said.algorithm,
        level=said.level_used,
        above_bytes=said.above_bytes,
        compressor=ratios.compressor,
        cpu_model=ratios.cpu_model,
        sizes=sizes_told(ratios),
        value_bytes=_mean_bytes(plan),
        stored_bytes=Estimate(*(_mean_bytes(each) for each in ends)),
        network_bytes_without=_network_bytes(plan, offer),
        network_bytes=Estimate(*(_network_bytes(each, offer) for each in ends)),
        memory_bytes_without=without,
        memory_bytes=memory,
        memory_shards_without=needed,
        client_us=each_us,
        client_us_per_operation=mean_us,
        client_cpus=None if mean_us is None else _sum([(plan.demand.peak_rps / 1e6, mean_us)]),
    )


def _client_us(plan: PlanScenario, ratios: Ratios) -> dict[str, Estimate] | None:
    """CPU time of a client by command; None where nothing was measured."""
    if ratios.compressor is None:
        return None
    found = {}
    for name, asked in plan.demand.operations.mix().commands.items():
        if values := COMMANDS[name].values:
            found[name] = _sum(
                [
                    (
                        asked.items * share / 1e3,
                        ratios.client_ns(size, compress=values == "set"),
                    )
                    for size, share in sizes_of(plan.demand.value_bytes)
                ]
            )
    return found


def _sum(weighted: list[tuple[float, Estimate]]) -> Estimate:
    """A weighted sum, whose parts are at the same end together."""
    return Estimate(
        *(
            sum(weight * getattr(each, end) for weight, each in weighted)
            for end in ("value", "low", "high")
        )
    )


def _mean_bytes(plan: PlanScenario) -> float:
    return sum(size * share for size, share in sizes_of(plan.demand.value_bytes))


def _network_bytes(plan: PlanScenario, offer: Offer) -> float:
    """Bytes of an operation's request and reply, on average."""
    kinds = command_kinds(node_scenario(plan, offer, offer.threads[0], serving=1))
    key_bytes = plan.demand.key_bytes
    return sum(each.share * (each.request_bytes(key_bytes) + each.reply_bytes) for each in kinds)
