"""When requests fall due in an open loop."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from forecache.sim.calendar import INFINITY_PS
from forecache.sim.streams import draw4, exponential_ps, to_unit

from ..setup import NodeSetup, NodeTimes

ARRIVAL_DRAWS = 2
PIECE_DRAWS = 9
UNIT = 1 << 40
"""An exponential of mean one is drawn as a whole number of this part."""

ANY_COMMAND = -1


def arrivals(times: NodeTimes, setup: NodeSetup, source: int) -> Iterator[tuple[int, int]]:
    """When each request of one generator thread falls due, in ps, and its command's code."""
    if len(times.trace_due_ps):
        return _traced(times, setup, source)
    due = _poisson(setup, source) if not len(times.piece_ps) else _varying(times, setup, source)
    return ((due_ps, ANY_COMMAND) for due_ps in due)


def _gap_draw(setup: NodeSetup, source: int, index: int) -> float:
    gap, _, _, _ = draw4(setup.seed, setup.replication, source, ARRIVAL_DRAWS, index)
    return to_unit(gap)


def _poisson(setup: NodeSetup, source: int) -> Iterator[int]:
    due_ps = 0
    for index in itertools.count():
        due_ps += exponential_ps(_gap_draw(setup, source, index), float(setup.mean_interarrival_ps))
        yield due_ps


def _varying(times: NodeTimes, setup: NodeSetup, source: int) -> Iterator[int]:
    """A Poisson process whose rate is constant in pieces: by its change of time.

    Exponentials of mean one are used up at the rate of the piece that time is in.
    """
    pieces = _pieces(times, setup)
    gap_ps, ends_ps = next(pieces)
    due_ps = 0
    for index in itertools.count():
        left = exponential_ps(_gap_draw(setup, source, index), float(UNIT)) / UNIT
        while gap_ps == 0 or left * gap_ps >= ends_ps - due_ps:
            if gap_ps > 0:
                left -= (ends_ps - due_ps) / gap_ps
            due_ps = ends_ps
            gap_ps, lasts_ps = next(pieces)
            ends_ps += lasts_ps
        due_ps += int(left * gap_ps)
        yield due_ps


def _pieces(times: NodeTimes, setup: NodeSetup) -> Iterator[tuple[int, int]]:
    """Mean time between two requests (0: none come) and length of each piece, in turn."""
    for number in itertools.count():
        kind = number % len(times.piece_ps)
        lasts_ps = int(times.piece_ps[kind])
        if setup.random_pieces:
            # The same for all threads, so that a burst is a burst.
            drawn, _, _, _ = draw4(setup.seed, setup.replication, 0, PIECE_DRAWS, number)
            lasts_ps = exponential_ps(to_unit(drawn), float(lasts_ps))
        yield int(times.piece_gap_ps[kind]), lasts_ps


def _traced(times: NodeTimes, setup: NodeSetup, source: int) -> Iterator[tuple[int, int]]:
    """The requests of a file, repeated without end; they go to the threads in turn."""
    rows = len(times.trace_due_ps)
    for number in itertools.count(source, setup.generators):
        again, row = divmod(number, rows)
        due_ps = again * setup.trace_period_ps + int(times.trace_due_ps[row])
        if due_ps >= INFINITY_PS:
            return
        yield due_ps, int(times.trace_code[row])
