"""One node in a steady state: what is predicted of each point of a sweep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from pydantic import InstanceOf

from forecache.sim.plain import ONLY_IN_PYTHON, Result, where_set
from forecache.sim.statistics import Estimate

from .columns import (
    DOUBLE,
    INTEGER,
    TEXT,
    RowColumn,
    Source,
    attribute,
    column,
    estimate,
    sentences,
)
from .latency import LatencyDistribution

QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}
"""Quantiles of latency that answers have, and the share of the requests that is as fast."""


@dataclass(frozen=True)
class NextBottleneck(Result):
    """What limits next as load rises."""

    name: str
    """A station."""
    at_rps: float
    """From which load on, never below what is served now."""
    objective: bool = where_set(False)
    """Whether that is where the objective is missed."""
    peak_rps: float | None = where_set()
    """Of a load that changes and has that mean, its highest rate."""


@dataclass(frozen=True)
class MemoryBandwidth(Result):
    """Bandwidth of main memory in use."""

    gb_per_s: float
    utilisation: float
    """Its share of the peak."""
    latency_factor: float
    """By how much it makes memory slower than idle."""


@dataclass(frozen=True)
class Stage(Result):
    """A step that requests need, and the CPU time it takes of a thread."""

    stage: str
    thread: str
    us_per_request: float


@dataclass(frozen=True)
class Unmet(Result):
    """Something that does not hold at a point: how much is needed of it, and how much there is."""

    what: str
    """`load`, `memory`, `stop`, `CPUs`, `network` or `objective`."""
    needed: float
    """The rate that arrives; memory, CPUs and bandwidth that are needed; how long a stop lasts; the
    probability that was asked of meeting the objective."""
    available: float
    """The rate that is served; memory, CPUs and bandwidth that are there; the longest stop that
    clients bear; the probability of meeting the objective."""
    unit: str
    sentence: str
    """The same in words."""
    every_s: float | None = where_set()
    """Of a stop, the mean time from one to the next."""


@dataclass(frozen=True)
class Uncertainty(Result):
    """Relative half widths of the four parts of an interval."""

    monte_carlo: float
    """Chance in the simulation."""
    parameters: float
    """Uncertain numbers of host, engine and load generator."""
    discrepancy: float
    """The model's own error."""
    windows: float
    """Variation between measured windows, days and starts of the server."""


@dataclass(frozen=True)
class Point(Result):
    """What is predicted at one point of a sweep.

    Every estimate has a 95% interval, utilisations and shares are from 0 to 1.
    """

    given: dict[str, Any]
    """The swept fields of the scenario."""
    throughput_rps: Estimate
    mean_ms: Estimate | None
    """Mean latency. This and the quantiles are None when the backlog grows. The upper end is
    infinite where some of the uncertain numbers overload the server."""
    p50_ms: Estimate | None
    p90_ms: Estimate | None
    p99_ms: Estimate | None
    p999_ms: Estimate | None
    backlog_growth_rps: Estimate | None
    """By how many requests a second the backlog grows; None where it doesn't."""
    main_thread_utilisation: float | None
    """None if all threads are workers (Memcached)."""
    io_thread_utilisation: list[float]
    """Of each I/O thread, or of each worker (Memcached)."""
    load_generator_utilisation: float
    network_utilisation: float
    network_limits: dict[str, float]
    """How far each limit of the network is used."""
    network_gbit_per_s: float | None
    """The bandwidth that was simulated, of each direction: an instance's baseline, or its burst
    where the scenario asks for that; None on one host."""
    interrupt_utilisation: float
    core_utilisation: float
    quota_utilisation: float
    throttled_periods: float
    """Share of the periods of a CPU quota in which threads were stopped."""
    memory_bandwidth: MemoryBandwidth
    server_cpu_us_per_request: Estimate | None
    """CPU time that requests need in an ordinary window. This and the next field are None if
    nothing completed."""
    undisturbed_cpu_us_per_request: float | None
    """The same in an undisturbed window; None of an engine that wasn't observed on this host."""
    spinning_cpu_us_per_request: float | None
    """CPU time that threads spend besides on looking for work."""
    stages: list[Stage]
    """What the CPU time that requests need is made of."""
    active_threads: int
    """Threads that the engine uses, the main thread included."""
    bottleneck: str
    """The station that limits, `clients`, `turns` (threads wait for each other), or `none`."""
    next_bottleneck: NextBottleneck | None
    verdict: str
    """STABLE, SATURATED (at least 95% of what the setting serves), OVERLOADED (the backlog grows)
    or UNFIT (something else does not hold: memory, a stop, CPUs, network, objective)."""
    unmet: list[Unmet]
    """What does not hold; empty where all does."""
    limit_rps: float | None
    """The highest load that meets the objective, of this setting at any load."""
    headroom_rps: float | None
    """Load that can be added before `limit_rps`."""
    objective_probability: float | None
    """How probable it is that the objective is met; None without one."""
    warnings: list[str]
    uncertainty: Uncertainty
    """Of the throughput."""
    p99_with_pauses_ms: float | None
    """Over all requests, those that met a pause of the host of a millisecond or more among them;
    `p99_ms` is without. None where the host's profile knows of no pauses, or under overload."""
    p999_with_pauses_ms: float | None
    latency: InstanceOf[LatencyDistribution] | None = field(
        default=None, kw_only=True, repr=False, metadata=ONLY_IN_PYTHON
    )
    """Every latency of the runs at the nominal numbers, without the host's long pauses; None under
    overload, as the quantiles. Only from Python."""

    @property
    def overloaded(self) -> bool:
        """Whether the offered load exceeds what the node can serve."""
        return self.verdict == "OVERLOADED"

    @property
    def holds(self) -> bool:
        """Whether everything holds that was asked for."""
        return not self.unmet

    @property
    def threads_alike(self) -> bool:
        """Whether the server has worker threads that are all alike, and no main thread."""
        return self.main_thread_utilisation is None and bool(self.io_thread_utilisation)


