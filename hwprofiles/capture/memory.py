"""Cache and memory latency, parallel misses and bandwidth, measured with pointer chases."""

import math
import mmap
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from .loops import Unsigned, UnsignedWords, Word, array_of, loop, run_side_by_side

LINE_BYTES = 64
_WORDS_PER_LINE = LINE_BYTES // 8
HUGE_PAGE_BYTES = 2 * 1024 * 1024
_STEPS = 120_000
_TOUCHED_AT_ONCE = 16 * 1024 * 1024
"""Between two looks at the clock: 0.15 s where a page takes longest."""


READING = np.dtype([("start_ns", np.int64), ("end_ns", np.int64), ("sum", np.uint64)])
"""One reading of memory, `struct reading`; times are on the monotonic clock."""


def link_random_cycle(words: np.ndarray, lines: int, seed: int) -> None:
    """Turn the first `lines` cache lines into one random cycle of word indices (Sattolo 1986)."""
    loop("link_random_cycle", UnsignedWords, Word, Unsigned)(words, lines, seed)


def chase_ns(words: np.ndarray, cursors: np.ndarray, steps: int) -> int:
    """Follow one chain per cursor for `steps` steps; thread CPU ns.

    Cursors are left where they end.
    """
    chase = loop("chase_ns", UnsignedWords, UnsignedWords, Word, Word)
    return chase(words, cursors, len(cursors), steps)


def read_repeatedly(words: np.ndarray, repetitions: int) -> np.ndarray:
    """Read all words in order, some times; a `READING` of each."""
    readings = np.zeros(repetitions, dtype=READING)
    read = loop("read_repeatedly", UnsignedWords, Word, array_of(READING), Word)
    read(words, len(words), readings, repetitions)
    return readings


