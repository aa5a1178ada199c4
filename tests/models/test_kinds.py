"""Scenarios that run over time: how a file finds its kind, and what comes back."""

import re
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict, Field

import forecache
from forecache.models.advice.answers import explain, recommend
from forecache.models.cost.answer import cost
from forecache.models.over_time import simulate_scenario
from forecache.models.over_time.simulate_scenario import simulate
from forecache.models.results.series import Fact, Mark, Run, Series, Table
from forecache.models.scenario.source import NODE, Kind
from forecache.sim.errors import InputError

SHIPPED = dict(simulate_scenario.KINDS)


class Ramp(BaseModel):
    """A kind for these tests: a value that rises."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["ramp"]
    name: str | None = None
    slope: float = Field(ge=0)
    steps: list[dict[str, float]] = []


def run_ramp(scenario: Ramp, seed: int, progress: simulate_scenario.Progress) -> Run:
    if scenario.slope > 100:
        raise InputError("field slope: found too much")
    progress(f"ramp of seed {seed}")
    times_s = np.arange(3.0)
    values = np.where(times_s > 1, np.nan, scenario.slope * times_s)
    return Run(
        times_s,
        [Series("height", "m", "height", values)],
        facts=[Fact("highest", np.float64(scenario.slope), "m"), Fact("falls", None, note="never")],
        marks=[Mark(1.0, "half way")],
        tables=[Table("steps", [("step", ""), ("height", "m")], [["first", 0.0]])],
        warnings=["made up"],
    )


@pytest.fixture(autouse=True)
def ramp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        simulate_scenario,
        "KINDS",
        {"ramp": Kind("simulate", f"{__name__}:Ramp", f"{__name__}:run_ramp")},
    )


def test_every_point_of_a_sweep_is_run_and_told() -> None:
    told: list[str] = []
    data = {"kind": "ramp", "slope": {"sweep": [1.0, 2.0]}}
    result = simulate(data, seed=7, progress=told.append).to_dict()
    assert result["kind"] == "ramp"
    assert [point["given"] for point in result["points"]] == [{"slope": 1.0}, {"slope": 2.0}]
    assert result["provenance"]["seed"] == 7
    assert told == [
        "point 1 of 2: slope 1.0",
        "ramp of seed 7",
        "point 2 of 2: slope 2.0",
        "ramp of seed 7",
    ]
    second = result["points"][1]
    assert second["series"]["time_s"] == [0.0, 1.0, 2.0]
    [height] = second["series"]["columns"]
    assert height["values"] == [0.0, 2.0, None]  # a gap, which JSON has no number for
    assert second["facts"][0] == {"name": "highest", "value": 2.0, "unit": "m", "note": ""}
    assert second["marks"] == [{"time_s": 1.0, "what": "half way"}]
    assert second["tables"][0]["rows"] == [["first", 0.0]]


def test_a_field_inside_a_list_may_be_swept() -> None:
    steps = [{"at_s": 1.0}, {"at_s": {"sweep": [2.0, 3.0]}}]
    result = simulate({"kind": "ramp", "slope": 1.0, "steps": steps}).to_dict()
    assert [point["given"] for point in result["points"]] == [
        {"steps.1.at_s": 2.0},
        {"steps.1.at_s": 3.0},
    ]
    assert result["scenario"]["steps"] == [{"at_s": 1.0}, {"at_s": 2.0}]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"kind": "slope"}, "scenario: field 'kind': found 'slope'; valid is node, cluster, "),
        ({"kind": "cost"}, "scenario: field 'kind': found 'cost'; valid here is node "),
        ({"kind": "ramp", "slope": -1}, "scenario: field 'slope': found -1"),
        ({"kind": "ramp", "slope": 101}, "scenario: field slope: found too much"),
    ],
)
def test_a_mistake_is_told_with_file_and_field(data: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match="^" + re.escape(message)):
        simulate(data)


@pytest.mark.parametrize(
    ("verb", "kind", "message"),
    [
        (recommend, "cluster", "valid here is node (or no kind); `forecache simulate` is for"),
        (explain, "memory", "valid here is node (or no kind); `forecache memory` is for memory."),
        (cost, "memory", "valid here is cost; `forecache memory` is for memory."),
        (cost, "costs", "did you mean 'cost'? Valid is node, cluster, node_life, overcommit"),
        (recommend, ["node"], "valid is node, "),
        (recommend, {"sweep": ["node"]}, "valid is node, "),
    ],
)
def test_another_verbs_kind_is_told_before_its_fields(
    verb: Callable[..., Any], kind: object, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        verb({"kind": kind, "duration_s": 60})
    assert str(caught.value).startswith(f"scenario: field 'kind': found {kind!r}; ")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_kind_has_a_verb_and_what_it_names_exists(name: str) -> None:
    kind = SHIPPED[name]
    assert callable(getattr(forecache, kind.verb))
    assert issubclass(kind.schema, BaseModel)
    assert get_args(kind.schema.model_fields["kind"].annotation) == (name,)
    # A node is simulated by something else.
    assert (kind.run_at is not None) == (kind.verb == "simulate" and name != NODE)
    assert kind.run_at is None or callable(kind.run)


def test_a_run_refuses_values_that_belong_to_no_time() -> None:
    times_s = np.arange(3.0)
    with pytest.raises(ValueError, match="as many values of height"):
        Run(times_s, [Series("height", "m", "height", np.zeros(2))], facts=[])
    with pytest.raises(ValueError, match="times that increase"):
        Run(np.array([0.0, 0.0]), [], facts=[])
    with pytest.raises(ValueError, match="cells"):
        Run(times_s, [], facts=[], tables=[Table("steps", [("step", "")], [[1, 2]])])
