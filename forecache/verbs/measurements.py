"""What is measured: hosts and engines, profiles of them, and predictions held against them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forecache.sim.errors import InputError

from ..notebook import with_progress_bar
from .shared import DEFAULT_SEED, Progress, Scenario

if TYPE_CHECKING:
    from forecache.calibration.bundle.bundle import Bundle
    from forecache.calibration.check.answers import CheckAnswer
    from forecache.calibration.fit.report import CalibrationReport
    from forecache.calibration.observe.tool_profile import ToolReport
    from forecache.calibration.validate.comparison import Validation
    from forecache.hwprofiles.schema import HostProfile
    from forecache.models.engines.profile import EngineProfile


@with_progress_bar
def profile(
    *,
    tool: str | None = None,
    anchor: bool = False,
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
    anchor
        Drives an engine for a minute as well, and corrects the kernel's times by what it pays for
        them: predictions of every engine on this host rest on that.
    host
        With `tool` or `anchor`: the profile of this host, a catalogue name or a file. It is
        measured first if left out.
    engine
        With `tool` or `anchor`: the server to drive; the embedded Valkey if left out.
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

    if tool is not None and anchor:
        raise InputError("--tool measures a tool and --anchor a host; valid is one of them.")
    before = [load_host(file) for file in earlier]
    found = capture_host(progress=progress) if host is None else load_host(host)
    found = with_days(found, before) if before else found
    if anchor:
        from forecache.calibration.observe.observe import anchor_host

        found = anchor_host(found, engine=engine, progress=progress)
    if tool is None:
        return found
    from forecache.calibration.observe.tool_profile import profile_tool

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
    commands: bool = False,
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
    commands
        Also count instructions of all commands in valgrind, which takes about ten minutes.
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
        commands=commands,
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


@with_progress_bar
def validate(
    dataset: str | Path,
    *,
    host: str | Path | None = None,
    engine: str | Path | None = None,
    progress: Progress | None = None,
) -> "Validation":
    """Predict every point of a dataset of measurements and compare.

    Only points with `role: calibration` may be fitted; the others are predicted and compared.

    Parameters
    ----------
    dataset
        Name of a dataset of the catalogue, or path of a file, of loads on a node.
    host, engine
        Catalogue name or path of a profile that replaces the dataset's own; None keeps that.
    progress
        Called with one sentence for every step.

    Returns
    -------
    Validation
        `points` (given, role, observed, predicted, relative error) and `summary` per metric.

    Raises
    ------
    InputError
        When the dataset or a profile can't be read.
    """
    from forecache.calibration.validate.validate import validate as run

    return run(dataset, host=host, engine=engine, progress=progress)


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
        known, and `updated_for`; `verdict` and `unmet` of the predicted point; `warnings` and
        `provenance`.

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
