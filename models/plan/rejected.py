"""Why each obvious alternative to the best plan was turned down, with the number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from forecache.sim.words import NO_CLEAR_DIFFERENCE, chance

from ..footprint.limits import gib
from .bounds import memory_used
from .offers import Refused
from .race import SETTLED, Entry
from .ranking import tied
from .results import RankedPlan, Rejected
from .schema import PlanScenario
from .shard import goes_on, room_of, stranded
from .trials import FULL, Trial, Trials


def rejected_alternatives(
    plan: PlanScenario, best: Entry, others: Sequence[Entry], *, one_thread: Trial | None
) -> list[Rejected]:
    """Of one shard fewer, other sizes, families, engines, one thread and other replicas."""
    found = [
        _one_fewer(plan, best),
        *_sizes(best, others),
        *_each(best, others, "family", lambda entry: entry.offer.family),
        *_each(best, others, "engine", lambda entry: entry.offer.engine_words),
        None if one_thread is None else _one_thread(best, one_thread),
        *_each(best, others, "replicas", lambda entry: str(entry.offer.replicas)),
    ]
    return [each for each in found if each is not None]


def one_thread_of(plan: PlanScenario, best: Entry, seed: int) -> Trial | None:
    """The best plan with a single thread; None where it has one or may not."""
    if best.threads[0] == 1 or 1 not in best.offer.threads:
        return None
    return Trials(plan, best.offer, seed=seed).trial(1, best.shards, FULL)


def nothing_holds(others: Iterable[Entry], refused: Iterable[Refused]) -> list[Rejected]:
    """Why none of the offers meets the objectives, in the order of what they would cost."""
    found = [Rejected("instance", e.offer.words, e.why, None, None, certain=True) for e in others]
    return found + [Rejected("instance", r.what, r.why, None, None, certain=True) for r in refused]


def rejected_today(first: RankedPlan, today: RankedPlan, *, keeps: bool) -> Rejected:
    """Why not to stay with what runs now, or why to."""
    setting = today.setting
    what = (
        f"today's {setting.shards} shard{'s' * (setting.shards > 1)} of {setting.instance}, "
        f"{setting.engine} {setting.engine_version}"
    )
    more = today.usd_per_month - first.usd_per_month
    open_ = f"draws can't tell if it holds ({today.why})" if today.why else "it just holds"
    holds = open_ if today.is_open else "it holds"
    if not today.meets and not today.is_open:
        why = today.why
    elif setting == first.setting:
        why = "it is the first plan"
    elif not keeps:
        why = f"{holds}, and costs ${more:,.0f} a month more"
    elif more > 0:
        share = more / today.usd_per_month
        why = f"{holds}, and the first plan costs {share:.1%} less, not a tenth: it stays"
    else:
        why = f"{holds}, and costs ${-more:,.0f} a month less: it stays"
    return Rejected("today", what, why, today.usd_per_month, setting.shards, certain=True)


def _one_fewer(plan: PlanScenario, best: Entry) -> Rejected | None:
    fewer = best.shards - 1
    if fewer < 1:
        return None
    what = f"{fewer} shard{'s' * (fewer > 1)} of {best.offer.name}"
    usd = best.offer.nodes_usd(fewer)
    if fewer < plan.choices.shards.least:
        why = f"fewer than the {plan.choices.shards.least} that are asked for"
        return Rejected("shards", what, why, usd, fewer, certain=True)
    if not goes_on(plan, best.offer, fewer):
        why = stranded(plan, best.offer, fewer)
        return Rejected("shards", what, why, usd, fewer, certain=True)
    months = plan.demand.horizon_months
    allowed = 1.0 - plan.objectives.memory_headroom
    if memory_used(plan, best.offer, fewer, months=months) > allowed:
        room = room_of(plan, best.offer, serving=fewer, months=months)
        why = (
            f"each would need {gib(room.needed_bytes)} GiB, and may use "
            f"{gib(allowed * room.limit.usable_bytes)} of its {gib(room.limit.memory_bytes)}"
        )
        return Rejected("shards", what, why, usd, fewer, certain=True)
    tried = [t for t in best.trials if t.shards == fewer and t.why_not is not None]
    why = tried[0].why_not if tried and tried[0].why_not else best.why
    return Rejected("shards", what, why, usd, fewer, certain=True)


def _sizes(best: Entry, others: Sequence[Entry]) -> list[Rejected]:
    """The next smaller and the next larger size of the same family, with the same engine."""
    alike = [
        entry
        for entry in others
        if entry.offer.family == best.offer.family
        and entry.offer.engine_words == best.offer.engine_words
        and entry.offer.replicas == best.offer.replicas
    ]
    price = best.offer.usd_per_month
    smaller = [entry for entry in alike if entry.offer.usd_per_month < price]
    larger = [entry for entry in alike if entry.offer.usd_per_month > price]
    found = []
    if smaller:
        found.append(max(smaller, key=lambda entry: entry.offer.usd_per_month))
    if larger:
        found.append(min(larger, key=lambda entry: entry.offer.usd_per_month))
    return [_rejected("size", entry.offer.name, best, entry) for entry in found]


def _each(
    best: Entry, others: Sequence[Entry], kind: str, name_of: Callable[[Entry], str]
) -> list[Rejected]:
    """The cheapest of each other family, engine or number of replicas."""
    own, cheapest = name_of(best), dict[str, Entry]()
    for entry in others:
        name = name_of(entry)
        if name != own and (name not in cheapest or _cost(entry) < _cost(cheapest[name])):
            cheapest[name] = entry
    whats = {"family": "{}.*", "engine": "{}", "replicas": "{} replicas"}
    found = []
    for name, entry in cheapest.items():
        what = whats[kind].format(name)
        found.append(_rejected(kind, f"{what}, at best {entry.offer.name}", best, entry))
    return found


def _cost(entry: Entry) -> tuple[bool, float]:
    return entry.impossible, entry.usd_per_month


def _rejected(kind: str, what: str, best: Entry, entry: Entry) -> Rejected:
    """An offer against the best."""
    if entry.impossible:
        return Rejected(kind, what, entry.why, None, None, certain=True)
    certain = entry.stage == SETTLED
    more = entry.usd_per_month - best.usd_per_month
    takes = f"{entry.shards} shard{'s' * (entry.shards > 1)}"
    least = "" if certain else "at least "
    if more > 0.005:
        why = f"takes {least}{takes}, ${more:,.0f} a month more{_in_brackets(entry.why)}"
    elif certain:
        why = f"takes {takes}, costs the same, and {_told(entry)}, the best {_told(best)}"
        if tied(best, entry):
            why += f"; there is {NO_CLEAR_DIFFERENCE} between them"
    else:
        why = f"takes {least}{takes}, and costs at least the same{_in_brackets(entry.why)}"
    return Rejected(kind, what, why, entry.usd_per_month, entry.shards, certain)


def _in_brackets(why: str) -> str:
    return f" ({why})" if why else ""


def _told(entry: Entry) -> str:
    """What decides between plans of equal cost."""
    trial = entry.holding
    met = chance(trial.probability)
    return f"meets the objective with {met} and leaves {1.0 - trial.load:.0%} of a node free"


def _one_thread(best: Entry, trial: Trial) -> Rejected:
    mine = best.holding
    if trial.why_not is not None:
        why = trial.why_not
    else:
        spare = [1.0 - each.load for each in (trial, mine)]
        why = (
            f"holds as well ({chance(trial.probability)}), and leaves {spare[0]:.0%} of a "
            f"node's capacity free where {mine.threads} threads leave {spare[1]:.0%}"
        )
    what = f"io-threads 1 on {best.shards} shard{'s' * (best.shards > 1)} of {best.offer.name}"
    return Rejected("io_threads", what, why, best.usd_per_month, best.shards, certain=True)
