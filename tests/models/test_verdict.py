"""What does not hold at a point: memory, stops, CPUs, network, load, objective; and what is said of
the bandwidth and of threads that take turns."""

from itertools import pairwise
from typing import Any

import pytest

from forecache.models.advice.answers import simulate
from forecache.models.advice.cases import load_cases
from forecache.models.footprint.node import node_room, resident_bytes
from forecache.models.prediction.predict import predict_cases
from forecache.models.results.points import Point, Unmet
from forecache.models.step_times.inputs import ASSUMED_DISK

pytestmark = pytest.mark.usefixtures("short_runs")

GBIT = 1e9


def points(**fields: Any) -> list[Point]:
    base = {"host": "r7g.large", "engine": "valkey", "engine_version": "8.0"}
    workload = {"command": "get", "keys": 100_000, "value_bytes": 64} | fields.pop("workload", {})
    return simulate(base | fields | {"workload": workload}).points


def point(**fields: Any) -> Point:
    [found] = points(**fields)
    return found


def at_rate(rate_rps: float, **workload: Any) -> dict[str, Any]:
    return {"arrival": "open_loop", "rate_rps": rate_rps, "clients": 50} | workload


def unmet(found: Point) -> Unmet:
    [each] = found.unmet
    assert not found.holds
    assert each.needed > each.available
    return each


def test_what_holds_is_stable_or_saturated() -> None:
    assert (point(workload=at_rate(20_000)).verdict, point().verdict) == ("STABLE", "SATURATED")
    assert point(workload=at_rate(20_000)).holds


def test_data_beyond_the_memory_are_unfit() -> None:
    fields = {"workload": at_rate(5_000, keys=20_000_000, value_bytes=800)}
    found = point(**fields)
    [(case, system)] = load_cases({"host": "r7g.large", "engine": "valkey"} | fields)
    room = node_room(case.scenario, system.engine, system.host)
    each = unmet(found)
    assert (found.verdict, found.bottleneck, each.what) == ("UNFIT", "none", "memory")
    assert each.available == pytest.approx(0.9 * 16)  # a tenth is the system's
    assert each.needed == pytest.approx(room.needed_bytes / 2**30, rel=0.02)
    assert "r7g.large leaves 14.4 GiB of its 16 GiB to the server, which needs" in each.sentence
    assert found.p99_ms is not None


def test_memory_names_what_a_saving_child_adds() -> None:
    keys = {
        "keys": 12_000_000,
        "value_bytes": 800,
        "command": None,
        "mix": {"get": 0.5, "set": 0.5},
    }
    saves = {"snapshot": {"every_s": 600, "child_s": 100}}
    assert point(workload=at_rate(20_000, **keys)).holds
    [memory] = [
        each
        for each in point(workload=at_rate(20_000, **keys), persistence=saves).unmet
        if each.what == "memory"
    ]
    assert "for a saving child" in memory.sentence


@pytest.mark.parametrize("keys", [20_000_000, 100_000_000])
def test_a_fork_of_more_than_a_second_is_a_stop(keys: int) -> None:
    """Half a wait for memory a page of resident memory, whatever the queue says."""
    fields = {
        "host": "r7g.16xlarge",
        "persistence": {"snapshot": {"every_s": 1800, "child_s": 600}},
        "workload": at_rate(20_000, keys=keys, value_bytes=1024),
    }
    found = point(**fields)
    [(case, system)] = load_cases({"engine": "valkey", "engine_version": "8.0"} | fields)
    resident = resident_bytes(case.scenario, system.engine, system.engine.engine_work())
    stop_s = ASSUMED_DISK.fork_ms(system.host.speed(), resident) / 1e3
    told = [*(each.sentence for each in found.unmet), *found.warnings]
    [fork] = [text for text in told if "the fork of a snapshot stops the server" in text]
    assert "every 30 minutes, so seldom that p99.9 may leave it out" in fork
    assert (found.verdict == "UNFIT") == (stop_s > 1.0) == (keys == 100_000_000)
    if found.verdict == "UNFIT":
        each = unmet(found)
        assert (each.what, each.every_s, each.available) == ("stop", 1800, 1.0)
        assert each.needed == pytest.approx(stop_s, rel=0.05)
        assert each.sentence == fork


def test_a_slow_command_of_more_than_a_second_is_a_stop() -> None:
    slow = {"duration_ms": 1500, "every_s": 30}
    each = unmet(point(workload=at_rate(2_000, slow_command=slow)))
    assert (each.what, each.needed, each.every_s) == ("stop", 1.5, 30)
    assert point(workload=at_rate(2_000, slow_command=slow | {"duration_ms": 100})).holds


def test_a_saving_child_needs_a_cpu_too() -> None:
    saves = {"persistence": {"snapshot": {"every_s": 600, "child_s": 300}}}
    alone = unmet(point(host="r7g.medium", workload=at_rate(5_000), **saves))
    assert (alone.what, alone.available) == ("CPUs", 1)
    assert alone.needed == pytest.approx(1.04, abs=0.02)
    assert "for 5 minutes of every 10 minutes" in alone.sentence
    assert "latencies leave out" in alone.sentence
    assert point(host="r7g.medium", workload=at_rate(5_000)).holds
    assert point(host="r7g.large", workload=at_rate(5_000), **saves).holds


