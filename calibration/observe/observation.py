"""Points measured at a real engine: servers with their data, rounds of repetitions."""

import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forecache import __version__
from forecache.hwprofiles import HostProfile
from forecache.models.engines.profile import load_engine
from forecache.sim.errors import EngineError, InputError

from ..bundle.bundle import Engine, Manifest, Method, ObservedMachine
from ..bundle.points import Conditions, ObservedPoint, Repetition
from ..drive.connection import ControlClient
from ..drive.engine_process import sha256_of
from ..drive.loadgen import LoadGenerator
from ..drive.preload import memory_bytes, preload
from ..drive.proc import available_memory_bytes
from ..drive.server_kinds import server_kind
from ..drive.server_process import ServerProcess
from .core_state import CoreState
from .design import STARTS_POINT, Timing
from .measure import CorePlan, measure_repetition, measure_with_tool, pin_threads, plan_cores
from .profilers.phase import Phase
from .readers.info import engine_of, info_fields
from .spinning import SamplingError, Spinning, Waiting, learn, refusal
from .tools import MEMTIER_FIRST_KEY, unsupported

Progress = Callable[[str], None]

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


@dataclass(frozen=True)
class _Server:
    """A running, loaded engine, how to ask it, and which cores do what."""

    process: ServerProcess
    control: ControlClient
    plan: CorePlan
    spinning: Spinning | None = None


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
            reason = self._kind.cannot_make(given.load_spec(), given.transport)
            if reason is None and self._tool is not None:
                reason = unsupported(self._tool, given)
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

    def _start(self, group: list[Conditions], stack: ExitStack) -> _Server:
        """A fresh server with the group's data set loaded."""
        first = group[0]
        plan = self._plan(group)
        with _on_cores(plan.generator):
            process = stack.enter_context(
                self._kind(self._binary, io_threads=first.io_threads, cores={plan.main})
            )
            control = stack.enter_context(process.control())
            pin_threads(process, plan)
            self._server_info = info_fields(control.info())
            self.configs.setdefault(first.io_threads, control.config())
            self._say(f"loading {first.keys} keys of {first.value_bytes:g} bytes")
            spec = first.load_spec(seed=SEED)
            if self._tool is not None and self._tool.name == "memtier_benchmark":
                spec = replace(spec, first_key=MEMTIER_FIRST_KEY)
            preload(
                spec,
                process.address(first.transport),
                control=control,
                cores=plan.generator,
            )
            spinning = self._learn_spinning(first, process, plan)
        return _Server(process, control, plan, spinning)

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
        load = given.model_copy(update=_WAITING_LOAD).load_spec(seed=SEED)
        cores = {"main": frozenset({plan.main}), "io": plan.io, "generator": plan.generator}
        with LoadGenerator(load, process.address(given.transport), cores=plan.generator) as running:
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

    def _measure_rounds(self, servers: dict[Conditions, _Server]) -> None:
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

    def _measure_again(self, servers: dict[Conditions, _Server], *, until_s: float) -> None:
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

    def _measure(self, given: Conditions, server: _Server, number: int) -> None:
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
        found = self._cores.noted(repetition, before, self._cores.look(server.plan))
        self.repetitions.setdefault(given, []).append(found)

    def _repetition(self, given: Conditions, server: _Server, number: int) -> Repetition:
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
            engine=self.engine(),
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

    def engine(self) -> Engine:
        """What the engine says it is."""
        fields = self._server_info
        name, version = engine_of(fields)
        libevent = fields.get("libevent")
        return Engine(
            name=name,
            version=version,
            path=str(self._binary),
            sha256=sha256_of(self._binary),
            build=fields.get(
                "redis_build_id", None if libevent is None else f"libevent {libevent}"
            ),
            allocator=fields.get("mem_allocator", "slabs" if name == "memcached" else None),
            compiler=fields.get("gcc_version"),
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
