"""What is answered about the inputs that move an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from forecache.sim.plain import Result
from forecache.sim.statistics import Estimate

from ..next_measurement import MeasureNext


@dataclass(frozen=True)
class ElementaryEffects(Result):
    """What Morris's screening found of one input."""

    name: str
    mean_absolute: float
    """Mean size of what one standard error of it does to the logarithm of the quantity."""
    spread: float
    """Standard deviation of that, sign included: large where it depends on other inputs."""


@dataclass(frozen=True)
class InputIndex(Result):
    """The total-order Sobol index of an input, or of several together."""

    name: str
    """As `numbers` calls it, or as the scenario calls the field; `all others` of several."""
    inputs: int
    """How many inputs it stands for."""
    total: Estimate
    """Share of the variance that remains when all other inputs are known, with a 95% interval."""
    tried: list[Any] | None
    """The values of a choice that were tried, each as often; None of an uncertain number."""


@dataclass(frozen=True)
class Indices(Result):
    """Total-order Sobol indices of one set of inputs, the largest first."""

    basis: Literal["simulation", "surrogate"]
    """What was evaluated: simulations, or bounds and a regression where those take too long."""
    spread: float
    """Standard deviation of the logarithm of the quantity while all these inputs vary."""
    indices: list[InputIndex]
    chance: Estimate | None
    """Index of the random numbers of a run, which is the most that chance adds to any index;
    None of a surrogate, which has none."""
    ranks: bool
    """The indices are of the quantity's rank: the server is overloaded at some inputs, and latency
    is without bound there."""
    overloaded: float
    """Share of the runs in which it is."""
    samples: int
    """Rows of the design: pairs of points whose difference an index is made of."""
    runs: int
    """Simulations or evaluations, screening included."""
    inert: int
    """Inputs that change no duration of this scenario."""
    screened: list[ElementaryEffects]
    """What the screening found, the largest first; empty where there was none."""


@dataclass(frozen=True)
class Sensitivity(Result):
    """Which inputs move an answer: uncertain numbers and, apart, what the user can choose."""

    quantity: Literal["throughput_rps", "p99_ms"]
    at: dict[str, object]
    """The point whose numbers are varied: its swept fields."""
    uncertain: Indices
    surrogate_unexplained: float
    """Share of the quantity's variance, from uncertain numbers, that the surrogate (asymptotic
    bounds and a regression) does not tell: at runs it has not seen."""
    choices: Indices | None
    """None where simulating them would take too long."""
    measure_next: MeasureNext
    """Which measurement would narrow this quantity most, by the same runs."""
