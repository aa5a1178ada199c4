"""What the cores do on their own: clock, transfers, the cheapest system call, interruptions."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from numba import types

from .libc import CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, c_getppid, compare_exchange, now_ns

_OPERATIONS_PER_ROUND = 16
_PATIENCE = 200_000_000  # attempts: some seconds
SHORTEST_GAP_NS = 5_000
"""Two looks at the clock lie tens of nanoseconds apart; a cache miss or two is no interruption."""
_MOST_GAPS_PER_S = 200_000  # a gap lasts at least 5 us


@numba.njit(
    types.UniTuple(types.int64, 2)(types.int64, types.int64, types.int64), cache=True, nogil=True
)
def dependent_operations_ns(rounds: int, addend: int, mask: int) -> tuple[int, int]:
    """Thread CPU ns of 16 x `rounds` additions and exclusive-ors that each need the one before.

    Alternating the two keeps a compiler from folding them; each takes one cycle on every current
    x86-64 and aarch64 core.
    """
    timespec = np.zeros(2, dtype=np.int64)
    value = addend
    start = now_ns(CLOCK_THREAD_CPUTIME_ID, timespec)
    for _ in range(rounds):
        value = (value + addend) ^ mask
        value = (value + addend) ^ mask
        value = (value + addend) ^ mask
        value = (value + addend) ^ mask
        value = (value + addend) ^ mask
        value = (value + addend) ^ mask
        value = (value + addend) ^ mask
        value = (value + addend) ^ mask
    end = now_ns(CLOCK_THREAD_CPUTIME_ID, timespec)
    return end - start, value


def clock_samples(*, repetitions: int = 15, rounds: int = 200_000) -> list[float]:
    """GHz: dependent one-cycle operations per nanosecond."""
    dependent_operations_ns(rounds, 12345, 987654321)
    operations = rounds * _OPERATIONS_PER_ROUND
    return [
        operations / dependent_operations_ns(rounds, 12345 + repetition, 987654321)[0]
        for repetition in range(repetitions)
    ]


@numba.njit(types.int64(types.int64), cache=True, nogil=True)
def system_calls_ns(calls: int) -> int:
    """Thread CPU ns of `calls` times getppid, which does next to nothing in the kernel."""
    timespec = np.zeros(2, dtype=np.int64)
    start = now_ns(CLOCK_THREAD_CPUTIME_ID, timespec)
    for _ in range(calls):
        c_getppid()
    return now_ns(CLOCK_THREAD_CPUTIME_ID, timespec) - start


def syscall_samples(*, repetitions: int = 25, calls: int = 2_000) -> list[float]:
    """ns of the cheapest system call."""
    system_calls_ns(calls)
    return [system_calls_ns(calls) / calls for _ in range(repetitions)]


@numba.njit(
    types.void(types.int64[::1], types.int64, types.int64[::1], types.int64, types.int64),
    cache=True,
    nogil=True,
)
def pass_token(token: Any, side: int, elapsed_ns: Any, round_trips: int, patience: int) -> None:
    """One side of a ping-pong on `token[0]` by compare-and-exchange.

    Side 0 turns even values odd, side 1 odd values even. `elapsed_ns[i]` becomes the time of trial
    i, or -1 when the other side has not answered within `patience` attempts.
    """
    timespec = np.zeros(2, dtype=np.int64)
    value = side
    for trial in range(len(elapsed_ns)):
        start = now_ns(CLOCK_MONOTONIC, timespec)
        for _ in range(round_trips):
            spins = 0
            while not compare_exchange(token, 0, value, value + 1):
                spins += 1
                if spins > patience:
                    elapsed_ns[trial:] = -1
                    return
            value += 2
        elapsed_ns[trial] = now_ns(CLOCK_MONOTONIC, timespec) - start


def core_to_core_samples(
    first_cpu: int,
    second_cpu: int,
    pin: Callable[[int], None],
    *,
    trials: int = 30,
    round_trips: int = 2_000,
) -> list[float]:
    """ns to move a contended cache line one way between two CPUs, one sample a trial.

    Many short trials, so that the median does not see those in which a thread lost its CPU.
    """
    token = np.zeros(16, dtype=np.int64)  # more than a line, so that nothing else shares it
    elapsed = [np.zeros(trials, dtype=np.int64) for _ in range(2)]

    def run(side: int, cpu: int) -> None:
        pin(cpu)
        pass_token(token, side, elapsed[side], round_trips, _PATIENCE)

    threads = [
        threading.Thread(target=run, args=(side, cpu), daemon=True)
        for side, cpu in enumerate((first_cpu, second_cpu))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [float(ns) / (2 * round_trips) for ns in elapsed[0] if ns > 0]


@numba.njit(types.int64(types.int64, types.int64, types.int64[::1]), cache=True, nogil=True)
def watch_clock(duration_ns: int, shortest_ns: int, gaps_ns: Any) -> int:
    """Read the clock back to back for a time and note gaps of at least `shortest_ns`.

    `gaps_ns[:n]` become the gaps in the order they came; returns n, at most its length.
    """
    timespec = np.zeros(2, dtype=np.int64)
    found = 0
    start = now_ns(CLOCK_MONOTONIC, timespec)
    last = start
    while last - start < duration_ns and found < len(gaps_ns):
        now = now_ns(CLOCK_MONOTONIC, timespec)
        if now - last >= shortest_ns:
            gaps_ns[found] = now - last
            found += 1
        last = now
    return found


def interruption_samples(
    cpus: Sequence[int], pin: Callable[[int], None], *, duration_s: float = 1.0
) -> list[np.ndarray]:
    """ns that something else took each CPU away from a busy thread, all CPUs busy at once.

    Returns an array for each CPU.
    """
    duration_ns = round(duration_s * 1e9)
    gaps = [np.zeros(round(duration_s * _MOST_GAPS_PER_S), dtype=np.int64) for _ in cpus]
    counts = [0 for _ in cpus]

    def run(position: int, cpu: int) -> None:
        pin(cpu)
        counts[position] = watch_clock(duration_ns, SHORTEST_GAP_NS, gaps[position])

    threads = [
        threading.Thread(target=run, args=(position, cpu), daemon=True)
        for position, cpu in enumerate(cpus)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [own[:count] for own, count in zip(gaps, counts, strict=True)]
