"""What waiting for memory costs: which lines a command touches, where they are, what overlaps.

A look-up walks from line to line, each address known only from the line before. Where a line is
found follows from how often it is touched against everything else that wants the same cache (Che's
approximation: H. Che, Y. Tung, Z. Wang, "Hierarchical web caching systems", IEEE JSAC 20(7),
2002). Looked up one at a time, the waits add up; looked up together, the waits of independent keys
overlap up to the misses a core sustains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq

from forecache.hwprofiles.speed import HostSpeed

from .node.setup import QUANTILES
from .workload import HotSetPopularity, Popularity, Workload, Zipf

LINE_BYTES = 64
COPIED_AT_ONCE = 8
STREAMED_AT_ONCE = 64
"""How lines of one value that follow its first are fetched: the first holds the string header,
and the copy's loads of the next ones go out together once it is there; from then on the prefetcher
has seen the stream and runs ahead (assumed from single-core streaming: 64 bytes in 2 to 3 ns
against a first access of 100 to 160)."""

_POPULARITY_BINS = 24
_SUMMED_RANKS = 1000
"""Ranks up to which Zipf's law is summed rank by rank; beyond it an integral is as good."""

_SAMPLES = 4096
_MOST_DRAWN = 64
"""Touches of one structure that are drawn one by one."""


@dataclass(frozen=True)
class Structure:
    """A kind of line that commands touch.

    Attributes
    ----------
    lines_per_key
        How many lines the structure has for each key; 0 for another touch of the lines of the
        structure before it.
    touches
        How many of its lines one command waits for, one after the other.
    followers
        Lines that follow the first one at adjacent addresses, read or written with it.
    prefetched
        Whether a batched look-up fetches its first line ahead.
    written
        Whether its lines are written: nothing waits for long runs of stores.
    """

    name: str
    lines_per_key: float
    touches: float
    followers: float = 0.0
    prefetched: bool = True
    written: bool = False

    @property
    def head_waits(self) -> float:
        """Waits for a line that the first lines after the first are worth: they come together."""
        return min(self.followers, 1.0)

    @property
    def tail_waits(self) -> float:
        """The same of the lines beyond, which the prefetcher brings."""
        beyond_head = max(0.0, self.followers - COPIED_AT_ONCE)
        return 0.0 if self.written else beyond_head / STREAMED_AT_ONCE


@dataclass(frozen=True)
class LineClasses:
    """The lines of one structure, by popularity.

    Attributes
    ----------
    lines : (bins,)
        Lines whose most popular key lies in each bin.
    each : (bins,)
        How often a request touches one of them.
    own : (bins,)
        Share of a bin's keys that lie on such a line, and not on that of a more popular key.
    """

    lines: np.ndarray
    each: np.ndarray
    own: np.ndarray

    def hit_shares(self, requests: float) -> np.ndarray:
        """(bins,) share of a bin's touches that a cache holds."""
        hits = hit_shares(self.each, requests)
        # A key on the line of a more popular one is found as often as that.
        before = np.cumsum(self.lines) - self.lines
        hotter = np.cumsum(self.lines * hits) - self.lines * hits
        shared = np.divide(hotter, before, out=hits.copy(), where=before > 0)
        return np.asarray(self.own * hits + (1.0 - self.own) * shared)


def line_classes(structure: Structure, bins: Sequence[tuple[float, float]]) -> LineClasses:
    """The lines of a structure, when keys of any popularity may share one.

    Several small entries lie on a line, and which of them do is chance: the popular keys are spread
    over as many lines, and lend their popularity to what lies beside them.
    """
    keys, shares = np.array(bins).T
    touches = structure.touches * (1.0 + structure.followers)
    together = max(1.0, 1.0 / structure.lines_per_key)
    if together == 1.0:
        lines = keys * structure.lines_per_key
        return LineClasses(lines, touches * shares / lines, np.ones(len(keys)))
    # Of each bin and those less popular.
    rest_keys = np.cumsum(keys[::-1])[::-1]
    rest_shares = np.cumsum(shares[::-1])[::-1]
    rest = rest_keys / rest_keys[0]
    # A line has a key of the rest in each of its places with that probability; what is touched of
    # such lines is what the rest is asked for per place.
    untaken = rest**together
    lines = rest_keys[0] / together * -np.diff(untaken, append=0.0)
    asked = -np.diff(untaken / rest * rest_shares, append=0.0)
    return LineClasses(lines, touches * asked / lines, untaken / rest)


