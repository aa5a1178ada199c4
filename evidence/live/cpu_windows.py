"""CPU time of a server's main thread while valkey-benchmark repeats a command on another core."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.proc import core_times_ns, thread_usage
from forecache.calibration.drive.servers import EngineProcess
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.capture.cores import SLOWER, alike, core_answer_ns, distance_ns
from forecache.hwprofiles.capture.host import profiled_answer_ns
from forecache.hwprofiles.files import parse
from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.profile import EngineProfile
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case

from .load import process_cpu_ns

TOOL = "valkey-benchmark"
WARM_UP_S, WINDOW_S = 0.15, 0.4
CALM, TRIES = 0.05, 5
"""A window in which others took more of the cores' time is tried again, so many times in all."""
PATIENCE_S = 8.0
"""To try windows while another machine uses the other hyperthread of the server's core."""
_MOVES = 3
"""Attempts at a measurement beside a hypervisor that moves the CPUs."""

_ENDLESS = 10**9

Found = TypeVar("Found")


@dataclass(frozen=True)
class Window:
    """CPU time of the main thread, us a request; requests a second; the cores' time others took.

    Others are other programs and, where the hypervisor says so, other machines. What those on the
    other hyperthread of the server's core take is only seen by what that core then takes for a GET
    in its caches, `answer_ns`: the longer of before and after.
    """

    cpu_us: float
    rps: float
    others: float
    answer_ns: float


@dataclass(frozen=True)
class Tool:
    """valkey-benchmark on a core, against a server."""

    program: Path
    core: int
    process: EngineProcess
    environment: Mapping[str, str] = field(default_factory=dict)
    besides: tuple[int, ...] = ()
    """Further processes of the measurement: what they take is not others'."""
    window_s: float = WINDOW_S
    answer_ns: float = math.inf
    """What the server's core took for a GET in its caches when the host was profiled. Windows are
    tried until it takes as long, for `PATIENCE_S`; unless it is inf."""

    def command_line(self, words: Sequence[str], *options: object, requests: int) -> list[str]:
        """What repeats a command of these words so many times."""
        address = self.process.address("tcp")
        given = ("-h", "127.0.0.1", "-p", address.port, "-n", requests, *options)
        return [str(word) for word in (self.program, *given, *words)]

    def run(self, words: Sequence[str], *options: object, requests: int) -> None:
        """Repeat a command so many times."""
        subprocess.run(
            self.command_line(words, *options, requests=requests),
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            preexec_fn=self._on_its_core,
        )

    def window(self, words: Sequence[str], *options: object) -> Window:
        """The calmest of several tries while a command is repeated."""
        [found] = self.windows(words, *options, number=1)
        return found

    def windows(
        self, words: Sequence[str], *options: object, number: int, settle_s: float = WARM_UP_S
    ) -> list[Window]:
        """So many of these, one after the other, the first after the tool has settled."""
        control = self.process.control()
        with self.running(words, *options) as tool_pid:
            time.sleep(settle_s)
            ours = (tool_pid, *self.besides)

            def attempt() -> Window:
                return _tried(self.process.pid, ours, control, self.window_s)

            return [calmest(attempt, profiled_ns=self.answer_ns) for _ in range(number)]

    @contextmanager
    def running(self, words: Sequence[str], *options: object) -> Iterator[int]:
        """At work; its process's number."""
        running = subprocess.Popen(
            self.command_line(words, *options, requests=_ENDLESS),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **self.environment},
            preexec_fn=self._on_its_core,
        )
        try:
            yield running.pid
        finally:
            running.kill()
            running.wait()

    def _on_its_core(self) -> None:
        os.sched_setaffinity(0, {self.core})


def case_of_load(
    engine: EngineProfile, workload: dict[str, Any], **settings: Any
) -> Case[Scenario]:
    """A load that the tool puts on one thread of an engine, as a scenario with more settings."""
    data = {
        "host": None,
        "engine": engine.engine,
        "engine_version": engine.version,
        "workload": workload,
        "load_generator": {"tool": TOOL, "threads": 1, "same_host": True},
        **settings,
    }
    return Case(given={}, scenario=parse(Scenario, data, file=f"load {workload}"))


