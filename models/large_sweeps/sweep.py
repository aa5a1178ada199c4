"""Answer every point of a sweep and write the answers to files as they come.

Points are made when their turn comes, and answers are held for one batch only: memory does not grow
with their number. A batch is shared out among the workers in chunks and written once all are there,
before the next begins; so an interruption costs what was done of one batch. No answer depends on
which chunk or batch its point is in, or on the worker: the same points give the same files.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from forecache.hwprofiles.files import named
from forecache.hwprofiles.named_files import files_named, seen_from
from forecache.sim.effort import duration_words
from forecache.sim.errors import IncompleteError, InputError
from forecache.sim.executors import as_they_end
from forecache.sim.plain import Result, plain
from forecache.sim.processes import usable_cores, workers

from ..over_time.kept_runs import source_digest
from ..over_time.runs import check_seeds
from ..prediction.predict import Progress
from ..results.columns import INTEGER, Row, as_cell, column_type
from ..results.consistency import DOES_NOT_HOLD
from ..results.displayed import Displayed, Provenance, provenance
from ..scenario.source import KINDS, NODE, ScenarioSource, read_scenario
from ..scenario.sweeps import Sweep
from .folder import SweepFolder, batch_of, load_pyarrow
from .points import (
    Chunk,
    SweepOptions,
    Work,
    answer_chunk,
    answer_columns,
    check_chunk,
    file_digest,
)

MOST_POINTS = 10_000_000
MOST_BATCH = 100_000

_BATCHES = {NODE: 200, "memory": 5_000, "cost": 5_000, "plan": 20}
_BATCH_OF_OTHERS = 50
_NOMINAL_BATCH = 1_000
"""Points of a batch if nothing else is asked for: seconds to a few minutes of work."""

_TRIES = 3
"""Times in a row that workers may be lost without a single answer in between."""


@dataclass(frozen=True)
class SweptColumn(Result):
    """A column of the files."""

    name: str
    type: str


@dataclass(frozen=True)
class SweptPoints(Displayed):
    """What was written where."""

    folder: str
    kind: str
    points: int
    """Of the whole sweep."""
    found: int
    """That were there before."""
    answered: int
    """That were answered now."""
    files: int
    batch: int
    """Points of a file; the last may have fewer."""
    columns: list[SweptColumn]
    unmet: int | None
    """Points of a node at which something that was asked for does not hold; None of other kinds."""
    seconds: float
    provenance: Provenance


class _Rate:
    """How many points are written, how fast, and an estimate of what remains."""

    def __init__(self, progress: Progress | None, *, points: int, done: int, files: int) -> None:
        self._progress, self._points = progress, points
        self._done, self._before = done, done
        self._began_s = time.monotonic()
        self.written, self.files = done, files

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began_s

    def wrote(self, points: int) -> None:
        """One more file is there, of so many points."""
        self.written += points
        self.files += 1

    def add(self, points: int) -> None:
        """So many more are there."""
        self._done += points
        if self._progress is None:
            return
        rate = (self._done - self._before) / max(self.seconds, 1e-9)
        left_s = (self._points - self._done) / rate
        left = f"about {duration_words(left_s)} left" if self._done < self._points else "done"
        self._progress(
            f"answered {self._done:,} of {self._points:,} points, {rate:,.3g} a second, {left}"
        )


class _Lost(Exception):
    """Workers were lost, and what they were asked with them."""


def sweep(
    source: ScenarioSource,
    out: str | Path,
    *,
    seed: int = 1,
    seeds: int = 1,
    nominal: bool = False,
    batch: int | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> SweptPoints:
    """Answer every point of a sweep of any kind, and write the answers to Parquet files.

    The answers depend neither on where they are computed nor on interruptions.

    Parameters
    ----------
    source
        Path of a scenario file of any kind, or its content.
    out
        Folder for the files. If it has some of the same sweep, only what is missing is answered.
    seed
        Of all random streams, the same for every point.
    seeds
        Replications of what runs over time.
    nominal
        Of a node: one run at the nominal numbers for each point, without intervals.
    batch
        Points of a file; that of the files that are there, or by kind, if left out.
    jobs
        Workers at a time without an executor: as many as cores if left out.
    executor
        Where to run.
    threads
        How many calls the executor runs at a time.

    Raises
    ------
    InputError
        The scenario, a point of it or an option is not valid, a package is not installed, or the
        folder holds something else.
    IncompleteError
        Workers were killed again and again; all whole batches are written.
    """
    given = read_scenario(source)
    file, kind = given.name, given.kind(list(KINDS))
    folder = Path(out)
    if given.all_threads:
        raise InputError(
            f"{file}: field 'io_threads': found 'automatic'; valid in a sweep into files is an "
            "integer, or a list of them."
        )
    with named(file):
        options = _checked_options(kind, seed=seed, seeds=seeds, nominal=nominal)
        points = Sweep(given.data, file=file)
        points.check_points(MOST_POINTS)
        size = _batch_size(batch, kind, options, folder)
        count = jobs or usable_cores()
        if executor is not None:
            count = threads or getattr(executor, "_max_workers", None) or count
        run = BatchedSweep(points, kind, options, batch=size, threads=count, folder=folder)
    store = SweepFolder(folder, run.depends_on, _manifest_of(run, folder))
    with store.opened() as there:
        missing = [number for number in run.batches if number not in there]
        found = points.points - sum(len(run.points_of(number)) for number in missing)
        if found and progress is not None:
            progress(f"found {found:,} of {points.points:,} points in {folder}")
        in_turn = executor is None and count == 1

        def opened() -> AbstractContextManager[Executor | None]:
            own = None if executor is not None else count
            return nullcontext() if in_turn else workers(executor, count=own)

        rate = _Rate(progress, points=points.points, done=found, files=len(there))
        try:
            with named(file):
                _check(run, missing, opened, progress)
                rate = _Rate(progress, points=points.points, done=found, files=len(there))
                _answer(run, missing, opened, rate, store)
        except _Lost:
            written = rate.written
            raise IncompleteError(
                f"workers were killed again and again, most likely because memory ran out; "
                f"{written:,} of {points.points:,} points are in {folder}: the same command goes "
                "on from there, with fewer at a time (--jobs) where memory is short.",
                result=_result(run, store, found, rate),
            ) from None
        return _result(run, store, found, rate)


def _result(run: BatchedSweep, store: SweepFolder, found: int, rate: _Rate) -> SweptPoints:
    """What was written, `found` of it before."""
    return SweptPoints(
        folder=str(store.folder),
        kind=run.work.kind,
        points=run.sweep.points,
        found=found,
        answered=rate.written - found,
        files=rate.files,
        batch=run.batch,
        columns=[SweptColumn(name, type_) for name, type_ in run.schema],
        unmet=store.count("verdict", DOES_NOT_HOLD) if run.work.kind == NODE else None,
        seconds=rate.seconds,
        provenance=provenance(seed=run.work.options.seed),
    )


def _checked_options(kind: str, *, seed: int, seeds: int, nominal: bool) -> SweepOptions:
    """How points are answered; refuses what a kind does not have."""
    check_seeds(seed, seeds)
    over_time = KINDS[kind].run_at is not None
    if seeds > 1 and not over_time:
        raise InputError(f"field seeds: found {seeds} for {kind}, which has none; valid is 1.")
    if nominal and kind != NODE:
        raise InputError(f"found nominal (--nominal) for {kind}; valid is a scenario of a node.")
    return SweepOptions(seed, seeds, nominal)


def _batch_size(batch: int | None, kind: str, options: SweepOptions, folder: Path) -> int:
    """Points of a batch: as asked, as in the files that are there, or what suits the kind."""
    if batch is not None and not 1 <= batch <= MOST_BATCH:
        raise InputError(f"field batch: found {batch}; valid is 1 to {MOST_BATCH:,}.")
    usual = _NOMINAL_BATCH if options.nominal else _BATCHES.get(kind, _BATCH_OF_OTHERS)
    return batch or batch_of(folder) or usual


def _manifest_of(run: BatchedSweep, folder: Path) -> dict[str, Any]:
    """What the manifest says about the sweep besides what its results depend on."""
    made = provenance(seed=run.work.options.seed).to_dict()
    whole = run.work.template.filled(run.sweep.written)
    return {
        "points": run.sweep.points,
        "columns": dict(run.schema),
        "scenario": plain(seen_from(whole, folder)),
        "began_with": made,
    }


Workers = Callable[[], AbstractContextManager[Executor | None]]
"""The caller's executor, or a pool of our own, a new one each time; None for this thread."""


