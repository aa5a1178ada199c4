"""What threads compete for in memory: a line that several of them write, and bandwidth.

**Lines that threads write in turn.** The line is a station that serves one core at a time: bringing
it there takes a core-to-core transfer. The threads are its customers, a closed population: each
works, then wants the line.

**Bandwidth.** The more of it is in use, the longer a line takes. Measured curves of latency against
bandwidth are flat to about half of the peak and steep above three quarters. How much is in use
depends on how long requests take, which depends on the latency: a fixed point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.roots import root

# --- lines that threads write in turn -------------------------------------------------------------


def turn_ns(threads: int, transfer_ns: float, between_ns: float) -> float:
    """Mean time until a thread has a line that others want too, its own transfer included.

    The machine-interference model with constant repair time (H. Ashcroft, *The productivity of
    several machines under the care of one operator*, J. Royal Statistical Society B 12, 1950; L.
    Takacs, *Introduction to the Theory of Queues*, 1962, ch. 5): with *k* customers, exponential
    times of mean *Z* between two visits and a service of constant length *s*, the station is idle
    for a share 1 / (1 + k s/Z S) of the time, where

        S = sum over j from 0 to k - 1 of binom(k - 1, j) prod over i from 1 to j of (e^(i s/Z) - 1)

    and by Little's law a visit takes k s - Z (1 - 1/S): *s* for a lone customer, *k s - Z* where
    the station is never idle.

    Parameters
    ----------
    threads
        That want the line, one or more.
    transfer_ns
        For which one of them has it to itself.
    between_ns
        Mean time from having had it until wanting it again.
    """
    if transfer_ns <= 0.0:
        return 0.0
    if between_ns <= 0.0:
        return threads * transfer_ns
    others = np.arange(threads)
    rises = others[1:] * (transfer_ns / between_ns)
    # In logarithms: the products leave the range of a double where many threads queue.
    products = np.concatenate([[0.0], np.cumsum(rises + np.log(-np.expm1(-rises)))])
    choices = gammaln(threads) - gammaln(others + 1) - gammaln(threads - others)
    idle_to_busy = float(np.exp(-np.logaddexp.reduce(choices + products)))
    return threads * transfer_ns - between_ns * (1.0 - idle_to_busy)


def written_in_turn_ns(threads: int, transfer_ns: float, between_ns: float) -> float:
    """Mean time a thread waits per access to a line that `threads` write equally often.

    The last writer was another one with probability (k - 1) / k; only then the line has to come,
    and queues with those who want it at that time. A lone thread keeps it.

    Parameters
    ----------
    threads
        That write it, one or more.
    transfer_ns
        The line's way between two cores.
    between_ns
        Mean time from one access of a thread to its next.
    """
    if threads <= 1:
        return 0.0
    moved = (threads - 1) / threads
    return moved * turn_ns(threads, transfer_ns, between_ns / moved)


# --- bandwidth ------------------------------------------------------------------------------------


Points = Sequence[tuple[float, float]]

USUAL_CURVE: Points = (
    (0.0, 1.0),
    (0.25, 1.07),
    (0.5, 1.16),
    (0.75, 1.4),
    (0.85, 1.7),
    (0.95, 2.1),
    (1.0, 2.5),
)
"""Share of the peak bandwidth and latency against idle, for hosts without a curve of their own: the
mean of those of Graviton2 and Graviton4 (Arm, ASCT) and of Ice Lake (KU Leuven, Intel MLC), which
are in the catalogue (assumed to hold for other hosts)."""


@dataclass(frozen=True)
class MemoryLoad:
    """What requests take from memory.

    Attributes
    ----------
    bytes_per_request
        That come from DRAM or go there.
    latency_factor
        Latency of DRAM against that of idle memory.
    """

    bytes_per_request: float
    latency_factor: float


def loaded_curve(speed: HostSpeed) -> Points:
    """Share of the peak bandwidth in use and latency against idle, as measured on the host.

    The largest bandwidth of a measurement counts as its peak, so that one of several sockets holds
    for each. Where noise makes latency fall, it stays.
    """
    if not speed.loaded_latency:
        return USUAL_CURVE
    used, latency_ns = np.array(sorted(speed.loaded_latency)).T
    factor = np.maximum.accumulate(latency_ns / latency_ns[0])
    return ((0.0, 1.0), *zip(used / used[-1], factor, strict=True))


def factor_at(curve: Points, used: float) -> float:
    """Latency against idle where so much of the peak bandwidth is asked for.

    More than there is makes the requests wait in proportion.
    """
    shares, factors = zip(*curve, strict=True)
    return float(np.interp(used, shares, factors)) * max(1.0, used)


def memory_load(
    curve: Points,
    *,
    peak_gb_per_s: float,
    bytes_per_request: float,
    request_ns: float,
    waiting_ns: float,
    least_ns: float = 0.0,
) -> MemoryLoad:
    """The latency at which requests ask for the bandwidth that goes with it.

    Parameters
    ----------
    request_ns
        Time between two requests when memory is idle, the wait for it included.
    waiting_ns
        The part of it that grows with the latency.
    least_ns
        What the time between two requests is at least, for other reasons.
    """

    def asked(factor: float) -> float:
        between_ns = max(request_ns + (factor - 1.0) * waiting_ns, least_ns)
        return factor_at(curve, bytes_per_request / between_ns / peak_gb_per_s)

    # The slower memory is, the less is asked of it: one solution between these two.
    most = asked(1.0)
    if bytes_per_request <= 0.0 or most <= 1.0:
        return MemoryLoad(bytes_per_request, 1.0)
    factor = root(lambda f: asked(f) - f, 1.0, most + 1e-9, tolerance=1e-9)
    return MemoryLoad(bytes_per_request, factor)
