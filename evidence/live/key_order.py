"""CPU time of GETs and SETs whose keys come in the order in which they were written, or in none.

Published runs often visit keys in order. What was written together then lies together: a line, or a
page, was just used for the key before. The server has one core, valkey-benchmark the other; it
writes all keys in order, then asks for them in that order and at random.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.drive.servers import EngineProcess
from forecache.hwprofiles import load_host
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.files import write_text_atomic
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import SERVER_CPU, predict_cases
from forecache.models.prediction.system import System

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import rounds
from .cpu_windows import TOOL, WINDOW_S, Tool, Window, case_of_load

FOLDER = Path("evidence/key_order")
"""A folder per host, with its profile and a file of windows per engine."""
HOST_FILE = "host.yaml"
ARTEFACT = Path("docs/accuracy/key-order.json")
ENGINES = ("redis-7.0.15", "valkey-8.1.1")
TOOL_OF = "valkey-9.1.2"
"""The first engine whose benchmark tool can ask for keys in order."""
KEYS, KEY_BYTES, CLIENTS, PIPELINE = 2_000_000, 16, 50, 32
VALUE_BYTES = (16, 600)
ROUNDS = 4
ORDERS = {"random": (), "one_sequence": ("--sequential",)}
"""By `key_pattern` of a scenario, what the driver is told."""


@dataclass(frozen=True)
class Point:
    """One load."""

    engine: str
    value_bytes: int
    command: str
    key_pattern: str


def measure(asked: Asked) -> Files:
    """Drive the engines in `ENGINES` of the environment, or those asked for."""
    with rounds.engines_at_hand() as (_, engines):
        chosen = [rounds.engine_of(engines, id_) for id_ in asked.of(ENGINES)]
        tool = rounds.engine_of(engines, TOOL_OF).folder / TOOL
        host = capture_host(progress=asked.progress)
        folder = FOLDER / host.id
        folder.mkdir(parents=True, exist_ok=True)
        write_text_atomic(folder / HOST_FILE, host.to_yaml())
        for engine in chosen:
            rows = []
            for value_bytes in VALUE_BYTES:
                asked.progress(f"{engine.id}: values of {value_bytes} B")
                rows += _driven(engine.id, engine.server, tool, value_bytes)
            write_text_atomic(folder / f"{engine.id}.json", json_text({"points": rows}))
    return predict(asked)


def _driven(engine: str, server: Path, tool: Path, value_bytes: int) -> list[dict[str, Any]]:
    """CPU time a request, by window: GETs of both orders in turn, then SETs in order, at random."""
    first, *_, last = sorted(os.sched_getaffinity(0))
    windows: dict[Point, list[Window]] = {}
    with EngineProcess(server, cores=[first], config={"save": "", "appendonly": "no"}) as process:
        driver = Tool(tool, last, process)
        words = {"get": ["get", "key:__rand_int__"]}
        words["set"] = ["set", "key:__rand_int__", "x" * value_bytes]
        options = ("-c", CLIENTS, "-P", PIPELINE, "-r", KEYS)
        driver.run(words["set"], *options, *ORDERS["one_sequence"], requests=KEYS)
        turns = [*[("get", order) for order in ORDERS] * ROUNDS]
        # SETs come last: those at random scatter what was written in order.
        turns += [("set", "one_sequence")] * ROUNDS + [("set", "random")] * ROUNDS
        for command, order in turns:
            seen = driver.window(words[command], *options, *ORDERS[order])
            windows.setdefault(Point(engine, value_bytes, command, order), []).append(seen)
    return [
        {
            **asdict(point),
            "cpu_us": [round(window.cpu_us, 4) for window in seen],
            "throughput_rps": [round(window.rps, 1) for window in seen],
            "others": [round(window.others, 3) for window in seen],
        }
        for point, seen in windows.items()
    ]


def predict(asked: Asked) -> Files:
    """Predict what was measured."""
    rows: list[dict[str, Any]] = []
    for file in sorted(FOLDER.glob("*/*.json")):
        asked.progress(f"{file}: predicting")
        host = load_host(str(file.parent / HOST_FILE))
        measured = json.loads(file.read_text(encoding="utf-8"))["points"]
        engine = load_engine(*file.stem.split("-"))
        system = System(host, engine, load_generator(TOOL))
        cases = [(case_of_load(engine, _workload(row)), system) for row in measured]
        predictions = predict_cases(cases, draws=0, replications=1, requests=rounds.REQUESTS)
        rows += [
            {"host": file.parent.name, **row, "predicted_us": prediction.mean(SERVER_CPU)}
            for row, prediction in zip(measured, predictions, strict=True)
        ]
    return {ARTEFACT: json_text({"points": rows})}


def _workload(row: dict[str, Any]) -> dict[str, Any]:
    """Of a point."""
    own = {name: row[name] for name in ("command", "value_bytes", "key_pattern")}
    return {"clients": CLIENTS, "keys": KEYS, "pipeline": PIPELINE, "key_bytes": KEY_BYTES, **own}


def section() -> list[str]:
    """Its part of docs/generations.md."""
    rows = json.loads(ARTEFACT.read_text(encoding="utf-8"))["points"]
    known = {
        tuple(row[k] for k in ("host", "engine", "command", "value_bytes", "key_pattern")): row
        for row in rows
    }
    body = []
    for host, engine, command, value_bytes, _ in (key for key in known if key[-1] == "random"):
        of = [known[host, engine, command, value_bytes, order] for order in ORDERS]
        measured = [float(np.median(row["cpu_us"])) for row in of]
        predicted = [row["predicted_us"] for row in of]
        cells = [f"{us:.2f}" for us in (*measured, *predicted)]
        ratios = [_cheaper(measured), _cheaper(predicted)]
        body.append([f"`{host}`", engine, command.upper(), value_bytes, *cells, *ratios])
    header = ["host", "engine", "command", ">value bytes", ">random, us", ">in order"]
    header += [">random, predicted", ">in order, predicted", ">in order cheaper by", ">predicted"]
    return [
        "## Keys in order",
        "",
        f"CPU time of GETs and SETs of {KEYS:,} keys written in order by {TOOL} of {TOOL_OF}, which"
        f" then visits them at random or in that order (`--sequential`): {CLIENTS} clients,"
        f" pipelines of {PIPELINE}, {ROUNDS} windows of {WINDOW_S:g} s, engines as shipped."
        " That lines come in a stream was chosen with these in view; no number is fitted to them.",
        "",
        *table(header, body),
    ]


def _cheaper(random_and_ordered: Sequence[float]) -> str:
    random, ordered = random_and_ordered
    return f"{1.0 - ordered / random:.0%}"
