"""CPU quotas, measured on the machine at hand and predicted for it.

Throughput and latency of an engine in a control group with a quota of CPU time, against the same
without one. A single thread has one of the machine's two cores and the load generator the other;
two threads share both cores with the load generator. The study says how what was measured is
predicted. Nothing is fitted. Making control groups takes root.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.loadgen import preload
from forecache.calibration.drive.proc import core_times_ns
from forecache.calibration.drive.servers import EngineProcess, engine_version, find_engine
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.files import read_text
from forecache.models.advice.answers import load_cases
from forecache.models.prediction.predict import predict_cases
from forecache.sim.errors import InputError

from ..harness import Asked, Files
from ..markdown import table, with_section
from .crowded import own_load
from .load import process_cpu_ns, run_load

FOLDER = Path("docs/accuracy/quotas")
ARTEFACT, HOST = FOLDER / "quotas.json", FOLDER / "host.yaml"
PAGE = Path("docs/models.md")
IO_THREADS = {"redis-server": 1, "valkey-server": 2}
"""Of each engine that is measured."""
CLIENTS, KEYS, VALUE_BYTES = 400, 100_000, 64
PERIOD_MS = 100
QUOTAS: dict[int, tuple[float, ...]] = {1: (0.0, 0.25, 0.5, 0.8), 2: (0.0, 0.5, 1.0)}
"""By io-threads; 0 stands for none."""
ROUNDS, WINDOW_S, WARM_UP_S = 3, 3.0, 0.5
MOST_OTHERS_CORES = 0.1
"""Rounds in which other programs took more than that don't count, if there are any left."""

_V1, _V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Seen:
    """What was measured under one quota."""

    throughput_rps: float
    p50_ms: float
    p99_ms: float
    throttled_periods: float
    """Share of the periods; 0 without a quota."""
    others_cores: float = 0.0
    """CPU time that other programs took meanwhile on the machine's CPUs."""


@contextlib.contextmanager
def control_group(quota_cores: float) -> Iterator[Path]:
    """A control group with a quota, for as long as the context lasts; processes in it must end.

    Raises
    ------
    InputError
        None can be made here.
    """
    first = (_V1 / "cpu.cfs_quota_us").exists()
    group = (_V1 if first else _V2) / f"forecache-{os.getpid()}"
    quota_us, period_us = round(quota_cores * PERIOD_MS * 1000), PERIOD_MS * 1000
    try:
        group.mkdir()
    except OSError as error:
        raise InputError(f"quotas: no control group can be made here: {error}.") from None
    try:
        if first:
            (group / "cpu.cfs_period_us").write_text(str(period_us))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (group / "cpu.max").write_text(f"{quota_us} {period_us}")
        yield group
    except OSError as error:
        raise InputError(f"quotas: no quota can be set here: {error}.") from None
    finally:
        group.rmdir()


def _periods(group: Path) -> tuple[int, int]:
    """Periods of a group with something to run, and those in which it was throttled."""
    counts = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(counts["nr_periods"]), int(counts["nr_throttled"])


