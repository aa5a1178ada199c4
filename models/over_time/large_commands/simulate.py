"""A run: large commands one after the other, and what others feel meanwhile."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from forecache.sim.errors import InputError
from forecache.sim.statistics import Estimate

from ...prediction.predict import DRAWS, Progress
from ...prediction.system import UNCHECKED_DISCREPANCY
from ...prediction.uncertainty import Z95, Draw
from ...results.intervals import RelativeError, interval_over_draws
from ...results.series import Cell, Fact, Mark, Run, Series, Table
from ...scenario.versions import taken_as_newest
from .scenario import LargeCommands
from .timeline import Timed, base_latency_s, place_of, placed, service_s, timeline
from .work import Chosen, load_work

_MOST_REQUESTS = 30_000_000
_BUCKETS = 400
_LEAST_DURATION_S = 0.1


def simulate_large_commands(
    scenario: LargeCommands, seed: int = 1, progress: Progress = print
) -> Run:
    """Run a scenario of `kind: large_commands`."""
    place, chosen = place_of(scenario)
    timed = timeline(scenario, place)
    intervals = run_intervals(scenario, timed, chosen, seed=seed)
    end_s = max(timed[-1].end_s * 1.05, _LEAST_DURATION_S)
    duration_s = scenario.duration_s or end_s
    edges = np.linspace(0.0, duration_s, _BUCKETS + 1)
    series = [
        Series("busy with large commands", "", "main thread", _busy(timed, edges)),
        Series("waiting to be sent", "bytes", "reply buffer", _buffered(timed, edges)),
    ]
    facts: list[Fact] = []
    felt_columns: list[list[float | None]] = [[None, None] for _ in timed]
    if scenario.load is not None and scenario.load.requests_per_s > 0:
        felt_series, felt_facts, felt_columns = _felt(scenario, intervals, edges, seed, progress)
        series = [*felt_series, *series]
        facts += felt_facts
    facts += [
        _fact("longest time other clients wait", intervals.main_thread(_longest_s), "s"),
        Fact("largest reply buffer", max(_reply_bytes(t) for t in timed), "bytes"),
        _fact("main-thread time", intervals.main_thread(main_thread_s), "s"),
    ]
    return Run(
        times_s=edges[:-1],
        series=series,
        facts=facts,
        marks=[Mark(t.start_s, t.lasting.name) for t in timed],
        tables=[*_tables(timed, felt_columns), _interval_table(intervals)],
        warnings=_warnings(scenario, chosen),
    )


def _reply_bytes(timed: Timed) -> float:
    return timed.lasting.moved.total_bytes if timed.lasting.blocking else 0.0


def _longest_s(timed: Sequence[Timed]) -> float:
    return max(t.lasting.execution_ns for t in timed) / 1e9


def _fact(name: str, found: Estimate, unit: str) -> Fact:
    return Fact(name, found.value, unit, low=found.low, high=found.high)


def _overlap(edges: np.ndarray, start_s: float, end_s: float) -> np.ndarray:
    """Share of each bucket that lies between two times."""
    inside = np.minimum(edges[1:], end_s) - np.maximum(edges[:-1], start_s)
    return np.asarray(np.clip(inside, 0.0, None) / np.diff(edges))


def _busy(timed: list[Timed], edges: np.ndarray) -> np.ndarray:
    """Share of the main thread that the commands take."""
    total = np.zeros(edges.size - 1)
    for t in timed:
        one_way = t.lasting.round_trip_ns / 2e9
        total += _overlap(edges, t.start_s + one_way, t.executed_s)
        if t.lasting.stream_ns > 0:
            writing = t.lasting.moved.server_ns / t.lasting.stream_ns
            total += writing * _overlap(edges, t.executed_s, t.streamed_s)
    return total


def _buffered(timed: list[Timed], edges: np.ndarray) -> np.ndarray:
    """Bytes of replies that wait on the server, at the start of each bucket."""
    times = edges[:-1]
    total = np.zeros(times.size)
    for t in timed:
        size = _reply_bytes(t)
        received = t.start_s + t.lasting.round_trip_ns / 2e9
        points = [received, t.executed_s, max(t.streamed_s, t.executed_s + 1e-12)]
        total += np.interp(times, points, [0.0, size, 0.0], left=0.0, right=0.0)
    return total


@dataclass(frozen=True)
class _Others:
    """Requests of all other clients, and what one takes that nothing delays.

    Attributes
    ----------
    network_s
        To the server and back.
    random
        At the state in which every use of it begins.
    """

    arrival_s: Times
    rate_per_s: float
    service_s: float
    network_s: float
    random: np.random.Generator

    def latencies_s(self, timed: Sequence[Timed], *, slower: float = 1.0) -> Times:
        """Latency of each beside these commands.

        Parameters
        ----------
        slower
            By how much longer each of them takes, and the network.
        """
        service_s = slower * self.service_s
        left = max(0.0, 1.0 - service_s * self.rate_per_s)
        found = latencies(
            self.arrival_s,
            service_s=service_s,
            blocks=[
                Block(t.start_s + t.lasting.round_trip_ns / 2e9, t.lasting.execution_ns / 1e9)
                for t in timed
                if t.lasting.execution_ns > 0
            ],
            turns=[
                ServiceTurns(
                    t.executed_s,
                    t.streamed_s,
                    t.lasting.turn_ns / 1e9,
                    min(left, t.lasting.moved.server_ns / t.lasting.stream_ns),
                )
                for t in timed
                if t.lasting.stream_ns > 0
            ],
            random=copy.deepcopy(self.random),
        )
        return found + slower * self.network_s


def _others(scenario: LargeCommands, duration_s: float, seed: int) -> _Others:
    """Everybody else, if the main thread can serve them.

    Raises
    ------
    InputError
        They ask for more than it can, or than can be followed.
    """
    assert scenario.load is not None
    rate, service = scenario.load.requests_per_s, service_s(scenario)
    if rate * duration_s > _MOST_REQUESTS:
        raise InputError(
            f"field load.requests_per_s: found {rate:,.0f} over {duration_s:,.0f} s; valid is up "
            f"to {_MOST_REQUESTS:,} requests in all."
        )
    if rate * service >= 1.0:
        raise InputError(
            f"field load.requests_per_s: found {rate:,.0f}, which the main thread can't serve "
            f"({service * 1e6:.3g} us each); valid is less than {1.0 / service:,.0f}."
        )
    random = np.random.Generator(np.random.Philox(seed))
    arrival_s = poisson_arrivals(rate, duration_s, random)
    return _Others(arrival_s, rate, service, base_latency_s(scenario) - service, random)


def _felt(
    scenario: LargeCommands,
    intervals: RunIntervals,
    edges: np.ndarray,
    seed: int,
    progress: Progress,
) -> tuple[list[Series], list[Fact], list[list[float | None]]]:
    others = _others(scenario, float(edges[-1]), seed)
    arrival, timed = others.arrival_s, intervals.timed
    progress(f"{others.rate_per_s * edges[-1]:,.0f} requests of others")
    found = others.latencies_s(timed)
    felt = by_time(arrival, found, edges)
    series = [
        Series("p50", "ms", "latency of others", 1e3 * felt.p50_s),
        Series("p99", "ms", "latency of others", 1e3 * felt.p99_s),
        Series("longest", "ms", "latency of others", 1e3 * felt.max_s),
    ]
    facts = []
    if arrival.size:
        base = base_latency_interval(scenario, seed=seed)
        names = ("longest latency of others", "p99 of others", "p50 of others")
        ends = zip((base.low, base.high), intervals.ends(scenario), strict=True)
        rows = zip(
            names,
            _felt_ms(found),
            *(
                _felt_ms(others.latencies_s(commands, slower=end / base.value))
                for end, commands in ends
            ),
            strict=True,
        )
        # A command that begins later, since the one before it lasts longer, meets other requests.
        facts = [
            Fact(name, value, "ms", low=min(value, low), high=max(value, high))
            for name, value, low, high in rows
        ]
    columns: list[list[float | None]] = []
    for t in timed:
        low, high = np.searchsorted(arrival, (t.start_s, t.end_s))
        here = found[low:high]
        columns.append(
            [None, None]
            if not here.size
            else [1e3 * float(np.quantile(here, 0.99)), 1e3 * float(here.max())]
        )
    return series, facts, columns


def _felt_ms(found: Times) -> list[float]:
    """The longest latency, p99 and p50."""
    return [1e3 * float(np.quantile(found, quantile)) for quantile in (1.0, 0.99, 0.5)]


def _interval_table(intervals: RunIntervals) -> Table:
    """How long each command lasts, and keeps the main thread, with 95% intervals."""

    def row(index: int) -> list[Cell]:
        lasts = intervals.lasts(lambda timed: timed[index].lasting.lasts_ns / 1e9)
        main = intervals.main_thread(lambda timed: timed[index].lasting.main_thread_ns / 1e9)
        name = intervals.timed[index].lasting.name
        return [name, lasts.low, lasts.high, main.low, main.high]

    return Table(
        "95% intervals",
        [
            ("command", ""),
            ("lasts, from", "s"),
            ("to", "s"),
            ("main thread, from", "s"),
            ("to", "s"),
        ],
        [row(index) for index in range(len(intervals.timed))],
    )


def _tables(timed: list[Timed], felt: list[list[float | None]]) -> list[Table]:
    commands: list[list[Cell]] = [
        [
            t.start_s,
            t.lasting.name,
            t.lasting.elements,
            t.lasting.lasts_ns / 1e9,
            t.lasting.main_thread_ns / 1e9,
            t.lasting.moved.total_bytes,
            t.lasting.binds,
            *others,
        ]
        for t, others in zip(timed, felt, strict=True)
    ]
    parts: list[list[Cell]] = [
        [
            t.lasting.name,
            t.lasting.execution_ns / 1e9,
            t.lasting.main.waiting_ns / 1e9,
            t.lasting.moved.server_ns / 1e9,
            t.lasting.moved.network_ns / 1e9,
            t.lasting.moved.client_ns / 1e9,
            t.lasting.print_ns / 1e9,
            t.lasting.background_ns / 1e9,
        ]
        for t in timed
    ]
    return [
        Table(
            "commands",
            [
                ("at", "s"),
                ("command", ""),
                ("elements", ""),
                ("lasts", "s"),
                ("main thread", "s"),
                ("moved", "bytes"),
                ("bound by", ""),
                ("p99 of others", "ms"),
                ("longest of others", "ms"),
            ],
            commands,
        ),
        Table(
            "where the time goes",
            [
                ("command", ""),
                ("blocks", "s"),
                ("waits for memory", "s"),
                ("server", "s"),
                ("network", "s"),
                ("client", "s"),
                ("prints", "s"),
                ("in background", "s"),
            ],
            parts,
        ),
    ]


def _versions(scenario: LargeCommands) -> list[tuple[str, str]]:
    """Engine and version of the server, and of the client where it names one."""
    asked = [(scenario.engine, scenario.engine_version)]
    if scenario.client.version is not None:
        engine, _, version = scenario.client.version.partition(" ")
        asked.append((engine, version))
    return list(dict.fromkeys(asked))


def _warnings(scenario: LargeCommands, chosen: Chosen) -> list[str]:
    found = []
    for engine, version in _versions(scenario):
        taken_as = load_work(engine, version).taken_as
        if taken_as is not None:
            found.append(taken_as_newest(engine, version, taken_as))
    if not chosen.counted:
        found.append(
            f"work of large commands was counted on {chosen.work.engine} {chosen.work.version}, "
            f"not on {scenario.engine} {scenario.engine_version}."
        )
    return found


# --- what all other clients feel while one runs large commands ------------------------------------

# Other requests come at random at a steady rate, as from many clients that don't wait for each
# other, and their latency counts from when they come. The main thread serves them in order, except
# that
#
# - a command that is being executed holds everybody up until it is done, and those who came
#   meanwhile are served afterwards as fast as the main thread can;
# - while a reply is being written, or a bulk load executed read by read, everybody who has come is
#   served between two turns. Who comes during a turn waits for the rest of it, and for those who
#   came before him in it.


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


# --- intervals -----------------------------------------------------------------------------------

# How far off a run may be: draws of its uncertain numbers, and the errors that were measured.
#
# Drawn are the instructions that were counted, the speed of both hosts and of what lies between
# them, how much of its waits for memory an engine shows, and the first touch of a page where the
# scenario doesn't give it. The model's own error is that of the engine's commands on live servers,
# with nothing fitted to them; another host than theirs, and another version than the one that was
# counted, each add what a node's prediction adds for a profile that nobody checked.


@dataclass(frozen=True)
class RunIntervals:
    """95% intervals of what a run says.

    Attributes
    ----------
    timed
        Its commands at the nominal numbers.
    drawn
        The same at draws of all that is uncertain.
    chosen
        Whose work they do.
    """

    timed: Sequence[Timed]
    drawn: Sequence[Sequence[Timed]]
    chosen: Chosen

    def main_thread(self, quantity: Callable[[Sequence[Timed]], float]) -> Estimate:
        """A time of the main thread, in the unit of the function that reads it off commands."""
        return self._over(quantity, self.chosen.work.errors.main_thread)

    def lasts(self, quantity: Callable[[Sequence[Timed]], float]) -> Estimate:
        """A time that the client sees."""
        return self._over(quantity, self.chosen.work.errors.lasts)

    def _over(self, quantity: Callable[[Sequence[Timed]], float], own: RelativeError) -> Estimate:
        return interval_over_draws(
            quantity(self.timed),
            [quantity(each) for each in self.drawn],
            error=model_error(own, self.chosen),
        )

    def ends(self, scenario: LargeCommands) -> list[list[Timed]]:
        """The commands as quick and as slow as the interval of the main thread's time has them."""
        spent = self.main_thread(main_thread_s)
        return [
            placed(scenario, [t.lasting.slower(end / spent.value) for t in self.timed])
            for end in (spent.low, spent.high)
        ]


def main_thread_s(timed: Sequence[Timed]) -> float:
    """CPU time of the main thread for all commands."""
    return sum(t.lasting.main_thread_ns for t in timed) / 1e9


def model_error(own: RelativeError, chosen: Chosen) -> float:
    """Half width of the 95% interval of the model's own error, of the logarithm."""
    unchecked = Z95 * UNCHECKED_DISCREPANCY
    return math.hypot(own.half_width, unchecked, 0.0 if chosen.counted else unchecked)


def run_intervals(
    scenario: LargeCommands, timed: Sequence[Timed], chosen: Chosen, *, seed: int
) -> RunIntervals:
    """The intervals of a run, with the draws of a seed."""
    drawn = [
        timeline(scenario, place_of(scenario, draw=Draw(seed, number))[0])
        for number in range(DRAWS)
    ]
    return RunIntervals(timed, drawn, chosen)


def base_latency_interval(scenario: LargeCommands, *, seed: int) -> Estimate:
    """Latency in s of one of the others' requests that nothing delays, with its interval."""
    return interval_over_draws(
        base_latency_s(scenario),
        [base_latency_s(scenario, draw=Draw(seed, number)) for number in range(DRAWS)],
        error=Z95 * UNCHECKED_DISCREPANCY,
    )
