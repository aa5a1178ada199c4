"""What every policy's processes share: clients, sockets, wires, and what each step costs."""

from __future__ import annotations

import itertools
from bisect import insort
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np
from simpy import Event

from forecache.sim.calendar import INFINITY_PS
from forecache.sim.histogram import LatencyHistogram
from forecache.sim.simpy_kernel import Activity, Agent, new_environment
from forecache.sim.streams import draw4, exponential_ps, to_unit

from ..setup import (
    BIG_ARGUMENT_BYTES,
    DRAWS,
    JITTER_ONE,
    QUANTILES,
    SENT_PS,
    NodeSetup,
    NodeTimes,
    owner_of,
)
from .arrivals import ANY_COMMAND
from .cores import CoreAgent, Cores
from .network import SimulatedNetwork

REQUEST_DRAWS = 1
INTERRUPTION_DRAWS = 3
WAKE_UP_DRAWS = 6
CONNECTION_DRAWS = 4


@dataclass
class Command:
    """One request in flight."""

    code: int
    stall: int
    read_jitter: int
    write_jitter: int
    due_ps: int
    index: int


@dataclass
class Client:
    """A connection: the counts say how far its commands have come."""

    number: int
    sent: int = 0
    arrived: int = 0
    read: int = 0
    executed: int = 0
    written: int = 0
    write_upto: int = 0
    returned: int = 0
    received: int = 0
    readable_ps: int = 0
    """Since when its socket has been in the kernel's list."""
    scanned_ps: int = 0
    """When the last poll found its socket empty."""
    taken_bytes: int = 0
    """Of the next reply."""
    ready_ps: int = 0
    """Since when it has replies to be taken."""
    first_read_ps: int = 0
    """When the load generator began to read the replies to a batch."""
    partial_bytes: int = 0
    buffered_bytes: int = 0
    """What its thread has read at most, and left for a later turn."""
    watched: bool = False
    ready: bool = False
    read_job: bool = False
    """A read was handed to an I/O thread and the main thread has not seen it done."""
    write_job: bool = False
    write_pending: bool = False
    served_by: int = 0
    commands: dict[int, Command] = field(default_factory=dict)


@dataclass
class Thread:
    """A thread of the server or of the load generator."""

    agent: Agent
    interruptions: Iterator[tuple[int, int]]
    """When each next one begins and how long it lasts, in ps."""
    wake_ups: Iterator[int]
    """How long each next one takes, in ps."""
    next_interruption: tuple[int, int]
    wake_latency_ps: int
    busy_ps: int = 0
    on_cpu_ps: int = 0
    waits_for_threads: bool = False
    """Spinning, or asleep until another thread wakes it: requests in its sockets do not."""
    slept_ps: int = 0
    """When it last fell asleep."""
    rested_ps: int = 0
    """How long it slept then until it was woken."""
    works_until_ps: int = 0
    away_ps: int = 0
    """Without a core in the present turn of the main thread, inside the measured window."""


