"""What a host profile says: the speed of a host, each number with its origin.

Work is a property of an engine and lives elsewhere; a profile knows only the host.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cached_property
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field, model_validator

from forecache.sim.errors import InputError

from .completion import (
    ASSUMED_COPY_NS_PER_BYTE,
    ASSUMED_PEER_CURVE,
    ASSUMED_REPEAT_IPC_RATIO,
    ASSUMED_SOFTIRQ_NS,
    ASSUMED_TLS,
    ASSUMED_VARIATION,
    ASSUMED_WAKE_SPREAD,
    LearnedTogether,
    ReusedHost,
    assumed_epoll_ctl,
    assumed_scheduling,
)
from .files import FieldError, did_you_mean, dump_yaml, parse, read_yaml
from .instances import HypervisorName, Provider
from .parts import Cache, Captured, Dram, Group, Kernel, Network, Tlb, Tls, Topology, Variation
from .quantity import Curve, Origin, Quantity, Source, evaluate, ranges_of
from .record import Record
from .speed import PEER_CHANGES, READ_BYTES, SEGMENT_BYTES, HostSpeed, peer_scale

# --- how many instructions a core holds that are begun and not finished ---------------------------

# How many instructions a core holds that are begun and not finished: its reorder window.
#
# `windows.yaml` has them by core, with their sources.


class _Core(Record):
    known_as: str
    window: Quantity


class _Windows(Record):
    """The file."""

    sources: dict[str, Source]
    cores: list[_Core]
    other: Quantity

    @model_validator(mode="after")
    def _check(self) -> "_Windows":
        for core in self.cores:
            if core.window.source is not None and core.window.source not in self.sources:
                raise ValueError(f"a source listed in this file, not {core.window.source}")
        return self


_FILE = Path(str(resources.files(__package__) / "windows.yaml"))
_WINDOWS = parse(_Windows, read_yaml(_FILE), file=_FILE)

OTHER_CORES = _WINDOWS.other
"""What is assumed of cores with other names."""

_CAPTURED = re.compile(r"captured-.*?(\d+-\d+)-\d+cpus")


def reorder_window(microarchitecture: str, host_id: str = "") -> Quantity:
    """Instructions in flight of a core.

    Parameters
    ----------
    microarchitecture
        As a host's profile calls it: `Neoverse V2, CMN-700`, say.
    host_id
        Of a captured host, whose profile knows no more than `AMD EPYC`; family and model of its CPU
        are part of it.
    """
    captured = _CAPTURED.fullmatch(host_id)
    name = f"{microarchitecture} {captured[1]}" if captured else microarchitecture
    found = (core.window for core in _WINDOWS.cores if re.search(core.known_as, name))
    return next(found, OTHER_CORES)


_LEAST_NS_PER_BYTE = 1e-4

_SCHEDULING = (
    *("time_slice_us", "timer_tick_us", "context_switch_ns"),
    *("short_sleep_share", "tickless_block_scale", "tickless_latency_scale"),
)

# HostSpeed fields that stand for exactly one leaf, with that leaf's path.
_DIRECT = {
    "clock_ghz": "clock_ghz",
    "user_ipc": "user_ipc",
    "repeat_ipc_ratio": "repeat_ipc_ratio",
    "l1_bytes": "caches.L1.size_bytes",
    "l1_ns": "caches.L1.latency_ns",
    "l2_bytes": "caches.L2.size_bytes",
    "l2_ns": "caches.L2.latency_ns",
    "l3_bytes": "caches.L3.size_bytes",
    "l3_ns": "caches.L3.latency_ns",
    "dram_ns": "dram.latency_ns",
    "dram_bandwidth_gb_per_s": "dram.peak_bandwidth_gb_per_s",
    "dram_copy_ns_per_byte": "dram.copy_ns_per_byte",
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
    "network_burst_gbit_per_s": "network.burst_gbit_per_s",
    "network_credit_gbit": "network.credit_gbit",
    "price_usd_per_hour": "price_usd_per_hour",
    "memory_gib": "memory_gib",
    "busy_sibling_speed": "topology.busy_sibling_speed",
}

_CURVES = frozenset(
    {
        *("loaded_latency", "walk_curve", "interruptions", "wake_spread"),
        *("recv_curve", "send_curve", "peer_curve"),
    }
)
SOCKET_CALLS = (
    *("tcp_recv_ns", "tcp_send_ns", "unix_recv_ns", "unix_send_ns"),
    *("epoll_wait_ns", "epoll_event_ns", "epoll_ctl_ns"),
)
"""What a capture measures on one CPU, and a peer on another one makes longer."""
_NUMBERS = frozenset(field.name for field in fields(HostSpeed)) - _CURVES - {"host_id"}
"""Fields of `HostSpeed` that are numbers."""


class HostProfile(Group):
    """A host or cloud instance; see the modules' classes for what each leaf means.

    `processors` (instances) is which ones it may have, as its provider chooses, first the one of
    this profile; empty where it is the only one. `hypervisor` is on whose guests the
    times of its kernel hold; AWS's Nitro where nothing is said. `caveats` (instances) is what every
    prediction says: how it was taken, what of its family is not modelled.
    `user_ipc` is instructions per cycle of engine user code whose data is in the first two cache
    levels; what it waits for beyond them is counted apart, by the caches and `dram`.
    `repeat_ipc_ratio` (captured hosts) is how many times as many a cycle retire in what repeats
    within a command, such as walking a list and replying with each element;
    `ASSUMED_REPEAT_IPC_RATIO` where nothing is said.
    `latency_curve` (captured hosts) is ns per dependent load by working set in bytes, on small
    pages. `walk_curve` (captured hosts) is what random accesses to a region of that size take
    longer on small pages than on huge ones. `interruptions` (captured hosts) is how often a second
    something else takes a busy core away from its thread for at least that time in us: timer
    ticks, interrupts, the hypervisor, other programs. `wake_curve` (captured hosts) is which share
    of wake-ups is over after that time in ns; `ASSUMED_WAKE_SPREAD` where nothing is said.
    `peer_curve` (captured hosts) is how many times as long a receive and a send take together as on
    one CPU, on so many connections that are in epoll sets at both ends, the other end on another
    CPU, one end working after the other; `ASSUMED_PEER_CURVE` where nothing is said.
    `recv_curve` and `send_curve` (captured hosts) are what receiving and sending a message of so
    many bytes take in ns, the other end on another core; catalogue hosts have
    `message_ns_per_byte` instead.
    `l3_fills_per_us` is how many lines a microsecond others bring into the shared last-level cache:
    the neighbours of a virtual machine; none where nothing is said. `tls` is `ASSUMED_TLS` where
    nothing is said. `reuse` says whose numbers were taken over, and `posterior` (catalogue hosts)
    how what was fitted to datasets hangs together, with the work of engines (both in
    `completion.py`). `raw` (captured hosts) keeps every repetition. `variation` is
    `ASSUMED_VARIATION` where nothing is said.
    """

    id: str
    title: str
    isa: Literal["x86-64", "aarch64"]
    microarchitecture: str
    instance: str | None = None
    provider: Provider | None = None
    hypervisor: HypervisorName | None = None
    caveats: list[str] = Field(default_factory=list)
    processors: list[str] = Field(default_factory=list)
    reuse: ReusedHost | None = None
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
    repeat_ipc_ratio: Quantity | None = None
    latency_curve: Curve | None = None
    walk_curve: Curve | None = None
    interruptions: Curve | None = None
    wake_curve: Curve | None = None
    peer_curve: Curve | None = None
    recv_curve: Curve | None = None
    send_curve: Curve | None = None
    l3_fills_per_us: Quantity | None = None
    tls: Tls | None = None
    variation: Variation | None = None
    captured: Captured | None = None
    posterior: LearnedTogether | None = None
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
        _check_wake_curve(self.wake_curve)
        _check_message_curve(self.peer_curve, "peer_curve")
        _check_message_curve(self.recv_curve, "recv_curve")
        _check_message_curve(self.send_curve, "send_curve")
        values = self.values()
        for path, quantity in self.quantities():
            if quantity.best <= 0.0:
                raise FieldError(path, found=quantity.best, valid="a number above zero")
            if quantity.low is not None and quantity.low <= 0.0:
                raise FieldError(f"{path}.low", found=quantity.low, valid="a number above zero")
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

    @property
    def base_id(self) -> str:
        """The catalogue's id of the host that an instance runs on; elsewhere its own."""
        return self.id if self.instance is None else self.id.removesuffix(f"-{self.instance}")

    def origins(self) -> Iterator[tuple[str, Origin]]:
        """Every leaf and curve with its path, such as `caches.L2.latency_ns`."""
        yield from _walk(self, "")

    def quantities(self) -> Iterator[tuple[str, Quantity]]:
        """Every leaf with its path."""
        yield from self._leaves.items()

    @cached_property
    def _leaves(self) -> dict[str, Quantity]:
        return {path: leaf for path, leaf in self.origins() if isinstance(leaf, Quantity)}

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
        if not values:
            return self._nominal_speed
        numbers = dict(self._numbers)
        for name, value in values.items():
            if name not in _NUMBERS:
                raise InputError(
                    f"host {self.id}: no speed is called {name!r}; {did_you_mean(name, _NUMBERS)}"
                )
            numbers[name] = value
        return self._as_speed(numbers)

    def number(self, name: str) -> float:
        """A number by `HostSpeed` field, as `speed` takes it in `values`.

        That of a call on sockets is without what a busy peer adds, which `speed` multiplies by.
        """
        return self._numbers[name]

    @cached_property
    def _nominal_speed(self) -> HostSpeed:
        return self._as_speed(dict(self._numbers))

    def _as_speed(self, numbers: dict[str, float]) -> HostSpeed:
        counts = {name: round(numbers.pop(name)) for name in ("cores", "threads_per_core")}
        longer = peer_scale(self._curves["peer_curve"])
        changes = 1.0 + PEER_CHANGES * (longer - 1.0)
        factors = dict.fromkeys(SOCKET_CALLS, longer) | {"epoll_ctl_ns": changes}
        numbers |= {name: factor * numbers[name] for name, factor in factors.items()}
        return HostSpeed(host_id=self.id, **self._curves, **counts, **numbers)  # type: ignore[arg-type]

    @cached_property
    def _numbers(self) -> dict[str, float]:
        """Best values by `HostSpeed` field."""
        leaves = self.values()
        threads_per_core = round(leaves["topology.threads_per_core"])
        numbers: dict[str, float] = {
            name: leaves[path] for name, path in _DIRECT.items() if path in leaves
        }
        numbers.setdefault("price_usd_per_hour", float("nan"))
        numbers.setdefault("softirq_ns", self.softirq.best)
        numbers["reorder_window"] = self.reorder_window.best
        numbers.setdefault("epoll_ctl_ns", self.epoll_ctl.best)
        numbers.setdefault("dram_copy_ns_per_byte", ASSUMED_COPY_NS_PER_BYTE.best)
        numbers.setdefault("repeat_ipc_ratio", self.repeat_ratio.best)
        numbers.update({name: leaf.best for name, leaf in self.tls_leaves().items()})
        numbers.update({name: leaf.best for name, leaf in self.scheduling.items()})
        numbers["cores"] = leaves["topology.cores"] * threads_per_core
        numbers["threads_per_core"] = threads_per_core
        numbers["tlb_reach_bytes"] = leaves["tlb.l2_entries"] * leaves["tlb.page_bytes"]
        return numbers

    @cached_property
    def _curves(self) -> dict[str, tuple[tuple[float, float], ...]]:
        """By `HostSpeed` field."""
        curves = {
            name: () if curve is None else tuple(sorted(curve.points))
            for name, curve in (
                ("loaded_latency", self.dram.loaded_latency),
                ("walk_curve", self.walk_curve),
                ("interruptions", self.interruptions),
            )
        }
        curves["wake_spread"] = self.wake_spread
        peers = ASSUMED_PEER_CURVE if self.peer_curve is None else self.peer_curve.points
        curves["peer_curve"] = tuple(sorted(peers))
        curves["recv_curve"] = _per_byte(self.recv_curve, call_bytes=READ_BYTES)
        curves["send_curve"] = _per_byte(self.send_curve, call_bytes=SEGMENT_BYTES)
        return curves

    @property
    def anchored(self) -> bool:
        """Whether an engine that was driven on it says what its kernel takes."""
        return self.kernel.tcp_send_ns.source == "bundle"

    @cached_property
    def reorder_window(self) -> Quantity:
        """Instructions that its cores hold begun and not finished, by the kind of core."""
        return reorder_window(self.microarchitecture, self.id)

    @property
    def softirq(self) -> Quantity:
        """What an interrupt takes per packet, in ns; assumed where the profile doesn't say."""
        return self.kernel.softirq_ns or ASSUMED_SOFTIRQ_NS

    @property
    def repeat_ratio(self) -> Quantity:
        """What repeats in commands against `user_ipc`; assumed where the profile doesn't say."""
        return self.repeat_ipc_ratio or ASSUMED_REPEAT_IPC_RATIO

    @property
    def epoll_ctl(self) -> Quantity:
        """What one epoll_ctl takes, in ns; assumed where the profile doesn't say."""
        return self.kernel.epoll_ctl_ns or assumed_epoll_ctl(self.kernel.syscall_ns.best)

    @property
    def wake_spread(self) -> tuple[tuple[float, float], ...]:
        """(share, factor) pairs: of wake-ups that take at most so many times their median."""
        if self.wake_curve is None:
            return ASSUMED_WAKE_SPREAD
        shares, times_ns = np.array(sorted(self.wake_curve.points)).T
        factors = times_ns / np.interp(0.5, shares, times_ns)
        return tuple(zip(shares.tolist(), factors.tolist(), strict=True))

    @cached_property
    def scheduling(self) -> dict[str, Quantity]:
        """What threads go by that share cores or sleep, by `HostSpeed` field."""
        cores = round(self.topology.cores.best * self.topology.threads_per_core.best)
        return {
            name: getattr(self.kernel, name) or leaf
            for name, leaf in assumed_scheduling(cores).items()
        }

    def tls_leaves(self) -> dict[str, Quantity]:
        """CPU time of TLS, by `HostSpeed` field; assumed where the profile doesn't say."""
        group = ASSUMED_TLS if self.tls is None else self.tls
        return {f"tls_{name}": getattr(group, name) for name in Tls.model_fields}

    def variations(self) -> dict[str, Quantity]:
        """By how much measurements differ, by name; assumed where the profile doesn't say."""
        own = self.variation or ASSUMED_VARIATION
        return {
            name: getattr(own, name) or getattr(ASSUMED_VARIATION, name)
            for name in Variation.model_fields
        }

    @property
    def field_paths(self) -> dict[str, str]:
        """Paths of the leaves that fields of `HostSpeed` stand for, one each."""
        leaves = self._leaves
        return {name: path for name, path in _DIRECT.items() if path in leaves}

    def uncertain(self) -> dict[str, tuple[float, float, float]]:
        """(low, value, high) by `HostSpeed` field, for the leaves that have a range.

        An unknown value is given as the geometric middle of its range. A node under load has the
        baseline of its network whatever the credit, which is no part of this.
        """
        return dict(self._ranges)

    @cached_property
    def _ranges(self) -> dict[str, tuple[float, float, float]]:
        leaves = self._leaves
        ranges = {}
        for name, path in _DIRECT.items():
            quantity = leaves.get(path) if name != "network_credit_gbit" else None
            if quantity is not None and quantity.low is not None and quantity.high is not None:
                ranges[name] = (quantity.low, quantity.best, quantity.high)
        ranges.update(ranges_of({"reorder_window": self.reorder_window}))
        entries, page = self.tlb.l2_entries, self.tlb.page_bytes.best
        if entries.low is not None and entries.high is not None:
            ranges["tlb_reach_bytes"] = (
                entries.low * page,
                entries.best * page,
                entries.high * page,
            )
        return ranges


