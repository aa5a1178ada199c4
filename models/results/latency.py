"""The whole distribution of a latency, as the simulation counted it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from forecache.sim.histogram import HISTOGRAM_WORDS, N_BUCKETS, LatencyHistogram, bucket_bounds_ps

from .displayed import Displayed

Floats = NDArray[np.float64]

_PS_PER_MS = 1e9


@dataclass(frozen=True, eq=False, repr=False)
class LatencyDistribution(Displayed):
    """Latencies of all requests of one or more replications.

    They are counted in buckets that are less than 0.8% wide (`sim/histogram.py`); mean and maximum
    are exact. Only buckets that hold something are kept.
    """

    buckets: NDArray[np.int64]
    """(buckets,) numbers of those that hold something in any replication, in order."""
    counts: NDArray[np.int64]
    """(replications, buckets) how many requests each holds."""
    sums_ps: tuple[int, ...]
    """Of each replication, as the next."""
    maxima_ps: tuple[int, ...]

    @classmethod
    def of(cls, histograms: Sequence[LatencyHistogram]) -> LatencyDistribution:
        """That of replications, at least one."""
        words = np.array([each.counts[:N_BUCKETS] for each in histograms])
        buckets = np.flatnonzero(words.any(axis=0))
        return cls(
            buckets=buckets,
            counts=words[:, buckets],
            sums_ps=tuple(each.sum_ps for each in histograms),
            maxima_ps=tuple(each.max_ps for each in histograms),
        )

    @property
    def replications(self) -> int:
        """How many runs it is of."""
        return len(self.sums_ps)

    def histogram(self, replication: int) -> LatencyHistogram:
        """That of one run."""
        counts = np.zeros(HISTOGRAM_WORDS, np.int64)
        counts[self.buckets] = self.counts[replication]
        return LatencyHistogram.from_dict(
            LatencyHistogram(counts).to_dict()
            | {"sum_ps": self.sums_ps[replication], "max_ps": self.maxima_ps[replication]}
        )

    @cached_property
    def _pooled(self) -> LatencyHistogram:
        found = self.histogram(0)
        for replication in range(1, self.replications):
            found = found.merge(self.histogram(replication))
        return found

    @property
    def count(self) -> int:
        """How many requests."""
        return int(self.counts.sum())

    @property
    def mean_ms(self) -> float:
        """Their exact mean; nan if there are none."""
        return self._pooled.mean / _PS_PER_MS

    @property
    def max_ms(self) -> float:
        """The longest, exactly."""
        return self._pooled.max_ps / _PS_PER_MS

    def quantile(self, p: ArrayLike) -> Any:
        """The latency that a share `p` of the requests does not exceed, in ms.

        Over the requests of all replications together. `p50_ms` and the like of a point are means
        of the replications' own quantiles: `quantile_by_replication`.

        Parameters
        ----------
        p
            One share or an array of them, from 0 to 1.

        Returns
        -------
        float or ndarray
            Of the shape of `p`; nan if there are no requests.

        Raises
        ------
        ValueError
            A share is not between 0 and 1.
        """
        return _quantile(self._pooled, p)

    def quantile_by_replication(self, p: float) -> Floats:
        """(replications,) the same of each run, in ms: how much chance has to do with it."""
        runs = [self.histogram(number) for number in range(self.replications)]
        return np.array([_quantile(run, p) for run in runs])

    def cdf(self) -> tuple[Floats, Floats]:
        """Latencies in ms that grow, and the share of requests that take so long at most.

        Both are of shape (buckets,): the upper ends of buckets, the last of them the maximum.
        """
        ends_ps = np.array([bucket_bounds_ps(bucket)[1] for bucket in self.buckets.tolist()])
        within = np.cumsum(self.counts.sum(axis=0))
        latency_ms = np.minimum(ends_ps, self._pooled.max_ps) / _PS_PER_MS
        return latency_ms, within / max(1, self.count)

    def ccdf(self) -> tuple[Floats, Floats]:
        """The same latencies, and the share of requests that take longer; 0 at the last."""
        latency_ms, _ = self.cdf()
        beyond = self.count - np.cumsum(self.counts.sum(axis=0))
        return latency_ms, beyond / max(1, self.count)

    def merge(self, other: LatencyDistribution) -> LatencyDistribution:
        """That of the replications of both."""
        both = (self, other)
        runs = [each.histogram(n) for each in both for n in range(each.replications)]
        return LatencyDistribution.of(runs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LatencyDistribution):
            return NotImplemented
        return (
            (self.sums_ps, self.maxima_ps) == (other.sums_ps, other.maxima_ps)
            and np.array_equal(self.buckets, other.buckets)
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        p50, p99 = self.quantile([0.5, 0.99])
        return (
            f"LatencyDistribution(replications={self.replications}, count={self.count}, "
            f"p50={p50:.4g} ms, p99={p99:.4g} ms, max={self.max_ms:.4g} ms)"
        )


def _quantile(histogram: LatencyHistogram, p: ArrayLike) -> Any:
    shares = np.asarray(p, dtype=float)
    found = [histogram.quantile(share) / _PS_PER_MS for share in shares.ravel().tolist()]
    return found[0] if shares.ndim == 0 else np.reshape(found, shares.shape)
