"""Which of the predicted settings to run, what is lost by each other, and why not to take it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forecache.sim.plain import Result, where_set
from forecache.sim.statistics import Estimate
from forecache.sim.words import chance, milliseconds

from ..footprint.node import node_room
from ..prediction.predict import CLIENTS, TURNS, Prediction
from ..prices.table import server_price
from ..results.points import NextBottleneck, Point
from .benchmark import benchmark_command, benchmark_note, no_benchmark_command
from .configuration import configuration, configuration_file
from .next_measurement import MeasureNext
from .objective import KNEE, excess, meets, objective_bounds
from .paired import paired_ratio
from .thread_plan import ThreadPlan


@dataclass(frozen=True)
class Candidate:
    """A setting that was predicted: its runs, and what they say."""

    prediction: Prediction
    point: Point

    @property
    def io_threads(self) -> int:
        """The number of threads that it runs."""
        return self.prediction.case.scenario.io_threads

    @property
    def throughput_rps(self) -> float:
        """At the nominal numbers."""
        return self.prediction.mean("throughput_rps")

    @property
    def ignored(self) -> str:
        """The warning that the engine runs fewer threads than the setting has; else empty."""
        return next((text for text in self.point.warnings if "are ignored" in text), "")

    @property
    def sure_enough(self) -> bool:
        """Whether it meets the SLO, if there is one, with the probability asked for."""
        slo, probability = self.prediction.case.scenario.slo, self.point.objective_probability
        return slo is None or (probability or 0.0) >= slo.probability


@dataclass(frozen=True)
class Choice:
    """Which setting is recommended among which, or comes closest to an objective none meets.

    Attributes
    ----------
    chosen, knee
        That setting, and the curve's knee.
    others
        All other settings, by io_threads.
    rivals
        Those of them that could be recommended: inside the model, keeping up, meeting the SLO with
        the probability asked for.
    met
        Whether a setting meets the SLO, or none was asked for: only then one is recommended.
    """

    chosen: Candidate
    knee: Candidate
    others: list[Candidate]
    rivals: list[Candidate]
    met: bool


def choose(candidates: Sequence[Candidate]) -> Choice:
    """Choose among settings that differ in io_threads."""
    everything = sorted(candidates, key=lambda each: each.io_threads)
    inside = [each for each in everything if not each.ignored] or everything
    # A setting that requests pile up at meets nothing, whatever its throughput.
    steady = [each for each in inside if not each.point.overloaded]
    sure = [each for each in steady or inside if each.sure_enough]
    able = sure or steady or inside
    knee = _first_near_the_best(inside)
    # Where none has a chance to speak of, the smallest excess says more than the probability; of
    # those that are all overloaded, the one whose backlog grows slowest.
    chosen = _first_near_the_best(sure) if sure else max(able, key=_closeness)
    others = [each for each in everything if each is not chosen]
    rivals = [each for each in able if each is not chosen]
    return Choice(chosen, knee, others, rivals, met=bool(sure))


def _first_near_the_best(candidates: Sequence[Candidate]) -> Candidate:
    best_rps = max(each.throughput_rps for each in candidates)
    return next(each for each in candidates if each.throughput_rps >= KNEE * best_rps)


def _closeness(candidate: Candidate) -> tuple[float, float, float]:
    """How close a setting comes to the objective."""
    probability = round(candidate.point.objective_probability or 0.0, 2)
    return probability, -excess(candidate.prediction), candidate.throughput_rps


_NO_WORK = 0.005
"""Share of a core below which I/O threads count as stopped."""


@dataclass(frozen=True)
class Regret(Result):
    """Another setting against the chosen one."""

    io_threads: int
    throughput_loss: float
    """The share of the chosen setting's throughput that it lacks; below 0 if it reaches more."""
    low: float
    """Of the 95% interval of that, by what the two settings do not share."""
    high: float
    why_not: str
    """In a sentence."""


def _regret(chosen: Candidate, other: Candidate) -> Regret:
    """What is lost by another setting."""
    ratio = paired_ratio(chosen.prediction, other.prediction, "throughput_rps")
    loss = 1.0 - ratio.value
    return Regret(
        io_threads=other.io_threads,
        throughput_loss=loss,
        low=1.0 - ratio.high,
        high=1.0 - ratio.low,
        why_not=_why_not(chosen, other, loss),
    )


