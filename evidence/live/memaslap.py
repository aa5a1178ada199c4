"""Memcached driven by memaslap, which the project did not write, at random points, and predicted.

`measure` needs the committed bundle of Memcached to be from this host: it predicts with that
bundle's host and the profile fitted to it. memaslap (Debian's libmemcached-tools) makes up its keys
and stores them itself before it gets them. Where it sets as well, it either never writes a key
twice or, as here, has each client write one key only. What it takes is measured at points of its
own, which are not scored.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Command, Conditions
from forecache.calibration.drive.proc import thread_usage
from forecache.calibration.drive.servers import MemcachedClient, MemcachedProcess
from forecache.hwprofiles.capture import capture_host
from forecache.models.engines.generator import GeneratorProfile, load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import SERVER_CPU, predict_cases
from forecache.models.prediction.system import System
from forecache.sim.errors import EngineError, InputError

from ..counts.shipped import BUNDLES, json_text
from ..harness import Asked, Files
from ..markdown import table
from . import rounds
from .load import process_cpu_ns
from .rounds import DRAWS, MOST_BYTES, REQUESTS, log_uniform, span

ARTEFACT = Path("docs/accuracy/memaslap.json")
BUNDLE = BUNDLES / "memcached-1.6"
VERSION = "1.6.38"
POINTS = 40
ROUNDS = 2
WINDOWS, WINDOW_S = 3, 0.5
MOST_KEYS = 200_000
"""memaslap stores its keys one by one."""
VALUE_BYTES, CLIENTS = (8, 4096), (1, 150)
"""Ranges that points are drawn from."""

TOOL_POINTS = tuple(
    Conditions(command="get", clients=clients, keys=1024 * clients, value_bytes=64)
    for clients in (1, 10, 50, 150)
)
"""Where memaslap's CPU time is measured."""

_WINDOW_KEYS = 1024
"""memaslap's windows of keys, one a client, are multiples of this."""
_FILL_LIMIT_S = 60.0
_SETTLES_S = 0.3
_LONGEST = "120s"


@dataclass(frozen=True)
class Driven:
    """One point: CPU time of the server's thread and of the tool, a request, by window."""

    point: dict[str, Any]
    cpu_us: tuple[float, ...]
    tool_cpu_us: tuple[float, ...]
    throughput_rps: tuple[float, ...]


