"""Everything that was predicted without a number fitted to it, by engine, host and tier."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import ObservedPoint
from forecache.calibration.fit.report import CPU, LATENCIES, LIGHT_CPU, THROUGHPUT
from forecache.hwprofiles.catalogue import load_host

from ..counts.shipped import BUNDLES
from ..live import looks, looks_of_others, memaslap, mixes
from ..live.generations import rows_of
from ..live.rounds import LEVEL, PROCESSORS, shipped
from .compared import (
    ANCHORED,
    CATALOGUE,
    OBSERVED,
    ONE_THREAD,
    PROFILED,
    QUANTITIES,
    TIERS,
    UNNAMED,
    Compared,
    Place,
    live_points,
    published_points,
    repeat_of,
    tails_points,
)

MIXES = "CPU time per command, mixes"
CAPACITY = "throughput, from INFO"
MAIN_THREAD, IO_THREADS = "main thread, computing", "I/O threads, computing"
_TAILS = tuple(f"{QUANTITIES['p99_ms']}, {loop} loop" for loop in ("closed", "open"))

UNITS = {
    THROUGHPUT: "requests/s",
    CPU: "us/request",
    LIGHT_CPU: "us/request",
    **{words: "ms" for name, words in QUANTITIES.items() if name != "throughput_rps"},
    **dict.fromkeys(_TAILS, "ms"),
    MIXES: "us/command",
    MAIN_THREAD: "us/request",
    IO_THREADS: "us/request",
    CAPACITY: "commands/s",
}
"""Every quantity that is checked, in the order of the page, with its unit."""

_TIER_OF = {"observed": OBSERVED, "anchored": ANCHORED, "shipped": PROFILED}
"""By the name of a profile in the artefacts of live engines."""

_REPETITION = {
    CPU: "server_cpu_ns_per_request",
    LIGHT_CPU: "server_cpu_ns_per_request",
    THROUGHPUT: "throughput_rps",
    **{words: f"quiet_{name}_ms" for name, words in LATENCIES.items()},
}
"""What a repetition of a bundle calls a quantity."""
_NS_PER = {"us/request": 1e3, "ms": 1e6}


def checked_points(out: Path) -> list[Compared]:
    """All of them, in the units of `UNITS`.

    Parameters
    ----------
    out
        The folder of the artefacts, `docs/accuracy`.
    """
    found = [
        *_observed_points(out),
        *_generations_points(out),
        *_memaslap_points(out),
        *(_by_profile(point) for point in tails_points(out)),
        *_threads_points(out),
        *_mixes_points(out),
        *_looks_points(out),
        *_looks_of_others_points(out),
        *(
            replace(point, place=replace(point.place, source=f"published-{point.place.source}"))
            for point in published_points(out)
        ),
    ]
    quantities = list(UNITS)
    return sorted(
        found,
        key=lambda p: (
            *(engine_order(p.place.engine), host_order(p.place.host), TIERS.index(p.tier)),
            quantities.index(p.place.quantity),
        ),
    )


def engine_order(engine: str) -> tuple[str, list[int]]:
    """By name, then by version."""
    name, _, version = engine.rpartition("-")
    return name, [int(number) for number in version.split(".")]


def host_order(host: str) -> tuple[int, str]:
    """Hosts of the project first, those whose source doesn't name them last."""
    return (0 if host.startswith("captured-") else 2 if host == UNNAMED else 1), host


def host_name(host: str) -> str:
    """A short one for a table: the processor of a captured host, else its id."""
    if not host.startswith("captured-"):
        return "not named by its source" if host == UNNAMED else host
    for family, processor in PROCESSORS.items():
        if re.search(rf"-{family}-\d+cpus$", host):
            return processor
    return "AMD EPYC" if "amd-epyc" in host else host


# --- from artefacts ------------------------------------------------------------------------------


@cache
def _id(engine: str) -> str:
    """The shipped profile of an engine such as `redis-7.0.15`."""
    return shipped(engine).id


def _by_profile(point: Compared) -> Compared:
    """With the profile's id for the engine's version."""
    engine = _id(point.place.engine)
    return replace(point, place=replace(point.place, engine=engine))


def _observed_points(out: Path) -> Iterator[Compared]:
    """Held-out points of the bundles, with what their repetitions differ by."""
    bundles: dict[str, dict[str, ObservedPoint]] = {}
    for point in live_points(out):
        source, quantity = point.place.source, point.place.quantity
        if source not in bundles:
            points = Bundle.load(BUNDLES / source).points
            bundles[source] = {each.given.label(): each for each in points}
        observed = bundles[source][point.place.point]
        values = [getattr(r, _REPETITION[quantity]) for r in observed.quiet_repetitions()]
        ns = _NS_PER.get(UNITS[quantity], 1.0)
        yield replace(
            point,
            place=replace(point.place, source=f"live-{source}"),
            measured=point.measured / ns,
            predicted=point.predicted / ns,
            low=None if point.low is None else point.low / ns,
            high=None if point.high is None else point.high / ns,
            repeat=repeat_of([value for value in values if value is not None]),
        )


