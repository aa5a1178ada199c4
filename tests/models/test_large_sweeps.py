"""Sweeps into files: the same bits whatever the workers, batches and interruptions."""

import json
import os
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forecache
from forecache.models.advice.cases import load_cases
from forecache.models.large_sweeps import folder as folder_module
from forecache.models.large_sweeps.points import Chunk, SweepOptions, predict_point
from forecache.models.large_sweeps.sweep import SweptPoints, sweep
from forecache.models.prediction.predict import predict_cases
from forecache.sim.errors import IncompleteError, InputError
from tests.models.test_runs import FLEET, ShuffledSoon

parquet = pytest.importorskip("pyarrow.parquet")

Json = dict[str, Any]

MEMORY: Json = {
    "kind": "memory",
    "engine": "valkey",
    "engine_version": {"sweep": ["8.0", "9.1"]},
    "data": [
        {
            "type": "string",
            "keys": {"sweep": range(1_000_000, 1_000_010)},
            "key_bytes": 16,
            "value_bytes": {"sweep": np.array([64, 100])},
        }
    ],
}

NODE: Json = {
    "host": "graviton3-c7g.4xlarge",
    "engine": "valkey",
    "engine_version": "8.0",
    "io_threads": {"sweep": [1, 3]},
    "workload": {
        "clients": 20,
        "keys": 10_000,
        "value_bytes": 64,
        "mix": {"sweep": [{"get": 1.0}, {"get": 0.5, "set": 0.5}]},
    },
}


def rows(folder: Path) -> list[Json]:
    found: list[Json] = parquet.read_table(folder).to_pylist()
    return found


def parts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweeps") / "whole"
    sweep(MEMORY, folder, batch=7, jobs=1)
    return folder


def test_rows_are_what_the_verb_answers(whole: Path) -> None:
    found = rows(whole)
    answers = forecache.memory(MEMORY).points
    assert [row["point"] for row in found] == list(range(40))
    for row, answer in zip(found, answers, strict=True):
        used = answer.used_memory_bytes
        assert {name: row[name] for name in answer.given} == answer.given
        assert row["used_memory_bytes"] == used.value
        assert (row["used_memory_bytes_low"], row["used_memory_bytes_high"]) == (
            used.low,
            used.high,
        )
        assert row["bytes_per_key"] == pytest.approx(answer.populations[0].bytes_per_key)


def test_sweeps_in_step_have_a_row_for_each_pair(tmp_path: Path) -> None:
    strings = MEMORY["data"][0] | {"keys": {"sweep": [1000, 2000]}}
    strings["value_bytes"] = {"sweep": [64, 100], "with": "data.0.keys"}
    step = MEMORY | {"data": [strings]}
    sweep(step, tmp_path / "step", jobs=1)
    found = [(row["data.0.keys"], row["data.0.value_bytes"]) for row in rows(tmp_path / "step")]
    assert found == 2 * [(1000, 64), (2000, 100)]
    kept = json.loads((tmp_path / "step" / "_sweep.json").read_text())["scenario"]
    assert kept["data"][0]["value_bytes"] == strings["value_bytes"]
    assert sweep(step, tmp_path / "step", jobs=1).answered == 0
    product = MEMORY | {"data": [strings | {"value_bytes": {"sweep": [64, 100]}}]}
    with pytest.raises(InputError):
        sweep(product, tmp_path / "step", jobs=1)


def test_threads_of_a_sweep_into_files_are_numbers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="field 'io_threads': found 'automatic'; valid"):
        sweep(NODE | {"io_threads": "auto"}, tmp_path / "swept")


def test_a_node_is_told_what_simulate_tells(tmp_path: Path) -> None:
    sweep(NODE, tmp_path / "out", batch=3, jobs=1)
    answers = forecache.simulate(NODE).points
    found = rows(tmp_path / "out")
    assert len(found) == 4
    for row, point in zip(found, answers, strict=True):
        assert row["io_threads"] == point.given["io_threads"]
        assert json.loads(row["mix"]) == point.given["mix"]
        for name in ("throughput_rps", "p50_ms", "p99_ms", "server_cpu_us_per_request"):
            estimate = getattr(point, name)
            ends = estimate.value, estimate.low, estimate.high
            assert (row[name], row[f"{name}_low"], row[f"{name}_high"]) == ends
        following = point.next_bottleneck
        told = (row["next_bottleneck"], row["next_bottleneck_rps"])
        assert told == ((None, None) if following is None else (following.name, following.at_rps))
        assert (row["bottleneck"], row["verdict"]) == (point.bottleneck, point.verdict)
        assert row["limit_rps"] == point.limit_rps
        assert row["warnings"] == ("; ".join(point.warnings) or None)


