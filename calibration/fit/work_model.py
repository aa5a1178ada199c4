"""The CPU time of observed points as counted steps times the time of each, fast enough to fit.

How many turns, reads, writes, sleeps and wake-ups a request took was counted during the
observation; the time of each is to be fitted. Waits for memory come from the memory model at
every rate at which others might have filled the last-level cache. The simulation, which predicts
the same points, is told none of these counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any

import numpy as np

from forecache.hwprofiles.files import parse
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.engines.commands import CommandKind, command_kinds
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import EngineProfile
from forecache.models.memory.contents import prefetch_batch
from forecache.models.scenario.schema import Scenario
from forecache.models.step_times.command_times import copied_value_bytes
from forecache.models.step_times.inputs import NodeInputs
from forecache.models.step_times.workload_caches import command_waits, workload_caches

from ..bundle.points import Conditions, ObservedPoint
from ..bundle.profiles import Profile, Stage


def scenario_of(
    given: Conditions, *, engine: str, engine_version: str, tool: str = "forecache"
) -> Scenario:
    """The scenario of an observed point: engine and load generator on one host.

    Raises
    ------
    InputError
        The point has conditions that the model doesn't know, such as an open loop of pipelines.
    """
    popularity: Any = "uniform"
    if given.popularity.kind == "zipf":
        popularity = {"zipf": given.popularity.exponent}
    elif given.popularity.kind == "hot_set":
        popularity = {
            "hot_set": {
                "keys": given.popularity.hot_keys_fraction,
                "requests": given.popularity.hot_requests_fraction,
            }
        }
    value: Any = int(given.value_bytes)
    if given.value_sizes is not None:
        sizes, weights = zip(*given.value_sizes, strict=True)
        value = {"values": list(sizes), "weights": list(weights)}
    data = {
        "host": None,
        "engine": engine,
        "engine_version": engine_version,
        "transport": "tcp" if given.transport == "tcp" else "unix_socket",
        "io_threads": given.io_threads,
        "workload": {
            "arrival": given.arrival,
            "clients": given.clients,
            "pipeline": given.pipeline,
            "think_us": given.think_us,
            "rate_rps": given.rate_rps,
            "mix": {"get": given.get_fraction, "set": 1.0 - given.get_fraction},
            "keys": given.keys,
            "key_bytes": given.key_bytes,
            "value_bytes": value,
            "popularity": popularity,
        },
        "load_generator": {
            "tool": tool,
            "threads": given.generator_threads,
            "same_host": True,
        },
    }
    return parse(Scenario, data, file=f"observed point {given.label()}")


IPC = "user_ipc"
FILLS = "l3_fills_per_us"
HOST_NAMES = (IPC, FILLS)
"""Numbers of the host that are fitted with the engine's: no micro-benchmark knows them well."""

FILLS_GRID = np.array([0.0, *np.geomspace(1.0, 300.0, 12)])
"""Lines a microsecond that others bring into the last-level cache, where waits are worked out."""

_LEAST_FILLS = 1.0
"""Lines a microsecond assumed of a host whose profile says nothing of its neighbours."""

FALLBACK_TURNS_PER_READ = 0.03
"""Turns of the event loop per read where the engine doesn't count them: saturated loops with fifty
clients, as other versions report."""

INSTRUCTIONS = (
    *("loop_instructions", "read_instructions", "write_instructions", "parse_instructions"),
    *("get_instructions", "set_instructions", "value_instructions"),
    *("get_instructions_per_byte", "parse_instructions_per_byte", "set_instructions_per_byte"),
    "prefetch_instructions_per_key",
)
"""Work in user code."""


@dataclass(frozen=True)
class PointCounts:
    """What one request of an observed point took, on average."""

    turns: float
    reads: float
    writes: float
    segments: float
    """Pieces that replies went through the stack in: at least one a write; the generator reads them
    one by one."""
    generator_wakes: float
    server_sleeps: float
    generator_sleep_ns: float = math.inf
    server_sleep_ns: float = math.inf
    """How long one of these sleeps lasts, until the thread has its CPU again."""
    resumed: float = 0.0
    """Reads that need no recv: they go on with what an earlier turn has left."""
    rearms: float = 0.0
    """Sockets of which epoll was asked for another event: before and after such reads."""


