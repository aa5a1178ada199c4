"""Datasets of memory, which the footprint model predicts; nothing of them is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forecache.calibration.validate.comparison import summary_of
from forecache.calibration.validate.dataset import Dataset, DatasetPoint
from forecache.hwprofiles.files import parse
from forecache.models.footprint.answers import warnings_of
from forecache.models.footprint.errors import used_interval
from forecache.models.footprint.schema import MemoryScenario
from forecache.models.footprint.weigh import beside_of, node_of, weigh
from forecache.models.layouts.generations import is_managed
from forecache.sim.errors import InputError

from .answer import DataRoles, DatasetValidation, MemoryPoint, NotedDataset

QUANTITY = "used_memory_bytes"

OPEN, MANAGED = "open", "managed"

_OF_POPULATIONS = frozenset(
    {
        *("type", "keys", "key_bytes", "value_bytes", "integers", "ttl", "members"),
        *("member_bytes", "fields", "field_bytes", "elements", "element_bytes", "score_digits"),
    }
)


def is_of_memory(dataset: Dataset) -> bool:
    """Whether the footprint model predicts it."""
    return dataset.scenario.get("kind") == "memory"


def validate_memory(dataset: Dataset, file: str) -> DatasetValidation:
    """Predict every point of a dataset of memory, which messages call `file`.

    What is predicted has its 95% interval.

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
        used = used_interval(scenario, node.generation, weight)
        points.append(
            MemoryPoint(
                index=index,
                given=point.given,
                role=point.role,
                engine=scenario.engine,
                band=MANAGED if is_managed(scenario.engine) else OPEN,
                observed={QUANTITY: measured},
                predicted={QUANTITY: used},
            )
        )
    notes = [source.note for source in dataset.sources if source.note]
    held_out = [point.index for point in points if point.held_out]
    return DatasetValidation(
        dataset=NotedDataset(dataset.id, dataset.title, Path(file).name, notes),
        provenance=DataRoles([], held_out),
        warnings=list(dict.fromkeys(warnings)),
        points=points,
        summary=summary_of(points, [QUANTITY]),
    )


def _scenario(shared: Mapping[str, Any], point: DatasetPoint, *, where: str) -> MemoryScenario:
    data = shared.get("data")
    if not (isinstance(data, list) and len(data) == 1 and isinstance(data[0], Mapping)):
        raise InputError(f"{where}: found data {data!r}; valid is a list of one population.")
    population = {k: v for k, v in point.given.items() if k in _OF_POPULATIONS}
    others = {k: v for k, v in point.given.items() if k not in _OF_POPULATIONS}
    merged = {**shared, **others, "data": [{**data[0], **population}]}
    return parse(MemoryScenario, merged, file=where)
