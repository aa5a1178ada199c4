"""Answers that are kept and compared: every difference is told, and a renamed field is none."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forecache.sim.executors import InThisThread
from verification import answers
from verification.answers import Question, answered, changes, differences


@pytest.fixture(autouse=True)
def _from_the_checkout(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ({"a": [1.0, {"b": 2}]}, {"a": [1.0, {"b": 2}]}, []),
        ({"a": 0.1 + 0.2}, {"a": 0.3}, ["a: 0.30000000000000004 before, 0.3 now"]),
        ({"a": 1}, {"a": 1.0}, ["a: 1 before, 1.0 now"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a: 1 before, 2 now"]),
        ({"a": 1}, {"b": 1}, ["a is gone", "b is new"]),
        ([{"old": 1}], [{"new": 1}], []),
        ([{"old": 1}], [{"new": 2}], ["[0].new: 1 before, 2 now"]),
        ({"table": [{}]}, {"table": [{"p99_with_pauses_ms": 1}]}, []),
        ({"table": [{}]}, {"table": [{"a": 1}]}, ["table[0].a is new"]),
        (
            {"points": [{}]},
            {"points": [{"p99_with_pauses_ms": 1}]},
            ["points[0].p99_with_pauses_ms is new"],
        ),
    ],
)
def test_every_difference_is_told(before: Any, now: Any, found: list[str]) -> None:
    assert sorted(differences(before, now, renamed={"old": "new"})) == found


def test_an_answer_is_compared_by_its_values_its_text_and_its_exit_code() -> None:
    question = Question("memory", ("memory", "examples/memory.yaml"))
    found = answered(question)
    assert found.code == 0
    assert found.values["points"]
    assert "keys" in found.text
    assert changes(found, answered(question)) == []
    other = replace(found, code=3, text=f"{found.text}more\n", values={})
    told = changes(found, other)
    assert told[0] == "exit code 0 before, 3 now"
    assert any(line.endswith(" is gone") for line in told)
    assert "+more" in told


def test_a_file_is_asked_again_even_for_what_is_no_longer_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(answers, "ProcessPoolExecutor", InThisThread)
    monkeypatch.setattr(answers, "RANDOM", {"memory": 1})
    monkeypatch.setattr(answers, "example_questions", list)
    file = tmp_path / "answers.json"
    assert answers.run(["take", str(file)]) == 0
    monkeypatch.setattr(answers, "RANDOM", {})
    assert answers.run(["compare", str(file)]) == 0
    assert answers.run(["compare", str(file), "--only", "none of them"]) == 0
    row = json.loads(file.read_text(encoding="utf-8"))
    row["values"]["points"] = []
    file.write_text(json.dumps(row), encoding="utf-8")
    assert answers.run(["compare", str(file)]) == 1
    assert "points: 0 before, 1 now" in capsys.readouterr().out
