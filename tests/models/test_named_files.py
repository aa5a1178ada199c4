"""A path in a file is relative to that file: folders move, and commands run from anywhere."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forecache
from forecache import cli
from forecache.calibration.validate.dataset import read_dataset
from forecache.hwprofiles.catalogue import load_host
from forecache.hwprofiles.files import dump_yaml, read_yaml, shipped
from forecache.hwprofiles.named_files import (
    FILE_FIELDS,
    NamedFiles,
    change_files,
    files_named,
    read_with_files,
    seen_from,
)
from forecache.models.advice.cases import load_cases
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.over_time.kept_runs import run_key
from forecache.models.plan.answer import load_plan
from forecache.models.plan.compression import read_sample
from forecache.models.scenario.source import KINDS, content_of
from forecache.reports.builders import document
from forecache.reports.explore import server
from forecache.reports.text.repeat import question as asked
from forecache.sim.errors import InputError

Json = dict[str, Any]
Answer = Callable[[Path], Any]

TRACE = "time_s,command\n" + "".join(f"{i / 1000},get\n" for i in range(500))
DEMAND = "".join(f"{60 * m},tenant-{t},{1 + (m + t) % 3}\n" for m in range(20) for t in range(4))
NODE: Json = {
    "host": "hosts/instance.yaml",
    "engine": "engine.yaml",
    "load_generator": {"tool": "tools/tool.yaml"},
    "workload": {"arrival": "open_loop", "trace": "load/trace.csv", "clients": 5, "keys": 1000},
}
SCENARIOS: dict[str, Json] = {
    "node": NODE,
    "cluster": {
        "kind": "cluster",
        "duration_s": 2,
        "cluster": {"host": "hosts/instance.yaml", "engine": "engine.yaml", "shards": 2},
        "data": {"keys": 1000, "value_bytes": 100},
        "clients": {"pods": 2, "workers_per_pod": 4},
        "demand": {"trace": "load/trace.csv", "mix": {"get": 1}},
        "cost": {"prices": "prices.yaml", "node_type": "cache.m7g.large"},
    },
    "node_life": {
        "kind": "node_life",
        "duration_s": 60,
        "host": "hosts/instance.yaml",
        "engine": "engine.yaml",
        "data": {"keys": 1000, "value_bytes": 100},
        "demand": {"trace": "load/trace.csv", "mix": {"get": 1}},
    },
    "overcommit": {
        "kind": "overcommit",
        "duration_s": 300,
        "hosts": {"count": 2, "memory_gb": 64},
        "machines": {"count": 8, "unit_gb": 2},
        "demand": {"trace": "load/demand.csv"},
    },
    "serverless": {
        "kind": "serverless",
        "version": "8.0",
        "duration_s": 30,
        "data": {"keys": 1000, "key_bytes": 16, "value_bytes": 100},
        "demand": {"rate_rps": 1000, "mix": {"get": 1}},
        "prices": "prices.yaml",
    },
    "large_commands": {
        "kind": "large_commands",
        "host": "hosts/instance.yaml",
        "engine": "valkey",
        "engine_version": "9.1",
        "client": {"host": "hosts/profile.yaml"},
        "data": {"sets": {"members": 10_000}},
        "commands": [{"command": "smembers"}],
    },
    "memory": {
        "kind": "memory",
        "engine": "valkey",
        "host": "hosts/instance.yaml",
        "data": [{"type": "string", "keys": 1000}],
    },
    "cost": {
        "kind": "cost",
        "engine": "valkey",
        "data_gb": 1,
        "requests": [{"command": "get", "per_day": 1_000_000, "value_bytes": 100}],
        "prices": "prices.yaml",
    },
    "plan": {
        "kind": "plan",
        "demand": {
            "operations": {"get": {"a_second": 20_000}},
            "keys": 100_000,
            "key_bytes": 16,
            "value_bytes": 100,
        },
        "objectives": {"slo": {"p99_ms": 5.0}, "losing_a_node": "nothing"},
        "choices": {
            "instances": ["c7g.large"],
            "engines": ["engine.yaml"],
            "io_threads": [1],
            "prices": "prices.yaml",
            "shards": {"most": 2},
            "replicas": [0],
        },
        "today": {"instance": "c7g.large", "engine": "engine.yaml", "shards": 1},
    },
}
"""One of each kind, which names a file wherever it may."""

ANSWERS: dict[str, Answer] = {
    "node": lambda file: forecache.simulate(file),
    "memory": lambda file: forecache.memory(file),
    "cost": lambda file: forecache.cost(file),
    "plan": lambda file: forecache.plan(file),
}


def answer_of(kind: str, file: Path) -> Json:
    """What a scenario's verb answers, without what differs between two runs of it anyway."""
    found = ANSWERS.get(kind, forecache.simulate)(file).to_dict()
    for field in ("provenance", "scenario"):
        found.pop(field, None)
    return json.loads(json.dumps(found).replace(f"{file.parent}/", "").replace("../study/", ""))


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A folder with every scenario and all that they name."""
    folder = tmp_path / "study"
    for name in ("hosts", "tools", "load"):
        (folder / name).mkdir(parents=True)
    profile = load_host("zen3-milan").to_yaml()
    own = {"name": "own", "host": "profile.yaml", "vcpus": 8, "memory_gib": 16}
    own |= {"network": "limit", "baseline_gbit_per_s": 10}
    files = {
        "hosts/profile.yaml": profile,
        "hosts/instance.yaml": dump_yaml(own),
        "engine.yaml": dump_yaml(
            load_engine("valkey-8.1").model_dump(mode="json", exclude_none=True)
        ),
        "tools/tool.yaml": dump_yaml(
            load_generator("memtier-benchmark").model_dump(mode="json", exclude_none=True)
        ),
        "prices.yaml": shipped("forecache.models.prices", "tables")[
            "elasticache-us-east-1"
        ].read_text(),
        "load/trace.csv": TRACE,
        "load/demand.csv": f"time_s,tenant,memory_gb\n{DEMAND}",
        **{f"{kind}.yaml": dump_yaml(scenario) for kind, scenario in SCENARIOS.items()},
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("kind", sorted(SCENARIOS))
def test_a_folder_runs_from_anywhere_and_wherever_it_is_copied(
    kind: str, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_runs: None
) -> None:
    del short_runs
    monkeypatch.chdir(study)
    inside = answer_of(kind, Path(f"{kind}.yaml"))
    beside = tmp_path / "beside"
    beside.mkdir()
    monkeypatch.chdir(beside)
    assert answer_of(kind, Path(f"../study/{kind}.yaml")) == inside
    moved = tmp_path / "elsewhere" / "moved"
    moved.parent.mkdir()
    shutil.move(study, moved)
    assert answer_of(kind, moved / f"{kind}.yaml") == inside


def test_every_kind_is_here() -> None:
    assert set(SCENARIOS) == set(KINDS)


def test_every_field_that_may_name_a_file_is_known(checkout: Path) -> None:
    page = (checkout / "docs" / "scenario.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `(\w+)` \| text \|.*\b(?:file|path)\b", page, re.M))
    # `engines` is a list of what `engine` is.
    assert described | {"engines"} == FILE_FIELDS


def test_a_sample_of_values_lies_where_its_plan_says(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan, _ = load_plan(checkout / "examples" / "plan-compression.yaml")
    compression = plan.demand.compression
    assert compression is not None
    assert compression.sample is not None
    assert read_sample(compression.sample).startswith(b"{")


def test_datasets_name_files_beside_them(study: Path) -> None:
    dataset = {
        "id": "own",
        "title": "own",
        "sources": [{"id": "own", "url": "https://example.org", "accessed": "2026-01-01"}],
        "scenario": {"host": "hosts/instance.yaml", "engine": "valkey", "workload": {"keys": 10}},
        "points": [
            {"given": {"engine": "engine.yaml"}, "observed": {"throughput_rps": 1.0}}
            | {"role": "validation"}
        ],
    }
    (study / "dataset.yaml").write_text(dump_yaml(dataset))
    found, _ = read_dataset(study / "dataset.yaml")
    assert load_host(found.scenario["host"]).instance == "own"
    assert load_engine(found.points[0].given["engine"]).id == "valkey-8.1"


def test_files_in_a_mapping_are_those_of_the_current_folder(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(study)
    [(_, system)] = load_cases(SCENARIOS["node"])
    assert system.host.instance == "own"
    monkeypatch.chdir(study.parent)
    with pytest.raises(InputError, match=r"engine.yaml: no such file"):
        load_cases(SCENARIOS["node"])


def test_a_file_of_the_current_folder_is_not_taken_silently(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (study / "engine.yaml").rename(tmp_path / "engine.yaml")
    assert cli.main(["simulate", "study/node.yaml", "-q"]) == 2
    error = capsys.readouterr().err
    assert "study/node.yaml: field 'engine': found 'engine.yaml', but no file study/engine" in error
    assert "valid is ../engine.yaml" in error
    (study / "node.yaml").write_text(dump_yaml(NODE | {"engine": "../engine.yaml"}))
    assert load_cases(study / "node.yaml")[0][1].engine.id == "valkey-8.1"
    (tmp_path / "engine.yaml").unlink()
    with pytest.raises(InputError, match=r"study/node.yaml: study/../engine.yaml: no such file"):
        load_cases("study/node.yaml")


def test_a_host_without_an_ending_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").write_text(load_host("zen3-milan").to_yaml())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"host 'mine': found a file .*valid is ./mine"):
        load_host("mine")
    assert load_host("./mine").id == "zen3-milan"


WORDS = st.one_of(st.none(), st.integers(), st.text(max_size=5), st.sampled_from(["a.yaml", "b/c"]))
KEYS = st.sampled_from([*sorted(FILE_FIELDS), "name", "sweep", "workload"])
DATA = st.recursive(
    WORDS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)


@given(DATA, st.sampled_from(["x", "x/y", "../z"]))
def test_what_a_folder_sees_is_what_is_read_there(data: Any, folder: str) -> None:
    seen = seen_from(data, folder)
    back = change_files(seen, lambda _, name: str(Path(folder, name)))
    again = change_files(back, lambda _, name: str(Path(name).resolve()))
    assert again == change_files(data, lambda _, name: str(Path(name).resolve()))


def test_a_sweep_that_is_written_names_files_as_its_folder_sees_them(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    hosts = {"sweep": ["hosts/instance.yaml", "c7g.large"]}
    (study / "sweep.yaml").write_text(dump_yaml(SCENARIOS["memory"] | {"host": hosts}))
    monkeypatch.chdir(tmp_path)
    assert forecache.sweep("study/sweep.yaml", "out", jobs=1).answered == 2
    manifest = json.loads(Path("out/_sweep.json").read_text())
    (tmp_path / "out" / "again.yaml").write_text(dump_yaml(manifest["scenario"]))
    monkeypatch.chdir(study)
    assert forecache.memory("../out/again.yaml").points[0].fits is not None
    (tmp_path / "out" / "again.yaml").unlink()
    # The same sweep from another folder, and after both were copied.
    assert forecache.sweep("sweep.yaml", "../out", jobs=1).found == 2
    shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-copy")
    monkeypatch.chdir(tmp_path.parent / f"{tmp_path.name}-copy" / "out")
    assert forecache.sweep("../study/sweep.yaml", ".", jobs=1).found == 2
    table = pyarrow.parquet.read_table("part-00000.parquet")
    assert table["host"].to_pylist() == ["../study/hosts/instance.yaml", "c7g.large"]


def test_a_kept_run_is_found_from_another_folder(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = KINDS["cluster"].schema

    def key(file: str) -> str:
        return run_key(schema.model_validate(content_of(file)), seed=1, whole=True)

    monkeypatch.chdir(study)
    inside = key("cluster.yaml")
    monkeypatch.chdir(study.parent)
    assert key("study/cluster.yaml") == inside
    # The profile is named by the instance alone.
    with (study / "hosts" / "profile.yaml").open("a") as file:
        file.write("# changed\n")
    assert key("study/cluster.yaml") != inside


def test_files_that_files_name_are_found(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(study.parent)
    names = [str(file) for file in files_named(read_with_files("study/node.yaml"))]
    assert names == [
        *("study/hosts/instance.yaml", "study/hosts/profile.yaml", "study/engine.yaml"),
        *("study/tools/tool.yaml", "study/load/trace.csv"),
    ]


def test_what_a_report_says_to_save_runs_in_one_folder(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_runs: None
) -> None:
    del short_runs
    monkeypatch.chdir(study.parent)
    question = asked("simulate", "study/node.yaml", options={"--seed": 1})
    inside = answer_of("node", study / "node.yaml")
    empty = tmp_path / "empty"
    empty.mkdir()
    for name, text in question.files:
        (empty / name).write_text(text)
    shutil.move(study, tmp_path / "gone")
    monkeypatch.chdir(empty)
    assert question.command == "forecache simulate node.yaml --seed 1"
    assert answer_of("node", Path("node.yaml")) == inside
    assert {"node.yaml", "instance.yaml", "profile.yaml", "trace.csv"} <= set(question.hashes)


def test_a_text_that_needs_no_change_keeps_its_remarks(study: Path, tmp_path: Path) -> None:
    beside = "# a remark\nkind: cost\nprices: prices.yaml\n"
    (study / "beside.yaml").write_text(beside)
    files = NamedFiles()
    assert files.text_of(study / "beside.yaml") == beside
    assert list(files.texts) == ["prices.yaml"]
    # Of two files of one name each has its own.
    (tmp_path / "prices.yaml").write_text("other: 1\n")
    data = files.collect({"prices": str(tmp_path / "prices.yaml"), "host": str(study / "no.yaml")})
    assert data == {"prices": "prices-2.yaml", "host": str(study / "no.yaml")}


def test_a_plan_s_report_names_files_that_it_has(
    study: Path, monkeypatch: pytest.MonkeyPatch, short_runs: None
) -> None:
    del short_runs
    monkeypatch.chdir(study.parent)
    holds = document(forecache.plan("study/plan.yaml")).question
    assert holds is not None
    question = holds()
    [(_, text)] = question.scenarios
    assert "engine: engine.yaml" in text
    assert {"engine.yaml", "prices.yaml"} == {name for name, _ in question.kept}


def test_too_large_files_are_named(study: Path) -> None:
    (study / "load" / "trace.csv").write_text(TRACE + "1,get\n" * 50_000)
    question = asked("simulate", study / "node.yaml", options={})
    assert list(question.too_large) == ["trace.csv"]
    assert "trace.csv" in question.hashes
    assert "trace: trace.csv" in question.scenarios[0][1]


def test_a_file_is_read_as_it_is_in_its_own_folder(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(study)
    for kind in SCENARIOS:
        assert read_with_files(f"{kind}.yaml") == read_yaml(f"{kind}.yaml")


def test_the_page_of_explore_saves_paths_that_hold_anywhere(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Any] = []
    monkeypatch.setattr(server, "serve", lambda explorer, **_: served.append(explorer))
    monkeypatch.chdir(study.parent)
    node = NODE | {"workload": {"keys": 1000, "clients": 5}}
    (study / "explored.yaml").write_text(dump_yaml(node))
    forecache.explore("study/explored.yaml")
    saved = tmp_path / "downloads" / "scenario.yaml"
    saved.parent.mkdir()
    saved.write_text(dump_yaml(served[0].scenario))
    monkeypatch.chdir(tmp_path)
    assert load_cases(saved)[0][1].host.instance == "own"
