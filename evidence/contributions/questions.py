"""What a contribution asks, without what was measured, and the prediction of it.

This is all that the prediction gets: who reads `Questions` cannot see a measured number.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecache.calibration.bundle.points import Conditions
from forecache.hwprofiles.files import parse, read_yaml
from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.prediction.predict import SERVER_CPU, predict_cases
from forecache.models.prediction.system import System
from forecache.sim.errors import InputError

from ..harness import Progress
from ..live.rounds import DRAWS, LEVEL, REQUESTS, case_of

ENGINES = ("valkey", "redis", "memcached")
TOOLS = ("forecache", "valkey-benchmark", "redis-benchmark", "memtier_benchmark")
_VERSION = re.compile(r"\d{1,3}(\.\d{1,3}){1,2}")
MOST_POINTS = 1_000
_MOST = {
    "clients": 10_000,
    "pipeline": 1_000,
    "io_threads": 64,
    "generator_threads": 64,
    "keys": 10**9,
    "key_bytes": 10_000,
    "value_bytes": 2**27,
}
"""Of the conditions of a point: beyond these a prediction takes very long."""


@dataclass(frozen=True)
class Questions:
    """Host, engine, load generator and the conditions of each point."""

    host: HostProfile
    engine: EngineProfile
    version: str
    tool: str
    points: list[Conditions]

    def to_dict(self) -> dict[str, Any]:
        """What is kept of it, beside the host."""
        return {
            "engine": self.engine.id,
            "engine_version": self.version,
            "tool": self.tool,
            "points": [p.model_dump(mode="json", exclude_defaults=True) for p in self.points],
        }


def read_questions(folder: Path) -> Questions:
    """The questions of an unpacked bundle; of its points only the conditions are handed on.

    Raises
    ------
    InputError
        A file is damaged, or the engine or tool is not one whose predictions exist.
    """
    file = folder / "manifest.yaml"
    manifest = read_yaml(file)
    engine, method = (_mapping(manifest, name, file) for name in ("engine", "method"))
    name, version, tool = engine.get("name"), str(engine.get("version")), method.get("tool")
    if name not in ENGINES or not _VERSION.fullmatch(version):
        raise InputError(
            f"{file}: field 'engine': found {name!r} {version[:20]!r}; valid is a version of "
            f"{', '.join(ENGINES)}."
        )
    if tool not in TOOLS:
        raise InputError(
            f"{file}: field 'method.tool': found {tool!r}; valid are {', '.join(TOOLS)}."
        )
    host_file = folder / "host.yaml"
    return Questions(
        parse(HostProfile, read_yaml(host_file), file=host_file),
        load_engine(str(name), version),
        version,
        str(tool),
        _conditions(folder / "points.jsonl"),
    )


def _mapping(data: Mapping[str, Any], name: str, file: Path) -> Mapping[str, Any]:
    found = data.get(name)
    if not isinstance(found, Mapping):
        raise InputError(f"{file}: field {name!r}: found {str(found)[:40]!r}; valid is a mapping.")
    return found


def _conditions(file: Path) -> list[Conditions]:
    """Those of each line; a number that is none, such as NaN, is refused here, wherever it is."""
    points = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        where = f"{file}, line {number}"
        try:
            data = json.loads(line, parse_float=_finite, parse_constant=_finite)
            given = data["given"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(f"{where}: no point ({error}); valid is one a line.") from None
        if number > MOST_POINTS:
            raise InputError(f"{file}: found more than {MOST_POINTS} points; valid is fewer.")
        found = parse(Conditions, given, file=where, at="given")
        for name, most in _MOST.items():
            if getattr(found, name) > most:
                raise InputError(
                    f"{where}: field 'given.{name}': found {getattr(found, name):g}; valid is at "
                    f"most {most:g}."
                )
        points.append(found)
    if len(set(points)) < len(points):
        raise InputError(f"{file}: found a point twice; valid is each once.")
    return points


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"found the number {text[:20]}")
    return value


def predict(questions: Questions, *, progress: Progress) -> list[dict[str, Any]]:
    """What the shipped engine does on that host at each point, with intervals."""
    progress(f"predicting {len(questions.points)} points of {questions.engine.id}")
    generator = load_generator(questions.tool.replace("_", "-"))
    system = System(questions.host, questions.engine, generator)
    cases = [case_of(given, system, tool=questions.tool) for given in questions.points]
    found = predict_cases(cases, draws=DRAWS, replications=2, requests=REQUESTS)
    rows = []
    for given, prediction in zip(questions.points, found, strict=True):
        cpu = prediction.interval(SERVER_CPU, level=LEVEL)
        result = prediction.nominal[0].result
        rows.append(
            {
                "point": given.label(),
                "predicted_us": cpu.value,
                "low_us": cpu.low,
                "high_us": cpu.high,
                # The rate of an open loop is given.
                "predicted_rps": (
                    result.throughput_rps if given.arrival == "closed_loop" else None
                ),
                "predicted_p50_ms": prediction.interval("p50_ms", level=LEVEL).value,
            }
        )
    return rows
