"""The questions a scenario can be asked: simulate it, recommend a setting, explain its time."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import named
from forecache.sim.errors import InfeasibleError, InputError
from forecache.sim.processes import workers
from forecache.sim.statistics import Estimate
from forecache.sim.words import chance

from ..breakdown.explain import server_cpu_time
from ..prediction.caveats import not_covered
from ..prediction.pauses import latency_with_pauses_ms
from ..prediction.predict import LATENCIES, SERVER_CPU, Prediction, Progress, predict_cases
from ..prediction.system import NodeCase, System
from ..results.consistency import check_point
from ..results.displayed import provenance
from ..results.latency import LatencyDistribution
from ..results.points import LoadPoint, Point
from ..scenario.schema import Scenario
from ..scenario.source import ScenarioSource, read_scenario
from ..scenario.sweeps import Case
from .cases import load_cases, thread_candidates
from .limits import Limit, find_limits, point_standing
from .next_measurement import MeasureNext, next_measurement
from .node_answers import (
    Explained,
    ExplainedPoint,
    NumberOrigin,
    Recommended,
    Shown,
    Simulated,
    node_summary,
)
from .objective import probability
from .recommend import Candidate, Choice, build_recommendation, choose
from .sensitivity import Sensitivity, find_sensitivity
from .thread_plan import thread_plan
from .verdict import point_remarks, unmet_conditions, verdict


def predicted_point(prediction: Prediction, limit: Limit) -> Point:
    """What is predicted of one point.

    Parameters
    ----------
    limit
        How far its setting goes, whatever is asked of it.
    """
    utilisation = prediction.utilisation
    standing = point_standing(prediction, limit)
    sure = probability(prediction, capacity_rps=limit.capacity_rps)
    unmet = unmet_conditions(prediction, probability=sure)
    latencies: dict[str, Any] = {name: prediction.estimate(name) for name in LATENCIES}
    point = Point(
        given=prediction.case.given,
        throughput_rps=prediction.interval("throughput_rps"),
        **latencies,
        backlog_growth_rps=prediction.backlog_growth(),
        main_thread_utilisation=utilisation.get("main thread"),
        io_thread_utilisation=prediction.io_thread_utilisation,
        load_generator_utilisation=utilisation["load generator"],
        network_utilisation=utilisation["network"],
        network_limits=prediction.network_limits,
        network_gbit_per_s=prediction.network_gbit_per_s,
        interrupt_utilisation=utilisation["interrupts"],
        core_utilisation=utilisation["cores"],
        quota_utilisation=utilisation["CPU quota"],
        throttled_periods=prediction.throttled_periods,
        memory_bandwidth=prediction.memory_bandwidth,
        **_cpu_time(prediction),
        active_threads=prediction.active_threads,
        bottleneck=standing.bottleneck,
        next_bottleneck=standing.next_bottleneck,
        verdict=verdict(standing.verdict, unmet),
        unmet=unmet,
        limit_rps=standing.limit_rps,
        headroom_rps=standing.headroom_rps,
        objective_probability=sure,
        warnings=[
            *not_covered(prediction.case.scenario, prediction.system),
            *point_remarks(prediction, standing.bottleneck),
        ],
        uncertainty=prediction.parts("throughput_rps"),
        p99_with_pauses_ms=latency_with_pauses_ms(prediction, 0.99),
        p999_with_pauses_ms=latency_with_pauses_ms(prediction, 0.999),
        latency=None
        if prediction.overloaded
        else LatencyDistribution.of([run.result.latency for run in prediction.nominal]),
    )
    check_point(point)
    return point


def _cpu_time(prediction: Prediction) -> dict[str, Any]:
    """The fields of a point that say what requests take of the server."""
    spent = server_cpu_time(prediction)
    found: dict[str, Any] = {**vars(spent), "undisturbed_cpu_us_per_request": None}
    useful_us = spent.server_cpu_us_per_request
    if useful_us is None:
        return found
    # Its interval is that of all CPU time: what threads spin is as uncertain.
    whole = prediction.interval(SERVER_CPU)
    low, high = (useful_us * end / whole.value for end in (whole.low, whole.high))
    found["server_cpu_us_per_request"] = Estimate(useful_us, low, high)
    observed = prediction.system.engine.observed
    if observed is not None and observed.undisturbed and prediction.system.observed_here:
        found["undisturbed_cpu_us_per_request"] = useful_us * observed.undisturbed
    return found


def predict_candidates(
    systems: list[NodeCase],
    *,
    seed: int,
    progress: Progress | None,
    executor: Executor,
) -> list[Candidate]:
    """Predictions with their points, in the order of the cases."""
    predictions = predict_cases(systems, seed=seed, executor=executor, progress=progress)
    limits = find_limits(predictions, seed=seed, executor=executor)
    return [
        Candidate(p, predicted_point(p, limit))
        for p, limit in zip(predictions, limits, strict=True)
    ]


def simulate(
    scenario: ScenarioSource,
    *,
    seed: int = 1,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Simulated:
    """Simulate every point of a scenario's sweep.

    The result does not depend on the executor, nor on the number of jobs at a time without one:
    as many as cores if left out.
    """
    given = read_scenario(scenario)
    systems = load_cases(given)
    with named(given.name), workers(executor, count=jobs) as where:
        found = predict_candidates(systems, seed=seed, progress=progress, executor=where)
    return Simulated(
        **node_summary(systems[0][0].scenario, systems[0][1]),
        points=[each.point for each in found],
        provenance=provenance(seed=seed),
    )


def recommend(
    scenario: ScenarioSource, *, seed: int = 1, progress: Progress | None = None
) -> Recommended:
    """What `simulate` returns, and the number of I/O threads to run.

    Raises
    ------
    InputError
        The scenario sweeps something else than io_threads.
    InfeasibleError
        The data do not fit, or no candidate meets the scenario's SLO; the error's `result` is what
        is returned otherwise, with `closest` in place of the recommended `setting`.
    """
    given = read_scenario(scenario)
    return recommend_cases(load_cases(given), file=given.name, seed=seed, progress=progress)


def recommend_cases(
    systems: list[NodeCase],
    *,
    file: str,
    seed: int,
    progress: Progress | None,
) -> Recommended:
    """The same of cases with their systems; `file` is what messages call them."""
    result, _ = compare_threads(
        systems, file=file, seed=seed, progress=progress, plans_threads=True
    )
    advice, slo = result.recommendation, result.recommendation.slo
    if advice.shortfall is not None:
        raise InfeasibleError(f"{file}: {advice.shortfall}.", result=result)
    if slo is not None and not slo.met:
        raise InfeasibleError(
            f"{file}: no setting of io_threads meets the slo ({slo.asked}) with a probability of "
            f"{slo.asked_probability:.4g}; the closest is io-threads "
            f"{advice.chosen['io_threads']} with {slo.reached}, which meets it with "
            f"{chance(slo.probability)}.",
            result=result,
        )
    return result


def check_threads_only(systems: list[NodeCase], *, file: str) -> None:
    """Refuse cases that differ in something else than io_threads, with an `InputError`."""
    if any(set(case.given) - {"io_threads"} for case, _ in systems):
        swept = sorted({name for case, _ in systems for name in case.given})
        raise InputError(
            f"{file}: found a sweep over {', '.join(swept)}; a recommendation takes a sweep over "
            "io_threads only; simulate takes any, and plan compares hosts and engines by cost."
        )


def compare_threads(
    systems: list[NodeCase],
    *,
    file: str,
    seed: int,
    progress: Progress | None,
    plans_threads: bool = False,
    sensitivity: bool = False,
) -> tuple[Recommended, Sensitivity | None]:
    """Points and recommendation for cases that differ in io_threads, whether an SLO is met or not.

    Parameters
    ----------
    plans_threads
        Also say which CPUs the recommended threads and everything beside them get.
    sensitivity
        Also say which inputs move the chosen setting. The next measurement is told by the same
        simulations then, where they are of the same quantity.

    Raises
    ------
    InputError
        The cases differ in something else.
    """
    check_threads_only(systems, file=file)
    if len(systems) == 1:
        systems = thread_candidates(*systems[0])
    with named(file), workers() as where:
        found = predict_candidates(systems, seed=seed, progress=progress, executor=where)
        choice = choose(found)
        chosen = choice.chosen.prediction
        measure_next = _measure_next(choice, seed=seed, executor=where)
        planned = None
        if plans_threads and choice.met:
            planned = thread_plan(chosen, seed=seed, executor=where, progress=progress)
    moved_by = None
    if sensitivity:
        moved_by = _sensitivity(chosen, systems, name=file, seed=seed, say=progress)
        if moved_by.measure_next.quantity == measure_next.quantity:
            measure_next = moved_by.measure_next
    answer = Recommended(
        **node_summary(systems[0][0].scenario, systems[0][1]),
        points=[each.point for each in found],
        recommendation=build_recommendation(choice, measure_next=measure_next, thread_plan=planned),
        provenance=provenance(seed=seed),
    )
    return answer, moved_by


def _measure_next(choice: Choice, *, seed: int, executor: Executor) -> MeasureNext:
    """Which measurement would tighten the recommendation."""
    rivals = [rival.prediction for rival in choice.rivals]
    return next_measurement(choice.chosen.prediction, rivals, seed=seed, executor=executor)


_CURVE_SHARES = (0.05, 0.2, 0.4, 0.55, 0.7, 0.8, 0.87, 0.93, 0.97, 1.03)
"""Loads of a curve, as shares of the capacity."""


def load_curve(
    system: System, scenario: Scenario, capacity_rps: float, *, seed: int = 1
) -> list[LoadPoint]:
    """Points under open-loop load at shares of a capacity, from light load to beyond it.

    Where `capacity_rps` is no closed loop's of single requests (but of pipelines, thinking clients
    or a given rate), it is predicted again as such.
    """
    workload, single = scenario.workload, scenario.saturated(pipeline=1)
    if workload.pipeline > 1 or workload.think_us > 0 or workload.arrival == "open_loop":
        [alone] = predict_cases(
            [(Case({}, single), system)], seed=seed, draws=0, replications=1, requests=20_000
        )
        capacity_rps = alone.mean("throughput_rps")
    rates = [share * capacity_rps for share in _CURVE_SHARES]
    cases = [
        Case({"offered_rps": rate}, single.with_workload(arrival="open_loop", rate_rps=rate))
        for rate in rates
    ]
    predictions = predict_cases(
        [(case, system) for case in cases], seed=seed, replications=3, requests=30_000
    )
    limits = find_limits(predictions, seed=seed, search=False)
    return [
        LoadPoint(**vars(predicted_point(prediction, limit)))
        for prediction, limit in zip(predictions, limits, strict=True)
    ]


def explain(
    scenario: ScenarioSource,
    *,
    seed: int = 1,
    timeline: str | Path | None = None,
    sensitivity: bool = False,
    progress: Progress | None = None,
) -> Explained:
    """Where the time of a request goes, where each number comes from, what to measure next.

    Where the scenario names one setting, the next measurement is that of `recommend` all the same,
    which compares it with others. Where it sweeps something else than io_threads, nothing can be
    recommended: the first point is shown, and measured would be what the least certain one needs.

    Parameters
    ----------
    timeline
        File for what every thread does in a millisecond, as trace events: of the setting to run,
        or of the first point where a scenario sweeps something else than io_threads.
    sensitivity
        Also tell which inputs move that point, which takes a few thousand simulations.
    """
    # They need the reference execution and SimPy, which nothing else does.
    from ..breakdown.latency import trace_latency
    from ..breakdown.timeline import write_timeline

    given = read_scenario(scenario)
    asked = load_cases(given)
    systems = thread_candidates(*asked[0]) if len(asked) == 1 else asked
    with named(given.name), workers() as where:
        found = predict_candidates(systems, seed=seed, progress=progress, executor=where)
        if all(set(each.prediction.case.given) <= {"io_threads"} for each in found):
            choice = choose(found)
            measure_next = _measure_next(choice, seed=seed, executor=where)
            index = next(i for i, each in enumerate(found) if each is choice.chosen)
            shown = Shown(index, recommended=choice.met, closest=not choice.met)
        else:
            widest = max(found, key=lambda each: each.point.uncertainty.parameters)
            measure_next = next_measurement(widest.prediction, [], seed=seed)
            shown = Shown(0, recommended=False, closest=False)
    case, system = asked[0]
    if len(asked) == 1:
        own = next(each for each in found if each.io_threads == case.scenario.io_threads)
        found = [replace(own, point=replace(own.point, given=case.given))]
        shown = Shown(0, recommended=False, closest=False)
    looked_at = found[shown.point].prediction
    moved_by = None
    if sensitivity:
        moved_by = _sensitivity(looked_at, asked, name=given.name, seed=seed, say=progress)
        if moved_by.measure_next.quantity == measure_next.quantity:
            measure_next = moved_by.measure_next
    if progress is not None:
        progress("tracing requests")
    points = [
        ExplainedPoint(
            **vars(each.point), latency_breakdown=trace_latency(each.prediction, seed=seed)
        )
        for each in found
    ]
    return Explained(
        **node_summary(case.scenario, system),
        points=points,
        shown=shown,
        timeline=None if timeline is None else write_timeline(timeline, looked_at, seed=seed),
        measure_next=measure_next,
        sensitivity=moved_by,
        numbers=[
            *(NumberOrigin.of(f"engine.{name}", leaf) for name, leaf in system.engine.work.items()),
            *(
                NumberOrigin.of(f"load_generator.{n}", leaf)
                for n, leaf in system.generator.work.items()
            ),
            *(NumberOrigin.of(f"host.{name}", leaf) for name, leaf in system.host.quantities()),
        ],
        provenance=provenance(seed=seed),
    )


def _sensitivity(
    prediction: Prediction,
    asked: list[NodeCase],
    *,
    name: str,
    seed: int,
    say: Progress | None,
) -> Sensitivity:
    with named(name), workers() as where:
        return find_sensitivity(prediction, asked, seed=seed, executor=where, progress=say)
