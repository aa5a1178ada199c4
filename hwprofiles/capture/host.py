"""Capturing a profile of the host this runs on."""

import datetime
import importlib.metadata
import math
import os
import re
import ssl
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Literal, cast

import numpy as np

from forecache.sim.errors import InputError

from ..catalogue import list_hosts
from ..parts import Cache, Captured, Dram, Kernel, Network, Tlb, Tls, Topology, Variation
from ..quantity import Curve, Quantity, Source
from ..schema import HostProfile
from ..speed import READ_BYTES
from .collect import (
    ACROSS_BYTES,
    PEER_CONNECTIONS_MEASURED,
    ROUNDS,
    SAMPLES,
    Collected,
    collect,
)
from .cores import ANSWER_INSTRUCTIONS, ELEMENT_INSTRUCTIONS
from .machine import CacheFacts, Machine, busy_cpu_seconds, inspect_machine
from .memory import LINE_BYTES
from .sockets import LARGE_BYTES, SMALL_BYTES
from .summary import SOURCE, assumed, at_least, extra, measured, reported, rounded, spread

_MIB = 1024 * 1024
_RARE_US = 100.0
_WAKE_SHARES = (
    *(0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95),
    *(0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 1.0),
)
_FEWEST_WINDOWS = 4
# How many of the largest working sets show the time of page walks.
_WALK_SIZES = 3
# What is assumed of a cache the kernel does not describe: the least and most that servers have.
_CACHE_RANGES = {1: (32 * 1024, 128 * 1024), 2: (256 * 1024, 4 * _MIB), 3: (4 * _MIB, 256 * _MIB)}


