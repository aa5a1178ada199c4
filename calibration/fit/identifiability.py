"""What observations can and can't tell of the factors of a fit, and what would tell more.

Everything is scaled by the priors: a direction of the factors' logarithms that the observations
know twice as well as the priors has the singular value 2. Directions below 1 rest on the priors;
they are turned until each holds few factors, so that a sentence can name them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.optimize import brentq

from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.profile import EngineProfile
from forecache.models.prediction.uncertainty import Z95

from ..bundle.points import CALLGRIND_POINTS, Command, Conditions
from ..bundle.profiles import Profile, StageWork, ThreadWork
from .fit import POINT_ERROR, Calibration
from .regression import Posterior, derivatives, profile_cost
from .report import Directions, Known, WhatDataTell
from .work_model import (
    COUNT_ERROR,
    FALLBACK_TURNS_PER_READ,
    FILLS,
    GROUPS,
    HOST_NAMES,
    INSTRUCTIONS,
    IPC,
    PointCounts,
    instruction_rows,
    work_model,
)

_CORRELATED = 0.9
_LEAST_SHARE = 0.08
"""Of a direction's squared length: a factor with less isn't named."""

_WORTH_IT = 0.2
"""What narrows a direction by less is no advice."""

_NOTHING = 1e-3
"""What narrows a direction by less says nothing of it."""

_MEANINGS = {
    IPC: "speed of user code",
    "kernel_scale": "CPU time of socket calls",
    "wake_scale": "CPU time of sleeping and waking",
    "touch_scale": "miss penalty",
    "stream_scale": "wait for a value's lines",
    "value_touches": "touches of the old value",
    FILLS: "miss rate",
}


@dataclass(frozen=True)
class Direction:
    """A combination of factors that the observations don't tell.

    Attributes
    ----------
    names
        The factors in it, the largest share first.
    shares : (factors,)
        Unit vector, in prior errors of each factor's logarithm.
    finding, advice
        What can't be told, and what would help: the parts of a sentence without a full stop. The
        advice is empty where no candidates were given.
    """

    names: list[str]
    shares: np.ndarray
    finding: str
    advice: str

    @property
    def words(self) -> str:
        """The sentence."""
        return "; ".join(part for part in (self.finding, self.advice) if part)


@dataclass(frozen=True)
class Identifiability:
    """What observations tell of the factors of a fit.

    Attributes
    ----------
    singular_values : (factors,)
        Of the scaled Jacobian, descending: how many times better the observations know a direction
        than the priors.
    parameters
        One for each factor.
    directions
        What can't be told: an orthogonal basis, then correlated pairs that it doesn't name.
    """

    singular_values: np.ndarray
    parameters: list[Known]
    directions: list[Direction]

    @property
    def determined(self) -> int:
        """How many directions the observations know better than the priors."""
        return int(np.sum(self.singular_values > 1.0))

    @property
    def words(self) -> list[str]:
        """A sentence for each direction that can't be told; one for factors of the same advice."""
        alone: dict[str, list[Direction]] = {}
        for direction in self.directions:
            if len(direction.names) == 1:
                alone.setdefault(direction.advice, []).append(direction)
        sentences = []
        for direction in self.directions:
            alike = alone.get(direction.advice, []) if len(direction.names) == 1 else [direction]
            names = [name for one in alike for name in one.names]
            merged = replace(direction, finding=_little(names)) if len(alike) > 1 else direction
            sentences.append(merged.words)
        return list(dict.fromkeys(sentences))


