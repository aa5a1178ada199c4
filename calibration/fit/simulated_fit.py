"""What is fitted with the simulation in the loop: the wake latency, and costs between threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from forecache.hwprofiles.quantity import Quantity, Source
from forecache.hwprofiles.schema import HostProfile
from forecache.models.breakdown.explain import POLL, steps_of
from forecache.models.engines.profile import EngineProfile, EngineWork
from forecache.models.node.setup import NodeTimes
from forecache.models.prediction.predict import SERVER_CPU, Prediction, Progress, predict_cases
from forecache.models.prediction.simulation import at_rate, times_of
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case

from ..bundle.points import ObservedPoint
from .fit import Calibration
from .prior import fitted_quantity, prior_error
from .regression import Posterior, Problem, fit
from .work_model import scenario_of

# --- observed points, simulated with what was fitted to some of them ------------------------------


REQUESTS = 20_000


def predict_points(
    fitted: Calibration,
    points: Sequence[ObservedPoint],
    *,
    draws: int,
    progress: Progress | None = None,
) -> list[Prediction]:
    """Simulate observed points with the fitted engine, load generator and host.

    The simulation is told the conditions of a point and the fitted work only; batches, turns of
    the loop, sleeps and wake-ups come out of it.

    Parameters
    ----------
    draws
        Runs at drawn numbers, for the interval's part from parameters.
    """
    system = System(fitted.host, fitted.profile, fitted.generator)
    cases = [(case_of(point, system), system) for point in points]
    return predict_cases(cases, draws=draws, replications=2, requests=REQUESTS, progress=progress)


def case_of(point: ObservedPoint, system: System) -> Case[Scenario]:
    """An observed point as a case of the model."""
    engine = system.engine
    return Case(
        given=point.given.model_dump(mode="json", exclude_defaults=True),
        scenario=scenario_of(point.given, engine=engine.engine, engine_version=engine.version),
    )


# --- what shapes latency without costing CPU time -------------------------------------------------

# What shapes latency without costing CPU time: fitted with the simulation in the loop.
#
# How long a sleeper takes to run after it was woken shows in no thread's CPU time. It is fitted to
# the median latency of points with role fit where a request mostly waits for a thread to wake: open
# loops well below saturation, and closed loops of a handful of clients. All simulations share their
# random streams, so that the medians are a smooth function of it.


MEDIAN_ERROR = 0.05
"""Relative standard error of an observed median latency."""

PRIOR_ERROR = 0.4
"""Standard error of the logarithm of the wake latency: the capture wakes one thread at a time,
after longer sleeps."""

FEW_CLIENTS = 4
"""Clients of a closed loop up to which both sides sleep between requests."""

HIGHEST_LOAD = 0.7
"""Share of saturation above which queues, not wake-ups, make the median."""


def fit_wake_latency(fitted: Calibration, *, progress: Progress | None = None) -> Calibration:
    """The calibration with the wake latency that fits the medians; unchanged where none tells."""
    points = [point for point in fitted.bundle.points if _tells(point)]
    if not points:
        return fitted
    if progress is not None:
        progress(f"fitting the wake latency to {len(points)} open loops")
    observed = np.log([_median_ms(point) for point in points])

    def cost(log: float) -> float:
        changed = replace(fitted, host=_with_wake_latency(fitted.host, math.exp(log)))
        predictions = predict_points(changed, points, draws=0)
        simulated = np.log([prediction.mean("p50_ms") for prediction in predictions])
        misfit = np.sum(((simulated - observed) / MEDIAN_ERROR) ** 2)
        return float(misfit) + (log / PRIOR_ERROR) ** 2

    best = minimize_scalar(cost, bounds=(-1.2, 1.2), method="bounded", options={"xatol": 0.01})
    host = _with_wake_latency(fitted.host, math.exp(float(best.x)))
    observed_on = fitted.profile.observed
    assert observed_on is not None  # a fitted profile says where
    speed = {**observed_on.speed, "wake_latency_ns": host.kernel.wake_latency_ns.best}
    update = {"observed": observed_on.model_copy(update={"speed": speed})}
    return replace(fitted, host=host, profile=fitted.profile.model_copy(update=update))


def quiet_ms(point: ObservedPoint, name: str) -> float:
    """Median over repetitions of a latency in slices in which the host kept still; nan if none."""
    values = [getattr(repetition, f"quiet_{name}_ms") for repetition in point.repetitions]
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else math.nan


def _median_ms(point: ObservedPoint) -> float:
    """Observed median latency; nan where there is none."""
    return quiet_ms(point, "p50") if point.given.rate_share else point.median("p50_ms")


def _tells(point: ObservedPoint) -> bool:
    """Whether a point's latency is mostly that of waking up."""
    given = point.given
    if given.role != "fit" or math.isnan(_median_ms(point)):
        return False
    if given.rate_share is not None:
        return given.rate_share <= HIGHEST_LOAD
    pauses = given.think_us > 0 or given.arrival == "open_loop"
    return given.pipeline == 1 and given.clients <= FEW_CLIENTS and not pauses


