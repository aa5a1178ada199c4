"""Who asks: pods of workers, how often they try again, and the autoscaler that adds pods."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import simpy

from ...recorder import Process
from ..nodes import Nodes
from ..schema import Autoscaler, Clients
from .cohorts import RECORDS, TOKEN


class ClientFleet:
    """The pods, and the rules their workers follow.

    Attributes
    ----------
    pods
        Pods that take requests.
    starting
        Pods on their way.
    """

    def __init__(self, described: Clients, *, step_s: float) -> None:
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


def steps_of(timeout_s: float, step_s: float) -> int:
    """Steps of a time-out. What joins in a step does so in its middle, on average."""
    return max(1, math.floor(timeout_s / step_s + 0.5))


def autoscale(
    env: simpy.Environment, clients: ClientFleet, nodes: Nodes, rule: Autoscaler
) -> Process:
    """The horizontal autoscaler: looks every `sync_s`, starts pods and removes some."""

    def start(pods: int) -> Process:
        yield env.timeout(rule.startup_s)
        clients.starting -= pods
        clients.pods += pods

    wanted = deque([(float(env.now), clients.pods)])
    while True:
        began_s = env.now
        yield env.timeout(rule.sync_s)
        now_s = env.now
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
            env.process(start(desired - pods))
        elif desired < clients.pods:
            share = 1.0 - desired / clients.pods
            nodes.close_connections(share)
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
