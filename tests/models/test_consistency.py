"""Answers that contradict themselves are never returned, and a sample of random scenarios."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecache.models.cost.answer import check_cost
from forecache.models.footprint.answers import check_memory
from forecache.models.results.consistency import check_point, check_run
from forecache.models.results.points import Unmet
from forecache.models.results.series import Fact, Run, Series
from forecache.sim.statistics import Estimate
from tests.made_points import OVERLOAD, about, made_point

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"p90_ms": about(0.6)}, "p90_ms is 0.6 and p99_ms 0.5"),
        ({"throughput_rps": Estimate(1e5, 1.2e5, 2e5)}, "below the 120000"),
        ({"p50_ms": Estimate(0.15, 0.1, 0.14)}, "above the 0.14"),
        ({"mean_ms": about(float("nan"))}, "mean_ms is nan"),
        ({"network_utilisation": 1.01}, "network_utilisation is 1.01"),
        ({"io_thread_utilisation": [0.4, -0.1]}, "utilisation of I/O thread 2 is -0.1"),
        ({"bottleneck": "main thread"}, "verdict STABLE with bottleneck main thread"),
        ({"verdict": "SATURATED"}, "verdict SATURATED without a bottleneck"),
        ({"server_cpu_us_per_request": Estimate(0.6, 0.5, 0.7)}, "is 0.6, its parts add up to 0.5"),
        ({"verdict": "BUSY"}, "found verdict 'BUSY'"),
        ({"backlog_growth_rps": about(100.0)}, "while the backlog grows by 100/s"),
        ({"verdict": "OVERLOADED", "backlog_growth_rps": about(9.0)}, "no stationary latency"),
        ({"verdict": "UNFIT"}, "verdict UNFIT where nothing is unmet"),
        ({"unmet": [OVERLOAD]}, "verdict STABLE where load is unmet"),
        ({"verdict": "UNFIT", "unmet": [OVERLOAD]}, "and the load is unmet"),
        (
            {"verdict": "UNFIT", "unmet": [Unmet("memory", 3.0, 4.0, "GiB", "it fits")]},
            "memory is unmet: 3 of 4",
        ),
    ],
)
def test_a_point_that_contradicts_itself_is_a_fault(changes: dict[str, Any], told: str) -> None:
    check_point(made_point())
    with pytest.raises(RuntimeError, match=r"point \{'io_threads': 2\}") as failed:
        check_point(made_point(**changes))
    assert told in str(failed.value)


def test_an_overloaded_point_has_no_latency() -> None:
    none = dict.fromkeys(("mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms"))
    changes = {"verdict": "OVERLOADED", "backlog_growth_rps": about(9.0)}
    check_point(made_point(**none, **changes))
    # A draw that is overloaded leaves the interval without an upper end.
    check_point(made_point(p999_ms=Estimate(0.9, 0.5, math.inf)))


def _run(*, changed: int | None = None, value: float = 0.0, took_s: float = 3.0) -> Run:
    series = [
        Series("p50", "ms", "latency", np.array([0.1, np.nan])),
        Series("p99", "ms", "latency", np.array([0.2, np.nan])),
        Series("hit rate", "share", "hit rate", np.array([0.5, 1.0])),
        Series("main thread, mean", "", "utilisation", np.array([0.5, 1.0])),
        Series("answered", "1/s", "throughput", np.array([10.0, 0.0])),
    ]
    if changed is not None:
        series[changed].values[0] = value
    facts = [Fact("took", took_s, "s"), Fact("x", None)]
    return Run(np.array([1.0, 2.0]), series, facts)


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        (0, 0.3, "p50 is 0.3 and p99 0.2"),
        (2, 1.1, "'hit rate' of hit rate: a value is 1.1"),
        (3, 1.2, "'main thread, mean' of utilisation: a value is 1.2"),
        (4, -1.0, "'answered' of throughput: a value is -1"),
    ],
)
def test_a_run_that_contradicts_itself_is_a_fault(column: int, value: float, told: str) -> None:
    check_run(_run())
    with pytest.raises(RuntimeError) as failed:
        check_run(_run(changed=column, value=value))
    assert told in str(failed.value)


def test_a_negative_duration_is_a_fault() -> None:
    with pytest.raises(RuntimeError, match="fact 'took': it is -1"):
        check_run(_run(took_s=-1.0))


def test_parts_that_do_not_add_up_are_a_fault() -> None:
    from forecache import cost, memory

    data = [{"type": "string", "keys": 1000, "value_bytes": 100}]
    [point] = memory({"kind": "memory", "engine": "valkey", "data": data}).points
    [strings] = point.populations
    heavier = replace(strings, parts=strings.parts | {"key": strings.parts["key"] + 100.0})
    wrong = replace(point, beside=point.beside | {"startup": point.beside["startup"] + 100.0})
    with pytest.raises(RuntimeError, match=r"used memory is .* parts add up to"):
        check_memory(wrong)
    with pytest.raises(RuntimeError, match=r"bytes per key of string is .* parts add up to"):
        check_memory(replace(point, populations=[heavier]))
    requests = [{"command": "get", "per_s": 10}]
    [bill] = cost({"kind": "cost", "data_gb": 1, "requests": requests}).points
    dearer = replace(bill.serverless, usd=1.01 * bill.serverless.usd)
    with pytest.raises(RuntimeError, match=r"bill serverless: the month is .* parts add up to"):
        check_cost(replace(bill, serverless=dearer))


SAMPLE = {
    "memory": (20, 0),
    "cost": (20, 0),
    "large_commands": (4, 0),
    "node_life": (3, 19),
    "overcommit": (1, 0),
    # Number 0 goes to every verb and to `explain`, which takes longer than all others.
    "node, single_thread": (5, 1),
    "node, asynchronous": (5, 1),
    "node, shared_queues": (5, 0),
}
"""How many scenarios, and the number of the first."""


@pytest.mark.parametrize("kind", SAMPLE)
def test_random_scenarios_do_not_contradict_themselves(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A few; `make verification` has a thousand of each kind."""
    monkeypatch.syspath_prepend(str(ROOT))
    from verification.consistency import consistency

    count, first = SAMPLE[kind]
    [finding] = consistency(seed=1, count=count, kinds=[kind], processes=0, first=first)
    assert finding.passed, capsys.readouterr().out
    assert finding.found >= 1


def test_a_contradiction_is_told_with_its_scenario(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from verification.consistency import bills, consistency

    real = bills.cost_of

    def dearer_with_less(scenario: Any) -> Any:
        answer = real(scenario)
        [point] = answer.points
        cheap = replace(point.serverless, usd=1.0 / scenario["data_gb"])
        return replace(answer, points=[replace(point, serverless=cheap)])

    monkeypatch.setattr(bills, "cost_of", dearer_with_less)
    [finding] = consistency(seed=3, count=2, kinds=["cost"], processes=0)
    assert not finding.passed
    printed = capsys.readouterr().out
    assert "seed 3, scenario 0" in printed
    assert "a bill does not fall with data_gb" in printed
    assert "{kind: cost, " in printed
