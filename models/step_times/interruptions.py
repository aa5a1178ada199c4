"""What else a host's cores do: from measured curves to interruptions and the time wake-ups take.

A timer tick, an interrupt, an exit to the hypervisor or another program takes a core away from
its thread for microseconds to milliseconds. Under an open load that decides the 99th percentile.
A captured profile says how often such gaps last at least how long; catalogue hosts say nothing,
and no interruption is simulated there.

Micro-benchmarks are medians and hold no interruptions. The work of a calibrated engine is fitted to
CPU times, which hold those that a kernel books on the thread, so they count twice there: by the
share of time they take, one or two per cent, less than such a fit is sure of. Taking them out would
need to know what the kernel books, so they are left in.

A thread that sleeps gives its core back to the hypervisor and has to wait for it when it is woken:
most wake-ups take as long as an interrupt between cores, one in a hundred several times that, one
in a thousand a millisecond and more. The last are pauses too and stay out of what is simulated.
"""

from functools import lru_cache

import numpy as np

from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.errors import InputError

from ..node.setup import QUANTILES

LONGEST_INTERRUPTION_US = 1000.0
"""Longer ones are pauses of the hypervisor, a few a second: a window of a benchmark holds none or
some by chance, so they belong to the scatter between runs and not to a prediction of one."""

MOST_INTERRUPTED = 0.5
"""A core that others have for longer was measured while something else was running."""

_PARTS = 16
"""Of a quantile, to take its mean."""

_NS_PER_US = 1e3
_PS_PER_S = 1e12
_PS_PER_US = 1e6


def interruption_gap_ps(speed: HostSpeed) -> int:
    """Mean time between the interruptions of one core that are simulated; 0: there are none.

    Raises
    ------
    InputError
        They take more than half of the time.
    """
    rate = _rate_per_s(speed.interruptions)
    if rate == 0.0:
        return 0
    gap_ps = _PS_PER_S / rate
    share = interruption_table_ps(speed).mean() / gap_ps
    if share > MOST_INTERRUPTED:
        raise InputError(
            f"host {speed.host_id}: interruptions of up to {LONGEST_INTERRUPTION_US:g} us take "
            f"{share:.0%} of a core's time, and at most {MOST_INTERRUPTED:.0%} are possible; "
            "profile it while nothing else runs"
        )
    return round(gap_ps)


def interruption_table_ps(speed: HostSpeed) -> np.ndarray:
    """(256,) how long they last: means of equal shares, so that the mean of all is exact.

    Between measured durations, rates fall in proportion to the logarithm of duration.
    """
    return _interruption_table_ps(speed.interruptions)


Pairs = tuple[tuple[float, float], ...]


@lru_cache(maxsize=64)
def _interruption_table_ps(interruptions: Pairs) -> np.ndarray:
    rate = _rate_per_s(interruptions)
    if rate == 0.0:
        return np.zeros(QUANTILES, np.int64)
    durations_us, rates = np.array(interruptions).T
    steps = QUANTILES * _PARTS
    longer = rates[0] - rate * (np.arange(steps) + 0.5) / steps
    # Interpolation wants rising rates.
    log_us = np.interp(longer, rates[::-1], np.log(durations_us[::-1]))
    means_us = np.exp(log_us).reshape(QUANTILES, _PARTS).mean(axis=1)
    return np.rint(means_us * _PS_PER_US).astype(np.int64)


def wake_latencies_ns(speed: HostSpeed) -> np.ndarray:
    """(256,) how long wake-ups take that take no pause: means of equal shares of these.

    Between measured shares the logarithm of the time rises in proportion.
    """
    ticking_ns = _wake_latencies_ns(speed.wake_spread, speed.wake_latency_ns)
    return speed.tickless_latency_scale * ticking_ns


@lru_cache(maxsize=64)
def _wake_latencies_ns(wake_spread: Pairs, wake_latency_ns: float) -> np.ndarray:
    steps = QUANTILES * _PARTS
    wake_ups = _log_wake_ups(wake_spread, wake_latency_ns)
    late = _later(*wake_ups, LONGEST_INTERRUPTION_US)
    shares = (np.arange(steps) + 0.5) / steps * (1.0 - late)
    times_us = np.exp(np.interp(shares, *wake_ups))
    return np.asarray(times_us.reshape(QUANTILES, _PARTS).mean(axis=1) * _NS_PER_US)


def late_wake_ups(speed: HostSpeed, time_us: float | np.ndarray) -> np.ndarray:
    """Share of wake-ups that take longer than this; none takes longer than the longest measured."""
    return _later(*_log_wake_ups(speed.wake_spread, speed.wake_latency_ns), time_us)


def _later(shares: np.ndarray, log_us: np.ndarray, time_us: float | np.ndarray) -> np.ndarray:
    return np.asarray(1.0 - np.interp(np.log(time_us), log_us, shares, left=0.0, right=1.0))


def _log_wake_ups(wake_spread: Pairs, wake_latency_ns: float) -> tuple[np.ndarray, np.ndarray]:
    """Shares, and the logarithm of the microseconds that they take at most."""
    shares, factors = np.array(wake_spread).T
    return shares, np.log(wake_latency_ns * factors / _NS_PER_US)


def _rate_per_s(interruptions: Pairs) -> float:
    """Interruptions a second of one core, up to the longest that are simulated."""
    if not interruptions:
        return 0.0
    durations_us, rates = np.array(interruptions).T
    longer = np.interp(np.log(LONGEST_INTERRUPTION_US), np.log(durations_us), rates)
    return max(0.0, float(rates[0] - longer))
