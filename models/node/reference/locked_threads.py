"""Policy: threads that execute by themselves, under locks (Memcached).

Every worker thread has an event loop and clients of its own. It reads, parses, executes and writes
for them; what threads share is protected by locks. A command holds one of 2^n item locks, chosen by
the hash of its key, while it looks its key up and reads or changes the item. What a SET replaces
leaves the list of its size class and the new item enters it under that list's lock; a GET only
leaves a mark on its item. Rules and constants: thread.c, items.c and doc/threads.txt of Memcached
1.6.

Assumed: who waits for a lock gets it in turn, and waiting costs no CPU time. Left out: a request of
many commands is not interrupted after 20 of them (`-R`); the listener's work is the first worker's.
"""

from __future__ import annotations

from collections import defaultdict, deque

from forecache.sim.simpy_kernel import Activity
from forecache.sim.streams import draw4

from ..setup import DRAWS
from .node import Client, ReferenceNode

LOCK_DRAWS = 5

Lock = deque[int]
"""The thread that holds it, and those that wait."""


def start(node: ReferenceNode) -> None:
    """Start the worker threads."""
    engine = LockedThreads(node)
    for number in range(node.setup.io_threads):
        node.threads[number].agent.start(engine.worker(number))


class LockedThreads:
    """The locks: who holds each, and who waits for it, in the order in which they came."""

    def __init__(self, node: ReferenceNode) -> None:
        self.node = node
        self.items: defaultdict[int, Lock] = defaultdict(deque)
        self.lists: defaultdict[int, Lock] = defaultdict(deque)
        # What waits for a lock is not woken by a request.
        self.waiting = [node.new_agent(number) for number in range(node.setup.io_threads)]

    def worker(self, number: int) -> Activity:
        """One thread's event loop."""
        node, times = self.node, self.node.times
        agent = node.threads[number].agent
        slept = number > 0
        # Threads but the first begin asleep.
        yield agent.sleep() if slept else agent.hold(0)
        dozed = False
        while True:
            readable = node.poll(number)
            if not readable:
                if not dozed:
                    # On the way to sleep; what arrives meanwhile is found without a wake-up.
                    dozed = True
                    yield agent.hold(node.work(number, times.doze_ps))
                else:
                    slept, dozed = True, False
                    yield node.sleep_in_epoll(number)
                continue
            duration = node.polling(len(readable))
            if slept:
                node.count("blocks")
                duration += times.block_ps
            if number == 0:
                duration += node.accept_alone()
            slept = dozed = False
            yield agent.hold(node.work(number, duration))
            for client in readable:
                yield from self.serve(number, client)
            node.count("loops")
            yield agent.hold(node.work(number, times.loop_ps))

    def serve(self, number: int, client: Client) -> Activity:
        """Read from a client; parse and execute its commands one by one; write all replies."""
        node = self.node
        agent = node.threads[number].agent
        duration = node.read(client)
        if client.executed == client.read:
            yield agent.hold(node.work(number, duration))
        while client.executed < client.read:
            # The first command is parsed right after reading.
            duration += node.parse(client, client.executed, client.executed + 1)
            yield agent.hold(node.work(number, duration))
            yield from self.execute(number, client)
            client.executed += 1
            duration = 0
        if client.executed > client.written:
            yield agent.hold(node.work(number, node.write(client)))
            node.deliver_reply(client)

    def execute(self, number: int, client: Client) -> Activity:
        """Execute a client's next command under its item lock and, if it stores, its list's."""
        node = self.node
        agent = node.threads[number].agent
        code = client.commands[client.executed].code
        item = self.items[self.item_lock(client)]
        yield from self.take(number, item)
        yield agent.hold(node.work(number, node.execute_one(client)))
        linking_ps = int(node.times.free_by_code_ps[code])
        if linking_ps:
            yield from self.take(number, self.lists[code])
            node.count("freed_values")
            yield agent.hold(node.work(number, linking_ps))
            self.release(self.lists[code])
        self.release(item)

    def take(self, number: int, lock: Lock) -> Activity:
        """Wait until all who came before have released a lock."""
        lock.append(number)
        if len(lock) > 1:
            self.node.count("lock_waits")
            yield self.waiting[number].sleep()

    def release(self, lock: Lock) -> None:
        """The next thread goes on."""
        lock.popleft()
        if lock:
            self.waiting[lock[0]].wake(self.node.now)

    def item_lock(self, client: Client) -> int:
        """The item lock of a client's next command: that of a popular key, or any."""
        setup = self.node.setup
        first, second, _, _ = draw4(
            setup.seed, setup.replication, client.number, LOCK_DRAWS, client.executed
        )
        popular = int(self.node.times.lock_by_draw[int(first) * DRAWS >> 32])
        return popular if popular >= 0 else int(second) % setup.item_locks
