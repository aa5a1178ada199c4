"""What each thread of an engine with I/O threads computes for a request, measured and predicted.

Two cores are enough for that: the main thread has one to itself, I/O threads and valkey-benchmark
share the other. Threads of Redis 8 sleep when they have nothing to do, so their CPU time is what
they compute. Those of Valkey 9.1 spin, and INFO says how long they were active: by the wall clock,
so what a thread computes is at most that, and at most its CPU time. Older engines spin and don't
say how long.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions, Repetition
from forecache.calibration.observe.design import Timing
from forecache.calibration.observe.observe import observe
from forecache.hwprofiles.capture import capture_host
from forecache.models.breakdown.explain import steps_of
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import Prediction, predict_cases
from forecache.models.prediction.system import System

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import rounds
from .rounds import REQUESTS, log_uniform

FOLDER = Path("evidence/threads")
"""A folder per host and in it one per engine, with a bundle of the driver, compact."""
ARTEFACT = Path("docs/accuracy/threads.json")
GENERATIONS = ("redis-8.0.6", "redis-8.6.3", "valkey-9.1.2")
TOOL = "valkey-benchmark"
IO_THREADS = (2, 3)
KEYS, VALUE_BYTES = (100, 1_000_000), (8, 1024)
PIPELINES, CLIENTS = (1, 32), (10, 200)
"""Ranges that points are drawn from."""
DATA_SETS, POINTS_EACH = 4, 4
"""Of each number of threads, and of each data set."""
TIMING = Timing(warm_up_s=0.0, window_s=0.4, repetitions=4)


@dataclass(frozen=True)
class Compared:
    """CPU time a request, us: of the main thread, and of all I/O threads together."""

    host: str
    engine: str
    point: str
    io_threads: int
    main_us: tuple[float, ...]
    io_us: tuple[float, ...]
    predicted_main_us: float
    predicted_io_us: float


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
            observe(
                engine=engine.server,
                design=random_points(seed),
                out=scratch / engine.id,
                host=host,
                timing=TIMING,
                tool=str(rounds.tool_of(engines, TOOL)),
                progress=asked.progress,
            )
            folder = FOLDER / host.id / engine.id
            rounds.keep(scratch / engine.id, folder / TOOL)
            rounds.keep_seed(folder, seed)
    return predict(asked)


def computed_us(repetition: Repetition) -> tuple[float, float]:
    """What the main thread and all I/O threads computed for a request, in us."""
    main = repetition.main_thread_cpu_ns_per_request
    io = list(repetition.io_thread_cpu_ns_per_request)
    active = repetition.main_thread_active_time_ns_per_request
    io_active = repetition.io_threads_active_time_ns_per_request
    if active is not None and io_active:
        main = min(main, active)
        # Both lists are in the order of the threads' numbers.
        io = [min(pair) for pair in zip(io, io_active, strict=True)]
    return main / 1e3, sum(io) / 1e3


def predict(asked: Asked) -> Files:
    """Predict the committed measurements with the shipped profiles, and compare."""
    rows: list[Compared] = []
    for path in sorted(FOLDER.glob("*/*")):
        asked.progress(f"{path}: predicting")
        bundle = Bundle.load(path / TOOL)
        of = bundle.manifest.engine
        engine = load_engine(of.name, of.version)
        system = System(rounds.host_of(path, bundle), engine, load_generator(TOOL))
        points = list(bundle.points)
        on_two_cores = {"cores": 2, "main_thread_pinned": True}
        cases = [rounds.case_of(p.given, system, tool=TOOL, **on_two_cores) for p in points]
        predictions = predict_cases(cases, draws=0, replications=2, requests=REQUESTS)
        for point, prediction in zip(points, predictions, strict=True):
            measured = [computed_us(repetition) for repetition in point.repetitions]
            main_us, io_us = predicted_us(prediction)
            rows.append(
                Compared(
                    host=path.parent.name,
                    engine=path.name,
                    point=point.given.label(),
                    io_threads=point.given.io_threads,
                    main_us=tuple(main for main, _ in measured),
                    io_us=tuple(io for _, io in measured),
                    predicted_main_us=main_us,
                    predicted_io_us=io_us,
                )
            )
    return {ARTEFACT: json_text({"points": [asdict(row) for row in rows]})}


def predicted_us(prediction: Prediction) -> tuple[float, float]:
    """What the steps of the main thread, and of all others, take of a request, in us."""
    steps = steps_of(prediction)
    main = sum(us for _, thread, us in steps if thread == "main")
    return main, sum(us for _, thread, us in steps if thread != "main")


def section() -> list[str]:
    """Its part of docs/generations.md."""
    rows = json.loads(ARTEFACT.read_text(encoding="utf-8"))["points"]
    body = []
    for host, engine in sorted({(row["host"], row["engine"]) for row in rows}):
        of = [row for row in rows if (row["host"], row["engine"]) == (host, engine)]
        for io_threads in IO_THREADS:
            chosen = [row for row in of if row["io_threads"] == io_threads]
            io = ["–"] * 3 if engine.startswith("valkey") else errors_of(chosen, "io")
            cells = [*errors_of(chosen, "main"), *io]
            body.append([f"`{host}`", engine, io_threads, len(chosen), *cells])
    header = ["host", "engine", "io-threads", ">points"]
    for part in ("main thread", "I/O threads"):
        header += [f">{part}: median error", ">bias", ">repeat"]
    return [
        "## Threads",
        "",
        "A first look at what each thread computes for a request, spinning left out. Threads of"
        " Redis 8 sleep when they are idle, so it is their CPU time. Of Valkey 9.1 it is the main"
        " thread's time that INFO calls active, at most its CPU time; its I/O threads are left out,"
        " since they share a core and INFO counts their waiting for it. The main thread has a core"
        f" of its own, I/O threads and {TOOL} share the other."
        f" {len(IO_THREADS) * DATA_SETS * POINTS_EACH} random points an engine, shipped profiles."
        " What handing over, and lines that move between threads, cost is assumed, not fitted.",
        "",
        *table(header, body),
    ]


def errors_of(rows: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Cells of the table for `main` or `io`: median error, bias, and how far repeats differ."""
    errors = [rounds.error(row[f"{part}_us"], row[f"predicted_{part}_us"]) for row in rows]
    repeats = [rounds.repeat(row[f"{part}_us"]) for row in rows]
    return [
        f"{np.median(np.abs(errors)):.1%}",
        f"{np.median(errors):+.1%}",
        f"{np.median(repeats):.1%}",
    ]
