"""Observe a real engine: start it, load it, drive it over a design of points, write a bundle."""

from __future__ import annotations

import math
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from forecache import __version__
from forecache.hwprofiles import HostProfile
from forecache.hwprofiles.capture.cores import (
    SLOWER,
    alike,
    core_answer_ns,
    distance_ns,
)
from forecache.hwprofiles.capture.host import profiled_answer_ns
from forecache.hwprofiles.capture.machine import pair_among
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import Progress
from forecache.sim.errors import EngineError, InputError
from forecache.sim.words import byte_size

from ..bundle.bundle import (
    COMMANDS_FILE,
    LICENCE,
    Bundle,
    Manifest,
    Method,
    ObservedMachine,
    archive_of,
    is_name,
    require_new,
    whole_folder,
    write_archive,
    write_bundle,
)
from ..bundle.points import Conditions, ObservedPoint, Repetition
from ..bundle.profiles import Geometry
from ..drive.connection import RESP
from ..drive.loadgen import RECEIVE_BYTES, LoadGenerator, check_load, memory_bytes
from ..drive.proc import available_memory_bytes
from ..drive.servers import ServerProcess, engine_version, find_engine, server_kind, sha256_of
from ..fit.fit import fit_bundle
from ..fit.prior import earlier_profile
from ..fit.simulated_fit import fit_wake_latency
from .command_counts import check_counting, count_commands
from .design import DEFAULT_BUDGET_S, STARTS_POINT, TIMINGS, Timing, auto_points, design_points
from .measure import CorePlan, measure_repetition, measure_with_tool, plan_cores
from .profilers.choose import Phase, choose, profile_phase
from .profilers.session import Session, session
from .readers.info import engine_of, engine_record
from .spinning import SamplingError, Spinning, Waiting, learn, refusal
from .tools import MEMTIER_FIRST_KEY, find_tool, why_unsupported


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
    contributor: str | None = None,
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
    contributor
        Whose measurement it is, to be published under `LICENCE`; also writes the bundle as one
        file, `archive_of(out)`. Needs `host`.
    between
        Called before every repetition, while no load runs and all servers are paused.

    Raises
    ------
    InputError
        Unknown engine or version of one, design, tool or profiler, no points, `out` exists,
        commands of Memcached are to be counted, or a contribution has no host.
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
    if contributor is not None:
        if host is None:
            raise InputError("contributor: a contribution needs the profile of its host.")
        if not is_name(contributor):
            raise InputError(f"contributor: found {contributor[:90]!r}; valid is a name.")
        if archive_of(out).exists():
            raise InputError(f"{archive_of(out)}: exists already; valid is a new file.")
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
        manifest = observation.manifest(method=method, profiling=profiling, remarks=remarks)
        if contributor is not None:
            given = {"contributor": contributor, "licence": LICENCE}
            manifest = manifest.model_copy(update=given)
        write_bundle(
            folder,
            manifest=manifest,
            points=observation.points(),
            info=observation.infos(),
            configs=observation.config_files(),
            host=host,
            profiles=profiling.profiles,
            evidence=files,
        )
    elapsed_s = time.monotonic() - started_s
    say(f"observed {len(observation.points())} points in {elapsed_s:.0f} s")
    if contributor is not None:
        say(f"wrote {write_archive(out)}")
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


# --- where the cores are and how fast, while something is measured --------------------------------

# Where the cores are and how fast, while something is measured.
#
# A hypervisor moves virtual CPUs between cores that share a cache and cores that don't, and a line
# then takes five times as long from one to the other. A virtual CPU may also share its physical
# core with another machine's, and then takes 1.3 to 1.5 times as long for what keeps a core busy;
# no kernel counts that as stolen. A window that saw either says little of the host that was
# profiled.


_PAUSE_S = 0.25
"""Between two looks while the cores are elsewhere, or slow."""