def _windows_point(
    place: Place,
    windows: Sequence[float],
    predicted: float,
    tier: str,
    interval: tuple[float | None, float | None] = (None, None),
) -> Compared:
    """A point whose measurement is the median of its windows."""
    measured = statistics.median(windows)
    return Compared(place, measured, predicted, *interval, LEVEL, tier, repeat_of(windows))


def _cpu_and_rate(
    row: dict[str, Any], source: str, point: str, engine: str, host: str, tier: str
) -> Iterator[Compared]:
    """CPU time and throughput of a `rounds.Row`."""
    place = Place(source, point, CPU, engine, host, ONE_THREAD, pipeline=_pipeline(point))
    interval = row["low_us"], row["high_us"]
    yield _windows_point(place, row["cpu_us"], row["predicted_us"], tier, interval)
    place = replace(place, quantity=THROUGHPUT)
    yield _windows_point(place, row["throughput_rps"], row["predicted_rps"], tier)


def _pipeline(label: str) -> int:
    """Of the label of a point, such as `get P4 v16 k1000 c50`."""
    found = re.search(r"\bP(\d+)\b", label)
    return int(found[1]) if found else 1


def _read(out: Path, name: str) -> Any:
    return json.loads((out / name).read_text(encoding="utf-8"))


def _generations_points(out: Path) -> Iterator[Compared]:
    points = _read(out, "generations.json")["points"]
    for profile, tier in _TIER_OF.items():
        for row in rows_of(points, profile):
            point = f"{row['point']}, {row['tool']}"
            engine = _id(row["engine"])
            yield from _cpu_and_rate(dict(row), "generations", point, engine, row["host"], tier)


def _memaslap_points(out: Path) -> Iterator[Compared]:
    """Of the host of Memcached's bundle, which the shipped profile was fitted on."""
    data = _read(out, "memaslap.json")
    host, engine = Bundle.load(memaslap.BUNDLE).host, _id(f"memcached-{data['version']}")
    assert host is not None
    for row in data["points"]:
        point = f"{row['label']}, memaslap"
        yield from _cpu_and_rate(row, "memaslap", point, engine, host.id, OBSERVED)


def _threads_points(out: Path) -> Iterator[Compared]:
    """What each thread computes; whether a profile was told the turns is left out."""
    for row in _read(out, "threads.json")["points"]:
        tier = _TIER_OF.get(row["profile"])
        if tier is None:
            continue
        engine = shipped(row["engine"])
        for part, quantity in (("main", MAIN_THREAD), ("io", IO_THREADS)):
            windows = row[f"{part}_us"]
            if min(windows, default=0.0) > 0.0:
                place = Place(
                    *("threads", row["point"], quantity, engine.id, row["host"], engine.policy),
                    pipeline=_pipeline(row["point"]),
                )
                yield _windows_point(place, windows, row[f"predicted_{part}_us"], tier)


def _mixes_points(out: Path) -> Iterator[Compared]:
    for host in _read(out, "mixes.json"):
        for row in host["points"]:
            place = _of_mix(row, "mixes", MIXES, host["id"])
            interval = row["low_us"], row["high_us"]
            yield _windows_point(place, row["cpu_us"], row["predicted_us"], PROFILED, interval)


def _looks_points(out: Path) -> Iterator[Compared]:
    """What a server serves, told from INFO under shares of that."""
    for host in _read(out, "looks.json"):
        for row in host["points"]:
            for load in looks.LOADS:
                found = row["predicted"][str(load)]
                if found is None:
                    continue
                place = _of_mix(row, "looks", CAPACITY, host["host"])
                place = replace(place, point=f"{load:.0%} of the load: {place.point}")
                interval = found["low_rps"], found["high_rps"]
                measured = row["full_rps"]
                yield _windows_point(place, measured, found["capacity_rps"], CATALOGUE, interval)


def _looks_of_others_points(out: Path) -> Iterator[Compared]:
    """The same of servers that others measured."""
    for row in _read(out, "looks-of-others.json"):
        catalogue = row["host"] == looks_of_others.NEAREST
        host = row["host"] if catalogue else load_host(row["host"]).id
        place = Place(
            *("looks-of-others", row["commands"], CAPACITY, _id(row["engine"]), host, ONE_THREAD),
            pipeline=1,
        )
        interval = row["low_rps"], row["high_rps"]
        tier = CATALOGUE if catalogue else PROFILED
        yield _windows_point(place, row["full_rps"], row["capacity_rps"], tier, interval)


def _of_mix(row: dict[str, Any], source: str, quantity: str, host: str) -> Place:
    commands = ", ".join(command.upper() for command, *_ in row["commands"])
    pipeline = mixes.workload_of(row)["pipeline"]
    engine = _id(row["engine"])
    return Place(source, commands, quantity, engine, host, ONE_THREAD, pipeline)


# --- by engine, host and tier --------------------------------------------------------------------


class Cell(NamedTuple):
    """A quantity of an engine on a host, by what predictions knew of the two."""

    engine: str
    host: str
    tier: str
    quantity: str


def cells(points: Iterable[Compared]) -> dict[Cell, list[Compared]]:
    """The points of each cell, in their order."""
    found: dict[Cell, list[Compared]] = {}
    for point in points:
        place = point.place
        key = Cell(place.engine, place.host, point.tier, place.quantity)
        found.setdefault(key, []).append(point)
    return found
