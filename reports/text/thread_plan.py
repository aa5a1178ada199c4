"""A thread plan in words: who gets which CPUs, and what that gains."""

from forecache.models.advice.placement import cpu_list
from forecache.models.advice.recommend import Recommendation
from forecache.models.advice.thread_plan import PlanGain, ThreadPlan
from forecache.sim.statistics import Estimate
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from .differences import NAMES, change

_SAME = Estimate(1.0, 1.0, 1.0)
"""Of two that run the same simulation."""


def title_phrase(plan: ThreadPlan) -> str:
    """`Thread plan: 16 CPUs, each a core`."""
    each = "each a core" if plan.threads_per_core == 1 else f"{plan.threads_per_core} a core"
    return f"Thread plan: {plan.cpus} CPUs, {each}"


def configuration_text(recommendation: Recommendation) -> str:
    """Lines of the engine's configuration file, those of the thread plan among them."""
    plan = recommendation.thread_plan
    lists = [] if plan is None else plan.conf
    return "\n".join([recommendation.conf.strip("\n"), *lists]).strip("\n")


def no_plan_phrase(recommendation: Recommendation) -> str:
    """Say why there is no plan; empty where there is one, or where a service places the threads."""
    if recommendation.setting is not None or recommendation.thread_plan is not None:
        return ""
    return "No lists of CPUs: a thread plan is made only where a setting is recommended."


def cpu_rows(plan: ThreadPlan) -> list[tuple[str, str]]:
    """Who gets which CPUs; of lists that are the same, one row."""
    rows = [("server’s threads", plan.server)]
    if plan.interrupts or plan.background:
        rows.append(("interrupts", plan.interrupts))
    if plan.background == plan.neighbours:
        rows.append(("everything else", plan.background))
    else:
        rows.append(("background threads, children", plan.background))
        rows.append(("everything else", plan.neighbours))
    rows.append(("nobody (hyperthreads beside the server’s)", plan.idle))
    left = {"interrupts": "left to the kernel"}
    return [(who, cpu_list(cpus) or left[who]) for who, cpus in rows if cpus or who in left]


def gain_phrase(plan: ThreadPlan) -> str:
    """`Gain over threads left to the kernel: +38% (+31% to +45%)`; empty if nothing is kept apart.

    Of p99: `p99 −12% (−20% to −3%)`; an interval that includes zero is no clear difference.
    """
    if plan.gain is None:
        return ""
    return f"Gain over threads left to the kernel: {_amount(plan.gain)}"


def _amount(gain: PlanGain) -> str:
    found = next((each for each in gain.differences if each.quantity == gain.decides), None)
    if found is None:
        return f"{gain.verdict} ({gain.note})".replace("'", "’")
    text = change(found)
    if gain.verdict == NO_CLEAR_DIFFERENCE:
        text = NO_CLEAR_DIFFERENCE if found.ratio in (None, _SAME) else f"{gain.verdict} ({text})"
    return text if found.quantity == "throughput_rps" else f"{NAMES[found.quantity]} {text}"
