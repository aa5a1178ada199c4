"""The queueing block: FIFO queues of cohorts, any number of them side by side.

A cohort is a number of requests that joined a queue in the same step as the same attempt. Queues
are served from the front with a capacity that may differ in every step. After `timeout_steps` the
clients of a cohort have gone: that is a time-out, and what is left of the cohort stays in the
queue, because the server does not know; serving it is wasted. No request is lost: of every queue

    joined = answered + timed out + waiting + withdrawn,        checked by `Queues.check`.

Within a step requests arrive evenly, and are served one after the other at the step's capacity, so
that waits are those of a D/D/1 queue. Time-outs are looked at once a step, half a step early to
half a step late.

`native/cohorts.h` works on the arrays of a `Queues`.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from forecache.sim.native import Layout, library, pointer

# --- the memory of a cluster's load, as `native/cluster.h` declares it ----------------------------

# A record's fields are those of the C structure, by the same names; the header says what they mean.


SOURCES = Path(__file__).parent / "native"
_LAYOUT = Layout(SOURCES / "cluster.h")
RECORDS = _LAYOUT.dtypes
CONSTANTS = _LAYOUT.constants

_INTEGER, _NUMBER, _ADDRESS = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_ARGUMENTS = {
    "advance_load": [_ADDRESS],
    "draw_arrivals": [*[_INTEGER] * 3, _ADDRESS, _INTEGER, _ADDRESS],
    "advance_queues": [_ADDRESS, *[_INTEGER] * 2, _NUMBER, *[_INTEGER] * 2, *[_ADDRESS] * 6],
}


@cache
def compiled() -> ctypes.CDLL:
    """The functions of `native/*.c`."""
    code = library(SOURCES)
    for name, arguments in _ARGUMENTS.items():
        function = getattr(code, name)
        function.argtypes, function.restype = arguments, None
    return code


WAITS_PER_DECADE = CONSTANTS["WAITS_PER_DECADE"]
_SHORTEST_S = 1e-6
WAIT_CELLS = CONSTANTS["WAIT_CELLS"]
"""Cells of a histogram of waits: none, then 1 us to 28 hours, each 5.9% wide."""


def cell_waits_s() -> np.ndarray:
    """(WAIT_CELLS,) the wait that stands for each cell, in s."""
    middle = (np.arange(WAIT_CELLS) - 0.5) / WAITS_PER_DECADE
    waits = _SHORTEST_S * 10.0**middle
    waits[0] = 0.0
    return np.asarray(waits)


class Queues:
    """FIFO queues of cohorts, all with the same time-out.

    Attributes
    ----------
    rows
        (queues,) records `queue`: where each begins and ends, and what waits in it.
    cohorts
        (queues, slots) records `cohort`, rings.
    """

    def __init__(self, queues: int, *, timeout_steps: int, drops_gone: bool = False) -> None:
        self.timeout_steps = timeout_steps
        self.drops_gone = drops_gone
        self.rows = np.zeros(queues, RECORDS["queue"])
        self.totals = np.zeros((queues, 3), np.int64)
        """(queues, 3) joined, answered, timed out of those that `advance` was used for."""
        self._keep(np.zeros((queues, 64), RECORDS["cohort"]))

    def _keep(self, cohorts: np.ndarray) -> None:
        """Have the rows point to these rings."""
        self.cohorts = cohorts
        slots = cohorts.shape[1]
        self.rows["mask"] = slots - 1
        ring_bytes = slots * cohorts.itemsize
        self.rows["cohorts"] = pointer(cohorts) + ring_bytes * np.arange(len(cohorts))

    @property
    def waiting(self) -> np.ndarray:
        """(queues,) requests whose clients wait."""
        return np.asarray(self.rows["waiting"])

    @property
    def left(self) -> np.ndarray:
        """(queues,) requests whose clients have gone."""
        return np.asarray(self.rows["left"])

    def add(self) -> None:
        """One more queue, empty."""
        empty = np.zeros((1, self.cohorts.shape[1]), RECORDS["cohort"])
        self.rows = np.concatenate([self.rows, np.zeros(1, RECORDS["queue"])])
        self.totals = np.concatenate([self.totals, np.zeros((1, 3), np.int64)])
        self._keep(np.concatenate([self.cohorts, empty]))

    def make_room(self, cohorts: int) -> None:
        """Make room for a number of further cohorts in each queue."""
        slots = self.cohorts.shape[1]
        longest = int((self.rows["tail"] - self.rows["head"]).max())
        if longest + cohorts <= slots:
            return
        more = slots
        while longest + cohorts > more:
            more *= 2
        wider = np.zeros((len(self.rows), more), RECORDS["cohort"])
        for queue, row in enumerate(self.rows):
            numbers = np.arange(row["head"], row["tail"])
            wider[queue, numbers % more] = self.cohorts[queue, numbers % slots]
        self._keep(wider)

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
        queues = len(self.rows)
        arriving, able = counts.astype(np.int64), capacity.astype(np.int64)
        answered, timed_out, wasted = np.zeros((3, queues), np.int64)
        waits = np.zeros((queues, WAIT_CELLS), np.int64)
        compiled().advance_queues(
            *(pointer(self.rows), queues, step, step_s, self.timeout_steps, self.drops_gone),
            *map(pointer, (arriving, able, answered, timed_out, wasted, waits)),
        )
        self.totals += np.stack([counts, answered, timed_out], axis=1)
        self.check()
        return Served(answered, timed_out, wasted, waits)

    def check(self) -> None:
        """Compare what joined with what became of it.

        Raises
        ------
        RuntimeError
            Something was lost or made up, which is a fault of the program.
        """
        joined, answered, timed_out = self.totals.T
        if (joined != answered + timed_out + self.waiting).any() or (
            self.rows.view(np.int64) < 0
        ).any():
            raise RuntimeError("a queue of cohorts lost or invented requests")


@dataclass(frozen=True)
class Served:
    """What a step of stand-alone queues did.

    Attributes
    ----------
    answered, timed_out, wasted
        (queues,) requests.
    waits
        (queues, WAIT_CELLS) answered ones by wait; `cell_waits_s` says how long.
    """

    answered: np.ndarray
    timed_out: np.ndarray
    wasted: np.ndarray
    waits: np.ndarray


# --- one step of the load -------------------------------------------------------------------------

# Node by node: arrivals, connections, service, time-outs, retries. `native/flows.c` does it;
# `load.py` prepares what it is given and looks at what it leaves.


UTILISATION_CELLS = CONSTANTS["UTILISATION_CELLS"]
"""Cells of a histogram of utilisations, see `cell_loads`."""

_LAST_CELL = 0.99
CELL_WIDTH = -math.log(1.0 - _LAST_CELL) / (UTILISATION_CELLS - 1)
"""Width of a cell on the scale of logarithms of what is left: a queue's wait differs by 2.3% from
one to the next, however full it is."""

TOKEN = CONSTANTS["TOKEN"]
"""A retry token in the unit of `tokens`."""


def cell_loads() -> np.ndarray:
    """(UTILISATION_CELLS,) load in the middle of each cell, from 0 to 0.99."""
    return np.asarray(-np.expm1(-CELL_WIDTH * np.arange(UTILISATION_CELLS)))


def draw_arrivals(seed: int, step: int, means: np.ndarray, drawn: bool, counts: np.ndarray) -> None:
    """Fill in how many requests begin at each node, a Poisson number of one address each.

    Parameters
    ----------
    means
        (nodes,) of float64.
    drawn
        Otherwise the means are rounded at random.
    counts
        (nodes,) of int64, to be filled.
    """
    compiled().draw_arrivals(seed, step, len(means), pointer(means), drawn, pointer(counts))


def advance(load: np.ndarray) -> None:
    """One step of the load at every node; `load` is one record `load`, filled in."""
    compiled().advance_load(pointer(load))
