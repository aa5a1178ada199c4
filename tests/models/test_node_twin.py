"""The compiled and the SimPy execution of a node agree to the picosecond, whatever the scenario."""

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from forecache.models.node import layout as at
from forecache.models.node.policies import POLICIES, under_policy
from forecache.models.node.reference import ReferenceNode, run_reference
from forecache.models.node.setup import JITTER_ONE, NO_LIMIT, QUANTILES, NodeSetup
from forecache.models.node.simulate import COUNTERS, check_conservation, run_compiled
from forecache.models.step_times.stages import sibling_scale
from forecache.sim.native import library
from verification.nodes.sample_node import sample_setup, sample_times

# Enough to notice a slip; `python -m verification` compares two hundred of each policy.
EXAMPLES = 20 if settings.default.max_examples < 500 else settings.default.max_examples
LOG = 100_000


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    """A mistake in C ends in one message of the compiler, not in one for every scenario."""
    library(at.SOURCES)


TRACE_PERIOD_PS = 5 * 10**7
DUE_PS = st.integers(0, TRACE_PERIOD_PS)
# Shrinking a scenario takes minutes; a failure prints one that is small enough to read.
PHASES = [Phase.explicit, Phase.generate] if EXAMPLES < 500 else list(Phase)


@st.composite
def some_times(draw: st.DrawFn) -> dict[str, Any]:
    """Durations from nothing, where the model allows it, to microseconds: changes of the sample."""

    def at_most(limit_ps: int, least_ps: int = 0) -> int:
        return draw(st.integers(least_ps, limit_ps))

    changes: dict[str, Any] = {
        "one_way_ps": at_most(30_000_000, 1),
        "loop_ps": at_most(300_000, 20_000),
        "poll_ps": at_most(800_000),
        "doze_ps": draw(st.sampled_from([0, 1, 600_000, 5_000_000])),
        "scan_ps": draw(st.sampled_from([0, 1, 3_000])),
        "handover_ps": draw(st.sampled_from([0, 1, 60_000])),
        "push_ps": at_most(60_000),
        "send_ps": at_most(3_000_000),
        "recv_ps": at_most(1_000_000),
        "activate_ps": at_most(100_000),
        "wake_latency_ps": np.linspace(at_most(5_000_000, 1), at_most(5_000_000, 1), QUANTILES),
        "recv_ps_per_kib": at_most(200_000),
        "send_ps_per_kib": at_most(200_000),
        "generator_recv_ps_per_kib": at_most(200_000),
        "generator_send_ps_per_kib": at_most(200_000),
        "generator_send_ps": at_most(3_000_000, 100_000),
        "wire_ps_per_kib": draw(st.sampled_from([0, 80_000, 1_000_000])),
        # GET, and SET of a value that fits a read, needs several, or is a big argument.
        "request_bytes_by_code": np.array(
            [40, draw(st.one_of(st.integers(30, 3_000), st.sampled_from([20_000, 50_000])))]
        ),
        "reply_bytes_by_code": np.array([draw(st.sampled_from([5, 520, 70_000])), 5]),
        "write_by_code_ps": np.array([draw(st.sampled_from([0, 250_000])), 0]),
        "free_by_code_ps": np.array([0, draw(st.sampled_from([0, 1, 200_000, 5_000_000]))]),
        "free_push_ps": at_most(30_000),
        "rare_below_by_code": np.array([0, draw(st.sampled_from([0, 0, 2**30]))]),
        "keys_by_code": np.array([draw(st.sampled_from([1, 1, 2, 10, 40])), 1]),
        "free_arguments_ps": draw(st.sampled_from([0, 1, 80_000, 2_000_000])),
        "accept_ps": at_most(20_000_000),
        "own_turn_ps": at_most(100_000, 20_000),
        "notify_ps": at_most(600_000),
        "notice_ps": at_most(600_000),
        "handshake_ps": at_most(300_000_000, 1),
        "publish_ps": at_most(100_000),
        "packet_ps": draw(st.sampled_from([0, 0, 1, 100_000])),
        "flow_ps_per_kib": draw(st.sampled_from([0, 0, 160_000, 2_000_000])),
        "softirq_ps": at_most(2_000_000),
        "rearm_ps": at_most(2_000_000),
        "futex_ps": at_most(600_000),
        "section_ps": np.full(7, draw(st.sampled_from([0, 1, 20_000, 700_000]))),
        "section_moved_ps": np.full(7, draw(st.sampled_from([0, 1, 90_000]))),
        # Commands on a popular key have one of few locks.
        "lock_by_draw": np.where(np.arange(1024) < draw(st.sampled_from([0, 100, 1024])), 0, -1),
    }
    if draw(st.booleans()):
        changes["stall_ps"] = np.zeros((2, QUANTILES), np.int64)
    if draw(st.booleans()):
        changes["jitter"] = np.full(QUANTILES, JITTER_ONE)
    return changes


