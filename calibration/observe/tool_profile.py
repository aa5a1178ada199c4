"""The work of a benchmark tool: instructions counted, CPU time measured, and what follows of both.

Factors say how far the tool on this host is from its counted instructions at the host's speed, from
the host's own system calls, and from the host's waking.
"""

from __future__ import annotations

import re
import resource
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from forecache.hwprofiles.quantity import Quantity, Source
from forecache.hwprofiles.schema import HostProfile
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.engines.generator import GeneratorProfile, load_generator
from forecache.models.prediction.predict import Progress
from forecache.sim.errors import EngineError
from forecache.sim.plain import Result

from ..bundle.points import Conditions
from ..drive.proc import thread_usage
from ..drive.servers import find_engine
from ..fit.prior import fitted_quantity
from ..fit.regression import Posterior, Problem, fit
from .profilers.programs import missing, run_program, version_of
from .profilers.session import Session, session
from .readers.callgrind import read_callgrind
from .tools import find_tool, run_tool, tool_command

REQUEST_SHARE = 0.2
"""Of the instructions of a request and its reply: what random keys add, counted in four versions of
valkey-benchmark and redis-benchmark (0.05 to 0.23)."""

POINT_ERROR = 0.05
PRIOR_ERRORS = {"user": 0.5, "kernel": 0.3, "wake": 0.3}
"""Standard errors of the logarithms of the factors on instructions at the host's speed, on its
system calls and on its waking."""


@dataclass(frozen=True)
class ToolReport(Result):
    """What a benchmark tool takes on this host.

    Attributes
    ----------
    profile
        Its work, as a scenario's `load_generator.tool` takes it from a file.
    counted
        Whether instructions were counted here; otherwise they are those of the shipped profile.
    points, fitted_us
        What was measured, and the CPU time per request that the profile gives at each point.
    wake_factor
        Time for sleeping and waking against the host's own numbers.
    """

    profile: GeneratorProfile
    counted: bool
    points: list[ToolPoint]
    fitted_us: list[float]
    wake_factor: float

    @property
    def errors(self) -> list[float]:
        """Relative difference of the fit from the median of each point."""
        pairs = zip(self.fitted_us, self.points, strict=True)
        return [us / statistics.median(point.cpu_us) - 1.0 for us, point in pairs]


def profile_tool(
    tool: str, *, host: HostProfile, engine: str | None = None, progress: Progress | None = None
) -> ToolReport:
    """Count and time a benchmark tool on this host.

    Parameters
    ----------
    host
        The profile of this host.
    engine
        The server it drives; the embedded Valkey if left out.

    Raises
    ------
    InputError
        It is no tool that is known, or it or the engine is not on PATH.
    EngineError
        The engine or the tool fails, or there is no core for each.
    """
    program, server = find_tool(tool), find_engine(engine)
    prior = load_generator(program.name)
    counted = can_count()
    counts = count_tool(program, server, progress=progress) if counted else shipped_counts(prior)
    points = time_tool(program, server, progress=progress)
    speed = host.speed().ticking() if prior.polls_to_send else host.speed()
    posterior = factors(counts, points, speed)
    day = datetime.now(UTC).date().isoformat()
    made = profile_of(prior, counts, posterior, name=tool_title(program), host=host, created=day)
    fitted_us = predicted_us(counts, points, speed, posterior)
    return ToolReport(made, counted, points, fitted_us, posterior.factor("wake"))


def tool_title(program: Path) -> str:
    """Name and version, as `valkey-benchmark 8.0.1`."""
    said = version_of([str(program), "--version"])
    version = re.search(r"\d+\.\d+\.\d+", said)
    return f"{program.name} {version[0]}" if version else program.name


def shipped_counts(prior: GeneratorProfile) -> ToolCounts:
    """The counts of a shipped profile, where nothing can be counted."""
    work = prior.generator_work()
    return ToolCounts(
        poll_rounds=work.poll_rounds,
        epoll_changes=work.epoll_changes,
        poll_instructions=work.poll_instructions / work.poll_rounds,
        batch_instructions=work.batch_instructions,
        request_instructions=work.request_instructions + work.reply_instructions,
        byte_instructions=work.byte_instructions,
    )


def factors(counts: ToolCounts, points: Sequence[ToolPoint], speed: HostSpeed) -> Posterior:
    """How far the tool is from its counts and the host's own numbers."""
    matrix = np.array([_row(counts, point, speed) for point in points])
    return fit(
        Problem(
            names=list(PRIOR_ERRORS),
            prior_errors=np.array(list(PRIOR_ERRORS.values())),
            predict=lambda logs: np.log(matrix @ np.exp(logs)),
            observed=np.log([1000.0 * statistics.median(point.cpu_us) for point in points]),
            errors=np.full(len(points), POINT_ERROR),
        )
    )


