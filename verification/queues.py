"""Queues with known answers, on the event calendar: they verify it and measure its speed.

`open_queue` is M/M/c, M/D/c and M/G/c with one line, first come first served; `machine_repair` is
the machine repairman. `queues_reference` has the same models as SimPy processes, and both give
the same completion times.

The random numbers of a customer are one draw, addressed by the customer's number: its distance
from the customer before and the service it needs. Those of a machine are addressed by the machine
and the number of its life.
"""

import math

import numpy as np
from numba import float64, int64, njit, types

from forecache.sim.calendar import INFINITY_PS, new_calendar, peek_agent, peek_time, schedule
from forecache.sim.rings import is_full, length, new_ring, pop, push
from forecache.sim.streams import Word, draw4, exponential_ps, to_unit_wide

EXPONENTIAL = 0
DETERMINISTIC = 1
HYPEREXPONENTIAL = 2
"""Kinds of service time. The last is a mixture of two exponentials with balanced means."""

PURPOSE_CUSTOMER = 1
PURPOSE_MACHINE = 2

_ARRIVALS = 0
"""Agent number of the source of customers; the servers come after it."""

LINE_CAPACITY = 1 << 16
"""Customers that can wait. At 98% load a longer line has a probability of e**-1300."""


@njit(int64(int64, float64, float64, types.uint32, types.uint32), cache=True, nogil=True)
def service_ps(kind: int, mean_ps: float, squared_variation: float, high: Word, low: Word) -> int:
    """A service time in picoseconds from two random words.

    Parameters
    ----------
    kind : int
        EXPONENTIAL, DETERMINISTIC or HYPEREXPONENTIAL.
    mean_ps : float
        Mean in picoseconds.
    squared_variation : float
        Variance over squared mean, at least 1; HYPEREXPONENTIAL only.
    high, low : uint32
        The words.
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


@njit(
    types.UniTuple(int64, 3)(
        int64, int64, int64, int64, float64, float64, int64, float64, int64[::1], int64[::1]
    ),
    cache=True,
    nogil=True,
)
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
    """Serve a number of customers who arrive as a Poisson process.

    Parameters
    ----------
    seed, replication : int
        Address of the random numbers.
    customers : int
        How many arrive; all are served.
    servers : int
        Identical servers; a customer goes to the idle one with the lowest number.
    interarrival_ps, mean_service_ps : float
        Means in picoseconds.
    kind : int
        Of the service time; see `service_ps`.
    squared_variation : float
        Of the service time; see `service_ps`.
    completions_ps, sojourns_ps : ndarray of int64
        Filled, in the order of completion, with the time each customer leaves and how long it
        was there, as far as they are long.

    Returns
    -------
    tuple of int
        Sum of the times in the system, integral of the number in the system over time (both in
        ps; equal, by Little's law, once all have left), and the time the last one left.

    Raises
    ------
    OverflowError
        If more than LINE_CAPACITY customers wait.
    """
    calendar = new_calendar(1 + servers)
    arrivals_waiting = new_ring(LINE_CAPACITY)
    services_waiting = new_ring(LINE_CAPACITY)
    arrival_of = np.zeros(1 + servers, np.int64)
    busy = 0
    arrived = 0
    done = 0
    sum_ps = 0
    area_ps = 0
    last_ps = 0
    kept = min(completions_ps.size, sojourns_ps.size)

    a, b, c, d = draw4(seed, replication, 0, PURPOSE_CUSTOMER, 0)
    schedule(calendar, _ARRIVALS, exponential_ps(to_unit_wide(a, b), interarrival_ps))
    need_ps = service_ps(kind, mean_service_ps, squared_variation, c, d)
    while done < customers:
        agent = peek_agent(calendar)
        now_ps = peek_time(calendar)
        area_ps += (arrived - done) * (now_ps - last_ps)
        last_ps = now_ps
        if agent == _ARRIVALS:
            if busy < servers:
                server = 1
                while arrival_of[server] != 0:
                    server += 1
                # Stored one higher: zero means idle.
                arrival_of[server] = now_ps + 1
                busy += 1
                schedule(calendar, server, now_ps + need_ps)
            else:
                if is_full(arrivals_waiting):
                    raise OverflowError("the line is longer than LINE_CAPACITY")
                push(arrivals_waiting, now_ps)
                push(services_waiting, need_ps)
            arrived += 1
            if arrived < customers:
                a, b, c, d = draw4(seed, replication, 0, PURPOSE_CUSTOMER, arrived)
                gap_ps = exponential_ps(to_unit_wide(a, b), interarrival_ps)
                schedule(calendar, _ARRIVALS, now_ps + gap_ps)
                need_ps = service_ps(kind, mean_service_ps, squared_variation, c, d)
            else:
                schedule(calendar, _ARRIVALS, INFINITY_PS)
        else:
            sojourn_ps = now_ps + 1 - arrival_of[agent]
            sum_ps += sojourn_ps
            if done < kept:
                completions_ps[done] = now_ps
                sojourns_ps[done] = sojourn_ps
            done += 1
            if length(arrivals_waiting) > 0:
                arrival_of[agent] = pop(arrivals_waiting) + 1
                schedule(calendar, agent, now_ps + pop(services_waiting))
            else:
                arrival_of[agent] = 0
                busy -= 1
                schedule(calendar, agent, INFINITY_PS)
    return sum_ps, area_ps, last_ps


@njit(
    types.UniTuple(int64, 2)(int64, int64, int64, int64, int64, float64, float64, int64[::1]),
    cache=True,
    nogil=True,
)
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
    """Machines fail and wait for a repairman: the closed queue M/M/c//N.

    Parameters
    ----------
    seed, replication : int
        Address of the random numbers.
    repairs : int
        How many repairs to simulate.
    machines, repairmen : int
        Machine i is agent i, the repairmen come after; a machine goes to the idle repairman with
        the lowest number.
    mean_life_ps, mean_repair_ps : float
        Means of the exponential times in picoseconds.
    completions_ps : ndarray of int64
        Filled with the time each repair ends, as far as it is long.

    Returns
    -------
    tuple of int
        Integral of the number of working machines over time, and the time the last repair ended,
        both in ps.
    """
    calendar = new_calendar(machines + repairmen)
    line = new_ring(machines)
    machine_of = np.full(machines + repairmen, -1, np.int64)
    life = np.zeros(machines, np.int64)
    working = machines
    idle = repairmen
    done = 0
    area_ps = 0
    last_ps = 0
    for machine in range(machines):
        a, b, _, _ = draw4(seed, replication, machine, PURPOSE_MACHINE, 0)
        schedule(calendar, machine, exponential_ps(to_unit_wide(a, b), mean_life_ps))
    while done < repairs:
        agent = peek_agent(calendar)
        now_ps = peek_time(calendar)
        area_ps += working * (now_ps - last_ps)
        last_ps = now_ps
        repairman = -1
        if agent < machines:
            working -= 1
            schedule(calendar, agent, INFINITY_PS)
            push(line, agent)
            if idle > 0:
                idle -= 1
                repairman = machines
                while machine_of[repairman] >= 0:
                    repairman += 1
        else:
            machine = machine_of[agent]
            machine_of[agent] = -1
            working += 1
            life[machine] += 1
            a, b, _, _ = draw4(seed, replication, machine, PURPOSE_MACHINE, life[machine])
            gap_ps = exponential_ps(to_unit_wide(a, b), mean_life_ps)
            schedule(calendar, machine, now_ps + gap_ps)
            if done < completions_ps.size:
                completions_ps[done] = now_ps
            done += 1
            repairman = agent
            if length(line) == 0:
                idle += 1
                schedule(calendar, agent, INFINITY_PS)
                repairman = -1
        if repairman >= 0:
            machine = pop(line)
            machine_of[repairman] = machine
            _, _, c, d = draw4(seed, replication, machine, PURPOSE_MACHINE, life[machine])
            repair_ps = exponential_ps(to_unit_wide(c, d), mean_repair_ps)
            schedule(calendar, repairman, now_ps + repair_ps)
    return area_ps, last_ps
