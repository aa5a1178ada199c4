"""A design evaluated by simulation or by a surrogate, and the indices that follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from forecache.sim.statistics import Estimate

from ...prediction.predict import Prediction
from ..effects import log_changes, ridge_elasticities
from ..throughput_bound import ThroughputBound, service_times_us, throughput_bound
from .indices import Design, Values, elementary_effects, ranked, total_order
from .numbers import UncertainInputs
from .results import ElementaryEffects, Indices, InputIndex

Evaluate = Callable[[np.ndarray, Sequence[int]], np.ndarray]
"""(rows,) values by (rows, numbers) steps, and which random numbers each row's run has."""

REST = "all others"

_NOTHING = 1e-9
"""Standard deviation of a logarithm that is none."""


@dataclass(frozen=True)
class InputGroup:
    """Numbers whose index is told together.

    Attributes
    ----------
    tried
        Their values, of a choice.
    """

    name: str
    numbers: list[int]
    tried: list[Any] | None = None


@dataclass(frozen=True)
class Evaluated:
    """Logarithms of a quantity at all points of a design; infinite under overload.

    Attributes
    ----------
    steps : (2 * rows, numbers)
        Of the two independent samples, one after the other.
    values
        At all points.
    chance : (rows,)
        Of the first sample with other random numbers; None where there are none.
    """

    steps: np.ndarray
    values: Values
    chance: np.ndarray | None

    @property
    def runs(self) -> int:
        """Evaluations that it took."""
        extra = 0 if self.chance is None else len(self.chance)
        return len(self.steps) + self.values.anew.size + extra

    @property
    def independent(self) -> np.ndarray:
        """(2 * rows,) values of the two samples."""
        return np.concatenate([self.values.first, self.values.second])


def evaluated(
    design: Design, groups: Sequence[InputGroup], evaluate: Evaluate, *, chance: bool
) -> Evaluated:
    """Evaluate a design. All points of a row have the same random numbers.

    So chance is no part of the difference that a number makes, but for what it changes in the
    effect of that number.

    Parameters
    ----------
    chance
        Whether values depend on random numbers: then these are one input more.
    """
    count = len(design.first)
    rows, others = range(count), range(count, 2 * count)
    first, second = design.steps(design.first), design.steps(design.second)
    anew = [evaluate(design.drawn_anew(group.numbers), rows) for group in groups]
    return Evaluated(
        steps=np.concatenate([first, second]),
        values=Values(
            evaluate(first, rows), evaluate(second, rows), np.array(anew).reshape(-1, count)
        ),
        chance=evaluate(first, others) if chance else None,
    )


@dataclass(frozen=True)
class StandIn:
    """A surrogate at the points of a design, and what its indices are over many more."""

    values: Values
    known: np.ndarray


def indices_of(
    found: Evaluated,
    groups: Sequence[InputGroup],
    *,
    basis: Literal["simulation", "surrogate"],
    seed: int,
    stand_in: StandIn | None = None,
    screened: Sequence[ElementaryEffects] = (),
    screening_runs: int = 0,
    inert: int = 0,
) -> Indices:
    """The indices of an evaluated design, the largest first and what stands for the rest last.

    Parameters
    ----------
    seed
        Of the bootstrap.
    stand_in
        Narrows the intervals; not of ranks.
    """
    finite = np.isfinite(found.independent)
    values = _with_chance(found.values, found.chance)
    ranks = not np.isfinite([*values.first, *values.second, *values.anew.ravel()]).all()
    if ranks:
        values = Values(*ranked(values.first, values.second, values.anew))
    totals: list[Estimate] = []
    if groups and np.std([*values.first, *values.second]) > _NOTHING:
        if stand_in is None or ranks:
            totals = total_order(values, seed=seed)
        else:
            none = None if found.chance is None else stand_in.values.first
            known = stand_in.known if none is None else np.append(stand_in.known, 0.0)
            same = _with_chance(stand_in.values, none)
            totals = total_order(values, seed=seed, stand_in=same, known=known)
    indices = [
        InputIndex(name=group.name, inputs=len(group.numbers), total=total, tried=group.tried)
        for group, total in zip(groups, totals, strict=False)
    ]
    return Indices(
        basis=basis,
        spread=float(np.std(found.independent[finite])) if finite.any() else 0.0,
        indices=sorted(indices, key=lambda each: (each.name == REST, -each.total.value)),
        chance=totals[-1] if totals and found.chance is not None else None,
        ranks=ranks,
        overloaded=float(1.0 - finite.mean()),
        samples=len(values.first),
        runs=found.runs + screening_runs,
        inert=inert,
        screened=list(screened),
    )


