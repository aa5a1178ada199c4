"""The verbs of the command line as Python functions.

Each one is thin: it imports the room that does the work when it is called, so that importing
`forecache` is quick, and passes plain arguments on. Scenarios, datasets and bundles are paths; a
scenario may also be a mapping of the same shape as the file, in which lists may be ranges, arrays
or series, and numbers NumPy's. What each verb says under Returns also stands in `docs/cli.md`, as
the shape of what `--json` prints: that is what `to_dict` of the result returns. `catalog` returns a
plain dictionary.

`progress` is called with one sentence for every step of long work; None keeps it silent, but in a
notebook, where it is a bar.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .notebook import with_progress_bar

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from forecache.calibration.bundle.bundle import Bundle
    from forecache.calibration.check.answers import CheckAnswer
    from forecache.calibration.doctor.abilities import Diagnosis
    from forecache.calibration.fit.report import CalibrationReport
    from forecache.calibration.observe.tool_profile import ToolReport
    from forecache.calibration.validate.articles import JudgedClaims
    from forecache.calibration.validate.comparison import Validation
    from forecache.hwprofiles.schema import HostProfile
    from forecache.models.advice.compare import NodeComparison
    from forecache.models.advice.node_answers import Explained, Recommended, Simulated
    from forecache.models.cost.answer import CostAnswer
    from forecache.models.engines.profile import EngineProfile
    from forecache.models.footprint.answers import MemoryAnswer
    from forecache.models.large_sweeps.sweep import SweptPoints
    from forecache.models.plan.results import PlanAnswer, TodayAnswer
    from forecache.models.results.series import RunsOverTime
    from forecache.reports.study_answer import Study

Progress = Callable[[str], None]
Scenario = str | Path | Mapping[str, Any]

DEFAULT_SEED = 1

ARTICLES = ("articles", "seeds")
"""Names under which `validate` knows the claims of articles."""


class _Report:
    """A report that is asked for, or not: refused before any work, written after it."""

    def __init__(
        self,
        file: str | Path | None,
        verb: str,
        *sources: Scenario,
        options: Mapping[str, object],
    ) -> None:
        from forecache.output import check_report_target

        self._file = None if file is None else check_report_target(Path(file))
        self._verb, self._sources, self._options = verb, sources, options

    def write(self, answer: Any) -> None:
        """Write it, with what was asked where the answer itself doesn't hold that."""
        if self._file is None:
            return
        from forecache.reports.export.write import write_report
        from forecache.reports.page.html import holds_question
        from forecache.reports.text.repeat import asked

        question = None
        if not holds_question(answer):
            question = asked(self._verb, *self._sources, options=self._options)
        write_report(self._file, answer, question)


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
        `next_bottleneck`, `verdict`, `warnings`, `stages` (where the server's CPU time goes) and
        `uncertainty` (relative half widths of the interval's parts). Of a scenario that runs over
        time (`kind` other than node) `kind`, `scenario`, `seeds`, `points` (each with `series`,
        `marks`, `facts` and `tables`) and `provenance`.

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

    written = _Report(report, "simulate", scenario, options={"--seed": seed})
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
    """Answer every point of a large sweep and write the answers to Parquet files as they come.

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
        `batch`, `columns` (each `name` and `type`), `seconds` and `provenance`. The rows are in the
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
    scenario: Scenario,
    *,
    emit: str | Path | None = None,
    report: str | Path | None = None,
    seed: int = DEFAULT_SEED,
    progress: Progress | None = None,
) -> "Recommended | PlanAnswer":
    """Recommend the number of I/O threads for a scenario, with the regret of every other choice.

    Where `host`, `engine` or `engine_version` is a list, `{sweep: [...]}`, it is hosts, engines and
    versions that are compared as well, by what one node costs that meets the slo.

    Parameters
    ----------
    scenario, report, seed, progress
        As in `simulate`. A report is written even where no setting meets the `slo`.
    emit
        Folder to write the files of the thread plan into, which must not exist or be empty. Nothing
        is written where nothing is recommended.

    Returns
    -------
    Recommended
        What `simulate` returns, and `recommendation`: the `setting` to run, or `closest` where none
        is recommended, its numbers with intervals, `regret` of every other setting, `slo`,
        `measure_next` and the `thread_plan`: lists of CPUs, `files` and the `gains` of each piece.
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
    from forecache.models.plan.one_node import recommended
    from forecache.sim.errors import InfeasibleError

    if emit is not None:
        _check_emit(scenario, Path(emit))
    written = _Report(report, "recommend", scenario, options={"--seed": seed})
    try:
        compared = recommended(scenario, seed=seed, progress=progress)
        if compared is not None:
            written.write(compared)
            return compared
        result = run(scenario, seed=seed, progress=progress)
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


def _check_emit(scenario: Scenario, emit: Path) -> None:
    """Refuse files of a thread plan for what has none, before anything is simulated."""
    from forecache.models.advice.answers import load_cases, name_of
    from forecache.models.advice.thread_plan.lines import can_be_placed
    from forecache.models.plan.one_node import check_one_node
    from forecache.output import check_folder_target
    from forecache.sim.errors import InputError

    check_folder_target(emit, option="emit", must_be_new=True)
    check_one_node(scenario, why="emit writes the files of one node")
    engine = load_cases(scenario)[0][1].engine
    if not can_be_placed(engine):
        raise InputError(
            f"{name_of(scenario)}: {engine.id} has no thread plan, since a service runs it; emit "
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
        What `simulate` returns; per point `journey`, its latency station by station; `shown`, the
        index of the point to look at and whether it is the recommended one, or only closest to an
        `slo` that none meets; `timeline`, what was
        written; `numbers`; `measure_next`: what each measurement would narrow; and `sensitivity`.

    Raises
    ------
    InputError
        As `simulate`, or nothing can be traced.
    """
    from forecache.models.advice.answers import explain as run

    written = _Report(
        report, "explain", scenario, options={"--sensitivity": sensitivity, "--seed": seed}
    )
    result = run(scenario, timeline=timeline, sensitivity=sensitivity, seed=seed, progress=progress)
    written.write(result)
    return result


@with_progress_bar
def check(
    scenario: Scenario,
    files: Sequence[str | Path] = (),
    *,
    info_before: str | Path | None = None,
    info_after: str | Path | None = None,
    run: str | None = None,
    tool: str | None = None,
    seconds: float = 5.0,
    repetitions: int = 3,
    write: bool = False,
    at: Mapping[str, Any] | None = None,
    only: Sequence[str] = (),
    seed: int = DEFAULT_SEED,
    progress: Progress | None = None,
) -> "CheckAnswer":
    """Compare a prediction with what was measured, and say what explains the difference.

    Parameters
    ----------
    scenario, seed, progress
        As in `simulate`.
    files
        JSON of memtier_benchmark, CSV of valkey-benchmark or redis-benchmark, or YAML or JSON with
        `throughput_rps`, `p50_ms`, `p99_ms`, `server_cpu_us` and the like; several files, and
        several numbers, are repetitions.
    info_before, info_after
        Files with the server's INFO before and after the measurement.
    run
        Measure now, against this address: `HOST:PORT`, or the path of a Unix socket.
    tool, seconds, repetitions
        With `run`: the benchmark tool, how long a repetition is to take, how many there are.
    write
        With `run`: fill the server with the scenario's keys first, and allow SETs.
    at
        The swept fields of the point that was measured, where the scenario has several.
    only
        Quantities to compare; all that were measured if left out.

    Returns
    -------
    CheckAnswer
        `scenario`, `host`, `engine`, `given`, `sources`; `holds`; `quantities` (each `predicted`
        with its interval, `measured`, `lowest` and `highest` repetition, `ratio`, `inside`);
        `differs`, the conditions that are not the scenario's; `causes`, the likeliest first
        (`station`, `what`, `evidence`, `explains`, what is `predicted` with it, `next_step`);
        `ruled_out`; `measure_next`; `updated`, each point of the scenario once the measurement is
        known, and `updated_for`; `warnings` and `provenance`.

    Raises
    ------
    InputError
        When the scenario or a file can't be read, or an option doesn't fit.
    EngineError
        When nothing answers at `run`, or the benchmark fails.
    """
    from forecache.calibration.check.check import check as compare
    from forecache.calibration.check.live import LiveRun
    from forecache.sim.errors import InputError

    if (info_before is None) != (info_after is None):
        raise InputError("found one of --info-before and --info-after; valid is both or none.")
    info = None
    if info_before is not None and info_after is not None:
        info = info_before, info_after
    live = None if run is None else LiveRun(run, tool, seconds, repetitions, write)
    return compare(
        scenario,
        files,
        info=info,
        live=live,
        at=at,
        only=only,
        seed=seed,
        progress=progress,
    )


def memory(scenario: Scenario) -> "MemoryAnswer":
    """Compute the memory footprint of a scenario's data, and how many keys fit.

    Parameters
    ----------
    scenario
        Path of a scenario of `kind: memory`, or of a node's, whose keys and values are used; or a
        mapping of the same shape.

    Returns
    -------
    MemoryAnswer
        `kind`, `points` and `provenance`. Each point has used memory in all states, `populations`
        with bytes per key by part, what the node holds `beside` data, resident memory, and `fits`.

    Raises
    ------
    InputError
        When the scenario is not valid, or the memory of its engine isn't known.
    """
    from forecache.models.footprint.answers import memory as run

    return run(scenario)


def cost(scenario: Scenario) -> "CostAnswer":
    """Compute what a cache costs a month, serverless and as nodes.

    Parameters
    ----------
    scenario
        Path of a scenario of `kind: cost`, or a mapping of the same shape.

    Returns
    -------
    CostAnswer
        `kind`, `scenario`, `prices` and `points`: each with `serverless`, `nodes`, `break_even`.

    Raises
    ------
    InputError
        When the scenario is not valid, or the price table lacks a price.
    """
    from forecache.models.cost.answer import cost as run

    return run(scenario)


@with_progress_bar
def plan(
    scenario: Scenario | None = None,
    *,
    from_info: Sequence[str | Path] = (),
    from_bill: Sequence[str | Path] = (),
    cache: str | None = None,
    host: str | None = None,
    node: Scenario | None = None,
    ceiling: str | Path | None = None,
    search: bool = True,
    report: str | Path | None = None,
    seed: int = DEFAULT_SEED,
    full: bool = False,
    progress: Progress | None = None,
) -> "PlanAnswer | TodayAnswer":
    """Find which machines, how many shards and which engine meet a demand, the cheapest first.

    Parameters
    ----------
    scenario
        Path of a scenario of `kind: plan`, or a mapping of the same shape. With `from_info` or
        `from_bill` it may leave out `demand`, and may be left out itself.
    from_info
        Files with what today's nodes say of themselves (INFO ALL, CONFIG GET * and others), RDB
        files, and what `--bigkeys` and `--memkeys` print; they fill in `demand` and `today`.
    from_bill
        CSV files, packed with gzip or not: exports of AWS's cost and usage report, which fill in
        `today` and its cost, and CloudWatch metrics of the nodes, which fill in `demand`.
    cache
        With `from_bill`: the cache that is meant, where there are several.
    host
        With one of these: what the nodes run on, an instance, a host or its file.
    node
        With one of these: file or mapping with other fields of a node's scenario that INFO can't
        tell, such as `irq_cores`.
    ceiling
        With one of these: file for the highest load of a node that meets the objective, as JSON if
        its name ends in .json, else in the text format of Prometheus.
    search
        Whether to look for plans; False only with one of these.
    report
        As in `simulate`, with cost against headroom as a figure.
    seed
        Seed of all random streams; the same seed gives the same result.
    full
        Simulate every number of shards and threads of everything that may be chosen, which takes
        minutes, in place of the search.
    progress
        Called with one sentence for every step.

    Returns
    -------
    PlanAnswer
        `plans`, the cheapest first: each has a `setting`, `usd_per_month`, the state of a node
        `now` and at the `horizon` (load, headroom, memory, latencies with intervals, `probability`
        that the objective is met), `milestones` of growth and `failures`. `excuses` say why
        alternatives to the first plan were turned down, `front` has cost against headroom, `today`
        what runs now, `serverless` the bills of serverless caches; `not_offered`, `search`,
        `warnings`, `provenance`; `compression` what values that clients compress change. With
        `from_info` also that, `demand`, `today`, how each field is `known`, what is `unknown` or
        `not_used`, `latencies`, and the `ceiling` where the host is known; with `from_bill` that
        too: caches with their lines, lines that have no place, and both bills `compared`. Without
        a search a `TodayAnswer` of these and `provenance`.

    Raises
    ------
    InputError
        When a file is not valid, or it names what is not known.
    InfeasibleError
        When nothing that may be chosen meets the objectives; its `result` says why.
    """
    from forecache.sim.errors import InfeasibleError

    how: dict[str, Any] = {"seed": seed, "full": full, "progress": progress}
    written = _Report(report, "plan", options={})
    try:
        if from_info or from_bill:
            from forecache.calibration.today.answer import today

            how |= {"asked_ceiling": ceiling is not None, "search": search}
            how |= {"bill": from_bill, "cache": cache}
            result = today(from_info, scenario, host=host, node=node, **how)
        else:
            from forecache.models.plan.answer import plan as run

            others = {"host": host, "node": node, "ceiling": ceiling, "cache": cache}
            alone = _without_info(scenario, search=search, **others)
            result = run(alone, **how)
    except InfeasibleError as error:
        written.write(error.result)
        _write_ceiling(error.result, ceiling)
        raise
    if search:
        written.write(result)
    _write_ceiling(result, ceiling)
    return result


def _without_info(scenario: Scenario | None, *, search: bool, **others: Any) -> Scenario:
    """The scenario; refuses what only has a meaning with `from_info` or `from_bill`."""
    from forecache.sim.errors import InputError

    given = [name for name, value in others.items() if value is not None]
    if not search:
        given.append("search")
    if given:
        raise InputError(f"found {given[0]} without from_info or from_bill; valid is both.")
    if scenario is None:
        raise InputError("found no scenario; valid is one of kind plan, from_info or from_bill.")
    return scenario


def _write_ceiling(result: Any, ceiling: str | Path | None) -> None:
    from forecache.hwprofiles.files import write_text_atomic

    if ceiling is not None and result.ceiling is not None:
        from forecache.output import to_json
        from forecache.reports.text.prometheus import ceiling_text

        as_json = str(ceiling).endswith(".json")
        text = to_json(result.ceiling) + "\n" if as_json else ceiling_text(result.ceiling)
        write_text_atomic(Path(ceiling), text)


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
    from forecache.models.scenario.source import content_of
    from forecache.reports.explore.job import start_of
    from forecache.reports.explore.server import Explorer, serve

    file = "scenario" if isinstance(scenario, Mapping) else str(scenario)
    begins = start_of(content_of(scenario), file=file)
    serve(Explorer(begins, seed=seed), port=port, ready=ready or (lambda _address: None))


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
        pair, `verdict`: higher, lower, the same or undecided) and `provenance`.

    Raises
    ------
    InputError
        When a scenario is not valid, or sweeps something else than io_threads.
    """
    from forecache.models.advice.compare import compare as run

    written = _Report(report, "compare", before, after, options={"--seed": seed})
    result = run(before, after, seed=seed, progress=progress)
    written.write(result)
    return result


@with_progress_bar
def validate(
    dataset: str | Path,
    *,
    host: str | Path | None = None,
    engine: str | Path | None = None,
    progress: Progress | None = None,
) -> "Validation | JudgedClaims":
    """Predict every point of a dataset of measurements and compare.

    Only points with `role: calibration` may be fitted; the others are predicted and compared.

    Parameters
    ----------
    dataset
        Name of a dataset of the catalogue, path of a file, or `articles` (`seeds` is the same) for
        the claims of the articles the project began with, as `make evidence` judged them.
    host, engine
        Catalogue name or path of a profile that replaces the dataset's own; None keeps that.
    progress
        Called with one sentence for every step.

    Returns
    -------
    Validation or JudgedClaims
        `points` (given, role, observed, predicted, relative error) and `summary` per metric; of
        `articles` `rows`, `summary` and `articles`.

    Raises
    ------
    InputError
        When the dataset or a profile can't be read.
    """
    if str(dataset) in ARTICLES:
        return _articles(host, engine)
    from forecache.calibration.validate.validate import validate as run

    return run(dataset, host=host, engine=engine, progress=progress)


def _articles(host: str | Path | None, engine: str | Path | None) -> "JudgedClaims":
    from forecache.calibration.validate.articles import judged_claims
    from forecache.sim.errors import InputError

    if host is not None or engine is not None:
        raise InputError("found --host or --engine with articles, whose claims name their own.")
    return judged_claims()


@with_progress_bar
def profile(
    *,
    tool: str | None = None,
    host: str | Path | None = None,
    engine: str | None = None,
    earlier: Sequence[str | Path] = (),
    progress: Progress | None = None,
) -> "HostProfile | ToolReport":
    """Measure this host, in under a minute, or what a benchmark tool takes on it.

    Parameters
    ----------
    tool
        valkey-benchmark, redis-benchmark or memtier_benchmark, a name on PATH or a path: measures
        it instead, driving an engine on another core, in two to five minutes.
    host
        With `tool`: the profile of this host, a catalogue name or a file. It is measured first if
        left out.
    engine
        With `tool`: the server that it drives; the embedded Valkey if left out.
    earlier
        Profiles of this host from other days, which tell by how much days differ.

    Returns
    -------
    HostProfile or ToolReport
        The fields of a file in `hwprofiles/hosts/`, every number with `value`, `unit`, `kind`,
        `low` and `high`; from Python an object with the same names. Of a tool its `profile`, and
        what was measured and fitted at each of its `points`.
    """
    from forecache.hwprofiles import load_host
    from forecache.hwprofiles.capture import capture_host
    from forecache.hwprofiles.capture.host import with_days

    if tool is None:
        before = [load_host(file) for file in earlier]
        found = capture_host(progress=progress)
        return with_days(found, before) if before else found
    from forecache.calibration.observe.tool_profile import profile_tool

    found = capture_host(progress=progress) if host is None else load_host(host)
    return profile_tool(tool, host=found, engine=engine, progress=progress)


@with_progress_bar
def observe(
    out: str | Path,
    *,
    engine: str | None = None,
    design: str = "quick",
    host: str | Path | None = None,
    tool: str = "forecache",
    profiler: str = "none",
    caches: str | None = None,
    budget_s: float = 60.0,
    progress: Progress | None = None,
) -> "Bundle":
    """Start a real engine, drive it over a design of points, and write an observation bundle.

    Parameters
    ----------
    out
        Folder for the bundle; it appears once the bundle is complete.
    engine
        Path or name on PATH of a valkey-server, redis-server or memcached; None takes the embedded
        Valkey.
    design
        `quick` (about a minute), `full` (about nine, with more points held out), or `auto`: those
        points that tell most about this engine on this host in `budget_s`, which needs `host`.
    host
        Catalogue name or path of the profile of this host, stored with the bundle.
    tool
        `forecache` drives with its own load generator; `valkey-benchmark`, `redis-benchmark` or
        `memtier_benchmark` are used where they are on PATH.
    profiler
        `none`, `clock`, `callgrind`, `perf`, `vtune`, or `auto` for the most detailed that works
        here.
    caches
        Host whose caches `callgrind` simulates, such as `graviton3` or `graviton3:L3`, with L2 (or
        L3) as the last level; None takes those of `host`, and without either simulates none.
    budget_s
        Time for the points of the design `auto`, in seconds.
    progress
        Called with one sentence for every step.

    Returns
    -------
    Bundle
        `bundle` (its path), `manifest` (engine, machine, method, depth, warnings) and `points`
        (given, the median of each observed quantity, flags); from Python an object with every
        repetition.

    Raises
    ------
    EngineError
        When the engine doesn't start, or stops answering.
    """
    from forecache.calibration.observe.observe import observe as run
    from forecache.calibration.observe.profilers.callgrind import load_geometry
    from forecache.hwprofiles import load_host

    simulated = caches or (None if host is None else str(host))
    return run(
        engine=engine,
        design=design,
        out=Path(out),
        host=None if host is None else load_host(str(host)),
        tool=tool,
        profiler=profiler,
        caches=None if simulated is None else load_geometry(simulated),
        budget_s=budget_s,
        progress=progress,
    )


def recipe(
    *,
    engine: str | None = None,
    design: str = "quick",
    host: str | Path | None = None,
    tool: str = "forecache",
) -> str:
    """A shell script that observes an engine where forecache can't be installed.

    Parameters
    ----------
    engine
        Name or path of the server on that machine; None takes redis-server.
    design, tool
        As in `observe`; `forecache` takes the benchmark tool that comes with the engine.
    host
        Catalogue name or path of the profile of that machine, for its hardware counters.
    """
    from forecache.calibration.observe.design import design_points
    from forecache.calibration.observe.recipe import recipe as text
    from forecache.hwprofiles import load_host

    return text(
        design_points(design),
        tool=tool,
        engine=engine,
        host=None if host is None else load_host(str(host)),
    )


@with_progress_bar
def calibrate(
    bundle: str | Path,
    *,
    host: str | Path | None = None,
    progress: Progress | None = None,
) -> "tuple[EngineProfile, CalibrationReport]":
    """Fit an engine's work to an observation bundle.

    Parameters
    ----------
    bundle
        Folder written by `observe`.
    host
        Catalogue name or path of the profile of the host it was observed on; None takes the one
        in the bundle.
    progress
        Called with one sentence for every step.

    Returns
    -------
    tuple
        The report of how well it fits: `engine`, `host`, `points` (given, role, quantity, observed,
        predicted, relative_error), `summary` per quantity, `discrepancy`, `parameters` (value, low,
        high, kind, note), `identifiability`; from Python the engine profile before it.

    Raises
    ------
    InputError
        When the bundle is damaged or incomplete.
    """
    from forecache.calibration.fit.calibrate import calibrate as run
    from forecache.calibration.fit.prior import known_of
    from forecache.calibration.observe.import_recipe import load_bundle
    from forecache.hwprofiles import load_host

    loaded = load_bundle(bundle)
    return run(
        loaded,
        host=None if host is None else load_host(str(host)),
        known=known_of(loaded),
        progress=progress,
    )


@with_progress_bar
def study(
    scenario: Scenario,
    *,
    out: str | Path = "study",
    engine: str | None = None,
    design: str = "quick",
    seed: int = DEFAULT_SEED,
    sensitivity: bool = False,
    progress: Progress | None = None,
) -> "Study":
    """Profile, observe, calibrate, predict, recommend and report.

    Parameters
    ----------
    scenario
        Path of a scenario file, or a mapping of the same shape.
    out
        Folder for the report and its inputs.
    engine, design
        As in `observe`.
    seed
        Seed of all random streams.
    sensitivity
        Also simulate which inputs move each recommended setting, as `explain` does, which takes
        one to two minutes for each of the two hosts.
    progress
        Called with one sentence for every step.

    Returns
    -------
    Study
        `title`, `warnings`, `targets` (this host and the scenario's, each with what `recommend`
        returns and a `load_curve`), `calibration` (the report of `calibrate`), `host_profile`,
        `provenance`; `report` is the path of the HTML file.

    Raises
    ------
    InputError, EngineError
        As the verbs it is made of; missing requirements are found before anything is measured. An
        `slo` that no setting meets is no error here: the page says which comes closest.
    """
    from forecache.calibration.drive.readiness import check_ready

    check_ready(engine)  # before the imports of all rooms, which take seconds
    from forecache.reports.study import study as run

    return run(
        scenario,
        out=Path(out),
        engine=engine,
        design=design,
        seed=seed,
        sensitivity=sensitivity,
        progress=progress,
    )


def report(
    study: str | Path,
    *,
    pdf: str | Path | None = None,
    html: str | Path | None = None,
    figures: str | Path | None = None,
    data: str | Path | None = None,
) -> "Study":
    """Write what a study found as a paper, as a page, as figures and as data.

    Parameters
    ----------
    study
        Folder that `study` wrote, or study.json in it.
    pdf, html
        Files for the report; they say the same.
    figures
        Folder for each figure as PDF, SVG and PNG, as wide as a column.
    data
        Folder for the numbers as CSV, and as Parquet where pyarrow is installed.

    Returns
    -------
    Study
        As `study` returned it.

    Raises
    ------
    InputError
        When it is no study, a file can't be written, or typst is not installed, which PDF needs.
    """
    from forecache.output import check_report_target
    from forecache.reports.export.pdf import check_typst
    from forecache.reports.export.write import write_data, write_figures, write_report
    from forecache.reports.study_answer import load_study

    targets = [(pdf, ".pdf", "pdf"), (html, ".html", "html")]
    wanted = [
        check_report_target(Path(path), option=option, endings=(ending,))
        for path, ending, option in targets
        if path is not None
    ]
    if figures is not None:
        check_typst(f"figures {figures}")
    found = load_study(Path(study))
    for path in wanted:
        write_report(path, found)
    if figures is not None:
        write_figures(found, Path(figures))
    if data is not None:
        write_data(found, Path(data))
    return found


def catalog(
    name: str | None = None,
    *,
    provider: str | None = None,
    family: str | None = None,
    arch: str | None = None,
    min_memory_gib: float | None = None,
) -> dict[str, Any]:
    """List the catalogue, or show one entry of it with the origin of every number.

    Parameters
    ----------
    name
        A host, an instance, an engine, a load generator or a dataset; None lists them all.
    provider, family, arch, min_memory_gib
        List the instances of a provider (`aws`, `google`, `azure`), a family, an instruction set
        (`x86-64`, `aarch64`), and with so much memory at least.

    Returns
    -------
    dict
        `hosts`, `families`, `instances`, `managed_nodes`, `engines`, `load_generators`,
        `datasets`, or only `instances`; of one entry `type`, `id`, `title`, `about`, `rows` (each
        number with its range, kind and source), `sources`, `notes`.

    Raises
    ------
    InputError
        When the catalogue has no such entry or family; the message lists close matches.
    """
    from forecache.sim.errors import InputError

    from .catalogue import entry, instances, listing

    asked = {"provider": provider, "family": family, "arch": arch, "min_memory_gib": min_memory_gib}
    asked = {key: value for key, value in asked.items() if value is not None}
    if name is not None and asked:
        raise InputError(
            f"found the entry {name!r} and what instances are to be like; valid is one of the two."
        )
    if asked:
        return {"instances": instances(**asked)}  # type: ignore[arg-type]
    return listing() if name is None else entry(name)


def doctor(*, progress: Progress | None = None) -> "Diagnosis":
    """Say what this machine allows, what each thing helps, and how to get what is missing.

    Takes some seconds: two of noise, with two cores kept busy, and one of simulation.

    Returns
    -------
    Diagnosis
        `version`, `took_s` and `abilities`: each with `id`, `title`, `status` (`yes`, `limited`,
        `no`, `unknown`), `found`, `helps`, `get` (empty where nothing is missing), and `values`
        with what was found.
    """
    from forecache.calibration.doctor.diagnose import diagnose

    return diagnose(progress=progress)
