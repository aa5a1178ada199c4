"""Files from which a study's predictions are made again, without measuring."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from forecache.hwprofiles.files import dump_yaml
from forecache.hwprofiles.named_files import NamedFiles
from forecache.models.advice.node_answers import StudyTarget

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
