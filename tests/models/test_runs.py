"""Sweeps and replications of scenarios over time: the same through any executor."""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecache.models.over_time import simulate_scenario
from forecache.models.over_time.runs import facts_over_seeds, warnings_over_seeds
from forecache.models.over_time.simulate_scenario import simulate
from forecache.models.results.series import Fact, Run
from forecache.sim.errors import InputError
from forecache.sim.plain import Result
from forecache.sim.statistics import mean_interval, paired_difference
from tests.sim.test_executors import Shuffled

Json = dict[str, Any]

FLEET: Json = {
    "kind": "overcommit",
    "duration_s": 900,
    "hosts": {"count": 4, "memory_gb": 64},
    "machines": {"count": 60, "unit_gb": 1},
    "demand": {"mean_gb": 2.5, "bursts": {"per_day": 20, "factor": 3, "minutes": 10}},
    "heat": {"move_above": 0.7},
    "policies": {"placement": {"sweep": ["random", "best_of_two"]}},
}


def plain(result: Result) -> str:
    """All of a result but when and with what it was made; floats are written in full."""
    return json.dumps({**result.to_dict(), "provenance": None})


@contextmanager
def dask_cluster() -> Iterator[Executor]:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client.get_executor()


class ShuffledSoon(Shuffled):
    """Begins by itself once nothing more is submitted, for those who wait for whatever ends."""

    _timer: threading.Timer | None = None

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._timer is not None:
            self._timer.cancel()
        future = super().submit(fn, *args, **kwargs)
        self._timer = threading.Timer(0.05, self._call_all)
        self._timer.start()
        return future


@contextmanager
def shuffled() -> Iterator[Executor]:
    yield ShuffledSoon(3)


@pytest.fixture(scope="module")
def alone() -> str:
    return plain(simulate(FLEET, seeds=3))


@pytest.mark.parametrize(
    "executor",
    [
        lambda: ThreadPoolExecutor(3),
        lambda: ProcessPoolExecutor(1),
        lambda: ProcessPoolExecutor(3),
        shuffled,
        dask_cluster,
    ],
    ids=["threads", "process", "processes", "shuffled", "dask"],
)
def test_a_sweep_is_the_same_bit_for_bit_through_any_executor(
    executor: Callable[[], Any], alone: str
) -> None:
    with executor() as pool:
        assert plain(simulate(FLEET, seeds=3, executor=pool)) == alone


def test_jobs_are_processes_and_change_nothing(alone: str) -> None:
    told: list[str] = []
    assert plain(simulate(FLEET, seeds=3, jobs=2, progress=told.append)) == alone
    simulated = [line.split(": ", 1) for line in told if line.startswith("simulated ")]
    assert [count for count, _ in simulated] == [f"simulated {n} of 6" for n in range(1, 7)]
    # In the order in which they end.
    assert {what for _, what in simulated} == {
        f"policies.placement {placement}, seed {seed}"
        for placement in ("random", "best_of_two")
        for seed in (1, 2, 3)
    }


def test_a_node_is_the_same_through_processes() -> None:
    node = {
        "host": "graviton3-c7g.4xlarge",
        "engine": "valkey",
        "engine_version": "8.0",
        "io_threads": {"sweep": [1, 4]},
        "workload": {
            "arrival": "closed_loop",
            "clients": 20,
            "pipeline": 1,
            "mix": {"get": 1.0},
            "keys": 10_000,
            "key_bytes": 16,
            "value_bytes": 64,
            "popularity": "uniform",
        },
    }
    alone = plain(simulate(node))
    assert plain(simulate(node, jobs=1)) == alone
    with ProcessPoolExecutor(2) as pool:
        assert plain(simulate(node, executor=pool)) == alone
    with pytest.raises(InputError, match="found 2 seeds for a node"):
        simulate(node, seeds=2)


def test_every_seed_is_a_run_of_its_own() -> None:
    together = simulate(FLEET, seed=5, seeds=3).to_dict()
    apart = [simulate(FLEET, seed=seed).to_dict() for seed in (5, 6, 7)]
    assert (together["seeds"], together["provenance"]["seed"]) == (3, 5)
    for index, point in enumerate(together["points"]):
        singles = [run["points"][index] for run in apart]
        assert point["series"] == singles[0]["series"]
        for fact in point["facts"]:
            values = [
                next((f["value"] for f in single["facts"] if f["name"] == fact["name"]), None)
                for single in singles
            ]
            assert fact["samples"] == values
    scale_ups = [
        next(fact for fact in point["facts"] if fact["name"] == "scale-ups")
        for point in together["points"]
    ]
    assert "against_first" not in scale_ups[0]
    first, second = (np.array(fact["samples"]) for fact in scale_ups)
    assert scale_ups[1]["against_first"] == paired_difference(second, first).to_dict()
    assert scale_ups[1]["low"] == mean_interval(second).low


