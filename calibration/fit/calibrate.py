"""Fit a bundle, then let the simulation predict every observed point and say how well it does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.stats import f

from forecache.hwprofiles.schema import HostProfile
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.engines.commands import command_kinds
from forecache.models.engines.profile import EngineProfile
from forecache.models.prediction.predict import SERVER_CPU, Prediction, Progress
from forecache.models.step_times.workload_caches import command_waits, workload_caches

from ..bundle.bundle import Bundle
from ..bundle.points import ObservedPoint
from ..bundle.profiles import Profile
from .fit import Calibration, fit_bundle, is_usable, window_errors
from .identifiability import identifiability_report
from .prior import CONFLICT_LEVEL
from .report import (
    CPU,
    LATENCIES,
    LIGHT_CPU,
    THROUGHPUT,
    CalibrationReport,
    FitErrors,
    FitPoint,
    FitSummary,
    FittedDiscrepancy,
    FittedNumber,
    KnownBefore,
    LoadVerdict,
    ObservedEngine,
    ObservedHost,
    StageCheck,
    StageShare,
)
from .simulated_fit import fit_wake_latency, predict_points, quiet_ms, with_threads
from .work_model import (
    GROUPS,
    PointCounts,
    inputs_of,
    instruction_counts,
    scenario_of,
    tells_stages,
)

DRAWS = 12
LEVEL = 0.90
"""Of the intervals that the report checks."""

KEEPS_UP = 0.98
"""Share of what is offered that a server which isn't overloaded completes."""


def calibrate(
    bundle: Bundle,
    *,
    host: HostProfile | None = None,
    known: EngineProfile | None = None,
    same_host: bool = False,
    progress: Progress | None = None,
) -> tuple[EngineProfile, CalibrationReport]:
    """Fit an engine profile to a bundle and check it by simulation.

    The simulation is told the conditions of a point and the fitted work only; batches, turns of
    the loop, sleeps and wake-ups come out of it. What it misses by at fitted points, each predicted
    by a fit that left its data set out, becomes the profile's discrepancy. Points with I/O threads
    then say what handing over between threads costs.

    Parameters
    ----------
    known, same_host
        What an earlier fit left of the engine, which this one begins with, and whether it was made
        on this host, as in `fit_bundle`.

    Returns
    -------
    EngineProfile
        With covariance, discrepancy and the origin of each number.
    CalibrationReport
        How well it fits.
    """
    fitted = fit_bundle(bundle, host=host, known=known, same_host=same_host, progress=progress)
    fitted = fit_wake_latency(fitted, progress=progress)
    fitted = with_discrepancy(fitted, progress=progress)
    fitted = with_threads(fitted, progress=progress)
    points = [point for point in fitted.bundle.points if is_usable(point)]
    predictions = predict_points(fitted, points, draws=DRAWS, progress=progress)
    return fitted.profile, calibration_report(fitted, points, predictions)


def with_discrepancy(fitted: Calibration, *, progress: Progress | None = None) -> Calibration:
    """The calibration with the model's own error in its profile.

    An error has two parts: what a fit that did not know the point's data set missed it by, and what
    the simulation, which is told no counts, adds to that.
    """
    predictions = predict_points(fitted, fitted.fitted, draws=0, progress=progress)
    simulated = np.log([1000.0 * p.mean(SERVER_CPU) for p in predictions])
    told = fitted.model.log_cpu_ns(fitted.posterior.logs)
    errors = fitted.left_out + (simulated - told)
    shares = np.array([prediction.memory_share for prediction in predictions])
    known = known_error(fitted.prior.known)
    noise = window_errors(fitted.fitted)
    found = fit_discrepancy(errors, shares, noise=noise, known=known)
    worse = known is not None and known.is_exceeded(errors, shares, noise=noise)
    if known is not None and not worse:
        # Points that miss by no more than was known are no reason to trust the model less.
        found = found._replace(
            plain=min(found.plain, known.plain), memory=min(found.memory, known.memory)
        )
    profile = fitted.profile.model_copy(
        update={
            "discrepancy": round(found.plain, 4),
            "memory_discrepancy": round(found.memory, 4),
            "discrepancy_points": found.points,
        }
    )
    return replace(fitted, profile=profile, misses_more=worse)


