"""How long to simulate, whether a backlog has settled by then, and how long runs take."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from forecache.sim.calendar import horizon_ps
from forecache.sim.effort import check_work
from forecache.sim.processes import usable_cores

from ..node.simulate import Flow, NodeResult
from ..step_times.cores import shares_cores
from ..step_times.inputs import NodeInputs
from ..step_times.persistence import stalls_of
from ..step_times.wire import connection_gap_ps
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


# --- whether an open loop's backlog has settled, or grows -----------------------------------------

# The backlog is the requests that are due and not completed. Below capacity it has a stationary
# distribution, beyond capacity it grows by what arrives less what can be done. Both are told from
# one run by the means of equal parts of its window (batch means).


SATURATED = 0.95
"""Utilisation from which a station counts as the limit."""

PARTS = 8
"""Equal parts of a window whose means are compared."""

_FEWEST_PARTS = 4
"""Fewer say little of how much they vary."""

_SETTLED_T = 2.0
"""A growth of fewer standard errors is no trend. One in twenty windows shows more by chance alone:
it is looked at once more, twice as long."""

_DRAINS_T = -3.0
"""A backlog that shrinks by more standard errors was left by how the run began."""

_OVERLOADED_T = 3.0
"""A growth of more standard errors is overload: one window of a hundred by chance, and only one
that kept showing a trend while it was lengthened is asked."""

_LEAST_ERROR = 0.001
"""Relative standard error that the throughput of a window has at least. Parts of a run that repeat
each other exactly would claim to know it better than their ends do."""


@dataclass(frozen=True)
class Growth:
    """Requests a second by which a backlog grows, and its standard error.

    Attributes
    ----------
    caught_up
        Whether the connections did catch up with what was due, late in the window. Then the backlog
        is what queues are; if not, what completes is what can be done.
    speeds_up
        Whether more completes in the second half of the window than in the first, by more than
        chance: threads are being started.
    left_over
        Whether the window begins with more than connections carry, and than is ever due in its
        second half: with what the run's beginning left.
    """

    rps: float
    error_rps: float
    caught_up: bool
    speeds_up: bool = False
    left_over: bool = False

    @property
    def in_errors(self) -> float:
        """The growth in standard errors."""
        return self.rps / self.error_rps


def backlog_growth(result: NodeResult) -> Growth:
    """The growth of the backlog of one run of an open loop.

    Where connections never catch up, it is the rate of arrivals less that of completions, which
    hardly varies; else what arrived in the window and did not complete.
    """
    flow = result.flow
    if flow is None:
        raise ValueError("a closed loop has no backlog")
    begins_ps, ends_ps = flow.window_ps
    window_s = (ends_ps - begins_ps) / _PS_PER_S
    arrived = result.counters["arrivals"]
    late = _late(flow)
    caught_up = bool(late.min() <= flow.connections)
    left_over = bool(flow.at_start > max(flow.connections, late.max()))
    changes = np.diff(_at_parts(flow, flow.backlog if caught_up else flow.completed))
    # Of Poisson arrivals, and of as many completions.
    least = math.sqrt(2.0 * max(arrived, 1)) / window_s
    rps = (arrived - result.completions) / window_s
    if not caught_up:
        rps = flow.rate_rps - result.throughput_rps
        least = least if len(changes) < _FEWEST_PARTS else _LEAST_ERROR * flow.rate_rps
    found = 0.0
    if len(changes) >= _FEWEST_PARTS:
        found = float(np.std(changes, ddof=1)) * math.sqrt(len(changes)) / window_s
    error_rps = max(found, least)
    half_s = window_s / 2.0
    halves = changes[: len(changes) // 2].sum(), changes[len(changes) // 2 :].sum()
    # The difference of two halves errs twice as much as their mean does.
    speeds_up = not caught_up and (halves[1] - halves[0]) / half_s > 2.0 * _SETTLED_T * error_rps
    return Growth(rps, error_rps, caught_up, bool(speeds_up), left_over)


def _late(flow: Flow) -> np.ndarray:
    """The backlog in a window's second half, or in its last cycle if that is longer."""
    begins_ps, ends_ps = flow.window_ps
    since_ps = min((begins_ps + ends_ps) / 2, ends_ps - flow.cycle_ps)
    return np.append(flow.backlog[flow.times_ps >= since_ps], flow.at_end)


