"""The node in readable Python: one server, its clients, and what happens to every request.

This file is the model, as SimPy processes; read it from top to bottom. `models/step_times/` says
how long its steps take, and `models/node/native/` is the same model in C, which computes every
answer; both must give equal times to the picosecond.

The life of a request
---------------------

1. **A client sends.** A client is one connection. In a closed loop it sends a batch of `pipeline`
   commands, waits until it has all replies, perhaps thinks, and sends the next batch. In an open
   loop requests fall due by themselves (`arrivals`), and each takes the connection that has been
   idle longest. A thread of the load generator makes the `send` call for its clients, one after the
   other. Which command a request is, and how large its value, is drawn from one address of the
   random streams: seed, replication, client, number of the request.
2. **The network carries it.** On the same host the request is in the server's socket at once.
   Otherwise bandwidth, packet rate and the connection's own limit delay it, then the wire
   (`SimulatedNetwork`); an interrupt core may have to take its packets to the socket.
3. **epoll reports the socket.** If the thread that watches the socket is asleep in `epoll_wait`,
   the request wakes it, which takes time. If it is busy, the request waits until that thread polls
   again: this is where requests queue. One `epoll_wait` returns every socket that holds data, so a
   busy server makes fewer of these calls per request.
4. **A thread reads and parses.** One `recv` takes all that the client has sent, up to a limit.
5. **The main thread executes.** Each command needs its instructions, and waits for the lines of
   memory that no cache holds; engines that look keys up in batches overlap those waits.
6. **A thread writes.** All replies that a client has by the end of the turn leave with one `send`,
   after logged writes have been passed to the kernel.
7. **The network carries the reply back**, and wakes the load generator's thread if it sleeps.
8. **The client has the reply.** Its generator thread polls, reads and parses; only now is the
   request complete, so a busy load generator adds to the latency. In a closed loop the next batch
   leaves from here.

What this file has, in order
----------------------------

The state of a connection; the event loop of one thread, which does 3 to 6 for all clients in turn;
`ReferenceNode`, whose methods are the steps 1 to 8 and then what Linux does to threads (how long a
step takes if it is interrupted or shares a physical core, sleeping, waking); the load generator;
when requests fall due; the network interface; how to run it all.

With I/O threads a policy shares these steps out between threads, in a module of its own in
`policies/`: `fork_join` (the main thread waits for its I/O threads: Redis 6 and 7, Valkey 7.2),
`asynchronous` (it does not, and each has a ring of jobs: Valkey 8.0 to 9.0), `shared_queues` (the
same with one queue of jobs: Valkey 9.1; `io_threads.py` has what these three share),
`owning_threads` (I/O threads with clients of their own: Redis 8), `multiplexed` (the same, handing
over in batches: ElastiCache), `locked_threads` (threads that execute by themselves, under locks:
Memcached). `scheduler.py` says which thread runs where there are fewer cores than threads, and
`trace.py` records every step and request of a run.

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
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeVar

import numpy as np
from simpy import Event

from forecache.sim.calendar import INFINITY_PS
from forecache.sim.histogram import LatencyHistogram
from forecache.sim.simpy_kernel import Activity, Agent, new_environment
from forecache.sim.streams import draw4, exponential_ps, to_unit

from .policies import POLICIES, under_policy
from .scheduler import CoreAgent, Scheduler
from .setup import (
    BIG_ARGUMENT_BYTES,
    DRAWS,
    JITTER_ONE,
    QUANTILES,
    SENT_PS,
    NodeSetup,
    NodeTimes,
    owner_of,
    rounded_capacity,
)

# Kinds of random draws: each has streams of its own (5 are those of `policies/locked_threads.py`).
REQUEST_DRAWS = 1
ARRIVAL_DRAWS = 2
INTERRUPTION_DRAWS = 3
CONNECTION_DRAWS = 4
WAKE_UP_DRAWS = 6
PIECE_DRAWS = 9

UNIT = 1 << 40
"""Fixed-point scale of exponential draws of mean one."""

ANY_COMMAND = -1
"""Placeholder for a command's code: draw the command."""


