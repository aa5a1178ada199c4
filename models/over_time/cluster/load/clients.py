"""Who asks: pods of workers, how often they try again, and the autoscaler that adds pods."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from ..events.base import EventProcess
from ..schema import Autoscaler
from ..schema import Clients as Described
from .cohorts import RECORDS, TOKEN

if TYPE_CHECKING:
    from ..cluster import Cluster
from dataclasses import dataclass

from forecache.hwprofiles.speed import HostSpeed

from ....engines.profile import EngineProfile
from ....scenario.schema import Scenario
from ....step_times.wire import ACCEPT_INSTRUCTIONS, tls_times


class ClientFleet:
    """The pods, and the rules their workers follow.

    Attributes
    ----------
    pods
        Pods that take requests.
    starting
        Pods on their way.
    """

    def __init__(self, described: Described, *, step_s: float) -> None:
        self.described = described
        self.step_s = step_s
        self.pods = described.pods
        self.starting = 0
        self.held = 0
        """Workers that wait for something else than a node, such as a database."""
        self.missing, self.room = 0.0, math.inf
        """Share of the commands that wait for a database behind the nodes, and how many of them it
        answers within a step, besides those that wait already: by the step before."""
        self.shared_connections: int | None = None
        """Connections to each node that all workers share, where a proxy has them."""
        self.cpu_s = 0.0
        """CPU time that pods have spent on users' requests since the autoscaler looked last."""

    @property
    def workers(self) -> int:
        """Workers of all pods that take requests."""
        return self.pods * self.described.workers_per_pod

    @property
    def wanted_connections(self) -> int:
        """Persistent connections to each node that all workers use."""
        if self.shared_connections is not None:
            return self.shared_connections
        return round(self.workers * self.described.connections_per_worker)

    @property
    def timeout_steps(self) -> int:
        """Steps after which a request's client has gone; see `cohorts`."""
        return steps_of(self.described.timeout_s, self.step_s)

    @property
    def connect_timeout_steps(self) -> int:
        """The same for a connection."""
        return steps_of(self.described.connect_timeout_s, self.step_s)

    def rules(self) -> np.ndarray:
        """(1,) record `rules`: what the load wants to know of clients."""
        budget = self.described.retry_budget
        rules = np.zeros(1, RECORDS["rules"])
        rules["timeout_steps"] = self.timeout_steps
        rules["connect_timeout_steps"] = self.connect_timeout_steps
        rules["persistent"] = self.described.connections == "persistent"
        if budget is not None:
            rules["tokens_per_answer"] = round(budget.per_success * TOKEN)
            rules["most_tokens"] = round(budget.most * TOKEN)
        rules["connect_delay_steps"] = self.connect_timeout_steps
        return rules

    def backoffs(self) -> np.ndarray:
        """(attempts,) records `backoff`: when the attempt after each begins."""
        backoff = self.described.backoff
        found = np.zeros(self.described.retries + 1, RECORDS["backoff"])
        for attempt in range(len(found)):
            delay_s = min(backoff.cap_s, backoff.base_s * 2.0**attempt)
            steps = max(1, round(delay_s / self.step_s))
            found[attempt] = (1, steps) if backoff.jitter == "full" else (steps, 1)
        return found

    def close_some(self, state: np.ndarray, *, share: float) -> None:
        """So large a share of the connections to each node is closed, with the pods that had it."""
        closed = np.rint(share * state["open"]).astype(np.int64)
        state["open"] -= closed
        state["closed"] += closed


def steps_of(timeout_s: float, step_s: float) -> int:
    """Steps of a time-out. What joins in a step does so in its middle, on average."""
    return max(1, math.floor(timeout_s / step_s + 0.5))


def autoscale(cluster: Cluster, rule: Autoscaler) -> EventProcess:
    """The horizontal autoscaler: looks every `sync_s`, starts pods and removes some."""
    clients = cluster.clients
    wanted = deque([(float(cluster.env.now), clients.pods)])
    while True:
        began_s = cluster.env.now
        yield cluster.env.timeout(rule.sync_s)
        now_s = cluster.env.now
        pods = clients.pods + clients.starting
        used = clients.cpu_s / (now_s - began_s)
        clients.cpu_s = 0.0
        desired = desired_pods(pods, used, rule)
        wanted.append((now_s, desired))
        while wanted[0][0] <= now_s - rule.scale_down_s:
            wanted.popleft()
        desired = max(count for _, count in wanted) if desired < pods else desired
        if desired > pods:
            clients.starting += desired - pods
            cluster.env.process(_start(cluster, desired - pods, rule.startup_s))
        elif desired < clients.pods:
            share = 1.0 - desired / clients.pods
            clients.close_some(cluster.nodes.state, share=share)
            clients.pods = desired


