"""Predictions: what a scenario does, with intervals, and which station limits it.

An interval has four parts. Draws of the uncertain numbers, each simulated with its own random
streams, give the spread from parameters and chance together; replications at the nominal numbers
give the part of chance; an engine profile that was checked against measurements brings the model's
own error; and windows, days and starts of one server differ (`hwprofiles` `Variation`). All points
of a sweep see the same draws and streams, so that differences between them are known better than
either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from forecache.sim.executors import Submitted
from forecache.sim.statistics import Estimate, student_t

from ..node.setup import NodeTimes
from ..node.simulate import NodeResult
from ..results.points import QUANTILES, MemoryBandwidth, NextBottleneck, Uncertainty
from ..scenario.schema import Scenario
from ..scenario.sweeps import Case
from ..step_times.inputs import NodeInputs
from ..step_times.persistence import code_shares
from ..step_times.workload_caches import scenario_memory_load
from .pauses import longest_probable_ms
from .run_length import (
    NEAR,
    SATURATED,
    AskedRuns,
    Batch,
    Growth,
    Pilot,
    Window,
    backlog_growth,
    check_count,
    check_runs,
    grows,
    window,
)
from .simulation import at_rate, pilot_run, run, times_near, times_of
from .system import NodeCase, System
from .uncertainty import Z95

Progress = Callable[[str], None]

REQUESTS = 20_000
"""Measured requests of a run at the nominal numbers."""

DRAW_REQUESTS = 10_000
"""Measured requests of a run at drawn numbers, which is brief (`run_length.window`). What chance
adds to their spread is known from the longer runs and taken off."""

DRAWS = 20
REPLICATIONS = 4

_NEARLY = 0.97
"""Of the throughput that stations without idle waits serve at least, what tells threads that take
turns from chance in a run."""

LATENCIES = ("mean_ms", *QUANTILES)
"""Metrics that a loop beyond capacity does not have."""

QUANTILE_BELOW = {"p90_ms": "p50_ms", "p99_ms": "p90_ms", "p999_ms": "p99_ms"}
"""Tails of latency, each with the quantile whose interval ends no higher than its own."""

SERVER_CPU = "server_cpu_us"
"""CPU time of all server threads per request as the kernel counts it, spinning included: what
measurements of CPU time are compared with. What requests need of it: `explain.server_cpu_time`."""

_PS_PER_MS = 1e9
_PS_PER_S = 1e12
WORKERS = "worker threads"
"""The station of threads that are all alike, in place of main thread and I/O threads."""
CLIENTS = "clients"
"""The limit of clients that wait for their replies: their number over the time of a round trip."""
TURNS = "turns"
"""The limit of threads that take turns: each waits while another works on all clients there are, so
that none is busy all the time and more clients only wait longer."""
STATIONS = (
    *("main thread", "I/O threads", "load generator", "network", "interrupts", "cores"),
    "CPU quota",
)


@dataclass(frozen=True)
class Metrics:
    """What one run says, as plain numbers by name."""

    values: dict[str, float]
    result: NodeResult = field(repr=False)

    @staticmethod
    def of(result: NodeResult) -> Metrics:
        """Read throughput (requests/s), latencies (ms) and CPU time (us a request) off a run."""
        latency = result.latency
        quantiles = latency.quantiles([*QUANTILES.values()])
        values = {
            "throughput_rps": result.throughput_rps,
            "mean_ms": latency.mean / _PS_PER_MS,
            **{n: ps / _PS_PER_MS for n, ps in zip(QUANTILES, quantiles, strict=True)},
            SERVER_CPU: result.server_cpu_us_per_request,
        }
        return Metrics(values, result)

    @cached_property
    def growth(self) -> Growth | None:
        """How the backlog grows; None in a closed loop, which has none."""
        return None if self.result.flow is None else backlog_growth(self.result)

    @property
    def overloaded(self) -> bool:
        """Whether the backlog grows. Latencies of such a run say how long its window was."""
        return self.growth is not None and grows([self.growth])


@dataclass(frozen=True)
class Prediction:
    """One case predicted: runs at the nominal numbers and at draws of them."""

    case: Case[Scenario]
    system: System
    nominal: list[Metrics]
    drawn: list[Metrics]
    pilot: Pilot | None = None
    """The run that said how long these had to be."""

    def mean(self, name: str) -> float:
        """Mean of a metric over the nominal replications; of latencies under overload, infinite."""
        if name in LATENCIES and self.overloaded:
            return math.inf
        return _mean([metrics.values[name] for metrics in self.nominal])

    def log_draws(self, name: str) -> np.ndarray:
        """(draws,) logarithms of a metric at the drawn numbers.

        A latency at numbers that overload the server is infinite.
        """
        unbounded = name in LATENCIES
        return np.array(
            [
                math.inf if unbounded and m.overloaded else math.log(max(m.values[name], 1e-12))
                for m in self.drawn
            ]
        )

    def parts(self, name: str, *, level: float = 0.95) -> Uncertainty:
        """Relative half widths of the interval's parts.

        Draws that overload the server have no latency and are left out of a latency's.
        """
        nominal = np.log([max(metrics.values[name], 1e-12) for metrics in self.nominal])
        chance = _spread(nominal)
        logs = self.log_draws(name)
        logs = logs[np.isfinite(logs)]
        spread = _spread(logs)
        # Shorter runs are more at the mercy of chance.
        longer = _completions(self.nominal) / _completions(self.drawn) if self.drawn else 1.0
        own = math.sqrt(max(0.0, spread**2 - longer * chance**2))
        return Uncertainty(
            monte_carlo=_t(nominal, level) * chance / math.sqrt(len(nominal)),
            parameters=_t(logs, level) * own,
            discrepancy=self._half(name, level, self.model_error),
            windows=self._half(name, level, self.system.variation),
        )

    @cached_property
    def model_error(self) -> float:
        """Relative standard error of the model itself, of the times of the server."""
        # Memory waits are predicted less well than the rest, where an observation says so.
        own = self.system.discrepancy(self.case.scenario)
        if self.system.memory_discrepancy > 0:
            own = math.hypot(own, self.system.memory_discrepancy * self.memory_share)
        return own

    def _half(self, name: str, level: float, error: float) -> float:
        """Half width of a standard error of times."""
        half = float(ndtri(0.5 + level / 2.0)) * error
        if name == "throughput_rps" and self.open_loop and not self.overloaded:
            # Throughput is what is offered, unless the error is larger than what is to spare.
            busiest = min(1.0, max(self.utilisation.values()))
            return max(0.0, half + math.log(max(busiest, 1e-9)))
        return half

    @cached_property
    def memory_wait_ns(self) -> float:
        """Mean wait for memory of a command, beyond what a batched look-up spends."""
        times = times_of(self.system.inputs(self.case.scenario))
        return memory_wait_ps(self.nominal[0].result, times) / 1000.0

    @property
    def memory_share(self) -> float:
        """Share of the server's CPU time that commands wait for memory."""
        cpu_ns = self.mean(SERVER_CPU) * 1000.0
        return min(1.0, self.memory_wait_ns / cpu_ns) if cpu_ns > 0 else 0.0

    def estimate(self, name: str, *, level: float = 0.95) -> Estimate | None:
        """A metric with its interval; None for a latency under overload.

        `high` is infinite for a latency that some of the uncertain numbers put beyond any bound:
        the server is overloaded with them.
        """
        if name in LATENCIES and self.overloaded:
            return None
        found = self.interval(name, level=level)
        if name in LATENCIES and any(metrics.overloaded for metrics in self.drawn):
            return replace(found, high=math.inf)
        return found

    def interval(self, name: str, *, level: float = 0.95) -> Estimate:
        """Value with its interval; no more completes than arrives.

        It is symmetric on the log scale, but for an open loop's latency, whose uncertain numbers
        lower it by no more than their draws do, and for tails (`with_tail`).
        """
        if (name, level) not in self._intervals:
            self._intervals[name, level] = self._interval(name, level)
        return self._intervals[name, level]

    @cached_property
    def _intervals(self) -> dict[tuple[str, float], Estimate]:
        """Those that were asked for: a tail asks for those of all lower quantiles."""
        return {}

    def _interval(self, name: str, level: float) -> Estimate:
        value = self.mean(name)
        parts = self.parts(name, level=level)
        half = math.hypot(*vars(parts).values())
        low, high = value * math.exp(-half), value * math.exp(half)
        if name == "throughput_rps" and self.open_loop:
            high = max(value, min(high, self.offered_rps))
        if name in LATENCIES and self.open_loop and math.isfinite(value):
            fastest = self._fastest(name, level)
            parameters = min(parts.parameters, max(0.0, math.log(value) - fastest))
            low = value * math.exp(
                -math.hypot(*vars(replace(parts, parameters=parameters)).values())
            )
        found = Estimate(value, low, high)
        if name not in QUANTILE_BELOW or not 0.0 < value < math.inf:
            return found
        below = self.interval(QUANTILE_BELOW[name], level=level)
        return self.with_tail(name, found, below=below, level=level)

    def with_tail(
        self, name: str, found: Estimate, *, below: Estimate | None = None, level: float = 0.95
    ) -> Estimate:
        """The interval of a tail, with what decides a tail and is not known.

        In a closed loop it may be off by a turn (`turn_range`), and the host's pauses may take more
        time than is known (`longest_probable_ms`).

        Parameters
        ----------
        found
            The interval from all else.
        below
            That of the next lower quantile (`QUANTILE_BELOW`).
        level
            Of all of these.
        """
        value = found.value
        shortest, longest = self.turn_range(name)
        longest = max(longest, longest_probable_ms(self, QUANTILES[name]) or 0.0)
        scale = float(ndtri(0.5 + level / 2.0)) / Z95
        low = math.hypot(math.log(value / found.low), scale * math.log(value / shortest))
        high = math.hypot(math.log(found.high / value), scale * math.log(longest / value))
        ends = value * math.exp(-low), value * math.exp(high)
        if below is not None:
            ends = min(value, max(ends[0], below.low)), max(ends[1], below.high)
        return Estimate(value, *ends)

    def turn_range(self, name: str) -> tuple[float, float]:
        """A tail that is a turn of a closed loop's clients shorter or longer, in ms.

        Who is served late waits for a turn of all clients; a little more or less work of the load
        generator, or a batch that is read in two parts, decides who that is. A tail is no shorter
        than the median. An open loop has no turns: both ends are its value.
        """
        value, turn_ms = self.mean(name), 0.0
        if not self.open_loop:
            clients = self.case.scenario.workload.clients
            turn_ms = self.mean("mean_ms") * (clients - 1) / clients
        return max(value - turn_ms, min(value, self.mean("p50_ms"))), value + turn_ms

    def _fastest(self, name: str, level: float) -> float:
        """The quantile of the drawn numbers' logarithms with which an interval begins.

        A queue's latency grows beyond any bound as the load nears capacity. Spread evenly on the
        log scale, few draws near overload would begin the interval of an open loop below all draws.
        """
        logs = self.log_draws(name)
        if not len(logs):
            return -math.inf
        return float(np.quantile(logs, (1.0 - level) / 2.0, method="lower"))

    @property
    def open_loop(self) -> bool:
        """Whether requests arrive by themselves."""
        return self.case.scenario.workload.arrival == "open_loop"

    @property
    def offered_rps(self) -> float:
        """Mean rate of an open loop's arrivals."""
        return self.case.scenario.workload.mean_rate_rps or math.nan

    @cached_property
    def overloaded(self) -> bool:
        """Whether the backlog of an open loop grows, by all nominal runs together."""
        growths = [metrics.growth for metrics in self.nominal if metrics.growth is not None]
        return bool(growths) and grows(growths)

    def backlog_growth(self, *, level: float = 0.95) -> Estimate | None:
        """Requests a second by which the backlog grows, with its interval; None if it doesn't.

        It is what arrives and does not complete.
        """
        if not self.overloaded:
            return None
        completes = self.interval("throughput_rps", level=level)
        rates = completes.value, completes.high, completes.low
        return Estimate(*(max(0.0, self.offered_rps - rate) for rate in rates))

    @cached_property
    def utilisation(self) -> dict[str, float]:
        """How busy each station is, in the order of `STATIONS`; I/O and worker threads by the
        busiest."""
        results = [metrics.result for metrics in self.nominal]
        values = {
            "main thread": _mean([r.main_thread_utilisation for r in results]),
            "I/O threads": _mean([max(r.io_thread_utilisation, default=0.0) for r in results]),
            "load generator": _mean([r.load_generator_utilisation for r in results]),
            "network": _mean([r.network_utilisation for r in results]),
            "interrupts": _mean([r.interrupt_utilisation for r in results]),
            "cores": _mean([r.core_utilisation for r in results]),
            "CPU quota": _mean([r.quota_utilisation for r in results]),
        }
        if self.threads_alike:
            workers = max(values.pop("main thread"), values.pop("I/O threads"))
            values = {WORKERS: workers, **values}
        return values

    @property
    def threads_alike(self) -> bool:
        """Whether no thread is the main thread, as in Memcached."""
        return self.system.engine.threading.threads_alike

    @cached_property
    def io_thread_utilisation(self) -> list[float]:
        """How busy each I/O thread is, or each of threads that are all alike."""
        results = [metrics.result for metrics in self.nominal]
        found = [list(r.io_thread_utilisation) for r in results]
        if self.threads_alike:
            found = [
                each or [r.main_thread_utilisation] for each, r in zip(found, results, strict=True)
            ]
        means: list[float] = np.mean(found, axis=0).tolist()
        return means

    @property
    def active_threads(self) -> int:
        """Threads the engine uses, the main thread included: the mean over the windows, rounded."""
        results = [metrics.result for metrics in self.nominal]
        counted = [r.counters["active_thread_ps"] / (r.window_s * _PS_PER_S) for r in results]
        if not any(counted):
            # A policy that doesn't start and stop threads under load.
            return round(_mean([r.final_active_threads for r in results]))
        return 1 + round(_mean(counted))

    @cached_property
    def memory_bandwidth(self) -> MemoryBandwidth:
        """Bandwidth of main memory in use, its share of the peak, and the latency it leads to."""
        inputs = at_rate(self.system.inputs(self.case.scenario))
        load = scenario_memory_load(inputs)
        used = load.bytes_per_request * self.mean("throughput_rps") / 1e9
        return MemoryBandwidth(
            gb_per_s=used,
            utilisation=used / inputs.speed.dram_bandwidth_gb_per_s,
            latency_factor=load.latency_factor,
        )

    @property
    def network_limits(self) -> dict[str, float]:
        """How far each limit of the network is used; see `NodeResult`."""
        limits = [metrics.result.network_limits for metrics in self.nominal]
        return {name: _mean([each[name] for each in limits]) for name in limits[0]}

    @property
    def network_gbit_per_s(self) -> float | None:
        """The bandwidth that was simulated; None where the load comes from the server's host."""
        scenario = self.case.scenario
        inputs = None if scenario.same_host else self.system.inputs(scenario)
        return None if inputs is None else inputs.speed.network_gbit_per_s

    @cached_property
    def wire_bits_per_request(self) -> float:
        """Bits of a request on the wire in the busier direction, headers included."""
        counters = [metrics.result.counters for metrics in self.nominal]
        done = sum(each["completions"] for each in counters)
        ways = ("wire_bytes_out", "wire_bytes_in")
        return 8.0 * max(sum(each[way] for each in counters) for way in ways) / max(1, done)

    @property
    def throttled_periods(self) -> float:
        """Share of the periods of a CPU quota in which some thread was stopped; 0 without one."""
        counted = [r.result.counters["throttled_periods"] for r in self.nominal]
        seconds = sum(metrics.result.window_s for metrics in self.nominal)
        periods = seconds * 1000.0 / self.case.scenario.cpu_quota_period_ms
        return min(1.0, sum(counted) / periods)

    @cached_property
    def bottleneck(self) -> str:
        """The station that limits this run, or `none` if none is saturated.

        Of clients that never pause and saturate nothing it is they themselves: as many as they are,
        over the time of a round trip. The same where a backlog grows and no station is saturated:
        each connection carries one request at a time. With so many of them that some station would
        be saturated if it worked whenever a request waits for it, threads wait for a CPU or take
        turns. A main thread that goes round for the results of I/O threads finds some every time,
        so I/O threads without time to spare are named before it.
        """
        utilisation = self.utilisation
        threads = self.io_thread_utilisation
        if threads and not self.threads_alike and np.mean(threads) >= SATURATED:
            return "I/O threads"
        busiest = max(utilisation, key=utilisation.__getitem__)
        if utilisation[busiest] >= SATURATED:
            return busiest
        workload = self.case.scenario.workload
        unpaused = workload.arrival == "closed_loop" and workload.think_us == 0
        if not (unpaused or self.overloaded):
            return "none"
        if not self._idles(utilisation[busiest]):
            return CLIENTS
        # What threads wait for that are idle while requests wait: a CPU, or each other.
        if self.system.shares_cores(self.case.scenario):
            return "cores"
        return "CPU quota" if self.system.sharing(self.case.scenario).quota_cores else TURNS

    def _idles(self, busiest: float) -> bool:
        """Whether the busiest station has idle time that requests wait through.

        N clients, of which a lone one has a round trip of R, get at least N / (R + (N - 1) D)
        batches a second of any queueing network whose stations work while somebody waits for them;
        D is what its busiest station takes for a batch (balanced job bound, with all that is not D
        as delay; Zahorjan, Sevcik, Eager and Galler, CACM 25(2), 1982). Fewer are served where a
        thread waits for what another holds back.

        Parameters
        ----------
        busiest
            Utilisation of that station.
        """
        served_rps, clients = self.mean("throughput_rps"), self.case.scenario.workload.clients
        if clients == 1 or served_rps <= 0.0:
            return False
        batch = self.case.scenario.workload.pipeline
        station_s = batch * busiest / served_rps

        def bound(round_trip_s: float) -> float:
            """Utilisation of the station at that throughput."""
            return clients * station_s / (round_trip_s + (clients - 1) * station_s)

        inputs = self.system.inputs(self.case.scenario)
        shortest_s = 0.0
        if not self.case.scenario.same_host:
            shortest_s = 2.0 * times_of(inputs).one_way_ps / _PS_PER_S
        if busiest >= _NEARLY * bound(max(shortest_s, station_s)):
            return False
        alone = self.case.scenario.saturated(clients=1)
        lone = self.system.inputs_of(alone, self.system.numbers())
        lone_rps = pilot_run(lone, times_of(lone), seed=1).rate_rps
        return busiest < _NEARLY * bound(batch / lone_rps)

    @property
    def next_bottleneck(self) -> NextBottleneck | None:
        """Of a saturated run: the station that would limit next, and from which throughput on."""
        throughput = self.mean("throughput_rps")
        needed = dict(self.utilisation)
        # One thread polls for all and does so more often the less there is to do: the mean over the
        # threads says more about their limit than the busiest.
        threads = self.io_thread_utilisation
        station = WORKERS if self.threads_alike else "I/O threads"
        needed[station] = float(np.mean(threads)) if threads else 0.0
        others = [s for s in needed if s != self.bottleneck and needed[s] > 1e-6]
        if not others:
            return None
        name = max(others, key=needed.__getitem__)
        return NextBottleneck(name, throughput / min(1.0, needed[name]))