def draw(setup: NodeSetup, source: int, kind: int, index: int) -> tuple[int, int, int, int]:
    """Four random words of 32 bits; they depend on their address alone, not on the order of draws.

    Parameters
    ----------
    source
        Number of the client or thread.
    kind
        One of the kinds of draws above.
    """
    return draw4(setup.seed, setup.replication, source, kind, index)


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


@dataclass
class Thread:
    """A thread of the server or of the load generator."""

    agent: Agent
    interruptions: Iterator[tuple[int, int]]
    """When each begins and how long it lasts, in ps."""
    wake_ups: Iterator[int]
    """How long each takes, in ps."""
    next_interruption: tuple[int, int]
    wake_latency_ps: int
    """Of its next wake-up."""
    busy_ps: int = 0
    """Useful work in the measured window."""
    on_cpu_ps: int = 0
    """CPU time in the measured window, spinning included."""
    waits_for_threads: bool = False
    """Spinning, or asleep until another thread wakes it: requests in its sockets don't wake it."""
    slept_ps: int = 0
    """When it last fell asleep."""
    slept_for_ps: int = 0
    """How long it slept then, until it was woken."""
    works_until_ps: int = 0
    """When its present step ends, if it keeps its core."""
    away_ps: int = 0
    """How long it had no core in the present turn of the main thread, in the measured window."""


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


