"""What a move of slots leaves of the rate of memtier_benchmark, predicted.

Its threads are taken to be the limit, as where more connections make nothing but latency: then all
connections of a thread have their turn, and a thread has replies of that many to work on when
servers stand still. Two things take from that: all primaries but the target save nodes.conf at the
same time, once a slot (`models/over_time/cluster/migration.py`), and threads draw keys for the
connections to a new shard: at random until one belongs to that shard (cluster_client.cpp
`get_key_for_conn`; keys of other shards go to those connections' lists). For a shard that has just
got its first slot that takes thousands of draws a request, and the thread does nothing else
meanwhile.
"""

from __future__ import annotations

import math

from pydantic import ConfigDict, Field

from forecache.hwprofiles.record import Record
from forecache.models.over_time.cluster.slots import SLOTS

DRAW_NS = 130.0
"""A key drawn, formatted, hashed and put on a list, as memtier_benchmark does it, on the machine of
the shipped bundles (115 to 131; assumed elsewhere, 80 to 260)."""

_RECOVERED = 0.95


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


class ClosedLoopClients(Record):
    """Who asks.

    Attributes
    ----------
    stand_in
        Host of the catalogue for the time that a request takes.
    rate_rps
        Before the move; None if only the network limits it.
    """

    model_config = ConfigDict(extra="ignore")

    stand_in: str
    client_threads: int = Field(gt=0, le=1000)
    clients_per_thread: int = Field(gt=0, le=100_000)
    set_share: float = Field(gt=0, le=1)
    rate_rps: float | None = Field(gt=0, le=1e9)
    draw_ns: float = DRAW_NS

    @property
    def connections(self) -> int:
        """To each shard."""
        return self.client_threads * self.clients_per_thread


def rates(
    clients: ClosedLoopClients,
    *,
    slot_s: float,
    save_s: float,
    rtt_s: float,
    new_shards: int,
    shards: int,
) -> dict[str, float]:
    """Requests a second during the move and in its first second, and until when it recovers to
    within a twentieth of the former.

    Parameters
    ----------
    slot_s, save_s
        How long a slot takes, and how long servers stand still for it.
    new_shards, shards
        How many of the shards had no slots, and how many had.
    """
    assert clients.rate_rps is not None
    request_s = clients.client_threads / clients.rate_rps
    # A round of all connections of a thread is what it has to do when no more replies come.
    round_s = clients.clients_per_thread * shards * request_s
    stalled_s = max(0.0, save_s - max(0.0, round_s - rtt_s))
    moving = 1.0 - min(1.0, stalled_s / slot_s)
    found = {"moving_rps": moving * clients.rate_rps}
    if new_shards > 0:
        scale_s = drawing_s(
            moved_per_s=1.0 / (slot_s * SLOTS),
            draw_s=clients.draw_ns * 1e-9,
            request_s=request_s,
            connections_per_client=shards + new_shards,
        )
        first = drawing_mean(scale_s, begin_s=0.0, end_s=1.0)
        found["first_second_rps"] = moving * first * clients.rate_rps
        found["recovery_s"] = scale_s * _RECOVERED / (1.0 - _RECOVERED)
    return found
