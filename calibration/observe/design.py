"""Which points to observe: a minute's worth to calibrate with, or eight minutes' for a closer look.

Rows share a loaded data set where they can. Fit points span pipeline, value size, number of keys,
command and clients one at a time around a centre; holdout points lie between them and beyond, in
several coordinates at once, so that predicting them is no interpolation along one axis.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import qmc

from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.profile import EngineProfile
from forecache.sim.errors import InputError

from ..bundle.points import Command, Conditions, Popularity, Role
from ..drive.servers import engine_version
from ..fit.fit import LEAST_POINTS, POINT_ERROR
from ..fit.identifiability import candidate_points, candidate_rows, updated_covariance
from ..fit.prior import engine_with_priors, prior_errors


@dataclass(frozen=True)
class Timing:
    """How long each repetition takes and how many there are.

    `starts` is how often a server is started anew to see by how much starts differ.

    `io_warm_up_s` holds where there are I/O threads: Valkey 9.1 takes about 0.16 s to start each.
    `loaded_window_s` is the window of open loops, whose tails need more requests.
    `patience_s` is how long all repetitions together wait for cores to be as far apart and as fast
    as when the host was profiled, and for how much more time others are measured again.
    `longest_s` is when, since the beginning, only what is still missing altogether is measured: a
    busy machine leaves fewer repetitions.
    """

    warm_up_s: float
    window_s: float
    repetitions: int
    io_warm_up_s: float = 1.0
    loaded_window_s: float = 0.5
    starts: int = 0
    patience_s: float = 60.0
    longest_s: float = math.inf


TIMINGS = {
    "quick": Timing(
        warm_up_s=0.08,
        window_s=0.3,
        repetitions=3,
        starts=5,
        io_warm_up_s=0.4,
        patience_s=8.0,
        longest_s=105.0,
    ),
    "full": Timing(warm_up_s=0.07, window_s=0.12, repetitions=9, starts=8),
    "threads": Timing(warm_up_s=0.08, window_s=0.8, repetitions=3, io_warm_up_s=0.4),
}

STARTS_POINT = Conditions(command="get", pipeline=16)
"""What every start is measured at: a small working set, which depends most on the pages it got."""

# (role, command, keys, value bytes, clients, pipelines)
_Row = tuple[Role, Command, int, int, int, tuple[int, ...]]

# Values of 16 and 64 bytes are stored inside the key's object from Valkey 9.1 on, 16 in all
# engines; 512 is the customary benchmark size; 4096 times a pipeline of 16 passes what one read
# (16 KiB) and one write (64 KiB) carry. 1,000 keys stay in a second-level cache, 20,000 in a last
# one as far as neighbours leave room, and 1,000,000 don't fit most.
_QUICK: tuple[_Row, ...] = (
    ("fit", "get", 1_000, 16, 50, (1, 4, 16, 64)),
    ("fit", "set", 1_000, 16, 50, (1, 16, 64)),
    ("fit", "get", 1_000, 16, 1, (1,)),
    ("fit", "get", 1_000, 16, 200, (1,)),
    ("fit", "get", 1_000, 16, 4, (1,)),
    ("holdout", "get", 1_000, 16, 50, (8, 32)),
    ("holdout", "set", 1_000, 16, 50, (4,)),
    ("holdout", "mix", 1_000, 16, 50, (8,)),
    ("holdout", "get", 1_000, 16, 2, (1,)),
    ("holdout", "get", 1_000, 16, 10, (1, 16)),
    ("fit", "get", 1_000, 512, 50, (16,)),
    ("fit", "set", 1_000, 512, 50, (16,)),
    ("fit", "get", 100_000, 512, 50, (1, 16, 64)),
    ("fit", "set", 100_000, 512, 50, (1, 16)),
    ("holdout", "get", 100_000, 512, 50, (8,)),
    ("holdout", "mix", 100_000, 512, 50, (16,)),
    ("fit", "get", 1_000, 4_096, 50, (1, 16)),
    ("fit", "set", 1_000, 4_096, 50, (1, 16)),
    ("fit", "get", 20_000, 16, 50, (16, 64)),
    ("fit", "set", 20_000, 16, 50, (16,)),
    ("fit", "get", 1_000_000, 16, 50, (1, 16, 64)),
    ("fit", "set", 1_000_000, 16, 50, (16,)),
    ("holdout", "get", 300_000, 100, 50, (2, 32)),
    ("holdout", "set", 300_000, 100, 50, (8,)),
    ("holdout", "get", 10_000, 2_048, 50, (4,)),
    ("holdout", "set", 10_000, 2_048, 50, (32,)),
    ("holdout", "get", 1_000, 8_192, 50, (8,)),
    ("holdout", "get", 3_000_000, 16, 50, (16,)),
)

# What `full` fits besides: every size and number of keys with GET and SET, with deep pipelines
# where memory is waited for, and large values where bytes are copied.
_MORE: tuple[_Row, ...] = (
    ("fit", "get", 1_000, 16, 50, (128,)),
    ("fit", "set", 1_000, 16, 50, (2, 128)),
    ("fit", "get", 1_000, 512, 50, (1, 64)),
    ("fit", "set", 1_000, 512, 50, (1,)),
    ("fit", "get", 200, 16_384, 50, (1, 8)),
    ("fit", "set", 200, 16_384, 50, (1, 8)),
    ("fit", "get", 10_000, 64, 50, (4, 64)),
    ("fit", "set", 10_000, 64, 50, (16,)),
    ("fit", "get", 10_000, 2_048, 50, (1, 16)),
    ("fit", "set", 10_000, 2_048, 50, (1, 16)),
    ("fit", "get", 100_000, 64, 50, (1, 16, 64)),
    ("fit", "set", 100_000, 64, 50, (16,)),
    ("fit", "set", 100_000, 512, 50, (64,)),
    ("fit", "get", 1_000_000, 512, 50, (1, 16, 64)),
    ("fit", "set", 1_000_000, 512, 50, (1, 16)),
    ("fit", "get", 4_000_000, 16, 50, (1, 32)),
    ("fit", "set", 4_000_000, 16, 50, (32,)),
)

# The corners of the space that the random points below fill, and a ladder of key counts that shows
# where look-ups leave the caches.
_CORNERS: tuple[_Row, ...] = (
    ("holdout", "get", 100, 8, 50, (1, 16, 128)),
    ("holdout", "set", 100, 8, 50, (16,)),
    ("holdout", "get", 5_000_000, 16, 50, (1, 16)),
    ("holdout", "set", 5_000_000, 16, 50, (16,)),
    ("holdout", "get", 150, 16_384, 50, (4,)),
    ("holdout", "set", 150, 16_384, 50, (4,)),
)
LADDER_KEYS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 5_000_000)
LADDER_VALUE_BYTES = 64
LADDER_PIPELINE = 32
_LADDER: tuple[_Row, ...] = tuple(
    ("holdout", "get", keys, LADDER_VALUE_BYTES, 50, (LADDER_PIPELINE,)) for keys in LADDER_KEYS
)

_RANDOM_SEED = 11
_RANDOM_DATA_SETS = 16
_RANDOM_POINTS = 4
"""Points of each random data set."""

_RANDOM_BYTES = 2 * 2**30
"""Largest random data set, values only: more keys than that are cut."""


def random_points() -> list[Conditions]:
    """Held-out points not chosen by hand: Sobol points in the space that `full` is to cover.

    Keys from 100 to 5,000,000, values from 8 B to 16 KiB and pipelines from 1 to 128, all uniform
    in the logarithm; GET, SET or four GETs to a SET; uniform or Zipf popularity. Points come in
    fours with the same data set, each with its own pipeline, command and popularity.
    """
    sets = qmc.Sobol(2, seed=_RANDOM_SEED).random(_RANDOM_DATA_SETS)
    each = qmc.Sobol(3, seed=_RANDOM_SEED).random(_RANDOM_DATA_SETS * _RANDOM_POINTS)
    points: list[Conditions] = []
    for a, b in sets:
        value_bytes = round(8 * 2048**b)
        keys = min(round(100 * 50_000**a), _RANDOM_BYTES // value_bytes)
        for c, d, e in each[len(points) : len(points) + _RANDOM_POINTS]:
            share = (1.0, 0.0, 0.8)[int(3 * d)]
            points.append(
                Conditions(
                    command={1.0: "get", 0.0: "set"}.get(share, "mix"),  # type: ignore[arg-type]
                    get_fraction=share,
                    keys=keys,
                    value_bytes=value_bytes,
                    pipeline=round(128**c),
                    popularity=Popularity(kind="zipf" if e < 0.5 else "uniform"),
                    role="holdout",
                )
            )
    return points


def _points(rows: Sequence[_Row], io_threads: int = 1) -> list[Conditions]:
    return [
        Conditions(
            command=command,
            keys=keys,
            value_bytes=value_bytes,
            clients=clients,
            pipeline=pipeline,
            io_threads=io_threads,
            role=role,
        )
        for role, command, keys, value_bytes, clients, pipelines in rows
        for pipeline in pipelines
    ]


# Below saturation: the main thread sleeps and finds few connections ready when it wakes, so a
# request costs more. (role, connections, think time in us, Poisson rate of requests a second)
_PARTLY_LOADED: tuple[tuple[Role, int, float, float | None], ...] = (
    ("fit", 50, 500.0, None),
    ("holdout", 50, 1_000.0, None),
    ("holdout", 50, 0.0, 50_000.0),
)


def _partly_loaded() -> list[Conditions]:
    return [
        Conditions(
            command="get",
            clients=clients,
            think_us=think_us,
            rate_rps=rate_rps,
            arrival="closed_loop" if rate_rps is None else "open_loop",
            role=role,
        )
        for role, clients, think_us, rate_rps in _PARTLY_LOADED
    ]


# Open loops at shares of the saturated throughput: latency below it, and the verdict beyond.
_LOADS: tuple[tuple[Role, float], ...] = (
    *(("fit", share) for share in (0.2, 0.4, 0.6, 0.8)),
    *(("holdout", share) for share in (0.3, 0.5, 0.7, 0.9, 1.3, 1.6)),
)


def _loaded() -> list[Conditions]:
    small = Conditions(command="get", arrival="open_loop", rate_share=0.5)
    large = Conditions(
        command="mix",
        get_fraction=0.8,
        keys=100_000,
        value_bytes=512,
        arrival="open_loop",
        rate_share=0.5,
    )
    return [
        # What one workload's latencies say of waking up has to hold for the other.
        given.model_copy(
            update={"rate_share": share, "role": role if given is small else "holdout"}
        )
        for given in (small, large)
        for role, share in _LOADS
    ]


# With one thread for the level, then with two and three: what handing over takes shows between
# pipelines and numbers of clients, which decide how many clients a turn finds; what lines take that
# move between cores shows between small and large values; look-ups ahead need keys beyond a cache.
_THREADED: dict[int, tuple[_Row, ...]] = {
    1: (
        ("fit", "get", 1_000, 16, 50, (1, 16, 64)),
        ("fit", "set", 1_000, 16, 50, (1, 16)),
        ("fit", "get", 1_000, 1_024, 50, (16,)),
        ("fit", "set", 1_000, 1_024, 50, (16,)),
        ("fit", "get", 300_000, 64, 50, (16,)),
    ),
    2: (
        ("fit", "get", 1_000, 16, 50, (1, 4, 16)),
        ("fit", "set", 1_000, 16, 50, (2, 16)),
        ("fit", "get", 1_000, 16, 150, (2,)),
        ("fit", "get", 1_000, 1_024, 50, (4,)),
        ("fit", "set", 1_000, 1_024, 50, (16,)),
        ("fit", "get", 300_000, 64, 50, (16,)),
        ("fit", "set", 300_000, 64, 50, (4,)),
    ),
    3: (
        ("fit", "get", 1_000, 16, 50, (2, 16)),
        ("fit", "set", 1_000, 16, 50, (8,)),
    ),
}


def threaded_points() -> list[Conditions]:
    """Points that show what I/O threads and the main thread beside them compute."""
    return [point for io_threads, rows in _THREADED.items() for point in _points(rows, io_threads)]


def brief_threaded_points() -> list[Conditions]:
    """Those of one small data set with two threads, half a minute's worth: for a study."""
    return [
        point
        for point in threaded_points()
        if point.io_threads == 2 and (point.keys, point.value_bytes) == (1_000, 16)
    ]


def design_points(name: str) -> list[Conditions]:
    """The points of a named design.

    `quick` takes about a minute, `threads`, which is about I/O threads, a little more, `full` about
    eight.
    """
    if name == "threads":
        return threaded_points()
    if name == "quick":
        return [*_points(_QUICK), *_partly_loaded()]
    if name == "full":
        return [
            *_points(_QUICK),
            *_partly_loaded(),
            *_points(_MORE),
            Conditions(
                command="mix", get_fraction=0.8, keys=100_000, value_bytes=512, role="holdout"
            ),
            *_loaded(),
            *_points(_CORNERS),
            *_points(_LADDER),
            *random_points(),
        ]
    raise InputError(f"design: found {name!r}; valid is {' or '.join(TIMINGS)}.")


# --- the points that tell a fit most in the time there is -----------------------------------------

# Which points to observe on this host in the time there is: those that tell a fit most.
#
# Points are taken one by one. Each adds to the logarithm of the determinant of the information, the
# inverse of the covariance of what a fit looks for, which begins with the priors alone; the point
# that adds most for each second it takes is next. What a point tells is worked out at the priors.


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
        covariance = updated_covariance(covariance, rows[best], POINT_ERROR)
    return [candidates[index] for index in chosen]
