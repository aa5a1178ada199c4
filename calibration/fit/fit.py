"""From an observation bundle to an engine profile: what each stage of the engine works.

The fit is on server CPU time per request, which the load generator does not disturb, and on
instructions per request where a profiler counted them. How many loop turns, reads, writes, sleeps
and wake-ups a request took is observed, so that each point's CPU time is a sum of known counts
times the unknown time of each (`work_model`). Predictions of the same points then come from the
simulation alone, which is told none of these counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forecache.hwprofiles.parts import Kernel
from forecache.hwprofiles.quantity import Quantity, Source
from forecache.hwprofiles.schema import SOCKET_CALLS, HostProfile
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.engines.commands import command_kinds
from forecache.models.engines.generator import GeneratorProfile, load_generator
from forecache.models.engines.profile import EngineProfile, Observed
from forecache.models.prediction.predict import Progress
from forecache.models.prediction.uncertainty import Z95
from forecache.sim.effort import check_work
from forecache.sim.errors import InputError

from ..bundle.bundle import Bundle, Engine
from ..bundle.points import ObservedPoint
from ..bundle.profiles import Profile
from .command_work import command_leaves
from .prior import (
    Conflict,
    Prior,
    difference_from,
    fitted_quantity,
    general_prior,
    is_counted,
    prior_error,
    prior_from,
    priors,
)
from .regression import Posterior, Problem, fit, leave_out
from .work_model import (
    COUNT_ERROR,
    FILLS,
    HOST_NAMES,
    IPC,
    WorkModel,
    counts_of,
    events_per_batch,
    instruction_rows,
    scenario_of,
    wake_times,
    work_model,
)

POINT_ERROR = 0.05
"""Relative standard error of one observed point, besides what its windows differ by."""

COUNTS = "command-counts"
"""The source of counted commands."""

LEAST_POINTS = 4
"""Fewer points are no fit."""

_FIT_S = 0.2
"""Seconds of one core that any fit takes, about."""

_POINT_S = 0.055
"""And what each of its points adds."""


@dataclass(frozen=True)
class Calibration:
    """A fitted engine with what it was fitted to.

    Attributes
    ----------
    profile, generator
        With fitted work.
    posterior, generator_posterior
        What the data said.
    left_out : (fitted points,)
        Logarithmic error of each point, predicted by a fit that knew nothing of its data set.
    host
        As the engine found it: with the neighbours that the fit saw.
    prior
        What the fit began with.
    conflict
        How far the data are from an earlier fit; None where there was none.
    misses_more
        Whether the model misses these points by more than it was known to miss.
    """

    profile: EngineProfile
    generator: GeneratorProfile
    posterior: Posterior
    generator_posterior: Posterior
    model: WorkModel
    left_out: np.ndarray
    host: HostProfile
    bundle: Bundle
    fitted: list[ObservedPoint]
    prior: Prior
    conflict: Conflict | None = None
    misses_more: bool = False


def is_usable(point: ObservedPoint) -> bool:
    """Whether a point can be fitted: one server thread and nothing wrong."""
    return point.given.io_threads == 1 and not any(
        flag in repetition.flags
        for repetition in point.quiet_repetitions()
        for flag in ("errors", "misses")
    )


def work_problem(
    points: list[ObservedPoint],
    prior: Prior,
    speed: HostSpeed,
    profiles: Sequence[Profile] = (),
) -> tuple[Problem, WorkModel]:
    """The least-squares problem of an engine's work: CPU times first, then counted instructions."""
    engine = prior.engine
    turns = engine.turns_per_round
    conditions = [
        (
            point.given,
            counts_of(point, events=events_per_batch(point.given, engine), turns_per_round=turns),
        )
        for point in points
    ]
    model = work_model(conditions, engine, speed)
    times = np.log([point.ordinary("server_cpu_ns_per_request") for point in points])
    counted = instruction_rows(profiles, engine)
    problem = Problem(
        names=list(model.names),
        prior_errors=prior.errors,
        predict=lambda logs: np.concatenate(
            [model.log_cpu_ns(logs), counted.log_instructions(logs)]
        ),
        observed=np.concatenate([times, np.log(counted.observed)]),
        errors=np.concatenate(
            [
                np.hypot(np.hypot(POINT_ERROR, window_errors(points)), disturbance_errors(points)),
                np.full(len(counted.observed), COUNT_ERROR),
            ]
        ),
        prior_mean=prior.mean,
        prior_correlation=None if prior.known is None else prior.correlation,
    )
    return problem, model


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _fitted_leaf(old: Quantity, name: str, *, log: float, error: float, what: str) -> Quantity:
    """A leaf at its fitted value, with the range that the data leave.

    Parameters
    ----------
    log, error
        The logarithm of the factor on it, and its standard error.
    """
    if old.best == 0.0:
        return old  # a step that this engine doesn't have
    if is_counted(old):
        return old
    value = old.best * math.exp(log)
    added = max(0.0, 1.0 - (error / prior_error(priors()[name])) ** 2)
    return fitted_quantity(
        value, error, added=added, unit=old.unit, source="bundle", method=f"fitted to {what}"
    )


