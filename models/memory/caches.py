"""Which lines a cache holds, by how often everything that competes for it is touched.

Che's approximation: H. Che, Y. Tung, Z. Wang, "Hierarchical web caching systems", IEEE JSAC 20(7),
2002. A line is found unless as many others as the cache holds were touched since.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from forecache.hwprofiles.speed import HostSpeed
from forecache.sim.roots import root

from ..engines.commands import LONG_BYTES
from ..scenario.workload import Workload
from .lines import LINE_BYTES, Bins, Structure, popularity_bins

COPIED_AT_ONCE = 8
"""Misses that a copy of a whole buffer waits for together (assumed)."""


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

    @cached_property
    def hotter(self) -> np.ndarray:
        """(bins,) lines of more popular keys."""
        return np.asarray(self.lines.cumsum() - self.lines)

    def hit_shares(self, requests: float) -> np.ndarray:
        """(bins,) share of a bin's touches that a cache holds."""
        hits = hit_shares(self.each, requests)
        # A key on the line of a more popular one is found as often as that.
        held = self.lines * hits
        hotter = held.cumsum() - held
        shared = np.divide(hotter, self.hotter, out=hits.copy(), where=self.hotter > 0)
        return np.asarray(self.own * hits + (1.0 - self.own) * shared)


def line_classes(structure: Structure, bins: Bins) -> LineClasses:
    """The lines of a structure, when keys of any popularity may share one.

    Several small entries lie on a line, and which of them do is chance: the popular keys are spread
    over as many lines, and lend their popularity to what lies beside them.
    """
    touches = structure.touches * (1.0 + structure.followers)
    return _line_classes(structure.lines_per_key, touches, bins)


def hits_of(structure: Structure, bins: Bins, requests: float) -> np.ndarray:
    """(bins,) share of a bin's touches of a structure that a cache of that time holds."""
    touches = structure.touches * (1.0 + structure.followers)
    return _hits_of(structure.lines_per_key, touches, bins, requests)


# All settings of a draw ask for the same, and of a fit or a design most points.
@lru_cache(maxsize=1024)
def _hits_of(lines_per_key: float, touches: float, bins: Bins, requests: float) -> np.ndarray:
    return _line_classes(lines_per_key, touches, bins).hit_shares(requests)


@lru_cache(maxsize=1024)
def _line_classes(lines_per_key: float, touches: float, bins: Bins) -> LineClasses:
    keys, shares = np.array(bins).T
    together = max(1.0, 1.0 / lines_per_key)
    if together == 1.0:
        lines = keys * lines_per_key
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
    """How long an untouched line stays in a cache: Che's characteristic time, in requests.

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
        Infinite if all lines that are ever touched fit and neighbours bring none, 0 for a cache of
        no lines.
    """
    touched = (lines > 0) & (rates > 0)
    lines, each = lines[touched], rates[touched] / lines[touched]
    if lines.sum() <= capacity_lines and fills_per_request <= 0:
        return math.inf
    if capacity_lines <= 0:
        return 0.0
    return _time_to_fill(lines.tobytes(), each.tobytes(), capacity_lines, fills_per_request)


# All settings of a draw ask for the same, and whatever differs in no number of the caches.
@lru_cache(maxsize=1024)
def _time_to_fill(
    line_bytes: bytes, each_bytes: bytes, capacity_lines: float, fills_per_request: float
) -> float:
    lines, each = np.frombuffer(line_bytes), np.frombuffer(each_bytes)

    def excess(log_time: float) -> float:
        time = math.exp(log_time)
        ours = float((lines * -np.expm1(-each * time)).sum())
        return ours + fills_per_request * time - capacity_lines

    low, high = -20.0, 20.0
    while excess(low) > 0:
        low -= 10.0
    while excess(high) < 0:
        high += 10.0
    return math.exp(root(excess, low, high, tolerance=1e-6))


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
    """Time to find the page on a random access to a region of that size.

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
    """Wait per line of a buffer that a copy goes through in order; see `line_wait_ns`.

    Lines of a long copy come out of DRAM as fast as the core streams them.
    """
    short_ns = line_wait_ns(lines, touches, speed, caches) / COPIED_AT_ONCE
    short = min(1.0, LONG_BYTES / LINE_BYTES / max(touches, 1e-9))
    if short == 1.0:
        return short_ns
    long_ns = COPIED_AT_ONCE * LINE_BYTES * speed.dram_copy_ns_per_byte
    streamed = replace(speed, dram_ns=min(speed.dram_ns, long_ns + speed.l2_ns))
    long_wait_ns = line_wait_ns(lines, touches, streamed, caches) / COPIED_AT_ONCE
    return short * short_ns + (1.0 - short) * long_wait_ns


def line_wait_ns(lines: float, touches: float, speed: HostSpeed, caches: CacheTimes) -> float:
    """Wait per line, beyond the second cache, of lines that are touched in turn, one at a time.

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
    return near_ns * (in_l3 - in_l2) + far_ns * (1.0 - in_l3)


def beyond(reach_bytes: float, data_bytes: float) -> float:
    """Share of random touches of data that lie outside what is reached."""
    return max(0.0, 1.0 - reach_bytes / max(data_bytes, 1.0))
