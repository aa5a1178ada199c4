"""How much of a thread's CPU time it only waits: where it is, against one that has nothing to do.

Threads of most engines spin while they have nothing to do, so their CPU time says little. perf's
clock says at which addresses a thread is found. Where it is when it has nothing to do is seen
apart, while all other threads of the server get hardly any CPU. Addresses that only a waiting
thread visits then tell which share of another window it waited. No symbols are needed. A thread's
turns of its event loop count as waiting, whether they find something or not.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forecache.sim.errors import EngineError

from ..drive.proc import thread_usage
from ..drive.server_process import EngineThread, ServerProcess, child_setup
from .profilers.programs import missing, record_refusal, run_program

FREQUENCY_HZ = 1999
"""Samples a second of each running thread: no multiple of the kernel's tick. Each costs a virtual
machine some microseconds."""

LEARNING_HZ = 4001
"""While it is learnt where threads wait."""

PLACE_BYTES = 16
"""Addresses this near to each other are one place."""

KERNEL = 2**63 // PLACE_BYTES
"""From this place on it is the kernel. Its places are told apart as well: a main thread that waits
looks for events there, and one that works may read and write."""

Places = Counter[int]
"""Samples of a thread by place."""

_READY_S = 0.12
"""perf needs this long until it samples."""

_LEARN_S = 1.5
"""Of a waiting thread."""

_SETTLE_S = 0.1
_ATTEMPTS = 80
"""An engine may have put its I/O threads to sleep when the others begin to starve."""

_WAITING_SHARE = 0.4
"""A thread that is to be seen waiting must have had this share of its core."""

_FEWEST = 8
"""Samples of a place that counts."""

_MOST_SHARE = 0.05
"""Of all samples, what one place counts for at most where places are compared."""

_ALIKE = 1.4
"""Places are visited alike if it isn't more often or less by this factor."""

_LOOP_PLACES = 8
_LOOP_SHARE = 0.95
"""A thread that spends this share at so few places waits in a loop, where nothing else is done."""

_TIMEOUT_S = 60.0

_ROLES = ("main", "io")


def refusal() -> str | None:
    """Why spinning can't be told apart here, or None when it can."""
    # A thread that was made to wait is only let on again by those who may raise its priority.
    may_raise = os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_NICE)[0] >= 20
    if not may_raise:
        return "no right to give threads their priority back"
    return missing("perf") or record_refusal("cpu-clock", of_all=True)