def random_points(seed: int) -> list[Conditions]:
    """GET, SET or both; sizes of values and numbers of clients are uniform in the logarithm.

    GETs have 1,024 keys a client or more, SETs one.
    """
    random = np.random.default_rng(seed)
    points = []
    for _ in range(POINTS):
        value_bytes = log_uniform(random, *VALUE_BYTES)
        clients = log_uniform(random, *CLIENTS)
        most = min(MOST_KEYS, MOST_BYTES // value_bytes) / (clients * _WINDOW_KEYS)
        windows = round(max(1.0, most) ** random.random())
        command: Command = ("get", "set", "mix")[int(3 * random.random())]
        points.append(
            Conditions(
                command=command,
                keys=clients * (windows * _WINDOW_KEYS if command == "get" else 1),
                value_bytes=value_bytes,
                clients=clients,
                role="holdout",
            )
        )
    return points


def measure(asked: Asked) -> Files:
    """Drive Memcached; `SEED` and `ENGINES` of the environment are as in the study generations."""
    seed = rounds.seed()
    points = random_points(seed)
    with rounds.engines_at_hand() as (_, engines):
        server = rounds.engine_of(engines, f"memcached-{VERSION}")
        # As Debian calls it; libmemcached has no server.
        tool = next(server.folder.parent.glob("libmemcached-*/memcaslap"), None)
        if tool is None:
            raise InputError(
                f"ENGINES: found no memcaslap in {server.folder.parent}; valid is a folder that"
                " `python -m evidence.live.engines FOLDER` has filled."
            )
        here, bundle = (
            capture_host(progress=asked.progress),
            rounds.host_of(BUNDLE, Bundle.load(BUNDLE)),
        )
        if here.id != bundle.id:
            raise InputError(
                f"{BUNDLE}: found a bundle of {bundle.id}, and this host is {here.id}; valid is a"
                " bundle that `make evidence STUDY=observations ONLY=memcached` made here."
            )
        asked.progress("what memaslap takes")
        tool_points = _in_rounds(server.server, tool, TOOL_POINTS)
        asked.progress("random points")
        driven = _in_rounds(server.server, tool, points)
    data = {"seed": seed, "version": VERSION, "tool": "memaslap 1.0"}
    data |= {"tool_points": [asdict(d) for d in tool_points], "points": [asdict(d) for d in driven]}
    return predicted(data)


def _in_rounds(server: Path, tool: Path, points: Sequence[Conditions]) -> list[Driven]:
    """Each point once in every round."""
    rounds = [_driven(server, tool, points) for _ in range(ROUNDS)]
    return [_joined(parts) for parts in zip(*rounds, strict=True)]


def _joined(parts: Sequence[Driven]) -> Driven:
    return Driven(
        parts[0].point,
        tuple(us for part in parts for us in part.cpu_us),
        tuple(us for part in parts for us in part.tool_cpu_us),
        tuple(rps for part in parts for rps in part.throughput_rps),
    )


def _driven(server: Path, tool: Path, points: Sequence[Conditions]) -> list[Driven]:
    """Each point once, on a server of its own on the first core; memaslap has the last."""
    cores = sorted(os.sched_getaffinity(0))
    found = []
    for point in points:
        with MemcachedProcess(server, cores={cores[0]}) as process:
            control = process.control()
            with _running(tool, point, process, {cores[-1]}) as pid:
                _wait_until_filled(control, point)
                found.append(_windows(point, process, control, pid))
    return found


@contextmanager
def _running(
    tool: Path, point: Conditions, process: MemcachedProcess, cores: set[int]
) -> Iterator[int]:
    """memaslap at work; its process's number."""
    with tempfile.TemporaryDirectory(prefix="memaslap-") as folder:
        config = Path(folder) / "config"
        size = int(point.value_bytes)
        config.write_text(
            # Sizes have a share each; command 0 is SET, 1 is GET.
            f"key\n{point.key_bytes} {point.key_bytes} 1\nvalue\n{size} {size} 1\n"
            f"cmd\n0 {1.0 - point.get_fraction:g}\n1 {point.get_fraction:g}\n"
        )
        # With SETs it overwrites one key a client (-o 1), whatever its window.
        window = max(1, point.keys // point.clients // _WINDOW_KEYS)
        command = [tool, "-s", f"127.0.0.1:{process.port}", "-F", config, "-T", "1", "-o", "1"]
        command += ["-c", str(point.clients), "-w", f"{window}k", "-t", _LONGEST]
        running = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        try:
            yield running.pid
        finally:
            running.kill()
            running.wait()


def _wait_until_filled(control: MemcachedClient, point: Conditions) -> None:
    """Until all keys are there and requests are of the kind that the point says."""
    until_s = time.monotonic() + _FILL_LIMIT_S
    while time.monotonic() < until_s:
        if control.keys_held() >= point.keys:
            time.sleep(_SETTLES_S)
            return
        time.sleep(0.02)
    raise EngineError(f"memaslap did not store {point.keys} keys: {control.keys_held()} are there.")


def _windows(
    point: Conditions, process: MemcachedProcess, control: MemcachedClient, tool_pid: int
) -> Driven:
    worker = next(thread.tid for thread in process.threads() if thread.role == "main")

    def look() -> tuple[float, int, int, int]:
        stats = control.stats()
        return (
            time.monotonic(),
            int(stats["cmd_get"]) + int(stats["cmd_set"]),
            thread_usage(process.pid, worker).cpu_ns,
            process_cpu_ns(tool_pid),
        )

    rows = []
    for _ in range(WINDOWS):
        before = look()
        time.sleep(WINDOW_S)
        rows.append([b - a for a, b in zip(before, look(), strict=True)])
    return Driven(
        point.model_dump(mode="json", exclude_defaults=True),
        tuple(cpu_ns / requests / 1e3 for _, requests, cpu_ns, _ in rows),
        tuple(cpu_ns / requests / 1e3 for _, requests, _, cpu_ns in rows),
        tuple(requests / seconds for seconds, requests, _, _ in rows),
    )


def predict(_asked: Asked) -> Files:
    """What was measured last, predicted again."""
    return predicted(json.loads(ARTEFACT.read_text(encoding="utf-8")))


def predicted(data: dict[str, Any]) -> Files:
    """The artefact: what was measured, with predictions of it."""
    host = rounds.host_of(BUNDLE, Bundle.load(BUNDLE))
    engine = load_engine("memcached", data["version"])
    tool = _memaslap(System(host, engine, load_generator("redis-benchmark")), data["tool_points"])
    system = System(host, engine, tool)
    points = [Conditions.model_validate(row["point"]) for row in data["points"]]
    cases = [rounds.case_of(point, system) for point in points]
    predictions = predict_cases(cases, draws=DRAWS, replications=2, requests=REQUESTS)
    rows = []
    for row, point, prediction in zip(data["points"], points, predictions, strict=True):
        cpu = prediction.interval(SERVER_CPU, level=rounds.LEVEL)
        rate = prediction.nominal[0].result.throughput_rps
        said = {"label": point.label(), "predicted_us": cpu.value, "predicted_rps": rate}
        rows.append({**row, **said, "low_us": cpu.low, "high_us": cpu.high})
    return {ARTEFACT: json_text({**data, "host": host.title, "points": rows})}


def _memaslap(system: System, tool_points: Sequence[dict[str, Any]]) -> GeneratorProfile:
    """redis-benchmark's profile with the instructions per batch that give memaslap's CPU time.

    memaslap waits for replies only and leaves epoll's list alone: valgrind counts one epoll_wait a
    request with one client, and 80 calls of epoll_ctl in 40,000 requests with 20.
    """
    base = system.generator
    points = [Conditions.model_validate(row["point"]) for row in tool_points]
    measured = np.array([np.median(row["tool_cpu_us"]) for row in tool_points])

    def profile(batch_instructions: float) -> GeneratorProfile:
        changed = {
            "batch_instructions": batch_instructions,
            "poll_rounds": 1.0,
            "epoll_changes": 0.0,
        }
        work = {
            name: leaf.model_copy(update={"value": changed[name], "low": None, "high": None})
            if name in changed
            else leaf
            for name, leaf in base.work.items()
        }
        return base.model_copy(update={"id": "memaslap", "title": "memaslap", "work": work})

    def cpu_us(tool: GeneratorProfile) -> np.ndarray:
        on = System(system.host, system.engine, tool)
        cases = [rounds.case_of(point, on) for point in points]
        predictions = predict_cases(cases, draws=0, replications=2, requests=REQUESTS)
        return np.array([p.nominal[0].result.generator_cpu_us_per_request for p in predictions])

    # CPU time is nearly linear in the instructions.
    many = 20_000.0
    at_none, at_many = cpu_us(profile(0.0)), cpu_us(profile(many))
    share = float(np.median((measured - at_none) / (at_many - at_none)))
    return profile(max(0.0, share * many))


def section() -> list[str]:
    """Its part of docs/generations.md."""
    data = json.loads(ARTEFACT.read_text(encoding="utf-8"))
    rows = data["points"]
    body = []
    for name in ("get", "set", "mix", "all"):
        chosen = [row for row in rows if name in ("all", row["point"]["command"])]
        body.append([name, len(chosen), *rounds.error_cells(chosen)])
    header = ["requests", ">points", *rounds.ERRORS_HEADER]
    return [
        "## Memcached",
        "",
        f"Memcached {data['version']}, one thread, driven by memaslap (Debian's libmemcached-tools)"
        f" at {len(rows)} random points: {span(CLIENTS)} clients, values of {span(VALUE_BYTES)} B,"
        f" GETs of {_WINDOW_KEYS:,} to {MOST_KEYS:,} keys, SETs of one key a client, {ROUNDS}"
        f" rounds of {WINDOWS} windows of {WINDOW_S:g} s. Host: {data['host']}. The profile was"
        " fitted to observations with forecache's own load generator on that host. memaslap's own"
        " CPU time was measured at other points, and once more after a first comparison had shown"
        " that something disturbed one of them, so this is no blind result"
        " ([models.md](models.md#what-was-decided-with-the-results-in-view)).",
        "",
        *table(header, body),
    ]