def test_io_threads_a_quota_and_a_generator_count_beside_a_saving_child() -> None:
    saves = {"persistence": {"snapshot": {"every_s": 600, "child_s": 300}}}
    busy = {"io_threads": 2, "workload": {"clients": 200}}
    threads = unmet(point(host="r7g.large", **saves, **busy))
    assert threads.needed == pytest.approx(3.0, abs=0.1)
    assert threads.available == 2
    quota = unmet(point(host="r7g.xlarge", cpu_quota_cores=1.5, **saves, **busy))
    assert quota.available == 1.5
    shared = {"load_generator": {"same_host": True, "threads": 2}}
    generator = unmet(point(host="r7g.large", **shared, **saves, workload={"clients": 50}))
    assert "the load generator" in generator.sentence
    assert generator.needed > 2


def test_an_overload_is_told_with_what_completes() -> None:
    found = point(workload=at_rate(2e6))
    each = unmet(found)
    assert (found.verdict, each.what) == ("OVERLOADED", "load")
    assert each.needed == pytest.approx(2e6, rel=0.01)
    assert each.available == pytest.approx(found.throughput_rps.value)
    assert "the backlog grows by" in each.sentence


def test_an_objective_that_is_missed_does_not_hold() -> None:
    loose, tight = points(workload=at_rate(20_000), slo={"p99_ms": {"sweep": [10.0, 0.05]}})
    assert loose.verdict == "STABLE"
    each = unmet(tight)
    assert (tight.verdict, each.what, each.needed) == ("UNFIT", "objective", 0.95)
    assert each.available == tight.objective_probability
    assert "objective p99 ≤ 50 µs: met with a probability of <1%, 95% was asked" in each.sentence


# --- the bandwidth of the network -----------------------------------------------------------------

LARGE = {"clients": 100, "pipeline": 20, "command": "set", "value_bytes": 1884}


def test_a_scenario_chooses_the_burst_and_the_answer_says_which_was_taken() -> None:
    baseline, burst = points(
        host="r7g.2xlarge", bandwidth={"sweep": ["baseline", "burst"]}, workload=LARGE
    )
    assert baseline.bottleneck == "network"
    assert burst.bottleneck == "main thread"
    assert burst.throughput_rps.value > 1.4 * baseline.throughput_rps.value
    [told] = [text for text in baseline.warnings if "Gbit/s" in text]
    assert "baseline of 3.75 Gbit/s is simulated" in told
    assert "`bandwidth: burst` simulates the 15 that it has for about 29 minutes" in told
    [told] = [text for text in burst.warnings if "Gbit/s" in text]
    assert "the burst of 15 Gbit/s is simulated" in told
    assert "above the baseline of 3.75, for about" in told


def test_a_host_without_a_burst_says_so() -> None:
    plain, burst = points(
        host="graviton3", bandwidth={"sweep": ["baseline", "burst"]}, workload={"clients": 20}
    )
    assert any("has no burst" in text for text in burst.warnings)
    assert not any("burst" in text for text in plain.warnings)
    assert burst.throughput_rps == plain.throughput_rps


def test_a_rate_above_the_baseline_holds_only_while_credit_lasts() -> None:
    """The same rate overloads the baseline, and lives on credit with the burst."""
    over, lives = points(
        host="r7g.large",
        bandwidth={"sweep": ["baseline", "burst"]},
        workload=at_rate(30_000, value_bytes=10_000),
    )
    assert (over.verdict, over.bottleneck) == ("OVERLOADED", "network")
    each = unmet(lives)
    assert (lives.verdict, each.what) == ("UNFIT", "network")
    assert each.needed == pytest.approx(30_000 * 8 * 10_000 / GBIT, rel=0.1)
    assert each.available == pytest.approx(0.937)
    assert "the simulated burst lasts about" in each.sentence
    assert point(
        host="r7g.large", bandwidth="burst", workload=at_rate(3_000, value_bytes=10_000)
    ).holds


# --- threads that take turns ----------------------------------------------------------------------

REDIS_8_0 = {"host": "c8g.4xlarge", "engine": "redis", "engine_version": "8.0", "io_threads": 2}


def test_more_clients_of_threads_that_take_turns_serve_no_more() -> None:
    """Redis 8.0 hands a whole turn over: main and I/O thread work one after the other."""
    scenario = REDIS_8_0 | {"workload": {"clients": {"sweep": [2, 100, 400, 1600, 3200]}}}
    few, *many = simulate(scenario).points
    assert few.bottleneck == "clients"
    assert not any("take turns" in text for text in few.warnings)
    served = [each.throughput_rps.value for each in many]
    assert all(later < 1.02 * earlier for earlier, later in pairwise(served))
    for each in many:
        assert (each.bottleneck, each.verdict) == ("turns", "SATURATED")
        [told] = [text for text in each.warnings if "take turns" in text]
        assert "the main thread and the I/O threads take turns" in told
    [busy] = many[-1].io_thread_utilisation
    assert (many[-1].main_thread_utilisation or 0) + busy == pytest.approx(1.0, abs=0.05)


def test_threads_that_find_work_are_limited_by_a_station() -> None:
    """Redis 8.2 hands over in groups of 16, so both threads work at a time."""
    [found] = simulate(REDIS_8_0 | {"engine_version": "8.2", "workload": {"clients": 400}}).points
    assert found.bottleneck == "I/O threads"


@pytest.mark.parametrize("clients", [1, 5, 20])
def test_few_clients_are_their_own_limit(clients: int) -> None:
    for threads in (1, 2, 4):
        scenario = REDIS_8_0 | {"io_threads": threads, "workload": {"clients": clients}}
        [prediction] = predict_cases(load_cases(scenario), draws=0, replications=1, requests=5_000)
        assert prediction.bottleneck in ("clients", "main thread")
