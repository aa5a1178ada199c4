"""What a host profile says: the speed of a host, each number with its origin.

Work is a property of an engine and lives elsewhere; a profile knows only the host.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from forecache.sim.errors import InputError

from .files import FieldError, did_you_mean, dump_yaml
from .formula import evaluate
from .quantity import Curve, Origin, Quantity, Source


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Topology(_Group):
    """Cores of one host or instance.

    `cores` are physical. With two threads per core the operating system sees twice as many CPUs,
    and a CPU whose sibling is busy runs at `busy_sibling_speed` of its full speed.
    """

    cores: Quantity
    threads_per_core: Quantity
    sockets: Quantity
    busy_sibling_speed: Quantity | None = None


class Cache(_Group):
    """One level: `latency_ns` is load-to-use by dependent loads that hit it."""

    name: Literal["L1", "L2", "L3"]
    size_bytes: Quantity
    latency_ns: Quantity
    line_bytes: Quantity
    shared_by_cores: Quantity


class Dram(_Group):
    """Main memory: idle latency without page walks, and latency against bandwidth in use."""

    latency_ns: Quantity
    peak_bandwidth_gb_per_s: Quantity
    loaded_latency: Curve | None = None


class Tlb(_Group):
    """Address translation: `walk_ns` is what a random access beyond `l2_entries` pages pays."""

    l2_entries: Quantity
    page_bytes: Quantity
    walk_ns: Quantity


class Kernel(_Group):
    """CPU time of system calls on small messages, and what sleeping costs.

    Attributes
    ----------
    syscall_ns
        The cheapest system call.
    tcp_recv_ns, tcp_send_ns, unix_recv_ns, unix_send_ns
        One call on an established local connection whose peer is awake. Over loopback TCP the
        sender runs the receive path inline, so send includes it.
    epoll_wait_ns, epoll_event_ns
        One non-blocking `epoll_wait`, and each event it returns: k events cost
        `epoll_wait_ns + k * epoll_event_ns`.
    copy_ns_per_byte
        Per byte that `send` or `recv` copies beyond a small message.
    wake_send_ns
        Extra CPU time of a sender whose receiver sleeps in `epoll_wait` on another core.
    wake_latency_ns
        From the start of that send until the sleeper's `epoll_wait` has returned.
    block_ns
        Extra CPU time of the sleeper for blocking and being scheduled again.
    softirq_ns
        What an interrupt takes to bring one packet from the network interface to its socket, part
        of `tcp_send_ns` over loopback; `ASSUMED_SOFTIRQ_NS` where nothing is said.
    time_slice_us, timer_tick_us, context_switch_ns
        What threads that share cores go by: how long one keeps its core while others wait (as in
        `/sys/kernel/debug/sched/base_slice_ns`), how often the kernel looks (CONFIG_HZ), and how
        long it takes until another thread goes on; `assumed_scheduling` where nothing is said.
    """

    syscall_ns: Quantity
    tcp_recv_ns: Quantity
    tcp_send_ns: Quantity
    unix_recv_ns: Quantity
    unix_send_ns: Quantity
    epoll_wait_ns: Quantity
    epoll_event_ns: Quantity
    copy_ns_per_byte: Quantity
    wake_send_ns: Quantity
    wake_latency_ns: Quantity
    block_ns: Quantity
    softirq_ns: Quantity | None = None
    time_slice_us: Quantity | None = None
    timer_tick_us: Quantity | None = None
    context_switch_ns: Quantity | None = None


def assumed_scheduling(cores: int) -> dict[str, Quantity]:
    """What threads that share cores go by, for profiles that don't say it.

    Parameters
    ----------
    cores
        CPUs of the operating system: Linux scales its slice by 1 + log2(min(cores, 8)).
    """
    scale = min(cores, 8).bit_length()
    return {
        "time_slice_us": Quantity(
            value=700 * scale,
            unit="us",
            kind="assumed",
            low=700 * scale,
            high=750 * scale,
            method="kernel/sched/fair.c, sysctl_sched_base_slice: 0.70 ms (0.75 ms in Linux 6.6 to "
            "6.12) times 1 + log2(min(CPUs, 8)), the default of SCHED_TUNABLESCALING_LOG",
        ),
        "timer_tick_us": Quantity(
            value=4000,
            unit="us",
            kind="assumed",
            low=1000,
            high=4000,
            method="kernel/Kconfig.hz: 250 a second is its default and what Debian and the kernels "
            "of most clouds are built with; some distributions take 1000",
        ),
        "context_switch_ns": Quantity(
            value=1500,
            unit="ns",
            kind="assumed",
            low=1000,
            high=3000,
            method="1.2 to 1.5 us between threads of a core, 2.2 with migration (E. Bendersky, "
            "Measuring context switching and memory overheads for Linux threads, 2018)",
        ),
    }


ASSUMED_SOFTIRQ_NS = Quantity(
    value=900,
    unit="ns",
    kind="assumed",
    low=500,
    high=1500,
    method="Linux takes about a million packets a second off one receive queue (Cloudflare, Kernel "
    "bypass, 2015); a server tuned for nothing else answered 1.2 million requests a second on 4 "
    "vCPUs, 3.3 us a packet for everything, the application included (talawah.io, Extreme HTTP "
    "performance tuning, 2021)",
)
"""For hosts whose profile doesn't say what an interrupt takes per packet."""


