"""What waiting for memory costs: which lines a command touches, where they are, what overlaps.

A look-up walks from line to line, each address known only from the line before. Where a line is
found follows from how often it is touched against everything else that wants the same cache (Che's
approximation: H. Che, Y. Tung, Z. Wang, "Hierarchical web caching systems", IEEE JSAC 20(7),
2002). Looked up one at a time, the waits add up; looked up together, the waits of independent keys
overlap up to the misses a core sustains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq, least_squares

from forecache.hwprofiles.schema import HostProfile, HostSpeed

from .node.setup import QUANTILES
from .scenario import HotSetPopularity, Workload, Zipf

LINE_BYTES = 64
STREAM_PARALLELISM = 16
"""Lines of one value that a core fetches at once after the first: a copy has many independent loads
and prefetchers run ahead (assumed; 8 to 32 would be plausible)."""

_POPULARITY_BINS = 24
_SAMPLES = 4096


@dataclass(frozen=True)
class Structure:
    """A kind of line that commands touch.

    Attributes
    ----------
    lines_per_key
        How many lines the structure has for each key.
    touches
        How many of its lines one command waits for, one after the other.
    followers
        Lines that follow the first one at adjacent addresses.
    prefetched
        Whether a batched look-up fetches its first line ahead.
    """

    name: str
    lines_per_key: float
    touches: float
    followers: float = 0.0
    prefetched: bool = True


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
    miss_share
        Mean share of touches that reach DRAM.
    last_touch_ns
        Mean wait for the first line of the last structure, the value's.
    """

    stall_ns: np.ndarray
    prefetched_stall_ns: float
    prefetch_ns: np.ndarray
    miss_share: float
    last_touch_ns: float