def _with_wake_latency(host: HostProfile, factor: float) -> HostProfile:
    old = host.kernel.wake_latency_ns
    leaf = Quantity(
        value=float(f"{old.best * factor:.4g}"),
        unit=old.unit,
        kind="fitted",
        source="bundle",
        method="fitted to median latencies of open loops, the simulation in the loop",
    )
    kernel = host.kernel.model_copy(update={"wake_latency_ns": leaf})
    return host.model_copy(update={"kernel": kernel})


# --- what each thread computes, predicted as observed ---------------------------------------------

# What each thread of an engine with I/O threads computes for a request, predicted as observed.
#
# Of threads that sleep, the whole CPU time is observed. Of those that spin, samples leave out
# waiting and turns of the event loop, and INFO's active time of a main thread leaves out the turns
# that found nothing. A main thread that waits for the others of its turn sleeps otherwise: its
# turns count.


THREAD_WORK = (
    *("push_instructions", "pop_instructions", "done_instructions", "collect_instructions"),
    *("read_lines", "write_lines", "shared_lines", "reply_lines_per_line"),
    *("execute_lines", "command_lines", "set_lines", "done_lines"),
)
"""Work that only engines with I/O threads have."""


@dataclass(frozen=True)
class Computing:
    """CPU time a request without waiting, in us: of the main thread, and of all I/O threads."""

    main_us: float
    io_us: float


def computing_of(
    prediction: Prediction,
    *,
    active: bool = False,
    polls: bool = True,
    times: NodeTimes | None = None,
) -> Computing:
    """What threads compute in a prediction with I/O threads.

    Parameters
    ----------
    active
        The main thread's turns that find something count, as in INFO's active time.
    polls
        What I/O threads poll for the main thread counts.
    times
        Durations that steps are priced with; those of the run if left out.
    """
    result = prediction.nominal[0].result
    steps = steps_of(prediction, times=times)
    main_us = sum(us for _, thread, us in steps if thread == "main")
    io_us = sum(us for step, thread, us in steps if thread != "main" and (polls or step != POLL))
    policy = prediction.system.engine.threading
    if not (policy.threads_sleep or (active and policy.hand_over != "turns")):
        return Computing(main_us, io_us)
    # Threads' own clocks have turns that the steps leave out.
    each_us = result.window_s * 1e6 / max(1, result.completions)
    priced = steps if times is None else steps_of(prediction)
    main_us += result.main_thread_utilisation * each_us
    main_us -= sum(us for _, thread, us in priced if thread == "main")
    if policy.threads_sleep:
        io_us += sum(result.io_thread_utilisation) * each_us
        io_us -= sum(us for _, thread, us in priced if thread != "main")
    return Computing(main_us, io_us)


