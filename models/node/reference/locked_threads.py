"""Policy: threads that execute by themselves, under locks (Memcached).

Every worker thread has an event loop and clients of its own. It reads, parses, executes and writes
for them; what threads share is protected by locks. A command holds one of 2^n item locks, chosen by
the hash of its key, while it looks its key up and reads or changes the item. What a SET replaces
leaves the list of its size class and the new item enters it under that list's lock; a GET only
leaves a mark on its item. Rules and constants: thread.c, items.c and doc/threads.txt of Memcached
1.6.

A thread that waits for a lock sleeps. The one that has waited longest is woken when the lock is
free; while it waits for a core as well, others may take the lock (glibc's mutex). Assumed: the
longest wait is over first, and waiting and waking cost no CPU time; a thread that turns to others
after 20 commands of a client (`-R`) reads the rest later, which takes about as long as asking epoll
for a socket that can be written and back. Left out: the listener's work is the first worker's.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

from forecache.sim.simpy_kernel import Activity
from forecache.sim.streams import draw4

from ..setup import DRAWS
from .node import Client, ReferenceNode

LOCK_DRAWS = 5


@dataclass
class Lock:
    """A lock and the threads that wait for it, in the order in which they came."""

    held: bool = False
    waiting: deque[int] = field(default_factory=deque)
    woken: bool = False
    """The first of them was woken and has not looked yet."""


def start(node: ReferenceNode) -> None:
    """Start the worker threads."""
    engine = LockedThreads(node)
    node.main.start(engine.worker(0))
    for number in range(1, node.setup.io_threads):
        # It begins asleep, for which it needs no core.
        node.env.process(engine.worker(number))


class LockedThreads:
    """The locks of items, and of the lists of size classes."""

    def __init__(self, node: ReferenceNode) -> None:
        self.node = node
        self.items: defaultdict[int, Lock] = defaultdict(Lock)
        self.lists: defaultdict[int, Lock] = defaultdict(Lock)

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
        """Hold a lock as soon as it is free."""
        if lock.held:
            self.node.count("lock_waits")
            lock.waiting.append(number)
            thread = self.node.threads[number]
            thread.waits_for_threads = True
            while lock.held:
                yield thread.agent.sleep()
                lock.woken = False
            thread.waits_for_threads = False
            lock.waiting.popleft()
        lock.held = True

    def release(self, lock: Lock) -> None:
        """The lock is free: wake the thread that has waited longest."""
        lock.held = False
        if lock.waiting and not lock.woken:
            lock.woken = True
            self.node.threads[lock.waiting[0]].agent.wake(self.node.now)

    def item_lock(self, client: Client) -> int:
        """The item lock of a client's next command: that of a popular key, or any."""
        setup = self.node.setup
        first, second, _, _ = draw4(
            setup.seed, setup.replication, client.number, LOCK_DRAWS, client.executed
        )
        popular = int(self.node.times.lock_by_draw[int(first) * DRAWS >> 32])
        return popular if popular >= 0 else int(second) % setup.item_locks
