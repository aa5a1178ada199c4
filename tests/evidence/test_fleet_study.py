"""Published live migrations, and the page about overcommitted fleets."""

from pathlib import Path

import pytest

from evidence.overcommit.fleet_study import MOST_MIGRATIONS, _merged, reachable
from evidence.overcommit.live_migrations import idle_machines, xen_machines

DOCS = Path(__file__).parents[2] / "docs"


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
