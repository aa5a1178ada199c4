"""The answers to some points of a sweep: what a worker is asked for, and what it returns."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from forecache.hwprofiles.files import parse
from forecache.sim.errors import InputError

from ..advice.cases import Systems
from ..cost.answer import cost
from ..footprint.answers import memory
from ..over_time.kept_runs import source_digest
from ..results.columns import Row, RowColumn, row
from ..results.points import point_columns
from ..scenario.kinds import KINDS, NODE
from ..scenario.sweeps import Case, Template
from .rows import (
    SweepOptions,
    cost_columns,
    fact_columns,
    facts_of,
    memory_columns,
    plan_columns,
    planned,
    predicted,
)


@dataclass(frozen=True)
class Work:
    """What all points of a sweep have in common.

    Attributes
    ----------
    kind, template, asked
        Which scenario, and how it is to be answered.
    sources
        `source_digest` of the forecache that asks.
    files
        Digest of each file that the scenario names.
    """

    kind: str
    template: Template
    asked: SweepOptions
    sources: str
    files: dict[str, str]


class Chunk(NamedTuple):
    """Some points in a row for one worker."""

    work: bytes
    """A pickled `Work`: a worker that has had it before reads it no more."""
    first: int
    """Number of the first point."""
    combinations: list[tuple[Any, ...]]
    """The values of the swept fields at each point."""


def columns_of(kind: str, asked: SweepOptions) -> list[RowColumn]:
    """The columns of an answer to a scenario of a kind, those of its swept fields apart."""
    if kind == NODE:
        return point_columns(nominal=asked.nominal)
    of_kind: Mapping[str, Callable[[], list[RowColumn]]] = {
        "memory": memory_columns,
        "cost": cost_columns,
        "plan": plan_columns,
    }
    return of_kind.get(kind, fact_columns)()


def file_digest(path: str | Path) -> str:
    """Of the content of a file; of one that can't be read a word that no other digest equals."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "unreadable"


class _Answering:
    """What a worker keeps between the chunks of a sweep."""

    def __init__(self, work: Work) -> None:
        if source_digest() != work.sources:
            raise InputError(
                "a worker has another version of forecache than this one; valid is the same one "
                "everywhere."
            )
        for path, digest in work.files.items():
            if file_digest(path) != digest:
                raise InputError(
                    f"{path}: a worker finds no such file there, or another one; valid is the same "
                    "content at the same path everywhere."
                )
        self.work = work
        self.columns = columns_of(work.kind, work.asked)
        self._systems = Systems()

    def rows(self, values: Sequence[Any]) -> list[Row]:
        """The rows of one point."""
        return [row(self.columns, answer) for answer in self._answers(values)]

    def check(self, values: Sequence[Any]) -> None:
        """Read the scenario of one point."""
        scenario = self._scenario(values)
        if self.work.kind == NODE:
            self._systems.of(Case(self.work.template.given(values), scenario))

    def _scenario(self, values: Sequence[Any]) -> Any:
        filled = self.work.template.filled(values)
        return parse(KINDS[self.work.kind].schema, filled, file=_SCENARIO)

    def _answers(self, values: Sequence[Any]) -> Sequence[Any]:
        """One answer for a point; of what runs over time its facts."""
        work = self.work
        if work.kind == NODE:
            case = Case(work.template.given(values), self._scenario(values))
            return [predicted(*self._systems.of(case), work.asked)]
        data = work.template.filled(values)
        if work.kind == "memory":
            return memory(data).points
        if work.kind == "cost":
            return cost(data).points
        if work.kind == "plan":
            return [planned(data, work.asked)]
        return facts_of(work.kind, self._scenario(values), work.asked)


_SCENARIO = "scenario"
"""What functions that are given no file call it in messages."""


@lru_cache(maxsize=4)
def _answering(work: bytes) -> _Answering:
    return _Answering(pickle.loads(work))


def answer_chunk(chunk: Chunk) -> list[list[Row]]:
    """The rows of each point."""
    return _each(chunk, _answering(chunk.work).rows)


def check_chunk(chunk: Chunk) -> int:
    """Check that each point is valid, and return how many there are."""
    return len(_each(chunk, _answering(chunk.work).check))


def _each(chunk: Chunk, function: Callable[[Sequence[Any]], Any]) -> list[Any]:
    found = []
    for number, values in enumerate(chunk.combinations, start=chunk.first):
        try:
            found.append(function(values))
        except InputError as error:
            told = str(error).removeprefix(f"{_SCENARIO}: ").removesuffix(".")
            given = _answering(chunk.work).work.template.given(values)
            where = ", ".join(f"{name} {value}" for name, value in given.items())
            raise InputError(f"{told} (point {number}{where and ': '}{where}).") from None
    return found
