"""The whole distribution of a latency, against the samples that it was counted from."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.models.results.latency import LatencyDistribution
from forecache.sim.histogram import MAX_RELATIVE_ERROR, LatencyHistogram

SAMPLES_PS = st.lists(st.integers(1, 10**12), min_size=1, max_size=60)
RUNS_PS = st.lists(SAMPLES_PS, min_size=1, max_size=4)


def counted(samples_ps: list[int]) -> LatencyHistogram:
    histogram = LatencyHistogram()
    for sample_ps in samples_ps:
        histogram.record(sample_ps)
    return histogram


def distribution(runs_ps: list[list[int]]) -> LatencyDistribution:
    return LatencyDistribution.of([counted(run) for run in runs_ps])


@given(RUNS_PS, st.floats(0.0, 1.0))
def test_quantiles_are_those_of_all_samples_together(runs_ps: list[list[int]], p: float) -> None:
    found = distribution(runs_ps)
    together = sorted(sample for run in runs_ps for sample in run)
    exact_ms = together[max(1, math.ceil(p * len(together))) - 1] / 1e9
    assert found.quantile(p) == pytest.approx(exact_ms, rel=MAX_RELATIVE_ERROR)
    assert found.count == len(together)
    assert found.mean_ms == pytest.approx(np.mean(together) / 1e9)
    assert found.max_ms == together[-1] / 1e9
    assert found.quantile_by_replication(p).shape == (len(runs_ps),)


@given(RUNS_PS)
def test_every_run_is_kept(runs_ps: list[list[int]]) -> None:
    found = distribution(runs_ps)
    assert [found.histogram(n) for n in range(len(runs_ps))] == [counted(run) for run in runs_ps]


@given(RUNS_PS)
def test_shares_grow_to_all_and_fall_to_none(runs_ps: list[list[int]]) -> None:
    found = distribution(runs_ps)
    latency_ms, share = found.cdf()
    same_ms, beyond = found.ccdf()
    assert np.array_equal(latency_ms, same_ms)
    assert np.all(np.diff(latency_ms) > 0)
    assert np.all(np.diff(share) > 0)
    assert np.all(np.diff(beyond) < 0)
    assert (share[-1], beyond[-1]) == (1.0, 0.0)
    assert np.allclose(share + beyond, 1.0)
    samples_ms = np.array([sample for run in runs_ps for sample in run]) / 1e9
    exact = [(samples_ms <= at_ms * (1 + 1e-12)).mean() for at_ms in latency_ms]
    assert np.allclose(share, exact)


@given(RUNS_PS, RUNS_PS)
def test_merged_is_as_counted_together(one_ps: Any, other_ps: Any) -> None:
    merged = distribution(one_ps).merge(distribution(other_ps))
    assert merged == distribution([*one_ps, *other_ps])
    assert merged.replications == len(one_ps) + len(other_ps)


def test_quantiles_have_the_shape_they_were_asked_in() -> None:
    found = distribution([[10**9, 2 * 10**9, 3 * 10**9]])
    assert isinstance(found.quantile(0.5), float)
    assert found.quantile(np.array([[0.1], [0.9]])).shape == (2, 1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        found.quantile(1.5)
    assert "count=3" in repr(found)


def test_nothing_counted_has_no_quantile() -> None:
    empty = distribution([[]])
    assert math.isnan(empty.quantile(0.5))
    assert [each.size for each in empty.cdf()] == [0, 0]
