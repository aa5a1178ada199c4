"""What `--json` prints is what docs/schema says: every verb, held to its JSON Schema."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from evidence.documents import results as document
from evidence.documents import schemas as module
from evidence.documents.schemas import DIALECT, meanings, schema_of, types_of
from forecache import verbs
from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.fit.report import FitPoint
from forecache.commands import all_commands
from forecache.hwprofiles import load_host
from forecache.models.advice.node_answers import HostSummary, Simulated
from forecache.models.results.series import Mark, RunsOverTime
from forecache.output import to_json
from forecache.sim.plain import Result, where_set
from tests.cli.conftest import Run
from tests.models.conftest import short_runs as short_runs
from tests.models.test_plan import brief as brief
from tests.reports.series_fixture import as_result, sweep
from tests.reports.study_fixture import study, validation

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schema"
VERBS = [str(command.name) for command in all_commands()]

NODE = """\
host: graviton3-c7g.4xlarge
engine: valkey
engine_version: "9.1"
io_threads: {sweep: [1, 2]}
workload: {clients: 8, keys: 1000, value_bytes: 64}
slo: {p99_ms: 2.0}
"""
OPEN = """\
host: graviton3-c7g.4xlarge
engine: valkey
engine_version: "9.1"
workload: {arrival: open_loop, rate_rps: {sweep: [50_000, 2_000_000]}, keys: 1000, value_bytes: 64}
"""
PLAN = """\
kind: plan
demand: {operations: {get: 1000}, keys: 1000, value_bytes: 64, growth_per_year: 0.5}
objectives: {slo: {p99_ms: 5.0}, failover: by_hand}
choices:
  instances: [c7g.large]
  engines: [{engine: valkey, versions: ["9.1"]}]
  replicas: [0]
  serverless: true
