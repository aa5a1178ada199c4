"""Answers to points of a sweep: the columns of each kind of answer, and what a worker does."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from forecache.hwprofiles.files import parse
from forecache.sim.errors import InfeasibleError, InputError
from forecache.sim.executors import InThisThread
from forecache.sim.plain import plain

from ..advice.answers import predict_candidates, predicted_point
from ..advice.cases import Systems
from ..advice.limits import find_limits
from ..cost.answer import cost
from ..footprint.answers import MemoryPoint, memory
from ..over_time.kept_runs import source_digest
from ..over_time.runs import run_points
from ..plan.answer import plan
from ..plan.results import PlanAnswer
from ..prediction.predict import REQUESTS, predict_cases
from ..prediction.system import System
from ..results.columns import (
    INTEGER,
    TRUTH,
    Cell,
    Row,
    RowColumn,
    column,
    estimate,
    number,
    row,
    sentences,
    text,
)
from ..results.points import Point, point_columns
from ..results.series import Fact
from ..scenario.schema import Scenario
from ..scenario.source import KINDS, NODE
from ..scenario.sweeps import Case, Template


@dataclass(frozen=True)
class SweepOptions:
    """How each point is to be answered.

    Attributes
    ----------
    seed
        Of all random streams: the same for every point, so that points share draws and streams
        (common random numbers), and no point depends on which others there are.
    seeds
        Replications of what runs over time.
    nominal
        Of a node: one run at the nominal numbers, without intervals.
    """

    seed: int
    seeds: int = 1
    nominal: bool = False


def predict_point(case: Case[Scenario], system: System, options: SweepOptions) -> Point:
    """What is predicted of one point, in this thread: other points are at work beside it.

    In full it is what `simulate` answers. At the nominal numbers it is one of the runs that make up
    such an answer, with the station that limits and the verdict that follow from it.
    """
    here = InThisThread()
    if not options.nominal:
        [found] = predict_candidates(
            [(case, system)], seed=options.seed, progress=None, executor=here
        )
        return found.point
    [prediction] = predict_cases(
        [(case, system)],
        seed=options.seed,
        draws=0,
        replications=1,
        requests=REQUESTS,
        executor=here,
    )
    [limit] = find_limits(
        [prediction], seed=options.seed, search=False, following=False, executor=here
    )
    return predicted_point(prediction, limit)


# --- rows for points of sweeps over memory, bills, plans, and what runs over time -----------------


def memory_columns() -> list[RowColumn]:
    """Fields of a `MemoryPoint`."""
    return [
        number("node_keys", "keys"),
        number("bytes_per_key", _bytes_per_key),
        *estimate("used_memory_bytes"),
        number("rehashing_bytes"),
        number("resident_bytes"),
        number("resident_bytes_low", "resident_low_bytes"),
        number("resident_bytes_high", "resident_high_bytes"),
        *estimate("forked_bytes"),
        number("keys_that_fit", "fits.keys"),
        number("keys_that_fit_low", "fits.keys_low"),
        number("keys_that_fit_high", "fits.keys_high"),
        number("limit_bytes", "fits.limit_bytes"),
        text("limit", "fits.limit"),
        column("fits", TRUTH, "room.fits"),
        text("warnings", sentences),
    ]


def _bytes_per_key(point: MemoryPoint) -> float | None:
    """Mean over the populations."""
    data = sum(each.keys * each.bytes_per_key for each in point.populations)
    return data / point.keys if point.keys else None


def cost_columns() -> list[RowColumn]:
    """Fields of a `CostPoint`."""
    return [
        number("requests_per_month"),
        number("ecpu_per_s"),
        number("serverless_usd_per_month", "serverless.usd"),
        number("serverless_usd_per_million_requests", "serverless.usd_per_million_requests"),
        number("nodes_usd_per_month", "nodes.nodes_usd"),
        number("nodes_bill_usd_per_month", "nodes.usd"),
        number("nodes_usd_per_million_requests", "nodes.usd_per_million_requests"),
        column("nodes", INTEGER, "nodes.count"),
        column("shards", INTEGER, "nodes.shards"),
        number("nodes_serve_load", "nodes.serves_load"),
        number("break_even_load", "break_even.load"),
        number("break_even_requests_per_s", "break_even.requests_per_s"),
        text("warnings", sentences),
    ]


def plan_columns() -> list[RowColumn]:
    """What to run of a `PlanAnswer`, and what the next plan and serverless cost."""
    best, horizon = "recommended", "recommended.horizon"
    names = ("instance", "engine", "engine_version")
    counts = ("shards", "replicas", "io_threads", "nodes")
    costs = ("usd_per_month", "bill_usd_per_month", "usd_per_node_month")
    latencies = ("p50_ms", "p99_ms", "p999_ms")
    return [
        column("found", TRUTH, lambda answer: answer.recommended is not None),
        column("keeps_today", TRUTH),
        *(text(name, f"{best}.setting.{name}") for name in names),
        *(column(name, INTEGER, f"{best}.setting.{name}") for name in counts),
        *(number(name, f"{best}.{name}") for name in costs),
        text("payment", f"{best}.payment"),
        number("horizon_rps"),
        number("horizon_node_rate_rps", f"{horizon}.rate_rps"),
        number("horizon_node_capacity_rps", f"{horizon}.capacity_rps"),
        *(each for n in latencies for each in estimate(f"horizon_{n}", f"{horizon}.{n}")),
        number("objective_probability", f"{horizon}.probability"),
        number("cpu_headroom", f"{horizon}.cpu_headroom"),
        number("memory_headroom", f"{horizon}.memory_headroom"),
        text("bottleneck", f"{best}.bottleneck"),
        number("second_usd_per_month", _second_usd),
        number("serverless_usd_per_month", _serverless_usd),
        text("why", _why),
        text("warnings", sentences),
    ]


def _second_usd(answer: PlanAnswer) -> float | None:
    others = [each for each in answer.plans if each is not answer.recommended]
    return others[0].usd_per_month if others else None


def _serverless_usd(answer: PlanAnswer) -> float | None:
    return min((offer.usd_per_month for offer in answer.serverless), default=None)


def _why(answer: PlanAnswer) -> str | None:
    """Why this plan, or why there is none."""
    if answer.recommended is not None and answer.recommended.why:
        return answer.recommended.why
    first = answer.rejected[0] if answer.rejected else None
    return None if first is None else f"{first.what}: {first.why}"


def plan_point(data: dict[str, Any], options: SweepOptions) -> PlanAnswer:
    """The plans of one point, or why there is none."""
    try:
        return plan(data, seed=options.seed, executor=InThisThread())
    except InfeasibleError as error:
        assert isinstance(error.result, PlanAnswer)
        return error.result


def fact_columns() -> list[RowColumn]:
    """Of what runs over time, which facts there are depends on the point: a row for each fact."""
    return [
        text("fact", "name"),
        number("value", _number_of),
        number("low"),
        number("high"),
        text("unit", lambda fact: fact.unit or None),
        text("text", lambda fact: fact.value if isinstance(fact.value, str) else None),
        text("note", lambda fact: fact.note or None),
    ]


def _number_of(fact: Fact) -> Cell:
    value = plain(fact.value)
    return value if isinstance(value, int | float) else None


def point_facts(kind: str, scenario: Any, options: SweepOptions) -> list[Fact]:
    """What came of one point that runs over time; with several seeds means with intervals."""
    case = Case({}, scenario)
    seeds = range(options.seed, options.seed + options.seeds)
    found = run_points(KINDS[kind].run, [case], seeds=seeds, executor=None, report=lambda _: None)
    return list(found.points[0].run.facts)


# --- what a worker does ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """What all points of a sweep have in common.

    Attributes
    ----------
    kind, template, options
        Which scenario, and how it is to be answered.
    sources
        `source_digest` of the forecache that asks.
    files
        Digest of each file that the scenario names.
    """

    kind: str
    template: Template
    options: SweepOptions
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


def answer_columns(kind: str, options: SweepOptions) -> list[RowColumn]:
    """The columns of an answer to a scenario of a kind, those of its swept fields apart."""
    if kind == NODE:
        return point_columns(nominal=options.nominal)
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


class _Worker:
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
        self.columns = answer_columns(work.kind, work.options)
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
            return [predict_point(*self._systems.of(case), work.options)]
        data = work.template.filled(values)
        if work.kind == "memory":
            return memory(data).points
        if work.kind == "cost":
            return cost(data).points
        if work.kind == "plan":
            return [plan_point(data, work.options)]
        return point_facts(work.kind, self._scenario(values), work.options)


_SCENARIO = "scenario"
"""What functions that are given no file call it in messages."""


@lru_cache(maxsize=4)
def _worker(work: bytes) -> _Worker:
    return _Worker(pickle.loads(work))


def answer_chunk(chunk: Chunk) -> list[list[Row]]:
    """The rows of each point."""
    return _each(chunk, _worker(chunk.work).rows)


def check_chunk(chunk: Chunk) -> int:
    """Check that each point is valid, and return how many there are."""
    return len(_each(chunk, _worker(chunk.work).check))


def _each(chunk: Chunk, function: Callable[[Sequence[Any]], Any]) -> list[Any]:
    found = []
    for point, values in enumerate(chunk.combinations, start=chunk.first):
        try:
            found.append(function(values))
        except InputError as error:
            told = str(error).removeprefix(f"{_SCENARIO}: ").removesuffix(".")
            given = _worker(chunk.work).work.template.given(values)
            where = ", ".join(f"{name} {value}" for name, value in given.items())
            raise InputError(f"{told} (point {point}{where and ': '}{where}).") from None
    return found