def calmest(attempt: Callable[[], Window], *, profiled_ns: float = math.inf) -> Window:
    """Of several tries the first that hardly anything disturbed, or the calmest."""
    end_s = time.monotonic() + PATIENCE_S
    tries: list[Window] = []

    def order(window: Window) -> tuple[bool, float]:
        return not as_fast(window.answer_ns, profiled_ns), window.others

    while len(tries) < TRIES or (min(map(order, tries))[0] and time.monotonic() < end_s):
        tries.append(attempt())
        if order(tries[-1]) <= (False, CALM):
            break
    return min(tries, key=order)


def as_fast(answer_ns: float, profiled_ns: float) -> bool:
    """Whether a core was as fast as when it was profiled; yes where that is inf, not known."""
    slower, faster = max(answer_ns, profiled_ns), min(answer_ns, profiled_ns)
    return math.isinf(profiled_ns) or slower <= SLOWER * faster


def settled(
    cpus: Sequence[int], apart_ns: float, attempt: Callable[[], Found]
) -> tuple[Found, list[float]]:
    """A measurement while the CPUs are as far apart as in the host's profile, if it can be had.

    Parameters
    ----------
    apart_ns
        How far apart they were.

    Returns
    -------
    tuple
        What was found at the last of a few attempts, and the distances in ns before and after it.
    """

    def distance() -> float:
        return distance_ns((cpus[0], cpus[1]), lambda cpu: os.sched_setaffinity(0, {cpu}))

    for _ in range(_MOVES):
        before = distance()
        found = attempt()
        distances = [round(before, 1), round(distance(), 1)]
        if all(alike(ns, apart_ns) for ns in distances):
            break
    return found, distances


def unmoved(distances_ns: Sequence[float], host: HostProfile) -> bool:
    """Whether the CPUs were as far apart as in the profile before and after a measurement."""
    return all(alike(ns, host.core_to_core_ns.best) for ns in distances_ns)


def as_profiled(row: Mapping[str, Any], host: HostProfile) -> list[int]:
    """Which windows of a row found its CPUs as they were when the host was profiled.

    Parameters
    ----------
    row
        With `apart_ns`, the distances before and after it, `cpu_us`, and, in measurements since
        December 2026, `answer_ns`, each with a value for each window.
    """
    if not unmoved(row["apart_ns"], host):
        return []
    windows = len(row["cpu_us"])
    answers = row.get("answer_ns", [math.inf] * windows)
    profiled_ns = profiled_answer_ns(host) if "answer_ns" in row else math.inf
    return [n for n in range(windows) if as_fast(answers[n], profiled_ns)]


def profile_of_most(
    host: HostProfile, rows: Sequence[Mapping[str, Any]], progress: Callable[[str], None]
) -> HostProfile:
    """The host as it was for most measurements: profiled again if its CPUs were moved before them.

    Parameters
    ----------
    rows
        With the distances at each as `apart_ns`.
    """
    if 2 * sum(unmoved(row["apart_ns"], host) for row in rows) >= len(rows):
        return host
    progress("the CPUs were moved; profiling them as they are now")
    return capture_host(progress=progress)


def _tried(pid: int, besides: Sequence[int], control: RespClient, window_s: float) -> Window:
    cores = os.sched_getaffinity(0)
    own_core = min(os.sched_getaffinity(pid))

    def look() -> tuple[float, int, int, int, int, int]:
        info = dict(
            line.split(":", 1) for line in control.info("stats").splitlines() if ":" in line
        )
        total, _, idle = core_times_ns(cores)
        return (
            time.monotonic(),
            int(info["total_commands_processed"]),
            thread_usage(pid, pid).cpu_ns,
            sum(map(process_cpu_ns, (pid, *besides))) + time.process_time_ns(),
            total - idle,
            total,
        )

    answer_ns = core_answer_ns(own_core)
    before = look()
    time.sleep(window_s)
    seconds, requests, cpu_ns, ours_ns, busy_ns, total_ns = (
        b - a for a, b in zip(before, look(), strict=True)
    )
    answer_ns = max(answer_ns, core_answer_ns(own_core))
    others = max(0.0, busy_ns - ours_ns) / total_ns
    return Window(cpu_ns / requests / 1e3, requests / seconds, others, answer_ns)
