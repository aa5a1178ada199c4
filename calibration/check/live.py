"""Run the recommended benchmark against a server that is there: bounded, and stopped with us."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forecache.hwprofiles.files import read_text
from forecache.models.advice.benchmark import benchmark_command, no_benchmark_command
from forecache.models.prediction.predict import Progress
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.sim.errors import EngineError, InputError

from ..drive.connection import Address, RespClient
from ..observe.tools import TOOLS, run_to_end
from .measured import (
    Measured,
    measured_between,
    measured_by_benchmark,
    measured_by_memtier,
    merge_measurements,
)

_PILOT_REQUESTS = 2000
"""For each place in the pipeline: they tell how fast the server is."""

_SLOWER_THAN_PILOT = 5.0
"""A repetition may take so many times longer than its pilot said, and `_SPARE_S` more."""

_SPARE_S = 20.0
_LONGEST_FILL_S = 300.0
_LONGEST_PILOT_S = 60.0


@dataclass(frozen=True)
class LiveRun:
    """How to measure.

    Attributes
    ----------
    address
        `HOST:PORT`, or the path of a Unix socket.
    tool
        Path or name of a benchmark tool; None takes the one that a recommendation names.
    seconds
        How long a repetition is to take.
    repetitions
        How many there are.
    write
        Whether keys may be written: the server is filled first, and SETs are sent.
    """

    address: str
    tool: str | None = None
    seconds: float = 5.0
    repetitions: int = 3
    write: bool = False


def run_live(
    scenario: Scenario, system: System, live: LiveRun, *, progress: Progress | None = None
) -> Measured:
    """Drive a server as the scenario says and look at it before and after each repetition.

    Raises
    ------
    InputError
        No tool can send this load, the tool is missing, or it would write without leave.
    EngineError
        Nothing answers, or the tool fails or takes too long.
    """
    fill, drive = _command_lines(scenario, system)
    if scenario.workload.get_fraction < 1.0 and not live.write:
        raise InputError("--run sends SETs for this scenario; valid is --run with --write.")
    address = parse_address(live.address, scenario)
    with RespClient(address) as control:
        control.info()  # before anything is sent: whether it answers at all
        if live.write and fill:
            if progress is not None:
                progress(f"filling {address} with {scenario.workload.keys:,} keys")
            run_to_end(_command_words(fill, address, live), limit_s=_LONGEST_FILL_S)
        words, requests = _command_words(drive, address, live), None
        if "-n" in words:
            pilot = _with_option(words, "-n", _PILOT_REQUESTS * scenario.workload.pipeline)
            with _said_by(words[0]):
                out = run_to_end([*pilot, "--csv"], limit_s=_LONGEST_PILOT_S).stdout
                found = measured_by_benchmark(out, scenario, file="its CSV")
            rate = found.values["throughput_rps"][0]
            requests = max(1, round(rate * live.seconds))
        parts = []
        for number in range(live.repetitions):
            if progress is not None:
                progress(f"measuring, {number + 1} of {live.repetitions}")
            parts.append(_repetition(words, scenario, control, live, requests=requests))
    return replace(merge_measurements(parts), sources=(f"{Path(words[0]).name} against {address}",))


def parse_address(text: str, scenario: Scenario) -> Address:
    """Where to connect; refuses what the scenario's transport is not."""
    if scenario.tls is not None:
        raise InputError("--run can’t do TLS; valid are files of what you measured.")
    if "/" in text:
        if scenario.transport != "unix_socket":
            raise InputError(f"--run {text}: found a Unix socket; valid is HOST:PORT, as TCP has.")
        return Address(unix_path=Path(text))
    host, _, port = text.rpartition(":")
    if scenario.transport == "unix_socket":
        raise InputError(f"--run {text}: found no path; valid is that of the Unix socket.")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise InputError(f"--run {text}: valid is HOST:PORT, as 127.0.0.1:6379, or a path.")
    return Address(host=host.strip("[]"), port=int(port))


def _command_lines(scenario: Scenario, system: System) -> tuple[str, str]:
    """The recommended commands: to fill the server, empty if there is none, and to drive it."""
    reason = no_benchmark_command(scenario)
    if not reason and system.engine.engine not in ("redis", "valkey", "elasticache-redis"):
        reason = "INFO, which tells the CPU time, is of Redis and Valkey."
    if reason:
        raise InputError(f"--run: {reason}")
    *fill, drive = benchmark_command(scenario, system.engine).splitlines()
    return fill[0] if fill else "", drive


def _command_words(line: str, address: Address, live: LiveRun) -> list[str]:
    """A recommended command line as a list of words, for this tool and server."""
    words = shlex.split(line)
    tool = live.tool or words[0]
    memtier = words[0].startswith("memtier")
    name = Path(tool).name
    if name not in TOOLS or memtier != name.startswith("memtier"):
        valid = words[0] if memtier else "valkey-benchmark or redis-benchmark"
        raise InputError(f"--tool {tool}: valid for this scenario is {valid}.")
    found = shutil.which(tool)
    if found is None:
        raise InputError(f"--tool: {tool} is not on PATH; valid is the path of a benchmark tool.")
    where = {"HOST": address.host, "SOCKET": str(address.unix_path)}
    words = [found, *(where.get(word, word) for word in words[1:])]
    if "-p" in words:
        words = _with_option(words, "-p", address.port)
    timed = f"--test-time={_test_time_s(live)}"
    return [timed if word.startswith("--test-time") else word for word in words]


def _test_time_s(live: LiveRun) -> int:
    """memtier takes whole seconds."""
    return max(1, round(live.seconds))


def _with_option(words: Sequence[str], option: str, value: int) -> list[str]:
    place = words.index(option) + 1
    return [*words[:place], str(value), *words[place + 1 :]]


def _repetition(
    words: list[str],
    scenario: Scenario,
    control: RespClient,
    live: LiveRun,
    *,
    requests: int | None,
) -> Measured:
    """One run of the tool, between two looks at INFO."""
    limit_s = _SLOWER_THAN_PILOT * live.seconds + _SPARE_S
    with tempfile.TemporaryDirectory(prefix="forecache-check-") as folder:
        json_file = Path(folder) / "result.json"
        before = control.info()
        if requests is None:
            done = run_to_end([*words, f"--json-out-file={json_file}"], limit_s=limit_s)
        else:
            done = run_to_end([*_with_option(words, "-n", requests), "--csv"], limit_s=limit_s)
        after = control.info()
        name = Path(words[0]).name
        with _said_by(words[0]):
            if requests is None:
                found = measured_by_memtier(read_text(json_file), file="its JSON")
            else:
                found = measured_by_benchmark(done.stdout, scenario, file="its CSV")
    rate = found.values["throughput_rps"][0]
    try:
        files = "INFO before", "INFO after"
        info = measured_between(before, after, files=files, throughput_rps=rate)
    except InputError as error:
        raise EngineError(f"{control.address}: {error}") from None
    served = rate * _test_time_s(live) if requests is None else requests
    return replace(
        found,
        values={**found.values, **info.values},
        conditions={**info.conditions, **found.conditions, "load_generator.tool": name},
        generator_cpu_us=done.cpu_s / served * 1e6,
        main_active_us=info.main_active_us,
        network_gbit_per_s=info.network_gbit_per_s,
        miss_share=info.miss_share,
    )


@contextlib.contextmanager
def _said_by(tool: str) -> Iterator[None]:
    """What can't be read is no mistake of the user's: the tool failed."""
    try:
        yield
    except InputError as error:
        name = Path(tool).name
        raise EngineError(f"{name} printed no result that can be read: {error}") from None
