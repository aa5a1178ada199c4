"""Policy: a single thread. One event loop reads, executes and writes for all clients.

Every engine with io-threads 1 (Redis 2.8 to today, Valkey). Each turn of the loop: one epoll_wait;
read, parse and execute what each ready client has sent; then, before sleeping again, write the
replies, last client first because new replies enter the list of pending writes at its head.
"""

from forecache.sim.simpy_kernel import Activity

from .node import Client, ReferenceNode


def start(node: ReferenceNode) -> None:
    """Start the server's only thread."""
    node.main.start(main_thread(node))


def main_thread(node: ReferenceNode) -> Activity:
    """The event loop."""
    times, main = node.times, node.main
    yield main.hold(0)
    while True:
        readable = node.poll()
        slept = 0
        while not readable:
            # On the way to sleep; what arrives meanwhile is found without a wake-up.
            yield main.hold(node.work(0, times.doze_ps))
            readable = node.poll()
            if readable:
                break
            yield node.sleep_in_epoll()
            readable = node.poll()
            if readable:
                slept = node.count_block(node.scheduled_again_ps(node.threads[0]))
        duration = node.polling(len(readable)) + slept + node.accept_alone()
        yield main.hold(node.work(0, duration))

        pending: list[Client] = []
        for client in node.reported(readable):
            duration = node.read(client) + node.execute(client, fetched=0, parsed=0)
            node.count("inline_reads")
            yield main.hold(node.work(0, duration))
            client.executed = client.read
            if client.executed > client.written:
                pending.append(client)

        if node.logged_bytes:
            yield main.hold(node.work(0, node.flush()))
        for client in reversed(pending):
            node.count("inline_writes")
            yield main.hold(node.work(0, node.write(client)))
            node.deliver_reply(client)

        node.count("loops")
        yield main.hold(node.work(0, times.loop_ps))
