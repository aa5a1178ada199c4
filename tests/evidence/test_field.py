"""Cases of public reports: how they are read, and what becomes of a row."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from evidence.field import cases as cases_module
from evidence.field.cases import FILE, SCENARIOS, at_point, load_cases, read_cases
from evidence.field.page import error_of, judged, verdict_of
from evidence.field.quantities import QUANTITIES
from evidence.field.study import Verbs, rows_of
from forecache.sim.errors import InputError


def written(tmp_path: Path, **changed: Any) -> Path:
    """A file with one case, of which something is changed."""
    case = {
        "case": "F1",
        "about": "something",
        "source": "a page",
        "machine": "known",
        "verb": "simulate",
        "measured": [{"scenario": "F8-6.0.yaml", "values": {"throughput_rps": 100.0}}],
    }
    file = tmp_path / "cases.yaml"
    file.write_text(yaml.safe_dump({"cases": [case | changed]}))
    return file


def measured(**fields: Any) -> list[dict[str, Any]]:
    return [{"scenario": "F8-6.0.yaml", "values": {"throughput_rps": 1.0}} | fields]


def test_a_case_as_it_should_be_is_read(tmp_path: Path) -> None:
    [case] = read_cases(written(tmp_path))
    assert case.scenarios == ["F8-6.0.yaml"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"machin": "known"}, "machin"),
        ({"machine": "alike"}, "machine"),
        ({"measured": measured(valuse={"p50_ms": 1.0})}, "valuse"),
        ({"measured": measured(values={"troughput_rps": 1.0})}, "troughput_rps"),
        ({"measured": measured(values={"p50_ms": True})}, "p50_ms"),
        ({"measured": measured(values={"p50_ms": {"low": 2.0, "high": 1.0}})}, "low <= high"),
        ({"measured": measured(values={"p50_ms": {"low": 2.0, "hihg": 1.0}})}, "p50_ms"),
        ({"measured": measured(at={"clients": [1, 2]})}, "2 of throughput_rps"),
        ({"measured": measured(scenario="nonesuch.yaml")}, "nonesuch.yaml"),
        ({"measured": measured(no_scenario="none")}, "scenario or no_scenario"),
        ({"ratios": [{"off": "F8-7.0.yaml", "to": "F8-6.0.yaml", "values": {}}]}, "off"),
    ],
)
def test_what_is_misspelt_or_does_not_fit_is_an_error(
    changed: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        read_cases(written(tmp_path, **changed))
    assert words in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "cases.yaml"))


def test_a_sweep_is_set_by_the_end_of_its_path() -> None:
    data = {
        "engine_version": {"sweep": ["6.2", "7.0"]},
        "data": [{"keys": {"sweep": [1, 2]}, "type": "set"}],
        "workload": {"clients": {"sweep": [5, 6]}},
    }
    given = {"engine_version": "7.0", "data.0.keys": 2, "clients": 5}
    assert at_point(data, given) == {
        "engine_version": "7.0",
        "data": [{"keys": 2, "type": "set"}],
        "workload": {"clients": 5},
    }
    with pytest.raises(KeyError, match=r"data\.0\.keys"):
        at_point(data, {"engine_version": "7.0", "clients": 5})


def row(measured: Any, predicted: Any, **others: Any) -> dict[str, Any]:
    base = {"scenario": "x.yaml", "kind": "value", "quantity": "p50_ms", "scored": True}
    return base | {"measured": measured, "predicted": predicted} | others


CI = {"value": 100.0, "low": 80.0, "high": 120.0}


@pytest.mark.parametrize(
    ("given", "verdict", "error"),
    [
        (row(120.0, CI), "inside", 100 / 120 - 1),
        (row(121.0, CI), "outside", 100 / 121 - 1),
        (row({"low": 60.0, "high": 80.0}, CI), "inside", 0.25),
        (row({"low": 60.0, "high": 79.0}, CI), "outside", 100 / 79 - 1),
        (row({"low": 90.0, "high": 200.0}, CI), "inside", 0.0),
        (row(110.0, {"value": 100.0}), "within 10%", 100 / 110 - 1),
        (row(112.0, {"value": 100.0}), "beyond 10%", 100 / 112 - 1),
        (row(50.0, {"low": 10.0, "high": 90.0}, range_over=["keys"]), "not decided", 0.0),
        (row(100.0, {"low": 10.0, "high": 90.0}, range_over=["keys"]), "outside", -0.1),
        (row("stable", {"text": "stable"}), "agrees", None),
        (row("stable", {"text": "overloaded by the network"}), "differs", None),
        (row("no", {"texts": ["yes", "no"]}, range_over=["keys"]), "not decided", None),
        (row("no", {"texts": ["yes"]}, range_over=["keys"]), "differs", None),
        (row(121.0, CI, scored=False), "not scored", 100 / 121 - 1),
        (row(121.0, None), "no answer", None),
        (row(121.0, None, scenario=None), "no scenario", None),
    ],
)
def test_what_becomes_of_a_row(given: dict[str, Any], verdict: str, error: float | None) -> None:
    assert verdict_of(given) == verdict
    assert error_of(given) == (None if error is None else pytest.approx(error))


def test_only_rows_that_can_fail_are_judged() -> None:
    silent = [
        row(121.0, None),
        row(121.0, CI, scored=False),
        row(50.0, {"low": 10.0, "high": 90.0}, range_over=["keys"]),
    ]
    assert judged([*silent, row(50.0, CI)]) == [row(50.0, CI)]


def test_copied_memory_is_what_a_child_needs_beyond_resident_memory() -> None:
    point = {
        "resident_bytes": 5e9,
        "forked_bytes": {"value": 7e9, "low": 5.5e9, "high": 9e9},
        "used_memory_bytes": {"value": 4e9, "low": None, "high": None},
    }
    found = QUANTITIES["copied_gb"].read(point)
    assert found == pytest.approx({"value": 2.0, "low": 0.5, "high": 4.0})
    assert QUANTITIES["used_memory_gb"].read(point) == pytest.approx({"value": 4.0})


def test_bytes_a_member_leave_out_what_the_server_holds_beside_the_data() -> None:
    point = {
        "used_memory_bytes": {"value": 9_000.0, "low": 8_000.0, "high": 10_000.0},
        "beside": {"startup": 900.0, "clients": 100.0},
        "populations": [{"keys": 2.0, "what": {"members": 50}}],
    }
    found = QUANTITIES["bytes_a_member"].read(point)
    assert found == pytest.approx({"value": 80.0, "low": 70.0, "high": 90.0})


def test_what_two_versions_save_is_taken_at_the_same_length() -> None:
    def point(version: str, value_bytes: int, used: float) -> dict[str, Any]:
        what = {"key_bytes": 16, "value_bytes": value_bytes, "members": 2}
        return {
            "given": {"engine_version": version, "data.0.value_bytes": value_bytes},
            "used_memory_bytes": {"value": used},
            "populations": [{"keys": 10, "what": what}],
        }

    # 10 keys: 60, then 84 B of overhead a key with 9.0; 30 and 63 with 9.1.
    points = [point("9.0", 8, 840.0), point("9.0", 16, 1160.0)]
    points += [point("9.1", 8, 540.0), point("9.1", 16, 950.0)]
    assert QUANTITIES["most_overhead_saved"].read(points) == {"value": pytest.approx(0.5)}
    assert QUANTITIES["least_overhead_saved"].read(points) == {"value": pytest.approx(0.25)}
    assert QUANTITIES["least_saved_bytes_a_member"].read(points) == {"value": pytest.approx(10.5)}


def test_the_time_until_fail_counts_from_the_failure() -> None:
    facts = [
        {"name": "first primary suspected", "value": 35.4, "note": "15.4 s after the failure"},
        {"name": "first primary declared FAIL", "value": 41.0, "note": ""},
    ]
    read = QUANTITIES["until_fail_s"].read
    assert read({"facts": facts}) == {"value": pytest.approx(21.0)}
    assert read({"facts": facts[:1]}) is None


@pytest.mark.parametrize(
    ("verdict", "unmet", "words"),
    [
        ("STABLE", [], "stable"),
        ("SATURATED", [], "stable"),
        ("OVERLOADED", [], "overloaded by the network"),
        ("UNFIT", [{"what": "memory"}], "unfit: memory"),
    ],
)
def test_a_verdict_in_words(verdict: str, unmet: list[Any], words: str) -> None:
    point = {"verdict": verdict, "bottleneck": "network", "unmet": unmet}
    assert QUANTITIES["verdict"].read(point) == {"text": words}


def test_a_case_that_cannot_be_predicted_is_a_row_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> Any:
        raise InputError("x.yaml: field 'engine_version': found '3.2'.")

    monkeypatch.setattr(Verbs, "answer", refuse)
    monkeypatch.setattr(Verbs, "compare", refuse)
    case = next(case for case in load_cases() if case.case == "F8")
    rows = rows_of(case, Verbs(lambda _: None))
    assert {row["predicted"] for row in rows} == {None}
    assert all("found '3.2'" in row["why"] for row in rows)
    assert {verdict_of(row) for row in rows} == {"no answer"}


def test_a_case_is_asked_for_as_a_user_would() -> None:
    case = next(case for case in load_cases() if case.case == "F6")
    memory_only = case.model_copy(update={"measured": [case.measured[-1]]})
    [found] = rows_of(memory_only, Verbs(lambda _: None))
    assert found["command"] == "memory F6-memory.yaml"
    assert found["predicted"]["value"] == pytest.approx(21.2, rel=0.05)
    assert found["scored"]


def test_every_scenario_is_one_that_a_case_names() -> None:
    named = {name for case in read_cases(FILE) for name in case.scenarios}
    there = {file.name for file in SCENARIOS.iterdir()}
    texts = "\n".join((SCENARIOS / name).read_text() for name in named)
    beside = {name for name in there - named if name in texts}
    assert there == named | beside
    assert cases_module.SCENARIOS == SCENARIOS
