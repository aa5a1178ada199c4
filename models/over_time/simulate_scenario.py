"""Simulate a scenario file of any kind.

A file without `kind`, or with `kind: node`, describes one node in a steady state. The other kinds
run over minutes and hours and answer with a `Run` for each point of their sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from forecache.sim.effort import check_memory, check_work
from forecache.sim.errors import IncompleteError, InputError
from forecache.sim.processes import processes

from ..advice import answers
from ..advice.node_answers import Simulated
from ..prediction.predict import Progress
from ..results.displayed import provenance
from ..results.series import RunsOverTime
from ..scenario.source import KINDS, NODE, ScenarioSource, read_scenario
from ..scenario.sweeps import Case, expand
from .cluster.schema import ClusterScenario
from .kept_runs import KeptRuns
from .large_commands.scenario import LargeCommands
from .overcommit.schema import OvercommitScenario
from .runs import check_seeds, run_points
from .serverless.schema import ServerlessScenario

_MOST_NAMED = 10
"""Missing runs that a message names."""


def _over_time() -> list[str]:
    """Kinds that run over time."""
    return [name for name, kind in KINDS.items() if kind.run_at]


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
    given = read_scenario(source)
    file = given.name
    if given.kind([NODE, *_over_time()]) != NODE:
        return simulate_over_time(
            given,
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
    return answers.simulate(given, seed=seed, jobs=jobs, executor=executor, progress=progress)


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
    given = read_scenario(source)
    file, name = given.name, given.kind(_over_time())
    numbers = check_seeds(seed, seeds)
    cases = expand(given.data, file=file, schema=KINDS[name].schema)
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


# --- how long runs take ---------------------------------------------------------------------------


_SURROGATE_S = 3.0
"""Simulating what one kind of node can do, where no earlier run left it."""

_STEP_S = 3e-4
"""A step of a cluster's load, with the events in between."""

_NODE_STEP_S = 1.2e-6
"""What each node adds to it."""

_CACHE_STEP_S = 6e-4
"""What a cache beside a database adds."""

_MACHINE_STEP_S = 1.5e-7
"""A machine of a fleet in a step."""

_ARRIVAL_S = 3e-4
"""A machine that comes, moves or goes."""

_LARGE_COMMANDS_S = 5.0

_BYTES_OF_A_MACHINE = 2_000.0
_BYTES_OF_A_BURST = 120.0


def work_of(scenario: Any) -> tuple[float, str]:
    """Seconds of one core that a run takes, estimated, and what it is of; 0 where unknown.

    Raises
    ------
    InputError
        It would take more memory than a run may.
    """
    estimate = _WORK.get(type(scenario))
    return (0.0, "a run") if estimate is None else estimate(scenario)


def _cluster(scenario: ClusterScenario) -> tuple[float, str]:
    nodes = scenario.cluster.shards * (1 + scenario.cluster.replicas)
    most = max([scenario.cluster.shards, *_shards_of(scenario)])
    each_s = _STEP_S + most * (1 + scenario.cluster.replicas) * _NODE_STEP_S
    if scenario.cache is not None:
        each_s += _CACHE_STEP_S
    clients = scenario.clients
    longest_s = max(clients.backoff.cap_s if clients.retries else 0.0, clients.timeout_s)
    steps_ahead = (longest_s + clients.connect_timeout_s) / scenario.step
    check_memory(
        8.0 * steps_ahead * nodes * (clients.retries + 1),
        "clients.timeout_s",
        found=clients.timeout_s,
        smaller="shorter time-outs and backoffs, or a longer step_s",
    )
    steps = scenario.duration_s / scenario.step
    return _SURROGATE_S + steps * each_s, (
        f"{scenario.duration_s:,.6g} s of a cluster with {scenario.cluster.shards} shards in "
        f"steps of {scenario.step:g} s"
    )


def _shards_of(scenario: ClusterScenario) -> list[int]:
    """What events make of the number of shards."""
    return [getattr(event, "shards", 1) for event in scenario.events]


def _serverless(scenario: ServerlessScenario) -> tuple[float, str]:
    nodes = 2 * max(scenario.shards, 30)
    each_s = 2 * _STEP_S + nodes * _NODE_STEP_S
    steps = scenario.duration_s / scenario.step_s
    return 6 * _SURROGATE_S + steps * each_s, (
        f"{scenario.duration_s:,.6g} s of a serverless cache in steps of {scenario.step_s:g} s"
    )


def _overcommit(scenario: OvercommitScenario) -> tuple[float, str]:
    machines, demand = scenario.machines, scenario.demand
    hours = scenario.duration_s / 3600.0
    come = machines.arrivals_per_hour * hours
    every = machines.count + come
    check_memory(
        _BYTES_OF_A_MACHINE * every,
        "machines.arrivals_per_hour" if come > machines.count else "machines.count",
        found=f"{every:,.4g} machines in all",
        smaller="fewer of them",
    )
    check_memory(
        _BYTES_OF_A_BURST * every * demand.bursts.per_day * hours / 24.0,
        "demand.bursts.per_day",
        found=f"{demand.bursts.per_day:g} for {every:,.4g} machines over {hours:,.4g} h",
        smaller="fewer of them",
    )
    steps = scenario.duration_s / scenario.step_s
    looks = scenario.duration_s / scenario.heat.look_every_s
    seconds = (
        steps * (_STEP_S + every * _MACHINE_STEP_S)
        + looks * (_STEP_S + scenario.hosts.count * _MACHINE_STEP_S)
        + every * _ARRIVAL_S
    )
    return seconds, (
        f"{hours:,.4g} h of {every:,.6g} machines on {scenario.hosts.count:,} hosts in steps of "
        f"{scenario.step_s:g} s"
    )


def _large_commands(scenario: LargeCommands) -> tuple[float, str]:
    return _LARGE_COMMANDS_S, f"{len(scenario.commands)} large commands"


_WORK: dict[type[Any], Callable[[Any], tuple[float, str]]] = {
    ClusterScenario: _cluster,
    ServerlessScenario: _serverless,
    OvercommitScenario: _overcommit,
    LargeCommands: _large_commands,
}
