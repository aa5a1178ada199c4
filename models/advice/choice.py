"""Which setting to run among those that were predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..prediction.predict import Prediction
from ..results.points import Point
from .objective import excess

KNEE = 0.95
"""The knee is the first setting that reaches this share of the best throughput. Among settings that
meet the SLO with the probability asked for it is the one recommended: every further thread costs a
core for less than the model can tell apart. In an open loop all of them serve what is offered, and
it is the one with the fewest threads."""


@dataclass(frozen=True)
class Candidate:
    """A setting that was predicted: its runs, and what they say."""

    prediction: Prediction
    point: Point

    @property
    def io_threads(self) -> int:
        """The number of threads that it runs."""
        return self.prediction.case.scenario.io_threads

    @property
    def throughput_rps(self) -> float:
        """At the nominal numbers."""
        return self.prediction.mean("throughput_rps")

    @property
    def ignored(self) -> str:
        """The warning that the engine runs fewer threads than the setting has, or nothing."""
        return next((text for text in self.point.warnings if "are ignored" in text), "")

    @property
    def sure_enough(self) -> bool:
        """Whether it meets the SLO with the probability asked for; so it does without one."""
        slo, probability = self.prediction.case.scenario.slo, self.point.objective_probability
        return slo is None or (probability or 0.0) >= slo.probability


@dataclass(frozen=True)
class Choice:
    """Which setting is recommended among which, or comes closest to an objective none meets.

    Attributes
    ----------
    chosen, knee
        That setting, and the curve's knee.
    others
        All other settings, by io_threads.
    rivals
        Those of them that could be recommended: inside the model, keeping up, meeting the SLO with
        the probability asked for.
    met
        Whether a setting meets the SLO, or none was asked for: only then one is recommended.
    """

    chosen: Candidate
    knee: Candidate
    others: list[Candidate]
    rivals: list[Candidate]
    met: bool


def choose(candidates: Sequence[Candidate]) -> Choice:
    """Choose among settings that differ in io_threads."""
    everything = sorted(candidates, key=lambda each: each.io_threads)
    inside = [each for each in everything if not each.ignored] or everything
    # A setting that requests pile up at meets nothing, whatever its throughput.
    steady = [each for each in inside if not each.point.overloaded]
    sure = [each for each in steady or inside if each.sure_enough]
    able = sure or steady or inside
    knee = _first_near_the_best(inside)
    # Where none has a chance to speak of, the smallest excess says more than the probability; of
    # those that are all overloaded, the one whose backlog grows slowest.
    chosen = _first_near_the_best(sure) if sure else max(able, key=_closeness)
    others = [each for each in everything if each is not chosen]
    rivals = [each for each in able if each is not chosen]
    return Choice(chosen, knee, others, rivals, met=bool(sure))


def _first_near_the_best(candidates: Sequence[Candidate]) -> Candidate:
    best_rps = max(each.throughput_rps for each in candidates)
    return next(each for each in candidates if each.throughput_rps >= KNEE * best_rps)


def _closeness(candidate: Candidate) -> tuple[float, float, float]:
    """How close a setting comes to the objective."""
    probability = round(candidate.point.objective_probability or 0.0, 2)
    return probability, -excess(candidate.prediction), candidate.throughput_rps