def run_refusing(scenario: Any, seed: int, report: Callable[[str], None]) -> Run:
    """The last one is refused first."""
    del report
    slope = scenario.machines.count
    time.sleep(0.05 * (3 - slope))
    if slope > 1:
        raise InputError(f"field machines.count: found {slope}")
    return Run(np.arange(2.0), [], [Fact("seed", seed)])


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_is_the_same_from_a_process(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = replace(simulate_scenario.KINDS["overcommit"], run_at=f"{__name__}:run_refusing")
    monkeypatch.setattr(simulate_scenario, "KINDS", {"overcommit": kind})
    data = FLEET | {"machines": {"count": {"sweep": [1, 2, 3]}}, "policies": {}}
    with pytest.raises(InputError, match=r"^scenario: field machines.count: found 2$"):
        simulate(data, jobs=jobs)


@pytest.mark.parametrize(("seed", "seeds"), [(1, 0), (1, 1001), (2**32 - 1, 2)])
def test_seeds_that_are_none_are_refused(seed: int, seeds: int) -> None:
    with pytest.raises(InputError, match="field seeds: found"):
        simulate(FLEET, seed=seed, seeds=seeds)


def runs_of(*facts: list[tuple[str, Any]]) -> list[Run]:
    return [
        Run(np.zeros(0), [], [Fact(name, value, "s", f"{name} {value}") for name, value in run])
        for run in facts
    ]


def test_facts_that_some_seeds_lack_say_so() -> None:
    runs = runs_of(
        [("blackout", None), ("limit", "network"), ("moved", 1.0)],
        [("longest", 4.0), ("limit", "network"), ("moved", 3.0)],
        [("longest", 6.0), ("limit", "server"), ("moved", 5.0)],
    )
    facts = {fact.name: fact for fact in facts_over_seeds(runs, None)}
    assert list(facts) == ["limit", "moved", "longest"]
    assert facts["limit"].value == "network (2), server (1)"
    assert facts["moved"].value == 3.0
    assert facts["moved"].note == ""  # that of a single run
    assert facts["longest"].value == 5.0
    assert facts["longest"].samples == [None, 4.0, 6.0]
    assert facts["longest"].note == "2 of 3 seeds have it"
    assert math.isclose(facts["longest"].high, mean_interval([4.0, 6.0]).high)


def test_a_difference_is_over_the_seeds_that_both_points_have() -> None:
    first = runs_of([("a", 1.0)], [("a", 2.0)], [])
    runs = runs_of([("a", 2.0)], [("a", 5.0)], [("a", 100.0)])
    [fact] = facts_over_seeds(runs, first)
    assert fact.against_first == paired_difference([2.0, 5.0], [1.0, 2.0])
    [fact] = facts_over_seeds(runs, runs_of([("a", 1.0)], [], []))
    assert fact.against_first is None


def test_what_is_the_same_with_all_seeds_is_told_exactly() -> None:
    [fact] = facts_over_seeds(runs_of(*[[("share", 0.1)]] * 3), None)
    assert (fact.low, fact.value, fact.high) == (0.1, 0.1, 0.1)


def test_intervals_of_runs_add_to_that_of_their_mean() -> None:
    def runs(*facts: Fact) -> list[Run]:
        return [Run(np.zeros(0), [], [fact]) for fact in facts]

    alike = Fact("took", 5.0, "s", low=4.0, high=8.0)
    [fact] = facts_over_seeds(runs(alike, alike), None)
    assert (fact.low, fact.value, fact.high) == (4.0, 5.0, 8.0)
    [fact] = facts_over_seeds(
        runs(Fact("took", 4.0, "s", low=3.0, high=6.0), Fact("took", 6.0, "s", low=5.0, high=10.0)),
        None,
    )
    chance = mean_interval([4.0, 6.0]).half_width
    assert fact.value == 5.0
    assert fact.value - fact.low == pytest.approx(math.hypot(chance, 1.0))
    assert fact.high - fact.value == pytest.approx(math.hypot(chance, 3.0))
    unbounded = Fact("took", 5.0, "s", low=4.0, high=math.inf)
    [fact] = facts_over_seeds(runs(alike, unbounded), None)
    assert fact.high == math.inf
    [again] = Run.from_dict(Run(np.zeros(0), [], [unbounded]).to_dict()).facts
    assert again == unbounded


def test_facts_of_one_name_stay_apart() -> None:
    runs = runs_of([("took", 1.0), ("took", 10.0)], [("took", 3.0), ("took", 30.0)])
    assert [fact.value for fact in facts_over_seeds(runs, None)] == [2.0, 20.0]


def test_warnings_of_any_seed_are_told_once() -> None:
    runs = [
        Run(np.zeros(0), [], [], warnings=warnings)
        for warnings in (
            ["assumed", "12 machines found no host"],
            ["assumed", "7 machines found no host"],
            ["assumed"],
        )
    ]
    assert warnings_over_seeds(runs) == [
        "assumed",
        "with 2 of 3 seeds: 12 machines found no host",
    ]
