"""What a request is made of: turns of the event loop, sleeps and calls, counted and predicted.

Totals can be right by two errors; counts can't. Engines with one thread are driven by benchmark
tools, one CPU each. A library that is preloaded into both counts their calls of epoll_wait, read
and write, and the kernel says how often they went to sleep. Predicted is what the shipped engine
does on this host, which is profiled first. Where the hypervisor had the two CPUs
at another distance than in the profile, a point is measured again, and left out in the end.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.loadgen import preload
from forecache.calibration.drive.proc import thread_usage
from forecache.calibration.drive.servers import KEEP_FREED_PAGES, EngineProcess
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.catalogue import load_host
from forecache.hwprofiles.files import write_text_atomic
from forecache.models.engines.generator import load_generator
from forecache.models.prediction.predict import predict_cases
from forecache.models.prediction.system import System
from forecache.sim.native.toolchain import compiler

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import additions, replica_reads, rounds
from .cpu_windows import Tool, profile_of_most, settled, unmoved
from .engines import Engine
from .rounds import TOOLS

FOLDER = Path("evidence/turns")
"""A folder per host: its profile, and what was counted."""
ARTEFACT = Path("docs/accuracy/turns.json")
PAGE = Path("docs/turns.md")
ENGINES = (
    *("redis-6.2.11", "redis-7.0.15", "redis-8.0.6", "redis-8.6.3"),
    *("valkey-8.0.1", "valkey-8.1.1", "valkey-9.1.2"),
)
KEYS, VALUE_BYTES = 10_000, 64
POINTS = (
    *((1, clients) for clients in (1, 2, 4, 16, 50, 200, 1000)),
    *((pipeline, 50) for pipeline in (2, 4, 16)),
)
"""(pipeline, clients)."""
WARM_UP_S, WINDOW_S, WINDOWS = 0.5, 0.3, 3
REQUESTS = 40_000
_SOURCE = Path(__file__).parent / "preload" / "counted.c"
_COUNTS = ("waits", "events", "reads", "writes")
QUANTITIES = ("server_us", "turns", "sleeps", "generator_us", "polls", "throughput_rps")
"""What is predicted of a point: CPU time, turns and sleeps of the server's main thread a request,
CPU time and calls of epoll_wait of the load generator."""


@dataclass(frozen=True)
class Counter:
    """The preloaded library, and the file that one program's counts are in."""

    library: Path
    counts: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a program has to be started with."""
        return {"LD_PRELOAD": str(self.library), "COUNTED": str(self.counts)}

    def restart(self) -> None:
        """Make the file anew, before a program starts."""
        self.counts.write_bytes(bytes(8 * len(_COUNTS)))

    def read(self) -> dict[str, int]:
        """The counts by name."""
        numbers = struct.unpack(f"{len(_COUNTS)}q", self.counts.read_bytes())
        return dict(zip(_COUNTS, numbers, strict=True))


def build_library(folder: Path) -> Path:
    """Compile the library that counts."""
    library = folder / "counted.so"
    options = ("-O2", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl")
    subprocess.run([*compiler(), *map(str, options)], check=True)
    return library


@dataclass(frozen=True)
class Bench:
    """An engine and a tool, one CPU each."""

    process: EngineProcess
    program: Path
    counters: tuple[Counter, Counter]
    cpus: tuple[int, int]

    def windows(self, pipeline: int, clients: int) -> dict[str, float]:
        """Medians over windows, a request."""
        control = self.process.control()

        def look(tool_pid: int) -> dict[str, float]:
            said = dict(
                line.split(":", 1) for line in control.info("stats").splitlines() if ":" in line
            )
            found = {
                "seconds": time.monotonic(),
                "requests": float(said["total_commands_processed"]),
            }
            programs = {"server": self.process.pid, "generator": tool_pid}
            for (name, pid), counter in zip(programs.items(), self.counters, strict=True):
                usage = thread_usage(pid, pid)
                found[f"{name}_us"] = usage.cpu_ns / 1000.0
                found[f"{name}_sleeps"] = float(usage.voluntary_switches)
                found |= {f"{name}_{key}": float(n) for key, n in counter.read().items()}
            return found

        counter = self.counters[1]
        counter.restart()
        tool = Tool(self.program, self.cpus[1], self.process, counter.environment)
        options = ("-c", clients, "-P", pipeline, "-r", KEYS)
        rows = []
        with tool.running(("get", "key:__rand_int__"), *options) as pid:
            time.sleep(WARM_UP_S)
            before = look(pid)
            for _ in range(WINDOWS):
                time.sleep(WINDOW_S)
                after = look(pid)
                passed = {name: after[name] - before[name] for name in after}
                rows.append(_per_request(passed))
                before = after
        return {name: float(np.median([row[name] for row in rows])) for name in rows[0]}


def _per_request(passed: dict[str, float]) -> dict[str, float]:
    """What happened in a window, a request."""
    requests = passed["requests"]
    each = {name: passed[name] / requests for name in passed}
    return {
        "server_us": each["server_us"],
        "turns": each["server_waits"],
        "events": each["server_events"],
        "sleeps": each["server_sleeps"],
        "reads": each["server_reads"],
        "writes": each["server_writes"],
        "generator_us": each["generator_us"],
        "polls": each["generator_waits"],
        "throughput_rps": requests / passed["seconds"],
    }


def measure(asked: Asked) -> Files:
    """Count, on this host; `ENGINES` is as in the study generations."""
    with rounds.engines_at_hand() as (scratch, engines):
        host = capture_host(progress=asked.progress)
        folder = FOLDER / host.id
        library = build_library(scratch)
        cpus = sorted(os.sched_getaffinity(0))[:2]
        rows: list[dict[str, Any]] = []
        for id_ in asked.only or ENGINES:
            engine = rounds.engine_of(engines, id_)
            for tool in TOOLS:
                asked.progress(f"{engine.id}: {tool}")
                program = rounds.tool_of(engines, tool)
                found = _of_engine(
                    engine, program, library, (cpus[0], cpus[1]), host.core_to_core_ns.best
                )
                rows += [{"engine": engine.id, "tool": tool, **row} for row in found]
        host = profile_of_most(host, rows, asked.progress)
        rounds.keep_host(folder, host)
        write_text_atomic(folder / "counts.json", json_text(rows))
    return predict(asked)


def _of_engine(
    engine: Engine, tool: Path, library: Path, cpus: tuple[int, int], apart: float
) -> Iterator[dict[str, Any]]:
    held = Conditions(command="get", keys=KEYS, value_bytes=VALUE_BYTES)
    with tempfile.TemporaryDirectory(prefix="forecache-turns-") as scratch:
        counters = tuple(Counter(library, Path(scratch) / name) for name in ("server", "tool"))
        counters[0].restart()

        class Counted(EngineProcess):
            environment: ClassVar[dict[str, str]] = {
                **KEEP_FREED_PAGES,
                **counters[0].environment,
            }

        with Counted(engine.server, cores=[cpus[0]]) as process:
            preload(held, process.address("tcp"), control=process.control(), cores=[cpus[1]])
            bench = Bench(process, tool, (counters[0], counters[1]), cpus)
            for pipeline, clients in POINTS:
                windows = partial(bench.windows, pipeline, clients)
                row, distances = settled(cpus, apart, windows)
                yield {"pipeline": pipeline, "clients": clients, "apart_ns": distances, **row}


def predict(asked: Asked) -> Files:
    """Predict what was counted, with shipped engines on each host."""
    hosts = []
    for folder in sorted(path for path in FOLDER.iterdir() if path.is_dir()):
        host = load_host(str(folder / rounds.HOST_FILE))
        rows = json.loads((folder / "counts.json").read_text(encoding="utf-8"))
        kept = [row for row in rows if unmoved(row["apart_ns"], host)]
        cases = []
        for row in kept:
            given = Conditions(
                command="get",
                keys=KEYS,
                value_bytes=VALUE_BYTES,
                pipeline=row["pipeline"],
                clients=row["clients"],
                role="holdout",
            )
            system = System(host, rounds.shipped(row["engine"]), load_generator(row["tool"]))
            cases.append(rounds.case_of(given, system, tool=row["tool"]))
        asked.progress(f"{folder}: predicting {len(cases)} points")
        predictions = predict_cases(cases, draws=0, replications=1, requests=REQUESTS)
        points = []
        for row, prediction in zip(kept, predictions, strict=True):
            said = _simulated(prediction.nominal[0].result)
            points.append({**row, "predicted": {name: said[name] for name in QUANTITIES}})
        date = "" if host.captured is None else str(host.captured.date)[:10]
        title = {"id": folder.name, "title": host.title, "date": date}
        hosts.append({**title, "left_out": len(rows) - len(kept), "points": points})
    return {ARTEFACT: json_text(hosts)}


def _simulated(result: Any) -> dict[str, float]:
    """The same of a run."""
    each = {name: number / result.completions for name, number in result.counters.items()}
    return {
        "server_us": result.server_cpu_us_per_request,
        "turns": each["loops"],
        "sleeps": each["blocks"],
        "generator_us": result.generator_cpu_us_per_request,
        "polls": each["generator_polls"],
        "throughput_rps": result.throughput_rps,
    }


NEAR_ENOUGH = 0.01
"""A request: counts that differ by less count as right."""


def error(row: dict[str, Any], name: str) -> float:
    """Of a prediction, relative; 0 where a count is right within `NEAR_ENOUGH`."""
    apart = row["predicted"][name] - row[name]
    if name in ("turns", "sleeps", "polls") and abs(apart) < NEAR_ENOUGH:
        return 0.0
    return float(apart / row[name])


def pages() -> Files:
    """`docs/turns.md`."""
    hosts = json.loads(ARTEFACT.read_text(encoding="utf-8"))
    text = [
        "# What a request is made of",
        "",
        "Totals can be right by two errors; counts can't. Engines with one thread served GETs of"
        f" {VALUE_BYTES} B over {KEYS:,} keys, from one thread of a benchmark tool on the other"
        " CPU. A preloaded library counted calls of `epoll_wait`; sleeps are voluntary switches of"
        " the main thread. Predicted are shipped engines on the host as profiled then. Nothing was"
        " fitted to these counts, but two rules were found on the Zen 5 host on the same day: the"
        " order in which tools handle what is ready, and what a peer on another CPU adds"
        " ([models.md](models.md)). Two others came later, with those counts known: what short"
        " sleeps take, and which tools keep the tick of idle cores. The counts of Zen 3 came after"
        " all of them. The hypervisor moved the CPUs there every few seconds, and the profile made"
        " just before caught them far apart, as 22 points were measured. It was replaced by the"
        " profile of the steps study, made 75 minutes earlier with the CPUs near each other, as 62"
        " points were measured; errors with the first profile had been seen by then (CPU 10 and"
        " 8%, turns 29 and 10%, sleeps 27 and 68%). The counts of Xeon 6 came last. With all counts"
        " known, the speed of the tools (`user_scale`, `kernel_scale`) was fitted again on"
        " 29 November 2026, to their CPU time in other runs on a Xeon 6 guest as well as on a Zen 3"
        " one, and all three hosts were predicted anew on the 30th. Before that, the CPU time of"
        " the tools on Xeon 6 was off by 25.4 and 27.4%."
        f" Errors of counts below {NEAR_ENOUGH:g} a request are taken to be none."
        " `make evidence STUDY=turns`; what was counted is in `evidence/turns`.",
    ]
    for host in hosts:
        text += ["", f"## {host['title']}, {host['date']}", "", *_errors(host["points"])]
        text += ["", *_by_point(host["points"])]
        if host["left_out"]:
            text += [
                "",
                f"{host['left_out']} points are left out: the hypervisor had the CPUs at another"
                " distance than in the profile.",
            ]
    for more in (additions, replica_reads):
        if more.ARTEFACT.exists():
            text += ["", *more.section()]
    return {PAGE: "\n".join(text) + "\n"}


_WORDS = {
    "server_us": "CPU us of the server",
    "turns": "its turns",
    "sleeps": "its sleeps",
    "generator_us": "CPU us of the tool",
    "polls": "its calls of epoll_wait",
    "throughput_rps": "requests/s",
}


def _errors(points: Sequence[dict[str, Any]]) -> list[str]:
    """Errors by quantity and tool."""
    rows = []
    for tool in TOOLS:
        for name, words in _WORDS.items():
            errors = [error(row, name) for row in points if row["tool"] == tool]
            if errors:
                middle, bias = np.median(np.abs(errors)), np.median(errors)
                rows.append((tool, words, f"{middle:.1%}", f"{bias:+.1%}", str(len(errors))))
    return table(("tool", "a request", ">median error", ">bias", ">points"), rows)


def _by_point(points: Sequence[dict[str, Any]]) -> list[str]:
    """Medians over engines, measured and predicted."""
    rows = []
    for tool in TOOLS:
        for pipeline, clients in POINTS:
            here = [
                row
                for row in points
                if (row["tool"], row["pipeline"], row["clients"]) == (tool, pipeline, clients)
            ]
            if not here:
                continue
            cells, shown = [], {"server_us": 2, "turns": 3, "sleeps": 3, "generator_us": 2}
            for name, digits in shown.items():
                found = np.median([row[name] for row in here])
                said = np.median([row["predicted"][name] for row in here])
                cells.append(f"{found:.{digits}f}, {said:.{digits}f}")
            rows.append((tool, str(pipeline), str(clients), *cells))
    header = ("tool", ">pipeline", ">clients", ">server, us", ">turns", ">sleeps", ">tool, us")
    return ["Medians over engines, measured and predicted, a request:", "", *table(header, rows)]
