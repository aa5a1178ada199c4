"""The 99th percentile of latency on this host, measured and predicted, and whose it is.

`measure` profiles the host, calibrates engines there, and drives them with forecache's own load
generator at random points: saturated closed loops, and open loops below 80% of what the same
clients reach in a closed one. Neighbours change by the minute, so it looks at the host's
interruptions and wake-ups before every window. Each figure is over all requests of all windows; of
open loops there is a second, over those in slices of 20 ms in which no request took a millisecond.
Of a prediction the part of the engine and the load is what is left on a host that never interrupts
and wakes threads always in the median time; wake-ups, short interruptions and pauses then add the
host's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions, Repetition
from forecache.calibration.fit.calibrate import calibrate
from forecache.calibration.fit.fit import fit_bundle
from forecache.calibration.fit.prior import earlier_profile
from forecache.calibration.observe.design import Timing
from forecache.calibration.observe.observe import observe
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.files import write_text_atomic
from forecache.models.prediction.pauses import latency_with_pauses_ms
from forecache.models.prediction.predict import Prediction, predict_cases
from forecache.models.prediction.simulation import run
from forecache.models.prediction.system import System
from forecache.sim.histogram import LatencyHistogram

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import rounds
from .host_watch import HostWatch
from .rounds import log_uniform

FOLDER = Path("evidence/tails")
"""A folder per host and in it one per engine, with its calibration and its points, compact."""
ARTEFACT = Path("docs/accuracy/tails.json")
GENERATIONS = ("redis-7.0.15", "valkey-8.1.1")
CALIBRATION, POINTS = "calibration", "points"
DATA_SETS, OPEN_EACH, CLOSED_EACH = 3, 2, 1
KEYS, VALUE_BYTES = (100, 300_000), (8, 1024)
PIPELINES, CLIENTS = (1, 32), (20, 250)
LOADS = (0.2, 0.8)
"""Ranges that points are drawn from."""
TIMING = Timing(warm_up_s=0.15, window_s=0.5, repetitions=8, loaded_window_s=2.0)
"""Many windows, spread over minutes: pauses come in bursts, of which one window has few."""
REQUESTS = 100_000
P99 = 0.99
MOST_OTHER = 0.02
"""Of all cores' time, what other programs on this machine may take in a window."""
CONSTANT_WAKE_UPS = ((0.5, 1.0),)


def random_points(seed: int) -> list[Conditions]:
    """Open and closed loops on each data set; GET or SET, the rest uniform in the logarithm."""
    random = np.random.default_rng(seed)
    points: list[Conditions] = []
    for _ in range(DATA_SETS):
        keys, value_bytes = log_uniform(random, *KEYS), log_uniform(random, *VALUE_BYTES)
        for index in range(OPEN_EACH + CLOSED_EACH):
            common: dict[str, Any] = {
                "command": "get" if random.random() < 0.5 else "set",
                "keys": keys,
                "value_bytes": value_bytes,
                "clients": log_uniform(random, *CLIENTS),
                "role": "holdout",
            }
            if index < OPEN_EACH:
                share = round(random.uniform(*LOADS), 2)
                opened = Conditions(arrival="open_loop", rate_share=share, **common)
                # The closed loop says how fast the open one may be.
                points += [opened.closed_twin, opened]
            else:
                points.append(Conditions(pipeline=log_uniform(random, *PIPELINES), **common))
    return points


