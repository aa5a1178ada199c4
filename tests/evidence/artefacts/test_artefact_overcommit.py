"""What the page about overcommitted fleets says in words, its artefact says in numbers."""

import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[3] / "docs"


def artefact() -> dict[str, Any]:
    """What the study left."""
    found: dict[str, Any] = json.loads((DOCS / "accuracy" / "overcommit.json").read_text())
    return found


def test_a_busy_redis_moves_with_as_many_channels_as_it_was_seen_to() -> None:
    # The page says so in words.
    full, half = artefact()["migrations"]["busy"]["rates"]
    for rate, first in ((full, 75), (half, 45)):
        for speed, (two, _, eight) in rate["zlib"].items():
            assert two == "fails"
            assert (eight != "fails") == (int(speed) >= first)


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
