"""Parts of a host profile: cores, caches, memory, kernel, network, TLS."""

from typing import Literal

from .quantity import Curve, Quantity
from .record import Record


class Group(Record):
    """Leaves that belong together."""


class Topology(Group):
    """Cores of one host or instance.

    `cores` are physical. With two threads per core the operating system sees twice as many CPUs,
    and a CPU whose sibling is busy runs at `busy_sibling_speed` of its full speed.
    """

    cores: Quantity
    threads_per_core: Quantity
    sockets: Quantity
    busy_sibling_speed: Quantity | None = None


class Cache(Group):
    """One level: `latency_ns` is load-to-use by dependent loads that hit it."""

    name: Literal["L1", "L2", "L3"]
    size_bytes: Quantity
    latency_ns: Quantity
    line_bytes: Quantity
    shared_by_cores: Quantity


class Dram(Group):
    """Main memory: idle latency without page walks, and latency against bandwidth in use.

    `copy_ns_per_byte` is what one core takes to copy blocks of a megabyte out of it; assumed where
    nothing is said (`ASSUMED_COPY_NS_PER_BYTE`).
    """

    latency_ns: Quantity
    peak_bandwidth_gb_per_s: Quantity
    copy_ns_per_byte: Quantity | None = None
    loaded_latency: Curve | None = None


class Tlb(Group):
    """Address translation: `walk_ns` is what a random access beyond `l2_entries` pages pays."""

    l2_entries: Quantity
    page_bytes: Quantity
    walk_ns: Quantity


class Kernel(Group):
    """CPU time of system calls on small messages, and of sleeping.

    Attributes
    ----------
    syscall_ns
        The cheapest system call.
    tcp_recv_ns, tcp_send_ns, unix_recv_ns, unix_send_ns
        One call on an established local connection whose peer is awake. Over loopback TCP the
        sender runs the receive path inline, so send includes it.
    epoll_wait_ns, epoll_event_ns
        One non-blocking `epoll_wait`, and each event it returns: k events take
        `epoll_wait_ns + k * epoll_event_ns`.
    epoll_ctl_ns
        One `epoll_ctl` that adds a connection or takes one out, the mean of both; a multiple of
        `syscall_ns` where nothing is said (`assumed_epoll_ctl`).
    copy_ns_per_byte
        Per byte that `send` or `recv` copies beyond a small message, both ends on one core.
    message_ns_per_byte
        The same of a message of 1 KiB whose other end is on another core, sent or received; other
        sizes by `MESSAGE_SIZES`. `copy_ns_per_byte` where neither it nor a curve is given.
    wake_send_ns
        Extra CPU time of a sender whose receiver sleeps in `epoll_wait` on another core.
    wake_latency_ns
        From the start of that send until the sleeper's `epoll_wait` has returned, on a core that
        keeps its timer tick.
    block_ns
        Extra CPU time of the sleeper for blocking and being scheduled again, on such a core.
    softirq_ns
        What an interrupt takes to bring one packet from the network interface to its socket, part
        of `tcp_send_ns` over loopback; `ASSUMED_SOFTIRQ_NS` where nothing is said.
    time_slice_us, timer_tick_us, context_switch_ns
        What threads that share cores go by: how long one keeps its core while others wait (as in
        `/sys/kernel/debug/sched/base_slice_ns`), how often the kernel looks (CONFIG_HZ), and how
        long it takes until another thread goes on; `assumed_scheduling` where nothing is said.
    short_sleep_share
        How much of `wake_send_ns` and of `block_ns` it takes to wake a thread that has only just
        fallen asleep. From there they rise with the time it has slept, up to those of a whole sleep
        after `block_ns`. `assumed_scheduling` where nothing is said.
    tickless_block_scale, tickless_latency_scale
        How many times `block_ns` and `wake_latency_ns` a sleep takes on a core that stops its timer
        tick while it idles, as Linux does unless callbacks of its RCU wait: whoever takes a socket
        out of an epoll set leaves one. `assumed_scheduling` where nothing is said.
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
    epoll_ctl_ns: Quantity | None = None
    message_ns_per_byte: Quantity | None = None
    softirq_ns: Quantity | None = None
    time_slice_us: Quantity | None = None
    timer_tick_us: Quantity | None = None
    context_switch_ns: Quantity | None = None
    short_sleep_share: Quantity | None = None
    tickless_block_scale: Quantity | None = None
    tickless_latency_scale: Quantity | None = None


class Variation(Group):
    """By how much ordinary measurements of the same thing differ: relative standard deviations.

    Attributes
    ----------
    window
        Between windows of some tenths of a second, in one hour on one machine.
    start
        Between starts of the server.
    day
        Between days.
    """

    window: Quantity | None = None
    start: Quantity | None = None
    day: Quantity | None = None


class Network(Group):
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
    burst_gbit_per_s, credit_gbit
        What each direction has beyond the baseline while there is credit, and how much may be sent
        beyond it at first; no bursts where nothing is said.
    """

    bandwidth_gbit_per_s: Quantity
    one_way_us: Quantity
    packets_per_s: Quantity
    mtu_bytes: Quantity | None = None
    flow_gbit_per_s: Quantity | None = None
    burst_gbit_per_s: Quantity | None = None
    credit_gbit: Quantity | None = None


class Tls(Group):
    """CPU time of encryption, for one side of a connection.

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


class Captured(Group):
    """When and on what a profile was captured."""

    date: str
    cpu_model: str
    kernel: str
    tool: str
    elapsed_s: float