@dataclass(frozen=True)
class CacheTimes:
    """How long a line that nobody touches stays in a cache: Che's characteristic time, in requests.

    Attributes
    ----------
    l2_requests, l3_requests
        Of the second and the last level; infinite where everything fits.
    data_bytes
        What all keys take in memory, as far as a look-up walks through it.
    """

    l2_requests: float
    l3_requests: float
    data_bytes: float


@dataclass(frozen=True)
class MemoryTimes:
    """What a command waits for; ns.

    Attributes
    ----------
    stall_ns
        (256,) quantiles of the wait when nothing was fetched ahead.
    prefetched_stall_ns
        Mean of what is left after a batched look-up.
    prefetch_ns
        (limit + 1,) a batched look-up of so many keys, without its instructions.
    last_touch_ns
        Mean wait for the first line of the last structure, the value's.
    """

    stall_ns: np.ndarray
    prefetched_stall_ns: float
    prefetch_ns: np.ndarray
    last_touch_ns: float

    def of_keys(self, keys: int) -> MemoryTimes:
        """The same of a command of so many keys, each of which waits for itself.

        The table keeps mean and variance of the sum of independent waits.
        """
        if keys == 1:
            return self
        mean = self.stall_ns.mean()
        return replace(
            self,
            stall_ns=keys * mean + math.sqrt(keys) * (self.stall_ns - mean),
            prefetched_stall_ns=keys * self.prefetched_stall_ns,
        )


def popularity_bins(workload: Workload) -> list[tuple[float, float]]:
    """(keys, share of requests) of groups of keys that are about equally popular."""
    return rank_classes(workload.keys, workload.popularity, most=_POPULARITY_BINS)


def rank_classes(count: int, popularity: Popularity, *, most: int) -> list[tuple[float, float]]:
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
        return [(keys * hot.keys, hot.requests), (keys * (1 - hot.keys), 1 - hot.requests)]
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
        return [
            (float(b - a), weight / total)
            for (a, b), weight in zip(pairwise(edges), weights, strict=True)
        ]
    return [(keys, 1.0)]


def characteristic_requests(
    lines: np.ndarray,
    rates: np.ndarray,
    capacity_lines: float,
    *,
    fills_per_request: float = 0.0,
) -> float:
    """Requests after which a line that was not touched again has left a cache (Che et al. 2002).

    It is the time in which as many different lines are touched as the cache holds; the cache evicts
    the least recently used line.

    Parameters
    ----------
    lines : (n,)
        Number of lines in each class of equally popular lines.
    rates : (n,)
        Touches of the whole class per request.
    capacity_lines
        Lines the cache holds.
    fills_per_request
        Lines that others bring in meanwhile and never touch again, per request of ours.

    Returns
    -------
    float
        Infinite if all lines that are ever touched fit and nobody else brings any, 0 for a cache of
        no lines.
    """
    touched = (lines > 0) & (rates > 0)
    lines, each = lines[touched], rates[touched] / lines[touched]
    if lines.sum() <= capacity_lines and fills_per_request <= 0:
        return math.inf
    if capacity_lines <= 0:
        return 0.0

    def excess(log_time: float) -> float:
        time = math.exp(log_time)
        ours = float((lines * -np.expm1(-each * time)).sum())
        return ours + fills_per_request * time - capacity_lines

    low, high = -20.0, 20.0
    while excess(low) > 0:
        low -= 10.0
    while excess(high) < 0:
        high += 10.0
    return math.exp(brentq(excess, low, high, xtol=1e-6))


