"""How many requests begin in each step: rates, bursts, traces, and their draws."""

from pathlib import Path

import numpy as np
import pytest

from forecache.models.over_time.cluster.load.cohorts import draw_arrivals
from forecache.models.over_time.cluster.load.load import expected_requests
from forecache.models.over_time.cluster.schema import Demand


def test_a_profile_is_summed_up_exactly_and_repeated() -> None:
    pieces = [{"duration_s": 1.3, "rate_rps": 100.0}, {"duration_s": 0.7, "rate_rps": 0.0}]
    means, drawn = expected_requests(
        Demand(rate_profile=pieces),
        steps=20,
        step_s=0.5,
        seed=1,  # type: ignore[arg-type]
    )
    assert drawn
    assert means[:4] == pytest.approx([50, 50, 30, 0])
    assert means == pytest.approx(np.tile(means[:4], 5))


def test_bursts_have_their_mean_and_their_seed() -> None:
    bursts = {"calm_rps": 10.0, "burst_rps": 100.0, "calm_s": 3.0, "burst_s": 1.0}
    demand = Demand(bursts=bursts)  # type: ignore[arg-type]
    means, _ = expected_requests(demand, steps=40_000, step_s=1.0, seed=1)
    assert means.mean() == pytest.approx(32.5, rel=0.05)
    assert means.min() == pytest.approx(10)
    assert means.max() == pytest.approx(100)
    again, _ = expected_requests(demand, steps=40_000, step_s=1.0, seed=1)
    other, _ = expected_requests(demand, steps=40_000, step_s=1.0, seed=2)
    assert (means == again).all()
    assert (means != other).any()


def test_a_trace_comes_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("time_s,command\n0,get\n0.4,get\n0.5,set\n2.1,get\n")
    counts, drawn = expected_requests(Demand(trace=str(file)), steps=56, step_s=0.5, seed=1)
    assert not drawn
    assert counts[:5].tolist() == [2, 1, 0, 0, 1]
    # One mean gap (0.7 s) behind the last it begins again: ten times in 28 s.
    assert counts.sum() == 40
    found = np.zeros(2, np.int64)
    draw_arrivals(1, 0, np.array([2.0, 0.0]), drawn, found)
    assert found.tolist() == [2, 0]


@pytest.mark.parametrize("mean", [0.3, 7.0, 59.0, 61.0, 2000.0])
def test_arrivals_are_poisson(mean: float) -> None:
    drawn = np.zeros(20_000, np.int64)
    draw_arrivals(1, 3, np.full(20_000, mean), True, drawn)
    assert drawn.mean() == pytest.approx(mean, abs=4 * np.sqrt(mean / 20_000))
    assert drawn.var() == pytest.approx(mean, rel=0.06)
    assert drawn.min() >= 0
