"""Policy: enhanced I/O multiplexing (ElastiCache for Redis 7.0, 7.1).

Each I/O thread has an event loop and clients of its own, and one channel to the main thread: what
it has read for many clients in a turn goes into the channel as one batch, and the replies come back
as one. The main thread looks at a few channels and not at hundreds of clients. From 7.1 on
(`whole_pipeline`) the I/O threads parse as well, and the main thread looks the keys of a batch up
together.

That much is published. Assumed, as Redis 8 does it: no thread spins, a thread that hands work to
a sleeper wakes it, and a client whose commands are with the main thread is not read meanwhile.
"""

from __future__ import annotations

from collections import deque

from forecache.sim.simpy_kernel import Activity

from ..reference import Client, ReferenceNode, Thread

Channel = deque[tuple[int, Client]]
"""Clients, with the time from which the other side can see them."""


def start(node: ReferenceNode) -> None:
    """Start the main thread and the I/O threads."""
    engine = Multiplexed(node)
    node.main.start(engine.main_thread())
    for number in range(1, node.setup.io_threads):
        # It begins asleep, for which it needs no core.
        node.env.process(engine.io_thread(number))


class Multiplexed:
    """The channels between the main thread and its I/O threads."""

    def __init__(self, node: ReferenceNode) -> None:
        self.node = node
        self.commands: list[Channel] = [deque() for _ in range(node.setup.io_threads)]
        self.replies: list[Channel] = [deque() for _ in range(node.setup.io_threads)]
        self.accepted = 0
        self.handshakes = [0] * node.setup.io_threads

    # --- the main thread ----------------------------------------------------------------------

    def main_thread(self) -> Activity:
        """Serve channel by channel what has arrived; sleep when a turn finds nothing."""
        node, times, main = self.node, self.node.times, self.node.main
        others = range(1, node.setup.io_threads)
        yield main.hold(0)
        while True:
            looks = times.loop_ps + len(others) * times.scan_ps + node.flush() + self.accept()
            yield main.hold(node.work(0, looks))
            served = False
            for number in others:
                batch = self.seen(self.commands[number])
                if batch:
                    served = True
                    yield from self.serve(number, batch)
            node.count("loops")
            if not served:
                yield from self.sleep_main()

    def accept(self) -> int:
        """Accept what has arrived; each I/O thread in turn gets a handshake for its next turn."""
        node, times = self.node, self.node.times
        if not node.setup.offload_handshakes:
            return node.accept_inline()
        taken = node.take_connections()
        for _ in range(taken):
            self.accepted += 1
            self.handshakes[self.accepted % (node.setup.io_threads - 1) + 1] += 1
        return taken * times.accept_ps

    def serve(self, number: int, batch: list[Client]) -> Activity:
        """Execute a channel's batch and hand the replies back together."""
        node, times, main = self.node, self.node.times, self.node.main
        yield main.hold(node.work(0, times.collect_ps))
        waiting = deque(batch)
        while waiting:
            group, keys = node.take_batch(waiting, self.parsed_keys)
            if keys:
                node.count("prefetch_batches")
                node.count("prefetched_keys", keys)
                yield main.hold(node.work(0, int(times.prefetch_by_keys_ps[keys])))
            for client in group:
                parsed = self.parsed_commands(client)
                fetched = min(self.parsed_keys(client), keys)
                keys -= fetched
                freeing = node.free_times_ps(client)
                node.count("freed_values", len(freeing))
                node.count("inline_frees", len(freeing))
                # The entry is taken out of one channel, another put into the other.
                duration = node.execute(client, fetched=fetched, parsed=parsed) + 2 * times.push_ps
                yield main.hold(node.work(0, duration + sum(freeing)))
                client.executed = client.read
        thread = node.threads[number]
        if self.sleeps(thread):
            yield main.hold(node.work(0, node.count_wake(node.wake_core_ps(thread))))
        self.hand_over(batch, self.replies[number], thread)

    def parsed_commands(self, client: Client) -> int:
        """Commands its I/O thread has parsed: all, or none."""
        return client.read - client.executed if self.node.setup.whole_pipeline else 0

    def parsed_keys(self, client: Client) -> int:
        """Keys of those commands."""
        first = client.executed
        return self.node.keys(client, first, first + self.parsed_commands(client))

    def sleep_main(self) -> Activity:
        """Sleep until an I/O thread hands something over."""
        node, times, main = self.node, self.node.times, self.node.main
        # On the way to sleep; what is handed over meanwhile is found without a wake-up.
        yield main.hold(node.work(0, times.doze_ps))
        coming = [channel[0][0] for channel in self.commands if channel]
        if coming:
            yield main.hold_until(max(node.now, min(coming)))
            return
        own = node.threads[0]
        yield node.fall_asleep(own)
        slept_ps = node.count_block(node.reschedule_ps(own))
        yield main.hold(node.work(0, slept_ps + node.polling(1)))

    # --- an I/O thread ------------------------------------------------------------------------

    def io_thread(self, number: int) -> Activity:
        """Read what clients have sent, hand it over, write the replies that came back."""
        node, times = self.node, self.node.times
        agent, replies = node.threads[number].agent, self.replies[number]
        yield agent.sleep()
        slept, dozed = True, False
        while True:
            readable = node.poll(number)
            answered = self.seen(replies)
            if not readable and not answered and not self.handshakes[number]:
                if not dozed:
                    dozed = True
                    yield agent.hold(node.work(number, times.doze_ps))
                elif replies:
                    yield agent.hold_until(replies[0][0])
                else:
                    slept, dozed = True, False
                    yield node.sleep_in_epoll(number)
                continue
            duration = node.polling(len(readable))
            duration += self.handshakes[number] * times.handshake_ps
            self.handshakes[number] = 0
            if slept:
                duration += node.count_block(node.reschedule_ps(node.threads[number]))
            slept = dozed = False
            yield agent.hold(node.work(number, duration))
            yield from self.read_all(number, readable)
            for client in answered:
                yield agent.hold(node.work(number, times.pop_ps + node.write(client)))
                node.deliver_reply(client)
                client.read_job = False

    def read_all(self, number: int, readable: list[Client]) -> Activity:
        """Read, and from 7.1 on parse, what clients have sent, and hand it over as one batch."""
        node, times = self.node, self.node.times
        agent = node.threads[number].agent
        batch: list[Client] = []
        for client in readable:
            if client.read_job:
                # Its earlier commands are still with the main thread.
                yield agent.hold(node.work(number, times.scan_ps))
                continue
            duration = node.read(client)
            if node.setup.whole_pipeline:
                duration += node.parse(client, client.executed, client.read)
            if client.read > client.executed:
                duration += times.pop_ps
                client.read_job = True
                batch.append(client)
            yield agent.hold(node.work(number, duration))
        if not batch:
            return
        main = node.threads[0]
        if self.sleeps(main):
            yield agent.hold(node.work(number, node.count_wake(node.wake_core_ps(main))))
        self.hand_over(batch, self.commands[number], main)

    # --- channels -----------------------------------------------------------------------------

    def seen(self, channel: Channel) -> list[Client]:
        """Take out of a channel what can be seen by now."""
        clients = []
        while channel and channel[0][0] <= self.node.now:
            clients.append(channel.popleft()[1])
        return clients

    def sleeps(self, thread: Thread) -> bool:
        """Whether a thread sleeps and nothing has begun to wake it."""
        return thread.agent.sleeps_beyond(self.node.now + thread.wake_latency_ps)

    def hand_over(self, batch: list[Client], channel: Channel, reader: Thread) -> None:
        """Put a batch into a channel; its reader, if it sleeps, runs as soon as it can."""
        node, times = self.node, self.node.times
        seen_ps = node.now + times.handover_ps
        channel.extend((seen_ps, client) for client in batch)
        runs_ps = max(seen_ps, node.now + reader.wake_latency_ps)
        if reader.agent.sleeps_beyond(runs_ps):
            node.draw_wake_up(reader, node.now)
            reader.agent.wake(runs_ps)
