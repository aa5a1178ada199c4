"""Two nodes side by side: pairs of the same random numbers, and what they share cancels."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecache.models.advice.answers import load_cases
from forecache.models.advice.compare import NodeComparison, compare
from forecache.models.advice.paired import (
    UNSHARED,
    PairedQuantity,
    PairKind,
    RatioSide,
    pair_kind,
    ratio_parts,
    ratio_verdict,
)
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.reports.builders.node import change, judged
from forecache.sim.errors import InputError
from forecache.sim.statistics import Estimate, student_t
from forecache.sim.words import NO_CLEAR_DIFFERENCE

BASE: dict[str, Any] = {
    "host": "graviton3-c7g.4xlarge",
    "engine": "valkey",
    "engine_version": "8.0",
    "io_threads": 1,
    "workload": {"clients": 50, "keys": 100_000, "value_bytes": 64},
}


def by_name(answer: NodeComparison) -> dict[str, PairedQuantity]:
    return {each.quantity: each for each in answer.differences}


def test_a_node_against_itself_is_the_same() -> None:
    found = by_name(compare(BASE, dict(BASE)))
    for each in found.values():
        assert each.ratio is not None
        assert (each.ratio.low, each.ratio.value, each.ratio.high) == (1.0, 1.0, 1.0), each.quantity
        assert each.verdict == NO_CLEAR_DIFFERENCE


def test_the_other_way_round_is_the_reciprocal() -> None:
    threads = {**BASE, "io_threads": 4}
    forth, back = by_name(compare(BASE, threads)), by_name(compare(threads, BASE))
    for name, difference in forth.items():
        one, other = difference.ratio, back[name].ratio
        assert one is not None
        assert other is not None
        assert one.value == pytest.approx(1.0 / other.value)
        assert one.low == pytest.approx(1.0 / other.high)
    assert forth["throughput_rps"].verdict == "higher"
    assert back["throughput_rps"].verdict == "lower"
    assert forth["usd_per_million_requests"].verdict == "lower"


ENGINES = {
    **BASE,
    "engine": ["redis 8.6", "valkey 9.1"],
    "engine_version": None,
    "io_threads": [1, 4],
}


def test_the_two_points_of_a_sweep_are_compared_as_two_scenarios_are() -> None:
    answer = compare(ENGINES)
    assert [answer.first.name, answer.second.name] == ["engine=redis 8.6", "engine=valkey 9.1"]
    alone = [{**ENGINES, "engine": engine} for engine in ENGINES["engine"]]
    assert answer.differences == compare(*alone).differences
    named = compare(ENGINES, points=["engine=valkey 9.1", "engine=redis 8.6"])
    assert named.first.name == answer.second.name


def test_points_of_a_larger_sweep_are_named() -> None:
    larger = {**ENGINES, "workload": {**BASE["workload"], "clients": [50, 100, 200]}}
    two = ["engine=redis 8.6, clients=50", "clients=200, engine=valkey 9.1"]
    answer = compare(larger, points=two)
    assert answer.second.scenario["workload"]["clients"] == 200
    for points, told in [
        ([], "found 6 points to compare; valid are two of its sweep (engine=redis 8.6, cli"),
        (["clients=50", "clients=100"], "found 'clients=50', which 2 points have; valid is one"),
        ([two[0], "clients=51"], "found 'clients=51', which 0 points have"),
        ([two[0], two[0]], "found 1 point to compare; valid are two"),
    ]:
        with pytest.raises(InputError) as error:
            compare(larger, points=points)
        assert told in str(error.value)
    with pytest.raises(InputError, match="it has none"):
        compare(BASE)
    with pytest.raises(InputError, match="of two scenarios; valid is one scenario"):
        compare(BASE, ENGINES, points=two)


def test_what_both_share_cancels() -> None:
    """The same server with larger values: its ratio is known better than either throughput."""
    larger = {**BASE, "workload": {**BASE["workload"], "value_bytes": 256}}
    found = by_name(compare(BASE, larger))["throughput_rps"]
    assert found.first is not None
    assert found.second is not None
    assert found.ratio is not None
    widths = [math.log(e.high / e.low) for e in (found.first, found.second, found.ratio)]
    assert widths[2] < 0.8 * math.hypot(widths[0], widths[1])
    assert by_name(compare(BASE, larger))["used_memory_bytes"].verdict == "higher"


def test_a_sweep_of_threads_stands_for_the_recommended_one() -> None:
    answer = compare(BASE, {**BASE, "io_threads": {"sweep": [1, 4]}})
    assert answer.second.point.given == {"io_threads": 4}
    assert [answer.first.name, answer.second.name] == ["first", "second"]


def test_a_latency_beyond_capacity_has_no_ratio() -> None:
    load = {**BASE["workload"], "arrival": "open_loop", "rate_rps": 10_000_000}
    found = by_name(compare(BASE, {**BASE, "workload": load}))["p99_ms"]
    assert found.second is None
    assert found.ratio is None
    assert found.verdict is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"io_threads": 4}, "settings"),
        ({"engine_version": "9.1"}, "versions"),
        ({"engine": "redis", "engine_version": "7.0"}, "versions"),
        ({"engine": "memcached", "engine_version": "1.6"}, "families"),
        ({"workload": {**BASE["workload"], "clients": 20}}, "loads"),
        ({"engine_version": "9.1", "tls": {}}, "loads"),
        ({"host": "graviton3-c7g.2xlarge"}, "settings"),
        ({"host": "graviton4-c8g.4xlarge", "io_threads": 4}, "hosts"),
    ],
)
def test_pairs_are_of_the_kind_of_what_they_differ_in(
    change: dict[str, Any], expected: PairKind
) -> None:
    one, other = (
        side_of(case.scenario, system)
        for [(case, system)] in (load_cases(BASE), load_cases({**BASE, **change}))
    )
    assert pair_kind(one, other) == expected


def side_of(scenario: Scenario, system: System, **changes: Any) -> RatioSide:
    """A side with an error of 10% and nothing that was simulated."""
    made = RatioSide(scenario, system, np.array([]), np.array([]), 0.1, 0.02, None)
    return replace(made, **changes)


def test_the_interval_is_of_what_is_not_shared() -> None:
    [(case, system)] = load_cases(BASE)
    other = case.scenario.model_copy(update={"io_threads": 4})
    drawn, chance = np.array([0.0, 0.3, -0.3]), np.array([0.0, 0.01, -0.01, 0.02])
    one = side_of(case.scenario, system, nominal=chance, drawn=drawn)
    # What both draw alike cancels; the model's errors do in part.
    parts = ratio_parts(one, side_of(other, system, nominal=chance + 1.0, drawn=drawn + 1.0))
    assert parts.chance == pytest.approx(0.0, abs=1e-9)
    assert parts.parameters == pytest.approx(0.0, abs=1e-9)
    assert parts.model == pytest.approx(UNSHARED["settings"] * math.hypot(0.1, 0.1))
    assert parts.half == pytest.approx(parts.model)
    # Draws that move one side only stay, by Student t of three draws.
    parts = ratio_parts(one, side_of(other, system, nominal=chance, drawn=0.0 * drawn))
    assert parts.parameters == pytest.approx(student_t(0.95, 2) * 0.3)
    # What bounds both alike leaves of the model's errors what would make the server the limit.
    bound = {"bound": ("network", "c7g")}
    both = side_of(case.scenario, system, **bound), side_of(other, system, **bound)
    model = ratio_parts(*both).model
    assert model == pytest.approx(UNSHARED["settings"] * math.hypot(0.02, 0.02))
    elsewhere = replace(both[1], bound=("network", "c8g"))
    assert ratio_parts(both[0], elsewhere).model > 4 * model


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        ((1.00006, 1.00006, 1.00006), NO_CLEAR_DIFFERENCE),  # known, but not worth a word
        ((1.0099, 1.0001, 1.02), NO_CLEAR_DIFFERENCE),
        ((1.02, 1.01, 1.03), "higher"),
        ((0.98, 0.97, 0.99), "lower"),
        ((1.3, 0.9, 1.9), NO_CLEAR_DIFFERENCE),
        ((1.0, 1.0, 1.0), NO_CLEAR_DIFFERENCE),
    ],
)
def test_a_verdict_needs_a_difference_that_is_known_and_worth_a_word(
    ratio: tuple[float, float, float], verdict: str
) -> None:
    assert ratio_verdict(Estimate(*ratio)) == verdict
    value, low, high = ratio
    back = {"higher": "lower", "lower": "higher"}.get(verdict, NO_CLEAR_DIFFERENCE)
    assert ratio_verdict(Estimate(1 / value, 1 / high, 1 / low)) == back


LARGE = {**BASE["workload"], "clients": 400, "value_bytes": 65_536, "keys": 20_000}
PAUSING = {**BASE["workload"], "think_us": 20_000}
FEW = {"tool": "valkey-benchmark", "threads": 1}


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize(
    ("both", "bottleneck"),
    [
        ({"workload": LARGE}, "network"),
        ({"workload": {**LARGE, "value_bytes": 64}, "load_generator": FEW}, "load generator"),
        ({"workload": PAUSING}, "none"),
    ],
)
def test_a_bound_that_both_share_is_known_far_better_than_either(
    both: dict[str, Any], bottleneck: str
) -> None:
    """Settings that network, load generator or pauses bound alike: 1.00, not 1.00 ± 25%."""
    one = {**BASE, "io_threads": 4, **both}
    answer = compare(one, {**one, "io_threads": 6})
    found = by_name(answer)
    assert answer.first.point.bottleneck == answer.second.point.bottleneck == bottleneck
    throughput = found["throughput_rps"]
    assert throughput.ratio is not None
    assert 0.95 < throughput.ratio.low <= throughput.ratio.high < 1.05  # short runs
    assert throughput.verdict == NO_CLEAR_DIFFERENCE
    # What the server computes is not known better by that.
    cpu = found["server_cpu_us"].ratio
    assert cpu is not None
    assert cpu.high / cpu.low > 1.05


@pytest.mark.usefixtures("short_runs")
def test_what_both_could_serve_is_a_ratio_too() -> None:
    load = {**BASE["workload"], "arrival": "open_loop", "rate_rps": 50_000}
    one, other = ({**BASE, "io_threads": n, "workload": load} for n in (1, 4))
    answer = compare(one, other)
    found = by_name(answer)
    limits = answer.first.point.limit_rps, answer.second.point.limit_rps
    assert limits[0] is not None
    assert limits[1] is not None
    difference = found["limit_rps"]
    assert difference.ratio is not None
    assert difference.ratio.value == pytest.approx(limits[1] / limits[0])
    assert difference.verdict == "higher"
    for estimate, limit in ((difference.first, limits[0]), (difference.second, limits[1])):
        assert estimate is not None
        assert estimate.low < estimate.value == limit < estimate.high
    # Both keep up with what is asked, so its rate doesn't differ.
    assert found["throughput_rps"].verdict == NO_CLEAR_DIFFERENCE
    # Clients that never pause get all that both could serve.
    found = by_name(compare(BASE, {**BASE, "io_threads": 4}))
    assert found["limit_rps"].ratio == found["throughput_rps"].ratio
    # Clients that pause get less: their pauses are no part of what the server can do.
    answer = compare(BASE, {**BASE, "workload": PAUSING})
    found = by_name(answer)
    assert found["throughput_rps"].verdict == "lower"
    assert found["limit_rps"].ratio.value == pytest.approx(1.0, rel=0.05)
    assert found["limit_rps"].verdict == NO_CLEAR_DIFFERENCE


@pytest.mark.usefixtures("short_runs")
def test_used_memory_that_hardly_differs_is_no_difference() -> None:
    longer = {**BASE, "workload": {**BASE["workload"], "keys": 100_050}}
    memory = by_name(compare(BASE, longer))["used_memory_bytes"]
    assert memory.ratio is not None
    assert 1.0 < memory.ratio.value < 1.001
    assert memory.verdict == NO_CLEAR_DIFFERENCE
    assert change(memory) == "under 1%"
    assert judged(memory) == NO_CLEAR_DIFFERENCE


def test_only_threads_may_be_swept(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("host: graviton3-c7g.4xlarge\nengine: valkey\n", encoding="utf-8")
    with pytest.raises(InputError, match="same file twice"):
        compare(file, file)
    workload = {**BASE["workload"], "clients": {"sweep": [10, 50]}}
    with pytest.raises(InputError, match=r"clients"):
        compare(file, {**BASE, "workload": workload})
