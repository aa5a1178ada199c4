"""Which keys a cache holds: those that were asked for or written since they were evicted.

A cache that evicts the least recently used keys holds about those that the last n commands named;
n is the characteristic time of Che and others (IEEE JSAC 20(7), 2002). A key that a command names
with probability p is there with probability 1 - exp(-p n). A cache that fills for the first time
holds the same, with n the writes so far.
"""

from __future__ import annotations

import math

import numpy as np

from ..scenario.workload import HotSetPopularity, Popularity, Zipf

_BINS = 400
"""Groups of keys that are taken for equally popular."""


class Filling:
    """The content of a cache over its life.

    Attributes
    ----------
    named
        Writes that say what is there: so far, or since what was evicted.
    """

    def __init__(self, *, keys: int, popularity: Popularity, filled: float) -> None:
        self.keys = keys
        self._count, self._share = _groups(keys, popularity)
        self.evicted = 0.0
        self.named = 0.0
        if filled > 0:
            self.named = self._named_for(filled * keys)

    @property
    def held(self) -> float:
        """Keys that are there."""
        return self._held(self.named)

    @property
    def hit_rate(self) -> float:
        """Share of the reads that find theirs."""
        there = -np.expm1(-self.named * self._share)
        return float((self._count * self._share) @ there)

    def write(self, writes: float, *, most: float, evicts: bool) -> float:
        """Apply a number of writes; returns how many of them failed for want of room.

        Parameters
        ----------
        most
            Keys that there is room for.
        evicts
            Whether others go for new ones; writes of new keys fail otherwise.
        """
        before = self.held
        after = self._held(self.named + writes)
        if after <= most:
            self.named += writes
            return 0.0
        if evicts:
            self.evicted += after - max(before, most)
            self.named = self._named_for(most)
            return 0.0
        room = max(0.0, most - before)
        fresh = after - before
        failed = (fresh - room) / fresh if fresh > 0 else 0.0
        self.named = max(self.named, self._named_for(most))
        # New keys fail; writes of those that are there don't.
        return writes * failed * (1.0 - self.hit_rate)

    def _held(self, named: float) -> float:
        return float(self._count @ -np.expm1(-named * self._share))

    def _named_for(self, held: float) -> float:
        """Number of writes after which a number of keys is present."""
        if held >= self.keys * (1.0 - 1e-9):
            held = self.keys * (1.0 - 1e-9)
        low, high = 0.0, float(self.keys)
        while self._held(high) < held:
            high *= 2.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._held(middle) < held else (low, middle)
        return high


def _groups(keys: int, popularity: Popularity) -> tuple[np.ndarray, np.ndarray]:
    """Keys in each group of equally popular ones, and the probability of one of them."""
    if isinstance(popularity, HotSetPopularity):
        hot = popularity.hot_set
        counts = keys * np.array([hot.keys, 1.0 - hot.keys])
        return counts, np.array([hot.requests, 1.0 - hot.requests]) / counts
    if not isinstance(popularity, Zipf):
        return np.array([float(keys)]), np.array([1.0 / keys])
    edges = np.unique(np.rint(np.geomspace(1, keys + 1, _BINS)))
    counts = np.diff(edges)
    exponent = popularity.zipf
    middle = np.sqrt(edges[:-1] * (edges[1:] - 1).clip(edges[:-1]))
    weights = middle**-exponent
    return counts, weights / float(counts @ weights)


def room(most_bytes: float, key_bytes: float) -> float:
    """Keys that fit."""
    return math.inf if not math.isfinite(most_bytes) else most_bytes / max(key_bytes, 1.0)
