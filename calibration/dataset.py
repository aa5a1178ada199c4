"""Datasets of measurements that somebody published, or that a user made, in one format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from forecache.hwprofiles.files import parse, read_yaml
from forecache.models.scenario import Scenario
from forecache.sim.errors import InputError

UNITS = ("_rps", "_ms", "_us", "_s", "_bytes")
"""Endings that say in what a number was measured."""

_TO_PREDICTED = {
    "throughput_rps": ("throughput_rps", 1.0),
    **{
        f"{name}_{unit}": (f"{name}_ms", factor)
        for name in ("mean", "p50", "p90", "p99", "p999")
        for unit, factor in (("ms", 1.0), ("us", 1e-3), ("s", 1e3))
    },
}


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DatasetSource(_Record):
    """Where measurements come from."""

    id: str
    url: str | None = None
    file: str | None = None
    accessed: Any = None
    note: str = ""


class DatasetPoint(_Record):
    """One measured point: what was changed, what was observed, what it may be used for."""

    given: dict[str, Any]
    observed: dict[str, float | None] = Field(min_length=1)
    role: Literal["calibration", "validation"]
    whole_run_counters: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _units(self) -> DatasetPoint:
        for name, value in self.observed.items():
            if not name.endswith(UNITS):
                raise ValueError(
                    f"names under observed that end in a unit ({', '.join(UNITS)}); found {name!r}"
                )
            if value is not None and not value > 0:
                raise ValueError(f"a positive number for {name}; found {value!r}")
        return self


class Dataset(_Record):
    """A set of measurements with what all of them share."""

    id: str
    title: str
    sources: list[DatasetSource]
    scenario: dict[str, Any]
    points: list[DatasetPoint] = Field(min_length=1)


@dataclass(frozen=True)
class MeasuredCase:
    """A point as a scenario of the model."""

    given: dict[str, Any]
    role: Literal["calibration", "validation"]
    observed: dict[str, float]
    """In the units of predictions, by their names."""
    scenario: Scenario


_WORKLOAD_FIELDS = frozenset(
    {"command", "pipeline", "clients", "keys", "value_bytes", "key_bytes", "think_us", "rate_rps"}
)


def load_dataset(path: str | Path) -> tuple[Dataset, list[MeasuredCase]]:
    """Read a dataset and turn its points into scenarios.

    Raises
    ------
    InputError
        A field is missing, misspelt or without a unit, or a point is none the node model predicts.
    """
    dataset = parse(Dataset, read_yaml(path), file=path)
    cases = []
    for number, point in enumerate(dataset.points):
        where = f"{path}: points[{number}]"
        observed = {}
        for name, value in point.observed.items():
            known = _TO_PREDICTED.get(name)
            if known is not None and value is not None:
                observed[known[0]] = float(value) * known[1]
        if not observed:
            names = ", ".join(sorted(point.observed))
            raise InputError(
                f"{where}.observed: found {names}; valid here is at least one of throughput_rps, "
                "mean_ms, p50_ms, p90_ms, p99_ms, p999_ms: other quantities have no model yet."
            )
        scenario = parse(Scenario, _merged(dataset.scenario, point.given), file=where)
        cases.append(MeasuredCase(point.given, point.role, observed, scenario))
    return dataset, cases


def _merged(shared: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The shared scenario with a point's own fields, which may be ones of its workload."""
    data = {**shared, "workload": dict(shared.get("workload") or {})}
    for name, value in given.items():
        if name in _WORKLOAD_FIELDS:
            data["workload"][name] = value
        else:
            data[name] = value
    generator = data.get("load_generator")
    if isinstance(generator, dict) and isinstance(generator.get("tool"), str):
        # A tool's version does not matter to what it does.
        tool = re.sub(r"\s.*", "", generator["tool"])
        data["load_generator"] = {**generator, "tool": tool}
    return data
