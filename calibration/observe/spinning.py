"""How much of a thread's CPU time it only waits: where it is, against one that has nothing to do.

Threads of most engines spin while they have nothing to do, so their CPU time says little. perf's
clock says at which addresses a thread is found. Where it is when it has nothing to do is seen
apart, while all other threads of the server get hardly any CPU. Addresses that only a waiting
thread visits then tell which share of another window it waited. A thread's turns of its event loop
count as waiting, whether they find something or not.

Two things are told by the names of functions, as both depend on who else has a core. Polls that I/O
threads make for the main thread: as long as another I/O thread lacks a core, one that has nothing
else to do polls again and again, and finds the other one's clients each time. And looks of a main
thread through all clients whose jobs aren't done, which take longer the more there are.
"""

from __future__ import annotations

import math
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from forecache.sim.errors import EngineError

from ..drive.proc import thread_usage
from ..drive.servers import EngineThread, ServerProcess, child_setup
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

POLLING = re.compile(r"((ep|sock|tcp)_poll|ep_item_poll|ep_send_events|\w*epoll_wait)(\.[\w.]+)?")
"""What the kernel names functions that only a poll calls, with what a compiler appends, but for
`ep_poll_callback`, which a send runs. A thread that is in what one of them called polls as well."""

OWN_POLL = re.compile(r"aePoll|IOThreadPoll")
"""What Redis and Valkey name theirs."""

LOOKING = re.compile(r"processIOThreads(Read|Write)Done")
"""What Valkey 8.0 to 9.0 name functions that look at every client whose job isn't done yet."""

UNNAMED = "[unknown]"
"""What perf prints for an address without a known symbol; any of the kernel's where these are
hidden."""

_READY_S = 0.12
"""perf needs this long until it samples."""

_LEARN_S = 1.5
"""Of a waiting thread."""

_SETTLE_S = 0.1
_PATIENCE_S = 6.0
"""For threads of a role to be seen waiting: an engine may have put its I/O threads to sleep when
the others begin to starve."""

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

_TIMEOUT_S = 10.0
"""For perf to end; beside busy programs it took 2 s."""

_ROLES = ("main", "io")


def refusal() -> str | None:
    """Why spinning can't be told apart here, or None when it can."""
    # A thread that was made to wait is only let on again by those who may raise its priority.
    may_raise = os.geteuid() == 0 or resource.getrlimit(resource.RLIMIT_NICE)[0] >= 20
    if not may_raise:
        return "no right to give threads their priority back"
    return missing("perf") or record_refusal("cpu-clock", of_all=True)


