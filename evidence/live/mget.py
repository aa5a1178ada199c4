"""What the keys of an MGET take, on live engines with data sets that fit caches and that don't.

The server has one core, valkey-benchmark the other. How much of the wait for a key's memory is
over before the command comes to that key, is what `models/memory/waits.py` says and this checks.
Predictions need no measurements, so those of a host can be written and committed before anything is
driven there (`make evidence STUDY=mget-host`, then `measure`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.loadgen import preload
from forecache.calibration.drive.servers import EngineProcess
from forecache.hwprofiles import load_host
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.capture.host import captured_id
from forecache.hwprofiles.capture.machine import inspect_machine
from forecache.hwprofiles.files import write_text_atomic
from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import SERVER_CPU, predict_cases
from forecache.models.prediction.system import System

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import rounds
from .cpu_windows import TOOL, WINDOW_S, Tool, Window, case_of_load
from .rounds import DRAWS, REQUESTS

FOLDER = Path("evidence/mget")
"""A folder per host, with its profile and a file of windows per engine."""
HOST_FILE = "host.yaml"
ARTEFACT = Path("docs/accuracy/mget.json")
ENGINES = ("redis-7.0.15", "redis-8.0.6", "valkey-8.1.1")
CLIENTS, KEY_BYTES = 50, 16
KEYS, VALUE_BYTES, ASKED = (1_000, 1_000_000, 4_000_000), (16, 100), (1, 2, 5, 10, 30, 100)
"""Keys there are, sizes of their values, and keys of one MGET: all together."""
LONE_PIPELINE = 32
"""Of MGETs of one key, whose wait is then a large part of what they take, and no other key of
theirs is under way meanwhile.
"""
ROUNDS = 2
"""Every round visits the MGETs of a data set in turn."""


@dataclass(frozen=True)
class Point:
    """One load."""

    engine: str
    keys: int
    value_bytes: int
    asked: int
    pipeline: int = 1


def points_of(engine: str) -> list[Point]:
    """All points of an engine."""
    loads = [*((asked, 1) for asked in ASKED), (1, LONE_PIPELINE)]
    return [Point(engine, k, v, *load) for k in KEYS for v in VALUE_BYTES for load in loads]


def measure(asked: Asked) -> Files:
    """Drive the engines in `ENGINES` of the environment, or those asked for.

    A host that was captured before for this study keeps its profile, so that what was predicted
    for it before it was measured stays as it was.
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


def prepare(asked: Asked) -> Files:
    """Capture this host, and predict what was not measured yet."""
    _host_folder(asked)
    return predict(asked)


def _host_folder(asked: Asked) -> Path:
    """The folder of this host, with its profile, which is captured once."""
    folder = FOLDER / captured_id(inspect_machine())
    if not (folder / HOST_FILE).is_file():
        host = capture_host(progress=asked.progress)
        folder.mkdir(parents=True, exist_ok=True)
        write_text_atomic(folder / HOST_FILE, host.to_yaml())
    return folder


def _driven(server: Path, tool: Path, points: Sequence[Point]) -> list[dict[str, Any]]:
    """CPU time a request and requests a second of these points of one data set, by window."""
    first, *_, last = sorted(os.sched_getaffinity(0))
    of = points[0]
    held = Conditions(
        command="get",
        keys=of.keys,
        key_bytes=KEY_BYTES,
        value_bytes=of.value_bytes,
        clients=CLIENTS,
    )
    windows: dict[Point, list[Window]] = {point: [] for point in points}
    with EngineProcess(server, cores=[first], config={"save": "", "appendonly": "no"}) as process:
        preload(held, process.address("tcp"), control=process.control(), cores=[last])
        driver = Tool(tool, last, process)
        for _ in range(ROUNDS):
            for point in points:
                words = ["mget", *["key:__rand_int__"] * point.asked]
                options = ("-c", CLIENTS, "-P", point.pipeline, "-r", point.keys)
                windows[point].append(driver.window(words, *options))
    return [
        {
            **asdict(point),
            "cpu_us": [round(window.cpu_us, 4) for window in windows[point]],
            "throughput_rps": [round(window.rps, 1) for window in windows[point]],
            "others": [round(window.others, 3) for window in windows[point]],
        }
        for point in points
    ]


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
    cases = [(case_of_load(engine, _workload(row)), system) for row in rows]
    predictions = predict_cases(cases, draws=DRAWS, replications=2, requests=REQUESTS)
    found = []
    for row, prediction in zip(rows, predictions, strict=True):
        cpu = prediction.interval(SERVER_CPU, level=rounds.LEVEL)
        rate = prediction.nominal[0].result.throughput_rps
        said = {"predicted_us": cpu.value, "low_us": cpu.low, "high_us": cpu.high}
        found.append({**row, **said, "predicted_rps": rate})
    return found


