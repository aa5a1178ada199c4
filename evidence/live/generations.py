"""Real engines of many generations, driven by benchmark tools at random points, and predicted.

`measure` unpacks the engines (`engines.py`), and for each of them profiles this host, since a
hypervisor may move its CPUs. It calibrates the engine with `forecache observe` and `forecache
calibrate`, and drives it with valkey-benchmark and redis-benchmark, which took no part in the fit,
at points drawn at random. Every point is measured once in each of several rounds, which shows how
far a repeat is from a measurement. `predict`
predicts what was measured last again, with the profile of that calibration and, apart, with the
one that is shipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions, ObservedPoint
from forecache.calibration.fit.calibrate import calibrate
from forecache.calibration.fit.prior import earlier_profile
from forecache.calibration.observe.design import TIMINGS, Timing
from forecache.calibration.observe.observe import anchored_by, observe
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import SERVER_CPU, Prediction, predict_cases
from forecache.models.prediction.system import System

from ..counts.shipped import json_text
from ..harness import Asked, Files
from . import rounds
from .engines import Engine
from .rounds import DRAWS, LEVEL, MOST_BYTES, REQUESTS, TOOLS, Row, log_uniform

FOLDER = Path("evidence/generations")
"""A folder per host and in it one per engine: `calibration` and a bundle per tool, compact."""
ARTEFACT = Path("docs/accuracy/generations.json")

GENERATIONS = (
    *("redis-6.2.11", "redis-7.0.15", "redis-8.0.6", "redis-8.6.3"),
    *("valkey-8.0.1", "valkey-8.1.1", "valkey-9.1.2"),
)
"""Which engines are driven, of those that are unpacked."""

POINTS = 60
DATA_SETS = 12
KEYS, VALUE_BYTES = (100, 2_000_000), (8, 4096)
PIPELINES, CLIENTS = (1, 64), (1, 200)
"""Ranges that points are drawn from."""
TIMING = Timing(warm_up_s=0.0, window_s=0.4, repetitions=4)
CALIBRATED = replace(TIMINGS["quick"], repetitions=5)
"""More windows than usual: one that a neighbour disturbs shifts all that is predicted."""
CALIBRATION = "calibration"
PROFILES = ("observed", "anchored", "shipped")
REFERENCE = "valkey-8.0.1"
NEIGHBOURS = (
    ("redis-6.2.11", "redis-7.0.15"),
    ("redis-7.0.15", "redis-8.0.6"),
    ("redis-8.0.6", "redis-8.6.3"),
    ("redis-7.0.15", "valkey-8.0.1"),
    ("valkey-8.0.1", "valkey-8.1.1"),
    ("valkey-8.1.1", "valkey-9.1.2"),
)
"""Versions between which no other was observed."""
LEAST_STEP = 0.05
"""A measured ratio nearer to one has no sign that a prediction could miss."""


def random_points(seed: int) -> list[Conditions]:
    """`POINTS` points, as many of each data set; GET or SET, the rest uniform in the logarithm."""
    random = np.random.default_rng(seed)
    points: list[Conditions] = []
    for _ in range(DATA_SETS):
        value_bytes = log_uniform(random, *VALUE_BYTES)
        keys = min(log_uniform(random, *KEYS), MOST_BYTES // value_bytes)
        points += [
            Conditions(
                command="get" if random.random() < 0.5 else "set",
                keys=keys,
                value_bytes=value_bytes,
                pipeline=log_uniform(random, *PIPELINES),
                clients=log_uniform(random, *CLIENTS),
                role="holdout",
            )
            for _ in range(POINTS // DATA_SETS)
        ]
    return points


def measure(asked: Asked) -> Files:
    """Calibrate and drive every engine on this host; compact bundles replace its earlier ones.

    The environment's `SEED` draws the points, `ENGINES` is a folder of unpacked engines.
    """
    seed = rounds.seed()
    with rounds.engines_at_hand() as (scratch, engines):
        chosen = [rounds.engine_of(engines, id_) for id_ in asked.only or GENERATIONS]
        for engine in chosen:
            host = capture_host(progress=asked.progress)
            _measure(engine, engines, host, seed, scratch, FOLDER / host.id, asked)
    return predict(asked)


def _measure(
    engine: Engine,
    engines: Sequence[Engine],
    host: HostProfile,
    seed: int,
    scratch: Path,
    out: Path,
    asked: Asked,
) -> None:
    """Write one engine's bundles into a folder of its own in `out`."""
    points = random_points(seed)
    for index, tool in enumerate(TOOLS):
        asked.progress(f"{engine.id}: {tool}")
        observe(
            engine=engine.server,
            design=points[index :: len(TOOLS)],
            out=scratch / engine.id / tool,
            host=host,
            timing=TIMING,
            tool=str(rounds.tool_of(engines, tool)),
            progress=asked.progress,
        )
    asked.progress(f"{engine.id}: calibration")
    observe(
        engine=engine.server,
        out=scratch / engine.id / CALIBRATION,
        host=host,
        timing=CALIBRATED,
        profiler="callgrind",
        progress=asked.progress,
    )
    for name in (*TOOLS, CALIBRATION):
        rounds.keep(scratch / engine.id / name, out / engine.id / name)
    rounds.keep_seed(out / engine.id, seed)


