"""The page of published measurements: what it says follows from results and datasets."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evidence.accuracy.published_page import published_page, published_table
from evidence.validation.counters import counter_checks, with_counters
from forecache.calibration.validate.comparison import (
    ComparedDataset,
    ComparedEngine,
    ComparedHost,
    ComparedPoint,
    DataProvenance,
    FittedFactor,
    ProfileOrigins,
    ServerWork,
    Validation,
    curves_of,
    label,
    series_of,
    summary_of,
    varying,
)
from forecache.calibration.validate.dataset import list_datasets, read_dataset, why_not_predicted
from forecache.calibration.validate.node_dataset import server_work
from forecache.calibration.validate.validate import knees_of
from forecache.models.advice.answers import load_cases
from forecache.models.prediction.predict import predict_cases
from forecache.sim.statistics import Estimate

CURVE = "valkey-8.1.1-c8g-unix-p1"
FIELDS = {"throughput_rps", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms"}


def predicted(name: str, error: float = 0.1, *, fitted_error: float | None = None) -> Validation:
    """A result in which every prediction of a dataset is off by the same relative error."""
    dataset = read_dataset(name)[0]
    points = []
    for index, point in enumerate(dataset.points):
        observed = {k: v for k, v in point.observed.items() if k in FIELDS and v is not None}
        fitted = point.role == "calibration" and fitted_error is not None
        off = fitted_error if fitted and fitted_error is not None else error
        points.append(
            ComparedPoint(
                index=index,
                given=point.given,
                role=point.role,
                observed=observed,
                predicted={
                    k: Estimate(v * (1 + off), v * (0.95 + off), v * (1.05 + off))
                    for k, v in observed.items()
                },
                server=ServerWork(4.0, 11_200.0, 6000.0),
                band="saturated" if index % 2 else "80 to 95%",
                bottleneck="main thread",
            )
        )
    used = [i for i, point in enumerate(dataset.points) if point.role == "calibration"]
    held_out = [i for i in range(len(points)) if i not in used]
    profiles = {
        "host graviton4": ProfileOrigins({}, None, {name: [0, 1]}),
        "engine valkey-8.1": ProfileOrigins({}, None, {}),
    }
    return Validation(
        dataset=ComparedDataset(name, dataset.title, name),
        host=ComparedHost("graviton4", "Graviton4", True),
        engine=ComparedEngine("valkey-8.1", "8.1"),
        fitted=[FittedFactor("kernel", 1.1, 1.0, 1.2, 0.1, used, "CPU time of system calls")],
        provenance=DataProvenance(used, held_out, profiles, [], {}),
        warnings=[],
        points=points,
        summary=summary_of(points, ["throughput_rps", "p50_ms", "p99_ms"]),
        knee=knees_of(points),
    )


def written(folder: Path, *results: Validation) -> Path:
    out = folder / "docs" / "accuracy"
    out.mkdir(parents=True)
    for result in results:
        path = out / f"published-{result.dataset.id}.json"
        path.write_text(json.dumps(with_counters(result)), encoding="utf-8")
    return out


def test_conditions_in_words() -> None:
    given = {"io_threads": 9, "keys": 3_000_000, "command": "set", "pipeline": 1}
    assert label(given, ["command", "keys", "io_threads"]) == "SET, 3M keys, io-threads 9"
    assert label({"keys": 1}) == "1 key"
    assert label({"keys": 1234}) == "1234 keys"
    old = {"engine": "valkey", "engine_version": "8.0", "prefetch_batch": 0}
    assert label(old) == "valkey 8.0, no prefetch"
    points = [given, {**given, "command": "get", "io_threads": 3}]
    assert varying(points) == ["command", "io_threads"]
    # A condition that only some points name tells them apart as well.
    assert varying([given, {**given, "prefetch_batch": 0}]) == ["prefetch_batch"]


def test_curves_are_series_that_are_long_enough() -> None:
    points = predicted(CURVE).points
    assert list(curves_of(points)) == ["SET", "GET"]
    threads = [point.given["io_threads"] for point in curves_of(points)["GET"]]
    assert threads == sorted(threads) == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]
    short = predicted("valkey-pr1405-cache-misses").points
    assert curves_of(short) == {}
    assert sum(map(len, series_of(short).values())) == len(short) == 14


def test_every_shipped_dataset_is_on_the_page_or_said_to_be_missing(tmp_path: Path) -> None:
    page = published_page(written(tmp_path, predicted(CURVE)))
    for dataset in list_datasets():
        shown = f"## {dataset.title}" in page
        assert shown == (dataset.id == CURVE)
        if not shown:
            reason = why_not_predicted(dataset) or "not yet run"
            assert f"- {dataset.title} (`{dataset.id}`): {reason}." in page
    assert "memory-footprint`): no load on a node; in" in page


def test_errors_are_those_of_held_out_points_by_band(tmp_path: Path) -> None:
    out = written(tmp_path, predicted(CURVE, error=-0.2, fitted_error=-0.5))
    page = published_page(out)
    assert "| throughput | all | 20 | 20.0% | 20.0% | 0% |" in page
    assert "| throughput | saturated | 10 | 20.0% | 20.0% | 0% |" in page
    assert "Fitted to the throughput of 4 of 24 points (0–3, from 0)" in page
    assert "of the calibration points, 0–1 also stand behind numbers of host graviton4" in page
    row = "| SET, io-threads 3 | held out | 542 | 433 (406–460) | -20% |"
    assert row in page
    [line] = [line for line in published_table(out).splitlines() if "Graviton4" in line]
    assert "| 20 | 20.0% | 20.0% | 0% | 20.0% | 20.0% | SET 7, 7; GET 14, 14 |" in line


def test_counters_are_added_up_over_the_points_of_a_run() -> None:
    dataset = read_dataset(CURVE)[0]
    points = list(predicted(CURVE, error=0.0).points)
    points[1] = replace(points[1], server=ServerWork(2.0, 5600.0, 5000.0))
    checks = counter_checks(dataset, points)
    assert [check.given["io_threads"] for check in checks] == [
        *(1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
    ]
    one = checks[0]
    assert one.points == [0, 1]
    # 25.6 million of each: the mean of both, and processors by the time that both take.
    assert one.cycles.predicted == pytest.approx(8400.0)
    assert one.instructions.predicted_user == pytest.approx(5500.0)
    assert one.instructions.measured == pytest.approx(7.117e11 / 51.2e6)
    busy_s = 25.6e6 * 6.0e-6
    run_s = 25.6e6 / 266139 + 25.6e6 / 290573
    assert one.cpus_used.predicted == pytest.approx(busy_s / run_s)
    # The counters belong to a series of its own.
    counted_s = 25.6e6 / 273688 + 25.6e6 / 300461
    assert one.cpu_us.measured == pytest.approx(0.994 * counted_s / 51.2)
    assert counter_checks(read_dataset("valkey-pr2078-512B")[0], []) == []


def test_own_instructions_are_those_of_the_engines_work() -> None:
    """A lone thread that serves GETs: loop, read, parse, execute and write, once each."""
    [(case, system)] = load_cases(
        {
            "host": "graviton3-c7g.4xlarge",
            "engine": "valkey",
            "engine_version": "8.0",
            "workload": {"clients": 1, "command": "get", "keys": 1, "value_bytes": 0},
        }
    )
    [prediction] = predict_cases([(case, system)], draws=0, replications=1, requests=5000)
    inputs = system.inputs(case.scenario)
    work = inputs.work
    own = work.read_instructions + work.write_instructions
    own += work.parse_instructions + work.get_instructions + work.loop_instructions
    found = server_work(system, inputs, prediction.nominal)
    assert found.user_instructions == pytest.approx(own, rel=0.02)
    assert found.cycles == pytest.approx(found.cpu_us * 1000 * inputs.speed.clock_ghz)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"mix": {"mget": {"share": 1.0, "keys": 20}}, "pipeline": 10},
            "MGET of 20 keys, pipeline 10",
        ),
        ({"mix": {"get": 0.8, "set": 0.2}}, "80% GET, 20% SET"),
        ({"popularity": {"hot_set": {"keys": 0.0005, "requests": 0.99}}}, "hot set 0.05%"),
        ({"popularity": {"zipf": {"exponent": 0.99}}}, "zipf exponent 0.99"),
    ],
)
def test_mixes_and_popularities_are_in_words(given: dict[str, Any], words: str) -> None:
    assert label(given) == words