"""
TOO_MUCH = PLAN.replace("keys: 1000", "keys: 100_000_000_000")


def held(verb: str, text: str) -> Mapping[str, Any]:
    """Hold what was printed against the committed schema of a verb."""
    schema = json.loads((FOLDER / f"{verb}.json").read_text(encoding="utf-8"))
    answer: Mapping[str, Any] = json.loads(text)
    errors = Draft202012Validator(schema).iter_errors(answer)
    assert [f"{error.json_path}: {error.message[:300]}" for error in errors] == []
    return answer


@pytest.mark.parametrize("verb", VERBS)
def test_a_schema_is_one_and_its_references_lead_somewhere(verb: str) -> None:
    schema = schema_of(verb)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == DIALECT
    text = json.dumps(schema)
    named = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert named == set(schema["$defs"])


def test_the_pages_are_what_the_types_say(checkout: Path) -> None:
    written = document.files()
    for path, text in written.items():
        assert (checkout / path).read_text(encoding="utf-8") == text, f"{path}: run `make docs`"
    there = {path.relative_to(checkout) for path in (checkout / "docs/schema").iterdir()}
    assert there == {path for path in written if path.parent == document.FOLDER}


@pytest.mark.usefixtures("brief", "short_runs")
@pytest.mark.parametrize(
    ("verb", "text", "code"),
    [
        ("simulate", NODE, 0),
        ("simulate", OPEN, 7),
        ("recommend", NODE, 0),
        ("recommend", NODE.replace("2.0", "0.000_1"), 3),
        ("explain", NODE.replace("{sweep: [1, 2]}", "2"), 0),
        ("memory", NODE, 0),
        ("plan", PLAN, 0),
        ("plan", TOO_MUCH, 3),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
def test_an_answer_to_a_scenario(
    verb: str, text: str, code: int, tmp_path: Path, forecache: Run
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(text, encoding="utf-8")
    ended = forecache(verb, path, "-q", "--json")
    assert ended.returncode == code, ended.stderr
    held(verb, ended.stdout)


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize(
    ("verb", "arguments", "codes"),
    [
        ("memory", ["examples/memory.yaml"], {0}),
        ("cost", ["examples/cost.yaml"], {0}),
        ("check", ["examples/check.yaml", "examples/check/measured.yaml", "-q"], {6}),
        ("plan", ["--from-bill", "examples/bill/export.csv", "--no-search", "-q"], {0}),
        ("simulate", ["examples/large-commands.yaml", "-q"], {0}),
        ("catalog", [], {0}),
        ("catalog", ["--family", "c7g"], {0}),
        *(("catalog", [name], {0}) for name in ("graviton3", "c7g.large", "valkey-9.1")),
        *(("catalog", [name], {0}) for name in ("memtier-benchmark", "slot-migration")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_answer(verb: str, arguments: list[str], codes: set[int], forecache: Run) -> None:
    ended = forecache(verb, *arguments, "--json")
    assert ended.returncode in codes, ended.stderr
    held(verb, ended.stdout)


@pytest.mark.usefixtures("short_runs")
def test_an_answer_about_two_nodes(tmp_path: Path, forecache: Run) -> None:
    before, after = tmp_path / "before.yaml", tmp_path / "after.yaml"
    before.write_text(NODE, encoding="utf-8")
    after.write_text(NODE.replace("9.1", "8.1"), encoding="utf-8")
    answer = held("compare", forecache("compare", before, after, "-q", "--json").stdout)
    assert answer["differences"]


def test_an_answer_of_a_sweep(tmp_path: Path, forecache: Run) -> None:
    pytest.importorskip("pyarrow")
    scenario = tmp_path / "sweep.yaml"
    scenario.write_text(NODE, encoding="utf-8")
    ended = forecache("sweep", scenario, "--out", tmp_path / "swept", "--nominal", "-q", "--json")
    assert held("sweep", ended.stdout)["points"] >= 1


@pytest.mark.parametrize("name", ["memcached-1.6", "redis-7.0"])
def test_observed_bundles(name: str, checkout: Path, forecache: Run, monkeypatch: Any) -> None:
    bundle = Bundle.load(checkout / "evidence" / "bundles" / name)
    monkeypatch.setattr(verbs, "observe", lambda *_, **__: bundle)
    ended = forecache("observe", "--out", "build/none", "-q", "--json")
    assert len(held("observe", ended.stdout)["points"]) > 10


@pytest.mark.parametrize(
    ("verb", "result"),
    [
        ("profile", lambda: load_host("graviton3")),
        ("profile", lambda: load_host("c7g.large")),
        ("study", study),
        ("calibrate", lambda: study().calibration),
        ("validate", validation),
        ("simulate", lambda: as_result(sweep())),
        ("simulate", lambda: with_a_mark(as_result(sweep()))),
    ],
)
def test_answers_that_take_long_to_come_by(verb: str, result: Any) -> None:
    assert held(verb, to_json(result()))


def with_a_mark(result: RunsOverTime) -> RunsOverTime:
    point = result.points[0]
    run = replace(point.run, marks=[Mark(1.0, "a node fails")])
    return replace(result, points=[replace(point, run=run)], missing=["a run"])


def test_what_is_not_in_a_schema_is_refused(checkout: Path) -> None:
    validator = Draft202012Validator(schema_of("cost"))
    answer = verbs.cost(checkout / "examples" / "cost.yaml").to_dict()
    assert validator.is_valid(answer)
    assert not validator.is_valid({**answer, "more": 1})
    assert not validator.is_valid({k: v for k, v in answer.items() if k != "points"})
    answer["points"][0]["serverless"] = "free"
    assert not validator.is_valid(answer)


def test_meanings_come_from_below_a_field_and_from_its_docstring() -> None:
    assert meanings(HostSummary)["kind"].startswith("What is known of it: `observed`")
    assert meanings(FitPoint)["role"] == "`fit` or `holdout`."
    assert len(types_of("simulate")) > 15


def test_a_class_whose_to_dict_is_its_own_has_to_say_its_shape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_SHAPES", {})
    with pytest.raises(ValueError, match=r"a shape of \w+\.to_dict in schemas\.py"):
        schema_of.__wrapped__("plan")


def test_fields_that_are_left_out_where_unset_are_optional() -> None:
    schema = schema_of("simulate")["$defs"]["Fact"]
    assert "low" in schema["properties"]
    assert "low" not in schema["required"]
    assert where_set().metadata.keys() == {module.LEFT_OUT}
    assert issubclass(Simulated, Result)
