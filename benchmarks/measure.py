"""Interleaved repetitions: every competitor once a round, so that all meet the same disturbances.

Time is the CPU time of this process, all threads. Every competitor runs in one thread, so on an
idle machine this is wall-clock time, and on a busy one it leaves the others' share out.
"""

import statistics
import sys
import time
from collections.abc import Callable, Mapping


def interleaved_cpu_s(
    competitors: Mapping[str, Callable[[int], object]], repetitions: int
) -> dict[str, list[float]]:
    """CPU seconds of every repetition of every competitor.

    Each competitor is called with the number of the repetition. A call before the first, numbered
    0 as well, warms up and isn't counted.
    """
    times_s: dict[str, list[float]] = {name: [] for name in competitors}
    for name, run in competitors.items():
        print(f"warming up: {name}", file=sys.stderr, flush=True)
        run(0)
    for repetition in range(repetitions):
        print(f"repetition {repetition + 1} of {repetitions}", file=sys.stderr, flush=True)
        for name, run in competitors.items():
            began_s = time.process_time()
            run(repetition)
            times_s[name].append(time.process_time() - began_s)
    return times_s


def median_ratio(slower_s: list[float], faster_s: list[float]) -> float:
    """Median over the rounds of how many times faster the faster one was."""
    return statistics.median(
        slower / faster for slower, faster in zip(slower_s, faster_s, strict=True)
    )
