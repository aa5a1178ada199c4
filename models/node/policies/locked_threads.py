"""Policy: threads that execute by themselves, under locks (Memcached).

Every worker thread has an event loop and clients of its own. It reads, parses, executes and writes
for them; what threads share is protected by locks. A command holds one of 2^n item locks, chosen by
the hash of its key, while it looks its key up and reads or changes the item. A GET only leaves a
mark on its item. A SET takes locks of the whole process besides, one at a time (`SECTIONS`): for
memory, for statistics, for the number that the new item gets, for the list that the old one leaves
and for the one that the new one enters. Rules and constants: thread.c, items.c, slabs.c and
doc/threads.txt of Memcached 1.6.

Locks are glibc's (nptl/lowlevellock.c). Whoever finds one taken marks it contended and asks the
kernel to sleep, which refuses if the lock has been released meanwhile. Whoever releases a contended
lock asks the kernel to wake who has slept longest; until that thread runs, others may take the
lock. One that has slept leaves the lock contended when it takes it, since it can't know whether
others sleep. What a lock protects has to be fetched from the core that held it last.

A thread turns to others after 20 commands of a client (`-R`): it writes their replies, asks epoll
whether the socket can be written to (update_event: out of epoll and in again), and parses the rest
out of the buffer that it was read into.

Left out: the listener's work is the first worker's; the thread that moves items between lists.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

from forecache.sim.simpy_kernel import Activity

from ..reference import Client, ReferenceNode, draw
from ..setup import DRAWS

LOCK_DRAWS = 5
MEMORY, STATISTICS, NUMBERS, NEW_LIST, OLD_LIST = range(5)
SECTIONS = (MEMORY, STATISTICS, OLD_LIST, STATISTICS, NUMBERS, NEW_LIST, MEMORY)
"""What a SET locks, one after the other: all but the first while it holds its item's lock."""


@dataclass
class Lock:
    """A lock, who held it last, and the threads that sleep until it is free, first come first."""

    held: bool = False
    contended: bool = False
    holder: int | None = None
    sleepers: deque[int] = field(default_factory=deque)


def start(node: ReferenceNode) -> None:
    """Start the worker threads."""
    engine = LockedThreads(node)
    node.main.start(engine.worker(0))
    for number in range(1, node.setup.io_threads):
        # It begins asleep, for which it needs no core.
        node.env.process(engine.worker(number))


class LockedThreads:
    """The locks of items, and those of the process by what they protect and size class."""

    def __init__(self, node: ReferenceNode) -> None:
        self.node = node
        self.items: defaultdict[int, Lock] = defaultdict(Lock)
        self.of_process: defaultdict[tuple[int, int], Lock] = defaultdict(Lock)

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
                duration += node.count_block(node.reschedule_ps(node.threads[number]))
            if number == 0:
                duration += node.accept_inline()
            slept = dozed = False
            yield agent.hold(node.work(number, duration))
            for client in node.poll_results(readable, number):
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
        """Execute a client's next command under its item lock and, if it stores, the process's."""
        node = self.node
        agent = node.threads[number].agent
        code = client.commands[client.executed].code
        replacing_ps = int(node.times.free_by_code_ps[code])
        item, sections = self.next_locks(client)
        if replacing_ps:
            yield from self.section(number, sections[0], 0)
        yield from self.take(number, item)
        yield agent.hold(node.work(number, node.execute_one(client) + replacing_ps))
        if replacing_ps:
            node.count("freed_values")
            for position in range(1, len(SECTIONS)):
                yield from self.section(number, sections[position], position)
        yield from self.release(number, item)

    def section(self, number: int, lock: Lock, position: int) -> Activity:
        """What a SET does under one of the process's locks."""
        node = self.node
        yield from self.take(number, lock)
        duration_ps = int(node.times.section_ps[position])
        if lock.holder not in (None, number):
            duration_ps += int(node.times.section_moved_ps[position])
        lock.holder = number
        agent = node.threads[number].agent
        yield agent.hold(node.work(number, duration_ps))
        if lock.contended:
            # Others have fetched the lock meanwhile.
            yield agent.hold(node.work(number, node.times.handover_ps))
        yield from self.release(number, lock)

    def take(self, number: int, lock: Lock) -> Activity:
        """Hold a lock as soon as it is free."""
        if not lock.held:
            lock.held = True
            return
        node, thread = self.node, self.node.threads[number]
        times, agent = node.times, thread.agent
        node.count("lock_waits")
        while lock.held:
            lock.contended = True
            yield agent.hold(node.work(number, times.futex_ps))
            if not lock.contended:
                continue  # released, or taken by another since: the kernel refuses
            lock.sleepers.append(number)
            # On the way to sleep, a wake-up takes no time.
            yield agent.hold(node.work(number, times.doze_ps))
            if number in lock.sleepers:
                thread.waits_for_threads = True
                yield agent.sleep()
                thread.waits_for_threads = False
                yield agent.hold(node.work(number, times.block_ps))
        lock.held = lock.contended = True

    def release(self, number: int, lock: Lock) -> Activity:
        """The lock is free; if somebody may sleep, wake who has slept longest."""
        node, times = self.node, self.node.times
        contended = lock.contended
        lock.held = lock.contended = False
        if not contended:
            return
        duration_ps = times.futex_ps + (times.wake_send_ps if lock.sleepers else 0)
        yield node.threads[number].agent.hold(node.work(number, duration_ps))
        if lock.sleepers:
            thread = node.threads[lock.sleepers.popleft()]
            if thread.waits_for_threads:
                node.wake(thread, node.now)

    def next_locks(self, client: Client) -> tuple[Lock, list[Lock]]:
        """The item lock of a client's next command, and those of the sections of a SET.

        The item lock is that of a popular key, or any. Both lists are those of any size class: a
        new value is as large as any, and so was the old one.
        """
        setup, times = self.node.setup, self.node.times
        drawn = draw(setup, client.number, LOCK_DRAWS, client.executed)
        popular = int(times.lock_by_draw[int(drawn[0]) * DRAWS >> 32])
        item = self.items[popular if popular >= 0 else int(drawn[1]) % setup.item_locks]
        new, old = (int(times.list_by_draw[int(word) * DRAWS >> 32]) for word in drawn[2:4])
        size_class = {NEW_LIST: new, OLD_LIST: old}
        return item, [self.of_process[kind, size_class.get(kind, 0)] for kind in SECTIONS]