def turns_of_jobs_us(prediction: Prediction) -> float:
    """What a turn of the main thread's loop for every job takes a request, in us.

    0 where threads sleep, where all clients of a turn are handed out together, and where threads
    have cores of their own.
    """
    policy, scenario = prediction.system.engine.threading, prediction.case.scenario
    shared = prediction.system.shares_cores(scenario)
    if policy.threads_sleep or policy.hand_over == "turns" or not shared:
        return 0.0
    result = prediction.nominal[0].result
    inline = result.counters["inline_reads"] + result.counters["inline_writes"]
    jobs = result.counters["reads"] + result.counters["writes"] - inline
    inputs = prediction.system.inputs(scenario)
    return jobs / max(1, result.completions) * times_of(inputs).loop_ps / 1e6


def uncounted_turns_us(point: ObservedPoint, prediction: Prediction) -> float:
    """What turns of a sleeping main thread that were counted and not simulated take a request, us.

    Below zero where fewer were counted; 0 where an engine counts none, or its threads spin.
    """
    counted = point.median("event_loops_per_request")
    if not prediction.system.engine.threading.threads_sleep or not counted > 0.0:
        return 0.0
    result = prediction.nominal[0].result
    simulated = result.counters["loops"] / max(1, result.completions)
    times = times_of(prediction.system.inputs(prediction.case.scenario))
    slept = min(1.0, point.median("main_voluntary_switches_per_request") / counted)
    turn_ps = times.loop_ps + times.poll_ps + slept * (times.doze_ps + times.block_ps)
    return (counted - simulated) * turn_ps / 1e6


def reports_activity(point: ObservedPoint) -> bool:
    """Whether INFO says how long the main thread of a point was active."""
    return any(r.main_thread_active_time_ns_per_request is not None for r in point.repetitions)


def computing_by_work(
    prediction: Prediction, *, names: Sequence[str] = THREAD_WORK, active: bool, polls: bool
) -> tuple[Computing, np.ndarray]:
    """What threads compute, and by how much more if one kind of work were twice as much.

    Returns
    -------
    Computing
        At the numbers of the prediction.
    ndarray, shape (2, names)
        Of the main thread and of the I/O threads, in us.
    """
    # More work would be served at another rate.
    inputs = at_rate(prediction.system.inputs(prediction.case.scenario))
    nominal = times_of(inputs)
    base = computing_of(prediction, active=active, polls=polls, times=nominal)
    more = []
    for name in names:
        work: EngineWork = replace(inputs.work, **{name: 2.0 * getattr(inputs.work, name)})
        doubled = computing_of(
            prediction, active=active, polls=polls, times=times_of(replace(inputs, work=work))
        )
        more.append((doubled.main_us - base.main_us, doubled.io_us - base.io_us))
    return base, np.array(more).T


def case_scenario(point: ObservedPoint, system: System, *, cores: int) -> Any:
    """The scenario of a point: threads may share cores, of which the main thread has its own."""
    engine, given = system.engine, point.given
    scenario = scenario_of(given, engine=engine.engine, engine_version=engine.version)
    if given.io_threads == 1 or given.io_threads + given.generator_threads <= cores:
        return scenario
    return scenario.model_copy(update={"cores": cores, "main_thread_pinned": True})


# --- what handing work between threads costs ------------------------------------------------------

# What handing work between threads costs, fitted to what each thread was observed to compute.
#
# The work of one thread is fitted first; what is fitted here is only there beside I/O threads:
# handing over, and lines that move between cores. How often a request has each step comes from a
# simulation of each point, the turns of a main thread that sleeps from INFO, so that what threads
# compute is a sum of known counts times unknown costs.


BESIDE = "beside_generator"
"""Factor on the socket calls of I/O threads that share a core with their clients: waking somebody
on the same core, and copying what lies in its caches, is another thing than across cores."""

ONE_BY_ONE = "one_by_one"
"""Turns of a spinning main thread's event loop per job, beside I/O threads that share a core with
their clients. A reply wakes a client, which takes the core away: jobs are done one by one then, and
the main thread, which has nothing else to do, spends a turn on each, with code and data cold."""

