"""The numbers of a study as tables in files: CSV, and Parquet where pyarrow is installed.

A column says its unit in its name; `_low` and `_high` are the ends of its 95% interval.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import write_bytes_atomic
from forecache.models.advice.node_answers import StudyTarget
from forecache.models.advice.sensitivity import Sensitivity
from forecache.models.results.points import LoadPoint, Point, point_columns
from forecache.sim.statistics import Estimate

from ..study_answer import Study

Row = dict[str, str | float | int | bool | None]


def write_data(study: Study, folder: Path) -> list[Path]:
    """Write each table of a study as CSV, and as Parquet where pyarrow is installed."""
    written = []
    for name, rows in tables_of(study).items():
        contents = {".csv": _csv(rows)}
        if find_spec("pyarrow") is not None:
            contents[".parquet"] = _parquet(rows)
        for ending, content in contents.items():
            path = folder / f"{name}{ending}"
            write_bytes_atomic(path, content)
            written.append(path)
    return written


def tables_of(study: Study) -> dict[str, list[Row]]:
    """Rows of each table that has any, by its name."""
    found: dict[str, list[Row]] = {
        "points": [],
        "load_curve": [],
        "stages": [],
        "alternatives": [],
        "interval_parts": [],
        "sensitivity": [],
    }
    for target in study.targets:
        for name, rows in _of_target(target):
            found[name] += rows
    found["calibration"] = [
        {
            "point": json.dumps(dict(point.given), ensure_ascii=False),
            "role": point.role,
            "quantity": point.quantity,
            "observed_ns": point.observed_ns,
            "predicted_ns": point.predicted_ns,
            "observed_rps": point.observed_rps,
            "predicted_rps": point.predicted_rps,
            "relative_error": point.relative_error,
        }
        for point in study.calibration.points
    ]
    found["parameters"] = [
        {"of": of, **{name: getattr(row, name, None) for name in _NUMBER}}
        for of, numbers in (
            ("engine", study.calibration.parameters),
            ("host", study.host_profile.rows),
        )
        for row in numbers
    ]
    found["memory_latency"] = [
        {"working_set_bytes": size, "load_ns": latency}
        for size, latency in study.host_profile.latency_curve
    ]
    return {name: rows for name, rows in found.items() if rows}


_NUMBER = ("name", "value", "unit", "low", "high", "kind", "note")


def _of_target(target: StudyTarget) -> Iterator[tuple[str, list[Row]]]:
    """Its part of each table."""
    of: Row = {"target": target.name, "host": target.host.id, "engine": target.engine.id}
    yield "points", [{**of, **_given(p.given), **point_row(p)} for p in target.points]
    yield "load_curve", [{**of, **_load_row(point)} for point in target.load_curve]
    yield (
        "stages",
        [
            {
                **of,
                **_given(point.given),
                "stage": stage.stage,
                "thread": stage.thread,
                "cpu_us_per_request": stage.us_per_request,
            }
            for point in target.points
            for stage in point.stages
        ],
    )
    yield (
        "alternatives",
        [
            {
                **of,
                "io_threads": row.io_threads,
                "throughput_loss": row.throughput_loss,
                "throughput_loss_low": row.low,
                "throughput_loss_high": row.high,
                "why_not": row.why_not,
            }
            for row in target.recommendation.regret
        ],
    )
    yield (
        "interval_parts",
        [
            {
                **of,
                **_given(point.given),
                **{f"{name}_relative_half_width": x for name, x in vars(point.uncertainty).items()},
            }
            for point in target.points
        ],
    )
    yield "sensitivity", [{**of, **row} for row in _sensitivity_rows(target.sensitivity)]


def _sensitivity_rows(found: Sensitivity | None) -> list[Row]:
    """An input each, what can be chosen after what is uncertain."""
    if found is None:
        return []
    return [
        {
            **_given(found.at),
            "quantity": found.quantity,
            "inputs": kind,
            "name": index.name,
            **_estimate("total_order_index", index.total),
        }
        for kind, indices in (("uncertain", found.uncertain), ("choice", found.choices))
        if indices is not None
        for index in indices.indices
    ]


def point_row(point: Point) -> Row:
    """What is predicted at a point, an estimate in three columns, threads by their mean."""
    return {column.name: column.of(point) for column in point_columns()}


def _load_row(point: LoadPoint) -> Row:
    return {"offered_rps": point.offered_rps, **point_row(point)}


def _given(given: Mapping[str, Any]) -> Row:
    return {
        key: value if isinstance(value, str | int | float) else json.dumps(value)
        for key, value in given.items()
    }


def _estimate(name: str, estimate: Estimate | None) -> Row:
    return {
        name: None if estimate is None else estimate.value,
        f"{name}_low": None if estimate is None else estimate.low,
        f"{name}_high": None if estimate is None else estimate.high,
    }


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _csv(rows: Sequence[Row]) -> bytes:
    """Comma-separated with a header; what is not known, or not finite, is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _columns(rows), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _known(value) for name, value in row.items()})
    return text.getvalue().encode()


def _known(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parquet(rows: Sequence[Row]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = _columns(rows)
    table = pa.table({name: [_known(row.get(name)) for row in rows] for name in names})
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()