def hit_shares(each: np.ndarray, requests: float) -> np.ndarray:
    """Share of touches that a cache holds, of lines touched `each` times per request.

    Parameters
    ----------
    requests
        The cache's characteristic time.
    """
    if math.isinf(requests):
        return np.ones_like(each)
    return np.asarray(-np.expm1(-each * requests))


@dataclass(frozen=True)
class Population:
    """Keys that are alike, and what lies in memory for each of them.

    Attributes
    ----------
    workload
        How many keys, and how popular which of them are.
    share
        Of these keys, that have these structures.
    per_request
        How many of the keys a request asks for.
    """

    workload: Workload
    structures: Sequence[Structure]
    share: float = 1.0
    per_request: float = 1.0


def cache_times(
    population: Sequence[Population],
    speed: HostSpeed,
    *,
    others: Sequence[tuple[float, float]],
    fills_per_request: float = 0.0,
) -> CacheTimes:
    """How long the caches of a host hold a line under a workload.

    Parameters
    ----------
    population
        Of keys of every type and every size of value.
    others
        (lines, touches per request) of what competes with the data for the caches: code,
        connections, buffers.
    fills_per_request
        Lines that other cores bring into the last level per request.
    """
    rows = []
    for keys in population:
        bins = popularity_bins(keys.workload)
        for s in keys.structures:
            if s.lines_per_key > 0:
                classes = line_classes(s, bins)
                found = keys.share * classes.lines
                rows += list(zip(found, keys.per_request * found * classes.each, strict=True))
    lines, rates = np.array([*rows, *others]).T
    return CacheTimes(
        l2_requests=characteristic_requests(lines, rates, speed.l2_bytes / LINE_BYTES),
        l3_requests=characteristic_requests(
            lines, rates, speed.l3_bytes / LINE_BYTES, fills_per_request=fills_per_request
        ),
        data_bytes=float(lines[: len(rows)].sum()) * LINE_BYTES,
    )


def page_walk_ns(speed: HostSpeed, region_bytes: float) -> float:
    """What finding the page costs on a random access to a region of that size.

    The larger the region, the more of its page tables lie outside the caches; a captured host has
    the curve, of others one number is known.
    """
    if not speed.walk_curve:
        return speed.tlb_walk_ns
    sizes, walks = zip(*speed.walk_curve, strict=True)
    return float(np.interp(math.log(max(region_bytes, 1.0)), np.log(sizes), walks))


def buffer_dram_lines(lines: float, touches: float, caches: CacheTimes) -> float:
    """Lines of a buffer that a copy brings from DRAM and sends back there; see below."""
    each = np.array([touches / max(lines, touches, 1e-9)])
    return 2.0 * touches * float(1.0 - hit_shares(each, caches.l3_requests)[0])


def buffer_wait_ns(lines: float, touches: float, speed: HostSpeed, caches: CacheTimes) -> float:
    """Wait per line of a buffer that a copy goes through in order.

    Parameters
    ----------
    lines
        Of the buffer, or of all buffers that are used in turn.
    touches
        How many of them a request touches.
    """
    each = np.array([touches / max(lines, touches, 1e-9)])
    in_l2 = float(hit_shares(each, caches.l2_requests)[0])
    in_l3 = max(in_l2, float(hit_shares(each, caches.l3_requests)[0]))
    near_ns = max(0.0, speed.l3_ns - speed.l2_ns)
    far_ns = max(near_ns, speed.dram_ns - speed.l2_ns)
    return (near_ns * (in_l3 - in_l2) + far_ns * (1.0 - in_l3)) / COPIED_AT_ONCE


