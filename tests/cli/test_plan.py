"""`forecache plan` on the command line: exit codes, and what is printed without a plan."""

import json
from pathlib import Path

import pytest

from forecache import cli
from forecache.hwprofiles.files import dump_yaml

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
    assert answer["excuses"][0]["what"].startswith("c7g.large with valkey")


def test_a_folder_that_is_missing_is_told_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "missing" / "plan.html"
    assert cli.main(["plan", "examples/plan-versions.yaml", "--report", str(page)]) == 2
    assert "create it first" in capsys.readouterr().err
