"""How long commands wait for memory: where their lines are, and which waits overlap.

A look-up walks from line to line, each address known only from the line before. Where a line is
found follows from how often it is touched (`caches.py`). Looked up one at a time, the waits add up,
but for those of the keys, members or fields of one command, of which a core is on a few at a time;
looked up together, the waits of independent keys overlap up to the misses a core sustains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from forecache.hwprofiles.speed import HostSpeed

from ..node.setup import QUANTILES
from ..scenario.workload import Workload
from .caches import CacheTimes, beyond, hits_of, page_walk_ns
from .lines import (
    BUCKET,
    FAR_STREAMED_AT_ONCE,
    LINE_BYTES,
    NEAR_STREAMED_AT_ONCE,
    Structure,
    popularity_bins,
    waited_ways,
)

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

    def of_keys(self, keys: int, in_flight: float = 1.0) -> MemoryTimes:
        """The same of a command of several keys, which it looks up one after the other.

        While one waits, a core works ahead on the next ones, which don't depend on it. The table
        keeps mean and variance of the sum of independent waits.

        Parameters
        ----------
        in_flight
            Keys that a core has begun and not finished (`items_in_flight`).
        """
        if keys <= 1:
            return self
        waits = waited_ways(keys, in_flight)
        mean = self.stall_ns.mean()
        return replace(
            self,
            stall_ns=waits * mean + math.sqrt(waits) * (self.stall_ns - mean),
            prefetched_stall_ns=keys * self.prefetched_stall_ns,
        )


def items_in_flight(speed: HostSpeed, instructions_per_item: float) -> float:
    """Keys, members or fields of a command that a core has begun, but not finished, at a time.

    While it waits for the first, its reorder window holds the rest of an item's instructions and
    those of the next ones, whose misses are under way meanwhile. Left out: branches that depend on
    what is waited for and are mispredicted, so that what follows begins again.
    """
    if instructions_per_item <= 0.0:
        return 1.0
    return min(speed.parallel_misses, 1.0 + speed.reorder_window / instructions_per_item)


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
    long_ns
        For a line of a long copy out of DRAM.
    scattered : (structures,)
        Share of touches that wait so long. The others come in the order of addresses, with the
        stream that a prefetcher follows.
    in_flight
        Items of a command that a core is on at a time (`items_in_flight`).
    """

    structures: Sequence[Structure]
    shares: np.ndarray
    in_l2: np.ndarray
    in_l3: np.ndarray
    near_ns: np.ndarray
    far_ns: np.ndarray
    long_ns: float
    scattered: np.ndarray
    in_flight: float = 1.0

    @cached_property
    def by_bin_ns(self) -> np.ndarray:
        """(structures, bins) mean wait for one line."""
        scattered = self.scattered[:, None]
        near, far = self.near_ns[:, None], self.far_ns[:, None]
        waits = near * (self.in_l3 - self.in_l2) + far * (1.0 - self.in_l3)
        return np.asarray(scattered * waits + (1.0 - scattered) * self.streamed_by_bin_ns)

    @cached_property
    def streamed_by_bin_ns(self) -> np.ndarray:
        """(structures, bins) mean wait for one line of a stream."""
        near = self.near_ns[:, None] / NEAR_STREAMED_AT_ONCE
        far = self.far_ns[:, None] / FAR_STREAMED_AT_ONCE
        return np.asarray(near * (self.in_l3 - self.in_l2) + far * (1.0 - self.in_l3))

    @cached_property
    def long_by_bin_ns(self) -> np.ndarray:
        """(structures, bins) mean wait for one line of a long copy."""
        near = self.near_ns[:, None] / NEAR_STREAMED_AT_ONCE
        return np.asarray(near * (self.in_l3 - self.in_l2) + self.long_ns * (1.0 - self.in_l3))

    @cached_property
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
        slower = 1.0 + longer_ns / float(self.far_ns.min(initial=math.inf))
        return replace(self, far_ns=self.far_ns + longer_ns, long_ns=slower * self.long_ns)

    @cached_property
    def waited_for(self) -> _WaitedFor:
        """How many lines of each structure a command waits for."""
        found = _waited_for(tuple(self.structures))
        if all(s.ways == 1 for s in self.structures):
            return found
        touches = np.array([s.touches_in_turn(self.in_flight) for s in self.structures])
        return found._replace(touches=touches, alone=np.where(found.alone > 0.0, touches, 0.0))

    @cached_property
    def missed(self) -> np.ndarray:
        """(structures,) share of touches not found in the second level."""
        return np.asarray((1.0 - self.in_l2) @ self.shares)

    def touching_ns(self) -> float:
        """Mean wait for the lines that are touched one after the other."""
        return float(np.dot(self.waited_for.touches, self.line_ns))

    def head_ns(self) -> float:
        """Mean wait for the first lines that follow."""
        return float(np.dot(self.waited_for.heads, self.line_ns))

    def tail_ns(self) -> float:
        """Mean wait for the lines beyond, as fast as the prefetcher or a long copy brings them."""
        by_bin_ns = self.waited_for.tails @ self.streamed_by_bin_ns
        return float((by_bin_ns + self.waited_for.longs @ self.long_by_bin_ns) @ self.shares)

    def together_ns(self, keys: int, parallel_misses: float) -> float:
        """Wait of a batched look-up for the structures it prefetches, by its number of keys."""
        return float(self.by_keys_ns(keys, keys, parallel_misses)[0])

    def by_keys_ns(self, fewest: int, most: int, parallel_misses: float) -> np.ndarray:
        """(most - fewest + 1,) the same of look-ups of several sizes."""
        total = np.zeros(most - fewest + 1)
        for s, missed, line_ns in zip(self.structures, self.missed, self.line_ns, strict=True):
            if s.prefetched and missed > 0.0:
                waves = _waves(float(missed), fewest, most, parallel_misses)
                total += s.touches * waves * line_ns / missed
        return total

    def alone_ns(self) -> float:
        """Mean wait for the touches that a batched look-up leaves to the command itself."""
        return float(np.dot(self.waited_for.alone, self.line_ns))


