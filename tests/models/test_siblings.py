"""Hyperthreads: threads that share a physical core are slower, and only where they have to."""

from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.node.setup import JITTER_ONE
from forecache.models.node.simulate import NodeResult, simulate_node
from forecache.models.prediction.caveats import not_covered
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.step_times.cores import Sharing, shared_physical_cores
from forecache.models.step_times.stages import node_times, sibling_scale
from verification.nodes.sample_node import sample_setup, sample_times

SPEED = 0.63


@pytest.mark.parametrize("cores", [1, 2, 5, 48])
def test_all_work_that_cores_do_is_that_of_their_lone_and_their_shared_threads(cores: int) -> None:
    scale = sibling_scale(cores, SPEED) / JITTER_ONE
    assert (scale[: cores + 1] == 1.0).all(), "Linux gives each a core of its own"
    assert scale[2 * cores] == pytest.approx(1 / SPEED, rel=1e-4), "the published ratio"
    for busy in range(cores, 2 * cores + 1):
        shared = busy - cores
        speeds = (cores - shared) + 2 * shared * SPEED
        assert busy / scale[busy] == pytest.approx(speeds, rel=1e-4)


def test_without_siblings_there_is_no_table() -> None:
    assert len(sibling_scale(0, SPEED)) == 0
    assert (sibling_scale(3, 1.0) == JITTER_ONE).all()


def run(physical: int, **changes: Any) -> NodeResult:
    """Workers of Memcached that are never idle, driven from another host."""
    rules: dict[str, Any] = {
        "io_threads": 4,
        "clients": 200,
        "generators": 8,
        "sibling_threads": 4 if physical else 0,
        "warmup_ps": 5 * 10**9,
        "end_ps": 3 * 10**10,
        "item_locks": 2**15,
    }
    times = sample_times(
        one_way_ps=1_000_000, wire_ps_per_kib=0, sibling_scale=sibling_scale(physical, SPEED)
    )
    return simulate_node("locked_threads", times, sample_setup(**{**rules, **changes}))


def test_busy_threads_on_half_as_many_cores_run_at_the_published_ratio() -> None:
    alone, shared = run(0), run(2)
    assert min(alone.io_thread_utilisation) > 0.99
    assert shared.throughput_rps == pytest.approx(SPEED * alone.throughput_rps, rel=0.01)


def test_no_more_busy_threads_than_cores_lose_nothing() -> None:
    alone, enough = run(0), run(4)
    assert enough.counters == alone.counters
    assert enough.latency == alone.latency


def test_threads_that_sleep_leave_their_core_to_the_others() -> None:
    """At a tenth of the load two of four threads are seldom busy at once."""
    load = {"open_loop": 1, "outstanding_limit": 1, "backlog_limit": 64}
    slow = {**load, "mean_interarrival_ps": 200_000_000}
    fast = {**load, "mean_interarrival_ps": 18_000_000}

    def longer(**changes: Any) -> float:
        one, other = run(0, **changes), run(2, **changes)
        busy = sum(one.io_thread_utilisation), sum(other.io_thread_utilisation)
        return busy[1] / busy[0]

    assert longer(**slow) < 1.02
    assert longer(**slow) < longer(**fast) < 1 / SPEED


def test_interrupt_cores_and_other_programs_are_busy_siblings_too() -> None:
    beside = run(4, other_threads=2)
    assert beside.throughput_rps < 0.9 * run(4).throughput_rps
    taking = run(4, interrupt_cores=2)
    assert taking.throughput_rps < 0.98 * run(0, interrupt_cores=2).throughput_rps


def scenario(**changes: Any) -> Scenario:
    given = {"host": "m7i.2xlarge", "engine": "valkey", **changes}
    return Scenario.model_validate(given)


@pytest.mark.parametrize(
    ("changes", "groups", "cores"),
    [
        ({"io_threads": 4}, Sharing(8), 0),
        ({"io_threads": 5}, Sharing(8), 4),
        ({"io_threads": 8}, Sharing(4), 0),  # no more CPUs than there are cores
        ({"io_threads": 3, "irq_cores": 2}, Sharing(6), 4),
        ({"io_threads": 4}, Sharing(8, others=1), 4),
        ({"io_threads": 8, "idle_polls": True}, Sharing(8), 0),
        ({"io_threads": 2, "load_generator": {"same_host": True, "threads": 2}}, Sharing(4, 4), 0),
        ({"io_threads": 2, "load_generator": {"same_host": True, "threads": 3}}, Sharing(4, 4), 4),
    ],
)
def test_cores_are_shared_once_more_threads_may_be_busy(
    changes: dict[str, Any], groups: Sharing, cores: int
) -> None:
    asked = scenario(**changes)
    assert shared_physical_cores(asked, groups, host_cores=8, threads_per_core=2) == cores
    assert shared_physical_cores(asked, groups, host_cores=8, threads_per_core=1) == 0


def system(host: str) -> System:
    return System(load_host(host), load_engine("valkey-8.1"), load_generator("valkey-benchmark"))


def test_a_host_without_data_takes_published_ratios_and_draws_them() -> None:
    asked = scenario(host="m8i.xlarge", io_threads=4)
    here = system("m8i.xlarge")
    scales = [node_times(here.inputs(asked, draw=draw)).sibling_scale for draw in range(20)]
    last = np.array([scale[4] / JITTER_ONE for scale in scales])
    assert {len(scale) for scale in scales} == {5}
    assert (last > 1 / 0.85).all()
    assert (last < 1 / 0.45).all()
    assert len(set(last)) == 20


def test_what_siblings_cost_is_said_where_they_compete() -> None:
    for host, threads, said in [
        ("m8i.xlarge", 4, True),
        ("m8i.xlarge", 2, False),
        ("m8a.xlarge", 4, False),
    ]:
        found = not_covered(scenario(host=host, io_threads=threads), system(host))
        assert any("hyperthread" in warning for warning in found) == said, (host, threads)


def test_no_sibling_makes_a_core_faster() -> None:
    for name in ("m8i.xlarge", "c4-standard-8", "c4d-standard-16", "m7i.large", "c6a.large"):
        low, value, high = load_host(name).uncertain()["busy_sibling_speed"]
        assert 0.5 <= low < value < high < 1.0, name


def test_what_siblings_add_is_counted() -> None:
    alone, shared = run(0), run(2)
    assert alone.counters["sibling_ps"] == 0
    each_ps = [r.server_useful_cpu_us_per_request * 1e6 for r in (alone, shared)]
    added_ps = shared.counters["sibling_ps"] / shared.completions
    assert added_ps == pytest.approx((1 - SPEED) * each_ps[1], rel=0.01)
    assert each_ps[1] - added_ps == pytest.approx(each_ps[0], rel=0.02)