class Network(_Group):
    """Between this host and a neighbour.

    Attributes
    ----------
    bandwidth_gbit_per_s
        Of each direction: the sustained baseline where an instance may exceed it for a while.
    one_way_us
        From one host to the other, besides what bytes and packets take.
    packets_per_s
        Of both directions together, as cloud providers count them.
    mtu_bytes
        The largest IP packet; 1500 where nothing is said.
    flow_gbit_per_s
        What one connection gets of each direction; no limit of its own where nothing is said.
    """

    bandwidth_gbit_per_s: Quantity
    one_way_us: Quantity
    packets_per_s: Quantity
    mtu_bytes: Quantity | None = None
    flow_gbit_per_s: Quantity | None = None


class Tls(_Group):
    """What encryption costs one side of a connection, in CPU time.

    Attributes
    ----------
    record_ns
        Per record beyond its bytes: the library's call, its header, the cipher's start and tag.
    ns_per_byte
        Encrypting or decrypting, with the default cipher (AES-256-GCM).
    ecdsa_handshake_us, rsa_handshake_us
        The server's part of a full TLS 1.3 handshake, with a P-256 or an RSA-2048 key.
    """

    record_ns: Quantity
    ns_per_byte: Quantity
    ecdsa_handshake_us: Quantity
    rsa_handshake_us: Quantity


ASSUMED_TLS = Tls(
    record_ns=Quantity(
        value=700,
        unit="ns",
        kind="assumed",
        low=300,
        high=1500,
        method="`openssl speed -evp aes-256-gcm` takes 50 to 350 ns for 16 bytes on current cores; "
        "SSL_read or SSL_write around it 500 to 2000 cycles. Redis 7.0 on Zen 5 spent 2.0 us a "
        "request in the library, for two records of 557 bytes together, on a machine with other "
        "work",
    ),
    ns_per_byte=Quantity(
        value=0.35,
        unit="ns/B",
        kind="assumed",
        low=0.12,
        high=0.7,
        method="AES-GCM with the instructions made for it takes 0.3 to 1.5 cycles a byte in "
        "`openssl speed` of 1 KiB and more, and the record is copied once",
    ),
    ecdsa_handshake_us=Quantity(
        value=200,
        unit="us",
        kind="assumed",
        low=100,
        high=300,
        method="one P-256 signature (20 to 60 us), one X25519 exchange (50 to 120 us), key "
        "derivation and the library's objects",
    ),
    rsa_handshake_us=Quantity(
        value=1100,
        unit="us",
        kind="assumed",
        low=350,
        high=2300,
        method="the same with an RSA-2048 signature of 0.2 to 1.2 ms; a Valkey that did nothing "
        "else took 477 new TLS connections a second (valkey PR 1338), 2.1 ms each with all that "
        "accepting takes",
    ),
)
"""For hosts whose profile says nothing about TLS."""


class Captured(_Group):
    """When and on what a profile was captured."""

    date: str
    cpu_model: str
    kernel: str
    tool: str
    elapsed_s: float


