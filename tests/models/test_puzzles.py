"""Behaviour that users of Redis and Valkey asked about; nothing in the model was made for it.

A miss is pinned as what it is: tests of it hold docs/models.md to what the model really says.
"""

from dataclasses import replace
from typing import Any

import pytest

import forecache
from forecache.models.advice.answers import load_cases
from forecache.models.advice.node_answers import Simulated
from forecache.models.prediction.simulation import run
from forecache.models.results.points import Point

MILLION = 10**6


def points_of(scenario: dict[str, Any]) -> dict[int, Point]:
    """Predicted points by io_threads."""
    answer = forecache.simulate(scenario)
    assert isinstance(answer, Simulated)
    return {point.given["io_threads"]: point for point in answer.points}


def rps(point: Point) -> float:
    return point.throughput_rps.value


# redis issue 9327: redis-server --io-threads 24 against 25, redis-benchmark -t set -r 10000000.
FIFTY_CLIENTS: dict[str, Any] = {
    "host": "icelake-8375c",
    "engine": "redis",
    "engine_version": "6.2",
    "io_threads_do_reads": True,
    "workload": {"clients": 50, "command": "set", "value_bytes": 3, "keys": 10 * MILLION},
    "load_generator": {
        "tool": "redis-benchmark",
        "threads": 24,
        "cores": 24,
        "same_host": True,
    },
}


def test_25_threads_run_single_threaded_with_50_clients_and_24_are_missed() -> None:
    found = points_of({**FIFTY_CLIENTS, "io_threads": {"sweep": [1, 8, 24, 25]}})
    assert [found[n].active_threads for n in (1, 8, 25)] == [1, 8, 1]
    assert rps(found[25]) == pytest.approx(rps(found[1]), rel=0.1)
    assert max(found[25].io_thread_utilisation) < 0.05
    # The user's 24 threads worked; in the model 48 of 50 replies hardly ever wait at once either.
    assert found[24].active_threads == 1


def test_a_recommendation_says_why_not_25() -> None:
    answer = forecache.recommend({**FIFTY_CLIENTS, "io_threads": {"sweep": [1, 8, 25, 26]}})
    advice = answer.recommendation
    assert advice.setting == {"io_threads": 8}
    why_not = {row.io_threads: row.why_not for row in advice.regret}
    assert "fewer than 50 replies usually wait at once" in why_not[25]
    assert "52 replies" in why_not[26]
    [_, _, _, most] = answer.points
    assert any("io-threads 26 are never used" in warning for warning in most.warnings)
    assert advice.conf_file == "redis.conf"
    assert advice.conf == "io-threads 8\nio-threads-do-reads yes\n"


# redis issue 15008: redis-benchmark -c 200 -d 128 --threads 4 -t set, so of one key.
TWO_HUNDRED_CLIENTS: dict[str, Any] = {
    "host": "graviton3-c7g.4xlarge",
    "engine": "redis",
    "engine_version": "6.2",
    "workload": {"clients": 200, "command": "set", "value_bytes": 128, "keys": 1},
    "load_generator": {"tool": "redis-benchmark", "threads": 4},
}


def gain_of_four_threads(host: str) -> float:
    found = points_of({**TWO_HUNDRED_CLIENTS, "host": host, "io_threads": {"sweep": [1, 4]}})
    return rps(found[4]) / rps(found[1]) - 1.0


@pytest.mark.parametrize("host", ["graviton3-c7g.4xlarge", "graviton4", "icelake-8375c"])
def test_four_threads_that_only_write_gain_five_times_what_was_measured(host: str) -> None:
    """A miss: 15% more on an unnamed host, where the model says 74 to 80% on any."""
    assert gain_of_four_threads(host) == pytest.approx(0.77, abs=0.05)


def test_clients_far_away_gain_a_little_more_than_was_measured() -> None:
    """With 0.3 ms each way, chosen with the number in view: 200 clients hardly need a second
    thread. The source doesn't say how far away they were."""
    cases = load_cases({**TWO_HUNDRED_CLIENTS, "io_threads": {"sweep": [1, 4]}})
    alone, four = (
        run(
            replace(inputs, speed=replace(inputs.speed, network_one_way_us=300.0)),
            requests=40_000,
            seed=1,
        ).throughput_rps
        for inputs in (system.inputs(case.scenario) for case, system in cases)
    )
    assert four / alone - 1.0 == pytest.approx(0.22, abs=0.03)


def test_four_threads_that_only_write_leave_most_to_the_main_thread() -> None:
    """Why the model, too, has less than four times as much."""
    found = points_of({**TWO_HUNDRED_CLIENTS, "io_threads": {"sweep": [1, 4]}})
    gain = rps(found[4]) / rps(found[1]) - 1.0
    # Reads, parsing and execution stay where they were, and take most of what is left.
    spent = {(row.stage, row.thread): row.us_per_request for row in found[4].stages}
    for stage in ("read", "parse", "execute"):
        assert (stage, "main") in spent
        assert (stage, "I/O") not in spent
    assert spent["write", "I/O"] == pytest.approx(3 * spent["write", "main"], rel=0.05)
    stays = sum(spent[stage, "main"] for stage in ("read", "parse", "execute"))
    assert stays > 0.5 * 1e6 / rps(found[4])
    # So much faster could it be at most if writing took no time at all.
    alone = {row.stage: row.us_per_request for row in found[1].stages}
    assert gain < sum(alone.values()) / (sum(alone.values()) - alone["write"]) - 1.0
    both = points_of(
        {**TWO_HUNDRED_CLIENTS, "io_threads_do_reads": True, "io_threads": {"sweep": [4, 5]}}
    )
    assert rps(both[4]) > 1.1 * rps(found[4])
