"""From inputs to results: durations, a pilot run, and runs whose backlog has settled."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..node.setup import NodeTimes
from ..node.simulate import NodeResult, simulate_node
from ..step_times.inputs import NodeInputs, kept
from ..step_times.persistence import code_shares, stalls_of
from ..step_times.stages import node_times
from .node_setup import node_setup
from .run_length import (
    MOST_REQUESTS,
    Pilot,
    Window,
    backlog_growth,
    cycle_ps,
    grows,
    is_decided,
    longest_ps,
    settling_ps,
    slices_ps,
    starting_ps,
    trying_ps,
    whole_periods,
    window,
)

_PS_PER_S = 10**12
_PS_PER_MS = 10**9
_PS_PER_US = 10**6

PILOT_REQUESTS = 3000

_PILOT_PS = 10 * _PS_PER_MS
"""What a closed loop's pilot measures at first, and what it adds to the time to settle."""

_FIRST_HELPERS = 2.0
"""An engine that starts and stops threads may do so with its first in turn: with fewer active than
this, a pilot lasts long enough to see that."""

_MOST_PILOT_EVENTS = 30_000_000
"""Events after which a pilot has seen enough large requests, which are rare."""

OPEN_PILOT_REQUESTS = 10_000
"""Measured requests of an open loop's pilot run, while its backlog shows no trend."""

_LONGEST = 8
"""Times that a run is made as long at most when a backlog has not settled."""

_ALONE_AT_MOST = 0.8
"""Up to this share of its time a main thread serves a load alone without a backlog to speak of."""


@kept
def times_of(inputs: NodeInputs) -> NodeTimes:
    """Durations of the node's steps at the rate of `at_rate`, the one thing that is simulated."""
    return node_times(at_rate(inputs))


@kept
def at_rate(inputs: NodeInputs) -> NodeInputs:
    """The inputs with the rate that a closed loop serves, where durations depend on it.

    Where something happens every so often (a slow command, a snapshot) it is one request in so
    many. Where other machines fill the caches, a server finds fewer of its lines the longer it
    leaves them alone. Both go by the rate: the scenario's, or in a closed loop a pilot run's.
    """
    stalls, filled = bool(stalls_of(inputs)), inputs.speed.l3_fills_per_us > 0.0
    if inputs.rate_rps is not None or not (stalls or filled):
        return inputs
    rate_rps = _pilot(inputs, node_times(inputs), seed=1).rate_rps
    served = replace(inputs, served_rps=rate_rps)
    if stalls:
        # They go by the rate that there is without them.
        return served
    # What is left in the caches changes the rate, and may change which threads serve.
    return replace(inputs, served_rps=_pilot(served, node_times(served), seed=1).rate_rps)


def times_near(inputs: NodeInputs, pilot: Pilot | None) -> NodeTimes:
    """`times_of` numbers near to those of a pilot run, at the rate that held for these."""
    if pilot is not None and inputs.rate_rps is None and pilot.served_rps is not None:
        inputs = replace(inputs, served_rps=pilot.served_rps)
    return times_of(inputs)


def pilot_run(inputs: NodeInputs, times: NodeTimes, *, seed: int) -> Pilot:
    """Find out how fast a closed loop is, and when an open loop settles."""
    return replace(_pilot(inputs, times, seed=seed), served_rps=at_rate(inputs).served_rps)