def _row(counts: ToolCounts, point: ToolPoint, speed: HostSpeed) -> list[float]:
    """What each factor stands for at one point, in ns per request.

    A tool that never sleeps finds all its clients ready at every call of epoll_wait; one that does
    finds one of them each time.
    """
    batches, size_bytes = 1.0 / point.pipeline, bytes_of(TIMED[0])
    waits = counts.poll_rounds * max(batches / point.clients, point.sleeps_per_request)
    waits = min(waits, counts.poll_rounds * batches)
    instructions = waits * counts.poll_instructions + batches * counts.batch_instructions
    instructions += counts.request_instructions + size_bytes * counts.byte_instructions
    kernel = waits * speed.epoll_wait_ns
    kernel += batches * counts.poll_rounds * speed.epoll_event_ns
    kernel += batches * (speed.tcp_recv_ns + speed.tcp_send_ns)
    kernel += batches * counts.epoll_changes * speed.epoll_ctl_ns
    sent, received = TIMED[0].key_bytes, TIMED[0].value_bytes
    kernel += sent * speed.send_ns_per_byte(point.pipeline * sent)
    kernel += received * speed.recv_ns_per_byte(point.pipeline * received)
    wake = point.sleeps_per_request * speed.whole_block_ns
    wake += point.server_sleeps_per_request * speed.wake_send_ns
    return [instructions / (speed.user_ipc * speed.clock_ghz), kernel, wake]


def predicted_us(
    counts: ToolCounts, points: Sequence[ToolPoint], speed: HostSpeed, posterior: Posterior
) -> list[float]:
    """CPU time per request that the factors give at each point."""
    matrix = np.array([_row(counts, point, speed) for point in points])
    return [float(ns) / 1000.0 for ns in matrix @ np.exp(posterior.logs)]


def profile_of(
    prior: GeneratorProfile,
    counts: ToolCounts,
    posterior: Posterior,
    *,
    name: str,
    host: HostProfile,
    created: str,
) -> GeneratorProfile:
    """A tool as measured on a host, for scenarios with it as their load generator.

    Parameters
    ----------
    prior
        Of the tool's kind; what was not measured is taken from it.
    name
        The tool and its version.
    created
        The day of the measurement.
    """
    request = counts.request_instructions
    leaves = {
        "poll_rounds": (counts.poll_rounds, "calls", "epoll_wait per batch of a single client"),
        "batch_syscalls": (0.0, "calls", "what else a batch calls is counted by its instructions"),
        "epoll_changes": (counts.epoll_changes, "calls", "epoll_ctl per batch"),
        "poll_instructions": (
            counts.poll_rounds * counts.poll_instructions,
            "instructions",
            "per turn, from one client against many",
        ),
        "batch_instructions": (counts.batch_instructions, "instructions", "by length of pipeline"),
        "request_instructions": (
            REQUEST_SHARE * request,
            "instructions",
            "the share of a request that random keys add",
        ),
        "reply_instructions": (
            (1.0 - REQUEST_SHARE) * request,
            "instructions",
            "by length of pipeline, less the request",
        ),
        "byte_instructions": (counts.byte_instructions, "1/B", "64 against 1024 bytes"),
    }
    work = dict(prior.work)
    for key, (value, unit, how) in leaves.items():
        method = f"counted in valgrind: {how}"
        work[key] = Quantity(
            value=float(f"{value:.4g}"), unit=unit, kind="measured", source="tool", method=method
        )
    for key, factor, what in (
        ("user_scale", "user", "instructions at the host's speed"),
        ("kernel_scale", "kernel", "the host's system calls"),
    ):
        value, error = posterior.factor(factor), posterior.error(factor)
        work[key] = fitted_quantity(
            value,
            error,
            added=1.0 - posterior.weight(factor),
            unit="1",
            source="tool",
            method=f"CPU time against {what}",
            z=1.96,
        )
    source = Source(title=f"{name}, measured on {host.title}", file="tool", accessed=created)
    sources = {**prior.sources, "tool": source}
    return prior.model_copy(update={"title": name, "work": work, "sources": sources})


# --- what is counted and timed --------------------------------------------------------------------

# What a benchmark tool spends on a request: instructions counted, CPU time measured.
#
# valgrind counts the tool's instructions and its calls of epoll_wait and epoll_ctl, exactly, in
# differences of two loads; they are the same on every host. CPU time is that of the whole process
# while it drives a real engine on another core, again in differences, so that starting and
# connecting are left out. `tool_profile` makes the tool's numbers of both.


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


def count_tool(
    tool: Path,
    engine: Path,
    *,
    points: Sequence[Conditions] = COUNTED,
    progress: Progress | None = None,
) -> ToolCounts:
    """Count a tool's instructions and calls; some point has to have a single client."""
    rows, instructions, waits, changes = [], [], [], []
    with session(engine, points) as on:
        for given in points:
            if progress is not None:
                progress(f"counting {tool.name}, {given.label()}")
            found = _count_load(tool, on, given)
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


def _count_load(tool: Path, on: Session, given: Conditions) -> dict[str, float]:
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


def time_tool(
    tool: Path,
    engine: Path,
    *,
    points: Sequence[Conditions] = TIMED,
    repetitions: int = REPETITIONS,
    progress: Progress | None = None,
) -> list[ToolPoint]:
    """CPU time of a tool at each point, repetitions interleaved."""
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
    cpu_ns = result.generator_cpu_ns_per_request * result.requests
    row = [cpu_ns, used.cpu_ns, slept, used.voluntary_switches]
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
