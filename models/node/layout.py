"""The memory of a node simulation, as `native/node.h` declares it.

Python allocates it, fills in durations and rules, and reads what a run has left there; the fields
of a record are those of the C structure, by the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forecache.sim.calendar import new_calendar
from forecache.sim.histogram import LatencyHistogram
from forecache.sim.native import Layout, pointer

from .setup import (
    NodeSetup,
    NodeTimes,
    core_ranges,
    n_cores,
    owner_of,
    owners,
    rounded_capacity,
    shared_range,
)

SOURCES = Path(__file__).parent / "native"
_LAYOUT = Layout(SOURCES / "ring.h", SOURCES / "node.h")
RECORDS = _LAYOUT.dtypes
CONSTANTS = _LAYOUT.constants

_WORD = np.dtype(np.int64)
_LINE_BYTES = 64

# Fields of a command code's row, by those of `NodeTimes`.
BY_CODE = {
    "parse_ps": "parse_by_code_ps",
    "execute_ps": "execute_by_code_ps",
    "prefetched_stall_ps": "prefetched_stall_by_code_ps",
    "request_bytes": "request_bytes_by_code",
    "reply_bytes": "reply_bytes_by_code",
    "write_ps": "write_by_code_ps",
    "free_ps": "free_by_code_ps",
    "keys": "keys_by_code",
    "rare": "rare_below_by_code",
    "written_to_log": "logged_bytes_by_code",
}


class Node(NamedTuple):
    """The arrays of one run.

    Attributes
    ----------
    head
        The record `node` without its threads: durations, rules, tables and counters.
    threads
        (threads,) of the server and then of the load generator.
    blocks
        What the head and the threads point to, by name; of rings also with the agent's number.
    """

    head: Any
    threads: np.ndarray
    blocks: dict[Any, np.ndarray]
    histogram: np.ndarray
    calendar: np.ndarray
    setup: NodeSetup

    def counter(self, name: str) -> int:
        """A field of the head, such as a counter of the measured window."""
        return int(self.head[name])

    def latency(self) -> LatencyHistogram:
        """Latencies of the measured window."""
        return LatencyHistogram(self.histogram)

    def thread(self, agent: int, name: str) -> int:
        """A field of a thread's row."""
        return int(self.threads[agent][name])

    def on_core_ps(self, agent: int) -> int:
        """Time of the measured window that a thread which shares cores had one."""
        return int(self.blocks["task_rows"][agent]["on_core_ps"])

    def clients(self) -> np.ndarray:
        """(clients,) rows of all clients."""
        return self.blocks["client_rows"]

    def outstanding_slots(self) -> int:
        """Requests a client may have on the way: the limit rounded up to a power of two."""
        return self.counter("outstanding_mask") + 1

    def commands(self) -> np.ndarray:
        """(clients, outstanding slots): mark and due_ps of request i, at i modulo slots."""
        return self.blocks["slots"].reshape(self.setup.clients, -1)

    def series(self) -> np.ndarray:
        """(entries, 3): completions, their summed latency in ps and arrivals, from time zero.

        Arrivals are an open loop's; of a closed loop there are none.
        """
        entries = self.blocks["series"][: self.counter("series_entries")]
        return entries.view(np.int64).reshape(-1, 3)

    def backlog_at_start(self) -> int:
        """Open loop: requests due before the window and not completed before it."""
        return self.counter("backlog_at_start")

    def backlog_at_end(self) -> int:
        """Open loop: requests due before the window's end and not completed before it."""
        accepted = self.counter("arrivals") - self.counter("overflows")
        return self.backlog_at_start() + accepted - self.counter("completions")

    def waiting(self) -> int:
        """Requests that are due and not sent, on all threads of the load generator."""
        tasks = self.threads[self.setup.io_threads :]["tasks"]
        return int((tasks["pushed"] - tasks["popped"]).sum())

    def log(self) -> np.ndarray:
        """(n, 3): client, index and time in ps of each logged completion."""
        logged = self.blocks["log"][: self.counter("logged")]
        return logged.view(np.int64).reshape(-1, 3)

    def on_wire(self, agent: int, ring: str) -> np.ndarray:
        """(n,) entries of a thread's wire, oldest first: client number and commands."""
        row = self.threads[agent][ring]
        slots = np.arange(row["popped"], row["pushed"]) & row["mask"]
        return self.blocks[agent, ring][slots]


