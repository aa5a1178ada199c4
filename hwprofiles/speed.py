"""A host as plain numbers."""

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

READ_BYTES = 16 * 1024
"""What one `recv` takes at most where a capture measures messages by size; engines and benchmark
tools read as much."""

SEGMENT_BYTES = 65_483
"""What goes through the network stack of a local connection in one piece."""

MESSAGE_SIZES = (
    (256, 1.5),
    (512, 1.2),
    (1024, 1.0),
    (2048, 0.6),
    (4096, 0.5),
    (16_384, 0.33),
    (65_536, 0.27),
)
"""(bytes, factor): what a byte of a message takes by its size, against one of 1 KiB. The prefetcher
runs ahead in long ones. Geometric means of sends and receives between two cores of a Zen 3 virtual
machine, over TCP and Unix sockets, and of a Zen 4 one over TCP."""


PEER_CONNECTIONS = 64
"""On how many connections a host says what a peer on another CPU adds to calls on sockets."""

NEAR_PEER = 1.05
"""That, as a factor on both, where the CPUs share a last-level cache: the hosts that engines were
observed on."""

BOTH_AT_WORK = 1.6
"""What a peer adds while both work, against what it adds where one works after the other, which is
how a capture measures it: sockets, their locks and lists go back and forth more often.

Seven engines under valkey-benchmark, pipeline 1, on a Zen 5 virtual machine whose hypervisor moved
the CPUs meanwhile: 7.0 us of CPU a request in the server and 9.0 in the tool while the factor was
1.05 (26 ns between cores), 8.4 and 11.0 while it was 1.24 (121 ns). The server asks for 1.7, the
tool for 1.4: half of its calls are epoll_ctl, to which a peer adds less (`PEER_CHANGES`). That is
one host; 1 to 2.5 would not surprise."""

PEER_CHANGES = 0.17
"""What a peer adds to an epoll_ctl, against what it adds to a send and a receive: they take 1.15
and 1.94 times as long (`python benchmarks/epoll_changes.py` on a Xeon 6 guest; 0.15 to 0.18)."""


