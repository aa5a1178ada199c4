"""Two threads on one physical core: how much slower each of them runs.

On a host with two threads a core a CPU of the operating system is half a core. Linux gives a thread
a core of its own while there is one (`select_idle_core` in kernel/sched/fair.c), so that only more
busy threads than cores share some.
"""

import numpy as np

from ..node.setup import JITTER_ONE


def sibling_scale(cores: int, speed: float) -> np.ndarray:
    """How many times as long a step takes, in units of 1 / `JITTER_ONE`, by busy threads from 0 on.

    With b busy threads on c cores 2 (b - c) threads share one, each as often as any other: a
    thread's mean speed is that of those that share and of those that don't, by their numbers.

    Parameters
    ----------
    cores
        Physical ones; 0: no two threads share one, and the table is empty.
    speed
        Of each of two threads on one core, against that of a thread that has it alone.
    """
    if cores == 0:
        return np.zeros(0, np.int64)
    busy = np.arange(2 * cores + 1)
    sharing = 2 * np.maximum(0, busy - cores) / np.maximum(1, busy)
    return np.rint(JITTER_ONE / (1 - sharing * (1 - speed))).astype(np.int64)
