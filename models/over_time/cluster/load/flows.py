"""One step of the load, node by node: arrivals, connections, service, time-outs, retries.

`native/flows.c` does it; `load.py` prepares what it is given and looks at what it leaves.
"""

from __future__ import annotations

import math

import numpy as np

from forecache.sim.native import pointer

from .layout import CONSTANTS, compiled

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