def test_at_nominal_numbers_a_point_is_the_first_run_of_the_answer(tmp_path: Path) -> None:
    done = sweep(NODE, tmp_path / "out", nominal=True, jobs=1)
    [case, *_] = load_cases(NODE)
    [full] = predict_cases([case], seed=1)
    point = predict_point(*case, SweepOptions(seed=1, nominal=True))
    assert point.throughput_rps.value == full.nominal[0].values["throughput_rps"]
    first = rows(tmp_path / "out")[0]
    assert first["throughput_rps"] == point.throughput_rps.value
    assert first["p99_ms"] == full.nominal[0].values["p99_ms"]
    names = {column.name for column in done.columns}
    assert not {name for name in names if name.endswith(("_low", "_high"))}


@pytest.mark.parametrize(
    "executor",
    [
        lambda: ThreadPoolExecutor(3),
        lambda: ProcessPoolExecutor(2),
        lambda: ShuffledSoon(3),
    ],
    ids=["threads", "processes", "shuffled"],
)
def test_files_are_the_same_through_any_executor(
    executor: Any, whole: Path, tmp_path: Path
) -> None:
    with executor() as pool:
        sweep(MEMORY, tmp_path / "out", batch=7, executor=pool)
    assert parts(tmp_path / "out") == parts(whole)


def test_rows_do_not_depend_on_the_batches(whole: Path, tmp_path: Path) -> None:
    for batch in (1, 40, 100):
        done = sweep(MEMORY, tmp_path / str(batch), batch=batch, jobs=1)
        assert done.files == len(parts(tmp_path / str(batch)))
        assert rows(tmp_path / str(batch)) == rows(whole)


