"""Runs of live Memcached nodes that were kept."""

import json
from pathlib import Path


def test_the_committed_runs_are_met_within_ten_points(checkout: Path) -> None:
    text = (checkout / "docs" / "accuracy" / "memcached.json").read_text(encoding="utf-8")
    runs = json.loads(text)["checks"]
    assert {(3, 5), (9, 10)} <= {(run["check"]["before"], run["check"]["after"]) for run in runs}
    assert all(run["worst_difference"] < 0.1 for run in runs)
