"""The queueing block against closed forms, and its conservation law over random histories."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.models.over_time.cluster.load.cohorts import Queues, cell_waits_s


def run(queues, counts, capacity, *, step_s=1.0):
    """Advance one queue; returns what each step served."""
    return [
        queues.advance(step, step_s=step_s, counts=np.array([arriving]), capacity=np.array([able]))
        for step, (arriving, able) in enumerate(zip(counts, capacity, strict=True))
    ]


def mean_wait_s(served):
    """Of what the only queue answered; 0 if nothing."""
    return (served.waits @ cell_waits_s())[0] / max(1, served.answered[0])


def test_an_overload_without_time_outs_answers_at_capacity():
    queues = Queues(1, timeout_steps=10**6)
    served = run(queues, [130] * 50, [100] * 50)
    assert all(step.answered[0] == 100 for step in served)
    assert queues.waiting[0] == 30 * 50


def test_waits_are_those_of_a_deterministic_queue():
    # From the start on 150/s arrive and 100/s are served: who arrives at t waits t/2.
    queues = Queues(1, timeout_steps=10**6)
    served = run(queues, [150] * 60, [100] * 60)
    for step in (5, 20, 50):
        done_at = step + 0.5
        joined_at = done_at * 100 / 150
        assert mean_wait_s(served[step]) == pytest.approx(done_at - joined_at, rel=0.04)


def test_a_backlog_drains_at_what_capacity_leaves():
    queues = Queues(1, timeout_steps=10**6)
    run(queues, [1000] + [60] * 22, [100] * 23)
    assert queues.waiting[0] == 900 - 22 * 40
    done = queues.advance(23, step_s=1.0, counts=np.array([60]), capacity=np.array([100]))
    assert queues.waiting[0] == 0
    # The last 20 of step 22 joined at 22.833 and are done at 23.1, on average. The queue is empty
    # half a step later; the 30 who join until then wait for 0.1 s, the others do not.
    assert mean_wait_s(done) == pytest.approx((20 * 0.267 + 30 * 0.1) / 80, rel=0.04)


def test_no_request_waits_below_capacity():
    queues = Queues(1, timeout_steps=5)
    for step in run(queues, [99] * 20, [100] * 20):
        assert mean_wait_s(step) == 0.0
        assert step.answered[0] == 99


def test_poisson_arrivals_at_one_server_wait_as_in_slotted_m_d_1():
    # One request a step is served; arrivals of a step join before it. Requests left at the ends of
    # steps: rho^2 / (2 (1 - rho)) on average (Bruneel and Kim, Discrete-Time Models, 1993, 1.2).
    rho, steps, waiting = 0.7, 20_000, 0
    counts = np.random.default_rng(5).poisson(rho, steps)
    queues = Queues(1, timeout_steps=10**9)
    for step in range(steps):
        queues.advance(step, step_s=1.0, counts=counts[step : step + 1], capacity=np.array([1]))
        waiting += int(queues.waiting[0])
    assert waiting / steps == pytest.approx(rho**2 / (2 * (1 - rho)), rel=0.1)


def test_work_for_clients_that_have_gone_is_done_and_wasted():
    # The storm: everybody who is served has already gone.
    queues = Queues(1, timeout_steps=2)
    served = run(queues, [200] * 200, [100] * 200)
    last = served[-1]
    assert last.answered[0] == 0
    assert last.wasted[0] == 100
    assert last.timed_out[0] == 200


def test_a_server_that_drops_them_goes_on_answering():
    queues = Queues(1, timeout_steps=2, drops_gone=True)
    served = run(queues, [200] * 200, [100] * 200)
    assert served[-1].answered[0] == 100
    assert served[-1].wasted[0] == 0


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 200), st.integers(0, 300), st.integers(0, 9)),
        max_size=60,
    ),
    timeout_steps=st.integers(1, 8),
    drops_gone=st.booleans(),
)
def test_every_request_is_answered_timed_out_or_waits(steps, timeout_steps, drops_gone):
    queues = Queues(2, timeout_steps=timeout_steps, drops_gone=drops_gone)
    joined = np.zeros(2, np.int64)
    ended = np.zeros(2, np.int64)
    worked = np.zeros(2, np.int64)
    for number, (first, able, second, other) in enumerate(steps):
        counts, capacity = np.array([first, second]), np.array([able, other])
        done = queues.advance(number, step_s=0.5, counts=counts, capacity=capacity)
        joined += counts
        ended += done.answered + done.timed_out
        assert ((done.answered + done.wasted) <= capacity).all()
        assert done.waits.sum() == done.answered.sum()
        worked += done.answered + done.wasted
        assert (joined == ended + queues.waiting).all()
        if not drops_gone:
            assert (joined == worked + queues.waiting + queues.left).all()
        busy = queues.waiting > 0
        assert (done.answered + done.wasted)[busy].tolist() == capacity[busy].tolist()


def test_a_queue_longer_than_its_room_grows():
    queues = Queues(1, timeout_steps=10**6)
    run(queues, [2] * 500, [1] * 500)
    assert queues.waiting[0] == 500
    served = run(queues, [0] * 500, [1] * 500)
    assert sum(step.answered[0] for step in served) == 500
