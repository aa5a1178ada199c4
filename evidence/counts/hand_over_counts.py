"""What main thread and I/O threads do for each other, function by function, counted in valgrind.

The study `hand-over-counts` runs an engine with one I/O thread beside its main thread, and keeps
the calls of every function and what they take in `evidence/counts/hand_over_counts/`, by thread and
per request. Each count is the difference of two loads of different length. valgrind lets threads
run one at a time, so how many requests are handed over together, and how long a thread spins, is
nothing like it is on two cores; what one call takes is the same. `hand_over_work` divides.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forecache.calibration.bundle.points import Command, Conditions
from forecache.calibration.drive.loadgen import preload
from forecache.calibration.drive.servers import EngineProcess, engine_version, find_engine
from forecache.calibration.observe.measure import plan_cores
from forecache.calibration.observe.profilers.callgrind import Counts
from forecache.calibration.observe.profilers.programs import version_of
from forecache.calibration.observe.profilers.session import Session, fixed_load
from forecache.calibration.observe.readers.callgrind import CallgrindProfile

from ..harness import Asked, Files

FOLDER = Path("evidence/counts/hand_over_counts")

_LOADS: tuple[tuple[Command, int, int], ...] = (
    *(("get", 1, 1), ("get", 1, 20), ("get", 10, 20)),
    *(("set", 1, 20), ("set", 10, 20)),
)

POINTS = [
    Conditions(command=command, pipeline=pipeline, clients=clients, transport="unix", io_threads=2)
    for command, pipeline, clients in _LOADS
]

_ROUNDS = 5
_FEWEST_REQUESTS = 40
_TIMES_MORE = 3
"""Requests of the shorter load, in rounds of all clients with all their places in the pipeline, and
how many times more those of the longer one are. Each hand-over to a thread that spins costs
valgrind a turn of its scheduler, so loads are short; what is counted is exact."""

_LEAST = 0.5
"""Instructions a request below which a function is left out."""

_NAMELESS = "0x"

TOTAL = "(all)"
"""In place of a function: all that a thread did."""

_ALWAYS_THREADED = {
    "valkey-8": {"events-per-io-thread": "0"},
    "valkey-9": {"io-threads-always-active": "yes"},
    "redis-6": {"io-threads-do-reads": "yes"},
    "redis-7": {"io-threads-do-reads": "yes"},
}
"""By major version, what lets the threads work however little there is to do."""


@dataclass(frozen=True)
class Spent:
    """Of one function of one thread, a request: calls, and instructions with all that it called."""

    calls: float
    instructions: float

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.calls + other.calls, self.instructions + other.instructions)


def count(binary: Path) -> dict[str, Any]:
    """What main thread and I/O thread spend a request by function, at every point."""
    name, version = engine_version(binary)
    with tempfile.TemporaryDirectory(prefix="forecache-valgrind-") as folder:
        out = Path(folder) / "counts"
        wrapper = [
            *("valgrind", "--quiet", "--tool=callgrind", "--separate-threads=yes"),
            *("--fair-sched=yes", f"--callgrind-out-file={out}", f"--vgdb-prefix={folder}/vgdb"),
        ]
        plan = plan_cores(io_threads=2, generator_threads=1)
        config = {**EngineProcess.slow_config, **_ALWAYS_THREADED.get(f"{name}-{version[0]}", {})}
        with (
            EngineProcess(binary, io_threads=2, config=config, wrapper=wrapper) as process,
            process.control() as control,
        ):
            address = process.address("unix")
            preload(POINTS[0], address, control=control, cores=plan.generator)
            counts = Counts(Session(process, control, plan), out)
            rows = [_count_one(counts, given) for given in POINTS]
    return {
        "engine": name,
        "version": version,
        "date": datetime.now(UTC).date().isoformat(),
        "tool": version_of(["valgrind", "--version"]),
        "points": rows,
    }


def _count_one(counts: Counts, given: Conditions) -> dict[str, Any]:
    round_requests = given.clients * given.pipeline
    short = max(_FEWEST_REQUESTS, _ROUNDS * round_requests)
    more = short * _TIMES_MORE
    counts.dump_threads()
    parts = []
    for requests in (short, short + more):
        fixed_load(counts.on, given, requests=requests)
        parts.append(counts.dump_threads())
    before, after = parts
    threads = {
        number: spent_between(before.get(number), profile, requests=more)
        for number, profile in after.items()
    }
    # The main thread is the first; those for background jobs do next to nothing.
    io = max(set(threads) - {1}, key=lambda number: threads[number][TOTAL].instructions)
    return {
        "command": given.command,
        "pipeline": given.pipeline,
        "clients": given.clients,
        "threads": {
            role: {
                without_folders(name): [
                    float(f"{spent.calls:.5g}"),
                    float(f"{spent.instructions:.5g}"),
                ]
                for name, spent in sorted(threads[number].items())
            }
            for role, number in (("main", 1), ("io", io))
        },
    }


def without_folders(name: str) -> str:
    """A function's name, with the file of its object instead of that file's whole path."""
    return re.sub(r"\[[^\],]*/", "[", name)


def spent_between(
    before: CallgrindProfile | None, after: CallgrindProfile, *, requests: int
) -> dict[str, Spent]:
    """Of every function that takes enough to be seen, what it took a request.

    A function that several call is there once for each of them as well, as `CALLER > FUNCTION`.
    Functions without a name, which valgrind calls by their address, are left out; they count with
    those that call them. So do calls of a function by itself.

    Parameters
    ----------
    before, after
        Of one thread, under a load and one that is longer by so many requests.
    """
    arcs: dict[tuple[str, str], Spent] = {}
    for profile, sign in ((after, 1.0), (before, -1.0)):
        for call in () if profile is None else profile.calls:
            if call.caller != call.callee:
                each = sign / requests
                so_far = arcs.get((call.caller, call.callee), Spent(0.0, 0.0))
                spent = Spent(call.count * each, call.inclusive["Ir"] * each)
                arcs[call.caller, call.callee] = so_far + spent
    found: dict[str, Spent] = {}
    callers: dict[str, int] = {}
    for (_, callee), spent in arcs.items():
        found[callee] = found.get(callee, Spent(0.0, 0.0)) + spent
        callers[callee] = callers.get(callee, 0) + 1
    for (caller, callee), spent in arcs.items():
        if callers[callee] > 1 and not caller.startswith(_NAMELESS):
            found[f"{caller} > {callee}"] = spent
    total = after.totals["Ir"] - (before.totals["Ir"] if before else 0)
    named = {
        name: spent
        for name, spent in found.items()
        if not name.rpartition(" > ")[2].startswith(_NAMELESS) and abs(spent.instructions) >= _LEAST
    }
    return {**named, TOTAL: Spent(1.0, total / requests)}


def read_counts(path: Path) -> list[dict[str, Any]]:
    """The points of a counted engine, functions as `Spent`."""
    points: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["points"]
    return [{**point, "threads": _spent_of(point["threads"])} for point in points]


def _spent_of(
    threads: Mapping[str, Mapping[str, list[float]]],
) -> dict[str, dict[str, Spent]]:
    return {
        role: {name: Spent(*numbers) for name, numbers in functions.items()}
        for role, functions in threads.items()
    }


def artefact(asked: Asked) -> Files:
    """Count the engines at hand."""
    files = {}
    for engine in asked.engines(("redis-server", "valkey-server")):
        asked.progress(f"counting {engine}")
        found = count(find_engine(engine))
        rows = ",\n".join(f"  {json.dumps(row)}" for row in found.pop("points"))
        out = FOLDER / f"{found['engine']}-{found['version']}.json"
        files[out] = f'{json.dumps(found)[:-1]}, "points": [\n{rows}\n]}}\n'
    return files
