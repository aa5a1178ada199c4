"""The node in readable Python: one server, its clients, and what happens to every request.

This file is the model, as SimPy processes; read it from top to bottom. Everything else in the room
says how long its steps take (`models/step_times/`) or repeats it (`models/node/native/` is the same
model in C, which computes every answer; both must give equal times to the picosecond).

The life of a request
---------------------

1. **A client sends.** A client is one connection. In a closed loop it sends a batch of `pipeline`
   commands, waits until it has all replies, perhaps thinks, and sends the next batch. In an open
   loop requests fall due by themselves, and each takes the connection that has been idle longest. A
   thread of the load generator makes the `send` call for its clients, one after the other. Which
   command a request is, and how large its value, is drawn from one address of the random streams:
   seed, replication, client, number of the request.
2. **The network carries it.** On the same host the request is in the server's socket at once.
   Otherwise bandwidth, packet rate and the connection's own limit delay it, then the wire
   (`network.py`); an interrupt core may have to take its packets to the socket.
3. **epoll reports the socket.** If the thread that watches the socket is asleep in `epoll_wait`,
   the request wakes it, which takes time. If it is busy, the request waits until that thread polls
   again: this is where requests queue. One `epoll_wait` returns every socket that holds data, so a
   busy server makes fewer of these calls per request.
4. **A thread reads and parses.** One `recv` takes all that the client has sent, up to a limit.
5. **The main thread executes.** Each command needs its instructions, and waits for the lines of
   memory that no cache holds; engines that look keys up in batches overlap those waits.
6. **A thread writes.** All replies that a client has by the end of the turn leave with one `send`,
   once logged writes are with the kernel.
7. **The network carries the reply back**, and wakes the load generator's thread if it sleeps.
8. **The client has the reply.** Its generator thread polls, reads and parses; only now is the
   request complete, so a busy load generator adds to the latency. In a closed loop the next batch
   leaves from here.

With one thread, the event loop below does 3 to 6 for all clients in turn. With I/O threads a policy
shares these steps out between threads, in a module of its own: `fork_join` (Redis 6 and 7, Valkey
7.2), `asynchronous` (Valkey 8.0 to 9.0), `shared_queues` (Valkey 9.1), `owning_threads` (Redis 8),
`multiplexed` (ElastiCache), `locked_threads` (Memcached). They take the same steps, those of
`ReferenceNode`; `io_threads.py` has what the first three share. `threads.py` says what Linux does
to threads (sleep, wake-ups, interruptions), `scheduler.py` which of them has a core.

How to read a process
---------------------

A process is a generator. `yield thread.hold(duration_ps)` occupies its thread for a duration;
`yield thread.sleep()` gives the CPU away until another process calls `wake`. A method such as
`read` does the step's bookkeeping and returns its duration; `node.work` lengthens it by
interruptions and counts it as CPU time. Times are whole picoseconds. Of several processes due at
the same time the one with the lowest thread number goes first.

`NodeTimes` and `NodeSetup` in `models/node/setup.py` are all that a run is given: durations of
steps, and counts and rules.
"""

from __future__ import annotations

import itertools
from bisect import insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeVar

import numpy as np
from simpy import Event

from forecache.sim.calendar import INFINITY_PS
from forecache.sim.histogram import LatencyHistogram
from forecache.sim.simpy_kernel import Activity, Agent
from forecache.sim.streams import draw4, exponential_ps, to_unit

from ..policies import POLICIES, under_policy
from ..setup import (
    BIG_ARGUMENT_BYTES,
    DRAWS,
    JITTER_ONE,
    SENT_PS,
    NodeSetup,
    NodeTimes,
    owner_of,
    rounded_capacity,
)
from .arrivals import ANY_COMMAND, arrivals
from .scheduler import CoreAgent
from .threads import Threads

REQUEST_DRAWS = 1
CONNECTION_DRAWS = 4


@dataclass
class Command:
    """One request in flight."""

    code: int
    """What the command is and how large its value: the index of the tables `..._by_code`."""
    stall: int
    """Quantile of its wait for memory."""
    read_jitter: int
    """Quantile of the run-to-run variation of the recv that takes it."""
    write_jitter: int
    """The same of the send of its reply."""
    due_ps: int
    """When it fell due, from where latency counts."""
    index: int
    """Its number among the client's requests."""