def fitted_profile(
    prior: Prior, posterior: Posterior, bundle: Bundle, points: int, host: HostProfile
) -> EngineProfile:
    """The prior's engine with its work replaced by what was fitted.

    Parameters
    ----------
    host
        From `fitted_host`.
    """
    engine = bundle.manifest.engine
    what = f"server CPU time per request at {points} points"
    if prior.known is not None:
        what += f", beginning with what was known of {prior.known.id}"
    names = [name for name in posterior.names if name not in HOST_NAMES]
    known = given_host(posterior)
    rules = _with_its_own_bundle(prior.engine, bundle)
    logs, every = prior.engine_part(posterior)
    steps = dict(zip(posterior.names, zip(logs, np.sqrt(np.diag(every)), strict=True), strict=True))
    work = dict(rules.work)
    for name in names:
        log, error = steps[name]
        work[name] = _fitted_leaf(work[name], name, log=log, error=error, what=what)
    covariance = _table(known, posterior.names, names, names)
    date = bundle.manifest.created[:10]
    source = Source(
        title=f"forecache observe: {engine.name} {engine.version} on {host.title}",
        file=bundle.path.name,
        accessed=date,
    )
    # What was compiled, with what: a step between builds is no step between versions.
    build = f"{engine.name} {engine.version}, build {engine.build}, {engine.allocator}"
    if engine.compiler is not None:
        build += f", gcc {engine.compiler}"
    observed = Observed(
        version=engine.version,
        build=build,
        host=host.id,
        captured=None if host.captured is None else host.captured.date,
        date=date,
        depth=bundle.manifest.depth,
        bundle=bundle.path.name,
        began_with=None if prior.known is None else prior.known.id,
        speed=_found_speed(host),
        **observed_variation(bundle),
    )
    sources = {**rules.sources, "bundle": source}
    commands = rules.commands
    if bundle.commands is not None:
        sources[COUNTS] = Source(
            title=f"forecache observe --commands: {engine.name} {engine.version}, in valgrind",
            file=bundle.path.name,
            accessed=bundle.commands.date,
        )
        commands = command_leaves(bundle.commands, source=COUNTS)
    return rules.model_copy(
        update={
            "id": f"{rules.id}-{host.id}",
            "title": f"{rules.title}, observed on {host.title}",
            "version": engine.version,
            **_read_limits(engine, rules),
            "sources": sources,
            "observed": observed,
            "reuse": None,
            "work": work,
            "commands": commands,
            "covariance": covariance,
            "host_covariance": _table(
                posterior.covariance, posterior.names, HOST_NAMES, posterior.names
            ),
        }
    )


