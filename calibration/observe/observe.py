"""Observe a real engine: start it, load it, drive it over a design of points, write a bundle."""

import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forecache import __version__
from forecache.hwprofiles import HostProfile
from forecache.sim.errors import EngineError, InputError

from ..bundle.bundle import (
    Bundle,
    Engine,
    Manifest,
    Method,
    ObservedMachine,
    require_new,
    whole_folder,
    write_bundle,
)
from ..bundle.points import Conditions, ObservedPoint, Repetition
from ..bundle.profiles import Geometry
from ..drive.engine_process import EngineProcess, find_engine, sha256_of
from ..drive.load_memory import RECEIVE_BYTES
from ..drive.preload import memory_bytes, preload
from ..drive.proc import available_memory_bytes
from ..drive.resp import RespClient
from .design import TIMINGS, Timing, design_points
from .measure import CorePlan, measure_repetition, measure_with_tool, pin_threads, plan_cores
from .optimal_design import DEFAULT_BUDGET_S, auto_points
from .profilers.choose import choose
from .profilers.phase import profile_phase
from .readers.info import info_fields
from .tools import MEMTIER_FIRST_KEY, find_tool, unsupported

Progress = Callable[[str], None]

_SEED = 20
# A data set may take this share of the memory that is free.
_MEMORY_SHARE = 0.6
# Points with fewer undisturbed repetitions are measured again, for at most this share of the time
# that the planned repetitions of their data set took.
_QUIET = 2
_AGAIN_SHARE = 0.2


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
) -> Bundle:
    """Start a real engine, drive it over a design of points, and write an observation bundle.

    Points with the same data set share a server, loaded once and paused while others are measured.
    Every round measures each point once, in a shuffled order, so that a slow drift of the machine
    favours none of them. Points that other work disturbed are measured again, within limits. Every
    data set gets a fresh server, so that no point sees the heap that another left behind.

    Parameters
    ----------
    engine
        Path or name on PATH of a server; None takes the embedded Valkey.
    design
        `quick`, `full`, a list of points, or `auto` for those that tell most in `budget_s`, which
        needs `host`.
    out
        Folder to write; it appears only when the bundle is whole.
    host
        Profile of this host, stored with the bundle.
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

    Raises
    ------
    InputError
        Unknown engine, design, tool or profiler, no points, or `out` exists.
    EngineError
        The engine doesn't start, or stops answering.
    """
    say = progress or (lambda _message: None)
    if timing is None:
        timing = TIMINGS["full" if design == "full" else "quick"]
    binary = find_engine(engine)
    if design == "auto":
        points = auto_points(binary, host, timing=timing, budget_s=budget_s)
    else:
        points = design_points(design) if isinstance(design, str) else list(dict.fromkeys(design))
    if not points:
        raise InputError("design: found no points; valid is at least one.")
    require_new(out)
    started_s = time.monotonic()
    driver = None if tool == "forecache" else find_tool(tool)
    chosen = choose(profiler, geometry=caches)
    observation = _Observation(binary, timing, driver, say, started_s)
    with whole_folder(out) as folder:
        observation.run(points)
        kept = [
            given
            for given in (observation.resolved.get(point, point) for point in points)
            if given in observation.repetitions
        ]
        if not kept:
            raise EngineError(f"no point could be observed: {'; '.join(observation.left_out)}.")
        profiling = profile_phase(binary, chosen, say=say)
        manifest = Manifest(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            forecache_version=__version__,
            elapsed_s=round(time.monotonic() - started_s, 1),
            depth=profiling.depth,
            engine=observation.engine(),
            machine=observation.machine(points),
            method=Method(
                tool=tool,
                design=design if isinstance(design, str) else "custom",
                repetitions=timing.repetitions,
                warm_up_s=timing.warm_up_s,
                window_s=timing.window_s,
                seed=_SEED,
                generator_receive_bytes=RECEIVE_BYTES,
            ),
            points=len(kept),
            profiles=len(profiling.profiles),
            profiling=profiling.reason,
            left_out=observation.left_out,
            warnings=observation.warnings(),
        )
        write_bundle(
            folder,
            manifest=manifest,
            points=[
                ObservedPoint(given=given, repetitions=observation.repetitions[given])
                for given in kept
            ],
            info=[observation.info[given] for given in kept],
            configs=observation.config_files(),
            host=host,
            profiles=profiling.profiles,
            evidence=profiling.files,
        )
    say(f"observed {len(kept)} points in {time.monotonic() - started_s:.0f} s")
    return Bundle.load(out)


@dataclass(frozen=True)
class _Server:
    """A running, loaded engine, how to ask it, and which cores do what."""

    process: EngineProcess
    control: RespClient
    plan: CorePlan


