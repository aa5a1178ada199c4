"""Datasets of published measurements, or of a user's own, in one format.

Those that come along lie in `calibration/validate/datasets/`, whose README describes the format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import did_you_mean, parse, read_yaml, shipped
from forecache.hwprofiles.named_files import names_file, read_with_files
from forecache.hwprofiles.record import Record as _Record
from forecache.models.engines.profile import load_engine
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.source import NODE
from forecache.sim.errors import InputError

_ELSEWHERE = "python -m evidence.validation"

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


class DatasetSource(_Record):
    """Where measurements come from."""

    id: str
    url: str | None = None
    file: str | None = None
    accessed: Any = None
    note: str = ""


class Noise(_Record):
    """By how much a measurement differs when it is made again, relative to itself.

    Attributes
    ----------
    within_series
        Coefficient of variation of runs in a row that a point is the median or mean of.
    between_series
        Standard deviation between series of the same settings: another day, another machine of the
        same type, another build of the same version.
    source
        How this is known.
    """

    within_series: float = Field(ge=0, le=1)
    between_series: float = Field(ge=0, le=1)
    source: str = Field(min_length=1)

    @property
    def standard_error(self) -> float:
        """Relative standard uncertainty of a point: what it says of any run of these settings."""
        return math.hypot(self.within_series, self.between_series)


UNKNOWN_NOISE = Noise(
    within_series=0.02,
    between_series=0.05,
    source="assumed: campaigns on one machine differ by 3 to 12%, builds of one version by 3 to 8%",
)
"""Of a dataset that doesn't say it."""


class DatasetPoint(_Record):
    """One measured point: what was changed, what was observed, what it may be used for."""

    given: dict[str, Any]
    observed: dict[str, float | None] = Field(min_length=1)
    role: Literal["calibration", "validation"]
    noise: Noise | None = None
    """Where it is not that of the dataset."""
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
    same_machine: list[str] = Field(default_factory=list)
    """Ids of other shipped datasets of the same machine and engine: their calibration points
    calibrate this one too."""
    noise: Noise = UNKNOWN_NOISE
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
    index: int
    """Position of the point in its dataset, from 0."""
    noise: Noise = UNKNOWN_NOISE


_WORKLOAD_FIELDS = frozenset(
    {
        *("command", "mix", "pipeline", "clients", "think_us", "rate_rps"),
        *("keys", "key_bytes", "value_bytes", "key_pattern", "popularity"),
    }
)
_ONE_OF = {"command": "mix", "mix": "command"}
"""What a point gives of the two takes the place of the other."""


@cache
def list_datasets() -> tuple[Dataset, ...]:
    """All shipped datasets, by id."""
    return tuple(
        read_dataset(name)[0]
        for name in sorted(shipped("forecache.calibration.validate", "datasets"))
    )


def read_dataset(name: str | Path) -> tuple[Dataset, str]:
    """A dataset by the id of a shipped one or from a file, and what to call it in messages."""
    text = str(name)
    if names_file(text):
        return parse(Dataset, read_with_files(name), file=name), text
    files = shipped("forecache.calibration.validate", "datasets")
    if text not in files:
        raise InputError(
            f"dataset: found {text!r}; valid is the path of a .yaml file or the id of a shipped "
            f"dataset: {did_you_mean(text, files)}"
        )
    file = f"calibration/validate/datasets/{text}.yaml"
    return parse(Dataset, read_yaml(files[text]), file=file), file


def load_dataset(name: str | Path, *, unopened: bool = False) -> tuple[Dataset, list[MeasuredCase]]:
    """Read a dataset and turn its points into scenarios.

    Parameters
    ----------
    name
        Id of a shipped dataset, or path of a file.
    unopened
        Whether quantities that are null, because nobody has looked yet, are asked for: they are
        nan in `observed`. Otherwise they are left out.
    """
    dataset, file = read_dataset(name)
    if not is_of_a_node(dataset):
        raise InputError(
            f"{file}: found memory, slot migrations or large commands; valid are loads on a node. "
            f"In a checkout `{_ELSEWHERE} {name}` predicts the others."
        )
    cases = []
    for number, point in enumerate(dataset.points):
        where = f"{file}: points[{number}]"
        observed = {}
        for quantity, value in point.observed.items():
            known = _TO_PREDICTED.get(quantity)
            if known is not None and (value is not None or unopened):
                observed[known[0]] = math.nan if value is None else value * known[1]
        if not observed:
            names = ", ".join(sorted(point.observed))
            raise InputError(
                f"{where}.observed: found {names}, which no model predicts yet, so the dataset "
                "can't be validated; valid is at least one of throughput_rps, mean_ms, p50_ms, "
                "p90_ms, p99_ms, p999_ms."
            )
        scenario = parse(Scenario, _merged(dataset.scenario, point.given), file=where)
        noise = point.noise or dataset.noise
        cases.append(MeasuredCase(point.given, point.role, observed, scenario, number, noise))
    return dataset, cases


def is_of_a_node(dataset: Dataset) -> bool:
    """Whether it has loads on one node, and not memory, slot migrations or large commands."""
    moves = any("duration_s" in point.observed for point in dataset.points)
    return dataset.scenario.get("kind", NODE) == NODE and not moves


def why_not_predicted(dataset: Dataset) -> str | None:
    """Why no model predicts a dataset yet, in one clause; None if the node model does."""
    if not is_of_a_node(dataset):
        return f"no load on a node; in a checkout `{_ELSEWHERE} {dataset.id}` predicts it"
    for point in dataset.points:
        if not set(_TO_PREDICTED) & set(point.observed):
            return f"no model predicts {', '.join(sorted(point.observed))} yet"
    scenarios = [{**dataset.scenario, **point.given} for point in dataset.points]
    named = dict.fromkeys(
        (str(each.get("engine")), each.get("engine_version")) for each in scenarios
    )
    for engine, version in named:
        try:
            load_engine(engine, version)
        except InputError:
            return f"no engine profile has the rules of {engine} {version or ''}".rstrip()
    return None


def _merged(shared: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The shared scenario with a point's own fields, which may be ones of its workload."""
    own = {name: value for name, value in given.items() if name in _WORKLOAD_FIELDS}
    data = {**shared, **{name: value for name, value in given.items() if name not in own}}
    workload = data.get("workload")
    if workload is None or isinstance(workload, dict):  # The schema refuses what else there is.
        replaced = {_ONE_OF[name] for name in own if name in _ONE_OF}
        kept = {k: v for k, v in (workload or {}).items() if k not in replaced}
        data["workload"] = {**kept, **own}
    generator = data.get("load_generator")
    if isinstance(generator, dict) and isinstance(generator.get("tool"), str):
        # A tool's version does not matter to what it does.
        tool = re.sub(r"\s.*", "", generator["tool"])
        data["load_generator"] = {**generator, "tool": tool}
    return data
