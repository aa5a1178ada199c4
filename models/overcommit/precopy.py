"""One live migration by pre-copy.

All memory is sent while the machine runs, then in rounds what it wrote meanwhile. As soon as what
is left to send, pages of this round and pages written in it, fits into the allowed blackout, the
machine stops, the rest follows, and it resumes elsewhere. A machine that writes faster than the
network sends never gets there.

Source of the rounds: C. Clark et al., "Live Migration of Virtual Machines", NSDI'05. With a dirty
rate D below the bandwidth B and nothing written twice, round i sends M (D/B)^i. That the rest is
looked at all the time and not between rounds only is QEMU's way (downtime-limit).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST_ROUNDS = 1_000
"""Rounds after which a migration that still shrinks is taken as one that doesn't."""


@dataclass(frozen=True)
class Dirtying:
    """How a machine writes its memory.

    Attributes
    ----------
    bytes_per_s
        Bytes of pages written a second, a page as often as it is written.
    working_set_bytes
        Pages that writes go to, evenly: those written twice in a round are sent once.
    """

    bytes_per_s: float
    working_set_bytes: float

    def in_time(self, seconds: float) -> float:
        """Bytes of different pages written in a while.

        Of W bytes written at w bytes a second a page is still clean after t with probability
        exp(-w t / W).
        """
        if self.bytes_per_s <= 0 or self.working_set_bytes <= 0:
            return 0.0
        written = self.bytes_per_s * seconds / self.working_set_bytes
        return -self.working_set_bytes * math.expm1(-written)


@dataclass(frozen=True)
class Limits:
    """When a migration stops the machine, and when it gives up.

    Attributes
    ----------
    blackout_s
        Rest that may be sent while the machine stands still, as time (QEMU's downtime-limit).
    resume_s
        What stopping and resuming take besides.
    timeout_s
        After so long it is given up.
    """

    blackout_s: float = 0.3
    resume_s: float = 0.02
    timeout_s: float = 3_600.0


@dataclass(frozen=True)
class Migration:
    """How a migration went: seconds, bytes and rounds; `blackout_s` is NaN if it was given up."""

    duration_s: float
    blackout_s: float
    sent_bytes: float
    rounds: int
    converged: bool


def migrate(
    memory_bytes: float, dirtying: Dirtying, *, bandwidth_bytes_per_s: float, limits: Limits
) -> Migration:
    """A migration at a constant bandwidth.

    Parameters
    ----------
    memory_bytes
        Memory the machine has taken, sent in the first round.
    bandwidth_bytes_per_s
        What the stream gets of the network.

    Raises
    ------
    ValueError
        The bandwidth is not above zero.
    """
    if bandwidth_bytes_per_s <= 0:
        raise ValueError("a bandwidth above zero")
    rate = bandwidth_bytes_per_s
    elapsed_s = 0.0
    start_bytes = memory_bytes
    for number in range(1, MOST_ROUNDS + 1):
        round_s = start_bytes / rate
        written_bytes = dirtying.in_time(round_s)
        enough_bytes = limits.blackout_s * rate
        ends = written_bytes <= enough_bytes
        if ends:
            round_s = _first_time(start_bytes, dirtying, rate=rate, enough_bytes=enough_bytes)
        if elapsed_s + round_s > limits.timeout_s:
            return Migration(
                limits.timeout_s, math.nan, limits.timeout_s * rate, number, converged=False
            )
        elapsed_s += round_s
        if ends:
            rest_bytes = start_bytes - rate * round_s + dirtying.in_time(round_s)
            blackout_s = rest_bytes / rate
            return Migration(
                elapsed_s + blackout_s + limits.resume_s,
                blackout_s + limits.resume_s,
                (elapsed_s + blackout_s) * rate,
                number,
                converged=True,
            )
        start_bytes = written_bytes
    return Migration(elapsed_s, math.nan, elapsed_s * rate, MOST_ROUNDS, converged=False)


def _first_time(
    start_bytes: float, dirtying: Dirtying, *, rate: float, enough_bytes: float
) -> float:
    """When in a round the rest is small enough; at its end it is.

    The rest may rise before it falls, so that it passes the limit once.
    """
    if start_bytes <= enough_bytes:
        return 0.0
    low, high = 0.0, start_bytes / rate
    for _ in range(60):
        middle = 0.5 * (low + high)
        if start_bytes - rate * middle + dirtying.in_time(middle) > enough_bytes:
            low = middle
        else:
            high = middle
    return high