PLACEMENT = (BESIDE, ONE_BY_ONE)
"""Factors of where threads were observed, not of an engine: no profile has them."""

PLACEMENT_ERROR = 1.0
"""Standard error of their logarithms before anything was observed."""

POINT_ERROR = 0.10
"""Relative standard error of what threads compute at a point, besides what windows differ by: of
the samples that tell waiting apart, and of batches simulated instead of counted."""

SOURCE = "threads"


@dataclass(frozen=True)
class ThreadFit:
    """Fitted costs between threads.

    Attributes
    ----------
    profile
        With these costs.
    posterior
        Of the factors on what was assumed, and of `PLACEMENT`.
    points
        That were fitted.
    """

    profile: EngineProfile
    posterior: Posterior
    points: list[ObservedPoint]

    @property
    def placement(self) -> dict[str, float]:
        """The factors of where threads were observed."""
        return {name: self.posterior.factor(name) for name in PLACEMENT}


class ThreadModel:
    """What threads of observed points compute, by logarithms of factors on the costs.

    `counted`: a main thread that sleeps is charged for the turns that were counted, not for those
    that were simulated.

    Attributes
    ----------
    names
        Of the factors.
    base_us : (points, 2)
        What main thread and I/O threads compute a request with all factors one.
    server_cpu_us
        By point, what both spend then, waiting included.
    """

    def __init__(
        self,
        points: Sequence[ObservedPoint],
        system: System,
        *,
        cores: int,
        counted: bool = False,
    ) -> None:
        work = system.engine.work
        self.names = [name for name in THREAD_WORK if work[name].best > 0.0]
        cases = [
            (Case[Scenario](given={}, scenario=case_scenario(point, system, cores=cores)), system)
            for point in points
        ]
        predictions = predict_cases(cases, draws=0, replications=1, requests=REQUESTS)
        base, more = [], []
        for point, prediction in zip(points, predictions, strict=True):
            computing, by_work = computing_by_work(
                prediction,
                names=[*self.names, "kernel_scale"],
                active=reports_activity(point),
                # What they compute may be told without their polls for the main thread.
                polls=any(r.io_threads_polling_shares is None for r in point.repetitions),
            )
            # The main thread has a core of its own.
            by_work[0, -1] = 0.0
            turns_us = turns_of_jobs_us(prediction)
            main_us = computing.main_us + turns_us
            if counted:
                main_us += uncounted_turns_us(point, prediction)
            base.append((main_us, computing.io_us))
            more.append(np.column_stack([by_work, (turns_us, 0.0)]))
        self.base_us, self._more = np.array(base), np.array(more)
        self.server_cpu_us = [prediction.mean(SERVER_CPU) for prediction in predictions]
        self.names = [*self.names, *PLACEMENT]

    def computing(self, logs: np.ndarray) -> np.ndarray:
        """(points, 2) us a request: main thread, I/O threads."""
        found = self.base_us + self._more @ (np.exp(logs) - 1.0)
        return np.asarray(np.maximum(found, 1e-3))


def usable_threads(point: ObservedPoint) -> bool:
    """Whether it says what each thread computes, and nothing went wrong."""
    quiet = any(r.quiet for r in point.repetitions)
    return (
        quiet
        and point.given.io_threads > 1
        and point.given.arrival == "closed_loop"
        and any(r.io_thread_cpu_ns_per_request for r in point.repetitions)
        and not any(f in r.flags for r in point.quiet_repetitions() for f in ("errors", "misses"))
    )


def tells_waiting(point: ObservedPoint) -> bool:
    """Whether samples told waiting apart in all of its windows."""
    return all(r.io_threads_waiting_shares is not None for r in point.repetitions)


def observed_us(point: ObservedPoint) -> Computing:
    """Medians over the quiet windows of a point."""
    return Computing(
        point.median("main_thread_computing_ns_per_request") / 1e3,
        point.median("io_threads_computing_ns_per_request") / 1e3,
    )


