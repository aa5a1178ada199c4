"""The section of scores about hosts that were fitted together."""

import json
from pathlib import Path
from typing import Any

import pytest

from evidence.accuracy.curves import curves_of, curves_section
from evidence.accuracy.learned import ARTEFACT, KINDS, learned_section


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
    [curve] = curves_of(CURVE)
    assert curve.regret("fit") == pytest.approx(1 - 200 / 410)
    assert curve.knees("fit") == (2, 4)
    assert (curve.dataset, curve.load) == ("curve", "GET")
    assert curves_of(CURVE[:2]) == []


def test_a_curve_is_held_to_what_was_asked_of_it() -> None:
    text = "\n".join(curves_section(CURVE))
    # Errors of 9, 50, 24 and 26%; three above 12%, all of them beyond two uncertainties.
    assert "| `curve` | 4 | 24.9% | 50.0% | 3 | 0 | no |" in text
    assert "| `curve` | GET | 4 | 2 | 51.2% | no |" in text
    close = [point(threads, 100.0 * threads, 104.0 * threads) for threads in (1, 2, 4)]
    text = "\n".join(curves_section(close))
    assert "| `curve` | 3 | 4.0% | 4.0% | 0 | 0 | yes |" in text
    assert "| `curve` | GET | 4 | 4 | 0.0% | yes |" in text


def test_the_section_counts_errors_in_uncertainties(tmp_path: Path) -> None:
    assert learned_section(tmp_path) == []
    fitted = point(1, 100, 101, role="calibration")
    result = {
        "numbers": 3,
        "calibration_points": 1,
        "discrepancy": 0.08,
        "commands_discrepancy": 0.3,
        "ends": [
            {
                "start": "what was known before",
                "steps": 4,
                "to_its_end": True,
                "began": 90.0,
                "objective": 20.5,
                "median_error": 0.034,
            }
        ],
        "points": [fitted, *CURVE],
    }
    (tmp_path / ARTEFACT.name).write_text(json.dumps(result), encoding="utf-8")
    text = "\n".join(learned_section(tmp_path))
    assert "| what was known before | 4 | yes | 90 | 20.5 | 3.4% |" in text
    assert "| fitted | nothing | 1 | 1.0% | 1% | 0.2 | 0% | 100% |" in text
    # Off by 9, 50, 24 and 26%, of which three are beyond two uncertainties.
    assert "| held out | its dataset | 4 | 24.9% | 50% | 5.0 | 75% | 0% |" in text