def identifiability_of(
    posterior: Posterior,
    *,
    candidates: Mapping[str, np.ndarray] | None = None,
    profiled: np.ndarray | None = None,
) -> Identifiability:
    """What the observations of a fit tell of its factors.

    Parameters
    ----------
    candidates
        (factors,) derivatives of log CPU time at points that could be observed too, by the
        point's words; as from `candidate_rows`. Without any there is no advice.
    profiled : (rows, factors)
        Derivatives of log instructions that a profiler could count, as from
        `profiled_rows`.
    """
    problem = posterior.problem
    scaled = problem.weighted_jacobian(posterior.logs) * problem.prior_errors
    _, found, rows = np.linalg.svd(scaled, full_matrices=True)
    singular_values = np.zeros(len(problem.names))
    singular_values[: len(found)] = found
    say = _Sayer(posterior, candidates or {}, profiled)
    unknown = _varimax(rows[singular_values <= 1.0].T).T
    directions = [say.direction(shares) for shares in unknown]
    directions.sort(key=lambda direction: -say.variance(direction.shares))
    together = [set(direction.names) for direction in directions]
    for pair in say.pairs():
        names = {name for name, share in zip(problem.names, pair, strict=True) if share}
        if not any(names <= group for group in together):
            directions.append(say.direction(pair))
    return Identifiability(
        singular_values, [_known(posterior, name) for name in problem.names], directions
    )


def identifiability_report(fitted: Calibration) -> WhatDataTell:
    """What a bundle tells of its engine, and what to observe besides."""
    engine = fitted.prior.engine
    logs = fitted.posterior.logs.copy()
    # Numbers of the host that were fitted stand in the fitted host already.
    logs[[fitted.posterior.names.index(name) for name in HOST_NAMES]] = 0.0
    candidates = candidate_points()
    rows = candidate_rows(candidates, engine, fitted.host, logs)
    found = identifiability_of(
        fitted.posterior,
        candidates={given.words(): row for given, row in zip(candidates, rows, strict=True)},
        profiled=profiled_rows(engine, logs),
    )
    values = [float(f"{value:.3g}") for value in found.singular_values]
    return WhatDataTell(
        Directions(found.determined, len(values), values), found.words, found.parameters
    )


def _varimax(basis: np.ndarray) -> np.ndarray:
    """(factors, k) basis of the same space, each vector with as few large entries as can be.

    H. F. Kaiser, The varimax criterion for analytic rotation in factor analysis, 1958; as a fixed
    point of singular value decompositions.
    """
    size = basis.shape[1]
    # From anywhere but where equal shares balance, which is a stationary point too.
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((size, size)))[0]
    for _ in range(200):
        now = basis @ turn
        u, _, v = np.linalg.svd(basis.T @ (now**3 - now * np.mean(now**2, axis=0)))
        step, turn = turn, u @ v
        if np.abs(turn - step).max(initial=0.0) < 1e-9:
            break
    return np.asarray(basis @ turn)


def _known(posterior: Posterior, name: str) -> Known:
    log, error = math.log(posterior.factor(name)), posterior.error(name)
    return Known(
        name=name,
        prior_weight=posterior.weight(name),
        low=math.exp(log - Z95 * error),
        high=math.exp(log + Z95 * error),
        profile_low=math.exp(log - _profile_bound(posterior, name, -1.0)),
        profile_high=math.exp(log + _profile_bound(posterior, name, 1.0)),
    )


def _profile_bound(posterior: Posterior, name: str, sign: float) -> float:
    """How far a logarithm can go before the cost of all others fitted again has grown by 3.84.

    The prior's share of the cost grows without bound, so there is such a place.
    """

    def beyond(offset: float) -> float:
        # The root of the cost is nearly straight, so that few fits find it.
        return math.sqrt(max(0.0, profile_cost(posterior, name, sign * offset))) - Z95

    error = posterior.error(name)
    low, high = 0.0, 1.1 * Z95 * error
    while beyond(high) < 0.0:
        low, high = high, 1.5 * high
    return float(brentq(beyond, low, high, xtol=0.01 * error))


