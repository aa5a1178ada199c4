"""Memory under load: the more of its bandwidth is in use, the longer a line takes.

Measured curves of latency against bandwidth are flat to about half of the peak and steep above
three quarters. How much is in use depends on how long requests take, which depends on the latency:
a fixed point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.roots import root

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