class CoreLook(NamedTuple):
    """At the cores at one moment.

    Attributes
    ----------
    distance_ns
        That a line takes between the two CPUs that a profile of the host looks at. None on one
        core; hyperthreads of one core are no such pair.
    answer_ns
        That the slowest core takes for what keeps it busy, a GET in its caches.
    """

    distance_ns: float | None
    answer_ns: float


class CoreState:
    """Waits for the cores to be as they were, and says of a window whether they were.

    Parameters
    ----------
    host
        How far apart and how fast they should be; without it, or where it wasn't measured, windows
        need only begin and end at the same distance, and be as fast as cores were seen before.
    patience_s
        To wait in all.
    """

    def __init__(self, host: HostProfile | None, *, patience_s: float) -> None:
        known = host is not None and host.core_to_core_ns.kind == "measured"
        self._wanted_ns = host.core_to_core_ns.best if host is not None and known else None
        self._fastest_ns = math.inf if host is None else profiled_answer_ns(host)
        self.patience_s = patience_s
        """What is left of it."""

    def look(self, plan: CorePlan) -> CoreLook:
        """At the cores now, for some milliseconds."""
        pair = pair_among(plan.all)
        far = (
            None if pair is None else distance_ns(pair, lambda cpu: os.sched_setaffinity(0, {cpu}))
        )
        found = CoreLook(far, max(map(core_answer_ns, plan.all)))
        self._fastest_ns = min(self._fastest_ns, found.answer_ns)
        return found

    def wait(self, plan: CorePlan) -> CoreLook:
        """Wait until the cores are as they should be, or patience ends; the last look."""
        found = self.look(plan)
        while not (self._near(found) and self._fast(found)) and self.patience_s > 0.0:
            time.sleep(_PAUSE_S)
            self.patience_s -= _PAUSE_S
            found = self.look(plan)
        return found

    def with_looks(self, repetition: Repetition, before: CoreLook, after: CoreLook) -> Repetition:
        """The repetition with the looks around it; `moved` and `slowed` where they are wrong."""
        flags = list(repetition.flags)
        found: dict[str, object] = {"core_answer_ns": _pair(before.answer_ns, after.answer_ns)}
        if before.distance_ns is not None and after.distance_ns is not None:
            found["core_to_core_ns"] = _pair(before.distance_ns, after.distance_ns)
            stayed = alike(before.distance_ns, after.distance_ns)
            if not (stayed and self._near(before) and self._near(after)):
                flags.append("moved")
        if not (self._fast(before) and self._fast(after)):
            flags.append("slowed")
        return repetition.model_copy(update={**found, "flags": flags})

    def _near(self, found: CoreLook) -> bool:
        anywhere = found.distance_ns is None or self._wanted_ns is None
        return anywhere or alike(found.distance_ns, self._wanted_ns)  # type: ignore[arg-type]

    def _fast(self, found: CoreLook) -> bool:
        return found.answer_ns < SLOWER * self._fastest_ns


def _pair(before_ns: float, after_ns: float) -> tuple[float, float]:
    return round(before_ns, 1), round(after_ns, 1)


# --- servers with their data, rounds of repetitions -----------------------------------------------


SEED = 20
# A data set may take this share of the memory that is free.
_MEMORY_SHARE = 0.6
# Points with fewer undisturbed repetitions are measured again, for at most this share of the time
# that the planned repetitions of their data set took.
_QUIET = 2
_AGAIN_SHARE = 0.2
# So many windows in a row that are disturbed again: the machine is busy, and another will be too.
_IN_VAIN = 8
# Starts that are made however little time is left.
_FEWEST_STARTS = 2
# Keeps all threads of a server awake, while little has to be done for a client.
_WAITING_LOAD = {"command": "get", "get_fraction": 1.0, "pipeline": 1, "clients": 50}
# Windows of each start.
_START_WINDOWS = 3


