"""CPU cost of small messages over local connections, with the peer awake and with it asleep."""

import contextlib
import select
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from forecache.sim.errors import EngineError

from .loops import (
    CLOCK_MONOTONIC,
    CLOCK_THREAD_CPUTIME_ID,
    Bytes,
    Descriptors,
    Word,
    Words,
    loop,
    run_side_by_side,
)

SMALL_BYTES = 64
LARGE_BYTES = 16_384
_PATIENCE = 200_000_000  # looks: some tenths of a second
# A receiver that woke this long ago has read its message and gone back to sleep.
_REST_NS = 25_000


class DisturbedError(EngineError):
    """Another program got in the way of a probe, which may succeed if it is run again."""


def send_all(descriptors: np.ndarray, buffer: np.ndarray, clock: int) -> int:
    """ns to send the buffer on every descriptor; -1 when one does not take all of it."""
    send = loop("send_all", Descriptors, Word, Bytes, Word, Word)
    return send(descriptors, len(descriptors), buffer, len(buffer), clock)


def receive_all(descriptors: np.ndarray, buffer: np.ndarray, clock: int) -> int:
    """ns to fill the buffer from every descriptor; -1 when one has less."""
    receive = loop("receive_all", Descriptors, Word, Bytes, Word, Word)
    return receive(descriptors, len(descriptors), buffer, len(buffer), clock)


def poll_ready(epoll: int, ready: int, polls: int, clock: int) -> int:
    """ns of `polls` calls of epoll_wait that each return `ready` events; -1 when one does not."""
    return loop("poll_ready", Word, Word, Word, Word)(epoll, ready, polls, clock)


def watch_and_leave(epoll: int, descriptors: np.ndarray, clock: int) -> int:
    """ns to add every descriptor to an epoll set and to take it out again; -1 when it can't be."""
    watch = loop("watch_and_leave", Word, Descriptors, Word, Word)
    return watch(epoll, descriptors, len(descriptors), clock)


def sleep_and_receive(
    epoll: int, descriptor: int, woken_ns: np.ndarray, turn_cpu_ns: np.ndarray
) -> int:
    """Wait for and receive one small message per element.

    `woken_ns[i]` is when epoll_wait returned for message i, on the monotonic clock, and
    `turn_cpu_ns[i]` the thread CPU time since the message before (of the first, nothing to go by).
    Gives -1 when nothing came for a second.
    """
    buffer = np.zeros(SMALL_BYTES, dtype=np.uint8)
    receive = loop("sleep_and_receive", Word, Word, Bytes, Word, Words, Words, Word)
    return receive(epoll, descriptor, buffer, len(buffer), woken_ns, turn_cpu_ns, len(woken_ns))


def send_to_sleeper(
    descriptor: int,
    pause_ns: int,
    start_ns: np.ndarray,
    end_ns: np.ndarray,
    *,
    ticking_epoll: int | None = None,
) -> int:
    """Send one small message per element, each after a pause in which the receiver falls asleep.

    `start_ns[i]` and `end_ns[i]` stamp send i on the monotonic clock. Before each pause the
    descriptor is put into the epoll set and taken out again, if there is one, which keeps idle
    cores from stopping their timer tick. Gives -1 when a call fails.
    """
    buffer = np.zeros(SMALL_BYTES, dtype=np.uint8)
    send = loop("send_to_sleeper", Word, Bytes, Word, Word, Words, Words, Word, Word)
    epoll = -1 if ticking_epoll is None else ticking_epoll
    return send(descriptor, buffer, len(buffer), pause_ns, start_ns, end_ns, len(start_ns), epoll)


@dataclass
class Connections:
    """Connected pairs; `servers` are watched by `epoll`, `clients` by `client_epoll` if at all."""

    clients: list[socket.socket]
    servers: list[socket.socket]
    epoll: select.epoll
    client_epoll: select.epoll | None = None

    def descriptors(self, side: str) -> Any:
        """File descriptors of one side as int32."""
        sockets = self.clients if side == "clients" else self.servers
        return np.array([end.fileno() for end in sockets], dtype=np.int32)


@contextlib.contextmanager
def connections(
    transport: str, count: int, *, watches_clients: bool = False
) -> Iterator[Connections]:
    """`count` connected, non-blocking pairs over loopback TCP (`tcp`) or AF_UNIX (`unix`)."""
    with contextlib.ExitStack() as stack:
        pairs = []
        try:
            listener = None
            if transport == "tcp":
                listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=8))
            for _ in range(count):
                if listener is None:
                    client, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
                else:
                    client = socket.create_connection(listener.getsockname(), timeout=5)
                    server, _ = listener.accept()
                    for end in (client, server):
                        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for end in (client, server):
                    end.setblocking(False)
                    stack.enter_context(end)
                pairs.append((client, server))
            clients, servers = [list(ends) for ends in zip(*pairs, strict=True)]
            watched = (servers, clients) if watches_clients else (servers,)
            epolls = [_watching(ends, stack) for ends in watched]
        except OSError as error:
            raise EngineError(f"local {transport} connections can't be opened: {error}.") from None
        yield Connections(clients, servers, *epolls)


