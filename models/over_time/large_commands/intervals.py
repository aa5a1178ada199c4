"""How far off a run may be: draws of its uncertain numbers, and the errors that were measured.

Drawn are the instructions that were counted, the speed of both hosts and of what lies between them,
how much of its waits for memory an engine shows, and the first touch of a page where the scenario
doesn't give it. The model's own error is that of the engine's commands on live servers, with
nothing fitted to them; another host than theirs, and another version than the one that was counted,
each add what a node's prediction adds for a profile that nobody checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forecache.sim.statistics import Estimate

from ...prediction.predict import DRAWS
from ...prediction.system import UNCHECKED_DISCREPANCY
from ...prediction.uncertainty import Z95, Draw
from ...results.intervals import RelativeError, interval_over_draws
from .scenario import LargeCommands
from .timeline import Timed, base_latency_s, place_of, placed, timeline
from .work import Chosen


@dataclass(frozen=True)
class RunIntervals:
    """95% intervals of what a run says.

    Attributes
    ----------
    timed
        Its commands at the nominal numbers.
    drawn
        The same at draws of all that is uncertain.
    chosen
        Whose work they do.
    """

    timed: Sequence[Timed]
    drawn: Sequence[Sequence[Timed]]
    chosen: Chosen

    def main_thread(self, quantity: Callable[[Sequence[Timed]], float]) -> Estimate:
        """A time of the main thread, in the unit of the function that reads it off commands."""
        return self._over(quantity, self.chosen.work.errors.main_thread)

    def lasts(self, quantity: Callable[[Sequence[Timed]], float]) -> Estimate:
        """A time that the client sees."""
        return self._over(quantity, self.chosen.work.errors.lasts)

    def _over(self, quantity: Callable[[Sequence[Timed]], float], own: RelativeError) -> Estimate:
        return interval_over_draws(
            quantity(self.timed),
            [quantity(each) for each in self.drawn],
            error=model_error(own, self.chosen),
        )

    def ends(self, scenario: LargeCommands) -> list[list[Timed]]:
        """The commands as quick and as slow as the interval of the main thread's time has them."""
        spent = self.main_thread(main_thread_s)
        return [
            placed(scenario, [t.lasting.slower(end / spent.value) for t in self.timed])
            for end in (spent.low, spent.high)
        ]


def main_thread_s(timed: Sequence[Timed]) -> float:
    """CPU time of the main thread for all commands."""
    return sum(t.lasting.main_thread_ns for t in timed) / 1e9


def model_error(own: RelativeError, chosen: Chosen) -> float:
    """Half width of the 95% interval of the model's own error, of the logarithm."""
    unchecked = Z95 * UNCHECKED_DISCREPANCY
    return math.hypot(own.half_width, unchecked, 0.0 if chosen.counted else unchecked)


def run_intervals(
    scenario: LargeCommands, timed: Sequence[Timed], chosen: Chosen, *, seed: int
) -> RunIntervals:
    """The intervals of a run, with the draws of a seed."""
    drawn = [
        timeline(scenario, place_of(scenario, draw=Draw(seed, number))[0])
        for number in range(DRAWS)
    ]
    return RunIntervals(timed, drawn, chosen)


def base_latency_interval(scenario: LargeCommands, *, seed: int) -> Estimate:
    """Latency in s of one of the others' requests that nothing delays, with its interval."""
    return interval_over_draws(
        base_latency_s(scenario),
        [base_latency_s(scenario, draw=Draw(seed, number)) for number in range(DRAWS)],
        error=Z95 * UNCHECKED_DISCREPANCY,
    )
