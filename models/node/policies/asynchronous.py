"""Policy: asynchronous I/O threads with one job ring each (Valkey 8.0 to 9.0).

The main thread finds finished jobs by looking at every client that has one, and has as many active
threads as the events of a turn ask for. Rules and constants: io_threads.c, networking.c, server.c
of Valkey 8.0.0 and 8.1.0.
"""

from __future__ import annotations

import itertools
from collections import deque

from forecache.sim.simpy_kernel import Activity

from ..reference import Client, ReferenceNode
from ..setup import rounded_capacity
from .io_threads import Job, JobQueues, Kind


def start(node: ReferenceNode) -> None:
    """Start the main thread and the I/O threads."""
    Asynchronous(node).start()


class Asynchronous(JobQueues):
    """One single-producer ring of jobs per I/O thread; completion by looking at every client."""

    def __init__(self, node: ReferenceNode) -> None:
        super().__init__(node)
        self.rings: list[deque[Job]] = [deque() for _ in range(node.setup.io_threads)]
        # A ring's capacity is a power of two, of which one slot always stays empty.
        self.ring_slots = rounded_capacity(node.setup.job_capacity) - 1
        self.done_reads: list[Client] = []
        self.done_writes: list[Client] = []
        self.frees_sent = 0

    def collect(self, *, again: bool) -> Activity:
        """Look at every client that is being read and, on the second look, written to."""
        node, times = self.node, self.node.times
        yield node.main.hold(times.scan_ps * self.reads_in_flight)
        done, self.done_reads = self.done_reads, []
        yield from self.handle_reads(done)
        if not again:
            return
        yield node.main.hold(times.scan_ps * self.writes_in_flight)
        done, self.done_writes = self.done_writes, []
        yield from self.handle_writes(done)
        for client in done:
            if client.executed > client.written:
                # Its commands were executed meanwhile.
                yield node.main_step(times.push_ps)
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
            yield self.node.main_step(abs(active - before) * self.node.times.activate_ps)

    def is_busy(self, client: Client) -> bool:
        """Whether its read is under way: the socket was still full when it was polled."""
        return client.read_job

    def thread_for(self, client: Client) -> int:
        """The thread a client still has a job with, else one by its number."""
        if client.read_job or client.write_job:
            return client.served_by
        return client.number % (self.active - 1) + 1

    def has_room(self, thread: int) -> bool:
        """Whether a thread's ring takes another job."""
        return len(self.rings[thread]) < self.ring_slots

    def put(self, thread: int, kind: Kind, client: Client | None = None, work_ps: int = 0) -> None:
        """Put a job into a thread's ring; if it spins idly it sees the job one hand-over later."""
        if client is not None:
            client.served_by = thread
        seen_ps = max(self.node.now + self.node.times.handover_ps, self.available_ps[thread])
        self.rings[thread].append(Job(kind, client, seen_ps, work_ps))
        self.wake(thread, seen_ps)

    def put_poll(self) -> None:
        """The last active thread polls."""
        self.put(self.active - 1, "poll")

    def put_by_number(self, number: int, kind: Kind, work_ps: int) -> bool:
        """Give a job that has no client to active threads in turn, unless the ring is full."""
        if self.active == 1:
            return False
        thread = number % (self.active - 1) + 1
        if not self.has_room(thread):
            return False
        self.put(thread, kind, work_ps=work_ps)
        return True

    def send_free(self, work_ps: int) -> bool:
        """Values are freed by the active threads in turn."""
        sent = self.put_by_number(self.frees_sent, "free", work_ps)
        self.frees_sent += sent
        return sent

    def send_handshake(self, number: int) -> bool:
        """A connection's thread goes by its number."""
        return self.put_by_number(number, "handshake", self.node.times.handshake_ps)

    def send_arguments(self, client: Client, work_ps: int) -> bool:
        """Arguments are freed by the client's thread, which allocated them."""
        if self.active == 1 or not self.has_room(self.thread_for(client)):
            return False
        self.put(self.thread_for(client), "arguments", work_ps=work_ps)
        return True

    def frees_now(self, job: Job) -> bool:
        """Whether a job frees something and can be seen by now."""
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
                # Frees that follow each other are one step.
                frees = list(itertools.takewhile(self.frees_now, ring))
                yield agent.hold(node.work(number, sum(free.work_ps for free in frees)))
                for _ in frees:
                    ring.popleft()
                values = sum(free.kind == "free" for free in frees)
                self.count_freed(values, inline=False)
                continue
            yield agent.hold(node.work(number, self.job_duration(job)))
            if job.kind == "write" and job.client:
                yield from node.send_reply(job.client, agent)
            ring.popleft()  # a job leaves the ring when it is done
            if job.kind == "handshake":
                continue
            if job.client is None:
                self.poll_state = "completed"
            elif job.kind == "read":
                self.done_reads.append(job.client)
            else:
                self.done_writes.append(job.client)
