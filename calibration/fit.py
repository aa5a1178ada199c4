"""From an observation bundle to an engine profile: what each stage of the engine works.

The fit is on server CPU time per request, which the load generator does not disturb. How many loop
turns, reads, writes, sleeps and wake-ups a request took is observed, so that each point's CPU time
is a sum of known counts times unknown costs; how many lines it waited for comes from the memory
model. Predictions of the same points then come from the simulation alone, which is told none of
these counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forecache.hwprofiles.quantity import Quantity, Source
from forecache.hwprofiles.schema import HostProfile, HostSpeed
from forecache.models.engine import EngineProfile, Observed, load_engine
from forecache.models.generator import GeneratorProfile, load_generator
from forecache.models.memory import with_effective_l3
from forecache.models.stages import command_kinds
from forecache.sim.errors import InputError

from .bundle import Bundle
from .contributions import counts_of, engine_contributions
from .points import ObservedPoint
from .regression import Fit, fit_factors
from .scenarios import scenario_of

Progress = Callable[[str], None]

POINT_ERROR = 0.05
"""Relative standard error of one observed point: repetitions on a virtual machine with neighbours
differ by 5 to 20%, and the least disturbed is used."""

GET_PARSE_SHARE = 0.35
"""Share of parsing in a GET's user time with its data in cache. CPU time can't tell parsing from
execution; deeper profiles can."""

_CACHE_SHARES = (0.1, 0.15, 0.2, 0.27, 0.35, 0.45, 0.6, 0.8, 1.0)
_CACHE_SHARE_PRIOR = 0.7
"""Standard error of the share's logarithm."""

# What is fitted, and how sure one is beforehand: standard error of the factor on the prior.
_ENGINE_PRIORS = {
    "loop": 1.0,
    "event": 1.0,
    "get": 1.5,
    "set": 1.5,
    "get_bytes": 1.0,
    "set_bytes": 1.0,
    "kernel": 0.12,
    "touch": 0.3,
    "set_touch": 1.0,
    "displaced": 0.7,
    "prefetch": 0.7,
    "wake": 0.3,
}
_GENERATOR_PRIORS = {"poll": 1.0, "batch": 1.0, "request": 1.0, "kernel": 0.12, "wake": 0.3}


@dataclass(frozen=True)
class Calibration:
    """A fitted engine with what it was fitted to."""

    profile: EngineProfile
    generator: GeneratorProfile
    fit: Fit
    generator_fit: Fit
    host: HostProfile
    bundle: Bundle
    fitted: list[ObservedPoint]


def prior_engine(bundle: Bundle) -> EngineProfile:
    """The shipped profile whose rules the observed engine follows."""
    engine = bundle.manifest.engine
    return load_engine(engine.name, engine.version)


def usable(point: ObservedPoint) -> bool:
    """Whether a point can be fitted: one server thread and nothing wrong."""
    return point.given.io_threads == 1 and not any(
        flag in repetition.flags
        for repetition in point.quiet_repetitions()
        for flag in ("errors", "misses")
    )


def with_cache_share(engine: EngineProfile, leaf: Quantity) -> EngineProfile:
    """The profile with another share of the last-level cache."""
    return engine.model_copy(update={"work": {**engine.work, "cache_share": leaf}})


def fit_cache_share(
    points: list[ObservedPoint], engine: EngineProfile, speed: HostSpeed
) -> EngineProfile:
    """The prior with the share of the last-level cache under which everything else fits best.

    Waits are no linear function of it, so it is searched: the range holds the shares whose sum of
    squares is within 3.84 of the best (95% by the likelihood ratio).
    """
    old = engine.work["cache_share"]
    costs = {}
    for share in _CACHE_SHARES:
        leaf = old.model_copy(update={"value": share})
        fit = fit_engine(points, with_cache_share(engine, leaf), speed)
        costs[share] = fit.cost + (math.log(share / old.best) / _CACHE_SHARE_PRIOR) ** 2
    best = min(costs, key=costs.__getitem__)
    likely = [share for share, cost in costs.items() if cost <= costs[best] + 3.84]
    leaf = Quantity(
        value=best,
        unit=old.unit,
        source="bundle",
        kind="measured",
        method=f"best of {len(_CACHE_SHARES)} shares, each with everything else fitted",
        low=min(likely),
        high=max(likely),
    )
    return with_cache_share(engine, leaf)


