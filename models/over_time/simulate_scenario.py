"""Simulate a scenario file of any kind.

A file without `kind`, or with `kind: node`, describes one node in a steady state. The other kinds
run over minutes and hours and answer with a `Run` for each point of their sweep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from forecache.sim.effort import check_work
from forecache.sim.errors import IncompleteError, InputError
from forecache.sim.processes import processes

from ..advice import answers
from ..advice.answers import ScenarioSource, name_of
from ..advice.node_answers import Simulated
from ..prediction.predict import Progress
from ..results.provenance import provenance
from ..results.series import RunsOverTime
from ..scenario.kinds import KINDS, NODE, check_kind
from ..scenario.source import content_of
from ..scenario.sweeps import Case, expand
from .kept_runs import KeptRuns
from .run_effort import work_of
from .runs import check_seeds, run_points

_MOST_NAMED = 10
"""Missing runs that a message names."""


def kind_of(data: Mapping[str, Any], *, file: str) -> str:
    """The kind of a scenario.

    Raises
    ------
    InputError
        There is no such kind, or another verb is for it.
    """
    return check_kind(
        data, file=file, valid=[NODE, *(name for name, kind in KINDS.items() if kind.run_at)]
    )


def runs_over_time(source: ScenarioSource) -> bool:
    """Whether a scenario answers with series over time; False for a node in a steady state.

    Raises
    ------
    InputError
        The file can't be read, or its kind is unknown.
    """
    file, data = _read(source)
    return kind_of(data, file=file) != NODE


def _read(source: ScenarioSource) -> tuple[str, dict[str, Any]]:
    """What to call a scenario in messages, and its fields."""
    return name_of(source), content_of(source)


def _check_work(
    cases: Sequence[Case[Any]], *, seeds: int, workers: int, progress: Progress | None
) -> None:
    """Say how long all runs take, or refuse them."""
    works = [work_of(case.scenario) for case in cases]
    seconds = seeds * sum(work for work, _ in works)
    longest = max(works)[1]
    runs = len(cases) * seeds
    check_work(
        seconds,
        longest if runs == 1 else f"{runs} runs, the longest {longest}",
        smaller="fewer points or seeds, a shorter time or longer steps",
        progress=progress,
        workers=workers,
    )


def simulate(
    source: ScenarioSource,
    *,
    seed: int = 1,
    seeds: int = 1,
    jobs: int | None = None,
    executor: Executor | None = None,
    resume: str | Path | None = None,
    progress: Progress | None = None,
) -> Simulated | RunsOverTime:
    """Simulate every point of a scenario of any kind.

    The result does not depend on where it runs, on how many run at once, or on which ends first.

    Parameters
    ----------
    seed
        The first seed.
    seeds
        Replications of a scenario that runs over time, each with a seed of its own.
    jobs
        How many at a time without an executor: forked processes. If it is None, runs over time
        follow each other here, and those of a node take all cores.
    executor
        Where to run.
    resume
        Folder of results that are done, of runs over time: what it holds is not simulated again,
        and what is simulated is kept there.

    Returns
    -------
    Simulated or RunsOverTime
        For a node, or for what runs over time.

    Raises
    ------
    InputError
        The file or a field of it is not valid, or replications are asked of a node.
    IncompleteError
        Workers were killed; `result` has the points that are there.
    """
    file, data = _read(source)
    if kind_of(data, file=file) != NODE:
        return simulate_over_time(
            source,
            seed=seed,
            seeds=seeds,
            jobs=jobs,
            executor=executor,
            resume=resume,
            progress=progress,
        )
    check_seeds(seed, seeds)
    if seeds > 1:
        raise InputError(
            f"{file}: found {seeds} seeds for a node in a steady state, whose intervals come "
            "from replications of its own; valid is 1."
        )
    if resume is not None:
        raise InputError(f"{file}: found a folder to resume for a node; valid is none.")
    return answers.simulate(source, seed=seed, jobs=jobs, executor=executor, progress=progress)


def simulate_over_time(
    source: ScenarioSource,
    *,
    seed: int = 1,
    seeds: int = 1,
    jobs: int | None = None,
    executor: Executor | None = None,
    resume: str | Path | None = None,
    progress: Progress | None = None,
) -> RunsOverTime:
    """Simulate every point of a scenario that runs over time, as `simulate` does."""
    file, data = _read(source)
    name = check_kind(data, file=file, valid=[name for name, kind in KINDS.items() if kind.run_at])
    numbers = check_seeds(seed, seeds)
    cases = expand(data, file=file, schema=KINDS[name].schema)
    own = 1 if executor is not None else min(jobs or 1, seeds * len(cases))
    try:
        _check_work(cases, seeds=seeds, workers=own, progress=progress)
        with processes(own) as pool:
            runs = run_points(
                KINDS[name].run,
                cases,
                seeds=numbers,
                executor=executor or pool,
                report=progress or (lambda _line: None),
                kept=None if resume is None else KeptRuns(Path(resume)),
            )
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    result = RunsOverTime(
        kind=name,
        scenario=cases[0].scenario.model_dump(mode="json", exclude_none=True),
        seeds=seeds,
        points=runs.points,
        provenance=provenance(seed=seed),
        missing=runs.missing,
    )
    if runs.missing:
        raise _incomplete(result, of=len(cases) * seeds, resume=resume)
    return result


def _incomplete(result: RunsOverTime, *, of: int, resume: str | Path | None) -> IncompleteError:
    """The error for runs whose workers were lost."""
    again = (
        "run it again with resume (--resume) and a folder for finished runs"
        if resume is None
        else f"finished runs are in {resume}: run it again"
    )
    missing = result.missing
    names = "; ".join(missing[:_MOST_NAMED]) + ("; …" if len(missing) > _MOST_NAMED else "")
    return IncompleteError(
        f"a worker was killed, most likely because memory ran out: {len(missing)} of {of} runs are "
        f"missing ({names}); {again}, with fewer at a time (--jobs) where memory is short.",
        result=result,
    )
