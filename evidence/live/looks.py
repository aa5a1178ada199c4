"""What a server can do, predicted from what it says of itself under lighter loads.

Mixes of commands are drawn as in the study `mixes`. valkey-benchmark sends each to an engine with
one thread on the other core: without a limit, which tells what the engine serves, and held to
shares of that. Of such a load two looks at INFO ALL are all that is given, besides the host's name
in the catalogue and that the load came from the same machine. Predicted are what the engine serves
in saturation, and how busy it is under twice the load.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from forecache import plan
from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.servers import EngineProcess
from forecache.hwprofiles.capture import inspect_machine
from forecache.hwprofiles.capture.host import captured_id
from forecache.models.engines.commands import counted_on
from forecache.sim.errors import EngineError, InputError, NotKnownError

from ..counts.shipped import json_text
from ..harness import Asked, Files, Progress
from ..markdown import table
from . import mixes, rounds
from .cpu_windows import TOOL, Tool
from .engines import Engine

FOLDER = Path("evidence/looks")
"""A folder per host."""
MEASURED_FILE = "measured.json.gz"
ARTEFACT = Path("docs/accuracy/looks.json")
ENGINES = mixes.ENGINES
MIXES, LOADS = 6, (0.1, 0.2, 0.4, 0.8)
"""Mixes an engine, and shares of what it serves."""
_TWICE = {0.1: 0.2, 0.4: 0.8}
"""Loads that are predicted from half of each."""
CLIENTS, APART_S, SETTLE_S = 20, 2.0, 0.7
LONG_APART_S = 6.0
"""Of versions that tell their clock in whole seconds."""
NEAREST = {
    ("AuthenticAMD", 25, 1): "m6a.large",
    ("AuthenticAMD", 25, 17): "m7a.large",
    ("AuthenticAMD", 26, 2): "m8a.large",
    ("GenuineIntel", 6, 106): "m6i.large",
    ("GenuineIntel", 6, 143): "m7i.large",
    ("GenuineIntel", 6, 167): "r8i.large",
}
"""What the catalogue has of a processor, by vendor, family and model."""
NODE = {"load_generator": {"tool": TOOL, "threads": 1, "same_host": True}}

Row = dict[str, Any]


def measure(asked: Asked) -> Files:
    """Measure on this host; `ENGINES` and `SEED` are as in the study generations."""
    seed = rounds.seed()
    with rounds.engines_at_hand() as (_, engines):
        program = rounds.engine_of(engines, "valkey-9.1.2").folder / TOOL
        rows: list[Row] = []
        for id_ in asked.only or ENGINES:
            random = np.random.default_rng([seed, *id_.encode()])
            known = counted_on(rounds.shipped(id_).commands)
            drawn = [mixes.draw(random, known) for _ in range(MIXES)]
            asked.progress(f"{id_}: {len(drawn)} mixes")
            engine = rounds.engine_of(engines, id_)
            rows += _of_engine(engine, program, drawn, progress=asked.progress)
    machine = inspect_machine()
    folder = FOLDER / captured_id(machine)
    folder.mkdir(parents=True, exist_ok=True)
    about = {"seed": seed, "date": time.strftime("%Y-%m-%d"), "host": _nearest(), "rows": rows}
    text = json_text(about).encode()
    (folder / MEASURED_FILE).write_bytes(gzip.compress(text, mtime=0))
    return predict(asked)


def _nearest() -> str:
    """The catalogue's nearest host to this one."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    pairs = [line.partition(":") for line in text.splitlines() if ":" in line]
    said = {name.strip(): value.strip() for name, _, value in reversed(pairs)}
    key = said["vendor_id"], int(said["cpu family"]), int(said["model"])
    if key not in NEAREST:
        raise InputError(f"looks: found the processor {key}; valid is one of NEAREST.")
    return NEAREST[key]


def _of_engine(
    engine: Engine, program: Path, drawn: Sequence[Row], *, progress: Progress
) -> Iterator[Row]:
    core, driver = sorted(os.sched_getaffinity(0))[:2]
    with ExitStack() as stack:
        process = stack.enter_context(EngineProcess(engine.server, cores=[core]))
        control = stack.enter_context(process.control())
        tool = Tool(program, driver, process)
        for mix in drawn:
            mixes.fill(mix, control)
            words = mixes.words_of(mix)
            options = ("-c", CLIENTS, "-r", mixes.KEYS)
            commands = sum(repeats for *_, repeats in mix["commands"])
            try:
                # Before and after the others: what the host does meanwhile.
                full = tool.windows(words, *options, number=2)
                loads = {}
                for load in LOADS:
                    rps = max(1, round(load * full[0].rps / commands))
                    with tool.running(words, *options, "--rps", rps):
                        time.sleep(SETTLE_S)
                        loads[str(load)] = _looks(control)
                full += tool.windows(words, *options, number=2)
                mixes.check_sizes(control, mix)
            except (EngineError, ZeroDivisionError) as error:
                progress(f"{engine.id}: a mix is left out ({error})")
                continue
            yield {
                "engine": engine.id,
                **mix,
                "full_us": [round(window.cpu_us, 4) for window in full],
                "full_rps": [round(window.rps) for window in full],
                "looks": loads,
            }


def _looks(control: RespClient) -> list[str]:
    """INFO ALL, twice."""
    first = str(control.command("INFO", "ALL"))
    time.sleep(APART_S if "server_time_usec" in first else LONG_APART_S)
    return [first, str(control.command("INFO", "ALL"))]


