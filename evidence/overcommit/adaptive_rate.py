"""Pre-copy at a rate that follows what is written, as Xen's first version did it.

No policy of the overcommit model migrates like that; measurements of it test the part of the model
that says how much is written meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from forecache.models.over_time.overcommit.precopy import (
    MOST_ROUNDS,
    PAGE_BYTES,
    Dirtying,
    Migration,
)


@dataclass(frozen=True)
class AdaptiveRate:
    """Rounds that take no more of the network than they need, as Xen does it (Clark et al.).

    The first round is sent at `least`, each other one `above` what was written in the one before.
    Once that is more than `most`, or no more than `few_bytes` are left, the machine stops and the
    rest is sent with all the network has, however long that takes.
    """

    least_bytes_per_s: float
    most_bytes_per_s: float
    above_bytes_per_s: float
    few_bytes: float = 256 * 1024


def migrate_adaptively(
    memory_bytes: float,
    dirtying: Dirtying,
    *,
    rates: AdaptiveRate,
    bandwidth_bytes_per_s: float,
    resume_s: float,
) -> Migration:
    """A migration at a rate that follows what is written.

    Parameters
    ----------
    bandwidth_bytes_per_s
        What the network gives to the rest, while the machine stands still.
    """
    rate = rates.least_bytes_per_s
    rest_bytes = memory_bytes
    elapsed_s = sent_bytes = dirtied_bytes = 0.0
    rounds = 0
    while rounds < MOST_ROUNDS:
        rounds += 1
        round_s = rest_bytes / rate
        elapsed_s += round_s
        sent_bytes += rest_bytes
        rest_bytes = dirtying(round_s)
        dirtied_bytes += rest_bytes
        rate = max(rates.least_bytes_per_s, rest_bytes / round_s + rates.above_bytes_per_s)
        if rest_bytes <= rates.few_bytes or rate > rates.most_bytes_per_s:
            break
    blackout_s = rest_bytes / bandwidth_bytes_per_s + resume_s
    return Migration(
        elapsed_s + blackout_s,
        blackout_s,
        sent_bytes + rest_bytes,
        rounds,
        converged=True,
        dirtied_pages=dirtied_bytes / PAGE_BYTES,
    )
