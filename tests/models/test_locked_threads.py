"""Threads that execute by themselves: what locks allow, and how many there are."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecache.models.advice.answers import load_cases, predicted_point
from forecache.models.advice.limits import find_limits
from forecache.models.advice.next_measurement import MeasureNext, possible_measurements
from forecache.models.advice.recommend import (
    Candidate,
    Recommendation,
    build_recommendation,
    choose,
)
from forecache.models.breakdown.explain import server_cpu_time
from forecache.models.breakdown.latency import trace_latency
from forecache.models.node.setup import DRAWS, JITTER_ONE, QUANTILES
from forecache.models.node.simulate import NodeResult, simulate_node
from forecache.models.prediction.caveats import not_covered
from forecache.models.prediction.predict import Prediction, predict_cases
from forecache.models.scenario.workload import HotSetPopularity, Workload, Zipf
from forecache.models.step_times.policy_times import item_locks, list_shares, list_table, lock_table
from forecache.sim.errors import InputError
from verification.nodes.sample_node import GET, SET, sample_setup, sample_times

STEADY: dict[str, Any] = {
    "jitter": np.full(QUANTILES, JITTER_ONE),
    "stall_ps": np.zeros((2, QUANTILES), np.int64),
    "wire_ps_per_kib": 0,
}
ONE_KEY = np.zeros(DRAWS, np.int64)

MEMCACHED: dict[str, Any] = {
    "host": "graviton3-c7g.8xlarge",
    "engine": "memcached",
    "load_generator": {"tool": "memtier-benchmark", "threads": 16},
}


def run(io_threads: int = 8, command: int = GET, **changes: Any) -> NodeResult:
    times = sample_times(**{**STEADY, "code_by_draw": np.full(DRAWS, command), **changes})
    setup = sample_setup(
        io_threads=io_threads,
        clients=100 * io_threads,
        generators=6 * io_threads,
        warmup_ps=10**9,
        end_ps=20 * 10**9,
    )
    return simulate_node("locked_threads", times, setup)


def test_threads_with_keys_of_their_own_add_up() -> None:
    two, eight = run(2), run(8)
    assert min(two.io_thread_utilisation) > 0.99
    assert len(eight.io_thread_utilisation) == 8
    assert eight.main_thread_utilisation == 0
    assert eight.throughput_rps / two.throughput_rps == pytest.approx(4, rel=0.03)


def test_one_key_is_executed_by_one_thread_at_a_time() -> None:
    execute_ps = 1_000_000
    busy = run(lock_by_draw=ONE_KEY, execute_by_code_ps=np.array([execute_ps, execute_ps]))
    # Who has slept takes a while to come, and the lock is free meanwhile unless another takes it.
    assert 0.3 * 1e12 / execute_ps < busy.throughput_rps < 1e12 / execute_ps
    # Asleep is not at work, and everybody gets the lock in turn.
    assert max(busy.io_thread_utilisation) < 0.9
    assert min(busy.io_thread_utilisation) > 0.9 * max(busy.io_thread_utilisation)
    assert busy.counters["lock_waits"] > 0.9 * busy.completions


def test_waits_for_locks_are_as_likely_as_two_threads_meet() -> None:
    """Each other thread holds a lock for a share of the time, and that one of 64 times."""
    threads, execute_ps = 4, 500_000
    # With system calls that vary, or the threads fall into step.
    jitter = sample_times().jitter
    found = run(threads, jitter=jitter, execute_by_code_ps=np.array([execute_ps, execute_ps]))
    held = found.throughput_rps / threads * execute_ps / 1e12
    expected = (threads - 1) * held / sample_setup().item_locks
    assert found.counters["lock_waits"] / found.completions == pytest.approx(expected, rel=0.15)


def sections(**of_position: int) -> np.ndarray:
    """(7,) durations, 0 unless one is given: `memory=1` is that of the first."""
    names = ("memory", "unlinking", "old_list", "linking", "number", "new_list", "freeing")
    return np.array([of_position.get(name, 0) for name in names])


STORED: dict[str, Any] = {
    "free_by_code_ps": np.array([0, 1]),
    "section_ps": sections(),
    "section_moved_ps": sections(),
    "list_by_draw": np.zeros(DRAWS, np.int64),
}


APART: dict[str, Any] = {
    "jitter": sample_times().jitter,
    "parse_by_code_ps": np.array([20_000_000, 20_000_000]),
}
"""Threads that hardly meet: their system calls vary, and their locks are a small part of a SET."""


def test_what_is_under_a_lock_of_the_process_is_done_by_one_thread_at_a_time() -> None:
    for name in ("memory", "old_list", "linking", "number", "new_list"):
        locked = {**STORED, "section_ps": sections(**{name: 1_000_000})}
        stored, read = run(command=SET, **locked), run(command=GET, **locked)
        assert 0.2e6 < stored.throughput_rps < 1e6, name
        assert read.throughput_rps > 2e6, name
        assert stored.counters["freed_values"] == pytest.approx(stored.completions, rel=0.01)
        assert read.counters["freed_values"] == 0


def test_sections_of_one_lock_exclude_each_other() -> None:
    """Memory is taken and given back under the same lock."""
    both = sections(memory=600_000, freeing=600_000)
    assert run(command=SET, **{**STORED, "section_ps": both}).throughput_rps < 1e12 / 1_200_000


def test_size_classes_have_lists_of_their_own() -> None:
    """Two SETs meet at a list as often as they are of the same class."""
    changes = {**STORED, "jitter": APART["jitter"], "section_ps": sections(new_list=200_000)}
    one = run(4, command=SET, **changes)
    four = run(4, command=SET, **{**changes, "list_by_draw": np.arange(DRAWS) % 4})
    # A thread that has slept leaves the lock contended, so the ratio is not quite that of 4.
    assert 0.2 < four.counters["lock_waits"] / one.counters["lock_waits"] < 0.45


@pytest.mark.parametrize("threads", [2, 4])
def test_what_a_lock_protects_comes_from_the_thread_that_held_it_last(threads: int) -> None:
    """Of k threads that store alike, another held it last (k - 1) / k of the time."""
    moved_ps = 400_000
    changes = {**STORED, **APART}
    near = run(threads, command=SET, **changes)
    far = run(threads, command=SET, **changes | {"section_moved_ps": sections(number=moved_ps)})
    added_ps = threads * 1e12 * (1 / far.throughput_rps - 1 / near.throughput_rps)
    shortest_ps = moved_ps * (threads - 1) / threads
    # Clients are served in turn, so that threads alternate more than chance would have it.
    assert 0.95 * shortest_ps < added_ps < 1.1 * moved_ps


def test_classes_are_those_that_memcached_has() -> None:
    """A live 1.6.38 used 12 lists for values of 1 to 1024 bytes."""
    uniform = Workload(value_bytes={"distribution": "uniform", "low": 1, "high": 1024})
    assert 8 <= len(list_shares(uniform)) <= 12
    table = list_table(uniform)
    assert set(table) == set(range(len(list_shares(uniform))))
    assert set(list_table(Workload(value_bytes=512))) == {0}


@pytest.mark.parametrize(
    ("threads", "locks"),
    [(1, 1024), (2, 1024), (3, 2048), (4, 4096), (10, 8192), (20, 16384), (21, 32768)],
)
def test_there_are_as_many_item_locks_as_in_memcached(threads: int, locks: int) -> None:
    assert item_locks(threads) == locks


def test_popular_keys_have_locks_of_their_own() -> None:
    assert set(lock_table(Workload(popularity="uniform"), 4096)) == {-1}
    few = lock_table(Workload(keys=4, popularity="uniform"), 4096)
    assert list(np.bincount(few)) == [256] * 4
    zipf = lock_table(Workload(keys=1_000_000, popularity=Zipf(zipf=1.2)), 4096)
    slots = np.bincount(zipf[zipf >= 0])
    # 1 / zeta(1.2) of the requests are for the first key, less what the million leaves out.
    assert slots[0] == pytest.approx(DRAWS * 0.19, rel=0.1)
    assert all(slots[:-1] >= slots[1:] - 1)
    hot = Workload(
        keys=1_000,
        popularity=HotSetPopularity.model_validate({"hot_set": {"keys": 0.01, "requests": 0.9}}),
    )
    table = lock_table(hot, 4096)
    assert np.mean(table >= 0) == pytest.approx(0.9, abs=0.01)
    assert len(set(table)) == 11


def test_memcached_is_predicted_and_its_threads_are_recommended_by_their_option() -> None:
    def predicted(threads: int, **workload: Any) -> Prediction:
        cases = load_cases(
            {
                "host": "graviton3-c7g.8xlarge",
                "engine": "memcached",
                "io_threads": threads,
                "workload": {"clients": 200, **workload},
                "load_generator": {"tool": "memtier-benchmark", "threads": 16},
            }
        )
        [prediction] = predict_cases(cases, draws=0, replications=1, requests=4_000)
        return prediction

    one, four = predicted(1), predicted(4)
    assert one.bottleneck == four.bottleneck == "worker threads"
    for prediction, count in ((one, 1), (four, 4)):
        point = predicted_point(prediction, *find_limits([prediction], seed=1))
        assert point.main_thread_utilisation is None
        assert point.io_thread_utilisation == pytest.approx([1.0] * count, abs=0.02)
        latency_breakdown = trace_latency(prediction, seed=1)
        assert latency_breakdown is not None
        threads = {row.thread for row in latency_breakdown.stations}
        assert threads == {"worker", "network", "load generator"}
        stations = [row.station for row in latency_breakdown.stations if row.thread == "worker"]
        assert len(stations) == len(set(stations))
    gain = four.mean("throughput_rps") / one.mean("throughput_rps")
    assert gain == pytest.approx(4, rel=0.1)
    rows = server_cpu_time(four).stages
    total_us = sum(row.us_per_request for row in rows)
    assert total_us == pytest.approx(four.mean("server_cpu_us"), rel=0.05)
    assert {row.thread for row in rows} == {"worker"}
    hot = predicted(4, popularity={"zipf": 2.0}).nominal[0].result
    cold = four.nominal[0].result
    assert hot.counters["lock_waits"] > 5 * cold.counters["lock_waits"]


def test_with_tls_every_thread_encrypts_for_its_own_connections() -> None:
    def served(threads: int, tls: bool) -> tuple[float, list[str]]:
        workload = {"clients": 200, "command": "get"}
        [(case, system)] = load_cases(
            {**MEMCACHED, "io_threads": threads, "tls": tls} | {"workload": workload}
        )
        [prediction] = predict_cases([(case, system)], draws=0, replications=1, requests=4_000)
        return prediction.mean("throughput_rps"), not_covered(case.scenario, system)

    (one, _), (four, warnings), (plain, _) = served(1, True), served(4, True), served(4, False)
    assert four / one == pytest.approx(4, rel=0.1)
    assert four < 0.9 * plain
    assert not any("TLS" in warning for warning in warnings)


def test_unmeasured_work_is_reported() -> None:
    [(case, system)] = load_cases(MEMCACHED)
    assumed = replace(system, engine=system.engine.model_copy(update={"observed": None}))
    wanted = "not measured: all of it is assumed"
    assert any(wanted in warning for warning in not_covered(case.scenario, assumed))
    assert not any(wanted in warning for warning in not_covered(case.scenario, system))


def advised(engine: str, **fields: Any) -> tuple[Recommendation, list[str]]:
    cases = load_cases(
        {
            "host": "graviton3-c7g.4xlarge",
            "engine": engine,
            "io_threads": {"sweep": [1, 2]},
            "workload": {"clients": 50},
            **fields,
        }
    )
    predictions = predict_cases(cases, draws=2, replications=1, requests=2_000)
    limits = find_limits(predictions, seed=1)
    settings = [
        Candidate(p, predicted_point(p, limit))
        for p, limit in zip(predictions, limits, strict=True)
    ]
    nothing = MeasureNext("throughput", 0.0, 0.0, [])
    commands = [c for m in possible_measurements(predictions[0]) for c in m.commands]
    return build_recommendation(choose(settings), measure_next=nothing), commands


@pytest.mark.parametrize("command", ["get", "set"])
def test_advice_for_memcached_can_be_followed(command: str) -> None:
    told, commands = advised("memcached", tls=True, workload={"clients": 50, "command": command})
    assert told.conf_file == "memcached options"
    assert told.conf == "-t 2 -Z -o ssl_chain_cert=FILE,ssl_key=FILE\n"
    for line in told.benchmark_command.splitlines():
        assert line.startswith(
            "memtier_benchmark -s HOST -p 11211 --protocol=memcache_text --tls --tls-skip-verify "
        )
    assert [row.why_not for row in told.regret] == ["one worker thread does all the work"]
    assert commands == ["forecache profile --out host.yaml"]


def test_settings_that_only_a_service_sets_are_no_configuration() -> None:
    told, commands = advised("elasticache-redis")
    assert told.conf_file == "The service's own settings"
    assert all(line.startswith("# ") for line in told.conf.splitlines())
    assert f"\n# {told.chosen['io_threads']} is what to look for" in told.conf
    assert commands == ["forecache profile --out host.yaml"]


def test_engines_that_can_be_observed_are_to_be() -> None:
    assert any("--engine redis-server" in line for line in advised("redis")[1])


def test_a_tool_that_does_not_speak_to_memcached_is_refused() -> None:
    fields = {"host": "graviton3", "engine": "memcached"}
    [(case, system)] = load_cases(fields)
    assert case.scenario.load_generator.tool == system.generator.id == "memtier-benchmark"
    with pytest.raises(InputError, match=r"load_generator\.tool: found 'valkey-benchmark'"):
        load_cases({**fields, "load_generator": {"tool": "valkey-benchmark"}})
