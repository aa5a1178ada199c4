"""Run one node, check what must hold in every run, and say what came out of it.

The checks (requests are conserved, Little's law) read the compiled execution's memory after its
last event. They cost less than a millisecond, so every run is checked.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forecache.sim.calendar import horizon_ps
from forecache.sim.errors import InputError
from forecache.sim.histogram import LatencyHistogram
from forecache.sim.native import library, pointer
from forecache.sim.stopping import stoppable

from . import layout as at
from .policies import POLICIES, running, under_policy
from .setup import OWN_CORE, NodeSetup, NodeTimes, core_ranges, owners, shared_range

COUNTERS = (
    *("completions", "loops", "polls", "reads", "writes", "blocks", "blocks_ps"),
    *("paid_wakes", "paid_wakes_ps"),
    *("prefetch_batches", "prefetched_keys", "inline_reads", "inline_writes"),
    *("refused_jobs", "found_again", "activations", "generator_polls", "arrivals", "overflows"),
    *("wire_bytes_out", "wire_bytes_in", "freed_values", "inline_frees", "handshakes"),
    *("inline_handshakes", "join_wait_ps", "notifications", "list_moves", "active_thread_ps"),
    *("packets_out", "packets_in", "inline_arguments", "uncounted_ps", "unsent_ps"),
    *("interrupt_ps", "switches", "flushes", "lock_waits", "throttles", "throttled_periods"),
    *("sibling_ps", "resumed_reads", "rearms"),
)
"""Counters of the measured window: fields of the node's head, and `NodeResult.counters`."""

_LARGEST = 2.0**61
"""In ps: sums of durations have to fit in 64 bits."""


class OutOfRangeError(InputError, ValueError):
    """The numbers given to a run are beyond what can be simulated."""


_PS_PER_US = 1e6
_PS_PER_S = 1e12


