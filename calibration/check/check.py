"""Check a prediction against a measurement: `check`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import named
from forecache.models.advice.answers import ScenarioSource, load_cases, predicted_point
from forecache.models.advice.conditioning import MeasuredValue, condition_on
from forecache.models.advice.limits import find_limits
from forecache.models.advice.next_measurement import MEASURED_ERROR, next_measurement
from forecache.models.advice.node_answers import node_summary
from forecache.models.engines.commands import command_kinds
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.prediction.predict import Prediction, Progress, predict_cases
from forecache.models.prediction.system import System
from forecache.models.prediction.uncertainty import Z95
from forecache.models.results.displayed import provenance
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case
from forecache.sim.errors import InputError

from ..today.nodes import MOST_NOT_MODELLED
from .answers import CheckAnswer, ComparedQuantity, ConditionGap, UpdatedPoint
from .causes import CONDITIONS, NETWORK, OTHER_PROGRAMS, Gap, GapCauses
from .live import LiveRun, run_live
from .measured import QUANTITIES, Measured, read_measured

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
    calling = next((k.calling for k in command_kinds(case.scenario) if k.calling), None)
    if calling is not None and (live is not None or info is not None):
        raise InputError(
            f"{file}: field 'workload.mix.other': found a {calling}, whose commands INFO counts "
            "one by one; valid are files of a load generator, and nothing of INFO."
        )
    if live is not None:
        if files or info is not None:
            raise InputError("found --run and files; valid is one or the other.")
        measured = run_live(case.scenario, system, live, progress=progress)
    else:
        measured = read_measured(files, case.scenario, info=info)
    with named(file):
        predictions = predict_cases(cases, seed=seed, progress=progress)
        [limit] = find_limits([predictions[index]], seed=seed, search=False, following=False)
    prediction = predictions[index]
    point = predicted_point(prediction, limit)
    rows = compare_quantities(prediction, measured, only)
    differs = differences(case.scenario, system, measured)
    holds = not differs and all(row.inside for row in rows)
    explained = GapCauses([], [], [])
    other_mix = any(each.field == MIX for each in differs)
    # Of other commands than those predicted nothing tells what the gap should be.
    if not holds and not other_mix:
        if progress is not None:
            progress("simulating what may explain the gap")
        errors = standard_errors(prediction, measured, rows)
        gap = Gap(prediction, measured, rows, errors, seed=seed)
        explained = gap.explain(differs)
    updated_for, points = _updated_predictions(
        predictions, index, measured, rows, explained, differs=differs, seed=seed
    )
    return CheckAnswer(
        **node_summary(case.scenario, system),
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


def _updated_predictions(
    predictions: list[Prediction],
    index: int,
    measured: Measured,
    rows: Sequence[ComparedQuantity],
    explained: GapCauses,
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
        predictions = predict_cases([(Case(given, suspect.scenario), suspect.system)], seed=seed)
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
    found = condition_on(predictions, at=index, measured=noise, quantities=quantities)
    return name, [
        UpdatedPoint(prediction.case.given, estimates)
        for prediction, estimates in zip(predictions, found, strict=True)
    ]


def _next_steps(
    prediction: Prediction,
    measured: Measured,
    explained: GapCauses,
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


# --- quantities that were measured and predicted, and conditions that differ ---------------------


KEYS_TOLERANCE = 0.1
"""Share of the keys that a random fill leaves unset without being called another number of keys:
three times as many SETs as keys leave one in twenty."""

MIX = "workload.mix"
_NAMED = 6

_FAMILIES = {"elasticache-redis": "redis"}
"""What INFO calls an engine that has another name here."""


def compare_quantities(
    prediction: Prediction, measured: Measured, quantities: Sequence[str] | None = None
) -> list[ComparedQuantity]:
    """Every quantity that was measured and is predicted.

    Parameters
    ----------
    quantities
        Compare these only; all that were measured if left out.
    """
    for name in quantities or ():
        if name not in measured.values:
            known = ", ".join(n for n in QUANTITIES if n in measured.values)
            raise InputError(f"--only {name}: it was not measured; valid are {known}.")
    found = []
    for name in QUANTITIES:
        value = measured.value(name)
        if value is None or (quantities and name not in quantities):
            continue
        predicted = prediction.estimate(name)
        if predicted is None:
            continue  # a latency under overload, which says how long the window was
        found.append(
            ComparedQuantity(
                quantity=name,
                predicted=predicted,
                measured=value,
                lowest=min(measured.values[name]),
                highest=max(measured.values[name]),
                repetitions=len(measured.values[name]),
                ratio=value / predicted.value,
                inside=predicted.low <= value <= predicted.high,
            )
        )
    if not found:
        raise InputError(
            "found latencies only, of a load that is predicted to exceed the server’s capacity; "
            "valid is a throughput or a CPU time too."
        )
    return found


def standard_errors(
    prediction: Prediction, measured: Measured, rows: Sequence[ComparedQuantity]
) -> dict[str, float]:
    """By quantity: of the logarithm of measured to predicted, where the prediction is right."""
    found = {}
    for row in rows:
        parts = prediction.parts(row.quantity)
        half = math.hypot(parts.monte_carlo, parts.parameters, parts.discrepancy, parts.windows)
        own = MEASURED_ERROR**2 + measured.variance(row.quantity)
        found[row.quantity] = math.hypot(half / Z95, math.sqrt(own))
    return found


def differences(scenario: Scenario, system: System, measured: Measured) -> list[ConditionGap]:
    """The conditions of a measurement that are others than the scenario's.

    Patch releases of one version are the same engine, a version newer than all known ones is the
    one it is taken as, and a few keys more or fewer are the same data.
    """
    found = []
    for field, value in measured.conditions.items():
        if field in ("engine", "engine_version"):
            continue
        asked: Any = scenario
        for name in field.split("."):
            asked = getattr(asked, name)
        if field == "workload.keys":
            same = abs(value - asked) <= KEYS_TOLERANCE * asked
        elif field == "load_generator.tool":
            same = str(value).replace("_", "-") == str(asked).replace("_", "-")
        else:
            same = value == asked or not isinstance(asked, int)
        if not same:
            found.append(ConditionGap(field, asked, value))
    return [*_other_engine(system, measured), *found, *_other_commands(scenario, measured)]


def _other_commands(scenario: Scenario, measured: Measured) -> list[ConditionGap]:
    """The mix, if too much of the execution time belongs to commands that it does not have."""
    asked = {name: each.share for name, each in scenario.workload.commands.items()}
    times_us = measured.command_times_us
    others_us = sum(spent_us for name, spent_us in times_us.items() if name not in asked)
    total_us = sum(times_us.values())
    if others_us <= MOST_NOT_MODELLED * total_us:
        return []
    shares = {name: spent_us / total_us for name, spent_us in times_us.items()}
    of_time = f"{_percentages(shares)} of the execution time"
    return [ConditionGap(MIX, _percentages(asked), of_time)]


def _percentages(shares: Mapping[str, float]) -> str:
    """The largest shares."""
    largest = sorted(shares.items(), key=lambda each: -each[1])[:_NAMED]
    return ", ".join(f"{name} {share:.0%}" for name, share in largest if share > 0)


def _other_engine(system: System, measured: Measured) -> list[ConditionGap]:
    profile = system.engine
    engine = measured.conditions.get("engine", profile.engine)
    version = str(measured.conditions.get("engine_version", profile.version))
    same = engine in (profile.engine, _FAMILIES.get(profile.engine))
    # A profile of 8.1.1 is one of 8.1.2 as well: patch releases share their rules and work.
    minor, own = _minor(version), _minor(profile.version)
    if same and (profile.follows(version) or minor == own):
        return []
    newer = measured_engine(system, measured)
    taken_as = None if newer is None else newer.taken_as
    if same and taken_as is not None and _minor(taken_as) in (own, _minor(profile.taken_as or "")):
        return []
    return [ConditionGap("engine", f"{profile.engine} {profile.version}", f"{engine} {version}")]


def measured_engine(system: System, measured: Measured) -> EngineProfile | None:
    """The rules of the engine that was measured; None where its version is not told or known."""
    name = measured.conditions.get("engine", system.engine.engine)
    version = measured.conditions.get("engine_version")
    if version is None:
        return None
    try:
        return load_engine(str(name), str(version))
    except InputError:
        return None


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
