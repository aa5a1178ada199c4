"""Measured against predicted, quantity by quantity, and condition by condition."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from forecache.models.advice.next_measurement import MEASURED_ERROR
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.prediction.predict import Prediction
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.sim.errors import InputError

from ..today.not_modelled import MOST_NOT_MODELLED
from .answers import ComparedQuantity, ConditionGap
from .measured import QUANTITIES, Measured

KEYS_TOLERANCE = 0.1
"""Share of the keys that a random fill leaves unset without being called another number of keys:
three times as many SETs as keys leave one in twenty."""

MIX = "workload.mix"
_NAMED = 6

_Z95 = 1.959963984540054
_FAMILIES = {"elasticache-redis": "redis"}
"""What INFO calls an engine that has another name here."""


def compared(
    prediction: Prediction, measured: Measured, quantities: Sequence[str] | None = None
) -> list[ComparedQuantity]:
    """Every quantity that was measured and is predicted.

    Parameters
    ----------
    quantities
        Compare these only; all that were measured if left out.

    Raises
    ------
    InputError
        One that is asked for was not measured, or there is none to compare.
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
        found[row.quantity] = math.hypot(half / _Z95, math.sqrt(own))
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