@dataclass(frozen=True)
class Waits:
    """Where the lines a command touches are, and what each of them makes it wait; ns.

    Attributes
    ----------
    shares : (bins,)
        Of the requests, by popularity.
    in_l2, in_l3 : (structures, bins)
        Share of touches found in the second level, and in it or the last one.
    near_ns, far_ns : (structures,)
        Wait for a line in the last level and in DRAM, page walk included.
    """

    structures: Sequence[Structure]
    shares: np.ndarray
    in_l2: np.ndarray
    in_l3: np.ndarray
    near_ns: np.ndarray
    far_ns: np.ndarray

    @property
    def by_bin_ns(self) -> np.ndarray:
        """(structures, bins) mean wait for one line."""
        near, far = self.near_ns[:, None], self.far_ns[:, None]
        return np.asarray(near * (self.in_l3 - self.in_l2) + far * (1.0 - self.in_l3))

    @property
    def line_ns(self) -> np.ndarray:
        """(structures,) mean wait for one line."""
        return np.asarray(self.by_bin_ns @ self.shares)

    @property
    def dram_lines(self) -> float:
        """Mean lines per key that come from DRAM; written ones go back there as well."""
        beyond = (1.0 - self.in_l3) @ self.shares
        return sum(
            s.touches * (1.0 + s.followers) * (2.0 if s.written else 1.0) * float(share)
            for s, share in zip(self.structures, beyond, strict=True)
            if s.lines_per_key > 0
        )

    def with_slower_dram(self, longer_ns: float) -> Waits:
        """The same where a line from DRAM takes so much longer."""
        return replace(self, far_ns=self.far_ns + longer_ns)

    @property
    def missed(self) -> np.ndarray:
        """(structures,) share of touches not found in the second level."""
        return np.asarray((1.0 - self.in_l2) @ self.shares)

    def touching_ns(self) -> float:
        """Mean wait for the lines that are touched one after the other."""
        touches = np.array([s.touches for s in self.structures])
        return float(np.dot(touches, self.line_ns))

    def head_ns(self) -> float:
        """Mean wait for the first lines that follow."""
        waits = np.array([s.head_waits for s in self.structures])
        return float(np.dot(waits, self.line_ns))

    def tail_ns(self) -> float:
        """Mean wait for the lines beyond: about one a page, which the prefetcher doesn't cross."""
        waits = np.array([s.tail_waits for s in self.structures])
        return float(np.dot(waits, self.line_ns))

    def together_ns(self, keys: int, parallel_misses: float) -> float:
        """Wait of a batched look-up of so many keys for the structures it fetches ahead."""
        total = 0.0
        for s, missed, line_ns in zip(self.structures, self.missed, self.line_ns, strict=True):
            if s.prefetched and missed > 0.0:
                # So many of the batch's keys miss at this step; at least one wave if any does.
                waves = max(1.0 - (1.0 - missed) ** keys, keys * missed / parallel_misses)
                total += s.touches * waves * line_ns / missed
        return total

    def alone_ns(self) -> float:
        """Mean wait for the touches that a batched look-up leaves to the command itself."""
        left = np.array([0.0 if s.prefetched else s.touches for s in self.structures])
        return float(np.dot(left, self.line_ns))


