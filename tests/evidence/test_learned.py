"""The section of scores about hosts that were fitted together."""

import json
from pathlib import Path
from typing import Any

import pytest

from evidence.accuracy.learned import ARTEFACT, KINDS, learned_section, regrets


def point(threads: int, observed: float, predicted: float, **other: Any) -> dict[str, Any]:
    error = predicted / observed - 1
    found = {"rps": predicted, "error": error, "uncertainty": 0.05, "inside": abs(error) < 0.05}
    return {
        "dataset": "curve",
        "index": threads,
        "given": {"io_threads": threads, "command": "get"},
        "role": "validation",
        "host": "graviton4",
        "engine": "valkey-8.1",
        "observed_rps": observed,
        "predicted": dict.fromkeys(KINDS, found),
        **other,
    }


CURVE = [point(1, 100, 109), point(2, 200, 300), point(4, 400, 303), point(8, 410, 305)]


def test_regret_is_what_the_recommended_setting_gives_up() -> None:
    # Two threads are within 5% of the best prediction, and measured at 200 of 410.
    [(cost, name)] = regrets(CURVE, "fit")
    assert cost == pytest.approx(1 - 200 / 410)
    assert name == "curve GET"
    assert regrets(CURVE[:2], "fit") == []


def test_the_section_counts_errors_in_uncertainties(tmp_path: Path) -> None:
    assert learned_section(tmp_path) == []
    fitted = point(1, 100, 101, role="calibration")
    result = {
        "numbers": 3,
        "calibration_points": 1,
        "discrepancy": 0.08,
        "points": [fitted, *CURVE],
    }
    (tmp_path / ARTEFACT.name).write_text(json.dumps(result), encoding="utf-8")
    text = "\n".join(learned_section(tmp_path))
    assert "| fitted | nothing | 1 | 1.0% | 1% | 0.2 | 0% | 100% |" in text
    # Off by 9, 50, 24 and 26%, of which three are beyond two uncertainties.
    assert "| held out | its dataset | 4 | 24.9% | 50% | 5.0 | 75% | 0% |" in text
