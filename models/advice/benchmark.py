"""Commands that measure with a benchmark tool what was predicted."""

from __future__ import annotations

import math
from pathlib import Path

from ..engines.profile import EngineProfile
from ..scenario.arrivals import Arrivals
from ..scenario.schema import Scenario
from ..scenario.workload import UniformSizes, Workload, Zipf

BENCHMARK_REQUESTS = 20_000_000
BENCHMARK_SECONDS = 60


def benchmark_command(scenario: Scenario, engine: EngineProfile | None = None) -> str:
    """Commands that measure what was predicted: one to fill the server, one to drive it.

    They are to be run where the load generator is. What a tool can't do (think time, hot sets,
    Poisson arrivals: its own rate limit is used) is left to the reader. For commands beyond GET
    and SET, or a rate that changes, there is no such line.

    Parameters
    ----------
    engine
        Who is to be driven; one of the Redis family if left out.
    """
    memcached = engine is not None and engine.engine == "memcached"
    workload = scenario.workload
    if no_benchmark_command(scenario):
        return ""
    threads = scenario.generator_threads
    plain = isinstance(workload.value_bytes, int) and workload.popularity == "uniform"
    plain = plain and not memcached and not _is_memtier(scenario.load_generator.tool)
    if plain and workload.get_fraction in (0.0, 1.0) and workload.rate_rps is None:
        where = "-s SOCKET" if scenario.transport == "unix_socket" else "-h HOST -p 6379"
        where += " --tls --insecure" if scenario.tls is not None else ""
        load = (
            f"valkey-benchmark {where} --threads {threads} -c {workload.clients} "
            f"-P {workload.pipeline} -d {workload.value_bytes} -r {workload.keys}"
        )
        drive = f"{load} -n {BENCHMARK_REQUESTS} -t "
        if workload.get_fraction == 0.0:
            return drive + "set"
        # Random keys: three times as many SETs as keys leave one in twenty unset.
        return f"{load} -n {3 * workload.keys} -t set -q\n{drive}get"
    per_thread = max(1, round(workload.clients / threads))
    where = (
        "-S SOCKET"
        if scenario.transport == "unix_socket"
        else f"-s HOST -p {11211 if memcached else 6379}"
    )
    where += " --protocol=memcache_text" if memcached else ""
    where += " --tls --tls-skip-verify" if scenario.tls is not None else ""
    common = (
        f"memtier_benchmark {where} -t {threads} -c {per_thread} {_memtier_sizes(workload)} "
        f"--key-prefix=key: --key-minimum=1 --key-maximum={workload.keys} --hide-histogram"
    )
    pattern = "R:R"
    if isinstance(workload.popularity, Zipf):
        pattern = f"Z:Z --key-zipf-exp={workload.popularity.zipf:g}"
    sets = round((1 - workload.get_fraction) * 100)
    divisor = math.gcd(sets, 100 - sets)
    drive = (
        f"{common} --pipeline {workload.pipeline} "
        f"--ratio {sets // divisor}:{(100 - sets) // divisor} --key-pattern={pattern} "
        f"--test-time={BENCHMARK_SECONDS}"
    )
    if workload.rate_rps is not None:
        each = round(workload.rate_rps / (threads * per_thread))
        drive += f" --rate-limiting={max(1, each)}"
    if workload.get_fraction == 0.0:
        return drive
    fill = f"{common} --pipeline 16 --ratio 1:0 --key-pattern=P:P --requests=allkeys"
    return f"{fill}\n{drive}"


def _is_memtier(tool: str) -> bool:
    """By its name, or that of a file about it."""
    return Path(tool).name.startswith("memtier")


def no_benchmark_command(scenario: Scenario) -> str:
    """Why there is no command that measures what was predicted; empty where there is one."""
    workload = scenario.workload
    if workload.varying != Arrivals():
        return "No benchmark tool can send requests at a rate that changes like this one."
    others = [name.upper() for name in workload.commands if name not in ("get", "set")]
    if others:
        return (
            f"No benchmark command for {', '.join(others)}: the built-in loads of benchmark tools "
            "are GET and SET. memtier_benchmark sends others with --command, on data that you have "
            "to load first."
        )
    return ""


def _memtier_sizes(workload: Workload) -> str:
    value = workload.value_bytes
    if isinstance(value, int):
        return f"-d {max(1, value)}"
    if isinstance(value, UniformSizes):
        return f"--data-size-range={max(1, value.low)}-{max(1, value.high)}"
    smallest = min(value.weights)
    listed = zip(value.values, value.weights, strict=True)
    return "--data-size-list=" + ",".join(
        f"{max(1, size)}:{round(weight / smallest)}" for size, weight in listed
    )
