"""Datasets of memory, which the footprint model predicts; nothing of them is fitted."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import parse
from forecache.models.footprint import MemoryScenario, node_of, weigh
from forecache.models.footprint.answers import warnings_of
from forecache.models.footprint.weigh import beside_of
from forecache.models.layouts.generations import is_managed
from forecache.sim.errors import InputError

from .dataset import Dataset, DatasetPoint

QUANTITY = "used_memory_bytes"

OPEN, MANAGED = "open", "managed"

_OF_POPULATIONS = frozenset(
    {
        *("type", "keys", "key_bytes", "value_bytes", "integers", "ttl", "members"),
        *("member_bytes", "fields", "field_bytes", "elements", "element_bytes", "score_digits"),
    }
)


def validate_memory(dataset: Dataset, file: str) -> dict[str, Any]:
    """Predict every point of a dataset of memory, which messages call `file`.

    Returns
    -------
    dict
        dataset; points (index, given, role, engine, band: whether the engine is a managed one,
        observed, predicted with the range of its states, relative_error); summary of held-out
        points (median_ape, max_ape, n, `by_band`); warnings; fitted, counters and knee, all empty.

    Raises
    ------
    InputError
        A field is not valid, or an engine's memory isn't known.
    """
    points, warnings = [], list[str]()
    for index, point in enumerate(dataset.points):
        where = f"{file}: points[{index}]"
        measured = point.observed.get(QUANTITY)
        if measured is None:
            names = ", ".join(sorted(point.observed))
            raise InputError(f"{where}.observed: found {names}; valid is {QUANTITY}.")
        scenario = _scenario(dataset.scenario, point, where=where)
        try:
            node = node_of(scenario)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        warnings += warnings_of(scenario)
        weight = weigh(
            node, scenario.data, beside=beside_of(scenario, node), shards=scenario.shards
        )
        points.append(
            {
                "index": index,
                "given": point.given,
                "role": point.role,
                "engine": scenario.engine,
                "band": MANAGED if is_managed(scenario.engine) else OPEN,
                "observed": {QUANTITY: measured},
                "predicted": {
                    QUANTITY: {
                        "value": weight.used_bytes,
                        "low": weight.low_bytes,
                        "high": weight.high_bytes,
                    }
                },
                "relative_error": {QUANTITY: weight.used_bytes / measured - 1.0},
            }
        )
    return {
        "dataset": {
            "id": dataset.id,
            "title": dataset.title,
            "file": Path(file).name,
            "notes": [source.note for source in dataset.sources if source.note],
        },
        "fitted": [],
        "provenance": {
            "calibration_points": [],
            "held_out_points": [p["index"] for p in points if p["role"] == "validation"],
        },
        "warnings": list(dict.fromkeys(warnings)),
        "points": points,
        "summary": _summary(points),
        "counters": [],
        "knee": {},
    }


def _scenario(shared: Mapping[str, Any], point: DatasetPoint, *, where: str) -> MemoryScenario:
    data = shared.get("data")
    if not (isinstance(data, list) and len(data) == 1 and isinstance(data[0], Mapping)):
        raise InputError(f"{where}: found data {data!r}; valid is a list of one population.")
    population = {k: v for k, v in point.given.items() if k in _OF_POPULATIONS}
    others = {k: v for k, v in point.given.items() if k not in _OF_POPULATIONS}
    merged = {**shared, **others, "data": [{**data[0], **population}]}
    return parse(MemoryScenario, merged, file=where)


def _summary(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    held_out = [point for point in points if point["role"] == "validation"]
    if not held_out:
        return {}
    bands = dict.fromkeys(str(point["band"]) for point in held_out)
    return {
        QUANTITY: {
            **_errors(held_out),
            "by_band": {
                band: _errors([p for p in held_out if p["band"] == band]) for band in bands
            },
        }
    }


def _errors(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    absolute = [abs(point["relative_error"][QUANTITY]) for point in points]
    return {
        "median_ape": statistics.median(absolute),
        "max_ape": max(absolute),
        "coverage": None,
        "n": len(points),
    }