class _Observation:
    """What accumulates while points are measured."""

    def __init__(
        self, binary: Path, timing: Timing, tool: Path | None, say: Progress, origin_s: float
    ) -> None:
        self._binary = binary
        self._timing = timing
        self._tool = tool
        self._say = say
        self._origin_s = origin_s
        self._allowed = os.sched_getaffinity(0)
        self.repetitions: dict[Conditions, list[Repetition]] = {}
        self.resolved: dict[Conditions, Conditions] = {}
        self.info: dict[Conditions, str] = {}
        self.configs: dict[int, dict[str, str]] = {}
        self.left_out: list[str] = []
        self._server_info: dict[str, str] = {}
        self._done = 0
        self._total = 0

    def run(self, points: Sequence[Conditions]) -> None:
        """Measure all points: as many data sets side by side as fit in memory."""
        self._total = len(points) * self._timing.repetitions
        ordered = sorted(
            points, key=lambda given: (given.io_threads, given.keys * given.value_bytes)
        )
        groups: dict[tuple[Any, ...], list[Conditions]] = {}
        for given in ordered:
            reason = None if self._tool is None else unsupported(self._tool, given)
            if reason is not None:
                self.left_out.append(f"{given.label()}: {reason}")
                continue
            groups.setdefault(given.data_set, []).append(given)
        for wave in self._waves(list(groups.values())):
            self._measure_wave(wave)

    def _waves(self, groups: list[list[Conditions]]) -> Iterator[list[list[Conditions]]]:
        """Groups whose data sets fit in memory together; what never fits is left out."""
        free = available_memory_bytes()
        room = float("inf") if free is None else _MEMORY_SHARE * free
        wave: list[list[Conditions]] = []
        used = 0.0
        for group in groups:
            need = max(memory_bytes(given.load_spec()) for given in group)
            if need > room:
                for given in group:
                    self.left_out.append(
                        f"{given.label()}: needs {need / 2**20:.0f} MiB of the "
                        f"{(free or 0) / 2**20:.0f} MiB free"
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
            servers: dict[Conditions, _Server] = {}
            for group in wave:
                server = self._start(group, stack)
                servers.update(dict.fromkeys(group, server))
                server.process.pause()
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

    def _start(self, group: list[Conditions], stack: ExitStack) -> _Server:
        """A fresh server with the group's data set loaded."""
        first = group[0]
        plan = self._plan(group)
        with _on_cores(plan.generator):
            process = stack.enter_context(
                EngineProcess(self._binary, io_threads=first.io_threads, cores={plan.main})
            )
            control = stack.enter_context(process.control())
            pin_threads(process, plan)
            self._server_info = dict(info_fields(control.info("server"))) | {
                "mem_allocator": info_fields(control.info("memory")).get("mem_allocator", "")
            }
            self.configs.setdefault(first.io_threads, control.config())
            self._say(f"loading {first.keys} keys of {first.value_bytes:g} bytes")
            spec = first.load_spec(seed=_SEED)
            if self._tool is not None and self._tool.name == "memtier_benchmark":
                spec = replace(spec, first_key=MEMTIER_FIRST_KEY)
            preload(
                spec,
                process.address(first.transport),
                control=control,
                cores=plan.generator,
            )
        return _Server(process, control, plan)

    def _measure_rounds(self, servers: dict[Conditions, _Server]) -> None:
        """The repetitions of all points, then more of those points that other work disturbed."""
        start_s = time.monotonic()
        for number in range(self._timing.repetitions):
            for given in _shuffled(list(servers), number):
                self._done += 1
                self._say(f"measuring {self._done} of {self._total}: {given.label()}")
                self._measure(given, servers[given], number)
        end_s = time.monotonic() + _AGAIN_SHARE * (time.monotonic() - start_s)
        number = self._timing.repetitions
        wanted = min(_QUIET, self._timing.repetitions)
        while disturbed := [
            given
            for given, server in servers.items()
            # Our own threads, where they share cores, disturb each other, and would again.
            if self._quiet(given) < wanted and not server.plan.oversubscribed
        ]:
            for given in _shuffled(disturbed, number):
                if time.monotonic() > end_s:
                    return
                self._say(f"measuring again, other work disturbed it: {given.label()}")
                self._measure(given, servers[given], number)
            number += 1

    def _quiet(self, given: Conditions) -> int:
        """Repetitions of a point that other work didn't disturb."""
        return sum("disturbed" not in r.flags for r in self.repetitions[given])

    def _measure(self, given: Conditions, server: "_Server", number: int) -> None:
        """Measure one repetition of a point and keep it, with INFO after it."""
        server.process.resume()
        with _on_cores(server.plan.generator):
            self._drive(given, server, number)
            self.info[given] = server.control.info("all")
        server.process.pause()

    def _drive(self, given: Conditions, server: "_Server", number: int) -> None:
        if self._tool is not None:
            repetition = measure_with_tool(
                self._tool,
                given,
                server.process,
                server.control,
                plan=server.plan,
                timing=self._timing,
                origin_s=self._origin_s,
            )
        else:
            repetition = measure_repetition(
                given,
                server.process,
                server.control,
                plan=server.plan,
                timing=self._timing,
                seed=_SEED + number,
                origin_s=self._origin_s,
            )
        self.repetitions.setdefault(given, []).append(repetition)

    def _plan(self, group: Sequence[Conditions]) -> CorePlan:
        return plan_cores(
            io_threads=group[0].io_threads,
            generator_threads=max(given.generator_threads for given in group),
            allowed=self._allowed,
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

    def engine(self) -> Engine:
        """What the engine says it is."""
        fields = self._server_info
        valkey = fields.get("valkey_version")
        return Engine(
            name="valkey" if valkey else "redis",
            version=valkey or fields.get("redis_version", "unknown"),
            path=str(self._binary),
            sha256=sha256_of(self._binary),
            build=fields.get("redis_build_id"),
            allocator=fields.get("mem_allocator"),
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
    random.Random(f"{_SEED} {number}").shuffle(order)
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
