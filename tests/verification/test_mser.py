"""MSER-5 against series whose warm-up is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verification.queueing.mser import MSER_BATCH, mser5, mser5_across


def test_mser5_cuts_a_step_where_it_ends() -> None:
    rng = np.random.default_rng(4)
    series = rng.normal(size=2000)
    series[:300] += 5.0
    warm_up = mser5(series)
    assert warm_up.accepted
    assert 300 <= warm_up.cut <= 320


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3))
def test_mser5_ignores_units(shift: float, scale: float) -> None:
    series = np.random.default_rng(5).normal(size=500)
    series[:100] += 4.0
    assert mser5(series * scale + shift).cut == mser5(series).cut


def test_mser5_rejects_a_series_that_never_settles() -> None:
    series = np.concatenate([np.full(800, 10.0), np.zeros(200)])
    series += np.random.default_rng(6).normal(size=1000)
    warm_up = mser5(series)
    assert not warm_up.accepted
    assert warm_up.cut > 500


def test_mser5_matches_the_definition() -> None:
    series = np.random.default_rng(7).normal(size=203).cumsum()
    batches = series[:200].reshape(-1, MSER_BATCH).mean(axis=1)
    criterion = [batches[cut:].var() / (len(batches) - cut) for cut in range(len(batches) - 4)]
    assert mser5(series).cut == int(np.argmin(criterion)) * MSER_BATCH


def test_mser5_across_averages_and_takes_the_shortest() -> None:
    rng = np.random.default_rng(8)
    series = [rng.normal(size=size) for size in (1000, 1003, 1100)]
    for values in series:
        values[:200] += 4.0
    average = np.mean([values[:1000] for values in series], axis=0)
    assert mser5_across(series) == mser5(average)
    assert 200 <= mser5_across(series).cut <= 220
    with pytest.raises(ValueError, match="at least one"):
        mser5_across([])


def test_mser5_needs_ten_batches() -> None:
    with pytest.raises(ValueError, match="at least 50"):
        mser5(np.zeros(49))