def events_per_batch(given: Conditions, engine: EngineProfile) -> int:
    """How often an engine turns to a client for one batch: more than once where it limits turns."""
    return math.ceil(given.pipeline / (engine.commands_per_event or given.pipeline))


def counts_of(point: ObservedPoint, *, events: int = 1, turns_per_round: int = 1) -> PointCounts:
    """Observed counts per request; what an engine doesn't report is estimated.

    Parameters
    ----------
    events
        From `events_per_batch`.
    turns_per_round
        Of an `EngineProfile`.
    """
    reads = point.ordinary("reads_per_request")
    writes = point.ordinary("writes_per_request")
    served = events / point.given.pipeline
    reads = served if np.isnan(reads) else reads
    writes = served if np.isnan(writes) else writes
    sleeps = point.ordinary("main_voluntary_switches_per_request")
    turns = point.ordinary("event_loops_per_request")
    if np.isnan(turns):
        turns = turns_per_round * max(FALLBACK_TURNS_PER_READ * reads, sleeps)
    wakes = point.ordinary("generator_voluntary_switches_per_request")
    received = point.ordinary("generator_reads_per_request")
    resumed = events - 1
    return PointCounts(
        turns=turns,
        reads=reads,
        writes=writes,
        segments=writes if np.isnan(received) else max(writes, received),
        generator_wakes=0.0 if np.isnan(wakes) else wakes,
        server_sleeps=sleeps,
        generator_sleep_ns=_sleep_ns(point, "generator_cpu", point.given.generator_threads, wakes),
        server_sleep_ns=_sleep_ns(point, "main_thread_cpu", 1, sleeps),
        resumed=resumed / point.given.pipeline,
        rearms=2 * (resumed > 0) / point.given.pipeline,
    )


def _sleep_ns(point: ObservedPoint, cpu: str, threads: int, sleeps: float) -> float:
    """How long a sleep lasts on average: what threads don't compute, by how often they sleep."""
    idle_ns = threads * 1e9 / point.ordinary("throughput_rps")
    idle_ns -= point.ordinary(f"{cpu}_ns_per_request")
    if not sleeps > 0.0 or math.isnan(idle_ns):
        return math.inf
    return max(0.0, idle_ns) / sleeps


def instruction_counts(
    kinds: Sequence[CommandKind],
    scenario: Scenario,
    engine: EngineProfile,
    counts: PointCounts,
) -> dict[str, float]:
    """How often one request does each kind of user work, by the name of that work."""
    gets = sum(k.share for k in kinds if k.command == "get")
    sets = 1.0 - gets
    get_bytes = sum(
        k.share * k.worked_share * copied_value_bytes(k, scenario, engine)
        for k in kinds
        if k.command == "get"
    )
    set_bytes = sum(k.share * k.worked_share * k.value_bytes for k in kinds if k.command == "set")
    return {
        "loop_instructions": counts.turns,
        "read_instructions": counts.reads,
        "write_instructions": counts.writes,
        "parse_instructions": 1.0,
        "get_instructions": gets,
        "set_instructions": sets,
        "value_instructions": sets,
        "get_instructions_per_byte": get_bytes,
        "parse_instructions_per_byte": set_bytes,
        "set_instructions_per_byte": set_bytes,
        "prefetch_instructions_per_key": 1.0 if _batch(scenario, engine) > 1 else 0.0,
    }


def _batch(scenario: Scenario, engine: EngineProfile) -> int:
    """Keys that a lone main thread looks up together."""
    if not engine.whole_pipeline:
        return 1
    ahead = min(scenario.workload.pipeline, engine.lookahead or scenario.workload.pipeline)
    return min(prefetch_batch(scenario, engine), ahead)