def _watching(sockets: Sequence[socket.socket], stack: contextlib.ExitStack) -> select.epoll:
    """A set that reports which of these can be read."""
    epoll = stack.enter_context(contextlib.closing(select.epoll()))
    for one in sockets:
        epoll.register(one.fileno(), select.EPOLLIN)
    return epoll


@dataclass(frozen=True)
class AwakeCosts:
    """ns, one sample a repetition: time the core is taken, and the same as thread CPU time."""

    send: list[float]
    receive: list[float]
    send_cpu: list[float]
    receive_cpu: list[float]


def awake_samples(
    transport: str, *, size: int = SMALL_BYTES, count: int = 48, repetitions: int = 60
) -> AwakeCosts:
    """Cost of `send` and `recv` when no thread has to be woken.

    Messages go there and back on `count` connections in turn, as requests and replies do, so that
    TCP acknowledgements ride on data. Both clocks are read, in alternate repetitions: monotonic
    time is what the core is taken for; thread CPU time may leave out the receive path that the
    sender runs, depending on how the kernel accounts for interrupts.
    """
    buffer = np.zeros(size, dtype=np.uint8)
    samples: dict[tuple[int, str], list[float]] = {}
    with connections(transport, count) as pairs:
        clients, servers = pairs.descriptors("clients"), pairs.descriptors("servers")
        for repetition in range(2 * repetitions + 4):
            clock = CLOCK_MONOTONIC if repetition % 2 == 0 else CLOCK_THREAD_CPUTIME_ID
            times = (
                send_all(clients, buffer, clock),
                receive_all(servers, buffer, clock),
                send_all(servers, buffer, clock),
                receive_all(clients, buffer, clock),
            )
            if min(times) < 0:
                raise DisturbedError(
                    f"a {size}-byte message got stuck on a local {transport} socket."
                )
            if repetition >= 4:  # the first repetitions grow the sockets' buffers
                samples.setdefault((clock, "send"), []).append((times[0] + times[2]) / (2 * count))
                samples.setdefault((clock, "recv"), []).append((times[1] + times[3]) / (2 * count))
    return AwakeCosts(
        send=samples[CLOCK_MONOTONIC, "send"],
        receive=samples[CLOCK_MONOTONIC, "recv"],
        send_cpu=samples[CLOCK_THREAD_CPUTIME_ID, "send"],
        receive_cpu=samples[CLOCK_THREAD_CPUTIME_ID, "recv"],
    )


@dataclass(frozen=True)
class AcrossCosts:
    """ns per message between threads on two CPUs, one sample a round and side."""

    send: list[float]
    receive: list[float]


def exchange(
    descriptors: np.ndarray,
    epoll: int,
    buffer: np.ndarray,
    call_bytes: int,
    side: int,
    turn: np.ndarray,
    took_ns: np.ndarray,
    *,
    patience: int = _PATIENCE,
) -> int:
    """One end of messages that go there and back on every descriptor, `took_ns` wide times.

    Side 0 sends first, side 1 answers. Each side waits until the set `epoll` has reported all
    messages, which is no part of what is timed; -1: it doesn't. Messages have the size of the
    buffer and are received in calls of at most `call_bytes`. `turn[0]` says whose turn it is; both
    sides share it, and it is 0 to begin with. `took_ns[0, i]` and `took_ns[1, i]` become what
    sending and receiving take in round i. Gives -1 when a message gets stuck or the other side does
    not answer.
    """
    passed = loop(
        "exchange",
        *(Descriptors, Word, Word, Bytes, Word, Word, Word, Words, Words, Words, Word, Word),
    )
    sizes = (len(descriptors), epoll, buffer, len(buffer), call_bytes)
    rounds = took_ns.shape[1]
    return passed(descriptors, *sizes, side, turn, took_ns[0], took_ns[1], rounds, patience)


def across_samples(
    sender_cpu: int,
    receiver_cpu: int,
    pin: Callable[[int], None],
    *,
    size: int,
    call_bytes: int,
    count: int = 16,
    rounds: int = 40,
    watched: bool = False,
) -> AcrossCosts:
    """Cost of `send` and `recv` over TCP between threads on two CPUs, both of which are awake.

    Messages go there and back on `count` connections in turn, received in calls of at most
    `call_bytes`. Each side copies lines that the other one's cache holds, as an engine and its
    clients do.

    Parameters
    ----------
    watched
        Whether the connections are in epoll sets at both ends, which report every message.
    """
    turn = np.zeros(16, dtype=np.int64)  # more than a line, so that nothing else shares it
    took = np.zeros((2, 2, rounds), dtype=np.int64)
    outcome = [-1, -1]
    with connections("tcp", count, watches_clients=watched) as pairs:
        ends = (pairs.descriptors("clients"), pairs.descriptors("servers"))
        sets = [-1, -1]
        if watched and pairs.client_epoll is not None:
            sets = [pairs.client_epoll.fileno(), pairs.epoll.fileno()]

        def run(side: int, cpu: int) -> None:
            pin(cpu)
            buffer = np.zeros(size, dtype=np.uint8)
            times = (call_bytes, side, turn, took[side])
            outcome[side] = exchange(ends[side], sets[side], buffer, *times)

        run_side_by_side(
            partial(run, side, cpu) for side, cpu in enumerate((sender_cpu, receiver_cpu))
        )
    if min(outcome) < 0:
        raise DisturbedError(
            f"{size}-byte messages between CPUs {sender_cpu} and {receiver_cpu} got stuck on a "
            "local tcp socket: another program held one of the CPUs for long."
        )
    settled = took[:, :, 4:] / count  # the first rounds grow the sockets' buffers
    return AcrossCosts(send=settled[:, 0].ravel().tolist(), receive=settled[:, 1].ravel().tolist())


