"""From a case to results: set a node up, choose how long to simulate, run it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from forecache.sim.calendar import horizon_ps

from ..node.policies import under_policy
from ..node.setup import NodeSetup, NodeTimes
from ..node.simulate import NodeResult, simulate_node
from ..step_times.forking import do_reads
from ..step_times.inputs import NodeInputs
from ..step_times.interruptions import interruption_gap_ps
from ..step_times.locks import item_locks
from ..step_times.persistence import fsyncs_always
from ..step_times.sharing import shares_cores
from ..step_times.stages import node_times
from ..step_times.stalls import code_shares, stalls_of
from ..step_times.tls import connection_gap_ps
from ..step_times.wire import (
    ETHERNET_HEADER_BYTES,
    IP_TCP_HEADER_BYTES,
    read_limit_bytes,
    segment_bytes,
)
from .backlog import grows, growth_of, is_decided

_PS_PER_S = 10**12
_PS_PER_MS = 10**9
_PS_PER_US = 10**6

_STEADY_BACKLOG, _VARYING_BACKLOG = 1 << 16, 1 << 20
"""Requests that may be due and not sent when arrivals are open, at a constant rate and at one that
changes; more are counted as overflow. Queues below capacity stay far below the first, rushes that
pass below the second."""

CONTROL_SPEEDUP = 25
"""Valkey 9.1 decides about threads over seconds, a simulation lasts milliseconds. Load is steady
within either, so its periods are shortened by this factor, no further than to the length of a turn
of the event loop under load: the settled number of threads is the same, only the time to get there
isn't. An engine that starts and stops a thread in turn is averaged over whole turns."""

_IGNITE_PERIOD_PS = 50 * _PS_PER_MS
_GROW_PERIOD_PS = 10 * _PS_PER_MS
_SHRINK_AFTER_PS = 1000 * _PS_PER_MS
_SAMPLES_PER_DECISION = 16

_SPIN_CHECKS = 1_000_000
_SPIN_CHECK_CYCLES = 4
"""Looks for work of an idle I/O thread of Valkey 8.0 before it sleeps; a look takes a load and a
branch."""

PILOT_REQUESTS = 3000

_MOST_PILOT_EVENTS = 30_000_000
"""Events after which a pilot has seen enough large requests, which are rare."""

OPEN_PILOT_REQUESTS = 10_000
"""Measured requests of an open loop's pilot run, while its backlog shows no trend."""

_LONGEST = 8
"""Times that a run is made as long at most when a backlog has not settled."""

_ALONE_AT_MOST = 0.8
"""Up to this share of its time a main thread serves a load alone without a backlog to speak of."""

_LONGEST_PS = 3600 * _PS_PER_S
"""No run simulates more than an hour, however few requests that may hold."""

_CYCLES = 2
"""Times that an engine which starts and stops a thread in turn does so in a window."""

_CONNECTIONS = 30
_LONGER = 5
"""New connections a window holds at least, unless that made it `_LONGER` times longer."""

_FEWEST_STALLS, _LEAST_STALLS = 8, 3
_REQUESTS_PER_STALL = 2000
_MOST_REQUESTS = 4_000_000
"""A window is lengthened until it holds at least `_FEWEST_STALLS`, and one stall for each
`_REQUESTS_PER_STALL` requests it was to have, but not beyond `_MOST_REQUESTS`."""

_QUOTA_SLICE_PS = 5 * _PS_PER_MS
"""What a core takes of a CPU quota at a time: the kernel's default of
kernel.sched_cfs_bandwidth_slice_us."""

_PERIODS = 10
"""Periods of a CPU quota that a window holds at least; it holds whole ones, and so does what comes
before it."""

_CACHE_HOT_PS = 500 * _PS_PER_US
"""Linux's `sysctl_sched_migration_cost` (kernel/sched/fair.c)."""

_SLICES = 100
_ROUND_TRIPS = 50
"""Round trips of every client a closed-loop window holds at least."""


def times_of(inputs: NodeInputs) -> NodeTimes:
    """Durations of the node's steps.

    Where something happens every so often (a slow command, a snapshot) it is one request in so
    many. How many, the scenario's rate says, or in a closed loop a pilot run without it. Nothing
    else about durations is simulated.
    """
    rate_rps = inputs.scenario.workload.mean_rate_rps
    if rate_rps is None and stalls_of(inputs):
        rate_rps = pilot_run(inputs, node_times(inputs), seed=1).rate_rps
    return node_times(inputs, rate_rps=rate_rps)