@dataclass(frozen=True)
class PointTimes:
    """Parts of the CPU time per request of many points, at the prior's numbers; ns.

    Attributes
    ----------
    user : (points, len(INSTRUCTIONS))
    kernel, wake, short_wake, copy : (points,)
        `short_wake` is the part of sleeps and wake-ups that `wake_scale` does not multiply.
    touch, stream, old_value, buffers, tail : (points, len(FILLS_GRID))
    """

    user: np.ndarray
    kernel: np.ndarray
    wake: np.ndarray
    short_wake: np.ndarray
    copy: np.ndarray
    touch: np.ndarray
    stream: np.ndarray
    old_value: np.ndarray
    buffers: np.ndarray
    tail: np.ndarray


def point_times(
    points: Sequence[tuple[Conditions, PointCounts]], engine: EngineProfile, speed: HostSpeed
) -> PointTimes:
    """The parts of points with their counts, with an engine's numbers as they are."""
    rows = [_one_point(given, counts, engine, speed) for given, counts in points]
    return PointTimes(
        **{f.name: np.array([getattr(row, f.name) for row in rows]) for f in fields(PointTimes)}
    )


def inputs_of(given: Conditions, engine: EngineProfile, speed: HostSpeed) -> NodeInputs:
    """What a simulation of a point would need, with an engine's numbers as they are."""
    scenario = scenario_of(given, engine=engine.engine, engine_version=engine.version)
    generator = load_generator(scenario.load_generator.tool).generator_work()
    return NodeInputs(scenario, engine, engine.engine_work(), speed, generator, speed)


def _one_point(
    given: Conditions, counts: PointCounts, engine: EngineProfile, speed: HostSpeed
) -> PointTimes:
    inputs = inputs_of(given, engine, speed)
    scenario, work, kinds = inputs.scenario, inputs.work, inputs.kinds
    recv_ns, send_ns = inputs.socket_ns(speed)
    kernel = counts.turns * speed.epoll_wait_ns + counts.segments * send_ns
    kernel += (counts.reads - counts.resumed) * recv_ns + counts.reads * speed.epoll_event_ns
    kernel += counts.rearms * 2 * speed.epoll_ctl_ns + counts.writes * inputs.reply_event_ns()
    wake, short_wake = wake_times(counts, speed)
    batch = _batch(scenario, engine)
    done = instruction_counts(kinds, scenario, engine, counts)
    user = [inputs.user_ns(done[name] * getattr(work, name)) for name in INSTRUCTIONS]
    waits = np.zeros((5, len(FILLS_GRID)))
    for column, fills in enumerate(FILLS_GRID):
        filled = replace(inputs, speed=replace(speed, l3_fills_per_us=float(fills)))
        caches = workload_caches(filled)
        waits[3, column] = caches.copy_wait_ns
        for kind in kinds:
            where = command_waits(kind, filled, caches)
            old_ns = 0.0
            if where.structures[-1].name == "old value":
                old_ns = where.structures[-1].touches * float(where.line_ns[-1])
            if batch > 1:
                touching = where.together_ns(batch, speed.parallel_misses) / batch
                touching += where.alone_ns()
            else:
                touching = where.touching_ns()
            waits[0, column] += kind.share * (touching - old_ns)
            waits[1, column] += kind.share * where.head_ns()
            waits[4, column] += kind.share * where.tail_ns()
            waits[2, column] += kind.share * old_ns
    return PointTimes(
        user=np.array(user),
        kernel=np.array(work.kernel_scale * kernel),
        wake=np.array(work.wake_scale * wake),
        short_wake=np.array(short_wake),
        copy=np.array(inputs.copying_ns() + inputs.moving_ns),
        touch=waits[0],
        stream=work.stream_scale * waits[1],
        old_value=waits[2],
        buffers=waits[3],
        tail=waits[4],
    )