@dataclass(frozen=True, slots=True)
class Flow:
    """Requests of an open loop that are due and not completed, its backlog.

    Attributes
    ----------
    at_start, at_end : int
        The backlog when the measured window begins and when it ends. Arrivals of the window, less
        those that found no room, less its completions, are the difference, exactly.
    times_ps : ndarray, shape (times,)
        Moments inside the window, in order.
    arrived, completed : ndarray, shape (times,)
        Requests that fell due, and that were completed, from time zero until then. A request that
        found no room has arrived.
    window_ps : (int, int)
        When the window begins and when it ends.
    connections : int
        How many requests can be in flight at a time.
    rate_rps : float
        Mean rate of arrivals over all time.
    cycle_ps : int
        Period after which the rate of arrivals repeats exactly; 0: it is constant, or random.
    """

    at_start: int
    at_end: int
    times_ps: np.ndarray
    arrived: np.ndarray
    completed: np.ndarray
    window_ps: tuple[int, int]
    connections: int
    rate_rps: float
    cycle_ps: int

    @property
    def backlog(self) -> np.ndarray:
        """(times,) requests due and not completed, including those that found no room."""
        return self.arrived - self.completed


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What one run of a node measured between warm-up and end.

    Attributes
    ----------
    policy : str
        The policy that ran: `single_thread` whenever there is one thread.
    window_s : float
        Simulated seconds measured.
    completions : int
        Replies taken by clients in the window.
    throughput_rps : float
        Completions a second.
    latency : LatencyHistogram
        From when a request fell due until its client had taken the reply.
    main_thread_utilisation : float
        Share of the window the main thread spent on turns that found something to do.
    io_thread_utilisation : list of float
        The same for each I/O thread; empty for one thread.
    load_generator_utilisation : float
        Mean over the generator's threads.
    server_cpu_us_per_request : float
        CPU time of the server, spinning included; nan without completions, as all below.
    server_useful_cpu_us_per_request : float
        CPU time of the server without spinning.
    generator_cpu_us_per_request : float
        CPU time of the load generator.
    network_utilisation : float
        Of the limit nearest to being reached; 0 on one host.
    counters : dict of str to int
        By the names of `COUNTERS`.
    series : ndarray of int64, shape (entries, 2)
        Completions and their summed latency in ps per `series_ps`, from time zero on.
    final_active_threads : int
        Threads active at the end, the main thread included.
    events : int
        Events simulated, warm-up included.
    network_limits : dict of str to float
        How far each limit of the network is used: `bandwidth` and `one connection` in the more
        loaded direction, `packets` of both.
    interrupt_utilisation : float
        Mean over the server's interrupt cores; 0 without them.
    core_utilisation : float
        Mean over the cores that the server's threads have to share; 0 if each has its own.
    quota_utilisation : float
        CPU time of the server, of what its quota allows; 0 without one.
    flow : Flow or None
        What falls due and what completes in an open loop; None for a closed one.
    """

    policy: str
    window_s: float
    completions: int
    throughput_rps: float
    latency: LatencyHistogram = field(repr=False)
    main_thread_utilisation: float
    io_thread_utilisation: list[float]
    load_generator_utilisation: float
    server_cpu_us_per_request: float
    server_useful_cpu_us_per_request: float
    generator_cpu_us_per_request: float
    network_utilisation: float
    counters: dict[str, int] = field(repr=False)
    series: np.ndarray = field(repr=False)
    final_active_threads: int
    events: int
    network_limits: dict[str, float] = field(default_factory=dict)
    interrupt_utilisation: float = 0.0
    core_utilisation: float = 0.0
    quota_utilisation: float = 0.0
    flow: Flow | None = field(default=None, repr=False)


def run_compiled(policy: str, node: at.Node) -> int:
    """Run the compiled execution of a policy on a new node until the end of its window.

    Returns
    -------
    int
        How many events happened.
    """
    function = getattr(library(at.SOURCES), f"run_{POLICIES[policy].compiled}")
    function.restype = ctypes.c_int64
    arrays = (node.blocks["node"], node.histogram, node.calendar)
    return int(function(*(ctypes.c_void_p(pointer(array)) for array in arrays)))


def simulate_node(policy: str, times: NodeTimes, setup: NodeSetup) -> NodeResult:
    """Simulate a node from empty until `setup.end_ps`.

    Parameters
    ----------
    policy : str
        The name of a policy (`policies/`). With `io_threads` 1 every engine is single-threaded,
        whatever its policy.

    Raises
    ------
    ValueError
        If there is no such policy, or the window is empty.
    OutOfRangeError
        If the window is too long, interruptions take all time, or a duration is too long to be
        counted: the host, the engine or the scenario is beyond what can be simulated.
    RuntimeError
        If the run violates a conservation law: an error in the program.
    Stopped
        If another thread ended it.
    """
    if policy not in POLICIES:
        raise ValueError(f"no policy named {policy!r}; there are {', '.join(POLICIES)}")
    if not 0 <= setup.warmup_ps < setup.end_ps:
        raise ValueError(f"the window from {setup.warmup_ps} to {setup.end_ps} ps is empty")
    if 0 < setup.interruption_gap_ps <= times.interruption_ps.mean():
        raise OutOfRangeError(
            "interruptions of the host that last as long as the gaps between them leave no time"
        )
    if setup.quota_ps > 0 and min(setup.quota_period_ps, setup.quota_slice_ps) <= 0:
        raise ValueError("a quota needs a period and a slice above 0")
    if setup.main_pinned and setup.server_cores == 1:
        raise ValueError("a main thread with the only core leaves none to the other threads")
    policy = running(policy, io_threads=setup.io_threads).name
    setup = under_policy(policy, setup)
    agents = at.n_agents(setup)
    if setup.end_ps >= horizon_ps(agents):
        raise OutOfRangeError(
            f"{setup.end_ps / _PS_PER_S:,.3g} s are more than {agents} threads and clients can be "
            "simulated for"
        )
    _check_range(times, setup)
    node = at.new_node(times, setup)

    def end_now() -> None:
        node.head["end_ps"] = node.head["until_ps"] = 0

    with stoppable(end_now):
        events = run_compiled(policy, node)
    check_conservation(node)
    return _result(policy, node, times, int(events))


def _check_range(times: NodeTimes, setup: NodeSetup) -> None:
    """Refuse durations and counts that don't fit in 64 bits."""
    known = any(times is other for other in _IN_RANGE)
    if _fit(setup) and (known or _fit(times)):
        if not known:
            # Threads check at the same time: a list may change while it is looked through.
            _IN_RANGE[:] = [times, *_IN_RANGE[: _MOST_IN_RANGE - 1]]
        return
    for record in (times, setup):
        for name, value in zip(record._fields, record, strict=True):
            ends: Any = (value, value)
            if isinstance(value, np.ndarray):
                ends = value.min(initial=0), value.max(initial=0)
            if not -_LARGEST < float(ends[0]) <= float(ends[1]) < _LARGEST:
                found = np.atleast_1d(np.asarray(value, dtype=float))
                raise OutOfRangeError(
                    f"{name} of the node would be {found[np.argmax(np.abs(found))]:.3g}: a "
                    "number of the host, the engine or the scenario is beyond what can be simulated"
                )