def calibration_report(
    fitted: Calibration, points: list[ObservedPoint], predictions: list[Prediction]
) -> CalibrationReport:
    """What was fitted and how well the simulation predicts."""
    rows, verdicts = compare_points(points, predictions)
    by_quantity = {
        quantity: {
            role: errors
            for role in ("fit", "holdout")
            if (errors := _errors(rows, quantity, role)) is not None
        }
        for quantity in (CPU, LIGHT_CPU, THROUGHPUT, *LATENCIES.values())
    }
    manifest, profile = fitted.bundle.manifest, fitted.profile
    engine, taken_as = manifest.engine, profile.taken_as_words
    return CalibrationReport(
        engine=ObservedEngine(
            profile.id, engine.name, engine.version, engine.build, manifest.depth
        ),
        host=ObservedHost(fitted.host.id, fitted.host.title),
        points=rows,
        summary=FitSummary(by_quantity),
        stages=stage_checks(fitted),
        verdicts=verdicts,
        warnings=[] if taken_as is None else [taken_as],
        discrepancy=FittedDiscrepancy(profile.discrepancy, profile.memory_discrepancy),
        known=known_before(fitted),
        parameters=_parameters(fitted),
        identifiability=identifiability_report(fitted),
    )


def compare_points(
    points: Sequence[ObservedPoint], predictions: Sequence[Prediction]
) -> tuple[list[FitPoint], list[LoadVerdict]]:
    """Observed and predicted, side by side: `points` and `verdicts` of `calibration_report`."""
    rows: list[FitPoint] = []
    verdicts = []
    for point, prediction in zip(points, predictions, strict=True):
        rows += _rows(point, prediction)
        if point.given.rate_share is not None:
            verdicts.append(_verdict(point, prediction))
    return rows, verdicts


def _rows(point: ObservedPoint, prediction: Prediction) -> list[FitPoint]:
    """CPU time of a point, throughput of a closed loop, latencies of an open one that keeps up."""
    given, role = {"point": point.given.label()}, point.given.role
    observed_ns = point.ordinary("server_cpu_ns_per_request")
    cpu_us = prediction.interval(SERVER_CPU, level=LEVEL)
    predicted_ns = cpu_us.value * 1000.0
    closed = point.given.arrival == "closed_loop"
    rows = [
        FitPoint(
            given=given,
            conditions=prediction.case.given,
            role=role,
            # Clients that never pause leave the server as much to do as it can.
            quantity=CPU if closed and point.given.think_us == 0 else LIGHT_CPU,
            observed_ns=observed_ns,
            predicted_ns=predicted_ns,
            low_ns=cpu_us.low * 1000.0,
            high_ns=cpu_us.high * 1000.0,
            relative_error=predicted_ns / observed_ns - 1.0,
        )
    ]
    if closed:
        observed_rps = point.ordinary("throughput_rps")
        predicted_rps = prediction.nominal[0].result.throughput_rps
        throughput = prediction.interval("throughput_rps", level=LEVEL)
        rows.append(
            FitPoint(
                given=given,
                role=role,
                quantity=THROUGHPUT,
                observed_rps=observed_rps,
                predicted_rps=predicted_rps,
                low_rps=throughput.low,
                high_rps=throughput.high,
                relative_error=predicted_rps / observed_rps - 1.0,
            )
        )
    if point.given.rate_share is None or not keeps_up(point):
        return rows
    for name, quantity in LATENCIES.items():
        observed_ms, predicted_ms = quiet_ms(point, name), prediction.mean(f"{name}_ms")
        if not math.isnan(observed_ms):
            rows.append(
                FitPoint(
                    given=given,
                    role=role,
                    quantity=quantity,
                    observed_ns=observed_ms * 1e6,
                    observed_all_ns=point.median(f"{name}_ms") * 1e6,
                    predicted_ns=predicted_ms * 1e6,
                    relative_error=predicted_ms / observed_ms - 1.0,
                )
            )
    return rows