def _pilot(inputs: NodeInputs, times: NodeTimes, *, seed: int) -> Pilot:
    if inputs.scenario.workload.mean_rate_rps is not None:
        return _open_pilot(inputs, times, seed=seed)
    warmup_ps = max(settling_ps(inputs), starting_ps(inputs), slices_ps(inputs) // 4) + _PILOT_PS
    # Clients that think long may do so in step.
    think_ps = round(inputs.scenario.workload.think_us * _PS_PER_US)
    measured_ps = max(_PILOT_PS, slices_ps(inputs) // 4, trying_ps(inputs), think_ps)
    longest = whole_periods(inputs, longest_ps(inputs) // 2)
    while True:
        warmup_ps = whole_periods(inputs, min(warmup_ps, longest))
        measured_ps = whole_periods(inputs, min(measured_ps, longest))
        end_ps = warmup_ps + measured_ps
        setup = node_setup(inputs, warmup_ps=warmup_ps, end_ps=end_ps, seed=seed, replication=0)
        result = simulate_node(inputs.engine.policy, times, setup)
        may_alternate = inputs.policy.samples_load and _helpers(result) < _FIRST_HELPERS
        if may_alternate and measured_ps < min(cycle_ps(inputs), longest):
            warmup_ps = measured_ps = cycle_ps(inputs) + _PILOT_PS
            continue
        enough = result.completions >= PILOT_REQUESTS or result.events > _MOST_PILOT_EVENTS
        if enough or measured_ps == longest:
            return Pilot(
                max(result.throughput_rps, 1.0),
                changing=_alternates(inputs, result),
                trying_fewer=result.counters["activations"] > 0,
                active_threads=result.final_active_threads if inputs.policy.samples_load else 0,
                events_per_s=result.events * _PS_PER_S / end_ps,
            )
        warmup_ps, measured_ps = 2 * warmup_ps, 2 * measured_ps


def _alternates(inputs: NodeInputs, result: NodeResult) -> bool:
    """Whether the engine went on starting and stopping one of its first I/O threads."""
    few = _helpers(result) < _FIRST_HELPERS
    return few and result.counters["activations"] > 0 and cycle_ps(inputs) > 0


def _helpers(result: NodeResult) -> float:
    """I/O threads that were active, on average over the window."""
    return result.counters["active_thread_ps"] / (result.window_s * _PS_PER_S)


def _open_pilot(inputs: NodeInputs, times: NodeTimes, *, seed: int) -> Pilot:
    """A run of an open loop, made longer until threads and backlog have settled."""
    rate_rps = inputs.scenario.workload.mean_rate_rps or 0.0
    active = _surely_active(inputs, times)
    starts_ps = settling_ps(inputs, active) if active else 0
    begins = Pilot(rate_rps, changing=False, settled_ps=starts_ps, active_threads=active)
    first = window(inputs, begins, requests=OPEN_PILOT_REQUESTS)
    result, last = _settled_run(inputs, times, first, seed=seed, replication=0)
    overloaded = result.flow is not None and grows([backlog_growth(result)])
    return Pilot(
        rate_rps,
        changing=_alternates(inputs, result),
        # The threads that it begins without are there from the start of the runs that follow.
        settled_ps=(first if overloaded else last).warmup_ps - starts_ps,
        active_threads=result.final_active_threads if active else 0,
        events_per_s=result.events * _PS_PER_S / last.end_ps,
    )


def _surely_active(inputs: NodeInputs, times: NodeTimes) -> int:
    """Threads that an engine which starts and stops them needs at least; 0 for other engines.

    A run that began with the main thread alone would build up a backlog until the others have been
    started, which is not what a steady load is like. Threads beyond those that the time of requests
    makes necessary are left to the engine to start.
    """
    if settling_ps(inputs) == 0:
        return 0
    each_ps: float = times.poll_event_ps + times.read_event_ps + times.recv_ps
    each_ps += times.write_event_ps + times.send_ps
    by_code = times.parse_by_code_ps + times.execute_by_code_ps + times.stall_ps.mean(axis=1)
    each_ps += float(np.dot(code_shares(times), by_code))
    rate_rps = inputs.scenario.workload.mean_rate_rps or 0.0
    needed = each_ps * rate_rps / _PS_PER_S
    if needed < _ALONE_AT_MOST:
        return 1
    return min(inputs.scenario.io_threads, 1 + max(1, math.floor(needed)))


def run(
    inputs: NodeInputs,
    *,
    requests: int,
    seed: int,
    replication: int = 0,
    times: NodeTimes | None = None,
    window_ps: Window | None = None,
) -> NodeResult:
    """Simulate a scenario once.

    An open loop whose backlog has not settled is simulated again for longer, until it has or is
    found overloaded (`run_length.grows`).

    Parameters
    ----------
    requests
        About how many requests to measure.
    times
        From `times_of`, which is asked if they are left out.
    window_ps
        From `window`; found by a pilot run if left out.
    """
    times = times_of(inputs) if times is None else times
    if window_ps is None:
        window_ps = window(inputs, pilot_run(inputs, times, seed=seed), requests=requests)
    result, _ = _settled_run(inputs, times, window_ps, seed=seed, replication=replication)
    return result


def _settled_run(
    inputs: NodeInputs, times: NodeTimes, window_ps: Window, *, seed: int, replication: int
) -> tuple[NodeResult, Window]:
    """A run whose backlog has settled or grows, or that is as long as a run may be; its window."""
    warmup_ps, end_ps, active = window_ps
    rate_rps = inputs.scenario.workload.mean_rate_rps or math.inf
    # How long a window may become whose backlog has not settled.
    longest = min(_LONGEST * (end_ps - warmup_ps), round(MOST_REQUESTS / rate_rps * _PS_PER_S))
    while True:
        setup = node_setup(
            inputs, warmup_ps=warmup_ps, end_ps=end_ps, seed=seed, replication=replication
        )
        if active > 0:
            setup = setup._replace(initial_active=min(active, setup.io_threads))
        result = simulate_node(inputs.engine.policy, times, setup)
        enough = result.flow is None or _is_decided(inputs, result, window_ps, warmup_ps)
        # What did not settle was warm-up; what follows is looked at for twice as long.
        measured_ps = 2 * (end_ps - warmup_ps)
        if enough or measured_ps > longest or end_ps + measured_ps > longest_ps(inputs):
            return result, Window(warmup_ps, end_ps, active)
        warmup_ps, end_ps = end_ps, end_ps + measured_ps


def _is_decided(inputs: NodeInputs, result: NodeResult, begins: Window, warmup_ps: int) -> bool:
    """Whether an open loop's backlog has settled, or grows with all threads that may be started."""
    growth = backlog_growth(result)
    in_time = growth.caught_up or warmup_ps >= settling_ps(inputs, begins.initial_active)
    return in_time and is_decided(growth)
