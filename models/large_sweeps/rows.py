"""Rows of a sweep: the columns of every kind of answer, and the cells of a point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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
from ..results.consistency import check_run
from ..results.points import Point
from ..results.series import Fact
from ..scenario.kinds import KINDS
from ..scenario.schema import Scenario
from ..scenario.sweeps import Case
from .columns import (
    DOUBLE,
    INTEGER,
    TRUTH,
    Cell,
    RowColumn,
    SweepOptions,
    estimate,
    number,
    sentences,
    text,
)

# --- a row for each point of a sweep over a node --------------------------------------------------


_ESTIMATES = ("throughput_rps", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms")
_UTILISATIONS = ("load_generator", "network", "interrupt", "core", "quota")


def node_columns(asked: SweepOptions) -> list[RowColumn]:
    """Fields of a `Point`; at the nominal numbers those that one run tells."""
    interval = not asked.nominal
    columns = [
        *(column for name in _ESTIMATES for column in estimate(name, interval=interval)),
        *estimate("backlog_growth_rps", interval=interval),
        *estimate("server_cpu_us_per_request", interval=interval),
        number("spinning_cpu_us_per_request"),
        number("main_thread_utilisation"),
        number("io_thread_utilisation", _io_threads),
        *(number(f"{name}_utilisation") for name in _UTILISATIONS),
        number("throttled_periods"),
        number("memory_gb_per_s", "memory_bandwidth.gb_per_s"),
        number("memory_bandwidth_utilisation", "memory_bandwidth.utilisation"),
        RowColumn("active_threads", INTEGER, lambda point: int(point.active_threads)),
        text("bottleneck"),
        text("verdict"),
        text("unmet", lambda point: "; ".join(each.sentence for each in point.unmet) or None),
    ]
    if not asked.nominal:
        columns += [
            text("next_bottleneck", lambda p: p.next_bottleneck and p.next_bottleneck.name),
            number("next_bottleneck_rps", lambda p: p.next_bottleneck and p.next_bottleneck.at_rps),
            number("limit_rps"),
            number("headroom_rps"),
            number("objective_probability"),
        ]
    return [*columns, text("warnings", sentences)]


def _io_threads(point: Point) -> float | None:
    """How busy the I/O threads are on average; None where there are none."""
    found = point.io_thread_utilisation
    return float(np.mean(found)) if found else None


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
        number("forked_bytes", "forked_bytes.value"),
        number("forked_bytes_low", "forked_bytes.low"),
        number("forked_bytes_high", "forked_bytes.high"),
        number("keys_that_fit", lambda point: point.fits and point.fits.keys),
        number("keys_that_fit_low", lambda point: point.fits and point.fits.keys_low),
        number("keys_that_fit_high", lambda point: point.fits and point.fits.keys_high),
        number("limit_bytes", lambda point: point.fits and point.fits.limit_bytes),
        text("limit", lambda point: point.fits and point.fits.limit),
        RowColumn("fits", TRUTH, lambda point: None if point.room is None else point.room.fits),
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
        number("nodes_usd_per_month", _of("nodes", "nodes_usd")),
        number("nodes_bill_usd_per_month", _of("nodes", "usd")),
        number("nodes_usd_per_million_requests", _of("nodes", "usd_per_million_requests")),
        RowColumn("nodes", INTEGER, _of("nodes", "count")),
        RowColumn("shards", INTEGER, _of("nodes", "shards")),
        number("nodes_serve_load", _of("nodes", "serves_load")),
        number("break_even_load", _of("break_even", "load")),
        number("break_even_requests_per_s", _of("break_even", "requests_per_s")),
        text("warnings", sentences),
    ]


def _of(part: str, name: str) -> Callable[[Any], Any]:
    """A field of a part that an answer may lack."""

    def found(answer: Any) -> Any:
        holder = getattr(answer, part)
        return None if holder is None else getattr(holder, name)

    return found


def plan_columns() -> list[RowColumn]:
    """What to run of a `PlanAnswer`, and what the next plan and serverless cost."""
    settings = [text(name, _best(f"setting.{name}")) for name in _NAMES]
    counts = [RowColumn(name, INTEGER, _best(f"setting.{name}")) for name in _COUNTS]
    return [
        RowColumn("found", TRUTH, lambda answer: answer.recommended is not None),
        RowColumn("keeps_today", TRUTH, lambda answer: answer.keeps_today),
        *settings,
        *counts,
        *(number(name, _best(name)) for name in _COSTS),
        text("payment", _best("payment")),
        number("horizon_rps"),
        *(number(f"horizon_node_{n}", _best(f"horizon.{n}")) for n in ("rate_rps", "capacity_rps")),
        *(column for n in _LATENCIES for column in estimate(f"horizon_{n}", _best(f"horizon.{n}"))),
        number("objective_probability", _best("horizon.probability")),
        number("cpu_headroom", _best("horizon.cpu_headroom")),
        number("memory_headroom", _best("horizon.memory_headroom")),
        text("bottleneck", _best("bottleneck")),
        number("second_usd_per_month", _second_usd),
        number("serverless_usd_per_month", _serverless_usd),
        text("why", lambda answer: _best("why")(answer) or _why_not(answer)),
        text("warnings", sentences),
    ]


_NAMES = ("instance", "engine", "engine_version")
_COSTS = ("usd_per_month", "bill_usd_per_month", "usd_per_node_month")
_COUNTS = ("shards", "replicas", "io_threads", "nodes")
_LATENCIES = ("p50_ms", "p99_ms", "p999_ms")


def _best(path: str) -> Callable[[Any], Any]:
    """A field of what to run; None where nothing is."""

    def found(answer: PlanAnswer) -> Any:
        value: Any = answer.recommended
        for name in path.split("."):
            value = None if value is None else getattr(value, name)
        return value

    return found


def _second_usd(answer: PlanAnswer) -> float | None:
    others = [each for each in answer.plans if each is not answer.recommended]
    return others[0].usd_per_month if others else None


def _serverless_usd(answer: PlanAnswer) -> float | None:
    return min((offer.usd_per_month for offer in answer.serverless), default=None)


def _why_not(answer: PlanAnswer) -> str | None:
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
        RowColumn("value", DOUBLE, _number_of),
        RowColumn("low", DOUBLE, lambda fact: fact.low),
        RowColumn("high", DOUBLE, lambda fact: fact.high),
        text("unit", lambda fact: fact.unit or None),
        text("text", lambda fact: fact.value if isinstance(fact.value, str) else None),
        text("note", lambda fact: fact.note or None),
    ]


def _number_of(fact: Fact) -> Cell:
    value = plain(fact.value)
    return float(value) if isinstance(value, int | float) else None


def facts_of(kind: str, scenario: Any, asked: SweepOptions) -> list[Fact]:
    """What came of one point that runs over time; with several seeds means with intervals."""
    runs = []
    for seed in range(asked.seed, asked.seed + asked.seeds):
        run = KINDS[kind].run(scenario, seed, lambda _line: None)
        check_run(run)
        runs.append(run.without_times())
    return list(runs[0].facts) if len(runs) == 1 else facts_over_seeds(runs, None)