def capture_host(*, progress: Callable[[str], None] | None = None) -> HostProfile:
    """Measure this host.

    Takes half a minute; beside other programs there are fewer samples, so that it takes less than
    a minute there too. It measures what this process may use: CPUs by affinity and cgroup, memory
    by cgroup. Run it while the host is otherwise idle; medians bear with some disturbance. What
    could not be measured is assumed, in the range of the catalogue's hosts; notes say what and why.

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
    machine = inspect_machine()
    started, before = time.monotonic(), busy_cpu_seconds(machine.cpus)
    own_before = time.process_time()
    found = collect(machine, progress or (lambda _: None))
    elapsed = time.monotonic() - started
    after = busy_cpu_seconds(machine.cpus)
    others = (after[0] - before[0]) - (time.process_time() - own_before)
    disturbances = []
    if others / elapsed > 0.1:
        disturbances.append(
            f"other programs used {others / elapsed:.1f} CPUs while it was profiled; run it alone"
        )
    withheld_s = after[1] - before[1]
    if withheld_s > 0.05 * elapsed:
        disturbances.append(
            f"the hypervisor withheld {withheld_s:.1f} s of CPU time while it was profiled"
        )
    return describe(machine, found, elapsed_s=elapsed, notes=disturbances)


def with_days(host: HostProfile, earlier: Sequence[HostProfile]) -> HostProfile:
    """The host with the spread of its days: the same messages, on this day and on earlier ones.

    Raises
    ------
    InputError
        An earlier profile is of another machine, or not of another day.
    """
    days = {_day(host): _message_ns(host)}
    for other in earlier:
        if other.captured is None or other.microarchitecture != host.microarchitecture:
            raise InputError(
                f"earlier profile {other.id}: found {other.microarchitecture}; valid is a "
                f"captured profile of this machine, {host.microarchitecture}."
            )
        if _day(other) in days:
            raise InputError(
                f"earlier profile {other.id}: found a second profile of {_day(other)}; valid is "
                "one profile a day."
            )
        days[_day(other)] = _message_ns(other)
    error = 2.0 / math.sqrt(2.0 * (len(days) - 1))
    value = max(1e-3, float(np.log(list(days.values())).std(ddof=1)))
    leaf = Quantity(
        value=rounded(value),
        unit="1",
        source=SOURCE,
        kind="measured",
        method="standard deviation of the time of a message over " + ", ".join(sorted(days)),
        low=rounded(value * math.exp(-error)),
        high=rounded(value * math.exp(error)),
    )
    variation = (host.variation or Variation()).model_copy(update={"day": leaf})
    return host.model_copy(update={"variation": variation})


def _day(host: HostProfile) -> str:
    return host.captured.date if host.captured is not None else ""


def _message_ns(host: HostProfile) -> float:
    return host.kernel.tcp_send_ns.best + host.kernel.tcp_recv_ns.best


def captured_id(machine: Machine) -> str:
    """The id of a profile that is captured on this machine."""
    name = f"{machine.cpu_model} {machine.cpu_family}"
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return f"captured-{slug}-{machine.usable_cpus}cpus"


def describe(
    machine: Machine, found: Collected, *, elapsed_s: float, notes: list[str]
) -> HostProfile:
    """The profile that follows from what the kernel says and what was measured."""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return HostProfile(
        id=captured_id(machine),
        title=f"{machine.cpu_model}, {machine.usable_cpus} CPUs, captured {day}",
        isa=cast(Literal["x86-64", "aarch64"], machine.isa),
        microarchitecture=machine.cpu_model,
        notes=[*notes, *_notes(machine, found)],
        sources={
            SOURCE: Source(
                title="forecache profile, run on this host",
                file="raw",
                accessed=day,
                note="repetitions are under raw in this file",
            )
        },
        topology=_topology(machine),
        clock_ghz=measured(
            found.short["clock_ghz"],
            "GHz",
            "dependent one-cycle additions and exclusive-ors against thread CPU time",
        ),
        user_ipc=_user_ipc(found),
        repeat_ipc_ratio=_repeat_ipc_ratio(found),
        caches=[_cache(machine, found, level) for level in (1, 2, 3)],
        dram=_dram(found),
        tlb=_tlb(found),
        parallel_misses=_parallel_misses(found),
        core_to_core_ns=_core_to_core(machine, found),
        kernel=_kernel(machine, found),
        network=_network(),
        memory_gib=reported(
            rounded(machine.memory_bytes / 2**30), "GiB", "total memory, or the cgroup's limit"
        ),
        latency_curve=Curve(
            x_unit="B",
            y_unit="ns",
            source=SOURCE,
            kind="measured",
            method="random pointer chase by working set, small pages; lower quartiles, as "
            "neighbours can only add",
            points=[
                (float(size), rounded(spread(samples)[0]))
                for size, samples in found.latency_ns["small_pages"].items()
            ],
        ),
        walk_curve=_walk_curve(found),
        interruptions=interruption_curve(machine, found),
        wake_curve=wake_curve(machine, found),
        peer_curve=_peer_curve(machine, found),
        recv_curve=_message_curve(machine, found, "recv"),
        send_curve=_message_curve(machine, found, "send"),
        l3_fills_per_us=_fills(machine, found),
        tls=_tls(found),
        variation=_variation(found),
        captured=Captured(
            date=day,
            cpu_model=machine.cpu_model,
            kernel=machine.kernel,
            tool=f"forecache {_version('forecache')}, Python {sys.version.split()[0]}",
            elapsed_s=round(elapsed_s, 1),
        ),
        raw=found.as_plain_data(),
    )


def _user_ipc(found: Collected) -> Quantity:
    """Instructions per cycle of code like an engine's: what it takes, by what it is known to do."""
    clock_ghz = statistics.median(found.short["clock_ghz"])
    rates = [ANSWER_INSTRUCTIONS / (ns * clock_ghz) for ns in found.short["answer_ns"]]
    middle = statistics.median(rates)
    return Quantity(
        value=rounded(middle),
        unit="1/cycle",
        source=SOURCE,
        kind="measured",
        method=f"code that parses, looks up and answers GETs, {ANSWER_INSTRUCTIONS} instructions "
        f"each as valgrind counts them, against thread CPU time; median of {len(rates)}. Seven "
        "engines on a Zen 4 host retired 0.9 to 1.1 times as many a cycle; the range is twice that",
        low=rounded(0.8 * middle),
        high=rounded(1.2 * middle),
    )


