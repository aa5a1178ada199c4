"""Measurements under CPU quotas: which rounds count, and how they are predicted."""

from dataclasses import replace

import pytest

from evidence.live.quotas import Seen, predicted, typical


def test_of_rounds_that_others_left_alone_the_median_counts() -> None:
    rounds = [Seen(rate, 1.0, 2.0, 0.0, others) for rate, others in ((9e4, 0.0), (5e4, 0.02))]
    rounds += [Seen(7e4, 1.0, 2.0, 0.0, 0.09), Seen(1e3, 1.0, 2.0, 0.0, 1.2)]
    assert typical(rounds).throughput_rps == 7e4
    disturbed = [replace(seen, others_cores=seen.others_cores + 0.5) for seen in rounds]
    assert typical(disturbed).throughput_rps == 9e4


def test_a_quota_is_predicted_to_leave_its_share_and_to_stop_everybody_once_a_period() -> None:
    alone = predicted("redis", "7.0", "graviton3", io_threads=1, quota_cores=0.0)
    half = predicted("redis", "7.0", "graviton3", io_threads=1, quota_cores=0.5)
    assert half.throughput_rps == pytest.approx(alone.throughput_rps / 2, rel=0.03)
    assert (alone.throttled_periods, half.throttled_periods) == (0.0, 1.0)
    assert half.p99_ms == pytest.approx(50.0, rel=0.15)
