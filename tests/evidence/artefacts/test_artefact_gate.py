"""The gate's reference belongs to the last line of its history, and has every held-out point."""

from pathlib import Path

import pytest

from evidence.accuracy.compared import live_points, published_points
from evidence.blind.record import SCORED, sha256, steps
from evidence.blind.rounds import folder, scored_datasets
from evidence.gate.history import ARTEFACT, HISTORY, committed_histories, history_problems
from evidence.gate.recompute import from_lines


@pytest.fixture(autouse=True)
def _in_checkout(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)


def test_the_reference_was_replaced_with_a_reason() -> None:
    text = HISTORY.read_text(encoding="utf-8")
    assert history_problems(text, ARTEFACT.read_bytes(), committed_histories()) == []


def test_the_reference_has_every_held_out_point() -> None:
    points = [*live_points(Path("docs/accuracy")), *published_points(Path("docs/accuracy"))]
    reference = {p.place: p.measured for p in from_lines(ARTEFACT.read_text(encoding="utf-8"))}
    assert len(points) > 800
    # Of a blind round's datasets the reference has the points as they were asked for then.
    rounds = scored_datasets()
    assert set(rounds) <= {place.source for place in reference}
    for point in points:
        if point.place.source in rounds:
            continue
        assert reference[point.place] == pytest.approx(point.measured, rel=1e-4)


def test_rounds_are_as_they_were_recorded() -> None:
    for step in steps():
        for name, file in (("questions", "questions.yaml"), ("predictions", "predictions.json")):
            if f"{name}_sha256" in step:
                data = (folder(step["round"]) / file).read_bytes()
                assert sha256(data) == step[f"{name}_sha256"]
        if step["step"] == SCORED:
            data = (folder(step["round"]) / "measurements.yaml").read_bytes()
            assert sha256(data) == step["measurements_sha256"]
