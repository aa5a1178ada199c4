"""CPU quotas, measured on the machine at hand and predicted for it.

Throughput and latency of an engine in a control group with a quota of CPU time, against the same
without one. A single thread has one of the machine's two cores and the load generator the other;
two threads share both cores with the load generator. `python -m evidence.live.quotas` says
how what was measured is predicted. Nothing is fitted. Making control groups takes root.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecache.calibration.drive.engine_process import EngineProcess, engine_version, find_engine
from forecache.calibration.drive.loadgen import compile_load_generator, run_load
from forecache.calibration.drive.loadspec import LoadSpec
from forecache.calibration.drive.preload import preload
from forecache.calibration.drive.proc import core_times_ns, process_cpu_ns
from forecache.hwprofiles.capture import capture_host
from forecache.models.advice.answers import load_cases
from forecache.models.prediction.predict import predict_cases
from forecache.sim.errors import ForecacheError, InputError

from .crowded import own_load

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
    spec = LoadSpec(
        keys=KEYS, value_sizes=((VALUE_BYTES, 1.0),), get_fraction=1.0, clients=CLIENTS, threads=1
    )
    server, generator = (allowed[:1], allowed[1:]) if io_threads == 1 else (allowed, allowed)
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(control_group(quota_cores)) if quota_cores else None
        process = stack.enter_context(EngineProcess(binary, io_threads=io_threads, cores=server))
        address = process.address("tcp")
        preload(spec, address, control=process.control(), cores=generator)
        before = (0, 0)
        # Of all CPU time of the machine what isn't ours.
        others_ns, began_ns = _others_ns(process.pid, allowed), time.monotonic_ns()
        if group is not None:
            (group / "cgroup.procs").write_text(str(process.pid))
            before = _periods(group)
        seen = run_load(spec, address, duration_s=window_s, warm_up_s=WARM_UP_S, cores=generator)
        after = _periods(group) if group is not None else (1, 0)
        others_ns = _others_ns(process.pid, allowed) - others_ns
        others = max(0.0, others_ns / (time.monotonic_ns() - began_ns))
    return Seen(
        seen.throughput_rps,
        seen.quantile_ms(0.5),
        seen.quantile_ms(0.99),
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


def _line(name: str, seen: Seen, without: Seen) -> str:
    share = seen.throughput_rps / without.throughput_rps
    return (
        f"  {name:9} {seen.throughput_rps:9,.0f}/s ({share:4.0%} of that without a quota), "
        f"p50 {seen.p50_ms:6.2f} ms, p99 {seen.p99_ms:6.2f} ms, "
        f"stopped in {seen.throttled_periods:.0%} of the periods"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, then predict."""
    parser = argparse.ArgumentParser(prog="quotas", description=__doc__)
    parser.add_argument("--engine", default="redis-server", help="a command or a path")
    parser.add_argument("--io-threads", type=int, choices=sorted(QUOTAS), default=1)
    parser.add_argument("--host", type=Path, help="profile of this machine; captured if left out")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="of undisturbed ones the medians count"
    )
    parser.add_argument("--window", type=float, default=WINDOW_S, help="seconds of each")
    given = parser.parse_args(arguments)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        compile_load_generator(say)
        binary = find_engine(given.engine)
        engine, full = engine_version(binary)
        version = ".".join(full.split(".")[:2])
        quotas = QUOTAS[given.io_threads]
        rounds: dict[float, list[Seen]] = {quota: [] for quota in quotas}
        for number in range(given.rounds):
            for quota in quotas:
                seen = measure(
                    binary, io_threads=given.io_threads, quota_cores=quota, window_s=given.window
                )
                rounds[quota].append(seen)
                say(
                    f"round {number + 1}: quota {quota or 'none'}: {seen.throughput_rps:,.0f}/s, "
                    f"others took {seen.others_cores:.2f} cores"
                )
        found = {quota: typical(seen) for quota, seen in rounds.items()}
        _report(engine, version, full, _host(given.host, say), given.io_threads, found)
    except ForecacheError as error:
        say(f"error: {error}")
        return 1
    return 0


def typical(rounds: Sequence[Seen]) -> Seen:
    """The median of the rounds in which other programs left the machine alone, if there are any."""
    least = min(seen.others_cores for seen in rounds)
    quiet = [seen for seen in rounds if seen.others_cores <= max(least, MOST_OTHERS_CORES)]
    return sorted(quiet, key=lambda seen: seen.throughput_rps)[len(quiet) // 2]


def _host(given: Path | None, say: Callable[[str], None]) -> str:
    if given is not None:
        return str(given)
    path = Path("build") / "quotas-host.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(capture_host(progress=say).to_yaml())
    return str(path)


def _report(
    engine: str, version: str, full: str, host: str, io_threads: int, found: dict[float, Seen]
) -> None:
    print(f"{engine} {full}, io-threads {io_threads}")
    models = {
        quota: predicted(engine, version, host, io_threads=io_threads, quota_cores=quota)
        for quota in found
    }
    for quota, seen in found.items():
        print(f"quota {quota or 'none'}")
        print(_line("measured", seen, found[0.0]))
        print(_line("predicted", models[quota], models[0.0]), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
