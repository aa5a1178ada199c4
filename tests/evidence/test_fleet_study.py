"""Published live migrations, and the page about overcommitted fleets."""

import json
from pathlib import Path
from typing import Any

import pytest

from evidence.live.fleet_study import MOST_MIGRATIONS, _merged, page, reachable
from evidence.live.live_migrations import idle_machines, xen_machines

DOCS = Path(__file__).parents[2] / "docs"


def artefact() -> dict[str, Any]:
    """What the study left."""
    found: dict[str, Any] = json.loads((DOCS / "accuracy" / "overcommit.json").read_text())
    return found


def test_a_measured_migration_takes_as_long_as_predicted() -> None:
    for row in idle_machines():
        assert row["predicted_s"] == pytest.approx(row["duration_s"], rel=0.25)
        # Which of the two ways a machine was stopped isn't known; between them lies what was seen.
        assert row["between_ms"] < row["blackout_ms"] < row["predicted_blackout_ms"]


def test_xen_stops_with_what_is_always_written() -> None:
    web, game = xen_machines()
    assert web["predicted_blackout_ms"] == pytest.approx(web["blackout_ms"], rel=0.25)
    # A miss that the page tells.
    assert game["predicted_blackout_ms"] < 0.25 * game["blackout_ms"]


def test_a_busy_redis_moves_with_as_many_channels_as_it_was_seen_to() -> None:
    # The page says so in words.
    full, half = artefact()["migrations"]["busy"]["rates"]
    for rate, first in ((full, 75), (half, 45)):
        for speed, (two, _, eight) in rate["zlib"].items():
            assert two == "fails"
            assert (eight != "fails") == (int(speed) >= first)


def test_a_density_is_reachable_until_a_limit_is_passed() -> None:
    def run(migrations: float) -> dict[str, float]:
        return {"migrations in 10,000 scale-ups": migrations, "time short of memory": 0.0}

    most = MOST_MIGRATIONS
    assert reachable((10, 20), [run(0), run(2 * most)]) == pytest.approx(15)
    assert reachable((10, 20), [run(2 * most), run(0)]) == pytest.approx(5)
    assert reachable((10, 20), [run(0), run(most)]) == 20
    short = {"migrations in 10,000 scale-ups": 0.0, "time short of memory": 0.004}
    assert reachable((10, 20), [run(0), short]) == pytest.approx(12.5)


def test_a_change_replaces_leaves_only() -> None:
    assert _merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 9}}) == {
        "a": {"b": 9, "c": 2},
        "d": 3,
    }


def test_the_page_is_what_the_artefact_says() -> None:
    assert (DOCS / "overcommit.md").read_text() == page(artefact())


def test_empty_hosts_pay_with_giants_that_are_moved_and_not_elsewhere() -> None:
    # The page says so in words.
    rows = {(r["demand"], r["victim"], r["placement"]): r for r in artefact()["policies"]}
    kept = rows["giants", "largest", "unbalanced"]
    assert kept["density_gained"]["low"] > 0
    assert kept["short_difference"]["high"] < 0
    for demand, victim in (
        ("small steps", "smallest_that_cools"),
        ("giants", "smallest_that_cools"),
    ):
        assert rows[demand, victim, "unbalanced"]["density_gained"]["high"] < 0
        assert rows[demand, victim, "unbalanced"]["per_10000_difference"]["low"] > 0
