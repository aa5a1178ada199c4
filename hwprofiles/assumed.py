"""What is assumed of hosts whose profile doesn't say it; `assumed.yaml` says why."""

from importlib import resources
from pathlib import Path

from .files import parse, read_yaml
from .parts import Tls, Variation
from .quantity import Curve, Quantity
from .record import Record


class _Assumed(Record):
    """The file."""

    softirq_ns: Quantity
    epoll_ctl_syscalls: Quantity
    copy_ns_per_byte: Quantity
    tls: Tls
    scheduling: dict[str, Quantity]
    variation: Variation
    wake_spread: Curve
    peer_curve: Curve
    interruptions: Curve


_FILE = Path(str(resources.files(__package__) / "assumed.yaml"))
_ASSUMED = parse(_Assumed, read_yaml(_FILE), file=_FILE)

ASSUMED_SOFTIRQ_NS = _ASSUMED.softirq_ns
"""What an interrupt takes per packet."""

ASSUMED_COPY_NS_PER_BYTE = _ASSUMED.copy_ns_per_byte
"""What one core takes to copy long blocks out of main memory."""

ASSUMED_TLS = _ASSUMED.tls
ASSUMED_VARIATION = _ASSUMED.variation

ASSUMED_WAKE_SPREAD = tuple(_ASSUMED.wake_spread.points)
"""(share, factor) pairs: of wake-ups that take at most so many times their median."""

ASSUMED_INTERRUPTIONS = tuple(_ASSUMED.interruptions.points)
"""(us, interruptions per second and busy core that last longer) pairs, of hosts like any other. No
prediction holds them; the ends of intervals do."""

ASSUMED_PEER_CURVE = tuple(_ASSUMED.peer_curve.points)
"""(connections, factor) pairs: how many times as long calls on sockets take beside a peer."""


def assumed_epoll_ctl(syscall_ns: float) -> Quantity:
    """What adding a connection to an epoll set takes, or taking one out, in ns.

    Parameters
    ----------
    syscall_ns
        The cheapest system call of the host.
    """
    calls = _ASSUMED.epoll_ctl_syscalls
    ends = {end: getattr(calls, end) * syscall_ns for end in ("value", "low", "high")}
    return calls.model_copy(update={**ends, "unit": "ns"})


def assumed_scheduling(cores: int) -> dict[str, Quantity]:
    """What threads that share cores, or sleep for a short time, go by.

    Parameters
    ----------
    cores
        CPUs of the operating system: Linux scales its slice by 1 + log2(min(cores, 8)).
    """
    one = _ASSUMED.scheduling["time_slice_us"]
    scale = min(cores, 8).bit_length()
    ends = {end: getattr(one, end) * scale for end in ("value", "low", "high")}
    return {**_ASSUMED.scheduling, "time_slice_us": one.model_copy(update=ends)}
