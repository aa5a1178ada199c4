"""Windows of CPU time under a benchmark tool: which is kept, and what keys in order save."""

import json
from pathlib import Path

import pytest

from evidence.live import key_order
from evidence.live.cpu_windows import Window, as_profiled, calmest
from forecache.hwprofiles.capture.cores import ANSWER_INSTRUCTIONS
from forecache.hwprofiles.catalogue import load_host


@pytest.mark.parametrize(
    ("others", "kept"), [([0.3, 0.04, 0.0], 0.04), ([0.5, 0.3, 0.2, 0.6, 0.4, 0.0], 0.2)]
)
def test_a_disturbed_window_is_tried_again_and_the_calmest_kept(
    others: list[float], kept: float
) -> None:
    tries = iter(Window(cpu_us=1.0, rps=1.0, others=share, answer_ns=20.0) for share in others)
    assert calmest(lambda: next(tries)).others == kept


def test_a_window_on_a_core_that_another_machine_uses_is_tried_again() -> None:
    answers = iter([57.0, 33.5, 56.0, 34.0])
    tries = (Window(cpu_us=1.0, rps=1.0, others=0.01, answer_ns=ns) for ns in answers)
    assert calmest(lambda: next(tries), profiled_ns=33.0).answer_ns == 33.5


def test_windows_of_a_core_in_another_state_than_profiled_are_left_out() -> None:
    host = load_host("graviton3")
    ns = 10.0
    measured = {"kind": "measured", "value": ANSWER_INSTRUCTIONS / (ns * host.clock_ghz.best)}
    host = host.model_copy(update={"user_ipc": host.user_ipc.model_copy(update=measured)})
    near = host.core_to_core_ns.best
    row = {"apart_ns": [near, near], "cpu_us": [1.0, 2.0, 3.0], "answer_ns": [10.5, 17.0, 8.0]}
    assert as_profiled(row, host) == [0]
    assert as_profiled(row | {"apart_ns": [near, 4 * near]}, host) == []
    del row["answer_ns"]
    assert as_profiled(row, host) == [0, 1, 2]


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
