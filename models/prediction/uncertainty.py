"""Draws of uncertain numbers: of a host's leaves, an engine's work, a load generator's work.

A draw is addressed by the name of its number, so that it is the same whatever else is drawn. A
range is read as the middle 95% of a log-normal (split at the value where the range is uneven). A
fitted engine brings the covariance of the logarithms of what was fitted, which holds on the host it
was fitted on and there replaces the ranges of those numbers; draws below zero count as zero.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import ndtri

from forecache.hwprofiles.quantity import ranges_of
from forecache.hwprofiles.schema import HostProfile
from forecache.sim.streams import uniforms

from ..engines.generator import GeneratorProfile
from ..engines.profile import EngineProfile, load_engine
from ..step_times.inputs import DISK_RANGES, DiskTimes

Range = tuple[float, float, float]

NOT_UNCERTAIN = frozenset({"cores", "price_usd_per_hour", "memory_gib", "threads_per_core"})
"""Leaves of a host whose ranges say nothing about its speed."""

Z95 = 1.959963984540054
"""Standard errors to either end of a 95% interval."""

_SMALLEST = 1e-9
_NARROWED = 0.999
"""An error that is hardly smaller than before says nothing new."""
_NUMBERS = 8001
"""Purpose of the draws in `streams`."""


def moved(bounds: Range, z: float) -> float:
    """A number, moved by `z` of its standard errors."""
    low, value, high = bounds
    if value <= _SMALLEST or low <= _SMALLEST:
        # A range that begins at zero has no logarithm: split normal on the plain scale.
        spread = (high - value) if z > 0 else (value - low)
        return max(0.0, value + z / Z95 * spread)
    spread = math.log(high / value) if z > 0 else math.log(value / low)
    return value * math.exp(z / Z95 * max(0.0, spread))


class Drawn(Protocol):
    """By how many standard errors each uncertain number is off, by its name."""

    def normals(self, names: Sequence[str]) -> Sequence[float]:
        """(names,) steps of numbers that depend on no other."""

    def jointly(self, names: list[str], covariance: np.ndarray) -> np.ndarray:
        """(names,) steps of numbers that depend on each other."""


class Draw(NamedTuple):
    """One draw of all uncertain numbers: the seed of the experiment, and the draw's number."""

    seed: int
    number: int

    def normals(self, names: Sequence[str]) -> Sequence[float]:
        """(names,) standard normal numbers, each independent of those of all other names."""
        return _normals(self.seed, self.number, tuple(names))

    def jointly(self, names: list[str], covariance: np.ndarray) -> np.ndarray:
        """(names,) normal numbers with a covariance, made of the independent ones."""
        return np.asarray(symmetric_root(covariance) @ self.normals(names))


# All systems of a plan or a sweep draw the same.
@lru_cache(maxsize=1 << 10)
def _normals(seed: int, number: int, names: tuple[str, ...]) -> list[float]:
    streams = [zlib.crc32(name.encode()) for name in names]
    found: list[float] = ndtri(uniforms(seed, number, streams, _NUMBERS, 0)).tolist()
    return found


