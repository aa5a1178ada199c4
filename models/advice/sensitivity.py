"""Which inputs move an answer: Sobol indices of uncertain numbers and of what a user can choose.

`sobol.py` says at which inputs to run and what follows from the runs, of any function. Here are the
inputs of a node (`UncertainInputs`, `ChoiceInputs`), its simulations, and what takes their place
where they take too long (`BoundSurrogate`): the bounds of the stations and a regression of what
these leave, made from the draws that a prediction has anyway, as `effects` is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError
from scipy.special import ndtr

from forecache.sim.effort import check_work
from forecache.sim.errors import InputError
from forecache.sim.executors import Submitted
from forecache.sim.plain import Result
from forecache.sim.processes import usable_cores
from forecache.sim.statistics import Estimate

from ..engines.commands import (
    ALL_COMMANDS,
    COMMAND_WORK,
    check_bytes_on_the_way,
    command_kinds,
    executed_kinds,
    work_terms,
)
from ..prediction.node_setup import node_setup
from ..prediction.predict import DRAW_REQUESTS, LATENCIES, Prediction, Progress, brief_run
from ..prediction.run_length import Pilot, run_s
from ..prediction.simulation import pilot_run, times_near, times_of
from ..prediction.system import System
from ..prediction.uncertainty import title_of
from ..scenario.schema import Scenario
from ..scenario.sweeps import Case
from ..scenario.workload import Workload
from ..step_times.inputs import NodeInputs
from .cases import thread_candidates
from .effects import (
    SMALL_STEP,
    Part,
    ThroughputBound,
    deciding_metric,
    fit_draws,
    log_changes,
    service_times_us,
    uncertain_numbers,
)
from .next_measurement import MeasureNext, next_measurement
from .sobol import (
    ControlVariate,
    Design,
    Evaluate,
    Evaluations,
    elementary_effects,
    evaluate_design,
    total_order,
)

MOST_S = 90.0
"""Seconds of one core that the runs of one set of inputs may take, as estimated."""

SAMPLES = (512, 256, 128, 64)
"""Rows of a design of simulations: the most that can be had within `MOST_S`."""

SURROGATE_SAMPLES = 8192
SCREENING_ROWS = 8

MOST_INPUTS = 12
"""So many inputs need no screening, and at most as many are kept by it."""

LEAST_SHARE = 0.01
"""Of the sum of mean squared elementary effects, or of the surrogate's indices, what an input needs
to be kept. All that are not kept are one more input together, so that nothing is lost."""

REST = "all others"

_PILOTS = 3.0
"""Times as long as a run a choice takes: it has a pilot run of its own, and may be larger."""

_FEWEST_EACH = 2
"""Values for each number of a linear regression, at least."""

_FEWEST_DRAWS = 4
"""Of a regression over draws, at least."""

_NO_SPREAD = 1e-9
"""Standard deviation of a logarithm that is none."""

_ROWS_PER_CALL = 8
"""Runs that a worker makes in one call."""

_ENDS = (-1.96, 1.96)
"""Standard errors at which a number is tried for whether it does anything."""

_PART_OF: dict[Part, str] = {"speed": "host", "work": "work", "generator": "generator"}


# --- what is answered -----------------------------------------------------------------------------


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


def find_sensitivity(
    prediction: Prediction,
    points: Sequence[PointOf],
    *,
    seed: int,
    executor: Executor,
    progress: Progress | None = None,
) -> Sensitivity:
    """Which inputs move a prediction, told by simulation or, where it takes long, a surrogate.

    Parameters
    ----------
    prediction
        Of one point, with draws.
    points
        All points of its scenario, for the ranges of what a user can choose.
    seed
        Of the prediction, and of all runs.
    executor
        Where to simulate.
    """
    uncertain, unexplained, moves = uncertain_indices(
        prediction, seed=seed, executor=executor, progress=progress
    )
    choices = ChoiceInputs.of(points, (prediction.case, prediction.system))
    return Sensitivity(
        quantity="throughput_rps" if deciding_metric(prediction) == "throughput_rps" else "p99_ms",
        at=dict(prediction.case.given),
        uncertain=uncertain,
        surrogate_unexplained=unexplained,
        choices=_choice_indices(
            choices, prediction, seed=seed, executor=executor, progress=progress
        ),
        measure_next=next_measurement(prediction, [], seed=seed, moves=moves),
    )


# --- uncertain numbers ----------------------------------------------------------------------------


@dataclass(frozen=True)
class UncertainInputs:
    """The uncertain numbers that change some duration or rule of a scenario.

    Attributes
    ----------
    names
        As draws call them.
    covariance : (numbers, numbers)
        Of their steps, in the units of `System.numbers_at`.
    inert
        How many others there are.
    """

    prediction: Prediction
    pilot: Pilot
    names: list[str]
    covariance: np.ndarray
    inert: int

    @staticmethod
    def of(prediction: Prediction) -> UncertainInputs:
        """Those of a prediction that was simulated."""
        pilot, system = prediction.pilot, prediction.system
        assert pilot is not None
        names, covariance = system.uncertain_steps()
        nominal = _durations(prediction, {}, pilot)
        # Most of the table's commands are not asked for: what they take changes nothing.
        kinds = command_kinds(prediction.case.scenario)
        unused = {f"work.{each}" for each in {*COMMAND_WORK} - {*ALL_COMMANDS}}
        used = {each for kind in (*kinds, *executed_kinds(kinds)) for each in work_terms(kind)}
        unused -= {f"work.{each}" for each in used}
        live = [
            index
            for index, name in enumerate(names)
            if name not in unused
            and any(
                not _equal(_durations(prediction, {name: end * error}, pilot), nominal)
                for error in [math.sqrt(covariance[index, index])]
                for end in _ENDS
            )
        ]
        return UncertainInputs(
            prediction,
            pilot,
            [names[index] for index in live],
            covariance[np.ix_(live, live)],
            len(names) - len(live),
        )

    @property
    def titles(self) -> list[str]:
        """The names as answers call them."""
        return [title_of(name) for name in self.names]

    @property
    def errors(self) -> np.ndarray:
        """(numbers,) standard errors, in the units of their steps."""
        return np.sqrt(np.diag(self.covariance))

    def simulated(
        self,
        steps: np.ndarray,
        replications: Sequence[int],
        *,
        metric: str,
        seed: int,
        executor: Executor,
    ) -> np.ndarray:
        """(rows,) logarithm of a metric by simulation; a latency under overload is infinite.

        Parameters
        ----------
        steps : (rows, numbers)
        replications : (rows,)
            Which random numbers each run has.
        """
        scenario, system = self.prediction.case.scenario, self.prediction.system
        rows = [
            (dict(zip(self.names, row, strict=True)), number)
            for row, number in zip(steps.tolist(), replications, strict=True)
        ]
        return _in_batches(
            _at_numbers, rows, scenario, system, self.pilot, metric, seed, executor=executor
        )


def _durations(
    prediction: Prediction, steps: dict[str, float], pilot: Pilot
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """All that a run depends on of the numbers."""
    system: System = prediction.system
    inputs: NodeInputs = system.inputs_of(prediction.case.scenario, system.numbers_at(steps))
    setup = node_setup(inputs, warmup_ps=1, end_ps=10**9, seed=1, replication=0)
    return times_near(inputs, pilot), setup


def _equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(
        np.array_equal(a, b)
        for x, y in zip(one, other, strict=True)
        for a, b in zip(x, y, strict=True)
    )


def uncertain_indices(
    prediction: Prediction, *, seed: int, executor: Executor, progress: Progress | None = None
) -> tuple[Indices, float, np.ndarray | None]:
    """Indices of the uncertain numbers; parameters as of `find_sensitivity`.

    Returns
    -------
    tuple
        The indices; the share of the variance that the surrogate misses; and (numbers,) what one
        standard error of each of `uncertain_numbers` does to the logarithm of the quantity, by
        linear regression over the same runs: None where too few of them are finite, or nothing was
        simulated.
    """
    metric = deciding_metric(prediction)
    inputs = UncertainInputs.of(prediction)
    if not inputs.names:
        return _no_indices(inert=inputs.inert), 0.0, None
    surrogate = fit_surrogate(inputs, metric=metric, seed=seed)

    def evaluate(steps: np.ndarray, numbers: Sequence[int]) -> np.ndarray:
        return inputs.simulated(steps, numbers, metric=metric, seed=seed, executor=executor)

    groups = min(len(inputs.names), MOST_INPUTS) + 1
    rows = _rows(groups, each_s=_run_s(prediction), about="uncertain numbers", progress=progress)
    if not rows:
        single = _single(inputs.titles)
        found = _by_surrogate(inputs, surrogate, single, seed=seed)
        indices = input_indices(found, single, basis="surrogate", seed=seed, inert=inputs.inert)
        return indices, surrogate.unexplained, None
    indices, found = _simulated(inputs, evaluate, surrogate, rows=rows, seed=seed)
    return indices, _unexplained(surrogate, found), _moves(inputs, found)


def _run_s(prediction: Prediction) -> float:
    """Seconds of one core that one run takes, as estimated."""
    assert prediction.pilot is not None
    nominal = prediction.system.inputs(prediction.case.scenario)
    return run_s(nominal, prediction.pilot, requests=DRAW_REQUESTS, brief=True)


def _rows(groups: int, *, each_s: float, about: str, progress: Progress | None) -> int:
    """Rows of a design that there is time to simulate; 0 for too few. Says how long it takes."""
    for rows in SAMPLES:
        runs = rows * (groups + 3)
        if runs * each_s <= MOST_S:
            check_work(
                runs * each_s,
                f"sensitivity to {about}, {runs:,} runs",
                smaller="a scenario that takes less",
                progress=progress,
                workers=usable_cores(),
            )
            return rows
    return 0


def _simulated(
    inputs: UncertainInputs, evaluate: Evaluate, surrogate: BoundSurrogate, *, rows: int, seed: int
) -> tuple[Indices, Evaluations]:
    """Indices of uncertain numbers by simulation, those that do little together."""
    count = len(inputs.names)
    kept, screened, screening_runs = list(range(count)), list[ElementaryEffects](), 0
    if count > MOST_INPUTS:
        # Points of its own, so that what is kept does not depend on the luck of the indices.
        design = Design.of(inputs.covariance, rows=SCREENING_ROWS, seed=seed + 1)
        screened, squares = screening(design, inputs.titles, evaluate)
        # What matters in few places may be in none of the screening's; the surrogate knows it.
        known = _by_surrogate(inputs, surrogate, _single(inputs.titles), seed=seed).totals()
        shares = np.maximum(_shares(squares), _shares(known))
        largest = np.argsort(-shares)[:MOST_INPUTS]
        kept = sorted(i for i in largest.tolist() if shares[i] >= LEAST_SHARE)
        screened.sort(key=lambda each: -each.mean_absolute)
        screening_runs = SCREENING_ROWS * (count + 1)
    groups = [InputGroup(inputs.titles[number], [number]) for number in kept]
    if len(kept) < count:
        groups.append(InputGroup(REST, [number for number in range(count) if number not in kept]))
    design = Design.of(inputs.covariance, rows=rows, seed=seed)
    numbers = [group.numbers for group in groups]
    found = evaluate_design(design, numbers, evaluate, chance=True)
    control = ControlVariate(
        evaluate_design(design, numbers, surrogate.values, chance=False).without_chance(),
        np.append(_by_surrogate(inputs, surrogate, groups, seed=seed).totals(), 0.0),
    )
    indices = input_indices(
        found,
        groups,
        basis="simulation",
        seed=seed,
        control=control,
        screened=screened,
        screening_runs=screening_runs,
        inert=inputs.inert,
    )
    return indices, found


def _single(titles: Sequence[str]) -> list[InputGroup]:
    return [InputGroup(title, [number]) for number, title in enumerate(titles)]


def _shares(values: np.ndarray) -> np.ndarray:
    return values / max(np.finfo(float).tiny, values.sum())


def _by_surrogate(
    inputs: UncertainInputs, surrogate: BoundSurrogate, groups: Sequence[InputGroup], *, seed: int
) -> Evaluations:
    """The surrogate at the many points that it has time for."""
    design = Design.of(inputs.covariance, rows=SURROGATE_SAMPLES, seed=seed + 2)
    return evaluate_design(
        design, [group.numbers for group in groups], surrogate.values, chance=False
    )


def screening(
    design: Design, names: Sequence[str], evaluate: Evaluate
) -> tuple[list[ElementaryEffects], np.ndarray]:
    """Morris's elementary effects of every number, and (numbers,) their mean squares."""
    effects = elementary_effects(design, evaluate)
    found = [
        ElementaryEffects(name, float(np.mean(np.abs(row))), float(np.std(row, ddof=1)))
        for name, row in zip(names, effects, strict=True)
    ]
    return found, np.asarray(np.mean(effects**2, axis=1))


