"""The queues of `queues` as SimPy processes: the same rules, written to be read.

Every function returns what its twin in C does, and gives the same completion times.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from forecache.sim.simpy_kernel import Activity, Agent, new_environment, now_ps
from forecache.sim.streams import draw4, exponential_ps, to_unit_wide

from .queues import DETERMINISTIC, EXPONENTIAL, PURPOSE_CUSTOMER, PURPOSE_MACHINE


@dataclass
class _Level:
    """A count that integrates itself over time."""

    value: int = 0
    area_ps: int = 0
    last_ps: int = 0

    def change(self, by: int, at_ps: int) -> None:
        self.area_ps += self.value * (at_ps - self.last_ps)
        self.value += by
        self.last_ps = at_ps


@dataclass
class _Customer:
    arrival_ps: int
    need_ps: int


@dataclass
class _Server:
    agent: Agent
    customer: _Customer | None = None


@dataclass
class _Repairman:
    agent: Agent
    machine: _Machine | None = None


@dataclass
class _Machine:
    agent: Agent
    life: int = 0


def service_ps(kind: int, mean_ps: float, squared_variation: float, high: int, low: int) -> int:
    """A service time in picoseconds from two random words.

    Parameters
    ----------
    kind : int
        EXPONENTIAL, DETERMINISTIC or HYPEREXPONENTIAL.
    mean_ps : float
        Mean in picoseconds.
    squared_variation : float
        Variance over squared mean, at least 1; HYPEREXPONENTIAL only.
    high, low : int
        The words, of 32 bits.
    """
    if kind == DETERMINISTIC:
        return int(mean_ps + 0.5)
    unit = to_unit_wide(high, low)
    if kind == EXPONENTIAL:
        return exponential_ps(unit, mean_ps)
    # Balanced means: a fraction p has mean m/2p and the rest m/2(1-p), so each branch carries half
    # of the load; p follows from the variation (Whitt 1982, Operations Research 30(1)).
    p = 0.5 * (1.0 + math.sqrt((squared_variation - 1.0) / (squared_variation + 1.0)))
    if unit < p:
        return exponential_ps(unit / p, mean_ps / (2.0 * p))
    return exponential_ps((unit - p) / (1.0 - p), mean_ps / (2.0 * (1.0 - p)))


def open_queue(
    seed: int,
    replication: int,
    customers: int,
    servers: int,
    interarrival_ps: float,
    mean_service_ps: float,
    kind: int,
    squared_variation: float,
    completions_ps: np.ndarray,
    sojourns_ps: np.ndarray,
) -> tuple[int, int, int]:
    """Poisson arrivals, one line, identical servers; see `queues.open_queue`."""
    env = new_environment()
    line: deque[_Customer] = deque()
    present = _Level()
    left: list[tuple[int, int]] = []
    crew = [_Server(Agent(env, number)) for number in range(1, 1 + servers)]

    def arrivals(source: Agent) -> Activity:
        for number in range(customers):
            a, b, c, d = draw4(seed, replication, 0, PURPOSE_CUSTOMER, number)
            yield source.hold(exponential_ps(to_unit_wide(a, b), interarrival_ps))
            need_ps = service_ps(kind, mean_service_ps, squared_variation, c, d)
            customer = _Customer(now_ps(env), need_ps)
            present.change(+1, now_ps(env))
            idle = next((server for server in crew if server.customer is None), None)
            if idle is None:
                line.append(customer)
            else:
                idle.customer = customer
                idle.agent.wake(now_ps(env))

    def serve(server: _Server) -> Activity:
        while True:
            if server.customer is None:
                yield server.agent.sleep()
            customer = server.customer
            assert customer is not None
            yield server.agent.hold(customer.need_ps)
            present.change(-1, now_ps(env))
            left.append((now_ps(env), now_ps(env) - customer.arrival_ps))
            server.customer = line.popleft() if line else None

    source = Agent(env, 0)
    source.start(arrivals(source))
    for server in crew:
        server.agent.start(serve(server))
    env.run()
    kept = min(completions_ps.size, sojourns_ps.size, len(left))
    for index, (time_ps, sojourn_ps) in enumerate(left[:kept]):
        completions_ps[index] = time_ps
        sojourns_ps[index] = sojourn_ps
    return sum(sojourn for _, sojourn in left), present.area_ps, present.last_ps


def machine_repair(
    seed: int,
    replication: int,
    repairs: int,
    machines: int,
    repairmen: int,
    mean_life_ps: float,
    mean_repair_ps: float,
    completions_ps: np.ndarray,
) -> tuple[int, int]:
    """Machines that fail and wait for a repairman; see `queues.machine_repair`."""
    env = new_environment()
    line: deque[_Machine] = deque()
    working = _Level(value=machines)
    ended_ps: list[int] = []
    enough = env.event()
    crew = [_Repairman(Agent(env, machines + number)) for number in range(repairmen)]

    def live(machine: _Machine) -> Activity:
        while True:
            a, b, _, _ = draw4(
                seed, replication, machine.agent.number, PURPOSE_MACHINE, machine.life
            )
            yield machine.agent.hold(exponential_ps(to_unit_wide(a, b), mean_life_ps))
            working.change(-1, now_ps(env))
            idle = next((man for man in crew if man.machine is None), None)
            if idle is None:
                line.append(machine)
            else:
                idle.machine = machine
                idle.agent.wake(now_ps(env))
            yield machine.agent.sleep()

    def repair(man: _Repairman) -> Activity:
        while True:
            if man.machine is None:
                yield man.agent.sleep()
            machine = man.machine
            assert machine is not None
            _, _, c, d = draw4(
                seed, replication, machine.agent.number, PURPOSE_MACHINE, machine.life
            )
            yield man.agent.hold(exponential_ps(to_unit_wide(c, d), mean_repair_ps))
            working.change(+1, now_ps(env))
            machine.life += 1
            machine.agent.wake(now_ps(env))
            ended_ps.append(now_ps(env))
            if len(ended_ps) == repairs:
                enough.succeed()
            man.machine = line.popleft() if line else None

    for number in range(machines):
        machine = _Machine(Agent(env, number))
        machine.agent.start(live(machine))
    for man in crew:
        man.agent.start(repair(man))
    env.run(until=enough)
    kept = min(completions_ps.size, repairs)
    completions_ps[:kept] = ended_ps[:kept]
    return working.area_ps, ended_ps[repairs - 1]