@dataclass(frozen=True)
class HostSpeed:
    """A host as plain numbers, ready for compiled code; units are in the names.

    `loaded_latency` has (GB/s in use, ns) pairs of main memory, where a source has them.
    `walk_curve` has (bytes, ns) pairs of the page walk of a random access by size of the region,
    where a capture measured it. `interruptions` has (us, interruptions per second and core that
    last at least that long) pairs; none where nothing was measured. `wake_spread` has (share,
    factor) pairs: the share of wake-ups that take at most so many times `wake_latency_ns`.
    `peer_curve` has (connections, factor) pairs: how many times as long calls on sockets take with
    the peer on another CPU. `recv_curve` and `send_curve` have (bytes, ns per byte) pairs, by the
    size of what is sent in one go. Without them `message_ns_per_byte` stands for both, by the
    factors of `MESSAGE_SIZES`; where it is 0, `copy_ns_per_byte` does whatever the size. `cores`
    counts the CPUs the operating system can run threads on, which is twice the physical cores where
    there are two threads per core. Unknown numbers are nan. `network_burst_gbit_per_s` is 0 where
    there are no bursts.
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
    wake_spread: tuple[tuple[float, float], ...] = ((0.5, 1.0),)
    peer_curve: tuple[tuple[float, float], ...] = ((PEER_CONNECTIONS, NEAR_PEER),)
    recv_curve: tuple[tuple[float, float], ...] = ()
    send_curve: tuple[tuple[float, float], ...] = ()
    message_ns_per_byte: float = 0.0
    threads_per_core: int = 1
    busy_sibling_speed: float = 1.0
    tls_record_ns: float = 0.0
    tls_ns_per_byte: float = 0.0
    tls_ecdsa_handshake_us: float = 0.0
    tls_rsa_handshake_us: float = 0.0
    epoll_ctl_ns: float = 900.0
    dram_copy_ns_per_byte: float = 0.05
    repeat_ipc_ratio: float = 1.0
    softirq_ns: float = 900.0
    reorder_window: float = 256.0
    time_slice_us: float = 2800.0
    timer_tick_us: float = 4000.0
    context_switch_ns: float = 1500.0
    short_sleep_share: float = 0.4
    tickless_block_scale: float = 1.75
    tickless_latency_scale: float = 1.25
    network_mtu_bytes: float = 1500.0
    network_flow_gbit_per_s: float = math.inf
    network_burst_gbit_per_s: float = 0.0
    network_credit_gbit: float = 0.0

    def connection_scale(self, connections: float) -> float:
        """How many times as long a receive or a send takes on so many connections as on few."""
        return peer_scale(self.peer_curve, connections) / peer_scale(self.peer_curve)

    def recv_ns_per_byte(self, sent_bytes: float) -> float:
        """What receiving takes per byte beyond the calls, of so many bytes sent in one go."""
        return self._message_ns_per_byte(self.recv_curve, sent_bytes)

    def send_ns_per_byte(self, sent_bytes: float) -> float:
        """What sending takes per byte beyond the calls, of so many bytes in one go."""
        return self._message_ns_per_byte(self.send_curve, sent_bytes)

    def _message_ns_per_byte(
        self, curve: tuple[tuple[float, float], ...], size_bytes: float
    ) -> float:
        if curve:
            return _by_size(curve, size_bytes)
        if self.message_ns_per_byte > 0.0:
            return self.message_ns_per_byte * _by_size(MESSAGE_SIZES, size_bytes)
        return self.copy_ns_per_byte

    def at_clock(self, clock_ghz: float, *, of_ghz: float) -> "HostSpeed":
        """The same host with its cores at another clock; what lies beyond their caches stays.

        Parameters
        ----------
        of_ghz
            The clock that the times of its kernel and of its cores' caches hold at.
        """
        times = self._cores_slower(of_ghz / clock_ghz)
        return replace(self, clock_ghz=clock_ghz, **times)  # type: ignore[arg-type]

    def with_busy_siblings(self) -> "HostSpeed":
        """The same host while the other hyperthread of each core is never idle."""
        share = self.busy_sibling_speed
        times = self._cores_slower(1.0 / share)
        return replace(self, user_ipc=self.user_ipc * share, **times)  # type: ignore[arg-type]

    def ticking(self) -> "HostSpeed":
        """The same host while something keeps its idle cores from stopping their timer tick."""
        return replace(self, tickless_block_scale=1.0, tickless_latency_scale=1.0)

    @property
    def whole_block_ns(self) -> float:
        """Extra CPU time of a long sleep, in which the core has stopped its tick.

        After `ticking()` it is `block_ns`.
        """
        return self.tickless_block_scale * self.block_ns

    @property
    def whole_wake_latency_ns(self) -> float:
        """`wake_latency_ns` of a core that has stopped its tick."""
        return self.tickless_latency_scale * self.wake_latency_ns

    def _cores_slower(self, factor: float) -> dict[str, float]:
        """What takes longer by the factor on slower cores."""
        return {
            field.name: getattr(self, field.name) * factor
            for field in fields(self)
            if _is_time(field.name) and field.name not in NOT_OF_THE_PROCESSOR | NOT_OF_THE_CORES
        }

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

NOT_OF_THE_CORES = frozenset(
    {
        *("l3_ns", "dram_ns", "tlb_walk_ns", "core_to_core_ns", "message_ns_per_byte"),
        *("dram_copy_ns_per_byte", "wake_latency_ns"),
    }
)
"""Times that are no shorter at a higher clock of the cores."""

_CURVES_OF_NS = ("loaded_latency", "walk_curve", "recv_curve", "send_curve")


def peer_scale(
    curve: tuple[tuple[float, float], ...], connections: float = PEER_CONNECTIONS
) -> float:
    """How many times as long calls on sockets take as on hosts that engines were observed on.

    Parameters
    ----------
    curve
        `HostSpeed.peer_curve`.
    connections
        As many as `PEER_CONNECTIONS` if there are fewer.
    """
    peer = max(1.0, _by_size(curve, max(PEER_CONNECTIONS, connections)))
    added, usual = (1.0 + BOTH_AT_WORK * (times - 1.0) for times in (peer, NEAR_PEER))
    return added / usual


@lru_cache(maxsize=4096)
def _by_size(curve: tuple[tuple[float, float], ...], size_bytes: float) -> float:
    sizes, values = zip(*curve, strict=True)
    return float(np.interp(math.log(max(1.0, size_bytes)), np.log(sizes), values))


def _is_time(name: str) -> bool:
    """Whether a field's unit is a time, also per byte; a rate per time is none."""
    words = ["", *name.split("_")]
    return any(word in ("ns", "us") and before != "per" for before, word in pairwise(words))


# --- wake-ups ------------------------------------------------------------------------------------

# How a capture times wake-ups: how long it lets the thread sleep before it sends the message.
#
# Whoever reads the curve of wake-ups has to know. On a Zen 5 virtual machine the share that took
# more than a millisecond was 0.03% after 35 us of sleep, 0.05% after 95, 0.09% after 215, 0.11%
# after 455 and 0.19% after 975 (15,000 to 185,000 messages each, by `sleeper_samples` of
# `capture/sockets.py` with a `pause_us` of 60 to 1000, in turn): the longer a core idles, the
# likelier the hypervisor has given it to another machine.


SHORTEST_PAUSE_US, LONGEST_PAUSE_US = 60.0, 1000.0
_LATENCIES = 3.0


def pause_us(wake_latency_us: float) -> float:
    """Time between two messages: long enough for the thread to fall asleep after each, and short
    enough that idle states and caches are those of a busy host."""
    return min(LONGEST_PAUSE_US, max(SHORTEST_PAUSE_US, _LATENCIES * wake_latency_us))


def asleep_us(wake_latency_us: float) -> float:
    """Time for which the thread has slept when the next message is sent."""
    return max(0.0, pause_us(wake_latency_us) - wake_latency_us)