def desired_pods(pods: int, used: float, rule: Autoscaler) -> int:
    """How many pods the autoscaler wants.

    Kubernetes: ceil(pods * use / target) unless use / target is within the tolerance of 1, at most
    twice as many or four more than there are at a look.

    Parameters
    ----------
    used
        CPU of all pods in use, in pods.
    """
    ratio = used / (pods * rule.cpu_target) if pods else math.inf
    if abs(ratio - 1.0) <= rule.tolerance:
        return pods
    # Rounded first: 800.0000000001 pods are 800.
    desired = math.ceil(round(used / rule.cpu_target, 6))
    desired = min(desired, max(2 * pods, pods + 4))
    return max(rule.min_pods, min(rule.max_pods, desired))


def _start(cluster: Cluster, pods: int, startup_s: float) -> EventProcess:
    yield cluster.env.timeout(startup_s)
    cluster.clients.starting -= pods
    cluster.clients.pods += pods


# --- connections ---------------------------------------------------------------------------------

# What a new connection takes, and who does it.
#
# The kernel completes TCP's handshake by itself and keeps the connection in the listen backlog; the
# event loop accepts a few per turn. With TLS the server's signature follows at once, on the main
# thread or, from Valkey 8.1 on, on an I/O thread. Then the client's first command can be read.


CONNECTION_SENDS = 9.0
"""Time of the kernel for a connection's beginning and end on the server's thread, in sends of a
small message: accept4, options, the poll's interest, close, and both handshakes' packets (assumed,
6 to 12). On the machine of the shipped bundles, whose sends take 3.7 us, a new connection took
Valkey 8.0.1 and Redis 7.0.15 35 to 38 us of CPU time while it was busy and a SET took 10, and 24 to
26 us while a SET took 6.4; Valkey 9.1.2 then 23 to 24."""

REJECTED = 0.5
"""Share of that for a connection that is accepted, told that there are too many, and closed
(assumed, 0.3 to 0.8)."""

ACCEPTS = {"tcp": 10, "tls": 1}
"""max-new-connections-per-cycle and max-new-tls-connections-per-cycle, from Redis 7.4 and Valkey
8.0 on (redis PR 12178)."""

ACCEPTS_BEFORE = 1000
"""MAX_ACCEPTS_PER_CALL of earlier ones."""

_LIMITED_FROM = {"redis": (7, 4), "valkey": (8, 0)}
_PS_PER_NS = 1000
_PS_PER_US = 10**6


@dataclass(frozen=True)
class ConnectionWork:
    """What a new connection takes.

    Attributes
    ----------
    main_ps
        Time of the main thread, from accepting to closing.
    helpers_ps
        Time of an I/O thread, if it does the handshake; otherwise 0.
    reject_ps
        Time of the main thread for one that is turned away because of maxclients.
    helpers
        I/O threads that do handshakes.
    per_cycle
        New connections that one turn of the event loop accepts.
    """

    main_ps: int
    helpers_ps: int
    reject_ps: int
    helpers: int
    per_cycle: int


def connection_work(
    scenario: Scenario,
    engine: EngineProfile,
    speed: HostSpeed,
    *,
    kernel_scale: float,
    per_cycle: int | None = None,
    measured_us: float | None = None,
) -> ConnectionWork:
    """What a new connection takes on a host with an engine.

    Parameters
    ----------
    kernel_scale
        Cost of the engine's socket calls against the host's micro-benchmark.
    per_cycle
        Accepts per turn, if not the engine's default.
    measured_us
        Time of the main thread per connection, handshake included, in place of what the profiles
        say.
    """
    accept_ns = kernel_scale * CONNECTION_SENDS * speed.tcp_send_ns
    accept_ns += ACCEPT_INSTRUCTIONS / (speed.user_ipc * speed.clock_ghz)
    handshake_ns = tls_times(
        scenario, engine, speed, kernel_scale=kernel_scale, line_wait_ns=0.0
    ).handshake_ns
    offloaded = engine.tls == "io_threads_and_handshakes" and scenario.io_threads > 1
    helpers_ns = handshake_ns if offloaded else 0.0
    main_ns = accept_ns + handshake_ns - helpers_ns
    if measured_us is not None:
        main_ns, helpers_ns = 1000.0 * measured_us, 0.0
    return ConnectionWork(
        main_ps=round(main_ns * _PS_PER_NS),
        helpers_ps=round(helpers_ns * _PS_PER_NS),
        reject_ps=round(min(main_ns, REJECTED * accept_ns) * _PS_PER_NS),
        helpers=scenario.io_threads - 1,
        per_cycle=per_cycle or _accepts(scenario, engine),
    )


def _version(engine: EngineProfile) -> tuple[int, ...]:
    parts = (engine.version or "0").split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())


def _accepts(scenario: Scenario, engine: EngineProfile) -> int:
    first = _LIMITED_FROM.get(engine.engine)
    if first is None or _version(engine) < first:
        return ACCEPTS_BEFORE
    return ACCEPTS["tcp" if scenario.tls is None else "tls"]
