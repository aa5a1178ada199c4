"""What handing work between threads costs, fitted to what each thread was observed to compute.

The work of one thread is fitted first; what is fitted here is only there beside I/O threads:
handing over, and lines that move between cores. How often a request has each step comes from a
simulation of each point, the turns of a main thread that sleeps from INFO, so that what threads
compute is a sum of known counts times unknown costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from forecache.hwprofiles.quantity import Quantity, Source, kind_of_fit
from forecache.models.engines.profile import EngineProfile
from forecache.models.prediction.predict import SERVER_CPU, predict_cases
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case

from ..bundle.points import ObservedPoint
from .fit import Calibration
from .prior import prior_error, rests_on_prior
from .regression import Posterior, Problem, fit
from .thread_times import (
    THREAD_WORK,
    Computing,
    case_scenario,
    computing_by_work,
    leaves_polls_out,
    reports_activity,
    turns_of_jobs_us,
    uncounted_turns_us,
)

Progress = Callable[[str], None]

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

REQUESTS = 20_000

SOURCE = "threads"

_Z95 = 1.959963984540054


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
                polls=not leaves_polls_out(point),
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
    added = 1.0 - posterior.weight(name)
    return Quantity(
        value=float(f"{value:.3g}"),
        unit=old.unit,
        kind=kind_of_fit(added),
        source=SOURCE,
        method=f"fitted to what main thread and I/O threads compute a request at {points} points"
        + rests_on_prior(added),
        low=float(f"{value * math.exp(-_Z95 * error):.3g}"),
        high=float(f"{value * math.exp(_Z95 * error):.3g}"),
    )


def with_threads(fitted: Calibration, *, progress: Progress | None = None) -> Calibration:
    """The calibration with costs between threads as observed, where they were."""
    found = fit_threads(fitted, progress=progress)
    return fitted if found is None else replace(fitted, profile=found.profile)
