"""What could be observed besides, and what each would tell of the factors that a fit looks for.

Nothing was counted at a point that was not observed: counts per request are what saturated engines
show. The derivatives of a logarithm that would be observed, of CPU time or of instructions, are a
row of the Jacobian, and a row with its error updates a covariance as in any linear model with
normal errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.profile import EngineProfile

from ..bundle.points import CALLGRIND_POINTS, Command, Conditions
from ..bundle.profiles import Profile, StageWork, ThreadWork
from .instructions import GROUPS, instruction_rows
from .regression import derivatives
from .work_model import FALLBACK_TURNS_PER_READ, PointCounts, work_model

_COMMANDS: tuple[Command, ...] = ("get", "set")
_PIPELINES = (1, 4, 16, 64)
_VALUES = (16, 64, 512, 4_096, 16_384)
_KEYS = (1_000, 10_000, 100_000, 1_000_000, 4_000_000)
_FEW_AND_MANY_CLIENTS = (1, 10, 200)
"""Beside fifty: turns of the event loop find fewer or more clients ready."""

_DATA_SET_BYTES = 2**29
_PIPELINE_BYTES = 2**16
"""Largest data set and largest pipeline of values: more takes long to load, or waits for sockets
instead of working."""

_READ_BYTES = 16 * 1024
_WRITE_BYTES = 64 * 1024
"""What one read and one write of an engine carry at most."""

_FALLBACK_CLIENTS = 50
"""Clients that `FALLBACK_TURNS_PER_READ` was counted with."""


def candidate_points() -> list[Conditions]:
    """A grid over what a design varies: command, pipeline, value size, keys, clients."""
    grid = [
        Conditions(command=command, pipeline=pipeline, value_bytes=value_bytes, keys=keys)
        for value_bytes, keys in product(_VALUES, _KEYS)
        if value_bytes * keys <= _DATA_SET_BYTES
        for command, pipeline in product(_COMMANDS, _PIPELINES)
        if value_bytes * pipeline <= _PIPELINE_BYTES
    ]
    return grid + [Conditions(command="get", clients=clients) for clients in _FEW_AND_MANY_CLIENTS]


def expected_counts(given: Conditions) -> PointCounts:
    """What one request is expected to take of an engine with one thread that is kept busy.

    A client alone finds the engine asleep every time. Replies to large values go through the stack
    in more pieces than is said here, and wake-ups of the generator are at most one a turn. Below
    saturation (think time, open loops) counts depend on the load and these are the least.
    """
    set_bytes = (1.0 - given.get_fraction) * given.pipeline * given.value_bytes
    get_bytes = given.get_fraction * given.pipeline * given.value_bytes
    reads = max(1.0, set_bytes / _READ_BYTES) / given.pipeline
    writes = max(reads, get_bytes / _WRITE_BYTES / given.pipeline)
    turns = reads * min(1.0, FALLBACK_TURNS_PER_READ * _FALLBACK_CLIENTS / given.clients)
    return PointCounts(
        turns=turns,
        reads=reads,
        writes=writes,
        segments=writes,
        generator_wakes=turns,
        server_sleeps=turns if given.clients == 1 else 0.0,
    )


def candidate_rows(
    candidates: Sequence[Conditions], engine: EngineProfile, host: HostProfile, logs: np.ndarray
) -> np.ndarray:
    """What each candidate's CPU time says of each factor.

    Parameters
    ----------
    engine
        With the priors as its work, as from `prior.general_prior`.
    logs : (factors,)
        Logarithms of the factors of `WorkModel.names`, where derivatives are taken: zeros before
        anything was observed, a posterior's afterwards.

    Returns
    -------
    numpy.ndarray
        (candidates, factors) derivatives of log CPU time per request.
    """
    counted = [(given, expected_counts(given)) for given in candidates]
    return derivatives(work_model(counted, engine, host.speed()).log_cpu_ns, logs)


def profiled_rows(engine: EngineProfile, logs: np.ndarray) -> np.ndarray:
    """What a profiler that counts instructions says of each factor.

    Parameters
    ----------
    engine, logs
        As for `candidate_rows`.

    Returns
    -------
    numpy.ndarray
        (groups of stages at the profiler's points, factors) derivatives of log instructions.
    """
    profiles = [_expected_profile(given) for given in CALLGRIND_POINTS]
    return derivatives(instruction_rows(profiles, engine).log_instructions, logs)


def _expected_profile(given: Conditions) -> Profile:
    counts = expected_counts(given)
    # How many were counted is no part of a derivative, only that some were in each stage.
    stages = [
        StageWork(stage=stage, instructions_per_request=100.0)
        for group in GROUPS.values()
        for stage in group
    ]
    return Profile(
        profiler="callgrind",
        tool="none",
        given=given,
        reads_per_request=counts.reads,
        writes_per_request=counts.writes,
        event_loops_per_request=counts.turns,
        threads=[ThreadWork(thread="main", role="main", stages=stages)],
    )


def updated(covariance: np.ndarray, row: np.ndarray, error: float) -> np.ndarray:
    """The covariance of factors once a point with this row was observed too.

    Parameters
    ----------
    covariance : (factors, factors)
    row : (factors,)
        Derivatives of what is observed.
    error
        Standard error of the observation.
    """
    told = covariance @ row
    return np.asarray(covariance - np.outer(told, told) / (row @ told + error**2))