@st.composite
def some_workload(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, int]]:
    """Logged writes and a changing rate of arrivals: changes of the durations and of the setup."""
    logged_bytes = draw(st.sampled_from([0, 0, 30, 5_000]))
    changes: dict[str, Any] = {
        "flush_ps": draw(st.integers(0, 5_000_000)),
        "logged_bytes_by_code": np.array([0, logged_bytes]),
    }
    arriving = draw(st.sampled_from(["steadily", "in pieces", "as traced"]))
    if arriving == "in pieces":
        pieces = draw(st.integers(1, 3))
        lasting = [draw(st.integers(10**6, 10**8)) for _ in range(pieces)]
        gaps = [draw(st.sampled_from([0, 500_000, 3_000_000, 10**8])) for _ in range(pieces - 1)]
        gaps.append(draw(st.integers(400_000, 10**7)))
        changes |= {"piece_ps": np.array(lasting), "piece_gap_ps": np.array(gaps)}
    elif arriving == "as traced":
        rows = draw(st.lists(st.tuples(DUE_PS, st.integers(0, 1)), min_size=1, max_size=40))
        due_ps, codes = np.array(sorted(rows)).T
        changes |= {"trace_due_ps": due_ps, "trace_code": codes}
    return changes, {
        "fsync_always": draw(st.sampled_from([0, 0, 1])),
        "replicas": draw(st.sampled_from([0, 0, 2])),
        "random_pieces": draw(st.integers(0, 1)),
        "trace_period_ps": TRACE_PERIOD_PS,
    }


@st.composite
def some_setup(draw: st.DrawFn, policy: str) -> NodeSetup:
    """Counts and rules, of runs of about a millisecond."""
    io_threads = 1 if policy == "single_thread" else draw(st.integers(2, 6))
    clients = draw(st.integers(1, 60))
    pipeline = draw(st.sampled_from([1, 1, 2, 4, 16, 40]))
    open_loop = draw(st.sampled_from([0, 0, 1]))
    think_ps = draw(st.sampled_from([0, 0, 1, 20_000_000]))
    refills = 0 if open_loop or think_ps else draw(st.integers(0, 1))
    polls_to_send = 0 if open_loop or think_ps or refills else draw(st.integers(0, 1))
    shared = policy == "shared_queues"
    return sample_setup(
        io_threads=io_threads,
        clients=clients,
        generators=draw(st.integers(1, min(clients, 6))),
        pipeline=pipeline,
        open_loop=open_loop,
        think_ps=think_ps,
        same_host=draw(st.integers(0, 1)),
        mean_interarrival_ps=draw(st.integers(1_000_000, 20_000_000)),
        outstanding_limit=1 if open_loop else pipeline,
        backlog_limit=draw(st.sampled_from([1, 64])),
        generator_spins=draw(st.integers(0, 1)),
        prefetch_batch=draw(st.sampled_from([0, 1, 4, 16])),
        events_per_io_thread=draw(st.sampled_from([0, 1, 2, 5])),
        whole_pipeline=1 if shared else draw(st.integers(0, 1)),
        lookahead=draw(st.sampled_from([NO_LIMIT, 16, 2, 3])),
        job_capacity=draw(st.sampled_from([2, 4, 2048])),
        spin_ps=draw(st.sampled_from([1, 10**9])),
        initial_active=draw(st.integers(1, io_threads)) if shared else 1,
        ignite_period_ps=draw(st.integers(10**6, 10**8)),
        grow_period_ps=draw(st.integers(10**6, 10**8)),
        shrink_after_ps=draw(st.sampled_from([10**7, 10**8, 10**10])),
        warmup_ps=draw(st.integers(0, 4 * 10**8)),
        end_ps=draw(st.integers(4 * 10**8 + 1, 12 * 10**8)),
        series_ps=10**8,
        read_limit_bytes=draw(st.sampled_from([1_000, 16_384])),
        commands_per_event=draw(st.sampled_from([NO_LIMIT, NO_LIMIT, 1, 5])),
        write_limit_bytes=draw(st.sampled_from([260, 520, 65_536])),
        segment_bytes=draw(st.sampled_from([450, 65_536])),
        seed=draw(st.integers(1, 10**6)),
        replication=draw(st.integers(0, 5)),
        connection_gap_ps=draw(st.sampled_from([0, 0, 10**7, 3 * 10**8])),
        offload_handshakes=draw(st.integers(0, 1)),
        io_threads_do_reads=draw(st.integers(0, 1)),
        clients_in_blocks=draw(st.integers(0, 1)),
        generator_refills=refills,
        generator_read_bytes=draw(st.sampled_from([300, 4_096, 1 << 16])),
        counts_first_read=draw(st.integers(0, 1)),
        polls_to_send=polls_to_send,
        generator_start_ps=draw(st.sampled_from([0, 1, 30_000_000])),
        hand_over_group=draw(st.sampled_from([1, 2, 16, NO_LIMIT])),
        segment_size_bytes=draw(st.sampled_from([500, 1_448, 8_949])),
        header_bytes=draw(st.sampled_from([0, 66])),
        interrupt_cores=draw(st.sampled_from([0, 0, 1, 3])),
        item_locks=draw(st.sampled_from([1, 2, 64])),
    )