def _unexplained(surrogate: BoundSurrogate, found: Evaluations) -> float:
    """Share of the variance of simulations that a surrogate made from others misses."""
    values = found.independent
    finite = np.isfinite(values)
    if np.count_nonzero(finite) < _FEWEST_EACH:
        return 1.0
    missed = values[finite] - surrogate.values(found.steps[finite])
    return min(1.0, float(np.var(missed) / max(np.finfo(float).tiny, np.var(values[finite]))))


def _moves(inputs: UncertainInputs, found: Evaluations) -> np.ndarray | None:
    """(numbers,) what one standard error of each of `uncertain_numbers` does, by regression.

    None where too few values are finite: `effects` tells it from the draws then.
    """
    finite = np.isfinite(found.independent)
    scaled = found.steps[finite] / inputs.errors
    if len(scaled) < _FEWEST_EACH * (1 + len(inputs.names)):
        return None
    columns = np.column_stack([np.ones(len(scaled)), scaled])
    slopes = np.linalg.lstsq(columns, found.independent[finite], rcond=None)[0][1:]
    known = dict(zip(inputs.names, slopes.tolist(), strict=True))
    numbers = uncertain_numbers(inputs.prediction.system)
    return np.array([known.get(f"{_PART_OF[each.part]}.{each.name}", 0.0) for each in numbers])


