"""Check a prediction against a measurement: `check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import named
from forecache.models.advice.answers import ScenarioSource, load_cases, point_of
from forecache.models.advice.conditioning import MeasuredValue, updated
from forecache.models.advice.limits import limits_of
from forecache.models.advice.next_measurement import MEASURED_ERROR, next_measurement
from forecache.models.advice.node_answers import summary_of
from forecache.models.prediction.predict import Prediction, Progress, predict_cases
from forecache.models.prediction.system import System
from forecache.models.results.provenance import provenance
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case
from forecache.sim.errors import InputError

from .answers import CheckAnswer, ComparedQuantity, ConditionGap, UpdatedPoint
from .causes import CONDITIONS, NETWORK, OTHER_PROGRAMS, FoundCauses, Gap, with_cause
from .compare import KEYS_TOLERANCE, MIX, compared, differences, measured_engine, standard_errors
from .files import read_measured
from .live import LiveRun, run_live
from .measured import Measured

LEAST_TO_BELIEVE = 0.5
"""Share of the gap that a measured cause has to explain to become part of the updated
prediction."""

_OUTER = {
    CONDITIONS: "under the measured conditions",
    NETWORK: "with the bandwidth that was measured",
    OTHER_PROGRAMS: "with other programs on its cores",
}
"""Causes that are none of the uncertain numbers. Of the others, the speeds of the server and of the
load generator, a measurement tells the numbers themselves."""


def check(
    scenario: ScenarioSource,
    files: Sequence[str | Path] = (),
    *,
    info: tuple[str | Path, str | Path] | None = None,
    live: LiveRun | None = None,
    at: Mapping[str, Any] | None = None,
    only: Sequence[str] = (),
    seed: int = 1,
    progress: Progress | None = None,
) -> CheckAnswer:
    """Compare what was measured at one point of a scenario with its prediction.

    Parameters
    ----------
    files
        What tools wrote, or plain numbers; several are repetitions.
    info
        Files with INFO before and after.
    live
        Measure now; not together with `files` or `info`.
    at
        The swept fields of the measured point; needed where there are several points.
    only
        Quantities to compare; all that were measured if left out.

    Raises
    ------
    InputError
        A scenario, an option or a file is not valid.
    EngineError
        Nothing answers at the address, or the benchmark fails.
    """
    file = str(scenario) if isinstance(scenario, str | Path) else "scenario"
    cases = load_cases(scenario)
    index = _point_at(cases, at or {}, file=file)
    case, system = cases[index]
    if live is not None:
        if files or info is not None:
            raise InputError("found --run and files; valid is one or the other.")
        measured = run_live(case.scenario, system, live, progress=progress)
    else:
        measured = read_measured(files, case.scenario, info=info)
    with named(file):
        predictions = predict_cases(cases, seed=seed, progress=progress)
        [limit] = limits_of([predictions[index]], seed=seed, search=False, following=False)
    prediction = predictions[index]
    point = point_of(prediction, limit)
    rows = compared(prediction, measured, only)
    differs = differences(case.scenario, system, measured)
    holds = not differs and all(row.inside for row in rows)
    explained = FoundCauses([], [], [])
    other_mix = any(each.field == MIX for each in differs)
    # Of other commands than those predicted nothing tells what the gap should be.
    if not holds and not other_mix:
        if progress is not None:
            progress("simulating what may explain the gap")
        errors = standard_errors(prediction, measured, rows)
        gap = Gap(prediction, measured, rows, errors, seed=seed)
        explained = gap.explain(differs)
    updated_for, points = _updated(
        predictions, index, measured, rows, explained, differs=differs, seed=seed
    )
    return CheckAnswer(
        **summary_of(case.scenario, system),
        given=case.given,
        sources=list(measured.sources),
        holds=holds,
        quantities=rows,
        differs=differs,
        causes=explained.causes,
        ruled_out=explained.ruled_out,
        measure_next=(
            [_other_mix_words(differs)]
            if other_mix
            else _next_steps(prediction, measured, explained, holds=holds, seed=seed)
        ),
        updated_for=updated_for,
        updated=points,
        verdict=point.verdict,
        unmet=point.unmet,
        warnings=list(dict.fromkeys([*_remarks(system, measured), *point.warnings])),
        provenance=provenance(seed=seed),
    )


def _point_at(
    cases: Sequence[tuple[Case[Scenario], System]], at: Mapping[str, Any], *, file: str
) -> int:
    """Which point was measured."""
    swept = sorted({name for case, _ in cases for name in case.given})
    for name in at:
        if name not in swept:
            valid = ", ".join(swept) or "none: the scenario sweeps nothing"
            raise InputError(f"{file}: found --at {name}; valid is {valid}.")
    found = [
        number
        for number, (case, _) in enumerate(cases)
        if all(str(case.given.get(name)) == str(value) for name, value in at.items())
    ]
    if len(found) == 1:
        return found[0]
    points = "; ".join(
        ", ".join(f"{name}={value}" for name, value in case.given.items()) for case, _ in cases[:6]
    )
    what = "no point" if not found else f"{len(found)} points"
    raise InputError(
        f"{file}: found {what} for --at {dict(at)}; valid is what names one of {points}."
    )


def _updated(
    predictions: list[Prediction],
    index: int,
    measured: Measured,
    rows: Sequence[ComparedQuantity],
    explained: FoundCauses,
    *,
    differs: Sequence[ConditionGap],
    seed: int,
) -> tuple[str, list[UpdatedPoint]]:
    """The predictions once the measurement is known.

    Of a point measured under other conditions the measurement says nothing, so the point is
    predicted again with the cause that a measurement shows, and that prediction is updated.
    """
    cause, suspect = next(zip(explained.causes, explained.suspects, strict=True), (None, None))
    shown = cause is not None and cause.evidence == "measured"
    if shown and cause is not None and suspect is not None and cause.station in _OUTER:
        if cause.explains < LEAST_TO_BELIEVE and not differs:
            return "", []
        given = predictions[index].case.given
        predictions = predict_cases([with_cause(suspect, given)], seed=seed)
        index, name = 0, f"the scenario {_OUTER[cause.station]}"
    elif differs:
        return "", []
    else:
        name = "the scenario"
    noise = {
        row.quantity: MeasuredValue(
            row.measured, (MEASURED_ERROR**2 + measured.variance(row.quantity)) ** 0.5
        )
        for row in rows
    }
    quantities = [row.quantity for row in rows]
    found = updated(predictions, at=index, measured=noise, quantities=quantities)
    return name, [
        UpdatedPoint(prediction.case.given, estimates)
        for prediction, estimates in zip(predictions, found, strict=True)
    ]


def _next_steps(
    prediction: Prediction,
    measured: Measured,
    explained: FoundCauses,
    *,
    holds: bool,
    seed: int,
) -> list[str]:
    """What to measure next, in the order of use."""
    if holds:
        gains = next_measurement(prediction, [], seed=seed).measurements
        return [f"To narrow the interval: {gains[0].what}."] if gains else []
    steps = list(dict.fromkeys(cause.next_step for cause in explained.causes))
    if any(len(values) < 2 for values in measured.values.values()):
        steps.append("Repeat the measurement: a single one doesn’t tell how much it varies.")
    return steps


def _other_mix_words(differs: Sequence[ConditionGap]) -> str:
    """What was executed in place of the scenario's mix, and what to do about it."""
    mix = next(each for each in differs if each.field == MIX)
    return (
        f"Other commands were executed, {mix.measured}, than the scenario has ({mix.scenario}): "
        "measure while nothing else is asked for, or put them into its mix."
    )


def _remarks(system: System, measured: Measured) -> list[str]:
    """What was measured that no prediction knows of."""
    engine = measured_engine(system, measured)
    newer = None if engine is None else engine.taken_as_words
    remarks = [] if newer is None else [newer]
    if measured.miss_share is not None and measured.miss_share > KEYS_TOLERANCE:
        remarks.append(
            f"{measured.miss_share:.0%} of the GETs found nothing, where the model has all keys: "
            "fill the server first."
        )
    return remarks
