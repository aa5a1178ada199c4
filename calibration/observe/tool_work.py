"""What a benchmark tool spends on a request: instructions counted, CPU time measured.

valgrind counts the tool's instructions and its calls of epoll_wait and epoll_ctl, exactly, in
differences of two loads; they are the same on every host. CPU time is that of the whole process
while it drives a real engine on another core, again in differences, so that starting and
connecting are left out. `tool_profile` makes the tool's numbers of both.
"""

from __future__ import annotations

import re
import resource
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from forecache.sim.errors import EngineError
from forecache.sim.plain import Result

from ..bundle.points import Conditions
from ..drive.proc import thread_usage
from .profilers.programs import missing, run_program
from .profilers.session import Session, session
from .readers.callgrind import read_callgrind
from .tools import run_tool, tool_command

Progress = Callable[[str], None]

_KEYS = 1000
_VALUE_BYTES = 64

COUNTED = tuple(
    Conditions(command="get", pipeline=p, clients=c, keys=_KEYS, value_bytes=_VALUE_BYTES)
    for p, c in ((1, 50), (16, 50), (64, 50), (1, 1), (16, 1))
) + tuple(
    Conditions(command=command, pipeline=16, clients=50, keys=_KEYS, value_bytes=1024)
    for command in ("set", "get")
)
"""Loads that tell apart what is done per turn of the event loop, per batch, request and byte."""

TIMED = tuple(
    Conditions(command="get", pipeline=p, clients=c, keys=_KEYS, value_bytes=_VALUE_BYTES)
    for p, c in (
        *((p, 50) for p in (1, 2, 4, 8, 16, 32, 64)),
        *((1, 1), (1, 5), (1, 10), (1, 200), (8, 5), (16, 200)),
    )
)

REPETITIONS = 5
_BATCHES, _FEW_BATCHES = 30_000, 600
_MOST_REQUESTS = 400_000
_SHORT_ROUNDS, _MORE_ROUNDS = 20, 60
_LEAST_COUNTED = 2_000
_COUNT_LIMIT_S = 180.0


@dataclass(frozen=True)
class ToolCounts(Result):
    """Instructions and calls of one tool.

    Attributes
    ----------
    poll_rounds
        Calls of epoll_wait per batch of a single client.
    epoll_changes
        Calls of epoll_ctl per batch.
    poll_instructions
        Per call of epoll_wait.
    batch_instructions, request_instructions, byte_instructions
        Per batch, per request with its reply, and per byte of both.
    """

    poll_rounds: float
    epoll_changes: float
    poll_instructions: float
    batch_instructions: float
    request_instructions: float
    byte_instructions: float


@dataclass(frozen=True)
class ToolPoint(Result):
    """CPU time of a tool and of the engine it drives; medians of the repetitions but for the lists.

    Attributes
    ----------
    cpu_us, server_cpu_us
        Per request, one a repetition.
    sleeps_per_request, server_sleeps_per_request
        Times that the tool, and the engine's main thread, gave up their core.
    """

    pipeline: int
    clients: int
    cpu_us: list[float]
    server_cpu_us: list[float]
    throughput_rps: list[float]
    sleeps_per_request: float
    server_sleeps_per_request: float


def can_count() -> bool:
    """Whether valgrind is here."""
    return missing("valgrind") is None


def count(
    tool: Path,
    engine: Path,
    *,
    points: Sequence[Conditions] = COUNTED,
    progress: Progress | None = None,
) -> ToolCounts:
    """Count a tool's instructions and calls; some point has to have a single client.

    Raises
    ------
    EngineError
        The engine or the tool can't be run.
    """
    rows, instructions, waits, changes = [], [], [], []
    with session(engine, points) as on:
        for given in points:
            if progress is not None:
                progress(f"counting {tool.name}, {given.label()}")
            found = _counted(tool, on, given)
            size = given.pipeline * bytes_of(given)
            rows.append([found["epoll_wait"], 1.0, float(given.pipeline), size])
            instructions.append(found["Ir"])
            changes.append(found["epoll_ctl"])
            if given.clients == 1:
                waits.append(found["epoll_wait"])
    weights = 1.0 / np.array(instructions)
    solved, _ = nnls(np.array(rows) * weights[:, None], np.ones(len(rows)))
    return ToolCounts(statistics.median(waits), statistics.median(changes), *map(float, solved))


