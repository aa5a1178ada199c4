"""What must hold in every run of a cluster: no request is lost, none is made up."""

from __future__ import annotations

import numpy as np

from .nodes import (
    ANSWERED,
    ATTEMPTS,
    BACKING_OFF,
    CLOSED,
    CONNECTED,
    FAILED,
    OFFERED,
    OPEN,
    REFUSED,
    RETRIES,
    TIMED_OUT,
    Nodes,
)


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
    state = nodes.state.T
    waiting = nodes.connect_queue.waiting + nodes.request_queue.waiting
    _same(
        "attempts",
        state[ATTEMPTS],
        state[ANSWERED] + state[TIMED_OUT] + state[REFUSED] + waiting,
    )
    _same("requests", state[OFFERED] + state[RETRIES], state[ATTEMPTS] + state[BACKING_OFF])
    _same("what went wrong", state[TIMED_OUT] + state[REFUSED], state[FAILED] + state[RETRIES])
    _same("attempts to come", state[BACKING_OFF], future.sum(axis=(0, 2)))
    _same("connections", opened_before + state[CONNECTED], state[OPEN] + state[CLOSED])
    if (nodes.state < 0).any():
        node, column = np.argwhere(nodes.state < 0)[0]
        raise RuntimeError(f"cluster simulation: node {node} has a negative column {column}")


def _same(what: str, one: np.ndarray, other: np.ndarray) -> None:
    wrong = np.flatnonzero(one != other)
    if len(wrong):
        node = wrong[0]
        raise RuntimeError(
            f"cluster simulation is inconsistent: {what} of node {node}: {one[node]} and "
            f"{other[node]}"
        )
