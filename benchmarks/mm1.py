"""M/M/1: the compiled calendar against SimPy and cimba.

One model three times: a source puts arrival times into a first-in first-out queue, a server takes
them, serves, and adds up the times in the system. Inter-arrival and service times are drawn while
it runs, exponential, by each one's own generator. Compile time isn't counted. The mean time in the
system is printed beside the speed; at load 0.8 it's 5 mean service times.
"""

import random
import statistics
from collections.abc import Callable, Generator
from typing import Any

try:
    import cimba
    import mm1_cimba
except ImportError:
    cimba = None

import numpy as np
import simpy
from measure import interleaved_cpu_s, median_ratio

from verification.queueing.queues import EXPONENTIAL, open_queue

LOAD = 0.8
CUSTOMERS = 1_000_000
SIMPY_CUSTOMERS = 50_000
"""SimPy takes as long for these as the others for twenty times as many."""

COMPILED, SIMPY, CIMBA = "forecache, compiled calendar", "SimPy", "cimba"


def compiled(customers: int, means: list[float]) -> Callable[[int], None]:
    """The event calendar."""
    nothing = np.zeros(0, np.int64)
    service_ps = 1e6

    def run(repetition: int) -> None:
        sum_ps, _, _ = open_queue(
            *(1, repetition, customers, 1, service_ps / LOAD, service_ps, EXPONENTIAL, 1.0),
            *(nothing, nothing),
        )
        means.append(sum_ps / customers / service_ps)

    return run


def with_simpy(customers: int, means: list[float]) -> Callable[[int], None]:
    """SimPy processes and a Store."""

    def run(repetition: int) -> None:
        env = simpy.Environment()
        queue = simpy.Store(env)
        draw = random.Random(repetition).expovariate
        total = 0.0

        def source() -> Generator[simpy.Event, Any, None]:
            for _ in range(customers):
                yield env.timeout(draw(LOAD))
                queue.put(env.now)

        def server() -> Generator[simpy.Event, Any, None]:
            nonlocal total
            for _ in range(customers):
                arrival = yield queue.get()
                yield env.timeout(draw(1.0))
                total += env.now - arrival

        env.process(source())
        env.process(server())
        env.run()
        means.append(total / customers)

    return run


def with_cimba(means: list[float]) -> Callable[[int], None] | None:
    """The cimba model; None if cimba isn't installed."""
    if cimba is None:
        return None
    if (mm1_cimba.CUSTOMERS, mm1_cimba.LOAD) != (CUSTOMERS, LOAD):
        raise AssertionError("mm1_cimba simulates another queue")
    model = mm1_cimba.Queue()

    def run(repetition: int) -> None:
        experiment = cimba.Experiment(model, replications=1, seed=repetition)
        results = experiment.run(workers=1)
        means.append(float(np.asarray(results[model].mean_time.values).item()))

    return run


def measure(repetitions: int) -> dict[str, Any]:
    """Median customers a second of all that are installed, and ratios round by round."""
    means: dict[str, list[float]] = {COMPILED: [], SIMPY: [], CIMBA: []}
    customers = {COMPILED: CUSTOMERS, SIMPY: SIMPY_CUSTOMERS, CIMBA: CUSTOMERS}
    competitors = {
        COMPILED: compiled(CUSTOMERS, means[COMPILED]),
        SIMPY: with_simpy(SIMPY_CUSTOMERS, means[SIMPY]),
    }
    cimba_run = with_cimba(means[CIMBA])
    if cimba_run is not None:
        competitors[CIMBA] = cimba_run
    times_s = interleaved_cpu_s(competitors, repetitions)

    def ratio(slower: str) -> float | None:
        if slower not in times_s:
            return None
        per_customer_s = [time_s / customers[slower] for time_s in times_s[slower]]
        return median_ratio(per_customer_s, [time_s / CUSTOMERS for time_s in times_s[COMPILED]])

    return {
        "load": LOAD,
        "repetitions": repetitions,
        "clock": "CPU time of the process",
        "engines": {
            name: {
                "customers": customers[name],
                "customers_per_s": statistics.median(customers[name] / t for t in times),
                "customers_per_s_all": [customers[name] / t for t in times],
                "mean_sojourn_over_service": statistics.median(means[name]),
            }
            for name, times in times_s.items()
        },
        "times_simpy": ratio(SIMPY),
        "times_cimba": ratio(CIMBA),
    }


def table(result: dict[str, Any]) -> str:
    """The result for a person."""
    lines = [
        f"M/M/1 at load {result['load']}, median of {result['repetitions']} interleaved "
        f"repetitions, {result['clock']}",
        f"  {'':<30}{'customers':>11}{'customers/s':>15}{'mean (known: 5)':>18}",
    ]
    for name, engine in result["engines"].items():
        lines.append(
            f"  {name:<30}{engine['customers']:>11,}{engine['customers_per_s']:>15,.0f}"
            f"{engine['mean_sojourn_over_service']:>18.3f}"
        )
    lines.append(f"  {result['times_simpy']:,.0f} times SimPy")
    if result["times_cimba"] is None:
        lines.append("  cimba isn't installed: not compared")
    else:
        lines.append(f"  {result['times_cimba']:.1f} times cimba")
    return "\n".join(lines)
