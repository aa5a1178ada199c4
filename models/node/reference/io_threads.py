"""Steps and state that policies with I/O threads share."""

from __future__ import annotations

from typing import Literal

from simpy import Event

from forecache.sim.simpy_kernel import Activity

from .node import Client, ReferenceNode


class Turns:
    """Turns of the main thread's event loop: which were productive, and how long they took."""

    def __init__(self, node: ReferenceNode) -> None:
        self.node = node
        self.started_ps = 0
        self.productive = False
        self.active_ps = 0

    def end(self) -> None:
        """Account for the turn that ends now; the next one starts."""
        node = self.node
        inside = node.inside_window(self.started_ps, node.now) - node.threads[0].away_ps
        node.threads[0].away_ps = 0
        node.threads[0].on_cpu_ps += inside
        if self.productive:
            node.threads[0].busy_ps += inside
            self.active_ps += node.now - self.started_ps
        self.started_ps = node.now
        self.productive = False
        node.count("loops")


class IoThreads:
    """State that the main thread shares with its I/O threads, and steps of both."""

    def __init__(self, node: ReferenceNode) -> None:
        self.node = node
        self.active = node.setup.initial_active
        self.poll_state: Literal["idle", "pending", "completed"] = "idle"
        self.fired: list[Client] = []
        self.reads_in_flight = 0
        self.writes_in_flight = 0
        self.pending_writes: list[Client] = []
        self.turns = Turns(node)
        self.stopped_ps = [0] * node.setup.io_threads
        self.available_ps = [0] * node.setup.io_threads
        self.active_since_ps = 0
        self.accepted = 0

    def start(self) -> None:
        """Start the main thread and the I/O threads."""
        self.node.main.start(self.main_thread())
        for number in range(1, self.node.setup.io_threads):
            self.node.threads[number].agent.start(self.io_thread(number))

    def main_thread(self) -> Activity:
        """The event loop."""
        raise NotImplementedError

    def io_thread(self, number: int) -> Activity:
        """One I/O thread."""
        raise NotImplementedError

    def send_handshake(self, number: int) -> bool:
        """Let an I/O thread do the handshake of a new connection; False if none can."""
        raise NotImplementedError

    @property
    def in_flight(self) -> int:
        """Jobs of clients that the main thread has not seen finished."""
        return self.reads_in_flight + self.writes_in_flight

    def set_active(self, active: int) -> None:
        """Change how many threads are active, the main thread included."""
        inside = self.node.inside_window(self.active_since_ps, self.node.now)
        self.node.active_thread_ps += (self.active - 1) * inside
        self.active_since_ps = self.node.now
        self.active = active
        self.node.count("activations")

    def start_thread(self, number: int) -> None:
        """A stopped thread may work again: at once if it still spins, else when it is awake."""
        now = self.node.now
        if now - self.stopped_ps[number] > self.node.setup.spin_ps:
            # It has stopped spinning and sleeps on its mutex.
            self.available_ps[number] = now + self.node.times.thread_wake_ps
            self.node.threads[number].agent.look_at(self.available_ps[number])

    def stop_thread(self, number: int) -> None:
        """A thread gets no more work; it spins on for a while before it sleeps on its mutex."""
        self.stopped_ps[number] = self.node.now
        self.node.threads[number].agent.look_at(self.node.now + self.node.setup.spin_ps)

    def idle(self, number: int) -> Event:
        """Without work an active thread spins, a stopped one for a while, then it sleeps."""
        agent = self.node.threads[number].agent
        if number < self.active:
            return agent.spin()
        sleeps_ps = self.stopped_ps[number] + self.node.setup.spin_ps
        return agent.spin(sleeps_ps) if self.node.now < sleeps_ps else agent.sleep()

    def add_pending_write(self, client: Client) -> None:
        """Put a client with replies into the list of pending writes, once."""
        if not client.write_pending and client.executed > client.written:
            client.write_pending = True
            self.pending_writes.append(client)

    def read_and_parse(self, client: Client) -> int:
        """Read and parse the first command, or all where whole pipelines are parsed at once."""
        duration = self.node.read(client)
        last = client.executed + self.parsed_commands(client)
        return duration + self.node.parse(client, client.executed, last)

    def parsed_commands(self, client: Client) -> int:
        """Commands that the reader parsed: the complete ones it looks ahead to, or the first."""
        setup = self.node.setup
        return min(client.read - client.executed, setup.lookahead if setup.whole_pipeline else 1)

    def flush_log(self) -> Activity:
        """Before replies are written, logged writes go to the kernel."""
        if self.node.logged_bytes:
            self.turns.productive = True
            yield self.node.main_does(self.node.flush())

    def count_freed(self, values: int, *, inline: bool) -> None:
        """Note that values were freed."""
        self.node.count("freed_values", values)
        if inline:
            self.node.count("inline_frees", values)

    def accept_connections(self) -> Activity:
        """New connections: accepted here; the handshakes go to I/O threads that do them."""
        node, times = self.node, self.node.times
        if self.poll_state == "pending":
            return  # the poll that would report them is still in flight
        taken = node.take_connections()
        if not taken:
            return
        self.turns.productive = True
        yield node.main_does(taken * times.accept_ps)
        refused = 0
        for _ in range(taken):
            self.accepted += 1
            if not (node.setup.offload_handshakes and self.send_handshake(self.accepted)):
                refused += 1
        if refused:
            node.count("inline_handshakes", refused)
            yield node.main_does(refused * times.handshake_ps)

    def own_poll(self) -> Activity:
        """The main thread polls by itself; without events and jobs in flight it sleeps."""
        node, times = self.node, self.node.times
        self.fired = node.poll()
        slept = 0
        while not self.fired and self.in_flight == 0:
            # On the way to sleep; what arrives meanwhile is found without a wake-up.
            yield node.main_does(times.doze_ps)
            self.fired = node.poll()
            if self.fired:
                break
            self.turns.end()
            yield node.sleep_in_epoll()
            self.fired = node.poll()
            if self.fired:
                # What came before the sleep is accounted for.
                self.turns.started_ps = node.now
                self.turns.productive = True
                slept = node.count_block(node.unblocking_ps(node.threads[0]))
        yield node.main_does(node.polling(len(self.fired)) + slept)

    def read_inline(self, client: Client) -> Activity:
        """The main thread reads, parses and executes by itself."""
        self.node.count("inline_reads")
        yield from self.execute_inline(client, parsed=0, before_ps=self.node.read(client))

    def execute_inline(self, client: Client, *, parsed: int, before_ps: int = 0) -> Activity:
        """The main thread executes, and frees what the commands replace.

        Of the commands `parsed` were parsed by their reader; `before_ps` is what the step takes
        before.
        """
        node = self.node
        duration = before_ps + node.execute(client, fetched=0, parsed=parsed)
        freeing = node.to_free(client)
        self.count_freed(len(freeing), inline=True)
        if node.times.free_arguments_ps:
            commands = client.read - client.executed
            node.count("inline_arguments", commands)
            duration += commands * node.times.free_arguments_ps
        yield node.main_does(duration + sum(freeing))
        client.executed = client.read
        self.add_pending_write(client)

    def write_inline(self, client: Client) -> Activity:
        """The main thread writes by itself."""
        node = self.node
        node.count("inline_writes")
        yield node.main_does(node.write(client))
        node.deliver_reply(client)
