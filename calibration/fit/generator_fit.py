"""The work of forecache's own load generator, fitted to its CPU time at the same points.

It is a station of the simulation like any other, so it has to be as right as the engine.
"""

from __future__ import annotations

import math

import numpy as np

from forecache.hwprofiles.quantity import Quantity, Source, kind_of_fit
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.engines.commands import command_kinds
from forecache.models.engines.generator import GeneratorProfile

from ..bundle.bundle import Bundle
from ..bundle.points import ObservedPoint
from .prior import rests_on_prior
from .regression import Posterior, Problem, fit
from .scenarios import scenario_of
from .work_model import counts_of, wake_times

POINT_ERROR = 0.05
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
        weight = posterior.weight(factor)
        method = "fitted to the generator's own CPU time per request"
        if factor == "request":
            method += "; requests and replies share one factor"
        method += rests_on_prior(1.0 - weight)
        work[name] = Quantity(
            value=float(f"{value:.4g}"),
            unit=prior.work[name].unit,
            source="bundle",
            kind=kind_of_fit(1.0 - weight),
            method=method,
            low=float(f"{value * math.exp(-1.96 * error):.4g}"),
            high=float(f"{value * math.exp(1.96 * error):.4g}"),
        )
    source = Source(
        title="forecache observe", file=bundle.path.name, accessed=bundle.manifest.created[:10]
    )
    return prior.model_copy(update={"work": work, "sources": {**prior.sources, "bundle": source}})
