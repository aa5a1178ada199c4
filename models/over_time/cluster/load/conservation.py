"""What must hold in every run of a cluster: no request is lost, none is made up."""

from __future__ import annotations

import numpy as np

from ..nodes import Nodes


def check_conservation(nodes: Nodes, future: np.ndarray, opened_before: np.ndarray) -> None:
    """Compare the counts of all nodes.

    Parameters
    ----------
    future
        (horizon, nodes, attempts) attempts that are due.
    opened_before
        (nodes,) connections that were there before the run.

    Raises
    ------
    RuntimeError
        They disagree, which is a fault of the program, never of its input.
    """
    state = nodes.state
    waiting = nodes.connect_queue.waiting + nodes.request_queue.waiting
    _same(
        "attempts",
        state["attempts"],
        state["answered"] + state["timed_out"] + state["refused"] + waiting,
    )
    _same("requests", state["offered"] + state["retries"], state["attempts"] + state["backing_off"])
    _same(
        "what went wrong", state["timed_out"] + state["refused"], state["failed"] + state["retries"]
    )
    _same("attempts to come", state["backing_off"], future.sum(axis=(0, 2)))
    _same("connections", opened_before + state["connected"], state["open"] + state["closed"])
    for name in state.dtype.names or ():
        negative = np.flatnonzero(state[name] < 0)
        if len(negative):
            raise RuntimeError(f"cluster simulation: node {negative[0]} has a negative {name}")


def _same(what: str, one: np.ndarray, other: np.ndarray) -> None:
    wrong = np.flatnonzero(one != other)
    if len(wrong):
        node = wrong[0]
        raise RuntimeError(
            f"cluster simulation is inconsistent: {what} of node {node}: {one[node]} and "
            f"{other[node]}"
        )
