"""How long simulations of nodes will take, said or refused before they begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from forecache.sim.effort import check_work
from forecache.sim.processes import usable_cores

from ..step_times.inputs import NodeInputs
from .run_length import Pilot, window

_RUN_S = 0.006
"""Setting up a run: durations, tables, an array for the state."""

_REQUEST_S = 0.7e-6
"""A request, with the events of all that it passes."""

_EVENT_S = 6e-8
"""An event, where a pilot run has counted them."""

_SIMULATED_S = 1e-4
"""A simulated second in which nothing is asked: threads that look, timers, interruptions."""

_PS_PER_S = 1e12


def check_count(points: int, runs: int) -> None:
    """Refuse more runs and points than can be set up in reasonable time."""
    check_work(
        runs * _RUN_S,
        f"{points:,} point{'s' if points != 1 else ''} of a node with {runs:,} runs",
        smaller="fewer points",
        progress=None,
    )


class Batch(NamedTuple):
    """A number of runs, and how long each is: see `run_length.window`."""

    runs: int
    requests: int
    brief: bool = False


class AskedRuns(NamedTuple):
    """Runs of one point, what they simulate, and how fast that is."""

    inputs: NodeInputs
    pilot: Pilot
    batches: tuple[Batch, ...]


def run_s(inputs: NodeInputs, pilot: Pilot, *, requests: int, brief: bool = False) -> float:
    """Seconds of one core that a run takes, estimated: the same on every machine."""
    end_ps = window(inputs, pilot, requests=requests, brief=brief).end_ps
    return _run_s(pilot, end_ps / _PS_PER_S)


def _run_s(pilot: Pilot, end_s: float) -> float:
    by_request = pilot.rate_rps * _REQUEST_S + _SIMULATED_S
    return _RUN_S + end_s * max(by_request, pilot.events_per_s * _EVENT_S)


def check_runs(
    asked: Sequence[AskedRuns],
    *,
    points: int,
    progress: Callable[[str], None] | None,
) -> None:
    """Say how long the runs of all points take, or refuse them."""
    seconds = longest_s = 0.0
    runs = 0
    for point in asked:
        for count, requests, brief in point.batches:
            window_ps = window(point.inputs, point.pilot, requests=requests, brief=brief)
            end_s = window_ps.end_ps / _PS_PER_S
            longest_s = max(longest_s, end_s)
            seconds += count * _run_s(point.pilot, end_s)
            runs += count
    noun = "point" if points == 1 else "points"
    check_work(
        seconds,
        f"{points:,} {noun} of a node with {runs:,} runs, the longest of {longest_s:,.3g} "
        "simulated seconds",
        smaller="fewer points, or what is rare (a slow command, a snapshot) more often",
        progress=progress,
        workers=usable_cores(),
    )
