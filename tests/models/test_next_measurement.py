"""The next measurement: it tells what the answer hinges on, and narrows it by what it says."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.hwprofiles.quantity import Quantity
from forecache.models.advice.answers import explain, load_cases, recommend
from forecache.models.advice.effects import (
    Uncertain,
    correlations,
    effects,
    uncertain_numbers,
)
from forecache.models.advice.next_measurement import (
    MEASURED_ERROR,
    Measurement,
    next_measurement,
    strongest_rival,
    variance_left,
)
from forecache.models.advice.node_answers import Shown
from forecache.models.engines.profile import HAND_OVER_WORK
from forecache.models.prediction.predict import Metrics, Prediction, predict_cases
from forecache.models.prediction.system import System
from forecache.models.scenario.sweeps import Case
from tests.models.made_profiles import observed_on, prior

BASE: dict[str, Any] = {
    "host": "graviton3-c7g.4xlarge",
    "engine": "valkey",
    "engine_version": "8.0",
    "workload": {"clients": 100, "command": "get"},
}
[(CASE, SHIPPED)] = load_cases(BASE)
SYSTEM = System(SHIPPED.host, prior(SHIPPED.engine), SHIPPED.generator)


TOOL = {"tool": "valkey-benchmark"}


def predicted(system: System = SYSTEM, *, draws: int = 10, **fields: Any) -> Prediction:
    [(case, _)] = load_cases({**BASE, **fields})
    [prediction] = predict_cases([(case, system)], draws=draws, replications=2)
    return prediction


def certain(leaf: Quantity) -> Quantity:
    return leaf.model_copy(update={"value": leaf.best, "low": leaf.best, "high": leaf.best})


def without_ranges(
    system: System, *, engine_but: frozenset[str], keep_host: bool, keep_generator: bool
) -> System:
    """The system with the ranges of all work removed but some."""
    work = {
        name: leaf if name in engine_but else certain(leaf)
        for name, leaf in system.engine.work.items()
    }
    engine = system.engine.model_copy(update={"work": work})
    generator = system.generator
    if not keep_generator:
        known = {name: certain(leaf) for name, leaf in generator.work.items()}
        generator = generator.model_copy(update={"work": known})
    host = system.host
    if not keep_host:
        # An engine observed on the very host leaves nothing of the host open.
        engine = observed_on(host.id, engine)
    return System(host, engine, generator)


def numbers_of(errors: list[float]) -> list[Uncertain]:
    return [
        Uncertain("work", f"n{i}", math.exp(-error), math.exp(error), error)
        for i, error in enumerate(errors)
    ]


def tells(*names: str, halves: bool = False) -> Measurement:
    return Measurement("measure", (), False, {"work": frozenset(names)}, halves)


def test_a_measurement_leaves_its_own_error() -> None:
    numbers, moves = numbers_of([0.3, 0.1]), np.array([0.2, 0.05])
    alone = np.eye(2)
    assert variance_left(None, numbers, moves, alone) == pytest.approx(0.2**2 + 0.05**2)
    left = 0.2**2 * MEASURED_ERROR**2 / (0.3**2 + MEASURED_ERROR**2) + 0.05**2
    assert variance_left(tells("n0"), numbers, moves, alone) == pytest.approx(left)
    assert variance_left(tells("other"), numbers, moves, alone) == pytest.approx(0.0425)
    halved = variance_left(tells("n0", "n1", halves=True), numbers, moves, alone)
    assert halved == pytest.approx(0.0425 / 2)


def test_what_goes_together_is_told_together() -> None:
    numbers, moves = numbers_of([0.3, 0.3]), np.array([0.2, 0.2])
    same = np.ones((2, 2))
    left = 0.4**2 * MEASURED_ERROR**2 / (0.3**2 + MEASURED_ERROR**2)
    assert variance_left(tells("n0"), numbers, moves, same) == pytest.approx(left)
    opposite = np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert variance_left(None, numbers, moves, opposite) == pytest.approx(0.0)


@given(st.integers(0, 2**32 - 1), st.integers(2, 8))
def test_to_measure_more_never_leaves_more(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    factor = random.standard_normal((count, count))
    matrix = factor @ factor.T + 1e-3 * np.eye(count)
    errors = np.sqrt(np.diag(matrix))
    correlation = matrix / np.outer(errors, errors)
    numbers = numbers_of([float(e) for e in random.uniform(0.01, 1.0, count)])
    moves = random.standard_normal(count)
    left = [variance_left(None, numbers, moves, correlation)]
    for known in range(1, count + 1):
        names = [f"n{i}" for i in range(known)]
        left.append(variance_left(tells(*names), numbers, moves, correlation))
    assert all(b <= a + 1e-9 for a, b in itertools.pairwise(left))
    assert left[-1] >= 0.0


def test_correlations_are_those_of_the_fit() -> None:
    covariance = {
        "get_instructions": {"get_instructions": 0.04, "parse_instructions": -0.03},
        "parse_instructions": {"get_instructions": -0.03, "parse_instructions": 0.09},
    }
    engine = observed_on(SYSTEM.host.id, SYSTEM.engine, covariance=covariance)
    system = System(SYSTEM.host, engine, SYSTEM.generator)
    numbers = uncertain_numbers(system)
    matrix = correlations(system, numbers)
    index = {number.name: i for i, number in enumerate(numbers) if number.part == "work"}
    get, parse = index["get_instructions"], index["parse_instructions"]
    assert numbers[get].error == pytest.approx(0.2)
    assert matrix[get, parse] == matrix[parse, get] == pytest.approx(-0.5)
    assert np.count_nonzero(matrix - np.eye(len(numbers))) == 2


def test_one_thread_hands_nothing_over() -> None:
    numbers = uncertain_numbers(SYSTEM)
    moves = effects(predicted(), None, numbers, seed=1)
    move = {(number.part, number.name): float(m) for number, m in zip(numbers, moves, strict=True)}
    for name in HAND_OVER_WORK:
        assert move.get(("work", name), 0.0) == 0.0
    assert move["speed", "core_to_core_ns"] == 0.0
    assert move["speed", "user_ipc"] > 0.005
    assert move["work", "get_instructions"] < -0.01
    assert move["work", "kernel_scale"] < -0.01


def test_the_effects_add_up_to_what_draws_show() -> None:
    prediction = predicted(draws=60)
    numbers = uncertain_numbers(SYSTEM)
    moves = effects(prediction, None, numbers, seed=1)
    drawn = float(np.std(prediction.log_draws("throughput_rps"), ddof=1))
    told = float(np.sqrt(moves @ correlations(SYSTEM, numbers) @ moves))
    assert told == pytest.approx(drawn, rel=0.3)


def test_what_a_measurement_promises_it_keeps() -> None:
    """Draws of a system whose numbers were measured are as narrow as was said beforehand."""
    open_work = frozenset(SYSTEM.engine.work) - HAND_OVER_WORK
    before = without_ranges(SYSTEM, engine_but=open_work, keep_host=False, keep_generator=True)
    found = next_measurement(predicted(before, draws=60), [], seed=1)
    counting = next(row for row in found.measurements if "count" in row.what)
    work = {
        name: leaf if "_instructions" not in name or name in HAND_OVER_WORK else measured(leaf)
        for name, leaf in before.engine.work.items()
    }
    after = System(before.host, before.engine.model_copy(update={"work": work}), before.generator)
    prediction = predicted(after, draws=60)
    half = math.sqrt(sum(part**2 for part in vars(prediction.parts("throughput_rps")).values()))
    assert counting.margin == pytest.approx(half, rel=0.15)
    assert counting.margin < 0.98 * found.margin


def measured(leaf: Quantity) -> Quantity:
    assert leaf.low is not None
    assert leaf.high is not None
    error = math.log(leaf.high / leaf.low) / (2 * 1.96)
    left = error * MEASURED_ERROR / math.hypot(error, MEASURED_ERROR)
    low, high = leaf.best * math.exp(-1.96 * left), leaf.best * math.exp(1.96 * left)
    return leaf.model_copy(update={"value": leaf.best, "low": low, "high": high})


@pytest.mark.parametrize(
    ("engine_but", "keep_host", "keep_generator", "io_threads", "told"),
    [
        (frozenset(), True, False, 1, "profile graviton3-c7g.4xlarge itself"),
        (HAND_OVER_WORK, False, False, 6, "several io-threads on"),
        (frozenset({"get_instructions"}), False, False, 1, "count the engine’s instructions"),
        (frozenset(), False, True, 16, "measure valkey-benchmark alone"),
    ],
)
def test_the_best_measurement_is_of_what_is_uncertain(
    engine_but: frozenset[str], keep_host: bool, keep_generator: bool, io_threads: int, told: str
) -> None:
    system = without_ranges(
        SYSTEM, engine_but=engine_but, keep_host=keep_host, keep_generator=keep_generator
    )
    threads = {"threads": 1} if keep_generator else {}
    prediction = predicted(system, io_threads=io_threads, load_generator={**TOOL, **threads})
    found = next_measurement(prediction, [], seed=1)
    assert told in found.measurements[0].what
    margins = [row.margin for row in found.measurements]
    assert margins == sorted(margins)
    assert all(found.model_margin <= margin < found.margin for margin in margins)


def test_nothing_to_measure_where_nothing_is_uncertain() -> None:
    system = without_ranges(SYSTEM, engine_but=frozenset(), keep_host=False, keep_generator=False)
    found = next_measurement(predicted(system), [], seed=1)
    assert found.measurements == []


def made_up(threads: int, draws: list[float]) -> Prediction:
    case = Case(
        given={"io_threads": threads},
        scenario=CASE.scenario.model_copy(update={"io_threads": threads}),
    )
    result = predicted(draws=0).nominal[0].result
    runs = [Metrics({"throughput_rps": value}, result) for value in draws]
    return Prediction(case, SYSTEM, [Metrics({"throughput_rps": draws[0]}, result)], runs)


@pytest.mark.parametrize(
    ("draws", "open_yet"),
    [
        ([100.0, 100.0, 100.0], False),  # a plateau is no question
        ([80.0, 80.1, 79.9], False),
        ([100.0, 140.0, 70.0], True),
        ([90.0, 120.0, 65.0], True),
    ],
)
def test_a_rival_is_one_that_may_be_the_better_choice(draws: list[float], open_yet: bool) -> None:
    chosen, rival = made_up(6, [100.0, 100.0, 100.0]), made_up(8, draws)
    assert (strongest_rival(chosen, [rival]) is rival) == open_yet


def test_fewer_threads_that_may_be_enough_are_a_rival() -> None:
    chosen = made_up(6, [100.0, 100.0, 100.0])
    near, far = made_up(4, [93.0, 97.0, 89.0]), made_up(2, [60.0, 61.0, 59.0])
    assert strongest_rival(chosen, [far, near]) is near
    assert strongest_rival(chosen, [far]) is None


@pytest.mark.usefixtures("short_runs")
def test_recommend_and_explain_name_the_same_measurement() -> None:
    said = recommend(BASE).recommendation.measure_next
    result = explain(BASE)
    assert result.measure_next == said
    assert said.measurements
    assert [point.given for point in result.points] == [{}]


@pytest.mark.usefixtures("short_runs")
def test_other_sweeps_are_about_their_least_certain_point() -> None:
    workload = {**BASE["workload"], "pipeline": {"sweep": [1, 16]}}
    result = explain({**BASE, "workload": workload})
    widest = max(result.points, key=lambda point: point.uncertainty.parameters)
    pipeline = widest.given["pipeline"]
    assert result.measure_next.quantity == f"throughput at pipeline {pipeline}"
    assert result.shown == Shown(0, recommended=False, closest=False)


def test_a_given_rate_is_about_its_latency() -> None:
    workload = {"clients": 50, "arrival": "open_loop", "rate_rps": 60_000}
    found = next_measurement(predicted(workload=workload), [], seed=1)
    assert found.quantity == "p99 at io-threads 1"
    assert found.measurements