def _check_wake_curve(curve: Curve | None) -> None:
    """Shares from 0 to 1, and times above zero that rise with them."""
    if curve is None:
        return
    shares, times_ns = zip(*sorted(curve.points), strict=True)
    if shares[0] < 0 or shares[-1] > 1 or len(set(shares)) < len(shares):
        raise ValueError("a wake_curve of different shares from 0 to 1")
    if times_ns[0] <= 0 or any(later < earlier for earlier, later in pairwise(times_ns)):
        raise ValueError("a wake_curve whose times are above zero and don't fall with the share")


def _check_message_curve(curve: Curve | None, name: str) -> None:
    """Different sizes, or counts, and times above zero."""
    if curve is None:
        return
    sizes, times_ns = zip(*sorted(curve.points), strict=True)
    if sizes[0] <= 0 or len(set(sizes)) < len(sizes) or min(times_ns) <= 0:
        raise ValueError(f"a {name} of different sizes and of times, all above zero")


def _per_byte(curve: Curve | None, *, call_bytes: int) -> tuple[tuple[float, float], ...]:
    """(bytes, ns per byte) of a message beyond the calls, which take what the smallest one takes.

    Parameters
    ----------
    call_bytes
        What one call moves at most.
    """
    if curve is None:
        return ()
    (_, call_ns), *larger = sorted(curve.points)
    return tuple(
        (size, max(_LEAST_NS_PER_BYTE, (took_ns - math.ceil(size / call_bytes) * call_ns) / size))
        for size, took_ns in larger
    )


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
        elif isinstance(child, Group):
            yield from _walk(child, f"{prefix}{name}.")
        elif isinstance(child, list):
            for item in child:
                if isinstance(item, Cache):
                    yield from _walk(item, f"{prefix}{name}.{item.name}.")