def _at_parts(flow: Flow, counts: np.ndarray) -> np.ndarray:
    """A count at the ends of equal parts of the window; of whole cycles, where there are some."""
    begins_ps, ends_ps = flow.window_ps
    parts = PARTS
    if flow.cycle_ps > 0:
        parts = min(PARTS, round((ends_ps - begins_ps) / flow.cycle_ps))
    if parts < _FEWEST_PARTS or len(counts) < PARTS:
        return counts[:0]
    return np.interp(np.linspace(begins_ps, ends_ps, parts + 1), flow.times_ps, counts)


def is_decided(growth: Growth) -> bool:
    """Whether a backlog shows no trend, or grows because all that can be done is done."""
    if growth.caught_up:
        return _DRAINS_T < growth.in_errors < _SETTLED_T and not growth.left_over
    return grows([growth]) and not growth.speeds_up


def grows(growths: Sequence[Growth]) -> bool:
    """Whether the backlog grows, by runs that differ in their random streams only."""
    count = len(growths)
    error_rps = math.sqrt(sum(growth.error_rps**2 for growth in growths)) / count
    mean_rps = sum(growth.rps for growth in growths) / count
    return mean_rps / error_rps > _OVERLOADED_T


# --- how long runs take, said or refused before they begin ---------------------------------------


_RUN_S = 0.006
"""Setting up a run: durations, tables, an array for the state."""

_REQUEST_S = 0.7e-6
"""A request, with the events of all that it passes."""

_EVENT_S = 6e-8
"""An event, where a pilot run has counted them."""

_SIMULATED_S = 1e-4
"""A simulated second in which nothing is asked: threads that look, timers, interruptions."""


def check_count(points: int, runs: int) -> None:
    """Refuse more runs and points than can be set up in reasonable time."""
    check_work(
        runs * _RUN_S,
        f"{points:,} point{'s' if points != 1 else ''} of a node with {runs:,} runs",
        smaller="fewer points",
        progress=None,
    )


class Batch(NamedTuple):
    """A number of runs, and how long each is: see `run_length.window`."""

    runs: int
    requests: int
    brief: bool = False


class AskedRuns(NamedTuple):
    """Runs of one point, what they simulate, and how fast that is."""

    inputs: NodeInputs
    pilot: Pilot
    batches: tuple[Batch, ...]


def run_s(inputs: NodeInputs, pilot: Pilot, *, requests: int, brief: bool = False) -> float:
    """Seconds of one core that a run takes, estimated: the same on every machine."""
    end_ps = window(inputs, pilot, requests=requests, brief=brief).end_ps
    return _run_s(pilot, end_ps / _PS_PER_S)


def _run_s(pilot: Pilot, end_s: float) -> float:
    by_request = pilot.rate_rps * _REQUEST_S + _SIMULATED_S
    return _RUN_S + end_s * max(by_request, pilot.events_per_s * _EVENT_S)


def check_runs(
    asked: Sequence[AskedRuns],
    *,
    points: int,
    progress: Callable[[str], None] | None,
) -> None:
    """Say how long the runs of all points take, or refuse them."""
    seconds = longest_s = 0.0
    runs = 0
    for point in asked:
        for count, requests, brief in point.batches:
            window_ps = window(point.inputs, point.pilot, requests=requests, brief=brief)
            end_s = window_ps.end_ps / _PS_PER_S
            longest_s = max(longest_s, end_s)
            seconds += count * _run_s(point.pilot, end_s)
            runs += count
    noun = "point" if points == 1 else "points"
    check_work(
        seconds,
        f"{points:,} {noun} of a node with {runs:,} runs, the longest of {longest_s:,.3g} "
        "simulated seconds",
        smaller="fewer points, or what is rare (a slow command, a snapshot) more often",
        progress=progress,
        workers=usable_cores(),
    )