LONGEST_INTERRUPTIONS_PS = st.sampled_from([0, 1, 500_000, 5_000_000, 30_000_000])
# None, or up to so many that the longest ones take half of the time.
INTERRUPTION_GAPS_PS = st.sampled_from([0, 10**9, 2 * 10**8, 3 * 10**7])


def interruptions(longest_ps: int) -> np.ndarray:
    """(256,) durations, equally likely up to the longest."""
    return np.linspace(0, longest_ps, QUANTILES).astype(np.int64)


def differences(node: at.Node, reference: ReferenceNode) -> list[str]:
    """Everything the two runs disagree in, in words."""
    setup = node.setup
    log = node.log()
    log = log[np.lexsort((log[:, 1], log[:, 0]))]
    known = np.array(sorted(reference.log), np.int64).reshape(-1, 3)
    # The compiled execution notes a completion when the client begins to take the reply.
    found, expected = log[log[:, 2] < setup.end_ps], known[known[:, 2] < setup.end_ps]
    wrong = [] if np.array_equal(found, expected) else ["completions"]
    for name in COUNTERS:
        # The reference does not close the last interval of active threads.
        if name != "active_thread_ps" and node.counter(name) != reference.counters[name]:
            wrong.append(f"{name}: {node.counter(name)}, reference {reference.counters[name]}")
    for number in range(setup.io_threads + setup.generators):
        thread = reference.threads[number]
        if node.thread(number, "busy_ps") != thread.busy_ps:
            wrong.append(f"busy time of thread {number}")
    if node.thread(0, "on_cpu_ps") != reference.threads[0].on_cpu_ps:
        wrong.append("CPU time of the main thread")
    for agent in reference.scheduler.agents:
        if node.on_core_ps(agent.number) != agent.on_core_ps:
            wrong.append(f"time on a core of thread {agent.number}")
    backlogs = reference.backlog_at_start, reference.backlog
    if setup.open_loop and (node.backlog_at_start(), node.backlog_at_end()) != backlogs:
        wrong.append("backlogs")
    if node.latency() != reference.latency:
        wrong.append("latencies")
    return wrong


def compare(policy: str, changes: dict[str, Any], setup: NodeSetup) -> int:
    """Run both, fail on any difference; returns how many completions were compared."""
    return len(compared(policy, changes, setup).log())


