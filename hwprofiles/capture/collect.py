"""Running the micro-benchmarks, spread over time, and keeping every repetition.

Everything is repeated in rounds: on a shared machine a neighbour, or a hypervisor that moves
virtual CPUs, may disturb one round but hardly all. What another program gets in the way of is tried
again. Rounds, retries and regions are bounded by time: on a busy machine there are fewer samples,
and what could not be measured at all is left to a range.
"""

import math
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..speed import PEER_CONNECTIONS, READ_BYTES, pause_us
from . import cores, encryption, memory, sockets
from .machine import CacheFacts, Machine
from .summary import rounded

CHAINS = (1, 2, 4, 8, 12, 16, 24, 32, 48)
ACROSS_BYTES = (64, 1024, 4096, 16_384, 65_000)
"""Sizes of messages between two CPUs."""
PEER_CONNECTIONS_MEASURED = (PEER_CONNECTIONS, 256, 1024, 4096)
"""On how many connections messages go between two CPUs, as far as files may be open."""
_PEER_MESSAGES, _FEWEST_PEER_ROUNDS = 6000, 8
ROUNDS = 3
_ROUNDS_S = 28.0
"""No further round begins that would end later than this; an idle machine takes 21 s for three."""
_RETRY_S = 4.0
"""In all rounds together, how long a probe is tried again."""
_SHARED_S = 10.0
"""To wait, after all rounds, for a core that no other machine uses."""
_SHARED_PAUSE_S = 0.05
_SETTLE_S = 6.0
"""For more rounds of what two CPUs do to each other."""
_REGIONS_S = 8.0
"""Of the regions together; pages that a hypervisor has yet to find take up to 35 us each."""
_MOST_PAIR_ROUNDS = 7
"""Most rounds of what two CPUs do to each other; fewer if three saw them equally far apart."""
_COPY_PAIRS_A_ROUND = 4
_SLEEPERS_A_ROUND = 3
_MESSAGES_TO_SLEEPERS = 400
"""In a run; one wake-up in a thousand takes a millisecond."""
_TICK_STOPS_US = 150_000.0
"""After a run has begun: what its sockets and threads leave to RCU is done by then."""
# A run of messages to a sleeper in which fewer met it asleep says nothing.
_FEWEST_SLEEPS = 10
_TCP, _UNIX = "messages over local TCP", "messages over Unix sockets"
_EVENTS, _COPY, _WINDOWS = "epoll_wait", "large messages", "windows of messages"
_ACROSS, _WAKING = "messages between two CPUs", "waking a thread on another CPU"
_PEERS = "many connections between two CPUs"
_TICKLESS = "sleeping on a CPU that stops its timer tick"
SAMPLES = {
    _TCP: "tcp_send_ns",
    _UNIX: "unix_send_ns",
    _EVENTS: "epoll_wait_ns",
    _COPY: "copy_ns_per_byte",
    _WINDOWS: "window_ns",
    _ACROSS: f"tcp_send_{ACROSS_BYTES[0]}_across_ns",
    _PEERS: f"peer_{PEER_CONNECTIONS}",
    _WAKING: "wake_latency_ns",
    _TICKLESS: "tickless_latency_ns",
}
"""Probes that other programs may stop, in words, and samples that each has given if it ended."""
_MIB = 1024 * 1024
# Regions of random loads: from where a second-level TLB ends to the heap of a large engine.
_REGIONS = tuple(_MIB * 2**power for power in range(7, 13))
INTERRUPTIONS_US = (
    *(5, 10, 20, 50, 100, 200, 500),
    *(1000, 1500, 2000, 3000, 5000, 7000, 10_000, 15_000, 20_000, 30_000, 50_000, 70_000, 100_000),
)
"""Finer where one pause decides a tail: between two of these, lengths are interpolated."""
_WATCH_S = 3.0
"""Interruptions of a millisecond and more come a few times a second."""
_WINDOWS_A_ROUND = 8
_WINDOW_REPETITIONS = 100
"""Of messages there and back on all connections: about a tenth of a second."""
_OTHER_FILES = 200
"""What a process may have open besides the sockets of a probe."""
_PAUSES_MS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


