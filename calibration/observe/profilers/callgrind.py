"""Instructions, data references and cache misses per request, by running the engine in valgrind.

valgrind counts every instruction of user code, and simulates two levels of caches of any size: what
the engine would miss in the caches of another machine. Counts are exact; time means nothing.
Each point is two loads of different length, and what both have in common (connecting, start-up,
INFO, the dump itself) cancels out in their difference.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

from forecache.hwprofiles import HostProfile, load_host
from forecache.hwprofiles.parts import Cache
from forecache.sim.errors import EngineError, InputError

from ...bundle.points import CACHE_POINTS, CALLGRIND_POINTS, Conditions
from ...bundle.profiles import CacheGeometry, Depth, Geometry, Profile, Stage, StageWork, ThreadWork
from ..readers.callgrind import CallgrindProfile, read_callgrind
from ..readers.info import commands_served
from .attribution import charge
from .programs import missing, refusal, run_program, version_of
from .session import ProfileEvidence, Session, exact_rates, fixed_load, session

# Rounds of all clients with all their places in the pipeline, and the least requests of the shorter
# load; the longer one has this many times more.
_LEAST_REQUESTS = 1_000
_TIMES_MORE = 5
_DUMP_LIMIT_S = 120.0
_FEWEST_WAYS = 8

_REFERENCES = ("Dr", "Dw")
_D1_MISSES = ("D1mr", "D1mw")
_LL_MISSES = ("DLmr", "DLmw")


def geometry_of(host: HostProfile, *, last_level: Literal["L2", "L3"] = "L2") -> Geometry:
    """A host's first and last data cache, as valgrind takes them.

    valgrind wants a power of two of sets; the profile doesn't tell the ways. So the sets are the
    largest power of two that leaves at least 8 ways, and the size is rounded down to whole ways:
    exact for the usual sizes.

    Raises
    ------
    ValueError
        A cache's size isn't known.
    """
    caches: dict[str, Cache] = {cache.name: cache for cache in host.caches}
    return Geometry(
        host=host.id,
        last_level=last_level,
        **{
            name: _rounded(caches[level].size_bytes.best, caches[level].line_bytes.best)
            for name, level in (("l1", "L1"), ("ll", last_level))
        },
    )


def load_geometry(name: str) -> Geometry:
    """The caches of a host by name, with `:L3` behind it for L3 as the last one.

    Raises
    ------
    InputError
        No host has that name, what follows the colon is no level, or a size isn't known.
    """
    host, colon, level = name.rpartition(":")
    if not colon or level not in ("L2", "L3"):
        host, level = name, "L2"
    try:
        return geometry_of(load_host(host), last_level="L3" if level == "L3" else "L2")
    except ValueError as error:
        raise InputError(f"caches: {name} can't be simulated ({error}).") from None


def _rounded(size_bytes: float, line_bytes: float) -> CacheGeometry:
    lines = int(size_bytes // line_bytes)
    sets = 1 << max(0, (lines // _FEWEST_WAYS).bit_length() - 1)
    ways = lines // sets
    line = int(line_bytes)
    return CacheGeometry(size_bytes=sets * ways * line, ways=ways, line_bytes=line)


@dataclass(frozen=True)
class Callgrind:
    """Counts in a simulated processor; with a geometry, in a simulated memory as well."""

    geometry: Geometry | None = None
    name: Literal["callgrind"] = "callgrind"
    depth: Depth = "instructions"
    design: Sequence[Conditions] = field(default_factory=lambda: CALLGRIND_POINTS)

    def refusal(self) -> str | None:
        """valgrind is missing or doesn't know this processor."""
        trial = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "true"]
        return missing("valgrind", "vgdb") or refusal(trial)

    def points(self) -> Sequence[Conditions]:
        """Points that tell apart what is done per request, read, event loop and byte."""
        return self.design if self.geometry is None else [*self.design, *CACHE_POINTS]

    def profile(self, binary: Path, points: Sequence[Conditions]) -> list[ProfileEvidence]:
        """Count each point."""
        with tempfile.TemporaryDirectory(prefix="forecache-valgrind-") as folder:
            out = Path(folder) / "counts"
            wrapper = [
                "valgrind",
                "--quiet",
                "--tool=callgrind",
                f"--callgrind-out-file={out}",
                f"--vgdb-prefix={folder}/vgdb",
                *self._cache_options(),
            ]
            with session(binary, points, wrapper=wrapper) as on:
                counts = Counts(on, out)
                return [self._look(counts, given) for given in points]

    def _cache_options(self) -> list[str]:
        if self.geometry is None:
            return []
        l1, ll = (
            f"{cache.size_bytes},{cache.ways},{cache.line_bytes}"
            for cache in (self.geometry.l1, self.geometry.ll)
        )
        return ["--cache-sim=yes", f"--I1={l1}", f"--D1={l1}", f"--LL={ll}"]

    def _look(self, counts: "Counts", given: Conditions) -> ProfileEvidence:
        on = counts.on
        round_requests = given.clients * given.pipeline
        short = -(-_LEAST_REQUESTS // round_requests) * round_requests
        more = short * _TIMES_MORE
        looks = [on.info()]
        counts.dump()
        parts = []
        for requests in (short, short + more):
            fixed_load(on, given, requests=requests)
            looks.append(on.info())
            parts.append(counts.dump())
        totals = [commands_served(look) for look in looks]
        served = [None if a is None or b is None else b - a for a, b in pairwise(totals)]
        if served[0] is None or served[1] is None or served[1] - served[0] != more:
            raise EngineError(
                f"{given.label()}: the engine counted {served} commands, not {more} more in the "
                "second load than in the first; nothing else may use it."
            )
        stages, unattributed = _per_request(parts, on, requests=more)
        profile = Profile(
            profiler="callgrind",
            tool=version_of(["valgrind", "--version"]),
            given=given,
            requests=more,
            unattributed=unattributed,
            geometry=self.geometry,
            threads=[ThreadWork(thread="all", role="main", stages=stages)],
            **exact_rates(looks, requests=more),
        )
        return ProfileEvidence(profile, _evidence(parts, requests=more))


class Counts:
    """Takes what was counted since the last time."""

    def __init__(self, on: Session, out: Path) -> None:
        self.on = on
        self._out = out
        self._number = 0

    def dump(self) -> CallgrindProfile:
        """The counts since the last dump, which then start from zero."""
        self._ask()
        return read_callgrind(f"{self._out}.{self._number}")

    def skip(self) -> None:
        """Let the counts start from zero."""
        self._ask()

    def dump_threads(self) -> dict[int, CallgrindProfile]:
        """The same by valgrind's number of the thread, of a server run with --separate-threads."""
        self._ask()
        stem = f"{self._out.name}.{self._number}-"
        return {
            int(path.name.removeprefix(stem)): read_callgrind(path)
            for path in sorted(self._out.parent.glob(f"{stem}*"))
        }

    def _ask(self) -> None:
        command = ["vgdb", f"--vgdb-prefix={self._out.parent}/vgdb", f"--pid={self.on.process.pid}"]
        run_program([*command, "dump"], timeout_s=_DUMP_LIMIT_S)
        self._number += 1


def _per_request(
    parts: Sequence[CallgrindProfile], on: Session, *, requests: int
) -> tuple[list[StageWork], float]:
    """Instructions by stage, the most first, and the share of the instructions without a stage."""
    (short, short_lost), (long, long_lost) = (charge(part, on.stages) for part in parts)
    simulated = "D1mr" in parts[0].events

    def change(stage: Stage, *events: str) -> float:
        return (
            sum(
                long.get(stage, {}).get(event, 0.0) - short.get(stage, {}).get(event, 0.0)
                for event in events
            )
            / requests
        )

    works = [
        StageWork(
            stage=stage,
            instructions_per_request=change(stage, "Ir"),
            data_references_per_request=change(stage, *_REFERENCES) if simulated else None,
            d1_misses_per_request=change(stage, *_D1_MISSES) if simulated else None,
            ll_misses_per_request=change(stage, *_LL_MISSES) if simulated else None,
        )
        for stage in long
    ]
    works.sort(key=lambda work: -(work.instructions_per_request or 0.0))
    total = sum(work.instructions_per_request or 0.0 for work in works)
    lost = (long_lost.get("Ir", 0.0) - short_lost.get("Ir", 0.0)) / requests
    return works, lost / total if total else 0.0


def _evidence(parts: Sequence[CallgrindProfile], *, requests: int) -> str:
    """`function events...` lines: each function's own per request, the largest first."""
    short, long = parts
    zeros = dict.fromkeys(long.events, 0)
    rows = []
    for name, work in long.functions.items():
        before = short.functions[name].self if name in short.functions else zeros
        rows.append(
            (name, [(work.self[event] - before[event]) / requests for event in long.events])
        )
    rows.sort(key=lambda row: -row[1][0])
    lines = [
        f"{name} {' '.join(f'{value:.4g}' for value in values)}"
        for name, values in rows
        if any(abs(value) >= 0.01 for value in values)
    ]
    return "\n".join([f"# function {' '.join(long.events)}", *lines]) + "\n"