@dataclass(frozen=True)
class HostSpeed:
    """A host as plain numbers, ready for compiled code; units are in the names.

    `loaded_latency` has (GB/s in use, ns) pairs of main memory, where a source has them.
    `walk_curve` has (bytes, ns) pairs of the page walk of a random access by size of the region,
    where a capture measured it. `interruptions` has (us, interruptions a second and core that last
    at least so long) pairs; none where nothing was measured. `cores` counts the CPUs the operating
    system can run threads on, which is twice the physical cores where there are two threads per
    core. Unknown prices are nan.
    """

    host_id: str
    cores: int
    clock_ghz: float
    user_ipc: float
    l1_bytes: float
    l1_ns: float
    l2_bytes: float
    l2_ns: float
    l3_bytes: float
    l3_ns: float
    dram_ns: float
    tlb_reach_bytes: float
    tlb_walk_ns: float
    parallel_misses: float
    core_to_core_ns: float
    dram_bandwidth_gb_per_s: float
    syscall_ns: float
    tcp_recv_ns: float
    tcp_send_ns: float
    unix_recv_ns: float
    unix_send_ns: float
    epoll_wait_ns: float
    epoll_event_ns: float
    copy_ns_per_byte: float
    wake_send_ns: float
    wake_latency_ns: float
    block_ns: float
    network_gbit_per_s: float
    network_one_way_us: float
    network_packets_per_s: float
    price_usd_per_hour: float
    memory_gib: float
    l3_fills_per_us: float = 0.0
    loaded_latency: tuple[tuple[float, float], ...] = ()
    walk_curve: tuple[tuple[float, float], ...] = ()
    interruptions: tuple[tuple[float, float], ...] = ()
    threads_per_core: int = 1
    busy_sibling_speed: float = 1.0
    tls_record_ns: float = 0.0
    tls_ns_per_byte: float = 0.0
    tls_ecdsa_handshake_us: float = 0.0
    tls_rsa_handshake_us: float = 0.0
    softirq_ns: float = 900.0
    time_slice_us: float = 2800.0
    timer_tick_us: float = 4000.0
    context_switch_ns: float = 1500.0
    network_mtu_bytes: float = 1500.0
    network_flow_gbit_per_s: float = math.inf

    def slower(self, factor: float) -> "HostSpeed":
        """The same host with a processor, memory and kernel whose every time is longer.

        A field counts as a time by the unit in its name, so that a new one is never forgotten. The
        network, the lengths the scheduler was told, and what others do on the host stay.
        """
        times = {
            field.name: getattr(self, field.name) * factor
            for field in fields(self)
            if _is_time(field.name) and field.name not in NOT_OF_THE_PROCESSOR
        }
        curves = {
            name: tuple((x, ns * factor) for x, ns in getattr(self, name)) for name in _CURVES_OF_NS
        }
        return replace(self, clock_ghz=self.clock_ghz / factor, **times, **curves)  # type: ignore[arg-type]


NOT_OF_THE_PROCESSOR = frozenset({"network_one_way_us", "time_slice_us", "timer_tick_us"})
"""Times that are no shorter on a faster processor."""

_CURVES_OF_NS = ("loaded_latency", "walk_curve")


def _is_time(name: str) -> bool:
    """Whether a field's unit is a time, also per byte; a rate per time is none."""
    words = ["", *name.split("_")]
    return any(word in ("ns", "us") and before != "per" for before, word in pairwise(words))


_SCHEDULING = ("time_slice_us", "timer_tick_us", "context_switch_ns")

# HostSpeed fields that stand for exactly one leaf, with that leaf's path.
_DIRECT = {
    "clock_ghz": "clock_ghz",
    "user_ipc": "user_ipc",
    "l1_bytes": "caches.L1.size_bytes",
    "l1_ns": "caches.L1.latency_ns",
    "l2_bytes": "caches.L2.size_bytes",
    "l2_ns": "caches.L2.latency_ns",
    "l3_bytes": "caches.L3.size_bytes",
    "l3_ns": "caches.L3.latency_ns",
    "dram_ns": "dram.latency_ns",
    "dram_bandwidth_gb_per_s": "dram.peak_bandwidth_gb_per_s",
    "tlb_walk_ns": "tlb.walk_ns",
    "parallel_misses": "parallel_misses",
    "core_to_core_ns": "core_to_core_ns",
    "l3_fills_per_us": "l3_fills_per_us",
    **{name: f"kernel.{name}" for name in Kernel.model_fields if name not in _SCHEDULING},
    "network_gbit_per_s": "network.bandwidth_gbit_per_s",
    "network_one_way_us": "network.one_way_us",
    "network_packets_per_s": "network.packets_per_s",
    "network_mtu_bytes": "network.mtu_bytes",
    "network_flow_gbit_per_s": "network.flow_gbit_per_s",
    "price_usd_per_hour": "price_usd_per_hour",
    "memory_gib": "memory_gib",
    "busy_sibling_speed": "topology.busy_sibling_speed",
}


