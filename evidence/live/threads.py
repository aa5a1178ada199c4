"""What each thread of an engine with I/O threads computes for a request, measured and predicted.

Two cores are enough for that: the main thread has one to itself, I/O threads and valkey-benchmark
share the other. Threads of Redis 8 sleep when they have nothing to do, so their CPU time is what
they compute. Those of other engines spin: samples tell where they wait (`observe/spinning.py`), and
INFO of Valkey 9.1 says how long its main thread was active. Each engine is calibrated at other
points, driven by forecache's own load generator; what valkey-benchmark itself takes is fitted to
points with one thread.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions, ObservedPoint
from forecache.calibration.fit.fit import fit_bundle
from forecache.calibration.fit.prior import earlier_profile
from forecache.calibration.fit.simulated_fit import (
    ThreadModel,
    fit_threads,
    reports_activity,
    tells_waiting,
    usable_threads,
)
from forecache.calibration.observe.design import Timing
from forecache.calibration.observe.observe import observe
from forecache.hwprofiles.capture import capture_host
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.system import System

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import rounds
from .rounds import log_uniform
from .tool_fit import fitted_tool

FOLDER = Path("evidence/threads")
"""A folder per host and in it one per engine, with a bundle of the driver, compact."""
ARTEFACT = Path("docs/accuracy/threads.json")
GENERATIONS = (
    *("redis-6.2.11", "redis-7.0.15", "redis-8.0.6", "redis-8.6.3"),
    *("valkey-8.0.1", "valkey-8.1.1", "valkey-9.1.2"),
)
OBSERVED, SHIPPED = "observed", "shipped"
COUNTED = "observed, turns counted"
"""Profiles, and of an engine's folder the bundle that it was calibrated with; the other has the
points scored."""
_GROUP = ("host", "engine", "profile")
_PARTS = ("main", "io", "waiting")
TOOL = "valkey-benchmark"
IO_THREADS = (2, 3)
KEYS, VALUE_BYTES = (100, 1_000_000), (8, 1024)
PIPELINES, CLIENTS = (1, 32), (10, 200)
"""Ranges that points are drawn from."""
TOOL_POINTS = tuple(
    Conditions(command="get", keys=1_000, value_bytes=64, pipeline=pipeline, clients=50, role="fit")
    for pipeline in (1, 4, 16)
)
"""With one thread: what the tool itself takes on this host."""
DATA_SETS, POINTS_EACH = 2, 3
"""Of each number of threads, and of each data set."""
TIMING = Timing(warm_up_s=0.0, window_s=2.0, repetitions=3, io_warm_up_s=0.5)


@dataclass(frozen=True)
class Compared:
    """CPU time a request, us: of the main thread and of all I/O threads, and what both waited."""

    host: str
    engine: str
    profile: str
    point: str
    io_threads: int
    main_us: tuple[float, ...]
    io_us: tuple[float, ...]
    waiting_us: tuple[float, ...]
    predicted_main_us: float
    predicted_io_us: float
    predicted_waiting_us: float


def random_points(seed: int) -> list[Conditions]:
    """As many with each number of threads; GET or SET, the rest uniform in the logarithm."""
    random = np.random.default_rng(seed)
    points: list[Conditions] = []
    for io_threads in IO_THREADS:
        for _ in range(DATA_SETS):
            keys = log_uniform(random, *KEYS)
            value_bytes = log_uniform(random, *VALUE_BYTES)
            points += [
                Conditions(
                    command="get" if random.random() < 0.5 else "set",
                    keys=keys,
                    value_bytes=value_bytes,
                    pipeline=log_uniform(random, *PIPELINES),
                    clients=log_uniform(random, *CLIENTS),
                    io_threads=io_threads,
                    role="holdout",
                )
                for _ in range(POINTS_EACH)
            ]
    return points


def measure(asked: Asked) -> Files:
    """Drive engines with I/O threads; `SEED` and `ENGINES` are as in the study generations."""
    seed = rounds.seed()
    with rounds.engines_at_hand() as (scratch, engines):
        chosen = [rounds.engine_of(engines, id_) for id_ in asked.only or GENERATIONS]
        host = capture_host(progress=asked.progress)
        for engine in chosen:
            asked.progress(engine.id)
            folder = FOLDER / host.id / engine.id
            observe(
                engine=engine.server,
                design="threads",
                out=scratch / OBSERVED / engine.id,
                host=host,
                progress=asked.progress,
            )
            rounds.keep(scratch / OBSERVED / engine.id, folder / OBSERVED)
            observe(
                engine=engine.server,
                design=[*TOOL_POINTS, *random_points(seed)],
                out=scratch / engine.id,
                host=host,
                timing=TIMING,
                tool=str(rounds.tool_of(engines, TOOL)),
                progress=asked.progress,
            )
            rounds.keep(scratch / engine.id, folder / TOOL)
            rounds.keep_seed(folder, seed)
    return predict(asked)


def predict(asked: Asked) -> Files:
    """Predict the committed measurements, calibrated on their host and as shipped; compare."""
    rows: list[Compared] = []
    for path in sorted(FOLDER.glob("*/*")):
        asked.progress(f"{path}: predicting")
        bundle = Bundle.load(path / TOOL)
        of = bundle.manifest.engine
        host = rounds.host_of(path, bundle)
        shipped = System(host, load_engine(of.name, of.version), load_generator(TOOL))
        rows += compared(path, bundle, shipped, SHIPPED)
        if (path / OBSERVED).is_dir():
            observed = Bundle.load(path / OBSERVED)
            fitted = fit_bundle(observed, known=earlier_profile(observed))
            found = fit_threads(fitted)
            if found is not None:
                system = System(fitted.host, found.profile, load_generator(TOOL))
                if alone := [p for p in bundle.points if p.given.io_threads == 1]:
                    system = replace(system, generator=fitted_tool(alone, system))
                rows += compared(path, bundle, system, OBSERVED, placement=found.placement)
                if system.engine.threading.threads_sleep:
                    rows += compared(
                        path, bundle, system, COUNTED, placement=found.placement, counted=True
                    )
    return {ARTEFACT: json_text({"points": [asdict(row) for row in rows]})}


def compared(
    path: Path,
    bundle: Bundle,
    system: System,
    profile: str,
    *,
    placement: Mapping[str, float] | None = None,
    counted: bool = False,
) -> list[Compared]:
    """The points of a bundle, predicted.

    Parameters
    ----------
    placement
        Of `ThreadFit`; None where it is not known.
    counted
        As in `ThreadModel`: no prediction, but it tells what batches have to do with a miss.
    """
    points = [point for point in bundle.points if usable_threads(point)]
    sleep = system.engine.threading.threads_sleep
    cores = bundle.manifest.machine.cores_available
    model = ThreadModel(points, system, cores=cores, counted=counted)
    logs = np.array([math.log((placement or {}).get(name, 1.0)) for name in model.names])
    return [
        Compared(
            host=path.parent.name,
            engine=path.name,
            profile=profile,
            point=point.given.label(),
            io_threads=point.given.io_threads,
            main_us=(
                _windows_us(point, "main_thread_computing_ns_per_request")
                if sleep or reports_activity(point) or tells_waiting(point)
                else ()
            ),
            io_us=(
                _windows_us(point, "io_threads_computing_ns_per_request")
                if sleep or tells_waiting(point)
                else ()
            ),
            waiting_us=(
                _windows_us(point, "waiting_ns_per_request") if tells_waiting(point) else ()
            ),
            predicted_main_us=float(main_us),
            predicted_io_us=float(io_us),
            predicted_waiting_us=max(0.0, float(nominal_us - sum(base))),
        )
        for point, (main_us, io_us), nominal_us, base in zip(
            points, model.computing(logs), model.server_cpu_us, model.base_us, strict=True
        )
    ]


def _windows_us(point: ObservedPoint, name: str) -> tuple[float, ...]:
    """A number of each quiet window, in us."""
    return tuple(getattr(repetition, name) / 1e3 for repetition in point.quiet_repetitions())


def section() -> list[str]:
    """Its part of docs/generations.md."""
    rows = json.loads(ARTEFACT.read_text(encoding="utf-8"))["points"]
    body = []
    for host, engine, profile in sorted({tuple(row[k] for k in _GROUP) for row in rows}):
        of = [row for row in rows if tuple(row[k] for k in _GROUP) == (host, engine, profile)]
        for io_threads in IO_THREADS:
            chosen = [row for row in of if row["io_threads"] == io_threads]
            if chosen:
                cells = [*errors_of(chosen, "main"), *errors_of(chosen, "io"), *waiting_of(chosen)]
                body.append([f"`{host}`", engine, profile, io_threads, len(chosen), *cells])
    header = ["host", "engine", "profile", "io-threads", ">points"]
    for part in ("main thread", "I/O threads"):
        header += [f">{part}: median error", ">bias", ">repeat"]
    header += [">waiting", ">predicted", ">median difference"]
    return [
        "## Threads",
        "",
        "What each thread computes for a request. Waiting for work and going round the event loop"
        " are left out and stand apart: their share of the CPU time of all these threads, in the"
        " median over the points, and by how much of that time measured and predicted share of a"
        " point differ. Threads of Redis 8 sleep"
        " instead, so theirs is their CPU time. Elsewhere samples of where threads are tell waiting"
        " apart; of Valkey 9.1's main thread it is the time that INFO calls active, at most its CPU"
        " time. The main thread has a core of its own; I/O threads and the load generator share the"
        f" other. Random points, driven by {TOOL}, seeds {', '.join(map(str, seeds()))}."
        " *Observed*: calibrated on this host at other points, driven by forecache's own"
        " generator, costs between threads included."
        " *Shipped*: as it comes with forecache. *Turns counted*: the same as *observed*, told how"
        " often the main thread woke, which is no prediction but says what of a miss is batches.",
        "",
        f"On {looked_at()} a point has {TIMING.repetitions} windows of 1 or"
        f" {TIMING.window_s:g} s, more where some were disturbed; those that count saw the cores as"
        " far apart and as fast as when the host was profiled"
        " ([observe.md](observe.md#where-the-cores-are)), and points without such a window are left"
        " out. Polls of I/O threads for the main thread, and looks of a main thread at clients"
        f" whose jobs aren't done, count as waiting, and for *observed* what {TOOL} itself takes is"
        f" fitted to {len(TOOL_POINTS)} points with one thread. On other hosts a point has 3"
        " windows of 0.5 s or 4 of 1 s, it is not known how far apart and how fast the cores were,"
        " and polls and looks count as work.",
        "",
        *table(header, body),
    ]


def seeds() -> list[int]:
    """Of the points of all hosts."""
    return sorted({seed for host in FOLDER.iterdir() for seed in rounds.seeds_of(host)})


def looked_at() -> str:
    """Hosts on which every window saw how fast the cores were."""
    hosts = [
        host.name
        for host in sorted(path for path in FOLDER.iterdir() if path.is_dir())
        if all(
            repetition.core_answer_ns is not None
            for engine in host.iterdir()
            for point in Bundle.load(engine / TOOL).points
            for repetition in point.repetitions
        )
    ]
    return ", ".join(f"`{host}`" for host in hosts)


def errors_of(rows: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Cells of the table for `main` or `io`: median error, bias, and how far repeats differ."""
    known = [row for row in rows if min(row[f"{part}_us"], default=0.0) > 0.0]
    if not known:
        return ["–"] * 3
    errors = [rounds.error(row[f"{part}_us"], row[f"predicted_{part}_us"]) for row in known]
    repeats = [rounds.repeat(row[f"{part}_us"]) for row in known if len(row[f"{part}_us"]) > 1]
    return [
        f"{np.median(np.abs(errors)):.1%}",
        f"{np.median(errors):+.1%}",
        f"{np.median(repeats):.1%}" if repeats else "–",
    ]


def waiting_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Cells of the table: the share of their CPU time that threads wait, measured and predicted."""
    known = [row for row in rows if row["waiting_us"]]
    if not known:
        return ["–"] * 3
    parts = [[np.median(row[f"{part}_us"]) for part in _PARTS] for row in known]
    measured = np.array([waiting / sum((main, io, waiting)) for main, io, waiting in parts])
    parts = [[row[f"predicted_{part}_us"] for part in _PARTS] for row in known]
    predicted = np.array([waiting / sum((main, io, waiting)) for main, io, waiting in parts])
    return [
        f"{np.median(measured):.0%}",
        f"{np.median(predicted):.0%}",
        f"{np.median(np.abs(predicted - measured)):.0%}",
    ]
