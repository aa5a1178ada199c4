"""The load's clock: prepares each step, has it done, and looks at what came of it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import simpy

from forecache.sim.native import pointer
from forecache.sim.simpy_kernel import hold
from forecache.sim.streams import uniform

from ....scenario.workload import Arrivals
from ...recorder import Process
from ..nodes import REFUSES, SILENT, Nodes
from ..record import ClusterRecord
from ..schema import ClusterScenario, Demand
from .clients import ClientFleet
from .cohorts import CELL_WIDTH, RECORDS, UTILISATION_CELLS, WAIT_CELLS, advance, draw_arrivals

_PS_PER_S = 1e12
_LAST = 1000
"""Priority of the load among things that happen at one time: it sees what they did."""

_UNLIMITED = 2**62
_HALVINGS = 20
_CLOSED_LOOP_HALVINGS = 12
"""A request in 4,000, of those that would begin if none ever waited."""

_LEAST_BUSY_S = 1e-6
_LOADS = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True)
class LoadStep:
    """What a step of the load did.

    Attributes
    ----------
    number, start_s, length_s
        Which one, and when.
    offered, answered
        (nodes,) requests that began and that were answered in it.
    commands_each
        (nodes,) commands of a request that begins at each node.
    commands_answered, commands_failed
        (nodes,) commands of the requests that were answered, and of those given up.
    utilisation
        (nodes,) what was asked of each node against what it could do, at most 1.
    """

    number: int
    start_s: float
    length_s: float
    offered: np.ndarray
    answered: np.ndarray
    commands_each: np.ndarray
    commands_answered: np.ndarray
    commands_failed: np.ndarray
    utilisation: np.ndarray


class Load:
    """Requests, step by step."""

    def __init__(
        self,
        scenario: ClusterScenario,
        env: simpy.Environment,
        nodes: Nodes,
        clients: ClientFleet,
        record: ClusterRecord,
        *,
        seed: int,
    ) -> None:
        self._scenario, self._env, self._seed = scenario, env, seed
        self._nodes, self._clients, self._record = nodes, clients, record
        self.step_s = scenario.step
        self.steps = max(1, round(scenario.duration_s / self.step_s))
        self.number = 0
        self.demand_factor = 1.0
        """Of the scenario's demand, how much begins: events may change it."""
        self.closed_loop = False
        """Whether nothing is asked but what free workers begin, each its next request at once."""
        self.after_step: list[Callable[[LoadStep], None]] = []
        self._expected, self._drawn = expected_requests(
            scenario.demand, steps=self.steps, step_s=self.step_s, seed=seed
        )
        self._rules = clients.rules()
        self._backoffs = clients.backoffs()
        latest = int((self._backoffs["from_steps"] + self._backoffs["in_steps"]).max())
        horizon, attempts = latest + clients.connect_timeout_steps + 2, len(self._backoffs)
        self.future = np.zeros((horizon, 0, attempts), np.int64)
        self._by_attempt = np.zeros((3, attempts), np.int64)
        self.latency = np.zeros((0, UTILISATION_CELLS, WAIT_CELLS), np.int64)
        self.connect_waits = np.zeros(WAIT_CELLS, np.int64)
        self._traffic = np.zeros(0)
        self._visits = self._commands = np.zeros(0)
        self._opened_before = np.zeros(0, np.int64)
        self._given_for: tuple[object, ...] = ()
        self._mean_s = np.zeros((0, len(_LOADS)))
        self._busy = np.zeros((0, 2, len(_LOADS)))
        self._fixed = np.zeros(0, RECORDS["given"])
        self._most = np.zeros(0)
        self._lasting: tuple[np.ndarray | None, ...] = (None,) * 5
        """Arrays that `_memory` points to."""
        self._memory = np.zeros(1, RECORDS["load"])
        memory = self._memory
        memory["seed"], memory["step_s"], memory["cell_width"] = seed, self.step_s, CELL_WIDTH
        memory["attempts"], memory["horizon"] = attempts, horizon
        for name, array in (
            ("rules", self._rules),
            ("backoffs", self._backoffs),
            ("connect_waits", self.connect_waits),
            *zip(("lost", "dropped", "served"), self._by_attempt, strict=True),
        ):
            memory[name] = pointer(array)

    def drop_abandoned(self) -> None:
        """From now on nothing is served for clients that have gone: a proxy knows of them."""
        self._rules["drops_gone"] = 1

    @property
    def mean_rps(self) -> float:
        """Users' requests a second that are expected over the whole run."""
        return float(self._expected.mean()) / self.step_s

    @property
    def asked_rps(self) -> float:
        """Commands a second that are expected in this step, whatever becomes of them."""
        commands = self._scenario.clients.commands_per_request
        number = min(self.number, self.steps - 1)
        return self.demand_factor * float(self._expected[number]) / self.step_s * commands

    def begin(self) -> None:
        """What is so before the first step: persistent connections, full retry budgets."""
        nodes, described = self._nodes, self._scenario.clients
        self._fit()
        if described.connections == "persistent" and described.initially_connected:
            wanted = np.where(nodes.traffic > 0, self._clients.wanted_connections, 0)
            nodes.state["open"] = np.minimum(wanted, nodes.numbers()["maxclients"])
        self._opened_before = nodes.connections.copy()

    def process(self) -> Process:
        """The SimPy process: one step after the other until the end."""
        env, record = self._env, self._record
        # What happens at time 0 comes before the first step.
        yield hold(env, _LAST, 0)
        every = max(1, round(record.report_s / self.step_s))
        while self.number < self.steps:
            self.advance()
            self.number += 1
            ends_s = self.number * self.step_s
            yield hold(env, _LAST, ends_s - env.now)  # type: ignore[arg-type]
            if self.number % every == 0 or self.number == self.steps:
                steps = (self.number - 1) % every + 1
                record.report(steps * self.step_s, self.latency, self.connect_waits)
                self.latency[:] = 0
                self.connect_waits[:] = 0
                self.check()

    def _fit(self) -> None:
        """Make room for nodes that were added."""
        nodes = self._nodes
        count = nodes.count
        if self.future.shape[1] < count:
            horizon, known, attempts = self.future.shape
            before, self.future = self.future, np.zeros((horizon, count, attempts), np.int64)
            self.future[:, :known] = before
            nodes.state["tokens"][known:] = self._rules["most_tokens"]
            self._opened_before = np.append(
                self._opened_before, np.zeros(count - len(self._opened_before), np.int64)
            )
        if len(self.latency) < len(nodes.kinds):
            more = np.zeros(
                (len(nodes.kinds) - len(self.latency), *self.latency.shape[1:]), np.int64
            )
            self.latency = np.concatenate([self.latency, more])
        if not np.array_equal(self._traffic, nodes.traffic):
            self._traffic = nodes.traffic.copy()
            # A users' request of many commands asks each node once, for its share of them.
            commands = self._scenario.clients.commands_per_request
            share = np.clip(self._traffic, 0.0, 1.0)
            self._visits = 1.0 - (1.0 - share) ** commands
            self._commands = np.where(
                share > 0, commands * share / np.maximum(self._visits, 1e-300), 1.0
            )

    def advance(self) -> None:
        """One step."""
        nodes, clients = self._nodes, self._clients
        self._fit()
        begun = self.demand_factor * float(self._expected[self.number])
        if self.closed_loop:
            begun = clients.workers * self.step_s / self._busy_s()
        offered = np.zeros(nodes.count, np.int64)
        means = begun * self._visits
        draw_arrivals(self._seed, self.number, means, self._drawn, offered)
        given = self._given(offered, means)
        self._admit(given)
        offered = given["new_requests"]
        utilisation = np.zeros(nodes.count)
        before = self._progress()
        for queue in (nodes.connect_queue, nodes.request_queue):
            queue.make_room(3 * self.future.shape[2])
        self._flow(given, utilisation)
        nodes.forgets[:] = 0
        passed = self._progress() - before
        step_ps = self.step_s * _PS_PER_S
        self._note_busy_threads(passed / step_ps)
        visits = float(self._visits.sum())
        autoscaler = self._scenario.clients.autoscaler
        if autoscaler is not None and visits > 0:
            clients.cpu_s += float(offered.sum()) / visits * autoscaler.cpu_s_per_request
        commands_answered, commands_failed = self._record.step(self._commands)
        if self.after_step:
            done = LoadStep(
                *(self.number, self.number * self.step_s, self.step_s),
                *(offered, passed[:, 0], self._commands),
                *(commands_answered, commands_failed, utilisation),
            )
            for function in self.after_step:
                function(done)

    def _progress(self) -> np.ndarray:
        """(nodes, 4) from the start: answers; time for both, spent on requests, on connections."""
        state = self._nodes.state
        counters = ("answered", "budget_ps", "busy_ps", "connect_ps")
        return np.array([state[counter] for counter in counters]).T

    def _note_busy_threads(self, passed: np.ndarray) -> None:
        """Add how long threads were busy in a step, which isn't in proportion to the load.

        Parameters
        ----------
        passed
            (nodes, 4) as `_progress`, of this step: answers, and as shares of the step what
            background work left of the main thread, and requests and connections took of that.
        """
        nodes = self._nodes
        for kind in nodes.kinds[len(self._busy) :]:
            self._busy = np.concatenate([self._busy, [np.stack(kind.surrogate.busy(_LOADS))]])
        loads = passed[:, 2] / nodes.numbers()["main_thread_at_capacity"]
        below = np.minimum(loads * (len(_LOADS) - 1), len(_LOADS) - 1.001).astype(np.int64)
        above = np.minimum(loads, 1.0) * (len(_LOADS) - 1) - below
        known = self._busy[nodes.kind]
        rows = np.arange(nodes.count)
        low, high = known[rows, :, below], known[rows, :, below + 1]
        main, helpers = (low + above[:, None] * (high - low)).T
        elsewhere = 1.0 - passed[:, 1] + passed[:, 3]
        nodes.main_busy_s += self.step_s * np.minimum(1.0, elsewhere + main)
        nodes.io_busy_s += self.step_s * helpers

    def _admit(self, given: np.ndarray) -> None:
        """Turn requests away for which there is no free worker; changes `given`.

        A worker is not free while its request waits, also for a database, or backs off. Requests
        may begin as long as no more wait at the end of the step than there are workers, and as
        long as the workers whose requests do not wait for the whole step could make them.
        In a closed loop, requests that are on their way, at the latency of the load that they
        make, and those that wait are as many as there are workers (Little's law).
        """
        nodes, clients = self._nodes, self._clients
        described = self._scenario.clients
        offered = given["new_requests"].copy()
        waiting = nodes.connect_queue.waiting + nodes.request_queue.waiting
        free = clients.workers - clients.held - int(nodes.state["backing_off"].sum())

        can_of = self._can(given)
        silent, refuses = nodes.state["down"] == SILENT, nodes.state["down"] == REFUSES

        def can_with(new: np.ndarray) -> np.ndarray:
            can = can_of(new)
            can[silent] = 0.0
            # A refused client backs off, or frees its worker at once where there are no retries.
            can[refuses] = 0.0 if described.retries else np.inf
            return can

        can = can_with(np.zeros(nodes.count))
        # A worker whose request is served within the step is free again for the next.
        held = float(np.maximum(0.0, waiting - can).sum())
        most = max(0.0, free - held) * self.step_s / self._busy_s()
        share = min(1.0, most * float(self._visits.sum()) / max(1, int(offered.sum())))

        def stuck(share: float) -> float:
            there = waiting + share * offered
            can = can_with(share * offered)
            left = float(np.maximum(0.0, there - can).sum())
            missed = clients.missing * float((share * offered) @ self._commands)
            left += max(0.0, missed - clients.room)
            return left + self._on_their_way(there, can) if self.closed_loop else left

        if stuck(share) > free:
            low = 0.0
            for _ in range(_CLOSED_LOOP_HALVINGS if self.closed_loop else _HALVINGS):
                middle = (low + share) / 2.0
                low, share = (middle, share) if stuck(middle) <= free else (low, middle)
            share = low
        if share < 1.0:
            given["new_requests"] = np.floor(share * offered)
            given["expected"] = share * given["expected"]
            if not self.closed_loop:
                self._record.turned_away += float(
                    (offered - given["new_requests"]) @ self._commands
                )

    def _on_their_way(self, there: np.ndarray, can: np.ndarray) -> float:
        """Mean number of requests between worker, node and worker that wait in no queue.

        Parameters
        ----------
        there, can
            (nodes,) requests to serve in the step, and how many each node can.
        """
        nodes, described = self._nodes, self._scenario.clients
        for kind in nodes.kinds[len(self._mean_s) :]:
            means = kind.surrogate.mean(_LOADS) / 1000.0
            self._mean_s = np.concatenate([self._mean_s, [means]])
        load = np.minimum(1.0, there / np.maximum(can, 1e-9)) * (len(_LOADS) - 1)
        below = np.minimum(load.astype(np.int64), len(_LOADS) - 2)
        low, high = self._mean_s[nodes.kind, below], self._mean_s[nodes.kind, below + 1]
        each_s = low + (load - below) * (high - low)
        # A users' request visits several nodes, one after the other.
        own_s = described.request_ms / 1000.0 / max(float(self._visits.sum()), 1e-9)
        served = np.minimum(there, can)
        return float(served @ (own_s + self._commands * each_s)) / self.step_s

    def _busy_s(self) -> float:
        """How long a user's request keeps a worker busy when nothing makes it wait."""
        described = self._scenario.clients
        busy_s = described.request_ms / 1000.0
        busy_s += described.commands_per_request * self._nodes.quickest_s
        return max(busy_s, _LEAST_BUSY_S)

    def _can(self, given: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """How many requests each node can serve in a step, those first that wait.

        Returns
        -------
        Callable
            From (nodes,) requests that begin to (nodes,) that can be served. Each with a connection
            of its own, they take accepts from the time for requests, as `advance` has it: accepts
            may take all the time that queued requests leave, so that none remains to serve the
            accepted clients.
        """
        nodes = self._nodes
        request_ps, left_ps = given["per_request_ps"], given["budget_ps"].astype(float)
        accept_ps, elsewhere = given["per_connection_ps"], given["elsewhere"]
        connecting_ps = request_ps + accept_ps
        ready = np.minimum(nodes.request_queue.waiting, left_ps / request_ps)
        left_ps -= ready * request_ps
        connecting = np.minimum(nodes.connect_queue.waiting, left_ps / connecting_ps)
        connecting = np.minimum(connecting, given["handshakes"])
        left_ps -= connecting * connecting_ps
        waited = ready + connecting
        if self._scenario.clients.connections == "persistent":
            can = np.minimum(waited + left_ps / request_ps, elsewhere)
            return lambda _new: can.copy()

        def can_with(new: np.ndarray) -> np.ndarray:
            accepting_ps = np.minimum(new * accept_ps, left_ps)
            return np.minimum(waited + (left_ps - accepting_ps) / request_ps, elsewhere)

        return can_with

    def _flow(self, given: np.ndarray, utilisation: np.ndarray) -> None:
        """The compiled part of a step."""
        nodes, memory = self._nodes, self._memory
        queues = (nodes.connect_queue.rows, nodes.request_queue.rows)
        lasting = (nodes.state, *queues, self.future, self.latency)
        if any(map(operator.is_not, lasting, self._lasting)):
            # They are new where nodes were added.
            names = ("state", "connect_queues", "request_queues", "due", "latencies")
            for name, array in zip(names, lasting, strict=True):
                memory[name] = pointer(array)
            memory["nodes"], self._lasting = nodes.count, lasting
        memory["step"] = self.number
        memory["given"], memory["utilisation"] = pointer(given), pointer(utilisation)
        advance(memory)

    def _given(self, offered: np.ndarray, means: np.ndarray) -> np.ndarray:
        """(nodes,) records `given`: what `advance` wants to know of each node.

        Parameters
        ----------
        offered, means
            (nodes,) requests that begin, and the means that they were drawn around.
        """
        nodes, wanted = self._nodes, self._clients.wanted_connections
        changing = (
            *(nodes.occupied, nodes.work_factor, nodes.limit_rps, nodes.kind),
            self._traffic,
        )
        if (known := (wanted, *(values.tobytes() for values in changing))) != self._given_for:
            self._given_for, self._fixed = known, self._slow_part(wanted)
        # As integers, since NumPy copies records field by field.
        given = self._fixed.view(np.int64).copy().view(self._fixed.dtype)
        limited = np.isfinite(nodes.limit_rps)
        if limited.any():
            # Of a limit less than one request a step, too, nothing is lost to rounding.
            until = np.floor(self._most[limited] * (self.number + np.array([[1], [0]])))
            given["elsewhere"][limited] = until[0] - until[1]
        given["new_requests"] = offered
        given["expected"] = np.rint(1000.0 * means)
        given["forgets"] = nodes.forgets
        return given

    def _slow_part(self, wanted: int) -> np.ndarray:
        """What is given as long as the control plane changes nothing."""
        nodes = self._nodes
        given = np.zeros(nodes.count, RECORDS["given"])
        can = nodes.numbers()
        work = self._commands * nodes.work_factor
        given["per_request_ps"] = np.maximum(1.0, can["main_ps"] * work)
        step_ps = self.step_s * _PS_PER_S
        given["budget_ps"] = step_ps * (1.0 - np.clip(nodes.occupied, 0.0, 1.0))
        most_rps = np.minimum(can["capacity_rps"] / work, nodes.limit_rps / self._commands)
        self._most = self.step_s * most_rps
        given["elsewhere"] = self._most
        given["per_connection_ps"] = np.maximum(1.0, can["connection_ps"])
        given["per_rejection_ps"] = can["rejection_ps"]
        given["accepts_per_turn"] = can["accepts_per_turn"]
        given["handshakes"] = np.minimum(self.step_s * can["handshakes_per_s"], _UNLIMITED)
        given["maxclients"] = can["maxclients"]
        given["backlog"] = can["backlog"]
        given["wanted"] = np.where(self._traffic > 0, wanted, 0)
        given["kind"] = nodes.kind
        return given

    def check(self) -> None:
        """Conservation, at each report; raises RuntimeError."""
        # Nodes may have been added since the last step.
        self._fit()
        check_conservation(self._nodes, self.future, self._opened_before)


# --- what must hold of all counts -----------------------------------------------------------------


def check_conservation(nodes: Nodes, future: np.ndarray, opened_before: np.ndarray) -> None:
    """Compare the counts of all nodes.

    Parameters
    ----------
    future
        (horizon, nodes, attempts) attempts that are due.
    opened_before
        (nodes,) connections that were there before the run.

    Raises
    ------
    RuntimeError
        They disagree, which is a fault of the program, never of its input.
    """
    state = nodes.state
    waiting = nodes.connect_queue.waiting + nodes.request_queue.waiting
    _same(
        "attempts",
        state["attempts"],
        state["answered"] + state["timed_out"] + state["refused"] + waiting,
    )
    _same("requests", state["offered"] + state["retries"], state["attempts"] + state["backing_off"])
    _same(
        "what went wrong", state["timed_out"] + state["refused"], state["failed"] + state["retries"]
    )
    _same("attempts to come", state["backing_off"], future.sum(axis=(0, 2)))
    _same("connections", opened_before + state["connected"], state["open"] + state["closed"])
    for name in state.dtype.names or ():
        negative = np.flatnonzero(state[name] < 0)
        if len(negative):
            raise RuntimeError(f"cluster simulation: node {negative[0]} has a negative {name}")


def _same(what: str, one: np.ndarray, other: np.ndarray) -> None:
    wrong = np.flatnonzero(one != other)
    if len(wrong):
        node = wrong[0]
        raise RuntimeError(
            f"cluster simulation is inconsistent: {what} of node {node}: {one[node]} and "
            f"{other[node]}"
        )


# --- demand ---------------------------------------------------------------------------------------


_BURST_DRAWS = 7001
"""Stream of the lengths of calm and burst."""


def expected_requests(
    demand: Demand, *, steps: int, step_s: float, seed: int
) -> tuple[np.ndarray, bool]:
    """(steps,) how many begin in each step, and whether that is a mean to draw around.

    A trace is repeated as it is; of everything else the number is the mean of a Poisson
    distribution.
    """
    ends_s = step_s * np.arange(steps + 1)
    if demand.rate_rps is not None:
        return np.full(steps, demand.rate_rps * step_s), True
    varying = demand.varying
    if varying.trace is not None:
        due_ps = varying.trace.due_ps
        cycles, within_ps = np.divmod(
            np.rint(ends_s * 1e12).astype(np.int64), varying.trace.period_ps
        )
        begun = np.searchsorted(due_ps, within_ps) + len(due_ps) * cycles
        return np.diff(begun.astype(float)), False
    durations, rates = _pieces(varying, until_s=float(ends_s[-1]), seed=seed)
    times = np.concatenate([[0.0], np.cumsum(durations)])
    begun = np.concatenate([[0.0], np.cumsum(durations * rates)])
    cycles, within = np.divmod(ends_s, times[-1])
    total = cycles * begun[-1] + np.interp(within, times, begun)
    return np.maximum(0.0, np.diff(total)), True


def _pieces(varying: Arrivals, *, until_s: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """How long each rate lasts, and the rates."""
    if varying.profile is not None:
        found = [(piece.duration_s, piece.rate_rps) for piece in varying.profile]
    else:
        assert varying.bursts is not None
        b, found, at_s = varying.bursts, [], 0.0
        while at_s < until_s:
            calm = len(found) % 2 == 0
            unit = uniform(seed, 0, _BURST_DRAWS, 0, len(found))
            lasts_s = -math.log(unit) * (b.calm_s if calm else b.burst_s)
            found.append((lasts_s, b.calm_rps if calm else b.burst_rps))
            at_s += lasts_s
    durations, rates = np.array(found).T
    return durations, rates