def window_spread(point: ObservedPoint, name: str) -> float:
    """Relative standard deviation of a number within a point's quiet windows.

    Of the number itself, not of its logarithm: a window may have seen a thread only wait.
    """
    values = np.array([getattr(r, name) for r in point.quiet_repetitions()])
    return float(values.std(ddof=1) / values.mean()) if len(values) > 1 else 0.0


def fit_threads(fitted: Calibration, *, progress: Progress | None = None) -> ThreadFit | None:
    """Fit costs between threads to the threaded points of a bundle; None if there are none.

    Parameters
    ----------
    fitted
        With the work of one thread.
    """
    machine = fitted.bundle.manifest.machine
    policy = fitted.profile.threading
    points = [
        p
        for p in fitted.bundle.points
        if p.given.role == "fit"
        and usable_threads(p)
        and (policy.threads_sleep or tells_waiting(p))
        and min(astuple(observed_us(p))) > 0.0
    ]
    if not points or policy.hand_over == "none":
        return None
    if progress is not None:
        progress(f"fitting what {len(points)} points say of handing over between threads")
    system = System(fitted.host, fitted.profile, fitted.generator)
    model = ThreadModel(points, system, cores=machine.cores_available, counted=True)
    observed = np.array([(c.main_us, c.io_us) for c in map(observed_us, points)])
    names = ("main_thread_computing_ns_per_request", "io_threads_computing_ns_per_request")
    windows = np.array(
        [
            [window_spread(p, n) / math.sqrt(len(p.quiet_repetitions())) for n in names]
            for p in points
        ]
    )
    # What windows of one point differ by is known from all points.
    noise = np.sqrt(np.mean(windows**2, axis=0))
    errors = np.hypot(POINT_ERROR, np.broadcast_to(noise, observed.shape))
    work = fitted.profile.work
    prior_errors = [
        PLACEMENT_ERROR if name in PLACEMENT else prior_error(work[name]) for name in model.names
    ]
    problem = Problem(
        names=model.names,
        prior_errors=np.array(prior_errors),
        predict=lambda logs: np.log(model.computing(logs)).ravel(),
        observed=np.log(observed).ravel(),
        errors=errors.ravel(),
    )
    posterior = fit(problem)
    return ThreadFit(_with_costs(fitted, posterior, len(points)), posterior, points)


def _with_costs(fitted: Calibration, posterior: Posterior, points: int) -> EngineProfile:
    """The profile with its costs between threads as fitted."""
    profile, manifest = fitted.profile, fitted.bundle.manifest
    engine, machine = manifest.engine, manifest.machine
    line_ns = fitted.host.speed().core_to_core_ns
    source = Source(
        title=f"forecache observe: {engine.name} {engine.version} with I/O threads on"
        f" {fitted.host.title}, {line_ns:.0f} ns between CPUs {machine.main_thread_core} and"
        f" {machine.io_thread_cores}",
        file=fitted.bundle.path.name,
        accessed=manifest.created[:10],
    )
    leaves = {
        name: fitted_cost(profile.work[name], name, posterior, points)
        for name in posterior.names
        if name not in PLACEMENT
    }
    return profile.model_copy(
        update={
            "work": {**profile.work, **leaves},
            "sources": {**profile.sources, SOURCE: source},
        }
    )


def fitted_cost(old: Quantity, name: str, posterior: Posterior, points: int) -> Quantity:
    """A cost at its fitted value, with the range that the data leave."""
    value, error = old.best * posterior.factor(name), posterior.error(name)
    return fitted_quantity(
        value,
        error,
        added=1.0 - posterior.weight(name),
        unit=old.unit,
        source=SOURCE,
        method=f"fitted to what main thread and I/O threads compute a request at {points} points",
        digits=3,
    )


def with_threads(fitted: Calibration, *, progress: Progress | None = None) -> Calibration:
    """The calibration with costs between threads as observed, where they were."""
    found = fit_threads(fitted, progress=progress)
    return fitted if found is None else replace(fitted, profile=found.profile)
