"""Blind rounds: sealed, predicted, committed, scored once; nothing in another order."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from evidence.blind import rounds
from evidence.blind.record import RECORD, code_sha256, steps
from evidence.blind.rounds import folder, predict, scored_datasets, seal
from evidence.blind.rounds import score as score_round
from forecache.calibration.validate import node_dataset
from forecache.sim.errors import InputError

NAME = "made-up"
DATASET: dict[str, Any] = {
    "id": NAME,
    "title": "A made-up dataset",
    "sources": [{"id": "nobody", "note": "its answer is 150,000"}],
    "scenario": {
        "host": "graviton3-c7g.4xlarge",
        "engine": "valkey",
        "engine_version": "8.0",
        "transport": "tcp",
        "workload": {"arrival": "closed_loop", "clients": 50, "pipeline": 1, "command": "get"},
        "load_generator": {"tool": "valkey-benchmark", "threads": 2, "same_host": False},
    },
    "points": [
        {
            "given": {"value_bytes": size},
            "observed": {"throughput_rps": 150_000, "p50_us": 300},
            "role": "validation",
            "whole_run_counters": {"cpu_us": 5},
        }
        for size in (16, 512)
    ],
}


def written(path: Path, **changes: Any) -> Path:
    path.write_text(yaml.safe_dump({**DATASET, **changes}))
    return path


@pytest.fixture
def checkout_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository in which rounds are held, with short runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(node_dataset, "REQUESTS", 2000)
    monkeypatch.setattr(node_dataset, "FIT_REQUESTS", 2000)
    monkeypatch.setattr(node_dataset, "DRAWS", 4)
    git("init", "-q")
    return tmp_path


def git(*arguments: str) -> None:
    name = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", *name, *arguments], check=True)


def commit() -> None:
    git("add", RECORD.parent.as_posix())
    git("commit", "-q", "-m", "a step")


def quiet(line: str) -> None:
    """No progress."""


def test_a_round_goes_from_seal_to_score_once(checkout_of_its_own: Path) -> None:
    measured = written(checkout_of_its_own / "measured.yaml")
    questions = seal(measured, note="nobody has seen them")
    asked = questions.read_text()
    assert "150" not in asked
    assert [p["observed"] for p in yaml.safe_load(asked)["points"]] == [
        {"throughput_rps": None, "p50_us": None}
    ] * 2
    out = predict(NAME, progress=quiet)
    with pytest.raises(InputError, match=r"questions\.yaml: is not committed"):
        score_round(NAME, measured)
    commit()
    scores = json.loads(score_round(NAME, measured).read_text())
    predicted = json.loads(out.read_text())
    for point, answer in zip(predicted["points"], scores["points"], strict=True):
        found = answer["quantities"]["throughput_rps"]
        value = point["predicted"]["throughput_rps"]["value"]
        assert found["relative_error"] == pytest.approx(value / 150_000 - 1.0, rel=1e-4)
        assert answer["quantities"]["p50_ms"]["measured"] == 0.3
    assert [step["step"] for step in steps()] == ["sealed", "predicted", "scored"]
    assert list(scored_datasets()) == [NAME]
    for again in (
        lambda: score_round(NAME, measured),
        lambda: predict(NAME, progress=quiet),
        lambda: seal(measured),
    ):
        with pytest.raises(InputError, match="was scored before"):
            again()


def test_a_prediction_after_the_data_were_opened_is_refused(checkout_of_its_own: Path) -> None:
    measured = written(checkout_of_its_own / "measured.yaml")
    questions = seal(measured)
    with pytest.raises(InputError, match="found the measurements of round made-up"):
        seal(measured)
    (folder(NAME) / "measurements.yaml").write_text(measured.read_text())
    with pytest.raises(InputError, match="holds its measurements"):
        predict(NAME, progress=quiet)
    (folder(NAME) / "measurements.yaml").unlink()
    questions.write_text(measured.read_text())
    with pytest.raises(InputError, match=r"points\[0\].observed: found a measured number"):
        predict(NAME, progress=quiet)
    shipped = "valkey-8.1.1-c8g-unix-p1"
    with pytest.raises(InputError, match="its data are open"):
        seal(written(measured, id=shipped))


def test_what_was_predicted_cannot_be_changed(checkout_of_its_own: Path) -> None:
    measured = written(checkout_of_its_own / "measured.yaml")
    seal(measured)
    with pytest.raises(InputError, match="was not predicted"):
        score_round(NAME, measured)
    out = predict(NAME, progress=quiet)
    with pytest.raises(InputError, match="one prediction a round"):
        predict(NAME, progress=quiet)
    commit()
    kept = out.read_text()
    out.write_text(kept.replace('"value"', '"value" '))
    commit()
    with pytest.raises(InputError, match="is not the file that was recorded"):
        score_round(NAME, measured)
    out.write_text(kept)
    commit()
    with pytest.raises(InputError, match="is not the file that was sealed"):
        score_round(NAME, written(checkout_of_its_own / "other.yaml", title="Another"))
    assert rounds.step_of(NAME, "scored") is None


def test_measurements_of_other_conditions_are_no_answer(checkout_of_its_own: Path) -> None:
    """Without a seal, as for measurements that are made after the prediction."""
    questions = folder(NAME) / "questions.yaml"
    questions.parent.mkdir(parents=True)
    asked = [{**p, "observed": {"throughput_rps": None}} for p in DATASET["points"]]
    written(questions, points=asked)
    predict(NAME, progress=quiet)
    commit()
    answers = [{**p, "observed": {"throughput_rps": 1.5e5}} for p in DATASET["points"]]
    wrong = [{**answers[0], "given": {"value_bytes": 17}}, answers[1]]
    measured = checkout_of_its_own / "measured.yaml"
    with pytest.raises(InputError, match="found other conditions"):
        score_round(NAME, written(measured, points=wrong))
    score_round(NAME, written(measured, points=answers))
    assert len(scored_datasets()) == 1


def test_the_hash_of_the_code_follows_code_and_profiles(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    source = tmp_path / "models" / "x.py"
    source.write_text("A = 1\n")
    first = code_sha256(tmp_path)
    (tmp_path / "models" / "x.pyc").write_text("compiled")
    (tmp_path / "docs.md").write_text("a page")
    assert code_sha256(tmp_path) == first
    source.write_text("A = 2\n")
    assert code_sha256(tmp_path) != first
