"""The load generator as processes: its threads, and the sources of what they send."""

from collections import deque

from forecache.sim.simpy_kernel import Activity, Agent

from ..setup import rounded_capacity
from .arrivals import ANY_COMMAND, arrivals
from .node import Client, ReferenceNode


def start_load(node: ReferenceNode) -> None:
    """Start generator threads and sources; in a closed loop a thread starts with all clients."""
    setup = node.setup
    first_source = setup.io_threads + setup.generators
    sources: list[Agent] = []
    if setup.open_loop:
        for generator in range(setup.generators):
            agent = Agent(node.env, first_source + generator)
            agent.start(falling_due(node, agent, generator))
    else:
        for client in node.clients:
            generator = setup.generator_of(client.number)
            node.tasks[generator].append((starts_ps(node, generator), client, ANY_COMMAND))
        if setup.think_ps > 0:
            sources = [Agent(node.env, first_source + number) for number in range(setup.clients)]
            for client in node.clients:
                agent = sources[client.number]
                agent.start(thinking(node, agent, client))
    for generator in range(setup.generators):
        thread = node.threads[setup.io_threads + generator].agent
        thread.start(generator_thread(node, generator, sources), starts_ps(node, generator))


def starts_ps(node: ReferenceNode, generator: int) -> int:
    """When a thread of the load generator starts to send."""
    return 0 if node.setup.open_loop else generator * node.setup.generator_start_ps


def generator_thread(node: ReferenceNode, generator: int, sources: list[Agent]) -> Activity:
    """One thread: wait for replies and for requests that fall due, handle them in turn."""
    times, setup = node.times, node.setup
    number = setup.io_threads + generator
    thread = node.threads[number].agent
    wire = node.reply_wires[generator]
    tasks = node.tasks[generator]
    ready: deque[Client] = deque()
    woken = dozed = False
    yield thread.hold_until(max(node.now, starts_ps(node, generator)))
    while True:
        while wire and wire[0][0] <= node.now:
            arrived_ps, client, replies = wire.popleft()
            client.returned += replies
            if not client.ready:
                client.ready, client.ready_ps = True, arrived_ps
                ready.append(client)
        due = sendable(node, generator)
        found = len(ready) + due
        if found == 0 and setup.generator_spins:
            # It keeps polling; how many polls find nothing does not matter.
            if wire:
                yield thread.hold_until(wire[0][0])
            else:
                yield thread.spin()
            continue
        if found == 0:
            if not dozed:
                # On the way to sleep; what arrives meanwhile is found without a wake-up.
                dozed = True
                yield thread.hold(node.work(number, times.doze_ps))
                continue
            woken, dozed = True, False
            own = node.threads[number]
            own.slept_ps = node.now
            if wire:
                stamp_ps = wire[0][0]
                yield thread.sleep_until(stamp_ps + node.wake_up(own, stamp_ps))
            else:
                yield thread.sleep()
            continue
        node.count("generator_polls")
        polling = times.generator_poll_ps + found * times.generator_poll_event_ps
        # An epoll_wait that slept costs the sleep as well.
        polling += node.unblocking_ps(node.threads[number]) if woken else 0
        woken = dozed = False
        yield thread.hold(node.work(number, polling))
        replies = len(ready)
        while replies + due > 0:
            # Where clients ask for an event to send, both are on one ready list, in the order in
            # which they became ready.
            later = setup.polls_to_send and due and replies and tasks[0][0] < ready[0].ready_ps
            if replies > 0 and not later:
                replies -= 1
                yield from handle_replies(node, number, ready, sources)
            else:
                due -= 1
                yield from send_task(node, number, *tasks.popleft())


def handle_replies(
    node: ReferenceNode, number: int, ready: deque[Client], sources: list[Agent]
) -> Activity:
    """Take replies of the next ready client with one read; what is left is for the next poll.

    When its batch is complete, it sends the next, at once or after the next poll, or starts to
    think. A tool that refills sends one request for each reply at once.
    """
    times, setup = node.times, node.setup
    client = ready.popleft()
    thread = node.threads[number].agent
    waking_ps = node.waking_owner_ps(client)
    batch = 1 if setup.open_loop else setup.pipeline
    if client.taken_bytes == 0 and client.received % batch == 0:
        client.first_read_ps = node.now
    replies, size_bytes = read_replies(node, client)
    parsing_ps = len(replies) * times.generator_reply_ps
    duration = times.generator_recv_ps + parsing_ps
    duration += node.copying(size_bytes, times.generator_recv_ps_per_kib)
    client.ready = client.received < client.returned
    yield thread.hold(node.work(number, duration))
    if client.ready:
        client.ready_ps = node.now
        ready.append(client)
    read_ps = client.first_read_ps if setup.counts_first_read else node.now - parsing_ps
    for index in replies:
        node.complete(client, index, read_ps)
    due = len(replies) if setup.generator_refills else setup.pipeline
    if due == 0 or (client.received < client.sent and not setup.generator_refills):
        return
    if setup.open_loop:
        node.idle[number - setup.io_threads].append(client)
        return
    if setup.polls_to_send:
        node.tasks[number - setup.io_threads].append((node.now, client, ANY_COMMAND))
        return
    if setup.think_ps > 0:
        sources[client.number].wake(node.now + setup.think_ps)
        return
    size_bytes = node.compose(client, due, node.now)
    duration = sending(node, due, size_bytes, waking_ps)
    yield thread.hold(node.work(number, duration))
    node.deliver_request(client, due, size_bytes)


