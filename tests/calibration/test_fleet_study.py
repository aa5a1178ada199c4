"""Published live migrations, and the page about overcommitted fleets."""

import json
from pathlib import Path

import pytest

from forecache.calibration.fleet_study import _merged, compressed, migrations, page

DOCS = Path(__file__).parents[2] / "docs"


def test_a_measured_migration_takes_as_long_as_predicted() -> None:
    one, two = migrations()
    assert one["predicted_s"] == pytest.approx(one["duration_s"], rel=0.25)
    assert one["predicted_blackout_ms"] == pytest.approx(one["blackout_ms"], rel=0.25)
    assert two["predicted_s"] == pytest.approx(two["duration_s"], rel=0.25)


def test_what_is_too_slow_for_its_time_does_not_get_there() -> None:
    rows = {row["channels"]: row["predicted"] for row in compressed()}
    assert rows[2] == "fails"
    assert rows[8] != "fails"


def test_a_change_replaces_leaves_only() -> None:
    assert _merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 9}}) == {
        "a": {"b": 9, "c": 2},
        "d": 3,
    }


def test_the_page_is_what_the_artefact_says() -> None:
    found = json.loads((DOCS / "accuracy" / "overcommit.json").read_text())
    assert (DOCS / "overcommit.md").read_text() == page(found)
