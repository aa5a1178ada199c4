"""Policy: I/O threads on shared queues (Valkey 9.1).

One queue of jobs that any thread takes from, one queue of responses to the main thread, and a
private queue per thread for what only that thread may do. Threads are added while the shared queue
is deep, one every 16 samples. Rules and constants: io_threads.c and queues.c of Valkey 9.1.0.
"""

from __future__ import annotations

import itertools
from collections import deque

from forecache.sim.simpy_kernel import Activity
from forecache.sim.stamped_rings import rounded_capacity

from .io_threads import WORK_KINDS, IoThreads, Job, Kind
from .node import Client, ReferenceNode

RESPONSES_AT_ONCE = 16
PRIVATE_JOBS_AT_ONCE = 32
SHARED_POLL_LIMIT = 9
SAMPLES_PER_DECISION = 16
IGNITION_PER_MILLE = 300


def start(node: ReferenceNode) -> None:
    """Start the main thread and the I/O threads."""
    engine = SharedQueues(node)
    node.main.start(engine.main_thread())
    for number in range(1, node.setup.io_threads):
        node.threads[number].agent.start(engine.io_thread(number))


class SharedQueues(IoThreads):
    """One multi-consumer queue of jobs, one multi-producer queue of responses."""

    def __init__(self, node: ReferenceNode) -> None:
        super().__init__(node)
        self.shared: deque[Job] = deque()
        self.shared_slots = rounded_capacity(node.setup.job_capacity)
        self.private: list[deque[Job]] = [deque() for _ in range(node.setup.io_threads)]
        self.responses: deque[Job] = deque()
        self.next_private = 0
        self.samples = 0
        self.sample_sum = 0
        self.next_sample_ps = 0
        self.sampled_active_ps = 0
        self.changed_ps = 0

    def main_thread(self) -> Activity:
        """The event loop."""
        node, times, main = self.node, self.node.times, self.node.main
        yield main.hold(0)
        while True:
            # Before sleeping.
            yield main.hold(times.loop_ps)
            if self.active > 1 and self.poll_state == "idle" and self.in_flight:
                if len(self.shared) < self.shared_slots:
                    yield node.main_does(times.push_ps)
                    self.send_poll()
            yield from self.handle_responses()
            yield from self.flush_log()
            yield from self.handle_pending_writes()
            yield from self.handle_responses()

            # Sleeping: the poll job's events, if it is done, or an own poll.
            events: list[Client] = []
            if self.poll_state == "completed":
                self.poll_state = "idle"
                events = self.fired
            elif self.poll_state == "idle":
                yield from self.own_poll()
                events = self.fired

            # After sleeping.
            if self.sample_load():
                yield node.main_does(times.activate_ps)
            yield from self.accept_connections()
            yield from self.handle_events(events)
            self.turns.end()

    def handle_events(self, events: list[Client]) -> Activity:
        """Queue a read for each readable client, or serve it if there is no room."""
        node, times = self.node, self.node.times
        for client in events:
            self.turns.productive = True
            if client.read_job or client.write_job or client.write_pending:
                # Any thread may take any job, so a client has one job at a time.
                yield node.main_does(times.scan_ps)
                continue
            if self.active > 1:
                if len(self.shared) < self.shared_slots:
                    yield node.main_does(times.push_ps)
                    client.read_job = True
                    self.reads_in_flight += 1
                    self.send_shared("read", client)
                    continue
                node.count("refused_jobs")
            yield from self.read_inline(client)

    def handle_responses(self) -> Activity:
        """Take responses, 16 at a time, until there are none: reads in a batch, then writes."""
        node, times = self.node, self.node.times
        while self.responses:
            self.turns.productive = True
            taken = [
                self.responses.popleft() for _ in range(min(len(self.responses), RESPONSES_AT_ONCE))
            ]
            yield node.main_does(times.collect_ps * len(taken))
            reads = [job.client for job in taken if job.kind == "read" and job.client]
            writes = [job.client for job in taken if job.kind == "write" and job.client]
            while reads:
                batch, keys = self.take_batch(reads)
                yield from self.look_up(keys)
                for client in batch:
                    parsed = self.parsed_commands(client)
                    fetched = min(self.parsed_keys(client), keys)
                    keys -= fetched
                    execution = node.execute(client, fetched=fetched, parsed=parsed)
                    freeing = node.to_free(client)
                    execution += self.pushing_frees(client, freeing)
                    yield node.main_does(execution + times.push_ps)
                    yield from self.free(client, freeing)
                    client.executed = client.read
                    client.read_job = False
                    self.send_reply(client)
            self.writes_in_flight -= len(writes)
            for client in writes:
                client.write_job = False
            if writes:
                yield node.main_does(times.done_ps * len(writes))

    def handle_pending_writes(self) -> Activity:
        """Replies that found no room earlier; last client first."""
        node, times = self.node, self.node.times
        while self.pending_writes:
            self.turns.productive = True
            client = self.pending_writes.pop()
            client.write_pending = False
            if self.active > 1 and len(self.shared) < self.shared_slots:
                yield node.main_does(times.push_ps)
                self.try_send_write(client)
            else:
                yield from self.write_inline(client)

    def try_send_write(self, client: Client) -> None:
        """Queue a client's replies, or leave them for the pending writes."""
        if client.executed == client.written:
            return
        if self.active > 1:
            if len(self.shared) < self.shared_slots:
                client.write_job = True
                self.writes_in_flight += 1
                self.send_shared("write", client)
                return
            self.node.count("refused_jobs")
        self.add_pending_write(client)

    def send_free(self, work_ps: int) -> bool:
        """Whoever takes it from the shared queue frees it."""
        if self.active == 1 or len(self.shared) >= self.shared_slots:
            return False
        self.send_shared("free", None, work_ps)
        return True

    def send_arguments(self, client: Client, work_ps: int) -> bool:
        """Arguments go to the private queue of the thread that read them and allocated them."""
        thread = client.served_by
        if thread >= self.active or len(self.private[thread]) >= self.shared_slots:
            return False
        self.send_private(thread, "arguments", work_ps)
        return True

    def send_private(self, thread: int, kind: Kind, work_ps: int = 0) -> None:
        """Put a job into a thread's private queue."""
        seen = max(self.node.now + self.node.times.handover_ps, self.available_ps[thread])
        self.private[thread].append(Job(kind, None, seen, work_ps))
        agent = self.node.threads[thread].agent
        if self.node.nobody_woke(agent):
            agent.wake(seen)

    def send_handshake(self, number: int) -> bool:
        """Any thread may do a handshake."""
        del number
        if self.active == 1 or len(self.shared) >= self.shared_slots:
            return False
        self.send_shared("handshake", None, self.node.times.handshake_ps)
        return True

    def send_shared(self, kind: Kind, client: Client | None, work_ps: int = 0) -> None:
        """Put a job into the shared queue; the first active thread that spins idly takes it."""
        node = self.node
        seen = node.now + node.times.handover_ps
        self.shared.append(Job(kind, client, seen, work_ps))
        for thread in range(1, self.active):
            agent = node.threads[thread].agent
            if node.nobody_woke(agent) and not agent.waits_for_core:
                agent.wake(max(seen, self.available_ps[thread]))
                return

    def send_poll(self) -> None:
        """The poll goes to the shared queue or, with many threads, to each thread in turn."""
        self.poll_state = "pending"
        if self.active <= SHARED_POLL_LIMIT:
            self.send_shared("poll", None)
            return
        self.next_private = self.next_private % (self.active - 1) + 1
        self.send_private(self.next_private, "poll")

    def sample_load(self) -> bool:
        """Start or stop one thread by sampled load; True if the number of threads changed.

        Alone, the main thread samples its active time; with helpers, it samples the depth of the
        shared queue. Every sixteenth sample decides.
        """
        setup, now = self.node.setup, self.node.now
        if setup.io_threads == 1 or now < self.next_sample_ps:
            return False
        alone = self.active == 1
        if alone:
            period = setup.ignite_period_ps
            elapsed = now - self.next_sample_ps + period
            self.sample_sum += (self.turns.active_ps - self.sampled_active_ps) * 1000 // elapsed
            self.sampled_active_ps = self.turns.active_ps
        else:
            period = setup.grow_period_ps
            self.sample_sum += len(self.shared)
        self.next_sample_ps = now + period
        self.samples += 1
        if self.samples < SAMPLES_PER_DECISION:
            return False
        total, self.samples, self.sample_sum = self.sample_sum, 0, 0
        if alone:
            grow = total > IGNITION_PER_MILLE * SAMPLES_PER_DECISION
        else:
            grow = total > SAMPLES_PER_DECISION and self.active < setup.io_threads
        if grow:
            # A stopped thread of this generation blocks on its mutex at once.
            self.available_ps[self.active] = now + self.node.times.thread_wake_ps
            self.node.threads[self.active].agent.look_at(self.available_ps[self.active])
            self.set_active(self.active + 1)
        elif (
            not alone
            and total == 0
            and now - self.changed_ps > setup.shrink_after_ps
            and not self.private[self.active - 1]
            and not (self.active == 2 and self.shared)
        ):
            self.sampled_active_ps = self.turns.active_ps
            self.set_active(self.active - 1)
            self.node.threads[self.active].agent.look_at(now)
        else:
            return False
        self.changed_ps = now
        return True

    def batch_to_free(self, queue: deque[Job]) -> int:
        """How many jobs at a private queue's front are one batch of arguments to free."""
        now = self.node.now
        batch = itertools.takewhile(lambda j: j.kind == "arguments" and j.seen_ps <= now, queue)
        return len(list(itertools.islice(batch, PRIVATE_JOBS_AT_ONCE)))

    def io_thread(self, number: int) -> Activity:
        """One I/O thread: its private queue first, then one job from the shared queue."""
        node = self.node
        agent, private = node.threads[number].agent, self.private[number]
        while True:
            queues = [private, self.shared if number < self.active else deque()]
            coming = [queue[0].seen_ps for queue in queues if queue]
            if not coming:
                yield agent.spin() if number < self.active else agent.sleep()
                continue
            if min(coming) > node.now:
                # What is on its way between the cores is waited for, not forgotten.
                yield agent.hold_until(min(coming))
                continue
            queue = next(q for q in queues if q and q[0].seen_ps <= node.now)
            if queue[0].kind == "arguments":
                # The private queue is drained in batches.
                batch = [queue.popleft() for _ in range(self.batch_to_free(queue))]
                yield agent.hold(node.work(number, sum(job.work_ps for job in batch)))
                continue
            job = queue.popleft()
            if job.kind == "read" and job.client:
                job.client.served_by = number
            yield agent.hold(node.work(number, self.job_duration(job)))
            if job.kind == "free":
                self.count_freed(1, inline=False)
            if job.kind in WORK_KINDS:
                continue
            if job.client is None:
                self.poll_state = "completed"
                continue
            if job.kind == "write":
                node.deliver_reply(job.client)
            self.responses.append(job)
