"""Commands that measure with a benchmark tool what was predicted."""

from __future__ import annotations

import math
from pathlib import Path

from ..engines.profile import EngineProfile
from ..scenario.schema import Scenario
from ..scenario.workload import Arrivals, UniformSizes, Workload, Zipf

BENCHMARK_REQUESTS = 20_000_000
BENCHMARK_SECONDS = 60

VALKEY_BENCHMARK_KEY_BYTES = 16
"""`key:` and twelve digits; redis-benchmark's are the same."""

_SAME_RATE = 0.01
"""A rate that differs less is the scenario's."""


def benchmark_command(scenario: Scenario, engine: EngineProfile | None = None) -> str:
    """Commands that measure what was predicted: one to fill the server, one to drive it.

    They are to be run where the load generator is. What a tool can't do (think time, hot sets,
    Poisson arrivals: its own rate limit is used) is left to the reader; `benchmark_note` says what
    else differs. For commands beyond GET and SET, or a rate that changes, there is no such line.

    Parameters
    ----------
    engine
        Who is to be driven; one of the Redis family if left out.
    """
    memcached = _is_memcached(engine)
    workload = scenario.workload
    if no_benchmark_command(scenario):
        return ""
    threads = scenario.generator_threads
    if _is_plain(scenario, memcached=memcached):
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
    per_thread = _each_thread(scenario)
    where = (
        "-S SOCKET"
        if scenario.transport == "unix_socket"
        else f"-s HOST -p {11211 if memcached else 6379}"
    )
    where += " --protocol=memcache_text" if memcached else ""
    where += " --tls --tls-skip-verify" if scenario.tls is not None else ""
    common = (
        f"memtier_benchmark {where} -t {threads} -c {per_thread} {_memtier_sizes(workload)} "
        f"{_memtier_keys(workload)} --hide-histogram"
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
        drive += f" --rate-limiting={_each_connection_rps(scenario, workload.rate_rps)}"
    if workload.get_fraction == 0.0:
        return drive
    fill = f"{common} --pipeline 16 --ratio 1:0 --key-pattern=P:P --requests=allkeys"
    return f"{fill}\n{drive}"


def benchmark_note(scenario: Scenario, engine: EngineProfile | None = None) -> str:
    """How `benchmark_command` differs from the scenario, in sentences; empty if it does not.

    Parameters
    ----------
    engine
        As in `benchmark_command`.
    """
    workload = scenario.workload
    if no_benchmark_command(scenario):
        return ""
    memtier = not _is_plain(scenario, memcached=_is_memcached(engine))
    found = []
    if memtier:
        threads, each = scenario.generator_threads, _each_thread(scenario)
        if threads * each != workload.clients:
            found.append(
                f"It opens {threads * each} connections, as many on each of {threads} threads; "
                f"the scenario has {workload.clients}."
            )
        if workload.rate_rps is not None:
            asked_rps = threads * each * _each_connection_rps(scenario, workload.rate_rps)
            if abs(asked_rps - workload.rate_rps) > _SAME_RATE * workload.rate_rps:
                found.append(
                    f"It sends {asked_rps} requests/s, as the rate of a connection is a whole "
                    f"number; the scenario has {workload.rate_rps:g}."
                )
    key_bytes = _memtier_key_bytes(workload) if memtier else VALKEY_BENCHMARK_KEY_BYTES
    if key_bytes != workload.key_bytes:
        found.append(f"Its keys have {key_bytes} bytes, the scenario’s {workload.key_bytes:g}.")
    return " ".join(found)


def _is_memcached(engine: EngineProfile | None) -> bool:
    return engine is not None and engine.engine == "memcached"


def _is_plain(scenario: Scenario, *, memcached: bool) -> bool:
    """Whether valkey-benchmark can do it."""
    workload = scenario.workload
    return (
        isinstance(workload.value_bytes, int)
        and workload.popularity == "uniform"
        and not memcached
        and not Path(scenario.load_generator.tool).name.startswith("memtier")
        and workload.get_fraction in (0.0, 1.0)
        and workload.rate_rps is None
    )


def _each_thread(scenario: Scenario) -> int:
    """Connections of each of memtier's threads: the same number for all."""
    return max(1, round(scenario.workload.clients / scenario.generator_threads))


def _each_connection_rps(scenario: Scenario, rate_rps: float) -> int:
    """What memtier limits each connection to, a whole number."""
    return max(1, round(rate_rps / (scenario.generator_threads * _each_thread(scenario))))


def _memtier_keys(workload: Workload) -> str:
    """Options for the keys, all of the scenario's size where there is room for their numbers.

    memtier writes numbers without leading zeros, so all have as many digits.
    """
    lowest = 10 ** (_digits(workload.keys) - 1)
    highest = lowest + workload.keys - 1
    length = _memtier_key_bytes(workload) - _digits(workload.keys)
    prefix = "key:".ljust(length, "0")[:length]
    return f"--key-prefix={prefix} --key-minimum={lowest} --key-maximum={highest}"


def _memtier_key_bytes(workload: Workload) -> int:
    """Bytes of prefix and number; a prefix has at least one."""
    return max(workload.whole_key_bytes, 1 + _digits(workload.keys))


def _digits(keys: int) -> int:
    """The fewest digits with which so many numbers of the same length exist."""
    digits = 1
    while 9 * 10 ** (digits - 1) < keys:
        digits += 1
    return digits


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
