"""The rules of multiplexed I/O threads, seen from outside."""

from typing import Any

import numpy as np
import pytest

from forecache.models.advice.answers import load_cases
from forecache.models.breakdown.explain import server_cpu_time
from forecache.models.node import layout as at
from forecache.models.node.setup import JITTER_ONE, QUANTILES
from forecache.models.node.simulate import NodeResult, simulate_node
from forecache.models.prediction.predict import predict_cases
from verification.nodes.sample_node import sample_setup, sample_times

STEADY: dict[str, Any] = {
    "jitter": np.full(QUANTILES, JITTER_ONE),
    "stall_ps": np.zeros((2, QUANTILES), np.int64),
    "wire_ps_per_kib": 0,
}


def run(times: dict[str, Any] | None = None, **setup: Any) -> NodeResult:
    usual = {"io_threads": 4, "clients": 200, "generators": 20, "warmup_ps": 10**9}
    made = sample_setup(**{**usual, "end_ps": 20 * 10**9, **setup})
    return simulate_node("multiplexed", sample_times(**(times or {})), made)


AMPLE: dict[str, Any] = {"io_threads": 9, "clients": 500, "generators": 40}
"""I/O threads and clients enough to keep the main thread busy."""


def per_request(result: NodeResult, counter: str) -> float:
    return result.counters[counter] / result.completions


def test_a_lone_request_wakes_both_threads_and_its_client() -> None:
    """I/O thread, main thread, I/O thread again, and the load generator sleep when it comes."""
    latency_ps = []
    longer_ps = 50_000_000
    for extra_ps in (0, longer_ps):
        wake_ps = sample_times().wake_latency_ps + extra_ps
        result = run({**STEADY, "wake_latency_ps": wake_ps}, clients=1, generators=1)
        latency_ps.append(result.latency.mean)
        assert per_request(result, "paid_wakes") == pytest.approx(2, rel=0.02)
    assert latency_ps[1] - latency_ps[0] == pytest.approx(4 * longer_ps, rel=0.01)


def test_a_busy_main_thread_meets_batches_and_wakes_no_thread() -> None:
    alone, many = run(clients=1, generators=1), run(**AMPLE)
    assert many.main_thread_utilisation > 0.95
    assert per_request(many, "loops") < 0.05 < 1 <= per_request(alone, "loops")
    assert per_request(many, "paid_wakes") < 0.1


@pytest.mark.parametrize("offload", [0, 1])
def test_who_parses(offload: int) -> None:
    """Without presentation offload the main thread does, for all commands of a pipeline."""
    longer_ps = 500_000
    cpu_us = []
    for extra_ps in (0, longer_ps):
        parse_ps = sample_times().parse_by_code_ps + extra_ps
        result = run(
            {**STEADY, "parse_by_code_ps": parse_ps},
            io_threads=2,
            clients=2,
            generators=2,
            pipeline=16,
            whole_pipeline=offload,
        )
        busy = [result.main_thread_utilisation, *result.io_thread_utilisation]
        cpu_us.append([share * result.window_s * 1e6 / result.completions for share in busy])
    main_us, reader_us = np.subtract(cpu_us[1], cpu_us[0])
    assert (reader_us if offload else main_us) == pytest.approx(longer_ps / 1e6, rel=0.1)
    assert (main_us if offload else reader_us) == pytest.approx(0, abs=0.06)


def test_only_what_an_io_thread_parsed_is_looked_up_ahead() -> None:
    parsed = run(whole_pipeline=1, prefetch_batch=16)
    assert parsed.counters["prefetched_keys"] > 0.9 * parsed.completions
    keys = parsed.counters["prefetched_keys"] / parsed.counters["prefetch_batches"]
    assert 2 < keys <= 16
    for changes in ({"whole_pipeline": 0}, {"whole_pipeline": 1, "prefetch_batch": 0}):
        assert run(**changes).counters["prefetched_keys"] == 0


def test_looking_up_ahead_saves_what_overlaps() -> None:
    """Keys of a batch wait together; with stalls of their own they wait one after the other."""
    apart = run(whole_pipeline=1, prefetch_batch=0, **AMPLE)
    together = run(whole_pipeline=1, prefetch_batch=16, **AMPLE)
    assert apart.main_thread_utilisation > 0.95
    times = sample_times()
    stall_ps = float(times.stall_ps.mean())
    fetched_ps = times.prefetch_by_keys_ps[16] / 16 + 34_000.0
    one_ps = 1e12 / apart.throughput_rps
    expected = one_ps / (one_ps - stall_ps + fetched_ps)
    assert together.throughput_rps / apart.throughput_rps == pytest.approx(expected, rel=0.1)


def test_every_thread_serves_its_own_clients() -> None:
    """With three clients for four I/O threads one has nothing to do."""
    few = run(io_threads=5, clients=3, generators=1)
    assert sum(share > 0 for share in few.io_thread_utilisation) == 3
    node = at.new_node(
        sample_times(), sample_setup(io_threads=5, clients=8, first_owner=1, owners=4)
    )
    owners = node.clients()["owner"]
    assert list(owners) == [1, 2, 3, 4, 1, 2, 3, 4]


@pytest.mark.parametrize("version", ["7.0", "7.1"])
def test_the_steps_of_busy_threads_add_up(version: str) -> None:
    cases = load_cases(
        {
            "host": "r7g.4xlarge",
            "engine": "elasticache-redis",
            "engine_version": version,
            "io_threads": 8,
            "workload": {"clients": 500},
        }
    )
    [prediction] = predict_cases(cases, draws=0, replications=1, requests=10_000)
    rows = server_cpu_time(prediction).stages
    total_us = sum(row.us_per_request for row in rows)
    assert total_us == pytest.approx(prediction.mean("server_cpu_us"), rel=0.05)
    threads = {row.stage: row.thread for row in rows}
    assert threads["parse"] == ("main" if version == "7.0" else "I/O")
    assert prediction.active_threads == 8
