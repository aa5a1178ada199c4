"""What connections, TLS, longer values, an append-only file and a replica add to a request.

An engine with one thread is driven by one thread of valkey-benchmark on the other CPU. Predicted is
what the shipped engine does on this host, which is profiled first.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.loadgen import preload
from forecache.calibration.drive.servers import EngineProcess
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.catalogue import load_host
from forecache.hwprofiles.files import write_text_atomic
from forecache.models.engines.generator import load_generator
from forecache.models.prediction.predict import SERVER_CPU, predict_cases
from forecache.models.prediction.system import System
from forecache.sim.errors import EngineError

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import rounds
from .cpu_windows import (
    TOOL,
    WARM_UP_S,
    Tool,
    case_of_load,
    profile_of_most,
    settled,
    unmoved,
)
from .engines import Engine

FOLDER = Path("evidence/additions")
"""A folder per host: its profile, and what was measured."""
ARTEFACT = Path("docs/accuracy/additions.json")
ENGINES = ("redis-7.0.15", "redis-8.6.3", "valkey-8.1.1", "valkey-9.1.2")
WINDOWS = 3
_MOST_BYTES = 200_000_000
"""Of values: there are fewer keys of longer ones."""
_SYNC_S = 30.0


@dataclass(frozen=True)
class Load:
    """What clients do, and what is done to their writes besides."""

    about: str
    command: str
    value_bytes: int
    clients: int
    pipeline: int = 1
    tls: bool = False
    file: bool = False
    replica: bool = False

    @property
    def keys(self) -> int:
        """How many there are."""
        return min(10_000, _MOST_BYTES // self.value_bytes)

    @property
    def server(self) -> tuple[int, bool, bool, bool]:
        """What loads share that one server is started for."""
        return self.value_bytes, self.tls, self.file, self.replica

    @property
    def compared_with(self) -> Load:
        """The load whose cost this one's is set against."""
        if self.about == "writes":
            return Load(**{**asdict(self), "file": False, "replica": False})
        usual = {"clients": 50} if self.about == "connections" else {"value_bytes": 1000}
        return Load(**{**asdict(self), **usual})


LOADS = (
    *(
        Load("connections", command, 64, clients, tls=tls)
        for tls in (False, True)
        for command in ("get", "set")
        for clients in (50, 500, 2000)
    ),
    *(
        Load("sizes", command, value_bytes, 20)
        for value_bytes in (100, 1000, 10_000, 100_000, 1_000_000)
        for command in ("get", "set")
    ),
    *(
        Load("writes", "set", value_bytes, 20, pipeline, file=file, replica=replica)
        for value_bytes in (100, 1000)
        for file, replica in ((False, False), (True, False), (False, True))
        for pipeline in (1, 16)
    ),
)


class _Encrypted(EngineProcess):
    """Clients have TLS; control connections are on the Unix socket."""

    def _arguments(self) -> list[str]:
        words = super()._arguments()
        words[words.index("--port")] = "--tls-port"
        return [*words, "--port", "0"]


def measure(asked: Asked) -> Files:
    """Measure on this host; `ENGINES` is as in the study generations."""
    with rounds.engines_at_hand() as (scratch, engines):
        host = capture_host(progress=asked.progress)
        program = rounds.tool_of(engines, TOOL)
        rows: list[dict[str, Any]] = []
        apart_ns = host.core_to_core_ns.best
        for id_ in asked.only or ENGINES:
            engine = rounds.engine_of(engines, id_)
            for wanted in dict.fromkeys(load.server for load in LOADS):
                loads = [load for load in LOADS if load.server == wanted]
                asked.progress(f"{engine.id}: {loads[0]}")
                rows += _of_server(engine, program, loads, scratch, apart_ns)
        host = profile_of_most(host, rows, asked.progress)
        folder = FOLDER / host.id
        rounds.keep_host(folder, host)
        write_text_atomic(folder / "measured.json", json_text(rows))
    return predict(asked)


