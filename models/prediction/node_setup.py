"""Counts and rules of a run of a node."""

from __future__ import annotations

from ..node.policies import under_policy
from ..node.setup import NO_LIMIT, NodeSetup
from ..step_times.cores import beside_server, interruption_gap_ps
from ..step_times.inputs import NodeInputs, kept
from ..step_times.persistence import fsyncs_always
from ..step_times.policy_times import do_reads, item_locks, list_shares
from ..step_times.wire import (
    ETHERNET_HEADER_BYTES,
    IP_TCP_HEADER_BYTES,
    connection_gap_ps,
    read_limit_bytes,
    segment_bytes,
    write_limit_bytes,
)

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

IGNITE_PERIOD_PS = 50 * _PS_PER_MS
GROW_PERIOD_PS = 10 * _PS_PER_MS
SHRINK_AFTER_PS = 1000 * _PS_PER_MS
SAMPLES_PER_DECISION = 16

_SPIN_CHECKS = 1_000_000
_SPIN_CHECK_CYCLES = 2
"""Looks for work of an idle I/O thread of Valkey 8.0 before it sleeps. A look is a dozen
instructions on lines that nobody writes meanwhile: on a Zen 5 host at 4.1 GHz a thread of Valkey
8.1.1 slept 0.49 to 0.51 ms after its main thread did (sched_switch); a loop like its own took 0.50
ms."""

_QUOTA_SLICE_PS = 5 * _PS_PER_MS
"""What a core takes of a CPU quota at a time: the kernel's default of
kernel.sched_cfs_bandwidth_slice_us."""

_CACHE_HOT_PS = 500 * _PS_PER_US
"""Linux's `sysctl_sched_migration_cost` (kernel/sched/fair.c)."""


def node_setup(
    inputs: NodeInputs, *, warmup_ps: int, end_ps: int, seed: int, replication: int
) -> NodeSetup:
    """Counts and rules of a run."""
    return _any_run(inputs)._replace(
        warmup_ps=warmup_ps,
        end_ps=end_ps,
        series_ps=max(1, end_ps // 256),
        seed=seed,
        replication=replication,
    )


@kept
def _any_run(inputs: NodeInputs) -> NodeSetup:
    """Those of a run that has no length and no seed yet."""
    scenario, engine = inputs.scenario, inputs.engine
    workload = scenario.workload
    generators = scenario.generator_threads
    open_loop = workload.arrival == "open_loop"
    rules, has_to_wait = inputs.generator_rules, open_loop or workload.think_us > 0
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
        lookahead=engine.lookahead or NO_LIMIT,
        job_capacity=engine.job_capacity,
        spin_ps=round(spin_ns * 1000),
        ignite_period_ps=IGNITE_PERIOD_PS // CONTROL_SPEEDUP,
        grow_period_ps=GROW_PERIOD_PS // CONTROL_SPEEDUP,
        shrink_after_ps=SHRINK_AFTER_PS // CONTROL_SPEEDUP,
        initial_active=2 if ignites_at_once(inputs) else 1,
        outstanding_limit=1 if open_loop else workload.pipeline,
        backlog_limit=-(-backlog // workload.clients),
        generator_spins=int(rules.spins_when_due and has_to_wait),
        warmup_ps=0,
        end_ps=0,
        series_ps=0,
        seed=0,
        replication=0,
        read_limit_bytes=read_limit_bytes(scenario, engine),
        commands_per_event=engine.commands_per_event or NO_LIMIT,
        write_limit_bytes=write_limit_bytes(scenario, engine),
        segment_bytes=segment_bytes(scenario, engine),
        interruption_gap_ps=interruption_gap_ps(inputs.speed),
        connection_gap_ps=connection_gap_ps(scenario),
        offload_handshakes=int(engine.tls == "io_threads_and_handshakes"),
        segment_size_bytes=round(inputs.speed.network_mtu_bytes) - IP_TCP_HEADER_BYTES,
        header_bytes=IP_TCP_HEADER_BYTES + ETHERNET_HEADER_BYTES,
        interrupt_cores=scenario.interrupt_cores,
        lists=len(list_shares(workload)),
        item_locks=item_locks(scenario.io_threads) if engine.threading.locks_items else 0,
        first_owner=0,
        owners=1,
        io_threads_do_reads=int(do_reads(scenario, engine)),
        clients_in_blocks=int(rules.connects_in_blocks),
        generator_start_ps=round(inputs.generator.thread_start_us * _PS_PER_US),
        server_cores=inputs.sharing.server_cores,
        generator_cores=inputs.sharing.generator_cores,
        shared_cores=int(inputs.sharing.shared),
        slice_ps=round(inputs.speed.time_slice_us * _PS_PER_US),
        tick_ps=round(inputs.speed.timer_tick_us * _PS_PER_US),
        cache_hot_ps=_CACHE_HOT_PS,
        other_threads=inputs.sharing.others,
        main_pinned=int(inputs.sharing.main_pinned),
        sibling_threads=sibling_threads(inputs),
        quota_ps=round(inputs.sharing.quota_cores * period_ps),
        quota_period_ps=period_ps,
        quota_slice_ps=_QUOTA_SLICE_PS,
        hand_over_group=engine.hand_over_group or NO_LIMIT,
        fsync_always=int(fsyncs_always(scenario)),
        replicas=scenario.replicas,
        random_pieces=int(workload.bursts is not None),
        trace_period_ps=workload.varying.cycle_ps if workload.trace is not None else 0,
        generator_refills=int(rules.refills and workload.pipeline > 1 and not has_to_wait),
        polls_to_send=int(inputs.polls_to_send),
        generator_read_bytes=rules.read_bytes,
        counts_first_read=int(rules.counts_first_read),
    )
    return under_policy(engine.policy, setup)


def sibling_threads(inputs: NodeInputs) -> int:
    """Threads, from the first, that may have to share a physical core with another one."""
    scenario = inputs.scenario
    if inputs.sharing.physical_cores == 0:
        return 0
    beside = beside_server(scenario)
    if scenario.physical_cores is not None:
        beside = inputs.sharing.shared
    return scenario.io_threads + (scenario.generator_threads if beside else 0)


def ignites_at_once(inputs: NodeInputs) -> bool:
    """Whether the load leaves no doubt that the first I/O thread starts.

    Clients that never pause keep a lone main thread busy; one turn of its loop then serves them
    all and lasts longer than a shortened sampling period, so the wait for it isn't simulated.
    """
    workload = inputs.scenario.workload
    if not inputs.policy.samples_load:
        return False
    return workload.arrival == "closed_loop" and workload.think_us == 0 and workload.clients >= 8