_MOST_IN_RANGE = 4
_IN_RANGE: list[NodeTimes] = []
"""Durations that were checked last, the latest first: several runs have the same."""


def _fit(record: NodeTimes | NodeSetup) -> bool:
    """Whether all numbers do, those of tables included."""
    tables = [np.ravel(value) for value in record if isinstance(value, np.ndarray)]
    numbers: list[Any] = [value for value in record if not isinstance(value, np.ndarray)]
    if tables:
        together = np.concatenate(tables)
        numbers += [float(together.min()), float(together.max())]
    return all(-_LARGEST < number < _LARGEST for number in numbers)


def _result(policy: str, node: at.Node, times: NodeTimes, events: int) -> NodeResult:
    setup = node.setup
    window_ps = setup.end_ps - setup.warmup_ps
    counters = node.counters(COUNTERS)
    completions = counters["completions"]
    busy_ps = node.threads["busy_ps"].tolist()
    server_ps, generator_ps = busy_ps[: setup.io_threads], busy_ps[setup.io_threads :]

    rules = POLICIES[policy]
    alike = rules.threads_alike

    def per_request_us(total_ps: int) -> float:
        return total_ps / completions / _PS_PER_US if completions else float("nan")

    # Active I/O threads spin while they have nothing to do; stopped ones sleep.
    on_cpu_ps = node.thread(0, "on_cpu_ps") + counters["active_thread_ps"]
    if rules.threads_sleep:
        on_cpu_ps = sum(server_ps)
    limits = _network_limits(node, counters)
    ranges, shared = core_ranges(setup), shared_range(setup)
    cores = shared[1] - shared[0]
    if cores or setup.quota_ps:
        on_cpu_ps = sum(node.on_core_ps(n) for n in range(setup.io_threads))
        if ranges[0] == OWN_CORE:
            on_cpu_ps += server_ps[0] if rules.threads_sleep else node.thread(0, "on_cpu_ps")
    quota = setup.quota_period_ps / setup.quota_ps if setup.quota_ps else 0.0
    sharing_ps = 0
    if cores:
        sharing_ps = sum(node.on_core_ps(n) for n, cs in enumerate(ranges) if cs == shared)
    return NodeResult(
        policy=policy,
        window_s=window_ps / _PS_PER_S,
        completions=completions,
        throughput_rps=completions * _PS_PER_S / window_ps,
        latency=node.latency(),
        # Where all threads have clients of their own, none of them is the main thread.
        main_thread_utilisation=0.0 if alike else server_ps[0] / window_ps,
        io_thread_utilisation=[ps / window_ps for ps in server_ps[0 if alike else 1 :]],
        load_generator_utilisation=sum(generator_ps) / window_ps / setup.generators,
        server_cpu_us_per_request=per_request_us(on_cpu_ps),
        server_useful_cpu_us_per_request=per_request_us(sum(server_ps)),
        generator_cpu_us_per_request=per_request_us(sum(generator_ps)),
        network_utilisation=max(limits.values()),
        counters=counters,
        series=node.series()[:, :2].copy(),
        final_active_threads=node.counter("active_threads"),
        events=events,
        network_limits=limits,
        # Time that a packet sent at the end takes lies after the window.
        interrupt_utilisation=min(
            1.0, counters["interrupt_ps"] / window_ps / max(1, setup.interrupt_cores)
        ),
        core_utilisation=sharing_ps / window_ps / cores if cores else 0.0,
        # Slices taken before the window may be used up in it.
        quota_utilisation=min(1.0, on_cpu_ps * quota / window_ps),
        flow=_flow(node, times) if setup.open_loop else None,
    )