def measure(asked: Asked) -> Files:
    """Profile, calibrate and drive; `SEED` and `ENGINES` are as in the study generations."""
    seed = rounds.seed()
    with rounds.engines_at_hand() as (scratch, engines):
        chosen = [rounds.engine_of(engines, id_) for id_ in asked.only or GENERATIONS]
        host = capture_host(progress=asked.progress)
        for engine in chosen:
            folder = FOLDER / host.id / engine.id
            drive = partial(observe, engine=engine.server, host=host, progress=asked.progress)
            asked.progress(f"{engine.id}: {POINTS}")
            watch = HostWatch()
            drive(
                out=scratch / engine.id / POINTS,
                design=random_points(seed),
                timing=TIMING,
                between=watch.look,
            )
            asked.progress(f"{engine.id}: {CALIBRATION}")
            drive(out=scratch / engine.id / CALIBRATION)
            for name in (POINTS, CALIBRATION):
                kept = folder / name
                rounds.keep(scratch / engine.id / name, kept, histograms=name == POINTS)
            seen = watch.seen(host).model_copy(update={"raw": None})
            write_text_atomic(folder / POINTS / "host.yaml", seen.to_yaml())
            rounds.keep_seed(folder, seed)
    return predict(asked)


@dataclass(frozen=True)
class Compared:
    """A point: p99 in ms, of each window over all requests and without stalled slices.

    `pooled_ms` is over the requests of all windows, `halves_ms` over those of every other window
    and over those of the rest.

    The predicted ones are of a host without interruptions whose wake-ups all take the median time,
    with wake-ups as they are, with interruptions of less than a millisecond, and with all; and the
    ends of its 95% interval.
    """

    host: str
    engine: str
    point: str
    arrival: str
    throughput_rps: tuple[float, ...]
    all_ms: tuple[float, ...]
    pooled_ms: float
    halves_ms: tuple[float, float]
    quiet_ms: tuple[float, ...]
    predicted_rps: float
    engine_ms: float
    wake_ups_ms: float
    interrupted_ms: float
    predicted_ms: float
    low_ms: float
    high_ms: float


def predict(asked: Asked) -> Files:
    """Predict the committed measurements with the profiles of their calibrations, and compare."""
    rows = [row for path in sorted(FOLDER.glob("*/*")) for row in _of_engine(path, asked)]
    return {ARTEFACT: json_text({"points": [asdict(row) for row in rows]})}


def _of_engine(path: Path, asked: Asked) -> Iterator[Compared]:
    asked.progress(f"{path}: predicting")
    calibration, bundle = Bundle.load(path / CALIBRATION), Bundle.load(path / POINTS)
    known = earlier_profile(calibration)
    profile, _ = calibrate(calibration, known=known)
    # Where few clients saturate it, the load generator decides the latency as well.
    generator = fit_bundle(calibration, known=known).generator
    system = System(rounds.host_of(path, bundle), profile, generator)
    points = list(bundle.points)
    cases = [rounds.case_of(point.given, system) for point in points]
    predictions = predict_cases(cases, replications=2, requests=REQUESTS)
    for point, prediction in zip(points, predictions, strict=True):
        windows = undisturbed(point.repetitions)
        if not windows:
            continue
        interrupted_ms = prediction.mean("p99_ms")
        interval = prediction.interval("p99_ms")
        yield Compared(
            host=path.parent.name,
            engine=path.name,
            point=point.given.label(),
            arrival=point.given.arrival,
            throughput_rps=tuple(window.throughput_rps for window in windows),
            all_ms=tuple(window.p99_ms for window in windows if window.p99_ms is not None),
            pooled_ms=pooled_p99_ms(windows),
            halves_ms=(pooled_p99_ms(windows[::2]), pooled_p99_ms(windows[1::2] or windows)),
            quiet_ms=tuple(w.quiet_p99_ms for w in windows if w.quiet_p99_ms is not None),
            predicted_rps=prediction.mean("throughput_rps"),
            engine_ms=_p99_ms(prediction, interruptions=(), wake_spread=CONSTANT_WAKE_UPS),
            wake_ups_ms=_p99_ms(prediction, interruptions=()),
            interrupted_ms=interrupted_ms,
            predicted_ms=latency_with_pauses_ms(prediction, P99) or interrupted_ms,
            low_ms=interval.low,
            high_ms=interval.high,
        )


