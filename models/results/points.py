"""One node in a steady state: what is predicted of each point of a sweep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import InstanceOf

from forecache.sim.plain import ONLY_IN_PYTHON, Result, where_set
from forecache.sim.statistics import Estimate

from .latency import LatencyDistribution


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
    """How far one measured window may be from an ordinary one, on this day after this start."""


@dataclass(frozen=True)
class Point(Result):
    """What is predicted at one point of a sweep.

    Every estimate has a 95% interval, utilisations and shares are from 0 to 1.
    """

    given: dict[str, Any]
    """The swept fields of the scenario."""
    throughput_rps: Estimate
    mean_ms: Estimate | None
    """Latency; None under overload, as the quantiles, and then with a growing backlog. The upper
    end is infinite where some of the uncertain numbers overload the server."""
    p50_ms: Estimate | None
    p90_ms: Estimate | None
    p99_ms: Estimate | None
    p999_ms: Estimate | None
    backlog_growth_rps: Estimate | None
    """By how many requests a second the backlog grows; None where it doesn't."""
    main_thread_utilisation: float | None
    """None of threads that are all alike."""
    io_thread_utilisation: list[float]
    """Of each I/O thread, or each of threads that are all alike."""
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
    """CPU time that requests need in an ordinary window; None without completions, as the next."""
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
    """How much more load it bears."""
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
