"""A sweep in batches: their points, how workers share them, and the tables that come of them."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from forecache.hwprofiles.named_files import files_named, seen_from
from forecache.sim.errors import InputError
from forecache.sim.plain import plain

from ..over_time.kept_runs import source_digest
from ..scenario.sweeps import Sweep
from .columns import INTEGER, Row, SweepOptions
from .folder import cell_of, load_pyarrow, type_of
from .points import Chunk, Work, columns_of, file_digest

_CHUNKS = 16
"""Into so many a batch is divided for each worker; the last ones are smaller."""


@dataclass
class PointBatch:
    """A batch and those of its answers that are there, by the place of the chunk."""

    number: int
    chunks: list[Chunk]
    answers: dict[int, list[list[Row]]]


class BatchedSweep:
    """One sweep: its points, their columns, and how batches are cut into chunks.

    Its results go to `folder`, and what they depend on names files as they are seen from there.
    """

    def __init__(
        self,
        sweep: Sweep,
        kind: str,
        asked: SweepOptions,
        *,
        batch: int,
        threads: int,
        folder: Path,
    ) -> None:
        self.sweep, self.batch, self.threads = sweep, batch, threads
        self._folder = folder
        template = sweep.template
        self._fields = [_field_of(path) for path in template.paths]
        lists = zip(self._fields, sweep.values, strict=True)
        named_files = files_named([template.data, *({field: values} for field, values in lists)])
        self.files = {str(path): file_digest(path) for path in named_files}
        self.work = Work(kind, template, asked, source_digest(), self.files)
        self.pickled = pickle.dumps(self.work)
        self.types = [type_of(values) for values in sweep.values]
        self.columns = columns_of(kind, asked)
        self.schema = [
            ("point", INTEGER),
            *zip(template.names, self.types, strict=True),
            *((column.name, column.type) for column in self.columns),
        ]
        names = [name for name, _ in self.schema]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"field {twice}: found a sweep of what is a column of the answers.")

    @property
    def depends_on(self) -> dict[str, Any]:
        """All that the results depend on."""
        template, folder = self.work.template, self._folder
        digest = hashlib.sha256(_json(seen_from(template.data, folder)))
        for place, name in enumerate(template.names):
            digest.update(f"\n{name}".encode())
            for value in self.sweep.values[place]:
                digest.update(_json(self._written(place, value)) + b",")
        asked = self.work.asked
        return {
            "kind": self.work.kind,
            "scenario": digest.hexdigest(),
            "files": {os.path.relpath(path, folder): each for path, each in self.files.items()},
            "sources": self.work.sources,
            "seed": asked.seed,
            "seeds": asked.seeds,
            "nominal": asked.nominal,
            "batch": self.batch,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "machine": platform.machine(),
        }

    def _written(self, place: int, value: Any) -> Any:
        """A value of a swept field as the files have it: a path as it is seen from their folder."""
        if isinstance(value, int | float):
            return value
        return seen_from(value, self._folder, field=self._fields[place])

    @property
    def batches(self) -> range:
        """Their numbers."""
        return range(-(-self.sweep.points // self.batch))

    def points_of(self, batch: int) -> range:
        """The numbers of the points of a batch."""
        first = batch * self.batch
        return range(first, min(first + self.batch, self.sweep.points))

    def chunks(self, points: range) -> Iterator[Chunk]:
        """Points shared out: in equal parts at first, in ever smaller ones at the end.

        No worker then waits long for the others.
        """
        most = max(1, len(points) // (_CHUNKS * self.threads))
        while points:
            size = min(most, max(1, len(points) // (2 * self.threads)))
            combinations = [self.sweep.combination(point) for point in points[:size]]
            yield Chunk(self.pickled, points[0], combinations)
            points = points[size:]

    def table(self, batch: PointBatch) -> Any:
        """The rows of a batch, as an Arrow table in the order of its points."""
        pyarrow = load_pyarrow()
        rows: list[list[Any]] = []
        for place, chunk in enumerate(batch.chunks):
            answers = zip(chunk.combinations, batch.answers[place], strict=True)
            for point, (values, found) in enumerate(answers, start=chunk.first):
                written = [self._written(place, value) for place, value in enumerate(values)]
                own = [point, *map(cell_of, written, self.types)]
                rows += [[*own, *cells] for cells in found]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self.schema)
        arrays = [
            pyarrow.array(cells, pyarrow.type_for_alias(type_))
            for cells, (_, type_) in zip(columns, self.schema, strict=True)
        ]
        return pyarrow.table(arrays, names=[name for name, _ in self.schema])


def _field_of(path: tuple[Any, ...]) -> str:
    """The name of a swept field, or of the list that it is in."""
    return next((key for key in reversed(path) if isinstance(key, str)), "")


def _json(data: Any) -> bytes:
    return json.dumps(plain(data), sort_keys=True).encode()