def stalls_ps(inputs: NodeInputs, *, rate_rps: float, requests: int) -> int:
    """Duration of a run of a number of requests that sees enough stalls, if it has to."""
    most_s = _MOST_REQUESTS / rate_rps
    gaps_s = [stall.mean_gap_s(rate_rps) for stall in stalls_of(inputs)]
    # Those that hardly any window of bearable length holds are left to chance.
    gap_s = max((gap for gap in gaps_s if _LEAST_STALLS * gap <= most_s), default=0.0)
    wanted_s = gap_s * max(_FEWEST_STALLS, requests / _REQUESTS_PER_STALL)
    return round(min(wanted_s, most_s) * _PS_PER_S)


def node_setup(
    inputs: NodeInputs, *, warmup_ps: int, end_ps: int, seed: int, replication: int
) -> NodeSetup:
    """Counts and rules of a run."""
    scenario, engine = inputs.scenario, inputs.engine
    workload = scenario.workload
    generators = scenario.generator_threads
    open_loop = workload.arrival == "open_loop"
    interarrival_ps = 0
    if (rate_rps := workload.mean_rate_rps) is not None:
        interarrival_ps = round(_PS_PER_S * generators / rate_rps)
    backlog = _STEADY_BACKLOG if workload.varying.cycle_ps == 0 else _VARYING_BACKLOG
    events = scenario.events_per_io_thread
    period_ps = round(scenario.cpu_quota_period_ms * _PS_PER_MS)
    spin_ns = _SPIN_CHECKS * _SPIN_CHECK_CYCLES / inputs.speed.clock_ghz
    setup = NodeSetup(
        io_threads=scenario.io_threads,
        clients=workload.clients,
        generators=generators,
        pipeline=workload.pipeline,
        open_loop=int(open_loop),
        mean_interarrival_ps=interarrival_ps,
        think_ps=round(workload.think_us * _PS_PER_US),
        same_host=int(scenario.same_host),
        prefetch_batch=inputs.prefetch_batch,
        events_per_io_thread=engine.events_per_io_thread if events is None else events,
        whole_pipeline=int(engine.whole_pipeline),
        job_capacity=engine.job_capacity,
        spin_ps=round(spin_ns * 1000),
        ignite_period_ps=_IGNITE_PERIOD_PS // CONTROL_SPEEDUP,
        grow_period_ps=_GROW_PERIOD_PS // CONTROL_SPEEDUP,
        shrink_after_ps=_SHRINK_AFTER_PS // CONTROL_SPEEDUP,
        initial_active=2 if ignites_at_once(inputs) else 1,
        outstanding_limit=1 if open_loop else workload.pipeline,
        backlog_limit=-(-backlog // workload.clients),
        generator_spins=int(inputs.generator_spins and (open_loop or workload.think_us > 0)),
        warmup_ps=warmup_ps,
        end_ps=end_ps,
        series_ps=max(1, end_ps // 256),
        seed=seed,
        replication=replication,
        read_limit_bytes=read_limit_bytes(scenario, engine),
        write_limit_bytes=engine.write_limit_bytes,
        segment_bytes=segment_bytes(scenario, engine),
        interruption_gap_ps=interruption_gap_ps(inputs.speed),
        connection_gap_ps=connection_gap_ps(scenario),
        offload_handshakes=int(engine.tls == "io_threads_and_handshakes"),
        segment_size_bytes=round(inputs.speed.network_mtu_bytes) - IP_TCP_HEADER_BYTES,
        header_bytes=IP_TCP_HEADER_BYTES + ETHERNET_HEADER_BYTES,
        interrupt_cores=scenario.interrupt_cores,
        item_locks=item_locks(scenario.io_threads) if engine.threading.locks_items else 0,
        first_owner=0,
        owners=1,
        io_threads_do_reads=int(do_reads(scenario, engine)),
        clients_in_blocks=int(inputs.clients_in_blocks),
        generator_start_ps=round(inputs.generator.thread_start_us * _PS_PER_US),
        server_cores=inputs.sharing.server_cores,
        generator_cores=inputs.sharing.generator_cores,
        shared_cores=int(inputs.sharing.shared),
        slice_ps=round(inputs.speed.time_slice_us * _PS_PER_US),
        tick_ps=round(inputs.speed.timer_tick_us * _PS_PER_US),
        cache_hot_ps=_CACHE_HOT_PS,
        other_threads=inputs.sharing.others,
        main_pinned=int(inputs.sharing.main_pinned),
        quota_ps=round(inputs.sharing.quota_cores * period_ps),
        quota_period_ps=period_ps,
        quota_slice_ps=_QUOTA_SLICE_PS,
        hand_over_group=engine.hand_over_group,
        fsync_always=int(fsyncs_always(scenario)),
        replicas=scenario.replicas,
        random_pieces=int(workload.bursts is not None),
        trace_period_ps=workload.varying.cycle_ps if workload.trace is not None else 0,
    )
    return under_policy(engine.policy, setup)


def ignites_at_once(inputs: NodeInputs) -> bool:
    """Whether the load leaves no doubt that the first I/O thread starts.

    Clients that never pause keep a lone main thread busy; one turn of its loop then serves them
    all and lasts longer than a shortened sampling period, so the wait for it isn't simulated.
    """
    workload = inputs.scenario.workload
    if not inputs.policy.samples_load:
        return False
    return workload.arrival == "closed_loop" and workload.think_us == 0 and workload.clients >= 8


def settling_ps(inputs: NodeInputs, active: int | None = None) -> int:
    """How long the engine takes to decide how many I/O threads it uses.

    Parameters
    ----------
    active
        Threads active at the start, the main thread included; as `node_setup` says if left out.
    """
    if not inputs.policy.samples_load:
        return 0
    started = max(0, (active or 1) - 1)
    periods = (inputs.scenario.io_threads + 1 - started) * _GROW_PERIOD_PS
    if started == 0 and not ignites_at_once(inputs):
        periods += _IGNITE_PERIOD_PS
    return periods * _SAMPLES_PER_DECISION // CONTROL_SPEEDUP


def decisions_ps(inputs: NodeInputs) -> int:
    """How long an engine that starts and stops threads takes for two decisions about them."""
    return (
        2 * _SAMPLES_PER_DECISION * _GROW_PERIOD_PS // CONTROL_SPEEDUP if settling_ps(inputs) else 0
    )


def starting_ps(inputs: NodeInputs) -> int:
    """How long the load generator takes to start its threads."""
    if inputs.scenario.workload.arrival == "open_loop":
        return 0
    return round(inputs.scenario.generator_threads * inputs.generator.thread_start_us * _PS_PER_US)


def cycle_ps(inputs: NodeInputs) -> int:
    """How long Valkey 9.1 takes to stop its only I/O thread for lack of work and start it again."""
    if not inputs.policy.samples_load:
        return 0
    ignition = _SAMPLES_PER_DECISION * _IGNITE_PERIOD_PS
    return (_SHRINK_AFTER_PS + ignition) // CONTROL_SPEEDUP


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


def periods_ps(inputs: NodeInputs) -> int:
    """How long the periods of a CPU quota take that a window holds at least."""
    return _PERIODS * whole_periods(inputs, 1) if inputs.sharing.quota_cores else 0


def longest_ps(inputs: NodeInputs) -> int:
    """The longest run: an hour, or what the calendar's horizon leaves of it."""
    workload = inputs.scenario.workload
    agents = inputs.scenario.io_threads + inputs.scenario.generator_threads + workload.clients
    return min(_LONGEST_PS, horizon_ps(agents) - 1)


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
        Whether the engine went on starting and stopping one of its first I/O threads; one of many
        makes little difference.
    settled_ps
        Open loop: time after which the backlog showed no trend, or the loop was overloaded.
    active_threads
        Open loop: how many threads an engine that starts and stops them had settled on, the main
        thread included; 0 for other engines.
    events_per_s
        Events of the simulation in a simulated second.
    """

    rate_rps: float
    changing: bool
    settled_ps: int = 0
    active_threads: int = 0
    events_per_s: float = 0.0


def pilot_run(inputs: NodeInputs, times: NodeTimes, *, seed: int) -> Pilot:
    """Find out how fast a closed loop is, and when an open loop settles."""
    if inputs.scenario.workload.mean_rate_rps is not None:
        return _open_pilot(inputs, times, seed=seed)
    end_ps = min(
        longest_ps(inputs),
        2 * max(settling_ps(inputs), starting_ps(inputs), cycle_ps(inputs)) + 20 * _PS_PER_MS,
    )
    end_ps = max(end_ps, min(longest_ps(inputs), slices_ps(inputs) // 2))
    end_ps = 2 * whole_periods(inputs, -(-end_ps // 2))
    while True:
        setup = node_setup(inputs, warmup_ps=end_ps // 2, end_ps=end_ps, seed=seed, replication=0)
        result = simulate_node(inputs.engine.policy, times, setup)
        enough = result.completions >= PILOT_REQUESTS or result.events > _MOST_PILOT_EVENTS
        if enough or end_ps == longest_ps(inputs):
            return Pilot(
                max(result.throughput_rps, 1.0),
                changing=_alternates(inputs, result),
                events_per_s=result.events * _PS_PER_S / end_ps,
            )
        end_ps = min(longest_ps(inputs), 2 * end_ps)


def _alternates(inputs: NodeInputs, result: NodeResult) -> bool:
    """Whether the engine went on starting and stopping one of its first I/O threads."""
    helpers = result.counters["active_thread_ps"] / (result.window_s * _PS_PER_S)
    return result.counters["activations"] > 0 and helpers < 2.0 and cycle_ps(inputs) > 0


def _open_pilot(inputs: NodeInputs, times: NodeTimes, *, seed: int) -> Pilot:
    """A run of an open loop, made longer until threads and backlog have settled."""
    rate_rps = inputs.scenario.workload.mean_rate_rps or 0.0
    active = _surely_active(inputs, times)
    starts_ps = settling_ps(inputs, active) if active else 0
    begins = Pilot(rate_rps, changing=False, settled_ps=starts_ps, active_threads=active)
    first = window(inputs, begins, requests=OPEN_PILOT_REQUESTS)
    result, last = _settled_run(inputs, times, first, seed=seed, replication=0)
    overloaded = result.flow is not None and grows([growth_of(result)])
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


def window(inputs: NodeInputs, pilot: Pilot, *, requests: int) -> Window:
    """Warm-up and end of a run, by the number of requests it measures, in ps.

    The warm-up covers the
    engine's decisions about threads and ten round trips of every client, which a test holds against
    MSER-5. In an open loop it lasts until the pilot's threads and backlog had settled. Where
    requests are rare the window ends before it has as many.
    """
    workload = inputs.scenario.workload
    settle = settling_ps(inputs) + starting_ps(inputs)
    rare_ps = stalls_ps(inputs, rate_rps=pilot.rate_rps, requests=requests)
    if workload.arrival == "closed_loop":
        # Clients tend to move in step, so a window holds many of their round trips.
        requests = max(requests, _ROUND_TRIPS * workload.clients * workload.pipeline)
    measured_ps = math.ceil(requests / pilot.rate_rps * _PS_PER_S)
    measured_ps = max(measured_ps, slices_ps(inputs))
    if pilot.changing:
        # The engine starts and stops a thread in turn; both belong to what it does on average.
        measured_ps = max(measured_ps, _CYCLES * cycle_ps(inputs))
    measured_ps = max(measured_ps, rare_ps)
    # A few new connections make a difference; rare ones are left to chance.
    connections_ps = _CONNECTIONS * connection_gap_ps(inputs.scenario)
    measured_ps = max(measured_ps, min(connections_ps, _LONGER * measured_ps))
    round_trips = 10 * workload.clients * workload.pipeline
    warm_up_ps = math.ceil(round_trips / pilot.rate_rps * _PS_PER_S)
    if workload.arrival == "open_loop":
        most_ps = round(_MOST_REQUESTS / pilot.rate_rps * _PS_PER_S)
        measured_ps = workload.varying.measured_ps(measured_ps, most_ps=most_ps)
        settle = decisions_ps(inputs)
        warm_up_ps = max(measured_ps // 4, pilot.settled_ps)
    half_ps = longest_ps(inputs) // 2
    measured_ps = whole_periods(inputs, min(max(measured_ps, periods_ps(inputs)), half_ps))
    warmup_ps = min(settle + max(warm_up_ps, measured_ps // 5), half_ps)
    warmup_ps = whole_periods(inputs, warmup_ps)
    return Window(warmup_ps, warmup_ps + measured_ps, pilot.active_threads)


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
    found overloaded (`backlog.grows`).

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
    longest = _longest_measured_ps(inputs, end_ps - warmup_ps)
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
    growth = growth_of(result)
    in_time = growth.caught_up or warmup_ps >= settling_ps(inputs, begins.initial_active)
    return in_time and is_decided(growth)


def _longest_measured_ps(inputs: NodeInputs, measured_ps: int) -> int:
    """How long a window may become whose backlog has not settled."""
    rate_rps = inputs.scenario.workload.mean_rate_rps or math.inf
    return min(_LONGEST * measured_ps, round(_MOST_REQUESTS / rate_rps * _PS_PER_S))