@lru_cache(maxsize=1024)
def _waves(missed: float, fewest: int, most: int, parallel_misses: float) -> np.ndarray:
    """(most - fewest + 1,) how often look-ups of several sizes wait for a structure's lines.

    As often as keys of the batch miss, by the misses that a core has at a time; at least once if
    any does.
    """
    keys = np.arange(fewest, most + 1)
    return np.maximum(1.0 - (1.0 - missed) ** keys, keys * missed / parallel_misses)


class _WaitedFor(NamedTuple):
    """(structures,) each: lines that a command waits for, by how it does."""

    touches: np.ndarray
    heads: np.ndarray
    tails: np.ndarray
    longs: np.ndarray
    alone: np.ndarray


@lru_cache(maxsize=1024)
def _waited_for(structures: tuple[Structure, ...]) -> _WaitedFor:
    """The same of a core that is on one item at a time."""
    return _WaitedFor(
        np.array([s.touches for s in structures]),
        np.array([s.head_waits for s in structures]),
        np.array([s.tail_lines for s in structures]),
        np.array([s.long_lines for s in structures]),
        np.array([0.0 if s.prefetched else s.touches for s in structures]),
    )


def waits_of(
    structures: Sequence[Structure],
    workload: Workload,
    speed: HostSpeed,
    caches: CacheTimes,
    *,
    per_request: float = 1.0,
    in_flight: float = 1.0,
) -> Waits:
    """Where the lines are that a command walks through.

    Waits inside the first two levels are part of the execution itself (`user_ipc`).

    Parameters
    ----------
    per_request
        How many of the keys a request asks for (`keys_asked`): so many times as often it comes back
        to each while a cache holds it.
    in_flight
        Items of the command that a core is on at a time (`items_in_flight`).
    """
    bins = popularity_bins(workload)
    in_l2, in_l3 = np.zeros((2, len(structures), len(bins)))
    walk_ns = np.zeros(len(structures))
    # Whether a page is in the TLB depends on all data, how long a walk takes on the structure's own
    # pages: allocators keep sizes apart. Data written in the order in which they are visited lie on
    # pages that were just used, those of the table, which hashes scatter, don't. Where all
    # connections walk one sequence they lie one behind the other as well.
    walks = beyond(speed.tlb_reach_bytes, caches.data_bytes)
    in_order = workload.key_pattern != "random"
    one_sequence = workload.key_pattern == "one_sequence"
    for index, s in enumerate(structures):
        if s.lines_per_key > 0:
            in_l2[index] = hits_of(s, bins, per_request * caches.l2_requests)
            in_l3[index] = hits_of(s, bins, per_request * caches.l3_requests)
            region_bytes = s.lines_per_key * workload.keys * LINE_BYTES
            if s.name == BUCKET or not in_order:
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
        long_ns=LINE_BYTES * speed.dram_copy_ns_per_byte,
        scattered=np.array([s.scattered if one_sequence else 1.0 for s in structures]),
        in_flight=in_flight,
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
    prefetch[2:] = waits.by_keys_ns(2, len(prefetch) - 1, parallel_misses)
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