READ_LIMITS = {"jemalloc": (20_475, 40_950), "libc": (33_520, 33_520)}
"""By allocator, what one read asks for, and where requests are so large that the buffer is doubled:
16 KiB and its double, as the allocator rounds them up (INFO counts the reads of batches of 14 to
157 KB, driven by valkey-benchmark; libc: of 35 to 67 KB, the embedded build of Valkey 9.1)."""


def _read_limits(engine: Engine, rules: EngineProfile) -> dict[str, int]:
    """What the build's allocator decides of the rules of its version.

    Nothing where a version asks for 16 KiB, whatever room its buffer has (up to Redis 6.2).
    """
    allocator = (engine.allocator or "").partition("-")[0]
    if allocator not in READ_LIMITS or rules.read_limit_bytes < READ_LIMITS["jemalloc"][0]:
        return {}
    limit, large = READ_LIMITS[allocator]
    return {"read_limit_bytes": limit, "large_read_limit_bytes": large}


def _table(
    matrix: np.ndarray, all_names: Sequence[str], rows: Sequence[str], columns: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Part of a covariance by the names of its rows and columns."""
    index = {name: number for number, name in enumerate(all_names)}
    return {a: {b: _rounded(float(matrix[index[a], index[b]])) for b in columns} for a in rows}


def _with_its_own_bundle(engine: EngineProfile, bundle: Bundle) -> EngineProfile:
    """The engine, with what else was observed in an earlier bundle under a name of its own."""
    earlier = engine.sources.get("bundle")
    if earlier is None or earlier.file == bundle.path.name:
        return engine
    renamed = "earlier-bundle"
    leaves = {
        name: leaf.model_copy(update={"source": renamed}) if leaf.source == "bundle" else leaf
        for name, leaf in engine.work.items()
    }
    sources = {**engine.sources, renamed: earlier}
    return engine.model_copy(update={"work": leaves, "sources": sources})


def given_host(posterior: Posterior) -> np.ndarray:
    """(factors, factors) covariance when the host's numbers are as fitted: what holds on that host.

    On another host only the ranges hold: what instructions are worth there is not known from here.
    """
    host = np.array([name in HOST_NAMES for name in posterior.names])
    across = posterior.covariance[:, host]
    within = np.linalg.inv(posterior.covariance[np.ix_(host, host)])
    return np.asarray(posterior.covariance - across @ within @ across.T)


_SCALED = {
    "kernel_scale": SOCKET_CALLS,
    "wake_scale": ("wake_send_ns", "block_ns"),
}
"""What of a host's kernel an engine's scales multiply."""


def _found_speed(host: HostProfile) -> dict[str, float]:
    """The numbers of a fitted host that its capture doesn't have, as `HostProfile.speed` takes."""
    kernel = {name: getattr(host.kernel, name) for names in _SCALED.values() for name in names}
    fitted = [name for name, leaf in kernel.items() if leaf and leaf.source == "bundle"]
    return {name: host.number(name) for name in (*HOST_NAMES, *fitted)}


def _as_found(host: HostProfile, prior: Prior, posterior: Posterior) -> Kernel:
    """The host's kernel with what an engine pays for it beyond the micro-benchmarks."""
    beyond = posterior.logs - prior.engine_part(posterior)[0]
    errors = prior.host_errors(posterior)
    update: dict[str, Quantity] = {}
    for scale, names in _SCALED.items():
        index = posterior.names.index(scale)
        if prior.host[index] == 0.0:
            continue
        factor = math.exp(float(beyond[index]))
        wide = math.exp(Z95 * float(errors[index]))
        for name in names:
            leaf = getattr(host.kernel, name) or host.epoll_ctl
            update[name] = Quantity(
                value=_rounded(factor * leaf.best),
                unit=leaf.unit,
                kind="fitted",
                source="bundle",
                method=f"{factor:.2f} times the micro-benchmark, fitted to an engine's CPU time",
                low=_rounded(factor * leaf.best / wide),
                high=_rounded(factor * leaf.best * wide),
            )
    return host.kernel.model_copy(update=update)


def fitted_host(
    host: HostProfile, prior: Prior, posterior: Posterior, model: WorkModel
) -> HostProfile:
    """The host as the engine found it: its rate of instructions, its neighbours, its kernel."""
    before = {IPC: (host.user_ipc.best, "1/cycle"), FILLS: (model.fills_per_us, "1/us")}
    leaves: dict[str, Quantity | Kernel] = {}
    for name, (middle, unit) in before.items():
        value, error = middle * posterior.factor(name), posterior.error(name)
        leaves[name] = fitted_quantity(
            value,
            error,
            added=1.0 - posterior.weight(name),
            unit=unit,
            source="bundle",
            method="fitted with an engine's work to its CPU time",
        )
    source = Source(title="forecache calibrate, engine observed on this host", file="bundle")
    leaves["kernel"] = _as_found(host, prior, posterior)
    return host.model_copy(update={**leaves, "sources": {**host.sources, "bundle": source}})


def _while_driven(bundle: Bundle, speed: HostSpeed) -> HostSpeed:
    """A host while a bundle's tool drove the engine: some keep its cores from stopping their tick.

    A tool that nothing is known of counts as one that doesn't.
    """
    try:
        tool = load_generator(bundle.manifest.method.tool)
    except InputError:
        return speed
    return speed.ticking() if tool.polls_to_send else speed


def fit_bundle(
    bundle: Bundle,
    *,
    host: HostProfile | None = None,
    known: EngineProfile | None = None,
    same_host: bool = False,
    progress: Progress | None = None,
) -> Calibration:
    """Fit an engine's and the load generator's work to a bundle.

    Parameters
    ----------
    host
        Profile of the host the bundle was observed on, if the bundle has none.
    known
        What an earlier fit left of the engine (`prior.earlier_profile`); without it the fit begins
        with `priors.yaml`. If the bundle disagrees with it, its ranges are widened until they
        allow for the difference.
    same_host
        Whether that fit was made on this host, which then adds what it added there.

    Raises
    ------
    InputError
        The bundle has no host profile, or no point to fit, or the fit would take longer than
        allowed.
    """
    host = host or bundle.host
    if host is None:
        raise InputError(
            f"{bundle.path}: found no host.yaml; valid is a bundle observed with --host, or give "
            "the profile of the host it was observed on with --host."
        )
    # Open loops at shares of saturation are there for their latency: how cold a thread is when it
    # wakes now and then is no work of a step.
    points = [
        p
        for p in bundle.points
        if p.given.role == "fit" and is_usable(p) and p.given.rate_share is None
    ]
    if len(points) < LEAST_POINTS:
        raise InputError(
            f"{bundle.path}: found {len(points)} points with role fit, one server thread and no "
            f"errors; valid are at least {LEAST_POINTS}."
        )
    what = f"fitting {len(points):,} points of {bundle.manifest.engine.name}"
    work_s = (1 if known is None else 2) * (_FIT_S + _POINT_S * len(points))
    check_work(work_s, what, smaller="fewer points", progress=progress)
    if progress is not None:
        progress(what)
    prior, conflict = general_prior(bundle), None
    elsewhere = known is not None and not same_host
    general = prior.on_another_host() if elsewhere else prior
    speed = _while_driven(bundle, host.speed())
    problem, model = work_problem(points, general, speed, bundle.profiles)
    posterior = fit(problem)
    if known is not None:
        prior = prior_from(known).on_another_host() if elsewhere else prior_from(known)
        conflict = difference_from(prior, general, posterior)
        prior = prior.wider(conflict.widening)
        problem, model = work_problem(points, prior, speed, bundle.profiles)
        posterior = fit(problem)
    generator_prior = load_generator("forecache")
    found = fitted_host(host, prior, posterior, model)
    # The load generator runs on the same host: its work is worth what the engine's is there.
    generator_posterior = fit_generator(
        points, generator_prior, _while_driven(bundle, found.speed())
    )
    counted = len(posterior.problem.observed) - len(points)
    groups: list[object] = [*(point.given.data_set for point in points), *[None] * counted]
    return Calibration(
        profile=fitted_profile(prior, posterior, bundle, len(points), found),
        generator=fitted_generator(generator_prior, generator_posterior, bundle),
        posterior=posterior,
        generator_posterior=generator_posterior,
        model=model,
        left_out=leave_out(posterior, groups)[: len(points)],
        host=found,
        bundle=bundle,
        fitted=points,
        prior=prior,
        conflict=conflict,
    )


# --- by how much windows of one point, and starts of one server, differ ---------------------------


DISTURBED_ERROR = 0.13
"""Relative error of CPU time in a disturbed window: root mean square of the difference between the
flagged and the quiet windows of a point, over the 31 points in `evidence/bundles/` and
`evidence/generations/` that have both."""

_LEAST = 1e-3
_MEDIAN = math.sqrt(math.pi / 2.0)


def observed_variation(bundle: Bundle) -> dict[str, Any]:
    """The fields of `Observed` that say so; what a bundle doesn't tell is left out."""
    points = [p for p in bundle.points if p.given.io_threads == 1 and p.given.rate_share is None]
    found = {"window": between_windows(points), "start": between_starts(bundle.manifest.starts)}
    undisturbed = float(np.median([point.undisturbed for point in points]))
    return {
        "variation": {name: float(f"{v:.3g}") for name, v in found.items() if v is not None},
        "undisturbed": float(f"{undisturbed:.4g}"),
    }


def between_windows(points: Sequence[ObservedPoint]) -> float | None:
    """Standard deviation of the logarithm of CPU time within points; None without repetitions."""
    variances = [
        np.log([r.server_cpu_ns_per_request for r in point.quiet_repetitions()]).var(ddof=1)
        for point in points
        if len(point.quiet_repetitions()) > 1
    ]
    return max(_LEAST, math.sqrt(float(np.mean(variances)))) if variances else None


def window_errors(points: Sequence[ObservedPoint]) -> np.ndarray:
    """(points,) standard error of the logarithm of each point's median, from all points' windows.

    That of a median is 1.25 times that of a mean.
    """
    window = between_windows(points) or 0.0
    windows = np.array([len(point.quiet_repetitions()) for point in points])
    return np.asarray(_MEDIAN * window / np.sqrt(windows))


def disturbance_errors(points: Sequence[ObservedPoint]) -> np.ndarray:
    """(points,) standard error of the logarithm of CPU time from whatever else ran on the host.

    Where some windows of a point were disturbed, so may be those in which nothing was noticed.
    """
    shares = [np.mean([not r.quiet for r in point.repetitions]) for point in points]
    return DISTURBED_ERROR * np.asarray(shares)


def between_starts(starts: Sequence[Sequence[float]]) -> float | None:
    """Standard deviation of the logarithm of CPU time between starts, that of windows apart.

    Parameters
    ----------
    starts
        CPU time of each window by start, as in a manifest; None is found in fewer than two.
    """
    logs = [np.log(windows) for windows in starts if len(windows)]
    if len(logs) < 2:
        return None
    within = [group.var(ddof=1) / len(group) for group in logs if len(group) > 1]
    between = float(np.var([group.mean() for group in logs], ddof=1))
    return max(_LEAST, math.sqrt(max(0.0, between - (float(np.mean(within)) if within else 0.0))))


# --- the load generator's work --------------------------------------------------------------------

# The work of forecache's own load generator, fitted to its CPU time at the same points.
#
# It is a station of the simulation like any other, so it has to be as right as the engine.


PRIOR_ERRORS = {"poll": 0.6, "batch": 0.6, "request": 0.6, "kernel": 0.12, "wake": 0.3}
"""Standard errors of the logarithms of the factors on the profile's numbers."""

_FACTORS = {
    "poll_instructions": "poll",
    "batch_instructions": "batch",
    "request_instructions": "request",
    "reply_instructions": "request",
    "kernel_scale": "kernel",
}


def fit_generator(
    points: list[ObservedPoint], generator: GeneratorProfile, speed: HostSpeed
) -> Posterior:
    """Factors on the load generator's work; only where it sleeps when it has nothing to do."""
    rows, observed = [], []
    for point in points:
        row = _row(point, generator, speed)
        if row is not None:
            rows.append(row)
            observed.append(point.ordinary("generator_cpu_ns_per_request"))
    # A benchmark tool tells nothing of its own loops: the priors are all there is.
    matrix = np.array(rows).reshape(-1, len(PRIOR_ERRORS))
    return fit(
        Problem(
            names=list(PRIOR_ERRORS),
            prior_errors=np.array(list(PRIOR_ERRORS.values())),
            predict=lambda logs: np.log(matrix @ np.exp(logs)),
            observed=np.log(observed),
            errors=np.full(len(rows), POINT_ERROR),
        )
    )


def _row(point: ObservedPoint, generator: GeneratorProfile, speed: HostSpeed) -> list[float] | None:
    """What each factor stands for at one point, in ns per request; None where it can't be told."""
    given = point.given
    counted = ("loops", "events", "reads", "sends")
    numbers = [point.ordinary(f"generator_{name}_per_request") for name in counted]
    if given.arrival == "open_loop" or given.think_us > 0 or np.isnan(numbers).any():
        return None
    turns, events, reads, sends = numbers
    work = generator.generator_work()
    rate = speed.user_ipc * speed.clock_ghz
    unix = given.transport == "unix"
    recv_ns = speed.unix_recv_ns if unix else speed.tcp_recv_ns
    send_ns = speed.unix_send_ns if unix else speed.tcp_send_ns
    counts = counts_of(point)
    scenario = scenario_of(given, engine="valkey", engine_version="8.0")
    kinds = command_kinds(scenario)
    request_bytes = sum(kind.share * kind.request_bytes(given.key_bytes) for kind in kinds)
    reply_bytes = sum(kind.share * kind.reply_bytes for kind in kinds)
    copying = request_bytes * speed.send_ns_per_byte(given.pipeline * request_bytes)
    copying += reply_bytes * speed.recv_ns_per_byte(given.pipeline * reply_bytes)
    kernel = turns * speed.epoll_wait_ns + events * speed.epoll_event_ns
    kernel += reads * recv_ns + sends * send_ns + copying
    wake = sum(wake_times(counts, speed, of_generator=True))
    return [
        turns * work.poll_instructions / rate,
        events * work.batch_instructions / rate,
        (work.request_instructions + work.reply_instructions) / rate,
        kernel,
        wake,
    ]


def fitted_generator(
    prior: GeneratorProfile, posterior: Posterior, bundle: Bundle
) -> GeneratorProfile:
    """The load generator's prior with its work replaced by what was fitted."""
    work = dict(prior.work)
    for name, factor in _FACTORS.items():
        value, error = prior.work[name].best * posterior.factor(factor), posterior.error(factor)
        method = "fitted to the generator's own CPU time per request"
        if factor == "request":
            method += "; requests and replies share one factor"
        work[name] = fitted_quantity(
            value,
            error,
            added=1.0 - posterior.weight(factor),
            unit=prior.work[name].unit,
            source="bundle",
            method=method,
            z=1.96,
        )
    source = Source(
        title="forecache observe", file=bundle.path.name, accessed=bundle.manifest.created[:10]
    )
    return prior.model_copy(update={"work": work, "sources": {**prior.sources, "bundle": source}})