# --- what a user can choose -----------------------------------------------------------------------

_FACTOR = 4
"""A field that is not swept is tried from this much less to this much more."""

_VALUES = 17
"""Values of such a range, in equal ratios."""

_LOAD = {"rate_rps": (0.5, 1.25)}
"""A given rate: a server has little beyond twice what it is asked for."""

_FIELDS = ("clients", "pipeline", "value_bytes", "keys", "rate_rps")

PointOf = tuple[Case[Scenario], System]


@dataclass(frozen=True)
class ChoiceInput:
    """A field, and the values that it may have, each as likely as any other.

    `swept` is whether the scenario itself lists them.
    """

    name: str
    values: list[Any]
    swept: bool


@dataclass(frozen=True)
class ChoiceInputs:
    """All fields that are varied, about one point of a scenario."""

    inputs: list[ChoiceInput]
    base: PointOf
    swept: dict[tuple[str, ...], PointOf]
    """The scenario's own points, by the values of what it sweeps."""

    @staticmethod
    def of(points: Sequence[PointOf], base: PointOf) -> ChoiceInputs:
        """Those of a scenario's points, `base` among them."""
        names = list(points[0][0].given)
        swept = []
        for name in names:
            values = list({repr(c.given[name]): c.given[name] for c, _ in points}.values())
            swept.append(ChoiceInput(name, values, swept=True))
        by_values = {_key(case.given, names): (case, system) for case, system in points}
        if not names:
            by_values = {(): base}
        about = [each for each in _ranges(*base) if each.name not in names]
        return ChoiceInputs([*swept, *about], base, by_values)

    def point(self, shares: Sequence[float]) -> PointOf:
        """Scenario and system at shares, from 0 to 1, of each input's values."""
        chosen = {
            each.name: each.values[min(int(share * len(each.values)), len(each.values) - 1)]
            for each, share in zip(self.inputs, shares, strict=True)
        }
        names = [each.name for each in self.inputs if each.swept]
        case, system = self.swept[_key(chosen, names)] if names else self.base
        others = {each.name: chosen[each.name] for each in self.inputs if not each.swept}
        return Case(given=chosen, scenario=_with(case.scenario, others)), system

    def simulated(
        self,
        steps: np.ndarray,
        replications: Sequence[int],
        *,
        metric: str,
        seed: int,
        executor: Executor,
    ) -> np.ndarray:
        """(rows,) logarithm of a metric; a latency under overload is infinite.

        Parameters
        ----------
        steps : (rows, inputs)
            Normal numbers.
        replications : (rows,)
            Which random numbers each run has.
        """
        points = [self.point(row) for row in ndtr(steps).tolist()]
        rows = [
            (case.scenario, system, number)
            for (case, system), number in zip(points, replications, strict=True)
        ]
        return _in_batches(_at_choices, rows, metric, seed, executor=executor)


