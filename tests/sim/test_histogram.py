"""The histogram's error bound, its exact moments, merging and the sparse form."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.sim.histogram import (
    HISTOGRAM_WORDS,
    MAX_RELATIVE_ERROR,
    N_BUCKETS,
    LatencyHistogram,
    bucket_bounds_ps,
    bucket_of,
)
from tests.sim import native_functions

VALUES_PS = st.integers(0, 61).flatmap(lambda bits: st.integers(0, 2**bits - 1))


def filled(values_ps: list[int]) -> LatencyHistogram:
    histogram = LatencyHistogram()
    for value_ps in values_ps:
        histogram.record(value_ps)
    return histogram


def test_the_bound_is_at_most_one_per_cent() -> None:
    assert MAX_RELATIVE_ERROR <= 0.01


@given(st.lists(VALUES_PS, min_size=1, max_size=50), st.floats(0.0, 1.0))
def test_quantiles_are_within_the_bound(values_ps: list[int], q: float) -> None:
    rank = max(1, math.ceil(q * len(values_ps)))
    exact = sorted(values_ps)[rank - 1]
    assert filled(values_ps).quantile(q) == pytest.approx(exact, rel=MAX_RELATIVE_ERROR, abs=1e-9)


@given(st.lists(VALUES_PS, min_size=1, max_size=50))
def test_count_sum_and_maximum_are_exact(values_ps: list[int]) -> None:
    histogram = filled(values_ps)
    assert histogram.count == len(values_ps)
    assert histogram.sum_ps == sum(values_ps)
    assert histogram.max_ps == max(values_ps)
    assert histogram.mean == sum(values_ps) / len(values_ps)


@given(VALUES_PS)
def test_a_value_lies_in_its_bucket(value_ps: int) -> None:
    bucket = bucket_of(value_ps)
    low, high = bucket_bounds_ps(bucket)
    assert 0 <= bucket < N_BUCKETS
    # Beyond 2**53 a double rounds the value, possibly up to the next bucket's first.
    assert low <= float(value_ps) <= high
    assert float(value_ps) < high or value_ps > 2**53


def test_buckets_join_without_gap() -> None:
    for bucket in range(N_BUCKETS - 1):
        assert bucket_bounds_ps(bucket)[1] == bucket_bounds_ps(bucket + 1)[0]


@given(st.lists(VALUES_PS, max_size=30), st.lists(VALUES_PS, max_size=30))
def test_merging_equals_recording_everything(one: list[int], two: list[int]) -> None:
    assert filled(one).merge(filled(two)) == filled(one + two)


@given(st.lists(VALUES_PS, max_size=30), st.lists(VALUES_PS, max_size=30))
def test_what_came_since_is_what_was_recorded_since(before: list[int], after: list[int]) -> None:
    earlier, later = filled(before), filled(before + after)
    since, alone = later.since(earlier), filled(after)
    np.testing.assert_array_equal(since.counts[:N_BUCKETS], alone.counts[:N_BUCKETS])
    assert since.sum_ps == alone.sum_ps
    # The largest is known to its bucket, and never above what was ever recorded.
    assert alone.max_ps <= since.max_ps <= later.max_ps
    assert since.max_ps <= alone.max_ps * (1.0 + 2.0 * MAX_RELATIVE_ERROR) + 1.0
    assert earlier.merge(since).count == later.count
    assert earlier.merge(since).sum_ps == later.sum_ps
    assert later.since(LatencyHistogram()).max_ps == later.max_ps


def test_nothing_came_since() -> None:
    histogram = filled([10**9, 5])
    nothing = histogram.since(histogram)
    assert (nothing.count, nothing.sum_ps, nothing.max_ps) == (0, 0, 0)
    # Two looks at one that goes on: a copy, or the first would move with it.
    earlier = LatencyHistogram(histogram.counts.copy())
    histogram.record(2**40)
    assert histogram.since(earlier).count == 1
    assert histogram.since(earlier).quantile(0.5) == pytest.approx(2**40, rel=MAX_RELATIVE_ERROR)


@given(st.lists(VALUES_PS, max_size=30))
def test_the_sparse_form_has_every_count_and_the_exact_sum(values_ps: list[int]) -> None:
    histogram = filled(values_ps)
    sparse = json.loads(json.dumps(histogram.to_dict()))
    counts = {int(bucket): count for bucket, count in sparse["counts"].items()}
    assert counts == {n: histogram.counts[n] for n in range(N_BUCKETS) if histogram.counts[n]}
    assert sparse["sum_ps"] == sum(max(0, value) for value in values_ps)
    assert sparse["max_ps"] == max([0, *values_ps])
    assert LatencyHistogram.from_dict(sparse) == histogram


@given(st.lists(st.tuples(VALUES_PS, st.booleans()), max_size=30))
def test_c_code_records_what_python_records(values: list[tuple[int, bool]]) -> None:
    histogram = LatencyHistogram()
    for value_ps, negative in values:
        native_functions.record_many(histogram.counts, -value_ps if negative else value_ps, 1)
    assert histogram == filled(
        [-value_ps if negative else value_ps for value_ps, negative in values]
    )


@given(st.integers(-(2**63), 2**63 - 1))
def test_c_code_has_the_same_buckets(value_ps: int) -> None:
    assert native_functions.bucket_of(value_ps) == bucket_of(value_ps)
    assert native_functions.histogram_words() == HISTOGRAM_WORDS


def test_recording_many_equals_recording_each() -> None:
    many = LatencyHistogram()
    native_functions.record_many(many.counts, 12_345, 7)
    assert many == filled(7 * [12_345])


def test_negative_values_count_as_zero() -> None:
    histogram = filled([-5, 0])
    assert (histogram.count, histogram.sum_ps, histogram.quantile(1.0)) == (2, 0, 0.0)


def test_an_empty_histogram_has_no_quantile() -> None:
    histogram = LatencyHistogram()
    assert math.isnan(histogram.quantile(0.5))
    assert math.isnan(histogram.mean)
    assert histogram.count == 0


def test_quantiles_of_a_smooth_distribution_are_better_than_the_bound() -> None:
    values_ps = np.random.default_rng(5).exponential(1e6, 100_000).astype(np.int64)
    histogram = filled(values_ps.tolist())
    for q in (0.5, 0.9, 0.99):
        exact = float(np.quantile(values_ps, q, method="inverted_cdf"))
        assert histogram.quantile(q) == pytest.approx(exact, rel=MAX_RELATIVE_ERROR / 10)
    several = [0.99, 0.0, 0.5, 1.0]
    assert histogram.quantiles(several) == [histogram.quantile(q) for q in several]


def test_wrong_arrays_and_quantiles_are_refused() -> None:
    with pytest.raises(ValueError, match=str(HISTOGRAM_WORDS)):
        LatencyHistogram(np.zeros(10, np.int64))
    with pytest.raises(ValueError, match="between 0 and 1"):
        LatencyHistogram().quantile(1.5)
