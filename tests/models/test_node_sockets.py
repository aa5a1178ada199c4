"""How many calls a node needs to read requests and write replies, and what each carries."""

from typing import Any

import numpy as np
import pytest

from forecache.models.node.simulate import simulate_node
from tests.models.steady_node import ONLY_SETS, STEADY, run
from verification.nodes.sample_node import sample_setup, sample_times

# --- reading --------------------------------------------------------------------------------------


def lone_client(command_bytes: int, pipeline: int, **changes: Any) -> dict[str, int]:
    """Counters of one client of a single-threaded engine, whole batches only."""
    times = sample_times(**STEADY, **ONLY_SETS, request_bytes_by_code=np.array([40, command_bytes]))
    setup = sample_setup(clients=1, generators=1, pipeline=pipeline, end_ps=10**10, **changes)
    return simulate_node("single_thread", times, setup).counters


@pytest.mark.parametrize(
    ("command_bytes", "pipeline", "reads"),
    [
        (580, 1, 1),
        (580, 28, 1),  # 16,240 bytes: one read
        (580, 29, 2),
        (580, 64, 3),
        (16_384, 1, 1),
        (30_000, 1, 2),
        (60_000, 1, 2),  # a big argument: once it is known, the rest comes in one read
        (60_000, 2, 4),
    ],
)
def test_reads_take_16_kib_and_big_arguments_to_their_end(
    command_bytes: int, pipeline: int, reads: int
) -> None:
    counters = lone_client(command_bytes, pipeline)
    batches = counters["completions"] / pipeline
    assert batches > 50
    assert counters["reads"] / batches == pytest.approx(reads, rel=0.02)


@pytest.mark.parametrize(
    ("limit_bytes", "reads"), [(16_384, 3), (20_475, 2), (37_119, 2), (37_120, 1), (40_950, 1)]
)
def test_reads_take_what_their_limit_says(limit_bytes: int, reads: int) -> None:
    counters = lone_client(580, 64, read_limit_bytes=limit_bytes)
    batches = counters["completions"] / 64
    assert batches > 50
    assert counters["reads"] / batches == pytest.approx(reads, rel=0.02)


@pytest.mark.parametrize(("pipeline", "turns"), [(20, 1), (21, 2), (64, 4)])
def test_a_client_of_more_commands_than_an_event_takes_waits_for_the_next_turn(
    pipeline: int, turns: int
) -> None:
    counters = lone_client(40, pipeline, commands_per_event=20)
    batches = counters["completions"] / pipeline
    assert batches > 50
    for each in ("reads", "writes", "loops"):
        assert counters[each] / batches == pytest.approx(turns, rel=0.02)
    # What one recv has read is served in all of these turns; in between, epoll is asked for
    # sockets that can be written to.
    assert counters["resumed_reads"] / batches == pytest.approx(turns - 1, rel=0.02)
    assert counters["rearms"] / batches == pytest.approx(2 * (turns > 1), rel=0.02)


def test_a_socket_that_was_not_emptied_is_reported_again() -> None:
    """Level-triggered: no further data arrives, and yet the rest is read, a turn later."""
    split, whole = lone_client(580, 64), lone_client(580, 28)
    polls = [
        counters["polls"] / counters["completions"] * n
        for counters, n in ((split, 64), (whole, 28))
    ]
    # Each batch ends with a poll that finds nothing and a sleep.
    assert polls[0] - polls[1] == pytest.approx(2, abs=0.1)
    assert split["loops"] / (split["completions"] / 64) == pytest.approx(3, rel=0.02)


def test_a_socket_whose_read_is_under_way_is_not_read_twice() -> None:
    """The poll job reports the socket again; the main thread looks at it and leaves it."""
    times = sample_times(**STEADY, recv_ps=50_000_000)
    setup = sample_setup(
        io_threads=2, clients=1, generators=1, events_per_io_thread=0, end_ps=10**10
    )
    counters = simulate_node("asynchronous", times, setup).counters
    assert counters["polls"] > 3 * counters["completions"]
    assert counters["reads"] <= counters["completions"] + 1


# --- writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply_bytes", "calls", "segments"),
    [
        (5, 1, 1),
        (65_483, 1, 1),
        (65_484, 1, 2),
        (66_000, 1, 2),
        (81_920, 1, 2),
        (81_921, 2, 3),  # 80 KiB in two segments, then a call of one byte
        (150_000, 2, 4),
        (163_841, 3, 5),
    ],
)
def test_a_reply_goes_through_the_stack_segment_by_segment(
    reply_bytes: int, calls: int, segments: int
) -> None:
    """Every call has its event, every segment of a call the cost of a send."""
    sizes = np.array([40, reply_bytes])
    setup = sample_setup(
        clients=1,
        generators=1,
        end_ps=10**11,
        write_limit_bytes=80 * 1024,
        segment_bytes=65_483,
    )

    def busy_us(field: str, extra_ps: int) -> float:
        plain = sample_times(**STEADY, **ONLY_SETS, reply_bytes_by_code=sizes)
        times = plain._replace(**{field: getattr(plain, field) + extra_ps})
        node = run("single_thread", times, setup)
        return node.thread(0, "busy_ps") / node.counter("completions") / 1e6

    for field, often in (("send_ps", segments), ("write_event_ps", calls)):
        longer_us = busy_us(field, 1_000_000) - busy_us(field, 0)
        assert longer_us == pytest.approx(often, rel=0.02), field