def fit_engine(points: list[ObservedPoint], engine: EngineProfile, speed: HostSpeed) -> Fit:
    """Factors on the prior's work that explain the points' server CPU time."""
    rows = [engine_contributions(point, engine, speed) for point in points]
    observed = np.array([point.least_disturbed("server_cpu_ns_per_request") for point in points])
    names = [name for name in _ENGINE_PRIORS if any(parts[name] > 0 for parts in rows)]
    return fit_factors(
        {name: np.array([parts[name] for parts in rows]) for name in names},
        observed,
        prior_errors=_ENGINE_PRIORS,
        point_error=POINT_ERROR,
    )


def fit_generator(
    points: list[ObservedPoint], generator: GeneratorProfile, speed: HostSpeed
) -> Fit:
    """Factors on the load generator's work; only where it sleeps when it has nothing to do."""
    work = generator.generator_work()
    rate = speed.user_ipc * speed.clock_ghz
    rows = []
    observed = []
    for point in points:
        given = point.given
        if given.arrival == "open_loop" or given.think_us > 0:
            continue
        unix = given.transport == "unix"
        recv_ns = speed.unix_recv_ns if unix else speed.tcp_recv_ns
        send_ns = speed.unix_send_ns if unix else speed.tcp_send_ns
        turns = point.least_disturbed("generator_loops_per_request")
        events = point.least_disturbed("generator_events_per_request")
        reads = point.least_disturbed("generator_reads_per_request")
        sends = point.least_disturbed("generator_sends_per_request")
        if np.isnan([turns, events, reads, sends]).any():
            continue
        counts = counts_of(point)
        scenario = scenario_of(given, engine="valkey", engine_version="8.0")
        size = sum(
            kind.share * (kind.request_bytes(given.key_bytes) + kind.reply_bytes)
            for kind in command_kinds(scenario)
        )
        kernel = turns * speed.epoll_wait_ns + events * speed.epoll_event_ns
        kernel += reads * recv_ns + sends * send_ns + size * speed.copy_ns_per_byte
        wake = counts.generator_wakes * speed.block_ns + counts.server_sleeps * speed.wake_send_ns
        per_request = work.request_instructions + work.reply_instructions
        rows.append(
            {
                "poll": turns * work.poll_instructions / rate,
                "batch": events * work.batch_instructions / rate,
                "request": per_request / rate,
                "kernel": kernel,
                "wake": wake,
            }
        )
        observed.append(point.least_disturbed("generator_cpu_ns_per_request"))
    return fit_factors(
        {name: np.array([row[name] for row in rows]) for name in _GENERATOR_PRIORS},
        np.array(observed),
        prior_errors=_GENERATOR_PRIORS,
        point_error=POINT_ERROR,
    )


# Which factor each number of a profile follows.
_ENGINE_FACTORS = {
    "loop_instructions": "loop",
    "read_instructions": "event",
    "write_instructions": "event",
    "parse_instructions": "get",
    "get_instructions": "get",
    "set_instructions": "get",
    "value_instructions": "set",
    "get_instructions_per_byte": "get_bytes",
    "parse_instructions_per_byte": "set_bytes",
    "set_instructions_per_byte": "set_bytes",
    "kernel_scale": "kernel",
    "wake_scale": "wake",
    "touch_scale": "touch",
    "value_touches": "set_touch",
    "displaced_lines": "displaced",
    "prefetch_instructions_per_key": "prefetch",
}
_GENERATOR_FACTORS = {
    "poll_instructions": "poll",
    "batch_instructions": "batch",
    "request_instructions": "request",
    "reply_instructions": "request",
    "kernel_scale": "kernel",
}
_TOGETHER = {
    "read_instructions": "reading and writing are told apart by their prior share only",
    "write_instructions": "reading and writing are told apart by their prior share only",
    "parse_instructions": "parsing and execution are told apart by their prior share only",
    "get_instructions": "parsing and execution are told apart by their prior share only",
    "set_instructions": "taken as GET's, whose look-up it shares",
    "value_instructions": "what a SET takes beyond a GET",
    "parse_instructions_per_byte": "parsing and execution share one factor",
    "set_instructions_per_byte": "parsing and execution share one factor",
    "request_instructions": "requests and replies share one factor",
    "reply_instructions": "requests and replies share one factor",
}


