"""How far off times of a run may be that are made of steps, each with an interval of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from forecache.sim.statistics import Estimate
from forecache.sim.statistics import exactly as exactly

from ...prediction.predict import DRAWS


@dataclass(frozen=True, kw_only=True)
class RunStep:
    """Something that took a while.

    Attributes
    ----------
    lasts
        Its duration in s; an interval that is a point where nothing of it is uncertain.
    """

    begun_s: float
    lasts: Estimate

    @property
    def lasts_s(self) -> float:
        """Its duration in this run."""
        return self.lasts.value


@dataclass
class Outcomes:
    """Whether something ends well, in a run and at draws of what is uncertain.

    Attributes
    ----------
    what
        Such as `a full sync`.
    well
        How that is called.
    """

    what: str
    well: str
    _otherwise: dict[bool, int] = field(default_factory=dict)

    def see(self, here: str, drawn: Sequence[str]) -> None:
        """One attempt: its outcome in the run, and at each draw."""
        good = here == self.well
        differ = sum((each == self.well) != good for each in drawn)
        self._otherwise[good] = max(differ, self._otherwise.get(good, 0))

    def warnings(self) -> list[str]:
        """That draws end otherwise than the run did, if some do."""
        words = {True: "does not end", False: "that failed here ends"}
        return [
            f"{self.what} {words[good]} with up to {differ} of {DRAWS} draws of what is uncertain."
            for good, differ in self._otherwise.items()
            if differ
        ]


def with_interval_of(seconds: float, found: Estimate) -> Estimate:
    """A time with an interval as wide, against its value, as another one has."""
    if found.value <= 0.0 or not math.isfinite(found.value):
        return exactly(seconds)
    factor = seconds / found.value
    return Estimate(seconds, found.low * factor, found.high * factor)


def span_with_interval(begun_s: float, ended_s: float, steps: Sequence[RunStep]) -> Estimate:
    """A stretch of time in s with its interval, from the steps that were going on in it.

    What is uncertain of one is uncertain of all in the same way, since it is the same hosts and the
    same work. So a run is as much quicker or slower at any moment as the steps that are going on
    then, in the mean.
    """
    value = ended_s - begun_s
    meanwhile = [
        step
        for step in steps
        if step.lasts_s > 0 and step.begun_s < ended_s and step.begun_s + step.lasts_s > begun_s
    ]
    if not meanwhile:
        return exactly(value)
    spans = np.array([(step.begun_s, step.begun_s + step.lasts_s) for step in meanwhile])
    spans = spans.clip(begun_s, ended_s)
    edges = np.unique([begun_s, ended_s, *spans.ravel()])
    going_on = np.zeros((3, len(edges) - 1))
    for step, (first, last) in zip(meanwhile, np.searchsorted(edges, spans), strict=True):
        ratios = 1.0, step.lasts.low / step.lasts_s, step.lasts.high / step.lasts_s
        going_on[:, first:last] += np.array(ratios)[:, None]
    count, *ends = going_on
    low, high = (
        float(np.diff(edges) @ np.where(count > 0, each / np.maximum(count, 1.0), 1.0))
        for each in ends
    )
    return Estimate(value, min(value, low), max(value, high))