class Sampler:
    """perf's clock on some cores, from now until `stop`.

    It follows cores, not threads: a clock that follows a thread is stopped and started whenever
    another thread gets the core, which takes a virtual machine longer than a socket call.

    Parameters
    ----------
    watched
        The cores.
    cores
        Where perf runs.
    """

    def __init__(
        self, watched: Collection[int], cores: Collection[int], *, frequency_hz: int = FREQUENCY_HZ
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="forecache-perf-")
        self._file = Path(self._folder.name) / "perf.data"
        self._cores = cores
        command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(frequency_hz)]
        try:
            self._process = subprocess.Popen(
                [*command, "-C", ",".join(map(str, sorted(watched))), "-o", str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=child_setup(cores),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise EngineError(f"perf can't be started: {error}.") from None
        time.sleep(_READY_S)

    def stop(self) -> dict[int, Places]:
        """Samples of each thread since the start, by its id."""
        try:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_TIMEOUT_S)
            command = ["perf", "script", "-i", str(self._file), "-F", "tid,ip"]
            text = run_program(command, timeout_s=_TIMEOUT_S, cores=self._cores).stdout
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise EngineError(f"perf didn't end within {_TIMEOUT_S:.0f} s.") from None
        finally:
            self._process.wait()
            self._folder.cleanup()
        return places_of(text)


def places_of(script: str) -> dict[int, Places]:
    """Samples by thread id of what `perf script -F tid,ip` prints."""
    found: dict[int, Places] = {}
    for line in script.splitlines():
        words = line.split()
        if len(words) < 2 or not words[0].isdecimal():
            continue
        found.setdefault(int(words[0]), Counter())[int(words[1], 16) // PLACE_BYTES] += 1
    return found


@dataclass(frozen=True)
class Waiting:
    """Where threads of a kind are while they wait.

    Attributes
    ----------
    sure
        Places that only a waiting thread visits, with the share of its samples there together.
    seldom
        Places that it visits less when it also works: it finds less to look through then.
    """

    sure: frozenset[int]
    sure_share: float
    seldom: frozenset[int] = frozenset()
    seldom_share: float = 0.0

    @classmethod
    def of(cls, waiting: Places, working: Places) -> Waiting | None:
        """From samples of threads that only wait, and of threads that work at times.

        A thread that waits in a loop is at a few places, and whoever is there waits. Where threads
        go round an event loop, which work does as well, the median place tells how much a working
        thread waits; places that it visits more often serve work, too. None without samples.
        """
        known = {p: n for p, n in waiting.items() if n >= _FEWEST}
        total = waiting.total()
        if not known or working.total() == 0:
            return None
        loop = {p: n for p, n in known.items() if p < KERNEL}
        if len(loop) <= _LOOP_PLACES and sum(loop.values()) >= _LOOP_SHARE * total:
            return cls(frozenset(loop), 1.0)
        # How often a working thread is at a place, over how often it is there if it only waits.
        ratios = {p: working[p] / n for p, n in known.items()}
        ordered = sorted(known, key=lambda p: ratios[p])
        # One place that clocks or counters are read at must not decide alone.
        passed = np.cumsum([min(known[p], _MOST_SHARE * total) for p in ordered])
        middle = ratios[ordered[int(np.searchsorted(passed, passed[-1] / 2))]]
        seldom = frozenset(p for p in known if ratios[p] < middle / _ALIKE)
        sure = frozenset(p for p in known if middle / _ALIKE <= ratios[p] <= middle * _ALIKE)
        shares = [sum(known[p] for p in places) / total for places in (sure, seldom)]
        return cls(sure, shares[0], seldom, shares[1])

    def share(self, places: Places) -> float:
        """Share of a thread's samples in which it waits, 0 to 1; nan without any samples."""
        total = places.total()
        if total == 0:
            return float("nan")
        seldom = sum(places[p] for p in self.seldom)
        sure = sum(places[p] for p in self.sure) / self.sure_share
        return min(1.0, (seldom + (1.0 - self.seldom_share) * sure) / total)


class Spinning:
    """What threads of a running server look like when they wait, by role."""

    def __init__(self, process: ServerProcess, waiting: Mapping[str, Waiting]) -> None:
        self._process = process
        self.waiting = dict(waiting)

    def shares(self, places: Mapping[int, Places]) -> dict[str, list[float]]:
        """As `shares_of`, of the server's threads now."""
        return shares_of(self.waiting, places, self._process.threads())


def shares_of(
    waiting: Mapping[str, Waiting],
    places: Mapping[int, Places],
    threads: Sequence[EngineThread],
) -> dict[str, list[float]]:
    """Share of its samples in which each main and I/O thread waits, in the order of threads."""
    found: dict[str, list[float]] = {role: [] for role in _ROLES}
    for thread in threads:
        if thread.role in found:
            own = places.get(thread.tid, Counter())
            found[thread.role].append(waiting[thread.role].share(own))
    return found


def by_role(places: Mapping[int, Places], threads: Sequence[EngineThread]) -> dict[str, Places]:
    """Samples of all main and I/O threads together."""
    found: dict[str, Places] = {role: Counter() for role in _ROLES}
    for thread in threads:
        if thread.role in found:
            found[thread.role].update(places.get(thread.tid, Counter()))
    return found


def learn(process: ServerProcess, cores: Mapping[str, frozenset[int]]) -> Spinning:
    """Let threads of each role wait, and see where they are meanwhile. The server is being driven.

    Parameters
    ----------
    cores
        Those of the threads of each role, `main` and `io`, and of the `generator`.

    Raises
    ------
    EngineError
        perf fails, or threads of a role don't spin.
    """
    working, _ = _look(process, cores)
    found = {}
    for role, other in (("main", "io"), ("io", "main")):
        starving = [thread.tid for thread in process.threads() if thread.role == other]
        for _ in range(_ATTEMPTS):
            with _starved(starving, cores[other]):
                time.sleep(_SETTLE_S)
                if _used(process, _SETTLE_S)[role] < _WAITING_SHARE:
                    continue
                waiting, used = _look(process, cores)
            if used[role] >= _WAITING_SHARE:
                break
        else:
            raise EngineError(f"{process.binary.name}: its {role} threads don't spin.")
        kind = Waiting.of(waiting[role], working[role])
        if kind is None:
            raise EngineError(f"{process.binary.name}: perf saw none of its {role} threads.")
        found[role] = kind
    return Spinning(process, found)


def _look(
    process: ServerProcess, cores: Mapping[str, frozenset[int]]
) -> tuple[dict[str, Places], dict[str, float]]:
    """Samples of the threads of each role for a moment, and the cores' worth they used."""
    watched = cores["main"] | cores["io"]
    sampler = Sampler(watched, cores["generator"], frequency_hz=LEARNING_HZ)
    used = _used(process, _LEARN_S)
    return by_role(sampler.stop(), process.threads()), used


def _used(process: ServerProcess, for_s: float) -> dict[str, float]:
    """The cores' worth that the threads of each role use from now on for a time."""
    threads = [thread for thread in process.threads() if thread.role in _ROLES]
    before = [thread_usage(process.pid, thread.tid).cpu_ns for thread in threads]
    time.sleep(for_s)
    used = dict.fromkeys(_ROLES, 0.0)
    for thread, first_ns in zip(threads, before, strict=True):
        last_ns = thread_usage(process.pid, thread.tid).cpu_ns
        used[thread.role] += (last_ns - first_ns) / 1e9 / for_s
    return used


@contextmanager
def _starved(tids: Collection[int], cores: Collection[int]) -> Iterator[None]:
    """Leave threads next to nothing of their cores: they run only when nobody else does."""
    hogs = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=child_setup({core}))
        for core in cores
    ]
    try:
        for tid in tids:
            os.sched_setscheduler(tid, os.SCHED_IDLE, os.sched_param(0))
        yield
    finally:
        for tid in tids:
            os.sched_setscheduler(tid, os.SCHED_OTHER, os.sched_param(0))
        for hog in hogs:
            hog.kill()
            hog.wait()
