"""In which order clients are served, and what a load generator has in flight and counts."""

from typing import Any

import numpy as np
import pytest

from forecache.models.node.simulate import NodeResult, simulate_node
from tests.models.steady_node import ONLY_SETS, STEADY
from verification.nodes.sample_node import sample_setup, sample_times

CLIENTS = 200


def saturated(*, times: dict[str, Any] | None = None, **changes: Any) -> NodeResult:
    """One thread on the load generator's host, and more clients than it can serve at once."""
    setup = {"clients": CLIENTS, "generators": 20, "same_host": 1, "end_ps": 4 * 10**11}
    return simulate_node(
        "single_thread",
        sample_times(**(STEADY | ONLY_SETS | (times or {}))),
        sample_setup(**(setup | {"warmup_ps": 10**11} | changes)),
    )


def test_clients_answered_last_wait_two_turns_if_they_send_while_the_next_poll_looks() -> None:
    # A poll looks at 200 sockets for 20 us; to be woken and to send takes a client less.
    found = saturated(times={"poll_event_ps": 100_000}).latency
    turn_ps = found.quantile(0.5)
    assert found.quantile(0.999) == pytest.approx(2.0 * turn_ps, rel=0.05)
    # Nobody waits for a turn and a half.
    slow = found.quantile(0.999) * 0.9
    assert all(not 1.2 * turn_ps < found.quantile(q) < slow for q in np.linspace(0.5, 0.999, 500))


def test_if_they_send_after_it_they_are_served_first_in_the_turn_that_follows() -> None:
    found = saturated(times={"poll_event_ps": 100}).latency
    assert found.quantile(0.999) < 1.7 * found.quantile(0.5)


@pytest.mark.parametrize("read_bytes", [4096, 65_536])
def test_a_tool_that_refills_has_its_whole_pipeline_in_flight(read_bytes: int) -> None:
    sizes = {"request_bytes_by_code": np.array([40, 580]), "generator_reply_ps": 0}
    how = {"pipeline": 50, "outstanding_limit": 50, "generator_read_bytes": read_bytes}
    refilled = saturated(times=sizes, generator_refills=1, **how)
    in_flight = refilled.throughput_rps * refilled.latency.mean * 1e-12
    assert in_flight == pytest.approx(50 * CLIENTS, rel=0.03)
    # A read takes 28 of the 50: in batches, those wait for the other 22 before they are replaced.
    batches = saturated(times=sizes, **how)
    assert batches.throughput_rps * batches.latency.mean * 1e-12 < 0.85 * 50 * CLIENTS


def test_a_tool_may_count_a_batch_until_it_begins_to_read_the_first_reply() -> None:
    sizes = {"request_bytes_by_code": np.array([40, 580])}
    how = {"pipeline": 50, "outstanding_limit": 50, "clients": 1, "generators": 1}
    each, first = (saturated(times=sizes, counts_first_read=on, **how) for on in (0, 1))
    assert first.throughput_rps == each.throughput_rps
    # All of a batch as those 28 that the server read at once, less what it takes to read them.
    assert first.latency.max_ps < each.latency.quantile(0.3)


def test_a_tool_may_poll_before_it_sends() -> None:
    """Of a lone client each batch takes two."""
    how = {"clients": 1, "generators": 1}
    once, twice = (saturated(polls_to_send=on, **how) for on in (0, 1))
    polls = [run.counters["generator_polls"] / run.completions for run in (once, twice)]
    assert polls[1] == pytest.approx(2 * polls[0], rel=0.01)


def test_a_tool_that_polls_before_it_sends_takes_what_became_ready_first() -> None:
    """Replies and sends take turns, so that the server sleeps as often with 100 clients as with 10.

    Were all replies of a poll taken first, the server would have many requests at once after it:
    with 100 clients it slept a sixth as often.
    """
    costs = {"generator_recv_ps": 1_000_000, "generator_send_ps": 3_000_000}
    few, many = (
        saturated(times=costs, clients=clients, generators=1, polls_to_send=1)
        for clients in (10, 100)
    )
    assert few.load_generator_utilisation > 0.99
    sleeps = [run.counters["blocks"] / run.completions for run in (few, many)]
    assert sleeps[1] == pytest.approx(sleeps[0], rel=0.2)


def test_replies_of_more_bytes_than_a_read_takes_are_read_in_several() -> None:
    sizes = {"reply_bytes_by_code": np.array([500, 500])}
    how = {"pipeline": 10, "outstanding_limit": 10, "clients": 1, "generators": 1}
    polls = [
        result.counters["generator_polls"] * 10 / result.completions
        for result in (
            saturated(times=sizes, generator_read_bytes=size, **how) for size in (5_000, 2_000)
        )
    ]
    assert polls == pytest.approx([1.0, 3.0], rel=0.02)
