"""Datasets: read by id or from a file, refused with a reason, listed with what is predicted."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from evidence.validation.counters import counter_checks
from forecache import cli, verbs
from forecache.calibration.validate.comparison import ComparedPoint, ServerWork
from forecache.calibration.validate.dataset import (
    UNKNOWN_NOISE,
    list_datasets,
    load_dataset,
    why_not_predicted,
)
from forecache.sim.errors import InputError
from forecache.sim.statistics import Estimate

SMALL: dict[str, Any] = {
    "id": "mine",
    "title": "Two points of my own",
    "sources": [{"id": "my-run", "file": "run.csv"}],
    "scenario": {
        "host": "graviton3-c7g.4xlarge",
        "engine": "valkey",
        "engine_version": "8.0",
        "workload": {"clients": 50, "command": "get"},
    },
    "points": [
        {
            "given": {"io_threads": 1},
            "observed": {"throughput_rps": 200000, "p99_us": 700},
            "role": "calibration",
        },
        {"given": {"io_threads": 4}, "observed": {"throughput_rps": 7e5}, "role": "validation"},
    ],
}


def written(tmp_path: Path, change: dict[str, object]) -> Path:
    """The small dataset in a file, with some fields replaced."""
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(SMALL | change), encoding="utf-8")
    return path


def test_a_shipped_dataset_goes_by_its_id_and_by_its_path(checkout: Path) -> None:
    by_id, cases = load_dataset("valkey-8.1.1-c8g-unix-p1")
    by_path, same = load_dataset(
        checkout / "calibration" / "validate" / "datasets" / "valkey-8.1.1-c8g-unix-p1.yaml"
    )
    assert by_id == by_path
    assert cases == same
    assert {case.role for case in cases} == {"calibration", "validation"}


def test_an_unknown_id_is_helped() -> None:
    with pytest.raises(InputError, match=r"did you mean 'valkey-8\.1\.1-c8g-unix-p10'"):
        load_dataset("valkey-8.1.1-c8g-p10")


def test_a_points_fields_go_to_the_scenario_or_its_workload_in_the_units_of_predictions(
    tmp_path: Path,
) -> None:
    _, (first, second) = load_dataset(written(tmp_path, {}))
    assert (first.scenario.io_threads, second.scenario.io_threads) == (1, 4)
    assert first.scenario.workload.clients == 50
    assert first.observed == {"throughput_rps": 200000.0, "p99_ms": pytest.approx(0.7)}


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"points": []}, "points"),
        ({"titel": "x"}, "did you mean 'title'"),
        (
            {"points": [{"given": {}, "observed": {"throughput": 1.0}, "role": "validation"}]},
            "names under observed that end in a unit",
        ),
        (
            {"points": [{"given": {}, "observed": {"mean_ms": -1.0}, "role": "validation"}]},
            "a positive number for mean_ms",
        ),
        (
            {"points": [{"given": {}, "observed": {"mean_ms": 1.0}, "role": "fitted"}]},
            "'calibration' or 'validation'",
        ),
        (
            {
                "points": [
                    {"given": {"io_treads": 1}, "observed": {"p50_ms": 1}, "role": "validation"}
                ]
            },
            "did you mean 'io_threads'",
        ),
        ({"scenario": SMALL["scenario"] | {"workload": 1e6}}, "field 'workload'"),
        (
            {
                "points": [
                    {
                        "given": {"workload": ["get"], "command": "get"},
                        "observed": {"p50_ms": 1},
                        "role": "validation",
                    }
                ]
            },
            "field 'workload'",
        ),
    ],
)
def test_a_wrong_dataset_says_what_is_wrong(
    tmp_path: Path, change: dict[str, object], part: str
) -> None:
    path = written(tmp_path, change)
    with pytest.raises(InputError) as caught:
        load_dataset(path)
    assert str(path) in str(caught.value)
    assert part in str(caught.value)


def test_what_no_model_predicts_is_said_and_not_validated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    point = {"given": {}, "observed": {"warm_up_s": 3.0}, "role": "validation"}
    assert cli.main(["validate", str(written(tmp_path, {"points": [point]}))]) == 2
    message = capsys.readouterr().err
    assert "found warm_up_s, which no model predicts yet" in message
    assert message.count("\n") == 1


def test_the_catalogue_says_which_datasets_are_not_predicted_and_why() -> None:
    rows = {row["id"]: row for row in verbs.catalog()["datasets"]}
    assert "evidence.validation slot-migration" in rows["slot-migration"]["not_predicted"]
    assert "evidence.validation memory-footprint" in rows["memory-footprint"]["not_predicted"]
    assert rows["valkey-8.1.1-c8g-unix-p1"]["not_predicted"] is None
    for dataset in list_datasets():
        assert rows[dataset.id]["not_predicted"] == why_not_predicted(dataset)
        assert rows[dataset.id]["points"] == len(dataset.points)


def test_an_engine_without_a_profile_is_a_reason(tmp_path: Path) -> None:
    scenario = {**SMALL["scenario"], "engine_version": "6.9"}
    dataset, _ = load_dataset(written(tmp_path, {"scenario": scenario}))
    assert why_not_predicted(dataset) == "no engine profile has the rules of valkey 6.9"


def test_every_shipped_dataset_has_its_own_id_and_a_source_to_look_at(checkout: Path) -> None:
    names = {
        path.stem for path in (checkout / "calibration" / "validate" / "datasets").glob("*.yaml")
    }
    assert {dataset.id for dataset in list_datasets()} == names
    for dataset in list_datasets():
        assert all(source.url or source.file for source in dataset.sources)


def test_a_point_is_as_uncertain_as_its_series_say(tmp_path: Path) -> None:
    noise = {"within_series": 0.03, "between_series": 0.04, "source": "ten runs on two days"}
    first, second = SMALL["points"]
    points = [first, {**second, "noise": {**noise, "between_series": 0.0}}]
    _, cases = load_dataset(written(tmp_path, {"noise": noise, "points": points}))
    assert [case.noise.standard_error for case in cases] == pytest.approx([0.05, 0.03])
    _, cases = load_dataset(written(tmp_path, {}))
    assert {case.noise for case in cases} == {UNKNOWN_NOISE}


def test_a_points_mix_takes_the_place_of_the_shared_command(tmp_path: Path) -> None:
    mixed = {"given": {"mix": {"get": 0.9, "set": 0.1}}, "observed": {"throughput_rps": 1e5}}
    points = [*SMALL["points"], {**mixed, "role": "validation"}]
    _, cases = load_dataset(written(tmp_path, {"points": points}))
    assert [case.scenario.workload.get_fraction for case in cases] == [1.0, 1.0, 0.9]


def test_errors_are_counted_in_what_data_inputs_and_simulation_leave_open() -> None:
    estimate = Estimate(110.0, 100.0, 121.0)
    point = ComparedPoint(
        index=0,
        given={},
        role="validation",
        observed={"throughput_rps": 100.0},
        predicted={"throughput_rps": estimate},
        uncertainty={"throughput_rps": 0.04},
    )
    assert point.to_dict()["error_over_uncertainty"]["throughput_rps"] == pytest.approx(2.5)


def test_counters_of_another_series_are_divided_by_its_own_rate(tmp_path: Path) -> None:
    counters = {"cpus_used": 2.0, "cycles": 1e9, "instructions": 1e9, "covers": "1M gets"}
    found = []
    for series in ({}, {"of": "31 other runs: 100000 GET/s"}):
        point = {
            "given": {"command": "get"},
            "observed": {"throughput_rps": 200_000},
            "role": "validation",
            "whole_run_counters": counters | series,
        }
        dataset, _ = load_dataset(written(tmp_path, {"points": [point]}))
        compared = ComparedPoint(
            index=0,
            given=point["given"],
            role="validation",
            observed={"throughput_rps": 200_000.0},
            predicted={"throughput_rps": Estimate(2e5, 2e5, 2e5)},
            server=ServerWork(1.0, 1.0, 1.0),
        )
        [check] = counter_checks(dataset, [compared])
        found.append(check.cpu_us.measured)
    assert found == pytest.approx([10.0, 20.0])