class ReferenceNode:
    """Shared state of one run; `env.now` is in picoseconds."""

    def __init__(self, times: NodeTimes, setup: NodeSetup) -> None:
        self.times = times
        self.setup = setup
        self.env = new_environment()
        self.clients = [Client(number) for number in range(setup.clients)]
        threads = setup.io_threads + setup.generators
        self.cores = Cores(self)
        self.threads = [self.new_thread(number) for number in range(threads)]
        self.cores.add_others()
        self.cores.quota.start()
        self.request_wires: list[deque[tuple[int, Client, int]]] = [
            deque() for _ in range(setup.io_threads)
        ]
        self.reply_wires: list[deque[tuple[int, Client, int]]] = [
            deque() for _ in range(setup.generators)
        ]
        self.tasks: list[deque[tuple[int, Client | None, int]]] = [
            deque() for _ in range(setup.generators)
        ]
        self.idle: list[deque[Client]] = [deque() for _ in range(setup.generators)]
        if setup.open_loop:
            for client in self.clients:
                self.idle[setup.generator_of(client.number)].append(client)
        self.watched: list[deque[Client]] = [deque() for _ in range(setup.io_threads)]
        self.scanned_ps = [0] * setup.io_threads
        self.fired = [0] * setup.io_threads
        self.early: list[list[Client]] = [[] for _ in range(setup.io_threads)]
        self.logged_bytes = 0
        self.counters: Counter[str] = Counter()
        self.active_thread_ps = 0
        self.latency = LatencyHistogram()
        self.log: list[tuple[int, int, int]] = []
        self.backlog = self.backlog_at_start = 0
        self.network = SimulatedNetwork(times, setup)
        self.connections = self.new_connections()
        self.next_connection_ps = next(self.connections)

    @property
    def now(self) -> int:
        """Simulated time in ps."""
        return int(self.env.now)

    @property
    def main(self) -> Agent:
        """The main thread."""
        return self.threads[0].agent

    def run(self) -> None:
        """Simulate until `setup.end_ps`."""
        from .generator import start_load

        start_load(self)
        self.env.run(until=self.setup.end_ps)
        self.cores.finish()

    # --- threads and their cores ------------------------------------------------------------

    def new_thread(self, number: int) -> Thread:
        """A thread, on a core of its own or on shared ones."""
        interruptions = self.interruptions(number)
        wake_ups = self.wake_ups(number)
        first = next(interruptions), next(wake_ups)
        return Thread(self.new_agent(number), interruptions, wake_ups, *first)

    def new_agent(self, number: int) -> Agent:
        """What acts for a thread; a trace watches it (`trace.TracedNode`)."""
        return self.cores.new_agent(number, Agent, CoreAgent)

    def frozen(self, number: int, since_ps: int) -> None:
        """A thread loses its core: the rest of its step is done later."""
        if number >= len(self.threads):
            return  # of another program
        thread = self.threads[number]
        self._account(thread, -self.inside_window(since_ps, thread.works_until_ps))

    def thawed(self, number: int, since_ps: int, goes_on_ps: int) -> None:
        """A thread that lost its core goes on with the rest of its step."""
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

    def interruptions(self, thread: int) -> Iterator[tuple[int, int]]:
        """A thread's interruptions by the host, a Poisson process: begin and duration in ps."""
        setup = self.setup
        begins_ps = 0
        for index in itertools.count() if setup.interruption_gap_ps > 0 else ():
            gap, duration, _, _ = draw4(
                setup.seed, setup.replication, thread, INTERRUPTION_DRAWS, index
            )
            begins_ps += exponential_ps(to_unit(gap), float(setup.interruption_gap_ps))
            quantile = int(duration) % QUANTILES
            yield begins_ps, int(self.times.interruption_ps[quantile])
        yield INFINITY_PS, 0

    def wake_ups(self, thread: int) -> Iterator[int]:
        """How long each of a thread's wake-ups takes in ps, from the send that wakes it."""
        setup = self.setup
        for index in itertools.count():
            drawn = draw4(setup.seed, setup.replication, thread, WAKE_UP_DRAWS, index)
            yield int(self.times.wake_latency_ps[int(drawn[0]) % QUANTILES])

    def wake(self, thread: Thread, since_ps: int) -> None:
        """A thread that falls asleep in epoll_wait runs as soon as it can be awake again."""
        thread.agent.wake(since_ps + self.wake_up(thread, since_ps))

    @staticmethod
    def wakes_core(agent: Agent) -> bool:
        """Whether waking a thread wakes a core as well."""
        return not isinstance(agent, CoreAgent) or agent.wakes_core

    def wake_latency_ps(self, thread: Thread) -> int:
        """How long until a thread that is woken now may run: no time if its core is awake."""
        return thread.wake_latency_ps if self.wakes_core(thread.agent) else 0

    def woken(self, thread: Thread, at_ps: int) -> int:
        """A sender wakes a thread at a time: how long that takes."""
        latency_ps = self.wake_latency_ps(thread)
        self.wake_up(thread, at_ps)
        return latency_ps

    def fall_asleep(self, thread: Thread) -> Event:
        """A thread sleeps until it is woken, which takes more the longer it has slept."""
        thread.slept_ps = self.now
        return thread.agent.sleep()

    def by_sleep(self, least_ps: int, most_ps: int, rested_ps: int) -> int:
        """A price between two, by how long a thread has slept; whole from `long_sleep_ps` on."""
        long_ps = self.times.long_sleep_ps
        rested_ps = max(0, rested_ps)
        if rested_ps >= long_ps or most_ps <= least_ps:
            return most_ps
        return least_ps + (most_ps - least_ps) * rested_ps // long_ps

    def waking_core_ps(self, thread: Thread) -> int:
        """What it adds to a system call that begins now to wake a sleeper's core."""
        times = self.times
        rested_ps = self.now - thread.slept_ps
        return self.by_sleep(times.short_wake_send_ps, times.wake_send_ps, rested_ps)

    def scheduled_again_ps(self, thread: Thread) -> int:
        """CPU time to schedule a thread again that has slept."""
        return self.by_sleep(self.times.short_block_ps, self.times.block_ps, thread.rested_ps)

    def count_block(self, duration_ps: int) -> int:
        """A thread of the server has slept, which takes so long."""
        self.count("blocks")
        self.count("blocks_ps", duration_ps)
        return duration_ps

    def count_wake(self, duration_ps: int) -> int:
        """A thread of the server wakes another, which takes so long."""
        self.count("paid_wakes")
        self.count("paid_wakes_ps", duration_ps)
        return duration_ps

    def unblocking_ps(self, thread: Thread) -> int:
        """What an epoll_wait that slept takes besides: nothing where its core went on meanwhile."""
        agent = thread.agent
        if isinstance(agent, CoreAgent) and agent.woke_busy:
            return 0
        return self.scheduled_again_ps(thread)

    @staticmethod
    def wake_up(thread: Thread, at_ps: int) -> int:
        """A thread is woken at a time: how long that takes."""
        latency_ps = thread.wake_latency_ps
        thread.rested_ps = at_ps - thread.slept_ps
        thread.wake_latency_ps = next(thread.wake_ups)
        return latency_ps

    def lengthened(self, thread: int, duration_ps: int) -> int:
        """How long a step takes that begins now, with the interruptions that fall into it.

        One that began before, while the thread slept or looked for work, delays it to its end. A
        step of no duration suffers none.
        """
        if duration_ps == 0:
            return 0
        if thread < self.setup.sibling_threads:
            alone_ps, duration_ps = duration_ps, self.beside_siblings(duration_ps)
            if thread < self.setup.io_threads:
                self.count("sibling_ps", duration_ps - alone_ps)
        own = self.threads[thread]
        ends_ps = self.now + duration_ps
        while own.next_interruption[0] < ends_ps:
            begins_ps, lasts_ps = own.next_interruption
            ends_ps += max(0, min(lasts_ps, begins_ps + lasts_ps - self.now))
            own.next_interruption = next(own.interruptions)
        return ends_ps - self.now

    def beside_siblings(self, duration_ps: int, *, further: int = 0) -> int:
        """How long a step takes that begins now, by how many threads are busy.

        Linux gives a thread a physical core of its own while there is one, so only more busy
        threads than those share some, all alike. What changes during a step is left out.

        Parameters
        ----------
        further
            Busy CPUs that no thread of the simulation has.
        """
        scale = self.times.sibling_scale
        busy = self.cores.busy_siblings + self.network.busy_cores(self.now) + further
        return duration_ps * int(scale[min(busy, len(scale) - 1)]) // JITTER_ONE

    def main_does(self, duration_ps: int) -> Event:
        """A step of the main thread, beginning now.

        Its looks at what others have done are plain holds: an interruption meanwhile delays what
        it begins next.
        """
        return self.main.hold(self.lengthened(0, duration_ps))

    # --- new connections ----------------------------------------------------------------------

    def new_connections(self) -> Iterator[int]:
        """When new connections arrive, a Poisson process, in ps."""
        setup = self.setup
        arrives_ps = 0
        for index in itertools.count() if setup.connection_gap_ps > 0 else ():
            gap, _, _, _ = draw4(setup.seed, setup.replication, 0, CONNECTION_DRAWS, index)
            arrives_ps += exponential_ps(to_unit(gap), float(setup.connection_gap_ps))
            yield arrives_ps
        yield INFINITY_PS

    def take_connections(self) -> int:
        """How many connections have arrived since the last call; they wake no thread."""
        taken = 0
        while self.next_connection_ps <= self.now:
            taken += 1
            self.next_connection_ps = next(self.connections)
        self.count("handshakes", taken)
        return taken

    def accept_alone(self) -> int:
        """Accept what has arrived, handshakes included; returns the duration."""
        taken = self.take_connections()
        self.count("inline_handshakes", taken)
        return taken * (self.times.accept_ps + self.times.handshake_ps)

    # --- accounting -------------------------------------------------------------------------

    def inside_window(self, start_ps: int, end_ps: int) -> int:
        """The part of an interval that lies in the measured window."""
        return max(0, min(end_ps, self.setup.end_ps) - max(start_ps, self.setup.warmup_ps))

    def count(self, counter: str, amount: int = 1) -> None:
        """Add to a counter, inside the measured window."""
        if self.setup.warmup_ps <= self.now < self.setup.end_ps:
            self.counters[counter] += amount

    def work(self, thread: int, duration_ps: int) -> int:
        """Account for useful work that begins now; returns its duration with interruptions."""
        duration_ps = self.lengthened(thread, duration_ps)
        inside = self.inside_window(self.now, self.now + duration_ps)
        self.threads[thread].works_until_ps = self.now + duration_ps
        self._account(self.threads[thread], inside)
        return duration_ps

    def complete(self, client: Client, index: int, read_ps: int) -> None:
        """Record one reply taken by its client now; the tool counts latency until `read_ps`."""
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
        """Open loop: the number of requests that are due and not completed changes."""
        self.backlog += change
        if self.now < self.setup.warmup_ps:
            self.backlog_at_start = self.backlog

    # --- requests in flight -----------------------------------------------------------------

    def draw_command(self, client: Client, index: int, due_ps: int) -> Command:
        """What a client's request number `index` is, from one address of the random streams."""
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

    def compose(self, client: Client, commands: int, due_ps: int, code: int = ANY_COMMAND) -> int:
        """Make a client's next commands, of one code if it is given; returns their bytes."""
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
        """Put commands on the wire; returns when they arrive.

        Wakes the client's owner if it sleeps in epoll_wait.
        """
        stamp = self.now
        if not self.setup.same_host:
            interrupt_ps = self.interrupt_ps(client, size_bytes)
            stamp = self.network.request_arrives(
                client.number, size_bytes, self.now, interrupt_ps=interrupt_ps
            )
            self.count("packets_in", self.network.packets(size_bytes))
            self.count("interrupt_ps", interrupt_ps)
        self.count("wire_bytes_in", size_bytes)
        owner = owner_of(self.setup, client.number)
        insort(self.request_wires[owner], (stamp, client, commands), key=itemgetter(0))
        if self.owner_sleeps(client):
            thread = self.threads[owner]
            thread.agent.wake(stamp + self.woken(thread, stamp))
        return stamp

    def interrupt_ps(self, client: Client, size_bytes: int) -> int:
        """How long an interrupt core takes for a request; 0: there is none."""
        if self.setup.interrupt_cores == 0:
            return 0
        duration_ps = self.network.packets(size_bytes) * self.times.softirq_ps
        if self.setup.sibling_threads == 0:
            return duration_ps
        idle = not self.network.is_busy(client.number, self.now)
        return self.beside_siblings(duration_ps, further=int(idle))

    def owner_sleeps(self, client: Client) -> bool:
        """Whether a send to the client's socket has to wake the thread that watches it."""
        owner = self.threads[owner_of(self.setup, client.number)]
        return self.stays_asleep(owner.agent) and not owner.waits_for_threads

    def waking_owner_ps(self, client: Client) -> int:
        """What it adds to a send to the client to wake a core for the thread of its socket."""
        owner = self.threads[owner_of(self.setup, client.number)]
        wakes = self.owner_sleeps(client) and self.wakes_core(owner.agent)
        return self.waking_core_ps(owner) if wakes else 0

    @staticmethod
    def stays_asleep(agent: Agent) -> bool:
        """Whether a thread sleeps and no wake-up is on its way."""
        return agent.asleep and agent.wake_ps is None

    def receive_requests(self, thread: int) -> None:
        """Move what has arrived by now into a thread's sockets.

        A socket that becomes readable joins the end of the kernel's ready list; but one that does
        while an epoll_wait looks through that list, and was not in it any more, its head
        (ep_done_scan in fs/eventpoll.c).
        """
        wire, watched = self.request_wires[thread], self.watched[thread]
        while wire and wire[0][0] <= self.now:
            stamp_ps, client, commands = wire.popleft()
            client.arrived += commands
            if not client.watched:
                client.watched = True
                client.readable_ps = stamp_ps
                early = stamp_ps <= self.scanned_ps[thread]
                (self.early[thread] if early else watched).append(client)

    def poll(self, thread: int = 0) -> list[Client]:
        """One epoll_wait on a thread's sockets: those that hold data now (level-triggered)."""
        self.receive_requests(thread)
        watched, early = self.watched[thread], self.early[thread]
        watched.extendleft(reversed(early))
        early.clear()
        found = []
        for _ in range(len(watched)):
            client = watched.popleft()
            if client.read < client.arrived:
                watched.append(client)
                found.append(client)
            else:
                client.watched = False
                client.scanned_ps = self.now + ReferenceNode.polling(self, len(found))
        self.scanned_ps[thread] = self.now + ReferenceNode.polling(self, len(found))
        self.fired[thread] = len(found)
        self.count("polls")
        return found

    def reported(self, found: list[Client], thread: int = 0) -> Iterator[Client]:
        """What a poll found, in order, and what became readable before it had come to it."""
        yield from found
        self.receive_requests(thread)
        early = self.early[thread]
        for client in list(early):
            if client.readable_ps <= client.scanned_ps:
                early.remove(client)
                self.watched[thread].insert(self.fired[thread], client)
                self.fired[thread] += 1
                yield client

    def sleep_in_epoll(self, thread: int = 0) -> Event:
        """A thread without events sleeps until what is on its wire, or a sender, wakes it."""
        wire, own = self.request_wires[thread], self.threads[thread]
        awake = self.fall_asleep(own)
        if wire:
            self.wake(own, wire[0][0])
        return awake

    def deliver_reply(self, client: Client) -> int:
        """The replies of a finished write leave; returns when they arrive.

        Wakes the generator thread if it sleeps.
        """
        stamp = self.now
        if not self.setup.same_host:
            size_bytes = self.reply_bytes(client, client.written, client.write_upto)
            stamp = self.network.reply_arrives(client.number, size_bytes, self.now)
            self.count("packets_out", self.network.packets(size_bytes))
            self.count("wire_bytes_out", size_bytes)
        generator = self.setup.generator_of(client.number)
        commands = client.write_upto - client.written
        client.written = client.write_upto
        insort(self.reply_wires[generator], (stamp, client, commands), key=itemgetter(0))
        thread = self.threads[self.setup.io_threads + generator]
        if self.stays_asleep(thread.agent):
            latency_ps = 0 if self.setup.generator_spins else self.woken(thread, stamp)
            thread.agent.wake(stamp + latency_ps)
        return stamp

    def send_reply(self, client: Client, agent: Agent) -> Activity:
        """An I/O thread delivers replies; whoever they wake may take its core over at once."""
        self.deliver_reply(client)
        number = self.setup.io_threads + self.setup.generator_of(client.number)
        receiver = self.threads[number].agent
        if isinstance(agent, CoreAgent) and isinstance(receiver, CoreAgent):
            if agent.first < receiver.last and receiver.first < agent.last:
                yield agent.hold(SENT_PS)

    # --- what steps cost --------------------------------------------------------------------

    @staticmethod
    def copying(size_bytes: int, ps_per_kib: int) -> int:
        """Time the kernel takes to copy a number of bytes."""
        return size_bytes * ps_per_kib >> 10

    def jittered(self, duration_ps: int, quantile: int) -> int:
        """A kernel step's duration with its run-to-run variation."""
        return duration_ps * int(self.times.jitter[quantile]) // JITTER_ONE

    def polling(self, found: int) -> int:
        """Duration of an epoll_wait that returns a number of events."""
        return self.times.poll_ps + found * self.times.poll_event_ps

    def reply_bytes(self, client: Client, first: int, last: int) -> int:
        """Bytes of the replies to commands first to last - 1."""
        return self.by_code(self.times.reply_bytes_by_code, client, first, last)

    @staticmethod
    def by_code(table: np.ndarray, client: Client, first: int, last: int) -> int:
        """Sum of what a table says of the codes of commands first to last - 1."""
        return sum(int(table[client.commands[index].code]) for index in range(first, last))

    def to_free(self, client: Client) -> list[int]:
        """Time to free each value that the commands to be executed now replace."""
        times = self.times.free_by_code_ps
        commands = (client.commands[index] for index in range(client.executed, client.read))
        return [int(times[command.code]) for command in commands if times[command.code] > 0]

    def read(self, client: Client) -> int:
        """One recv: takes up to the limits of bytes and commands; returns its duration.

        Commands beyond their limit stay in the thread's buffer for a later turn, which needs no
        recv. Meanwhile epoll is asked whether the socket can be written to, which it can.
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
        """Parsing of commands first to last - 1."""
        return self.by_code(self.times.parse_by_code_ps, client, first, last)

    def execute(self, client: Client, *, fetched: int, parsed: int) -> int:
        """Execution of all complete commands, of which the first ones were fetched and parsed.

        An engine that parses pipelines ahead looks up the remaining keys in groups. A command of
        several keys waits for those that were not fetched.

        Parameters
        ----------
        fetched
            Keys.
        parsed
            Commands.
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
            total += int(times.execute_by_code_ps[command.code]) + self.waiting(command, warm)
            self.logged_bytes += int(times.logged_bytes_by_code[command.code])
        return total

    def execute_one(self, client: Client) -> int:
        """Execution of a client's next command, none of whose keys were fetched ahead."""
        command = client.commands[client.executed]
        return int(self.times.execute_by_code_ps[command.code]) + self.waiting(command, 0)

    def waiting(self, command: Command, warm: int) -> int:
        """How long a command waits for memory; `warm` of its keys were fetched ahead."""
        keys = int(self.times.keys_by_code[command.code])
        waits = warm * int(self.times.prefetched_stall_by_code_ps[command.code])
        waits += (keys - warm) * int(self.times.stall_ps[command.code, command.stall])
        return waits // keys

    def flush(self) -> int:
        """Hand logged writes to the kernel: for the append-only file, and for replicas."""
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

    def keys(self, client: Client, first: int, last: int) -> int:
        """Keys of commands first to last - 1."""
        return self.by_code(self.times.keys_by_code, client, first, last)

    def write(self, client: Client) -> int:
        """Start sending the replies that are ready; returns the duration."""
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
        duration += self.by_code(
            self.times.write_by_code_ps, client, client.written, client.executed
        )
        generator = self.setup.io_threads + self.setup.generator_of(client.number)
        thread = self.threads[generator]
        asleep = self.stays_asleep(thread.agent) and self.wakes_core(thread.agent)
        if self.setup.same_host and asleep and not self.setup.generator_spins:
            duration += self.count_wake(self.waking_core_ps(thread))
        self.count("writes")
        return calls * self.times.write_event_ps + duration
