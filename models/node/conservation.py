"""What must hold in every run: requests are conserved, and Little's law.

The checks read the compiled execution's memory after its last event. They cost less than a
millisecond, so every run is checked.
"""

from itertools import pairwise

import numpy as np

from . import layout as at
from .setup import owners

_ALONG_THE_WAY = (at.SENT, at.ARRIVED, at.READ, at.EXECUTED, at.WRITTEN, at.RETURNED, at.RECEIVED)
_NAMES = ("sent", "arrived", "read", "executed", "written", "returned", "received")
_LONG_RUN = 50
"""Batches per client from which the ends of the window hardly matter in Little's law."""
_TOLERANCE = 0.02


def check_conservation(node: at.Node) -> None:
    """Compare the counts of a finished run.

    Raises
    ------
    RuntimeError
        If commands were lost or made up, if counters disagree, or if Little's law fails. That is
        an error in the program, never in its input.
    """
    clients = node.clients()
    for earlier, later in pairwise(_ALONG_THE_WAY):
        wrong = np.flatnonzero(clients[:, earlier] < clients[:, later])
        if len(wrong):
            names = [_NAMES[_ALONG_THE_WAY.index(field)] for field in (later, earlier)]
            _fail(f"client {wrong[0]} has more commands {names[0]} than {names[1]}")
    setup = node.setup
    # What a generator thread has composed but not yet sent; -1 and 0 are no client.
    requests = _commands_on(node, [at.thread_at(n) + at.REQUEST_WIRE for n in owners(setup)])
    for generator in range(setup.generators):
        agent = setup.io_threads + generator
        client = node.thread(agent, at.CLIENT)
        if client > 0:
            number = (client - int(node.memory[at.CLIENT_ROWS])) // at.CLIENT_WORDS
            requests[number] += node.thread(agent, at.COUNT)
    _same(clients[:, at.SENT], clients[:, at.ARRIVED] + requests, "requests on the way")
    threads = range(setup.io_threads, setup.io_threads + setup.generators)
    replies = _commands_on(node, [at.thread_at(agent) + at.QUEUE for agent in threads])
    _same(clients[:, at.WRITTEN], clients[:, at.RETURNED] + replies, "replies on the way")

    completions = node.counter(at.COMPLETIONS)
    recorded = node.latency().count
    if recorded != completions:
        _fail(f"{recorded} latencies are recorded for {completions} completions")
    in_series = int(node.series()[:, 0].sum())
    received = int(clients[:, at.RECEIVED].sum())
    if not completions <= in_series <= received:
        _fail(f"{completions} measured of {in_series} completions of {received} received replies")
    if setup.open_loop:
        _check_flow(node, clients, completions)
    elif completions >= _LONG_RUN * setup.clients * setup.pipeline:
        _check_littles_law(node, clients, completions)


def _fail(what: str) -> None:
    raise RuntimeError(f"node simulation is inconsistent: {what}")


def _same(expected: np.ndarray, found: np.ndarray, what: str) -> None:
    wrong = np.flatnonzero(expected != found)
    if len(wrong):
        client = wrong[0]
        _fail(f"{what} of client {client}: {expected[client]} counted, {found[client]} found")


def _commands_on(node: at.Node, wires: list[int]) -> np.ndarray:
    """Commands (or replies) of each client that lie on the wires at these offsets."""
    found = np.zeros(node.setup.clients, np.int64)
    for wire in wires:
        numbers, commands = node.on_wire(wire).T
        np.add.at(found, numbers, commands)
    return found


def _check_flow(node: at.Node, clients: np.ndarray, completions: int) -> None:
    """Open loop: what was due at the window's start or arrived in it completed or is still due."""
    found = node.waiting() + int(clients[:, at.SENT].sum())
    found -= int(node.memory[at.COMPLETED_EARLY]) + completions
    if found != node.backlog_at_end():
        _fail(
            f"{node.backlog_at_start()} requests due before the window and "
            f"{node.counter(at.ARRIVALS)} arrivals, less {node.counter(at.OVERFLOWS)} without room "
            f"and {completions} completions, leave {node.backlog_at_end()}, but {found} are found"
        )


def _check_littles_law(node: at.Node, clients: np.ndarray, completions: int) -> None:
    """Closed loop: every client either thinks or waits for a batch of replies.

    Both times together add up to the window, for each client. A batch takes as long as the slowest
    of its commands: at pipeline 1 the sum is exact up to the ends of the window, otherwise it lies
    between one and `pipeline` times the window.
    """
    setup = node.setup
    window_ps = setup.end_ps - setup.warmup_ps
    latency = node.latency()
    spent_ps = latency.sum_ps + setup.think_ps * completions / setup.pipeline
    # Clients whose thread of the load generator starts later wait for that first.
    for client in range(setup.clients):
        starts_ps = min(setup.generator_of(client) * setup.generator_start_ps, setup.end_ps)
        spent_ps += max(0, starts_ps - setup.warmup_ps)
    # Requests still in flight have waited since they fell due.
    slots = node.outstanding_slots()
    due_ps = node.commands(at.DUE_PS)
    for client in range(setup.clients):
        for index in range(clients[client, at.RECEIVED], clients[client, at.SENT]):
            since = max(int(due_ps[client, index & (slots - 1)]), setup.warmup_ps)
            spent_ps += max(0, setup.end_ps - since)
    mean = spent_ps / (setup.clients * window_ps)
    ends = (latency.max_ps + setup.think_ps) / window_ps + _TOLERANCE
    if not 1.0 - ends <= mean <= setup.pipeline * (1.0 + ends):
        _fail(
            f"Little's law gives {mean:.4f} batches on the way per client, expected 1"
            + (f" to {setup.pipeline}" if setup.pipeline > 1 else "")
            + f" within {ends:.1%}"
        )