def _of_server(
    engine: Engine, program: Path, loads: Sequence[Load], scratch: Path, apart_ns: float
) -> Iterator[dict[str, Any]]:
    """All loads of one server, each in a few windows."""
    first, cpus = loads[0], sorted(os.sched_getaffinity(0))[:2]
    config: dict[str, str | None] = {"maxclients": "10000"}
    options: list[object] = []
    if first.tls:
        config |= _certificate(scratch)
        options += ["--tls", "--insecure"]
    if first.file:
        # A file that is rewritten meanwhile would cost a fork, and what its child takes.
        config |= {"appendonly": "yes", "appendfsync": "everysec"}
        config |= {"auto-aof-rewrite-percentage": "0"}
    held = Conditions(command="get", keys=first.keys, value_bytes=first.value_bytes, clients=20)
    kind = _Encrypted if first.tls else EngineProcess
    besides: tuple[int, ...] = ()
    with ExitStack() as stack:
        process = stack.enter_context(kind(engine.server, cores=[cpus[0]], config=config))
        preload(held, process.address("unix"), control=process.control(), cores=[cpus[1]])
        if first.replica:
            replica = stack.enter_context(EngineProcess(engine.server, cores=[cpus[1]]))
            follow(replica, process)
            besides = (replica.pid,)
        tool = Tool(program, cpus[1], process, besides=besides)
        for load in loads:
            words = ("-t", load.command, "-d", str(load.value_bytes))
            given = ("-c", load.clients, "-P", load.pipeline, "-r", load.keys, *options)
            # Connecting is no part of it: five milliseconds each are ample with TLS.
            settle_s = WARM_UP_S + load.clients * (5e-3 if load.tls else 1e-3)
            windows = partial(tool.windows, words, *given, number=WINDOWS, settle_s=settle_s)
            found, distances = settled(cpus, apart_ns, windows)
            yield {
                "engine": engine.id,
                **asdict(load),
                "apart_ns": distances,
                "cpu_us": [round(window.cpu_us, 3) for window in found],
                "throughput_rps": [round(window.rps, 1) for window in found],
            }