def _workload(row: dict[str, Any]) -> dict[str, Any]:
    """Of a point."""
    return {
        "clients": CLIENTS,
        "keys": row["keys"],
        "pipeline": row.get("pipeline", 1),
        "key_bytes": KEY_BYTES,
        "value_bytes": row["value_bytes"],
        "mix": {"mget": {"share": 1.0, "keys": row["asked"]}},
    }


def section() -> list[str]:
    """Its part of docs/generations.md."""
    rows = json.loads(ARTEFACT.read_text(encoding="utf-8"))["points"]
    rows = [row for row in rows if "cpu_us" in row]
    errors, waits = [], []
    for host, engine in sorted({(row["host"], row["engine"]) for row in rows}):
        of = [row for row in rows if (row["host"], row["engine"]) == (host, engine)]
        for keys in KEYS:
            chosen = [row for row in of if row["keys"] == keys]
            errors.append([f"`{host}`", engine, f"{keys:,}", *rounds.error_cells(chosen)])
        measured = of_key({load_of(row): float(np.median(row["cpu_us"])) for row in of})
        predicted = of_key({load_of(row): row["predicted_us"] for row in of})
        for keys in KEYS[1:]:
            cells = [f"{part[at]:.2f}" for at in keys_of(keys) for part in (measured, predicted)]
            waits.append([f"`{host}`", engine, f"{keys:,}", *cells])
    whose = ("one key", "a further key")
    return [
        "## MGET",
        "",
        f"MGETs of {', '.join(map(str, ASKED))} keys, and of one key {LONE_PIPELINE} in a pipeline;"
        f" values of {' and '.join(map(str, VALUE_BYTES))} B, {CLIENTS} clients, {TOOL} on the"
        f" other core, {ROUNDS} windows of {WINDOW_S:g} s. Nothing is fitted to them, and"
        " the first predictions were committed before anything was measured. What they led to"
        " is in the model since ([models.md](models.md#what-was-decided-with-the-results-in-view)):"
        " these are no blind results.",
        "",
        *table(["host", "engine", ">keys", *rounds.ERRORS_HEADER], errors),
        "",
        f"What a key takes more than with {KEYS[0]:,} keys, which lie in the caches: its wait for"
        f" memory, in us, both sizes of values together. *One key* is that of the pipelines; *a"
        f" further key* of an MGET is a share of what one of {ASKED[-1]} takes more than one of"
        f" {ASKED[-3]}.",
        "",
        *table(
            ["host", "engine", ">keys", *(f">{w}{p}" for w in whose for p in ("", ": predicted"))],
            waits,
        ),
    ]


Load = tuple[int, int, int, int]
"""Keys there are, bytes of a value, keys of one MGET, pipeline."""


def load_of(row: dict[str, Any]) -> Load:
    """The load of a row of the artefact."""
    return row["keys"], row["value_bytes"], row["asked"], row["pipeline"]


def keys_of(keys: int) -> tuple[tuple[int, str], ...]:
    """What `of_key` says of this many keys, in the order of the table."""
    return (keys, "one"), (keys, "further")


def of_key(cpu_us: dict[Load, float]) -> dict[tuple[int, str], float]:
    """How long a key waits for memory in us, by keys there are, as `one` or as a `further` one."""
    few, many = ASKED[-3], ASKED[-1]

    def taken_us(keys: int, kind: str) -> float:
        each = []
        for size in VALUE_BYTES:
            more = cpu_us[keys, size, many, 1] - cpu_us[keys, size, few, 1]
            further = more / (many - few)
            each.append(cpu_us[keys, size, 1, LONE_PIPELINE] if kind == "one" else further)
        return float(np.mean(each))

    kinds = ("one", "further")
    return {
        (keys, kind): taken_us(keys, kind) - taken_us(KEYS[0], kind)
        for keys in KEYS[1:]
        for kind in kinds
    }