class ReferenceNode:
    """One run of a node: its clients, sockets and threads, and the steps of requests.

    Policies call these steps; a trace (`trace.py`) overrides them to note what they do. Threads are
    those of the server, from 0 (the main thread), then those of the load generator. `env.now` is
    the simulated time, in picoseconds.
    """

    def __init__(self, times: NodeTimes, setup: NodeSetup) -> None:
        self.times = times
        self.setup = setup
        self.env = new_environment()
        self.counters: Counter[str] = Counter()
        self.network = SimulatedNetwork(times, setup)
        self.scheduler = Scheduler(self)
        numbers = range(setup.io_threads + setup.generators)
        self.threads = [self.new_thread(number) for number in numbers]
        self.scheduler.add_others()
        self.scheduler.quota.start()
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
        first, second, third, _ = draw(setup, client.number, REQUEST_DRAWS, index)
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

    def parsed_commands(self, client: Client) -> int:
        """Commands that an I/O thread parses of those it read.

        The first, or as many as it looks ahead to where whole pipelines are parsed at once.
        """
        setup = self.setup
        return min(client.read - client.executed, setup.lookahead if setup.whole_pipeline else 1)

    def parsed_keys(self, client: Client) -> int:
        """Keys of those commands."""
        first = client.executed
        return self.keys(client, first, first + self.parsed_commands(client))

    # --- 5. the main thread executes -----------------------------------------------------------

    def take_batch(
        self, waiting: deque[Client], parsed_keys: Callable[[Client], int]
    ) -> tuple[list[Client], int]:
        """Clients of one batch, from the front of `waiting`, and how many keys to look up together.

        The batch ends with the client that fills it, by clients or by keys. What the main thread
        has still to parse it can't look up, and a single key has nothing to overlap its misses
        with.
        """
        limit = max(1, self.setup.prefetch_batch)
        batch: list[Client] = []
        keys = 0
        while waiting and len(batch) < limit and keys < limit:
            batch.append(waiting.popleft())
            keys += parsed_keys(batch[-1])
        keys = min(keys, limit)
        return batch, keys if keys > 1 else 0

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
            gap, _, _, _ = draw(setup, 0, CONNECTION_DRAWS, index)
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

    # --- the threads, as Linux treats them -----------------------------------------------------

    @property
    def now(self) -> int:
        """Simulated time in ps."""
        return int(self.env.now)

    @property
    def main(self) -> Agent:
        """The main thread."""
        return self.threads[0].agent

    def new_thread(self, number: int) -> Thread:
        """A thread, on a core of its own or on shared ones."""
        interruptions = self.interruptions(number)
        wake_ups = self.wake_ups(number)
        first = next(interruptions), next(wake_ups)
        return Thread(self.new_agent(number), interruptions, wake_ups, *first)

    def new_agent(self, number: int) -> Agent:
        """The SimPy agent of a thread, which `trace.TracedNode` replaces."""
        return self.scheduler.new_agent(number, Agent, CoreAgent)

    @staticmethod
    def stays_asleep(agent: Agent) -> bool:
        """Whether a thread sleeps and no wake-up is on its way."""
        return agent.asleep and agent.wake_ps is None

    # --- steps of work --------------------------------------------------------------------------

    def work(self, thread: int, duration_ps: int) -> int:
        """Count a step of useful work that begins now; returns its duration with interruptions."""
        duration_ps = self.with_interruptions(thread, duration_ps)
        inside = self.inside_window(self.now, self.now + duration_ps)
        self.threads[thread].works_until_ps = self.now + duration_ps
        self._account(self.threads[thread], inside)
        return duration_ps

    def main_step(self, duration_ps: int) -> Event:
        """A step of the main thread that begins now.

        Polling for what other threads have finished is a plain `hold` instead: an interruption
        meanwhile delays the next step.
        """
        return self.main.hold(self.with_interruptions(0, duration_ps))

    def with_interruptions(self, thread: int, duration_ps: int) -> int:
        """How long a step takes that begins now, with the interruptions that fall into it.

        An interruption that began before the step, while the thread slept or looked for work,
        delays it by what is left of the interruption. A step of no duration is not interrupted.
        """
        if duration_ps == 0:
            return 0
        if thread < self.setup.sibling_threads:
            alone_ps, duration_ps = duration_ps, self.slowed_by_siblings(duration_ps)
            if thread < self.setup.io_threads:
                self.count("sibling_ps", duration_ps - alone_ps)
        own = self.threads[thread]
        ends_ps = self.now + duration_ps
        while own.next_interruption[0] < ends_ps:
            begins_ps, lasts_ps = own.next_interruption
            ends_ps += max(0, min(lasts_ps, begins_ps + lasts_ps - self.now))
            own.next_interruption = next(own.interruptions)
        return ends_ps - self.now

    def slowed_by_siblings(self, duration_ps: int, *, further: int = 0) -> int:
        """How long a step takes that begins now, if hardware threads share physical cores.

        Linux gives a thread a physical core of its own while there is one, so cores are shared only
        by more busy threads than there are cores, and then by all alike. What changes during the
        step is left out.

        Parameters
        ----------
        further
            Busy CPUs beside those of simulated threads.
        """
        scale = self.times.sibling_scale
        busy = self.scheduler.busy_siblings + self.network.busy_cores(self.now) + further
        return duration_ps * int(scale[min(busy, len(scale) - 1)]) // JITTER_ONE

    def interruptions(self, thread: int) -> Iterator[tuple[int, int]]:
        """A thread's interruptions by the host, a Poisson process: begin and duration in ps."""
        setup = self.setup
        begins_ps = 0
        for index in itertools.count() if setup.interruption_gap_ps > 0 else ():
            gap, duration, _, _ = draw(setup, thread, INTERRUPTION_DRAWS, index)
            begins_ps += exponential_ps(to_unit(gap), float(setup.interruption_gap_ps))
            quantile = int(duration) % QUANTILES
            yield begins_ps, int(self.times.interruption_ps[quantile])
        yield INFINITY_PS, 0

    # --- sleeping and waking --------------------------------------------------------------------

    def fall_asleep(self, thread: Thread) -> Event:
        """A thread sleeps until it is woken."""
        thread.slept_ps = self.now
        return thread.agent.sleep()

    def wake(self, thread: Thread, since_ps: int) -> None:
        """Wake a thread that is just falling asleep, by something that happens at `since_ps`."""
        thread.agent.wake(since_ps + self.draw_wake_up(thread, since_ps))

    @staticmethod
    def draw_wake_up(thread: Thread, at_ps: int) -> int:
        """Note that a thread is woken at a time; returns how long until it runs."""
        latency_ps = thread.wake_latency_ps
        thread.slept_for_ps = at_ps - thread.slept_ps
        thread.wake_latency_ps = next(thread.wake_ups)
        return latency_ps

    def wake_ups(self, thread: int) -> Iterator[int]:
        """How long each of a thread's wake-ups takes, in ps from the send that wakes it."""
        setup = self.setup
        for index in itertools.count():
            drawn = draw(setup, thread, WAKE_UP_DRAWS, index)
            yield int(self.times.wake_latency_ps[int(drawn[0]) % QUANTILES])

    def wake_by_send(self, thread: Thread, at_ps: int) -> int:
        """A send wakes a thread at a time; returns how long until the thread runs."""
        latency_ps = self.wake_latency_ps(thread)
        self.draw_wake_up(thread, at_ps)
        return latency_ps

    def wake_latency_ps(self, thread: Thread) -> int:
        """How long until a thread that is woken now runs: no time if its core is not idle."""
        return thread.wake_latency_ps if self.wakes_core(thread.agent) else 0

    @staticmethod
    def wakes_core(agent: Agent) -> bool:
        """Whether waking a thread also wakes an idle core."""
        return not isinstance(agent, CoreAgent) or agent.wakes_core

    def wake_core_ps(self, thread: Thread) -> int:
        """What a system call that begins now takes longer because it wakes a thread's idle core."""
        times = self.times
        slept_for_ps = self.now - thread.slept_ps
        return self.scaled_by_sleep(times.short_wake_send_ps, times.wake_send_ps, slept_for_ps)

    def reschedule_ps(self, thread: Thread) -> int:
        """CPU time of scheduling a thread that has slept."""
        return self.scaled_by_sleep(
            self.times.short_block_ps, self.times.block_ps, thread.slept_for_ps
        )

    def scaled_by_sleep(self, least_ps: int, most_ps: int, slept_for_ps: int) -> int:
        """A cost that grows with how long a thread has slept: linear up to `long_sleep_ps`."""
        long_ps = self.times.long_sleep_ps
        slept_for_ps = max(0, slept_for_ps)
        if slept_for_ps >= long_ps or most_ps <= least_ps:
            return most_ps
        return least_ps + (most_ps - least_ps) * slept_for_ps // long_ps

    def unblocking_ps(self, thread: Thread) -> int:
        """What an epoll_wait that slept takes longer: nothing if its core was busy meanwhile."""
        agent = thread.agent
        if isinstance(agent, CoreAgent) and agent.woke_busy:
            return 0
        return self.reschedule_ps(thread)

    def count_block(self, duration_ps: int) -> int:
        """Count that a thread of the server has slept, and what that cost; returns the cost."""
        self.count("blocks")
        self.count("blocks_ps", duration_ps)
        return duration_ps

    def count_wake(self, duration_ps: int) -> int:
        """Count that a thread of the server wakes another, and the cost; returns the cost."""
        self.count("paid_wakes")
        self.count("paid_wakes_ps", duration_ps)
        return duration_ps

    # --- losing a core and getting one again ----------------------------------------------------

    def preempted(self, number: int, since_ps: int) -> None:
        """A thread loses its core: take back what of its step was counted as done."""
        if number >= len(self.threads):
            return  # of another program
        thread = self.threads[number]
        self._account(thread, -self.inside_window(since_ps, thread.works_until_ps))

    def resumed(self, number: int, since_ps: int, goes_on_ps: int) -> None:
        """A thread that lost its core goes on with the rest of its step: count that."""
        if number >= len(self.threads):
            return  # of another program
        thread = self.threads[number]
        left_ps = max(0, thread.works_until_ps - since_ps)
        thread.works_until_ps = goes_on_ps + left_ps
        self._account(thread, self.inside_window(goes_on_ps, thread.works_until_ps))
        thread.away_ps += self.inside_window(since_ps, goes_on_ps)

    @staticmethod
    def _account(thread: Thread, worked_ps: int) -> None:
        thread.busy_ps += worked_ps
        thread.on_cpu_ps += worked_ps

    # --- the measured window --------------------------------------------------------------------

    def inside_window(self, start_ps: int, end_ps: int) -> int:
        """The part of an interval that lies in the measured window."""
        return max(0, min(end_ps, self.setup.end_ps) - max(start_ps, self.setup.warmup_ps))

    def count(self, counter: str, amount: int = 1) -> None:
        """Add to a counter, inside the measured window."""
        if self.setup.warmup_ps <= self.now < self.setup.end_ps:
            self.counters[counter] += amount


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


