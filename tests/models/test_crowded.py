"""More runnable threads than cores: what sharing them does to a server."""

from typing import Any

import pytest

from forecache.models.node.sample import sample_setup, sample_times
from forecache.models.node.simulate import NodeResult, simulate_node

POLICIES = ("asynchronous", "fork_join", "shared_queues")
_END_PS = 60 * 10**9


def run(policy: str, **changes: Any) -> NodeResult:
    """A closed loop of many clients over a fast network, slices of 1.4 ms at ticks of 4 ms."""
    setup = sample_setup(
        clients=60,
        generators=4,
        io_threads_do_reads=1,
        whole_pipeline=int(policy == "shared_queues"),
        initial_active=changes["io_threads"] if policy == "shared_queues" else 1,
        warmup_ps=_END_PS // 4,
        end_ps=_END_PS,
        **changes,
    )
    return simulate_node(policy, sample_times(one_way_ps=1_000_000), setup)


@pytest.mark.parametrize("policy", POLICIES)
def test_enough_cores_change_nothing(policy: str) -> None:
    alone = run(policy, io_threads=4)
    enough = run(policy, io_threads=4, server_cores=4, generator_cores=4)
    assert enough.counters == alone.counters
    assert enough.latency == alone.latency
    assert alone.core_utilisation == enough.core_utilisation == 0.0


def test_threads_that_never_meet_share_a_core_without_loss() -> None:
    """Two stopped I/O threads sleep on their mutex: the main thread has the core to itself."""
    changes = {"io_threads": 3, "events_per_io_thread": 1000, "spin_ps": 1_000_000}
    alone = run("asynchronous", **changes)
    sharing = run("asynchronous", server_cores=1, **changes)
    assert sharing.throughput_rps == pytest.approx(alone.throughput_rps, rel=0.01)


@pytest.mark.parametrize("policy", POLICIES)
def test_five_threads_on_four_cores_lose(policy: str) -> None:
    """https://github.com/redis/redis/issues/13003: performance drops severely."""
    four = run(policy, io_threads=4, server_cores=4)
    five = run(policy, io_threads=5, server_cores=4)
    # Where all wait for the slowest the loss is a collapse.
    at_most = 0.5 if policy == "fork_join" else 0.85
    assert five.throughput_rps < at_most * four.throughput_rps
    assert five.core_utilisation == pytest.approx(1.0, abs=0.02)


def test_shorter_slices_lose_less() -> None:
    sluggish = run("fork_join", io_threads=5, server_cores=4)
    quick = run("fork_join", io_threads=5, server_cores=4, slice_ps=10**8, tick_ps=10**8)
    assert quick.throughput_rps > 2 * sluggish.throughput_rps


def test_a_single_thread_shares_its_core_fairly_with_a_busy_generator() -> None:
    """Neither starves: what one completes the other has sent."""
    alone = run("single_thread", io_threads=1)
    sharing = run("single_thread", io_threads=1, server_cores=1, shared_cores=1, same_host=1)
    assert 0.2 * alone.throughput_rps < sharing.throughput_rps < 0.9 * alone.throughput_rps
    assert sharing.core_utilisation > 0.95
