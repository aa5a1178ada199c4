"""Draws of uncertain numbers: of a host's leaves, an engine's work, a load generator's work.

A range is read as the middle 95% of a log-normal (split at the value where the range is uneven). A
fitted engine brings the covariance of the logarithms of what was fitted, which holds on the host it
was fitted on and there replaces the ranges of those numbers; draws below zero count as zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from forecache.hwprofiles.schema import HostProfile

from ..engines.generator import GeneratorProfile
from ..engines.profile import EngineProfile

Range = tuple[float, float, float]

NOT_UNCERTAIN = frozenset({"cores", "price_usd_per_hour", "memory_gib", "threads_per_core"})
"""Leaves of a host whose ranges say nothing about its speed."""

_Z95 = 1.959963984540054
_SMALLEST = 1e-9


def moved(bounds: Range, z: float) -> float:
    """A number, moved by `z` of its standard errors."""
    low, value, high = bounds
    if value <= _SMALLEST or low <= _SMALLEST:
        # A range that begins at zero has no logarithm: split normal on the plain scale.
        spread = (high - value) if z > 0 else (value - low)
        return max(0.0, value + z / _Z95 * spread)
    spread = math.log(high / value) if z > 0 else math.log(value / low)
    return value * math.exp(z / _Z95 * max(0.0, spread))


def draw_ranges(ranges: Mapping[str, Range], random: np.random.Generator) -> dict[str, float]:
    """One draw of each number, independent of the others."""
    return {name: moved(bounds, float(random.standard_normal())) for name, bounds in ranges.items()}


def host_ranges(host: HostProfile) -> dict[str, Range]:
    """The ranges of a host that say something about its speed, by `HostSpeed` field."""
    return {k: v for k, v in sorted(host.uncertain().items()) if k not in NOT_UNCERTAIN}


def draw_host(host: HostProfile, random: np.random.Generator) -> dict[str, float]:
    """One draw of a host's uncertain leaves, keyed by `HostSpeed` field."""
    return draw_ranges(host_ranges(host), random)


def draw_tls(host: HostProfile, random: np.random.Generator) -> dict[str, float]:
    """One draw of the CPU time of TLS on a host, keyed by `HostSpeed` field."""
    ranges = {
        name: (leaf.low, leaf.best, leaf.high)
        for name, leaf in host.tls_leaves().items()
        if leaf.low is not None and leaf.high is not None
    }
    return draw_ranges(ranges, random)


def draw_softirq(host: HostProfile, random: np.random.Generator) -> dict[str, float]:
    """One draw of what an interrupt takes per packet, keyed by `HostSpeed` field."""
    leaf = host.softirq
    if leaf.low is None or leaf.high is None:
        return {}
    return draw_ranges({"softirq_ns": (leaf.low, leaf.best, leaf.high)}, random)


def draw_scheduling(host: HostProfile, random: np.random.Generator) -> dict[str, float]:
    """One draw of what threads that share cores go by, keyed by `HostSpeed` field."""
    ranges = {
        name: (leaf.low, leaf.best, leaf.high)
        for name, leaf in host.scheduling.items()
        if leaf.low is not None and leaf.high is not None
    }
    return draw_ranges(ranges, random)


def draw_engine(
    engine: EngineProfile, random: np.random.Generator, *, observed_here: bool = False
) -> dict[str, float]:
    """One draw of an engine's work.

    Parameters
    ----------
    observed_here
        Whether the work was fitted on the host it is drawn for.
    """
    fitted = (engine.covariance or {}) if observed_here else {}
    ranges = {k: v for k, v in sorted(engine.uncertain().items()) if k not in fitted}
    drawn = draw_ranges(ranges, random)
    if fitted:
        names = sorted(fitted)
        matrix = np.array([[fitted[a].get(b, 0.0) for b in names] for a in names])
        steps = random.multivariate_normal(np.zeros(len(names)), matrix, method="eigh")
        for name, step in zip(names, steps, strict=True):
            drawn[name] = engine.work[name].best * math.exp(float(step))
    return drawn


def draw_generator(generator: GeneratorProfile, random: np.random.Generator) -> dict[str, float]:
    """One draw of a load generator's work."""
    return draw_ranges(dict(sorted(generator.uncertain().items())), random)
