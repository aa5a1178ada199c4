"""How old what a replica answers is, while it is connected and keeps up.

A primary sends what it has written at the end of the turn of its event loop, beside the replies to
its clients; the replica reads it as it reads a request. So a write is seen there after the way
between both, and after the time that a read waits and is served there.
"""

from __future__ import annotations

from forecache.sim.statistics import Estimate, exactly

from .predict import Prediction

ZONE_ONE_WAY_MS = Estimate(0.35, 0.1, 1.0)
"""From one zone of a region to another (assumed: round trips of 0.2 to 2 ms; AWS says single-digit
milliseconds)."""


def staleness_ms(
    primary: Prediction, replica: Prediction, name: str, *, between_zones: bool
) -> Estimate | None:
    """From the primary's answer to a write until a read at the replica sees it.

    None where requests pile up at either. The interval spans the ends of both nodes' intervals and
    of the way between zones; at its lower end the primary answers when it has already sent.

    Parameters
    ----------
    name
        Which quantile: `p50_ms`, `p99_ms`.
    """
    inside: list[Estimate] = []
    one_way_ms = 0.0
    for node in (primary, replica):
        found, scenario = node.estimate(name), node.case.scenario
        if found is None:
            return None
        one_way_us = node.system.inputs(scenario).speed.network_one_way_us
        one_way_ms = 0.0 if scenario.same_host else one_way_us / 1e3
        ends = (max(0.0, end - 2.0 * one_way_ms) for end in (found.value, found.low, found.high))
        inside.append(Estimate(*ends))
    return seen_after_ms(*inside, one_way_ms=None if between_zones else one_way_ms)


def seen_after_ms(sent: Estimate, served: Estimate, *, one_way_ms: float | None) -> Estimate:
    """The same from what a request takes inside the primary and inside the replica.

    Parameters
    ----------
    one_way_ms
        Of the network; None: the replica is in another zone.
    """
    way = ZONE_ONE_WAY_MS
    if one_way_ms is not None:
        way = exactly(one_way_ms)
    return Estimate(
        0.5 * sent.value + way.value + served.value,
        way.low + served.low,
        sent.high + way.high + served.high,
    )