# --- when requests fall due in an open loop -----------------------------------------------------


def arrivals(times: NodeTimes, setup: NodeSetup, source: int) -> Iterator[tuple[int, int]]:
    """When each request of one generator thread falls due, in ps, and its command's code."""
    if len(times.trace_due_ps):
        return _traced(times, setup, source)
    due = _poisson(setup, source) if not len(times.piece_ps) else _varying(times, setup, source)
    return ((due_ps, ANY_COMMAND) for due_ps in due)


def _gap_draw(setup: NodeSetup, source: int, index: int) -> float:
    gap, _, _, _ = draw(setup, source, ARRIVAL_DRAWS, index)
    return to_unit(gap)


def _poisson(setup: NodeSetup, source: int) -> Iterator[int]:
    due_ps = 0
    for index in itertools.count():
        due_ps += exponential_ps(_gap_draw(setup, source, index), float(setup.mean_interarrival_ps))
        yield due_ps


def _varying(times: NodeTimes, setup: NodeSetup, source: int) -> Iterator[int]:
    """A Poisson process whose rate is constant in pieces: by its change of time.

    Exponentials of mean one are used up at the rate of the piece that time is in.
    """
    pieces = _pieces(times, setup)
    gap_ps, ends_ps = next(pieces)
    due_ps = 0
    for index in itertools.count():
        left = exponential_ps(_gap_draw(setup, source, index), float(UNIT)) / UNIT
        while gap_ps == 0 or left * gap_ps >= ends_ps - due_ps:
            if gap_ps > 0:
                left -= (ends_ps - due_ps) / gap_ps
            due_ps = ends_ps
            gap_ps, lasts_ps = next(pieces)
            ends_ps += lasts_ps
        due_ps += int(left * gap_ps)
        yield due_ps


