"""One step of the load, node by node: arrivals, connections, service, time-outs, retries.

This is the compiled part; `load.py` prepares what it is given and looks at what it leaves. All
numbers are integers, so that nothing is lost to rounding.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from forecache.sim.numba_functions import draw4, to_unit

from .cohorts import LEFT, WAITING, expire, join, serve, withdraw
from .nodes import (
    ABANDONED,
    ACCEPT_CREDIT_PS,
    ANSWERED,
    ATTEMPTS,
    BACKING_OFF,
    BACKLOG_FULL,
    BROKEN,
    BUDGET_PS,
    BUSY_PS,
    CLOSED,
    CONNECT_PS,
    CONNECTED,
    CREDIT_PS,
    DOWN,
    FAILED,
    OFFERED,
    OPEN,
    REFUSED,
    REFUSES,
    RETRIES,
    STALE,
    STALL_PS,
    TIMED_OUT,
    TOKENS,
    TOO_MANY,
    WASTED,
)

UTILISATION_CELLS = 201
"""Cells of a histogram of utilisations, see `cell_loads`."""

_LAST_CELL = 0.99
_CELL = -math.log(1.0 - _LAST_CELL) / (UTILISATION_CELLS - 1)
"""Width of a cell on the scale of logarithms of what is left: a queue's wait differs by 2.3% from
one to the next, however full it is."""

TIMEOUT_STEPS, CONNECT_TIMEOUT_STEPS, PERSISTENT, DROPS_GONE = range(4)
TOKENS_PER_ANSWER, MOST_TOKENS, CONNECT_DELAY_STEPS = range(4, 7)
"""Entries of `rules`: time-outs; whether connections persist; whether the node leaves out requests
whose clients have gone; the retry budget in thousandths, 0 for none; how long a client waits for a
connection that the kernel does not answer."""

NEW, PER_REQUEST_PS, BUDGET, ELSEWHERE = range(4)
PER_CONNECTION_PS, PER_REJECTION_PS, PER_CYCLE, HELPERS = range(4, 8)
MAXCLIENTS, BACKLOG, WANTED, KIND, FORGETS, EXPECTED = range(8, 14)
"""Columns of `given`: requests that begin; time of the main thread per request and in this step;
requests that the node's other threads can serve in it; time per connection, and per one turned
away; accepts per turn; handshakes that I/O threads can do in this step; limits; connections that
the clients want to keep; the kind of node; whether whoever waits is refused; the mean that `NEW`
was drawn around, in thousandths."""

GIVEN = 14
TOKEN = 1000
"""A retry token in the unit of `TOKENS`."""

ARRIVAL_DRAWS, ROUNDING_DRAWS, RETRY_DRAWS = 7010, 7011, 7012
"""Purposes of random draws; the stream is the node, the index the step."""

_SMALL_MEAN = 60.0


def cell_loads() -> np.ndarray:
    """(UTILISATION_CELLS,) load in the middle of each cell, from 0 to 0.99."""
    return np.asarray(-np.expm1(-_CELL * np.arange(UTILISATION_CELLS)))


@njit(cache=True, nogil=True)
def _cell(load):  # type: ignore[no-untyped-def]
    """The cell that is nearest to a load."""
    return int(0.5 - math.log1p(-min(max(load, 0.0), _LAST_CELL)) / _CELL)


@njit(cache=True, nogil=True)
def poisson(seed, node, step, mean):  # type: ignore[no-untyped-def]
    """A Poisson number of one address: by inversion, from a mean of 60 on as a rounded normal."""
    a, b, _, _ = draw4(seed, 0, node, ARRIVAL_DRAWS, step)
    if mean <= 0.0:
        return 0
    if mean < _SMALL_MEAN:
        unit, count, term = to_unit(a), 0, math.exp(-mean)
        total = term
        while unit > total and count < 1000:
            count += 1
            term *= mean / count
            total += term
        return count
    normal = math.sqrt(-2.0 * math.log(to_unit(a))) * math.cos(2.0 * math.pi * to_unit(b))
    return max(0, int(mean + math.sqrt(mean) * normal + 0.5))


@njit(cache=True, nogil=True)
def draw_arrivals(seed, step, means, drawn, counts):  # type: ignore[no-untyped-def]
    """(nodes,) how many requests begin at each node; the mean rounded at random unless `drawn`."""
    for node in range(len(means)):
        if drawn:
            counts[node] = poisson(seed, node, step, means[node])
        else:
            _, _, a, _ = draw4(seed, 0, node, ARRIVAL_DRAWS, step)
            counts[node] = int(means[node] + to_unit(a))


@njit(cache=True, nogil=True)
def _first_uses(requests, some, wanted, unit):  # type: ignore[no-untyped-def]
    """How many of `some` of the `wanted` connections are used for the first time.

    Each request goes to any of them; rounded at random.
    """
    if wanted <= 0 or some <= 0:
        return 0
    used = -math.expm1(-requests / wanted)
    return min(requests, some, int(some * used + unit))


@njit(cache=True, nogil=True)
def _arrive(node, step, state, given, connect_queue, queue, future, rules, units, lost):  # type: ignore[no-untyped-def]
    """Requests that begin and attempts that are due join one of the two queues."""
    row, due = state[node], future[step % len(future), node]
    new = given[node, NEW]
    row[OFFERED] += new
    row[ATTEMPTS] += new
    for attempt in range(1, len(due)):
        row[BACKING_OFF] -= due[attempt]
        row[ATTEMPTS] += due[attempt]
    if row[DOWN] == REFUSES:
        # Each is another worker's: one that was refused backs off.
        row[STALE] -= min(new, row[STALE])
        lost[0] += new
        lost[1:] += due[1:]
        due[:] = 0
        return
    connect_cohorts, connect_marks = connect_queue
    cohorts, marks = queue
    # An attempt that failed has lost its connection.
    room = given[node, WANTED] - row[OPEN] - row[STALE] - connect_marks[node, WAITING]
    for attempt in range(1, len(due)):
        connecting = due[attempt]
        if rules[PERSISTENT]:
            connecting = min(connecting, max(0, room))
            room -= connecting
        join(connect_cohorts, connect_marks, node, step, attempt, connecting)
        join(cohorts, marks, node, step, attempt, due[attempt] - connecting)
        due[attempt] = 0
    direct = 0
    if rules[PERSISTENT]:
        # A request goes to any worker: one whose connection is broken, one that has none, or one
        # that is connected.
        wanted = given[node, WANTED]
        broken = _first_uses(new, row[STALE], wanted, units[0])
        row[STALE] -= broken
        row[BROKEN] += broken
        lost[0] += broken
        new -= broken
        # Those that back off, or will in a moment, open theirs when they try again.
        missing = wanted - row[OPEN] - row[STALE] - connect_marks[node, WAITING]
        missing -= row[BACKING_OFF] + lost.sum()
        connecting = _first_uses(new, missing, wanted, units[1])
        direct = new - connecting
        new = connecting
    join(connect_cohorts, connect_marks, node, step, 0, new)
    join(cohorts, marks, node, step, 0, direct)


@njit(cache=True, nogil=True)
def _accept(node, step, step_s, state, given, connect_queue, queue, budget, accepted, waits, lost):  # type: ignore[no-untyped-def]
    """Accept connections; their requests join the other queue. Returns the time left for these."""
    row, asked = state[node], given[node]
    cohorts, marks = connect_queue
    queue_cohorts, queue_marks = queue
    waiting = marks[node, WAITING] + marks[node, LEFT]
    credit, row[ACCEPT_CREDIT_PS] = row[ACCEPT_CREDIT_PS], 0
    if waiting == 0:
        return budget
    accept_ps = asked[PER_CONNECTION_PS]
    ready_ps = (queue_marks[node, WAITING] + queue_marks[node, LEFT]) * asked[PER_REQUEST_PS]
    accepting = budget
    if waiting * (accept_ps + asked[PER_REQUEST_PS]) + ready_ps > budget:
        # Every turn of the event loop accepts a few and serves all requests that lie ready.
        few = asked[PER_CYCLE] * accept_ps
        fair = int(budget * (few / (few + max(ready_ps, asked[PER_REQUEST_PS]))))
        accepting = max(fair, budget - ready_ps)
    able = (accepting + credit) // accept_ps
    most = min(able, waiting, asked[HELPERS])
    accepted[:] = 0
    served = serve(cohorts, marks, node, step, step_s, most, accepted, waits)
    spent = served * accept_ps
    if most == able and able < waiting:
        # Time too short for a connection counts in the next step.
        row[ACCEPT_CREDIT_PS] = accepting + credit - spent
        left = budget - accepting
    else:
        left = budget - max(0, spent - credit)
    room = max(0, asked[MAXCLIENTS] - row[OPEN])
    for attempt in range(len(accepted)):
        let_in = min(room, accepted[attempt])
        room -= let_in
        turned_away = accepted[attempt] - let_in
        lost[attempt] += turned_away
        row[TOO_MANY] += turned_away
        spent -= turned_away * (accept_ps - asked[PER_REJECTION_PS])
        left += turned_away * (accept_ps - asked[PER_REJECTION_PS])
        row[OPEN] += let_in
        row[CONNECTED] += let_in
        join(queue_cohorts, queue_marks, node, step, attempt, let_in)
        served -= accepted[attempt]
    row[ABANDONED] += served
    row[CONNECT_PS] += spent
    return min(left, budget)


@njit(cache=True, nogil=True)
def _overflow(node, given, connect_queue, dropped):  # type: ignore[no-untyped-def]
    """The kernel leaves connections unanswered that find the backlog full: the last to come."""
    cohorts, marks = connect_queue
    slots = cohorts.shape[1]
    over = marks[node, WAITING] + marks[node, LEFT] - given[node, BACKLOG]
    number = marks[node, 2] - 1
    while over > 0 and number >= max(marks[node, 0], marks[node, 1]):
        row = cohorts[node, number % slots]
        taken = min(over, row[2])
        row[2] -= taken
        marks[node, WAITING] -= taken
        dropped[row[1]] += taken
        over -= taken
        number -= 1


@njit(cache=True, nogil=True)
def _try_again(node, step, state, future, rules, retry_from, retry_span, lost, delay, unit):  # type: ignore[no-untyped-def]
    """Attempts that came to nothing are scheduled again, or their requests are given up."""
    row, horizon = state[node], len(future)
    last = future.shape[2] - 1
    for attempt in range(last + 1):
        again = lost[attempt] if attempt < last else 0
        if rules[MOST_TOKENS] > 0:
            again = min(again, row[TOKENS] // TOKEN)
            row[TOKENS] -= again * TOKEN
        row[FAILED] += lost[attempt] - again
        row[RETRIES] += again
        row[BACKING_OFF] += again
        # Evenly over the steps of the backoff, what is left over from a random one on.
        span = retry_span[attempt]
        each, more = again // span, again % span
        first = int(unit * span)
        for number in range(span):
            extra = 1 if (number - first) % span < more else 0
            if each + extra > 0:
                when = (step + delay + retry_from[attempt] + number) % horizon
                future[when, node, attempt + 1] += each + extra
        lost[attempt] = 0


@njit(cache=True, nogil=True)
def advance(  # type: ignore[no-untyped-def]
    seed, step, step_s, state, given, connect_queue, queue, future, rules, retries, histograms
):
    """One step of the load at every node.

    Parameters
    ----------
    state
        (nodes, COLUMNS) of `Nodes`.
    given
        (nodes, GIVEN) what holds in this step.
    connect_queue, queue
        Cohorts and marks of the two queues.
    future
        (horizon, nodes, attempts) attempts due in each of the next steps.
    rules, retries
        What clients do: entries as above; steps until the next attempt may begin, and in how many
        it may, by attempt.
    histograms
        Answered requests by (kind, utilisation, wait), connections by wait; and (nodes,) share of
        what a node could do that was asked of it.
    """
    latency, connect_waits, utilisation = histograms
    retry_from, retry_span = retries
    attempts = future.shape[2]
    lost, dropped, answered = np.zeros((3, attempts), np.int64)
    cohorts, marks = queue
    connect_cohorts, connect_marks = connect_queue
    for node in range(len(state)):
        row, asked = state[node], given[node]
        a, b, c, _ = draw4(seed, 0, node, ROUNDING_DRAWS, step)
        units = (to_unit(a), to_unit(b))
        expire(cohorts, marks, node, step, rules[TIMEOUT_STEPS], rules[DROPS_GONE] > 0, lost)
        timed_out = lost.sum()
        # The client closes the connection that its request went out on.
        closed = min(timed_out, row[OPEN])
        row[OPEN] -= closed
        row[CLOSED] += closed
        row[STALE] -= min(timed_out - closed, row[STALE])
        expire(
            connect_cohorts, connect_marks, node, step, rules[CONNECT_TIMEOUT_STEPS], False, lost
        )
        row[TIMED_OUT] += lost.sum()
        before = lost.sum()
        if row[DOWN] == REFUSES or asked[FORGETS]:
            withdraw(cohorts, marks, node, lost)
            # Their connections are among the broken ones, and known to be.
            row[STALE] -= min(lost.sum() - before, row[STALE])
            withdraw(connect_cohorts, connect_marks, node, lost)
        _arrive(
            *(node, step, state, given, connect_queue, queue, future, rules, units, lost),
        )
        stalled = min(row[STALL_PS], asked[BUDGET])
        row[STALL_PS] -= stalled
        budget = asked[BUDGET] - stalled
        row[BUDGET_PS] += budget
        serving = row[DOWN] == 0
        work = (marks[node, WAITING] + marks[node, LEFT]) * asked[PER_REQUEST_PS]
        work += (connect_marks[node, WAITING] + connect_marks[node, LEFT]) * (
            asked[PER_CONNECTION_PS] + asked[PER_REQUEST_PS]
        )
        can = min(budget, asked[ELSEWHERE] * asked[PER_REQUEST_PS])
        load = 1.0 if can <= 0 else min(1.0, work / can)
        utilisation[node] = load if serving and work > 0 else 0.0
        # Chance between steps is part of the waiting that the node model has in its latencies.
        work += (asked[EXPECTED] - 1000 * asked[NEW]) * asked[PER_REQUEST_PS] // 1000
        if serving:
            left = row[CREDIT_PS] + _accept(
                *(node, step, step_s, state, given, connect_queue, queue, budget),
                *(answered, connect_waits, lost),
            )
            most = min(left // asked[PER_REQUEST_PS], asked[ELSEWHERE])
            answered[:] = 0
            cell = _cell(1.0 if can <= 0 else work / can)
            served = serve(
                cohorts, marks, node, step, step_s, most, answered, latency[asked[KIND], cell]
            )
            got = answered.sum()
            row[ANSWERED] += got
            row[WASTED] += served - got
            row[BUSY_PS] += served * asked[PER_REQUEST_PS]
            # Time too short for a request counts in the next step, if somebody waits for it.
            row[CREDIT_PS] = 0
            if marks[node, WAITING] + marks[node, LEFT] > 0:
                unused_ps = left - served * asked[PER_REQUEST_PS]
                row[CREDIT_PS] = max(0, min(unused_ps, asked[PER_REQUEST_PS]))
            if rules[PERSISTENT] == 0:
                closed = min(got, row[OPEN])
                row[OPEN] -= closed
                row[CLOSED] += closed
            if rules[MOST_TOKENS] > 0:
                row[TOKENS] += got * rules[TOKENS_PER_ANSWER]
                row[TOKENS] = min(row[TOKENS], rules[MOST_TOKENS])
            _overflow(node, given, connect_queue, dropped)
        dropped_now = dropped.sum()
        row[REFUSED] += lost.sum() - before + dropped_now
        row[BACKLOG_FULL] += dropped_now
        unit = to_unit(c)
        _try_again(node, step, state, future, rules, retry_from, retry_span, lost, 0, unit)
        if dropped_now > 0:
            _try_again(
                *(node, step, state, future, rules, retry_from, retry_span, dropped),
                *(rules[CONNECT_DELAY_STEPS], unit),
            )