def _key(given: dict[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(repr(given[name]) for name in names)


def _with(scenario: Scenario, fields: dict[str, Any]) -> Scenario:
    """A scenario with other values of `io_threads` and fields of the workload."""
    own = {name: value for name, value in fields.items() if name == "io_threads"}
    others = {name: value for name, value in fields.items() if name != "io_threads"}
    return scenario.model_copy(update=own).with_workload(**others)


def _ranges(case: Case[Scenario], system: System) -> list[ChoiceInput]:
    """Ranges about a point; of its thread counts, those that `recommend` would compare."""
    scenario, workload = case.scenario, case.scenario.workload
    counts = [each.scenario.io_threads for each, _ in thread_candidates(case, system)]
    found = [ChoiceInput("io_threads", counts, swept=False)] if len(counts) > 1 else []
    largest = scenario
    for name in _FIELDS:
        value = getattr(workload, name)
        # A pipeline is a closed loop's; sizes with a distribution have no one value.
        closed = workload.arrival == "closed_loop"
        if not isinstance(value, int | float) or (name == "pipeline" and not closed):
            continue
        low, high = _LOAD.get(name, (1.0 / _FACTOR, float(_FACTOR)))
        values = np.geomspace(max(1.0, value * low), max(1.0, value * high), _VALUES)
        chosen = sorted({round(each) for each in values.tolist()})
        try:
            # Together they may be more than can be under way.
            more = _with(largest, {name: chosen[-1]})
            Workload.model_validate(more.workload.model_dump())
            check_bytes_on_the_way(more)
            largest = more
        except (InputError, ValidationError):
            chosen = [each for each in chosen if each <= value]
        if len(chosen) > 1:
            found.append(ChoiceInput(name, chosen, swept=False))
    return found


def _choice_indices(
    choices: ChoiceInputs,
    prediction: Prediction,
    *,
    seed: int,
    executor: Executor,
    progress: Progress | None,
) -> Indices | None:
    """Indices of what a user can choose, at the nominal numbers; None where that takes too long."""
    metric = deciding_metric(prediction)
    if not choices.inputs:
        return _no_indices(inert=0)

    def evaluate(steps: np.ndarray, numbers: Sequence[int]) -> np.ndarray:
        return choices.simulated(steps, numbers, metric=metric, seed=seed, executor=executor)

    each_s = _PILOTS * _run_s(prediction)
    rows = _rows(len(choices.inputs), each_s=each_s, about="choices", progress=progress)
    if not rows:
        return None
    groups = [InputGroup(each.name, [n], each.values) for n, each in enumerate(choices.inputs)]
    design = Design.of(np.eye(len(groups)), rows=rows, seed=seed)
    found = evaluate_design(design, [group.numbers for group in groups], evaluate, chance=True)
    return input_indices(found, groups, basis="simulation", seed=seed)


# --- runs, and indices that follow from them ------------------------------------------------------


def _in_batches(
    function: Callable[..., list[float]],
    rows: Sequence[Any],
    *others: Any,
    executor: Executor,
) -> np.ndarray:
    """(rows,) what a function of some rows and other arguments returns, some rows to a call."""
    with Submitted(executor) as calls:
        pending = [
            calls.submit(function, rows[start : start + _ROWS_PER_CALL], *others)
            for start in range(0, len(rows), _ROWS_PER_CALL)
        ]
        return np.array([value for future in pending for value in future.result()])


def _at_numbers(
    rows: Sequence[tuple[dict[str, float], int]],
    scenario: Scenario,
    system: System,
    pilot: Pilot,
    metric: str,
    seed: int,
) -> list[float]:
    found = []
    for steps, replication in rows:
        inputs = system.inputs_of(scenario, system.numbers_at(steps))
        found.append(_log_of_run(inputs, pilot, metric, seed=seed, replication=replication))
    return found


def _at_choices(
    rows: Sequence[tuple[Scenario, System, int]], metric: str, seed: int
) -> list[float]:
    found = []
    for scenario, system, replication in rows:
        inputs = system.inputs(scenario)
        pilot = pilot_run(inputs, times_of(inputs), seed=seed)
        found.append(_log_of_run(inputs, pilot, metric, seed=seed, replication=replication))
    return found


def _log_of_run(
    inputs: NodeInputs, pilot: Pilot, metric: str, *, seed: int, replication: int
) -> float:
    """Logarithm of a metric of one brief run; a latency under overload is infinite."""
    metrics = brief_run(inputs, pilot, seed=seed, replication=replication)
    if metric in LATENCIES and metrics.overloaded:
        return math.inf
    return math.log(max(metrics.values[metric], 1e-12))


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


def input_indices(
    found: Evaluations,
    groups: Sequence[InputGroup],
    *,
    basis: Literal["simulation", "surrogate"],
    seed: int,
    control: ControlVariate | None = None,
    screened: Sequence[ElementaryEffects] = (),
    screening_runs: int = 0,
    inert: int = 0,
) -> Indices:
    """The indices of an evaluated design, the largest first and what stands for the rest last.

    Parameters
    ----------
    found
        Logarithms of a quantity, infinite under overload; of simulations with chance.
    seed
        Of the bootstrap.
    control
        Narrows the intervals; not of ranks.
    """
    finite = np.isfinite(found.independent)
    ranked = not found.finite
    values = found.ranked() if ranked else found
    totals: list[Estimate] = []
    if groups and np.std(values.independent) > _NO_SPREAD:
        totals = total_order(values, seed=seed, control=None if ranked else control)
    indices = [
        InputIndex(name=group.name, inputs=len(group.numbers), total=total, tried=group.tried)
        for group, total in zip(groups, totals, strict=False)
    ]
    return Indices(
        basis=basis,
        spread=float(np.std(found.independent[finite])) if finite.any() else 0.0,
        indices=sorted(indices, key=lambda each: (each.name == REST, -each.total.value)),
        chance=totals[-1] if totals and basis == "simulation" else None,
        ranks=ranked,
        overloaded=float(1.0 - finite.mean()),
        samples=len(values.first),
        runs=len(found.steps) + found.redrawn.size + screening_runs,
        inert=inert,
        screened=list(screened),
    )


def _no_indices(*, inert: int) -> Indices:
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


# --- what stands in for a simulation --------------------------------------------------------------


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

    def values(self, steps: np.ndarray, _: Sequence[int] = ()) -> np.ndarray:
        """(rows,) by (rows, numbers) steps; there are no random numbers to choose."""
        changes = steps @ self.moves
        bound = 0.0 if self.bound is None else self.bound.logs(changes)
        return np.asarray(bound + changes @ self.elasticities)


def fit_surrogate(inputs: UncertainInputs, *, metric: str, seed: int) -> BoundSurrogate:
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
        numbers = system.numbers_at({name: SMALL_STEP * error})
        times_us = service_times_us(prediction, system.inputs_of(scenario, numbers))
        return log_changes(times_us, nominal_us) / (SMALL_STEP * error)

    pairs = zip(inputs.names, inputs.errors.tolist(), strict=True)
    moves = np.array([moved(name, error) for name, error in pairs]).reshape(-1, len(nominal_us))
    bound, elasticities, unexplained = fit_draws(
        prediction, metric, nominal_us, seed=seed, fewest=_FEWEST_DRAWS
    )
    if elasticities is None:
        elasticities = np.zeros(len(nominal_us))
    return BoundSurrogate(moves, elasticities, bound, unexplained)