def undisturbed(windows: Sequence[Repetition]) -> list[Repetition]:
    """Those in which other programs of this machine ran next to nothing; the hypervisor may have
    taken cores away for as long as it liked."""
    return [w for w in windows if (w.host_other_fraction or 0.0) <= MOST_OTHER]


def pooled_p99_ms(windows: Sequence[Repetition]) -> float:
    """Over the requests of all windows; the median of theirs where histograms weren't kept."""
    latency = LatencyHistogram()
    for window in windows:
        if window.histogram is None:
            return float(np.median([w.p99_ms for w in windows if w.p99_ms is not None]))
        latency = latency.merge(LatencyHistogram.from_dict(window.histogram))
    return latency.quantile(P99) / 1e9


def _p99_ms(prediction: Prediction, **changes: Any) -> float:
    """That of the same load on a host that is changed in this."""
    inputs = prediction.system.inputs(prediction.case.scenario)
    speed = replace(inputs.speed, **changes)
    changed = replace(inputs, speed=speed, generator_speed=speed)
    return run(changed, requests=REQUESTS, seed=1).latency.quantile(P99) / 1e9


def section() -> list[str]:
    """Its part of docs/generations.md."""
    rows = json.loads(ARTEFACT.read_text(encoding="utf-8"))["points"]
    body = []
    for host, engine in sorted({(row["host"], row["engine"]) for row in rows}):
        for arrival in ("closed_loop", "open_loop"):
            of = [
                r for r in rows if (r["host"], r["engine"], r["arrival"]) == (host, engine, arrival)
            ]
            if of:
                body.append([f"`{host}`", engine, arrival.replace("_", " "), len(of), *_cells(of)])
    header = [
        *("host", "engine", "load", ">points", ">p99 of all: median error", ">bias"),
        *(">p99 without stalls: median error", ">bias", ">repeat"),
        *(">engine and load", ">wake-ups", ">interruptions", ">pauses"),
    ]
    return [
        "## The 99th percentile, and whose it is",
        "",
        "Saturated closed loops and open loops at 20 to 80% of what the same clients reach in a"
        " closed one, at random points, driven by forecache's own load generator on the other core."
        " Engine and load generator are as the round's own calibration found them."
        " The host's interruptions and wake-ups were measured before every window (Valkey 8.1.1"
        " on the Zen 3 host: minutes before). Windows in which other programs ran are left out."
        " “All” is over all"
        " requests of all windows; “without stalls” leaves out slices of 20 ms in which a request"
        " took a millisecond, and its prediction leaves out pauses of a millisecond and more. The"
        " last columns are the median shares of the predicted p99: what is left on a host that"
        " never interrupts and always wakes threads in the median time, and what the host's"
        " wake-ups, interruptions below a millisecond and pauses add.",
        "",
        *table(header, body),
    ]


def _of_all(row: dict[str, Any]) -> list[float]:
    """Over the requests of all windows, or those of each where they weren't put together."""
    return [row["pooled_ms"]] if "pooled_ms" in row else list(row["all_ms"])


def _cells(rows: list[dict[str, Any]]) -> list[str]:
    overall = [rounds.error(_of_all(row), row["predicted_ms"]) for row in rows]
    quiet = [rounds.error(r["quiet_ms"], r["interrupted_ms"]) for r in rows if r["quiet_ms"]]
    stages = ("engine_ms", "wake_ups_ms", "interrupted_ms", "predicted_ms")
    steps = np.array([[row[name] for name in stages] for row in rows])
    parts = np.diff(steps, axis=1, prepend=0.0) / steps[:, -1:]
    return [
        f"{np.median(np.abs(overall)):.0%}",
        f"{np.median(overall):+.0%}",
        *([f"{np.median(np.abs(quiet)):.0%}", f"{np.median(quiet):+.0%}"] if quiet else ["–"] * 2),
        f"{np.median([rounds.repeat(row.get('halves_ms', row['all_ms'])) for row in rows]):.0%}",
        *(f"{share:.0%}" for share in np.median(parts, axis=0)),
    ]
