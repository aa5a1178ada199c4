"""`forecache plan` on the command line: exit codes, and what is printed without a plan."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import forecache
from forecache import cli
from forecache.hwprofiles.files import dump_yaml
from forecache.models.plan.schema import PlanDemand
from forecache.sim.errors import InputError
from tests.models.conftest import short_runs as short_runs
from tests.models.test_plan import brief as brief

pytestmark = pytest.mark.usefixtures("short_runs", "brief")

TOO_MUCH = {
    "kind": "plan",
    "demand": {"operations": {"get": 1000}, "keys": 10**11, "value_bytes": 4096},
    "objectives": {"slo": {"p99_ms": 1.0}},
    "choices": {"instances": ["c7g.large"], "engines": ["valkey"]},
}


def test_another_kind_is_sent_to_its_verb(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["plan", str(checkout / "examples" / "cost.yaml")]) == 2
    assert "`forecache cost` is for cost" in capsys.readouterr().err


def test_what_nothing_meets_is_told_with_exit_code_three(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = tmp_path / "plan.yaml", tmp_path / "plan.html"
    file.write_text(dump_yaml(TOO_MUCH), encoding="utf-8")
    assert cli.main(["plan", str(file), "-q", "--report", str(page)]) == 3
    printed = capsys.readouterr()
    assert "Nothing that may be chosen meets the objectives" in printed.out
    assert "GiB a shard" in printed.err
    assert "Why nothing does" in page.read_text(encoding="utf-8")
    assert cli.main(["plan", str(file), "-q", "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert answer["plans"] == []
    assert answer["rejected"][0]["what"].startswith("c7g.large with valkey")


def test_a_folder_that_is_missing_is_told_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "missing" / "plan.html"
    assert cli.main(["plan", "examples/plan-versions.yaml", "--report", str(page)]) == 2
    assert "create it first" in capsys.readouterr().err


SAMPLE = Path("tests/calibration/today/samples/valkey-8.1.1.txt")


def test_what_nodes_tell_and_their_ceiling(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = str(checkout / SAMPLE)
    text, as_json = tmp_path / "ceiling.prom", tmp_path / "ceiling.json"
    arguments = ["plan", "--from-info", node, "--no-search", "-q", "--host", "r7g.large"]
    assert cli.main([*arguments, "--ceiling", str(text)]) == 0
    printed = capsys.readouterr().out
    assert "What these files do not say" in printed
    assert "Inside the server today" in printed
    assert "meets p99 at most 1 ms up to" in " ".join(printed.split())
    assert text.read_text().startswith("# HELP forecache_ceiling_operations_per_second ")
    assert cli.main([*arguments, "--ceiling", str(as_json), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["from_info"]["today"]["engine_version"] == "8.1.1"
    assert json.loads(as_json.read_text()) == answer["ceiling"]
    assert answer["ceiling"]["ceiling_rps"]["low"] < answer["ceiling"]["ceiling_rps"]["high"]


def test_the_first_sentence_says_whether_nodes_hold_a_multiple_of_their_peak(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    node = str(checkout / SAMPLE)
    arguments = ["plan", "--from-info", node, "--no-search", "-q", "--host", "r7g.large"]
    assert cli.main([*arguments, "--times", "2"]) == 0
    first, second, *rest = capsys.readouterr().out.splitlines()
    assert f"{first} {second}".startswith("Today’s shard holds 2 times the peak, ")
    assert "it stops at" in f"{first} {second}"
    printed = "\n".join(rest)
    assert "main thread, at the mean load" in printed
    assert printed.index("inside commands") < printed.index("What these files do not say")
    assert max(map(len, rest)) <= 80
    assert cli.main([*arguments, "--times", "200", "--json"]) == 0
    ceiling = json.loads(capsys.readouterr().out)["ceiling"]
    assert ceiling["times"] == 200
    assert ceiling["nodes"][0]["headroom"] < 0
    assert ceiling["corrected"]
    assert ceiling["time"][0]["measured"] > ceiling["time"][1]["measured"]


def test_info_without_commands_tells_what_it_does(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (checkout / SAMPLE).read_text().splitlines()
    node = tmp_path / "node.txt"
    node.write_text("\n".join(line for line in lines if not line.startswith("cmdstat_")))
    assert cli.main(["plan", "--from-info", str(node), "--no-search", "-q"]) == 0
    printed = capsys.readouterr().out
    assert "commands a second" in printed
    assert "found no line cmdstat_..." in " ".join(printed.split())
    assert cli.main(["plan", "--from-info", str(node), "-q", "--host", "r7g.large"]) == 8
    assert "INFO ALL" in capsys.readouterr().err


def test_threads_are_recommended_for_nodes_as_they_are(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = str(checkout / SAMPLE)
    arguments = ["recommend", "--from-info", node, "-q", "--host", "r7g.large", "--json"]
    assert cli.main(arguments) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["recommendation"]["setting"]["io_threads"] == 1
    assert cli.main(["recommend", "--from-info", node, "-q"]) == 2
    assert "--host" in capsys.readouterr().err
    assert cli.main(["recommend", node, "--host", "r7g.large", "-q"]) == 2
    assert "are for --from-info" in capsys.readouterr().err


def test_the_demand_that_nodes_tell_is_planned_for(
    checkout: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = {
        "kind": "plan",
        # When it was looked at, the benchmark's clients had gone.
        "demand": {"growth_per_year": 0.5, "horizon_months": 12, "clients_per_node": 20},
        "objectives": {"slo": {"p99_ms": 1.0}, "losing_a_node": "nothing"},
        "choices": {"instances": ["r7g.large"], "engines": ["valkey"], "replicas": [0]},
    }
    monkeypatch.chdir(tmp_path)
    file, nodes = tmp_path / "plan.yaml", tmp_path / "nodes"
    file.write_text(dump_yaml(scenario), encoding="utf-8")
    nodes.mkdir()
    shutil.copy(checkout / SAMPLE, nodes / "node-7.txt")
    (nodes / "README.md").write_text("what lies beside them")
    arguments = ["plan", str(file), "--from-info", str(nodes), "-q"]
    assert cli.main([*arguments, "--json", "--report"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["plans"][0]["setting"]["shards"] == 1
    assert answer["scenario"]["demand"]["growth_per_year"] == 0.5
    assert answer["scenario"]["demand"]["keys"] == 17_198
    assert [each["name"] for each in answer["from_info"]["nodes"]] == ["node-7"]
    assert "ceiling" not in answer  # nothing says what the nodes run on
    assert "--host" in answer["from_info"]["look_next"][0]
    page = (tmp_path / "capacity.html").read_text(encoding="utf-8")
    chapters = re.findall(r"<h2>(.*?)</h2>", page)[1:9]
    assert chapters == [
        *("Today", "Growth", "What to do", "What it costs", "What may go wrong"),
        *("How sure this is", "What to measure next", "Parameters"),
    ]
    # It is asked again with the same files, which are not in the page.
    assert "forecache plan plan.yaml nodes --from-info --seed 1" in page
    assert "used_memory:" not in page


def test_a_multiple_of_the_load_is_planned_for(
    checkout: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: dict[str, Any] = {}

    def stopped(whole: Any, **_: Any) -> None:
        found.update(whole)
        raise InputError("found enough; valid is no more.")

    monkeypatch.setattr("forecache.calibration.today.answer.plan", stopped)
    limit = SimpleNamespace(
        main_thread_busy=None, corrected=False, nodes=[], ceiling_rps=SimpleNamespace(value=1.0)
    )
    monkeypatch.setattr(
        "forecache.calibration.today.answer._ceiling", lambda *_, **__: (limit, None)
    )
    arguments = ["plan", "--from-info", str(checkout / SAMPLE), "--host", "r7g.large", "-q"]
    means = []
    for times in ("1", "3"):
        assert cli.main([*arguments, "--times", times]) == 2
        demand = PlanDemand.model_validate(found["demand"])
        means.append(demand.operations.a_second)
        assert demand.keys == 17_198
    assert means[1] == pytest.approx(3.0 * means[0])
    (tmp_path / "empty").mkdir()
    assert cli.main(["plan", "--from-info", str(tmp_path / "empty"), "-q"]) == 2
    assert "a folder without files of nodes" in capsys.readouterr().err


def test_a_bill_and_its_metrics_are_told(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "forecache.calibration.today.answer._ceiling", lambda *_, **__: (None, None)
    )
    files = [str(checkout / "examples" / "bill" / name) for name in ("export.csv", "metrics.csv")]
    arguments = ["plan", "--from-bill", *files, "--no-search", "-q"]
    assert cli.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "$2,459.66, of which $2,218.44 are of caches" in printed
    assert "an instance: whether a cache" in printed
    assert "which commands they are" in printed
    assert cli.main([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    found = answer["from_bill"]
    assert found["placed_usd"] + found["unplaced_usd"] == pytest.approx(found["total_usd"])
    assert answer["from_info"]["today"]["instance"] == "cache.r6g.xlarge"


def test_the_demand_of_metrics_is_planned_for(
    checkout: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "forecache.calibration.today.answer._ceiling", lambda *_, **__: (None, None)
    )
    scenario = {
        "kind": "plan",
        "objectives": {"slo": {"p99_ms": 1.0}, "losing_a_node": "nothing"},
        "choices": {
            "instances": ["cache.r6g.xlarge"],
            "engines": ["elasticache-redis"],
            "replicas": [1],
            "io_threads": [2],
        },
    }
    file, page = tmp_path / "plan.yaml", tmp_path / "plan.html"
    file.write_text(dump_yaml(scenario), encoding="utf-8")
    files = [str(checkout / "examples" / "bill" / name) for name in ("export.csv", "metrics.csv")]
    arguments = ["plan", str(file), "--from-bill", *files, "-q", "--report", str(page)]
    assert cli.main([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    lines = {each["what"]: each for each in answer["from_bill"]["compared"]}
    best = answer["plans"][0]
    assert lines["nodes"]["plan_usd"] == pytest.approx(best["bill"][0]["usd"])
    assert lines["extended support"]["plan_usd"] == 0
    assert best["bill"][0]["usd"] == pytest.approx(best["usd_per_month"])
    assert best["bill_usd_per_month"] is None  # of what replicas are sent no price is known
    assert lines["traffic between zones"]["plan_usd"] is None
    assert "Lines that belong to no cache" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--from-bill", "a.yaml"], "found 1 scenarios and 0 files of a bill"),
        (["a.yaml", "--cache", "x"], "--cache is for --from-bill"),
        (["--from-bill", "examples/bill/metrics.csv", "README.md"], "README.md, line 1: found"),
        (["--from-bill", "--from-info", "a.csv"], "found 0 scenarios and 0 files of nodes"),
        (["--from-bill", "examples/bill/export.csv"], "found no demand"),
        (["a.txt", "--host", "r7g.large"], "are for --from-info"),
        (["a.yaml", "b.yaml"], "found 2 files; give one scenario"),
        (["--from-info", "a.yaml"], "found 1 scenarios and 0 files of nodes"),
        (["--from-info", "missing.txt"], "missing.txt: no such file"),
        (["--from-info", "README.md"], "README.md, line 3: found"),
        (["--from-info", str(SAMPLE), "--ceiling", "build/x.prom"], "found no host of today"),
        (["--from-info", str(SAMPLE), "--host", "r9q.large", "--no-search"], "r9q.large"),
        (["--from-info", str(SAMPLE), "--no-search", "--full"], "are not for --no-search"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(
    arguments: list[str],
    says: str,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(checkout)
    Path("build").mkdir(exist_ok=True)
    assert cli.main(["plan", "-q", *arguments]) == 2
    printed = capsys.readouterr().err
    assert says in printed
    assert "Traceback" not in printed


def test_what_does_not_go_together_is_refused_from_python() -> None:
    with pytest.raises(InputError, match="report and full need a search"):
        forecache.plan(from_info=[SAMPLE], search=False, full=True)
    with pytest.raises(InputError, match="host and node are for from_info"):
        forecache.recommend({}, host="r7g.large")
    with pytest.raises(InputError, match="emit is for a scenario"):
        forecache.recommend(from_info=[SAMPLE], emit="installed")


def test_what_clients_compress_is_planned_for_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample, file, page = (tmp_path / name for name in ("values", "plan.yaml", "plan.html"))
    sample.write_bytes(b"".join(b'{"number": %d, "of": "many"}' % i for i in range(20_000)))
    demand = {
        "operations": {"get": 1000, "set": 500},
        "keys": 5_000_000,
        "value_bytes": {"values": [4096, 2**16], "weights": [0.999, 0.001]},
        "clients_per_node": 20,
    }
    scenario = {
        "kind": "plan",
        "demand": {**demand, "compression": {"algorithm": "gzip", "sample": str(sample)}},
        "objectives": {"slo": {"p99_ms": 20.0}, "losing_a_node": "nothing"},
        "choices": {
            "instances": ["r7g.large"],
            "engines": ["valkey"],
            "replicas": [0],
            "io_threads": [1],
        },
    }
    file.write_text(dump_yaml(scenario), encoding="utf-8")
    assert cli.main(["plan", str(file), "-q", "--json", "--report", str(page)]) == 0
    answer = json.loads(capsys.readouterr().out)
    effect, [best] = answer["compression"], answer["plans"][:1]
    assert best["setting"]["shards"] < effect["memory_shards_without"]
    assert effect["stored_bytes"]["value"] < 0.5 * effect["value_bytes"]
    assert answer["scenario"]["demand"]["value_bytes"] == demand["value_bytes"]
    assert any("fewer than 10 values of 65,536 bytes" in each for each in answer["warnings"])
    written = page.read_text(encoding="utf-8")
    assert "Clients compress values above 1 KiB: gzip, level 6" in written
    assert "CPU of clients" in written