@dataclass
class Collected:
    """All repetitions of a capture.

    Attributes
    ----------
    short
        Samples by name; the unit is at the end of the name.
    latency_ns
        By `small_pages` or `huge_pages`, then by working set in bytes, ns per dependent load.
    parallel_ns
        By number of chains at once, ns per load over the largest working set.
    region_ns
        By size of a region in bytes, ns per random load on small pages.
    survival_ns
        By pause in ms, ns per load of lines of the last-level cache, untouched meanwhile.
    interruptions_per_s
        By duration in us, how often per second a busy CPU was taken away for at least that long: a
        sample for each CPU and round.
    disturbed
        By probe, in words, the reason why it failed last, and for how many seconds it was tried.
    regions
        How many memory has room for; `region_ns` has fewer where time was short.
    rounds
        How many there was time for.
    slowed
        Share of probes during which another machine had the core's other hyperthread, and how many
        times as long the core then took.
    """

    short: dict[str, list[float]] = field(default_factory=dict)
    latency_ns: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    parallel_ns: dict[int, list[float]] = field(default_factory=dict)
    region_ns: dict[int, list[float]] = field(default_factory=dict)
    survival_ns: dict[float, list[float]] = field(default_factory=dict)
    interruptions_per_s: dict[int, list[float]] = field(default_factory=dict)
    disturbed: dict[str, tuple[str, float]] = field(default_factory=dict)
    regions: int = 0
    rounds: int = 0
    slowed: tuple[float, float] = (0.0, 1.0)

    def add(self, name: str, samples: list[float]) -> None:
        """Append samples to those a name has."""
        self.short.setdefault(name, []).extend(samples)

    def attempt(self, probe: str, run: Callable[["Collected"], None]) -> bool:
        """Run a probe and keep its samples; again, within `_RETRY_S`, if something disturbs it.

        Parameters
        ----------
        probe
            One of `SAMPLES`.
        run
            Adds `short` samples; those of a run that fails are dropped.

        Returns
        -------
        bool
            Whether there are samples of it.
        """
        _, tried_s = self.disturbed.get(probe, ("", 0.0))
        while True:
            own, started_s = Collected(), time.monotonic()
            try:
                run(own)
            except sockets.DisturbedError as error:
                tried_s += time.monotonic() - started_s
                self.disturbed[probe] = (str(error).rstrip("."), tried_s)
                if tried_s >= _RETRY_S:
                    return False
                continue
            for name, samples in own.short.items():
                self.add(name, samples)
            return True

    def as_plain_data(self) -> dict[str, Any]:
        """What a profile keeps under `raw`."""

        def rows(samples: dict[int, list[float]]) -> list[list[Any]]:
            return [[key, [rounded(ns) for ns in values]] for key, values in samples.items()]

        return {
            **{name: [rounded(item) for item in values] for name, values in self.short.items()},
            **{f"latency_ns_{pages}": rows(curve) for pages, curve in self.latency_ns.items()},
            "parallel_ns_per_load": rows(self.parallel_ns),
            "interruptions_per_s": rows(self.interruptions_per_s),
        }


def collect(machine: Machine, say: Callable[[str], None]) -> Collected:
    """Run everything; `say` gets one line as each part starts."""
    found = Collected()
    pair = machine.pair if machine.usable_cpus > 1 else None
    pair_rounds: list[PairRound] = []
    blocks: dict[str, list[Block]] = {}
    cpu = machine.pair[0] if machine.pair else machine.cpus[0]
    with pinned(cpu):
        started_s = time.monotonic()
        while found.rounds < ROUNDS and _time_for_another(found.rounds, started_s):
            of = f"({found.rounds + 1} of {ROUNDS})"
            say(f"clock, system calls, messages, transfers between cores {of}")
            _short_round(cpu, blocks, found)
            if pair is not None:
                pair_rounds.append(_pair_round(pair, found))
            say(f"latency of caches and memory by working set {of}")
            _memory_round(machine, found, first=found.rounds == 0)
            _survival_round(machine, found)
            if pair is not None:
                say(f"interruptions of busy cores {of}")
                _interruptions(pair, found, duration_s=_WATCH_S)
            found.rounds += 1
        _keep_fast(cpu, blocks, found)
        if pair is not None:
            _settle(pair, pair_rounds, found, say)
        say("encryption")
        _encryption(found)
        say("page walks of large regions")
        _regions(machine, found)
    return found


