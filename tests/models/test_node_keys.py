"""Commands of several keys in the node: what a batch fetches ahead, and what they wait for."""

import numpy as np
import pytest

from forecache.models.node import layout as at
from forecache.models.node.setup import JITTER_ONE, NO_LIMIT, QUANTILES
from forecache.models.node.simulate import run_compiled
from verification.nodes.sample_node import sample_setup, sample_times

KEY_PS = 100_000


def busy_ps(keys: int, *, prefetch_batch: int, whole_pipeline: int, **rules: int) -> float:
    """Main thread's time per write of replies: only waits for memory take any."""
    nothing = dict.fromkeys(
        (
            "read_event_ps",
            "write_event_ps",
            "recv_ps",
            "send_ps",
            "recv_ps_per_kib",
            "send_ps_per_kib",
        ),
        0,
    )
    times = sample_times(
        parse_by_code_ps=np.zeros(2, np.int64),
        execute_by_code_ps=np.zeros(2, np.int64),
        stall_ps=np.full((2, QUANTILES), keys * KEY_PS),
        prefetched_stall_by_code_ps=np.zeros(2, np.int64),
        prefetch_by_keys_ps=np.zeros(17, np.int64),
        jitter=np.full(QUANTILES, JITTER_ONE),
        keys_by_code=np.full(2, keys),
        poll_ps=0,
        poll_event_ps=0,
        doze_ps=0,
        block_ps=0,
        loop_ps=0,
        **nothing,
    )
    setup = sample_setup(
        clients=1,
        generators=1,
        prefetch_batch=prefetch_batch,
        whole_pipeline=whole_pipeline,
        **rules,
    )
    node = at.new_node(times, setup._replace(end_ps=10**10))
    run_compiled("single_thread", node)
    return node.thread(0, "busy_ps") / node.counter("writes")


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        (1, 1),  # one key is not fetched ahead
        (2, 0),
        (16, 0),
        (24, 8),  # a batch takes sixteen
    ],
)
def test_an_engine_of_whole_pipelines_fetches_the_keys_of_one_command(keys: int, left: int) -> None:
    found = busy_ps(keys, prefetch_batch=16, whole_pipeline=1)
    assert found == pytest.approx(left * KEY_PS, rel=0.01)
    assert busy_ps(keys, prefetch_batch=16, whole_pipeline=0) == pytest.approx(keys * KEY_PS)


@pytest.mark.parametrize(
    ("lookahead", "cold"),
    [
        (NO_LIMIT, 1),  # sixteen together, then the last one alone
        (16, 1),
        (4, 1),
        (3, 0),  # six groups, the last of two
    ],
)
def test_a_lone_main_thread_looks_up_what_it_has_parsed_ahead(lookahead: int, cold: int) -> None:
    pipeline = {"pipeline": 17, "outstanding_limit": 17}
    found = busy_ps(1, prefetch_batch=16, whole_pipeline=1, lookahead=lookahead, **pipeline)
    assert found == pytest.approx(cold * KEY_PS, rel=0.01)
    alone = busy_ps(1, prefetch_batch=16, whole_pipeline=0, lookahead=lookahead, **pipeline)
    assert alone == pytest.approx(17 * KEY_PS, rel=0.01)
