"""What an upgrade from an old version brings: steps of Redis 2.8 to 7.0, predicted, then measured.

The predictions were committed before any engine older than 6.2 had been observed or driven: they
rest on what changes between the sources (`make evidence STUDY=upgrades-before`). Those of the
further commands were committed before these were measured, with profiles observed by then. Both
engines of a step then run at once on one core, in windows that alternate as in the study steps.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.loadgen import preload
from forecache.calibration.drive.servers import EngineProcess
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.catalogue import load_host
from forecache.hwprofiles.files import write_text_atomic
from forecache.hwprofiles.schema import HostProfile
from forecache.models.advice.paired import paired_quantity
from forecache.models.engines.generator import load_generator
from forecache.models.prediction.predict import SERVER_CPU, predict_cases
from forecache.models.prediction.system import System
from forecache.sim.errors import InputError

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import generations, mixes, rounds
from .cpu_windows import TOOL, Tool, Window, case_of_load, profile_of_most, settled, unmoved
from .engines import Engine
from .steps import ORDER, WINDOW_S, is_clear, step_of

FOLDER = Path("evidence/upgrades")
"""What was predicted before, and a folder per host: its profile, and what was measured."""
BEFORE = FOLDER / "before.json"
BEFORE_ON = generations.FOLDER / "captured-amd-epyc-25-1-2cpus/redis-6.2.11/calibration/host.yaml"
"""The host that those predictions are for."""
ARTEFACT = Path("docs/accuracy/upgrades.json")

STEPS = (
    ("redis-2.8.19", "redis-3.2.6"),
    ("redis-3.2.6", "redis-5.0.6"),
    ("redis-5.0.6", "redis-6.2.11"),
    ("redis-6.2.11", "redis-7.0.15"),
)
COMMANDS, PIPELINES, VALUE_BYTES = ("get", "set", "mget"), (1, 16), (64, 1024)
ASKED, CLIENTS, KEYS, KEY_BYTES = 10, 50, 10_000, 16
"""Keys of an MGET, connections, keys there are."""
FURTHER = {
    "incr": 1,
    "expire": 1,
    "hget": 1,
    "hset": 1,
    "hgetall": 40,
    "lrange": 10,
    "sismember": 1,
    "smembers": 60,
    "zadd": 1,
    "zrange": 10,
}
"""Further commands with their numbers of items, which are sent as the study mixes sends them."""
SIZES = {"hash": 40, "list": 200, "set": 60, "sorted_set": 100}
"""Of their collections."""
_FURTHER_PIPELINE, _FURTHER_BYTES = 16, 16

Row = dict[str, Any]


def points() -> list[Row]:
    """All loads of a step, those of one size of values together."""
    further = {"pipeline": _FURTHER_PIPELINE, "value_bytes": _FURTHER_BYTES}
    return [
        *(
            {"command": command, "pipeline": pipeline, "value_bytes": value_bytes}
            for value_bytes, command, pipeline in product(VALUE_BYTES, COMMANDS, PIPELINES)
        ),
        *({"command": command, **further} for command in FURTHER),
    ]


def before(asked: Asked) -> Files:
    """Predict steps for a host that is known, each once: nothing may have been measured yet.

    Raises
    ------
    InputError
        All were predicted before.
    """
    said = json.loads(BEFORE.read_text(encoding="utf-8")) if BEFORE.exists() else []
    known = {_key(row) for row in said}
    rows = [{"engines": list(pair), **point} for pair in STEPS for point in points()]
    rows = [row for row in rows if _key(row) not in known]
    if not rows:
        raise InputError(f"{BEFORE}: found predictions; valid is one prediction before measuring.")
    asked.progress(f"{BEFORE_ON}: predicting")
    for row, found in zip(rows, _predicted(load_host(str(BEFORE_ON)), rows), strict=True):
        row.update(found)
    return {BEFORE: json_text([*said, *rows])}


def measure(asked: Asked) -> Files:
    """Measure on this host; `ENGINES` is as in the study generations."""
    with rounds.engines_at_hand() as (_, engines):
        program = rounds.tool_of(engines, TOOL)
        host = capture_host(progress=asked.progress)
        rows: list[Row] = []
        for pair, value_bytes in product(STEPS, (*VALUE_BYTES, _FURTHER_BYTES)):
            asked.progress(f"{' and '.join(pair)}: values of {value_bytes} B")
            chosen = [rounds.engine_of(engines, id_) for id_ in pair]
            rows += _of_data_set(chosen, program, value_bytes, host.core_to_core_ns.best)
        host = profile_of_most(host, rows, asked.progress)
        folder = FOLDER / host.id
        rounds.keep_host(folder, host)
        write_text_atomic(folder / "measured.json", json_text(rows))
    return predict(asked)


def _of_data_set(
    engines: Sequence[Engine], program: Path, value_bytes: int, apart_ns: float
) -> Iterator[Row]:
    """All points with one size of values, of which both servers hold what they work on."""
    core, driver = sorted(os.sched_getaffinity(0))[:2]
    held = Conditions(
        command="get", keys=KEYS, key_bytes=KEY_BYTES, value_bytes=value_bytes, clients=CLIENTS
    )
    chosen = [point for point in points() if point["value_bytes"] == value_bytes]
    with ExitStack() as stack:
        servers = [stack.enter_context(EngineProcess(e.server, cores=[core])) for e in engines]
        controls, tools = [], []
        for server, other in zip(servers, reversed(servers), strict=True):
            controls.append(stack.enter_context(server.control()))
            if any(point["command"] not in FURTHER for point in chosen):
                preload(held, server.address("tcp"), control=controls[-1], cores=[driver])
            tools.append(Tool(program, driver, server, besides=(other.pid,), window_s=WINDOW_S))
        for point in chosen:
            if point["command"] in FURTHER:
                for control in controls:
                    mixes.fill(_mix(point), control)
            seen, distances = settled((core, driver), apart_ns, partial(_in_turn, tools, point))
            yield {
                "engines": [engine.id for engine in engines],
                **point,
                "apart_ns": distances,
                "cpu_us": [[round(window.cpu_us, 4) for window in own] for own in seen],
            }


def _in_turn(tools: Sequence[Tool], point: Row) -> tuple[list[Window], list[Window]]:
    """Windows of each engine, in the order of the study steps."""
    options = ["-c", CLIENTS, "-r", KEYS, "-P", point["pipeline"]]
    words = [point["command"], *["key:__rand_int__"] * _keys_of(point)]
    words += ["v" * point["value_bytes"]] if point["command"] == "set" else []
    if point["command"] in FURTHER:
        words, options = mixes.words_of(_mix(point)), ["-c", CLIENTS, "-r", mixes.KEYS]
    seen: tuple[list[Window], list[Window]] = ([], [])
    for side in ORDER:
        seen[side].append(tools[side].window(words, *options))
    return seen


def _mix(point: Row) -> Row:
    """One of the further commands, as a mix of nothing else."""
    command = point["command"]
    return {
        "commands": [[command, FURTHER[command], point["pipeline"]]],
        "sizes": SIZES,
        "value_bytes": point["value_bytes"],
    }


def _keys_of(point: Row) -> int:
    return ASKED if point["command"] == "mget" else 1


def predict(asked: Asked) -> Files:
    """What was measured, beside what was said before and what is predicted now."""
    said = {_key(row): row for row in json.loads(BEFORE.read_text(encoding="utf-8"))}
    hosts = []
    for folder in sorted(path.parent for path in FOLDER.glob("*/measured.json")):
        host = load_host(str(folder / rounds.HOST_FILE))
        rows = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
        measured = len(rows)
        rows = [row for row in rows if unmoved(row["apart_ns"], host)]
        asked.progress(f"{folder}: predicting")
        for row, now in zip(rows, _predicted(host, rows), strict=True):
            row["step"], row["error"] = step_of(*row["cpu_us"])
            row["now"], row["before"] = now, said[_key(row)]["ratio"]
        date = "" if host.captured is None else str(host.captured.date)[:10]
        about = {"id": folder.name, "title": host.title, "date": date}
        hosts.append({**about, "moved": measured - len(rows), "points": rows})
    return {ARTEFACT: json_text(hosts)}


def _key(row: Row) -> tuple[Any, ...]:
    return (*row["engines"], *(row[name] for name in ("command", "pipeline", "value_bytes")))


def _predicted(host: HostProfile, rows: Sequence[Row]) -> list[Row]:
    """CPU time of the second engine over that of the first, with its 95% interval."""
    generator, cases = load_generator(TOOL), []
    for row in rows:
        for id_ in row["engines"]:
            engine = rounds.shipped(id_)
            cases.append((case_of_load(engine, _workload(row)), System(host, engine, generator)))
    predictions = predict_cases(cases)
    found = []
    for first, second in zip(predictions[::2], predictions[1::2], strict=True):
        ratio = paired_quantity(first, second, SERVER_CPU).ratio
        assert ratio is not None
        found.append({"ratio": ratio.value, "low": ratio.low, "high": ratio.high})
    return found


def _workload(point: Row) -> Row:
    if point["command"] in FURTHER:
        return {**mixes.workload_of(_mix(point)), "clients": CLIENTS}
    found: Row = {"clients": CLIENTS, "keys": KEYS, "key_bytes": KEY_BYTES}
    found |= {name: point[name] for name in ("pipeline", "value_bytes")}
    if point["command"] == "mget":
        return {**found, "mix": {"mget": {"share": 1.0, "keys": ASKED}}}
    return {**found, "command": point["command"]}


def section() -> list[str]:
    """Its part of docs/generations.md."""
    text = [
        "## Upgrades from old versions",
        "",
        f"GET, SET and MGET of {ASKED} keys, {CLIENTS} clients, {KEYS:,} keys. *Before* is what was"
        " predicted before any version older than 6.2 was observed or driven: the work of 6.2,"
        " less what came later by the sources, with the rules of each version, on a host profiled"
        f" earlier (`{BEFORE_ON.parts[2]}`). Ten further commands, in"
        f" pipelines of {_FURTHER_PIPELINE} on {mixes.KEYS:,} keys, name one key, field or member;"
        " LRANGE and ZRANGE ten, HGETALL and SMEMBERS all; their *before* is of the shipped"
        " profiles, before these steps were measured. *Now* is with shipped profiles, on the host"
        " as profiled with the measurement. Ratios are of the CPU time of a command, the second"
        " version over the first. As in the section above, both run at once, and a measured step is"
        " *clear* beyond 5% and two standard errors. Of the builds, 2.8.19, 6.2.11 and 7.0.15 have"
        " jemalloc, 3.2.6 and 5.0.6 glibc's malloc, so two steps are of allocators as well."
        " `make evidence STUDY=upgrades`.",
    ]
    if not ARTEFACT.exists():
        said = json.loads(BEFORE.read_text(encoding="utf-8"))
        rows = [[*_label(r), f"{r['ratio']:.2f} ({r['low']:.2f}–{r['high']:.2f})"] for r in said]
        return [*text, "", *table([*_HEADER, ">before (95%)"], rows)]
    for host in json.loads(ARTEFACT.read_text(encoding="utf-8")):
        text += ["", f"### {host['title']}, {host['date']}: upgrades", ""]
        if host["moved"]:
            text += [f"Points left out because the CPUs had been moved: {host['moved']}.", ""]
        text += [*_table(host["points"]), "", *_scores(host["points"])]
    return text


_HEADER = ("step", "", ">pipeline", ">bytes")


def _label(row: Row) -> list[str]:
    """The cells under `_HEADER`."""
    command, pipeline, value_bytes = (row[n] for n in ("command", "pipeline", "value_bytes"))
    return [" to ".join(row["engines"]), command.upper(), str(pipeline), f"{value_bytes:,}"]


def _table(rows: Sequence[Row]) -> list[str]:
    body = []
    for row in rows:
        now, ratio = row["now"], float(np.exp(row["step"]))
        cells = [f"{row['before']:.2f}", f"{now['ratio']:.2f} ({now['low']:.2f}–{now['high']:.2f})"]
        body.append([*_label(row), *cells, f"{ratio:.2f} ± {ratio * row['error']:.2f}"])
    return table([*_HEADER, ">before", ">now (95%)", ">measured"], body)


def _scores(rows: Sequence[Row]) -> list[str]:
    """Errors of both, and how many clear steps have the sign that was said."""
    steps = np.array([row["step"] for row in rows])
    clear = np.array([is_clear(row["step"], row["error"]) for row in rows])
    found = []
    for name, said in (("Before", _before(rows)), ("Now", _now(rows))):
        error, signs = np.median(np.abs(said - steps)), (said * steps > 0.0)[clear]
        found.append(
            f"{name}: median error of the ratio {error:.1%}; {signs.sum()} of {len(signs)} clear"
            " steps go the way that was said."
        )
    inside = np.mean([r["now"]["low"] <= np.exp(r["step"]) <= r["now"]["high"] for r in rows])
    return [" ".join([*found, f"{inside:.0%} of the steps lie in the intervals of now."])]


def _before(rows: Sequence[Row]) -> np.ndarray:
    return np.log([row["before"] for row in rows])


def _now(rows: Sequence[Row]) -> np.ndarray:
    return np.log([row["now"]["ratio"] for row in rows])
