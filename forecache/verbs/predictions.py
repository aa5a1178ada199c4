"""Predictions of a node, and of what runs over time."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..notebook import with_progress_bar
from .shared import DEFAULT_SEED, AskedReport, Progress, Scenario

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from forecache.models.advice.compare import NodeComparison
    from forecache.models.advice.node_answers import Explained, Recommended, Simulated
    from forecache.models.large_sweeps.sweep import SweptPoints
    from forecache.models.plan.results import PlanAnswer
    from forecache.models.results.series import RunsOverTime
    from forecache.models.scenario.source import ScenarioFile


@with_progress_bar
def simulate(
    scenario: Scenario,
    *,
    report: str | Path | None = None,
    seed: int = DEFAULT_SEED,
    seeds: int = 1,
    jobs: int | None = None,
    executor: "Executor | None" = None,
    resume: str | Path | None = None,
    progress: Progress | None = None,
) -> "Simulated | RunsOverTime":
    """Simulate every point of a scenario's sweep.

    Parameters
    ----------
    scenario
        Path of a scenario file, or a mapping of the same shape.
    report
        File for the answer with its scenario and how to repeat it: HTML or PDF, as it ends in .html
        or .pdf.
    seed
        Seed of all random streams; the same seed gives the same result.
    seeds
        Replications of a scenario that runs over time, with this many seeds from `seed` on: every
        fact then has a 95% interval, and at each further point of a sweep the paired difference
        to the first.
    jobs
        Simulations at a time, which does not change the result. They are forked processes. By
        default those of a scenario that runs over time follow each other in this process, and a
        node has one per core; where this process has several threads, a node's are threads too.
    executor
        Where to run instead: any `concurrent.futures.Executor`, such as `get_executor()` of a
        `dask.distributed.Client`. It does not change the result either.
    resume
        Folder that keeps the result of each run over time as soon as it is there; runs whose
        result it has are not simulated again.
    progress
        Called with one sentence for every step.

    Returns
    -------
    Simulated or RunsOverTime
        `scenario`, `host`, `engine`, `points` (one per point of the sweep) and `provenance`. A
        point has `given` (the swept fields), `throughput_rps` and `mean_ms` to `p999_ms` (each
        `value`, `low` and `high`, of a 95% interval), `p99_with_pauses_ms` and
        `p999_with_pauses_ms` (with the host's long pauses), utilisations from 0 to 1, `bottleneck`,
        `next_bottleneck`, `verdict`, `unmet` (what does not hold), `warnings`, `stages` (where the
        server's CPU time goes) and `uncertainty` (relative half widths of the interval's parts). Of
        a scenario that runs over time (`kind` other than node) `kind`, `scenario`, `seeds`,
        `points` (each with `series`, `marks`, `facts` and `tables`) and `provenance`.

    Raises
    ------
    InputError
        When the scenario, or a profile it names, can't be read; or `report` can't be written.
    IncompleteError
        Workers were killed; its `result` has the finished points, and `missing`.
    """
    from forecache.models.over_time.simulate_scenario import simulate as run

    how: dict[str, Any] = {
        "seed": seed,
        "seeds": seeds,
        "jobs": jobs,
        "executor": executor,
        "resume": resume,
        "progress": progress,
    }
    from forecache.sim.errors import IncompleteError

    written = AskedReport(report, "simulate", scenario, options={"--seed": seed})
    try:
        result = run(scenario, **how)
    except IncompleteError as error:
        if error.result.points:
            written.write(error.result)
        raise
    written.write(result)
    return result


@with_progress_bar
def sweep(
    scenario: Scenario,
    out: str | Path,
    *,
    nominal: bool = False,
    batch: int | None = None,
    seed: int = DEFAULT_SEED,
    seeds: int = 1,
    jobs: int | None = None,
    scheduler: str | None = None,
    executor: "Executor | None" = None,
    progress: Progress | None = None,
) -> "SweptPoints":
    """Answer every point of a large sweep and write the answers to Parquet files.

    Parameters
    ----------
    scenario
        Path of a scenario file of any kind, or a mapping of the same shape.
    out
        Folder for the files. If it holds some of the same sweep, what is missing is answered.
    nominal
        Of a node: one run at the nominal numbers for each point, without intervals.
    batch
        Points of a file, at most so many of which an interruption costs.
    seed
        Seed of all random streams, the same for every point.
    seeds
        Replications of a scenario that runs over time; its facts then have 95% intervals.
    jobs
        Points at a time, in forked processes; as many as cores if left out.
    scheduler
        Address of a Dask scheduler, whose workers answer the points.
    executor
        Where to run instead: any `concurrent.futures.Executor`.
    progress
        Called with one sentence for every step, with the rate and an estimate of what remains.

    Returns
    -------
    SweptPoints
        `folder`, `kind`, `points`, how many were `found` there and `answered` now, `files`,
        `batch`, `columns` (each `name` and `type`), `unmet` (at how many points of a node something
        does not hold), `seconds` and `provenance`. The rows are in the
        files: one for each point with `point` (its number), the swept fields and the answer; of
        what runs over time one for each fact.

    Raises
    ------
    InputError
        When the scenario or a point of it is not valid, a package is missing, or the folder holds
        something else.
    EngineError
        When the scheduler does not answer.
    IncompleteError
        Workers were killed again and again; whole batches are in the folder.
    """
    from forecache.models.large_sweeps.sweep import sweep as run
    from forecache.sim.errors import InputError

    how: dict[str, Any] = {
        "seed": seed,
        "seeds": seeds,
        "nominal": nominal,
        "batch": batch,
        "progress": progress,
    }
    if scheduler is None:
        return run(scenario, out, jobs=jobs, executor=executor, **how)
    if executor is not None or jobs is not None:
        raise InputError("found scheduler with jobs or an executor; valid is one of them.")
    from forecache.sim.dask_cluster import dask_cluster

    with dask_cluster(scheduler) as cluster:
        return run(scenario, out, executor=cluster.executor, threads=cluster.threads, **how)


@with_progress_bar
def recommend(
    scenario: Scenario | None = None,
    *,
    from_info: Sequence[str | Path] = (),
    host: str | None = None,
    node: Scenario | None = None,
    emit: str | Path | None = None,
    report: str | Path | None = None,
    seed: int = DEFAULT_SEED,
    progress: Progress | None = None,
) -> "Recommended | PlanAnswer":
    """Recommend the number of I/O threads for a scenario, with the regret of every other choice.

    If `host`, `engine` or `engine_version` is a list, `{sweep: [...]}`, hosts, engines and versions
    are compared as well, by the cost of a node that meets the slo.

    Parameters
    ----------
    scenario, report, seed, progress
        As in `simulate`. A report is written even where no setting meets the `slo`.
    from_info, host, node
        In place of a scenario: files with what today's nodes say of themselves, what they run on,
        and other fields of a node's scenario, as in `plan`. The load is today's peak.
    emit
        Folder to write the files of the thread plan into, which must not exist or be empty. Nothing
        is written where nothing is recommended.

    Returns
    -------
    Recommended
        What `simulate` returns, and `recommendation`: the `setting` to run, or `closest` where none
        is recommended, its numbers with intervals, `regret` of every other setting, `slo`,
        `measure_next` and the `thread_plan`: lists of CPUs, `files` and the `gain` over threads
        left to the kernel.
    PlanAnswer
        What `plan` returns, for lists of hosts, engines or versions.

    Raises
    ------
    InputError
        As `simulate`; or `emit` is asked for of several hosts or engines, or of one that only a
        service runs.
    InfeasibleError
        When no setting meets the scenario's `slo`; its attribute `result` is the whole answer.
    """
    from forecache.models.advice.answers import recommend as run
    from forecache.models.advice.cases import machine_lists
    from forecache.models.scenario.source import read_scenario
    from forecache.sim.errors import InfeasibleError, InputError

    if (scenario is None) != bool(from_info):
        raise InputError("found no scenario or both; valid is a scenario, or from_info.")
    given = None if scenario is None else read_scenario(scenario)
    if emit is not None and given is not None:
        _check_emit(given, Path(emit))
    sources = () if scenario is None else (scenario,)
    written = AskedReport(report, "recommend", *sources, options={"--seed": seed})
    try:
        if given is None:
            from forecache.calibration.today.answer import recommended_today

            told: dict[str, Any] = {"host": host, "node": node, "seed": seed}
            result = recommended_today(from_info, progress=progress, **told)
            written.write(result)
            return result
        if machine_lists(given.data):
            from forecache.models.plan.one_node import recommend_machines

            compared = recommend_machines(given, seed=seed, progress=progress)
            written.write(compared)
            return compared
        result = run(given, seed=seed, progress=progress)
    except InfeasibleError as error:
        if error.result is not None:
            written.write(error.result)
        raise
    written.write(result)
    plan = result.recommendation.thread_plan
    if emit is not None and plan is not None:
        from forecache.output import write_folder

        write_folder(Path(emit), plan.files)
    return result


def _check_emit(scenario: "ScenarioFile", emit: Path) -> None:
    """Refuse the files of a thread plan where there is none, before anything is simulated."""
    from forecache.models.advice.cases import load_cases
    from forecache.models.advice.configuration import can_be_placed
    from forecache.models.plan.one_node import check_one_node
    from forecache.output import check_folder_target
    from forecache.sim.errors import InputError

    check_folder_target(emit, option="emit", must_be_new=True)
    check_one_node(scenario, why="emit writes the files of one node")
    engine = load_cases(scenario)[0][1].engine
    if not can_be_placed(engine):
        raise InputError(
            f"{scenario.name}: {engine.id} has no thread plan, since a service runs it; emit "
            "takes redis, valkey and memcached."
        )


@with_progress_bar
def explain(
    scenario: Scenario,
    *,
    timeline: str | Path | None = None,
    sensitivity: bool = False,
    report: str | Path | None = None,
    seed: int = DEFAULT_SEED,
    progress: Progress | None = None,
) -> "Explained":
    """Show where the time of one request goes, stage by stage, and where each number comes from.

    Parameters
    ----------
    scenario, report, seed, progress
        As in `simulate`.
    timeline
        File to write what every thread does in a millisecond to, as Chrome trace events, which
        ui.perfetto.dev and chrome://tracing open.
    sensitivity
        Also simulate which inputs move the point to look at, which takes a minute or two:
        total-order Sobol indices of its uncertain numbers and of what a user can choose.

    Returns
    -------
    Explained
        What `simulate` returns; per point `latency_breakdown`, its latency station by station;
        `shown`, the index of the point to look at and whether it is the recommended one, or only
        closest to an `slo` that none meets; `timeline`, what was written; `numbers`;
        `measure_next`: what each measurement would narrow; and `sensitivity`.

    Raises
    ------
    InputError
        As `simulate`, or nothing can be traced.
    """
    from forecache.models.advice.answers import explain as run

    written = AskedReport(
        report, "explain", scenario, options={"--sensitivity": sensitivity, "--seed": seed}
    )
    result = run(scenario, timeline=timeline, sensitivity=sensitivity, seed=seed, progress=progress)
    written.write(result)
    return result


@with_progress_bar
def compare(
    before: Scenario,
    after: Scenario,
    *,
    report: str | Path | None = None,
    seed: int = DEFAULT_SEED,
    progress: Progress | None = None,
) -> "NodeComparison":
    """Predict two scenarios of nodes, and what the second gains or loses against the first.

    Parameters
    ----------
    before, after
        Paths of scenario files, or mappings of the same shape. One that sweeps io_threads stands
        for the setting that `recommend` chooses.
    report
        As in `simulate`.
    seed
        Seed of all random streams, the same for both.
    progress
        Called with one sentence for every step.

    Returns
    -------
    NodeComparison
        `first` and `second` (`name`, `scenario`, `host`, `engine`, `point`), `differences` (each
        `quantity`, `first` and `second` with intervals, their `ratio` with the 95% interval of a
        pair, `verdict`: higher, lower or no clear difference) and `provenance`.

    Raises
    ------
    InputError
        When a scenario is not valid, or sweeps something else than io_threads.
    """
    from forecache.models.advice.compare import compare as run

    written = AskedReport(report, "compare", before, after, options={"--seed": seed})
    result = run(before, after, seed=seed, progress=progress)
    written.write(result)
    return result


def explore(
    scenario: Scenario,
    *,
    port: int = 0,
    seed: int = DEFAULT_SEED,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a page with controls for a scenario and figures that follow them, until interrupted.

    Parameters
    ----------
    scenario
        Path of a scenario file, or a mapping of the same shape, of a node. Of a sweep over
        io_threads the page begins with the quick estimates' knee.
    port
        On loopback; 0 takes any that is free.
    seed
        Seed of all random streams; the same seed gives the same result.
    ready
        Called with the page's address, which holds a random token, once it can be opened.

    Returns
    -------
    None
        After Ctrl-C. `--json` prints `address` as soon as the page can be opened.

    Raises
    ------
    InputError
        When the scenario can't be read, is of another kind or sweeps another field; the port is
        taken; or a package of the extra `explore` is missing.
    """
    from forecache.hwprofiles.named_files import with_absolute_paths
    from forecache.models.scenario.source import content_of
    from forecache.reports.explore.job import start_of
    from forecache.reports.explore.server import Explorer, serve

    file = "scenario" if isinstance(scenario, Mapping) else str(scenario)
    # The page saves it wherever the browser does.
    begins = with_absolute_paths(start_of(content_of(scenario), file=file))
    serve(Explorer(begins, seed=seed), port=port, ready=ready or (lambda _address: None))
