"""A log-linear histogram of latencies that never loses its mean and bounds its error.

Every octave (factor of two) of the value is cut into 128 buckets of equal width, so two values in
one bucket differ by less than 1/128 of the smaller: 0.8%. The bucket number is read off the value
as a double: exponent and seven leading bits of the significand.

A quantile is interpolated inside its bucket. The middle of the bucket would put the quantiles of
all replications of a steady run on the same number, and an interval across them would be too
narrow.

The histogram is one int64 array: the buckets, then the exact sum in two words and the exact
maximum. C code fills it with the functions of `native/histogram.h`; `LatencyHistogram` reads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

SUB_BUCKETS = 128
"""Buckets an octave."""

N_BUCKETS = 63 * SUB_BUCKETS + 1
"""Bucket 0 holds values of zero and below, the others 1 ps to 2**63 ps."""

MAX_RELATIVE_ERROR = 1.0 / SUB_BUCKETS
"""Between a quantile and the recorded value of its rank, as a fraction of the value."""

_SUM_LOW = N_BUCKETS
_SUM_HIGH = N_BUCKETS + 1
_MAX = N_BUCKETS + 2
HISTOGRAM_WORDS = N_BUCKETS + 3
"""Length of the array."""

_CARRY_BITS = 61
_CARRY = 1 << _CARRY_BITS


def bucket_of(value_ps: int) -> int:
    """The number of the bucket a value falls into."""
    if value_ps <= 0:
        return 0
    significand, exponent = math.frexp(value_ps)  # the significand from 1/2 on, below 1
    return SUB_BUCKETS * (exponent - 2) + int(2 * SUB_BUCKETS * significand) + 1


def bucket_bounds_ps(bucket: int) -> tuple[float, float]:
    """The values a bucket holds: from the first, included, to the second, excluded, in ps."""
    if bucket == 0:
        return 0.0, 1.0
    octave, step = divmod(bucket - 1, SUB_BUCKETS)
    width = 2.0**octave / SUB_BUCKETS
    low = 2.0**octave + step * width
    return low, low + width


def _interpolate_ps(bucket: int, share: float) -> float:
    """The value below which lies a share of what a bucket holds, spread evenly over it."""
    low, high = bucket_bounds_ps(bucket)
    # Values are whole picoseconds: those of this bucket go from the first to the last of these.
    first, last = math.ceil(low), math.ceil(high) - 1
    return first + share * (last - first)


class LatencyHistogram:
    """Counted latencies; all times in picoseconds.

    Parameters
    ----------
    counts : ndarray of int64, optional
        An array that C code fills, shared and not copied; a new one if left out.
    """

    def __init__(self, counts: np.ndarray | None = None) -> None:
        self.counts: np.ndarray = np.zeros(HISTOGRAM_WORDS, np.int64) if counts is None else counts
        if self.counts.shape != (HISTOGRAM_WORDS,) or self.counts.dtype != np.int64:
            raise ValueError(f"a histogram is an int64 array of {HISTOGRAM_WORDS} words")

    def record(self, value_ps: int) -> None:
        """Count one value in picoseconds, below 2**61; a negative one counts as zero."""
        value_ps = max(0, int(value_ps))
        self.counts[bucket_of(value_ps)] += 1
        carried, self.counts[_SUM_LOW] = divmod(int(self.counts[_SUM_LOW]) + value_ps, _CARRY)
        self.counts[_SUM_HIGH] += carried
        self.counts[_MAX] = max(self.max_ps, value_ps)

    @property
    def count(self) -> int:
        """How many values were recorded."""
        return int(self.counts[:N_BUCKETS].sum())

    @property
    def sum_ps(self) -> int:
        """Their exact sum."""
        return (int(self.counts[_SUM_HIGH]) << _CARRY_BITS) + int(self.counts[_SUM_LOW])

    @property
    def max_ps(self) -> int:
        """The exact largest value; 0 if there is none."""
        return int(self.counts[_MAX])

    @property
    def mean(self) -> float:
        """The exact mean in picoseconds; nan if nothing was recorded."""
        count = self.count
        return self.sum_ps / count if count else float("nan")

    def quantile(self, q: float) -> float:
        """The q-quantile in picoseconds (nearest rank); nan if nothing was recorded.

        Within `MAX_RELATIVE_ERROR` of the recorded value that has this rank, and never above the
        largest.
        """
        return self.quantiles([q])[0]

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """Several of them, each as `quantile` gives it."""
        for q in shares:
            if not 0.0 <= q <= 1.0:
                raise ValueError(f"a quantile lies between 0 and 1, not {q}")
        cumulative = np.cumsum(self.counts[:N_BUCKETS])
        count, longest = int(cumulative[-1]), float(self.max_ps)
        if count == 0:
            return [float("nan")] * len(shares)
        ranks = [max(1, math.ceil(q * count)) for q in shares]
        found = []
        for rank, bucket in zip(ranks, cumulative.searchsorted(ranks).tolist(), strict=True):
            inside = int(self.counts[bucket])
            share = (rank - int(cumulative[bucket]) + inside - 0.5) / inside
            found.append(min(_interpolate_ps(bucket, share), longest))
        return found

    def merge(self, other: LatencyHistogram) -> LatencyHistogram:
        """A new histogram with the values of both."""
        merged = LatencyHistogram(self.counts + other.counts)
        if merged.counts[_SUM_LOW] >= _CARRY:
            merged.counts[_SUM_LOW] -= _CARRY
            merged.counts[_SUM_HIGH] += 1
        merged.counts[_MAX] = max(self.max_ps, other.max_ps)
        return merged

    def since(self, earlier: LatencyHistogram) -> LatencyHistogram:
        """What was recorded after an earlier copy of this histogram.

        Its largest value is known to its bucket only: the upper bound of that.
        """
        later = LatencyHistogram(self.counts - earlier.counts)
        total = self.sum_ps - earlier.sum_ps
        later.counts[_SUM_LOW], later.counts[_SUM_HIGH] = total % _CARRY, total // _CARRY
        occupied = np.flatnonzero(later.counts[:N_BUCKETS])
        upper = bucket_bounds_ps(int(occupied[-1]))[1] if len(occupied) else 0.0
        later.counts[_MAX] = min(self.max_ps, math.ceil(upper))
        return later

    def to_dict(self) -> dict[str, Any]:
        """A sparse, JSON-able form: `counts` maps bucket numbers to counts."""
        occupied = np.flatnonzero(self.counts[:N_BUCKETS])
        return {
            "sub_buckets_per_octave": SUB_BUCKETS,
            "sum_ps": self.sum_ps,
            "max_ps": self.max_ps,
            "counts": {str(bucket): int(self.counts[bucket]) for bucket in occupied},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LatencyHistogram:
        """The histogram that this sparse form is of."""
        if data["sub_buckets_per_octave"] != SUB_BUCKETS:
            found = data["sub_buckets_per_octave"]
            raise ValueError(f"a histogram of {SUB_BUCKETS} buckets an octave, not {found}")
        counts = np.zeros(HISTOGRAM_WORDS, np.int64)
        for bucket, count in data["counts"].items():
            counts[int(bucket)] = count
        counts[_SUM_HIGH], counts[_SUM_LOW] = divmod(data["sum_ps"], _CARRY)
        counts[_MAX] = data["max_ps"]
        return cls(counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LatencyHistogram):
            return NotImplemented
        return bool(np.array_equal(self.counts, other.counts))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LatencyHistogram(count={self.count}, mean={self.mean:.6g} ps)"
