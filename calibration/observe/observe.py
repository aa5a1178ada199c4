"""Observe a real engine: start it, load it, drive it over a design of points, write a bundle."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from forecache.hwprofiles import HostProfile
from forecache.models.engines.profile import load_engine
from forecache.sim.errors import EngineError, InputError

from ..bundle.bundle import (
    COMMANDS_FILE,
    Bundle,
    Method,
    require_new,
    whole_folder,
    write_bundle,
)
from ..bundle.points import Conditions
from ..bundle.profiles import Geometry
from ..drive.engine_process import engine_version, find_engine
from ..drive.load_memory import RECEIVE_BYTES
from ..drive.protocols import RESP
from ..drive.server_kinds import server_kind
from .command_counts import check_counting, count_commands
from .design import TIMINGS, Timing, design_points
from .observation import SEED, Observation, Progress
from .optimal_design import DEFAULT_BUDGET_S, auto_points
from .profilers.choose import choose
from .profilers.phase import profile_phase
from .tools import find_tool


def observe(
    *,
    engine: str | Path | None = None,
    design: str | Sequence[Conditions] = "quick",
    out: Path,
    host: HostProfile | None = None,
    progress: Progress | None = None,
    timing: Timing | None = None,
    tool: str = "forecache",
    profiler: str = "none",
    caches: Geometry | None = None,
    budget_s: float = DEFAULT_BUDGET_S,
    commands: bool = False,
    between: Callable[[], None] | None = None,
) -> Bundle:
    """Start a real engine, drive it over a design of points, and write an observation bundle.

    Points with the same data set share a server, loaded once and paused while others are measured.
    Every round measures each point once, in a shuffled order, so that a slow drift of the machine
    favours none of them. Points that something disturbed are measured again, within limits. Every
    data set gets a fresh server, so that no point sees the heap that another left behind.

    Parameters
    ----------
    engine
        Path or name on PATH of a server; None takes the embedded Valkey.
    design
        `quick`, `full`, `threads`, a list of points, or `auto` for those that tell most in
        `budget_s`, which needs `host`.
    out
        Folder to write; it appears only when the bundle is whole.
    host
        Profile of this host, stored with the bundle. Repetitions wait for the cores to be as far
        apart as when it was measured.
    progress
        Called with one sentence for every step.
    timing
        Warm-up, window and repetitions; None takes those of the design.
    tool
        `forecache` for our own load generator, or `valkey-benchmark`, `redis-benchmark` or
        `memtier_benchmark` on PATH; points that a tool can't drive are left out and named.
    profiler
        `none`, `auto`, or one of `profilers.choose.NAMES`, to look inside the engine afterwards.
    caches
        Caches that the profiler `callgrind` simulates; None counts instructions only.
    budget_s
        Time for the points of the design `auto`, in seconds.
    commands
        Whether to count instructions of all commands afterwards, in valgrind, which takes about
        ten minutes.
    between
        Called before every repetition, while no load runs and all servers are paused.

    Raises
    ------
    InputError
        Unknown engine or version of one, design, tool or profiler, no points, `out` exists, or
        commands of Memcached are to be counted.
    EngineError
        The engine doesn't start, or stops answering.
    """
    say = progress or (lambda _message: None)
    if timing is None:
        timing = TIMINGS[design if isinstance(design, str) and design in TIMINGS else "quick"]
    binary = find_engine(engine)
    rules = load_engine(*engine_version(binary))
    taken_as = rules.taken_as_words
    if taken_as is not None:
        say(taken_as)
    if design == "auto":
        points = auto_points(binary, host, timing=timing, budget_s=budget_s)
    else:
        points = design_points(design) if isinstance(design, str) else list(dict.fromkeys(design))
    points = [given for given in points if given.io_threads <= rules.max_io_threads]
    if not points:
        raise InputError(f"design: found no points for {rules.id}; valid is at least one.")
    require_new(out)
    started_s = time.monotonic()
    driver = None if tool == "forecache" else find_tool(tool)
    if driver is not None and server_kind(binary).protocol is not RESP:
        raise InputError(f"tool: found {tool}; valid for {binary.name} is forecache.")
    chosen = choose(profiler, geometry=caches)
    if commands:
        check_counting(binary)
    observation = Observation(binary, timing, driver, say, started_s, between, host)
    with whole_folder(out) as folder:
        observation.run(points)
        if not observation.points():
            raise EngineError(f"no point could be observed: {'; '.join(observation.left_out)}.")
        observation.run_starts()
        profiling = profile_phase(binary, chosen, most_threads=rules.max_io_threads, say=say)
        method = _method(tool, design, timing)
        files = dict(profiling.files)
        remarks = [] if taken_as is None else [taken_as]
        if commands:
            try:
                files[COMMANDS_FILE] = count_commands(binary, progress=say).text().encode()
            except EngineError as error:  # what was measured is worth keeping
                remarks.append(f"commands are not counted: {error}")
                say(remarks[-1])
        write_bundle(
            folder,
            manifest=observation.manifest(method=method, profiling=profiling, remarks=remarks),
            points=observation.points(),
            info=observation.infos(),
            configs=observation.config_files(),
            host=host,
            profiles=profiling.profiles,
            evidence=files,
        )
    elapsed_s = time.monotonic() - started_s
    say(f"observed {len(observation.points())} points in {elapsed_s:.0f} s")
    return Bundle.load(out)


def _method(tool: str, design: str | Sequence[Conditions], timing: Timing) -> Method:
    """How points were measured, for the manifest."""
    return Method(
        tool=Path(tool).name,
        design=design if isinstance(design, str) else "custom",
        repetitions=timing.repetitions,
        warm_up_s=timing.warm_up_s,
        window_s=timing.window_s,
        seed=SEED,
        generator_receive_bytes=RECEIVE_BYTES,
    )