def predict(asked: Asked) -> Files:
    """What was measured, beside what is predicted from the looks."""
    hosts = []
    for path in sorted(FOLDER.glob(f"*/{MEASURED_FILE}")):
        about = json.loads(gzip.decompress(path.read_bytes()))
        rows = about.pop("rows")
        asked.progress(f"{path.parent}: predicting from {len(rows) * len(LOADS)} pairs of looks")
        with ProcessPoolExecutor() as pool:
            points = list(pool.map(_predicted, rows, [about["host"]] * len(rows)))
        hosts.append({"id": path.parent.name, **about, "points": points})
    return {ARTEFACT: json_text(hosts)}


def _predicted(row: Row, host: str) -> Row:
    """A mix with what is predicted from each pair of looks."""
    looks = row.pop("looks")
    row["predicted"] = {}
    with tempfile.TemporaryDirectory(prefix="forecache-") as scratch:
        for load in LOADS:
            files = [Path(scratch) / f"{load}-{n}.txt" for n in range(2)]
            for file, text in zip(files, looks[str(load)], strict=True):
                file.write_text(text, encoding="utf-8")
            row["predicted"][str(load)] = from_looks(files, host)
    return row


def from_looks(files: Sequence[Path], host: str) -> Row | None:
    """Capacity, and CPU shares of the main thread; None where nothing can be told."""
    try:
        found = plan(from_info=files, host=host, node=NODE, search=False, times=2.0)
    except NotKnownError:
        return None
    limit, told = found.ceiling, found.from_info
    if told is None or limit is None or limit.capacity_rps is None:
        return None
    if limit.main_thread_busy is None:
        return None
    whole = limit.time[0]
    return {
        "capacity_rps": round(limit.capacity_rps.value),
        "low_rps": round(limit.capacity_rps.low),
        "high_rps": round(limit.capacity_rps.high),
        "rate_rps": round(limit.nodes[0].rate_rps) if limit.nodes else 0,
        "mean_rps": round(told.nodes[0].rate_rps),
        "busy": whole.measured,
        "predicted_busy": whole.predicted,
        "after": whole.after,
        "busy_at_twice": limit.main_thread_busy.value,
    }


def section() -> list[str]:
    """Its part of docs/generations.md."""
    text = [
        "## What a server’s own numbers say",
        "",
        f"{MIXES} mixes an engine, drawn as above, at shares of what the engine serves"
        f" (valkey-benchmark’s `--rps`). Given are two looks at INFO ALL, {APART_S:g} s apart"
        f" ({LONG_APART_S:g} s where a version tells whole seconds only), the"
        " name of the catalogue’s nearest host, and that the load came from the same machine;"
        " predicted is what the engine serves in saturation. *Told* are pairs of looks that"
        " `plan --from-info` doesn’t refuse. *Twice* is how far the predicted CPU time of the main"
        " thread under twice the load is off, in points. What idle caches cost was fitted to"
        " another round (seed 7001, four of the engines, not kept); seed 8123 was predicted with"
        " the model of the day, committed before its data were opened: 5.0, 7.3, 7.0 and 10.4% in"
        " the median from 80, 40, 20 and 10%, with 52, 52, 50 and 47 inside."
        " `make evidence STUDY=looks`.",
    ]
    if not ARTEFACT.exists():
        return [*text, "", "Not measured yet."]
    for host in json.loads(ARTEFACT.read_text(encoding="utf-8")):
        text += ["", f"### {host['id']} as {host['host']}, {host['date']}: looks", ""]
        text += [f"Seed {host['seed']}.", "", *_table(host["points"])]
    return text


_HEADER = (
    *("load", ">pairs", ">told", ">median error", ">95th percentile", ">bias"),
    *(">inside 95% intervals", ">twice, median"),
)


def _table(points: Sequence[Row]) -> list[str]:
    body = []
    for load in LOADS:
        told = [p for p in points if p["predicted"][str(load)] is not None]
        errors = np.array([error_of(p, load) for p in told] or [np.nan])
        inside = sum(_is_inside(p, load) for p in told)
        twice = "–"
        if load in _TWICE:
            off = [o for p in told if (o := _off_at_twice(p, load)) is not None]
            twice = f"{np.median(off):.1f}" if off else "–"
        cells = (np.median(np.abs(errors)), np.quantile(np.abs(errors), 0.95), np.median(errors))
        body.append(
            [
                *(f"{load:.0%}", str(len(points)), str(len(told))),
                *(f"{cells[0]:.1%}", f"{cells[1]:.0%}", f"{cells[2]:+.0%}"),
                *(f"{inside} of {len(told)}", twice),
            ]
        )
    return table(_HEADER, body)


def error_of(point: Mapping[str, Any], load: float) -> float:
    """Of the capacity that looks under a load tell."""
    found = point["predicted"][str(load)]["capacity_rps"]
    return float(found / np.median(point["full_rps"]) - 1.0)


def _is_inside(point: Mapping[str, Any], load: float) -> bool:
    found, served = point["predicted"][str(load)], float(np.median(point["full_rps"]))
    return bool(found["low_rps"] <= served <= found["high_rps"])


def _off_at_twice(point: Mapping[str, Any], load: float) -> float | None:
    """Points by which the CPU time under twice the load is off."""
    then = point["predicted"][str(_TWICE[load])]
    if then is None or then["busy"] is None:
        return None
    found = point["predicted"][str(load)]
    # Asked is about twice the peak of these looks; the other load was nearly twice the mean.
    share = then["mean_rps"] / (2.0 * found["rate_rps"])
    return 100.0 * abs(float(share * found["busy_at_twice"] - then["busy"]))
