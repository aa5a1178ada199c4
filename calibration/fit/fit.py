"""From an observation bundle to an engine profile: what each stage of the engine works.

The fit is on server CPU time per request, which the load generator does not disturb, and on
instructions per request where a profiler counted them. How many loop turns, reads, writes, sleeps
and wake-ups a request took is observed, so that each point's CPU time is a sum of known counts
times the unknown time of each (`work_model`). Predictions of the same points then come from the
simulation alone, which is told none of these counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from forecache.hwprofiles.parts import Kernel
from forecache.hwprofiles.quantity import Quantity, Source, kind_of_fit
from forecache.hwprofiles.schema import SOCKET_CALLS, HostProfile
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.engines.generator import GeneratorProfile, load_generator
from forecache.models.engines.profile import EngineProfile, Observed
from forecache.sim.effort import check_work
from forecache.sim.errors import InputError

from ..bundle.bundle import Bundle, Engine
from ..bundle.points import ObservedPoint
from ..bundle.profiles import Profile
from .command_work import command_leaves
from .conflict import Conflict
from .generator_fit import fit_generator, fitted_generator
from .instructions import COUNT_ERROR, instruction_rows
from .prior import (
    Prior,
    difference_from,
    general_prior,
    is_counted,
    prior_error,
    prior_from,
    priors,
    rests_on_prior,
)
from .regression import Posterior, Problem, fit, leave_out
from .variation import disturbance_errors, observed_variation, window_errors
from .work_model import (
    FILLS,
    HOST_NAMES,
    IPC,
    WorkModel,
    counts_of,
    events_per_batch,
    work_model,
)

Progress = Callable[[str], None]

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

_Z95 = 1.959963984540054


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


def usable(point: ObservedPoint) -> bool:
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


def _left_out(posterior: Posterior, points: list[ObservedPoint]) -> np.ndarray:
    """(points,) error of each point in a fit that left its data set out."""
    counted = len(posterior.problem.observed) - len(points)
    groups: list[object] = [*(point.given.data_set for point in points), *[None] * counted]
    return leave_out(posterior, groups)[: len(points)]


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
    return Quantity(
        value=_rounded(value),
        unit=old.unit,
        source="bundle",
        kind=kind_of_fit(added),
        method=f"fitted to {what}" + rests_on_prior(added),
        low=_rounded(value * math.exp(-_Z95 * error)),
        high=_rounded(value * math.exp(_Z95 * error)),
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
    observed = Observed(
        version=engine.version,
        build=_build(engine),
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


def _build(engine: Engine) -> str:
    """What was compiled, with what: a step between builds is no step between versions."""
    text = f"{engine.name} {engine.version}, build {engine.build}, {engine.allocator}"
    return text if engine.compiler is None else f"{text}, gcc {engine.compiler}"


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
        wide = math.exp(_Z95 * float(errors[index]))
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
        leaves[name] = Quantity(
            value=_rounded(value),
            unit=unit,
            kind=kind_of_fit(1.0 - posterior.weight(name)),
            source="bundle",
            method="fitted with an engine's work to its CPU time"
            + rests_on_prior(1.0 - posterior.weight(name)),
            low=_rounded(value * math.exp(-_Z95 * error)),
            high=_rounded(value * math.exp(_Z95 * error)),
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
        What an earlier fit left of the engine, from `prior.known_of`; without it the fit begins
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
        if p.given.role == "fit" and usable(p) and p.given.rate_share is None
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
    return Calibration(
        profile=fitted_profile(prior, posterior, bundle, len(points), found),
        generator=fitted_generator(generator_prior, generator_posterior, bundle),
        posterior=posterior,
        generator_posterior=generator_posterior,
        model=model,
        left_out=_left_out(posterior, points),
        host=found,
        bundle=bundle,
        fitted=points,
        prior=prior,
        conflict=conflict,
    )