class Steps(dict[str, float]):
    """Steps that somebody chose, by name; numbers that are not named stay where they are."""

    def normals(self, names: Sequence[str]) -> Sequence[float]:
        """(names,) steps."""
        return [self.get(name, 0.0) for name in names]

    def jointly(self, names: list[str], covariance: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """(names,) steps; that they go together is up to who chose them."""
        return np.array(self.normals(names))


class RecordedSteps:
    """What is drawn, kept by name, and which numbers go together.

    Attributes
    ----------
    steps
        By how many standard errors each number is off.
    """

    def __init__(self, draw: Drawn) -> None:
        self._draw = draw
        self.steps: dict[str, float] = {}
        self._together: list[tuple[list[str], np.ndarray]] = []

    def normals(self, names: Sequence[str]) -> Sequence[float]:
        """(names,) steps of numbers that depend on no other."""
        found = self._draw.normals(names)
        self.steps.update(zip(names, found, strict=True))
        return found

    def jointly(self, names: list[str], covariance: np.ndarray) -> np.ndarray:
        """(names,) steps of numbers that depend on each other."""
        found = self._draw.jointly(names, covariance)
        self.steps.update(zip(names, found.tolist(), strict=True))
        self._together.append((names, covariance))
        return found

    def covariance(self) -> tuple[list[str], np.ndarray]:
        """All names, and the (names, names) covariance of their steps."""
        names = sorted(self.steps)
        at = {name: index for index, name in enumerate(names)}
        matrix = np.eye(len(names))
        for some, covariance in self._together:
            index = [at[name] for name in some]
            matrix[np.ix_(index, index)] = covariance
        return names, matrix


def draw_ranges(part: str, ranges: Mapping[str, Range], draw: Drawn) -> dict[str, float]:
    """One draw of each number, independent of the others.

    Parameters
    ----------
    part
        Whose numbers they are, since an engine and a load generator share names.
    """
    steps = draw.normals([f"{part}.{name}" for name in ranges])
    return {n: moved(ranges[n], z) for n, z in zip(ranges, steps, strict=True)}


_PARTS = {"work": "engine", "generator": "load_generator"}


def title_of(name: str) -> str:
    """The name of a drawn number as answers have it."""
    part, leaf = name.split(".", 1)
    return f"{_PARTS.get(part, part)}.{leaf}"


def host_ranges(host: HostProfile) -> dict[str, Range]:
    """The ranges of a host that say something about its speed, by `HostSpeed` field."""
    return {k: v for k, v in sorted(host.uncertain().items()) if k not in NOT_UNCERTAIN}


def draw_host(host: HostProfile, draw: Drawn) -> dict[str, float]:
    """One draw of a host's uncertain leaves, keyed by `HostSpeed` field."""
    return draw_ranges("host", host_ranges(host), draw)


LearnedNumber = tuple[Range, float, float]
"""A range, where in it the number most probably lies, and its standard error, both in standard
errors of the range."""


@dataclass(frozen=True)
class LearnedNumbers:
    """What a joint fit found of a host and of an engine on it.

    Attributes
    ----------
    host
        Numbers of the host, by `HostSpeed` field.
    work
        Numbers of the engine's work.
    correlation
        Of the standard errors of all, those of the host first.
    """

    host: dict[str, LearnedNumber]
    work: dict[str, LearnedNumber]
    correlation: np.ndarray

    def nominal(self) -> tuple[dict[str, float], dict[str, float]]:
        """Where they most probably lie: those of the host and those of the engine."""
        host = {n: moved(bounds, mean) for n, (bounds, mean, _) in self.host.items()}
        return host, {n: moved(bounds, mean) for n, (bounds, mean, _) in self.work.items()}

    def drawn(self, draw: Drawn) -> tuple[dict[str, float], dict[str, float]]:
        """One draw, of the host's numbers and of the engine's.

        They take the place of what `draw_host` and `draw_engine` draw one by one.
        """
        if not (self.host or self.work):
            return {}, {}
        names = [*(f"host.{name}" for name in self.host), *(f"work.{name}" for name in self.work)]
        steps = draw.jointly(names, self.correlation).tolist()
        numbers = [*self.host.items(), *self.work.items()]
        found = [
            (name, moved(bounds, mean + error * z))
            for (name, (bounds, mean, error)), z in zip(numbers, steps, strict=True)
        ]
        return dict(found[: len(self.host)]), dict(found[len(self.host) :])

    def with_observation(
        self, known: Mapping[str, Range], observed: Mapping[str, Range]
    ) -> LearnedNumbers:
        """The same once an engine of this kind was also observed on another host.

        The joint fit began with what was `known` of the engine's work. An observation that leaves
        a number at d with error r, both in standard errors of what was known, has told of it
        d / (1 - r^2) with the variance r^2 / (1 - r^2); a number that it did not narrow stays.
        """
        names, numbers = [*self.host, *self.work], [*self.host.values(), *self.work.values()]
        told, values, noise = [], [], []
        for index, name in enumerate(names[len(self.host) :], start=len(self.host)):
            if name not in known or name not in observed:
                continue
            ratio = _log_error(observed[name]) / _log_error(known[name])
            if ratio < _NARROWED:
                distance = math.log(observed[name][1] / known[name][1]) / _log_error(known[name])
                told.append(index)
                values.append(distance / (1.0 - ratio**2))
                noise.append(ratio**2 / (1.0 - ratio**2))
        if not told:
            return self
        errors = np.array([error for _, _, error in numbers])
        mean, covariance = conditioned(
            np.array([mean for _, mean, _ in numbers]),
            self.correlation * np.outer(errors, errors),
            told=told,
            values=np.array(values),
            noise=np.array(noise),
        )
        errors = np.sqrt(np.maximum(np.diag(covariance), _SMALLEST))
        after = [
            (bounds, float(m), float(e))
            for (bounds, _, _), m, e in zip(numbers, mean, errors, strict=True)
        ]
        found = dict(zip(names, after, strict=True))
        return LearnedNumbers(
            {name: found[name] for name in self.host},
            {name: found[name] for name in self.work},
            covariance / np.outer(errors, errors),
        )


def _log_error(bounds: Range) -> float:
    """Standard error of the logarithm of a number whose range holds it with 95%."""
    low, _, high = bounds
    return math.log(high / low) / (2.0 * Z95)


def conditioned(
    mean: np.ndarray,
    covariance: np.ndarray,
    *,
    told: Sequence[int],
    values: np.ndarray,
    noise: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of a normal vector once some of its entries were measured.

    Parameters
    ----------
    mean : (n,)
    covariance : (n, n)
    told
        Indices of the measured entries.
    values : (told,)
        What was measured.
    noise : (told,)
        Variance of the errors of that, which are independent of each other.
    """
    index = list(told)
    innovation = covariance[np.ix_(index, index)] + np.diag(noise)
    gain = np.linalg.solve(innovation, covariance[index]).T
    moved_to = mean + gain @ (values - mean[index])
    left = covariance - gain @ covariance[index]
    return moved_to, (left + left.T) / 2.0


def learned_together(host: HostProfile, engine: EngineProfile) -> LearnedNumbers:
    """What a joint fit found of a host and of an engine on it; nothing without one.

    An engine that was observed elsewhere, beginning with what is shipped of it, adds to that.
    """
    posterior = host.posterior
    if posterior is None:
        return LearnedNumbers({}, {}, np.zeros((0, 0)))
    shipped = _shipped_before(engine)
    ranges = (shipped or engine).uncertain()
    every, learned = host_ranges(host), posterior.of_policy(engine.policy)
    rows = posterior.correlation
    correlated = sorted({*rows, *(name for row in rows.values() for name in row)})
    bounds = {n: (every[n], 0.0, 1.0) for n in correlated if n in every}
    work = {
        name: (ranges[name], learned[name].mean, learned[name].error)
        for name in sorted(learned)
        if name in ranges
    }
    called = [*bounds, *(f"{engine.policy}.{name}" for name in work)]
    matrix = np.array([[posterior.correlated(a, b) for b in called] for a in called])
    found = LearnedNumbers(bounds, work, matrix)
    return found if shipped is None else found.with_observation(ranges, engine.uncertain())


def _shipped_before(engine: EngineProfile) -> EngineProfile | None:
    """The shipped profile that an observation by a user began with; None for any other engine."""
    observed = engine.observed
    if observed is None or observed.began_with is None:
        return None
    shipped = load_engine(engine.engine, engine.version)
    return shipped if observed.began_with == shipped.id != engine.id else None


def draw_unobserved(host: HostProfile, draw: Drawn) -> dict[str, float]:
    """One draw of what no observation of an engine tells of its host, by `HostSpeed` field.

    That is TLS, interrupts, threads that share cores, sleeps of kinds that it did not see, and what
    repeats within commands.
    """
    others = {
        "softirq_ns": host.softirq,
        "epoll_ctl_ns": host.epoll_ctl,
        "repeat_ipc_ratio": host.repeat_ratio,
    }
    leaves = {**host.tls_leaves(), **host.scheduling, **others}
    return draw_ranges("host", ranges_of(leaves), draw)


def draw_engine(
    engine: EngineProfile, draw: Drawn, *, observed_here: bool = False
) -> dict[str, float]:
    """One draw of an engine's work, that of commands beyond GET and SET included.

    Parameters
    ----------
    observed_here
        Whether the work was fitted on the host it is drawn for.
    """
    fitted = (engine.covariance or {}) if observed_here else {}
    ranges = {k: v for k, v in engine.uncertain().items() if k not in fitted}
    drawn = draw_ranges("work", {**ranges, **engine.uncertain_commands()}, draw)
    if fitted:
        names = sorted(fitted)
        matrix = np.array([[fitted[a].get(b, 0.0) for b in names] for a in names])
        steps = draw.jointly([f"work.{name}" for name in names], matrix)
        for name, step in zip(names, steps, strict=True):
            drawn[name] = engine.work[name].best * math.exp(float(step))
    return drawn


def symmetric_root(matrix: np.ndarray) -> np.ndarray:
    """The root of a covariance of which there is one only."""
    return _symmetric_root(np.asarray(matrix, float).tobytes(), len(matrix))


# All draws of a system have the same.
@lru_cache(maxsize=32)
def _symmetric_root(matrix: bytes, rows: int) -> np.ndarray:
    values, vectors = np.linalg.eigh(np.frombuffer(matrix).reshape(rows, rows))
    root: np.ndarray = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    return root


def draw_generator(generator: GeneratorProfile, draw: Drawn) -> dict[str, float]:
    """One draw of a load generator's work."""
    return draw_ranges("generator", generator.uncertain(), draw)


def draw_disk(draw: Drawn) -> DiskTimes:
    """One draw of what a disk and a fork cost."""
    return DiskTimes(**draw_ranges("disk", DISK_RANGES, draw))
