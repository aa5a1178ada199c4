"""Kinds of cache lines that commands touch, and how often each line of a kind is touched."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from ..engines.commands import LONG_BYTES
from ..scenario.workload import HotSetPopularity, Popularity, Workload, Zipf

LINE_BYTES = 64
FETCHED_AT_ONCE = 2
NEAR_STREAMED_AT_ONCE = 8
FAR_STREAMED_AT_ONCE = 24
"""How lines of one value that follow its first are fetched: the first holds the string header, and
once it is there the loads of the next ones go out together; from then on the prefetcher has seen
the stream and runs ahead, by so many lines of the last level or of DRAM in the time of one wait
(blocks of 1 to 8 KB at random places took 1.2 ns a line out of a last level of 18 on a Zen 4
virtual machine, and 6 to 9 ns out of DRAM of 163, page walks not counted)."""

BUCKET = "bucket"
"""Name of the lines that a hash of a key leads to, which lie in no order of keys."""

_POPULARITY_BINS = 24
_SUMMED_RANKS = 1000
"""Ranks up to which Zipf's law is summed rank by rank; beyond it an integral is as good."""


@dataclass(frozen=True)
class Structure:
    """A kind of line that commands touch.

    Attributes
    ----------
    lines_per_key
        How many lines the structure has for each key; 0 for another touch of the lines of the
        structure before it.
    touches
        How many of its lines one command waits for, one after the other on each of `ways`.
    followers
        Lines that follow the first one at adjacent addresses, read or written with it.
    prefetched
        Whether a batched look-up fetches its first line ahead.
    written
        Whether its lines are written: nothing waits for long runs of stores.
    ways
        How many independent chains its touches form, so that a core may wait for several at once:
        those to each of several members, fields or names.
    """

    name: str
    lines_per_key: float
    touches: float
    followers: float = 0.0
    prefetched: bool = True
    written: bool = False
    ways: int = 1

    @property
    def scattered(self) -> float:
        """Share of touches that come in no order of keys: of buckets, and a chain's other keys."""
        return 1.0 if self.name == BUCKET else 1.0 - 1.0 / max(1.0, self.touches)

    def touches_in_turn(self, in_flight: float) -> float:
        """Touches that are waited for one after the other by a core that is on so many ways."""
        return self.touches * waited_ways(self.ways, in_flight) / self.ways

    @property
    def head_waits(self) -> float:
        """Waits for a line that the first lines after the first are worth: they come together."""
        return min(self.followers / FETCHED_AT_ONCE, 1.0)

    @property
    def tail_lines(self) -> float:
        """Lines beyond, which the prefetcher brings."""
        return self._beyond(FETCHED_AT_ONCE) - self.long_lines

    @property
    def long_lines(self) -> float:
        """Lines beyond those, which a core streams."""
        return self._beyond(LONG_BYTES // LINE_BYTES)

    def _beyond(self, lines: int) -> float:
        return 0.0 if self.written else max(0.0, self.followers - lines)


def waited_ways(ways: int, in_flight: float) -> float:
    """How many of several ways a core waits for, where it works ahead on the next ones."""
    return 1.0 + (ways - 1) / min(in_flight, ways)


Bins = tuple[tuple[float, float], ...]
"""(keys, share of requests) of groups of keys that are about equally popular."""


def popularity_bins(workload: Workload) -> Bins:
    """(keys, share of requests) of groups of keys that are about equally popular."""
    return bins_of(workload.keys, workload.popularity)


def bins_of(keys: int, popularity: Popularity) -> Bins:
    """The same by the number of keys and their popularity."""
    return rank_classes(keys, popularity, most=_POPULARITY_BINS)


@lru_cache(maxsize=1024)
def rank_classes(count: int, popularity: Popularity, *, most: int) -> Bins:
    """(keys, share of requests) of groups of keys that are about equally popular.

    Parameters
    ----------
    count
        Keys of all groups.
    most
        Groups of Zipf's law, each of which ends at the same multiple of the rank it begins with.
    """
    keys = float(count)
    if isinstance(popularity, HotSetPopularity):
        hot = popularity.hot_set
        return ((keys * hot.keys, hot.requests), (keys * (1 - hot.keys), 1 - hot.requests))
    if isinstance(popularity, Zipf) and count > 1:
        edges = np.unique(np.geomspace(1, keys + 1, most + 1).astype(np.int64))
        s = popularity.zipf

        def mass(low: int, high: int) -> float:
            # The sum over ranks low to high - 1; the midpoint integral is good for high ranks.
            if low < _SUMMED_RANKS:
                middle = min(high, _SUMMED_RANKS)
                head = float(np.sum(np.arange(low, middle, dtype=float) ** -s))
                return head + (mass(middle, high) if high > middle else 0.0)
            if abs(s - 1.0) < 1e-9:
                return math.log((high - 0.5) / (low - 0.5))
            return ((high - 0.5) ** (1 - s) - (low - 0.5) ** (1 - s)) / (1 - s)

        weights = [mass(a, b) for a, b in pairwise(edges)]
        total = sum(weights)
        return tuple(
            (float(b - a), weight / total)
            for (a, b), weight in zip(pairwise(edges), weights, strict=True)
        )
    return ((keys, 1.0),)