def _pieces(times: NodeTimes, setup: NodeSetup) -> Iterator[tuple[int, int]]:
    """Mean time between two requests (0: none come) and length of each piece, in turn."""
    for number in itertools.count():
        kind = number % len(times.piece_ps)
        lasts_ps = int(times.piece_ps[kind])
        if setup.random_pieces:
            # The same for all threads, so that a burst is a burst.
            drawn, _, _, _ = draw(setup, 0, PIECE_DRAWS, number)
            lasts_ps = exponential_ps(to_unit(drawn), float(lasts_ps))
        yield int(times.piece_gap_ps[kind]), lasts_ps


def _traced(times: NodeTimes, setup: NodeSetup, source: int) -> Iterator[tuple[int, int]]:
    """The requests of a file, repeated without end; they go to the threads in turn."""
    rows = len(times.trace_due_ps)
    for number in itertools.count(source, setup.generators):
        again, row = divmod(number, rows)
        due_ps = again * setup.trace_period_ps + int(times.trace_due_ps[row])
        if due_ps >= INFINITY_PS:
            return
        yield due_ps, int(times.trace_code[row])


# --- the server's network interface --------------------------------------------------------------


class LinkDirection:
    """One direction of the interface: until when its bytes, in all and by client, are on the wire.

    Times are in ps.
    """

    def __init__(self, clients: int) -> None:
        self.free_ps = 0
        self.flow_free_ps = [0] * clients