def wake_times(
    counts: PointCounts, speed: HostSpeed, *, of_generator: bool = False
) -> tuple[float, float]:
    """CPU ns per request of the server's sleeps and of waking the load generator.

    Parameters
    ----------
    of_generator
        The load generator's part instead: its own sleeps, and waking the server.

    Returns
    -------
    What an engine's `wake_scale` multiplies, and what it does not: the share that sleeps take
    however short they are.
    """
    # A sleep lasts until its thread runs; its price goes by when it was woken.
    on_its_way_ns = speed.whole_wake_latency_ns - speed.tcp_send_ns
    on_its_way_ns -= speed.wake_send_ns + speed.whole_block_ns
    # Of a short and of a whole one.
    woken_ns = speed.wake_send_ns, speed.wake_send_ns
    asleep_ns = speed.block_ns, speed.whole_block_ns
    if of_generator:
        woken_ns, asleep_ns = asleep_ns, woken_ns
    scaled = fixed = 0.0
    for often, lasts_ns, (short_ns, full_ns) in (
        (counts.generator_wakes, counts.generator_sleep_ns, woken_ns),
        (counts.server_sleeps, counts.server_sleep_ns, asleep_ns),
    ):
        slept_ns = max(0.0, lasts_ns - max(speed.syscall_ns, on_its_way_ns))
        grown = min(1.0, slept_ns / speed.block_ns)
        scaled += often * grown * full_ns
        fixed += often * (1.0 - grown) * speed.short_sleep_share * short_ns
    return scaled, fixed


SCALES = ("kernel_scale", "wake_scale", "touch_scale", "stream_scale", "value_touches")


class WorkModel:
    """CPU time per request of observed points as a function of factors on the prior's numbers.

    Parameters
    ----------
    times
        From `point_times`, with the priors in the engine.
    fills_per_us
        The middle of the prior of `l3_fills_per_us`.
    """

    names: tuple[str, ...] = (*INSTRUCTIONS, *SCALES, *HOST_NAMES)

    def __init__(self, times: PointTimes, *, fills_per_us: float) -> None:
        self._times = times
        self.fills_per_us = fills_per_us

    def parts(self, logs: np.ndarray) -> Mapping[str, np.ndarray]:
        """(points,) CPU ns per request of user, kernel, wake, copy, memory and buffers.

        Parameters
        ----------
        logs : (len(names),)
            Logarithms of the factors.
        """
        t = self._times
        factor = dict(zip(self.names, np.exp(logs), strict=True))
        user = np.array([factor[name] for name in INSTRUCTIONS]) / factor[IPC]
        at = np.interp(
            np.log1p(self.fills_per_us * factor[FILLS]),
            np.log1p(FILLS_GRID),
            np.arange(len(FILLS_GRID)),
        )
        low = min(int(at), len(FILLS_GRID) - 2)
        weight = at - low

        def waits(table: np.ndarray) -> np.ndarray:
            return np.asarray((1 - weight) * table[:, low] + weight * table[:, low + 1])

        memory = waits(t.tail) + factor["touch_scale"] * waits(t.touch)
        memory = memory + factor["stream_scale"] * waits(t.stream)
        memory = memory + factor["value_touches"] * waits(t.old_value)
        return {
            "user": t.user @ user,
            "kernel": factor["kernel_scale"] * t.kernel,
            "wake": factor["wake_scale"] * t.wake + t.short_wake,
            "copy": t.copy,
            "memory": memory,
            "buffers": waits(t.buffers),
        }

    def log_cpu_ns(self, logs: np.ndarray) -> np.ndarray:
        """(points,) logarithms of the CPU time per request."""
        return np.asarray(np.log(sum(self.parts(logs).values())))


def work_model(
    points: Sequence[tuple[Conditions, PointCounts]], engine: EngineProfile, speed: HostSpeed
) -> WorkModel:
    """The model of points with their counts, on a host whose neighbours are in its profile.

    Parameters
    ----------
    engine
        With the priors as its work.
    """
    return WorkModel(
        point_times(points, engine, speed), fills_per_us=max(speed.l3_fills_per_us, _LEAST_FILLS)
    )


# --- instructions that a profiler counted ---------------------------------------------------------

# Instructions per request, as a profiler counted them, against those of the model.
#
# CPU time alone knows instructions only divided by the rate at which they retire. Counted
# instructions tell the two apart, and parsing from execution.


