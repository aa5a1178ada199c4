"""What pauses of the host add to latencies: gaps of a millisecond and more in a core's time.

A hypervisor that gives the core to another machine, or a program that runs for its whole time
slice, takes it away a few times a second. A window that is simulated holds none of these or a few
by chance, so they are left out there (`step_times/cores.py`) and added here to what it
says, by how often a capture saw a busy core lose how much time.

A pause of length D hits the requests that wait for that core. In an open loop they go on arriving:
one that arrives t after the pause began waits D - t, and the backlog of a core that is busy for a
share u of its time is gone after D / (1 - u), so requests of D - w over 1 - u, times the rate, wait
longer than w. With pauses longer than v coming R(v) times a second, the share of requests that wait
longer than w is

    S(w) = integral of R(v) from w on / (1 - u)

In a closed loop only what is in flight waits, and all of that for the whole pause, so S(w) is R(w)
times the mean latency. Both hold for each core that a request depends on: the main thread's, one of
the I/O threads', and that of the load generator's thread, whose clock runs meanwhile.

A capture sees what busy cores lose. A core that is busy for a share of its time is assumed to lose
that share of it. One that idles leaves the hypervisor its time, and has to get it back: every sleep
ends with a wake-up, and the share of wake-ups that take longer than v, as a capture sees them, is
another source of pauses. Some of those are interruptions of either core in the time a wake-up
usually takes, which are counted already and taken off. The longer a core sleeps before it is
called, the likelier somebody else has it (`hwprofiles/speed.py`); sleeps that are shorter than
those of the capture are taken to end late less often in proportion, longer ones as often.

Pauses come in bursts, and a host's neighbours change: an interval of a tail reaches to what
`PAUSES_FACTOR` times as many would make of it. Where nobody captured a host, its predictions hold
no interruption at all, and their intervals reach to those of ordinary captured hosts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from forecache.hwprofiles.completion import ASSUMED_INTERRUPTIONS
from forecache.hwprofiles.speed import HostSpeed, asleep_us
from forecache.sim.histogram import N_BUCKETS, LatencyHistogram, bucket_bounds_ps

from ..step_times.cores import LONGEST_INTERRUPTION_US, late_wake_ups
from .run_length import SATURATED

if TYPE_CHECKING:
    from .predict import Prediction

PAUSES_FACTOR = 4.0
"""By which the time that pauses of a millisecond and more take may be off (95%): it differed so
between 27 captures of two hosts within days (`host.yaml` of the studies in `evidence`; 0.71 is the
standard deviation of the logarithm of the curve's integral from a millisecond on)."""

_US_PER_MS = 1000.0
_US_PER_S = 1e6
_PS_PER_US = 1e6
_NS_PER_S = 1e9
_NS_PER_US = 1e3
_HALVINGS = 60
_LENGTHS = 100
_CORES_OF_A_WAKE_UP = 2
"""The sender's, and that of the thread that is woken."""


@dataclass(frozen=True)
class Pauses:
    """Pauses of one core, from a host's curve of interruptions.

    Attributes
    ----------
    lengths_us : ndarray, shape (n,)
        From the shortest pause on, rising.
    rates_per_s : ndarray, shape (n,)
        How many a second last longer.
    """

    lengths_us: np.ndarray
    rates_per_s: np.ndarray

    def rate_per_s(self, waits_us: np.ndarray) -> np.ndarray:
        """How many a second last longer, between measured lengths linear in the logarithm.

        Of those that outlast the longest length that was measured, no more is known.
        """
        waits_us = np.maximum(waits_us, self.lengths_us[0])
        rates = np.interp(np.log(waits_us), self._log_lengths, self.rates_per_s)
        return np.where(waits_us >= self.lengths_us[-1], 0.0, rates)

    def longer_s_per_s(self, waits_us: np.ndarray) -> np.ndarray:
        """Of a second, the time of pauses beyond their first `waits_us`: the integral of rates."""
        return np.interp(waits_us, *self._integral, right=0.0)

    @cached_property
    def share(self) -> float:
        """Of all time, that of pauses."""
        return float(self.longer_s_per_s(np.zeros(1))[0])

    @cached_property
    def _log_lengths(self) -> np.ndarray:
        return np.asarray(np.log(self.lengths_us))

    @cached_property
    def _integral(self) -> tuple[np.ndarray, np.ndarray]:
        """Waits, and the time of pauses beyond."""
        grid_us = np.concatenate(
            [[0.0], np.geomspace(self.lengths_us[0], self.lengths_us[-1], 400)]
        )
        rates = self.rate_per_s(grid_us)
        steps = np.diff(grid_us) * (rates[1:] + rates[:-1]) / 2.0 / _US_PER_S
        left = np.concatenate([np.cumsum(steps[::-1])[::-1], [0.0]])
        return grid_us, left


def core_pauses(speed: HostSpeed, *, busy: float = 1.0, sleeps_per_s: float = 0.0) -> Pauses | None:
    """Those of a core that is busy for a share of its time and sleeps so often.

    None if the host's curve of interruptions says nothing of them, or that there are none.
    """
    found = _of_busy_core(speed)
    if found is None:
        return None
    longest_us = max(found.lengths_us[-1], speed.wake_latency_ns / 1e3 * speed.wake_spread[-1][1])
    lengths_us = np.geomspace(found.lengths_us[0], longest_us, _LENGTHS)
    lengths_us = np.union1d(lengths_us, found.lengths_us)
    rates = found.rate_per_s(lengths_us)
    meanwhile = _CORES_OF_A_WAKE_UP * rates * speed.wake_latency_ns / _NS_PER_S
    late = np.maximum(0.0, late_wake_ups(speed, lengths_us) - meanwhile)
    late *= _share_of_captured_sleep(speed, busy=busy, sleeps_per_s=sleeps_per_s)
    return Pauses(lengths_us, busy * rates + sleeps_per_s * late)


def _share_of_captured_sleep(speed: HostSpeed, *, busy: float, sleeps_per_s: float) -> float:
    """How long a sleep lasts until the core is called, of what it lasted in the capture; 1 at most.

    What is left of a second beside work and wake-ups is spread over all sleeps.
    """
    if sleeps_per_s <= 0.0:
        return 1.0
    wake_us = speed.wake_latency_ns / _NS_PER_US
    captured_us = asleep_us(wake_us)
    sleep_us = max(0.0, (1.0 - busy) * _US_PER_S / sleeps_per_s - wake_us)
    return sleep_us / captured_us if sleep_us < captured_us else 1.0


def _of_busy_core(speed: HostSpeed) -> Pauses | None:
    if not speed.interruptions:
        return None
    lengths_us, rates = np.array(sorted(speed.interruptions)).T
    if lengths_us[-1] <= LONGEST_INTERRUPTION_US:
        return None
    first = np.interp(math.log(LONGEST_INTERRUPTION_US), np.log(lengths_us), rates)
    if first <= 0.0:
        return None
    longer = lengths_us > LONGEST_INTERRUPTION_US
    return Pauses(
        np.concatenate([[LONGEST_INTERRUPTION_US], lengths_us[longer]]),
        np.concatenate([[first], rates[longer]]),
    )


@lru_cache(maxsize=1)
def _middles_us() -> np.ndarray:
    """(buckets,) middle of each bucket of a histogram."""
    bounds_ps = np.array([bucket_bounds_ps(bucket) for bucket in range(N_BUCKETS)])
    return np.asarray(bounds_ps.mean(axis=1) / _PS_PER_US)


def latency_with_pauses_ms(prediction: Prediction, q: float) -> float | None:
    """A quantile of the latency over all requests, those that met a pause among them, in ms.

    Returns
    -------
    None if nothing is known of the host's pauses, or the load is beyond capacity.
    """
    stations = _stations(prediction)
    if stations is None or prediction.overloaded:
        return None
    return _with_pauses_ms(prediction, stations, q)


def longest_probable_ms(prediction: Prediction, q: float) -> float | None:
    """Where the interval of a quantile of latency ends for all that the host may do, in ms.

    Returns
    -------
    None if the host was captured and has no pauses, or the load is beyond capacity.
    """
    speed = prediction.system.inputs(prediction.case.scenario).speed
    captured = bool(speed.interruptions)
    stations = _stations(prediction) if captured else _stations(prediction, _ordinary())
    if stations is None or prediction.overloaded:
        return None
    factor = PAUSES_FACTOR if captured else 1.0
    return _with_pauses_ms(prediction, stations, q, factor=factor)


def _with_pauses_ms(
    prediction: Prediction, stations: list[_Station], q: float, *, factor: float = 1.0
) -> float:
    """The quantile, with so many times the pauses of the stations."""
    latency = LatencyHistogram()
    for metrics in prediction.nominal:
        latency = latency.merge(metrics.result.latency)
    counted = latency.counts[:N_BUCKETS]
    buckets = np.flatnonzero(counted)
    shares = counted[buckets] / counted.sum()
    middles_us = _middles_us()[buckets]

    def longer(latency_us: float) -> float:
        """Share of requests that take longer: by themselves, or with a pause."""
        waits_us = latency_us - middles_us
        met = factor * _share_waiting(prediction, stations, np.maximum(waits_us, 0.0))
        return float(shares @ np.where(waits_us < 0.0, 1.0, np.minimum(met, 1.0)))

    longest_us = max(float(station.pauses.lengths_us[-1]) for station in stations)
    low, high = 0.0, float(middles_us[-1]) + longest_us
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if longer(middle) > 1.0 - q else (low, middle)
    return high / _US_PER_MS


@lru_cache(maxsize=1)
def _ordinary() -> Pauses:
    """Interruptions of any length, as busy cores of ordinary captured hosts have them."""
    lengths_us, rates = np.array(ASSUMED_INTERRUPTIONS).T
    return Pauses(lengths_us, rates)


@dataclass(frozen=True)
class _Station:
    """A core that requests depend on: how much of it they use, and its pauses."""

    used: float
    pauses: Pauses


def _stations(prediction: Prediction, assumed: Pauses | None = None) -> list[_Station] | None:
    """Main thread, one of the I/O threads and one of the load generator's; None without pauses.

    Parameters
    ----------
    assumed
        Those of a busy core, of a host that was not captured.
    """
    names = ["main thread", "load generator"]
    if prediction.threads_alike:
        names = ["worker threads", "load generator"]
    elif prediction.io_thread_utilisation:
        names.append("I/O threads")
    sleeps_per_s = _sleeps_per_s(prediction)
    spins = prediction.open_loop and prediction.system.generator.spins_when_due
    speed = prediction.system.inputs(prediction.case.scenario).speed
    found = []
    for name in names:
        used = prediction.utilisation[name]
        sender = name == "load generator"
        busy = 1.0 if sender and spins else used
        if assumed is not None:
            pauses: Pauses | None = replace(assumed, rates_per_s=busy * assumed.rates_per_s)
        else:
            pauses = core_pauses(speed, busy=busy, sleeps_per_s=0.0 if sender else sleeps_per_s)
        if pauses is None:
            return None
        found.append(_Station(used, pauses))
    return found


def _sleeps_per_s(prediction: Prediction) -> float:
    """How often a thread of the server sleeps, the mean of all."""
    results = [metrics.result for metrics in prediction.nominal]
    threads = len(prediction.io_thread_utilisation) + (not prediction.threads_alike)
    sleeps = sum(result.counters["blocks"] for result in results)
    return float(sleeps / sum(result.window_s for result in results) / max(1, threads))


def _share_waiting(
    prediction: Prediction, stations: list[_Station], waits_us: np.ndarray
) -> np.ndarray:
    """Share of requests that wait longer than this for cores that have a pause."""
    if not prediction.open_loop:
        in_flight_s = prediction.mean("mean_ms") / 1000.0
        return np.asarray(sum(s.pauses.rate_per_s(waits_us) for s in stations) * in_flight_s)
    return np.asarray(
        sum(
            s.pauses.longer_s_per_s(waits_us) / (1.0 - min(SATURATED, s.used + s.pauses.share))
            for s in stations
        )
    )
