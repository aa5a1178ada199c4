"""Capturing a profile of the host this runs on."""

import datetime
import importlib.metadata
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, cast

from ..quantity import Curve, Quantity, Source
from ..schema import (
    Cache,
    Captured,
    Dram,
    HostProfile,
    Kernel,
    Network,
    Tlb,
    Topology,
)
from . import cores, memory, sockets
from .machine import CacheFacts, Machine, busy_cpu_seconds, inspect_machine
from .summary import SOURCE, assumed, extra, measured, reported, rounded, spread

_CHAINS = (1, 2, 4, 8, 12, 16, 24, 32, 48)
_MIB = 1024 * 1024
# What is assumed of a cache the kernel does not describe: the least and most that servers have.
_CACHE_RANGES = {1: (32 * 1024, 128 * 1024), 2: (256 * 1024, 4 * _MIB), 3: (4 * _MIB, 256 * _MIB)}


def capture_host(*, progress: Callable[[str], None] | None = None) -> HostProfile:
    """Measure this host.

    Takes about ten seconds once its loops are compiled, some more the first time. It measures what
    this process may use: CPUs by affinity and cgroup, memory by cgroup. Run it while the host is
    otherwise idle; medians bear with some disturbance, and the profile notes what it saw of it.

    Parameters
    ----------
    progress
        Called with one line of text as each part starts.

    Raises
    ------
    InputError
        Not Linux on x86-64 or aarch64.
    EngineError
        Local connections can't be opened.
    """
    say = progress or (lambda _: None)
    machine = inspect_machine()
    started, before = time.monotonic(), busy_cpu_seconds(machine.cpus)
    own_before = time.process_time()
    raw: dict[str, Any] = {}
    with _pinned(machine.pair[0] if machine.pair else machine.cpus[0]):
        say("clock, system calls, core-to-core transfers")
        clock = measured(
            _keep(raw, "clock_ghz", cores.clock_samples()),
            "GHz",
            "dependent one-cycle additions and exclusive-ors against thread CPU time",
        )
        syscall = measured(_keep(raw, "syscall_ns", cores.syscall_samples()), "ns", "getppid")
        # Three times, far apart: a hypervisor may move a virtual CPU to another core meanwhile.
        transfers = _core_to_core_samples(machine)
        say("latency of caches and memory by working set")
        levels = _memory_levels(machine, raw)
        transfers += _core_to_core_samples(machine)
        say("messages over local connections")
        kernel = _kernel(machine, raw, syscall, say)
        transfers += _core_to_core_samples(machine)
    elapsed = time.monotonic() - started
    after = busy_cpu_seconds(machine.cpus)
    others = (after[0] - before[0]) - (time.process_time() - own_before)
    notes = _notes(machine, raw, others_cpus=others / elapsed, stolen=after[1] - before[1])
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return HostProfile(
        id=_host_id(machine),
        title=f"{machine.cpu_model}, {machine.usable_cpus} CPUs, captured {day}",
        isa=cast(Literal["x86-64", "aarch64"], machine.isa),
        microarchitecture=machine.cpu_model,
        notes=notes,
        sources={
            SOURCE: Source(
                title="forecache profile, run on this host",
                file="raw",
                accessed=day,
                note="repetitions are under raw in this file",
            )
        },
        topology=_topology(machine),
        clock_ghz=clock,
        user_ipc=assumed(
            1.8,
            "1/cycle",
            "counting instructions needs hardware counters, which virtual machines often hide; "
            "engine code whose data is in cache retires 1.2 to 2.6 a cycle on current servers. "
            "Calibrating against an engine on this host fixes the time of its user code anyway",
            low=1.2,
            high=2.6,
        ),
        core_to_core_ns=_core_to_core(machine, raw, transfers),
        kernel=kernel,
        network=_network(),
        memory_gib=reported(
            rounded(machine.memory_bytes / 2**30), "GiB", "total memory, or the cgroup's limit"
        ),
        captured=Captured(
            date=day,
            cpu_model=machine.cpu_model,
            kernel=machine.kernel,
            tool=f"forecache {_version('forecache')}, numba {_version('numba')}, "
            f"Python {sys.version.split()[0]}",
            elapsed_s=round(elapsed, 1),
        ),
        raw=raw,
        **levels,
    )


@contextmanager
def _pinned(cpu: int) -> Iterator[None]:
    """Keep this thread on one CPU, and give it back its CPUs afterwards."""
    allowed = os.sched_getaffinity(0)
    _pin(cpu)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _pin(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})


def _keep(raw: dict[str, Any], name: str, samples: list[float]) -> list[float]:
    """Record samples under a name and hand them on."""
    raw[name] = [rounded(sample) for sample in samples]
    return samples


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "from a checkout"