def profiled_answer_ns(host: HostProfile) -> float:
    """ns that a core took for a GET in its caches when a host was profiled; inf if unknown."""
    if host.user_ipc.kind != "measured":
        return math.inf
    return ANSWER_INSTRUCTIONS / (host.user_ipc.best * host.clock_ghz.best)


def _repeat_ipc_ratio(found: Collected) -> Quantity:
    """How many times as many instructions a cycle retire in what repeats within a command."""
    answers, elements = found.short["answer_ns"], found.short["element_ns"]
    rates = [
        (ELEMENT_INSTRUCTIONS / element_ns) / (ANSWER_INSTRUCTIONS / answer_ns)
        for answer_ns, element_ns in zip(answers, elements, strict=True)
    ]
    middle = statistics.median(rates)
    return Quantity(
        value=rounded(middle),
        unit="1",
        source=SOURCE,
        kind="measured",
        method="code that walks a packed list and replies with each element, "
        f"{ELEMENT_INSTRUCTIONS} instructions each as valgrind counts them, against that of "
        f"user_ipc; median of {len(rates)}. Long commands of five engines on a Xeon 6 guest took 1 "
        "to 1.1 times less than that; the range is twice that",
        low=rounded(0.8 * middle),
        high=rounded(1.2 * middle),
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "from a checkout"


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


def _best_curve(found: Collected) -> tuple[str, dict[int, list[float]]]:
    """Latency by working set without page walks where huge pages were to be had."""
    pages = "huge_pages" if "huge_pages" in found.latency_ns else "small_pages"
    return pages.replace("_", " "), found.latency_ns[pages]


def _cache(machine: Machine, found: Collected, level: int) -> Cache:
    """One cache level: geometry from the kernel, latency from working sets well inside it."""
    low, high = _CACHE_RANGES[level]
    facts = machine.caches.get(level)
    if facts is None:
        size = assumed(None, "B", "the kernel does not describe this cache", low=low, high=high)
        facts = CacheFacts(int(size.best), 64, 1)
    else:
        size = reported(facts.size_bytes, "B", "sysfs")
    below = machine.caches.get(level - 1)
    # A chase cycles through its set, so one twice the level below no longer hits there (LRU).
    smallest = 0 if level == 1 else 2 * (below.size_bytes if below else _CACHE_RANGES[level - 1][1])
    pages, curve = _best_curve(found)
    inside = [s for s in curve if smallest <= s <= facts.size_bytes // 2]
    if not inside:
        inside = [min(curve, key=lambda s: abs(s - facts.size_bytes // 2))]
    return Cache(
        name=cast(Literal["L1", "L2", "L3"], f"L{level}"),
        size_bytes=size,
        latency_ns=measured(
            [ns for s in inside for ns in curve[s]],
            "ns",
            f"random pointer chase over {inside[0] // 1024} to {inside[-1] // 1024} KiB, {pages}",
        ),
        line_bytes=reported(facts.line_bytes, "B", "sysfs"),
        shared_by_cores=reported(
            max(1, facts.shared_by_cpus // machine.threads_per_core), "cores", "sysfs"
        ),
    )


def _dram(found: Collected) -> Dram:
    pages, curve = _best_curve(found)
    largest = max(curve)
    bandwidth = found.short["bandwidth_gb_per_s"]
    low, _, high = spread(bandwidth)
    return Dram(
        latency_ns=measured(
            curve[largest], "ns", f"random pointer chase over {largest // _MIB} MiB, {pages}"
        ),
        peak_bandwidth_gb_per_s=Quantity(
            value=rounded(high),
            unit="GB/s",
            source=SOURCE,
            kind="measured",
            method="sequential reads by all CPUs this process may use, upper quartile of "
            f"{len(bandwidth)}; range from the lower quartile to the best",
            low=rounded(low),
            high=rounded(max(bandwidth)),
        ),
        copy_ns_per_byte=measured(
            found.short["dram_copy_ns_per_byte"],
            "ns/B",
            "blocks of 1 MiB at random places, copied by one core into one of its own, small pages",
        ),
    )


def _tlb(found: Collected) -> Tlb:
    page = float(os.sysconf("SC_PAGE_SIZE"))
    if "huge_pages" in found.latency_ns:
        small, huge = (found.latency_ns[pages] for pages in ("small_pages", "huge_pages"))
        # Pairs from the same round, so that what disturbs a round mostly drops out.
        sizes = sorted(small)[-_WALK_SIZES:]
        walk = measured(
            [
                max(0.5, one - other)
                for size in sizes
                for one, other in zip(small[size], huge[size], strict=True)
            ],
            "ns",
            f"pointer chase over {sizes[0] // _MIB} to {sizes[-1] // _MIB} MiB on small less on "
            "huge pages",
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


def _walk_curve(found: Collected) -> Curve | None:
    """What random loads take longer by size of the region, on small pages; it never falls."""
    sizes = sorted(found.region_ns)
    if len(sizes) < 2:
        return None
    _, curve = _best_curve(found)
    base_ns = spread(curve[max(curve)])[0]
    walks = np.maximum.accumulate(
        [max(0.5, spread(found.region_ns[size])[0] - base_ns) for size in sizes]
    )
    return Curve(
        x_unit="B",
        y_unit="ns",
        source=SOURCE,
        kind="measured",
        method="random loads spread over regions on small pages, less dram.latency_ns; lower "
        "quartiles, because neighbours can only add; kept from falling",
        points=[(float(s), rounded(float(ns))) for s, ns in zip(sizes, walks, strict=True)],
    )


def _variation(found: Collected) -> Variation | None:
    """By how much windows of the same messages differed in the minute that the capture took."""
    logs = np.log(found.short.get("window_ns", []))
    if len(logs) < _FEWEST_WINDOWS:
        return None
    # Of few windows the deviation itself is known to one part in sqrt(2 n).
    error = 2.0 / math.sqrt(2.0 * len(logs))
    value = max(1e-3, float(logs.std(ddof=1)))
    return Variation(
        window=Quantity(
            value=rounded(value),
            unit="1",
            source=SOURCE,
            kind="measured",
            method=f"standard deviation of the mean time of a message over {len(logs)} windows of "
            "about a tenth of a second, over the minute of the capture",
            low=rounded(value * math.exp(-error)),
            high=rounded(value * math.exp(error)),
        )
    )


def interruption_curve(machine: Machine, found: Collected) -> Curve | None:
    """How often busy cores are taken away, where two could be watched at once."""
    if machine.pair is None or not found.interruptions_per_s:
        return None
    return Curve(
        x_unit="us",
        y_unit="1/s",
        source=SOURCE,
        kind="measured",
        method="gaps of at least this length between looks at the clock, per second and core, by "
        "loops that keep CPUs {} and {} busy at once; median over CPUs and rounds, of {:g} us "
        "and more the mean".format(*machine.pair, _RARE_US),
        points=_interruption_points(found.interruptions_per_s),
    )


def _interruption_points(rates_by_us: dict[int, list[float]]) -> list[tuple[float, float]]:
    """(us, rate) pairs, with rates that don't rise.

    A median leaves out a round in which something else ran. Of what is rare or comes in bursts it
    would leave out all: many rounds hold none.
    """
    points: list[tuple[float, float]] = []
    least = 0.0
    for us in sorted(rates_by_us, reverse=True):
        rates = rates_by_us[us]
        rate = statistics.fmean(rates) if us >= _RARE_US else statistics.median(rates)
        least = max(least, rounded(rate))
        points.append((float(us), least))
    return points[::-1]


def wake_curve(machine: Machine, found: Collected) -> Curve | None:
    """By which time which share of wake-ups is over, over TCP."""
    samples = found.short.get("wake_latency_each_ns")
    if machine.pair is None or not samples:
        return None
    return Curve(
        x_unit="1",
        y_unit="ns",
        source=SOURCE,
        kind="measured",
        method="share of messages to a thread asleep in epoll_wait after which it was back within "
        "so long, CPUs {} to {} over local TCP".format(*machine.pair),
        points=[(share, rounded(float(np.quantile(samples, share)))) for share in _WAKE_SHARES],
    )


def _fills(machine: Machine, found: Collected) -> Quantity:
    """Lines that others bring into the last cache, from how long ours survive there untouched.

    With random replacement a line outlives a pause of t with probability exp(-fills * t / lines of
    the cache).
    """
    _, curve = _best_curve(found)
    facts = machine.caches.get(3)
    lines = (facts.size_bytes if facts else _CACHE_RANGES[3][0]) / LINE_BYTES
    far = statistics.median(curve[max(curve)])
    near = min(min(samples) for samples in found.survival_ns.values())
    rates = []
    for pause_ms, samples in found.survival_ns.items():
        for sample in samples:
            alive = min(0.98, max(0.02, (far - sample) / max(far - near, 1.0)))
            rates.append((-lines * math.log(alive) / (pause_ms * 1000.0), abs(alive - 0.37)))
    # Pauses after which about a third is left tell most.
    rates.sort(key=lambda pair: pair[1])
    best = [rate for rate, _ in rates[: max(3, len(rates) // 3)]]
    return measured(
        best,
        "1/us",
        "survival of lines in the last-level cache over pauses of "
        f"{min(found.survival_ns):g} to {max(found.survival_ns):g} ms, random replacement assumed; "
        "of the pauses after which about a third is left",
    )


def _parallel_misses(found: Collected) -> Quantity:
    one_chain = statistics.median(found.parallel_ns[1])
    best = min(found.parallel_ns, key=lambda count: statistics.median(found.parallel_ns[count]))
    return measured(
        [one_chain / ns for ns in found.parallel_ns[best]],
        "misses",
        f"time per load of one random pointer chase against {best} at once, out of cache",
    )


def _core_to_core(machine: Machine, found: Collected) -> Quantity:
    samples = found.short.get("core_to_core_ns")
    if samples and machine.pair is not None:
        return measured(
            samples,
            "ns",
            "compare-and-exchange ping-pong of CPUs {} and {}, half a round trip, in rounds "
            "in which they were equally far apart".format(*machine.pair),
        )
    return assumed(
        None,
        "ns",
        "needs two cores that run at once; servers have 25 to 140 ns within a socket",
        low=25.0,
        high=140.0,
    )


def _kernel(machine: Machine, found: Collected) -> Kernel:
    """CPU time of system calls, and of sleeping and waking where there are two cores."""
    leaves = {"syscall_ns": measured(found.short["syscall_ns"], "ns", "getppid")}
    for transport in ("tcp", "unix"):
        for call in ("send", "recv"):
            name = f"{transport}_{call}_ns"
            how = f"{SMALL_BYTES} bytes over local {transport}, peer awake"
            leaves[name] = _kernel_leaf(found, name, "ns", how)
    for name, unit, how in (
        ("epoll_wait_ns", "ns", "non-blocking, without the events it returns"),
        ("epoll_event_ns", "ns", "from calls that return one and 48 events"),
        ("epoll_ctl_ns", "ns", "mean of adding a connection and of taking it out"),
        (
            "copy_ns_per_byte",
            "ns/B",
            f"send and recv of {LARGE_BYTES} against {SMALL_BYTES} bytes over local TCP, per byte "
            "and call",
        ),
    ):
        leaves[name] = _kernel_leaf(found, name, unit, how)
    return Kernel(**leaves, **_sleeping(machine, found, leaves))


def _kernel_leaf(found: Collected, name: str, unit: str, how: str) -> Quantity:
    """A number of the kernel, from its samples or else from what the catalogue's hosts have."""
    samples = found.short.get(name)
    if samples:
        return measured(samples, unit, how)
    known = [getattr(host.kernel, name) for host in list_hosts()]
    lows = [leaf.best if leaf.low is None else leaf.low for leaf in known if leaf is not None]
    highs = [leaf.best if leaf.high is None else leaf.high for leaf in known if leaf is not None]
    return assumed(
        None,
        unit,
        "not measured, as other programs disturbed every attempt; the least and the most that "
        "hosts of the catalogue have",
        low=min(lows),
        high=max(highs),
    )


def _message_curve(machine: Machine, found: Collected, call: str) -> Curve | None:
    """What messages of several sizes take where the other end is on another core."""
    rows = {size: found.short.get(f"tcp_{call}_{size}_across_ns") for size in ACROSS_BYTES}
    points = [
        (float(size), rounded(statistics.median(samples)))
        for size, samples in rows.items()
        if samples
    ]
    if machine.pair is None or len(points) < len(ACROSS_BYTES):
        return None
    how = f", in reads of {READ_BYTES} bytes" if call == "recv" else ""
    return Curve(
        x_unit="B",
        y_unit="ns",
        source=SOURCE,
        kind="measured",
        method=f"{call} of a message over local TCP between CPUs {machine.pair[0]} and "
        f"{machine.pair[1]}, both awake{how}; medians",
        points=points,
    )


def _peer_curve(machine: Machine, found: Collected) -> Curve | None:
    """How many times as long messages take with a peer on another CPU, by connections."""
    points = [
        (float(count), rounded(statistics.median(samples)))
        for count in PEER_CONNECTIONS_MEASURED
        if (samples := found.short.get(f"peer_{count}"))
    ]
    if machine.pair is None or len(points) < 2:
        return None
    return Curve(
        x_unit="connections",
        y_unit="1",
        source=SOURCE,
        kind="measured",
        method=f"send and recv of {SMALL_BYTES} bytes over local TCP between CPUs "
        f"{machine.pair[0]} and {machine.pair[1]}, one after the other, all connections in epoll "
        "sets at both ends; against the same on one CPU right before; medians",
        points=points,
    )


def _sleeping(
    machine: Machine, found: Collected, awake: dict[str, Quantity]
) -> dict[str, Quantity]:
    """`wake_send_ns`, `wake_latency_ns` and `block_ns`, over TCP."""
    if machine.pair is None or "sleeper_send_ns" not in found.short:
        why = (
            "needs two cores that run at once and are not busy otherwise; bare metal is near the "
            "low end, a virtual machine whose interrupts the hypervisor delivers near the high end"
        )
        return {
            "wake_send_ns": assumed(None, "ns", why, low=500.0, high=10_000.0),
            "wake_latency_ns": assumed(None, "ns", why, low=2_000.0, high=50_000.0),
            "block_ns": assumed(None, "ns", why, low=500.0, high=20_000.0),
        }
    turn = sum(awake[name].best for name in ("epoll_wait_ns", "epoll_event_ns", "tcp_recv_ns"))
    how = "CPUs {} to {} over local TCP".format(*machine.pair)
    kept = "while idle cores keep their timer tick"
    blocks_ns = [max(1.0, ns - turn) for ns in found.short["sleeper_receiver_cpu_ns"]]
    leaves = {
        "wake_send_ns": extra(
            found.short["sleeper_send_ns"],
            awake["tcp_send_ns"].best,
            "ns",
            f"send to a thread asleep in epoll_wait, less tcp_send_ns; {how}",
        ),
        "wake_latency_ns": at_least(
            found.short["wake_latency_ns"],
            "ns",
            f"start of that send until epoll_wait has returned, {kept}; {how}",
        ),
        "block_ns": at_least(
            blocks_ns,
            "ns",
            "thread CPU time of the sleeper per message, less epoll_wait_ns, epoll_event_ns and "
            f"tcp_recv_ns, {kept}; {how}",
        ),
    }
    if "tickless_latency_ns" in found.short:
        for name, of, tickless_ns, ticking_ns in (
            (
                "tickless_block_scale",
                "block_ns",
                [ns - turn for ns in found.short["tickless_receiver_cpu_ns"]],
                blocks_ns,
            ),
            (
                "tickless_latency_scale",
                "wake_latency_ns",
                found.short["tickless_latency_ns"],
                found.short["wake_latency_ns"],
            ),
        ):
            usual_ns = statistics.median(ticking_ns)
            leaves[name] = measured(
                [max(1.0, ns / usual_ns) for ns in tickless_ns],
                "1",
                f"{of} where idle cores stop their timer tick, over that {kept}, since sockets are "
                f"put into an epoll set and taken out again; {how}",
            )
    return leaves


def _tls(found: Collected) -> Tls | None:
    """CPU time of encryption, unless no key could be made."""
    if "tls_rsa_handshake_us" not in found.short:
        return None
    library = f"{ssl.OPENSSL_VERSION}, TLS 1.3 in memory"
    leaves = {}
    for name, unit, how in (
        ("record_ns", "ns", "one record of 64 bytes less its bytes, mean of both ends"),
        ("ns_per_byte", "ns/B", "from records of 64 and 16,000 bytes, mean of both ends"),
        ("ecdsa_handshake_us", "us", "server's part of a full handshake, P-256 key"),
        ("rsa_handshake_us", "us", "server's part of a full handshake, RSA-2048 key"),
    ):
        leaves[name] = measured(found.short[f"tls_{name}"], unit, f"{how}; {library}")
    return Tls(**leaves)


def _network() -> Network:
    why = "not measured: needs a second host; loopback and Unix sockets do not use it"
    return Network(
        bandwidth_gbit_per_s=assumed(None, "Gbit/s", why, low=1.0, high=100.0),
        one_way_us=assumed(30.0, "us", why, low=10.0, high=100.0),
        packets_per_s=assumed(None, "1/s", why, low=500_000.0, high=20_000_000.0),
    )


def _notes(machine: Machine, found: Collected) -> list[str]:
    """What a reader of the profile should know about it."""
    notes = []
    if machine.quota_cpus is not None:
        notes.append(f"a cgroup limits CPU time to {machine.quota_cpus:g} CPUs")
    if "huge_pages" not in found.latency_ns:
        notes.append("huge pages were not available, so all latencies include page walks")
    last = machine.caches.get(3)
    if last and max(found.latency_ns["small_pages"]) < 4 * last.size_bytes:
        notes.append("memory was scarce, so dram.latency_ns may include hits in the last cache")
    for call in ("tcp_send", "unix_send"):
        if f"{call}_ns" not in found.short:
            continue
        core = statistics.median(found.short[f"{call}_ns"])
        cpu = statistics.median(found.short[f"{call}_thread_cpu_ns"])
        if cpu < 0.9 * core:
            notes.append(
                f"thread CPU time misses {1 - cpu / core:.0%} of {call}_ns: this kernel books "
                "interrupt work apart, so CPU times of an engine's threads will miss it too"
            )
    share, times = found.slowed
    if share > 0.0:
        notes.append(
            f"the core took {times:.1f} times as long in {share:.0%} of the probes of one CPU, as "
            "when another machine uses its other hyperthread; those samples are left out"
        )
    return [*notes, *_shortened(found)]


def _shortened(found: Collected) -> list[str]:
    """What other programs, or slow memory, left no time to measure."""
    notes = []
    if found.rounds < ROUNDS:
        notes.append(
            f"the machine was busy: there was time for {found.rounds} of {ROUNDS} rounds of "
            "measurements, so ranges rest on fewer samples"
        )
    for probe, (reason, tried_s) in found.disturbed.items():
        if not found.short.get(SAMPLES[probe]):
            notes.append(
                f"{probe} could not be measured in {tried_s:.1f} s ({reason}); ranges are assumed"
            )
    if len(found.region_ns) < found.regions:
        largest = max(found.region_ns, default=0)
        notes.append(
            "touching memory is slow here: page walks were measured in "
            f"{len(found.region_ns)} of {found.regions} regions, up to {largest // _MIB} MiB"
        )
    return notes