def bytes_of(given: Conditions) -> float:
    """Mean size of a request and its reply together: keys and values, without their framing."""
    return given.key_bytes + given.value_bytes


def _counted(tool: Path, on: Session, given: Conditions) -> dict[str, float]:
    """Instructions, and calls of epoll_wait and epoll_ctl, per batch of one load."""
    round_requests = given.clients * given.pipeline
    rounds = max(_SHORT_ROUNDS, -(-_LEAST_COUNTED // round_requests))
    more = rounds * _MORE_ROUNDS // _SHORT_ROUNDS
    found: list[dict[str, int]] = []
    with tempfile.TemporaryDirectory(prefix="forecache-valgrind-") as folder:
        out = Path(folder) / "counts"
        for each in (rounds, rounds + more):
            command = tool_command(
                tool,
                given,
                on.process.address(given.transport),
                requests=each * round_requests,
                json_file=Path(folder) / "result.json",
            )
            words = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={out}"]
            run_program([*words, *command], timeout_s=_COUNT_LIMIT_S)
            profile = read_callgrind(out)
            calls = {"epoll_wait": 0, "epoll_ctl": 0}
            for call in profile.calls:
                name = re.split("[@' ]", call.callee)[0]
                if name in calls:
                    calls[name] += call.count
            found.append({"Ir": profile.totals["Ir"], **calls})
    batches = more * given.clients
    return {name: (found[1][name] - found[0][name]) / batches for name in found[0]}


def measure(
    tool: Path,
    engine: Path,
    *,
    points: Sequence[Conditions] = TIMED,
    repetitions: int = REPETITIONS,
    progress: Progress | None = None,
) -> list[ToolPoint]:
    """CPU time of a tool at each point, repetitions interleaved.

    Raises
    ------
    EngineError
        The engine or the tool can't be run.
    """
    found: list[list[_Look]] = [[] for _ in points]
    with session(engine, points) as on:
        if on.plan.oversubscribed:
            raise EngineError("a tool and its engine need a core each; this host gives one.")
        for repetition in range(repetitions):
            if progress is not None:
                progress(f"timing {tool.name}, {repetition + 1} of {repetitions}")
            for given, looks in zip(points, found, strict=True):
                looks.append(_look(tool, on, given))
    return [_point(given, looks) for given, looks in zip(points, found, strict=True)]


@dataclass(frozen=True)
class _Look:
    cpu_ns: float
    server_cpu_ns: float
    sleeps: float
    server_sleeps: float
    throughput_rps: float


def _look(tool: Path, on: Session, given: Conditions) -> _Look:
    """Per request, from a long load and a short one."""
    long = min(_MOST_REQUESTS, _BATCHES * given.pipeline)
    short = _FEW_BATCHES * given.pipeline
    (least, _), (most, rate) = (_run(tool, on, given, n) for n in (short, long))
    cpu_ns, server_cpu_ns, sleeps, server_sleeps = map(float, (most - least) / (long - short))
    return _Look(cpu_ns, server_cpu_ns, sleeps, server_sleeps, rate)


def _run(tool: Path, on: Session, given: Conditions, requests: int) -> tuple[np.ndarray, float]:
    """CPU time and sleeps of the tool and of the engine's main thread, and the throughput."""
    pid = on.process.pid
    before, slept = thread_usage(pid, pid), _children_slept()
    address = on.process.address(given.transport)
    result = run_tool(tool, given, address, requests=requests, cores=on.plan.generator)
    used = thread_usage(pid, pid).since(before)
    slept = _children_slept() - slept
    row = [result.cpu_ns, used.cpu_ns, slept, used.voluntary_switches]
    return np.array(row, dtype=float), result.throughput_rps


def _children_slept() -> int:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw


def _point(given: Conditions, looks: Sequence[_Look]) -> ToolPoint:
    return ToolPoint(
        pipeline=given.pipeline,
        clients=given.clients,
        cpu_us=[look.cpu_ns / 1000.0 for look in looks],
        server_cpu_us=[look.server_cpu_ns / 1000.0 for look in looks],
        throughput_rps=[look.throughput_rps for look in looks],
        sleeps_per_request=max(0.0, statistics.median(look.sleeps for look in looks)),
        server_sleeps_per_request=max(0.0, statistics.median(look.server_sleeps for look in looks)),
    )