class _Chance(NamedTuple):
    """What is drawn for a table of waits.

    Attributes
    ----------
    group : (samples,)
        Popularity of the key.
    happens, where : (touches, samples)
        Of each touch that is drawn by itself, uniform in [0, 1).
    """

    group: np.ndarray
    happens: np.ndarray
    where: np.ndarray


# Draws of uncertain numbers hardly ever differ in what is drawn here.
@lru_cache(maxsize=32)
def _chance(shares: tuple[float, ...], touches: int) -> _Chance:
    random = np.random.default_rng(20020701)  # fixed: these are tables, not an experiment
    weights = np.array(shares)
    group = random.choice(len(weights), size=_SAMPLES, p=weights / weights.sum())
    drawn = random.random((touches, 2, _SAMPLES))
    return _Chance(group, drawn[:, 0], drawn[:, 1])


def _drawn_touches(touches: float) -> int:
    """How many touches of a structure are drawn; of many the mean is as good."""
    return math.ceil(touches) if int(touches) <= _MOST_DRAWN else 0


def _stall_quantiles(waits: Waits, stream_scale: float) -> np.ndarray:
    """(256,) quantiles of a command's whole wait, by drawing where each touched line is."""
    touches = waits.waited_for.touches.tolist()
    drawn = [_drawn_touches(each) for each in touches]
    group, happens, where = _chance(tuple(waits.shares), sum(drawn))
    of_sample = group if len(waits.shares) > 1 else slice(None)
    total = np.zeros(_SAMPLES)
    row = 0
    for index, structure in enumerate(waits.structures):
        mean_ns = waits.by_bin_ns[index][of_sample]
        if drawn[index] > 0:
            in_l2, in_l3 = waits.in_l2[index][of_sample], waits.in_l3[index][of_sample]
        else:
            total += touches[index] * mean_ns
        for touch in range(drawn[index]):
            place = where[row]
            wait_ns = np.where(place < in_l3, waits.near_ns[index], waits.far_ns[index])
            wait_ns *= place >= in_l2
            if touch + 1 > touches[index]:
                wait_ns *= happens[row] < touches[index] - touch
            total += wait_ns
            row += 1
        total += stream_scale * structure.head_waits * mean_ns
        total += structure.tail_lines * waits.streamed_by_bin_ns[index][of_sample]
        total += structure.long_lines * waits.long_by_bin_ns[index][of_sample]
    total.sort()
    ranks = (np.arange(QUANTILES) + 0.5) / QUANTILES * (_SAMPLES - 1)
    below = ranks.astype(np.int64)
    return np.asarray(total[below] + (ranks - below) * (total[below + 1] - total[below]))