def n_sources(setup: NodeSetup) -> int:
    """Agents beside the threads: one a generator when arrivals are open, one a thinking client."""
    if setup.open_loop:
        return setup.generators
    return setup.clients if setup.think_ps > 0 else 0


def n_agents(setup: NodeSetup) -> int:
    """Everybody with a next event: threads, sources, cores that threads share, the quota."""
    agents = setup.io_threads + setup.generators + n_sources(setup) + n_cores(setup)
    return agents + (n_cores(setup) + 1 if setup.quota_ps > 0 else 0)


class _Ring(NamedTuple):
    """A ring of a thread, or of the head where the agent is -1; its capacity is a power of two."""

    agent: int
    name: str
    capacity: int
    stamped: bool


def _rings(setup: NodeSetup, outstanding: int) -> Iterator[_Ring]:
    def of_each(
        agents: Iterable[int], name: str, entries: int, *, stamped: bool
    ) -> Iterator[_Ring]:
        capacity = rounded_capacity(entries)
        return (_Ring(agent, name, capacity, stamped) for agent in agents)

    head = (-1,)
    each_client = setup.clients + 1
    yield from of_each(head, "shared_jobs", setup.job_capacity, stamped=True)
    yield from of_each(head, "done_reads", each_client, stamped=False)
    yield from of_each(head, "done_writes", each_client, stamped=False)
    yield from of_each(head, "responses", 2 * each_client, stamped=True)
    each_owner = -(-setup.clients // setup.owners)
    watching = owners(setup)
    yield from of_each(watching, "request_wire", each_owner * outstanding, stamped=True)
    # While a list is worked off, those of it that are done may come again.
    helping = [thread for thread in watching if thread > 0]
    yield from of_each(helping, "to_main", 2 * each_owner, stamped=True)
    yield from of_each(helping, "from_main", 2 * each_owner, stamped=True)
    yield from of_each(range(1, setup.io_threads), "queue", setup.job_capacity, stamped=True)
    each_generator = -(-setup.clients // setup.generators)
    tasks = setup.backlog_limit if setup.open_loop else outstanding
    generators = range(setup.io_threads, setup.io_threads + setup.generators)
    yield from of_each(generators, "queue", each_generator * outstanding, stamped=True)
    yield from of_each(generators, "tasks", each_generator * tasks, stamped=True)
    yield from of_each(generators, "ready_clients", each_generator, stamped=False)
    yield from of_each(generators, "idle_clients", each_generator, stamped=False)


def _allocated(
    shapes: dict[Any, tuple[np.dtype[Any], int]],
) -> tuple[dict[Any, np.ndarray], dict[Any, int]]:
    """Zeroed arrays of these types and lengths in one piece, each from a cache line on.

    Returns
    -------
    dict of ndarray, dict of int
        The arrays and their addresses, by name.
    """
    starts, size = [], 0
    for dtype, count in shapes.values():
        starts.append(size)
        size += -(-dtype.itemsize * count // _LINE_BYTES) * _LINE_BYTES
    raw = np.zeros(size + _LINE_BYTES, np.uint8)
    raw = raw[-pointer(raw) % _LINE_BYTES :]
    arrays, addresses, first = {}, {}, pointer(raw)
    for start, (name, (dtype, count)) in zip(starts, shapes.items(), strict=True):
        arrays[name] = raw[start : start + dtype.itemsize * count].view(dtype)
        addresses[name] = first + start
    return arrays, addresses


def new_node(times: NodeTimes, setup: NodeSetup, *, log_completions: int = 0) -> Node:
    """Memory of a node before its first event.

    Parameters
    ----------
    log_completions : int
        How many completions to log one by one, for tests; 0 in normal use.

    Raises
    ------
    ValueError
        If there are more command codes than fit.
    """
    codes, most = len(times.parse_by_code_ps), CONSTANTS["MOST_CODES"]
    if codes > most:
        raise ValueError(f"{codes} command codes; at most {most} are possible")
    outstanding = rounded_capacity(setup.outstanding_limit)
    entries = max(1, -(-setup.end_ps // setup.series_ps))
    threads = setup.io_threads + setup.generators
    rings = list(_rings(setup, outstanding))
    head = RECORDS["node"].itemsize
    blocks, addresses = _allocated(
        {
            "node": (np.dtype(np.uint8), head + threads * RECORDS["thread"].itemsize),
            "client_rows": (RECORDS["client"], setup.clients),
            "slots": (RECORDS["slot"], setup.clients * outstanding),
            "prefetch": (_WORD, len(times.prefetch_by_keys_ps)),
            "pending_writes": (_WORD, setup.clients),
            "batch": (_WORD, setup.clients),
            "flows_in_free_ps": (_WORD, setup.clients),
            "flows_out_free_ps": (_WORD, setup.clients),
            "interrupts_free_ps": (_WORD, setup.interrupt_cores),
            "locks": (_WORD, setup.item_locks),
            "lock_by_draw": (_WORD, CONSTANTS["DRAWS"]),
            "list_by_draw": (_WORD, CONSTANTS["DRAWS"]),
            # Memory, statistics, numbers, and two kinds of lists.
            "process_locks": (_WORD, 3 + 2 * setup.lists),
            "section_ps": (_WORD, CONSTANTS["SECTIONS"]),
            "section_moved_ps": (_WORD, CONSTANTS["SECTIONS"]),
            "source_rows": (RECORDS["source"], n_sources(setup)),
            "piece_table": (_WORD, 2 * len(times.piece_ps)),
            "trace_table": (_WORD, 2 * len(times.trace_due_ps)),
            # One more for what completes after the end.
            "series": (RECORDS["interval"], entries + 1),
            "log": (RECORDS["completion"], log_completions),
            "task_rows": (RECORDS["task"], threads + setup.other_threads),
            "core_rows": (RECORDS["core"], n_cores(setup)),
            "sibling_scale": (_WORD, len(times.sibling_scale)),
            "stalls": (_WORD, codes * CONSTANTS["QUANTILES"]),
            **{
                (thread, "watched_sockets"): (_WORD, -(-setup.clients // setup.owners))
                for thread in owners(setup)
            },
            **{
                (ring.agent, ring.name): (
                    RECORDS["entry"] if ring.stamped else _WORD,
                    ring.capacity,
                )
                for ring in rings
            },
        }
    )
    memory = blocks["node"]
    node = Node(
        memory[:head].view(RECORDS["node"])[0],
        memory[head:].view(RECORDS["thread"]),
        blocks,
        LatencyHistogram().counts,
        new_calendar(n_agents(setup)),
        setup,
    )
    for name in RECORDS["node"].names or ():
        if name in addresses:
            node.head[name] = addresses[name]
    _fill_head(node, times, outstanding=outstanding, entries=entries, log_entries=log_completions)
    _fill_tables(node, times)
    _fill_rings(node, rings, addresses)
    for thread in owners(setup):
        node.threads["watched_sockets"][thread] = addresses[thread, "watched_sockets"]
    clients, numbers = node.clients(), np.arange(setup.clients)
    clients["generator"] = setup.io_threads + setup.generator_of(numbers)
    clients["owner"] = owner_of(setup, numbers)
    slot_bytes = RECORDS["slot"].itemsize
    clients["slots"] = addresses["slots"] + numbers * outstanding * slot_bytes
    _fill_cores(node)
    return node


def _fill_rings(node: Node, rings: list[_Ring], addresses: dict[Any, int]) -> None:
    """Write where each ring's entries are and how many it holds."""
    alike: dict[str, list[_Ring]] = {}
    for ring in rings:
        alike.setdefault(ring.name, []).append(ring)
    heads = node.blocks["node"][: RECORDS["node"].itemsize].view(RECORDS["node"])
    for name, of_name in alike.items():
        # The head's number, -1, is also an index: that of the last of one.
        agents = [ring.agent for ring in of_name]
        found = (heads if -1 in agents else node.threads)[name]
        found["mask"][agents] = [ring.capacity - 1 for ring in of_name]
        kept = "entries" if of_name[0].stamped else "clients"
        found[kept][agents] = [addresses[agent, name] for agent in agents]


def _fill_head(
    node: Node, times: NodeTimes, *, outstanding: int, entries: int, log_entries: int
) -> None:
    head, setup = node.head, node.setup
    for record in (times, setup):
        for name, value in zip(record._fields, record, strict=True):
            if not isinstance(value, np.ndarray):
                head[name] = value
    head["outstanding_mask"] = outstanding - 1
    head["series_entries"] = entries
    head["log_entries"] = log_entries
    # Nobody but the replies tells a generator thread on another host what to do, and each is at
    # least so long on the wire.
    lonely = not setup.same_host and n_sources(setup) == 0 and n_cores(setup) == 0
    head["lookahead_ps"] = times.one_way_ps if lonely else 0
    head["active_threads"] = setup.initial_active
    head["frees"] = times.free_arguments_ps > 0 or np.any(times.free_by_code_ps > 0)
    head["write_waits"] = np.any(times.write_by_code_ps > 0)
    head["several_keys"] = np.any(times.keys_by_code > 1)
    head["pieces"] = len(times.piece_ps)
    head["traced"] = len(times.trace_due_ps)
    head["rare_below"] = times.rare_below_by_code.max()
    head["entry"] = head["series"]


def _fill_tables(node: Node, times: NodeTimes) -> None:
    head, blocks = node.head, node.blocks
    codes, quantiles = len(times.parse_by_code_ps), CONSTANTS["QUANTILES"]
    rows = head["commands"][:codes]
    for name, given in BY_CODE.items():
        rows[name] = getattr(times, given)
    blocks["stalls"][:] = np.ravel(times.stall_ps)
    rows["stalls"] = pointer(blocks["stalls"]) + _WORD.itemsize * quantiles * np.arange(codes)
    head["jitter"] = times.jitter
    head["interruptions_ps"] = times.interruption_ps
    head["wake_latency_ps"] = times.wake_latency_ps
    head["code_by_draw"] = times.code_by_draw
    blocks["prefetch"][:] = times.prefetch_by_keys_ps
    for name in ("lock_by_draw", "list_by_draw", "section_ps", "section_moved_ps"):
        blocks[name][:] = getattr(times, name)
    blocks["sibling_scale"][:] = times.sibling_scale
    head["most_siblings"] = len(times.sibling_scale) - 1
    blocks["piece_table"][:] = np.concatenate([times.piece_ps, times.piece_gap_ps])
    blocks["trace_table"][:] = np.concatenate([times.trace_due_ps, times.trace_code])


def _fill_cores(node: Node) -> None:
    """Write which cores each thread may run on; nobody has one yet."""
    head, setup, tasks = node.head, node.setup, node.blocks["task_rows"]
    own, shared = core_ranges(setup), shared_range(setup)
    ranges = np.array([*own, *[shared] * setup.other_threads])
    tasks["first_core"], tasks["last_core"] = ranges.T
    spans = np.maximum(ranges[:, 1] - ranges[:, 0], 1)
    tasks["home"] = ranges[:, 0] + np.arange(len(ranges)) % spans
    tasks["deadline_ps"] = setup.slice_ps
    rows = node.blocks["core_rows"]
    rows["occupant"] = -1
    head["crowded"] = len(rows) > 0
    node.threads["waits"] = CONSTANTS["SLEEPS"]
    # Other programs have been there before.
    first, last = shared
    for other in range(setup.other_threads if last > first else 0):
        core, task = first + other % (last - first), len(own) + other
        has_core = other < last - first
        tasks[task]["home"] = core
        tasks[task]["state"] = CONSTANTS["ON_CORE" if has_core else "WAITS_FOR_CORE"]
        if has_core:
            rows[core]["occupant"] = task
    # Those that have cores of their own are not simulated.
    head["busy_siblings"] = min(setup.other_threads, last - first or setup.other_threads)
    head["tasks_of_cores"] = len(ranges)
    head["first_core_agent"] = setup.io_threads + setup.generators + n_sources(setup)
    head["cores"] = len(rows)
    head["pool_ps"] = setup.quota_ps
