"""What all other clients feel while one runs large commands.

Other requests come at random at a steady rate, as from many clients that don't wait for each other,
and their latency counts from when they come. The main thread serves them in order, except that

- a command that is being executed holds everybody up until it is done, and those who came meanwhile
  are served afterwards as fast as the main thread can;
- while a reply is being written, or a bulk load executed read by read, everybody who has come is
  served between two turns. Who comes during a turn waits for the rest of it, and for those who came
  before him in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """A stretch of time in which the main thread executes one command and nothing else; s."""

    start_s: float
    lasts_s: float


@dataclass(frozen=True)
class ServiceTurns:
    """A stretch of time with turns of a large command in it; s.

    Attributes
    ----------
    turn_s
        Main-thread time of one turn.
    busy
        Share of the stretch that turns take, at most what others leave.
    """

    start_s: float
    end_s: float
    turn_s: float
    busy: float


def waits(arrival_s: Times, service_s: Times) -> Times:
    """Waits before service of customers that one server takes in order.

    D. V. Lindley's recursion, unrolled: work ahead of the k-th is the largest of what came from any
    earlier one on. `arrival_s` increases.
    """
    if arrival_s.size == 0:
        return arrival_s
    before = np.concatenate(([0.0], np.cumsum(service_s)[:-1]))
    starts = before + np.maximum.accumulate(arrival_s - before)
    return np.asarray(starts - arrival_s)


def latencies(
    arrival_s: Times,
    *,
    service_s: float,
    blocks: Sequence[Block],
    turns: Sequence[ServiceTurns],
    random: np.random.Generator,
) -> Times:
    """Latency of each of the others' requests, without the network; s.

    Parameters
    ----------
    arrival_s
        Increasing.
    service_s
        Main-thread time of one request.
    """
    if arrival_s.size == 0:
        return arrival_s
    starts = np.array([block.start_s for block in blocks])
    lasts = np.array([block.lasts_s for block in blocks])
    place = np.searchsorted(arrival_s, starts)
    # A command joins the queue where it comes in.
    everybody = np.insert(arrival_s, place, starts)
    services = np.insert(np.full(arrival_s.size, service_s), place, lasts)
    commands = place + np.arange(place.size)
    found = np.delete(waits(everybody, services), commands) + service_s
    drawn = random.random((2, arrival_s.size))
    for stretch in turns:
        low, high = np.searchsorted(arrival_s, (stretch.start_s, stretch.end_s))
        if high <= low:
            continue
        rate = (high - low) / (stretch.end_s - stretch.start_s)
        ahead = min(1.0, rate * service_s)
        during, past = drawn[0, low:high] < stretch.busy, drawn[1, low:high]
        found[low:high] += during * stretch.turn_s * (1.0 - past * (1.0 - ahead))
    return found


def poisson_arrivals(rate_per_s: float, duration_s: float, random: np.random.Generator) -> Times:
    """Increasing times of a Poisson process over a run."""
    count = random.poisson(rate_per_s * duration_s)
    return np.sort(random.random(count) * duration_s)


@dataclass(frozen=True)
class Felt:
    """Latency over time: one value per bucket, NaN where no request arrived; s."""

    p50_s: Times
    p99_s: Times
    max_s: Times
    count: Times


def by_time(arrival_s: Times, latency_s: Times, edges_s: Times) -> Felt:
    """Latencies of those who came between two edges."""
    places = np.searchsorted(arrival_s, edges_s)
    rows = np.full((4, edges_s.size - 1), np.nan)
    for bucket, (low, high) in enumerate(pairwise(places)):
        rows[3, bucket] = high - low
        if high > low:
            here = latency_s[low:high]
            rows[:3, bucket] = *np.quantile(here, (0.5, 0.99)), here.max()
    return Felt(*rows)
