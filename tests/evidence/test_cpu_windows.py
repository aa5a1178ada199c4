"""Windows of CPU time under a benchmark tool: which is kept, and what keys in order save."""

import json
from pathlib import Path

import pytest

from evidence.live import key_order
from evidence.live.cpu_windows import Window, calmest


@pytest.mark.parametrize(
    ("others", "kept"), [([0.3, 0.04, 0.0], 0.04), ([0.5, 0.3, 0.2, 0.6, 0.4, 0.0], 0.2)]
)
def test_a_disturbed_window_is_tried_again_and_the_calmest_kept(
    others: list[float], kept: float
) -> None:
    tries = iter(Window(cpu_us=1.0, rps=1.0, others=share) for share in others)
    assert calmest(lambda: next(tries)).others == kept


def test_the_table_says_how_much_cheaper_keys_in_order_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = {"host": "h", "engine": "redis-1.0", "command": "get", "value_bytes": 16}
    rows = [
        {**same, "key_pattern": "random", "cpu_us": [1.9, 2.0, 2.5], "predicted_us": 2.0},
        {**same, "key_pattern": "one_sequence", "cpu_us": [1.5, 1.5, 9.0], "predicted_us": 1.0},
    ]
    artefact = tmp_path / "rows.json"
    artefact.write_text(json.dumps({"points": rows}), encoding="utf-8")
    monkeypatch.setattr(key_order, "ARTEFACT", artefact)
    [line] = [line for line in key_order.section() if "redis-1.0" in line]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[2:] == ["GET", "16", "2.00", "1.50", "2.00", "1.00", "25%", "50%"]