def compared(policy: str, changes: dict[str, Any], setup: NodeSetup) -> at.Node:
    """Run both, fail on any difference; returns the compiled run."""
    times = sample_times(**changes)
    setup = under_policy(policy, setup)
    node = at.new_node(times, setup, log_completions=LOG)
    run_compiled(policy, node)
    check_conservation(node)
    assert differences(node, run_reference(policy, times, setup)) == []
    return node


def completions_of_random_scenarios(policy: str, examples: int) -> list[int]:
    """Completed requests of so many random scenarios in which both executions agree."""
    completions = []

    @settings(max_examples=examples, phases=PHASES)
    @given(
        changes=some_times(),
        setup=some_setup(policy),
        gap_ps=INTERRUPTION_GAPS_PS,
        longest_ps=LONGEST_INTERRUPTIONS_PS,
        workload=some_workload(),
    )
    def agree(
        changes: dict[str, Any],
        setup: NodeSetup,
        gap_ps: int,
        longest_ps: int,
        workload: tuple[dict[str, Any], dict[str, int]],
    ) -> None:
        setup = setup._replace(interruption_gap_ps=gap_ps, **workload[1])
        changes = {**changes, **workload[0], "interruption_ps": interruptions(longest_ps)}
        completions.append(compare(policy, changes, setup))

    agree()
    return completions


@pytest.mark.parametrize("policy", POLICIES)
def test_both_executions_agree(policy: str) -> None:
    completions = completions_of_random_scenarios(policy, EXAMPLES)
    # Scenarios in which nothing happens would agree as well.
    assert len(completions) >= EXAMPLES - 4
    assert sum(number > 20 for number in completions) >= EXAMPLES / 5, completions
    assert max(completions) < LOG


@st.composite
def some_shared_cores(draw: st.DrawFn, policy: str) -> NodeSetup:
    """Counts and rules with cores that threads share, for slices up to longer than a run."""
    setup = draw(some_setup(policy))
    pinned = draw(st.sampled_from([0, 0, 1]))
    return setup._replace(
        server_cores=draw(st.integers(1, max(1, setup.io_threads - 1 - pinned))) + pinned,
        main_pinned=pinned,
        generator_cores=draw(st.integers(1, setup.generators)),
        shared_cores=draw(st.integers(0, 1)),
        slice_ps=draw(st.sampled_from([1_000_000, 5_000_000, 60_000_000, 10**9])),
        tick_ps=draw(st.sampled_from([0, 3_000_000, 100_000_000])),
        cache_hot_ps=draw(st.sampled_from([0, 2_000_000, 500_000_000])),
        other_threads=draw(st.sampled_from([0, 0, 1, 3])),
    )


@st.composite
def some_quota(draw: st.DrawFn, setup: NodeSetup) -> NodeSetup:
    """A quota of CPU time, periods from a tenth of a run up, on cores of their own or shared."""
    shared = draw(st.booleans())
    period_ps = draw(st.sampled_from([30_000_000, 10**8, 4 * 10**8]))
    return setup._replace(
        server_cores=setup.server_cores if shared else 0,
        quota_ps=max(1, int(period_ps * draw(st.sampled_from([0.01, 0.3, 0.9, 2.5])))),
        quota_period_ps=period_ps,
        quota_slice_ps=draw(st.sampled_from([1_000_000, 5_000_000, 50_000_000])),
        tick_ps=draw(st.sampled_from([0, 3_000_000, 40_000_000])),
    )


def switches_of_random_scenarios(policy: str, examples: int) -> list[int]:
    """Switches between threads in so many scenarios with fewer cores, in which both agree."""
    switches = []

    @settings(max_examples=examples, phases=PHASES)
    @given(
        changes=some_times(),
        setup=some_shared_cores(policy),
        gap_ps=st.sampled_from([0, 0, 2 * 10**8]),
        switch_ps=st.sampled_from([0, 1, 2_000_000]),
    )
    def agree(changes: dict[str, Any], setup: NodeSetup, gap_ps: int, switch_ps: int) -> None:
        setup = setup._replace(interruption_gap_ps=gap_ps)
        changes = {**changes, "switch_ps": switch_ps, "interruption_ps": interruptions(30_000_000)}
        node = compared(policy, changes, setup)
        switches.append(node.counter("switches"))

    agree()
    return switches