@dataclass
class Client:
    """A connection. The counts say how many of its commands have come how far."""

    number: int
    sent: int = 0
    """By the client."""
    arrived: int = 0
    """In the server's socket."""
    read: int = 0
    """Complete in the thread's buffer."""
    executed: int = 0
    write_upto: int = 0
    """Commands before this one have their replies in the write that is under way."""
    written: int = 0
    """Their replies have left the server."""
    returned: int = 0
    """Their replies are in the client's socket."""
    received: int = 0
    """The client has taken their replies."""
    commands: dict[int, Command] = field(default_factory=dict)
    """Those in flight, by their index."""

    # its socket at the server
    on_ready_list: bool = False
    """Whether it is on the ready list of its thread's epoll."""
    readable_ps: int = 0
    """Since when."""
    scanned_ps: int = 0
    """When the last epoll_wait came to this socket and found it empty."""
    partial_bytes: int = 0
    """Of the next command, what has been read."""
    buffered_bytes: int = 0
    """What has been read and left in the buffer for a later turn, at most."""

    # its socket at the load generator
    ready: bool = False
    """Whether it holds replies that its generator thread knows of."""
    ready_ps: int = 0
    """Since when."""
    taken_bytes: int = 0
    """Of the next reply, what has been read."""
    first_read_ps: int = 0
    """When the load generator began to read the replies to a batch."""

    # with I/O threads
    read_job: bool = False
    """A read was given to an I/O thread and the main thread has not seen it done."""
    write_job: bool = False
    """The same of a write."""
    write_pending: bool = False
    """It is on the main thread's list of clients to write to."""
    served_by: int = 0
    """The I/O thread that has its jobs."""


# --- the event loop of one thread ---------------------------------------------------------------


def start(node: ReferenceNode) -> None:
    """Start the server's only thread: the policy `single_thread`."""
    node.main.start(main_thread(node))


def main_thread(node: ReferenceNode) -> Activity:
    """The event loop of every engine with io-threads 1: Redis 2.8 to today, Valkey.

    One turn: epoll_wait; read, parse and execute what each readable client has sent; then write the
    replies, last client first, because new ones enter the list of pending writes at its head.
    """
    times, main = node.times, node.main
    yield main.hold(0)
    while True:
        readable = node.poll()
        slept = 0
        while not readable:
            # On the way to sleep; what arrives meanwhile is found without a wake-up.
            yield main.hold(node.work(0, times.doze_ps))
            readable = node.poll()
            if readable:
                break
            yield node.sleep_in_epoll()
            readable = node.poll()
            if readable:
                slept = node.count_block(node.reschedule_ps(node.threads[0]))
        duration = node.polling(len(readable)) + slept + node.accept_inline()
        yield main.hold(node.work(0, duration))

        pending: list[Client] = []
        for client in node.poll_results(readable):
            duration = node.read(client) + node.execute(client, fetched=0, parsed=0)
            node.count("inline_reads")
            yield main.hold(node.work(0, duration))
            client.executed = client.read
            if client.executed > client.written:
                pending.append(client)

        if node.logged_bytes:
            yield main.hold(node.work(0, node.flush()))
        for client in reversed(pending):
            node.count("inline_writes")
            yield main.hold(node.work(0, node.write(client)))
            node.deliver_reply(client)

        node.count("loops")
        yield main.hold(node.work(0, times.loop_ps))


# --- the steps of a request, in the order in which it goes through them --------------------------