class Observation:
    """What accumulates while points are measured."""

    def __init__(
        self,
        binary: Path,
        timing: Timing,
        tool: Path | None,
        say: Progress,
        origin_s: float,
        between: Callable[[], None] | None = None,
        host: HostProfile | None = None,
    ) -> None:
        self._binary = binary
        self._kind = server_kind(binary)
        self._timing = timing
        self._tool = tool
        self._say = say
        self._between = between
        self._origin_s = origin_s
        self._end_s = origin_s + timing.longest_s
        self._allowed = os.sched_getaffinity(0)
        self._cores = CoreState(host, patience_s=timing.patience_s)
        self.repetitions: dict[Conditions, list[Repetition]] = {}
        self.resolved: dict[Conditions, Conditions] = {}
        self.info: dict[Conditions, str] = {}
        self.configs: dict[int, dict[str, str]] = {}
        self.left_out: list[str] = []
        self.remarks: list[str] = []
        self.starts: list[list[float]] = []
        self._waiting_elsewhere: dict[str, Waiting] = {}
        self._server_info: Mapping[str, str] = {}
        self._asked: Sequence[Conditions] = ()
        self._done = 0
        self._total = 0

    def run(self, points: Sequence[Conditions]) -> None:
        """Measure all points: as many data sets side by side as fit in memory."""
        self._asked = points
        self._total = len(points) * self._timing.repetitions
        ordered = sorted(
            points, key=lambda given: (given.io_threads, given.keys * given.value_bytes)
        )
        groups: dict[tuple[Any, ...], list[Conditions]] = {}
        for given in ordered:
            check_load(given)
            reason = self._kind.cannot_make(given)
            if reason is None and self._tool is not None:
                reason = why_unsupported(self._tool, given)
            if reason is not None:
                self.left_out.append(f"{given.label()}: {reason}")
                continue
            groups.setdefault(given.data_set, []).append(given)
        for wave in self._waves(list(groups.values())):
            self._measure_wave(wave)

    def run_starts(self) -> None:
        """Measure one point on servers that are started for it, one after the other."""
        for number in range(self._timing.starts):
            if number >= _FEWEST_STARTS and time.monotonic() > self._end_s:
                return
            self._say(f"starting the server again, {number + 1} of {self._timing.starts}")
            with ExitStack() as stack:
                server = self._start([STARTS_POINT], stack)
                self._cores.wait(server.plan)
                with _on_cores(server.plan.generator):
                    windows = [
                        self._repetition(STARTS_POINT, server, number * _START_WINDOWS + window)
                        for window in range(_START_WINDOWS)
                    ]
            self.starts.append([round(w.server_cpu_ns_per_request, 1) for w in windows])

    def _waves(self, groups: list[list[Conditions]]) -> Iterator[list[list[Conditions]]]:
        """Groups whose data sets fit in memory together; what never fits is left out."""
        free = available_memory_bytes()
        room = float("inf") if free is None else _MEMORY_SHARE * free
        wave: list[list[Conditions]] = []
        used = 0.0
        for group in groups:
            need = max(memory_bytes(given) for given in group)
            if need > room:
                for given in group:
                    self.left_out.append(
                        f"{given.label()}: needs {byte_size(need)} of the {byte_size(free or 0)} "
                        "free"
                    )
                keys = group[0].keys
                self._say(f"left out {len(group)} points of {keys} keys: too little memory")
                continue
            if used + need > room:
                yield wave
                wave, used = [], 0.0
            wave.append(group)
            used += need
        if wave:
            yield wave

    def _measure_wave(self, wave: list[list[Conditions]]) -> None:
        """A server for each data set, all loaded and paused; then rounds over all their points."""
        with ExitStack() as stack:
            servers: dict[Conditions, Session] = {}
            for group in wave:
                server = self._start(group, stack)
                servers.update(dict.fromkeys(group, server))
                server.process.pause()
            # A later server may have told where I/O threads of all of them wait.
            if any(s.spinning and not s.spinning.known for s in servers.values()):
                self._remark("spinning isn't told apart: no I/O thread was seen waiting.")
            loaded = {g: s for g, s in servers.items() if g.rate_share is not None}
            self._measure_rounds({g: s for g, s in servers.items() if g not in loaded})
            self._measure_rounds({self._at_rate(g): s for g, s in loaded.items()})

    def _at_rate(self, given: Conditions) -> Conditions:
        """An open loop whose share of the closed loop's throughput has become a rate."""
        closed = given.closed_twin
        twins = [g for g in self.repetitions if g.model_copy(update={"role": "fit"}) == closed]
        if not twins or given.rate_share is None:
            raise InputError(
                f"design: {given.label()}: found no closed loop of the same conditions; valid is a "
                "rate_share beside the point it is a share of."
            )
        rates = [r.throughput_rps for r in self.repetitions[twins[0]]]
        rate_rps = round(given.rate_share * statistics.median(rates))
        self.resolved[given] = given.model_copy(update={"rate_rps": rate_rps})
        return self.resolved[given]

    def _start(self, group: list[Conditions], stack: ExitStack) -> Session:
        """A fresh server with the group's data set loaded."""
        first = group[0]
        memtier = self._tool is not None and self._tool.name == "memtier_benchmark"
        with _on_cores(self._plan(group).generator):
            on = stack.enter_context(
                session(
                    self._binary,
                    group,
                    allowed=self._allowed,
                    progress=self._say,
                    seed=SEED,
                    first_key=MEMTIER_FIRST_KEY if memtier else 0,
                )
            )
            self._server_info = on.info()
            self.configs.setdefault(first.io_threads, on.control.config())
            return replace(on, spinning=self._learn_spinning(first, on.process, on.plan))

    def _learn_spinning(
        self, given: Conditions, process: ServerProcess, plan: CorePlan
    ) -> Spinning | None:
        """What threads of a server look like when they wait; None where it isn't known."""
        if given.io_threads == 1:
            return None
        if load_engine(*engine_of(self._server_info)).threading.threads_sleep:
            return None
        reason = refusal()
        if reason is not None:
            self._remark(f"spinning isn't told apart: {reason}")
            return None
        self._say("seeing what waiting threads look like")
        load = given.model_copy(update=_WAITING_LOAD)
        cores = {"main": frozenset({plan.main}), "io": plan.io, "generator": plan.generator}
        with LoadGenerator(
            load, process.address(given.transport), seed=SEED, cores=plan.generator
        ) as running:
            time.sleep(self._timing.io_warm_up_s)
            try:
                spinning = learn(process, cores, self._waiting_elsewhere)
            except EngineError as error:
                self._remark(f"spinning isn't told apart: {error}")
                return None
        running.check()
        return spinning

    def _remark(self, text: str) -> None:
        """Keep a remark for the manifest, once."""
        if text not in self.remarks:
            self.remarks.append(text)
            self._say(text)

    def _measure_rounds(self, servers: dict[Conditions, Session]) -> None:
        """The repetitions of all points, then more of those points that something disturbed."""
        start_s = time.monotonic()
        for number in range(self._timing.repetitions):
            for given in _shuffled(list(servers), number):
                if number > 0 and time.monotonic() > self._end_s:
                    self._remark(
                        f"there was time for {self._done} of {self._total} windows: the machine "
                        "is busy or slow"
                    )
                    return
                self._done += 1
                self._say(f"measuring {self._done} of {self._total}: {given.label()}")
                self._measure(given, servers[given], number)
        again_s = max(_AGAIN_SHARE * (time.monotonic() - start_s), self._cores.patience_s)
        self._measure_again(servers, until_s=min(time.monotonic() + again_s, self._end_s))

    def _measure_again(self, servers: dict[Conditions, Session], *, until_s: float) -> None:
        """More repetitions of points that something disturbed, as long as some come out quiet."""
        number = self._timing.repetitions
        wanted = min(_QUIET, self._timing.repetitions)
        in_vain = 0
        while disturbed := [
            given
            for given, server in servers.items()
            # On one core our own threads disturb each other, and would again.
            if self._quiet(given) < wanted and len(server.plan.all) > 1
        ]:
            for given in _shuffled(disturbed, number):
                if time.monotonic() > until_s or in_vain >= _IN_VAIN:
                    return
                self._say(f"measuring again, something disturbed it: {given.label()}")
                before = self._quiet(given)
                self._measure(given, servers[given], number)
                in_vain = 0 if self._quiet(given) > before else in_vain + 1
            number += 1

    def _quiet(self, given: Conditions) -> int:
        """Repetitions of a point that nothing disturbed."""
        return sum(r.quiet for r in self.repetitions.get(given, ()))

    def _measure(self, given: Conditions, server: Session, number: int) -> None:
        """Measure one repetition of a point and keep it, with INFO after it."""
        if self._between is not None:
            self._between()
        before = self._cores.wait(server.plan)
        server.process.resume()
        try:
            with _on_cores(server.plan.generator):
                repetition = self._repetition(given, server, number)
                self.info[given] = server.control.info()
        except SamplingError as error:
            server.process.pause()
            self._remark(f"a window of {given.label()} is lost: {error}")
            return
        server.process.pause()
        found = self._cores.with_looks(repetition, before, self._cores.look(server.plan))
        self.repetitions.setdefault(given, []).append(found)

    def _repetition(self, given: Conditions, server: Session, number: int) -> Repetition:
        if self._tool is not None:
            earlier = self.repetitions.get(given)
            return measure_with_tool(
                self._tool,
                given,
                server.process,
                server.control,
                plan=server.plan,
                timing=self._timing,
                origin_s=self._origin_s,
                expected_rps=earlier[0].throughput_rps if earlier else None,
                spinning=server.spinning,
            )
        return measure_repetition(
            given,
            server.process,
            server.control,
            plan=server.plan,
            timing=self._timing,
            seed=SEED + number,
            origin_s=self._origin_s,
            spinning=server.spinning,
        )

    def _plan(self, group: Sequence[Conditions]) -> CorePlan:
        return plan_cores(
            io_threads=group[0].io_threads,
            generator_threads=max(given.generator_threads for given in group),
            allowed=self._allowed,
        )

    def points(self) -> list[ObservedPoint]:
        """The points that were measured, with their repetitions."""
        return [
            ObservedPoint(given=given, repetitions=repetitions)
            for given, repetitions in self._in_order()
        ]

    def infos(self) -> list[str]:
        """The text of INFO after the last repetition of each point that was measured."""
        return [self.info[given] for given, _ in self._in_order()]

    def _in_order(self) -> list[tuple[Conditions, list[Repetition]]]:
        """Points in the order in which they were asked for."""
        asked = (self.resolved.get(point, point) for point in self._asked)
        return [(given, self.repetitions[given]) for given in asked if given in self.repetitions]

    def manifest(
        self, *, method: Method, profiling: Phase, remarks: Sequence[str] = ()
    ) -> Manifest:
        """What the bundle says of itself; `remarks` are its first warnings."""
        return Manifest(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            forecache_version=__version__,
            elapsed_s=round(time.monotonic() - self._origin_s, 1),
            depth=profiling.depth,
            engine=engine_record(
                self._server_info, path=str(self._binary), sha256=sha256_of(self._binary)
            ),
            machine=self.machine(self._asked),
            method=method,
            points=len(self._in_order()),
            profiles=len(profiling.profiles),
            profiling=profiling.reason,
            starts=self.starts,
            left_out=self.left_out,
            warnings=[*remarks, *self.remarks, *self.warnings()],
        )

    def machine(self, points: Sequence[Conditions]) -> ObservedMachine:
        """Where this ran; cores as planned for the most threads."""
        widest = max(points, key=lambda given: (given.io_threads, given.generator_threads))
        plan = self._plan([widest])
        return ObservedMachine(
            cpu_model=_cpu_model(),
            kernel=platform.release(),
            architecture=platform.machine(),
            cores_available=len(self._allowed),
            main_thread_core=plan.main,
            io_thread_cores=sorted(plan.io) if widest.io_threads > 1 else [],
            generator_cores=sorted(plan.generator),
        )

    def config_files(self) -> dict[str, dict[str, str]]:
        """Configuration by file name: `config.yaml` for the fewest I/O threads."""
        fewest = min(self.configs)
        return {
            "config.yaml" if threads == fewest else f"config-io-threads-{threads}.yaml": config
            for threads, config in self.configs.items()
        }

    def warnings(self) -> list[str]:
        """How many repetitions carry which flag."""
        flags = [
            flag
            for repetitions in self.repetitions.values()
            for repetition in repetitions
            for flag in repetition.flags
        ]
        total = sum(len(repetitions) for repetitions in self.repetitions.values())
        return [
            f"{flags.count(flag)} of {total} repetitions are flagged `{flag}`"
            for flag in dict.fromkeys(flags)
        ]


