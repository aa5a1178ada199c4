"""Cores: which threads queue for them, and what else takes them away from a thread.

**Sharing** goes from a scenario and a host to groups of threads that queue for the same cores.

**Interruptions.** A timer tick, an interrupt, an exit to the hypervisor or another program takes a
core away from its thread for microseconds to milliseconds. Under an open load that decides the 99th
percentile. A captured profile says how often such gaps last at least how long; catalogue hosts say
nothing, and no interruption is simulated there.

Micro-benchmarks are medians and hold no interruptions. The work of a calibrated engine is fitted to
CPU times, which hold those that a kernel books on the thread, so they count twice there: by the
share of time they take, one or two per cent, less than such a fit is sure of. Taking them out would
need to know what the kernel books, so they are left in.

A thread that sleeps gives its core back to the hypervisor and has to wait for it when it is woken:
most wake-ups take as long as an interrupt between cores, one in a hundred several times that, one
in a thousand a millisecond and more. The last are pauses too and stay out of what is simulated.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.errors import InputError

from ..node.setup import QUANTILES
from ..scenario.schema import Scenario


class Sharing(NamedTuple):
    """Cores of the server's and the load generator's threads; 0: each thread has its own."""

    server_cores: int = 0
    generator_cores: int = 0
    shared: bool = False
    """The load generator's threads run on the server's cores."""
    others: int = 0
    """Busy threads of other programs on the server's cores."""
    main_pinned: bool = False
    """One of the server's cores is the main thread's alone."""
    quota_cores: float = 0.0
    """CPU time that the server's threads may take, in cores; 0: as much as they want."""
    physical_cores: int = 0
    """Of the server's host, if more threads than these may be busy on it and each runs two at a
    time; 0: every thread has one for itself, or as much of one as its speed says."""


OWN_CORES_EACH = Sharing()


def sharing(scenario: Scenario, host_cores: int) -> Sharing:
    """The groups of a scenario.

    Parameters
    ----------
    host_cores
        What the operating system can run threads on. Interrupt cores take no thread. A load
        generator on the same host has what the server's `cores` leave, or shares them all; on a
        host or socket of its own it has a core for each thread unless its `cores` say otherwise.
    """
    left = max(1, host_cores - scenario.interrupt_cores)
    server = min(scenario.cores or left, left)
    generators, others = scenario.load_generator.cores, scenario.other_busy_threads
    pinned = scenario.main_thread_pinned
    quota = scenario.cpu_quota_cores or 0.0
    if quota >= min(server, scenario.io_threads):
        quota = 0.0  # more than they can take
    own = scenario.load_generator.other_socket or not scenario.same_host
    if generators is not None or own:
        return Sharing(server, generators or 0, False, others, pinned, quota)
    if server < left:
        return Sharing(server, left - server, False, others, pinned, quota)
    return Sharing(server, 0, True, others, pinned, quota)


def beside_server(scenario: Scenario) -> bool:
    """Whether the load generator's threads run on physical cores of the server's socket."""
    return scenario.same_host and not scenario.load_generator.other_socket


def shared_physical_cores(
    scenario: Scenario, groups: Sharing, host_cores: int, threads_per_core: int
) -> int:
    """Physical cores of the server's host, if its threads may have to share them; else 0.

    Whatever `cores` are the server's, they are of as many physical ones as possible, unless the
    scenario says on how many, to itself.
    """
    # Where idle CPUs poll, all siblings are busy anyway (`HostSpeed.with_busy_siblings`).
    if threads_per_core < 2 or scenario.idle_polls:
        return 0
    physical = max(1, host_cores // threads_per_core)
    generators = scenario.generator_threads if beside_server(scenario) else 0
    threads = scenario.io_threads + groups.others + (generators if groups.shared else 0)
    busy = min(threads, groups.server_cores)
    if scenario.physical_cores is not None:
        physical = min(scenario.physical_cores, physical)
    else:
        busy += scenario.interrupt_cores
        if not groups.shared:
            busy += min(generators, groups.generator_cores or generators)
    return physical if busy > physical else 0


def check_cores(scenario: Scenario, host_cores: int) -> None:
    """Refuse a scenario that leaves the server no core, or gives away more than its host has.

    `cores` above the host's count as the host's, with a warning.

    Raises
    ------
    InputError
        `irq_cores`, `main_thread_pinned` or, on the server's host, the load generator's `cores`.
    """
    interrupts, generators = scenario.irq_cores, scenario.load_generator.cores
    if interrupts >= host_cores:
        raise InputError(
            f"field irq_cores: found {interrupts}; valid is less than the host's {host_cores} "
            "cores, of which the server needs one."
        )
    left = host_cores - scenario.interrupt_cores
    groups = sharing(scenario, host_cores)
    beside = scenario.io_threads - 1 + groups.others
    beside += scenario.generator_threads if groups.shared else 0
    if groups.main_pinned and groups.server_cores == 1 and beside:
        raise InputError(
            "field main_thread_pinned: found true; valid is false where the server has one core, "
            "which other threads need as well."
        )
    if scenario.load_generator.other_socket:
        left = host_cores  # of a socket as large as the server's
    if scenario.same_host and generators is not None and generators > left:
        raise InputError(
            f"field load_generator.cores: found {generators}; valid is at most the {left} cores "
            "of the host it shares with the server."
        )


def shares_cores(scenario: Scenario, groups: Sharing) -> bool:
    """Whether more threads than cores are in one of the groups."""
    generators = scenario.generator_threads
    server = scenario.io_threads + (generators if groups.shared else 0)
    if groups.main_pinned and server == 1:
        server = 0  # the main thread, to which no client connects
    else:
        server += groups.others
    return 0 < groups.server_cores < server or 0 < groups.generator_cores < generators


# --- interruptions --------------------------------------------------------------------------------


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