def measure(binary: Path, *, io_threads: int, quota_cores: float, window_s: float) -> Seen:
    """One engine under one quota.

    Raises
    ------
    InputError
        The machine has other than two CPUs, or no quota can be set.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) != 2:
        raise InputError(f"quotas: found {len(allowed)} CPUs; valid is a machine of two.")
    given = Conditions(command="get", keys=KEYS, value_bytes=VALUE_BYTES, clients=CLIENTS)
    server, generator = (allowed[:1], allowed[1:]) if io_threads == 1 else (allowed, allowed)
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(control_group(quota_cores)) if quota_cores else None
        process = stack.enter_context(EngineProcess(binary, io_threads=io_threads, cores=server))
        address = process.address("tcp")
        preload(given, address, control=process.control(), cores=generator)
        before = (0, 0)
        # Of all CPU time of the machine what isn't ours.
        others_ns, began_ns = _others_ns(process.pid, allowed), time.monotonic_ns()
        if group is not None:
            (group / "cgroup.procs").write_text(str(process.pid))
            before = _periods(group)
        seen = run_load(given, address, duration_s=window_s, warm_up_s=WARM_UP_S, cores=generator)
        after = _periods(group) if group is not None else (1, 0)
        others_ns = _others_ns(process.pid, allowed) - others_ns
        others = max(0.0, others_ns / (time.monotonic_ns() - began_ns))
    return Seen(
        seen.throughput_rps,
        seen.p50_ms or 0.0,
        seen.p99_ms or 0.0,
        (after[1] - before[1]) / max(1, after[0] - before[0]),
        others,
    )


def _others_ns(pid: int, cpus: Sequence[int]) -> int:
    """CPU time that others than a process and this one have taken on some CPUs since they began."""
    total_ns, _, idle_ns = core_times_ns(frozenset(cpus))
    return total_ns - idle_ns - process_cpu_ns(pid) - time.process_time_ns()


def scenario(
    engine: str, version: str, host: str, *, io_threads: int, quota_cores: float
) -> dict[str, Any]:
    """What is measured, as a scenario."""
    return {
        "host": host,
        "engine": engine,
        "engine_version": version,
        "io_threads": io_threads,
        "cores": io_threads,
        **({"cpu_quota_cores": quota_cores} if quota_cores else {}),
        "cpu_quota_period_ms": PERIOD_MS,
        **own_load(clients=CLIENTS, keys=KEYS, value_bytes=VALUE_BYTES),
    }


def predicted(engine: str, version: str, host: str, *, io_threads: int, quota_cores: float) -> Seen:
    """The same from the model, with the shipped engine on the captured host."""
    data = scenario(engine, version, host, io_threads=io_threads, quota_cores=quota_cores)
    [found] = predict_cases(load_cases(data), draws=0)
    return Seen(
        found.mean("throughput_rps"),
        found.mean("p50_ms"),
        found.mean("p99_ms"),
        found.throttled_periods,
    )


def typical(rounds: Sequence[Seen]) -> Seen:
    """The median of the rounds in which other programs left the machine alone, if there are any."""
    least = min(seen.others_cores for seen in rounds)
    quiet = [seen for seen in rounds if seen.others_cores <= max(least, MOST_OTHERS_CORES)]
    return sorted(quiet, key=lambda seen: seen.throughput_rps)[len(quiet) // 2]


def artefact(asked: Asked) -> Files:
    """Every engine under every quota, measured and predicted; says both."""
    FOLDER.mkdir(exist_ok=True)
    HOST.write_text(capture_host(progress=asked.progress).to_yaml())
    rows = []
    for name in asked.engines(IO_THREADS):
        io_threads = IO_THREADS.get(name, 1)
        binary = find_engine(name)
        engine, full = engine_version(binary)
        found = _measured(binary, io_threads, asked.progress)
        rows += [
            {
                "engine": engine,
                "version": full,
                "io_threads": io_threads,
                "quota_cores": quota,
                "measured": asdict(seen),
            }
            for quota, seen in found.items()
        ]
    return _predicted_rows(rows, asked)


def predict(asked: Asked) -> Files:
    """What was measured last, predicted anew.

    Raises
    ------
    InputError
        Nothing was.
    """
    return _predicted_rows(json.loads(read_text(ARTEFACT)), asked)


def _predicted_rows(rows: Sequence[Mapping[str, Any]], asked: Asked) -> Files:
    found = []
    for row in rows:
        version = ".".join(row["version"].split(".")[:2])
        of = {name: row[name] for name in ("io_threads", "quota_cores")}
        says = predicted(row["engine"], version, str(HOST), **of)
        asked.progress(
            f"{row['engine']} {row['version']}, quota {row['quota_cores'] or 'none'}: "
            f"{row['measured']['throughput_rps']:,.0f}/s, predicted {says.throughput_rps:,.0f}"
        )
        found.append({**row, "predicted": asdict(says)})
    return {ARTEFACT: json.dumps(found, indent=1) + "\n"}


def pages() -> Files:
    """The table of `docs/models.md`."""
    return {PAGE: with_section(PAGE, "quotas", lines())}


def lines() -> list[str]:
    """Throughput and p99 under each quota, measured and predicted."""
    if not ARTEFACT.is_file():
        return ["Of what the study measures nothing is committed yet."]
    rows = json.loads(read_text(ARTEFACT))
    without = {row["engine"]: row for row in rows if not row["quota_cores"]}
    found = []
    for row in rows:
        measured, says = row["measured"], row["predicted"]
        rate, told = measured["throughput_rps"], says["throughput_rps"]
        alone = without[row["engine"]]
        engine = f"{row['engine'].title()} {row['version']}, `io-threads {row['io_threads']}`"
        found.append(
            (
                engine,
                f"{row['quota_cores']:g}" if row["quota_cores"] else "none",
                f"{rate:,.0f} ({rate / alone['measured']['throughput_rps']:.0%})",
                f"{told:,.0f} ({told / alone['predicted']['throughput_rps']:.0%})",
                f"{told / rate - 1:+.0%}",
                f"{measured['p99_ms']:.3g} ms",
                f"{says['p99_ms']:.3g} ms",
            )
        )
    header = ("", ">quota, cores", ">measured", ">predicted", ">error", ">p99", ">predicted")
    return table(header, found)


def _measured(binary: Path, io_threads: int, say: Callable[[str], None]) -> dict[float, Seen]:
    """What is typical of several rounds, by quota; quotas take turns."""
    rounds: dict[float, list[Seen]] = {quota: [] for quota in QUOTAS[io_threads]}
    for number in range(ROUNDS):
        for quota, all_seen in rounds.items():
            seen = measure(binary, io_threads=io_threads, quota_cores=quota, window_s=WINDOW_S)
            all_seen.append(seen)
            say(
                f"round {number + 1}: quota {quota or 'none'}: {seen.throughput_rps:,.0f}/s, "
                f"others took {seen.others_cores:.2f} cores"
            )
    return {quota: typical(seen) for quota, seen in rounds.items()}
