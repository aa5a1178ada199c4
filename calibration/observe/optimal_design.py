"""Which points to observe on this host in the time there is: those that tell a fit most.

Points are taken one by one. Each adds to the logarithm of the determinant of the information, the
inverse of the covariance of what a fit looks for, which begins with the priors alone; the point
that adds most for each second it takes is next. What a point tells is worked out at the priors.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.profile import EngineProfile
from forecache.sim.errors import InputError

from ..bundle.points import Conditions
from ..drive.engine_process import engine_version
from ..fit.candidates import candidate_points, candidate_rows, updated
from ..fit.fit import LEAST_POINTS, POINT_ERROR
from ..fit.prior import engine_with_priors, prior_errors
from .design import Timing

DEFAULT_BUDGET_S = 60.0

HELD_OUT_SHARE = 0.2
"""Of the time, and at least of the candidates: for points that the fit does not see."""

_SEED = 11

# Starting a server, loading a key (SET, and a GET to see that it is there), a byte of its value;
# connecting a client, and what else a repetition takes. On two cores of a virtual machine.
_START_S = 0.2
_KEY_S = 1.4e-6
_BYTE_S = 1e-9
_CONNECT_S = 1e-4
_OVERHEAD_S = 0.015


def loading_s(given: Conditions) -> float:
    """How long a fresh server takes to start and to be loaded with the data set of a point."""
    return _START_S + given.keys * (_KEY_S + given.value_bytes * _BYTE_S)


def measuring_s(given: Conditions, timing: Timing) -> float:
    """How long all repetitions of a point take on a loaded server."""
    warm_up_s = timing.warm_up_s if given.io_threads == 1 else timing.io_warm_up_s
    each_s = warm_up_s + timing.window_s + given.clients * _CONNECT_S + _OVERHEAD_S
    return timing.repetitions * each_s


def design_s(points: Sequence[Conditions], timing: Timing) -> float:
    """How long points take that share servers where they share a data set."""
    data_sets = {given.data_set: given for given in points}
    loading = sum(loading_s(given) for given in data_sets.values())
    return loading + sum(measuring_s(given, timing) for given in points)


def auto_points(
    binary: Path, host: HostProfile | None, *, timing: Timing, budget_s: float
) -> list[Conditions]:
    """`optimal_points` for a server binary.

    Raises
    ------
    InputError
        There is no host, nothing is known of the engine's version, or the budget is too small.
    EngineError
        The binary doesn't say its version.
    """
    if host is None:
        raise InputError(
            "design auto: found no host; valid is the profile of this host, from which follows "
            "what each point tells (forecache profile --out host.yaml, then --host host.yaml)."
        )
    engine = engine_with_priors(*engine_version(binary))
    return optimal_points(engine, host, timing=timing, budget_s=budget_s)


def optimal_points(
    engine: EngineProfile,
    host: HostProfile,
    *,
    timing: Timing,
    budget_s: float = DEFAULT_BUDGET_S,
) -> list[Conditions]:
    """The points that tell most of an engine's work, then held-out points drawn at random.

    Parameters
    ----------
    engine
        Its rules, with the priors as its work: from `engine_with_priors`.
    host
        Where it will be observed.
    budget_s
        For starting, loading and measuring; points that other work disturbs take up to a fifth
        longer, and a profiler takes its time besides.

    Raises
    ------
    InputError
        The budget is too small for a fit.
    """
    candidates = candidate_points()
    rows = candidate_rows(candidates, engine, host, np.zeros(len(prior_errors())))
    chosen = _most_telling(candidates, rows, timing, budget_s=(1.0 - HELD_OUT_SHARE) * budget_s)
    if len(chosen) < LEAST_POINTS:
        raise InputError(
            f"budget: found {budget_s:g} s, enough for {len(chosen)} points to fit; valid is time "
            f"for at least {LEAST_POINTS}, such as {DEFAULT_BUDGET_S:g} s."
        )
    rest = [given for given in candidates if given not in chosen]
    random.Random(_SEED).shuffle(rest)
    points = chosen
    for given in rest:
        held_out = given.model_copy(update={"role": "holdout"})
        if design_s([*points, held_out], timing) <= budget_s:
            points = [*points, held_out]
    return points


def _most_telling(
    candidates: Sequence[Conditions], rows: np.ndarray, timing: Timing, *, budget_s: float
) -> list[Conditions]:
    """Candidates in the order of what they add a second, while time and candidates last."""
    covariance = np.diag(prior_errors() ** 2)
    chosen: list[int] = []
    loaded: set[tuple[object, ...]] = set()
    left_s = budget_s
    while len(chosen) < (1.0 - HELD_OUT_SHARE) * len(candidates):
        duration_s = np.array(
            [
                measuring_s(given, timing) + (given.data_set not in loaded) * loading_s(given)
                for given in candidates
            ]
        )
        known = np.einsum("ij,jk,ik->i", rows, covariance, rows)
        rate = np.log1p(known / POINT_ERROR**2) / duration_s
        rate[[*chosen, *np.flatnonzero(duration_s > left_s)]] = -1.0
        best = int(np.argmax(rate))
        if rate[best] < 0.0:
            break
        chosen.append(best)
        loaded.add(candidates[best].data_set)
        left_s -= float(duration_s[best])
        covariance = updated(covariance, rows[best], POINT_ERROR)
    return [candidates[index] for index in chosen]
