"""What policies with I/O threads have in common.

`IoThreads` is the part of all three: the main thread's own steps, and starting and stopping
threads. `JobQueues` is the event loop of those that queue jobs, Valkey since 8.0, whose main thread
never waits for its I/O threads.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from simpy import Event

from forecache.sim.simpy_kernel import Activity

from ..reference import Client, ReferenceNode


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
        last = client.executed + self.node.parsed_commands(client)
        return duration + self.node.parse(client, client.executed, last)

    def flush_log(self) -> Activity:
        """Before replies are written, logged writes go to the kernel."""
        if self.node.logged_bytes:
            self.turns.productive = True
            yield self.node.main_step(self.node.flush())

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
        yield node.main_step(taken * times.accept_ps)
        refused = 0
        for _ in range(taken):
            self.accepted += 1
            if not (node.setup.offload_handshakes and self.send_handshake(self.accepted)):
                refused += 1
        if refused:
            node.count("inline_handshakes", refused)
            yield node.main_step(refused * times.handshake_ps)

    def own_poll(self) -> Activity:
        """The main thread polls by itself; without events and jobs in flight it sleeps."""
        node, times = self.node, self.node.times
        self.fired = node.poll()
        slept = 0
        while not self.fired and self.in_flight == 0:
            # On the way to sleep; what arrives meanwhile is found without a wake-up.
            yield node.main_step(times.doze_ps)
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
        yield node.main_step(node.polling(len(self.fired)) + slept)

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
        freeing = node.free_times_ps(client)
        self.count_freed(len(freeing), inline=True)
        if node.times.free_arguments_ps:
            commands = client.read - client.executed
            node.count("inline_arguments", commands)
            duration += commands * node.times.free_arguments_ps
        yield node.main_step(duration + sum(freeing))
        client.executed = client.read
        self.add_pending_write(client)

    def write_inline(self, client: Client) -> Activity:
        """The main thread writes by itself."""
        node = self.node
        node.count("inline_writes")
        yield node.main_step(node.write(client))
        node.deliver_reply(client)


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


class JobQueues(IoThreads):
    """An event loop that gives reads, writes and its own poll to I/O threads as jobs.

    The main thread goes round its loop, picks up finished jobs, and sleeps only while no job is in
    flight. A policy says how jobs and results are queued, and when it starts and stops threads.
    """

    # --- what a policy defines --------------------------------------------------------------

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
                    yield node.main_step(times.push_ps)
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
                yield node.main_step(times.event_ps)
                continue
            if self.active > 1:
                if self.has_room(self.thread_for(client)):
                    yield node.main_step(times.push_ps)
                    self.put(self.thread_for(client), "read", client)
                    client.read_job = True
                    self.reads_in_flight += 1
                    continue
                node.count("refused_jobs")
            yield from self.read_inline(client)

    def handle_reads(self, done: list[Client]) -> Activity:
        """Execute the commands of finished reads, in batches."""
        node, times = self.node, self.node.times
        waiting = deque(done)
        while waiting:
            self.turns.productive = True
            batch, keys = node.take_batch(waiting, node.parsed_keys)
            self.reads_in_flight -= len(batch)
            yield from self.look_up(keys)
            for client in batch:
                parsed = node.parsed_commands(client)
                fetched = min(node.parsed_keys(client), keys)
                keys -= fetched
                execution = node.execute(client, fetched=fetched, parsed=parsed)
                freeing = node.free_times_ps(client)
                execution += self.pushing_frees(client, freeing)
                # The reply goes to an I/O thread at once, not at the end of the turn.
                yield node.main_step(execution + times.push_ps)
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
            yield self.node.main_step(self.node.times.done_ps * len(done))

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
                yield node.main_step(times.push_ps)
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

    def look_up(self, keys: int) -> Activity:
        """Interleaved look-up of a batch's keys."""
        if keys:
            self.node.count("prefetch_batches")
            self.node.count("prefetched_keys", keys)
            yield self.node.main_step(int(self.node.times.prefetch_by_keys_ps[keys]))

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
            yield self.node.main_step(sum(refused))