def keeps_up(point: ObservedPoint) -> bool:
    """Whether an observed open loop completed what was offered."""
    return point.median("throughput_rps") >= KEEPS_UP * (point.given.rate_rps or math.nan)


def _verdict(point: ObservedPoint, prediction: Prediction) -> LoadVerdict:
    """Whether an open loop keeps up, observed and predicted."""
    return LoadVerdict(
        point=point.given.label(),
        role=point.given.role,
        observed="STABLE" if keeps_up(point) else "OVERLOADED",
        predicted="OVERLOADED" if prediction.overloaded else "STABLE",
        stalled_share=point.median("stalled_share"),
    )


def _errors(rows: list[FitPoint], quantity: str, role: str) -> FitErrors | None:
    chosen = [row for row in rows if row.quantity == quantity and row.role == role]
    if not chosen:
        return None
    absolute = np.abs([row.relative_error for row in chosen])
    inside = [
        row.low_ns <= row.observed <= row.high_ns
        for row in chosen
        if row.low_ns is not None and row.high_ns is not None
    ]
    return FitErrors(
        median_ape=float(np.median(absolute)),
        p95_ape=float(np.quantile(absolute, 0.95)),
        max_ape=float(absolute.max()),
        rms=float(np.sqrt(np.mean(absolute**2))),
        n=len(chosen),
        coverage=float(np.mean(inside)) if inside else None,
    )


def _parameters(fitted: Calibration) -> list[FittedNumber]:
    work = {f"engine.{name}": leaf for name, leaf in fitted.profile.work.items()}
    work |= {f"generator.{name}": leaf for name, leaf in fitted.generator.work.items()}
    return [
        FittedNumber(name, leaf.value, leaf.unit, leaf.low, leaf.high, leaf.kind, leaf.method)
        for name, leaf in work.items()
    ]


# --- the model's own error ------------------------------------------------------------------------


USUAL = (0.05, 0.10)
"""What is believed of an engine before a model of it was held against anything."""


class ModelError(NamedTuple):
    """Standard error of the model: of all of it, and of waits for memory by their share.

    Attributes
    ----------
    plain, memory
        The error of a point is normal with variance plain^2 + (memory share)^2.
    points
        How many points that is known from.
    """

    plain: float
    memory: float
    points: int

    def is_exceeded(
        self, errors: np.ndarray, memory_shares: np.ndarray, *, noise: np.ndarray | float = 0.0
    ) -> bool:
        """Whether points are missed by more than chance explains; shapes as in `fit_discrepancy`.

        Their squares in standard errors are compared, as those of a variance known from `points`
        others: an F test, the points being few.
        """
        if not len(errors):
            return False
        variance = self.plain**2 + (self.memory * memory_shares) ** 2 + noise**2
        ratio = float(np.mean(errors**2 / variance))
        return ratio > float(f.ppf(CONFLICT_LEVEL, len(errors), self.points))


def known_error(profile: EngineProfile | None) -> ModelError | None:
    """What an earlier fit says of the model's error; None if it does not."""
    if profile is None or profile.discrepancy is None or not profile.discrepancy_points:
        return None
    memory = profile.memory_discrepancy or USUAL[1]
    return ModelError(profile.discrepancy, memory, profile.discrepancy_points)


