"""What the keys of an MGET take, on live engines with data sets that fit caches and that don't.

The server has one core, valkey-benchmark the other. How much of the wait for a key's memory is
over before the command comes to that key, is what `models/memory/waits.py` says and this checks.
Predictions need no measurements, so those of a host can be written and committed before anything is
driven there (`make evidence STUDY=mget-predicted` after `forecache profile` has written its file).
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.drive.connection import Address
from forecache.calibration.drive.engine_process import EngineProcess
from forecache.calibration.drive.loadspec import LoadSpec
from forecache.calibration.drive.preload import preload
from forecache.calibration.drive.proc import thread_usage
from forecache.calibration.drive.resp import RespClient
from forecache.hwprofiles import load_host
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.files import parse, write_text_atomic
from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import SERVER_CPU, predict_cases
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import rounds
from .rounds import DRAWS, REQUESTS

FOLDER = Path("evidence/mget")
"""A folder per host, with its profile and a file of windows per engine."""
HOST_FILE = "host.yaml"
ARTEFACT = Path("docs/accuracy/mget.json")
ENGINES = ("redis-7.0.15", "redis-8.0.6", "valkey-8.1.1")
TOOL = "valkey-benchmark"
CLIENTS, KEY_BYTES = 50, 16
KEYS, VALUE_BYTES, ASKED = (1_000, 1_000_000, 4_000_000), (16, 100), (1, 2, 5, 10, 30, 100)
"""Keys there are, sizes of their values, and keys of one MGET: all together."""
ROUNDS, WARM_UP_S, WINDOW_S = 2, 0.15, 0.4
"""Every round visits the MGETs of a data set in turn."""
_ENDLESS = 10**9


@dataclass(frozen=True)
class Point:
    """One load."""

    engine: str
    keys: int
    value_bytes: int
    asked: int


def points_of(engine: str) -> list[Point]:
    """All points of an engine."""
    return [Point(engine, k, v, a) for k in KEYS for v in VALUE_BYTES for a in ASKED]


def measure(asked: Asked) -> Files:
    """Drive the engines in `ENGINES` of the environment, or those asked for.

    A host that was captured before for this study keeps its profile.
    """
    with rounds.engines_at_hand() as (_, engines):
        chosen = [rounds.engine_of(engines, id_) for id_ in asked.of(ENGINES)]
        tool = rounds.tool_of(engines, TOOL)
        folder = _host_folder(asked)
        for engine in chosen:
            rows = []
            for keys in KEYS:
                for value_bytes in VALUE_BYTES:
                    asked.progress(f"{engine.id}: {keys:,} keys of {value_bytes} B")
                    data_set = [
                        p
                        for p in points_of(engine.id)
                        if (p.keys, p.value_bytes) == (keys, value_bytes)
                    ]
                    rows += _driven(engine.server, tool, data_set)
            write_text_atomic(folder / f"{engine.id}.json", json_text({"points": rows}))
    return predict(asked)


def _host_folder(asked: Asked) -> Path:
    """The folder of this host, with its profile."""
    host = capture_host(progress=asked.progress)
    folder = FOLDER / host.id
    if not (folder / HOST_FILE).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_text_atomic(folder / HOST_FILE, host.to_yaml())
    return folder


def _driven(server: Path, tool: Path, points: Sequence[Point]) -> list[dict[str, Any]]:
    """CPU time a request and requests a second of these points of one data set, by window."""
    first, *_, last = sorted(os.sched_getaffinity(0))
    of = points[0]
    spec = LoadSpec(
        keys=of.keys, key_bytes=KEY_BYTES, value_sizes=((of.value_bytes, 1.0),), clients=CLIENTS
    )
    windows: dict[Point, list[tuple[float, float]]] = {point: [] for point in points}
    with EngineProcess(server, cores=[first], config={"save": "", "appendonly": "no"}) as process:
        control = process.control()
        preload(spec, process.address("tcp"), control=control, cores=[last])
        for _ in range(ROUNDS):
            for point in points:
                with _running(tool, point, process.address("tcp"), last):
                    time.sleep(WARM_UP_S)
                    windows[point].append(_window(process.pid, control))
    return [
        {
            **asdict(point),
            "cpu_us": [round(cpu_us, 4) for cpu_us, _ in windows[point]],
            "throughput_rps": [round(rps, 1) for _, rps in windows[point]],
        }
        for point in points
    ]


@contextmanager
def _running(tool: Path, point: Point, address: Address, core: int) -> Iterator[None]:
    """valkey-benchmark at work on a core."""
    keys = ["key:__rand_int__"] * point.asked
    options = ["-h", "127.0.0.1", "-p", address.port, "-c", CLIENTS, "-n", _ENDLESS]
    running = subprocess.Popen(
        [str(word) for word in (tool, *options, "-r", point.keys, "mget", *keys)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    try:
        yield
    finally:
        running.kill()
        running.wait()


def _window(pid: int, control: RespClient) -> tuple[float, float]:
    """CPU time of the main thread in us a request, and requests a second, of one window."""

    def look() -> tuple[float, int, int]:
        info = dict(
            line.split(":", 1) for line in control.info("stats").splitlines() if ":" in line
        )
        return (
            time.monotonic(),
            int(info["total_commands_processed"]),
            thread_usage(pid, pid).cpu_ns,
        )

    before = look()
    time.sleep(WINDOW_S)
    seconds, requests, cpu_ns = (b - a for a, b in zip(before, look(), strict=True))
    return cpu_ns / requests / 1e3, requests / seconds


def predict(asked: Asked) -> Files:
    """Predict every point for the hosts that are there, beside what was measured so far."""
    rows: list[dict[str, Any]] = []
    for folder in sorted(FOLDER.iterdir()):
        host = load_host(str(folder / HOST_FILE))
        for id_ in ENGINES:
            asked.progress(f"{folder.name}, {id_}: predicting")
            file = folder / f"{id_}.json"
            measured = (
                json.loads(file.read_text(encoding="utf-8"))["points"] if file.is_file() else []
            )
            rows += [
                {"host": folder.name, **row}
                for row in _predicted(host, measured or [asdict(p) for p in points_of(id_)])
            ]
    return {ARTEFACT: json_text({"points": rows})}


def _predicted(host: HostProfile, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """These points of one engine with predictions."""
    engine = load_engine(*rows[0]["engine"].split("-"))
    system = System(host, engine, load_generator(TOOL))
    cases = [(_case(engine.engine, engine.version, row), system) for row in rows]
    predictions = predict_cases(cases, draws=DRAWS, replications=2, requests=REQUESTS)
    found = []
    for row, prediction in zip(rows, predictions, strict=True):
        cpu = prediction.interval(SERVER_CPU, level=rounds.LEVEL)
        rate = prediction.nominal[0].result.throughput_rps
        said = {"predicted_us": cpu.value, "low_us": cpu.low, "high_us": cpu.high}
        found.append({**row, **said, "predicted_rps": rate})
    return found


def _case(engine: str, version: str, row: dict[str, Any]) -> Case[Scenario]:
    """A point as a scenario."""
    data = {
        "host": None,
        "engine": engine,
        "engine_version": version,
        "workload": {
            "clients": CLIENTS,
            "keys": row["keys"],
            "key_bytes": KEY_BYTES,
            "value_bytes": row["value_bytes"],
            "mix": {"mget": {"share": 1.0, "keys": row["asked"]}},
        },
        "load_generator": {"tool": TOOL, "threads": 1, "same_host": True},
    }
    return Case(given={}, scenario=parse(Scenario, data, file=f"point {row}"))


def section() -> list[str]:
    """Its part of docs/generations.md."""
    rows = json.loads(ARTEFACT.read_text(encoding="utf-8"))["points"]
    rows = [row for row in rows if "cpu_us" in row]
    body = []
    for host, engine in sorted({(row["host"], row["engine"]) for row in rows}):
        of = [row for row in rows if (row["host"], row["engine"]) == (host, engine)]
        for keys in KEYS:
            chosen = [row for row in of if row["keys"] == keys]
            body.append(
                [f"`{host}`", engine, f"{keys:,}", *rounds.error_cells(chosen), *_further(chosen)]
            )
    header = ["host", "engine", ">keys", *rounds.ERRORS_HEADER]
    return [
        "## MGET",
        "",
        f"MGETs of {', '.join(map(str, ASKED))} keys, values of 16 and 100 B, {CLIENTS} clients,"
        f" {TOOL} on the other core, {ROUNDS} windows of {WINDOW_S:g} s. Nothing is fitted to them,"
        " and predictions were committed before the first window. *A further key* is what an MGET"
        " of 100 keys takes more than one of 10, for each key, both sizes of values together.",
        "",
        *table([*header, ">a further key, ns", ">predicted"], body),
    ]


def _further(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What a further key takes, measured and predicted, in ns."""

    def slope(cpu_us: dict[tuple[int, int], float]) -> float:
        few, many = ASKED[-3], ASKED[-1]
        steps = [cpu_us[size, many] - cpu_us[size, few] for size in VALUE_BYTES]
        return float(np.mean(steps)) / (many - few) * 1e3

    key = [(row["value_bytes"], row["asked"]) for row in rows]
    measured = dict(zip(key, (float(np.median(row["cpu_us"])) for row in rows), strict=True))
    predicted = dict(zip(key, (row["predicted_us"] for row in rows), strict=True))
    return [f"{slope(measured):.0f}", f"{slope(predicted):.0f}"]
