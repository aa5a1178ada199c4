"""What lies between a client and a shard: zones and a proxy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..cluster.record import weighted_quantiles
from ..cluster.surrogate import QUANTILES, Surrogate
from .versions import Mechanisms

Floats = NDArray[np.float64]

_ALMOST_ALL = 0.9999

_GRID = 200
"""Equally likely latencies that stand for a distribution."""


@dataclass(frozen=True)
class Hop:
    """Round trips of one way of a request, each with its share.

    Attributes
    ----------
    rtts_ms, shares
        (ways,) in ms, and how often each is taken.
    """

    rtts_ms: Floats
    shares: Floats

    @property
    def mean_ms(self) -> float:
        """The mean round trip."""
        return float(self.rtts_ms @ self.shares)


def hop(mechanisms: Mechanisms) -> Hop:
    """From anywhere in the region to anywhere: one zone in `zones` is the same."""
    cross = np.array(mechanisms.cross_zone_rtt_ms)
    same = 1.0 / mechanisms.zones
    return Hop(
        np.concatenate([[mechanisms.same_zone_rtt_ms], cross]),
        np.concatenate([[same], np.full(len(cross), (1.0 - same) / len(cross))]),
    )


def behind_proxy(surrogate: Surrogate, mechanisms: Mechanisms) -> Surrogate:
    """A node as a proxy sees it: no more than is let through, with the latency of the way there.

    A shard that gets all that is let through is no busier than that; what is more waits in a queue
    before it. The node model counts a round trip within a zone already.
    """
    surrogate = let_through(surrogate, mechanisms.let_through)
    way = hop(mechanisms)
    added = way.rtts_ms - mechanisms.same_zone_rtt_ms + mechanisms.proxy_ms
    middles = (np.arange(_GRID) + 0.5) / _GRID
    rows = []
    for row in surrogate.latency_ms:
        own = np.interp(middles, QUANTILES, row)
        both = (own[:, None] + added[None, :]).ravel()
        weights = np.broadcast_to(way.shares, (_GRID, len(added))).ravel()
        rows.append(tuple(weighted_quantiles(both, weights, QUANTILES)))
    mean = float(added @ way.shares)
    return replace(
        surrogate, latency_ms=tuple(rows), mean_ms=tuple(each + mean for each in surrogate.mean_ms)
    )


def let_through(surrogate: Surrogate, share: float) -> Surrogate:
    """A node of which so much is used at most: its loads are shares of that."""
    if share >= 1.0:
        return surrogate
    # `between` looks at what is left of the capacity, so that there has to be something.
    loads = np.array([*surrogate.loads, _ALMOST_ALL])
    main, helpers = surrogate.busy(share * np.array([0.0, *loads, 1.0]))
    return replace(
        surrogate,
        capacity_rps=share * surrogate.capacity_rps,
        loads=tuple(map(float, loads)),
        latency_ms=tuple(tuple(map(float, row)) for row in surrogate.latencies(share * loads)),
        mean_ms=tuple(map(float, surrogate.mean(share * loads))),
        main_thread=tuple(map(float, main)),
        io_threads=tuple(map(float, helpers)),
    )
