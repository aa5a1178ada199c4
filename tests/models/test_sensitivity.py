"""Sobol indices of uncertain numbers and of choices: closed forms, and those of a node."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, sobol_indices, uniform

from forecache.models.advice import sensitivity as sensitivity_module
from forecache.models.advice.answers import load_cases
from forecache.models.advice.sensitivity import (
    REST,
    ChoiceInputs,
    InputGroup,
    UncertainInputs,
    find_sensitivity,
    input_indices,
    screening,
)
from forecache.models.advice.sobol import (
    STEP,
    ControlVariate,
    Design,
    Evaluations,
    evaluate_design,
    total_order,
)
from forecache.models.prediction.predict import Prediction, predict_cases
from forecache.models.prediction.system import System
from forecache.models.prediction.uncertainty import Draw, symmetric_root
from forecache.sim.executors import InThisThread
from tests.models.made_profiles import observed_on

BASE: dict[str, Any] = {
    "host": "graviton3-c7g.4xlarge",
    "engine": "valkey",
    "engine_version": "9.1",
    "workload": {"clients": 50, "command": "get", "keys": 10_000},
    "load_generator": {"threads": 2},
}
COVARIANCE = np.array([[1.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 1.0]])
SLOPES = np.array([1.0, -2.0, 0.5])


def predicted(**fields: Any) -> Prediction:
    [case] = load_cases({**BASE, **fields})
    [prediction] = predict_cases([case], draws=6, replications=2, requests=4000)
    return prediction


@pytest.fixture(scope="module")
def prediction() -> Prediction:
    return predicted()


def ishigami(steps: np.ndarray) -> np.ndarray:
    x = np.pi * (2.0 * norm.cdf(steps) - 1.0)
    return np.asarray(np.sin(x[:, 0]) * (1.0 + 0.1 * x[:, 2] ** 4) + 7.0 * np.sin(x[:, 1]) ** 2)


def values_of(design: Design, function: Any) -> Evaluations:
    alone = [[number] for number in range(len(design.root))]
    return evaluate_design(design, alone, lambda x, _: function(x), chance=False)


def test_indices_of_ishigami_are_those_of_the_literature_and_of_scipy_itself() -> None:
    found = total_order(values_of(Design.of(np.eye(3), rows=2048, seed=3), ishigami), seed=3)
    # Saltelli and others, Global Sensitivity Analysis: The Primer, 2008, with a = 7, b = 0.1.
    for each, known in zip(found, (0.5576, 0.4424, 0.2437), strict=True):
        assert each.low <= known <= each.high
        assert each.high - each.low < 0.12
    x = uniform(loc=-np.pi, scale=2 * np.pi)
    scipys = sobol_indices(
        func=lambda x: ishigami(norm.ppf(x.T / (2 * np.pi) + 0.5)), n=2048, dists=[x, x, x]
    )
    assert [each.value for each in found] == pytest.approx(scipys.total_order, abs=0.05)


def test_an_index_of_correlated_numbers_is_what_is_left_when_the_others_are_known() -> None:
    found = total_order(
        values_of(Design.of(COVARIANCE, rows=2048, seed=1), lambda x: x @ SLOPES), seed=1
    )
    left = SLOPES**2 / np.diag(np.linalg.inv(COVARIANCE))
    known = left / (SLOPES @ COVARIANCE @ SLOPES)
    assert [each.value for each in found] == pytest.approx(known.tolist(), rel=0.06)


def test_drawing_again_or_stepping_leaves_all_other_numbers_alone() -> None:
    design = Design.of(COVARIANCE, rows=256, seed=1)
    before = design.steps(design.first)
    for group in ([0], [1], [0, 2]):
        after = design.redrawn(group)
        others = [number for number in range(3) if number not in group]
        assert np.allclose(after[:, others], before[:, others])
        assert (np.abs(after[:, group] - before[:, group]) > 0).all()
        # What is drawn again has the distribution of what was there.
        assert np.cov(after.T) == pytest.approx(COVARIANCE, abs=0.12)
    everything = design.redrawn([0, 1, 2])
    assert np.allclose(everything, design.steps(design.second))
    after, signs = design.stepped(1)
    assert np.allclose(after[:, [0, 2]], before[:, [0, 2]])
    error = np.sqrt(1.0 / np.linalg.inv(COVARIANCE)[1, 1])
    assert np.allclose(after[:, 1] - before[:, 1], signs * STEP * error)


@pytest.mark.parametrize("likeness", [1.0, 0.0])
def test_a_stand_in_narrows_intervals_if_it_is_like_the_function_and_never_moves_them(
    likeness: float,
) -> None:
    """What is rare is in few of few rows: there a stand-in that knows it helps."""

    def function(x: np.ndarray) -> np.ndarray:
        return np.asarray(x[:, 0] + 4.0 * np.maximum(0.0, x[:, 1] - 1.5) + 0.1 * x[:, 2])

    def stand_in(x: np.ndarray) -> np.ndarray:
        noise = np.sin(57.0 * x.sum(axis=1))
        return np.asarray(likeness * 0.8 * function(x) + (1.0 - likeness) * noise)

    truth = values_of(Design.of(np.eye(3), rows=2**15, seed=9), function).totals()
    known = values_of(Design.of(np.eye(3), rows=2**13, seed=5), stand_in).totals()
    plain_width = helped_width = 0.0
    inside = 0
    for seed in range(20):
        design = Design.of(np.eye(3), rows=64, seed=seed)
        values, other = values_of(design, function), values_of(design, stand_in)
        plain = total_order(values, seed=seed)[1]
        helped = total_order(values, seed=seed, control=ControlVariate(other, known))[1]
        plain_width += plain.half_width
        helped_width += helped.half_width
        inside += helped.low - 0.02 <= truth[1] <= helped.high + 0.02
    assert inside >= 16
    if likeness:
        assert helped_width < 0.3 * plain_width
    else:
        assert helped_width == pytest.approx(plain_width, rel=0.1)


def test_elementary_effects_are_slopes_per_standard_error() -> None:
    design = Design.of(np.eye(3), rows=8, seed=1)
    found, squares = screening(design, ["a", "b", "c"], lambda x, _: np.asarray(x @ SLOPES))
    assert [each.mean_absolute for each in found] == pytest.approx([1.0, 2.0, 0.5])
    assert [each.spread for each in found] == pytest.approx([0.0] * 3, abs=1e-9)
    assert squares == pytest.approx(SLOPES**2)


def run_of(function: Any, *, rows: int = 64) -> tuple[Evaluations, list[InputGroup]]:
    groups = [InputGroup("a", [0]), InputGroup(REST, [1, 2])]
    design = Design.of(np.eye(3), rows=rows, seed=2)
    numbers = [group.numbers for group in groups]
    return evaluate_design(design, numbers, function, chance=True), groups


def test_chance_is_an_index_of_its_own_and_no_input() -> None:
    def noisy(x: np.ndarray, numbers: Any) -> np.ndarray:
        noise = np.random.default_rng(0).standard_normal(10_000)
        return np.asarray(3.0 * x[:, 0] + noise[np.asarray(numbers)])

    found, groups = run_of(noisy, rows=512)
    told = input_indices(found, groups, basis="simulation", seed=1)
    assert told.chance is not None
    assert told.chance.low < 0.1 < told.chance.high
    by_name = {each.name: each for each in told.indices}
    # Common random numbers: the numbers without effect have none, noise or not.
    assert by_name[REST].total.value == 0.0
    assert by_name[REST].inputs == 2
    assert by_name["a"].total.value == pytest.approx(0.9, abs=0.1)
    assert told.runs == 5 * 512


def test_what_overloads_is_ranked_and_what_does_nothing_has_no_index() -> None:
    def latency(x: np.ndarray, _: Any) -> np.ndarray:
        return np.where(x[:, 0] > 1.0, np.inf, x[:, 0])

    found, groups = run_of(latency, rows=256)
    told = input_indices(found, groups, basis="simulation", seed=1)
    assert told.ranks
    assert told.overloaded == pytest.approx(0.16, abs=0.04)
    assert told.indices[0].name == "a"
    assert told.indices[0].total.value == pytest.approx(1.0, abs=0.1)
    still, groups = run_of(lambda x, _: np.zeros(len(x)))
    assert input_indices(still, groups, basis="simulation", seed=1).indices == []


@pytest.mark.parametrize("here", [False, True])
def test_steps_of_a_draw_make_the_numbers_of_that_draw(here: bool) -> None:
    [(_, system)] = load_cases(BASE)
    if here:
        covariance = {
            "read_lines": {"read_lines": 0.04, "write_lines": 0.01},
            "write_lines": {"read_lines": 0.01, "write_lines": 0.09},
        }
        system = System(
            system.host,
            observed_on(system.host.id, system.engine, covariance=covariance),
            system.generator,
        )
    names, covariance_of = system.uncertain_steps()
    assert here == system.observed_here
    draw = Draw(1, 3)
    steps = symmetric_root(covariance_of) @ draw.normals(names)
    given = dict(zip(names, steps.tolist(), strict=True))
    drawn, made = system.numbers(draw=3), system.numbers_at(given)
    assert made.disk == pytest.approx(drawn.disk)
    for part in ("speed", "work", "generator"):
        one, other = getattr(drawn, part), getattr(made, part)
        for field in fields(one):
            value = getattr(one, field.name)
            if isinstance(value, float):
                assert getattr(other, field.name) == pytest.approx(value, rel=1e-9), field.name
    assert system.numbers_at({}).speed == system.numbers().speed


def test_numbers_that_change_no_duration_are_no_inputs(prediction: Prediction) -> None:
    over_tcp = UncertainInputs.of(prediction)
    assert "host.unix_send_ns" not in over_tcp.names
    assert {"host.tcp_send_ns", "work.read_lines"} <= set(over_tcp.names)
    assert "engine.read_lines" in over_tcp.titles
    assert over_tcp.inert > 0
    over_unix = UncertainInputs.of(predicted(transport="unix_socket"))
    assert "host.unix_send_ns" in over_unix.names


def test_choices_are_the_sweeps_of_the_scenario_and_ranges_about_its_point() -> None:
    asked = load_cases(
        {
            **BASE,
            "io_threads": {"sweep": [1, 4]},
            "workload": {"clients": {"sweep": [10, 30, 90]}, "value_bytes": 100, "keys": 1000},
        }
    )
    choices = ChoiceInputs.of(asked, asked[1])
    found = {each.name: each for each in choices.inputs}
    assert found["io_threads"].values == [1, 4]
    assert found["clients"].values == [10, 30, 90]
    assert found["clients"].swept
    assert found["pipeline"].values == [1, 2, 3, 4]
    assert (found["value_bytes"].values[0], found["value_bytes"].values[-1]) == (25, 400)
    assert "rate_rps" not in found
    lowest, _ = choices.point([0.0] * len(choices.inputs))
    assert lowest.scenario.io_threads == 1
    assert lowest.scenario.workload.clients == 10
    assert lowest.scenario.workload.value_bytes == 25
    highest, _ = choices.point([0.999] * len(choices.inputs))
    assert highest.scenario.workload.clients == 90
    assert highest.scenario.workload.pipeline == 4


def test_a_range_ends_where_a_field_does() -> None:
    """A pipeline is at most 1024, and an open loop has none."""
    asked = load_cases({**BASE, "workload": {"clients": 2, "pipeline": 600, "value_bytes": 10}})
    found = {each.name: each for each in ChoiceInputs.of(asked, asked[0]).inputs}
    assert max(found["pipeline"].values) == 600
    load = {"arrival": "open_loop", "rate_rps": 1000, "clients": 8}
    asked = load_cases({**BASE, "workload": load})
    found = {each.name: each for each in ChoiceInputs.of(asked, asked[0]).inputs}
    assert "pipeline" not in found
    assert (min(found["rate_rps"].values), max(found["rate_rps"].values)) == (500, 1250)


def test_a_node_is_told_by_simulation(
    prediction: Prediction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensitivity_module, "SAMPLES", (4,))
    monkeypatch.setattr(sensitivity_module, "SCREENING_ROWS", 2)
    monkeypatch.setattr(sensitivity_module, "MOST_INPUTS", 3)
    monkeypatch.setattr(sensitivity_module, "SURROGATE_SAMPLES", 256)
    asked = [(prediction.case, prediction.system)]

    def found(executor: Any) -> Any:
        return find_sensitivity(prediction, asked, seed=1, executor=executor)

    told = found(InThisThread())
    uncertain = told.uncertain
    assert told.quantity == "throughput_rps"
    assert uncertain.basis == "simulation"
    assert [each.name for each in uncertain.indices].index(REST) == 3
    assert len(uncertain.screened) == sum(each.inputs for each in uncertain.indices)
    assert uncertain.runs == 2 * (len(uncertain.screened) + 1) + 4 * (len(uncertain.indices) + 3)
    assert all(0.0 <= e.total.low <= e.total.value <= e.total.high for e in uncertain.indices)
    assert uncertain.chance is not None
    assert uncertain.chance.value < 0.1
    # One thread, whose steps add up: the bounds and a regression tell that.
    assert told.surrogate_unexplained < 0.1
    assert told.choices is not None
    assert {e.name for e in told.choices.indices} >= {"io_threads", "clients", "pipeline"}
    assert told.measure_next.quantity.startswith("throughput")
    json.dumps(told.to_dict(), allow_nan=False)
    with ThreadPoolExecutor(2) as pool:
        assert found(pool).to_dict() == told.to_dict()


def test_what_takes_too_long_is_told_by_the_surrogate(
    prediction: Prediction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensitivity_module, "MOST_S", 0.0)
    monkeypatch.setattr(sensitivity_module, "SURROGATE_SAMPLES", 256)
    asked = [(prediction.case, prediction.system)]
    told = find_sensitivity(prediction, asked, seed=1, executor=InThisThread())
    assert told.uncertain.basis == "surrogate"
    assert told.uncertain.chance is None
    assert told.choices is None
    assert 0.0 <= told.surrogate_unexplained <= 1.0
    assert told.uncertain.indices[0].total.value > 0.05
    assert told.measure_next.measurements
