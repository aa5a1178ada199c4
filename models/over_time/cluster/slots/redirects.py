"""How clients learn that slots have moved, and how it slows them down.

A client that asks the former owner of a slot is told the new one (MOVED), asks that one, and
fetches the whole slot table anew, so that it knows of all moves until then (Redis cluster
specification). The more it asks, the sooner it learns of a move.

Some load generators draw keys at random for each of their connections until one belongs to that
connection's shard (memtier_benchmark, cluster_client.cpp `get_key_for_conn`; keys of other shards
go to those connections' lists). For a shard that has just got its first slot that takes thousands
of draws a request, and the thread does nothing else meanwhile.
"""

from __future__ import annotations

import math


def learned(unknown: float, *, requests_per_s: float, seconds: float) -> float:
    """Share of the requests that a mean client still sends to a former owner, some time later.

    It learns at the rate of its requests times the share of them that are redirected:
    du/dt = -requests × u².

    Parameters
    ----------
    unknown
        Share of the requests that go to slots whose move a client does not know of.
    requests_per_s
        Of one client, or of all that share a slot table.
    """
    return unknown / (1.0 + requests_per_s * unknown * seconds)


def drawing_s(
    *, moved_per_s: float, draw_s: float, request_s: float, connections_per_client: int
) -> float:
    """The time scale on which clients recover that draw keys until one is their own.

    A client's thread spends `request_s` on a request of each connection in turn; on that of the new
    shard 1/(moved_per_s × t) draws besides at a time t, so that the rate left is t/(t + this).
    """
    return draw_s / (moved_per_s * connections_per_client * request_s)


def drawing_mean(scale_s: float, *, begin_s: float, end_s: float) -> float:
    """Mean share of their rate that such clients keep between two times since the first slot moved:
    that of t/(t + scale)."""
    if scale_s <= 0:
        return 1.0
    lost = scale_s * math.log((end_s + scale_s) / (begin_s + scale_s))
    return 1.0 - lost / (end_s - begin_s)
