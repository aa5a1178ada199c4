"""What is lost by another setting than the recommended one, and why not to take it."""

from __future__ import annotations

from dataclasses import dataclass

from forecache.sim.plain import Result
from forecache.sim.words import chance, milliseconds

from ..prediction.predict import CLIENTS, TURNS, Prediction
from .choice import Candidate
from .objective import asked_of, meets
from .paired import paired_ratio

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


def regret_of(chosen: Candidate, other: Candidate) -> Regret:
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


def reached_by(prediction: Prediction) -> str:
    """The latencies that an SLO bounds, in words."""
    if prediction.overloaded:
        return "a backlog that grows"
    return ", ".join(f"{n[:-3]} {milliseconds(prediction.mean(n))}" for n in asked_of(prediction))


def _why_not(chosen: Candidate, other: Candidate, loss: float) -> str:
    point, policy = other.point, other.prediction.system.engine.threading
    if other.ignored and not chosen.ignored:
        return other.ignored
    if point.overloaded:
        return "can't keep up with the offered load"
    if chosen.sure_enough and not other.sure_enough:
        if not meets(other.prediction):
            return f"misses the slo: {reached_by(other.prediction)}"
        sure = chance(point.objective_probability or 0.0)
        return f"meets the slo with a probability of only {sure}: {reached_by(other.prediction)}"
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
