"""Engines observed on other hosts, predicting published Graviton curves as `study` does.

`study` observes an engine where its user is and predicts it elsewhere. Every committed observation
of an engine that has published curves on Graviton3 or Graviton4 stands for such a user: its host
was profiled and its engine calibrated there, beginning with what is shipped. What such a user is
told of Graviton should be no worse than what the catalogue says without any observation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.fit.calibrate import calibrate
from forecache.calibration.validate.dataset import (
    MeasuredCase,
    list_datasets,
    load_dataset,
    why_not_predicted,
)
from forecache.calibration.validate.node_dataset import system_of
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.prediction.predict import Prediction, predict_cases
from forecache.models.prediction.system import System
from forecache.models.scenario.sweeps import Case

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from .observed import ACCURACY

ARTEFACT = ACCURACY / "carried-engines.json"
OBSERVATIONS = Path("evidence/generations")
HOSTS = ("graviton3", "graviton4")

Point = tuple[str, MeasuredCase, System]
"""Dataset, what was measured, and the catalogue's system for it."""


def measure(asked: Asked) -> Files:
    """Predict held-out points with the catalogue's engine and with each that was observed."""
    points = list(_held_out())
    engines = {system.engine.id: system.engine for _, _, system in points}
    rows = _rows(points, "catalogue", {})
    for bundle in _bundles(engines):
        asked.progress(f"{bundle.path.parent.name} of {bundle.path.parent.parent.name}")
        rules = load_engine(bundle.manifest.engine.name, bundle.manifest.engine.version)
        carried, _ = calibrate(bundle, known=rules, progress=asked.progress)
        own = [point for point in points if point[2].engine.id == rules.id]
        rows += _rows(own, bundle.path.parent.parent.name, {rules.id: carried})
    return {ARTEFACT: json_text({"points": rows})}


def _held_out() -> Iterator[Point]:
    """Validation points of throughput on Graviton whose host and engine the catalogue has."""
    for dataset in list_datasets():
        if dataset.scenario.get("host") is None or why_not_predicted(dataset) is not None:
            continue
        for case in load_dataset(dataset.id)[1]:
            if case.role != "validation" or "throughput_rps" not in case.observed:
                continue
            system = system_of(case.scenario, path=dataset.id)
            if system.host.base_id in HOSTS:
                yield dataset.id, case, system


def _bundles(engines: Mapping[str, EngineProfile]) -> list[Bundle]:
    """Committed observations of these very engines."""
    found = [
        Bundle.load(path.parent) for path in OBSERVATIONS.glob("*/*/calibration/manifest.yaml")
    ]
    return sorted(
        (b for b in found if _profile_id(b) in engines), key=lambda bundle: str(bundle.path)
    )


def _profile_id(bundle: Bundle) -> str:
    engine = bundle.manifest.engine
    return load_engine(engine.name, engine.version).id


def _rows(
    points: Sequence[Point], observed_on: str, engines: Mapping[str, EngineProfile]
) -> list[dict[str, Any]]:
    """What is predicted of each point, with these engines in place of the catalogue's."""
    cases = []
    for _, case, system in points:
        engine = engines.get(system.engine.id, system.engine)
        asked = Case(given=case.given, scenario=case.scenario)
        cases.append((asked, System(system.host, engine, system.generator)))
    predictions = predict_cases(cases, draws=12, replications=2)
    return [
        _row(point, observed_on, prediction)
        for point, prediction in zip(points, predictions, strict=True)
    ]


def _row(point: Point, observed_on: str, prediction: Prediction) -> dict[str, Any]:
    dataset, case, system = point
    estimate = prediction.interval("throughput_rps")
    return {
        "dataset": dataset,
        "index": case.index,
        "engine": system.engine.id,
        "observed_on": observed_on,
        "measured_rps": case.observed["throughput_rps"],
        **{key: float(f"{getattr(estimate, key):.4g}") for key in ("value", "low", "high")},
    }


# --- the section of docs/scores.md --------------------------------------------------------------


def carried_section(out: Path) -> list[str]:
    """Errors of engines observed elsewhere beside the catalogue's; nothing before the study ran."""
    path = out / ARTEFACT.name
    if not path.exists():
        return []
    points = json.loads(path.read_text(encoding="utf-8"))["points"]
    catalogue = {_key(p): p for p in points if p["observed_on"] == "catalogue"}
    carried = [p for p in points if p["observed_on"] != "catalogue"]
    rows = []
    for engine, host in sorted({(p["engine"], p["observed_on"]) for p in carried}):
        own = [p for p in carried if (p["engine"], p["observed_on"]) == (engine, host)]
        known = [catalogue[_key(point)] for point in own]
        overlapping = [
            a["low"] <= b["high"] and b["low"] <= a["high"] for a, b in zip(own, known, strict=True)
        ]
        rows.append(
            [
                f"`{engine}`",
                f"`{host}`",
                str(len(own)),
                *(f"{np.median(_errors(each)):.1%}" for each in (known, own)),
                *(f"{_rms(_errors(each)):.1%}" for each in (known, own)),
                f"{max(_moved(a, b) for a, b in zip(own, known, strict=True)):.1%}",
                f"{np.mean(overlapping):.0%}",
            ]
        )
    return [
        "",
        "## Engines observed elsewhere",
        "",
        "What `study` says of Graviton after it has observed an engine on another host, beside what"
        " the catalogue says without (`make evidence STUDY=carried-engines`): held-out points of"
        " published curves, with engines that were calibrated on the guests of"
        " [generations.md](generations.md).",
        "",
        *table(
            ["engine", "observed on", ">points", ">median error, catalogue", ">observed"]
            + [">root mean square, catalogue", ">observed"]
            + [">moved by at most", ">intervals overlap"],
            rows,
        ),
        "",
        "Over all points the root mean square error is"
        f" {_rms(_errors(carried)):.1%} with observed engines and"
        f" {_rms(_errors([catalogue[_key(p)] for p in carried])):.1%} with the catalogue's. Points"
        " that move by a tenth have threads that share cores, where a small change decides which of"
        " two ways of sharing they settle on.",
    ]


def _key(point: Mapping[str, Any]) -> tuple[str, int]:
    return point["dataset"], point["index"]


def _errors(points: Sequence[Mapping[str, Any]]) -> list[float]:
    return [abs(point["value"] / point["measured_rps"] - 1.0) for point in points]


def _rms(errors: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _moved(first: Mapping[str, Any], second: Mapping[str, Any]) -> float:
    return abs(math.log(first["value"] / second["value"]))