def epoll_samples(
    *, many: int = 48, repetitions: int = 40, polls: int = 40
) -> tuple[list[float], list[float]]:
    """ns of one epoll_wait without its events, and of each event it returns.

    From calls that return one and `many` events: a call with k events costs the first plus k times
    the second.
    """
    buffer = np.zeros(SMALL_BYTES, dtype=np.uint8)
    call, event = [], []
    with connections("tcp", many) as pairs:
        clients, servers = pairs.descriptors("clients"), pairs.descriptors("servers")
        for _ in range(repetitions):
            took = []
            for ready in (1, many):
                send_all(clients[:ready], buffer, CLOCK_MONOTONIC)
                elapsed = poll_ready(pairs.epoll.fileno(), ready, polls, CLOCK_MONOTONIC)
                receive_all(servers[:ready], buffer, CLOCK_MONOTONIC)
                if elapsed < 0:
                    raise DisturbedError("epoll_wait did not report messages that had been sent.")
                took.append(elapsed / polls)
            per_event = (took[1] - took[0]) / (many - 1)
            event.append(per_event)
            call.append(took[0] - per_event)
    return call, event


def epoll_change_samples(*, count: int = 48, repetitions: int = 40) -> list[float]:
    """ns of one epoll_ctl, the mean of adding a connection and of taking it out."""
    with connections("tcp", count) as pairs:
        clients, epoll = pairs.descriptors("clients"), pairs.epoll.fileno()
        took = [watch_and_leave(epoll, clients, CLOCK_MONOTONIC) for _ in range(repetitions)]
    if min(took) < 0:
        raise EngineError("a local connection can't be added to an epoll set.")
    return [elapsed / (2 * count) for elapsed in took]


@dataclass(frozen=True)
class SleeperCosts:
    """ns: send to a sleeper, from its start until the sleeper runs, and the sleeper's CPU."""

    send: list[float]
    latency: list[float]
    receiver_cpu: list[float]


def sleeper_samples(
    transport: str,
    sender_cpu: int,
    receiver_cpu: int,
    pin: Callable[[int], None],
    *,
    messages: int = 400,
    pause_us: float = 150.0,
    ticking: bool = False,
) -> SleeperCosts:
    """Cost of messages to a thread that sleeps in epoll_wait on another CPU.

    Messages that met the receiver awake are left out; on a busy machine few may remain.

    `receiver_cpu` is a whole turn of the receiver: epoll_wait, blocking, waking and recv. With
    `ticking` idle cores keep their timer tick; without, they do for the first 0.1 to 0.15 s.
    """
    start, end, woken, turn = (np.zeros(messages, dtype=np.int64) for _ in range(4))
    outcome: dict[str, int] = {}
    with connections(transport, 1) as pairs, select.epoll() as left:
        client, server = pairs.clients[0].fileno(), pairs.servers[0].fileno()
        epoll = pairs.epoll.fileno()

        def receive() -> None:
            pin(receiver_cpu)
            outcome["received"] = sleep_and_receive(epoll, server, woken, turn)

        def send() -> None:
            pin(sender_cpu)
            outcome["sent"] = send_to_sleeper(
                client,
                int(pause_us * 1000),
                start,
                end,
                ticking_epoll=left.fileno() if ticking else None,
            )

        run_side_by_side((receive, send))
    if outcome.get("received", -1) < 0 or outcome.get("sent", -1) < 0:
        raise DisturbedError(
            f"a message to a sleeping thread took more than a second on a local {transport} socket."
        )
    slept = found_asleep(start, woken)
    return SleeperCosts(
        send=[float(ns) for ns in (end - start)[slept]],
        latency=[float(ns) for ns in (woken - start)[slept]],
        receiver_cpu=[float(ns) for ns in turn[slept]],
    )


def found_asleep(start_ns: Any, woken_ns: Any) -> Any:
    """Which messages met a sleeper: the one before had woken it long enough ago.

    A receiver that lost its CPU to another program is still at an earlier message when the next
    ones are sent, and finds them without sleeping. The first message has none before it.
    """
    rested = start_ns[1:] - woken_ns[:-1] > _REST_NS
    return np.concatenate(([False], rested))
