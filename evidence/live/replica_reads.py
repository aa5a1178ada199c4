"""What a replica takes for its primary's writes and for reads, and how old its answers are.

A primary and a replica run on a CPU each. valkey-benchmark writes to the primary and reads from the
replica at given rates, from the primary's CPU. Predicted is the CPU time of the replica's main
thread, from the shipped engine on this host, which is profiled first, and from how many writes
arrived together, which the replica counts. How old an answer is: a number is stored on the primary
and asked for at the replica, until it is there.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.loadgen import preload
from forecache.calibration.drive.proc import core_times_ns, thread_usage
from forecache.calibration.drive.servers import EngineProcess
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.catalogue import load_host
from forecache.hwprofiles.files import write_text_atomic
from forecache.models.engines.generator import load_generator
from forecache.models.prediction.predict import SERVER_CPU, Prediction, predict_cases
from forecache.models.prediction.replication import staleness_ms
from forecache.models.prediction.system import System
from forecache.models.step_times.stages import stream_times
from forecache.sim.errors import EngineError

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import rounds
from .additions import follow
from .cpu_windows import CALM, TOOL, TRIES, Tool, case_of_load
from .engines import Engine
from .load import process_cpu_ns

FOLDER = Path("evidence/replica_reads")
"""A folder per host: its profile, and what was measured."""
ARTEFACT = Path("docs/accuracy/replica-reads.json")
ENGINES = ("valkey-9.1.2", "redis-7.0.15")
WITH_RATES = "valkey-9.1.2"
"""Whose valkey-benchmark keeps a rate (`--rps`)."""
KEYS, VALUE_BYTES, CLIENTS = 10_000, 512, 20
SETTLE_S, WINDOW_S, WINDOWS = 0.3, 0.5, 3
STAMPS = 150
BOTH = frozenset(sorted(os.sched_getaffinity(0))[:2])
"""The CPUs: of the primary and what drives it, and of the replica."""


@dataclass(frozen=True)
class Load:
    """Writes to the primary and reads from the replica a second; 0 writes: as many as it takes."""

    writes: int
    reads: int
    pipeline: int = 1


LOADS = (
    *(Load(writes, 0) for writes in (2_000, 10_000, 30_000)),
    Load(0, 0, pipeline=16),
    *(Load(writes, 10_000) for writes in (2_000, 10_000, 30_000)),
    Load(10_000, 30_000),
)


def measure(asked: Asked) -> Files:
    """Measure on this host; `ENGINES` is as in the study generations."""
    with rounds.engines_at_hand() as (_, engines):
        host = capture_host(progress=asked.progress)
        program = rounds.engine_of(engines, WITH_RATES).folder / TOOL
        rows: list[dict[str, Any]] = []
        for id_ in asked.only or ENGINES:
            asked.progress(id_)
            rows += _of_engine(rounds.engine_of(engines, id_), program)
        folder = FOLDER / host.id
        rounds.keep_host(folder, host)
        write_text_atomic(folder / "measured.json", json_text(rows))
    return predict(asked)


def _of_engine(engine: Engine, program: Path) -> list[dict[str, Any]]:
    """All loads of one engine."""
    here, there = sorted(BOTH)
    held = Conditions(command="get", keys=KEYS, value_bytes=VALUE_BYTES, clients=CLIENTS)
    with ExitStack() as stack:
        primary = stack.enter_context(EngineProcess(engine.server, cores=[here]))
        replica = stack.enter_context(EngineProcess(engine.server, cores=[there]))
        preload(held, primary.address("unix"), control=primary.control(), cores=[here])
        follow(replica, primary)
        os.sched_setaffinity(0, {here})
        try:
            idle = _calm_window(primary, replica)["cpu_share"]
            return [
                {"engine": engine.id, **asdict(load), "idle_share": round(idle, 5)}
                | _under(load, program, primary, replica)
                for load in LOADS
            ]
        finally:
            os.sched_setaffinity(0, {here, there})


def _under(
    load: Load, program: Path, primary: EngineProcess, replica: EngineProcess
) -> dict[str, Any]:
    """Windows of a load, then stamps under it."""
    [here] = os.sched_getaffinity(0)
    size = ("-d", VALUE_BYTES, "-c", CLIENTS, "-r", KEYS, "-P", load.pipeline)
    with ExitStack() as stack:
        rate = ("--rps", load.writes) if load.writes else ()
        writing = Tool(program, here, primary).running(("-t", "set"), *size, *rate)
        tools = [stack.enter_context(writing)]
        if load.reads:
            reading = Tool(program, here, replica).running(
                ("-t", "get"), *size, "--rps", load.reads
            )
            tools.append(stack.enter_context(reading))
        time.sleep(SETTLE_S)
        found = [_calm_window(primary, replica, *tools) for _ in range(WINDOWS)]
        return {
            **{name: [round(window[name], 5) for window in found] for name in found[0]},
            "stamps": _stamps(primary, replica),
        }


def _calm_window(primary: EngineProcess, replica: EngineProcess, *tools: int) -> dict[str, float]:
    """Of several tries the first that hardly anything disturbed, or the calmest."""
    tries: list[dict[str, float]] = []
    while len(tries) < TRIES and all(window["others"] > CALM for window in tries):
        tries.append(_window(replica, (primary.pid, replica.pid, *tools)))
    return min(tries, key=lambda window: window["others"])


def _window(replica: EngineProcess, ours: Sequence[int]) -> dict[str, float]:
    """What the replica's main thread did for a while, a second; the CPUs' time that others took."""
    with replica.control() as control:

        def look() -> np.ndarray:
            info = _numbers(control)
            usage = thread_usage(replica.pid, replica.pid)
            counts = [info.get(f"cmdstat_{name}", 0.0) for name in ("set", "get")]
            counts.append(info["total_reads_processed"])
            total, _, idle = core_times_ns(BOTH)
            busy = total - idle - sum(map(process_cpu_ns, ours)) - time.process_time_ns()
            return np.array([time.monotonic(), usage.cpu_ns / 1e9, *counts, busy, total])

        before = look()
        time.sleep(WINDOW_S)
        span, cpu, *counts, others, total = look() - before
    rates = zip(("written_rps", "read_rps", "received_rps"), counts, strict=True)
    return {
        "cpu_share": cpu / span,
        **{name: count / span for name, count in rates},
        "others": max(0.0, others) / total,
    }


def _numbers(control: RespClient) -> dict[str, float]:
    """Calls of each command, and how often a connection was read."""
    found = {}
    for line in (control.info("commandstats") + control.info("stats")).splitlines():
        name, _, value = line.partition(":")
        if name.startswith("cmdstat_"):
            found[name] = float(value.split("calls=")[1].split(",")[0])
        elif name == "total_reads_processed":
            found[name] = float(value)
    return found


def _stamps(primary: EngineProcess, replica: EngineProcess) -> dict[str, Any]:
    """How long after the answer to a write reads of the replica miss it, and see it."""
    missed_us: list[float] = []
    seen_us: list[float] = []
    first = 0
    with RespClient(primary.address("tcp")) as writer, RespClient(replica.address("tcp")) as reader:
        for number in range(STAMPS):
            writer.command("SET", "stamp", number)
            answered = time.perf_counter()
            miss = 0.0
            while True:
                asked = time.perf_counter()
                if reader.command("GET", "stamp") == str(number):
                    break
                miss = asked - answered
                if miss > 5.0:
                    raise EngineError("a write did not reach the replica within 5 s.")
            missed_us.append(1e6 * miss)
            seen_us.append(1e6 * (time.perf_counter() - answered))
            first += miss == 0.0
            time.sleep(0.002)
    quantiles = {"p50": 50, "p99": 99}
    return {
        "first_read_sees_it": round(first / STAMPS, 3),
        "missed_us": {
            n: round(float(np.percentile(missed_us, q)), 1) for n, q in quantiles.items()
        },
        "seen_us": {n: round(float(np.percentile(seen_us, q)), 1) for n, q in quantiles.items()},
    }


def predict(asked: Asked) -> Files:
    """Predict what was measured, with shipped engines on each host."""
    hosts = []
    for folder in sorted(path.parent for path in FOLDER.glob("*/measured.json")):
        host = load_host(str(folder / rounds.HOST_FILE))
        rows = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
        asked.progress(f"{folder}: predicting {len(rows)} loads")
        points = [{**row, **_predicted(row, host)} for row in rows]
        date = "" if host.captured is None else str(host.captured.date)[:10]
        hosts.append({"id": folder.name, "title": host.title, "date": date, "points": points})
    return {ARTEFACT: json_text(hosts)}


def _predicted(row: dict[str, Any], host: Any) -> dict[str, Any]:
    """CPU share of the replica, and how old its answers are, at the rates that were measured."""
    engine = rounds.shipped(row["engine"])
    system = System(host, engine, load_generator(TOOL))
    written, read, received = (
        float(np.median(row[name])) for name in ("written_rps", "read_rps", "received_rps")
    )
    batches = max(1.0, received - read)  # every reading client is read once a request
    at_once = max(1.0, written / batches)
    reads = max(read, 1.0)
    data = {"keys": KEYS, "key_bytes": 16, "value_bytes": VALUE_BYTES, "clients": CLIENTS}
    follows = {"per_request": written / reads, "at_once": at_once}
    replica = case_of_load(
        engine,
        {**data, "arrival": "open_loop", "rate_rps": reads, "mix": {"get": 1.0}},
        follows=follows,
    )
    draws = []
    for draw in (None, *range(rounds.DRAWS)):
        inputs = system.inputs(replica.scenario, draw=draw)
        times = stream_times(inputs)
        draws.append((written * times.write_ns / 1e9, written / at_once * times.waking_ns / 1e9))
    stream, waking = np.array(draws).T
    found: dict[str, Any] = {
        "at_once": round(at_once, 2),
        "write_us": round(1e6 * stream[0] / written, 3),
    }
    of_reads = np.zeros(3)
    if read > 0:
        primary = case_of_load(
            engine,
            {**data, "arrival": "open_loop", "rate_rps": written, "mix": {"set": 1.0}},
            replicas=1,
        )
        served, sender = predict_cases([(replica, system), (primary, system)], draws=rounds.DRAWS)
        cpu = served.interval(SERVER_CPU, level=rounds.LEVEL)
        of_reads = read * np.array([cpu.value, cpu.low, cpu.high]) / 1e6 - stream[0]
        found |= _staleness(sender, served)
    # A batch that finds the replica awake needs no turn of its own.
    idle = np.clip(1.0 - stream - of_reads[0], 0.0, 1.0)
    of_stream = stream + idle * waking
    low, high = np.quantile(of_stream[1:], [0.025, 0.975])
    ends = [of_stream[0], min(low, of_stream[0]), max(high, of_stream[0])]
    shares = np.array(ends) + of_reads
    return found | {
        "predicted_share": round(float(shares[0]), 5),
        "low_share": round(float(shares[1]), 5),
        "high_share": round(float(shares[2]), 5),
    }


def _staleness(primary: Prediction, replica: Prediction) -> dict[str, Any]:
    found = {}
    for name in ("p50_ms", "p99_ms"):
        each = staleness_ms(primary, replica, name, between_zones=False)
        if each is not None:
            ends = (each.value, each.low, each.high)
            found[f"stale_{name[:3]}_us"] = [round(1e3 * end, 1) for end in ends]
    return found


def section() -> list[str]:
    """Of the page."""
    hosts = json.loads(ARTEFACT.read_text(encoding="utf-8"))
    text = [
        "## What replicas take, and how old their answers are",
        "",
        "A primary and a replica with a CPU each; valkey-benchmark writes 512 B to the primary and"
        " reads from the replica at given rates, from the primary’s CPU. *CPU* is the share of its"
        " time that the replica’s main thread worked, less what it did idle; *at once* is how many"
        " writes came with one read of the primary’s connection, which the replica counts and the"
        " prediction is given. *Seen* is when a read of the replica that saw a write was answered,"
        " *missed* when the last that did not was sent, both after the answer to the write, by a"
        " client in Python on the primary’s CPU; *stale* is what is predicted between them;"
        " *seen at once* is how often the first read saw the write. The model was committed"
        " before anything was measured, and nothing is fitted to it. Two earlier runs beside"
        " other programs are not shown; since then a window in which others took more than"
        f" {CALM:.0%} of the CPUs is tried again. `make evidence STUDY=replica-reads`.",
        "",
        "A replica with little else to do is woken by every batch, and that takes up to 1.8 times"
        " what is predicted: idle time otherwise, which limits nothing. The tool sends a"
        " millisecond’s requests together, so that a replica with reads and many writes wakes less"
        " often than under the open loop that is predicted. With pipelines of 16 the writes"
        " alone are predicted too dear. Answers are younger than predicted: the p50 of"
        " a request, of which the prediction is made, has the load generator’s time in it.",
    ]
    for host in hosts:
        text += ["", f"### {host['title']}, {host['date']}", "", *_table(host["points"])]
    return text


def _table(points: list[dict[str, Any]]) -> list[str]:
    body = []
    errors: dict[str, list[float]] = {}
    for row in points:
        measured = float(np.median(row["cpu_share"])) - row["idle_share"]
        what = "writes alone" if row["pipeline"] == 1 else "pipelined writes alone"
        what = "reads and writes" if row["reads"] else what
        errors.setdefault(what, []).append(abs(row["predicted_share"] / measured - 1.0))
        stamps, stale = row["stamps"], row.get("stale_p50_us")
        low, high = row["low_share"], row["high_share"]
        body.append(
            (
                row["engine"],
                f"{np.median(row['written_rps']):,.0f}",
                f"{row['at_once']:.1f}",
                f"{np.median(row['read_rps']):,.0f}",
                f"{measured:.1%}",
                f"{row['predicted_share']:.1%} ({low:.1%}–{high:.1%})",
                f"{stamps['first_read_sees_it']:.0%}",
                f"{stamps['missed_us']['p50']:.0f}, {stamps['seen_us']['p50']:.0f}",
                f"{stamps['missed_us']['p99']:.0f}, {stamps['seen_us']['p99']:.0f}",
                "" if stale is None else f"{stale[0]:.0f} ({stale[1]:.0f}–{stale[2]:.0f})",
            )
        )
    header = (
        *("engine", ">writes/s", ">at once", ">reads/s", ">CPU, measured", ">predicted (95%)"),
        *(">seen at once", ">missed, seen: median us", ">p99", ">stale, predicted median"),
    )
    told = ", ".join(f"{what} {np.median(some):.0%}" for what, some in errors.items())
    return [*table(header, body), "", f"Median error of the CPU time: {told}."]