def _fitted_leaf(
    name: str, old: Quantity, value: float, error: float, fit_name: str, fit: Fit, what: str
) -> Quantity:
    weight = fit.prior_weight[fit.names.index(fit_name)]
    method = f"fitted to {what}"
    if name in _TOGETHER:
        method += f"; {_TOGETHER[name]}"
    if weight > 0.5:
        method += f"; rests on its prior: the data add {1 - weight:.0%} of what is known"
    return Quantity(
        value=_rounded(value),
        unit=old.unit,
        source="bundle",
        kind="measured",
        method=method,
        low=_rounded(value * max(0.0, 1.0 - 1.96 * error)),
        high=_rounded(value * (1.0 + 1.96 * error)),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def fitted_profile(
    prior: EngineProfile, fit: Fit, bundle: Bundle, points: int, host: HostProfile
) -> EngineProfile:
    """The prior with its work replaced by what was fitted."""
    engine = bundle.manifest.engine
    what = f"server CPU time per request at {points} points"
    work = dict(prior.work)
    followed = {name: factor for name, factor in _ENGINE_FACTORS.items() if factor in fit.names}
    get_total = prior.work["parse_instructions"].best + prior.work["get_instructions"].best
    get_total *= fit.factor("get")
    set_names = ("parse_instructions", "set_instructions", "value_instructions")
    set_total = sum(prior.work[name].best for name in set_names) * fit.factor("set")
    parse = GET_PARSE_SHARE * get_total
    values = {name: prior.work[name].best * fit.factor(factor) for name, factor in followed.items()}
    values["parse_instructions"] = parse
    values["get_instructions"] = get_total - parse
    # A SET finds its key as a GET does; what it takes beyond is its value's.
    values["set_instructions"] = values["get_instructions"]
    values["value_instructions"] = max(set_total - get_total, 0.05 * set_total)
    for name, factor in followed.items():
        error = fit.relative_error(factor)
        work[name] = _fitted_leaf(name, work[name], values[name], error, factor, fit, what)
    covariance: dict[str, dict[str, float]] = {}
    for a, factor_a in followed.items():
        covariance[a] = {}
        for b, factor_b in followed.items():
            i, j = fit.names.index(factor_a), fit.names.index(factor_b)
            scaled = fit.covariance[i, j] / (fit.factors[i] * fit.factors[j])
            covariance[a][b] = _rounded(float(scaled))
    date = bundle.manifest.created[:10]
    sources = dict(prior.sources)
    sources["bundle"] = Source(
        title=f"forecache observe: {engine.name} {engine.version} on {host.title}",
        file=bundle.path.name,
        accessed=date,
    )
    observed = Observed(
        build=f"{engine.name} {engine.version}, build {engine.build}, {engine.allocator}",
        host=host.id,
        date=date,
        depth=bundle.manifest.depth,
        bundle=bundle.path.name,
    )
    return prior.model_copy(
        update={
            "id": f"{prior.id}-{host.id}",
            "title": f"{prior.title}, observed on {host.title}",
            "version": engine.version,
            "sources": sources,
            "observed": observed,
            "work": work,
            "covariance": covariance,
        }
    )


def fitted_generator(prior: GeneratorProfile, fit: Fit, bundle: Bundle) -> GeneratorProfile:
    """The load generator's prior with its work replaced by what was fitted."""
    work = dict(prior.work)
    what = "the generator's own CPU time per request"
    for name, factor in _GENERATOR_FACTORS.items():
        value = prior.work[name].best * fit.factor(factor)
        error = fit.relative_error(factor)
        work[name] = _fitted_leaf(name, work[name], value, error, factor, fit, what)
    sources = dict(prior.sources)
    sources["bundle"] = Source(
        title="forecache observe", file=bundle.path.name, accessed=bundle.manifest.created[:10]
    )
    return prior.model_copy(update={"work": work, "sources": sources})


def fit_bundle(
    path: str | Path, *, host: HostProfile | None = None, progress: Progress | None = None
) -> Calibration:
    """Fit an engine's and the load generator's work to a bundle.

    Parameters
    ----------
    host
        Profile of the host the bundle was observed on, if the bundle has none.

    Raises
    ------
    InputError
        The bundle is damaged, has no host profile, or no point to fit.
    """
    bundle = Bundle.load(path)
    host = host or bundle.host
    if host is None:
        raise InputError(
            f"{path}: found no host.yaml; valid is a bundle observed with --host, or give the "
            "profile of the host it was observed on with --host."
        )
    points = [p for p in bundle.points if p.given.role == "fit" and usable(p)]
    if len(points) < 4:
        raise InputError(
            f"{path}: found {len(points)} points with role fit, one server thread and no errors; "
            "valid are at least 4."
        )
    if progress is not None:
        progress(f"fitting {len(points)} points of {bundle.manifest.engine.name}")
    prior = prior_engine(bundle)
    speed = with_effective_l3(host.speed(), host)
    prior = fit_cache_share(points, prior, speed)
    fit = fit_engine(points, prior, speed)
    generator_prior = load_generator("forecache")
    generator_fit = fit_generator(points, generator_prior, speed)
    profile = fitted_profile(prior, fit, bundle, len(points), host)
    generator = fitted_generator(generator_prior, generator_fit, bundle)
    return Calibration(profile, generator, fit, generator_fit, host, bundle, points)
