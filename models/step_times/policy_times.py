"""Durations that only some threading policies have: turns of fork-join threads, Memcached's locks.

Fork-join: handing clients out, taking them back, lines that all threads write. Rules: networking.c
of Redis 6.2 and 7.0 and of Valkey 7.2. Time goes where clients change threads, so that a turn which
the main thread serves alone has none of them.

Locks of threads that execute by themselves: how many, who shares one, how long one is held. Rules:
thread.c (`memcached_thread_init`), items.c, slabs.c and doc/threads.txt of Memcached 1.6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from forecache.hwprofiles.speed import HostSpeed

from ..engines.commands import command_kinds
from ..engines.profile import EngineProfile, EngineWork
from ..layouts.slabs import chunk_bytes
from ..memory.contention import written_in_turn_ns
from ..memory.lines import LINE_BYTES, bins_of
from ..node.setup import DRAWS
from ..scenario.schema import Scenario
from ..scenario.workload import Popularity, Workload, Zipf
from .inputs import NodeInputs

# --- turns of fork-join threads -------------------------------------------------------------------


def do_reads(scenario: Scenario, engine: EngineProfile) -> bool:
    """Whether active fork-join threads read as well: io-threads-do-reads, which is no by itself."""
    return "io_threads_do_reads" in engine.threading.settings and bool(scenario.io_threads_do_reads)


def sharing_out(
    inputs: NodeInputs, sockets: Mapping[str, int], *, written_bytes: float
) -> dict[str, int]:
    """Handing clients to fork-join threads and taking them back, by the field of `NodeTimes`.

    A thread that writes fetches the client's fields and its reply from the main thread's core; the
    main thread fetches what the writer changed, and the reply buffer's lines to write on. With
    reads there are two exchanges a request, of which a duration is the mean: the main thread then
    also fetches the command, and a SET's value, from the core of its reader. All threads, the main
    thread among them, write the same counters at the same time.

    Parameters
    ----------
    sockets
        `write_event_ps`, `send_ps` and `send_ps_per_kib` of `NodeTimes`.
    written_bytes
        Of the replies of one write, in the mean.
    """
    scenario, work, line_ns = inputs.scenario, inputs.work, inputs.speed.core_to_core_ns
    reply_lines = written_bytes / LINE_BYTES * work.reply_lines_per_line
    given_lines, returned_lines = work.write_lines + reply_lines, work.done_lines + reply_lines
    serving_ns = (sockets["write_event_ps"] + sockets["send_ps"]) / 1000
    serving_ns += written_bytes * sockets["send_ps_per_kib"] / 1024 / 1000
    accesses = work.shared_lines / 2
    if do_reads(scenario, inputs.engine):
        sets = 1.0 - scenario.workload.get_fraction
        given_lines = (given_lines + work.read_lines) / 2
        returned_lines += work.execute_lines + sets * work.set_lines
        returned_lines /= 2
        # A SET's value is a third burst of allocations.
        accesses *= 1.0 + sets / 4
    taking_ns = inputs.user_ns(work.pop_instructions) + given_lines * line_ns
    if accesses > 0.0:
        between_ns = (serving_ns + taking_ns) / accesses
        taking_ns += accesses * written_in_turn_ns(scenario.io_threads, line_ns, between_ns)
    done_ns = inputs.user_ns(work.done_instructions) + returned_lines * line_ns
    return {
        "push_ps": round(inputs.user_ns(work.push_instructions) * 1000),
        "pop_ps": round(taking_ns * 1000),
        "done_ps": round(done_ns * 1000),
    }


# --- Memcached's locks ----------------------------------------------------------------------------


_MOST_THREADS = ((2, 10), (3, 11), (4, 12), (10, 13), (20, 14))
_LARGEST_POWER = 15

MOVING_THREADS = 4
"""Worker threads from which on the thread that moves items from list to list is busy all the time.
Per SET it took 1.2 us of CPU time where one worker served 240,000 SETs a second (1.16 cores used
over SETs and GETs: `memcached-1.6.38-c8g-unix-p1`), and 1.9 us on a Zen 3 virtual machine."""

FUTEX_SHARE = 1.5
"""A call of futex that neither sleeps nor wakes anybody against a bare system call (1.1 to 2.3 on a
Zen 3 virtual machine)."""


FUTEX_LINES = 2.0
"""Lines that such a call fetches from other cores: the lock, and the kernel's bucket of those who
wait."""


class CriticalSection(NamedTuple):
    """What a SET does while it holds a lock of the process.

    Attributes
    ----------
    instructions
        From the lock to its release, counted in the code of 1.6.38 for x86-64, pthread's part of it
        included.
    lines
        Fetched one after the other from the core that held the lock last, the lock itself included;
        those whose addresses are known together count as one.
    neighbours
        Waits for other items, wherever these lie: the two beside one that leaves a list come in
        one wait.
    """

    instructions: float
    lines: float
    neighbours: float = 0.0


SECTIONS = (
    CriticalSection(40, 4),  # slabs_alloc: lock, class, first free item, the one behind it
    CriticalSection(31, 2),  # do_item_unlink: lock, counters
    CriticalSection(55, 2, 1),  # item_unlink_q: lock, the class's heads and sizes
    CriticalSection(32, 2),  # do_item_link: lock, counters
    CriticalSection(19, 2),  # get_cas_id: lock, number
    CriticalSection(
        45, 3
    ),  # item_link_q: lock, the class's heads and sizes, the item that was first
    CriticalSection(35, 3),  # slabs_free: lock, class, the item that was first
)
"""In the order in which `locked_threads` has them (items.c, slabs.c). A live 1.6.38 took each of
these locks once per SET; 12 lists were entered and 24 left with values of 1 to 1024 bytes."""


def item_locks(threads: int) -> int:
    """How many item locks the worker threads share, by their number."""
    power = next((power for most, power in _MOST_THREADS if threads <= most), _LARGEST_POWER)
    return 1 << power


def lock_table(workload: Workload, locks: int) -> np.ndarray:
    """(1024,) item lock by draw; -1 where the key is not popular enough to have a slot to itself.

    Keys are popular that get one request in 1,024 or more. Their locks differ: two of so few keys
    hardly ever share one of these many. All others are spread evenly over the locks.
    """
    return _lock_table(workload.keys, workload.popularity, locks)


@lru_cache(maxsize=64)
def _lock_table(keys: int, popularity: Popularity, locks: int) -> np.ndarray:
    table = np.full(DRAWS, -1, np.int64)
    shares = _popular_shares(keys, popularity)
    ends = np.rint(np.cumsum(shares) * DRAWS).astype(np.int64)
    for key, (begin, end) in enumerate(pairwise([0, *ends])):
        table[begin:end] = key % locks
    return table


def _popular_shares(all_keys: int, popularity: Popularity) -> np.ndarray:
    """Shares of the requests for the keys that get one in 1,024 or more, largest first."""
    keys, share = bins_of(all_keys, popularity)[0]
    if isinstance(popularity, Zipf):
        ranks = np.arange(1, min(all_keys, DRAWS) + 1, dtype=float)
        weights = ranks**-popularity.zipf
        shares = weights * share / weights[: round(keys)].sum()
    else:
        shares = np.full(min(round(keys), DRAWS), share / keys)
    return shares[shares * DRAWS >= 1.0]


def list_shares(workload: Workload) -> np.ndarray:
    """Shares of the values by size class, each of which has lists and locks of its own."""
    by_chunk: dict[int, float] = {}
    for size, share in workload.sizes:
        chunk = chunk_bytes(math.ceil(workload.key_bytes), size)
        by_chunk[chunk] = by_chunk.get(chunk, 0.0) + share
    return np.array(list(by_chunk.values()))


def list_table(workload: Workload) -> np.ndarray:
    """(1024,) number of the size class by draw."""
    return _list_table(tuple(list_shares(workload).tolist()))


@lru_cache(maxsize=64)
def _list_table(shares: tuple[float, ...]) -> np.ndarray:
    ends = np.rint(np.cumsum(shares) * DRAWS).astype(np.int64)
    classes = np.searchsorted(ends, np.arange(DRAWS), side="right")
    return np.minimum(classes, len(ends) - 1).astype(np.int64)


def section_ns(inputs: NodeInputs, neighbour_ns: float) -> list[float]:
    """What a SET does under each lock that nobody else wants, with what it protects at hand, in ns.

    Parameters
    ----------
    neighbour_ns
        Mean wait for another item.
    """
    return [inputs.user_ns(s.instructions) + s.neighbours * neighbour_ns for s in SECTIONS]


def futex_ns(work: EngineWork, speed: HostSpeed) -> float:
    """A call of futex that neither sleeps nor wakes anybody, in ns."""
    calling_ns = FUTEX_SHARE * work.kernel_scale * speed.syscall_ns
    return calling_ns + FUTEX_LINES * speed.core_to_core_ns


def moves_items(scenario: Scenario) -> bool:
    """Whether the thread that moves items keeps a core busy beside those of the workers."""
    workload = scenario.workload
    saturated = workload.arrival == "closed_loop" and workload.think_us == 0
    stores = any(kind.row.writes for kind in command_kinds(scenario))
    return saturated and stores and scenario.io_threads >= MOVING_THREADS
