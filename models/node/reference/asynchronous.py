"""Policy: asynchronous I/O threads with one job ring each (Valkey 8.0 to 9.0).

The main thread hands out reads, writes and its own poll, and never waits for them: it goes round
its loop, picks up what is done and sleeps only when nobody owes it anything. Rules and constants:
io_threads.c, networking.c, server.c of Valkey 8.0.0 and 8.1.0.
"""

from __future__ import annotations

import itertools
from collections import deque

from forecache.sim.simpy_kernel import Activity
from forecache.sim.stamped_rings import rounded_capacity

from .io_threads import IoThreads, Job, Kind
from .node import Client, ReferenceNode


def start(node: ReferenceNode) -> None:
    """Start the main thread and the I/O threads."""
    engine = Asynchronous(node)
    node.main.start(engine.main_thread())
    for number in range(1, node.setup.io_threads):
        node.threads[number].agent.start(engine.io_thread(number))


class Asynchronous(IoThreads):
    """One single-producer ring of jobs per I/O thread; completion by looking at every client."""

    def __init__(self, node: ReferenceNode) -> None:
        super().__init__(node)
        self.rings: list[deque[Job]] = [deque() for _ in range(node.setup.io_threads)]
        # A ring's capacity is a power of two, of which one slot always stays empty.
        self.ring_slots = rounded_capacity(node.setup.job_capacity) - 1
        self.done_reads: list[Client] = []
        self.done_writes: list[Client] = []
        self.frees_sent = 0

    def main_thread(self) -> Activity:
        """The event loop."""
        node, times, main = self.node, self.node.times, self.node.main
        yield main.hold(0)
        while True:
            # Before sleeping.
            yield main.hold(times.loop_ps)
            if self.active > 1 and self.poll_state == "idle" and self.in_flight:
                last = self.active - 1
                if self.has_room(last):
                    yield node.main_does(times.push_ps)
                    self.poll_state = "pending"
                    self.send(last, "poll", None)
            yield from self.handle_done_reads()
            yield from self.flush_log()
            yield from self.handle_pending_writes()
            yield from self.handle_done_reads()
            yield from self.handle_done_writes()

            # Sleeping: the poll job's events, if it is done, or an own poll.
            events: list[Client] = []
            if self.poll_state == "completed":
                self.poll_state = "idle"
                events = self.fired
            elif self.poll_state == "idle":
                yield from self.own_poll()
                events = self.fired

            # After sleeping.
            yield from self.adjust_threads(len(events), increase_only=False)
            yield from self.accept_connections()
            yield from self.handle_events(events)
            self.turns.end()

    def handle_events(self, events: list[Client]) -> Activity:
        """Hand each readable client to its I/O thread, or serve it if that has no room."""
        node, times = self.node, self.node.times
        for client in events:
            self.turns.productive = True
            if client.read_job:
                # The socket was still full when it was polled, but its read is under way.
                yield node.main_does(times.scan_ps)
                continue
            if self.active > 1:
                if self.has_room(self.thread_for(client)):
                    yield node.main_does(times.push_ps)
                    thread = self.thread_for(client)
                    client.read_job = True
                    client.served_by = thread
                    self.reads_in_flight += 1
                    self.send(thread, "read", client)
                    continue
                node.count("refused_jobs")
            yield from self.read_inline(client)

    def handle_done_reads(self) -> Activity:
        """Look at every client being read; execute what those that are done brought, in batches."""
        node, times, main = self.node, self.node.times, self.node.main
        yield main.hold(times.scan_ps * self.reads_in_flight)
        done, self.done_reads = self.done_reads, []
        while done:
            self.turns.productive = True
            batch, keys = self.take_batch(done)
            yield from self.look_up(keys)
            for client in batch:
                parsed = self.parsed_commands(client)
                fetched = min(self.parsed_keys(client), keys)
                keys -= fetched
                execution = node.execute(client, fetched=fetched, parsed=parsed)
                freeing = node.to_free(client)
                execution += self.pushing_frees(client, freeing)
                # The reply goes to the I/O thread at once, not at the end of the turn.
                yield node.main_does(execution + times.push_ps)
                yield from self.free(client, freeing)
                client.executed = client.read
                client.read_job = False
                self.send_reply(client)

    def handle_pending_writes(self) -> Activity:
        """Replies that found no thread earlier; last client first."""
        node, times = self.node, self.node.times
        if self.pending_writes:
            self.turns.productive = True
            yield from self.adjust_threads(len(self.pending_writes), increase_only=True)
        while self.pending_writes:
            client = self.pending_writes.pop()
            client.write_pending = False
            if client.write_job or client.executed == client.written:
                continue  # the rest follows when that write is done, or has left with it
            if self.active > 1 and self.has_room(self.thread_for(client)):
                yield node.main_does(times.push_ps)
                self.try_send_write(client)
            else:
                yield from self.write_inline(client)

    def handle_done_writes(self) -> Activity:
        """Look at every client being written to; send what was added meanwhile."""
        node, times, main = self.node, self.node.times, self.node.main
        yield main.hold(times.scan_ps * self.writes_in_flight)
        done, self.done_writes = self.done_writes, []
        if done:
            self.turns.productive = True
            self.writes_in_flight -= len(done)
            for client in done:
                client.write_job = False
            yield node.main_does(times.done_ps * len(done))
        for client in done:
            if client.executed > client.written:
                yield node.main_does(times.push_ps)
                self.try_send_write(client)

    def adjust_threads(self, events: int, *, increase_only: bool) -> Activity:
        """One active thread per `events_per_io_thread` events, starting or stopping at once."""
        setup = self.node.setup
        per_thread = setup.events_per_io_thread
        target = events // per_thread if per_thread else events + 1
        target = max(1, min(target, setup.io_threads))
        active = before = self.active
        while active < target:
            self.start_thread(active)
            active += 1
        # A thread with jobs is not stopped, nor any with a lower number.
        while not increase_only and active > target and not self.rings[active - 1]:
            active -= 1
            self.stop_thread(active)
        if active != before:
            self.set_active(active)
            yield self.node.main_does(abs(active - before) * self.node.times.activate_ps)

    def thread_for(self, client: Client) -> int:
        """The thread a client still has a job with, else one by its number."""
        if client.read_job or client.write_job:
            return client.served_by
        return client.number % (self.active - 1) + 1

    def has_room(self, thread: int) -> bool:
        """Whether a thread's ring takes another job."""
        return len(self.rings[thread]) < self.ring_slots

    def send(self, thread: int, kind: Kind, client: Client | None, work_ps: int = 0) -> None:
        """Put a job into a thread's ring; if it spins idly it sees the job one hand-over later."""
        seen = max(self.node.now + self.node.times.handover_ps, self.available_ps[thread])
        self.rings[thread].append(Job(kind, client, seen, work_ps))
        agent = self.node.threads[thread].agent
        if self.node.nobody_woke(agent):
            agent.wake(seen)

    def send_free(self, work_ps: int) -> bool:
        """Values are freed by the active threads in turn."""
        if self.active == 1:
            return False
        thread = self.frees_sent % (self.active - 1) + 1
        if not self.has_room(thread):
            return False
        self.frees_sent += 1
        self.send(thread, "free", None, work_ps)
        return True

    def send_arguments(self, client: Client, work_ps: int) -> bool:
        """Arguments are freed by the client's thread, which allocated them."""
        if self.active == 1 or not self.has_room(self.thread_for(client)):
            return False
        self.send(self.thread_for(client), "arguments", None, work_ps)
        return True

    def send_handshake(self, number: int) -> bool:
        """A connection's thread goes by its number."""
        if self.active == 1:
            return False
        thread = number % (self.active - 1) + 1
        if not self.has_room(thread):
            return False
        self.send(thread, "handshake", None, self.node.times.handshake_ps)
        return True

    def try_send_write(self, client: Client) -> None:
        """Hand a client's replies to its thread, or leave them for the pending writes."""
        if client.executed == client.written or client.write_job:
            return
        if self.active > 1:
            thread = self.thread_for(client)
            if self.has_room(thread):
                client.write_job = True
                client.served_by = thread
                self.writes_in_flight += 1
                self.send(thread, "write", client)
                return
            self.node.count("refused_jobs")
        self.add_pending_write(client)

    def frees_now(self, job: Job) -> bool:
        """Whether a job that a thread sees by now is to free something."""
        return job.kind in ("free", "arguments") and job.seen_ps <= self.node.now

    def io_thread(self, number: int) -> Activity:
        """One I/O thread: spin on the ring, process jobs in order; no return queue."""
        node = self.node
        agent, ring = node.threads[number].agent, self.rings[number]
        while True:
            while not ring:
                yield self.idle(number)
            job = ring[0]
            if job.seen_ps > node.now:
                yield agent.hold_until(job.seen_ps)
            if job.kind in ("free", "arguments"):
                # What is to be freed one after the other is one step.
                frees = list(itertools.takewhile(self.frees_now, ring))
                yield agent.hold(node.work(number, sum(free.work_ps for free in frees)))
                for _ in frees:
                    ring.popleft()
                values = sum(free.kind == "free" for free in frees)
                self.count_freed(values, inline=False)
                continue
            yield agent.hold(node.work(number, self.job_duration(job)))
            ring.popleft()  # a job leaves the ring when it is done
            if job.kind == "handshake":
                continue
            if job.client is None:
                self.poll_state = "completed"
            elif job.kind == "read":
                self.done_reads.append(job.client)
            else:
                node.deliver_reply(job.client)
                self.done_writes.append(job.client)
