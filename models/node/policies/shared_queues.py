"""Policy: I/O threads on shared queues (Valkey 9.1).

One queue of jobs that any thread takes from, one queue of responses to the main thread, and a
private queue per thread for what only that thread may do. Threads are added while the shared queue
is deep, one every 16 samples. Rules and constants: io_threads.c and queues.c of Valkey 9.1.0.
"""

from __future__ import annotations

import itertools
from collections import deque

from forecache.sim.simpy_kernel import Activity

from ..reference import Client, ReferenceNode
from ..setup import rounded_capacity
from .io_threads import ANY_THREAD, WORK_KINDS, Job, JobQueues, Kind

RESPONSES_AT_ONCE = 16
PRIVATE_JOBS_AT_ONCE = 32
SHARED_POLL_LIMIT = 9
SAMPLES_PER_DECISION = 16
IGNITION_PER_MILLE = 300


def start(node: ReferenceNode) -> None:
    """Start the main thread and the I/O threads."""
    SharedQueues(node).start()


class SharedQueues(JobQueues):
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

    def collect(self, *, again: bool) -> Activity:
        """Take responses, 16 at a time, until there are none: reads in a batch, then writes."""
        del again
        while self.responses:
            self.turns.productive = True
            taken = [
                self.responses.popleft() for _ in range(min(len(self.responses), RESPONSES_AT_ONCE))
            ]
            yield self.node.main_step(self.node.times.collect_ps * len(taken))
            yield from self.handle_reads(
                [job.client for job in taken if job.kind == "read" and job.client]
            )
            yield from self.handle_writes(
                [job.client for job in taken if job.kind == "write" and job.client]
            )

    def adjust_threads(self, events: int, *, increase_only: bool) -> Activity:
        """Start or stop a thread after a poll, by sampled load."""
        del events
        if not increase_only and self.sample_load():
            yield self.node.main_step(self.node.times.activate_ps)

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

    def is_busy(self, client: Client) -> bool:
        """Any thread may take any job, so a client has one job at a time."""
        return client.read_job or client.write_job or client.write_pending

    def thread_for(self, client: Client) -> int:
        """All clients' jobs go through the shared queue."""
        del client
        return ANY_THREAD

    def has_room(self, thread: int) -> bool:
        """Whether the shared queue takes another job."""
        del thread
        return len(self.shared) < self.shared_slots

    def put_poll(self) -> None:
        """Into the shared queue; with many threads, to each of them in turn."""
        if self.active <= SHARED_POLL_LIMIT:
            self.put(ANY_THREAD, "poll")
            return
        self.next_private = self.next_private % (self.active - 1) + 1
        self.put_private(self.next_private, "poll")

    def put(self, thread: int, kind: Kind, client: Client | None = None, work_ps: int = 0) -> None:
        """Put a job into the shared queue; the first active thread that spins idly takes it."""
        node = self.node
        seen_ps = node.now + node.times.handover_ps
        self.shared.append(Job(kind, client, seen_ps, work_ps))
        for thread in range(1, self.active):
            agent = node.threads[thread].agent
            if node.stays_asleep(agent) and not agent.waits_for_core:
                agent.wake(max(seen_ps, self.available_ps[thread]))
                return

    def put_private(self, thread: int, kind: Kind, work_ps: int = 0) -> None:
        """Put a job into a thread's private queue."""
        seen_ps = max(self.node.now + self.node.times.handover_ps, self.available_ps[thread])
        self.private[thread].append(Job(kind, None, seen_ps, work_ps))
        self.wake(thread, seen_ps)

    def send_free(self, work_ps: int) -> bool:
        """Whichever thread takes it from the shared queue frees it."""
        return self.put_work("free", work_ps)

    def send_handshake(self, number: int) -> bool:
        """Any thread may do a handshake."""
        del number
        return self.put_work("handshake", self.node.times.handshake_ps)

    def put_work(self, kind: Kind, work_ps: int) -> bool:
        """Give a job that has no client to any I/O thread, unless the queue is full."""
        if self.active == 1 or not self.has_room(ANY_THREAD):
            return False
        self.put(ANY_THREAD, kind, work_ps=work_ps)
        return True

    def send_arguments(self, client: Client, work_ps: int) -> bool:
        """Arguments go to the private queue of the thread that read them and allocated them."""
        thread = client.served_by
        if thread >= self.active or len(self.private[thread]) >= self.shared_slots:
            return False
        self.put_private(thread, "arguments", work_ps)
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
                # A job that is not visible yet, on its way between the cores, is waited for.
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
                yield from node.send_reply(job.client, agent)
            self.responses.append(job)
