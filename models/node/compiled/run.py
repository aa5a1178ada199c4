"""The loop over all events of a run, which is the same for every policy.

A policy's module says how its server begins (`begin`), what a thread of the server does when its
step ends (`server_step`), and what is left to account for when the run ends (`finish`).
"""

from types import ModuleType
from typing import Any

from numba import njit

from forecache.sim.calendar import advance, agent_of, peek, time_of
from forecache.sim.pointer import pointer

from .. import layout as at
from .cores import after_step, finish_cores, has_core
from .generator import generator_step, source_step, start
from .inline import sources_digest, unlikely
from .window import begin_window, end_window


def run_of(policy: ModuleType) -> Any:
    """The compiled execution of a policy, given its module.

    The values of its closure are part of the key in Numba's cache. Functions would differ in every
    process; a module is identified by its name.
    """
    sources = sources_digest()

    def run(memory, counts, agents):
        """Simulate until `END_PS`; the results are in the memory. Returns the number of events."""
        m = pointer(memory)
        histogram = pointer(counts)
        calendar = pointer(agents)
        m[at.SOURCES_DIGEST] = sources
        start(m, calendar)
        policy.begin(m, calendar)
        first_generator = m[at.IO_THREADS]
        first_source = first_generator + m[at.GENERATORS]
        events = 0
        key = peek(calendar)
        while True:
            now = time_of(calendar, key)
            if now >= m[at.UNTIL_PS]:
                if m[at.UNTIL_PS] == m[at.END_PS]:
                    break
                begin_window(m)
                continue
            agent = agent_of(calendar, key)
            if unlikely(m[at.CROWDED]) and not has_core(m, calendar, agent, now):
                key = peek(calendar)
                continue
            if agent >= first_source:
                following = source_step(m, calendar, agent, now)
            elif agent >= first_generator:
                following = generator_step(m, histogram, calendar, agent, now)
            else:
                following = policy.server_step(m, calendar, agent, now)
            key = advance(calendar, agent, following)
            events += 1
            if unlikely(m[at.CROWDED]):
                after_step(m, calendar, agent, now)
                key = peek(calendar)
        finish_cores(m)
        end_window(m)
        policy.finish(m)
        return events

    # A file of its own in the cache for every policy: processes that compile at the same time
    # overwrite each other's entries of one file.
    run.__qualname__ = f"run_{policy.__name__.rpartition('.')[2]}"
    return njit(cache=True, nogil=True, error_model="numpy")(run)