class Buffer:
    """Anonymous memory on small or on huge pages, as uint64 words.

    Parameters
    ----------
    touched
        Whether every page is made real at once; otherwise `touch` does it.

    Attributes
    ----------
    is_huge
        Whether the kernel really gave huge pages for most of it.
    """

    def __init__(self, size_bytes: int, *, huge: bool, touched: bool = True) -> None:
        # Rounded up so that whole huge pages fit wherever the mapping starts.
        rounded = -(-size_bytes // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES + HUGE_PAGE_BYTES
        self._map = mmap.mmap(-1, rounded, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        advice = mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE
        try:
            self._map.madvise(advice)
        except OSError:
            # A kernel without transparent huge pages: small pages are what there is.
            huge = False
        before = _huge_bytes()
        self.words = np.frombuffer(self._map, dtype=np.uint64)
        self._touched_bytes = 0
        if touched:
            self.touch(rounded)
        self.words = self.words[: size_bytes // 8]
        self.is_huge = huge and _huge_bytes() - before > rounded // 2

    def touch(self, size_bytes: int, *, until_s: float = math.inf) -> bool:
        """Make the pages of the first bytes real, each at its first touch.

        Returns
        -------
        bool
            False where `time.monotonic()` reached `until_s` before that.
        """
        while self._touched_bytes < size_bytes:
            if time.monotonic() >= until_s:
                return False
            end = min(size_bytes, self._touched_bytes + _TOUCHED_AT_ONCE)
            self.words[self._touched_bytes // 8 : end // 8 : mmap.PAGESIZE // 8] = 0
            self._touched_bytes = end
        return True

    def close(self) -> None:
        """Give the memory back."""
        self.words = np.empty(0, dtype=np.uint64)
        self._map.close()


def _huge_bytes() -> int:
    """Bytes of this process on transparent huge pages."""
    try:
        text = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(r"^AnonHugePages:\s+(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) * 1024 if found else 0


def working_sets(largest_bytes: int, smallest_bytes: int = 4096) -> list[int]:
    """Working sets in bytes, two an octave, whole cache lines."""
    sizes = []
    step = 0
    while (size := int(smallest_bytes * 2 ** (step / 2))) <= largest_bytes:
        sizes.append(size // LINE_BYTES * LINE_BYTES)
        step += 1
    return sizes


def latency_samples(
    buffer: Buffer, sizes: Sequence[int], *, repetitions: int = 2
) -> dict[int, list[float]]:
    """ns per dependent load by working set in bytes, one sample a repetition.

    Afterwards the chain of the last working set is still linked in the buffer.
    """
    samples: dict[int, list[float]] = {}
    cursors = np.zeros(1, dtype=np.uint64)
    for size in sizes:
        lines = size // LINE_BYTES
        link_random_cycle(buffer.words, lines, size * 2654435761 % 2**63)
        cursors[0] = 0
        chase_ns(buffer.words, cursors, min(2 * lines, 2 * _STEPS))  # warm up
        samples[size] = [
            chase_ns(buffer.words, cursors, _STEPS) / _STEPS for _ in range(repetitions)
        ]
    return samples


def region_samples(
    buffer: Buffer, size_bytes: int, *, lines: int, repetitions: int = 5
) -> list[float]:
    """ns per dependent load of random lines, spread evenly over the pages of a large region.

    Fewer lines than the region has are linked, so that it is quick, but as many pages.
    """
    pages = size_bytes // mmap.PAGESIZE
    each = max(1, lines // pages)
    draw = np.random.default_rng(size_bytes)
    within = draw.integers(0, mmap.PAGESIZE // LINE_BYTES, (pages, each))
    words = np.arange(pages)[:, None] * (mmap.PAGESIZE // 8) + within * _WORDS_PER_LINE
    cycle = draw.permutation(np.unique(words)).astype(np.uint64)
    buffer.words[cycle] = np.roll(cycle, -1)
    cursors = cycle[:1].copy()
    chase_ns(buffer.words, cursors, _STEPS // 4)
    return [chase_ns(buffer.words, cursors, _STEPS) / _STEPS for _ in range(repetitions)]


def survival_samples(
    buffer: Buffer, size_bytes: int, pauses_ms: Sequence[float]
) -> dict[float, float]:
    """ns per load of lines that were touched twice and then left alone for each pause, in ms."""
    lines = size_bytes // LINE_BYTES
    link_random_cycle(buffer.words, lines, size_bytes)
    cursors = np.zeros(1, dtype=np.uint64)
    samples = {}
    for pause_ms in pauses_ms:
        chase_ns(buffer.words, cursors, 2 * lines)
        end_s = time.perf_counter() + pause_ms / 1000.0
        while time.perf_counter() < end_s:
            pass  # asleep, the core might lose its caches to power saving
        samples[pause_ms] = chase_ns(buffer.words, cursors, lines // 4) / (lines // 4)
    return samples


def parallel_samples(
    buffer: Buffer, size_bytes: int, chains: int, *, repetitions: int = 5, loads: int = 240_000
) -> list[float]:
    """ns per load when `chains` independent chains run at once over one linked working set."""
    lines = size_bytes // LINE_BYTES
    steps = max(1, loads // chains)
    # Chains start at random lines of the one cycle: far apart with all but certainty.
    draw = np.random.default_rng(chains)
    cursors = draw.integers(0, lines, chains).astype(np.uint64) * np.uint64(_WORDS_PER_LINE)
    chase_ns(buffer.words, cursors, steps // 8 + 1)
    return [chase_ns(buffer.words, cursors, steps) / (steps * chains) for _ in range(repetitions)]


def copy_samples(
    buffer: Buffer, *, block_bytes: int = 1024 * 1024, copies: int = 60, repetitions: int = 5
) -> list[float]:
    """CPU ns per byte of copying blocks from random places of a buffer no cache holds."""
    words = min(block_bytes // 8, len(buffer.words) // 4)
    kept = np.empty(words, dtype=np.uint64)
    draw = np.random.default_rng(block_bytes)
    found = []
    for _ in range(repetitions):
        starts = draw.integers(0, len(buffer.words) - words, copies)
        before_ns = time.thread_time_ns()
        for start in starts:
            np.copyto(kept, buffer.words[start : start + words])
        found.append((time.thread_time_ns() - before_ns) / (copies * kept.nbytes))
    return found


def bandwidth_samples(
    buffer: Buffer, cpus: Sequence[int], pin: Callable[[int], None], *, repetitions: int = 16
) -> list[float]:
    """GB/s (1e9 bytes a second) of sequential reads of a buffer no cache holds.

    One thread on each CPU reads its own part; a sample is the sum of what all threads read in one
    repetition, each over its own time, as they run side by side.
    """
    parts = np.array_split(buffer.words, len(cpus))
    found = [np.zeros(0, dtype=READING) for _ in cpus]
    gate = threading.Barrier(len(cpus))

    def read_part(index: int) -> None:
        pin(cpus[index])
        gate.wait()
        found[index] = read_repeatedly(parts[index], repetitions)

    run_side_by_side(partial(read_part, index) for index in range(len(cpus)))
    return [
        sum(
            part.nbytes / float(each["end_ns"][repetition] - each["start_ns"][repetition])
            for part, each in zip(parts, found, strict=True)
        )
        for repetition in range(repetitions)
    ]
