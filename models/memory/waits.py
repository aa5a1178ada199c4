"""How long commands wait for memory: where their lines are, and which waits overlap.

A look-up walks from line to line, each address known only from the line before. Where a line is
found follows from how often it is touched (`caches.py`). Looked up one at a time, the waits add up;
looked up together, the waits of independent keys overlap up to the misses a core sustains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from forecache.hwprofiles.speed import HostSpeed

from ..node.setup import QUANTILES
from ..scenario.workload import Workload
from .caches import CacheTimes, beyond, line_classes, page_walk_ns
from .lines import LINE_BYTES, Structure, popularity_bins

_SAMPLES = 4096
_MOST_DRAWN = 64
"""Touches of one structure that are drawn one by one."""


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
        (limit + 1,) a batched look-up by its number of keys, without its instructions.
    last_touch_ns
        Mean wait for the first line of the last structure, the value's.
    """

    stall_ns: np.ndarray
    prefetched_stall_ns: float
    prefetch_ns: np.ndarray
    last_touch_ns: float

    def of_keys(self, keys: int) -> MemoryTimes:
        """The same of a command of several keys, each of which waits for itself.

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
        """Wait of a batched look-up for the structures it prefetches, by its number of keys."""
        total = 0.0
        for s, missed, line_ns in zip(self.structures, self.missed, self.line_ns, strict=True):
            if s.prefetched and missed > 0.0:
                # Keys of the batch that miss at this step; at least one wave if any does.
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
    # Whether a page is in the TLB depends on all data, how long a walk takes on the structure's own
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
            # With this many, the mean is as good.
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
