"""Says that the load of a cluster is compiled, if that takes longer than loading it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from forecache.sim.cache_folders import keeps_compiled_code

_ANNOUNCE_AFTER_S = 1.0

_LEAST_SHARE = 0.1
"""Of a core, that a compiler is supposed to get at least."""


@contextmanager
def announced_if_slow(
    progress: Callable[[str], None], what: str, *, seconds: int
) -> Iterator[None]:
    """Say that something is compiled, if it takes longer than loading it does.

    Parameters
    ----------
    seconds
        How long it takes on a core of its own, one that is fast.
    """
    # Only time tells whether Numba compiles or loads, so a timer speaks.
    again = "once, %s; later runs load it from disk"
    if not keeps_compiled_code():
        again = "%s; no folder can be written to keep it, NUMBA_CACHE_DIR may name one"
    began_s, spent_s = time.monotonic(), time.process_time()

    def announce() -> None:
        # Beside other work a compiler gets only part of a core, and slow cores need twice as long.
        share = (time.process_time() - spent_s) / (time.monotonic() - began_s)
        least_s = round(seconds / min(1.0, max(_LEAST_SHARE, share)))
        progress(f"compiling {what}: {again % f'{least_s} to {2 * least_s} seconds'}")

    timer = threading.Timer(_ANNOUNCE_AFTER_S, announce)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