def fit_discrepancy(
    errors: np.ndarray,
    memory_shares: np.ndarray,
    *,
    noise: np.ndarray | float = 0.0,
    known: ModelError | None = None,
) -> ModelError:
    """The most likely error of the model.

    Parameters
    ----------
    errors : (points,)
        Of logarithms.
    memory_shares : (points,)
        Share of each point's time that it waits for memory.
    noise : (points,)
        Standard error of what was measured at each, which is no error of the model.
    known
        From an earlier fit, which counts as much as its points; without one a weak prior around
        `USUAL` keeps a handful of points from claiming to know it.
    """
    middle = np.log(USUAL if known is None else known[:2])
    # The standard error of the logarithm of a standard deviation from these values (half as many
    # for each of two).
    width = 1.0 if known is None else 1.0 / math.sqrt(known.points)

    def unlikely(logs: np.ndarray) -> float:
        a, b = np.exp(logs)
        variance = a**2 + (b * memory_shares) ** 2 + noise**2
        prior = ((logs - middle) / width) ** 2
        return float(np.sum(errors**2 / variance + np.log(variance)) + prior.sum())

    best = minimize(unlikely, middle, method="Nelder-Mead")
    points = len(errors) + (0 if known is None else known.points)
    return ModelError(float(np.exp(best.x[0])), float(np.exp(best.x[1])), points)


# --- what a fit says of the earlier one that it began with ----------------------------------------


def known_before(fitted: Calibration) -> KnownBefore | None:
    """What was known before a fit, and where its data disagree; None without an earlier fit."""
    conflict, known = fitted.conflict, fitted.prior.known
    if conflict is None or known is None:
        return None
    return KnownBefore(
        engine=known.id,
        chi_squared=conflict.chi_squared,
        degrees=conflict.degrees,
        bound=conflict.bound,
        widening=conflict.widening,
        differences=conflict.differences,
        words=_words(fitted),
    )


def _words(fitted: Calibration) -> list[str]:
    conflict, known = fitted.conflict, fitted.prior.known
    assert conflict is not None and known is not None
    words = []
    if conflict.disagree:
        listed = ", ".join(
            f"{each.name}, which alone it puts at {each.factor:.2f} times what was known "
            f"({each.standard_errors:.1f} standard errors)"
            for each in conflict.differences
        )
        words.append(
            f"what was observed disagrees with what was known of {known.id}: "
            + (f"{listed}; " if listed else "")
            + f"together a squared distance of {conflict.chi_squared:.0f}, where chance explains "
            f"{conflict.bound:.0f}; the ranges of what was known were made "
            f"{conflict.widening:.1f} times as wide, so intervals may be wider than without this "
            "observation"
        )
    if fitted.misses_more and fitted.profile.discrepancy and known.discrepancy:
        words.append(
            f"the model misses these points by more than those of {known.id}: its own error is "
            f"{fitted.profile.discrepancy:.1%} (waits for memory "
            f"{fitted.profile.memory_discrepancy or 0:.0%}), where it was "
            f"{known.discrepancy:.1%} ({known.memory_discrepancy or 0:.0%}), so intervals may be "
            "wider than without this observation"
        )
    return words


# --- what profilers saw against what the fit says -------------------------------------------------

# Stage by stage: what profilers saw against what the fit says.
#
# The fit knows the sum of all stages of many points; a profiler sees the parts of one. Where both
# agree, the parts are right and not only their sum.


_GROUP_OF = {stage: group for group, stages in GROUPS.items() for stage in stages}

_INSTRUCTION_GROUP = {
    "loop_instructions": "events",
    "read_instructions": "events",
    "write_instructions": "write",
    "parse_instructions": "parse",
    "parse_instructions_per_byte": "parse",
}


def stage_checks(fitted: Calibration) -> list[StageCheck]:
    """Shares of stages per profile of the bundle, observed and fitted."""
    if not tells_stages(fitted.profile):
        return []
    checks = []
    speed = fitted.host.speed()
    for profile in fitted.bundle.profiles:
        if profile.given.io_threads != 1:
            continue
        if profile.profiler == "clock":
            seen = _observed_shares(profile, "share")
            model = stage_times_ns(profile, fitted.profile, speed)
            of = "CPU time"
        elif profile.profiler == "callgrind":
            seen = _observed_shares(profile, "instructions_per_request")
            model = _instructions(profile, fitted.profile)
            of = "instructions"
        else:
            continue
        if seen:
            checks.append(_check(profile, of, seen, model))
    return checks