def popularity_bins(workload: Workload) -> list[tuple[float, float]]:
    """(keys, share of requests) of groups of keys that are about equally popular."""
    popularity = workload.popularity
    keys = float(workload.keys)
    if isinstance(popularity, HotSetPopularity):
        hot = popularity.hot_set
        return [(keys * hot.keys, hot.requests), (keys * (1 - hot.keys), 1 - hot.requests)]
    if isinstance(popularity, Zipf) and workload.keys > 1:
        edges = np.unique(np.geomspace(1, keys + 1, _POPULARITY_BINS + 1).astype(np.int64))
        s = popularity.zipf

        def mass(low: float, high: float) -> float:
            # The sum over ranks low to high - 1 by the midpoint integral.
            if abs(s - 1.0) < 1e-9:
                return math.log((high - 0.5) / (low - 0.5))
            return ((high - 0.5) ** (1 - s) - (low - 0.5) ** (1 - s)) / (1 - s)

        weights = [mass(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
        total = sum(weights)
        return [
            (float(b - a), w / total)
            for a, b, w in zip(edges[:-1], edges[1:], weights, strict=True)
        ]
    return [(keys, 1.0)]


def hit_shares(
    lines: np.ndarray, rates: np.ndarray, capacity_lines: float
) -> np.ndarray:
    """Share of touches of each class of lines that a cache of least recently used lines holds.

    Parameters
    ----------
    lines : (n,)
        Number of lines in each class.
    rates : (n,)
        Touches of the whole class per request.
    capacity_lines
        Lines the cache holds.
    """
    known = lines > 0
    if lines[known].sum() <= capacity_lines:
        return np.ones_like(lines)
    each = np.where(known, rates / np.maximum(lines, 1e-12), 0.0)

    def filled(log_time: float) -> float:
        held = lines * -np.expm1(-each * math.exp(log_time))
        return float(held.sum()) - capacity_lines

    touched = each > 0
    if lines[touched].sum() <= capacity_lines:
        return np.where(touched, 1.0, 0.0)
    low, high = -20.0, 20.0
    while filled(high) < 0:
        high += 10.0
    time = math.exp(brentq(filled, low, high, xtol=1e-6))
    shares: np.ndarray = -np.expm1(-each * time)
    return shares


def memory_times(
    structures: list[Structure],
    workload: Workload,
    speed: HostSpeed,
    *,
    batch_limit: int,
    other_lines: float,
    other_touches: float,
) -> MemoryTimes:
    """What the commands of a workload wait for, beyond the second-level cache.

    Waits inside the first two levels are part of the execution itself (`user_ipc`).

    Parameters
    ----------
    batch_limit
        The largest batch of keys that is looked up together.
    other_lines, other_touches
        Lines besides the data that compete for the caches (code, connection and socket buffers),
        and how many of them each request touches.
    """
    bins = popularity_bins(workload)
    classes = [(s, keys, share) for s in structures for keys, share in bins]
    lines = np.array([s.lines_per_key * keys for s, keys, _ in classes] + [other_lines])
    width = [1.0 + s.followers for s, _, _ in classes]
    rates = [s.touches * w * share for (s, _, share), w in zip(classes, width, strict=True)]
    rates_array = np.array([*rates, other_touches])
    in_l2 = hit_shares(lines, rates_array, speed.l2_bytes / LINE_BYTES)[:-1]
    shared_lines = speed.l3_bytes / LINE_BYTES
    in_l3 = np.maximum(hit_shares(lines, rates_array, shared_lines)[:-1], in_l2)

    data_bytes = float(lines[:-1].sum()) * LINE_BYTES
    walk_ns = speed.tlb_walk_ns * max(0.0, 1.0 - speed.tlb_reach_bytes / max(data_bytes, 1.0))
    if workload.key_pattern == "sequential":
        # Data written in the order in which they are visited lie on pages that were just used.
        walk_ns = 0.0
    near_ns = max(0.0, speed.l3_ns - speed.l2_ns)
    far_ns = max(near_ns, speed.dram_ns - speed.l2_ns) + walk_ns
    mean_ns = near_ns * (in_l3 - in_l2) + far_ns * (1.0 - in_l3)

    follower_ns = mean_ns / STREAM_PARALLELISM
    count = len(bins)
    shares = np.array([share for _, share in bins])
    left = 0.0
    levels: list[tuple[float, float, float]] = []
    for index, structure in enumerate(structures):
        rows = slice(index * count, (index + 1) * count)
        mean = float(np.dot(shares, mean_ns[rows]))
        missed = float(np.dot(shares, 1.0 - in_l2[rows]))
        left += structure.touches * structure.followers * float(np.dot(shares, follower_ns[rows]))
        if structure.prefetched:
            levels.append((structure.touches, missed, mean))
        else:
            left += structure.touches * mean
    prefetch = np.zeros(max(1, batch_limit) + 1)
    for keys in range(2, batch_limit + 1):
        for touches, missed, mean in levels:
            if missed <= 0.0:
                continue
            # So many of the batch's keys miss at this step; at least one wave if any does.
            waves = max(1.0 - (1.0 - missed) ** keys, keys * missed / speed.parallel_misses)
            prefetch[keys] += touches * waves * mean / missed
    stall = _stall_quantiles(structures, shares, in_l2, in_l3, near_ns, far_ns, follower_ns)
    touches_array = np.array([s.touches for s in structures])
    misses = [
        float(np.dot(shares, 1.0 - in_l3[i * count : (i + 1) * count]))
        for i in range(len(structures))
    ]
    total = float(touches_array.sum())
    miss_share = float(np.dot(touches_array, misses)) / total if total else 0.0
    last_ns = float(np.dot(shares, mean_ns[-count:]))
    return MemoryTimes(stall, left, prefetch, miss_share, last_ns)


def _stall_quantiles(
    structures: list[Structure],
    shares: np.ndarray,
    in_l2: np.ndarray,
    in_l3: np.ndarray,
    near_ns: float,
    far_ns: float,
    follower_ns: np.ndarray,
) -> np.ndarray:
    """(256,) quantiles of a command's whole wait, by drawing where each touched line is."""
    random = np.random.default_rng(20020701)  # fixed: these are tables, not an experiment
    group = random.choice(len(shares), size=_SAMPLES, p=shares / shares.sum())
    total = np.zeros(_SAMPLES)
    for index, structure in enumerate(structures):
        rows = index * len(shares) + group
        whole = int(structure.touches)
        for touch in range(whole + 1):
            weight = 1.0 if touch < whole else structure.touches - whole
            if weight == 0.0:
                continue
            happens = random.random(_SAMPLES) < weight
            where = random.random(_SAMPLES)
            wait = np.where(where < in_l2[rows], 0.0, np.where(where < in_l3[rows], near_ns, far_ns))
            total += happens * (wait + structure.followers * follower_ns[rows])
    quantiles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    table = np.quantile(total, quantiles)
    # Keep the mean exact: the table is what the simulation adds up.
    if table.mean() > 0:
        table *= total.mean() / table.mean()
    return np.asarray(table)


def with_effective_l3(speed: HostSpeed, host: HostProfile) -> HostSpeed:
    """The host with the last-level cache it really gets.

    A virtual machine shares that cache with neighbours it can't see. Where the host's latency by
    working set was captured, size and latency are those whose random chase fits the curve best; the
    nominal size is the upper bound.
    """
    curve = host.latency_curve
    if curve is None:
        return speed
    points = np.array(curve.points)
    bytes_, measured = points[points[:, 0] > speed.l2_bytes].T
    low, high = math.log(2 * speed.l2_bytes), math.log(speed.l3_bytes)
    near, far = math.log(1.5 * speed.l2_ns), math.log(0.7 * speed.dram_ns)
    if len(bytes_) < 4 or low >= high or near >= far:
        return speed
    beyond_l2 = 1.0 - np.minimum(1.0, speed.l2_bytes / bytes_)

    def misfit(logs: np.ndarray) -> np.ndarray:
        held = np.minimum(1.0, math.exp(logs[0]) / bytes_)
        beyond_l3 = held * math.exp(logs[1]) + (1 - held) * speed.dram_ns
        return np.log(((1 - beyond_l2) * speed.l2_ns + beyond_l2 * beyond_l3) / measured)

    start = [(low + high) / 2, (near + far) / 2]
    best = least_squares(misfit, start, bounds=([low, near], [high, far]), loss="soft_l1")
    return replace(speed, l3_bytes=math.exp(best.x[0]), l3_ns=math.exp(best.x[1]))