def _time_for_another(rounds: int, started_s: float) -> bool:
    """Whether a round that takes as long as the earlier ones did ends in time."""
    elapsed_s = time.monotonic() - started_s
    return rounds == 0 or elapsed_s * (rounds + 1) / rounds <= _ROUNDS_S


@contextmanager
def pinned(cpu: int) -> Iterator[None]:
    """Keep this thread on one CPU, and give it back its CPUs afterwards."""
    allowed = os.sched_getaffinity(0)
    pin(cpu)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def pin(cpu: int) -> None:
    """Keep the calling thread on one CPU."""
    os.sched_setaffinity(0, {cpu})


def _largest_bytes(machine: Machine) -> int:
    """A working set no cache holds, within what memory allows."""
    wanted = min(max(256 * _MIB, 8 * _last_cache_bytes(machine)), 512 * _MIB)
    return max(16 * _MIB, min(wanted, machine.available_bytes // 6))


def _memory_round(machine: Machine, found: Collected, *, first: bool) -> None:
    """Latency on small and on huge pages; in the first round parallel chains and bandwidth too.

    Small pages are what an engine's heap is on.
    """
    sizes = memory.working_sets(_largest_bytes(machine))
    for pages, huge in (("huge_pages", True), ("small_pages", False)):
        buffer = memory.Buffer(sizes[-1], huge=huge)
        try:
            if huge and not buffer.is_huge:
                continue
            curve = found.latency_ns.setdefault(pages, {})
            for size, samples in memory.latency_samples(buffer, sizes).items():
                curve.setdefault(size, []).extend(samples)
            if first and not huge:
                # The last working set measured is the largest, and its chain is still linked.
                for chains in CHAINS:
                    samples = memory.parallel_samples(buffer, sizes[-1], chains)
                    found.parallel_ns[chains] = samples
                # One thread per CPU the quota allows: more would be throttled.
                cpus = machine.cpus[: machine.usable_cpus]
                found.add("bandwidth_gb_per_s", memory.bandwidth_samples(buffer, cpus, pin))
                found.add("dram_copy_ns_per_byte", memory.copy_samples(buffer))
        finally:
            buffer.close()


def _last_cache_bytes(machine: Machine) -> int:
    return machine.caches.get(3, CacheFacts(32 * _MIB, 64, 1)).size_bytes


def _regions(machine: Machine, found: Collected) -> None:
    """Random loads over regions as large as an engine's heap, as long as there is time."""
    sizes = [size for size in _REGIONS if size <= machine.available_bytes // 4]
    if not sizes:
        return
    lines = 2 * _last_cache_bytes(machine) // memory.LINE_BYTES
    found.regions = len(sizes)
    end_s = time.monotonic() + _REGIONS_S
    # One buffer for all: a region is the beginning of the next, and most of the time goes into
    # pages that are touched for the first time.
    buffer = memory.Buffer(sizes[-1], huge=False, touched=False)
    try:
        for size in sizes:
            if not buffer.touch(size, until_s=end_s):
                return
            found.region_ns[size] = memory.region_samples(buffer, size, lines=lines)
    finally:
        buffer.close()


def _encryption(found: Collected) -> None:
    """What TLS takes, where keys can be made for it."""
    for key in ("ecdsa", "rsa"):
        both = encryption.contexts(key)
        if both is None:
            return
        found.add(f"tls_{key}_handshake_us", encryption.handshake_samples(*both))
        if key == "ecdsa":
            by_record, by_byte = encryption.record_samples(*both)
            found.add("tls_record_ns", by_record)
            found.add("tls_ns_per_byte", by_byte)


def _survival_round(machine: Machine, found: Collected) -> None:
    """How long lines stay in the last cache."""
    size = _last_cache_bytes(machine) // 8
    buffer = memory.Buffer(size, huge=True)
    try:
        for pause_ms, sample in memory.survival_samples(buffer, size, _PAUSES_MS).items():
            found.survival_ns.setdefault(pause_ms, []).append(sample)
    finally:
        buffer.close()


def look(pair: tuple[int, int], found: Collected, *, duration_s: float) -> None:
    """Once more what the host does to these two CPUs: interruptions, and a run of wake-ups."""
    with pinned(pair[0]):
        _interruptions(pair, found, duration_s=duration_s)
        found.attempt(_WAKING, lambda own: _sleepers(pair, own, runs=1))


def _interruptions(pair: tuple[int, int], found: Collected, *, duration_s: float) -> None:
    """What takes busy CPUs away, by how long it does."""
    for gaps_ns in cores.interruption_samples(pair, pin, duration_s=duration_s):
        for us in INTERRUPTIONS_US:
            rate = float(np.count_nonzero(gaps_ns >= 1000 * us)) / duration_s
            found.interruptions_per_s.setdefault(us, []).append(rate)


@dataclass
class PairRound:
    """What two CPUs did to each other in one round, and how far apart they were.

    `distances_ns` were taken before, within and after it.
    """

    distances_ns: list[float]
    found: Collected

    @property
    def distance_ns(self) -> float | None:
        """None where the CPUs were moved meanwhile."""
        nearest, farthest = min(self.distances_ns), max(self.distances_ns)
        return statistics.median(self.distances_ns) if cores.alike(nearest, farthest) else None


def _pair_round(pair: tuple[int, int], whole: Collected) -> PairRound:
    """One round of lines, messages and wake-ups between two CPUs.

    `whole` keeps what disturbed it; samples are those of the round.
    """
    own = Collected(disturbed=whole.disturbed)
    distances_ns = [cores.distance_ns(pair, pin)]
    own.add("core_to_core_ns", cores.core_to_core_samples(*pair, pin))
    for probe, part in (
        *((_ACROSS, _across), (_PEERS, _peers), (_WAKING, _sleepers)),
        (_TICKLESS, _tickless_sleepers),
    ):
        own.attempt(probe, partial(part, pair))
        distances_ns.append(cores.distance_ns(pair, pin))
    return PairRound(distances_ns, own)


def _settle(
    pair: tuple[int, int],
    rounds: list[PairRound],
    found: Collected,
    say: Callable[[str], None],
) -> None:
    """Keep rounds in which the CPUs were equally far apart, after more rounds if there are few.

    All rounds are kept where no two of them agree; the range of `core_to_core_ns` then says so.
    """
    end_s = time.monotonic() + _SETTLE_S
    while (
        len(of_one_distance(rounds)) < ROUNDS
        and len(rounds) < _MOST_PAIR_ROUNDS
        and time.monotonic() < end_s
    ):
        say("transfers between cores once more: the hypervisor has moved them")
        rounds.append(_pair_round(pair, found))
    kept = of_one_distance(rounds)
    for one in kept if len(kept) > 1 else rounds:
        for name, samples in one.found.short.items():
            found.add(name, samples)


def of_one_distance(rounds: list[PairRound]) -> list[PairRound]:
    """The most rounds in which the CPUs were equally far apart; of as many, the earliest."""
    groups = [
        [
            other
            for other in rounds
            if other.distance_ns is not None and cores.alike(one.distance_ns, other.distance_ns)
        ]
        for one in rounds
        if one.distance_ns is not None
    ]
    return max(groups, key=len, default=[])


@dataclass
class Block:
    """Samples of one probe, and how long the core took for an answer before or after them."""

    answer_ns: float
    found: Collected


def _short_round(cpu: int, blocks: dict[str, list[Block]], whole: Collected) -> None:
    """One round of everything on one CPU that takes milliseconds, added to blocks by probe.

    `whole` gets what disturbed it, and windows of messages, which are there for their differences.
    """
    for name, probe in _PROBES.items():
        blocks.setdefault(name, []).append(_block(cpu, probe, whole))
    for _ in range(_WINDOWS_A_ROUND):
        whole.attempt(_WINDOWS, _window)


def _block(cpu: int, probe: Callable[[Collected], object], whole: Collected) -> Block:
    own = Collected(disturbed=whole.disturbed)
    before_ns = cores.core_answer_ns(cpu)
    probe(own)
    return Block(max(before_ns, cores.core_answer_ns(cpu)), own)


def _keep_fast(cpu: int, blocks: dict[str, list[Block]], found: Collected) -> None:
    """Keep the samples of a core that nobody else used, after more of them if there are none.

    All samples of a probe are kept where the core was never so. `found.slowed` says how it was.
    """
    met = [block.answer_ns for of_probe in blocks.values() for block in of_probe]
    limit_ns = cores.SLOWER * min(met)
    slow = [ns for ns in met if ns > limit_ns]
    if slow:
        found.slowed = (len(slow) / len(met), statistics.median(slow) / min(met))
    end_s = time.monotonic() + _SHARED_S
    for name, of_probe in blocks.items():
        while min(block.answer_ns for block in of_probe) > limit_ns and time.monotonic() < end_s:
            if cores.core_answer_ns(cpu) > limit_ns:
                time.sleep(_SHARED_PAUSE_S)
            else:
                of_probe.append(_block(cpu, _PROBES[name], found))
        for block in [b for b in of_probe if b.answer_ns <= limit_ns] or of_probe:
            for samples_name, samples in block.found.short.items():
                found.add(samples_name, samples)


def _instructions(found: Collected) -> None:
    """The clock, and code like an engine's: their ratios are of one moment."""
    found.add("clock_ghz", cores.clock_samples())
    found.add("answer_ns", cores.answer_samples())
    found.add("element_ns", cores.element_samples())


def _calls(found: Collected) -> None:
    """System calls that send nothing."""
    found.add("syscall_ns", cores.syscall_samples())
    found.add("epoll_ctl_ns", sockets.epoll_change_samples(repetitions=20))
    found.attempt(_EVENTS, _events)


def _copies(found: Collected) -> None:
    """Large messages, some times."""
    for _ in range(_COPY_PAIRS_A_ROUND):
        found.attempt(_COPY, _copy)


def _awake(transport: str, found: Collected) -> None:
    """Messages between connections of one thread."""
    costs = sockets.awake_samples(transport, repetitions=30)
    found.add(f"{transport}_send_ns", costs.send)
    found.add(f"{transport}_recv_ns", costs.receive)
    found.add(f"{transport}_send_thread_cpu_ns", costs.send_cpu)
    found.add(f"{transport}_recv_thread_cpu_ns", costs.receive_cpu)


def _events(found: Collected) -> None:
    """Calls of epoll_wait, and the events they return."""
    waits, events = sockets.epoll_samples(repetitions=20)
    found.add("epoll_wait_ns", waits)
    found.add("epoll_event_ns", events)


def _window(found: Collected) -> None:
    """The mean time of a message over about a tenth of a second."""
    costs = sockets.awake_samples("tcp", repetitions=_WINDOW_REPETITIONS)
    found.add("window_ns", [statistics.fmean(costs.send) + statistics.fmean(costs.receive)])


def _copy(found: Collected) -> None:
    """What a byte of a large message takes."""
    found.add("copy_ns_per_byte", [_copy_ns_per_byte()])


def _across(pair: tuple[int, int], found: Collected) -> None:
    """Messages between two CPUs, by size; one sample of each cost is a run's median."""
    for size in ACROSS_BYTES:
        costs = sockets.across_samples(*pair, pin, size=size, call_bytes=READ_BYTES)
        found.add(f"tcp_send_{size}_across_ns", [statistics.median(costs.send)])
        found.add(f"tcp_recv_{size}_across_ns", [statistics.median(costs.receive)])


def _peers(pair: tuple[int, int], found: Collected) -> None:
    """How many times as long messages between two CPUs take as between connections of one thread.

    Both are measured right after each other: what a neighbour does to one it does to the other.
    """
    for count in PEER_CONNECTIONS_MEASURED:
        with files_for(2 * count) as allowed:
            if not allowed:
                return
            alone = sockets.awake_samples("tcp", repetitions=10)
            both = sockets.across_samples(
                *pair,
                pin,
                size=sockets.SMALL_BYTES,
                call_bytes=sockets.SMALL_BYTES,
                count=count,
                rounds=max(_FEWEST_PEER_ROUNDS, _PEER_MESSAGES // count),
                watched=True,
            )
        alone_ns = statistics.median(alone.send) + statistics.median(alone.receive)
        both_ns = statistics.median(both.send) + statistics.median(both.receive)
        found.add(f"peer_{count}", [both_ns / alone_ns])


@contextmanager
def files_for(sockets_open: int) -> Iterator[bool]:
    """Let this process open so many sockets for a while; whether it may."""
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = sockets_open + _OTHER_FILES
    if most != resource.RLIM_INFINITY and wanted > most:
        yield False
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(few, wanted), most))
    try:
        yield True
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))