def _run_batches(
    run: BatchedSweep,
    numbers: Sequence[int],
    function: Callable[[Chunk], Any],
    opened: Workers,
    *,
    added: Callable[[int], None],
    whole: Callable[[PointBatch], None],
) -> None:
    """Call a function for every chunk of some batches; what was lost with a worker again.

    Raises
    ------
    _Lost
        Nothing but losses.
    """
    waiting = (PointBatch(n, list(run.chunks(run.points_of(n))), {}) for n in numbers)
    batch = next(waiting, None)
    losses = 0
    while batch is not None:
        with opened() as executor:
            while batch is not None:
                for place, found in _chunk_results(function, batch, executor):
                    batch.answers[place] = found
                    losses = 0
                    added(len(batch.chunks[place].combinations))
                if len(batch.answers) < len(batch.chunks):
                    losses += 1
                    break  # with new workers, where they are our own
                whole(batch)
                batch = next(waiting, None)
        if losses == _TRIES:
            raise _Lost


def _chunk_results(
    function: Callable[[Chunk], Any], batch: PointBatch, executor: Executor | None
) -> Iterator[tuple[int, Any]]:
    """Places and results of chunks that have none yet."""
    places = [place for place in range(len(batch.chunks)) if place not in batch.answers]
    if executor is None:
        for place in places:
            yield place, function(batch.chunks[place])
        return
    for number, found in as_they_end(
        function, [batch.chunks[place] for place in places], executor=executor
    ):
        yield places[number], found


