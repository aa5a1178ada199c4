"""Files from which a study's predictions are made again, without measuring."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from forecache.hwprofiles.files import dump_yaml
from forecache.models.advice.node_answers import StudyTarget

HOST, ENGINE = "host.yaml", "engine.yaml"
THIS_HOST = "this host"
"""Name of the target that was measured."""


def file_name(name: str) -> str:
    """Letters, digits, dots and dashes of a name."""
    return re.sub(r"[^a-zA-Z0-9.]+", "-", name).strip("-.") or "unnamed"


def scenario_name(target: StudyTarget) -> str:
    """`this-host.yaml`."""
    return f"{file_name(target.name)}.yaml"


def scenarios_again(targets: Sequence[StudyTarget]) -> dict[str, str]:
    """Text of a scenario for each target, by file name; they name `HOST` and `ENGINE`."""
    return {scenario_name(target): dump_yaml(_scenario(target)) for target in targets}


def _scenario(target: StudyTarget) -> dict[str, Any]:
    """What was predicted, with the engine that was observed, at the same settings."""
    data = {**target.scenario, "engine": ENGINE}
    data.pop("engine_version", None)
    if target.name == THIS_HOST:
        data["host"] = HOST
    threads = [int(point.given["io_threads"]) for point in target.points]
    return {**data, "io_threads": {"sweep": threads}}