class _Sayer:
    """Finds the words for directions of one posterior."""

    def __init__(
        self,
        posterior: Posterior,
        candidates: Mapping[str, np.ndarray],
        profiled: np.ndarray | None,
    ) -> None:
        self._names = posterior.problem.names
        scale = np.outer(posterior.problem.prior_errors, posterior.problem.prior_errors)
        self._now = posterior.covariance / scale
        self._after_point = {
            label: updated_covariance(posterior.covariance, row, POINT_ERROR) / scale
            for label, row in candidates.items()
        }
        after = posterior.covariance
        for row in [] if profiled is None else profiled:
            after = updated_covariance(after, row, COUNT_ERROR)
        self._after_profile = after / scale

    def variance(self, shares: np.ndarray) -> float:
        """Of a direction, in prior variances."""
        return float(shares @ self._now @ shares)

    def pairs(self) -> list[np.ndarray]:
        """The unknown direction of each pair of factors that move together."""
        errors = np.sqrt(np.diag(self._now))
        correlation = np.triu(self._now / np.outer(errors, errors), k=1)
        found = []
        for pair in np.argwhere(np.abs(correlation) > _CORRELATED):
            shares = np.zeros(len(errors))
            shares[pair] = np.linalg.eigh(self._now[np.ix_(pair, pair)])[1][:, -1]
            found.append(shares)
        return found

    def direction(self, shares: np.ndarray) -> Direction:
        """A direction with its words."""
        order = np.argsort(-np.abs(shares), kind="stable")
        named = [int(i) for i in order if shares[i] ** 2 >= _LEAST_SHARE] or [int(order[0])]
        advice = self._advice(shares, alone=len(named) == 1) if self._after_point else ""
        names = [self._names[i] for i in named]
        return Direction(names, shares, self._finding(named, shares[named]), advice)

    def _finding(self, named: list[int], shares: np.ndarray) -> str:
        names = [self._names[i] for i in named]
        variances = np.linalg.eigvalsh(self._now[np.ix_(named, named)])
        if variances[0] > 0.5 * variances[-1]:
            # No combination is known much better than another: nothing to tell apart.
            return _little(names)
        first, *others = [_meaning(name) for name in names]
        said = f"these data can't separate {first} from {_join_words(others)}"
        signs = np.sign(shares[1:] * shares[0])
        if (signs > 0).all():
            return f"{said}: only their ratio is known"
        if (signs < 0).all() and set(names) <= set(INSTRUCTIONS):
            return f"{said}: only their sum is known"
        return f"{said}: only the sum of their times is known"

    def _advice(self, shares: np.ndarray, *, alone: bool) -> str:
        """What to observe next: the point that narrows the direction most, or a profiler."""

        def narrowed(after: np.ndarray) -> float:
            return 1.0 - math.sqrt(float(shares @ after @ shares) / self.variance(shares))

        by_point = {label: narrowed(after) for label, after in self._after_point.items()}
        best = max(by_point, key=by_point.__getitem__)
        by_profile = narrowed(self._after_profile)
        if by_point[best] >= _WORTH_IT:
            return f"observe {best} as well, which narrows it by {by_point[best]:.0%}"
        if by_profile >= _WORTH_IT:
            return "add instruction counts (observe --profiler callgrind)"
        if max(by_point[best], by_profile) < _NOTHING:
            missing = "depends on it" if alone else "tells them apart"
            return f"nothing that could be observed {missing}"
        return "no single point tells much more"


def _little(names: list[str]) -> str:
    rests = "its value is" if len(names) == 1 else "their values are"
    meant = _join_words([_meaning(name) for name in names])
    return f"these data say little of {meant}: {rests} mostly what was known before"


def _meaning(name: str) -> str:
    return f"{_MEANINGS[name]} ({name})" if name in _MEANINGS else name


def _join_words(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# --- what could be observed besides ---------------------------------------------------------------

# What could be observed besides, and what each would tell of the factors that a fit looks for.
#
# Nothing was counted at a point that was not observed: counts per request are what saturated
# engines show. The derivatives of a logarithm that would be observed, of CPU time or of
# instructions, are a row of the Jacobian, and a row with its error updates a covariance as in any
# linear model with normal errors.


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
        With the priors as its work, as from `general_prior`.
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


def updated_covariance(covariance: np.ndarray, row: np.ndarray, error: float) -> np.ndarray:
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