def _flow(node: at.Node, times: NodeTimes) -> Flow:
    setup = node.setup
    rate_rps, cycle_ps = _arrivals(times, setup)
    completed, _, arrived = np.cumsum(node.series(), axis=0).T
    times_ps = setup.series_ps * np.arange(1, len(arrived) + 1)
    # The last entry ends with the run, or later.
    inside = (times_ps >= setup.warmup_ps) & (times_ps <= setup.end_ps)
    return Flow(
        at_start=node.backlog_at_start(),
        at_end=node.backlog_at_end(),
        times_ps=times_ps[inside],
        arrived=arrived[inside],
        completed=completed[inside],
        window_ps=(setup.warmup_ps, setup.end_ps),
        connections=setup.clients,
        rate_rps=rate_rps,
        cycle_ps=cycle_ps,
    )


def _arrivals(times: NodeTimes, setup: NodeSetup) -> tuple[float, int]:
    """Mean rate of an open loop's arrivals, and after how long their rate repeats (or 0)."""
    if len(times.trace_due_ps):
        return len(times.trace_due_ps) * _PS_PER_S / setup.trace_period_ps, setup.trace_period_ps
    pieces, gaps = times.piece_ps, times.piece_gap_ps
    if len(pieces):
        arriving = gaps > 0
        each_source = float((pieces[arriving] / gaps[arriving]).sum())
        rate_rps = setup.generators * each_source * _PS_PER_S / float(pieces.sum())
        return rate_rps, 0 if setup.random_pieces else int(pieces.sum())
    return setup.generators * _PS_PER_S / setup.mean_interarrival_ps, 0


def _network_limits(node: at.Node, counters: dict[str, int]) -> dict[str, float]:
    """Shares of the window in which each limit of the network was in use."""
    setup, head = node.setup, node.head
    window_ps = setup.end_ps - setup.warmup_ps
    packets = counters["packets_in"], counters["packets_out"]
    framed_bytes = 0
    if not setup.same_host:
        framed_bytes = max(
            counters[name] + setup.header_bytes * count
            for name, count in zip(("wire_bytes_in", "wire_bytes_out"), packets, strict=True)
        )
    used_ps = {
        "bandwidth": framed_bytes * head["wire_ps_per_kib"] / 1024,
        "packets": sum(packets) * head["packet_ps"],
        "one connection": framed_bytes * head["flow_ps_per_kib"] / 1024 / setup.clients,
    }
    # What was sent at the end is still in flight when the window is over.
    return {name: min(1.0, float(used / window_ps)) for name, used in used_ps.items()}


# --- conservation of requests, and Little's law ---------------------------------------------------


_ALONG_THE_WAY = ("sent", "arrived", "read", "executed", "written", "returned", "received")
_LONG_RUN = 50
"""Batches per client from which the ends of the window hardly matter in Little's law."""
_TOLERANCE = 0.02


def check_conservation(node: at.Node) -> None:
    """Compare the counts of a finished run.

    Raises
    ------
    RuntimeError
        If commands were lost or made up, if counters disagree, or if Little's law fails. That is
        an error in the program, never in its input.
    """
    clients = node.clients()
    along = np.array([clients[name] for name in _ALONG_THE_WAY])
    wrong = np.argwhere(along[:-1] < along[1:])
    if len(wrong):
        place, client = wrong[0]
        earlier, later = _ALONG_THE_WAY[place : place + 2]
        _fail(f"client {client} has more commands {later} than {earlier}")
    setup = node.setup
    threads = range(setup.io_threads, setup.io_threads + setup.generators)
    requests = _commands_on(node, owners(setup), "request_wire")
    # What a generator thread has composed but not yet sent.
    composing = node.threads[setup.io_threads :]
    composing = composing[composing["client"] != 0]
    rows = (composing["client"] - node.counter("client_rows")) // clients.dtype.itemsize
    np.add.at(requests, rows, composing["count"])
    _same(clients["sent"], clients["arrived"] + requests, "requests on the way")
    replies = _commands_on(node, threads, "queue")
    _same(clients["written"], clients["returned"] + replies, "replies on the way")

    completions = node.counter("completions")
    recorded = node.latency().count
    if recorded != completions:
        _fail(f"{recorded} latencies are recorded for {completions} completions")
    in_series = int(node.series()[:, 0].sum())
    received = int(clients["received"].sum())
    if not completions <= in_series <= received:
        _fail(f"{completions} measured of {in_series} completions of {received} received replies")
    if setup.open_loop:
        _check_flow(node, clients, completions)
    elif completions >= _LONG_RUN * setup.clients * setup.pipeline:
        _check_littles_law(node, clients, completions)


