"""How long work will take, said before it begins, and how much of it is allowed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

from .errors import InputError
from .words import byte_size

VARIABLE = "FORECACHE_MOST_WORK_S"
"""Environment variable with the most seconds of one core that a question may take."""

MOST_WORK_S = 3600.0
"""Without it."""

MOST_MEMORY_BYTES = 2 * 2**30
"""What the arrays of one run may take."""

_WORTH_SAYING_S = 20.0


def most_work_s() -> float:
    """Seconds of one core that a question may take.

    Raises
    ------
    InputError
        The variable holds no number above 0.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return MOST_WORK_S
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise InputError(f"{VARIABLE}: found {given!r}; valid is a number of seconds above 0.")
    return seconds


def check_work(
    seconds: float,
    what: str,
    *,
    smaller: str,
    progress: Callable[[str], None] | None,
    workers: int = 1,
) -> None:
    """Say how long work will take, or refuse it.

    Parameters
    ----------
    seconds
        Of one core, estimated.
    what
        What takes them: `99,999 s of a cluster with 40 shards`.
    smaller
        What would take less: `a shorter duration_s`.
    workers
        Cores that share the work.
    """
    most = most_work_s()
    if not seconds <= most:
        raise InputError(
            f"{what}: found work of about {duration_words(seconds)} on one core; valid is at most "
            f"{duration_words(most)}: {smaller}, or a larger {VARIABLE} (in seconds)."
        )
    if progress is not None and seconds / workers > _WORTH_SAYING_S:
        progress(f"{what}: about {duration_words(seconds / workers)}")


def check_memory(bytes_: float, field: str, *, found: object, smaller: str) -> None:
    """Refuse what would need more memory than a run may take."""
    if not bytes_ <= MOST_MEMORY_BYTES:
        raise InputError(
            f"field '{field}': found {found}, which would take {byte_size(bytes_)} to "
            f"simulate; valid is what takes {byte_size(MOST_MEMORY_BYTES)}: {smaller}."
        )


def duration_words(seconds: float) -> str:
    """A duration in the unit that suits it."""
    for unit, length in (("years", 365.25 * 86_400), ("days", 86_400), ("hours", 3600)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.3g} {unit}" if seconds < 1e15 else "more than an age"
    if seconds >= 120:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds:.0f} seconds" if seconds >= 10 else f"{seconds:.2g} seconds"
