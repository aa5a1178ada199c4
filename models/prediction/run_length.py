"""How long to simulate, by what has to happen in a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from forecache.sim.calendar import horizon_ps

from ..step_times.inputs import NodeInputs
from ..step_times.sharing import shares_cores
from ..step_times.stalls import stalls_of
from ..step_times.tls import connection_gap_ps
from .node_setup import (
    CONTROL_SPEEDUP,
    GROW_PERIOD_PS,
    IGNITE_PERIOD_PS,
    SAMPLES_PER_DECISION,
    SHRINK_AFTER_PS,
    ignites_at_once,
)

_PS_PER_S = 10**12
_PS_PER_MS = 10**9
_PS_PER_US = 10**6

_LONGEST_PS = 3600 * _PS_PER_S
"""No run simulates more than an hour, however few requests that may hold."""

_CYCLES = 2
"""Times that an engine which starts and stops its first I/O thread in turn does so in a window."""

_CONNECTIONS = 30
_LONGER = 5
"""New connections a window holds at least, unless that made it `_LONGER` times longer."""

_FEWEST_STALLS, _LEAST_STALLS = 8, 3
_REQUESTS_PER_STALL = 2000
MOST_REQUESTS = 4_000_000
"""A window is lengthened until it holds at least `_FEWEST_STALLS`, and one stall for each
`_REQUESTS_PER_STALL` requests it was to have, but not beyond `MOST_REQUESTS`."""

_PERIODS = 10
"""Periods of a CPU quota that a window holds at least; it holds whole ones, and so does what comes
before it."""

_SLICES = 100
_ROUND_TRIPS, _FEW_ROUND_TRIPS = 50, 12
"""Round trips of every client that a closed-loop window holds at least; of a brief one."""

NEAR = 2
"""Threads by which other numbers, or another moment, may want more or fewer than a pilot run."""


class Window(NamedTuple):
    """When a run begins to measure and when it ends, in ps, and how it begins.

    `initial_active` is how many threads of the server are active at the start, the main thread
    included; 0: as many as `node_setup` says.
    """

    warmup_ps: int
    end_ps: int
    initial_active: int = 0


@dataclass(frozen=True)
class Pilot:
    """What a short run tells about how long to simulate.

    Attributes
    ----------
    rate_rps
        Requests per second.
    changing
        Whether the engine went on starting and stopping one of its first I/O threads.
    trying_fewer
        Whether it stopped or started one of many, which makes a difference of a few per cent.
    settled_ps
        Open loop: time after which the backlog showed no trend, or the loop was overloaded.
    active_threads
        How many threads an engine that starts and stops them had settled on, the main thread
        included; 0 for other engines.
    events_per_s
        Events of the simulation in a simulated second.
    served_rps
        That durations go by in a closed loop, from `simulation.at_rate`; None where they don't.
    """

    rate_rps: float
    changing: bool
    trying_fewer: bool = False
    settled_ps: int = 0
    active_threads: int = 0
    events_per_s: float = 0.0
    served_rps: float | None = None


def window(
    inputs: NodeInputs, pilot: Pilot, *, requests: int, brief: bool = False, near: int | None = None
) -> Window:
    """Warm-up and end of a run, by the number of requests it measures, in ps.

    The warm-up covers the engine's decisions about threads and ten round trips of every client,
    which a test holds against MSER-5. A closed loop begins with somewhat fewer threads than the
    pilot settled on. In an open loop the warm-up lasts until the pilot's threads and backlog had
    settled. Where requests are rare the window ends before it has as many.

    Parameters
    ----------
    brief
        Whether fewer round trips do, and one of many threads need not be stopped and started.
    near
        How far from the pilot's number of threads a closed loop may settle; if left out `NEAR`, in
        brief windows 0.
    """
    near = (0 if brief else NEAR) if near is None else near
    workload = inputs.scenario.workload
    begins, settle = pilot.active_threads, 0
    rare_ps = _stalls_ps(inputs, rate_rps=pilot.rate_rps, requests=requests)
    if workload.arrival == "closed_loop":
        fewer = pilot.active_threads - near
        begins = fewer if fewer > 1 else 0  # The first I/O thread starts by rules of its own.
        settle = settling_ps(inputs, begins, most=pilot.active_threads + near)
        settle += starting_ps(inputs)
        # Clients tend to move in step, so a window holds many of their round trips.
        trips = _FEW_ROUND_TRIPS if brief else _ROUND_TRIPS
        requests = max(requests, trips * workload.clients * workload.pipeline)
    measured_ps = math.ceil(requests / pilot.rate_rps * _PS_PER_S)
    measured_ps = max(measured_ps, slices_ps(inputs))
    if pilot.changing:
        # The engine starts and stops a thread in turn; both belong to what it does on average.
        measured_ps = max(measured_ps, _CYCLES * cycle_ps(inputs))
    if pilot.trying_fewer and not brief:
        measured_ps = max(measured_ps, trying_ps(inputs))
    measured_ps = max(measured_ps, rare_ps)
    # A few new connections make a difference; rare ones are left to chance.
    connections_ps = _CONNECTIONS * connection_gap_ps(inputs.scenario)
    measured_ps = max(measured_ps, min(connections_ps, _LONGER * measured_ps))
    first_requests = 10 * workload.clients * workload.pipeline
    warm_up_ps = math.ceil(first_requests / pilot.rate_rps * _PS_PER_S)
    if workload.arrival == "open_loop":
        most_ps = round(MOST_REQUESTS / pilot.rate_rps * _PS_PER_S)
        measured_ps = workload.varying.measured_ps(measured_ps, most_ps=most_ps)
        # Two decisions of an engine that starts and stops threads.
        decisions_ps = 2 * SAMPLES_PER_DECISION * GROW_PERIOD_PS // CONTROL_SPEEDUP
        settle = decisions_ps if inputs.policy.samples_load else 0
        warm_up_ps = max(measured_ps // 4, pilot.settled_ps)
    half_ps = longest_ps(inputs) // 2
    measured_ps = max(measured_ps, _PERIODS * whole_periods(inputs, 1))
    measured_ps = whole_periods(inputs, min(measured_ps, half_ps))
    warmup_ps = min(settle + max(warm_up_ps, measured_ps // 5), half_ps)
    warmup_ps = whole_periods(inputs, warmup_ps)
    return Window(warmup_ps, warmup_ps + measured_ps, begins)


def _stalls_ps(inputs: NodeInputs, *, rate_rps: float, requests: int) -> int:
    """Duration of a run of a number of requests that sees enough stalls, if it has to."""
    most_s = MOST_REQUESTS / rate_rps
    gaps_s = [stall.mean_gap_s(rate_rps) for stall in stalls_of(inputs)]
    # Those that hardly any window of bearable length holds are left to chance.
    gap_s = max((gap for gap in gaps_s if _LEAST_STALLS * gap <= most_s), default=0.0)
    wanted_s = gap_s * max(_FEWEST_STALLS, requests / _REQUESTS_PER_STALL)
    return round(min(wanted_s, most_s) * _PS_PER_S)


def settling_ps(inputs: NodeInputs, active: int = 0, *, most: int | None = None) -> int:
    """How long the engine takes to decide how many I/O threads it uses.

    Parameters
    ----------
    active
        Threads active at the start, the main thread included; 0: as `node_setup` says.
    most
        How many it may come to use; all it has if left out.
    """
    if not inputs.policy.samples_load:
        return 0
    begins = active or (2 if ignites_at_once(inputs) else 1)
    threads = inputs.scenario.io_threads
    # A decision for each thread that may be started, and one that starts none.
    decisions = max(0, min(threads, most or threads) - begins) + 1
    periods = decisions * GROW_PERIOD_PS
    if begins == 1:
        # The first decision may come while clients are still starting.
        periods += 2 * IGNITE_PERIOD_PS
    return periods * SAMPLES_PER_DECISION // CONTROL_SPEEDUP


def starting_ps(inputs: NodeInputs) -> int:
    """How long the load generator takes to start its threads."""
    if inputs.scenario.workload.arrival == "open_loop":
        return 0
    return round(inputs.scenario.generator_threads * inputs.generator.thread_start_us * _PS_PER_US)


def cycle_ps(inputs: NodeInputs) -> int:
    """How long Valkey 9.1 takes to stop its only I/O thread for lack of work and start it again."""
    return _turn_ps(inputs, IGNITE_PERIOD_PS)


def trying_ps(inputs: NodeInputs) -> int:
    """How long Valkey 9.1 takes to stop one of many I/O threads and start it again."""
    return _turn_ps(inputs, GROW_PERIOD_PS) if inputs.scenario.io_threads > 2 else 0


def _turn_ps(inputs: NodeInputs, period_ps: int) -> int:
    """A turn of stopping a thread and starting it again, by the period at which it samples then."""
    if not inputs.policy.samples_load:
        return 0
    return (SHRINK_AFTER_PS + SAMPLES_PER_DECISION * period_ps) // CONTROL_SPEEDUP


def slices_ps(inputs: NodeInputs) -> int:
    """How long threads that share cores take to do so in many ways."""
    if not shares_cores(inputs.scenario, inputs.sharing):
        return 0
    slice_us = max(inputs.speed.time_slice_us, inputs.speed.timer_tick_us)
    return round(_SLICES * slice_us * _PS_PER_US)


def whole_periods(inputs: NodeInputs, time_ps: int) -> int:
    """A time rounded up to whole periods of a CPU quota, where there is one."""
    if inputs.sharing.quota_cores == 0:
        return time_ps
    period_ps = round(inputs.scenario.cpu_quota_period_ms * _PS_PER_MS)
    return -(-time_ps // period_ps) * period_ps


def longest_ps(inputs: NodeInputs) -> int:
    """The longest run: an hour, or what the calendar's horizon leaves of it."""
    workload = inputs.scenario.workload
    agents = inputs.scenario.io_threads + inputs.scenario.generator_threads + workload.clients
    return min(_LONGEST_PS, horizon_ps(agents) - 1)
