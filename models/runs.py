"""Runs over time of every point of a sweep with every seed, through any executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from forecache.sim.errors import InputError
from forecache.sim.executors import in_order

from .consistency import check_run
from .over_seeds import facts_over_seeds, warnings_over_seeds
from .series import Run
from .sweeps import Case

MOST_SEEDS = 1_000
"""Replications of a scenario."""

Json = dict[str, Any]
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


def _as_plain(task: _Task, report: Report = _silent) -> Json:
    found = task.run(task.scenario, task.seed, report).as_dict()
    check_run(found)
    return found if task.whole else {name: found[name] for name in ("facts", "warnings")}


def run_points(
    run: RunFunction,
    cases: Sequence[Case[Any]],
    *,
    seeds: Sequence[int],
    executor: Executor | None,
    report: Report,
) -> list[Json]:
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
        Called with a sentence for every run, in order; without an executor also for its steps.

    Returns
    -------
    list of dict
        For each case `given` and what `Run.as_dict` has.

    Raises
    ------
    InputError
        What `run` raised first in the order of cases and seeds.
    """
    tasks = [
        _Task(run, case.scenario, seed, whole=seed == seeds[0]) for case in cases for seed in seeds
    ]
    names = [_words(case, seed, seeds) for case in cases for seed in seeds]

    def one_here(numbered: tuple[int, _Task]) -> Json:
        number, task = numbered
        if len(tasks) > 1:
            noun = "point" if len(seeds) == 1 else "run"
            report(f"{noun} {number} of {len(tasks)}: {names[number - 1]}")
        return _as_plain(task, report)

    found: list[Json] = []
    if executor is None:
        found += map(one_here, enumerate(tasks, start=1))
    else:
        for done in in_order(_as_plain, tasks, executor=executor):
            found.append(done)
            report(f"simulated {len(found)} of {len(tasks)}: {names[len(found) - 1]}")
    by_case = [found[start : start + len(seeds)] for start in range(0, len(found), len(seeds))]
    if len(seeds) == 1:
        return [{"given": c.given, **runs[0]} for c, runs in zip(cases, by_case, strict=True)]
    return [
        {
            "given": case.given,
            **runs[0],
            "facts": facts_over_seeds(runs, None if runs is by_case[0] else by_case[0]),
            "warnings": warnings_over_seeds(runs),
        }
        for case, runs in zip(cases, by_case, strict=True)
    ]


def _words(case: Case[Any], seed: int, seeds: Sequence[int]) -> str:
    given: Mapping[str, Any] = case.given | ({"seed": seed} if len(seeds) > 1 else {})
    return ", ".join(f"{name} {value}" for name, value in given.items())


def check_seeds(seed: int, seeds: int) -> range:
    """The seeds of so many replications, from the first on.

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
