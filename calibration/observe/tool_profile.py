"""The work of a benchmark tool, from what was counted and timed of it (`tool_work`).

Factors say how far the tool on this host is from its counted instructions at the host's speed, from
the host's own system calls, and from the host's waking.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from forecache.hwprofiles.quantity import Quantity, Source, kind_of_fit
from forecache.hwprofiles.schema import HostProfile
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.engines.generator import GeneratorProfile, load_generator
from forecache.sim.plain import Result

from ..drive.engine_process import find_engine
from ..fit.prior import rests_on_prior
from ..fit.regression import Posterior, Problem, fit
from .profilers.programs import version_of
from .tool_work import TIMED, Progress, ToolCounts, ToolPoint, bytes_of, can_count, count
from .tool_work import measure as measured_points
from .tools import find_tool

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
    counts = count(program, server, progress=progress) if counted else shipped_counts(prior)
    points = measured_points(program, server, progress=progress)
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
        weight = posterior.weight(factor)
        work[key] = Quantity(
            value=float(f"{value:.4g}"),
            unit="1",
            kind=kind_of_fit(1.0 - weight),
            source="tool",
            method=f"CPU time against {what}{rests_on_prior(1.0 - weight)}",
            low=float(f"{value * math.exp(-1.96 * error):.4g}"),
            high=float(f"{value * math.exp(1.96 * error):.4g}"),
        )
    source = Source(title=f"{name}, measured on {host.title}", file="tool", accessed=created)
    sources = {**prior.sources, "tool": source}
    return prior.model_copy(update={"title": name, "work": work, "sources": sources})
