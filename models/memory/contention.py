"""A cache line that several threads write in turn: whose core it is on, and the queue for it.

The line is a station that serves one core at a time: bringing it there takes a core-to-core
transfer. The threads are its customers, a closed population: each works, then wants the line.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln


def turn_ns(threads: int, transfer_ns: float, between_ns: float) -> float:
    """Mean time until a thread has a line that others want too, its own transfer included.

    The machine-interference model with constant repair time (H. Ashcroft, *The productivity of
    several machines under the care of one operator*, J. Royal Statistical Society B 12, 1950; L.
    Takacs, *Introduction to the Theory of Queues*, 1962, ch. 5): with *k* customers, exponential
    times of mean *Z* between two visits and a service of constant length *s*, the station is idle
    for a share 1 / (1 + k s/Z S) of the time, where

        S = sum over j from 0 to k - 1 of binom(k - 1, j) prod over i from 1 to j of (e^(i s/Z) - 1)

    and by Little's law a visit takes k s - Z (1 - 1/S): *s* for a lone customer, *k s - Z* where
    the station is never idle.

    Parameters
    ----------
    threads
        That want the line, one or more.
    transfer_ns
        For which one of them has it to itself.
    between_ns
        Mean time from having had it until wanting it again.
    """
    if transfer_ns <= 0.0:
        return 0.0
    if between_ns <= 0.0:
        return threads * transfer_ns
    others = np.arange(threads)
    rises = others[1:] * (transfer_ns / between_ns)
    # In logarithms: the products leave the range of a double where many threads queue.
    products = np.concatenate([[0.0], np.cumsum(rises + np.log(-np.expm1(-rises)))])
    choices = gammaln(threads) - gammaln(others + 1) - gammaln(threads - others)
    idle_to_busy = float(np.exp(-np.logaddexp.reduce(choices + products)))
    return threads * transfer_ns - between_ns * (1.0 - idle_to_busy)


def written_in_turn_ns(threads: int, transfer_ns: float, between_ns: float) -> float:
    """Mean time a thread waits per access to a line that `threads` write equally often.

    The last writer was another one with probability (k - 1) / k; only then the line has to come,
    and queues with those who want it at that time. A lone thread keeps it.

    Parameters
    ----------
    threads
        That write it, one or more.
    transfer_ns
        The line's way between two cores.
    between_ns
        Mean time from one access of a thread to its next.
    """
    if threads <= 1:
        return 0.0
    moved = (threads - 1) / threads
    return moved * turn_ns(threads, transfer_ns, between_ns / moved)
