"""How long simulations of nodes will take, said or refused before they begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forecache.sim.effort import check_work
from forecache.sim.processes import usable_cores

from .simulation import Inputs, Pilot, window

_RUN_S = 0.01
"""Setting up a run: durations, tables, an array for the state."""

_REQUEST_S = 0.7e-6
"""A request, with the events of all that it passes."""

_SIMULATED_S = 1e-4
"""A simulated second in which nothing is asked: threads that look, timers, interruptions."""

_PS_PER_S = 1e12


def check_count(points: int, runs_each: int) -> None:
    """Refuse so many points that setting their runs up takes too long.

    Raises
    ------
    InputError
        It would.
    """
    check_work(
        points * runs_each * _RUN_S,
        f"{points:,} points of a node with {runs_each} runs each",
        smaller="fewer points",
        progress=None,
    )


def check_runs(
    points: Sequence[tuple[Inputs, Pilot]],
    *,
    runs: Sequence[tuple[int, int]],
    seed: int,
    progress: Callable[[str], None] | None,
) -> None:
    """Say how long the runs of all points take, or refuse them.

    Parameters
    ----------
    runs
        How many runs of each point, and about how many requests each of them measures.

    Raises
    ------
    InputError
        They would take longer than is allowed.
    """
    seconds = longest_s = 0.0
    for inputs, pilot in points:
        times = inputs.times()
        for count, requests in runs:
            if count:
                run = window(inputs, times, requests=requests, seed=seed, pilot=pilot)
                end_s = run.end_ps / _PS_PER_S
                longest_s = max(longest_s, end_s)
                each_s = end_s * (pilot.rate_rps * _REQUEST_S + _SIMULATED_S)
                seconds += count * (_RUN_S + each_s)
    check_work(
        seconds,
        f"{len(points)} points of a node with {sum(count for count, _ in runs)} runs each, the "
        f"longest of {longest_s:,.3g} simulated seconds",
        smaller="fewer points, or what is rare (a slow command, a snapshot, a request) more often",
        progress=progress,
        workers=usable_cores(),
    )