def waits_of(
    structures: Sequence[Structure], workload: Workload, speed: HostSpeed, caches: CacheTimes
) -> Waits:
    """Where the lines are that a command walks through.

    Waits inside the first two levels are part of the execution itself (`user_ipc`).
    """
    bins = popularity_bins(workload)
    in_l2, in_l3 = np.zeros((2, len(structures), len(bins)))
    walk_ns = np.zeros(len(structures))
    # Whether a page is in the TLB depends on all data, what a walk costs on the structure's own
    # pages: allocators keep sizes apart. Data written in the order in which they are visited lie on
    # pages that were just used.
    walks = beyond(speed.tlb_reach_bytes, caches.data_bytes)
    if workload.key_pattern == "sequential":
        walks = 0.0
    for index, s in enumerate(structures):
        if s.lines_per_key > 0:
            classes = line_classes(s, bins)
            in_l2[index] = classes.hit_shares(caches.l2_requests)
            in_l3[index] = classes.hit_shares(caches.l3_requests)
            region_bytes = s.lines_per_key * workload.keys * LINE_BYTES
            walk_ns[index] = walks * page_walk_ns(speed, region_bytes)
        elif index > 0:
            in_l2[index], in_l3[index] = in_l2[index - 1], in_l3[index - 1]
            walk_ns[index] = walk_ns[index - 1]
    near_ns = max(0.0, speed.l3_ns - speed.l2_ns)
    return Waits(
        structures=structures,
        shares=np.array([share for _, share in bins]),
        in_l2=in_l2,
        in_l3=np.maximum(in_l3, in_l2),
        near_ns=near_ns + walk_ns,
        far_ns=max(near_ns, speed.dram_ns - speed.l2_ns) + walk_ns,
    )


def memory_times(
    waits: Waits, *, parallel_misses: float, batch_limit: int, stream_scale: float = 1.0
) -> MemoryTimes:
    """What one kind of command waits for, beyond the second-level cache.

    Parameters
    ----------
    parallel_misses
        Misses a core sustains.
    batch_limit
        The largest batch of keys that is looked up together.
    stream_scale
        Factor on the waits for the first lines that follow.
    """
    later_ns = stream_scale * waits.head_ns() + waits.tail_ns()
    prefetch = np.zeros(max(1, batch_limit) + 1)
    for keys in range(2, batch_limit + 1):
        prefetch[keys] = waits.together_ns(keys, parallel_misses)
    # The header that says where the next lines are is there already: they come in one wait, if the
    # copy doesn't do better.
    prefetched_ns = min(1.0, stream_scale) * waits.head_ns() + waits.tail_ns()
    stall = _stall_quantiles(waits, stream_scale)
    # The table is what the simulation adds up: its mean is made exact.
    whole_ns = waits.touching_ns() + later_ns
    if stall.any():
        stall *= whole_ns / stall.mean()
    else:
        stall[-1] = whole_ns * len(stall)
    return MemoryTimes(
        stall_ns=stall,
        prefetched_stall_ns=prefetched_ns + waits.alone_ns(),
        prefetch_ns=prefetch,
        last_touch_ns=float(waits.line_ns[-1]),
    )


def beyond(reach_bytes: float, data_bytes: float) -> float:
    """Share of random touches of data that lie outside what is reached."""
    return max(0.0, 1.0 - reach_bytes / max(data_bytes, 1.0))


def _stall_quantiles(waits: Waits, stream_scale: float) -> np.ndarray:
    """(256,) quantiles of a command's whole wait, by drawing where each touched line is."""
    random = np.random.default_rng(20020701)  # fixed: these are tables, not an experiment
    shares, by_bin_ns = waits.shares, waits.by_bin_ns
    group = random.choice(len(shares), size=_SAMPLES, p=shares / shares.sum())
    total = np.zeros(_SAMPLES)
    for index, structure in enumerate(waits.structures):
        in_l2, in_l3 = waits.in_l2[index][group], waits.in_l3[index][group]
        whole = int(structure.touches)
        if whole > _MOST_DRAWN:
            # Of so many, the mean is as good.
            total += structure.touches * by_bin_ns[index][group]
            whole = -1
        for touch in range(whole + 1):
            weight = 1.0 if touch < whole else structure.touches - whole
            if weight == 0.0:
                continue
            happens = random.random(_SAMPLES) < weight
            where = random.random(_SAMPLES)
            beyond_l2 = np.where(where < in_l3, waits.near_ns[index], waits.far_ns[index])
            total += happens * np.where(where < in_l2, 0.0, beyond_l2)
        following = stream_scale * structure.head_waits + structure.tail_waits
        total += following * by_bin_ns[index][group]
    quantiles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.asarray(np.quantile(total, quantiles))