@pytest.mark.parametrize("policy", POLICIES)
def test_both_executions_agree_on_threads_that_share_cores(policy: str) -> None:
    switches = switches_of_random_scenarios(policy, EXAMPLES // 2)
    # Where nobody waits for a core there is nothing to agree on.
    assert max(switches) > 10
    assert sum(number > 0 for number in switches) >= len(switches) / 5


def throttles_of_random_scenarios(policy: str, examples: int) -> list[int]:
    """Cores throttled in so many scenarios with a quota of CPU time, in which both agree."""
    throttles = []

    @settings(max_examples=examples, phases=PHASES)
    @given(
        changes=some_times(),
        setup=some_shared_cores(policy).flatmap(some_quota),
        gap_ps=st.sampled_from([0, 0, 2 * 10**8]),
        switch_ps=st.sampled_from([0, 1, 2_000_000]),
    )
    def agree(changes: dict[str, Any], setup: NodeSetup, gap_ps: int, switch_ps: int) -> None:
        setup = setup._replace(interruption_gap_ps=gap_ps)
        changes = {**changes, "switch_ps": switch_ps, "interruption_ps": interruptions(30_000_000)}
        node = compared(policy, changes, setup)
        throttles.append(node.counter("throttles"))

    agree()
    return throttles


@pytest.mark.parametrize("policy", POLICIES)
def test_both_executions_agree_on_threads_that_a_quota_stops(policy: str) -> None:
    throttles = throttles_of_random_scenarios(policy, EXAMPLES)
    # Where nobody is stopped there is nothing to agree on.
    assert sum(number > 1 for number in throttles) >= len(throttles) / 5


@st.composite
def some_siblings(draw: st.DrawFn, policy: str) -> tuple[NodeSetup, np.ndarray]:
    """Threads on fewer physical cores than may be busy, and how much slower that makes them."""
    setup = draw(some_shared_cores(policy))
    threads = draw(st.sampled_from([setup.io_threads, setup.io_threads + setup.generators]))
    if draw(st.booleans()):
        setup = setup._replace(server_cores=0, generator_cores=0)
    speed = draw(st.sampled_from([0.5, 0.63, 0.8]))
    scale = sibling_scale(draw(st.integers(1, max(1, threads - 1))), speed)
    return setup._replace(sibling_threads=threads), scale


def slower_in_random_scenarios(policy: str, examples: int) -> list[bool]:
    """Whether siblings change anything, in so many scenarios in which both executions agree."""
    changed = []

    @settings(max_examples=examples, phases=PHASES)
    @given(
        changes=some_times(),
        siblings=some_siblings(policy),
        gap_ps=st.sampled_from([0, 0, 2 * 10**8]),
    )
    def agree(changes: dict[str, Any], siblings: tuple[NodeSetup, np.ndarray], gap_ps: int) -> None:
        setup, scale = siblings
        setup = setup._replace(interruption_gap_ps=gap_ps)
        changes = {**changes, "sibling_scale": scale, "interruption_ps": interruptions(30_000_000)}
        node = compared(policy, changes, setup)
        alone = at.new_node(
            sample_times(**changes), under_policy(policy, setup), log_completions=LOG
        )
        alone.head["sibling_threads"] = 0
        run_compiled(policy, alone)
        changed.append(not np.array_equal(node.log(), alone.log()))

    agree()
    return changed


@pytest.mark.parametrize("policy", POLICIES)
def test_both_executions_agree_on_threads_that_share_physical_cores(policy: str) -> None:
    changed = slower_in_random_scenarios(policy, EXAMPLES // 2)
    assert sum(changed) >= len(changed) / 5


# What exploration once found.


@pytest.mark.parametrize("policy", POLICIES)
def test_they_agree_on_requests_that_find_no_room(policy: str) -> None:
    setup = sample_setup(
        io_threads=1 if policy == "single_thread" else 2,
        clients=3,
        generators=3,
        open_loop=1,
        mean_interarrival_ps=4_161_760,
        backlog_limit=1,
        end_ps=5 * 10**8,
        seed=769,
    )
    changes = {
        "one_way_ps": 89,
        "wire_ps_per_kib": 0,
        "wake_latency_ps": 12,
        "generator_send_ps": 719_868,
        "request_bytes_by_code": np.array([40, 50_000]),
    }
    assert compare(policy, changes, setup) > 70


def test_they_agree_when_a_turn_ends_exactly_at_a_sample() -> None:
    setup = sample_setup(
        io_threads=4,
        clients=60,
        generators=1,
        think_ps=1,
        prefetch_batch=1,
        whole_pipeline=1,
        ignite_period_ps=10**6,
        grow_period_ps=10**6,
        shrink_after_ps=10**10,
        warmup_ps=3_903,
        end_ps=9 * 10**8,
        seed=630_608,
        replication=3,
    )
    changes = {
        "one_way_ps": 16_162,
        "loop_ps": 20_000,
        "poll_ps": 82,
        "scan_ps": 3_000,
        "push_ps": 31_429,
        "send_ps": 31_429,
        "recv_ps": 60,
        "activate_ps": 190,
        "wake_latency_ps": 4_147_528,
        "generator_send_ps": 172_513,
        "wire_ps_per_kib": 10**6,
        "request_bytes_by_code": np.array([40, 50_000]),
        "reply_bytes_by_code": np.array([5, 5]),
        "stall_ps": np.zeros((2, QUANTILES), np.int64),
        "jitter": np.full(QUANTILES, JITTER_ONE),
    }
    assert compare("shared_queues", changes, setup) > 50


def test_they_agree_when_the_main_thread_loses_its_core_at_the_last_moment() -> None:
    setup = sample_setup(
        io_threads=4,
        clients=11,
        generators=3,
        open_loop=1,
        mean_interarrival_ps=19_165_838,
        whole_pipeline=1,
        initial_active=2,
        ignite_period_ps=24_929_797,
        grow_period_ps=5_477_361,
        end_ps=10**9 + 1,
        seed=61_792,
        server_cores=1,
        slice_ps=60_000_000,
        tick_ps=100_000_000,
        other_threads=1,
    )
    node = compared("shared_queues", {}, setup)
    assert node.counter("switches") >= 9


def test_they_agree_on_jobs_for_a_thread_that_never_had_a_core_yet() -> None:
    setup = sample_setup(
        io_threads=6,
        clients=38,
        generators=5,
        pipeline=4,
        same_host=1,
        prefetch_batch=1,
        whole_pipeline=1,
        initial_active=6,
        end_ps=10**8,
        seed=532_479,
        server_cores=2,
        main_pinned=1,
        slice_ps=10**7,
        tick_ps=0,
    )
    assert compared("shared_queues", {}, setup).counter("switches") >= 5


def test_they_agree_on_shares_for_a_thread_that_never_had_a_core_yet() -> None:
    setup = sample_setup(
        io_threads=3,
        clients=46,
        generators=5,
        same_host=1,
        io_threads_do_reads=1,
        server_cores=2,
        main_pinned=1,
        slice_ps=5_000_000,
        tick_ps=0,
        other_threads=1,
    )
    assert compared("fork_join", {"switch_ps": 20_000_000}, setup).counter("switches") >= 4


def test_they_agree_on_a_main_thread_that_never_had_a_core_yet() -> None:
    setup = sample_setup(
        io_threads=6, clients_in_blocks=1, server_cores=3, slice_ps=5_000_000, other_threads=3
    )
    assert compared("owning_threads", {}, setup).counter("switches") >= 5


def test_a_thread_that_spins_is_woken_only_once_it_has_taken_its_core_over() -> None:
    # Two threads of the load generator spin on one core and swap it every slice.
    slice_ps, switch_ps = 5_000_000, 2_000_000
    setup = sample_setup(
        io_threads=1,
        clients=2,
        generators=2,
        generator_spins=1,
        same_host=1,
        server_cores=1,
        generator_cores=1,
        slice_ps=slice_ps,
        tick_ps=0,
        warmup_ps=0,
    )
    changes = {"switch_ps": switch_ps}
    # It ends in a switch, of whose thread nothing counts yet.
    compare("single_thread", changes, setup._replace(end_ps=4 * slice_ps + 1_500_000))
    node = compared("single_thread", changes, setup._replace(end_ps=80 * slice_ps))
    swapped = node.log()[node.log()[:, 2] > slice_ps]
    assert len(swapped) > 50
    assert (swapped[:, 2] % slice_ps > switch_ps).all()
