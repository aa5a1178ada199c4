"""The queueing block: FIFO queues of cohorts, any number of them side by side.

A cohort is a number of requests that joined a queue in the same step as the same attempt. Queues
are served from the front with a capacity that may differ in every step. After `timeout_steps` the
clients of a cohort have gone: that is a time-out, and what is left of the cohort stays in the
queue, because the server does not know; serving it is wasted. No request is lost: of every queue

    joined = answered + timed out + waiting + withdrawn,        checked by `Queues.check`.

Within a step requests arrive evenly, and are served one after the other at the step's capacity, so
that waits are those of a D/D/1 queue. Time-outs are looked at once a step, half a step early to
half a step late.

The functions here work on the arrays of one `Queues` and are compiled; a queue is a row.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

STEP, ATTEMPT, COUNT, SIZE = range(4)
"""Columns of a cohort: when it joined, as which attempt, how many are left and were at first."""

HEAD, GONE, TAIL, WAITING, LEFT = range(5)
"""Marks of a queue: numbers of the first cohort, of the first whose clients wait, and behind the
last; requests whose clients wait, and those whose clients have gone."""

WAITS_PER_DECADE = 40
_SHORTEST_S = 1e-6
WAIT_CELLS = 1 + 11 * WAITS_PER_DECADE
"""Cells of a histogram of waits: none, then 1 us to 28 hours, each 5.9% wide."""


@njit(cache=True, nogil=True)
def wait_cell(wait_s: float) -> int:
    """The cell of the histogram of waits that a wait falls into."""
    if wait_s < _SHORTEST_S:
        return 0
    cell = 1 + int(WAITS_PER_DECADE * math.log10(wait_s / _SHORTEST_S))
    return min(cell, WAIT_CELLS - 1)


def cell_waits_s() -> np.ndarray:
    """(WAIT_CELLS,) the wait that stands for each cell, in s."""
    middle = (np.arange(WAIT_CELLS) - 0.5) / WAITS_PER_DECADE
    waits = _SHORTEST_S * 10.0**middle
    waits[0] = 0.0
    return np.asarray(waits)


@njit(cache=True, nogil=True)
def join(cohorts, marks, queue, step, attempt, count):  # type: ignore[no-untyped-def]
    """Add a number of requests to the end of a queue; there must be a free slot."""
    if count == 0:
        return
    slots = cohorts.shape[1]
    tail = marks[queue, TAIL]
    if tail - marks[queue, HEAD] >= slots:
        raise RuntimeError("a queue of cohorts is full")
    row = cohorts[queue, tail % slots]
    row[STEP], row[ATTEMPT], row[COUNT], row[SIZE] = step, attempt, count, count
    marks[queue, TAIL] = tail + 1
    marks[queue, WAITING] += count


@njit(cache=True, nogil=True)
def expire(cohorts, marks, queue, step, timeout_steps, drop, timed_out):  # type: ignore[no-untyped-def]
    """Clients that have waited for `timeout_steps` go; adds them to `timed_out` by attempt.

    With `drop` the server leaves their requests out, as if it knew.
    """
    slots = cohorts.shape[1]
    number = max(marks[queue, GONE], marks[queue, HEAD])
    while number < marks[queue, TAIL]:
        row = cohorts[queue, number % slots]
        if row[STEP] + timeout_steps > step:
            break
        timed_out[row[ATTEMPT]] += row[COUNT]
        marks[queue, WAITING] -= row[COUNT]
        if drop:
            row[COUNT] = 0
        else:
            marks[queue, LEFT] += row[COUNT]
        number += 1
    marks[queue, GONE] = number


@njit(cache=True, nogil=True)
def serve(cohorts, marks, queue, step, step_s, most, answered, waits):  # type: ignore[no-untyped-def]
    """Serve up to `most` requests from the front; returns how many, wasted ones included.

    Parameters
    ----------
    most
        Capacity of this step, which says how fast they go, too.
    answered
        (attempts,) what was answered is added, by attempt.
    waits
        (WAIT_CELLS,) what was answered is added, by wait.
    """
    slots = cohorts.shape[1]
    served = 0
    while marks[queue, HEAD] < marks[queue, TAIL]:
        number = marks[queue, HEAD]
        row = cohorts[queue, number % slots]
        take = min(row[COUNT], most - served)
        if number < marks[queue, GONE]:
            marks[queue, LEFT] -= take
        elif take > 0:
            answered[row[ATTEMPT]] += take
            marks[queue, WAITING] -= take
            before = row[SIZE] - row[COUNT]
            if row[STEP] == step and served + row[COUNT] <= most:
                # The queue empties in this step: those who come later than that do not wait.
                free = most - row[COUNT]
                emptied = 1.0 if served >= free else served / free
                late = int(emptied * take + 0.5)
                waits[wait_cell(0.5 * served / max(most, 1) * step_s)] += late
                waits[0] += take - late
            else:
                # Joined and served evenly, so that the middle one's wait is the mean.
                joined = row[STEP] + (before + 0.5 * take) / row[SIZE]
                done = step + (served + 0.5 * take) / max(most, 1)
                waits[wait_cell(max(0.0, done - joined) * step_s)] += take
        served += take
        row[COUNT] -= take
        if row[COUNT] > 0:
            break
        marks[queue, HEAD] = number + 1
    return served


@njit(cache=True, nogil=True)
def withdraw(cohorts, marks, queue, by_attempt):  # type: ignore[no-untyped-def]
    """Empty a queue at once; adds those who still waited to `by_attempt`."""
    slots = cohorts.shape[1]
    for number in range(max(marks[queue, GONE], marks[queue, HEAD]), marks[queue, TAIL]):
        row = cohorts[queue, number % slots]
        by_attempt[row[ATTEMPT]] += row[COUNT]
    marks[queue, HEAD] = marks[queue, GONE] = marks[queue, TAIL]
    marks[queue, WAITING] = marks[queue, LEFT] = 0


@njit(cache=True, nogil=True)
def _serve_all(cohorts, marks, counts, step, step_s, timeout_steps, drop, capacity, per_step):  # type: ignore[no-untyped-def]
    answered, timed_out, wasted, waits = per_step
    for queue in range(len(marks)):
        expire(cohorts, marks, queue, step, timeout_steps, drop, timed_out[queue])
        join(cohorts, marks, queue, step, 0, counts[queue])
        left = marks[queue, LEFT]
        serve(cohorts, marks, queue, step, step_s, capacity[queue], answered[queue], waits[queue])
        wasted[queue] += left - marks[queue, LEFT]


class Queues:
    """FIFO queues of cohorts, all with the same time-out.

    Attributes
    ----------
    cohorts
        (queues, slots, 4) rings of cohorts.
    marks
        (queues, 5) where each begins and ends, and what waits in it.
    """

    def __init__(self, queues: int, *, timeout_steps: int, drops_gone: bool = False) -> None:
        self.timeout_steps = timeout_steps
        self.drops_gone = drops_gone
        self.cohorts = np.zeros((queues, 64, 4), np.int64)
        self.marks = np.zeros((queues, 5), np.int64)
        self.totals = np.zeros((queues, 3), np.int64)
        """(queues, 3) joined, answered, timed out of those that `advance` was used for."""

    @property
    def waiting(self) -> np.ndarray:
        """(queues,) requests whose clients wait."""
        return np.asarray(self.marks[:, WAITING])

    @property
    def left(self) -> np.ndarray:
        """(queues,) requests whose clients have gone."""
        return np.asarray(self.marks[:, LEFT])

    def add(self) -> None:
        """One more queue, empty."""
        empty = np.zeros((1, *self.cohorts.shape[1:]), np.int64)
        self.cohorts = np.concatenate([self.cohorts, empty])
        self.marks = np.concatenate([self.marks, np.zeros((1, 5), np.int64)])
        self.totals = np.concatenate([self.totals, np.zeros((1, 3), np.int64)])

    def make_room(self, cohorts: int) -> None:
        """Make room for a number of further cohorts in each queue."""
        slots = self.cohorts.shape[1]
        longest = int((self.marks[:, TAIL] - self.marks[:, HEAD]).max())
        if longest + cohorts <= slots:
            return
        more = slots
        while longest + cohorts > more:
            more *= 2
        wider = np.zeros((len(self.marks), more, 4), np.int64)
        for queue, marks in enumerate(self.marks):
            numbers = np.arange(marks[HEAD], marks[TAIL])
            wider[queue, numbers % more] = self.cohorts[queue, numbers % slots]
        self.cohorts = wider

    def advance(
        self, step: int, *, step_s: float, counts: np.ndarray, capacity: np.ndarray
    ) -> Served:
        """One step of queues that stand alone: time-outs, arrivals, service.

        Parameters
        ----------
        step
            Number of the step; it goes up.
        counts, capacity
            (queues,) requests that arrive, and that can be served.
        """
        self.make_room(1)
        queues = len(self.marks)
        answered, timed_out = np.zeros((2, queues, 1), np.int64)
        wasted = np.zeros(queues, np.int64)
        waits = np.zeros((queues, WAIT_CELLS), np.int64)
        _serve_all(
            *(self.cohorts, self.marks, counts.astype(np.int64), step, step_s),
            *(self.timeout_steps, self.drops_gone, capacity.astype(np.int64)),
            (answered, timed_out, wasted, waits),
        )
        self.totals += np.stack([counts, answered[:, 0], timed_out[:, 0]], axis=1)
        self.check()
        return Served(answered[:, 0], timed_out[:, 0], wasted, waits)

    def check(self) -> None:
        """Compare what joined with what became of it.

        Raises
        ------
        RuntimeError
            Something was lost or made up, which is a fault of the program.
        """
        joined, answered, timed_out = self.totals.T
        if (joined != answered + timed_out + self.waiting).any() or (self.marks < 0).any():
            raise RuntimeError("a queue of cohorts lost or invented requests")


class Served:
    """What a step of stand-alone queues did.

    Attributes
    ----------
    answered, timed_out, wasted
        (queues,) requests.
    waits
        (queues, WAIT_CELLS) answered ones by wait; `cell_waits_s` says how long.
    """

    def __init__(
        self, answered: np.ndarray, timed_out: np.ndarray, wasted: np.ndarray, waits: np.ndarray
    ) -> None:
        self.answered, self.timed_out, self.wasted, self.waits = answered, timed_out, wasted, waits

    @property
    def mean_wait_s(self) -> np.ndarray:
        """(queues,) mean wait of what was answered; 0 where nothing was."""
        total = self.waits @ cell_waits_s()
        return np.asarray(total / np.maximum(1, self.answered))
