"""The main thread of the two asynchronous policies, which never waits for its I/O threads.

It hands out reads, writes and its own poll, goes round its loop, picks up finished jobs and sleeps
only while no job is in flight. A policy says how jobs and results are queued, and when it starts
and stops threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from forecache.sim.simpy_kernel import Activity

from .io_threads import IoThreads
from .node import Client

Kind = Literal["read", "write", "poll", "free", "arguments", "handshake"]

WORK_KINDS = ("free", "arguments", "handshake")
"""Jobs that carry their duration, and whose end the main thread does not wait for."""

ANY_THREAD = 0
"""In place of the number of an I/O thread, where all take jobs from one queue."""


@dataclass
class Job:
    """A job for an I/O thread; `seen_ps` is when a thread can see it."""

    kind: Kind
    client: Client | None
    seen_ps: int
    work_ps: int = 0
    """Duration of freeing, or of a handshake."""


class Dispatching(IoThreads):
    """The event loop, and the queue discipline it needs as abstract methods."""

    # --- what a policy says -----------------------------------------------------------------

    def thread_for(self, client: Client) -> int:
        """The I/O thread for a client's jobs, or `ANY_THREAD`."""
        raise NotImplementedError

    def has_room(self, thread: int) -> bool:
        """Whether a job for a thread finds room."""
        raise NotImplementedError

    def put(self, thread: int, kind: Kind, client: Client | None = None, work_ps: int = 0) -> None:
        """Queue a job that finds room."""
        raise NotImplementedError

    def put_poll(self) -> None:
        """Queue the poll job, which finds room."""
        raise NotImplementedError

    def is_busy(self, client: Client) -> bool:
        """Whether a readable client has to wait for an earlier job."""
        raise NotImplementedError

    def send_free(self, work_ps: int) -> bool:
        """Let an I/O thread free a value; False if there is no room."""
        raise NotImplementedError

    def send_arguments(self, client: Client, work_ps: int) -> bool:
        """Let the thread that read a client's arguments free them; False if it has no room."""
        raise NotImplementedError

    def collect(self, *, again: bool) -> Activity:
        """Process finished jobs; `again` on the second look of a turn."""
        raise NotImplementedError

    def adjust_threads(self, events: int, *, increase_only: bool) -> Activity:
        """Start or stop threads by the events of a poll, or start some for pending writes."""
        raise NotImplementedError

    # --- the event loop ---------------------------------------------------------------------

    def main_thread(self) -> Activity:
        """The event loop."""
        node, times, main = self.node, self.node.times, self.node.main
        yield main.hold(0)
        while True:
            # Before sleeping.
            yield main.hold(times.loop_ps)
            if self.active > 1 and self.poll_state == "idle" and self.in_flight:
                if self.has_room(self.active - 1):
                    yield node.main_does(times.push_ps)
                    self.poll_state = "pending"
                    self.put_poll()
            yield from self.collect(again=False)
            yield from self.flush_log()
            yield from self.handle_pending_writes()
            yield from self.collect(again=True)

            # Sleeping: the events of the poll job, if it is done, or of a poll by this thread.
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
        """Queue a read for each readable client, or serve the client here if there is no room."""
        node, times = self.node, self.node.times
        for client in events:
            self.turns.productive = True
            if self.is_busy(client):
                node.count("found_again")
                yield node.main_does(times.event_ps)
                continue
            if self.active > 1:
                if self.has_room(self.thread_for(client)):
                    yield node.main_does(times.push_ps)
                    self.put(self.thread_for(client), "read", client)
                    client.read_job = True
                    self.reads_in_flight += 1
                    continue
                node.count("refused_jobs")
            yield from self.read_inline(client)

    def handle_reads(self, done: list[Client]) -> Activity:
        """Execute the commands of finished reads, in batches."""
        node, times = self.node, self.node.times
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
                # The reply goes to an I/O thread at once, not at the end of the turn.
                yield node.main_does(execution + times.push_ps)
                yield from self.free(client, freeing)
                client.executed = client.read
                client.read_job = False
                if node.setup.fsync_always:
                    self.add_pending_write(client)
                else:
                    self.try_send_write(client)

    def handle_writes(self, done: list[Client]) -> Activity:
        """Take note of finished writes."""
        self.writes_in_flight -= len(done)
        for client in done:
            client.write_job = False
        if done:
            self.turns.productive = True
            yield self.node.main_does(self.node.times.done_ps * len(done))

    def handle_pending_writes(self) -> Activity:
        """Send the replies that found no room earlier, last client first."""
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

    # --- jobs -------------------------------------------------------------------------------

    def try_send_write(self, client: Client) -> None:
        """Queue a client's replies, or leave them for the pending writes."""
        if client.executed == client.written or client.write_job:
            return
        if self.active > 1:
            thread = self.thread_for(client)
            if self.has_room(thread):
                self.put(thread, "write", client)
                client.write_job = True
                self.writes_in_flight += 1
                return
            self.node.count("refused_jobs")
        self.add_pending_write(client)

    def wake(self, thread: int, seen_ps: int) -> None:
        """Let an I/O thread that has nothing to do see a new job."""
        agent = self.node.threads[thread].agent
        if self.node.stays_asleep(agent):
            agent.wake(seen_ps)

    def job_duration(self, job: Job) -> int:
        """Begin a job on an I/O thread; returns its duration."""
        node = self.node
        if job.kind in WORK_KINDS:
            return job.work_ps
        if job.client is None:
            self.fired = node.poll()
            return node.times.pop_ps + node.polling(len(self.fired))
        if job.kind == "write":
            return node.times.pop_ps + node.write(job.client)
        return node.times.pop_ps + self.read_and_parse(job.client)

    # --- batches, and what execution leaves to be freed -------------------------------------

    def take_batch(self, done: list[Client]) -> tuple[list[Client], int]:
        """Clients for one batch, from the front of `done`, and how many keys to fetch ahead.

        The batch ends with the client that fills it, by clients or by keys. A single key is not
        fetched ahead: there is nothing to overlap its misses with.
        """
        limit = max(1, self.node.setup.prefetch_batch)
        batch: list[Client] = []
        keys = 0
        while done and len(batch) < limit and keys < limit:
            client = done.pop(0)
            batch.append(client)
            keys += self.parsed_keys(client)
        self.reads_in_flight -= len(batch)
        keys = min(keys, limit)
        return batch, keys if keys > 1 else 0

    def parsed_keys(self, client: Client) -> int:
        """Keys of the commands that the reader parsed."""
        first = client.executed
        return self.node.keys(client, first, first + self.parsed_commands(client))

    def look_up(self, keys: int) -> Activity:
        """Interleaved look-up of a batch's keys."""
        if keys:
            self.node.count("prefetch_batches")
            self.node.count("prefetched_keys", keys)
            yield self.node.main_does(int(self.node.times.prefetch_by_keys_ps[keys]))

    def pushing_frees(self, client: Client, freeing: list[int]) -> int:
        """Time to queue what a client's commands leave to be freed."""
        times = self.node.times
        arguments = client.read - client.executed if times.free_arguments_ps else 0
        return (len(freeing) + arguments) * times.free_push_ps

    def free(self, client: Client, freeing: list[int]) -> Activity:
        """Replaced values and arguments go to I/O threads; what finds no room is freed here."""
        refused = [work_ps for work_ps in freeing if not self.send_free(work_ps)]
        self.count_freed(len(refused), inline=True)
        commands = client.read - client.executed
        work_ps = commands * self.node.times.free_arguments_ps
        if work_ps > 0 and not self.send_arguments(client, work_ps):
            self.node.count("inline_arguments", commands)
            refused.append(work_ps)
        if refused:
            yield self.node.main_does(sum(refused))
