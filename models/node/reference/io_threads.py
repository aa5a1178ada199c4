"""What the main threads of policies with I/O threads have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simpy import Event

from forecache.sim.simpy_kernel import Activity

from .node import Client, ReferenceNode

Kind = Literal["read", "write", "poll", "free", "arguments", "handshake"]

WORK_KINDS = ("free", "arguments", "handshake")
"""Jobs that say themselves how long they take, and that nobody waits for."""


@dataclass
class Job:
    """What an I/O thread is asked to do; `seen_ps` is when it can see the request."""

    kind: Kind
    client: Client | None
    seen_ps: int
    work_ps: int = 0
    """Of freeing, or of a handshake."""


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
    """State that the main thread and its I/O threads share, and the steps that do not differ."""

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

    @property
    def in_flight(self) -> int:
        """Jobs of clients the main thread has not seen done."""
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

    def job_duration(self, job: Job) -> int:
        """An I/O thread starts a job: what it finds now, and how long it takes."""
        node = self.node
        if job.kind in WORK_KINDS:
            return job.work_ps
        if job.client is None:
            self.fired = node.poll()
            return node.times.pop_ps + node.polling(len(self.fired))
        if job.kind == "write":
            return node.times.pop_ps + node.write(job.client)
        return node.times.pop_ps + self.read_and_parse(job.client)

    def read_and_parse(self, client: Client) -> int:
        """Read and parse the first command, or all where whole pipelines are parsed at once."""
        duration = self.node.read(client)
        last = client.executed + self.parsed_commands(client)
        return duration + self.node.parse(client, client.executed, last)

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

    def parsed_commands(self, client: Client) -> int:
        """Commands that the reader parsed: all complete ones, or the first only."""
        ready = client.read - client.executed
        return ready if self.node.setup.whole_pipeline else min(ready, 1)

    def parsed_keys(self, client: Client) -> int:
        """Keys of those commands."""
        return self.node.keys(
            client, client.executed, client.executed + self.parsed_commands(client)
        )

    def try_send_write(self, client: Client) -> None:
        """Hand a client's replies to an I/O thread, or leave them for the pending writes."""
        raise NotImplementedError

    def send_reply(self, client: Client) -> None:
        """An executed client's replies leave at once, unless they wait for the file."""
        if self.node.setup.fsync_always:
            self.add_pending_write(client)
        else:
            self.try_send_write(client)

    def flush_log(self) -> Activity:
        """Before replies are written: what was logged since goes to the kernel."""
        if self.node.logged_bytes:
            self.turns.productive = True
            yield self.node.main_does(self.node.flush())

    def look_up(self, keys: int) -> Activity:
        """Interleaved look-up of a batch's keys."""
        if keys:
            self.node.count("prefetch_batches")
            self.node.count("prefetched_keys", keys)
            yield self.node.main_does(int(self.node.times.prefetch_by_keys_ps[keys]))

    def send_free(self, work_ps: int) -> bool:
        """Hand one value to an I/O thread that frees it, unless none has room."""
        raise NotImplementedError

    def send_arguments(self, client: Client, work_ps: int) -> bool:
        """Hand a client's arguments to the thread that read them, unless it has no room."""
        raise NotImplementedError

    def send_handshake(self, number: int) -> bool:
        """Hand a new connection to an I/O thread, unless none has room."""
        raise NotImplementedError

    def count_freed(self, values: int, *, inline: bool) -> None:
        """Note that values were freed."""
        self.node.count("freed_values", values)
        if inline:
            self.node.count("inline_frees", values)

    def pushing_frees(self, client: Client, freeing: list[int]) -> int:
        """Time to hand over what a client's commands leave to be freed."""
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

    def accept_connections(self) -> Activity:
        """New connections: accepted here; the handshakes go to I/O threads that do them."""
        node, times = self.node, self.node.times
        if self.poll_state == "pending":
            return  # the poll that would have told of them is still out
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
        """The main thread polls by itself, and sleeps if nobody owes it anything."""
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
                node.count("blocks")
                slept = times.block_ps
        yield node.main_does(node.polling(len(self.fired)) + slept)

    def read_inline(self, client: Client) -> Activity:
        """The main thread reads, parses and executes by itself."""
        self.node.count("inline_reads")
        yield from self.execute_inline(client, parsed=0, before_ps=self.node.read(client))

    def execute_inline(self, client: Client, *, parsed: int, before_ps: int = 0) -> Activity:
        """The main thread executes, and frees what that replaces.

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
