"""Where the rows of threads that share cores, and of these cores, begin."""

from .. import layout as at
from .inline import inlined


@inlined
def task_row(m, task):
    """Where a task's row begins."""
    return m[at.TASK_ROWS] + task * at.TASK_WORDS


@inlined
def core_row(m, core):
    """Where a core's row begins."""
    return m[at.CORE_ROWS] + core * at.CORE_WORDS
