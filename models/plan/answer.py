"""The verb `plan`: ranked plans for a scenario of `kind: plan`, and why not something else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from itertools import pairwise

from forecache.hwprofiles.files import named, parse
from forecache.sim.errors import InfeasibleError, InputError
from forecache.sim.processes import workers
from forecache.sim.words import NO_CLEAR_DIFFERENCE, byte_size, chance

from ..cost.bill import BACKUPS, nodes_usd
from ..prediction.predict import Progress
from ..prices.table import days_apart
from ..results.consistency import Checked
from ..results.displayed import provenance
from ..scenario.source import ScenarioSource, read_scenario
from ..scenario.sweeps import first_sweep
from .bill import data_tiering_offer, serverless_offers, with_bill
from .compression import (
    LEAST_PIECES,
    Ratios,
    compression_effect,
    measured_ratios,
    with_stored_values,
)
from .forecast import forecast, forecast_current, headroom_front
from .levers import find_levers, largest_part
from .offers import current_offer, find_offers
from .own_times import OwnTimeCorrections
from .results import NotOffered, PlanAnswer, RankedPlan, Rejected, SearchCounts
from .schema import PlanScenario, as_mapping
from .search import BOUNDED, RACED, SETTLED, SIZED, BoundedOffer, search, tied
from .shard import Offer, memory_room, memory_used, survives_losses, why_no_failover
from .trials import FULL, Trial, Trials


def load_plan(source: ScenarioSource) -> tuple[PlanScenario, str]:
    """A scenario of `kind: plan`, and what to call it in messages."""
    given = read_scenario(source)
    given.kind(["plan"])
    if swept := first_sweep(given.data):
        raise InputError(
            f"{given.name}: field '{swept}': found a list or a sweep; valid is one value, and "
            f"`forecache sweep` makes a plan for each of several."
        )
    return parse(PlanScenario, given.data, file=given.name), given.name


def plan(
    source: ScenarioSource,
    *,
    seed: int = 1,
    full: bool = False,
    corrections: OwnTimeCorrections | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> PlanAnswer:
    """Which machines, how many shards and which engine meet a demand, the cheapest first.

    What runs today stays unless it misses the objectives or a plan costs less by a tenth.

    Parameters
    ----------
    source
        Path of a scenario of `kind: plan`, or its content.
    full
        Try every number of shards and threads of every offer, which takes minutes: what the search
        is held against.
    corrections
        What today's nodes told of themselves.

    Raises
    ------
    InfeasibleError
        Nothing that may be chosen meets the objectives; the error's `result` says why.
    """
    asked, file = load_plan(source)
    with named(file):
        ratios = measured_ratios(asked.demand)
        scenario = asked if ratios is None else with_stored_values(asked, ratios)
        found_offers, refused = find_offers(scenario, corrections)
        offers = [with_bill(scenario, each) for each in found_offers]
        today = None
        if scenario.today is not None:
            today = with_bill(scenario, current_offer(scenario, scenario.today, corrections))
        with workers(executor) as where:
            best, others = search(
                scenario, offers, seed=seed, executor=where, full=full, progress=progress
            )
            answer = _answer(
                scenario, best, others, offers, refused, today, seed=seed, executor=where,
                full=full, progress=progress,
            )  # fmt: skip
            chosen = today if answer.keeps_today else best[0].offer if best else None
            if (runs := answer.recommended) is not None and chosen is not None:
                found = find_levers(scenario, chosen, runs, seed=seed, executor=where)
                answer = replace(answer, largest_part=largest_part(runs), levers=found)
        if ratios is not None and offers:
            answer = _with_compression(answer, asked, ratios, best, offers)
    check_plan(answer)
    if answer.recommended is None:
        first = answer.rejected[0]
        raise InfeasibleError(
            f"{file}: nothing that may be chosen meets the objectives; {first.what}: {first.why}.",
            result=answer,
        )
    return answer


def check_plan(answer: PlanAnswer) -> None:
    """Raise a `RuntimeError` if an answer contradicts itself."""
    checked = Checked("plan")
    checked.in_order([("a plan", each.usd_per_month) for each in answer.plans])
    levers = [lever.plan for lever in answer.levers]
    for each in [*answer.plans, *levers, *([] if answer.today is None else [answer.today])]:
        checked.sum("the cost of nodes", each.usd_per_month, [nodes_usd(each.bill)])
        if each.bill_usd_per_month is not None:
            whole = [line.usd for line in each.bill]
            checked.sum("the cost of a plan", each.bill_usd_per_month, whole)
        for name in ("p50_ms", "p99_ms", "p999_ms"):
            estimate = getattr(each.horizon, name)
            if estimate is not None:
                checked.estimate(name, estimate)


def _answer(
    scenario: PlanScenario,
    best: Sequence[BoundedOffer],
    others: Sequence[BoundedOffer],
    offers: Sequence[Offer],
    refused: Sequence[NotOffered],
    today: Offer | None,
    *,
    seed: int,
    executor: Executor,
    full: bool,
    progress: Progress | None,
) -> PlanAnswer:
    """The answer, from what the search found: the best offers, and all others."""
    if progress is not None:
        progress("looking at growth and failures")
    calls = [executor.submit(forecast, scenario, entry, seed) for entry in best]
    ran = None if today is None else executor.submit(forecast_current, scenario, today, seed)
    alone = executor.submit(one_thread_trial, scenario, best[0], seed) if best else None
    ties = [False, *(tied(*pair) for pair in pairwise(best))]
    plans = [replace(call.result(), tied=tie) for call, tie in zip(calls, ties, strict=False)]
    runs_now = None if ran is None else ran.result()
    best_usd = plans[0].usd_per_month if plans else None
    keeps = _keeps(runs_now, plans)
    if plans and alone is not None:
        rejected = rejected_alternatives(
            scenario, best[0], [*best[1:], *others], one_thread=alone.result()
        )
        if runs_now is not None:
            rejected.append(rejected_today(plans[0], runs_now, keeps=keeps))
    else:
        rejected = rejected_offers(others, refused)
    demand, months = scenario.demand, scenario.demand.horizon_months
    return PlanAnswer(
        kind="plan",
        scenario=dict(as_mapping(scenario)),
        peak_rps=demand.peak_rps,
        horizon_rps=demand.peak_rps * demand.growth(months),
        data_growth=demand.data_growth(months),
        plans=plans,
        keeps_today=keeps,
        with_traffic=order_by_whole_bill(plans, runs_now, others),
        rejected=rejected,
        front=headroom_front(scenario, [*best, *others]),
        today=runs_now,
        serverless=serverless_offers(scenario, offers, best_usd=best_usd),
        data_tiering=data_tiering_offer(scenario, offers),
        not_offered=list(refused),
        search=_counts(offers, [*best, *others], full=full),
        warnings=[
            *_warnings([runs_now, *plans] if keeps and runs_now is not None else plans),
            *payment_warnings(scenario, offers),
        ],
        provenance=provenance(seed=seed),
    )


WORTH_A_CHANGE = 0.1
"""By which share of its cost another plan has to be cheaper than what runs today, to replace it."""


def _keeps(today: RankedPlan | None, plans: Sequence[RankedPlan]) -> bool:
    """Whether the current deployment stays: what replaces it has to prove that it is better."""
    if today is None or not (today.meets or today.is_open):
        return False
    least = min((each.usd_per_month for each in plans), default=math.inf)
    return least > (1.0 - WORTH_A_CHANGE) * today.usd_per_month


def order_by_whole_bill(
    plans: Sequence[RankedPlan], today: RankedPlan | None, others: Sequence[BoundedOffer]
) -> str:
    """How the order of plans would change if ranked by the whole bill, in a sentence; else empty.

    Parameters
    ----------
    others
        Offers that are no plans: the search has settled those of which the whole bill may be the
        lowest.
    """
    if not plans:
        return ""
    rows = [
        (f"plan {n}", each.usd_per_month, each.bill_usd_per_month)
        for n, each in enumerate(plans, start=1)
    ]
    unpriced = [name for name, _, bill in rows if bill is None]
    if today is not None and (today.meets or today.is_open):
        rows.append(("today's", today.usd_per_month, today.bill_usd_per_month))
    settled = [e for e in others if e.stage == SETTLED and not e.impossible]
    known = [(usd, n, e) for n, e in enumerate(settled) if (usd := e.bill_usd) is not None]
    if known:
        usd, _, entry = min(known)
        if usd < min((bill for *_, bill in rows if bill is not None), default=math.inf):
            words = f"{entry.shards} shard{'s' * (entry.shards > 1)} of {entry.offer.words}"
            rows.append((words, entry.usd_per_month, usd))
    priced = [(name, nodes, bill) for name, nodes, bill in rows if bill is not None]
    by_nodes = sorted(priced, key=lambda row: round(100 * row[1]))
    by_bill = sorted(by_nodes, key=lambda row: round(100 * row[2]))
    backups = any(line.what == BACKUPS for each in plans for line in each.bill)
    what = f"traffic between zones{' and backups' if backups else ''}"
    found = []
    if by_bill != by_nodes:
        shown = ", ".join(f"{name} ${bill:,.0f}" for name, _, bill in by_bill)
        found.append(f"{what} would change the order, a month with it: {shown}")
    if unpriced and priced:
        names = first_names(unpriced, most=len(unpriced))
        found.append(f"{what} of {names} has no known price, and is no part of the ranking")
    sentence = "; ".join(found)
    return sentence[:1].upper() + sentence[1:]


def payment_warnings(scenario: PlanScenario, offers: Sequence[Offer]) -> list[str]:
    """Warnings that offers are paid in different ways, such as where one has no reserved price.

    Or that their prices are of different days.
    """
    days = days_apart({offer.name: offer.price_note for offer in offers})
    found = [days] if days else []
    asked = {payment.replace("_", " ") for payment in scenario.choices.payments}
    ways = {offer.payment for offer in offers} & asked
    if len(ways) < 2:
        return found
    names = {way: sorted({o.name for o in offers if o.payment == way}) for way in sorted(ways)}
    told = "; ".join(f"{way}: {first_names(some)}" for way, some in names.items())
    return [
        *found,
        f"offers are paid in different ways ({told}): no other price of them is known, or it is "
        "dearer",
    ]


def first_names(names: Sequence[str], most: int = 3) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _with_compression(
    answer: PlanAnswer,
    asked: PlanScenario,
    ratios: Ratios,
    plans: Sequence[BoundedOffer],
    offers: Sequence[Offer],
) -> PlanAnswer:
    """The answer with what compression changes, and the scenario as it was asked."""
    best = plans[0] if plans else None
    effect = compression_effect(
        asked,
        ratios,
        offers[0] if best is None else best.offer,
        shards=None if best is None else best.holding.shards,
    )
    warnings = list(answer.warnings)
    if ratios.missing:
        words = ", ".join(f"{size:,}" for size in ratios.missing)
        warnings.append(
            f"the sample has fewer than {LEAST_PIECES} values of {words} bytes: what the next size "
            "that was measured says is taken"
        )
    if best is not None and effect.memory_bytes is not None:
        usable = answer.plans[0].horizon.memory_usable_bytes
        left = 1.0 - effect.memory_bytes.high / usable
        if left < asked.objectives.memory_headroom:
            warnings.append(
                f"if values compress as little as the interval of their ratio allows, {left:.0%} "
                f"of a node's memory are left, not {asked.objectives.memory_headroom:.0%}"
            )
    return replace(answer, scenario=dict(as_mapping(asked)), compression=effect, warnings=warnings)


def _counts(
    offers: Sequence[Offer], entries: Sequence[BoundedOffer], *, full: bool
) -> SearchCounts:
    stages = [entry.stage for entry in entries]
    return SearchCounts(
        offers=len(offers),
        candidates=sum(len(offer.threads) for offer in offers),
        bounded=stages.count(BOUNDED),
        sized=stages.count(SIZED),
        raced=stages.count(RACED),
        settled=stages.count(SETTLED),
        enumerated=full,
    )


def _warnings(plans: Sequence[RankedPlan]) -> list[str]:
    """Warnings of all plans, each once."""
    return list(dict.fromkeys(warning for each in plans for warning in each.warnings))


def rejected_alternatives(
    plan: PlanScenario,
    best: BoundedOffer,
    others: Sequence[BoundedOffer],
    *,
    one_thread: Trial | None,
) -> list[Rejected]:
    """One shard fewer, other sizes, families, engines, one thread and other replicas."""
    found = [
        _one_fewer(plan, best),
        *_sizes(best, others),
        *_each(best, others, "family", lambda entry: entry.offer.family),
        *_each(best, others, "engine", lambda entry: entry.offer.engine_words),
        None if one_thread is None else _one_thread(best, one_thread),
        *_each(best, others, "replicas", lambda entry: str(entry.offer.replicas)),
    ]
    return [each for each in found if each is not None]


def one_thread_trial(plan: PlanScenario, best: BoundedOffer, seed: int) -> Trial | None:
    """The best plan with a single thread; None where it has one or may not."""
    if best.threads[0] == 1 or 1 not in best.offer.threads:
        return None
    return Trials(plan, best.offer, seed=seed).trial(1, best.shards, FULL)


def rejected_offers(
    others: Iterable[BoundedOffer], refused: Iterable[NotOffered]
) -> list[Rejected]:
    """Why no offer meets the objectives, the cheapest first."""
    found = [Rejected("instance", e.offer.words, e.why, None, None, certain=True) for e in others]
    return found + [Rejected("instance", r.what, r.why, None, None, certain=True) for r in refused]


def rejected_today(first: RankedPlan, today: RankedPlan, *, keeps: bool) -> Rejected:
    """Why the current deployment is rejected, or why it stays."""
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


def _one_fewer(plan: PlanScenario, best: BoundedOffer) -> Rejected | None:
    fewer = best.shards - 1
    if fewer < 1:
        return None
    what = f"{fewer} shard{'s' * (fewer > 1)} of {best.offer.name}"
    usd = best.offer.nodes_usd(fewer)
    if fewer < plan.choices.shards.least:
        why = f"fewer than the {plan.choices.shards.least} that are asked for"
        return Rejected("shards", what, why, usd, fewer, certain=True)
    if not survives_losses(plan, best.offer, fewer):
        why = why_no_failover(plan, best.offer, fewer)
        return Rejected("shards", what, why, usd, fewer, certain=True)
    months = plan.demand.horizon_months
    allowed = 1.0 - plan.objectives.memory_headroom
    if memory_used(plan, best.offer, fewer, months=months) > allowed:
        room = memory_room(plan, best.offer, serving=fewer, months=months)
        may_use_bytes = allowed * room.limit.usable_bytes
        why = (
            f"each would need {byte_size(room.needed_bytes)}, and may use "
            f"{byte_size(may_use_bytes)} of its {byte_size(room.limit.memory_bytes)}"
        )
        return Rejected("shards", what, why, usd, fewer, certain=True)
    tried = [t for t in best.trials if t.shards == fewer and t.why_not is not None]
    why = tried[0].why_not if tried and tried[0].why_not else best.why
    return Rejected("shards", what, why, usd, fewer, certain=True)


def _sizes(best: BoundedOffer, others: Sequence[BoundedOffer]) -> list[Rejected]:
    """The next smaller and the next larger size of the same family, with the same engine."""

    def alike(offer: Offer) -> tuple[str, str, int]:
        return offer.family, offer.engine_words, offer.replicas

    def usd(entry: BoundedOffer) -> float:
        return entry.offer.usd_per_month

    sizes = [entry for entry in others if alike(entry.offer) == alike(best.offer)]
    smaller = max((e for e in sizes if usd(e) < usd(best)), key=usd, default=None)
    larger = min((e for e in sizes if usd(e) > usd(best)), key=usd, default=None)
    found = [each for each in (smaller, larger) if each is not None]
    return [_rejected("size", entry.offer.name, best, entry) for entry in found]


def _each(
    best: BoundedOffer,
    others: Sequence[BoundedOffer],
    kind: str,
    name_of: Callable[[BoundedOffer], str],
) -> list[Rejected]:
    """The cheapest of each other family, engine or number of replicas."""
    own, cheapest = name_of(best), dict[str, BoundedOffer]()
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


def _cost(entry: BoundedOffer) -> tuple[bool, float]:
    return entry.impossible, entry.usd_per_month


def _rejected(kind: str, what: str, best: BoundedOffer, entry: BoundedOffer) -> Rejected:
    """Why an offer is worse than the best."""
    if entry.impossible:
        return Rejected(kind, what, entry.why, None, None, certain=True)
    certain = entry.stage == SETTLED
    more = entry.usd_per_month - best.usd_per_month
    takes = f"{entry.shards} shard{'s' * (entry.shards > 1)}"
    least = "" if certain else "at least "
    if more > 0.005:
        why = f"takes {least}{takes}, ${more:,.0f} a month more{_in_brackets(entry.why)}"
    elif certain:
        why = f"takes {takes}, costs the same, and {_merits(entry)}, the best {_merits(best)}"
        if tied(best, entry):
            why += f"; there is {NO_CLEAR_DIFFERENCE} between them"
    else:
        why = f"takes {least}{takes}, and costs at least the same{_in_brackets(entry.why)}"
    return Rejected(kind, what, why, entry.usd_per_month, entry.shards, certain)


def _in_brackets(why: str) -> str:
    return f" ({why})" if why else ""


def _merits(entry: BoundedOffer) -> str:
    """What decides between plans of equal cost, in words."""
    trial = entry.holding
    met = chance(trial.probability)
    return f"meets the objective with {met} and leaves {1.0 - trial.load:.0%} of a node free"


def _one_thread(best: BoundedOffer, trial: Trial) -> Rejected:
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
