"""A system that was corrected by what was measured of it under one load."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..engines.profile import EngineWork
from ..scenario.schema import Scenario
from .system import UNCHECKED_DISCREPANCY, Numbers, System
from .uncertainty import Draw, Drawn


class Corrections(NamedTuple):
    """Logarithms of factors on what a request takes of the main thread.

    Attributes
    ----------
    inside
        On executing commands and waiting for their memory.
    rest
        On reading, parsing, writing and turns of the event loop, the kernel's part included.
    sleep
        On sleeping, waking up and waking others.
    """

    inside: float = 0.0
    rest: float = 0.0
    sleep: float = 0.0


INSIDE = ("execute", "wait for memory", "look up ahead")
SLEEP = ("sleep and wake up", "wake the receiver")
"""Steps (`explain.steps_of`) that the corrections are on; the others are the rest."""

_INSIDE_WORK = (
    *("get_instructions", "get_instructions_per_byte", "set_instructions"),
    *("set_instructions_per_byte", "value_instructions", "prefetch_instructions_per_key"),
    *("touch_scale", "stream_scale"),
)
_REST_WORK = (
    *("loop_instructions", "read_instructions", "write_instructions", "parse_instructions"),
    *("parse_instructions_per_byte", "kernel_scale"),
)


def corrected(work: EngineWork, by: Corrections) -> EngineWork:
    """An engine's work, times the factors."""
    inside, rest, sleep = np.exp(by).tolist()
    changed: dict[str, Any] = {name: getattr(work, name) * inside for name in _INSIDE_WORK}
    changed |= {name: getattr(work, name) * rest for name in _REST_WORK}
    changed["wake_scale"] = work.wake_scale * sleep
    commands: Mapping[str, float] = {n: each * inside for n, each in work.commands.items()}
    return replace(work, commands=commands, **changed)


@dataclass(frozen=True)
class CorrectedSystem(System):
    """A system with corrections: the most probable ones, and those of each draw.

    Further draws than there are corrections take them in turn, and know less for it. The model
    error of the system that was measured is that of an engine observed on its own host: what was
    measured covers the way there.
    """

    nominal_corrections: Corrections = field(kw_only=True)
    drawn_corrections: tuple[Corrections, ...] = field(kw_only=True)
    observed: bool = field(default=True, kw_only=True)
    """Whether it is the system that was measured."""

    @cached_property
    def _pickled(self) -> bytes:
        parts = (self.host, self.engine, self.generator)
        how = (self.nominal_corrections, self.drawn_corrections, self.observed)
        return pickle.dumps((*parts, *how))

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self._pickled,)

    def _nominal(self) -> Numbers:
        return _with(super()._nominal(), self.nominal_corrections)

    def _drawn(self, draw: Drawn) -> Numbers:
        if not isinstance(draw, Draw):  # steps that somebody chose, around the most probable ones
            return _with(super()._drawn(draw), self.nominal_corrections)
        corrections = self.drawn_corrections[draw.number % len(self.drawn_corrections)]
        return _with(super()._drawn(draw), corrections)

    def discrepancy(self, scenario: Scenario) -> float:
        """Relative standard error of the model itself, of a load."""
        if not self.observed:
            return super().discrepancy(scenario)
        known = self.engine.discrepancy
        return UNCHECKED_DISCREPANCY if known is None else known


def _with(numbers: Numbers, by: Corrections) -> Numbers:
    return replace(numbers, work=corrected(numbers.work, by))


def _received(pickled: bytes) -> CorrectedSystem:
    *parts, nominal, drawn, observed = pickle.loads(pickled)
    return CorrectedSystem(
        *parts, nominal_corrections=nominal, drawn_corrections=drawn, observed=observed
    )