def latency_words(prediction: Prediction) -> str:
    """The latencies that an SLO bounds, in words."""
    if prediction.overloaded:
        return "a backlog that grows"
    return ", ".join(
        f"{n[:-3]} {milliseconds(prediction.mean(n))}" for n in objective_bounds(prediction)
    )


def _why_not(chosen: Candidate, other: Candidate, loss: float) -> str:
    point, policy = other.point, other.prediction.system.engine.threading
    if other.ignored and not chosen.ignored:
        return other.ignored
    if point.overloaded:
        return "can't keep up with the offered load"
    if chosen.sure_enough and not other.sure_enough:
        if not meets(other.prediction):
            return f"misses the slo: {latency_words(other.prediction)}"
        sure = chance(point.objective_probability or 0.0)
        return f"meets the slo with a probability of only {sure}: {latency_words(other.prediction)}"
    seldom = policy.replies_per_thread * other.io_threads
    if other.io_threads > 1 and seldom and point.active_threads == 1:
        return (
            f"fewer than {seldom} replies usually wait at once, so the engine stops all its I/O "
            "threads"
        )
    if other.io_threads < chosen.io_threads:
        return _why_not_fewer(other)
    if point.active_threads <= chosen.point.active_threads:
        more = sum(point.io_thread_utilisation) - sum(chosen.point.io_thread_utilisation)
        if more < _NO_WORK:
            return "the engine leaves the extra threads stopped"
        return (
            f"the engine keeps the extra threads stopped most of the time: they use only "
            f"{more:.0%} of a core"
        )
    threads = other.io_threads - chosen.io_threads
    several = "s" * (threads > 1)
    if loss > 0.01 and point.bottleneck == "cores" != chosen.point.bottleneck:
        return "more threads than cores, so threads wait for a core"
    if loss > 0.01 and policy.locks_items:
        return "loses throughput: threads wait for each other's locks"
    if loss > 0.01:
        return f"loses throughput: {threads} more thread{several} to hand work to"
    if point.core_utilisation > 0:
        return "more threads than cores, for no significant gain"
    return f"{threads} more core{several} busy for no significant gain"


def _why_not_fewer(other: Candidate) -> str:
    """What a setting with fewer threads is limited by."""
    limit = other.point.bottleneck
    if other.prediction.threads_alike and other.io_threads == 1:
        return "one worker thread does all the work"
    if limit == "main thread" and other.io_threads == 1:
        return "the main thread still does the socket work itself"
    if limit == "none":
        return "reaches less, although no station is saturated"
    if limit == CLIENTS:
        return "reaches less: with this many clients every request takes longer"
    if limit == TURNS:
        return "reaches less: its threads take turns, each waits while another works"
    if limit.endswith("s"):
        return f"{limit} are the bottleneck"
    return f"the {limit} is the bottleneck"


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


def build_recommendation(
    choice: Choice, *, measure_next: MeasureNext, thread_plan: ThreadPlan | None = None
) -> Recommendation:
    """The recommendation of the chosen setting."""
    prediction, point = choice.chosen.prediction, choice.chosen.point
    scenario, system = prediction.case.scenario, prediction.system
    price = server_price(system.host, system.engine.engine)
    throughput_rps = choice.chosen.throughput_rps
    shortfall = node_room(scenario, system.engine, system.host).shortfall
    recommended = choice.met and shortfall is None
    setting = {"io_threads": choice.chosen.io_threads}
    return Recommendation(
        setting=setting if recommended else None,
        closest=None if recommended else setting,
        shortfall=shortfall,
        knee={"io_threads": choice.knee.io_threads},
        throughput_rps=point.throughput_rps,
        regret=[_regret(choice.chosen, other) for other in choice.others],
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
        cost_usd_per_million_requests=(
            price.usd_per_hour / 3600 / throughput_rps * 1e6
            if price is not None and throughput_rps > 0
            else None
        ),
        cost_note=price.note if price is not None else "",
        measure_next=measure_next,
        thread_plan=thread_plan,
    )


def _slo(choice: Choice) -> SloVerdict | None:
    prediction = choice.chosen.prediction
    slo = prediction.case.scenario.slo
    if slo is None:
        return None
    asked = objective_bounds(prediction)
    return SloVerdict(
        **asked,
        met=choice.met,
        probability=choice.chosen.point.objective_probability or 0.0,
        asked_probability=slo.probability,
        asked=", ".join(f"{name[:-3]} at most {limit:g} ms" for name, limit in asked.items()),
        reached=latency_words(prediction),
    )