def predict(asked: Asked) -> Files:
    """Predict the committed measurements, and compare."""
    points: list[dict[str, Any]] = []
    hosts = []
    for on_host in sorted(path for path in FOLDER.iterdir() if path.is_dir()):
        folders = sorted(path for path in on_host.iterdir() if path.is_dir())
        for folder in folders:
            points += _of_engine(folder, Bundle.load(folder / CALIBRATION), asked)
        hosts.append(_host_of(on_host, Bundle.load(folders[0] / CALIBRATION)))
    return {ARTEFACT: json_text({"points_per_engine": POINTS, "hosts": hosts, "points": points})}


def rows_of(points: Sequence[Mapping[str, Any]], profile: str) -> list[Row]:
    """The points of the artefact with what was predicted of them with one profile."""
    return [{**point, "profile": profile, **point["profiles"][profile]} for point in points]


def _host_of(folder: Path, bundle: Bundle) -> dict[str, Any]:
    """What the page says of a host, of its folder and a bundle that was made there."""
    method = Bundle.load(next(folder.glob("*/redis-benchmark"))).manifest.method
    driven = [Bundle.load(path) for tool in TOOLS for path in folder.glob(f"*/{tool}")]
    windows = [window for each in driven for point in each.points for window in point.repetitions]
    return {
        "id": folder.name,
        "title": "" if bundle.host is None else bundle.host.title,
        "date": bundle.manifest.created[:10],
        "seeds": rounds.seeds_of(folder),
        "windows": method.repetitions,
        "window_s": method.window_s,
        "disturbed": sum(not window.quiet for window in windows) / len(windows),
    }


def _of_engine(folder: Path, bundle: Bundle, asked: Asked) -> list[dict[str, Any]]:
    """One engine's points: their windows, and what each profile predicts."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for label, tool, points, predictions in predictions_of(folder, bundle, asked):
        for index, (point, prediction) in enumerate(zip(points, predictions, strict=True)):
            if (tool, index) not in found:
                of = {"host": folder.parent.name, "engine": folder.name, "tool": tool}
                found[tool, index] = {**of, **_measured(point), "profiles": {}}
            cpu = prediction.interval(SERVER_CPU, level=LEVEL)
            found[tool, index]["profiles"][label] = {
                "predicted_us": cpu.value,
                "low_us": cpu.low,
                "high_us": cpu.high,
                "predicted_rps": prediction.nominal[0].result.throughput_rps,
            }
    return list(found.values())


def _measured(point: ObservedPoint) -> dict[str, Any]:
    """A point's windows that nothing disturbed, or all of them if there are fewer than two."""
    windows = point.quiet_repetitions()
    if len(windows) < 2:
        windows = point.repetitions
    return {
        "point": point.given.label(),
        "cpu_us": [round(each.server_cpu_ns_per_request / 1e3, 4) for each in windows],
        "throughput_rps": [round(each.throughput_rps, 1) for each in windows],
    }


def predictions_of(
    folder: Path, bundle: Bundle, asked: Asked
) -> Iterator[tuple[str, str, list[ObservedPoint], list[Prediction]]]:
    """One engine on one host, with the profile of its calibration there and the shipped one.

    With the shipped one also on the host as another engine has found it, the next in the folder.

    Yields
    ------
    tuple
        Which profile, which tool drove it, the points, and what is predicted of each.
    """
    asked.progress(f"{folder}: calibrating")
    observed, _ = calibrate(bundle, known=earlier_profile(bundle))
    host = rounds.host_of(folder, bundle)
    engine = bundle.manifest.engine
    shipped = load_engine(engine.name, engine.version)
    anchored = anchored_by(Bundle.load(_next_to(folder) / CALIBRATION))
    systems = ((host, observed), (anchored, shipped), (host, shipped))
    for label, (on_host, profile) in zip(PROFILES, systems, strict=True):
        asked.progress(f"{folder}: predicting, {label}")
        for tool in TOOLS:
            system = System(on_host, profile, load_generator(tool))
            points = list(Bundle.load(folder / tool).points)
            cases = [rounds.case_of(point.given, system, tool=tool) for point in points]
            found = predict_cases(cases, draws=DRAWS, replications=2, requests=REQUESTS)
            yield label, tool, points, found


def _next_to(folder: Path) -> Path:
    """The folder of another engine on the same host."""
    folders = sorted(path for path in folder.parent.iterdir() if path.is_dir())
    return folders[(folders.index(folder) + 1) % len(folders)]