@dataclass(frozen=True)
class LoadPoint(Point):
    """A point of a load curve, under requests that arrive at random."""

    @property
    def offered_rps(self) -> float:
        """The rate at which they do."""
        return float(self.given["offered_rps"])

    def to_dict(self) -> dict[str, Any]:
        """The offered load, and what a point has."""
        return {"offered_rps": self.offered_rps, **super().to_dict()}


# --- every quantity of a point, once -------------------------------------------------------------


ESTIMATE = "estimate"

Form = Literal["", "value", "margin", "bounds", "short", "name"]
"""How a table writes a quantity: not at all, its value alone, with its interval as `±5%` or as
`(1.05–1.31)`; a station in one word or by its whole name."""


@dataclass(frozen=True)
class PointQuantity:
    """A quantity of a point, and where it shows."""

    name: str
    """Of its column in files and data frames, with its unit; those of the ends of an interval
    follow, with `_low` and `_high`."""
    type: str = DOUBLE
    """Of its cells, as in `columns.py`, or `ESTIMATE`."""
    of: Source | None = None
    """What stands in its cells; the attribute of this name if left out."""
    unit: str = ""
    """Of numbers that tables show: `1/s`, `ms`, `us`, `share` or `probability`."""
    heading: str = ""
    """In tables for people."""
    meaning: str = ""
    """Whose utilisation the heading stands for."""
    of_workers: tuple[str, str] | None = None
    """Heading and meaning where all threads of the server are alike, if they differ."""
    simulate: Form = ""
    """How the table of points shows it that `simulate` prints, and so the following."""
    recommend: Form = ""
    page: Form = ""
    optional: bool = False
    """Whether a table leaves it out if no point has it."""
    yields: int = 0
    """The place in the order in which a narrow terminal leaves columns out; 0 stays."""
    in_one_run: bool = True
    """Whether a single run at the nominal numbers tells it."""

    def value(self, point: Point) -> Any:
        """What it is at a point."""
        source = self.of or self.name
        return source(point) if callable(source) else attribute(source)(point)

    def columns(self, *, interval: bool) -> list[RowColumn]:
        """Its columns in files and data frames."""
        if self.type == ESTIMATE:
            return estimate(self.name, self.value, interval=interval)
        return [column(self.name, self.type, self.value)]