def _certificate(folder: Path) -> dict[str, str | None]:
    """Options of a server with a certificate of its own, ECDSA with P-256."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += ["-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "30"]
    subprocess.run([*words, "-subj", "/CN=localhost"], check=True, capture_output=True)
    return {
        "tls-cert-file": str(certificate),
        "tls-key-file": str(key),
        "tls-auth-clients": "no",
    }


def follow(replica: EngineProcess, primary: EngineProcess) -> None:
    """Make a server a replica, and wait until it has what the primary has."""
    control = replica.control()
    control.command("REPLICAOF", "127.0.0.1", primary.port)
    end_s = time.monotonic() + _SYNC_S
    while "master_link_status:up" not in control.info("replication"):
        if time.monotonic() > end_s:
            raise EngineError(f"{replica.binary}: no replica after {_SYNC_S:g} s.")
        time.sleep(0.1)


def predict(asked: Asked) -> Files:
    """Predict what was measured, with shipped engines on each host."""
    hosts = []
    for folder in sorted(path.parent for path in FOLDER.glob("*/measured.json")):
        host = load_host(str(folder / rounds.HOST_FILE))
        rows = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
        measured = len(rows)
        rows = [row for row in rows if unmoved(row["apart_ns"], host)]
        cases = []
        for row in rows:
            engine = rounds.shipped(row["engine"])
            workload = {
                **{name: row[name] for name in ("command", "value_bytes", "clients", "pipeline")},
                "keys": _load_of(row).keys,
                "key_bytes": 16,
            }
            case = case_of_load(
                engine,
                workload,
                tls=row["tls"],
                replicas=int(row["replica"]),
                persistence={"aof": "everysec"} if row["file"] else "none",
            )
            cases.append((case, System(host, engine, load_generator(TOOL))))
        asked.progress(f"{folder}: predicting {len(cases)} loads")
        points = []
        for row, prediction in zip(rows, predict_cases(cases, draws=rounds.DRAWS), strict=True):
            cpu = prediction.interval(SERVER_CPU, level=rounds.LEVEL)
            rps = prediction.nominal[0].result.throughput_rps
            said = {"predicted_us": cpu.value, "low_us": cpu.low, "high_us": cpu.high}
            points.append({**row, **said, "predicted_rps": rps})
        date = "" if host.captured is None else str(host.captured.date)[:10]
        of = {"id": folder.name, "title": host.title, "date": date}
        hosts.append({**of, "moved": measured - len(rows), "points": points})
    return {ARTEFACT: json_text(hosts)}


def _load_of(row: dict[str, Any]) -> Load:
    return Load(**{name: row[name] for name in Load.__dataclass_fields__})


_ABOUT = {
    "connections": "By connections, against 50 of them",
    "sizes": "By size of the value, against 1,000 B",
    "writes": "What an append-only file (`everysec`) and a replica add, against neither",
}


def section() -> list[str]:
    """Of the page."""
    hosts = json.loads(ARTEFACT.read_text(encoding="utf-8"))
    text = [
        "## What else a request pays for",
        "",
        "CPU time of a request by the number of connections, with and without TLS, by size of the"
        " value, and what an append-only file and a replica add to a SET. Engines with one thread,"
        " one thread of valkey-benchmark on the other CPU, 20 clients where nothing else is said;"
        " shipped engines on the host as profiled then. Nothing is fitted to it, but what the model"
        " has of values of 20 KiB and more was found with loads of redis-7.0.15 and valkey-9.1.2"
        " like these, on this host"
        " ([models.md](models.md#what-was-decided-with-the-results-in-view)); the other two engines"
        " were measured after that. *Ratio* is the cost over that of the load"
        " that it is set against. `make evidence STUDY=additions`.",
    ]
    for host in hosts:
        text += ["", f"### {host['title']}, {host['date']}"]
        if host["moved"]:
            text += [
                "",
                "Loads left out because the hypervisor had moved the CPUs since the profile:"
                f" {host['moved']}.",
            ]
        costs = {(row["engine"], _load_of(row)): row for row in host["points"]}
        for about, title in _ABOUT.items():
            here = {key: row for key, row in costs.items() if key[1].about == about}
            text += ["", f"{title}:", "", *_table(here)]
    return text


def _table(rows: dict[tuple[str, Load], dict[str, Any]]) -> list[str]:
    body, ratios, errors = [], [], []
    for (engine, load), row in rows.items():
        measured = float(np.median(row["cpu_us"]))
        errors.append(abs(row["predicted_us"] / measured - 1.0))
        ratio = ""
        other = rows.get((engine, load.compared_with))
        if other is not None and load != load.compared_with:
            found = measured / float(np.median(other["cpu_us"]))
            said = row["predicted_us"] / other["predicted_us"]
            ratio = f"{found:.2f}, {said:.2f}"
            ratios.append(abs(said / found - 1.0))
        besides = [word for word in ("tls", "file", "replica") if getattr(load, word)]
        body.append(
            (
                engine,
                load.command.upper(),
                f"{load.value_bytes:,}",
                f"{load.clients:,}",
                str(load.pipeline),
                ", ".join(besides),
                f"{measured:.2f}",
                f"{row['predicted_us']:.2f} ({row['low_us']:.2f}–{row['high_us']:.2f})",
                ratio,
            )
        )
    header = (
        *("engine", "", ">bytes", ">clients", ">pipeline", "with"),
        *(">us, measured", ">predicted (95%)", ">ratio"),
    )
    within = float(np.mean(np.array(ratios) <= 0.10))
    return [
        *table(header, body),
        "",
        f"Median error {np.median(errors):.1%}, of the ratio {np.median(ratios):.1%};"
        f" {within:.0%} of the ratios are within 10%.",
    ]
