"""What `study` answers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from forecache.calibration.fit.report import CalibrationReport
from forecache.hwprofiles.files import dump_yaml, read_text
from forecache.hwprofiles.named_files import NamedFiles
from forecache.models.advice.node_answers import NumberOrigin, StudyTarget
from forecache.models.results.displayed import Displayed, Provenance
from forecache.sim.errors import InputError
from forecache.sim.plain import Result, where_set


@dataclass(frozen=True)
class HostNumbers(Result):
    """The numbers of the host a study ran on."""

    id: str
    rows: list[NumberOrigin]
    latency_curve: list[list[float]]
    """Pairs of a working set in bytes and the ns of a dependent load."""


@dataclass(frozen=True)
class StudyProvenance(Provenance):
    """What made a study, besides versions and seed."""

    host: str
    engine: str
    elapsed_s: float
    bundle: str
    command: str


@dataclass(frozen=True)
class Study(Displayed):
    """A recommendation for this host and the scenario's, and what it rests on."""

    title: str
    created: str
    scenario_name: str
    warnings: list[str]
    targets: list[StudyTarget]
    calibration: CalibrationReport
    host_profile: HostNumbers
    provenance: StudyProvenance
    scenario: Mapping[str, Any] | None = where_set()
    """As it was given."""
    hashes: Mapping[str, str] | None = where_set()
    """SHA-256 of what the answer rests on, by name."""
    inputs: Mapping[str, str] | None = where_set()
    """Texts of files, by name: what was measured, and a scenario for each target that predicts from
    it again."""
    report: str | None = where_set()
    """Path of the HTML file."""


STUDY = "study.json"
"""Its file in the folder that `study` writes."""


def load_study(path: Path) -> Study:
    """Read a study that `forecache study` wrote.

    Parameters
    ----------
    path
        Its folder, or `study.json` itself.
    """
    file = path / STUDY if path.is_dir() else path
    text = read_text(file)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{file}: is not JSON; valid is {STUDY} of `forecache study`.") from None
    try:
        return TypeAdapter(Study).validate_python(_with_infinities(data))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in problem["loc"]) or "the top level"
        raise InputError(
            f"{file}: field {field!r}: {problem['msg'].lower()}; valid is {STUDY} as `forecache "
            "study` of this version writes it."
        ) from None


def _with_infinities(data: Any) -> Any:
    """JSON has no infinite number: an estimate without an upper end has null there."""
    if isinstance(data, list):
        return [_with_infinities(each) for each in data]
    if not isinstance(data, dict):
        return data
    if data.keys() == {"value", "low", "high"}:
        return {name: math.inf if data[name] is None else data[name] for name in data}
    return {name: _with_infinities(value) for name, value in data.items()}


# --- files from which a study's predictions are made again, without measuring ---------------------


HOST, ENGINE = "host.yaml", "engine.yaml"
THIS_HOST = "this host"
"""Name of the target that was measured."""


def file_name(name: str) -> str:
    """Letters, digits, dots and dashes of a name."""
    return re.sub(r"[^a-zA-Z0-9.]+", "-", name).strip("-.") or "unnamed"


def scenario_name(target: StudyTarget) -> str:
    """`this-host.yaml`."""
    name = f"{file_name(target.name)}.yaml"
    return f"on-{name}" if name in (HOST, ENGINE) else name


def scenarios_again(targets: Sequence[StudyTarget], files: NamedFiles) -> dict[str, str]:
    """Text of a scenario for each target, by file name.

    They name `HOST` and `ENGINE`, and other files as they are called in `files`.
    """
    return {scenario_name(target): dump_yaml(_scenario(target, files)) for target in targets}


def _scenario(target: StudyTarget, files: NamedFiles) -> dict[str, Any]:
    """What was predicted, with the engine that was observed, at the same settings."""
    here = {"host": HOST} if target.name == THIS_HOST else {}
    measured = {"engine": ENGINE} | here
    own = {k: v for k, v in target.scenario.items() if k not in (*measured, "engine_version")}
    data = files.collect(own) | measured
    threads = [int(point.given["io_threads"]) for point in target.points]
    return {**data, "io_threads": {"sweep": threads}}
