"""What the cores do on their own, without sockets.

Their clock, transfers of lines between them, the cheapest system call, how fast code like an
engine's runs (GETs that are answered, elements of a list that are replied with), interruptions.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from .loops import Unsigned, Word, Words, loop, run_side_by_side

_OPERATIONS_PER_ROUND = 16
_PATIENCE = 200_000_000  # attempts: some seconds
SHORTEST_GAP_NS = 5_000
"""Two looks at the clock lie tens of nanoseconds apart; a cache miss or two is no interruption."""
_MOST_GAPS_PER_S = 200_000  # a gap lasts at least 5 us


def dependent_operations_ns(rounds: int, addend: int, mask: int) -> int:
    """Thread CPU ns of 16 x `rounds` additions and exclusive-ors that each need the one before."""
    return loop("dependent_operations_ns", Word, Unsigned, Unsigned)(rounds, addend, mask)


def clock_samples(*, repetitions: int = 15, rounds: int = 200_000) -> list[float]:
    """GHz: dependent one-cycle operations per nanosecond."""
    dependent_operations_ns(rounds, 12345, 987654321)
    operations = rounds * _OPERATIONS_PER_ROUND
    return [
        operations / dependent_operations_ns(rounds, 12345 + repetition, 987654321)
        for repetition in range(repetitions)
    ]


def system_calls_ns(calls: int) -> int:
    """Thread CPU ns of `calls` times getppid, which does next to nothing in the kernel."""
    return loop("system_calls_ns", Word)(calls)


def syscall_samples(*, repetitions: int = 25, calls: int = 2_000) -> list[float]:
    """ns of the cheapest system call."""
    system_calls_ns(calls)
    return [system_calls_ns(calls) / calls for _ in range(repetitions)]


def pass_token(
    token: np.ndarray, side: int, elapsed_ns: np.ndarray, round_trips: int, patience: int
) -> None:
    """One side of a ping-pong on `token[0]` by compare-and-exchange.

    Side 0 turns even values odd, side 1 odd values even. `elapsed_ns[i]` becomes the time of trial
    i, or -1 when the other side has not answered within `patience` attempts.
    """
    passed = loop("pass_token", Words, Word, Words, Word, Word, Word)
    passed(token, side, elapsed_ns, len(elapsed_ns), round_trips, patience)


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

    run_side_by_side(partial(run, side, cpu) for side, cpu in enumerate((first_cpu, second_cpu)))
    return [float(ns) / (2 * round_trips) for ns in elapsed[0] if ns > 0]


ALIKE_DISTANCE = 1.5
"""Two distances between cores count as the same if they differ by less than this factor. A
line takes 20 to 40 ns within a complex of cores and some 125 ns between two, on Zen 3 to Zen 5."""


def distance_ns(pair: tuple[int, int], pin: Callable[[int], None]) -> float:
    """ns that a line takes from one CPU to the other now, within a few milliseconds.

    A hypervisor moves virtual CPUs between cores that share a cache and cores that don't, every
    few seconds on some machines. The lower quartile, as other threads can only add. inf where the
    two CPUs don't run at the same time.
    """
    samples = core_to_core_samples(*pair, pin, trials=12, round_trips=200)
    return float(np.quantile(samples, 0.25)) if samples else float("inf")


def alike(first_ns: float, second_ns: float) -> bool:
    """Whether two distances between cores count as the same."""
    return max(first_ns, second_ns) < ALIKE_DISTANCE * min(first_ns, second_ns)


ANSWERED_AT_ONCE = 256
ANSWER_INSTRUCTIONS = 292
"""User instructions that one request of `answer_requests_ns` takes, as callgrind counts them (gcc
12, -O2, x86-64; 271 with -O3)."""


def answer_samples(*, repetitions: int = 10, batches: int = 100) -> list[float]:
    """ns that user code of an engine's kind takes to answer a GET, all in its caches."""
    answer = loop("answer_requests_ns", Word)
    answer(batches)
    return [answer(batches) / (batches * ANSWERED_AT_ONCE) for _ in range(repetitions)]


SLOWER = 1.15
"""A core that takes this much longer than it can shares itself with another machine on its other
hyperthread, which no kernel counts as stolen: a GET in the caches took 18.2 to 19.4 ns or 23 to 29
on Zen 5, 33 or 57 on Zen 3."""


def core_answer_ns(cpu: int) -> float:
    """ns that a CPU takes now to answer a GET in its caches, the shortest of a few.

    The calling thread stays where it is.
    """
    found: list[float] = []

    def run() -> None:
        os.sched_setaffinity(0, {cpu})
        found.extend(answer_samples(repetitions=3))

    run_side_by_side([run])
    return min(found)


ELEMENTS = 64
ELEMENT_INSTRUCTIONS = 226
"""User instructions that each element of `reply_elements_ns` takes, as callgrind counts them (gcc
12, -O2, x86-64; 185 with -O3)."""


def element_samples(*, repetitions: int = 10, times: int = 400) -> list[float]:
    """ns that user code of an engine's kind takes to reply with one more element of a list."""
    reply = loop("reply_elements_ns", Word)
    reply(times)
    return [reply(times) / (times * ELEMENTS) for _ in range(repetitions)]


def watch_clock(duration_ns: int, shortest_ns: int, gaps_ns: np.ndarray) -> int:
    """Read the clock back to back for a time and note gaps of at least `shortest_ns`.

    `gaps_ns[:n]` become the gaps in the order they came; returns n, at most its length.
    """
    watched = loop("watch_clock", Word, Word, Words, Word)
    return watched(duration_ns, shortest_ns, gaps_ns, len(gaps_ns))


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

    run_side_by_side(partial(run, position, cpu) for position, cpu in enumerate(cpus))
    return [own[:count] for own, count in zip(gaps, counts, strict=True)]
