"""What must hold of a node in a steady state."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from forecache.hwprofiles.speed import HostSpeed
from forecache.models.advice import answers
from forecache.models.advice.limits import find_limits
from forecache.models.advice.objective import meets
from forecache.models.prediction import simulation
from forecache.models.prediction.predict import (
    CLIENTS,
    SERVER_CPU,
    TURNS,
    Prediction,
    predict_cases,
)
from forecache.models.prediction.run_length import SATURATED, slices_ps
from forecache.models.results.points import Point
from forecache.models.step_times.persistence import stalls_of

from .breach import Breach, Held
from .draws import Draws

WAITED_FOR = (CLIENTS, TURNS, "cores", "CPU quota")
"""Limits that may hold while no station is busy all the time."""

REQUESTS = 3_000
"""Measured requests of a run: few, since a contradiction seldom needs many."""

DRAWS, REPLICATIONS = 3, 2

VERBS_OF, EXPLAINED_OF = 20, 100
"""One scenario out of this many goes to every verb, and to `explain`, which traces requests."""

CHANCE = 0.04
"""What two runs of so few requests may differ by."""

SPEEDS: dict[str, float] = {
    **dict.fromkeys(("clock_ghz", "user_ipc", "parallel_misses"), 1.25),
    **dict.fromkeys(("network_gbit_per_s", "network_packets_per_s"), 1.25),
    **dict.fromkeys(("dram_bandwidth_gb_per_s", "network_flow_gbit_per_s"), 1.25),
    **dict.fromkeys(("l1_ns", "l2_ns", "l3_ns", "dram_ns", "tlb_walk_ns", "syscall_ns"), 0.8),
    **dict.fromkeys(("tcp_recv_ns", "tcp_send_ns", "unix_recv_ns", "unix_send_ns"), 0.8),
    **dict.fromkeys(("epoll_wait_ns", "epoll_event_ns", "epoll_ctl_ns"), 0.8),
    **dict.fromkeys(("wake_send_ns", "wake_latency_ns", "block_ns", "network_one_way_us"), 0.8),
    **dict.fromkeys(("copy_ns_per_byte",), 0.8),
    **dict.fromkeys(("core_to_core_ns", "softirq_ns", "tls_record_ns", "tls_ns_per_byte"), 0.8),
}
"""What a host may do faster, and by which factor."""


def check(data: dict[str, Any], draws: Draws, *, number: int) -> list[Breach]:
    """Ask for one scenario, and list what contradicts itself.

    Parameters
    ----------
    number
        Of the scenario; some checks are made of some scenarios only.

    Raises
    ------
    InputError
        The scenario is not valid after all.
    """
    [(case, system)] = answers.load_cases(data)
    [prediction] = predict_cases(
        [(case, system)], draws=DRAWS, replications=REPLICATIONS, requests=REQUESTS
    )
    [limit] = find_limits([prediction], seed=1)
    point = answers.predicted_point(prediction, limit)
    held = Held()
    _flow(held, prediction, point)
    _latency(held, prediction)
    _verdict(held, prediction, point)
    _work(held, prediction, point)
    if case.scenario.workload.arrival == "closed_loop":
        _little(held, prediction)
        if _threads_compete(prediction):
            pass  # Whoever has more to do takes the core of somebody else.
        elif number % 2:
            _more_clients(held, prediction)
        else:
            _faster_host(held, prediction, draws)
    if number % VERBS_OF == 0:
        _verbs(held, data, point, explained=number % EXPLAINED_OF == 0)
    return held.breaches


def _irregular_s(prediction: Prediction) -> float:
    """How long a backlog may last that a steady load leaves: of stalls, quotas, and bursts."""
    inputs = prediction.system.inputs(prediction.case.scenario)
    scenario = prediction.case.scenario
    longest = max((s.duration_ms / 1e3 for s in stalls_of(inputs)), default=0.0)
    if inputs.sharing.quota_cores:
        longest += scenario.cpu_quota_period_ms / 1e3
    if slices_ps(inputs):
        longest += 1e-6 * (inputs.speed.time_slice_us + inputs.speed.timer_tick_us) * 8
    return longest + scenario.workload.varying.cycle_ps / 1e12


def _flow(held: Held, prediction: Prediction, point: Point) -> None:
    """An open loop completes what arrives, unless it is overloaded; then less."""
    workload = prediction.case.scenario.workload
    rate = workload.mean_rate_rps
    if rate is None:
        return
    arrived = completed = 0
    for metrics in prediction.nominal:
        counters, flow = metrics.result.counters, metrics.result.flow
        assert flow is not None  # an open loop has one
        arrived, completed = arrived + counters["arrivals"], completed + counters["completions"]
        held.that(
            "completions are not above arrivals and the backlog",
            counters["completions"] <= counters["arrivals"] + flow.at_start,
            f"{counters['completions']} of {counters['arrivals']} and {flow.at_start}",
        )
    in_flight = 0.0
    for metrics in prediction.nominal:
        if metrics.result.completions:
            in_flight += rate * metrics.result.latency.quantile(0.999) / 1e12
    runs = len(counters)
    # Requests on the way when a window begins and ends: a few times as many as there are on
    # average, or what gathers in a stall.
    room = 20.0 * runs + 3.0 * math.sqrt(arrived) + runs * rate * _irregular_s(prediction)
    spare = room + min(in_flight, 0.05 * arrived)
    found = point.throughput_rps
    if workload.varying.cycle_ps == 0:
        held.not_above(
            "throughput and its interval are not above the rate of arrivals",
            found.high,
            rate,
            f"upper end of throughput and rate, {point.verdict}",
            by=6.0 / math.sqrt(max(1.0, arrived)),
        )
    if point.verdict == "OVERLOADED":
        return
    held.that(
        "completions equal arrivals, no trend in the backlog",
        abs(completed - arrived) <= spare,
        f"{completed} completions of {arrived} arrivals, {point.verdict}, room {spare:.0f}, "
        f"p99 {prediction.mean('p99_ms'):.4g} ms",
    )
    if workload.bursts is None:
        seconds = sum(metrics.result.window_s for metrics in prediction.nominal)
        chance = 6.0 / math.sqrt(max(1.0, rate * seconds)) + spare / max(1.0, rate * seconds)
        held.that(
            "throughput is the rate of arrivals",
            abs(found.value / rate - 1.0) <= chance,
            f"{found.value:.6g}/s of {rate:.6g}/s, {point.verdict}, chance {chance:.3f}",
        )


def _floor_ps(prediction: Prediction) -> float:
    """What every request takes: both ways through the network, and being executed."""
    inputs = prediction.system.inputs(prediction.case.scenario)
    times = simulation.times_of(inputs)
    network = 0 if prediction.case.scenario.same_host else 2 * times.one_way_ps
    return float(network + times.execute_by_code_ps[times.execute_by_code_ps > 0].min(initial=0))


def _latency(held: Held, prediction: Prediction) -> None:
    floor_ms = 0.98 * _floor_ps(prediction) / 1e9
    for metrics in prediction.nominal:
        latency = metrics.result.latency
        if latency.count:
            least_ms = latency.quantile(1e-6) / 1e9
            held.not_above("no latency below the round trip", floor_ms, least_ms, "least, ms")
            held.not_above(
                "a mean lies between the least and the most", latency.mean, latency.max_ps, "ps"
            )
            held.not_above(
                "a mean lies between the least and the most", least_ms * 0.98e9, latency.mean, "ps"
            )


def _verdict(held: Held, prediction: Prediction, point: Point) -> None:
    busiest = max(prediction.utilisation.values())
    verdict = point.verdict
    if verdict == "UNFIT":  # for another reason than its queue, which is looked at here
        verdict = "STABLE" if point.bottleneck == "none" else "SATURATED"
    numbers = f"{verdict}, bottleneck {point.bottleneck}, busiest station {busiest:.3f}"
    # At 95% of what it serves a server batches less than at all of it, or more; its threads may
    # then be busy for some four fifths of the time.
    held.that(
        "a saturated server has a station that is busy, or clients or threads that all wait",
        verdict != "SATURATED" or busiest >= NEARLY * SATURATED or point.bottleneck in WAITED_FOR,
        numbers,
    )
    # Threads find something to do in every turn long before they have no time left. By chance a
    # window holds more bursts than their mean rate has.
    offered_rps = prediction.case.scenario.workload.mean_rate_rps or math.inf
    bursts = min(1.0, offered_rps / prediction.mean("throughput_rps"))
    held.that(
        "a stable server has no network that is always busy",
        verdict != "STABLE" or prediction.utilisation["network"] * bursts < SATURATED,
        numbers,
    )
    if verdict == "STABLE" and point.limit_rps is not None:
        held.that(
            "a stable load that meets its objective has headroom",
            point.headroom_rps >= 0.0 and (point.headroom_rps > 0.0 or not meets(prediction)),
            f"{numbers}, headroom {point.headroom_rps}",
        )
    held.that(
        "only an open loop is overloaded",
        verdict != "OVERLOADED" or prediction.case.scenario.workload.arrival == "open_loop",
        numbers,
    )
    if verdict == "OVERLOADED":
        held.that("an overloaded server has a bottleneck", point.bottleneck != "none", numbers)
    following = point.next_bottleneck
    if following is not None and verdict == "STABLE":
        held.not_above(
            "a stable load is below the next limit",
            prediction.mean("throughput_rps"),
            following.at_rps,
            f"load and limit of {following.name}",
            by=CHANCE,
        )


def _work(held: Held, prediction: Prediction, point: Point) -> None:
    """What requests need and what threads spin is what the kernel counts; steps are checked by
    the guard."""
    cpu_us, spun_us = point.server_cpu_us_per_request, point.spinning_cpu_us_per_request
    if cpu_us is not None and spun_us is not None:
        held.adds_up(
            "CPU time of requests and spinning is all CPU time",
            prediction.mean(SERVER_CPU),
            [cpu_us.value, spun_us],
            "us a request",
            by=CHANCE,
        )


def _little(held: Held, prediction: Prediction) -> None:
    """Clients of a closed loop wait for replies or think: N = X (R + Z) / pipeline, or more.

    Left out of R are the reading of a reply by tools that count until they begin to read it, and
    the wait of those that poll before they send.

    It holds in every run, not of means over runs: threads that share cores may collapse in one run
    and not in another, and the mean of a product isn't the product of the means.
    """
    workload = prediction.case.scenario.workload
    for metrics in prediction.nominal:
        result = metrics.result
        uncounted_ps = result.counters["uncounted_ps"] + result.counters["unsent_ps"]
        uncounted_s = uncounted_ps / max(1, result.completions) / 1e12
        each_s = result.latency.mean / 1e12 + uncounted_s
        each_s += workload.think_us / 1e6 / workload.pipeline
        waiting = result.throughput_rps * each_s / workload.clients
        longest_s = result.latency.max_ps / 1e12
        ends = 0.03 + (longest_s + workload.think_us / 1e6) / result.window_s
        held.that(
            "Little's law",
            1.0 - ends <= waiting <= workload.pipeline * (1.0 + ends),
            f"{waiting:.4f} batches on the way of a client, expected 1 to {workload.pipeline} "
            f"within {ends:.3f}",
        )


def _throughput(prediction: Prediction, **changes: Any) -> float:
    inputs = replace(prediction.system.inputs(prediction.case.scenario), **changes)
    found = [
        simulation.run(inputs, requests=REQUESTS, seed=1, replication=n).throughput_rps
        for n in range(REPLICATIONS)
    ]
    return float(np.mean(found))


def _threads_compete(prediction: Prediction) -> bool:
    """Whether threads share cores or a quota."""
    scenario = prediction.case.scenario
    inputs = prediction.system.inputs(scenario)
    return prediction.system.shares_cores(scenario) or inputs.sharing.quota_cores > 0


def _more_clients(held: Held, prediction: Prediction) -> None:
    scenario = prediction.case.scenario
    workload = scenario.workload
    twice = workload.model_copy(update={"clients": 2 * workload.clients})
    # As many threads send as before, or more clients would also mean another load generator.
    load = scenario.load_generator.model_copy(update={"threads": scenario.generator_threads})
    more = scenario.model_copy(update={"workload": twice, "load_generator": load})
    before, after = prediction.mean("throughput_rps"), _throughput(prediction, scenario=more)
    held.not_above(
        "throughput does not fall with clients",
        before,
        after,
        f"requests/s of {workload.clients} and {2 * workload.clients} clients",
        by=CHANCE,
    )


def faster(speed: HostSpeed, name: str) -> HostSpeed:
    """The host with one of its numbers better."""
    return replace(speed, **{name: getattr(speed, name) * SPEEDS[name]})


def _faster_host(held: Held, prediction: Prediction, draws: Draws) -> None:
    inputs = prediction.system.inputs(prediction.case.scenario)
    name = draws.one_of(sorted(SPEEDS))
    speed = faster(inputs.speed, name)
    generator_speed = faster(inputs.generator_speed, name)
    before = prediction.mean("throughput_rps")
    after = _throughput(prediction, speed=speed, generator_speed=generator_speed)
    held.not_above(
        "throughput does not fall on a faster host",
        before,
        after,
        f"requests/s before and with {name} times {SPEEDS[name]:g}",
        by=CHANCE,
    )


@contextmanager
def _quick() -> Iterator[None]:
    """Verbs with as little effort as the checks: the same numbers follow from the same effort."""
    usual = answers.predict_cases
    answers.predict_cases = partial(  # type: ignore[assignment]
        predict_cases, draws=DRAWS, replications=REPLICATIONS, requests=REQUESTS
    )
    try:
        yield
    finally:
        answers.predict_cases = usual


NEARLY = 0.8
"""Of the utilisation from which a station counts as saturated."""

SAME = ("throughput_rps", "mean_ms", "p50_ms", "p99_ms", "server_cpu_us_per_request")


def _verbs(held: Held, data: dict[str, Any], point: Point, *, explained: bool) -> None:
    """Every verb says the same of the same scenario."""
    threads = data["io_threads"]
    other = threads + 1
    swept = {**data, "io_threads": {"sweep": [threads, other]}}
    latency_breakdown = None
    with _quick():
        said: dict[str, Point] = {
            "simulate": answers.simulate(data).points[0],
            "simulate of a sweep": answers.simulate(swept).points[0],
            "recommend": answers.compare_threads(
                answers.load_cases(swept), file="scenario", seed=1, progress=None
            )[0].points[0],
        }
        if explained:
            explanation = answers.explain(swept).points[0]
            said["explain"], latency_breakdown = explanation, explanation.latency_breakdown
    for verb, theirs in said.items():
        for name in (*SAME, "verdict", "bottleneck", "stages", "main_thread_utilisation"):
            held.that(
                "every verb says the same",
                getattr(theirs, name) == getattr(point, name),
                f"{name} of {verb}: {getattr(theirs, name)}, of the prediction: "
                f"{getattr(point, name)}",
            )
    mean = point.mean_ms
    if latency_breakdown is not None and mean is not None:
        held.adds_up(
            "a latency breakdown is made of its stations",
            latency_breakdown.mean_us,
            [row.us for row in latency_breakdown.stations],
            "us",
        )
        held.adds_up(
            "a latency breakdown adds up to the mean latency",
            latency_breakdown.mean_us / 1e3,
            [mean.value],
            f"ms, {point.verdict}",
            by=1e-3,
        )
