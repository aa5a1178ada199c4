"""The memory of a node simulation, as `native/node.h` declares it.

Python allocates it, fills in durations and rules, and reads what a run has left there; the fields
of a record are those of the C structure, by the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
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


def _record_words(record: str) -> dict[str, int]:
    """In which word of a record each field begins."""
    fields: Mapping[str, Any] = RECORDS[record].fields or {}
    return {name: field[1] // _WORD.itemsize for name, field in fields.items()}


_IN_HEAD, _IN_THREAD = _record_words("node"), _record_words("thread")
_HEAD_WORDS, _THREAD_WORDS = (
    RECORDS[name].itemsize // _WORD.itemsize for name in ("node", "thread")
)
# A ring and a line of clients differ in what they point to only.
_MASK, _ENTRIES = _record_words("ring")["mask"], _record_words("ring")["entries"]

_DURATIONS = [name for name, kind in NodeTimes.__annotations__.items() if kind is int]
_durations_of = attrgetter(*_DURATIONS)
_FOUND_FROM_THEM = (
    *("outstanding_mask", "series_entries", "log_entries", "lookahead_ps", "active_threads"),
    *("frees", "write_waits", "several_keys", "pieces", "traced", "rare_below"),
)
_FILLED = np.array([_IN_HEAD[n] for n in (*_DURATIONS, *NodeSetup._fields, *_FOUND_FROM_THEM)])
"""Words of the head with durations, the setup and what follows from them."""


class NodeBlocks(Mapping[Any, np.ndarray]):
    """Arrays in one piece of memory, each made when it is first asked for."""

    def __init__(self, memory: np.ndarray, plan: _Plan) -> None:
        self.memory, self.starts = memory, plan.starts
        self._plan = plan
        self._made: dict[Any, np.ndarray] = {}

    def __getitem__(self, name: Any) -> np.ndarray:
        found = self._made.get(name)
        if found is None:
            dtype, count = self._plan.shapes[name]
            start = self._plan.starts[name]
            found = self.memory[start : start + dtype.itemsize * count].view(dtype)
            self._made[name] = found
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._plan.shapes)

    def __len__(self) -> int:
        return len(self._plan.shapes)


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
    blocks: NodeBlocks
    histogram: np.ndarray
    calendar: np.ndarray
    setup: NodeSetup

    def counter(self, name: str) -> int:
        """A field of the head, such as a counter of the measured window."""
        return int(self.head[name])

    def counters(self, names: tuple[str, ...]) -> dict[str, int]:
        """Several fields of the head by their names."""
        words = self.blocks["node"][: RECORDS["node"].itemsize].view(np.int64)
        return dict(zip(names, words[[_IN_HEAD[name] for name in names]].tolist(), strict=True))

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

    def on_wires(self, agents: range, ring: str) -> np.ndarray:
        """(n,) entries of the wires of these threads, oldest first: client number and commands."""
        entries = self.blocks.memory.view(RECORDS["entry"])
        rows = self.threads[ring][agents.start : agents.stop]
        ends = [rows[name].tolist() for name in ("popped", "pushed", "mask")]
        places = [
            self.blocks.starts[agent, ring] // entries.itemsize + (np.arange(popped, pushed) & mask)
            for agent, popped, pushed, mask in zip(agents, *ends, strict=True)
            if pushed > popped
        ]
        return entries[np.concatenate(places)] if places else entries[:0]


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


class _Plan(NamedTuple):
    """Where everything of a node lies, which many runs have in common.

    Attributes
    ----------
    shapes
        Types and lengths of the blocks, in their order.
    starts
        Where each begins, in bytes: at a cache line.
    image : (words,)
        The first of them (head and threads, tasks, cores) before the first event, but for numbers
        that differ from run to run. Addresses count from the beginning of the memory.
    addresses : (addresses,)
        Words of the image that hold one.
    """

    shapes: dict[Any, tuple[np.dtype[Any], int]]
    starts: dict[Any, int]
    size_bytes: int
    image: np.ndarray
    addresses: np.ndarray


class _Lengths(NamedTuple):
    """Of the tables, the series and the log."""

    codes: int
    prefetch: int
    pieces: int
    traced: int
    sibling_scale: int
    series: int
    log: int


_OF_A_RUN = dict.fromkeys(
    (
        *("warmup_ps", "end_ps", "series_ps", "seed", "replication", "spin_ps", "slice_ps"),
        *("tick_ps", "generator_start_ps", "interruption_gap_ps", "mean_interarrival_ps"),
    ),
    0,
)
"""Fields of a setup that differ between runs, and between draws, whose memory is alike."""


@lru_cache(maxsize=16)
def _plan(setup: NodeSetup, lengths: _Lengths) -> _Plan:
    """The plan of a setup, in which `_OF_A_RUN` doesn't count."""
    outstanding = rounded_capacity(setup.outstanding_limit)
    threads = setup.io_threads + setup.generators
    rings = list(_rings(setup, outstanding))
    head = RECORDS["node"].itemsize
    shapes: dict[Any, tuple[np.dtype[Any], int]] = {
        "node": (np.dtype(np.uint8), head + threads * RECORDS["thread"].itemsize),
        "task_rows": (RECORDS["task"], threads + setup.other_threads),
        "core_rows": (RECORDS["core"], n_cores(setup)),
        "client_rows": (RECORDS["client"], setup.clients),
        "slots": (RECORDS["slot"], setup.clients * outstanding),
        "prefetch": (_WORD, lengths.prefetch),
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
        "piece_table": (_WORD, 2 * lengths.pieces),
        "trace_table": (_WORD, 2 * lengths.traced),
        # One more for what completes after the end.
        "series": (RECORDS["interval"], lengths.series + 1),
        "log": (RECORDS["completion"], lengths.log),
        "sibling_scale": (_WORD, lengths.sibling_scale),
        "stalls": (_WORD, lengths.codes * CONSTANTS["QUANTILES"]),
    }
    each_owner = -(-setup.clients // setup.owners)
    shapes |= {(thread, "watched_sockets"): (_WORD, each_owner) for thread in owners(setup)}
    shapes |= {
        (ring.agent, ring.name): (RECORDS["entry"] if ring.stamped else _WORD, ring.capacity)
        for ring in rings
    }
    starts, size = {}, 0
    for name, (dtype, count) in shapes.items():
        starts[name] = size
        size += -(-dtype.itemsize * count // _LINE_BYTES) * _LINE_BYTES
    image = np.zeros(starts["client_rows"] // _WORD.itemsize, np.int64)
    addresses = _point(image, rings, starts)
    _fill_cores(
        NodeBlocks(image.view(np.uint8), _Plan(shapes, starts, size, image, addresses)), setup
    )
    return _Plan(shapes, starts, size, image, addresses)


def _point(image: np.ndarray, rings: list[_Ring], starts: dict[Any, int]) -> np.ndarray:
    """Write where blocks and rings begin, and how much rings hold; returns the words of the first.

    What a block is for says its name: that of a field of the head, or a thread and a field of it.
    """
    at = {word: starts[name] for name, word in _IN_HEAD.items() if name in starts}
    at[_IN_HEAD["entry"]] = starts["series"]
    for name, start in starts.items():
        if isinstance(name, tuple) and name[1] == "watched_sockets":
            at[_HEAD_WORDS + name[0] * _THREAD_WORDS + _IN_THREAD[name[1]]] = start
    for ring in rings:
        word = _IN_HEAD.get(ring.name, 0)
        if ring.agent >= 0:
            word = _HEAD_WORDS + ring.agent * _THREAD_WORDS + _IN_THREAD[ring.name]
        at[word + _ENTRIES] = starts[ring.agent, ring.name]
        image[word + _MASK] = ring.capacity - 1
    addresses = np.array(list(at))
    image[addresses] = list(at.values())
    return addresses


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
    entries = max(1, -(-setup.end_ps // setup.series_ps))
    lengths = _Lengths(
        *(codes, len(times.prefetch_by_keys_ps), len(times.piece_ps), len(times.trace_due_ps)),
        *(len(times.sibling_scale), entries, log_completions),
    )
    plan = _plan(setup._replace(**_OF_A_RUN), lengths)
    raw = np.zeros(plan.size_bytes + _LINE_BYTES, np.uint8)
    memory = raw[-pointer(raw) % _LINE_BYTES :][: plan.size_bytes]
    begins = pointer(memory)
    words = memory[: plan.image.nbytes].view(np.int64)
    words[:] = plan.image
    words[plan.addresses] += begins
    blocks = NodeBlocks(memory, plan)
    threads, head = blocks["node"], RECORDS["node"].itemsize
    node = Node(
        threads[:head].view(RECORDS["node"])[0],
        threads[head:].view(RECORDS["thread"]),
        blocks,
        LatencyHistogram().counts,
        new_calendar(n_agents(setup)),
        setup,
    )
    blocks["task_rows"]["deadline_ps"] = setup.slice_ps
    words[_FILLED] = [*_durations_of(times), *setup, *_found_from(times, setup, lengths)]
    _fill_tables(node, times)
    clients, numbers = node.clients(), np.arange(setup.clients)
    clients["generator"] = setup.io_threads + setup.generator_of(numbers)
    clients["owner"] = owner_of(setup, numbers)
    slot_bytes = rounded_capacity(setup.outstanding_limit) * RECORDS["slot"].itemsize
    clients["slots"] = begins + plan.starts["slots"] + numbers * slot_bytes
    return node


def _found_from(times: NodeTimes, setup: NodeSetup, lengths: _Lengths) -> list[Any]:
    """The numbers of `_FOUND_FROM_THEM`."""
    # Nobody but the replies tells a generator thread on another host what to do, and each is at
    # least so long on the wire.
    lonely = not setup.same_host and n_sources(setup) == 0 and n_cores(setup) == 0
    return [
        rounded_capacity(setup.outstanding_limit) - 1,
        lengths.series,
        lengths.log,
        times.one_way_ps if lonely else 0,
        setup.initial_active,
        times.free_arguments_ps > 0 or bool((times.free_by_code_ps > 0).any()),
        bool((times.write_by_code_ps > 0).any()),
        bool((times.keys_by_code > 1).any()),
        lengths.pieces,
        lengths.traced,
        times.rare_below_by_code.max(),
    ]


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


def _fill_cores(blocks: NodeBlocks, setup: NodeSetup) -> None:
    """Write which cores each thread may run on; nobody has one yet."""
    node, tasks = blocks["node"], blocks["task_rows"]
    head = node[: RECORDS["node"].itemsize].view(RECORDS["node"])[0]
    own, shared = core_ranges(setup), shared_range(setup)
    ranges = np.array([*own, *[shared] * setup.other_threads])
    tasks["first_core"], tasks["last_core"] = ranges.T
    spans = np.maximum(ranges[:, 1] - ranges[:, 0], 1)
    tasks["home"] = ranges[:, 0] + np.arange(len(ranges)) % spans
    rows = blocks["core_rows"]
    rows["occupant"] = -1
    head["crowded"] = len(rows) > 0
    node[RECORDS["node"].itemsize :].view(RECORDS["thread"])["waits"] = CONSTANTS["SLEEPS"]
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