def read_replies(node: ReferenceNode, client: Client) -> tuple[range, int]:
    """One read: the replies that are complete with it, and its bytes."""
    first, left = client.received, node.setup.generator_read_bytes
    while left > 0 and client.received < client.returned:
        size_bytes = node.reply_bytes(client, client.received, client.received + 1)
        missing = size_bytes - client.taken_bytes
        taken = min(missing, left)
        left -= taken
        client.taken_bytes += taken
        if taken == missing:
            client.taken_bytes = 0
            client.received += 1
    return range(first, client.received), node.setup.generator_read_bytes - left


def sendable(node: ReferenceNode, generator: int) -> int:
    """How many due requests can be sent now: in an open loop those that find a connection."""
    tasks = len(node.tasks[generator])
    return min(tasks, len(node.idle[generator])) if node.setup.open_loop else tasks


def send_task(
    node: ReferenceNode, number: int, due_ps: int, client: Client | None, code: int
) -> Activity:
    """Send what fell due; in an open loop on the connection that has waited longest."""
    setup = node.setup
    thread = node.threads[number].agent
    commands = setup.pipeline
    if client is None:
        client = node.idle[number - setup.io_threads].popleft()
        commands = 1
    elif setup.polls_to_send:
        # The tool starts its clock when it sends.
        node.count("unsent_ps", commands * node.inside_window(due_ps, node.now))
        due_ps = node.now
    waking_ps = node.waking_owner_ps(client)
    size_bytes = node.compose(client, commands, due_ps, code)
    yield thread.hold(node.work(number, sending(node, commands, size_bytes, waking_ps)))
    node.deliver_request(client, commands, size_bytes)


def sending(node: ReferenceNode, commands: int, size_bytes: int, waking_ps: int) -> int:
    """Duration of one send; on the same host it wakes the core of the client's owner itself."""
    times = node.times
    duration = times.generator_send_ps + commands * times.generator_request_ps
    duration += node.copying(size_bytes, times.generator_send_ps_per_kib)
    return duration + (waking_ps if node.setup.same_host else 0)


def falling_due(node: ReferenceNode, agent: Agent, generator: int) -> Activity:
    """Open loop: requests of one generator thread fall due."""
    yield agent.hold(0)
    for due_ps, code in arrivals(node.times, node.setup, generator):
        yield agent.hold(due_ps - node.now)
        node.count("arrivals")
        fall_due(node, generator, None, code)


def thinking(node: ReferenceNode, agent: Agent, client: Client) -> Activity:
    """Closed loop with think time: the client's next batch falls due when it has thought."""
    while True:
        yield agent.sleep()
        fall_due(node, node.setup.generator_of(client.number), client)


def fall_due(
    node: ReferenceNode, generator: int, client: Client | None, code: int = ANY_COMMAND
) -> None:
    """Tell a generator thread to send; it is awake at once.

    Parameters
    ----------
    client
        None in an open loop: any connection will do.
    code
        Of the command, where a trace says it.
    """
    setup = node.setup
    # A thread keeps a limited number of due requests.
    closed = rounded_capacity(setup.outstanding_limit)
    per_client = setup.backlog_limit if setup.open_loop else closed
    per_generator = -(-setup.clients // setup.generators)
    if len(node.tasks[generator]) >= rounded_capacity(per_generator * per_client):
        node.count("overflows")
        return
    node.tasks[generator].append((node.now, client, code))
    if setup.open_loop:
        node.change_backlog(1)
    thread = node.threads[setup.io_threads + generator]
    # Without a free connection there is nothing to send: only a reply wakes the thread.
    if node.stays_asleep(thread.agent) and sendable(node, generator) > 0:
        thread.rested_ps = node.now - thread.slept_ps
        thread.agent.wake(node.now)