def _check(
    profile: Profile, of: str, seen: Mapping[str, float], model: Mapping[str, float]
) -> StageCheck:
    total = sum(model.values())
    groups = []
    for group in GROUPS:
        observed, predicted = seen.get(group, 0.0), model.get(group, 0.0) / total
        groups.append(StageShare(group, observed, predicted, predicted - observed))
    return StageCheck(
        point=profile.given.label(),
        profiler=profile.profiler,
        of=of,
        unattributed=profile.unattributed,
        groups=groups,
        largest_difference=max(abs(group.difference) for group in groups),
    )


def _observed_shares(profile: Profile, amount: str) -> dict[str, float]:
    """Shares of an amount of `StageWork` by group, of what was attributed of the main thread."""
    parts: dict[str, float] = {}
    for thread in profile.threads:
        if thread.role == "main":
            for work in thread.stages:
                group, found = _GROUP_OF.get(work.stage), getattr(work, amount)
                if group is not None and found is not None:
                    parts[group] = parts.get(group, 0.0) + max(0.0, found)
    total = sum(parts.values())
    return {name: part / total for name, part in parts.items()} if total > 0 else {}


def _counts(profile: Profile) -> PointCounts:
    """What one request took, from the engine's own counters; a load that never sleeps."""
    each = 1.0 / profile.given.pipeline
    writes = profile.writes_per_request or each
    return PointCounts(
        turns=profile.event_loops_per_request or 0.03 * each,
        reads=profile.reads_per_request or each,
        writes=writes,
        segments=writes,
        generator_wakes=0.03 * writes,
        server_sleeps=0.0,
    )


def _instructions(profile: Profile, engine: EngineProfile) -> dict[str, float]:
    """Fitted instructions per request by group, without copies of values."""
    scenario = scenario_of(profile.given, engine=engine.engine, engine_version=engine.version)
    work = engine.engine_work()
    done = instruction_counts(command_kinds(scenario), scenario, engine, _counts(profile))
    parts: dict[str, float] = {}
    for name, often in done.items():
        if not name.endswith("_per_byte"):
            group = _INSTRUCTION_GROUP.get(name, "command")
            parts[group] = parts.get(group, 0.0) + often * getattr(work, name)
    return parts


def stage_times_ns(profile: Profile, engine: EngineProfile, speed: HostSpeed) -> dict[str, float]:
    """Fitted CPU ns per request by group, at the counts of a profiled point."""
    inputs, counts = inputs_of(profile.given, engine, speed), _counts(profile)
    scenario, work, kinds = inputs.scenario, inputs.work, inputs.kinds
    done = instruction_counts(kinds, scenario, engine, counts)
    parts = dict.fromkeys(GROUPS, 0.0)
    for name, often in done.items():
        group = _INSTRUCTION_GROUP.get(name, "command")
        parts[group] += inputs.user_ns(often * getattr(work, name))
    caches = workload_caches(inputs)
    batch = min(inputs.prefetch_batch, scenario.workload.pipeline)
    for kind in kinds:
        waits = command_waits(kind, inputs, caches)
        later = work.stream_scale * waits.head_ns() + waits.tail_ns()
        if engine.whole_pipeline and batch > 1:
            walked = waits.together_ns(batch, speed.parallel_misses) / batch + waits.alone_ns()
        else:
            walked = waits.touching_ns()
        parts["command"] += kind.share * (walked + later)
        byte_ns = caches.copy_wait_ns / caches.copied_bytes
        request = kind.request_bytes(scenario.workload.key_bytes)
        parts["events"] += kind.share * request * (inputs.recv_ns_per_byte() + byte_ns)
        parts["write"] += kind.share * kind.reply_bytes * (inputs.send_ns_per_byte() + byte_ns)
    kernel = work.kernel_scale
    parts["events"] += kernel * counts.turns * speed.epoll_wait_ns
    parts["events"] += kernel * counts.reads * (speed.epoll_event_ns + speed.tcp_recv_ns)
    parts["write"] += kernel * counts.segments * speed.tcp_send_ns
    parts["write"] += work.wake_scale * counts.generator_wakes * speed.wake_send_ns
    return parts
