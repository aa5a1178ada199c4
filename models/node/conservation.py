"""What must hold in every run: requests are conserved, and Little's law.

The checks read the compiled execution's memory after its last event. They cost less than a
millisecond, so every run is checked.
"""

import numpy as np

from . import layout as at
from .setup import owners

_ALONG_THE_WAY = ("sent", "arrived", "read", "executed", "written", "returned", "received")
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
    along = np.array([clients[name] for name in _ALONG_THE_WAY])
    wrong = np.argwhere(along[:-1] < along[1:])
    if len(wrong):
        place, client = wrong[0]
        earlier, later = _ALONG_THE_WAY[place : place + 2]
        _fail(f"client {client} has more commands {later} than {earlier}")
    setup = node.setup
    threads = range(setup.io_threads, setup.io_threads + setup.generators)
    requests = _commands_on(node, owners(setup), "request_wire")
    # What a generator thread has composed but not yet sent.
    composing = node.threads[setup.io_threads :]
    composing = composing[composing["client"] != 0]
    rows = (composing["client"] - node.counter("client_rows")) // clients.dtype.itemsize
    np.add.at(requests, rows, composing["count"])
    _same(clients["sent"], clients["arrived"] + requests, "requests on the way")
    replies = _commands_on(node, threads, "queue")
    _same(clients["written"], clients["returned"] + replies, "replies on the way")

    completions = node.counter("completions")
    recorded = node.latency().count
    if recorded != completions:
        _fail(f"{recorded} latencies are recorded for {completions} completions")
    in_series = int(node.series()[:, 0].sum())
    received = int(clients["received"].sum())
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


def _commands_on(node: at.Node, threads: range, wire: str) -> np.ndarray:
    """Commands (or replies) of each client that lie on this wire of these threads."""
    entries = node.on_wires(threads, wire)
    # Sums of whole numbers far below 2^53 are exact.
    counted = np.bincount(
        entries["number"], weights=entries["commands"], minlength=node.setup.clients
    )
    return counted.astype(np.int64)


def _check_flow(node: at.Node, clients: np.ndarray, completions: int) -> None:
    """Open loop: what was due at the window's start or arrived in it completed or is still due."""
    found = node.waiting() + int(clients["sent"].sum())
    found -= node.counter("completed_early") + completions
    if found != node.backlog_at_end():
        _fail(
            f"{node.backlog_at_start()} requests due before the window and "
            f"{node.counter('arrivals')} arrivals, less {node.counter('overflows')} without room "
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
    spent_ps += node.counter("uncounted_ps") + node.counter("unsent_ps")
    # Clients whose thread of the load generator starts later wait for that first.
    starts_ps = setup.generator_of(np.arange(setup.clients)) * setup.generator_start_ps
    spent_ps += _inside_ps(np.minimum(starts_ps, setup.end_ps) - setup.warmup_ps)
    # One whose thread has had no core yet, since others spin on them all, waits until the end.
    never = clients["sent"] == 0
    spent_ps += _inside_ps(setup.end_ps - np.maximum(starts_ps[never], setup.warmup_ps))
    # Requests still in flight have waited since they fell due: one in each of a client's slots
    # that follow those whose replies it has taken.
    slots = node.outstanding_slots()
    place = np.arange(slots) - clients["received"][:, np.newaxis]
    in_flight = (place & (slots - 1)) < (clients["sent"] - clients["received"])[:, np.newaxis]
    since_ps = np.maximum(node.commands()["due_ps"][in_flight], setup.warmup_ps)
    spent_ps += _inside_ps(setup.end_ps - since_ps)
    mean = spent_ps / (setup.clients * window_ps)
    ends = (latency.max_ps + setup.think_ps) / window_ps + _TOLERANCE
    if not 1.0 - ends <= mean <= setup.pipeline * (1.0 + ends):
        _fail(
            f"Little's law gives {mean:.4f} batches on the way per client, expected 1"
            + (f" to {setup.pipeline}" if setup.pipeline > 1 else "")
            + f" within {ends:.1%}"
        )


def _inside_ps(durations_ps: np.ndarray) -> float:
    """The sum of those above 0, which may be more than 64 bits hold."""
    return float(np.maximum(durations_ps, 0).sum(dtype=float))
