"""Which points to observe: a minute's worth to calibrate with, or eight minutes' for a closer look.

Rows share a loaded data set where they can. Fit points span pipeline, value size, number of keys,
command and clients one at a time around a centre; holdout points lie between them and beyond, in
several coordinates at once, so that predicting them is no interpolation along one axis.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import qmc

from forecache.sim.errors import InputError

from ..bundle.points import Command, Conditions, Role
from ..drive.loadspec import Popularity


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


def _points(rows: Sequence[_Row]) -> list[Conditions]:
    return [
        Conditions(
            command=command,
            keys=keys,
            value_bytes=value_bytes,
            clients=clients,
            pipeline=pipeline,
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
# (role, command, keys, value bytes, clients, io-threads, pipelines)
_THREADED: tuple[tuple[Role, Command, int, int, int, int, tuple[int, ...]], ...] = (
    ("fit", "get", 1_000, 16, 50, 1, (1, 16, 64)),
    ("fit", "set", 1_000, 16, 50, 1, (1, 16)),
    ("fit", "get", 1_000, 1_024, 50, 1, (16,)),
    ("fit", "set", 1_000, 1_024, 50, 1, (16,)),
    ("fit", "get", 300_000, 64, 50, 1, (16,)),
    ("fit", "get", 1_000, 16, 50, 2, (1, 4, 16)),
    ("fit", "set", 1_000, 16, 50, 2, (2, 16)),
    ("fit", "get", 1_000, 16, 150, 2, (2,)),
    ("fit", "get", 1_000, 1_024, 50, 2, (4,)),
    ("fit", "set", 1_000, 1_024, 50, 2, (16,)),
    ("fit", "get", 300_000, 64, 50, 2, (16,)),
    ("fit", "set", 300_000, 64, 50, 2, (4,)),
    ("fit", "get", 1_000, 16, 50, 3, (2, 16)),
    ("fit", "set", 1_000, 16, 50, 3, (8,)),
)


def threaded_points() -> list[Conditions]:
    """Points that show what I/O threads and the main thread beside them compute."""
    return [
        Conditions(
            command=command,
            keys=keys,
            value_bytes=value_bytes,
            clients=clients,
            io_threads=io_threads,
            pipeline=pipeline,
            role=role,
        )
        for role, command, keys, value_bytes, clients, io_threads, pipelines in _THREADED
        for pipeline in pipelines
    ]


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
