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

from .dirtying import PAGE_BYTES, Dirtying

MOST_ROUNDS = 1_000
"""Rounds after which a migration that still shrinks is taken as one that doesn't."""


@dataclass(frozen=True)
class MigrationLimits:
    """When a migration stops the machine, and when it gives up.

    Attributes
    ----------
    blackout_s
        Rest that may be sent while the machine stands still, as time (QEMU's downtime-limit).
    resume_s
        What stopping and resuming take besides.
    timeout_s
        Time after which it is given up.
    within_rounds
        Whether the machine may stop in the middle of a round. If not, only what was written in a
        round that is over can be left: memory that costs next to nothing to send, such as empty
        pages at the end, has the same effect.
    """

    blackout_s: float = 0.3
    resume_s: float = 0.02
    timeout_s: float = 3_600.0
    within_rounds: bool = True


@dataclass(frozen=True)
class Migration:
    """How a migration went: seconds, bytes and rounds; `blackout_s` is NaN if it was given up.

    `dirtied_pages` counts pages that were written for the first time since they were sent: each
    write is held up by the hypervisor.
    """

    duration_s: float
    blackout_s: float
    sent_bytes: float
    rounds: int
    converged: bool
    dirtied_pages: float = 0.0

    def slowed_s(self, fault_s: float) -> float:
        """Time that the machine's thread lost to writes that were held up, `fault_s` each."""
        return self.dirtied_pages * fault_s

    def throughput_lost(self, fault_s: float) -> float:
        """Share of a busy thread's throughput that this costs while the machine runs and moves."""
        running_s = self.duration_s - (self.blackout_s if self.converged else 0.0)
        lost_s = self.slowed_s(fault_s)
        return lost_s / (running_s + lost_s) if lost_s > 0 else 0.0


def migrate(
    memory_bytes: float,
    dirtying: Dirtying,
    *,
    bandwidth_bytes_per_s: float,
    limits: MigrationLimits,
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
    elapsed_s = dirtied_bytes = 0.0
    start_bytes = memory_bytes
    enough_bytes = limits.blackout_s * rate
    for number in range(1, MOST_ROUNDS + 1):
        round_s = start_bytes / rate
        written_bytes = dirtying.in_time(round_s)
        ends = written_bytes <= enough_bytes
        if ends and limits.within_rounds:
            round_s = _first_time(start_bytes, dirtying, rate=rate, enough_bytes=enough_bytes)
            written_bytes = dirtying.in_time(round_s)
        if elapsed_s + round_s > limits.timeout_s:
            dirtied_bytes += dirtying.in_time(limits.timeout_s - elapsed_s)
            return Migration(
                limits.timeout_s,
                math.nan,
                limits.timeout_s * rate,
                number,
                converged=False,
                dirtied_pages=dirtied_bytes / PAGE_BYTES,
            )
        elapsed_s += round_s
        dirtied_bytes += written_bytes
        if ends:
            blackout_s = (start_bytes - rate * round_s + written_bytes) / rate
            return Migration(
                elapsed_s + blackout_s + limits.resume_s,
                blackout_s + limits.resume_s,
                (elapsed_s + blackout_s) * rate,
                number,
                converged=True,
                dirtied_pages=dirtied_bytes / PAGE_BYTES,
            )
        start_bytes = written_bytes
    return Migration(
        elapsed_s,
        math.nan,
        elapsed_s * rate,
        MOST_ROUNDS,
        converged=False,
        dirtied_pages=dirtied_bytes / PAGE_BYTES,
    )


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
