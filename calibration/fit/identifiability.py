"""What observations can and can't tell of the factors of a fit, and what would tell more.

Everything is scaled by the priors: a direction of the factors' logarithms that the observations
know twice as well as the priors has the singular value 2. Directions below 1 rest on the priors;
they are turned until each holds few factors, so that a sentence can name them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from .candidates import candidate_points, candidate_rows, profiled_rows, updated
from .fit import POINT_ERROR, Calibration
from .instructions import COUNT_ERROR
from .regression import Posterior, profile_cost
from .report import Directions, Known, WhatDataTell
from .work_model import FILLS, HOST_NAMES, INSTRUCTIONS, IPC

_Z95 = 1.959963984540054
"""Its square, 3.84, is the 95% bound of the profile likelihood's cost."""

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
        point's words; as from `candidates.candidate_rows`. Without any there is no advice.
    profiled : (rows, factors)
        Derivatives of log instructions that a profiler could count, as from
        `candidates.profiled_rows`.
    """
    problem = posterior.problem
    scaled = problem.weighted_jacobian(posterior.logs) * problem.prior_errors
    _, found, rows = np.linalg.svd(scaled, full_matrices=True)
    singular_values = np.zeros(len(problem.names))
    singular_values[: len(found)] = found
    say = _Sayer(posterior, candidates or {}, profiled)
    unknown = _turned(rows[singular_values <= 1.0].T).T
    directions = [say.direction(shares) for shares in unknown]
    directions.sort(key=lambda direction: -say.variance(direction.shares))
    together = [set(direction.names) for direction in directions]
    directions += [say.direction(p) for p in say.pairs() if not _within(p, problem.names, together)]
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


def _within(shares: np.ndarray, names: list[str], groups: list[set[str]]) -> bool:
    pair = {name for name, share in zip(names, shares, strict=True) if share}
    return any(pair <= group for group in groups)


def _turned(basis: np.ndarray) -> np.ndarray:
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
        low=math.exp(log - _Z95 * error),
        high=math.exp(log + _Z95 * error),
        profile_low=math.exp(log - _profile_bound(posterior, name, -1.0)),
        profile_high=math.exp(log + _profile_bound(posterior, name, 1.0)),
    )


def _profile_bound(posterior: Posterior, name: str, sign: float) -> float:
    """How far a logarithm can go before the cost of all others fitted again has grown by 3.84.

    The prior's share of the cost grows without bound, so there is such a place.
    """

    def beyond(offset: float) -> float:
        # The root of the cost is nearly straight, so that few fits find it.
        return math.sqrt(max(0.0, profile_cost(posterior, name, sign * offset))) - _Z95

    error = posterior.error(name)
    low, high = 0.0, 1.1 * _Z95 * error
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
            label: updated(posterior.covariance, row, POINT_ERROR) / scale
            for label, row in candidates.items()
        }
        after = posterior.covariance
        for row in [] if profiled is None else profiled:
            after = updated(after, row, COUNT_ERROR)
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
        said = f"these data can't separate {first} from {_listed(others)}"
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
    meant = _listed([_meaning(name) for name in names])
    return f"these data say little of {meant}: {rests} mostly what was known before"


def _meaning(name: str) -> str:
    return f"{_MEANINGS[name]} ({name})" if name in _MEANINGS else name


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
