"""The commands of redis-benchmark's default list, as ratios to GET, on engines of this host.

Each is sent as the tool sends it with random keys, in pipelines of 16. What takes away is sent in
turn with what it takes, or it would find nothing after a moment; MSET has ten keys.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.servers import EngineProcess
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.catalogue import load_host
from forecache.hwprofiles.files import write_text_atomic
from forecache.models.advice.paired import paired_quantity
from forecache.models.engines.commands import counted_on
from forecache.models.engines.generator import load_generator
from forecache.models.prediction.predict import SERVER_CPU, predict_cases
from forecache.models.prediction.system import System

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import rounds
from .cpu_windows import TOOL, Tool, Window, case_of_load, profile_of_most, settled, unmoved
from .engines import Engine
from .mixes import ENGINES, MEASURED_FILE

FOLDER = Path("evidence/default_list")
"""A folder per host: its profile, and what was measured."""
ARTEFACT = Path("docs/accuracy/default-list.json")
CLIENTS, PIPELINE, KEYS, WINDOWS = 50, 16, 1000, 3
_DATA = "x" * 3
_RANDOM = "__rand_int__"
_KEY, _ELEMENT = f"key:{_RANDOM}", f"element:{_RANDOM}"
_FILLED = 10_000
"""Elements of the list before anything is sent, and entries that the stream is said to have: it has
none at first and is as long soon."""

_LISTS = {"lists": {"keys": 1, "elements": _FILLED, "element_bytes": len(_DATA)}}
_SETS = {"sets": {"keys": 1, "members": KEYS, "member_bytes": 20}}
_HASHES = {"hashes": {"keys": 1, "fields": KEYS, "field_bytes": 20, "value_bytes": len(_DATA)}}
_SORTED_SETS = {"sorted_sets": {"keys": 1, "members": KEYS, "member_bytes": 20}}
_STREAMS = {"streams": {"keys": 1, "entries": _FILLED, "field_bytes": 7, "value_bytes": len(_DATA)}}

Row = dict[str, Any]


@dataclass(frozen=True)
class Test:
    """One line of the list.

    Attributes
    ----------
    words
        As it is sent; commands that alternate have a semicolon between them.
    mix
        The same, as a scenario says it.
    data
        What a scenario says of the keys.
    """

    words: Sequence[str]
    mix: Mapping[str, Any]
    data: Mapping[str, Any] = field(default_factory=dict)


def _lrange(elements: int) -> Test:
    asked = {"lrange": {"share": 1.0, "elements": elements}}
    return Test(("lrange", "mylist", "0", str(elements - 1)), asked, _LISTS)


def _alternating(first: Sequence[str], second: Sequence[str], data: Mapping[str, Any]) -> Test:
    return Test((*first, ";", *second), {first[0]: 0.5, second[0]: 0.5}, data)


TESTS: Mapping[str, Test] = {
    "GET": Test(("get", _KEY), {"get": 1.0}),
    "PING": Test(("ping",), {"ping": 1.0}),
    "SET": Test(("set", _KEY, _DATA), {"set": 1.0}),
    "INCR": Test(("incr", f"cnt:{_RANDOM}"), {"incr": 1.0}),
    "LPUSH": Test(("lpush", "mylist", _DATA), {"lpush": 1.0}, _LISTS),
    "RPUSH": Test(("rpush", "mylist", _DATA), {"rpush": 1.0}, _LISTS),
    "LPUSH and LPOP": _alternating(("lpush", "mylist", _DATA), ("lpop", "mylist"), _LISTS),
    "RPUSH and RPOP": _alternating(("rpush", "mylist", _DATA), ("rpop", "mylist"), _LISTS),
    "SADD and SPOP": _alternating(("sadd", "myset", _ELEMENT), ("spop", "myset"), _SETS),
    "HSET": Test(("hset", "myhash", _ELEMENT, _DATA), {"hset": 1.0}, _HASHES),
    "ZADD and ZPOPMIN": _alternating(
        ("zadd", "myzset", _RANDOM, _ELEMENT), ("zpopmin", "myzset"), _SORTED_SETS
    ),
    **{f"LRANGE_{elements}": _lrange(elements) for elements in (100, 300, 500, 600)},
    "MSET": Test(("mset", *(_KEY, _DATA) * 10), {"mset": {"share": 1.0, "keys": 10}}),
    "XADD": Test(("xadd", "mystream", "*", "myfield", _DATA), {"xadd": 1.0}, _STREAMS),
}
_OF_MANY = ("SADD and SPOP", "ZADD and ZPOPMIN")
"""Whose members are drawn of so many that hardly any is there already."""


def measure(asked: Asked) -> Files:
    """Measure on this host; `ENGINES` is as in the study generations."""
    with rounds.engines_at_hand() as (_, engines):
        program = rounds.engine_of(engines, "valkey-9.1.2").folder / TOOL
        host = capture_host(progress=asked.progress)
        rows: list[Row] = []
        for id_ in asked.only or ENGINES:
            asked.progress(id_)
            rows += _of_engine(rounds.engine_of(engines, id_), program, host.core_to_core_ns.best)
        host = profile_of_most(host, rows, asked.progress)
        folder = FOLDER / host.id
        rounds.keep_host(folder, host)
        write_text_atomic(folder / MEASURED_FILE, json_text(rows))
    return predict(asked)


def fill(control: RespClient) -> None:
    """Put there what the list works on."""
    control.command("FLUSHALL")
    numbers = [f"{n:012d}" for n in range(KEYS)]
    for n in numbers:
        control.command("SET", f"key:{n}", _DATA)
        control.command("SET", f"cnt:{n}", "100")
        control.command("SADD", "myset", f"element:{n}")
        control.command("HSET", "myhash", f"element:{n}", _DATA)
        control.command("ZADD", "myzset", n, f"element:{n}")
    for _ in range(_FILLED // 100):
        control.command("RPUSH", "mylist", *[_DATA] * 100)


def _of_engine(engine: Engine, program: Path, apart_ns: float) -> Iterator[Row]:
    core, driver = sorted(os.sched_getaffinity(0))[:2]
    known = counted_on(rounds.shipped(engine.id).commands)
    with ExitStack() as stack:
        process = stack.enter_context(EngineProcess(engine.server, cores=[core]))
        control = stack.enter_context(process.control())
        tool = Tool(program, driver, process)
        for name, test in TESTS.items():
            if name == "GET" or not set(test.mix) <= set(known):
                continue
            fill(control)
            range_ = 10**9 if name in _OF_MANY else KEYS
            seen, distances = settled(
                (core, driver), apart_ns, partial(_windows, tool, test, range_)
            )
            yield {
                "engine": engine.id,
                "test": name,
                "apart_ns": distances,
                "get_us": [round(window.cpu_us, 4) for window in seen[0]],
                "cpu_us": [round(window.cpu_us, 4) for window in seen[1]],
            }


def _windows(tool: Tool, test: Test, range_: int) -> tuple[list[Window], list[Window]]:
    """Windows of GET and of a line of the list, in turn."""
    seen: tuple[list[Window], list[Window]] = ([], [])
    loads = (TESTS["GET"].words, KEYS), (test.words, range_)
    for _ in range(WINDOWS):
        for each, (words, keys) in zip(seen, loads, strict=True):
            each.append(tool.window(words, "-c", CLIENTS, "-P", PIPELINE, "-r", keys))
    return seen


def workload_of(test: Test) -> Row:
    """A line of the list as a scenario says it."""
    commands = 1 + test.words.count(";")
    found: Row = {"clients": CLIENTS, "pipeline": PIPELINE * commands, "mix": dict(test.mix)}
    return found | {"keys": KEYS, "key_bytes": 16, "value_bytes": len(_DATA), **test.data}


def predict(asked: Asked) -> Files:
    """What was measured, beside what is predicted of the shipped engines."""
    generator, hosts = load_generator(TOOL), []
    for folder in sorted(path.parent for path in FOLDER.glob(f"*/{MEASURED_FILE}")):
        host = load_host(str(folder / rounds.HOST_FILE))
        rows = json.loads((folder / MEASURED_FILE).read_text(encoding="utf-8"))
        measured = len(rows)
        rows = [row for row in rows if unmoved(row["apart_ns"], host)]
        asked.progress(f"{folder}: predicting")
        points = []
        for id_ in dict.fromkeys(row["engine"] for row in rows):
            engine, own = rounds.shipped(id_), [row for row in rows if row["engine"] == id_]
            system, tests = System(host, engine, generator), ["GET", *(r["test"] for r in own)]
            cases = [(case_of_load(engine, workload_of(TESTS[name])), system) for name in tests]
            get, *said = predict_cases(cases, draws=rounds.DRAWS)
            for row, prediction in zip(own, said, strict=True):
                ratio = paired_quantity(get, prediction, SERVER_CPU).ratio
                assert ratio is not None
                ratios = np.divide(row["cpu_us"], row["get_us"])
                row |= {"ratio": float(np.median(ratios)), "repeat": float(np.ptp(ratios))}
                row |= {"predicted": ratio.value, "low": ratio.low, "high": ratio.high}
                points.append(row)
        date = "" if host.captured is None else str(host.captured.date)[:10]
        about = {"id": folder.name, "title": host.title, "date": date}
        hosts.append({**about, "moved": measured - len(points), "points": points})
    return {ARTEFACT: json_text(hosts)}


def section() -> list[str]:
    """Its part of docs/generations.md."""
    text = [
        "## The default list of redis-benchmark",
        "",
        "CPU time of each command over that of a GET on the same engine, predicted and measured:"
        f" {CLIENTS} clients, pipelines of {PIPELINE}, {KEYS:,} keys or members, values of"
        f" {len(_DATA)} B, sent by valkey-benchmark of Valkey 9.1. What takes away is sent in turn"
        " with what it takes; windows of GET and of each line take turns."
        " Shipped engines, on the host as profiled with the measurement."
        " `make evidence STUDY=default-list`.",
    ]
    if not ARTEFACT.exists():
        return [*text, "", "Not measured yet."]
    for host in json.loads(ARTEFACT.read_text(encoding="utf-8")):
        if not host["points"]:
            continue
        text += ["", f"### {host['title']}, {host['date']}: the default list", ""]
        if host["moved"]:
            text += [f"Points left out because the CPUs had been moved: {host['moved']}.", ""]
        text += [*_table(host["points"]), "", _score(host["points"])]
    return text


def _table(rows: Sequence[Row]) -> list[str]:
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    of = {(row["test"], row["engine"]): row for row in rows}
    body = []
    for name in [name for name in TESTS if name != "GET"]:
        cells = []
        for id_ in engines:
            row = of.get((name, id_))
            cells.append("" if row is None else f"{row['predicted']:.2f} / {row['ratio']:.2f}")
        body.append([name, *cells])
    return table(["predicted / measured", *(f">{id_}" for id_ in engines)], body)


def _score(rows: Sequence[Row]) -> str:
    errors = np.array([row["predicted"] / row["ratio"] - 1.0 for row in rows])
    inside = sum(row["low"] <= row["ratio"] <= row["high"] for row in rows)
    return (
        f"Median error of a ratio {np.median(np.abs(errors)):.1%}, bias {np.median(errors):+.1%};"
        f" the three windows differ by {np.median([r['repeat'] / r['ratio'] for r in rows]):.1%};"
        f" {np.mean(np.abs(errors) <= 0.1):.0%} are within 10%;"
        f" {inside} of {len(rows)} lie in their {rounds.LEVEL:.0%} intervals."
    )
