"""The study of a node's ceiling: what it reads from steps of load."""

from __future__ import annotations

import pytest

from evidence.live.ceiling import Step, highest_met, lowest_missed
from evidence.live.ceiling import _steps as steps_until_missed


def step(
    asked_rps: float, *, p99_ms: float | None = 0.1, served: float = 1.0, stalled: float = 0.1
) -> Step:
    return Step(asked_rps, served * asked_rps, p99_ms, stalled)


def test_a_load_is_met_if_it_is_served_and_does_not_queue() -> None:
    assert step(1e5).met
    assert not step(1e5, served=0.9).met  # held back by the load generator, or piling up
    assert not step(1e5, stalled=0.9).met  # no host stalls that often: requests queue
    assert not step(1e5, p99_ms=None, stalled=1.0).met


def test_between_the_highest_met_and_the_lowest_missed_steps_disagree() -> None:
    steps = [step(1.0), step(2.0), step(3.0, stalled=0.9), step(4.0), step(5.0, stalled=0.9)]
    assert highest_met(steps) == 2.0
    assert lowest_missed(steps) == 5.0
    assert highest_met(steps[2:]) is None
    assert lowest_missed(steps[:2]) is None


@pytest.mark.parametrize("limit_rps", [70_000.0, 100_000.0, 130_000.0])
def test_the_load_is_raised_until_it_is_missed_for_good(limit_rps: float) -> None:
    def at(rate_rps: float) -> Step:
        return step(rate_rps, served=min(1.0, limit_rps / rate_rps))

    steps = steps_until_missed(at, 100_000.0)
    met, missed = highest_met(steps), lowest_missed(steps)
    assert met is not None
    assert missed is not None
    assert met <= limit_rps / 0.97 < missed * 1.0001
    assert missed / met == pytest.approx(1.04)