class SamplingError(EngineError):
    """perf could not look at a window, which says nothing of what threads waited then."""


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
        command = ["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", str(frequency_hz)]
        try:
            self._process = subprocess.Popen(
                [*command, "-C", ",".join(map(str, sorted(watched))), "-o", str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                preexec_fn=child_setup(cores),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise SamplingError(f"perf can't be started: {error}.") from None
        time.sleep(_READY_S)

    def stop(self) -> Samples:
        """What was seen since the start."""
        try:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_TIMEOUT_S)
            command = ["perf", "script", "-i", str(self._file), "-F", "tid,ip,sym"]
            # Where functions call each other perf prints addresses inside their files.
            flat, stacks = (
                run_program([*command, *options], timeout_s=_TIMEOUT_S, cores=self._cores).stdout
                for options in (["-G"], [])
            )
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise SamplingError(f"perf didn't end within {_TIMEOUT_S:.0f} s.") from None
        except EngineError as error:
            raise SamplingError(str(error)) from None
        finally:
            self._process.wait()
            self._folder.cleanup()
        return samples_of(flat, stacks)


@dataclass(frozen=True)
class Samples:
    """Samples of threads by their ids.

    Attributes
    ----------
    places
        Where they are, looks at clients left out.
    looks
        How many are in a function of `LOOKING`.
    polls
        How many are in a poll; None where the samples have no symbols.
    """

    places: dict[int, Places]
    looks: Counter[int]
    polls: Counter[int] | None

    def total(self, tid: int) -> int:
        """Samples of a thread."""
        return self.places.get(tid, Counter()).total() + self.looks[tid]

    def waiting_share(self, tid: int, waiting: Waiting) -> float:
        """Share of a thread's samples in which it waits, 0 to 1; nan without any samples."""
        total, looks = self.total(tid), self.looks[tid]
        if looks == total:
            return 1.0 if total else math.nan
        elsewhere = waiting.share(self.places[tid])
        return (looks + (total - looks) * elsewhere) / total

    def polling_share(self, tid: int) -> float | None:
        """Share of a thread's samples in a poll, 0 to 1, 0 of none; None without symbols."""
        if self.polls is None:
            return None
        total = self.total(tid)
        return self.polls[tid] / total if total else 0.0


def samples_of(script: str, stacks: str = "") -> Samples:
    """Samples from what perf prints.

    Parameters
    ----------
    script
        By `perf script -F tid,ip,sym -G`, or `-F tid,ip`.
    stacks
        By `perf script -F tid,ip,sym`: below each thread the functions that called each other. If
        left out, only the inmost ones tell polls.
    """
    places: dict[int, Places] = {}
    looks: Counter[int] = Counter()
    symbols = False
    for tid, frames in _stacks(script):
        place, name = frames[0]
        symbols = symbols or (place >= KERNEL and name not in ("", UNNAMED))
        if LOOKING.fullmatch(name):
            looks[tid] += 1
        else:
            places.setdefault(tid, Counter())[place] += 1
    polls = Counter(tid for tid, frames in _stacks(stacks or script) if _in_poll(frames))
    return Samples(places, looks, polls if symbols else None)


def _in_poll(frames: Sequence[tuple[int, str]]) -> bool:
    """Whether a thread polls in a sample; its functions inmost first."""
    in_kernel = (name for place, name in frames if place >= KERNEL)
    return any(map(POLLING.fullmatch, in_kernel)) or bool(OWN_POLL.fullmatch(frames[0][1]))


def _stacks(script: str) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """Of each sample its thread, and place and name ("" without one) of functions, inmost first."""
    tid, frames = 0, list[tuple[int, str]]()
    for line in script.splitlines():
        words = line.split()
        if words and words[0].isdecimal() and not line.startswith("\t"):
            if frames:
                yield tid, frames
            tid, frames = int(words[0]), []
            words = words[1:]
        if words and tid and re.fullmatch(r"[0-9a-f]+", words[0]):
            frames.append((int(words[0], 16) // PLACE_BYTES, words[1] if len(words) > 1 else ""))
    if frames:
        yield tid, frames


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

    @property
    def only_loop(self) -> bool:
        """Whether it waits in a loop where nothing else is done, as opposed to an event loop."""
        return self.sure_share == 1.0 and not self.seldom

    def moved(self, by_bytes: int) -> Waiting:
        """The same of a program at another address; the kernel stays where it is."""

        def elsewhere(places: frozenset[int]) -> frozenset[int]:
            step = by_bytes // PLACE_BYTES
            return frozenset(place if place >= KERNEL else place + step for place in places)

        return replace(self, sure=elsewhere(self.sure), seldom=elsewhere(self.seldom))

    def share(self, places: Places) -> float:
        """Share of a thread's samples in which it waits, 0 to 1; nan without any samples."""
        total = places.total()
        if total == 0:
            return float("nan")
        seldom = sum(places[p] for p in self.seldom)
        sure = sum(places[p] for p in self.sure) / self.sure_share
        return min(1.0, (seldom + (1.0 - self.seldom_share) * sure) / total)


class Spinning:
    """What threads of a running server look like when they wait, by role.

    Parameters
    ----------
    waiting
        What was learnt of its own threads.
    elsewhere
        What was learnt of other servers of the same program, as `Waiting.moved` to address 0; may
        be added to later, and stands in for what could not be learnt of this one.
    """

    def __init__(
        self,
        process: ServerProcess,
        waiting: Mapping[str, Waiting],
        elsewhere: Mapping[str, Waiting],
    ) -> None:
        self._process = process
        self._own = dict(waiting)
        self._elsewhere = elsewhere
        self._base = base_address(process.pid)

    @property
    def waiting(self) -> dict[str, Waiting]:
        """What is known by now, by role."""
        other = {role: kind.moved(self._base) for role, kind in self._elsewhere.items()}
        return {**other, **self._own}

    @property
    def known(self) -> bool:
        """Whether it is known of every role by now."""
        return all(role in self._own or role in self._elsewhere for role in _ROLES)

    def shares(self, samples: Samples) -> Shares | None:
        """As `shares_of`, of the server's threads now; None where a role is not known."""
        if not self.known:
            return None
        return shares_of(self.waiting, samples, self._process.threads())


def base_address(pid: int) -> int:
    """Where a process has its program: the kernel puts it elsewhere at every start."""
    try:
        program = str(Path(f"/proc/{pid}/exe").readlink())
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError as error:
        raise EngineError(f"process {pid}: its memory map can't be read: {error}.") from None
    return min(int(line.split("-")[0], 16) for line in lines if line.endswith(program))


@dataclass(frozen=True)
class Shares:
    """Of each thread's samples, the share in which it waits, and of I/O threads that in a poll.

    In the order of threads. Of a thread without samples the share in which it waits is nan and that
    in a poll 0. `io_polling` is None where samples have no symbols.
    """

    main: list[float]
    io: list[float]
    io_polling: list[float] | None


def shares_of(
    waiting: Mapping[str, Waiting], samples: Samples, threads: Sequence[EngineThread]
) -> Shares:
    """What threads of a server do in a window, by where they are when they only wait."""
    waits: dict[str, list[float]] = {role: [] for role in _ROLES}
    polling: list[float | None] = []
    for thread in threads:
        if thread.role in waits:
            waits[thread.role].append(samples.waiting_share(thread.tid, waiting[thread.role]))
        if thread.role == "io":
            polling.append(samples.polling_share(thread.tid))
    known = [share for share in polling if share is not None]
    return Shares(waits["main"], waits["io"], known if len(known) == len(polling) else None)


def by_role(places: Mapping[int, Places], threads: Sequence[EngineThread]) -> dict[str, Places]:
    """Samples of all main and I/O threads together."""
    found: dict[str, Places] = {role: Counter() for role in _ROLES}
    for thread in threads:
        if thread.role in found:
            found[thread.role].update(places.get(thread.tid, Counter()))
    return found


def learn(
    process: ServerProcess,
    cores: Mapping[str, frozenset[int]],
    elsewhere: dict[str, Waiting],
) -> Spinning:
    """Let threads of each role wait, and see where they are meanwhile. The server is being driven.

    Parameters
    ----------
    cores
        Those of the threads of each role, `main` and `io`, and of the `generator`.
    elsewhere
        What is known of I/O threads of the same program, as in `Spinning`; what is learnt is added.
        An engine may put its only I/O thread to sleep whenever the main thread gets no core.

    Raises
    ------
    EngineError
        perf fails, or main threads don't spin.
    """
    working, _ = _look(process, cores)
    found = {}
    for role, other in (("main", "io"), ("io", "main")):
        waiting = _waiting_places(process, cores, role=role, other=other)
        if waiting is None:
            if role == "io":
                continue
            raise EngineError(f"{process.binary.name}: its {role} threads don't spin.")
        kind = Waiting.of(waiting, working[role])
        if kind is None:
            raise EngineError(f"{process.binary.name}: perf saw none of its {role} threads.")
        found[role] = kind
        if role == "io" and kind.only_loop:
            elsewhere[role] = kind.moved(-base_address(process.pid))
    return Spinning(process, found, elsewhere)


def _waiting_places(
    process: ServerProcess, cores: Mapping[str, frozenset[int]], *, role: str, other: str
) -> Places | None:
    """Where threads of a role are while the others starve; None if none stays awake for it."""
    starving = [thread.tid for thread in process.threads() if thread.role == other]
    end_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end_s:
        with _starving(starving, cores[other]):
            time.sleep(_SETTLE_S)
            if _cores_used(process, _SETTLE_S)[role] < _WAITING_SHARE:
                continue
            places, used = _look(process, cores)
        if used[role] >= _WAITING_SHARE:
            return places[role]
    return None


def _look(
    process: ServerProcess, cores: Mapping[str, frozenset[int]]
) -> tuple[dict[str, Places], dict[str, float]]:
    """Samples of the threads of each role for a moment, and the cores' worth they used."""
    watched = cores["main"] | cores["io"]
    sampler = Sampler(watched, cores["generator"], frequency_hz=LEARNING_HZ)
    used = _cores_used(process, _LEARN_S)
    return by_role(sampler.stop().places, process.threads()), used


def _cores_used(process: ServerProcess, for_s: float) -> dict[str, float]:
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
def _starving(tids: Collection[int], cores: Collection[int]) -> Iterator[None]:
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
