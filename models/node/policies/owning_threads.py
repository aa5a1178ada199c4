"""Policy: I/O threads that own their clients (Redis 8).

Every I/O thread has an event loop of its own and reads, parses and writes for its clients. A client
with a complete command moves to a list for the main thread, which executes and hands it back; until
then its thread leaves it alone. Lists move whole; a thread that may sleep is told by its eventfd.
No thread spins. Rules and constants: iothread.c and memory_prefetch.c of Redis 8.2.
"""

from __future__ import annotations

from collections import deque

from simpy import Event

from forecache.sim.simpy_kernel import Activity

from ..reference import Client, ReferenceNode

MAIN = 0


def start(node: ReferenceNode) -> None:
    """Start the main thread and the I/O threads."""
    engine = OwningThreads(node)
    node.main.start(engine.main_thread())
    for number in range(1, node.setup.io_threads):
        # It begins asleep, for which it needs no core.
        node.env.process(engine.io_thread(number))


class OwningThreads:
    """The lists of clients between the main thread and each I/O thread, and who may sleep."""

    def __init__(self, node: ReferenceNode) -> None:
        self.node = node
        threads = node.setup.io_threads
        self.read: list[list[Client]] = [[] for _ in range(threads)]
        """By I/O thread: clients with commands that it has not handed over yet."""
        self.to_main: list[deque[Client]] = [deque() for _ in range(threads)]
        self.executed: list[Client] = []
        """Clients of the present I/O thread that are not handed back yet."""
        self.from_main: list[deque[Client]] = [deque() for _ in range(threads)]
        self.running = [number == MAIN for number in range(threads)]
        """False from when a thread decides to sleep until its epoll_wait has returned."""
        self.notified_main = [False] * threads
        """By I/O thread: it wrote to the main thread's eventfd for it."""
        self.notified = [False] * threads
        """By I/O thread: the main thread wrote to its eventfd."""

    # --- the main thread --------------------------------------------------------------------

    def main_thread(self) -> Activity:
        """The event loop."""
        node, times = self.node, self.node.times
        others = range(1, node.setup.io_threads)
        yield node.main.hold(0)
        while True:
            node.count("loops")
            # Before sleeping: a look at every thread's list.
            looks = times.loop_ps + len(others) * times.scan_ps + node.flush()
            yield self.step(MAIN, looks)
            busy = False
            for thread in others:
                if self.to_main[thread]:
                    busy = True
                    yield from self.process(thread)
            # A second look, once it is not running any more, finds nothing new here: no time
            # passes between the two.
            self.running[MAIN] = busy
            yield from self.wait(MAIN, dont_sleep=busy)
            for thread in others:
                if self.notified_main[thread]:
                    self.notified_main[thread] = False
                    yield self.step(MAIN, times.notice_ps)
                    if self.to_main[thread]:
                        yield from self.process(thread)

    def process(self, thread: int) -> Activity:
        """Take the whole list of an I/O thread; execute in batches, hand back in groups."""
        node, times = self.node, self.node.times
        taken = list(self.to_main[thread])
        self.to_main[thread].clear()
        yield self.step(MAIN, times.done_ps)
        while taken:
            batch, keys = self.take_batch(taken)
            if keys:
                node.count("prefetch_batches")
                node.count("prefetched_keys", keys)
                yield self.step(MAIN, int(times.prefetch_by_keys_ps[keys]))
            for client in batch:
                parsed = node.parsed_commands(client)
                fetched = min(node.parsed_keys(client), keys)
                keys -= fetched
                execution = node.execute(client, fetched=fetched, parsed=parsed)
                yield self.step(MAIN, times.collect_ps + execution + times.push_ps)
                client.executed = client.read
                self.executed.append(client)
                if len(self.executed) == node.setup.hand_over_group:
                    yield from self.hand_back(thread)
        if self.executed:
            yield from self.hand_back(thread)

    def take_batch(self, taken: list[Client]) -> tuple[list[Client], int]:
        """Clients of one batch, from the front of `taken`, and how many keys to look up together.

        A last batch may be twice as large: better than a small one after it. A single key is not
        looked up ahead.
        """
        limit = self.node.setup.prefetch_batch
        if limit < 2:
            batch, taken[:] = list(taken), []
            return batch, 0
        size = len(taken) if len(taken) <= 2 * limit else limit
        batch, keys = [], 0
        while len(batch) < size and keys < 2 * limit:
            batch.append(taken.pop(0))
            keys += self.node.parsed_keys(batch[-1])
        keys = min(keys, 2 * limit)
        return batch, keys if keys > 1 else 0

    def hand_back(self, thread: int) -> Activity:
        """Join the executed clients to the list of their thread, last one first."""
        self.node.count("list_moves")
        yield self.step(MAIN, self.node.times.done_ps)
        notify = not self.running[thread] and not self.from_main[thread]
        self.from_main[thread].extend(reversed(self.executed))
        self.executed.clear()
        if notify:
            yield self.step(MAIN, self.notification_ps(thread))
            self.notified[thread] = True
            self.wake(thread)

    # --- an I/O thread ----------------------------------------------------------------------

    def io_thread(self, number: int) -> Activity:
        """The event loop of an I/O thread, which begins asleep."""
        node, times = self.node, self.node.times
        yield self.sleep(number)
        fired = yield from self.wait(number, dont_sleep=False, slept=True)
        while True:
            if self.notified[number]:
                self.notified[number] = False
                yield self.step(number, times.notice_ps)
                yield from self.take_back(number)
            for client in node.poll_results(fired, number):
                if client.read_job:
                    # The main thread has it; its socket is left for later.
                    yield self.step(number, times.scan_ps)
                    continue
                yield self.step(number, self.reading_ps(client))
                if client.read > client.executed:
                    client.read_job = True
                    if len(self.read[number]) == node.setup.hand_over_group:
                        yield from self.hand_over(number)
                    self.read[number].append(client)
            # Before sleeping.
            yield self.step(number, times.own_turn_ps)
            # A thread that had clients to write to polls once without sleeping: more will follow.
            busy = yield from self.take_back(number)
            self.running[number] = busy
            if self.read[number]:
                yield from self.hand_over(number)
            fired = yield from self.wait(number, dont_sleep=busy)

    def reading_ps(self, client: Client) -> int:
        """Read and parse; returns the duration."""
        node = self.node
        duration = node.times.pop_ps + node.read(client)
        first = client.executed
        return duration + node.parse(client, first, first + node.parsed_commands(client))

    def hand_over(self, number: int) -> Activity:
        """Join what was read to the main thread's list of this thread's clients."""
        self.node.count("list_moves")
        yield self.step(number, self.node.times.done_ps)
        notify = not self.running[MAIN] and not self.to_main[number]
        self.to_main[number].extend(self.read[number])
        self.read[number].clear()
        if notify:
            yield self.step(number, self.notification_ps(MAIN))
            self.notified_main[number] = True
            self.wake(MAIN)

    def take_back(self, number: int) -> Activity:
        """Take the whole list from the main thread and write; returns whether there was one."""
        node, times = self.node, self.node.times
        taken = list(self.from_main[number])
        if not taken:
            return False
        self.from_main[number].clear()
        yield self.step(number, times.done_ps)
        for client in taken:
            client.read_job = False
            yield self.step(number, times.pop_ps + node.write(client))
            node.deliver_reply(client)
        return True

    # --- polling, sleeping and waking -------------------------------------------------------

    def step(self, thread: int, duration_ps: int) -> Event:
        """A step of a thread, beginning now."""
        return self.node.threads[thread].agent.hold(self.node.work(thread, duration_ps))

    def events(self, thread: int) -> int:
        """How many eventfds of a thread are readable."""
        return sum(self.notified_main) if thread == MAIN else int(self.notified[thread])

    def wait(self, thread: int, *, dont_sleep: bool, slept: bool = False) -> Activity:
        """One epoll_wait; returns the clients whose sockets hold data."""
        node, times = self.node, self.node.times
        fired = node.poll(thread)
        while not (fired or self.events(thread) or dont_sleep):
            # On the way to sleep; what arrives meanwhile is found without blocking.
            yield self.step(thread, times.doze_ps)
            fired = node.poll(thread)
            if fired or self.events(thread):
                break
            yield self.sleep(thread)
            fired = node.poll(thread)
            slept = True
        duration = node.polling(len(fired) + self.events(thread))
        if slept:
            duration += node.count_block(node.unblocking_ps(node.threads[thread]))
        if thread == MAIN:
            duration += node.accept_inline()
        yield self.step(thread, duration)
        self.running[thread] = True
        return fired

    def sleep(self, thread: int) -> Event:
        """Sleep until what is on the thread's wire, a sender or a peer wakes it."""
        own, wire = self.node.threads[thread], self.node.request_wires[thread]
        asleep = self.node.fall_asleep(own)
        if wire:
            self.node.wake(own, wire[0][0])
        return asleep

    def notification_ps(self, peer: int) -> int:
        """Duration of a write to a peer's eventfd, which wakes it unless another did so."""
        node, times = self.node, self.node.times
        node.count("notifications")
        thread = node.threads[peer]
        if not thread.agent.sleeps_beyond(node.now + node.wake_latency_ps(thread)):
            return times.notify_ps
        waking_ps = node.wake_core_ps(thread) if node.wakes_core(thread.agent) else 0
        return times.notify_ps + waking_ps

    def wake(self, peer: int) -> None:
        """The write is done: a peer that sleeps runs as soon as it can."""
        node, thread = self.node, self.node.threads[peer]
        runs_ps = node.now + node.wake_latency_ps(thread)
        if thread.agent.sleeps_beyond(runs_ps):
            node.draw_wake_up(thread, node.now)
            thread.agent.wake(runs_ps)
