"""A row for each point of a sweep over a node."""

from __future__ import annotations

import numpy as np

from forecache.sim.executors import InThisThread

from ..advice.answers import candidates_of, point_of
from ..advice.limits import limits_of
from ..prediction.predict import REQUESTS, predict_cases
from ..prediction.system import System
from ..results.points import Point
from ..scenario.schema import Scenario
from ..scenario.sweeps import Case
from .columns import INTEGER, RowColumn, SweepOptions, estimate, number, sentences, text

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
