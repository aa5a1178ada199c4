"""What every policy's processes share: clients, sockets, wires, and what each step costs."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np

from forecache.sim.histogram import LatencyHistogram
from forecache.sim.simpy_kernel import Agent, new_environment
from forecache.sim.streams import draw4

from ..setup import (
    BIG_ARGUMENT_BYTES,
    DRAWS,
    JITTER_ONE,
    NodeSetup,
    NodeTimes,
)

REQUEST_DRAWS = 1


@dataclass
class Command:
    """One request on its way."""

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
    partial_bytes: int = 0
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
    busy_ps: int = 0
    on_cpu_ps: int = 0


class ReferenceNode:
    """Shared state of one run; `env.now` is in picoseconds."""

    def __init__(self, times: NodeTimes, setup: NodeSetup) -> None:
        self.times = times
        self.setup = setup
        self.env = new_environment()
        self.clients = [Client(number) for number in range(setup.clients)]
        threads = setup.io_threads + setup.generators
        self.threads = [Thread(Agent(self.env, number)) for number in range(threads)]
        self.request_wire: deque[tuple[int, Client, int]] = deque()
        self.reply_wires: list[deque[tuple[int, Client, int]]] = [
            deque() for _ in range(setup.generators)
        ]
        self.tasks: list[deque[tuple[int, Client]]] = [deque() for _ in range(setup.generators)]
        self.watched: deque[Client] = deque()
        self.counters: Counter[str] = Counter()
        self.active_thread_ps = 0
        self.latency = LatencyHistogram()
        self.log: list[tuple[int, int, int]] = []
        self.nic_in_free_ps = 0
        self.nic_out_free_ps = 0

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

    # --- accounting -------------------------------------------------------------------------

    def inside_window(self, start_ps: int, end_ps: int) -> int:
        """The part of an interval that lies in the measured window."""
        return max(0, min(end_ps, self.setup.end_ps) - max(start_ps, self.setup.warmup_ps))

    def count(self, counter: str, amount: int = 1) -> None:
        """Add to a counter, inside the measured window."""
        if self.setup.warmup_ps <= self.now < self.setup.end_ps:
            self.counters[counter] += amount

    def work(self, thread: int, duration_ps: int) -> int:
        """Account for useful work that begins now; returns its duration."""
        inside = self.inside_window(self.now, self.now + duration_ps)
        self.threads[thread].busy_ps += inside
        self.threads[thread].on_cpu_ps += inside
        return duration_ps

    def complete(self, client: Client, index: int, done_ps: int) -> None:
        """Record one reply taken by its client."""
        latency_ps = done_ps - client.commands.pop(index).due_ps
        if self.setup.warmup_ps <= done_ps < self.setup.end_ps:
            self.counters["completions"] += 1
            self.latency.record(latency_ps)
        self.log.append((client.number, index, done_ps))

    # --- requests on their way --------------------------------------------------------------

    def draw_command(self, client: Client, index: int, due_ps: int) -> Command:
        """What a client's request number `index` is, from one address of the random streams."""
        setup = self.setup
        first, second, _, _ = draw4(
            setup.seed, setup.replication, client.number, REQUEST_DRAWS, index
        )
        code = int(self.times.code_by_draw[int(first) * DRAWS >> 32])
        low, middle, high, _ = int(second).to_bytes(4, "little")
        return Command(code, low, middle, high, due_ps, index)

    def compose(self, client: Client, commands: int, due_ps: int) -> int:
        """Make a client's next commands; returns their bytes."""
        size_bytes = 0
        for index in range(client.sent, client.sent + commands):
            command = self.draw_command(client, index, due_ps)
            client.commands[index] = command
            size_bytes += int(self.times.request_bytes_by_code[command.code])
        client.sent += commands
        return size_bytes

    def deliver_request(self, client: Client, commands: int, size_bytes: int) -> None:
        """Put commands on the wire; wakes the main thread if it sleeps in epoll_wait."""
        stamp = self.now
        if not self.setup.same_host:
            leaves = max(self.now, self.nic_in_free_ps)
            leaves += size_bytes * self.times.wire_ps_per_kib >> 10
            self.nic_in_free_ps = leaves
            stamp = leaves + self.times.one_way_ps
        self.count("wire_bytes_in", size_bytes)
        self.request_wire.append((stamp, client, commands))
        if self.nobody_woke(self.main):
            self.main.wake(stamp + self.times.wake_latency_ps)

    @staticmethod
    def nobody_woke(agent: Agent) -> bool:
        """Whether a thread sleeps and no wake-up is on its way."""
        return agent.asleep and agent.wake_ps is None

    def poll(self) -> list[Client]:
        """One epoll_wait: the clients whose socket holds data now (level-triggered)."""
        while self.request_wire and self.request_wire[0][0] <= self.now:
            _, client, commands = self.request_wire.popleft()
            client.arrived += commands
            if not client.watched:
                client.watched = True
                self.watched.append(client)
        found = []
        for _ in range(len(self.watched)):
            client = self.watched.popleft()
            if client.read < client.arrived:
                self.watched.append(client)
                found.append(client)
            else:
                client.watched = False
        self.count("polls")
        return found

    def deliver_reply(self, client: Client) -> None:
        """The replies of a finished write leave; wakes the generator thread if it sleeps."""
        stamp = self.now
        if not self.setup.same_host:
            size_bytes = self.reply_bytes(client, client.written, client.write_upto)
            leaves = max(self.now, self.nic_out_free_ps)
            leaves += size_bytes * self.times.wire_ps_per_kib >> 10
            self.nic_out_free_ps = leaves
            stamp = leaves + self.times.one_way_ps
            self.count("wire_bytes_out", size_bytes)
        generator = client.number % self.setup.generators
        commands = client.write_upto - client.written
        client.written = client.write_upto
        self.reply_wires[generator].append((stamp, client, commands))
        agent = self.threads[self.setup.io_threads + generator].agent
        if self.nobody_woke(agent):
            agent.wake(stamp + self.times.wake_latency_ps)

    # --- what steps cost --------------------------------------------------------------------

    def copying(self, size_bytes: int) -> int:
        """Time the kernel takes to copy so many bytes."""
        return size_bytes * self.times.copy_ps_per_kib >> 10

    def jittered(self, duration_ps: int, quantile: int) -> int:
        """A kernel step's duration with its run-to-run variation."""
        return duration_ps * int(self.times.jitter[quantile]) // JITTER_ONE

    def polling(self, found: int) -> int:
        """Duration of an epoll_wait that returns so many events."""
        return self.times.poll_ps + found * self.times.poll_event_ps

    def reply_bytes(self, client: Client, first: int, last: int) -> int:
        """Bytes of the replies to commands first to last - 1."""
        sizes = self.times.reply_bytes_by_code
        return sum(int(sizes[client.commands[index].code]) for index in range(first, last))

    def read(self, client: Client) -> int:
        """One recv: takes up to the read limit and completes commands; returns its duration."""
        sizes = self.times.request_bytes_by_code
        self.count("reads")
        if client.read == client.arrived:
            # Somebody has read it since it was polled.
            return self.times.read_event_ps + self.times.recv_ps
        first = client.commands[client.read]
        budget = self.setup.read_limit_bytes
        if client.partial_bytes > 0 and sizes[first.code] > BIG_ARGUMENT_BYTES:
            budget = max(budget, int(sizes[first.code]) - client.partial_bytes)
        left = budget
        while left > 0 and client.read < client.arrived:
            missing = int(sizes[client.commands[client.read].code]) - client.partial_bytes
            taken = min(missing, left)
            left -= taken
            client.partial_bytes += taken
            if taken == missing:
                client.partial_bytes = 0
                client.read += 1
        duration = self.times.recv_ps + self.copying(budget - left)
        return self.times.read_event_ps + self.jittered(duration, first.read_jitter)

    def parse(self, client: Client, first: int, last: int) -> int:
        """Parsing of commands first to last - 1."""
        times = self.times.parse_by_code_ps
        return sum(int(times[client.commands[index].code]) for index in range(first, last))

    def execute(self, client: Client, *, fetched: int, parsed: int) -> int:
        """Execution of all complete commands, of which the first ones were fetched and parsed.

        An engine that parses whole pipelines looks the keys of what is left up in groups.
        """
        times = self.times
        group_end = client.executed + fetched
        total = self.parse(client, client.executed + parsed, client.read)
        for index in range(client.executed, client.read):
            command = client.commands[index]
            group = min(self.setup.prefetch_batch, client.read - index)
            if self.setup.whole_pipeline and index >= group_end and group > 1:
                total += int(times.prefetch_by_keys_ps[group])
                self.count("prefetched_keys", group)
                group_end = index + group
            total += int(times.execute_by_code_ps[command.code])
            if index < group_end:
                total += int(times.prefetched_stall_by_code_ps[command.code])
            else:
                total += int(times.stall_ps[command.code, command.stall])
        return total

    def write(self, client: Client) -> int:
        """Start sending the replies that are ready; returns the duration."""
        size_bytes = self.reply_bytes(client, client.written, client.executed)
        client.write_upto = client.executed
        calls = max(1, -(-size_bytes // self.setup.write_limit_bytes))
        duration = calls * self.times.send_ps + self.copying(size_bytes)
        duration = self.jittered(duration, client.commands[client.written].write_jitter)
        generator = self.setup.io_threads + client.number % self.setup.generators
        if self.setup.same_host and self.nobody_woke(self.threads[generator].agent):
            duration += self.times.wake_send_ps
            self.count("paid_wakes")
        self.count("writes")
        return self.times.write_event_ps + duration

    def sorted_log(self) -> np.ndarray:
        """(n, 3): client, index, time in ps of each completion, in order of client and index."""
        return np.array(sorted(self.log), np.int64).reshape(-1, 3)