def _host_id(machine: Machine) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", machine.cpu_model.lower()).strip("-")
    return f"captured-{slug}-{machine.usable_cpus}cpus"


def _topology(machine: Machine) -> Topology:
    threads = machine.threads_per_core if machine.usable_cpus >= machine.threads_per_core else 1
    limit = "affinity" if machine.quota_cpus is None else "affinity and cgroup quota"
    smt = None
    if threads > 1:
        smt = assumed(
            0.63,
            "ratio",
            "not measured here; AWS measured 0.63 on Ice Lake with all hyperthreads busy",
            low=0.5,
            high=0.8,
        )
    return Topology(
        cores=reported(machine.usable_cpus // threads, "cores", f"this process may use ({limit})"),
        threads_per_core=reported(threads, "threads", "sysfs topology"),
        sockets=reported(machine.sockets, "sockets", "sysfs topology"),
        busy_sibling_speed=smt,
    )


def _memory_levels(machine: Machine, raw: dict[str, Any]) -> dict[str, Any]:
    """Fields `caches`, `dram`, `tlb`, `parallel_misses` and `latency_curve` of the profile."""
    last_level = machine.caches.get(3, CacheFacts(32 * _MIB, 64, 1)).size_bytes
    largest = min(max(256 * _MIB, 8 * last_level), 512 * _MIB, machine.available_bytes // 6)
    sizes = memory.working_sets(max(largest, 16 * _MIB))
    curves: dict[str, dict[int, list[float]]] = {}
    for pages, huge in (("small_pages", False), ("huge_pages", True)):
        buffer = memory.Buffer(sizes[-1], huge=huge)
        try:
            if huge and not buffer.is_huge:
                continue
            curves[pages] = memory.latency_samples(buffer, sizes)
            if not huge:
                chains = {
                    count: memory.parallel_samples(buffer, sizes[-1], count) for count in _CHAINS
                }
                # One thread per CPU the quota allows: more would be throttled.
                bandwidth = memory.bandwidth_samples(
                    buffer, machine.cpus[: machine.usable_cpus], _pin
                )
        finally:
            buffer.close()
        raw[f"latency_ns_{pages}"] = [
            [size, [rounded(ns) for ns in samples]] for size, samples in curves[pages].items()
        ]
    raw["parallel_ns_per_load"] = [
        [count, [rounded(ns) for ns in samples]] for count, samples in chains.items()
    ]
    _keep(raw, "bandwidth_gb_per_s", bandwidth)
    pages = "huge_pages" if "huge_pages" in curves else "small_pages"
    small = curves["small_pages"]
    one_chain = statistics.median(chains[1])
    best_count = min(chains, key=lambda count: statistics.median(chains[count]))
    return {
        "caches": [_cache(machine, level, curves[pages], pages) for level in (1, 2, 3)],
        "dram": Dram(
            latency_ns=measured(
                curves[pages][sizes[-1]],
                "ns",
                f"random pointer chase over {sizes[-1] // _MIB} MiB, {pages.replace('_', ' ')}",
            ),
            peak_bandwidth_gb_per_s=Quantity(
                value=rounded(spread(bandwidth)[2]),
                unit="GB/s",
                source=SOURCE,
                kind="measured",
                method="sequential reads by all CPUs this process may use, upper quartile of "
                f"{len(bandwidth)}; range from the lower quartile to the best",
                low=rounded(spread(bandwidth)[0]),
                high=rounded(max(bandwidth)),
            ),
        ),
        "tlb": _tlb(curves, sizes[-1]),
        "parallel_misses": measured(
            [one_chain / ns for ns in chains[best_count]],
            "misses",
            f"time per load of one random pointer chase against {best_count} at once, out of cache",
        ),
        "latency_curve": Curve(
            x_unit="B",
            y_unit="ns",
            source=SOURCE,
            kind="measured",
            method="random pointer chase by working set, small pages; lower quartiles, as "
            "neighbours can only add",
            points=[(float(size), rounded(spread(samples)[0])) for size, samples in small.items()],
        ),
    }


def _cache(machine: Machine, level: int, curve: dict[int, list[float]], pages: str) -> Cache:
    """One cache level: geometry from the kernel, latency from working sets well inside it."""
    low, high = _CACHE_RANGES[level]
    facts = machine.caches.get(level)
    if facts is None:
        # Geometric middle, so that the latency below still comes from a plausible working set.
        size = assumed(None, "B", "the kernel does not describe this cache", low=low, high=high)
        facts = CacheFacts(int(size.best), 64, 1)
    else:
        size = reported(facts.size_bytes, "B", "sysfs")
    below = machine.caches.get(level - 1)
    # A chase cycles through its set, so one twice the level below no longer hits there (LRU).
    smallest = 0 if level == 1 else 2 * (below.size_bytes if below else _CACHE_RANGES[level - 1][1])
    inside = [s for s in curve if smallest <= s <= facts.size_bytes // 2]
    if not inside:
        inside = [min(curve, key=lambda s: abs(s - facts.size_bytes // 2))]
    return Cache(
        name=cast(Literal["L1", "L2", "L3"], f"L{level}"),
        size_bytes=size,
        latency_ns=measured(
            [ns for s in inside for ns in curve[s]],
            "ns",
            f"random pointer chase over {inside[0] // 1024} to {inside[-1] // 1024} KiB, "
            f"{pages.replace('_', ' ')}",
        ),
        line_bytes=reported(facts.line_bytes, "B", "sysfs"),
        shared_by_cores=reported(
            max(1, facts.shared_by_cpus // machine.threads_per_core), "cores", "sysfs"
        ),
    )


def _tlb(curves: dict[str, dict[int, list[float]]], largest: int) -> Tlb:
    page = float(os.sysconf("SC_PAGE_SIZE"))
    if "huge_pages" in curves:
        small = spread(curves["small_pages"][largest])
        huge = spread(curves["huge_pages"][largest])
        low, middle, high = (
            max(1.0, value)
            for value in (small[0] - huge[2], small[1] - huge[1], small[2] - huge[0])
        )
        walk = Quantity(
            value=rounded(middle),
            unit="ns",
            source=SOURCE,
            kind="measured",
            method=f"pointer chase over {largest // _MIB} MiB on small less on huge pages; "
            "range from opposite quartiles",
            low=rounded(low),
            high=rounded(high),
        )
    else:
        walk = assumed(
            None,
            "ns",
            "no huge pages to compare with; dram.latency_ns here includes the walk, so this is "
            "what little may come on top",
            low=0.5,
            high=5.0,
        )
    return Tlb(
        l2_entries=assumed(
            2048,
            "entries",
            "not reported by the kernel; current servers have 1280 to 4096",
            low=1024,
            high=4096,
        ),
        page_bytes=reported(page, "B", "page size of the kernel"),
        walk_ns=walk,
    )


def _core_to_core_samples(machine: Machine) -> list[float]:
    if machine.pair is None or machine.usable_cpus < 2:
        return []
    return cores.core_to_core_samples(*machine.pair, _pin)


def _core_to_core(machine: Machine, raw: dict[str, Any], samples: list[float]) -> Quantity:
    if samples and machine.pair is not None:
        return measured(
            _keep(raw, "core_to_core_ns", samples),
            "ns",
            "compare-and-exchange ping-pong of CPUs {} and {}, half a round trip, in three "
            "sessions".format(*machine.pair),
        )
    return assumed(
        None,
        "ns",
        "needs two cores that run at once; servers have 25 to 140 ns within a socket",
        low=25.0,
        high=140.0,
    )


def _kernel(
    machine: Machine, raw: dict[str, Any], syscall: Quantity, say: Callable[[str], None]
) -> Kernel:
    """System-call costs, and what sleeping and waking costs where there are two cores."""
    leaves: dict[str, Quantity] = {"syscall_ns": syscall}
    small = {transport: sockets.awake_samples(transport) for transport in ("tcp", "unix")}
    for transport, costs in small.items():
        how = f"{sockets.SMALL_BYTES} bytes over local {transport}, peer awake"
        for call, samples, cpu in (
            ("send", costs.send, costs.send_cpu),
            ("recv", costs.receive, costs.receive_cpu),
        ):
            name = f"{transport}_{call}_ns"
            leaves[name] = measured(_keep(raw, name, samples), "ns", how)
            _keep(raw, f"{transport}_{call}_thread_cpu_ns", cpu)
    waits, events = sockets.epoll_samples()
    leaves["epoll_wait_ns"] = measured(
        _keep(raw, "epoll_wait_ns", waits), "ns", "non-blocking, without the events it returns"
    )
    leaves["epoll_event_ns"] = measured(
        _keep(raw, "epoll_event_ns", events), "ns", "from calls that return one and 48 events"
    )
    large = sockets.awake_samples("tcp", size=sockets.LARGE_BYTES, count=8, repetitions=40)
    beyond = sockets.LARGE_BYTES - sockets.SMALL_BYTES
    base = statistics.median(small["tcp"].send) + statistics.median(small["tcp"].receive)
    copies = [
        max(1e-4, (send + receive - base) / (2 * beyond))
        for send, receive in zip(large.send, large.receive, strict=True)
    ]
    leaves["copy_ns_per_byte"] = measured(
        _keep(raw, "copy_ns_per_byte", copies),
        "ns/B",
        f"send and recv of {sockets.LARGE_BYTES} against {sockets.SMALL_BYTES} bytes over local "
        "TCP, per byte and call",
    )
    say("waking a sleeping thread")
    leaves |= _sleeping(machine, raw, leaves)
    return Kernel(**leaves)


def _sleeping(
    machine: Machine, raw: dict[str, Any], awake: dict[str, Quantity]
) -> dict[str, Quantity]:
    """`wake_send_ns`, `wake_latency_ns` and `block_ns`, over TCP."""
    if machine.pair is None or machine.usable_cpus < 2:
        why = "needs two cores that run at once; bare metal is near the low end, a virtual "
        why += "machine whose interrupts the hypervisor delivers near the high end"
        return {
            "wake_send_ns": assumed(None, "ns", why, low=500.0, high=10_000.0),
            "wake_latency_ns": assumed(None, "ns", why, low=2_000.0, high=50_000.0),
            "block_ns": assumed(None, "ns", why, low=500.0, high=10_000.0),
        }
    first = sockets.sleeper_samples("tcp", *machine.pair, _pin, messages=60, pause_us=300.0)
    # Long enough to fall asleep, short enough that idle states and caches are those of a busy host.
    pause_us = min(1000.0, max(60.0, 3e-3 * statistics.median(first.latency)))
    send, latency, receiver = [], [], []
    for _ in range(7):
        run = sockets.sleeper_samples("tcp", *machine.pair, _pin, messages=80, pause_us=pause_us)
        send.append(statistics.median(run.send))
        latency.append(statistics.median(run.latency))
        receiver.append(run.receiver_cpu_per_message)
    raw["sleeper_pause_us"] = rounded(pause_us)
    _keep(raw, "sleeper_send_ns", send)
    _keep(raw, "sleeper_receiver_cpu_ns", receiver)
    turn = sum(awake[name].best for name in ("epoll_wait_ns", "epoll_event_ns", "tcp_recv_ns"))
    how = "CPUs {} to {} over local TCP".format(*machine.pair)
    return {
        "wake_send_ns": extra(
            send,
            awake["tcp_send_ns"].best,
            "ns",
            f"send to a thread asleep in epoll_wait, less tcp_send_ns; {how}",
        ),
        "wake_latency_ns": measured(
            _keep(raw, "wake_latency_ns", latency),
            "ns",
            f"start of that send until epoll_wait has returned; {how}",
        ),
        "block_ns": extra(
            receiver,
            turn,
            "ns",
            "thread CPU time of the sleeper per message, less epoll_wait_ns, epoll_event_ns and "
            f"tcp_recv_ns; {how}",
        ),
    }


def _network() -> Network:
    why = "not measured: needs a second host; loopback and Unix sockets do not use it"
    return Network(
        bandwidth_gbit_per_s=assumed(None, "Gbit/s", why, low=1.0, high=100.0),
        one_way_us=assumed(30.0, "us", why, low=10.0, high=100.0),
        packets_per_s=assumed(None, "1/s", why, low=500_000.0, high=10_000_000.0),
    )


def _notes(
    machine: Machine, raw: dict[str, Any], *, others_cpus: float, stolen: float
) -> list[str]:
    """What a reader of the profile should know about the run."""
    notes = []
    if machine.quota_cpus is not None:
        notes.append(f"a cgroup limits CPU time to {machine.quota_cpus:g} CPUs")
    if others_cpus > 0.1:
        notes.append(f"other programs used {others_cpus:.1f} CPUs meanwhile; better run it alone")
    if stolen > 0.5:
        notes.append(f"the hypervisor withheld {stolen:.1f} s of CPU time meanwhile")
    if "latency_ns_huge_pages" not in raw:
        notes.append("no huge pages were to be had, so all latencies include page walks")
    last = machine.caches.get(3)
    if last and raw["latency_ns_small_pages"][-1][0] < 4 * last.size_bytes:
        notes.append("memory was short, so dram.latency_ns may include hits in the last cache")
    for call in ("tcp_send", "unix_send"):
        core, cpu = (statistics.median(raw[f"{call}{part}_ns"]) for part in ("", "_thread_cpu"))
        if cpu < 0.9 * core:
            notes.append(
                f"thread CPU time misses {1 - cpu / core:.0%} of {call}_ns: this kernel books "
                "interrupt work apart, so CPU times of an engine's threads will miss it too"
            )
    return notes