def no_indices(*, inert: int) -> Indices:
    """Where there is nothing to vary."""
    return Indices(
        basis="simulation",
        spread=0.0,
        indices=[],
        chance=None,
        ranks=False,
        overloaded=0.0,
        samples=0,
        runs=0,
        inert=inert,
        screened=[],
    )


def _with_chance(values: Values, chance: np.ndarray | None) -> Values:
    """Values with chance as one group more, the last."""
    if chance is None:
        return values
    return Values(values.first, values.second, np.vstack([values.anew, chance]))


def screening(
    design: Design, names: Sequence[str], evaluate: Evaluate
) -> tuple[list[ElementaryEffects], np.ndarray]:
    """Morris's elementary effects of every number, and (numbers,) their mean squares."""
    rows, count = len(design.first), len(names)
    moved = [design.stepped(number) for number in range(count)]
    steps = [design.steps(design.first), *(each for each, _ in moved)]
    values = evaluate(np.concatenate(steps), [*range(rows)] * (count + 1))
    if not np.isfinite(values).all():
        [values] = ranked(values)
    values = values.reshape(count + 1, rows)
    effects = elementary_effects(values[0], values[1:], np.array([signs for _, signs in moved]))
    found = [
        ElementaryEffects(name, float(np.mean(np.abs(row))), float(np.std(row, ddof=1)))
        for name, row in zip(names, effects, strict=True)
    ]
    return found, np.asarray(np.mean(effects**2, axis=1))


# --- what stands in for a simulation --------------------------------------------------------------

# What stands in for a simulation: the bounds of the stations, and a regression of the rest.
#
# It is made from the draws that a prediction has anyway, as `effects` is, and takes microseconds.


_STEP = 0.1
"""Of a standard error: how far a number is moved to see what it does to service times."""

_FEWEST_DRAWS = 4


@dataclass(frozen=True)
class BoundSurrogate:
    """The logarithm of a quantity, up to a constant, from steps of the uncertain numbers.

    Attributes
    ----------
    moves : (numbers, resources)
        What a step of one does to the logarithms of service times.
    elasticities : (resources,)
        Of what the bound leaves.
    bound
        None for a latency, which has none.
    unexplained
        Share of the variance over draws that it misses, each left out of the fit in turn.
    """

    moves: np.ndarray
    elasticities: np.ndarray
    bound: ThroughputBound | None
    unexplained: float

    def at(self, steps: np.ndarray, _: Sequence[int] = ()) -> np.ndarray:
        """`values`, as simulations are asked; there are no random numbers to choose."""
        return self.values(steps)

    def values(self, steps: np.ndarray) -> np.ndarray:
        """(rows,) by (rows, numbers) steps."""
        changes = steps @ self.moves
        bound = 0.0 if self.bound is None else self.bound.logs(changes)
        return np.asarray(bound + changes @ self.elasticities)


def surrogate_of(inputs: UncertainInputs, *, metric: str, seed: int) -> BoundSurrogate:
    """The surrogate of a prediction, from its draws.

    Parameters
    ----------
    seed
        Of these draws.
    """
    prediction: Prediction = inputs.prediction
    scenario, system = prediction.case.scenario, prediction.system
    nominal_us = service_times_us(prediction, system.inputs(scenario))

    def moved(name: str, error: float) -> np.ndarray:
        numbers = system.numbers_at({name: _STEP * error})
        times_us = service_times_us(prediction, system.inputs_of(scenario, numbers))
        return log_changes(times_us, nominal_us) / (_STEP * error)

    pairs = zip(inputs.names, inputs.errors.tolist(), strict=True)
    moves = np.array([moved(name, error) for name, error in pairs]).reshape(-1, len(nominal_us))
    logs = prediction.log_draws(metric)
    kept = np.isfinite(logs)
    bound = throughput_bound(prediction, nominal_us) if metric == "throughput_rps" else None
    if np.count_nonzero(kept) < _FEWEST_DRAWS:
        return BoundSurrogate(moves, np.zeros(len(nominal_us)), bound, 1.0)
    changes = np.array(
        [
            log_changes(
                service_times_us(prediction, system.inputs(scenario, draw=n, seed=seed)), nominal_us
            )
            for n in np.flatnonzero(kept).tolist()
        ]
    )
    left = logs[kept] - (0.0 if bound is None else bound.logs(changes))
    elasticities, missed = ridge_elasticities(changes, left)
    return BoundSurrogate(
        moves, elasticities, bound, min(1.0, missed / max(1e-18, np.var(logs[kept])))
    )
