"""Which number of I/O threads to run, what it costs to be off by some, and why."""

from __future__ import annotations

from dataclasses import dataclass

from forecache.sim.plain import Result, where_set
from forecache.sim.statistics import Estimate

from ..footprint.node import node_room
from ..prices.table import HourlyPrice
from ..results.points import NextBottleneck
from .benchmark import benchmark_command, benchmark_note, no_benchmark_command
from .choice import Candidate, Choice
from .configuration import configuration, configuration_file
from .next_measurement import MeasureNext
from .objective import asked_of
from .regret import Regret, reached_by, regret_of
from .server_price import server_price
from .thread_plan.plan import ThreadPlan


@dataclass(frozen=True, kw_only=True)
class SloVerdict(Result):
    """What the scenario's SLO asks for, and how the chosen setting stands to it."""

    p50_ms: float | None = where_set()
    """Bounds; None where the SLO has none."""
    p99_ms: float | None = where_set()
    p999_ms: float | None = where_set()
    met: bool
    probability: float
    """How probable it is that the chosen setting meets it."""
    asked_probability: float
    asked: str
    """The bounds in words."""
    reached: str
    """What the chosen setting reaches, in words."""

    @property
    def bounds_ms(self) -> dict[str, float]:
        """The bounds there are, by the name of the quantile."""
        bounds = {"p50": self.p50_ms, "p99": self.p99_ms, "p999": self.p999_ms}
        return {name: bound for name, bound in bounds.items() if bound is not None}


@dataclass(frozen=True)
class Recommendation(Result):
    """Which setting to run, what it reaches, and why not to take another one."""

    setting: dict[str, int] | None
    """What to run; None where the data don't fit or no setting meets the SLO."""
    closest: dict[str, int] | None
    """Then which setting comes closest to it: the rest is about that one."""
    shortfall: str | None
    """That the data don't fit, in words; None where they do."""
    knee: dict[str, int]
    """Where the throughput curve stops rising."""
    throughput_rps: Estimate
    regret: list[Regret]
    """One for each other setting."""
    bottleneck: str
    network_limits: dict[str, float]
    next_bottleneck: NextBottleneck | None
    conf: str
    """Lines for `conf_file`."""
    conf_file: str
    benchmark_command: str
    """Checks the prediction; empty where `no_benchmark_command` says why there is none."""
    no_benchmark_command: str
    slo: SloVerdict | None
    limit_rps: float | None
    headroom_rps: float | None
    cost_usd_per_million_requests: float | None
    cost_note: str
    """Whose price it is."""
    measure_next: MeasureNext
    """What would narrow its interval."""
    thread_plan: ThreadPlan | None = None
    """Which CPUs threads, interrupts and neighbours get; None where none was asked for, where no
    setting is recommended, and for an engine that only a service runs."""
    benchmark_note: str = where_set("")
    """In what `benchmark_command` differs from the scenario."""

    @property
    def chosen(self) -> dict[str, int]:
        """The setting to run, or which comes closest."""
        return self.setting or self.closest or {}


def recommendation_of(
    choice: Choice, *, measure_next: MeasureNext, thread_plan: ThreadPlan | None = None
) -> Recommendation:
    """What is to be said of the chosen setting."""
    prediction, point = choice.chosen.prediction, choice.chosen.point
    scenario, system = prediction.case.scenario, prediction.system
    price = server_price(system)
    shortfall = node_room(scenario, system.engine, system.host).shortfall
    recommended = choice.met and shortfall is None
    setting = {"io_threads": choice.chosen.io_threads}
    return Recommendation(
        setting=setting if recommended else None,
        closest=None if recommended else setting,
        shortfall=shortfall,
        knee={"io_threads": choice.knee.io_threads},
        throughput_rps=point.throughput_rps,
        regret=[regret_of(choice.chosen, other) for other in choice.others],
        bottleneck=point.bottleneck,
        network_limits=point.network_limits,
        next_bottleneck=point.next_bottleneck,
        conf=configuration(scenario, system.engine),
        conf_file=configuration_file(system.engine),
        benchmark_command=benchmark_command(scenario, system.engine),
        no_benchmark_command=no_benchmark_command(scenario),
        benchmark_note=benchmark_note(scenario, system.engine),
        slo=_slo(choice),
        limit_rps=point.limit_rps,
        headroom_rps=point.headroom_rps,
        cost_usd_per_million_requests=_cost_usd(choice.chosen, price),
        cost_note=price.note if price is not None else "",
        measure_next=measure_next,
        thread_plan=thread_plan,
    )


def _slo(choice: Choice) -> SloVerdict | None:
    prediction = choice.chosen.prediction
    slo = prediction.case.scenario.slo
    if slo is None:
        return None
    asked = asked_of(prediction)
    return SloVerdict(
        **asked,
        met=choice.met,
        probability=choice.chosen.point.objective_probability or 0.0,
        asked_probability=slo.probability,
        asked=", ".join(f"{name[:-3]} at most {limit:g} ms" for name, limit in asked.items()),
        reached=reached_by(prediction),
    )


def _cost_usd(candidate: Candidate, price: HourlyPrice | None) -> float | None:
    """Of a million requests."""
    if price is None or candidate.throughput_rps <= 0:
        return None
    return price.usd_per_hour / 3600 / candidate.throughput_rps * 1e6