class ReferenceNode(Threads):
    """One run of a node: its clients and sockets, and the steps that requests go through.

    Policies call these steps; a trace (`trace.py`) overrides them to note what they do.
    """

    def __init__(self, times: NodeTimes, setup: NodeSetup) -> None:
        super().__init__(times, setup)
        self.clients = [Client(number) for number in range(setup.clients)]
        owners, generators = range(setup.io_threads), range(setup.generators)
        # On the wire: when they arrive, whose they are, how many.
        self.request_wires: list[deque[tuple[int, Client, int]]] = [deque() for _ in owners]
        self.reply_wires: list[deque[tuple[int, Client, int]]] = [deque() for _ in generators]
        # The sockets that each thread watches.
        self.ready_lists: list[deque[Client]] = [deque() for _ in owners]
        self.overflow_lists: list[list[Client]] = [[] for _ in owners]
        """Sockets that became readable while an epoll_wait looked through the ready list."""
        self.scanned_ps = [0] * setup.io_threads
        """When the last epoll_wait has looked through the ready list."""
        self.fired = [0] * setup.io_threads
        """How many sockets it has returned."""
        # The load generator: what fell due by when, client and command; connections without work.
        self.tasks: list[deque[tuple[int, Client | None, int]]] = [deque() for _ in generators]
        self.idle: list[deque[Client]] = [deque() for _ in generators]
        if setup.open_loop:
            for client in self.clients:
                self.idle[setup.generator_of(client.number)].append(client)
        self.backlog = self.backlog_at_start = 0
        self.logged_bytes = 0
        """For the append-only file and replicas, in the present turn."""
        self.active_thread_ps = 0
        """CPU time of active I/O threads, spinning included."""
        self.connections = self.new_connections()
        self.next_connection_ps = next(self.connections)
        self.latency = LatencyHistogram()
        self.log: list[tuple[int, int, int]] = []
        """Every completion: client, index, when."""

    def run(self) -> None:
        """Simulate until `setup.end_ps`."""
        start_load(self)
        self.env.run(until=self.setup.end_ps)
        self.scheduler.finish()

    # --- 1 and 2. a client sends, the network carries it ---------------------------------------

    def draw_command(self, client: Client, index: int, due_ps: int) -> Command:
        """Draw a client's request number `index` from its own address of the random streams."""
        setup = self.setup
        first, second, third, _ = draw4(
            setup.seed, setup.replication, client.number, REQUEST_DRAWS, index
        )
        code = int(self.times.code_by_draw[int(first) * DRAWS >> 32])
        rare = int(third) < self.times.rare_below_by_code
        if rare.any():
            code = int(rare.argmax())
        low, middle, high, _ = int(second).to_bytes(4, "little")
        return Command(code, low, middle, high, due_ps, index)

    def new_commands(
        self, client: Client, commands: int, due_ps: int, code: int = ANY_COMMAND
    ) -> int:
        """Make a client's next commands, of one code if given; returns the bytes of the request."""
        size_bytes = 0
        for index in range(client.sent, client.sent + commands):
            command = self.draw_command(client, index, due_ps)
            if code != ANY_COMMAND:
                command.code = code
            client.commands[index] = command
            size_bytes += int(self.times.request_bytes_by_code[command.code])
        client.sent += commands
        return size_bytes

    def deliver_request(self, client: Client, commands: int, size_bytes: int) -> int:
        """Put commands on the wire; returns when they are in the server's socket.

        Wakes the thread that watches the socket if that sleeps in epoll_wait.
        """
        arrives_ps = self.now
        if not self.setup.same_host:
            interrupt_ps = self.interrupt_ps(client, size_bytes)
            arrives_ps = self.network.request_arrives(
                client.number, size_bytes, self.now, interrupt_ps=interrupt_ps
            )
            self.count("packets_in", self.network.packets(size_bytes))
            self.count("interrupt_ps", interrupt_ps)
        self.count("wire_bytes_in", size_bytes)
        owner = owner_of(self.setup, client.number)
        insort(self.request_wires[owner], (arrives_ps, client, commands), key=itemgetter(0))
        if self.owner_sleeps(client):
            thread = self.threads[owner]
            thread.agent.wake(arrives_ps + self.wake_by_send(thread, arrives_ps))
        return arrives_ps

    def interrupt_ps(self, client: Client, size_bytes: int) -> int:
        """How long an interrupt core takes to bring a request to its socket; 0 without one."""
        if self.setup.interrupt_cores == 0:
            return 0
        duration_ps = self.network.packets(size_bytes) * self.times.softirq_ps
        if self.setup.sibling_threads == 0:
            return duration_ps
        idle = not self.network.is_busy(client.number, self.now)
        return self.slowed_by_siblings(duration_ps, further=int(idle))

    def owner_sleeps(self, client: Client) -> bool:
        """Whether a send to the client's socket has to wake the thread that watches it."""
        owner = self.threads[owner_of(self.setup, client.number)]
        return self.stays_asleep(owner.agent) and not owner.waits_for_threads

    def wake_owner_ps(self, client: Client) -> int:
        """What a send to the client's socket takes longer because it wakes the core of a thread."""
        owner = self.threads[owner_of(self.setup, client.number)]
        wakes = self.owner_sleeps(client) and self.wakes_core(owner.agent)
        return self.wake_core_ps(owner) if wakes else 0

    # --- 3. epoll reports the socket -----------------------------------------------------------

    def receive_requests(self, thread: int) -> None:
        """Move what has arrived by now into a thread's sockets.

        A socket that becomes readable joins the end of the ready list. If an epoll_wait is just
        looking through that list, it goes to the overflow list, which afterwards joins the head of
        the ready list (ep_done_scan in fs/eventpoll.c).
        """
        wire, ready_list = self.request_wires[thread], self.ready_lists[thread]
        while wire and wire[0][0] <= self.now:
            arrived_ps, client, commands = wire.popleft()
            client.arrived += commands
            if not client.on_ready_list:
                client.on_ready_list = True
                client.readable_ps = arrived_ps
                early = arrived_ps <= self.scanned_ps[thread]
                (self.overflow_lists[thread] if early else ready_list).append(client)

    def poll(self, thread: int = 0) -> list[Client]:
        """One epoll_wait on a thread's sockets; returns those that hold data (level-triggered)."""
        self.receive_requests(thread)
        ready_list, overflow_list = self.ready_lists[thread], self.overflow_lists[thread]
        ready_list.extendleft(reversed(overflow_list))
        overflow_list.clear()
        found = []
        for _ in range(len(ready_list)):
            client = ready_list.popleft()
            if client.read < client.arrived:
                ready_list.append(client)
                found.append(client)
            else:
                client.on_ready_list = False
                client.scanned_ps = self.now + ReferenceNode.polling(self, len(found))
        self.scanned_ps[thread] = self.now + ReferenceNode.polling(self, len(found))
        self.fired[thread] = len(found)
        self.count("polls")
        return found

    def poll_results(self, found: list[Client], thread: int = 0) -> Iterator[Client]:
        """The sockets that an epoll_wait returns, with those that became readable during it."""
        yield from found
        self.receive_requests(thread)
        overflow_list = self.overflow_lists[thread]
        for client in list(overflow_list):
            if client.readable_ps <= client.scanned_ps:
                overflow_list.remove(client)
                self.ready_lists[thread].insert(self.fired[thread], client)
                self.fired[thread] += 1
                yield client

    def polling(self, found: int) -> int:
        """Duration of an epoll_wait that returns so many events."""
        return self.times.poll_ps + found * self.times.poll_event_ps

    def sleep_in_epoll(self, thread: int = 0) -> Event:
        """A thread without events sleeps until the next request is in one of its sockets."""
        wire, own = self.request_wires[thread], self.threads[thread]
        awake = self.fall_asleep(own)
        if wire:
            self.wake(own, wire[0][0])
        return awake

    # --- 4. a thread reads and parses ----------------------------------------------------------

    def read(self, client: Client) -> int:
        """One recv, up to the limits of bytes and commands; returns its duration.

        Commands beyond their limit stay in the thread's buffer for a later turn, which needs no
        recv: until then epoll reports that the socket can be written to, which it always can.
        """
        sizes = self.times.request_bytes_by_code
        if self.setup.generator_refills:
            # More may have come since the poll.
            self.receive_requests(owner_of(self.setup, client.number))
        self.count("reads")
        if client.read == client.arrived:
            # It has been read since it was polled.
            return self.times.read_event_ps + self.times.recv_ps
        first = client.commands[client.read]
        resumes = client.buffered_bytes > 0
        budget = client.buffered_bytes if resumes else self.setup.read_limit_bytes
        if client.partial_bytes > 0 and sizes[first.code] > BIG_ARGUMENT_BYTES:
            budget = max(budget, int(sizes[first.code]) - client.partial_bytes)
        left = budget
        until = min(client.arrived, client.read + self.setup.commands_per_event)
        while left > 0 and client.read < until:
            missing = int(sizes[client.commands[client.read].code]) - client.partial_bytes
            taken = min(missing, left)
            left -= taken
            client.partial_bytes += taken
            if taken == missing:
                client.partial_bytes = 0
                client.read += 1
        client.buffered_bytes = left if client.read < client.arrived else 0
        duration = self.copying(budget - left, self.times.recv_ps_per_kib)
        duration += 0 if resumes else self.times.recv_ps
        duration = self.jittered(duration, first.read_jitter)
        if resumes:
            self.count("resumed_reads")
        if resumes != (client.buffered_bytes > 0):
            self.count("rearms")
            duration += self.times.rearm_ps
        return self.times.read_event_ps + duration

    def parse(self, client: Client, first: int, last: int) -> int:
        """Duration of parsing commands first to last - 1."""
        return self.sum_by_code(self.times.parse_by_code_ps, client, first, last)

    # --- 5. the main thread executes -----------------------------------------------------------

    def execute(self, client: Client, *, fetched: int, parsed: int) -> int:
        """Duration of parsing and executing all commands that a client has complete.

        An engine that parses whole pipelines prefetches keys in groups. A command of several keys
        waits for those that were not prefetched.

        Parameters
        ----------
        fetched
            Keys of the first commands that were prefetched before.
        parsed
            Commands that were parsed before.
        """
        times = self.times
        ahead = fetched
        total = self.parse(client, client.executed + parsed, client.read)
        for index in range(client.executed, client.read):
            command = client.commands[index]
            if self.setup.whole_pipeline and ahead == 0:
                until = min(client.read, index + self.setup.lookahead)
                group = min(self.setup.prefetch_batch, self.keys(client, index, until))
                if group > 1:
                    total += int(times.prefetch_by_keys_ps[group])
                    self.count("prefetched_keys", group)
                    ahead = group
            keys = int(times.keys_by_code[command.code])
            warm = min(keys, ahead)
            ahead -= warm
            total += int(times.execute_by_code_ps[command.code]) + self.memory_wait_ps(
                command, warm
            )
            self.logged_bytes += int(times.logged_bytes_by_code[command.code])
        return total

    def execute_one(self, client: Client) -> int:
        """Duration of a client's next command, without prefetching."""
        command = client.commands[client.executed]
        return int(self.times.execute_by_code_ps[command.code]) + self.memory_wait_ps(command, 0)

    def memory_wait_ps(self, command: Command, warm: int) -> int:
        """How long a command waits for memory, of whose keys `warm` were prefetched."""
        keys = int(self.times.keys_by_code[command.code])
        waits = warm * int(self.times.prefetched_stall_by_code_ps[command.code])
        waits += (keys - warm) * int(self.times.stall_ps[command.code, command.stall])
        return waits // keys

    def free_times_ps(self, client: Client) -> list[int]:
        """How long it takes to free each value that a client's next commands replace."""
        times = self.times.free_by_code_ps
        commands = (client.commands[index] for index in range(client.executed, client.read))
        return [int(times[command.code]) for command in commands if times[command.code] > 0]

    def flush(self) -> int:
        """Write the turn's log to the append-only file and to replicas; returns the duration."""
        if self.logged_bytes == 0:
            return 0
        copies = self.setup.replicas
        if copies and not self.setup.same_host:
            packets = self.network.stream_leaves(copies, self.logged_bytes, self.now)
            self.count("packets_out", packets)
            self.count("wire_bytes_out", copies * self.logged_bytes)
        self.logged_bytes = 0
        self.count("flushes")
        return self.times.flush_ps

    # --- 6 and 7. a thread writes the replies, the network carries them back -------------------

    def write(self, client: Client) -> int:
        """Start sending all replies that a client has; returns the duration."""
        size_bytes = self.reply_bytes(client, client.written, client.executed)
        client.write_upto = client.executed
        limit, segment = self.setup.write_limit_bytes, self.setup.segment_bytes
        calls = max(1, -(-size_bytes // limit))
        last_bytes = size_bytes - (calls - 1) * limit
        # Every call goes through the network stack once per segment.
        segments = (calls - 1) * -(-limit // segment) + max(1, -(-last_bytes // segment))
        duration = segments * self.times.send_ps + self.copying(
            size_bytes, self.times.send_ps_per_kib
        )
        duration = self.jittered(duration, client.commands[client.written].write_jitter)
        duration += self.sum_by_code(
            self.times.write_by_code_ps, client, client.written, client.executed
        )
        generator = self.setup.io_threads + self.setup.generator_of(client.number)
        thread = self.threads[generator]
        asleep = self.stays_asleep(thread.agent) and self.wakes_core(thread.agent)
        if self.setup.same_host and asleep and not self.setup.generator_spins:
            duration += self.count_wake(self.wake_core_ps(thread))
        self.count("writes")
        return calls * self.times.write_event_ps + duration

    def deliver_reply(self, client: Client) -> int:
        """Put the replies of a finished write on the wire; returns when the client has them.

        Wakes the client's thread of the load generator if it sleeps.
        """
        arrives_ps = self.now
        if not self.setup.same_host:
            size_bytes = self.reply_bytes(client, client.written, client.write_upto)
            arrives_ps = self.network.reply_arrives(client.number, size_bytes, self.now)
            self.count("packets_out", self.network.packets(size_bytes))
            self.count("wire_bytes_out", size_bytes)
        generator = self.setup.generator_of(client.number)
        commands = client.write_upto - client.written
        client.written = client.write_upto
        insort(self.reply_wires[generator], (arrives_ps, client, commands), key=itemgetter(0))
        thread = self.threads[self.setup.io_threads + generator]
        if self.stays_asleep(thread.agent):
            latency_ps = 0 if self.setup.generator_spins else self.wake_by_send(thread, arrives_ps)
            thread.agent.wake(arrives_ps + latency_ps)
        return arrives_ps

    def send_reply(self, client: Client, agent: Agent) -> Activity:
        """`deliver_reply` by an I/O thread, which may lose its core to the thread it wakes."""
        self.deliver_reply(client)
        number = self.setup.io_threads + self.setup.generator_of(client.number)
        receiver = self.threads[number].agent
        if isinstance(agent, CoreAgent) and isinstance(receiver, CoreAgent):
            if agent.first < receiver.last and receiver.first < agent.last:
                yield agent.hold(SENT_PS)

    # --- 8. the client has the reply (its side is `generator_thread` below) --------------------

    def complete(self, client: Client, index: int, read_ps: int) -> None:
        """A client has taken a reply now; the benchmark tool counts its latency until `read_ps`."""
        done_ps = self.now
        latency_ps = read_ps - client.commands.pop(index).due_ps
        if self.setup.warmup_ps <= done_ps < self.setup.end_ps:
            self.counters["completions"] += 1
            self.counters["uncounted_ps"] += done_ps - read_ps
            self.latency.record(latency_ps)
        self.log.append((client.number, index, done_ps))
        if self.setup.open_loop:
            self.change_backlog(-1)

    def change_backlog(self, change: int) -> None:
        """Change how many requests are due and not complete (open loop)."""
        self.backlog += change
        if self.now < self.setup.warmup_ps:
            self.backlog_at_start = self.backlog

    # --- new connections, which the event loop accepts between requests -----------------------

    def new_connections(self) -> Iterator[int]:
        """When each new connection arrives, in ps: a Poisson process."""
        setup = self.setup
        arrives_ps = 0
        for index in itertools.count() if setup.connection_gap_ps > 0 else ():
            gap, _, _, _ = draw4(setup.seed, setup.replication, 0, CONNECTION_DRAWS, index)
            arrives_ps += exponential_ps(to_unit(gap), float(setup.connection_gap_ps))
            yield arrives_ps
        yield INFINITY_PS

    def take_connections(self) -> int:
        """Take the connections that have arrived since the last call, which wake no thread."""
        taken = 0
        while self.next_connection_ps <= self.now:
            taken += 1
            self.next_connection_ps = next(self.connections)
        self.count("handshakes", taken)
        return taken

    def accept_inline(self) -> int:
        """Accept new connections and do their TLS handshakes here; returns the duration."""
        taken = self.take_connections()
        self.count("inline_handshakes", taken)
        return taken * (self.times.accept_ps + self.times.handshake_ps)

    # --- sums over commands, and parts of system calls -----------------------------------------

    def keys(self, client: Client, first: int, last: int) -> int:
        """Keys of commands first to last - 1."""
        return self.sum_by_code(self.times.keys_by_code, client, first, last)

    def reply_bytes(self, client: Client, first: int, last: int) -> int:
        """Bytes of the replies to commands first to last - 1."""
        return self.sum_by_code(self.times.reply_bytes_by_code, client, first, last)

    @staticmethod
    def sum_by_code(table: np.ndarray, client: Client, first: int, last: int) -> int:
        """Sum of a table's entries for commands first to last - 1."""
        return sum(int(table[client.commands[index].code]) for index in range(first, last))

    @staticmethod
    def copying(size_bytes: int, ps_per_kib: int) -> int:
        """How long the kernel takes to copy so many bytes."""
        return size_bytes * ps_per_kib >> 10

    def jittered(self, duration_ps: int, quantile: int) -> int:
        """Duration of a system call with its run-to-run variation."""
        return duration_ps * int(self.times.jitter[quantile]) // JITTER_ONE


# --- the load generator ---------------------------------------------------------------------------


def start_load(node: ReferenceNode) -> None:
    """Start the load generator: its threads, and what makes requests fall due."""
    setup = node.setup
    first_source = setup.io_threads + setup.generators
    sources: list[Agent] = []
    if setup.open_loop:
        for generator in range(setup.generators):
            agent = Agent(node.env, first_source + generator)
            agent.start(falling_due(node, agent, generator))
    else:
        for client in node.clients:
            generator = setup.generator_of(client.number)
            node.tasks[generator].append((starts_ps(node, generator), client, ANY_COMMAND))
        if setup.think_ps > 0:
            sources = [Agent(node.env, first_source + number) for number in range(setup.clients)]
            for client in node.clients:
                agent = sources[client.number]
                agent.start(thinking(node, agent, client))
    for generator in range(setup.generators):
        thread = node.threads[setup.io_threads + generator].agent
        thread.start(generator_thread(node, generator, sources), starts_ps(node, generator))


def starts_ps(node: ReferenceNode, generator: int) -> int:
    """When a generator thread begins to send."""
    return 0 if node.setup.open_loop else generator * node.setup.generator_start_ps


def generator_thread(node: ReferenceNode, generator: int, sources: list[Agent]) -> Activity:
    """The event loop of one generator thread: wait for replies and due requests, handle them."""
    times, setup = node.times, node.setup
    number = setup.io_threads + generator
    thread = node.threads[number].agent
    wire = node.reply_wires[generator]
    tasks = node.tasks[generator]
    ready: deque[Client] = deque()
    woken = dozed = False
    yield thread.hold_until(max(node.now, starts_ps(node, generator)))
    while True:
        while wire and wire[0][0] <= node.now:
            arrived_ps, client, replies = wire.popleft()
            client.returned += replies
            if not client.ready:
                client.ready, client.ready_ps = True, arrived_ps
                ready.append(client)
        due = sendable(node, generator)
        found = len(ready) + due
        if found == 0 and setup.generator_spins:
            # It keeps polling; how many polls find nothing does not matter.
            if wire:
                yield thread.hold_until(wire[0][0])
            else:
                yield thread.spin()
            continue
        if found == 0:
            if not dozed:
                # On the way to sleep; what arrives meanwhile is found without a wake-up.
                dozed = True
                yield thread.hold(node.work(number, times.doze_ps))
                continue
            woken, dozed = True, False
            own = node.threads[number]
            own.slept_ps = node.now
            if wire:
                stamp_ps = wire[0][0]
                yield thread.sleep_until(stamp_ps + node.draw_wake_up(own, stamp_ps))
            else:
                yield thread.sleep()
            continue
        node.count("generator_polls")
        polling = times.generator_poll_ps + found * times.generator_poll_event_ps
        # An epoll_wait that slept costs the sleep as well.
        polling += node.unblocking_ps(node.threads[number]) if woken else 0
        woken = dozed = False
        yield thread.hold(node.work(number, polling))
        replies = len(ready)
        while replies + due > 0:
            # Where clients ask for an event to send, both are on one ready list, in the order in
            # which they became ready.
            later = setup.polls_to_send and due and replies and tasks[0][0] < ready[0].ready_ps
            if replies > 0 and not later:
                replies -= 1
                yield from handle_replies(node, number, ready, sources)
            else:
                due -= 1
                yield from send_task(node, number, *tasks.popleft())


def handle_replies(
    node: ReferenceNode, number: int, ready: deque[Client], sources: list[Agent]
) -> Activity:
    """Take replies of the next ready client with one recv; the rest is left for the next poll.

    A client that has all replies of its batch sends the next: at once, after the next poll, or when
    it has thought. A tool that refills its pipelines (memtier_benchmark) sends one request for each
    reply.
    """
    times, setup = node.times, node.setup
    client = ready.popleft()
    thread = node.threads[number].agent
    waking_ps = node.wake_owner_ps(client)
    batch = 1 if setup.open_loop else setup.pipeline
    if client.taken_bytes == 0 and client.received % batch == 0:
        client.first_read_ps = node.now
    replies, size_bytes = read_replies(node, client)
    parsing_ps = len(replies) * times.generator_reply_ps
    duration = times.generator_recv_ps + parsing_ps
    duration += node.copying(size_bytes, times.generator_recv_ps_per_kib)
    client.ready = client.received < client.returned
    yield thread.hold(node.work(number, duration))
    if client.ready:
        client.ready_ps = node.now
        ready.append(client)
    read_ps = client.first_read_ps if setup.counts_first_read else node.now - parsing_ps
    for index in replies:
        node.complete(client, index, read_ps)
    due = len(replies) if setup.generator_refills else setup.pipeline
    if due == 0 or (client.received < client.sent and not setup.generator_refills):
        return
    if setup.open_loop:
        node.idle[number - setup.io_threads].append(client)
        return
    if setup.polls_to_send:
        node.tasks[number - setup.io_threads].append((node.now, client, ANY_COMMAND))
        return
    if setup.think_ps > 0:
        sources[client.number].wake(node.now + setup.think_ps)
        return
    size_bytes = node.new_commands(client, due, node.now)
    duration = sending(node, due, size_bytes, waking_ps)
    yield thread.hold(node.work(number, duration))
    node.deliver_request(client, due, size_bytes)


def read_replies(node: ReferenceNode, client: Client) -> tuple[range, int]:
    """One recv: the replies that are complete with it, and its bytes."""
    first, left = client.received, node.setup.generator_read_bytes
    while left > 0 and client.received < client.returned:
        size_bytes = node.reply_bytes(client, client.received, client.received + 1)
        missing = size_bytes - client.taken_bytes
        taken = min(missing, left)
        left -= taken
        client.taken_bytes += taken
        if taken == missing:
            client.taken_bytes = 0
            client.received += 1
    return range(first, client.received), node.setup.generator_read_bytes - left


def sendable(node: ReferenceNode, generator: int) -> int:
    """How many due requests can be sent now; in an open loop each needs an idle connection."""
    tasks = len(node.tasks[generator])
    return min(tasks, len(node.idle[generator])) if node.setup.open_loop else tasks


def send_task(
    node: ReferenceNode, number: int, due_ps: int, client: Client | None, code: int
) -> Activity:
    """Send a request that is due; in an open loop on the connection that has been idle longest."""
    setup = node.setup
    thread = node.threads[number].agent
    commands = setup.pipeline
    if client is None:
        client = node.idle[number - setup.io_threads].popleft()
        commands = 1
    elif setup.polls_to_send:
        # The tool starts its clock when it sends.
        node.count("unsent_ps", commands * node.inside_window(due_ps, node.now))
        due_ps = node.now
    waking_ps = node.wake_owner_ps(client)
    size_bytes = node.new_commands(client, commands, due_ps, code)
    yield thread.hold(node.work(number, sending(node, commands, size_bytes, waking_ps)))
    node.deliver_request(client, commands, size_bytes)


def sending(node: ReferenceNode, commands: int, size_bytes: int, waking_ps: int) -> int:
    """Duration of one send, which on the same host includes waking the server's core."""
    times = node.times
    duration = times.generator_send_ps + commands * times.generator_request_ps
    duration += node.copying(size_bytes, times.generator_send_ps_per_kib)
    return duration + (waking_ps if node.setup.same_host else 0)


def falling_due(node: ReferenceNode, agent: Agent, generator: int) -> Activity:
    """Open loop: the arrivals of one generator thread."""
    yield agent.hold(0)
    for due_ps, code in arrivals(node.times, node.setup, generator):
        yield agent.hold(due_ps - node.now)
        node.count("arrivals")
        fall_due(node, generator, None, code)


def thinking(node: ReferenceNode, agent: Agent, client: Client) -> Activity:
    """Closed loop with think time: a client's next batch falls due when it has thought."""
    while True:
        yield agent.sleep()
        fall_due(node, node.setup.generator_of(client.number), client)


def fall_due(
    node: ReferenceNode, generator: int, client: Client | None, code: int = ANY_COMMAND
) -> None:
    """A request falls due; its generator thread is awake at once.

    Parameters
    ----------
    client
        None in an open loop: any connection.
    code
        Of the command, if the arrivals are those of a trace.
    """
    setup = node.setup
    # A thread keeps a limited number of due requests.
    closed = rounded_capacity(setup.outstanding_limit)
    per_client = setup.backlog_limit if setup.open_loop else closed
    per_generator = -(-setup.clients // setup.generators)
    if len(node.tasks[generator]) >= rounded_capacity(per_generator * per_client):
        node.count("overflows")
        return
    node.tasks[generator].append((node.now, client, code))
    if setup.open_loop:
        node.change_backlog(1)
    thread = node.threads[setup.io_threads + generator]
    # Without a free connection there is nothing to send: only a reply wakes the thread.
    if node.stays_asleep(thread.agent) and sendable(node, generator) > 0:
        thread.slept_for_ps = node.now - thread.slept_ps
        thread.agent.wake(node.now)


# --- a run ----------------------------------------------------------------------------------------

NodeT = TypeVar("NodeT", bound=ReferenceNode)


def run_reference(policy: str, times: NodeTimes, setup: NodeSetup) -> ReferenceNode:
    """Simulate a node until `setup.end_ps`; it has the results, such as `log` and `counters`."""
    return run_node(policy, ReferenceNode(times, under_policy(policy, setup)))


def run_node(policy: str, node: NodeT) -> NodeT:
    """Simulate a node that was made before, such as a traced one, until its `setup.end_ps`."""
    POLICIES[policy].reference_module().start(node)
    node.run()
    return node