class HostProfile(_Group):
    """A host or cloud instance; see the modules' classes for what each leaf means.

    `user_ipc` is instructions per cycle of engine user code whose data is in the first two cache
    levels; what it waits for beyond them is counted apart, by the caches and `dram`.
    `latency_curve` (captured hosts) is ns per dependent load by working set in bytes, on small
    pages. `walk_curve` (captured hosts) is what random accesses to a region of so many bytes take
    longer on small pages than on huge ones. `interruptions` (captured hosts) is how often a second
    something else takes a busy core away from its thread for at least so many microseconds: timer
    ticks, interrupts, the hypervisor, other programs. `l3_fills_per_us` is how many lines a
    microsecond others bring into the shared last-level cache: the neighbours of a virtual machine;
    none where nothing is said. `tls` is `ASSUMED_TLS` where nothing is said. `raw` (captured hosts)
    keeps every repetition.
    """

    id: str
    title: str
    isa: Literal["x86-64", "aarch64"]
    microarchitecture: str
    instance: str | None = None
    notes: list[str] = Field(default_factory=list)
    sources: dict[str, Source]
    topology: Topology
    clock_ghz: Quantity
    user_ipc: Quantity
    caches: list[Cache] = Field(min_length=3, max_length=3)
    dram: Dram
    tlb: Tlb
    parallel_misses: Quantity
    core_to_core_ns: Quantity
    kernel: Kernel
    network: Network
    memory_gib: Quantity
    price_usd_per_hour: Quantity | None = None
    latency_curve: Curve | None = None
    walk_curve: Curve | None = None
    interruptions: Curve | None = None
    l3_fills_per_us: Quantity | None = None
    tls: Tls | None = None
    captured: Captured | None = None
    raw: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check(self) -> "HostProfile":
        names = [cache.name for cache in self.caches]
        if names != ["L1", "L2", "L3"]:
            raise FieldError("caches", found=names, valid="caches named L1, L2, L3 in this order")
        for path, leaf in self.origins():
            if leaf.source is not None and leaf.source not in self.sources:
                known = did_you_mean(leaf.source, self.sources)
                raise FieldError(
                    f"{path}.source",
                    found=leaf.source,
                    valid=f"a source listed in this file: {known.rstrip('.')}",
                )
        _check_interruptions(self.interruptions)
        values = self.values()
        for path, quantity in self.quantities():
            if quantity.best <= 0.0:
                raise FieldError(path, found=quantity.best, valid="a number above zero")
            if quantity.formula is not None:
                try:
                    expected = evaluate(quantity.formula, values)
                except ValueError as error:
                    raise ValueError(
                        f"a formula over leaves of this file ({path}: {error})"
                    ) from error
                if abs(expected - quantity.best) > 0.005 * abs(expected):
                    raise ValueError(
                        f"the value its formula gives ({path}: {quantity.best:g} is stored, "
                        f"{quantity.formula} = {expected:g})"
                    )
        return self

    def origins(self) -> Iterator[tuple[str, Origin]]:
        """Every leaf and curve with its path, such as `caches.L2.latency_ns`."""
        yield from _walk(self, "")

    def quantities(self) -> Iterator[tuple[str, Quantity]]:
        """Every leaf with its path."""
        for path, leaf in self.origins():
            if isinstance(leaf, Quantity):
                yield path, leaf

    def values(self) -> dict[str, float]:
        """Best value of every leaf by path."""
        return {path: quantity.best for path, quantity in self.quantities()}

    def to_yaml(self) -> str:
        """The profile as the text of a profile file."""
        return dump_yaml(self.model_dump(mode="json", exclude_defaults=True))

    def speed(self, values: Mapping[str, float] | None = None) -> HostSpeed:
        """The profile as plain numbers.

        Parameters
        ----------
        values
            Numbers to use instead, by `HostSpeed` field: a draw from `uncertain()`, say.

        Raises
        ------
        InputError
            `values` names a field that is not a number of `HostSpeed`.
        """
        leaves = self.values()
        threads_per_core = round(leaves["topology.threads_per_core"])
        numbers: dict[str, float] = {
            name: leaves[path] for name, path in _DIRECT.items() if path in leaves
        }
        numbers.setdefault("price_usd_per_hour", float("nan"))
        numbers.setdefault("softirq_ns", self.softirq.best)
        numbers.update({name: leaf.best for name, leaf in self.tls_leaves().items()})
        numbers.update({name: leaf.best for name, leaf in self.scheduling.items()})
        numbers["cores"] = leaves["topology.cores"] * threads_per_core
        numbers["threads_per_core"] = threads_per_core
        numbers["tlb_reach_bytes"] = leaves["tlb.l2_entries"] * leaves["tlb.page_bytes"]
        known = {field.name for field in fields(HostSpeed)} - {
            "host_id",
            "loaded_latency",
            "walk_curve",
            "interruptions",
        }
        for name, value in (values or {}).items():
            if name not in known:
                raise InputError(
                    f"host {self.id}: no speed is called {name!r}; {did_you_mean(name, known)}"
                )
            numbers[name] = value
        curves = {
            name: () if curve is None else tuple(sorted(curve.points))
            for name, curve in (
                ("loaded_latency", self.dram.loaded_latency),
                ("walk_curve", self.walk_curve),
                ("interruptions", self.interruptions),
            )
        }
        counts = {name: round(numbers.pop(name)) for name in ("cores", "threads_per_core")}
        return HostSpeed(host_id=self.id, **curves, **counts, **numbers)  # type: ignore[arg-type]

    @property
    def softirq(self) -> Quantity:
        """What an interrupt takes per packet, in ns; assumed where the profile doesn't say."""
        return self.kernel.softirq_ns or ASSUMED_SOFTIRQ_NS

    @property
    def scheduling(self) -> dict[str, Quantity]:
        """What threads that share cores go by, by `HostSpeed` field.

        No part of `uncertain()`, so that a run without such threads draws what it always did.
        """
        cores = round(self.topology.cores.best * self.topology.threads_per_core.best)
        return {
            name: getattr(self.kernel, name) or leaf
            for name, leaf in assumed_scheduling(cores).items()
        }

    def tls_leaves(self) -> dict[str, Quantity]:
        """What TLS costs, by `HostSpeed` field; assumed where the profile doesn't say.

        They are no part of `uncertain()`, so that a run without TLS draws what it always did.
        """
        group = ASSUMED_TLS if self.tls is None else self.tls
        return {f"tls_{name}": getattr(group, name) for name in Tls.model_fields}

    def uncertain(self) -> dict[str, tuple[float, float, float]]:
        """(low, value, high) by `HostSpeed` field, for the leaves that have a range.

        An unknown value is given as the geometric middle of its range.
        """
        leaves = dict(self.quantities())
        ranges = {}
        for name, path in _DIRECT.items():
            quantity = leaves.get(path)
            if quantity is not None and quantity.low is not None and quantity.high is not None:
                ranges[name] = (quantity.low, quantity.best, quantity.high)
        entries, page = self.tlb.l2_entries, self.tlb.page_bytes.best
        if entries.low is not None and entries.high is not None:
            ranges["tlb_reach_bytes"] = (
                entries.low * page,
                entries.best * page,
                entries.high * page,
            )
        return ranges


def _check_interruptions(curve: Curve | None) -> None:
    """Durations above zero, and rates that fall with them."""
    if curve is None:
        return
    points = sorted(curve.points)
    durations = [duration_us for duration_us, _ in points]
    rates = [rate for _, rate in points]
    if durations[0] <= 0.0 or len(set(durations)) < len(durations):
        raise ValueError("interruptions of different durations above zero")
    if rates[-1] < 0.0 or any(later > rate for rate, later in pairwise(rates)):
        raise ValueError("interruptions whose rates are not negative and don't rise with duration")


def _walk(group: BaseModel, prefix: str) -> Iterator[tuple[str, Origin]]:
    for name in type(group).model_fields:
        child = getattr(group, name)
        if isinstance(child, Origin):
            yield prefix + name, child
        elif isinstance(child, _Group):
            yield from _walk(child, f"{prefix}{name}.")
        elif isinstance(child, list):
            for item in child:
                if isinstance(item, Cache):
                    yield from _walk(item, f"{prefix}{name}.{item.name}.")
