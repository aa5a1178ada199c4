"""Which points to observe: a minute's worth to calibrate with, or four minutes' for a closer look.

Rows share a loaded data set where they can. Fit points span pipeline, value size, number of keys,
command and clients one at a time around a centre; holdout points lie between them and beyond, in
several coordinates at once, so that predicting them is no interpolation along one axis.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forecache.sim.errors import InputError

from .loadspec import Popularity
from .points import Command, Given, Role


@dataclass(frozen=True)
class Timing:
    """How long each repetition takes and how many there are.

    `io_warm_up_s` holds where there are I/O threads: Valkey 9.1 takes about 0.16 s to start each.
    """

    warm_up_s: float
    window_s: float
    repetitions: int
    io_warm_up_s: float = 1.0


TIMINGS = {
    "quick": Timing(warm_up_s=0.08, window_s=0.3, repetitions=3),
    "full": Timing(warm_up_s=0.1, window_s=0.5, repetitions=3),
}

# (role, command, keys, value bytes, clients, pipelines)
_Row = tuple[Role, Command, int, int, int, tuple[int, ...]]

# Values of 16 and 64 bytes are stored inside the key's object from Valkey 9.1 on, 16 in all
# engines; 512 is the customary benchmark size; 4096 times a pipeline of 16 passes what one read
# (16 KiB) and one write (64 KiB) carry. 1,000 keys stay in a second-level cache, 1,000,000 don't
# fit most last-level caches.
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
    ("fit", "get", 1_000_000, 16, 50, (1, 16, 64)),
    ("fit", "set", 1_000_000, 16, 50, (16,)),
    ("holdout", "get", 300_000, 100, 50, (2, 32)),
    ("holdout", "set", 300_000, 100, 50, (8,)),
    ("holdout", "get", 10_000, 2_048, 50, (4,)),
    ("holdout", "set", 10_000, 2_048, 50, (32,)),
    ("holdout", "get", 1_000, 8_192, 50, (8,)),
    ("holdout", "get", 3_000_000, 16, 50, (16,)),
)

_MORE: tuple[_Row, ...] = (
    ("fit", "get", 1_000, 16, 1, (16,)),
    ("fit", "get", 1_000, 16, 200, (16,)),
    ("fit", "set", 1_000, 16, 200, (1,)),
    ("holdout", "get", 1_000, 16, 50, (2, 128)),
    ("holdout", "set", 1_000, 16, 50, (32,)),
    ("holdout", "get", 1_000, 16, 400, (1, 4)),
    ("fit", "get", 100, 8, 50, (16,)),
    ("holdout", "get", 100, 8, 50, (1, 64)),
    ("fit", "get", 1_000, 64, 50, (1, 16)),
    ("fit", "set", 1_000, 64, 50, (16,)),
    ("holdout", "get", 1_000, 44, 50, (16,)),
    ("holdout", "set", 1_000, 44, 50, (16,)),
    ("fit", "get", 1_000, 128, 50, (16,)),
    ("fit", "set", 1_000, 128, 50, (16,)),
    ("holdout", "get", 1_000, 200, 50, (16,)),
    ("holdout", "set", 1_000, 200, 50, (16,)),
    ("fit", "get", 1_000, 512, 50, (1, 64)),
    ("fit", "set", 1_000, 512, 50, (1,)),
    ("holdout", "get", 1_000, 1_024, 50, (1, 16)),
    ("holdout", "set", 1_000, 1_024, 50, (1, 16)),
    ("fit", "get", 1_000, 4_096, 50, (4,)),
    ("holdout", "set", 1_000, 8_192, 50, (4,)),
    ("holdout", "get", 1_000, 16_384, 50, (1, 4)),
    ("holdout", "set", 1_000, 16_384, 50, (1,)),
    ("fit", "get", 10_000, 16, 50, (16,)),
    ("fit", "get", 100_000, 16, 50, (1, 16, 64)),
    ("fit", "set", 100_000, 16, 50, (16,)),
    ("holdout", "get", 100_000, 16, 50, (32,)),
    ("fit", "set", 100_000, 512, 50, (64,)),
    ("holdout", "get", 100_000, 512, 200, (1,)),
    ("holdout", "mix", 100_000, 512, 200, (4,)),
    ("holdout", "set", 1_000_000, 16, 50, (1, 64)),
    ("holdout", "mix", 1_000_000, 16, 50, (32,)),
    ("fit", "get", 1_000_000, 512, 50, (1, 16, 64)),
    ("fit", "set", 1_000_000, 512, 50, (1, 16)),
    ("holdout", "get", 1_000_000, 512, 50, (32,)),
    ("holdout", "set", 3_000_000, 16, 50, (16,)),
    ("holdout", "get", 3_000_000, 16, 50, (1, 64)),
)

# With one I/O thread beside the main thread; on two cores the generator shares theirs.
_THREADED: tuple[_Row, ...] = (
    ("holdout", "get", 100_000, 512, 50, (1, 16)),
    ("holdout", "set", 100_000, 512, 50, (1, 16)),
    ("holdout", "get", 100_000, 512, 200, (1,)),
)


def _points(rows: Sequence[_Row], *, io_threads: int = 1, transport: str = "tcp") -> list[Given]:
    return [
        Given(
            command=command,
            keys=keys,
            value_bytes=value_bytes,
            clients=clients,
            pipeline=pipeline,
            role=role,
            io_threads=io_threads,
            transport=transport,  # type: ignore[arg-type]
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


def _partly_loaded() -> list[Given]:
    return [
        Given(
            command="get",
            clients=clients,
            think_us=think_us,
            rate_rps=rate_rps,
            arrival="closed_loop" if rate_rps is None else "open_loop",
            role=role,
        )
        for role, clients, think_us, rate_rps in _PARTLY_LOADED
    ]


def design_points(name: str) -> list[Given]:
    """The points of a named design: `quick` (about a minute) or `full` (about four)."""
    if name == "quick":
        return [*_points(_QUICK), *_partly_loaded()]
    if name == "full":
        over_unix: tuple[_Row, ...] = (
            ("holdout", "get", 1_000, 16, 50, (1, 16)),
            ("holdout", "set", 1_000, 16, 50, (1,)),
        )
        skewed = [
            Given(command="get", keys=1_000_000, pipeline=16, popularity=popularity, role="holdout")
            for popularity in (Popularity(kind="zipf"), Popularity(kind="hot_set"))
        ]
        return [
            *_points(_QUICK),
            *_partly_loaded(),
            *_points(_MORE),
            *skewed,
            *_points(over_unix, transport="unix"),
            *_points(_THREADED, io_threads=2),
        ]
    raise InputError(f"design: found {name!r}; valid is {' or '.join(TIMINGS)}.")
