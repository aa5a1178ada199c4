"""Runs over time of every point of a sweep with every seed, through any executor."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
from pydantic import BaseModel

from forecache.sim.errors import InputError
from forecache.sim.executors import as_they_end
from forecache.sim.plain import plain
from forecache.sim.statistics import Estimate, mean_interval, paired_difference

from ..results.consistency import check_run
from ..results.series import Fact, Run, RunPoint
from ..scenario.sweeps import Case
from .kept_runs import KeptRuns, run_key

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
            over_all = replace(over_all, facts=facts, warnings=warnings, summary="")
            if place == 0:
                first = runs
        points.append(RunPoint(case.given, over_all))
    return points


def _words(case: Case[Any], seed: int, seeds: Sequence[int]) -> str:
    given: Mapping[str, Any] = case.given | ({"seed": seed} if len(seeds) > 1 else {})
    return ", ".join(f"{name} {value}" for name, value in given.items())


def check_seeds(seed: int, seeds: int) -> range:
    """The seeds of a number of replications, from the first on."""
    if not 1 <= seeds <= MOST_SEEDS or seed + seeds > 2**32:
        raise InputError(
            f"field seeds: found {seeds} from seed {seed}; valid are 1 to {MOST_SEEDS}, the last "
            f"below {2**32}."
        )
    return range(seed, seed + seeds)


# --- over several seeds ---------------------------------------------------------------------------

# What runs of one point with several seeds say together: means, intervals, differences.
#
# All points of a sweep meet the same seeds. What is drawn is addressed by who draws it and what
# for, so that with one seed two policies meet the same demand (common random numbers), and the
# difference between two points is known better than either.


def facts_over_seeds(runs: Sequence[Run], first: Sequence[Run] | None) -> list[Fact]:
    """Facts of one point over its seeds.

    Parameters
    ----------
    runs
        That of each seed; at least two.
    first
        Those of the first point of the sweep with the same seeds; None at that point itself.

    Returns
    -------
    list of Fact
        With `samples`. An interval is that of the mean over seeds; intervals that the runs have of
        their own add to it, as independent of chance. A note is kept if it is the same with all
        seeds, or says that not all had a value. Where fewer than two seeds have a number there is
        no interval of a mean; means and differences are over the seeds that have one.
    """
    tables = [_by_name(run.facts) for run in runs]
    bases = None if first is None else [_by_name(run.facts) for run in first]
    names = dict.fromkeys(name for table in tables for name in table)
    found = []
    for name in names:
        fact = _fact_over_seeds([table.get(name) for table in tables])
        if fact is None:
            continue
        if bases is not None:
            base = [table[name].value if name in table else None for table in bases]
            pairs = zip(fact.samples, base, strict=True)
            both = np.array([p for p in pairs if _is_number(p[0]) and _is_number(p[1])], float)
            if len(both) > 1:
                difference = paired_difference(both[:, 0], both[:, 1])
                fact = replace(fact, against_first=difference)
        found.append(fact)
    return found


def _by_name(facts: Sequence[Fact]) -> dict[tuple[str, int], Fact]:
    """Facts by their name; of several of one name the second is another fact than the first."""
    found: dict[tuple[str, int], Fact] = {}
    for fact in facts:
        place = sum(1 for name, _ in found if name == fact.name)
        found[fact.name, place] = replace(fact, value=plain(fact.value))
    return found


def _fact_over_seeds(facts: Sequence[Fact | None]) -> Fact | None:
    """One fact over all seeds; None if it only tells that some of them have nothing to say."""
    there = [fact for fact in facts if fact is not None]
    samples = [None if fact is None else fact.value for fact in facts]
    known = [value for value in samples if value is not None]
    if not known and len(there) < len(facts):
        return None
    notes = {fact.note for fact in there}
    note = notes.pop() if len(notes) == 1 else ""
    if known and len(known) < len(samples):
        note = f"{len(known)} of {len(samples)} seeds have it"
    value = known[0] if known else None
    fact = Fact(there[0].name, value, there[0].unit, note, samples)
    numbers = [value for value in known if _is_number(value)]
    if len(numbers) < len(known):
        counts = {text: known.count(text) for text in dict.fromkeys(known)}
        if len(counts) > 1:
            told = ", ".join(f"{text} ({count})" for text, count in counts.items())
            fact = replace(fact, value=told)
    elif len(numbers) > 1:
        # All alike, without the rounding of a sum.
        alike = Estimate(numbers[0], numbers[0], numbers[0])
        mean = alike if len(set(numbers)) == 1 else mean_interval(numbers)
        if (own := _own_widths(there)) is not None:
            below, above = (math.hypot(mean.half_width, each) for each in own)
            mean = Estimate(mean.value, mean.value - below, mean.value + above)
        fact = replace(fact, value=mean.value, low=mean.low, high=mean.high)
    return fact


def _own_widths(facts: Sequence[Fact]) -> Sequence[float] | None:
    """How far the intervals of the runs themselves reach below and above, in the mean."""
    ends = [
        (fact.value - fact.low, fact.high - fact.value)
        for fact in facts
        if _is_number(fact.value) and fact.low is not None and fact.high is not None
    ]
    found: list[float] | None = np.mean(ends, axis=0).tolist() if ends else None
    return found


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def warnings_over_seeds(runs: Sequence[Run]) -> list[str]:
    """Warnings of all seeds; of those that differ in numbers only, one, with how many have it."""
    seen: dict[str, tuple[str, int]] = {}
    for run in runs:
        for kind, text in {re.sub(r"[\d.,]+", "#", text): text for text in run.warnings}.items():
            first, count = seen.get(kind, (text, 0))
            seen[kind] = (first, count + 1)
    return [
        text if count == len(runs) else f"with {count} of {len(runs)} seeds: {text}"
        for text, count in seen.values()
    ]