def _shuffled(points: Sequence[Conditions], number: int) -> list[Conditions]:
    """The points in the order of repetition `number`, the same in every observation."""
    order = list(points)
    random.Random(f"{SEED} {number}").shuffle(order)
    return order


@contextmanager
def _on_cores(cores: frozenset[int]) -> Iterator[None]:
    """Keep the calling thread, which only waits and looks, off the engine's core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _cpu_model() -> str:
    """Model name of the processor; on Arm, which names none, implementer and part numbers."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    if "model name" in fields:
        return fields["model name"]
    numbers = [fields.get(name) for name in ("CPU implementer", "CPU part")]
    return f"implementer {numbers[0]} part {numbers[1]}" if all(numbers) else platform.machine()


# --- a host as an engine finds it -----------------------------------------------------------------

# A host as an engine finds it: what its kernel and cores take beyond the micro-benchmarks.
#
# A capture measures calls in loops of their own, and a server pays more for them on some
# hypervisors. Any engine whose work is known from other hosts shows by how much: what differs from
# there belongs to the host, and so to every other engine on it.


def anchor_host(
    host: HostProfile, *, engine: str | None = None, progress: Progress | None = None
) -> HostProfile:
    """Drive an engine on a profiled host for about a minute; the host as it was found.

    Parameters
    ----------
    engine
        Path or name on PATH of a server; None takes the embedded Valkey.

    Raises
    ------
    EngineError
        When the engine doesn't start, or stops answering.
    InputError
        When what was observed can't be fitted.
    """
    with tempfile.TemporaryDirectory(prefix="forecache-") as folder:
        bundle = observe(
            engine=engine, design="quick", out=Path(folder) / "anchor", host=host, progress=progress
        )
        return anchored_by(bundle, progress=progress)


def anchored_by(bundle: Bundle, *, progress: Progress | None = None) -> HostProfile:
    """The host of a bundle as its engine found it."""
    fitted = fit_bundle(bundle, known=earlier_profile(bundle), progress=progress)
    found = fit_wake_latency(fitted, progress=progress).host
    engine = bundle.manifest.engine
    title = f"forecache profile --anchor, {engine.name} {engine.version} driven on this host"
    source = found.sources["bundle"].model_copy(
        update={"title": title, "accessed": bundle.manifest.created[:10]}
    )
    notes = [f"while an engine was driven: {warning}" for warning in bundle.manifest.warnings]
    update = {"sources": {**found.sources, "bundle": source}, "notes": [*found.notes, *notes]}
    return found.model_copy(update=update)
