"""One scenario, asked in four ways: every verb says the same numbers."""

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.models.advice import answers
from forecache.models.advice.next_measurement import MeasureNext
from forecache.models.advice.node_answers import Recommended
from forecache.reports import study
from forecache.sim.errors import InfeasibleError

ENGINES = (
    *(("valkey", "9.1"), ("valkey", "8.1"), ("valkey", "7.2"), ("redis", "8.2")),
    *(("elasticache-redis", "7.1"), ("memcached", "1.6")),
)


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    engine, version = draw(st.sampled_from(ENGINES))
    workload: dict[str, Any] = {
        "clients": draw(st.integers(1, 100)),
        "value_bytes": draw(st.sampled_from([8, 512, 4096])),
    }
    if draw(st.booleans()):
        workload |= {"arrival": "open_loop", "rate_rps": draw(st.floats(1e3, 3e5))}
    else:
        workload |= {"pipeline": draw(st.sampled_from([1, 4]))}
    slo = draw(st.sampled_from([None, {"p99_ms": 0.05}, {"p99_ms": 20.0}]))
    return {
        "host": "graviton3-c7g.4xlarge",
        "engine": engine,
        "engine_version": version,
        "io_threads": {"sweep": [1, draw(st.integers(2, 8))]},
        "workload": workload,
        "load_generator": {"threads": 4},
    } | ({} if slo is None else {"slo": slo})


@pytest.fixture(autouse=True)
def _nothing_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what to measure next nor a thread plan, nor the curves of a study."""
    nothing = MeasureNext("throughput", 0.0, 0.0, [])
    monkeypatch.setattr(answers, "next_measurement", lambda *_, **__: nothing)
    monkeypatch.setattr(answers, "thread_plan", lambda *_, **__: None)
    monkeypatch.setattr(study, "load_curve", lambda *_, **__: [])


def recommended(scenario: dict[str, Any]) -> Recommended:
    try:
        return answers.recommend(scenario)
    except InfeasibleError as error:
        return cast(Recommended, error.result)


@pytest.mark.usefixtures("short_runs")
@given(scenarios())
@settings(max_examples=2)
def test_every_verb_says_the_same_of_a_point(scenario: dict[str, Any]) -> None:
    simulated = answers.simulate(scenario)
    answer = recommended(scenario)
    explained = answers.explain(scenario)
    studied = study._target("x", answers.load_cases(scenario), seed=1, progress=lambda _line: None)
    assert answer.points == simulated.points == studied.points
    for said in ("setting", "closest", "throughput_rps", "next_bottleneck", "headroom_rps"):
        assert getattr(answer.recommendation, said) == getattr(studied.recommendation, said)
    shown = explained.points[explained.shown.point].given
    advice = answer.recommendation
    assert explained.shown.recommended == (shown == advice.setting)
    assert explained.shown.closest == (shown == advice.closest)
    for point, told in zip(simulated.points, explained.points, strict=True):
        latency_breakdown = told.latency_breakdown
        assert {name: vars(told)[name] for name in vars(point)} == vars(point)
        staged = sum(row.us_per_request for row in point.stages)
        assert staged == pytest.approx(point.server_cpu_us_per_request.value)
        assert point.spinning_cpu_us_per_request >= 0.0
        if latency_breakdown is None:
            continue
        mean_us = 1000.0 * point.mean_ms.value
        assert latency_breakdown.mean_us == pytest.approx(mean_us)
        assert sum(row.us for row in latency_breakdown.stations) == pytest.approx(mean_us)
        assert all(row.us >= 0.0 for row in latency_breakdown.stations)
