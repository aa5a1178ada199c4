"""Draws of uncertain numbers: of a host's leaves, an engine's work, a load generator's work.

A range is read as the middle 95% of a log-normal (split at the value where the range is uneven). A
fitted engine brings the covariance of what was fitted, relative to each number, which replaces the
ranges of those numbers; draws below zero count as zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from forecache.hwprofiles.schema import HostProfile

from .engine import EngineProfile
from .generator import GeneratorProfile

Range = tuple[float, float, float]

NOT_UNCERTAIN = frozenset({"cores", "price_usd_per_hour", "memory_gib", "threads_per_core"})
"""Leaves of a host whose ranges say nothing about its speed."""

_Z95 = 1.959963984540054
_SMALLEST = 1e-9


def draw_ranges(ranges: Mapping[str, Range], random: np.random.Generator) -> dict[str, float]:
    """One draw of each number, independent of the others."""
    drawn = {}
    for name, (low, value, high) in ranges.items():
        z = float(random.standard_normal())
        if value <= _SMALLEST or low <= _SMALLEST:
            # A range that begins at zero has no logarithm: split normal on the plain scale.
            spread = (high - value) if z > 0 else (value - low)
            drawn[name] = max(0.0, value + z / _Z95 * spread)
            continue
        spread = math.log(high / value) if z > 0 else math.log(value / low)
        drawn[name] = value * math.exp(z / _Z95 * max(0.0, spread))
    return drawn


def draw_host(host: HostProfile, random: np.random.Generator) -> dict[str, float]:
    """One draw of a host's uncertain leaves, keyed by `HostSpeed` field."""
    ranges = {k: v for k, v in sorted(host.uncertain().items()) if k not in NOT_UNCERTAIN}
    return draw_ranges(ranges, random)


def draw_engine(engine: EngineProfile, random: np.random.Generator) -> dict[str, float]:
    """One draw of an engine's work."""
    fitted = engine.covariance or {}
    ranges = {k: v for k, v in sorted(engine.uncertain().items()) if k not in fitted}
    drawn = draw_ranges(ranges, random)
    if fitted:
        names = sorted(fitted)
        matrix = np.array([[fitted[a].get(b, 0.0) for b in names] for a in names])
        steps = random.multivariate_normal(np.zeros(len(names)), matrix, method="eigh")
        for name, step in zip(names, steps, strict=True):
            drawn[name] = engine.work[name].best * max(0.0, 1.0 + float(step))
    return drawn


def draw_generator(generator: GeneratorProfile, random: np.random.Generator) -> dict[str, float]:
    """One draw of a load generator's work."""
    return draw_ranges(dict(sorted(generator.uncertain().items())), random)