class SimulatedNetwork:
    """The server's network interface: what delays messages to and from another host.

    Three limits hold at once, and a message arrives when the last of them lets it: the bandwidth of
    its direction, the packets of both directions together, and what one connection may carry. Bytes
    and packets queue behind those of all connections; while one connection waits for its own limit,
    others overtake it. At a server with interrupt cores, one of them takes a request's packets to
    its socket: each connection has its core.
    """

    def __init__(self, times: NodeTimes, setup: NodeSetup) -> None:
        self.times = times
        self.setup = setup
        self.requests, self.replies = LinkDirection(setup.clients), LinkDirection(setup.clients)
        self.packets_free_ps = 0
        self.core_free_ps = [0] * setup.interrupt_cores
        """When each interrupt core has done what it has."""

    def packets(self, size_bytes: int) -> int:
        """Packets of a message."""
        return -(-size_bytes // self.setup.segment_size_bytes)

    def busy_cores(self, now: int) -> int:
        """Interrupt cores that have something to do."""
        return sum(free_ps > now for free_ps in self.core_free_ps)

    def is_busy(self, client: int, now: int) -> bool:
        """Whether the interrupt core of a client's connection has something to do."""
        return self.core_free_ps[client % self.setup.interrupt_cores] > now

    def request_arrives(self, client: int, size_bytes: int, now: int, *, interrupt_ps: int) -> int:
        """When what a client sends now is in its socket at the server.

        Parameters
        ----------
        interrupt_ps
            How long an interrupt core takes for it, where there are any.
        """
        arrived_ps = self._passes(self.requests, client, size_bytes, now) + self.times.one_way_ps
        if self.setup.interrupt_cores == 0:
            return arrived_ps
        core = client % self.setup.interrupt_cores
        done_ps = max(arrived_ps, self.core_free_ps[core]) + interrupt_ps
        self.core_free_ps[core] = done_ps
        return done_ps

    def reply_arrives(self, client: int, size_bytes: int, now: int) -> int:
        """When what the server sends now is in its socket at the client."""
        return self._passes(self.replies, client, size_bytes, now) + self.times.one_way_ps

    def stream_leaves(self, copies: int, size_bytes: int, now: int) -> int:
        """Copies of the writes leave for replicas, each on a connection of its own.

        Returns their packets.
        """
        packets = copies * self.packets(size_bytes)
        framed_bytes = copies * size_bytes + packets * self.setup.header_bytes
        leaves_ps = max(now, self.replies.free_ps)
        self.replies.free_ps = leaves_ps + (framed_bytes * self.times.wire_ps_per_kib >> 10)
        self.packets_free_ps = max(now, self.packets_free_ps) + packets * self.times.packet_ps
        return packets

    def _passes(self, direction: LinkDirection, client: int, size_bytes: int, now: int) -> int:
        """When the last limit is behind a message that is sent now."""
        times = self.times
        packets = self.packets(size_bytes)
        framed_bytes = size_bytes + packets * self.setup.header_bytes
        sent_ps = max(now, direction.free_ps) + (framed_bytes * times.wire_ps_per_kib >> 10)
        counted_ps = max(now, self.packets_free_ps) + packets * times.packet_ps
        flow_ps = framed_bytes * times.flow_ps_per_kib >> 10
        alone_ps = max(now, direction.flow_free_ps[client]) + flow_ps
        direction.free_ps, self.packets_free_ps = sent_ps, counted_ps
        direction.flow_free_ps[client] = alone_ps
        return max(sent_ps, counted_ps, alone_ps)


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