_PROBES: dict[str, Callable[[Collected], object]] = {
    "instructions": _instructions,
    "calls": _calls,
    _TCP: lambda found: found.attempt(_TCP, partial(_awake, "tcp")),
    _UNIX: lambda found: found.attempt(_UNIX, partial(_awake, "unix")),
    _COPY: _copies,
}
"""What one CPU takes that may share its core, each within a tenth of a second or so."""


def _copy_ns_per_byte() -> float:
    """Per byte and call, from large and small messages sent right after each other."""
    small, large = (
        sockets.awake_samples("tcp", size=size, count=8, repetitions=12)
        for size in (sockets.SMALL_BYTES, sockets.LARGE_BYTES)
    )
    both = [
        statistics.median(costs.send) + statistics.median(costs.receive) for costs in (small, large)
    ]
    return max(1e-4, (both[1] - both[0]) / (2 * (sockets.LARGE_BYTES - sockets.SMALL_BYTES)))


def _sleepers(pair: tuple[int, int], found: Collected, *, runs: int = _SLEEPERS_A_ROUND) -> None:
    """Messages over TCP to a thread that sleeps; one sample of each cost is a run's median.

    Idle cores keep their timer tick meanwhile.
    """
    between_us = _between_us(pair)
    if between_us is None:
        return
    for _ in range(runs):
        run = sockets.sleeper_samples(
            "tcp",
            *pair,
            pin,
            messages=_MESSAGES_TO_SLEEPERS,
            pause_us=between_us,
            ticking=True,
        )
        if len(run.latency) < _FEWEST_SLEEPS:
            continue
        found.add("sleeper_pause_us", [between_us])
        found.add("sleeper_send_ns", [statistics.median(run.send)])
        found.add("wake_latency_ns", [statistics.median(run.latency)])
        found.add("wake_latency_each_ns", run.latency)
        found.add("sleeper_receiver_cpu_ns", [statistics.median(run.receiver_cpu)])


def _between_us(pair: tuple[int, int]) -> float | None:
    """Time between two messages to a sleeper; None where none sleeps."""
    first = sockets.sleeper_samples("tcp", *pair, pin, messages=40, pause_us=300.0)
    return pause_us(statistics.median(first.latency) / 1e3) if first.latency else None


def _tickless_sleepers(pair: tuple[int, int], found: Collected) -> None:
    """The same where idle cores have stopped their timer tick: the second half of a long run."""
    between_us = _between_us(pair)
    if between_us is None:
        return
    messages = 2 * math.ceil(_TICK_STOPS_US / between_us)
    run = sockets.sleeper_samples("tcp", *pair, pin, messages=messages, pause_us=between_us)
    late = slice(len(run.latency) // 2, None)
    if len(run.latency[late]) >= _FEWEST_SLEEPS:
        found.add("tickless_latency_ns", [statistics.median(run.latency[late])])
        found.add("tickless_receiver_cpu_ns", [statistics.median(run.receiver_cpu[late])])
