"""Rows of a sweep: the columns of every kind of answer, and the cells of a point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from forecache.sim.errors import InfeasibleError
from forecache.sim.executors import InThisThread
from forecache.sim.plain import plain

from ..advice.answers import candidates_of, point_of
from ..advice.limits import limits_of
from ..footprint.answers import MemoryPoint
from ..over_time.runs import facts_over_seeds
from ..plan.answer import plan
from ..plan.results import PlanAnswer
from ..prediction.predict import REQUESTS, predict_cases
from ..prediction.system import System
from ..results.columns import (
    INTEGER,
    TRUTH,
    Cell,
    RowColumn,
    column,
    estimate,
    number,
    sentences,
    text,
)
from ..results.consistency import check_run
from ..results.points import Point
from ..results.series import Fact
from ..scenario.kinds import KINDS
from ..scenario.schema import Scenario
from ..scenario.sweeps import Case


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


def predicted(case: Case[Scenario], system: System, asked: SweepOptions) -> Point:
    """What is predicted of one point, in this thread: other points are at work beside it.

    In full it is what `simulate` answers. At the nominal numbers it is one of the runs that make up
    such an answer, with the station that limits and the verdict that follow from it.
    """
    here = InThisThread()
    if not asked.nominal:
        [found] = candidates_of([(case, system)], seed=asked.seed, progress=None, executor=here)
        return found.point
    [prediction] = predict_cases(
        [(case, system)],
        seed=asked.seed,
        draws=0,
        replications=1,
        requests=REQUESTS,
        executor=here,
    )
    [limit] = limits_of([prediction], seed=asked.seed, search=False, following=False, executor=here)
    return point_of(prediction, limit)


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


def planned(data: dict[str, Any], asked: SweepOptions) -> PlanAnswer:
    """The plans of one point, or why there is none."""
    try:
        return plan(data, seed=asked.seed, executor=InThisThread())
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


def facts_of(kind: str, scenario: Any, asked: SweepOptions) -> list[Fact]:
    """What came of one point that runs over time; with several seeds means with intervals."""
    runs = []
    for seed in range(asked.seed, asked.seed + asked.seeds):
        run = KINDS[kind].run(scenario, seed, lambda _line: None)
        check_run(run)
        runs.append(run.without_times())
    return list(runs[0].facts) if len(runs) == 1 else facts_over_seeds(runs, None)
