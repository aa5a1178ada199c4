"""The limit of a setting is its own, whatever load is asked of it; points are held against it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.models.advice.answers import load_cases
from forecache.models.advice.limits import Limit, Standing, find_limits, point_standing
from forecache.models.advice.objective import meets
from forecache.models.prediction.predict import Prediction, predict_cases

BASE: dict[str, Any] = {
    "host": "graviton3-c7g.4xlarge",
    "engine": "valkey",
    "engine_version": "8.1",
    "load_generator": {"threads": 8},
}


def judged(**fields: Any) -> list[tuple[Prediction, Limit, Standing]]:
    """Every point of a scenario with the limit of its setting, and how it stands against that."""
    predictions = predict_cases(
        load_cases({**BASE, **fields}), draws=0, replications=1, requests=6_000
    )
    limits = find_limits(predictions, seed=1)
    return [
        (p, limit, point_standing(p, limit)) for p, limit in zip(predictions, limits, strict=True)
    ]


def open_loop(*rates_rps: float, **fields: Any) -> dict[str, Any]:
    rate: Any = rates_rps[0] if len(rates_rps) == 1 else {"sweep": list(rates_rps)}
    return {"arrival": "open_loop", "rate_rps": rate, "clients": 200, **fields}


@pytest.mark.parametrize(
    ("fields", "rates_rps"),
    [
        ({"io_threads": 4}, (50e3, 300e3, 600e3)),
        ({"io_threads": 4, "slo": {"p99_ms": 0.3}}, (50e3, 300e3, 600e3)),
        ({"io_threads": 1}, (10e3, 150e3, 230e3)),
        ({"io_threads": 4, "engine": "redis", "engine_version": "8.2"}, (50e3, 500e3)),
    ],
)
def test_a_limit_does_not_depend_on_the_load_that_is_asked(
    fields: dict[str, Any], rates_rps: tuple[float, ...]
) -> None:
    together = judged(workload=open_loop(*rates_rps), **fields)
    [(_, alone, _)] = judged(workload=open_loop(rates_rps[0]), **fields)
    for prediction, limit, standing in together:
        assert limit == alone
        assert alone.at_rps is not None
        if standing.verdict == "STABLE" and meets(prediction):
            assert standing.limit_rps == max(alone.at_rps, standing.limit_rps or 0.0)
            assert standing.limit_rps == pytest.approx(alone.at_rps, rel=0.03)
            assert standing.next_bottleneck is not None
            assert standing.next_bottleneck.at_rps == standing.limit_rps


def test_the_limit_is_where_the_objective_breaks() -> None:
    """Somewhat below it the objective is met, somewhat above it isn't."""
    goal = {"io_threads": 2, "slo": {"p99_ms": 0.3}}
    [(_, limit, _)] = judged(workload=open_loop(100e3), **goal)
    assert limit.at_rps is not None
    below, above = judged(workload=open_loop(0.93 * limit.at_rps, 1.07 * limit.at_rps), **goal)
    assert meets(below[0])
    assert not meets(above[0])
    assert limit.at_rps <= limit.capacity_rps


@given(
    st.sampled_from([("valkey", "8.1"), ("valkey", "7.2"), ("redis", "8.2"), ("memcached", "1.6")]),
    st.integers(1, 6),
    st.integers(1, 60),
    st.floats(2e3, 6e5),
)
@settings(max_examples=3)
def test_a_point_agrees_with_its_limit(
    engine: tuple[str, str], io_threads: int, clients: int, rate_rps: float
) -> None:
    name, version = engine
    [(prediction, limit, standing)] = judged(
        engine=name,
        engine_version=version,
        io_threads=io_threads,
        workload=open_loop(rate_rps, clients=clients),
    )
    served_rps = prediction.mean("throughput_rps")
    assert limit.station != "none"
    assert (standing.bottleneck == "none") == (standing.verdict == "STABLE")
    assert standing.headroom_rps is not None
    assert standing.headroom_rps >= 0.0
    if standing.verdict == "OVERLOADED":
        assert standing.headroom_rps == 0.0
        assert limit.capacity_rps < 1.03 * rate_rps
    else:
        assert limit.capacity_rps > 0.93 * rate_rps
    if standing.next_bottleneck is not None:
        assert standing.next_bottleneck.name != standing.bottleneck
        assert standing.next_bottleneck.at_rps >= 0.97 * served_rps


def test_clients_that_never_pause_have_a_limit() -> None:
    few, many = judged(io_threads=4, workload={"clients": {"sweep": [2, 400]}})
    assert (few[2].bottleneck, few[2].verdict) == ("clients", "SATURATED")
    assert many[2].bottleneck == "I/O threads"
    for prediction, _, standing in (few, many):
        assert standing.limit_rps == prediction.mean("throughput_rps")
        assert standing.headroom_rps == 0.0
        assert standing.next_bottleneck is not None
        assert standing.next_bottleneck.at_rps >= prediction.mean("throughput_rps")
    # With more clients it is the threads that limit, and there as with many.
    assert few[2].next_bottleneck is not None
    assert few[2].next_bottleneck.name == "I/O threads"
    assert few[2].next_bottleneck.at_rps == pytest.approx(many[0].mean("throughput_rps"), rel=0.1)


def test_clients_that_think_have_what_they_would_get_without() -> None:
    [(_, thinking, standing)] = judged(workload={"clients": 200, "think_us": 5000})
    [(hurried, _, _)] = judged(workload={"clients": 200})
    assert (standing.bottleneck, standing.verdict) == ("none", "STABLE")
    assert thinking.capacity_rps == pytest.approx(hurried.mean("throughput_rps"), rel=0.05)


def test_a_load_that_changes_is_stretched_as_a_whole() -> None:
    pieces = [{"duration_s": 0.02, "rate_rps": 80e3}, {"duration_s": 0.005, "rate_rps": 300e3}]
    workload = {"arrival": "open_loop", "rate_profile": pieces, "clients": 200}
    [(_, limit, standing)] = judged(io_threads=4, workload=workload, slo={"p99_ms": 2.0})
    assert standing.verdict == "STABLE"
    coming = standing.next_bottleneck
    assert coming is not None
    assert coming.peak_rps >= 300e3
    assert coming.peak_rps / coming.at_rps == pytest.approx(300e3 / 124e3)
    assert limit.at_rps is not None
    assert limit.at_rps > 124e3


def test_a_setting_that_serves_less_in_saturation_is_not_saturated_by_that() -> None:
    """Threads that share a core spin it away when clients ask without a pause."""
    crowded = {"host": "m6i.large", "engine_version": "9.1", "io_threads": 2, "irq_cores": 1}
    workload = open_loop(40_000.0, clients=32, keys=14_600, value_bytes=15)
    [(prediction, limit, standing)] = judged(workload=workload, **crowded)
    assert limit.capacity_rps < 0.95 * prediction.mean("throughput_rps")
    assert max(prediction.utilisation.values()) < 0.5
    assert (standing.verdict, standing.bottleneck) == ("STABLE", "none")
    assert (standing.limit_rps, standing.headroom_rps) == (None, None)