def _fail(what: str) -> None:
    raise RuntimeError(f"node simulation is inconsistent: {what}")


def _same(expected: np.ndarray, found: np.ndarray, what: str) -> None:
    wrong = np.flatnonzero(expected != found)
    if len(wrong):
        client = wrong[0]
        _fail(f"{what} of client {client}: {expected[client]} counted, {found[client]} found")


def _commands_on(node: at.Node, threads: range, wire: str) -> np.ndarray:
    """Commands (or replies) of each client that lie on this wire of these threads."""
    entries = node.on_wires(threads, wire)
    # Sums of whole numbers far below 2^53 are exact.
    counted = np.bincount(
        entries["number"], weights=entries["commands"], minlength=node.setup.clients
    )
    return counted.astype(np.int64)


def _check_flow(node: at.Node, clients: np.ndarray, completions: int) -> None:
    """Open loop: what was due at the window's start or arrived in it completed or is still due."""
    found = node.waiting() + int(clients["sent"].sum())
    found -= node.counter("completed_early") + completions
    if found != node.backlog_at_end():
        _fail(
            f"{node.backlog_at_start()} requests due before the window and "
            f"{node.counter('arrivals')} arrivals, less {node.counter('overflows')} without room "
            f"and {completions} completions, leave {node.backlog_at_end()}, but {found} are found"
        )


def _check_littles_law(node: at.Node, clients: np.ndarray, completions: int) -> None:
    """Closed loop: every client either thinks or waits for a batch of replies.

    Both times together add up to the window, for each client. A batch takes as long as the slowest
    of its commands: at pipeline 1 the sum is exact up to the ends of the window, otherwise it lies
    between one and `pipeline` times the window.
    """
    setup = node.setup
    window_ps = setup.end_ps - setup.warmup_ps
    latency = node.latency()
    spent_ps = latency.sum_ps + setup.think_ps * completions / setup.pipeline
    spent_ps += node.counter("uncounted_ps") + node.counter("unsent_ps")
    # Clients whose thread of the load generator starts later wait for that first.
    starts_ps = setup.generator_of(np.arange(setup.clients)) * setup.generator_start_ps
    spent_ps += _inside_ps(np.minimum(starts_ps, setup.end_ps) - setup.warmup_ps)
    # One whose thread has had no core yet, since others spin on them all, waits until the end.
    never = clients["sent"] == 0
    spent_ps += _inside_ps(setup.end_ps - np.maximum(starts_ps[never], setup.warmup_ps))
    # Requests still in flight have waited since they fell due: one in each of a client's slots
    # that follow those whose replies it has taken.
    slots = node.outstanding_slots()
    place = np.arange(slots) - clients["received"][:, np.newaxis]
    in_flight = (place & (slots - 1)) < (clients["sent"] - clients["received"])[:, np.newaxis]
    since_ps = np.maximum(node.commands()["due_ps"][in_flight], setup.warmup_ps)
    spent_ps += _inside_ps(setup.end_ps - since_ps)
    mean = spent_ps / (setup.clients * window_ps)
    ends = (latency.max_ps + setup.think_ps) / window_ps + _TOLERANCE
    if not 1.0 - ends <= mean <= setup.pipeline * (1.0 + ends):
        _fail(
            f"Little's law gives {mean:.4f} batches on the way per client, expected 1"
            + (f" to {setup.pipeline}" if setup.pipeline > 1 else "")
            + f" within {ends:.1%}"
        )


def _inside_ps(durations_ps: np.ndarray) -> float:
    """The sum of those above 0, which may be more than 64 bits hold."""
    return float(np.maximum(durations_ps, 0).sum(dtype=float))