def _mean_of_io_threads(point: Point) -> float | None:
    """How busy the I/O threads are on average; None where there are none."""
    found = point.io_thread_utilisation
    return float(np.mean(found)) if found else None


def _unmet(point: Point) -> str | None:
    return "; ".join(each.sentence for each in point.unmet) or None


POINT_QUANTITIES = (
    PointQuantity(
        "throughput_rps", ESTIMATE, unit="1/s", heading="requests/s",
        simulate="margin", recommend="bounds", page="bounds",
    ),
    PointQuantity("mean_ms", ESTIMATE, unit="ms"),
    PointQuantity(
        "p50_ms", ESTIMATE, unit="ms", heading="p50",
        simulate="value", page="bounds", yields=2,
    ),
    PointQuantity("p90_ms", ESTIMATE, unit="ms"),
    PointQuantity(
        "p99_ms", ESTIMATE, unit="ms", heading="p99",
        simulate="value", recommend="value", page="bounds",
    ),
    PointQuantity("p999_ms", ESTIMATE, unit="ms", heading="p99.9", page="value"),
    PointQuantity("p99_with_pauses_ms", unit="ms"),
    PointQuantity("p999_with_pauses_ms", unit="ms"),
    PointQuantity("backlog_growth_rps", ESTIMATE, unit="1/s"),
    PointQuantity("server_cpu_us_per_request", ESTIMATE, unit="us"),
    PointQuantity("undisturbed_cpu_us_per_request", unit="us"),
    PointQuantity("spinning_cpu_us_per_request", unit="us"),
    PointQuantity(
        "main_thread_utilisation", unit="share", heading="main", meaning="main thread",
        optional=True, yields=4,
        simulate="value", recommend="value", page="value",
    ),
    PointQuantity(
        "io_thread_utilisation", of=_mean_of_io_threads, unit="share", heading="I/O",
        meaning="I/O threads", of_workers=("work", "worker threads"), yields=3,
        simulate="value", recommend="value", page="value",
    ),
    PointQuantity(
        "load_generator_utilisation", unit="share", heading="load", meaning="load generator",
        simulate="value", recommend="value", page="value", yields=1,
    ),
    PointQuantity("network_utilisation", unit="share"),
    PointQuantity("network_gbit_per_s"),
    PointQuantity("interrupt_utilisation", unit="share"),
    PointQuantity("core_utilisation", unit="share"),
    PointQuantity("quota_utilisation", unit="share"),
    PointQuantity("throttled_periods", unit="share"),
    PointQuantity("memory_gb_per_s", of="memory_bandwidth.gb_per_s"),
    PointQuantity("memory_bandwidth_utilisation", of="memory_bandwidth.utilisation", unit="share"),
    PointQuantity("active_threads", INTEGER),
    PointQuantity(
        "objective_probability", unit="probability", heading="meets",
        recommend="value", page="value", optional=True, in_one_run=False,
    ),
    PointQuantity(
        "bottleneck", TEXT, heading="limit",
        simulate="short", recommend="short", page="name",
    ),
    PointQuantity(
        "verdict", TEXT, heading="verdict", simulate="value", page="value",
    ),
    PointQuantity("unmet", TEXT, of=_unmet),
    PointQuantity("next_bottleneck", TEXT, of="next_bottleneck.name", in_one_run=False),
    PointQuantity(
        "next_bottleneck_rps", of="next_bottleneck.at_rps", unit="1/s", in_one_run=False
    ),
    PointQuantity("limit_rps", unit="1/s", in_one_run=False),
    PointQuantity("headroom_rps", unit="1/s", in_one_run=False),
    PointQuantity("warnings", TEXT, of=sentences),
)  # fmt: skip
"""All quantities that points are listed with, in order: the columns of `forecache sweep`, of data
frames and of a study's files, and those of tables in terminal, page and notebook. `to_dict` has
every field of `Point` besides."""


def point_columns(*, nominal: bool = False) -> list[RowColumn]:
    """Columns of points in files and data frames.

    Parameters
    ----------
    nominal
        Only what one run at the nominal numbers tells, without intervals.
    """
    return [
        column
        for quantity in POINT_QUANTITIES
        if quantity.in_one_run or not nominal
        for column in quantity.columns(interval=not nominal)
    ]