def _check(
    run: BatchedSweep, missing: list[int], opened: Workers, progress: Progress | None
) -> None:
    """Check the scenarios of all points that are missing, before hours go into the first ones."""
    if not missing:
        return
    points = sum(len(run.points_of(number)) for number in missing)
    checked = 0

    def added(more: int) -> None:
        nonlocal checked
        checked += more
        if progress is not None:
            progress(f"checked {checked:,} of {points:,} points")

    first = run.points_of(missing[0])[:1]
    for chunk in run.chunks(first):
        check_chunk(chunk)  # most mistakes are in every point, and need no workers to be found
    _run_batches(run, missing, check_chunk, opened, added=added, whole=lambda _batch: None)


def _answer(
    run: BatchedSweep, missing: Sequence[int], opened: Workers, rate: _Rate, store: SweepFolder
) -> None:
    """Answer the missing batches and write each once it is whole."""

    def write(batch: PointBatch) -> None:
        store.write(batch.number, run.table(batch))
        rate.wrote(len(run.points_of(batch.number)))

    _run_batches(run, missing, answer_chunk, opened, added=rate.add, whole=write)


# --- a sweep in batches ---------------------------------------------------------------------------


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
        options: SweepOptions,
        *,
        batch: int,
        threads: int,
        folder: Path,
    ) -> None:
        self.sweep, self.batch, self.threads = sweep, batch, threads
        self._folder = folder
        template = sweep.template
        self._fields = [_field_name(path) for path in template.paths]
        lists = zip(self._fields, sweep.values, strict=True)
        named_files = files_named([template.data, *({field: values} for field, values in lists)])
        self.files = {str(path): file_digest(path) for path in named_files}
        self.work = Work(kind, template, options, source_digest(), self.files)
        self.pickled = pickle.dumps(self.work)
        self.types = [column_type(values) for values in sweep.values]
        self.columns = answer_columns(kind, options)
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
            lead = self.sweep.leads[place]
            digest.update(f"\n{name}".encode())
            if lead != place:
                digest.update(f" with {template.names[lead]}".encode())
            for value in self.sweep.values[place]:
                digest.update(_json(self._written(place, value)) + b",")
        options = self.work.options
        return {
            "kind": self.work.kind,
            "scenario": digest.hexdigest(),
            "files": {os.path.relpath(path, folder): each for path, each in self.files.items()},
            "sources": self.work.sources,
            "seed": options.seed,
            "seeds": options.seeds,
            "nominal": options.nominal,
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
                own = [point, *map(as_cell, written, self.types)]
                rows += [[*own, *cells] for cells in found]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self.schema)
        arrays = [
            pyarrow.array(cells, pyarrow.type_for_alias(type_))
            for cells, (_, type_) in zip(columns, self.schema, strict=True)
        ]
        return pyarrow.table(arrays, names=[name for name, _ in self.schema])


def _field_name(path: tuple[Any, ...]) -> str:
    """The name of a swept field, or of the list that it is in."""
    return next((key for key in reversed(path) if isinstance(key, str)), "")


def _json(data: Any) -> bytes:
    return json.dumps(plain(data), sort_keys=True).encode()