def memory_wait_ps(result: NodeResult, times: NodeTimes) -> float:
    """Mean wait for memory of a command, beyond what the batched look-ups of a run spend."""
    shares = code_shares(times)
    asked = float(np.dot(shares, times.keys_by_code))
    fetched = result.counters["prefetched_keys"] / max(1, result.completions) / asked
    fetched = min(1.0, fetched)
    waits = (1.0 - fetched) * times.stall_ps.mean(axis=1)
    waits = waits + fetched * times.prefetched_stall_by_code_ps
    return float(np.dot(shares, waits))


def _mean(values: Sequence[float]) -> float:
    """As `np.mean`, which takes its time for a single run."""
    return float(values[0]) if len(values) == 1 else float(np.mean(values))


def _spread(logs: Sequence[float] | np.ndarray) -> float:
    return float(np.std(logs, ddof=1)) if len(logs) > 1 else 0.0


def _t(runs: Sequence[Any] | np.ndarray, level: float) -> float:
    """Student t of an interval, by its number of runs."""
    return student_t(level, len(runs) - 1) if len(runs) > 1 else 0.0


def _completions(runs: Sequence[Metrics]) -> float:
    return max(1.0, _mean([metrics.result.completions for metrics in runs]))


def predict_cases(
    cases: Sequence[NodeCase],
    *,
    seed: int = 1,
    draws: int = DRAWS,
    replications: int = REPLICATIONS,
    requests: int = REQUESTS,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> list[Prediction]:
    """Predict many cases, in parallel; the result does not depend on the executor.

    Parameters
    ----------
    draws
        Runs at drawn numbers; 0 leaves the interval without its part from parameters.
    executor
        Where to run; threads on all cores if left out (compiled runs release the GIL).
    """
    check_count(len(cases), len(cases) * (draws + replications))
    with (
        ThreadPoolExecutor() if executor is None else nullcontext(executor) as pool,
        Submitted(pool) as calls,
    ):
        pilots = [calls.submit(_pilot, case.scenario, system, seed) for case, system in cases]
        found = [pilot.result() for pilot in pilots]
        runs = Batch(replications, requests), Batch(draws, DRAW_REQUESTS, brief=True)
        asked = [
            AskedRuns(system.inputs(case.scenario), pilot, runs)
            for (case, system), pilot in zip(cases, found, strict=True)
        ]
        check_runs(asked, points=len(cases), progress=progress)
        pending = []
        for (case, system), pilot in zip(cases, found, strict=True):
            scenario = case.scenario
            nominal = calls.submit(_nominal, scenario, system, seed, replications, requests, pilot)
            drawn = [calls.submit(_drawn, scenario, system, seed, n, pilot) for n in range(draws)]
            pending.append((case, system, nominal, drawn, pilot))
        predictions = []
        for number, (case, system, nominal, drawn, pilot) in enumerate(pending, start=1):
            results = [future.result() for future in drawn]
            predictions.append(Prediction(case, system, nominal.result(), results, pilot))
            if progress is not None:
                progress(f"simulated {number} of {len(pending)} points")
        return predictions


def _pilot(scenario: Scenario, system: System, seed: int) -> Pilot:
    inputs = system.inputs(scenario)
    return pilot_run(inputs, times_of(inputs), seed=seed)


def _nominal(
    scenario: Scenario,
    system: System,
    seed: int,
    replications: int,
    requests: int,
    pilot: Pilot,
) -> list[Metrics]:
    inputs = system.inputs(scenario)
    times, window_ps = times_of(inputs), window(inputs, pilot, requests=requests)
    return [
        Metrics.of(
            run(
                inputs,
                requests=requests,
                seed=seed,
                replication=number,
                times=times,
                window_ps=window_ps,
            )
        )
        for number in range(replications)
    ]


def drawn_runs(prediction: Prediction, draws: Iterable[int], *, seed: int) -> list[Metrics]:
    """Runs of a prediction's point at further draws, in this thread.

    Parameters
    ----------
    draws
        Their numbers; the prediction has those from 0 on.
    seed
        Of the prediction.
    """
    scenario, system, pilot = prediction.case.scenario, prediction.system, prediction.pilot
    assert pilot is not None  # it was simulated
    return [_drawn(scenario, system, seed, number, pilot) for number in draws]


def _drawn(scenario: Scenario, system: System, seed: int, draw: int, pilot: Pilot) -> Metrics:
    inputs = system.inputs(scenario, draw=draw, seed=seed)
    return brief_run(inputs, pilot, seed=seed, replication=1000 + draw)


def brief_run(inputs: NodeInputs, pilot: Pilot, *, seed: int, replication: int) -> Metrics:
    """A run at other numbers; its window is that of the nominal ones, so that it needs no pilot.

    The run begins with as many threads as the engine had settled on at the nominal numbers. If the
    engine changes that number, the run is repeated with time to settle; if it keeps starting and
    stopping a thread, in a window that holds a whole turn of that.

    Parameters
    ----------
    pilot
        At the nominal numbers.
    """
    times = times_near(inputs, pilot)

    def drawn(window_ps: Window) -> NodeResult:
        return run(
            inputs,
            requests=DRAW_REQUESTS,
            seed=seed,
            replication=replication,
            times=times,
            window_ps=window_ps,
        )

    result = drawn(window(inputs, pilot, requests=DRAW_REQUESTS, brief=True))
    closed = inputs.scenario.workload.arrival == "closed_loop"
    changed = result.final_active_threads != pilot.active_threads
    if inputs.policy.samples_load and closed and changed:
        result = drawn(window(inputs, pilot, requests=DRAW_REQUESTS, brief=True, near=NEAR))
    if inputs.policy.samples_load and result.counters["activations"] > 0:
        turning = replace(pilot, trying_fewer=True)
        result = drawn(window(inputs, turning, requests=DRAW_REQUESTS))
    return Metrics.of(result)
