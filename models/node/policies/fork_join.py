"""Policy: fork-join I/O threads (Redis 6.0 to 7.4, Valkey 7.2).

The main thread either shares a turn's writes with all I/O threads, taking a part itself, or does
all of them alone. It then waits for the slowest. Reads are shared only if the
configuration says so and the threads are active already. Rules and constants: networking.c of
Redis 6.2.0 and 7.0.0 and of Valkey 7.2.5 (handleClientsWithPendingWritesUsingThreads,
handleClientsWithPendingReadsUsingThreads, stopThreadedIOIfNeeded, IOThreadMain).
"""

from __future__ import annotations

from collections.abc import Sequence

from forecache.sim.simpy_kernel import Activity

from ..reference import Client, ReferenceNode
from .io_threads import IoThreads

CLIENTS_PER_THREAD = 2
"""The threads work in turns with at least this many pending writes per thread, including the main
thread."""


def start(node: ReferenceNode) -> None:
    """Start the main thread and the I/O threads."""
    ForkJoin(node).start()


class ForkJoin(IoThreads):
    """Lists of clients, one per thread; completion by counters that the main thread adds up."""

    def __init__(self, node: ReferenceNode) -> None:
        super().__init__(node)
        self.reading = False
        self.shares: list[Sequence[Client]] = [()] * node.setup.io_threads
        self.given = [False] * node.setup.io_threads
        self.shares_left = 0
        self.joined_ps = 0

    def main_thread(self) -> Activity:
        """The event loop."""
        node = self.node
        yield node.main.hold(0)
        while True:
            yield from self.own_poll()
            self.turns.productive = True
            yield from self.accept_connections()
            yield from self.handle_events(self.fired)
            yield from self.flush_log()
            yield from self.handle_pending_writes()
            yield node.main_step(node.times.loop_ps)
            self.turns.end()

    def send_handshake(self, number: int) -> bool:
        """I/O threads of this generation do not handle TLS."""
        del number
        return False

    def handle_events(self, events: list[Client]) -> Activity:
        """Read, parse and execute: by all threads and then here, or all of it here."""
        if self.active == 1 or not self.node.setup.io_threads_do_reads:
            for client in events:
                yield from self.read_inline(client)
            return
        # Clients enter the list of pending reads at its head.
        clients = events[::-1]
        self.reading = True
        yield from self.fork_and_join(clients)
        for client in clients:
            yield from self.execute_inline(client, parsed=self.node.parsed_commands(client))
            self.add_pending_write(client)

    def handle_pending_writes(self) -> Activity:
        """Write by all threads if there is enough to write, else here; last client first."""
        pending, threads = self.pending_writes, self.node.setup.io_threads
        if not pending:
            return  # and the threads stay as they are
        if len(pending) < CLIENTS_PER_THREAD * threads:
            yield from self.switch(1)
            while pending:
                client = pending.pop()
                client.write_pending = False
                yield from self.write_inline(client)
            return
        yield from self.switch(threads)
        clients = pending[::-1]
        self.reading = False
        yield from self.fork_and_join(clients)
        for client in clients:
            client.write_pending = False
        pending.clear()

    def switch(self, active: int) -> Activity:
        """Start or stop all I/O threads, unless that is their state already."""
        if self.active == active:
            return
        others = range(1, self.node.setup.io_threads)
        for number in others:
            if active > 1:
                self.start_thread(number)
            else:
                self.stop_thread(number)
        self.set_active(active)
        yield self.node.main_step(len(others) * self.node.times.activate_ps)

    def fork_and_join(self, clients: Sequence[Client]) -> Activity:
        """Hand clients out to all threads in turn, serve the main thread's own, wait for the rest.

        Every counter is written, even for threads that get no client.
        """
        node, times, threads = self.node, self.node.times, self.node.setup.io_threads
        yield node.main_step(len(clients) * times.push_ps + (threads - 1) * times.publish_ps)
        self.shares = [clients[number::threads] for number in range(threads)]
        self.joined_ps = node.now
        for number, share in enumerate(self.shares):
            if number > 0 and share:
                self.shares_left += 1
                self.given[number] = True
                seen_ps = max(node.now + times.handover_ps, self.available_ps[number])
                agent = node.threads[number].agent
                if agent.asleep:
                    agent.wake(seen_ps)
                # Otherwise it never had a core yet, and looks when it gets one.
        own = self.shares[0]
        for client in own:
            if self.reading:
                node.count("inline_reads")
                yield node.main_step(self.read_and_parse(client))
            else:
                yield from self.write_inline(client)
        yield from self.wait_for_threads()
        yield node.main_step(times.done_ps * (len(clients) - len(own)))

    def wait_for_threads(self) -> Activity:
        """Add up the counters again and again until no thread has anything left."""
        node, began_ps = self.node, self.node.now
        node.threads[0].waits_for_threads = True
        while self.shares_left:
            yield node.main.spin()
        node.threads[0].waits_for_threads = False
        if self.joined_ps > node.now:
            yield node.main.hold_until(self.joined_ps)
        node.counters["join_wait_ps"] += node.inside_window(began_ps, node.now)

    def io_thread(self, number: int) -> Activity:
        """One I/O thread: spin on the counter, serve the share, then set the counter to zero."""
        node = self.node
        agent = node.threads[number].agent
        while True:
            while not self.given[number]:
                yield self.idle(number)
            self.given[number] = False
            for client in self.shares[number]:
                serving = self.read_and_parse(client) if self.reading else node.write(client)
                yield agent.hold(node.work(number, node.times.pop_ps + serving))
                if not self.reading:
                    yield from node.send_reply(client, agent)
            self.shares_left -= 1
            self.joined_ps = node.now + node.times.handover_ps
            if self.shares_left == 0 and node.threads[0].waits_for_threads:
                node.main.wake(self.joined_ps)
