"""The study of nodes that stop: what is read from logs; predictions are the present ones."""

import json
from datetime import datetime

import pytest

from evidence.live.failover_check import PREDICTED, TRIALS, predict, read_logs

ONE, OTHER = "a" * 40, "b" * 40
BEGUN = datetime(2026, 11, 27, 12, 0, 10)


def line(second: float, text: str) -> str:
    return f"77:M 27 Nov 2026 12:00:{second:06.3f} * {text}"


def test_times_are_those_of_the_first_node_that_noticed() -> None:
    valkey = "\n".join([
        line(9, f"NODE {ONE} () possibly failing."),  # before
        line(15, f"NODE {ONE} () possibly failing."),
        line(16.5, f"Marking node {ONE} () as failing (quorum reached)."),
        line(17.25, "Failover election won: I'm the new primary."),
        "no line of a log",
    ])  # fmt: skip
    redis = "\n".join([
        line(14.5, f"*** NODE {OTHER} possibly failing"),
        line(16, f"Marking node {ONE} as failing (quorum reached)."),
        line(18, f"Marking node {OTHER} as failing (quorum reached)."),
    ])  # fmt: skip
    assert read_logs([valkey, redis], BEGUN.timestamp()) == {
        "first suspicion": 4.5,
        "first FAIL": 6.0,
        "last FAIL": 8.0,
        "last election": 7.25,
    }
    assert set(read_logs(["", ""], 0.0).values()) == {None}


@pytest.mark.long
def test_what_was_predicted_is_what_is_predicted_now() -> None:
    written = json.loads(PREDICTED.read_text())
    assert len(written) == len(TRIALS)
    found = predict(TRIALS[0])
    for what, (mean, low, high) in written[0]["predicted"].items():
        assert found[what] == pytest.approx([mean, low, high], rel=0.02)
