"""redis-benchmark, valkey-benchmark and memtier_benchmark: run them, read what they print.

They are drivers for those who trust what they know. They say less than our own generator: no
window after a warm-up, no loops and reads, fewer quantiles.
"""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forecache.hwprofiles.files import read_text
from forecache.sim.errors import EngineError, InputError

from ..bundle.points import Conditions
from ..drive.connection import Address
from ..drive.loadgen import LoadResult
from ..drive.servers import child_setup
from .readers.benchmark import parse_benchmark, parse_memtier

TOOLS = ("valkey-benchmark", "redis-benchmark", "memtier_benchmark")
_LONGEST_S = 120.0
_STOP_S = 3.0
# memtier writes key numbers without leading zeros; from here on they have our twelve digits.
MEMTIER_FIRST_KEY = 10**11


def find_tool(name: str) -> Path:
    """Path of a benchmark tool on PATH, or `InputError`."""
    if Path(name).name not in TOOLS:
        raise InputError(f"tool: found {name!r}; valid is forecache, {', '.join(TOOLS)}.")
    found = shutil.which(name)
    if found is None:
        raise InputError(f"tool: {name} is not on PATH; valid is forecache or an installed tool.")
    return Path(found)


def why_unsupported(tool: Path, given: Conditions) -> str | None:
    """Why this tool can't make these conditions, or None when it can."""
    reasons = {
        "an open loop": given.arrival != "closed_loop",
        "think time": given.think_us > 0,
        "popularity other than uniform": given.popularity.kind != "uniform",
        "several value sizes": given.value_sizes is not None,
        "keys other than 16 bytes": given.key_bytes != 16,
        "more than one thread": given.generator_threads > 1,
        "a mix of GET and SET": given.command == "mix" and tool.name != "memtier_benchmark",
    }
    wanted = [reason for reason, holds in reasons.items() if holds]
    return f"{tool.name} can't do {', '.join(wanted)}" if wanted else None


def tool_command(
    tool: Path, given: Conditions, address: Address, *, requests: int, json_file: Path
) -> list[str]:
    """The command line that drives `given` for about `requests` requests."""
    unix = address.unix_path
    host = ["-s" if tool.name == "memtier_benchmark" else "-h", address.host, "-p"]
    where = [*host, str(address.port)]
    if tool.name == "memtier_benchmark":
        gets = round(given.get_fraction * 100)
        ratio = {100: "0:1", 0: "1:0"}.get(gets, f"{100 - gets}:{gets}")
        words = {
            "--protocol": "redis",
            "--threads": 1,
            "--clients": given.clients,
            "--pipeline": given.pipeline,
            "--data-size": int(given.value_bytes),
            "--ratio": ratio,
            "--key-prefix": "key:",
            "--key-minimum": MEMTIER_FIRST_KEY,
            "--key-maximum": MEMTIER_FIRST_KEY + given.keys - 1,
            "--key-pattern": "R:R",
            "--requests": max(requests // given.clients, given.pipeline),
            "--print-percentiles": "50,90,99,99.9",
            "--json-out-file": json_file,
        }
        where = (
            ["--unix-socket", str(unix)] if unix else ["-s", address.host, "-p", str(address.port)]
        )
        pairs = [str(word) for pair in words.items() for word in pair]
        return [str(tool), *where, *pairs, "--hide-histogram"]
    if unix is not None:
        where = ["-s", str(unix)]
    command = ["GET", "key:__rand_int__"]
    if given.command == "set":
        command = ["SET", "key:__rand_int__", "v" * int(given.value_bytes)]
    words = {"-c": given.clients, "-P": given.pipeline, "-n": requests, "-r": given.keys}
    pairs = [str(word) for pair in words.items() for word in pair]
    return [str(tool), *where, *pairs, "--csv", *command]


def run_tool(
    tool: Path,
    given: Conditions,
    address: Address,
    *,
    requests: int,
    cores: Collection[int] | None = None,
) -> LoadResult:
    """Run a tool once and read its report.

    Raises
    ------
    EngineError
        The tool fails, takes too long, or prints no result.
    """
    with tempfile.TemporaryDirectory(prefix="forecache-tool-") as folder:
        json_file = Path(folder) / "result.json"
        command = tool_command(tool, given, address, requests=requests, json_file=json_file)
        done = run_to_end(command, limit_s=_LONGEST_S, cores=cores)
        try:
            if tool.name == "memtier_benchmark":
                result = parse_memtier_json(read_text(json_file), source=tool.name)
            else:
                result = parse_benchmark_csv(done.stdout, requests=requests, source=tool.name)
        except InputError as error:
            raise EngineError(f"{tool.name} printed no result that can be read: {error}") from None
    return replace(
        result,
        duration_s=done.wall_s,
        generator_cpu_ns_per_request=round(done.cpu_s * 1e9) / result.requests,
        generator_utilisation=done.cpu_s / done.wall_s,
    )


@dataclass(frozen=True)
class FinishedTool:
    """What a tool printed, the CPU time it took, and how long it ran."""

    stdout: str
    cpu_s: float
    wall_s: float


def run_to_end(
    command: Sequence[str], *, limit_s: float, cores: Collection[int] | None = None
) -> FinishedTool:
    """Run a tool, or stop it: at the limit, when interrupted, and when we die.

    Raises
    ------
    EngineError
        It can't be started, fails, or was stopped at the limit.
    """
    name = Path(command[0]).name
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.monotonic()
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=child_setup(cores),
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineError(f"{name} can't be started: {error}.") from None
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        _stop(process)
        raise EngineError(
            f"{name} was stopped after {time.monotonic() - began_s:.0f} s without a result."
        ) from None
    except BaseException:
        _stop(process)
        raise
    wall_s = time.monotonic() - began_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        lines = (err or out).strip().splitlines() or ["it printed nothing"]
        raise EngineError(f"{name} failed (status {process.returncode}): {lines[-1][:200]}")
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return FinishedTool(out, cpu_s, wall_s)


def _stop(process: subprocess.Popen[str]) -> None:
    """End a tool and wait for it."""
    process.terminate()
    try:
        process.wait(_STOP_S)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise


def parse_benchmark_csv(text: str, *, requests: int, source: str) -> LoadResult:
    """What `redis-benchmark --csv` or `valkey-benchmark --csv` prints for its first test."""
    result = parse_benchmark(text, file=source)[0]
    return LoadResult(
        requests=requests,
        throughput_rps=result.throughput_rps,
        mean_ms=result.mean_ms,
        p50_ms=result.p50_ms,
        p99_ms=result.p99_ms,
    )


def parse_memtier_json(text: str, *, source: str) -> LoadResult:
    """What `memtier_benchmark --json-out-file` says; latencies are over all commands."""
    result = parse_memtier(text, file=source)
    totals = result.totals
    counts = [command.requests or 0 for command in result.commands.values()]
    requests = sum(counts) if totals.requests is None else totals.requests
    if not requests or not result.duration_s:
        raise InputError(f"{source}: found no requests or no duration; valid is both.")
    misses_per_s = [command.misses_per_s or 0.0 for command in result.commands.values()]
    percentiles_ms = totals.percentiles_ms
    return LoadResult(
        requests=requests,
        throughput_rps=totals.throughput_rps,
        mean_ms=totals.mean_ms,
        p50_ms=percentiles_ms.get(50.0),
        p90_ms=percentiles_ms.get(90.0),
        p99_ms=percentiles_ms.get(99.0),
        p999_ms=percentiles_ms.get(99.9),
        misses=round(sum(misses_per_s) * result.duration_s),
        duration_s=result.duration_s,
    )
