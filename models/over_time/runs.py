"""Runs over time of every point of a sweep with every seed, through any executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from forecache.sim.errors import InputError
from forecache.sim.executors import as_they_end

from ..results.consistency import check_run
from ..results.series import Run, RunPoint
from ..scenario.sweeps import Case
from .kept_runs import KeptRuns, run_key
from .over_seeds import facts_over_seeds, warnings_over_seeds

MOST_SEEDS = 1_000
"""Replications of a scenario."""

Report = Callable[[str], None]
RunFunction = Callable[[Any, int, Report], Run]
"""Simulates a scenario with a seed and something to report steps to."""


@dataclass(frozen=True)
class _Task:
    """One run. It is pickled where an executor has processes, so it holds plain data only."""

    run: RunFunction
    scenario: BaseModel
    seed: int
    whole: bool
    """Whether more is wanted of it than its facts and warnings."""


def _silent(line: str) -> None:
    del line


def _run(task: _Task, report: Report = _silent) -> Run:
    found = task.run(task.scenario, task.seed, report)
    check_run(found)
    return found if task.whole else found.without_times()


@dataclass(frozen=True)
class Runs:
    """What came of all runs of a sweep.

    Attributes
    ----------
    points
        For each case what came of it with all seeds.
    missing
        Runs whose worker was lost, in words.
    """

    points: list[RunPoint]
    missing: list[str]


def run_points(
    run: RunFunction,
    cases: Sequence[Case[Any]],
    *,
    seeds: Sequence[int],
    executor: Executor | None,
    report: Report,
    kept: KeptRuns | None = None,
) -> Runs:
    """Run every case with every seed.

    The result does not depend on the executor, on how many run at once, or on which ends first.

    Parameters
    ----------
    run
        A function of a module, so that it can be pickled.
    seeds
        At least one. With several, series, marks and tables are those of the first; `facts` are
        means over all, see `facts_over_seeds`.
    executor
        Where to run; here, one after the other, if None.
    report
        Called with a sentence for every run; without an executor also for its steps.
    kept
        Where results are looked for, and kept as soon as they are there.

    Raises
    ------
    InputError
        What `run` raised first in the order of cases and seeds, or a kept result is damaged.
    """
    tasks = [
        _Task(run, case.scenario, seed, whole=seed == seeds[0]) for case in cases for seed in seeds
    ]
    names = [_words(case, seed, seeds) for case in cases for seed in seeds]
    keys = ["" if kept is None else _key(task) for task in tasks]
    found: dict[int, Run] = {}
    for number, key in enumerate(keys):
        known = None if kept is None else kept.find(key)
        if known is not None:
            found[number] = known
    if found:
        report(f"found {len(found)} of {len(tasks)} runs in {kept.folder if kept else ''}")
    wanted = [number for number in range(len(tasks)) if number not in found]
    for number, done in _runs(
        [tasks[n] for n in wanted], [names[n] for n in wanted], executor, report
    ):
        found[wanted[number]] = done
        if kept is not None:
            kept.keep(keys[wanted[number]], done)
    missing = [names[number] or "the run" for number in wanted if number not in found]
    return Runs(_points(cases, found, seeds=len(seeds)), missing)


def _key(task: _Task) -> str:
    return run_key(task.scenario, seed=task.seed, whole=task.whole)


def _runs(
    tasks: Sequence[_Task], names: Sequence[str], executor: Executor | None, report: Report
) -> Iterator[tuple[int, Run]]:
    """Indices and results, as they are there; those of lost workers are left out."""
    if executor is None:
        for number, task in enumerate(tasks):
            if len(tasks) > 1:
                report(f"point {number + 1} of {len(tasks)}: {names[number]}")
            yield number, _run(task, report)
        return
    results = as_they_end(_run, tasks, executor=executor)
    for ended, (number, done) in enumerate(results, start=1):
        report(f"simulated {ended} of {len(tasks)}: {names[number]}")
        yield number, done


def _points(cases: Sequence[Case[Any]], found: Mapping[int, Run], *, seeds: int) -> list[RunPoint]:
    """What runs say of each case; of one that lacks runs, nothing."""
    first: list[Run] | None = None
    points: list[RunPoint] = []
    for place, case in enumerate(cases):
        numbers = range(place * seeds, (place + 1) * seeds)
        if not all(number in found for number in numbers):
            continue
        runs = [found[number] for number in numbers]
        over_all = runs[0]
        if seeds > 1:
            facts, warnings = facts_over_seeds(runs, first), warnings_over_seeds(runs)
            over_all = replace(over_all, facts=facts, warnings=warnings)
            if place == 0:
                first = runs
        points.append(RunPoint(case.given, over_all))
    return points


def _words(case: Case[Any], seed: int, seeds: Sequence[int]) -> str:
    given: Mapping[str, Any] = case.given | ({"seed": seed} if len(seeds) > 1 else {})
    return ", ".join(f"{name} {value}" for name, value in given.items())


def check_seeds(seed: int, seeds: int) -> range:
    """The seeds of a number of replications, from the first on.

    Raises
    ------
    InputError
        There are none, or they go beyond the greatest.
    """
    if not 1 <= seeds <= MOST_SEEDS or seed + seeds > 2**32:
        raise InputError(
            f"field seeds: found {seeds} from seed {seed}; valid are 1 to {MOST_SEEDS}, the last "
            f"below {2**32}."
        )
    return range(seed, seed + seeds)
