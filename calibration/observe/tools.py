"""redis-benchmark, valkey-benchmark and memtier_benchmark: run them, read what they print.

They are drivers for those who trust what they know. They say less than our own generator: no
window after a warm-up, no loops and reads, fewer quantiles.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import read_text
from forecache.sim.errors import EngineError, InputError

from ..bundle.points import Conditions
from ..drive.connection import Address
from .readers.benchmark import parse_benchmark
from .readers.memtier import parse_memtier

TOOLS = ("valkey-benchmark", "redis-benchmark", "memtier_benchmark")
_LONGEST_S = 120.0
# How often we look whether a tool has ended.
_LOOK_S = 0.005
# memtier writes key numbers without leading zeros; from here on they have our twelve digits.
MEMTIER_FIRST_KEY = 10**11


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """What a tool says of one run; a latency it doesn't report is None."""

    requests: int
    throughput_rps: float
    mean_ms: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    misses: int = 0
    cpu_ns: int = 0
    duration_s: float = 0.0

    def fields(self) -> dict[str, Any]:
        """The fields of a `Repetition` that the clients' side knows."""
        return {
            "requests": self.requests,
            "duration_s": self.duration_s,
            "throughput_rps": self.throughput_rps,
            "mean_ms": self.mean_ms,
            "p50_ms": self.p50_ms,
            "p90_ms": self.p90_ms,
            "p99_ms": self.p99_ms,
            "p999_ms": self.p999_ms,
            "misses": self.misses,
            "generator_cpu_ns_per_request": self.cpu_ns / self.requests,
            "generator_utilisation": self.cpu_ns / 1e9 / self.duration_s,
        }


def find_tool(name: str) -> Path:
    """Path of a benchmark tool on PATH, or `InputError`."""
    if Path(name).name not in TOOLS:
        raise InputError(f"tool: found {name!r}; valid is forecache, {', '.join(TOOLS)}.")
    found = shutil.which(name)
    if found is None:
        raise InputError(f"tool: {name} is not on PATH; valid is forecache or an installed tool.")
    return Path(found)


def unsupported(tool: Path, given: Conditions) -> str | None:
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
) -> ToolResult:
    """Run a tool once and read its report.

    Raises
    ------
    EngineError
        The tool fails, takes too long, or prints no result.
    """
    with tempfile.TemporaryDirectory(prefix="forecache-tool-") as folder:
        json_file = Path(folder) / "result.json"
        command = tool_command(tool, given, address, requests=requests, json_file=json_file)
        start_s = time.monotonic()
        try:
            done = _run(command, cores, Path(folder))
        except OSError as error:
            raise EngineError(f"{tool.name} failed: {error}.") from None
        wall_s = time.monotonic() - start_s
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["it printed nothing"]
            raise EngineError(f"{tool.name} failed (status {done.returncode}): {lines[-1]}")
        try:
            if tool.name == "memtier_benchmark":
                result = parse_memtier_json(read_text(json_file), source=tool.name)
            else:
                result = parse_benchmark_csv(done.stdout, requests=requests, source=tool.name)
        except InputError as error:
            raise EngineError(f"{tool.name} printed no result that can be read: {error}") from None
    return replace(result, cpu_ns=round(done.cpu_s * 1e9), duration_s=wall_s)


@dataclass(frozen=True)
class _Done:
    """A program that has ended, with the CPU time of it alone."""

    returncode: int
    stdout: str
    stderr: str
    cpu_s: float


def _run(command: list[str], cores: Collection[int] | None, folder: Path) -> _Done:
    """Run a program to its end on some cores."""
    out, err = folder / "stdout", folder / "stderr"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, cores),
        )
        end_s = time.monotonic() + _LONGEST_S
        try:
            while True:
                pid, status, used = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > end_s:
                    raise TimeoutError(f"it took longer than {_LONGEST_S:.0f} s")
                time.sleep(_LOOK_S)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
    said, complained = (path.read_text(encoding="utf-8", errors="replace") for path in (out, err))
    return _Done(process.returncode, said, complained, used.ru_utime + used.ru_stime)


def parse_benchmark_csv(text: str, *, requests: int, source: str) -> ToolResult:
    """What `redis-benchmark --csv` or `valkey-benchmark --csv` prints for its first test.

    Raises
    ------
    InputError
        No line has a throughput; names `source` and what was expected.
    """
    result = parse_benchmark(text, file=source)[0]
    return ToolResult(
        requests=requests,
        throughput_rps=result.throughput_rps,
        mean_ms=result.mean_ms,
        p50_ms=result.p50_ms,
        p99_ms=result.p99_ms,
    )


def parse_memtier_json(text: str, *, source: str) -> ToolResult:
    """What `memtier_benchmark --json-out-file` says; latencies are over all commands.

    Raises
    ------
    InputError
        It is no JSON, or a field is missing; names `source` and the field.
    """
    result = parse_memtier(text, file=source)
    totals = result.totals
    counts = [command.requests or 0 for command in result.commands.values()]
    requests = sum(counts) if totals.requests is None else totals.requests
    if not requests or not result.duration_s:
        raise InputError(f"{source}: found no requests or no duration; valid is both.")
    misses_per_s = [command.misses_per_s or 0.0 for command in result.commands.values()]
    percentiles_ms = totals.percentiles_ms
    return ToolResult(
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