def test_what_is_missing_is_answered_again_and_nothing_else(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told: list[str] = []
    done = sweep(MEMORY, out, batch=7, jobs=1)
    assert (done.found, done.answered, done.files) == (0, 40, 6)
    for name in ("part-00001.parquet", "part-00005.parquet"):
        (out / name).unlink()
    (out / ".part-00001.parquet.x7").write_bytes(b"half")
    kept = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    done = sweep(MEMORY, out, jobs=1, progress=told.append)  # the batch is known
    assert (done.found, done.answered, done.files, done.batch) == (28, 12, 6, 7)
    assert parts(out) == parts(whole)
    assert kept == {name: (out / name).stat().st_mtime_ns for name in kept}
    assert not list(out.glob(".part-*"))
    assert told[0] == f"found 28 of 40 points in {out}"
    assert told[-1].startswith("answered 40 of 40 points, ")
    assert told[-1].endswith(" a second, done")
    again = sweep(MEMORY, out, jobs=1)
    assert (again.found, again.answered) == (40, 0)


@pytest.mark.parametrize(
    ("changed", "options", "reason"),
    [
        ({"engine": "redis"}, {}, "another scenario"),
        ({"engine_version": {"sweep": ["9.1", "8.0"]}}, {}, "another scenario"),
        ({}, {"seed": 2}, "seed 1 where 2 is asked for"),
        ({}, {"batch": 8}, "batch 7 where 8 is asked for"),
    ],
)
def test_another_sweep_is_refused(changed: Json, options: Json, reason: str, whole: Path) -> None:
    before = parts(whole)
    with pytest.raises(InputError, match=f"whole: holds a sweep with {reason}; valid is"):
        sweep(MEMORY | changed, whole, jobs=1, **options)
    assert parts(whole) == before


def test_another_version_is_refused(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecache.models.large_sweeps.sweep.source_digest", lambda: "another")
    with pytest.raises(InputError, match="holds a sweep with another version of forecache"):
        sweep(MEMORY, whole, jobs=1)


def test_a_file_that_the_scenario_names_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text(
        "{name: mine, host: graviton3, vcpus: 4, memory_gib: 8, baseline_gbit_per_s: 5}\n"
    )
    scenario = NODE | {"host": "own.yaml", "io_threads": 1}
    sweep(scenario, "out", nominal=True, jobs=1)
    with Path("own.yaml").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(InputError, match="other content of the files that the scenario names"):
        sweep(scenario, "out", nominal=True, jobs=1)


def test_a_damaged_file_is_told(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep(MEMORY, out, batch=7, jobs=1)
    damaged = out / "part-00002.parquet"
    for content in (b"", damaged.read_bytes()[:-20], b"PAR1 and no more"):
        damaged.write_bytes(content)
        with pytest.raises(InputError, match=r"part-00002.parquet: is damaged"):
            sweep(MEMORY, out, jobs=1)
    damaged.unlink()
    sweep(MEMORY, out, jobs=1)
    assert parts(out) == parts(whole)
    for text in ("", "[]", "{}", '{"depends_on": 1, "key": 2}', "[" * 99_999):
        (out / folder_module.MANIFEST).write_text(text)
        with pytest.raises(InputError, match=r"_sweep.json: is damaged"):
            sweep(MEMORY, out, batch=7, jobs=1)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else than a sweep"):
        sweep(MEMORY, tmp_path, jobs=1)
    with pytest.raises(InputError, match=r"notes.txt: is a file"):
        sweep(MEMORY, tmp_path / "notes.txt", jobs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_two_do_not_write_into_one_folder(whole: Path) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # locks of this kind are a process's own
        try:
            sweep(MEMORY, whole, jobs=1, progress=lambda _line: (os.write(writer, b"x"), _wait()))
        finally:
            os._exit(0)
    try:
        os.read(reader, 1)
        with pytest.raises(InputError, match="another sweep writes there now"):
            sweep(MEMORY, whole, jobs=1)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    sweep(MEMORY, whole, jobs=1)


def _wait() -> None:
    signal.pause()


@pytest.mark.parametrize(
    ("scenario", "options", "reason"),
    [
        (
            MEMORY | {"engine_version": {"sweep": ["8.0", 7]}},
            {},
            r"^scenario: field 'engine_version': found 7; .*\(point 20: engine_version 7, "
            r"data.0.keys 1000000, data.0.value_bytes 64\).$",
        ),
        (MEMORY | {"engin": 1}, {}, r"^scenario: unknown field 'engin'.*\(point 0: "),
        (NODE | {"host": "nowhere"}, {}, r"^scenario: host 'nowhere'"),
        (MEMORY, {"nominal": True}, "found nominal .* for memory"),
        (MEMORY, {"seeds": 2}, "found 2 for memory"),
        (MEMORY, {"batch": 0}, "field batch: found 0"),
        (
            MEMORY | {"clients": {"sweep": range(10**6)}},
            {},
            "found sweeps of 40000000 points; valid are 10000000",
        ),
    ],
)
def test_a_mistake_is_found_before_anything_is_answered(
    scenario: Json, options: Json, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=reason):
        sweep(scenario, tmp_path / "out", jobs=1, **options)
    assert parts(tmp_path / "out") == {}


def die(chunk: Chunk) -> None:
    del chunk
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_are_killed_again_and_again_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forecache.models.large_sweeps.sweep.answer_chunk", die)
    with (
        ProcessPoolExecutor(2) as pool,
        pytest.raises(IncompleteError, match=r"killed .*; 0 of 40 points are in .*out") as error,
    ):
        sweep(MEMORY, tmp_path / "out", executor=pool)
    assert error.value.exit_code == 4
    assert isinstance(error.value.result, SweptPoints)


def test_what_runs_over_time_has_a_row_for_each_fact(tmp_path: Path) -> None:
    sweep(FLEET, tmp_path / "one", jobs=1)
    sweep(FLEET, tmp_path / "three", seeds=3, jobs=1)
    for folder, seeds in (("one", 1), ("three", 3)):
        answer = forecache.simulate(FLEET, seeds=seeds)
        expected = [
            (place, *point.given.values(), fact.name, fact.unit or None)
            for place, point in enumerate(answer.points)
            for fact in point.run.facts
        ]
        found = rows(tmp_path / folder)
        names = ("point", "policies.placement", "fact", "unit")
        assert [tuple(row[name] for name in names) for row in found] == expected
        facts = [fact for point in answer.points for fact in point.run.facts]
        for row, fact in zip(found, facts, strict=True):
            assert (row["low"], row["high"]) == (fact.low, fact.high)
            assert fact.value in (row["value"], row["text"])


def test_bills_and_plans(checkout: Path, tmp_path: Path) -> None:
    from forecache.hwprofiles.files import read_yaml

    bill = read_yaml(checkout / "examples" / "cost.yaml") | {"engine": "valkey"}
    sweep(bill | {"data_gb": {"sweep": [1, 500]}}, tmp_path / "cost", jobs=1)
    for row in rows(tmp_path / "cost"):
        [point] = forecache.cost(bill | {"data_gb": row["data_gb"]}).points
        assert row["serverless_usd_per_month"] == point.serverless.usd
        assert row["nodes_usd_per_month"] == (point.nodes and point.nodes.nodes_usd)
    plan: Json = {
        "kind": "plan",
        "demand": {
            "operations": {"get": {"sweep": [20_000, 50_000_000]}},
            "keys": 100_000,
            "key_bytes": 16,
            "value_bytes": 100,
        },
        "objectives": {"slo": {"p99_ms": 5.0}, "failover": "by_hand"},
        "choices": {
            "instances": ["c7g.large"],
            "engines": [{"engine": "valkey", "versions": ["8.0"]}],
            "io_threads": [1],
            "shards": {"most": 2},
            "replicas": [0],
        },
    }
    sweep(plan, tmp_path / "plan", jobs=1)
    meets, never = rows(tmp_path / "plan")
    assert (meets["found"], meets["instance"], meets["engine"]) == (True, "c7g.large", "valkey")
    assert meets["nodes"] == meets["shards"] * (1 + meets["replicas"])
    assert meets["usd_per_month"] >= meets["nodes"] * meets["usd_per_node_month"]
    assert meets["horizon_p99_ms_low"] < meets["horizon_p99_ms"] < meets["horizon_p99_ms_high"]
    assert meets["objective_probability"] >= 0.5
    assert (never["found"], never["instance"], never["shards"]) == (False, None, None)
    assert never["why"]
