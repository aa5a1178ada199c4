"""What a move of slots leaves of the rate of memtier_benchmark, predicted.

Its threads are taken to be the limit, as where more connections make nothing but latency: then all
connections of a thread have their turn, and a thread has replies of that many to work on when
servers stand still. Two things take from that: all primaries but the target save nodes.conf at the
same time, once a slot (`models/over_time/cluster/slots/migration.py`), and threads draw keys
for the connections to a new shard (`redirects.py` beside it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forecache.models.over_time.cluster.slots.redirects import drawing_mean, drawing_s
from forecache.models.over_time.cluster.slots.slots import SLOTS
from forecache.sim.errors import InputError

from ..observe.readers.lines import shown_value

DRAW_NS = 130.0
"""A key drawn, formatted, hashed and put on a list, as memtier_benchmark does it, on the machine of
the shipped bundles (115 to 131; assumed elsewhere, 80 to 260)."""

_RECOVERED = 0.95

_MOST = {
    "client_threads": 1000.0,
    "clients_per_thread": 100_000.0,
    "set_share": 1.0,
    "rate_rps": 1e9,
}
"""The most each number of a point may be."""


@dataclass(frozen=True, kw_only=True)
class ClosedLoopClients:
    """Who asks.

    Attributes
    ----------
    stand_in
        Host of the catalogue for the time that a request takes.
    rate_rps
        Before the move; None if only the network limits it.
    """

    stand_in: str
    threads: int
    clients_per_thread: int
    set_share: float
    rate_rps: float | None
    draw_ns: float = DRAW_NS

    @property
    def connections(self) -> int:
        """To each shard."""
        return self.threads * self.clients_per_thread

    @classmethod
    def of(cls, given: Mapping[str, Any], where: str) -> ClosedLoopClients:
        """Read a point's fields.

        Raises
        ------
        InputError
            A field is missing or has a value that is not known.
        """
        numbers = {}
        for name in ("client_threads", "clients_per_thread", "set_share", "rate_rps"):
            found = given.get(name)
            number = isinstance(found, int | float) and not isinstance(found, bool)
            if found is None or not number or not 0 < found <= _MOST[name]:
                raise InputError(
                    f"{where}: field {name}: found {shown_value(found)}; valid is a number above 0 "
                    f"and up to {_MOST[name]:,g}."
                )
            numbers[name] = found
        if not isinstance(given.get("stand_in"), str):
            raise InputError(
                f"{where}: field stand_in: found {given.get('stand_in')!r}; valid is a host."
            )
        return cls(
            stand_in=given["stand_in"],
            threads=int(numbers["client_threads"]),
            clients_per_thread=int(numbers["clients_per_thread"]),
            set_share=float(numbers["set_share"]),
            rate_rps=float(numbers["rate_rps"]),
        )


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
    request_s = clients.threads / clients.rate_rps
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