GROUPS: dict[str, tuple[Stage, ...]] = {
    "events": ("poll", "loop", "read"),
    "write": ("write",),
    "parse": ("parse",),
    "command": ("lookup", "execute", "reply", "memory"),
}
"""Stages that the model doesn't tell apart. The event loop hands out events one by one, so part of
its instructions goes with the reads."""

WHOLE = "request"
"""The only group of an engine whose functions have no names."""

_GROUP_OF = {
    "loop_instructions": "events",
    "read_instructions": "events",
    "write_instructions": "write",
    "parse_instructions": "parse",
    "get_instructions": "command",
    "set_instructions": "command",
    "value_instructions": "command",
    "prefetch_instructions_per_key": "command",
}

LARGEST_VALUE_BYTES = 64
"""Copies of larger values are counted in time, not in instructions: one moves up to 64 bytes."""

COUNT_ERROR = 0.10
"""Relative standard error of a count: the count is exact, the model of it is not."""

_FEWEST = 20.0
"""Instructions per request below which a group is noise of the subtraction."""


def tells_stages(engine: EngineProfile) -> bool:
    """Whether what is counted of an engine can be told apart by stage.

    Memcached's own functions are static, and stripped programs, as distributions have them, don't
    name those; what they spend is known as a whole.
    """
    return engine.engine != "memcached"


def groups_of(engine: EngineProfile) -> dict[str, tuple[Stage, ...]]:
    """Stages of an engine by group: those of `GROUPS`, or all that requests cause in one."""
    return GROUPS if tells_stages(engine) else {WHOLE: tuple(chain(*GROUPS.values()))}


@dataclass(frozen=True)
class InstructionRows:
    """Observed instructions and what the model makes of them.

    Attributes
    ----------
    matrix : (rows, len(INSTRUCTIONS))
        Instructions per request at the prior's numbers.
    observed : (rows,)
    """

    matrix: np.ndarray
    observed: np.ndarray

    def log_instructions(self, logs: np.ndarray) -> np.ndarray:
        """(rows,) logarithms, by logarithms of factors of which the first are those of work."""
        return np.asarray(np.log(self.matrix @ np.exp(logs[: len(INSTRUCTIONS)])))


def instruction_rows(profiles: Sequence[Profile], engine: EngineProfile) -> InstructionRows:
    """What counted profiles say; none where no profiler counted instructions."""
    rows, observed = [], []
    work = engine.engine_work()
    for profile in profiles:
        counted = _instructions(profile)
        given = profile.given
        if not counted or given.value_bytes > LARGEST_VALUE_BYTES or given.io_threads != 1:
            continue
        served = events_per_batch(given, engine) / given.pipeline
        counts = PointCounts(
            turns=profile.event_loops_per_request or 0.0,
            reads=profile.reads_per_request or served,
            writes=profile.writes_per_request or served,
            segments=served,
            generator_wakes=0.0,
            server_sleeps=0.0,
        )
        scenario = scenario_of(given, engine=engine.engine, engine_version=engine.version)
        done = instruction_counts(command_kinds(scenario), scenario, engine, counts)
        for group, stages in groups_of(engine).items():
            total = sum(counted.get(stage, 0.0) for stage in stages)
            own = {name for name, of in _GROUP_OF.items() if group in (WHOLE, of)}
            row = [
                done[name] * getattr(work, name) if name in own else 0.0 for name in INSTRUCTIONS
            ]
            if total >= _FEWEST and sum(row) > 0:
                rows.append(row)
                observed.append(total)
    matrix = np.array(rows).reshape(-1, len(INSTRUCTIONS))
    return InstructionRows(matrix, np.array(observed))


def _instructions(profile: Profile) -> dict[Stage, float]:
    """Instructions per request of the main thread by stage, where they were counted."""
    return {
        work.stage: work.instructions_per_request
        for thread in profile.threads
        if thread.role == "main"
        for work in thread.stages
        if work.instructions_per_request is not None
    }
