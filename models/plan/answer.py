"""The verb `plan`: ranked plans for a scenario of `kind: plan`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from itertools import pairwise

from forecache.hwprofiles.capture.compression import LEAST_PIECES
from forecache.hwprofiles.files import named, parse
from forecache.sim.errors import InfeasibleError
from forecache.sim.processes import workers

from ..cost.beside import BACKUPS, nodes_usd
from ..prediction.predict import Progress
from ..results.consistency import Checked
from ..results.provenance import provenance
from ..scenario.source import ScenarioSource, read_scenario
from .bill.data_tiering import data_tiering_of
from .bill.lines import billed
from .compression.effect import effect_of
from .compression.ratios import Ratios, compressed, ratios_of
from .forecast import forecast, forecast_of_today
from .front import front_of
from .offers import Offer, Refused, offers_of, todays_offer
from .own_times import TodaysCorrections
from .race import BOUNDED, RACED, SETTLED, SIZED, Entry
from .ranking import tied
from .rejected import nothing_holds, one_thread_of, rejected_alternatives, rejected_today
from .results import NotOffered, PlanAnswer, RankedPlan, SearchCounts
from .schema import PlanScenario, as_mapping
from .search import FoundPlans, search
from .serverless import serverless_of
from .shard import check_offer


def load_plan(source: ScenarioSource) -> tuple[PlanScenario, str]:
    """A scenario of `kind: plan`, and what to call it in messages.

    Raises
    ------
    InputError
        The file or a field is not valid.
    """
    given = read_scenario(source)
    given.kind(["plan"])
    return parse(PlanScenario, given.data, file=given.name), given.name


def plan(
    source: ScenarioSource,
    *,
    seed: int = 1,
    full: bool = False,
    corrections: TodaysCorrections | None = None,
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
    InputError
        The file, a field or a name is not valid.
    InfeasibleError
        Nothing that may be chosen meets the objectives; the error's `result` says why.
    """
    asked, file = load_plan(source)
    with named(file):
        ratios = ratios_of(asked.demand)
        scenario = asked if ratios is None else compressed(asked, ratios)
        found_offers, refused = offers_of(scenario, check_offer, corrections)
        offers = [billed(scenario, each) for each in found_offers]
        today = None
        if scenario.today is not None:
            today = billed(
                scenario, todays_offer(scenario, scenario.today, check_offer, corrections)
            )
        with workers(executor) as where:
            found = search(
                scenario, offers, seed=seed, executor=where, full=full, progress=progress
            )
            answer = _answer(
                scenario, found, offers, refused, today, seed=seed, executor=where, full=full,
                progress=progress,
            )  # fmt: skip
        if ratios is not None and offers:
            answer = _with_compression(answer, asked, ratios, found.plans, offers)
    check_plan(answer)
    if answer.recommended is None:
        first = answer.rejected[0]
        raise InfeasibleError(
            f"{file}: nothing that may be chosen meets the objectives; {first.what}: {first.why}.",
            result=answer,
        )
    return answer


def check_plan(answer: PlanAnswer) -> None:
    """Check an answer.

    Raises
    ------
    RuntimeError
        It contradicts itself.
    """
    checked = Checked("plan")
    checked.in_order([("a plan", each.usd_per_month) for each in answer.plans])
    for each in [*answer.plans, *([] if answer.today is None else [answer.today])]:
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
    found: FoundPlans,
    offers: Sequence[Offer],
    refused: Sequence[Refused],
    today: Offer | None,
    *,
    seed: int,
    executor: Executor,
    full: bool,
    progress: Progress | None,
) -> PlanAnswer:
    """Everything that is told of what the search found."""
    if progress is not None:
        progress("looking at growth and failures")
    calls = [executor.submit(forecast, scenario, entry, seed) for entry in found.plans]
    ran = None if today is None else executor.submit(forecast_of_today, scenario, today, seed)
    alone = executor.submit(one_thread_of, scenario, found.plans[0], seed) if found.plans else None
    ties = [False, *(tied(*pair) for pair in pairwise(found.plans))]
    plans = [replace(call.result(), tied=tie) for call, tie in zip(calls, ties, strict=False)]
    runs_now = None if ran is None else ran.result()
    best_usd = plans[0].usd_per_month if plans else None
    keeps = _keeps(runs_now, plans)
    if plans and alone is not None:
        others = [*found.plans[1:], *found.others]
        rejected = rejected_alternatives(
            scenario, found.plans[0], others, one_thread=alone.result()
        )
        if runs_now is not None:
            rejected.append(rejected_today(plans[0], runs_now, keeps=keeps))
    else:
        rejected = nothing_holds(found.others, refused)
    demand, months = scenario.demand, scenario.demand.horizon_months
    return PlanAnswer(
        kind="plan",
        scenario=dict(as_mapping(scenario)),
        peak_rps=demand.peak_rps,
        horizon_rps=demand.peak_rps * demand.growth(months),
        data_growth=demand.data_growth(months),
        plans=plans,
        keeps_today=keeps,
        with_traffic=order_with_traffic(plans, runs_now, found.others),
        rejected=rejected,
        front=front_of(scenario, found.entries),
        today=runs_now,
        serverless=serverless_of(scenario, offers, best_usd=best_usd),
        data_tiering=data_tiering_of(scenario, offers),
        not_offered=[NotOffered(each.what, each.why) for each in refused],
        search=_counts(offers, found.entries, full=full),
        warnings=[
            *_warnings([runs_now, *plans] if keeps and runs_now is not None else plans),
            *paid_differently(scenario, offers),
        ],
        provenance=provenance(seed=seed),
    )


WORTH_A_CHANGE = 0.1
"""By which share of its cost another plan has to be cheaper than what runs today, to replace it."""


def _keeps(today: RankedPlan | None, plans: Sequence[RankedPlan]) -> bool:
    """Whether what runs today is to stay, which takes no proof: what replaces it does."""
    if today is None or not (today.meets or today.is_open):
        return False
    least = min((each.usd_per_month for each in plans), default=math.inf)
    return least > (1.0 - WORTH_A_CHANGE) * today.usd_per_month


def order_with_traffic(
    plans: Sequence[RankedPlan], today: RankedPlan | None, others: Sequence[Entry]
) -> str:
    """How the order would change with what is paid besides nodes, in a sentence; else empty.

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
        names = names_shown(unpriced, most=len(unpriced))
        found.append(f"{what} of {names} has no known price, and is no part of the ranking")
    sentence = "; ".join(found)
    return sentence[:1].upper() + sentence[1:]


def paid_differently(scenario: PlanScenario, offers: Sequence[Offer]) -> list[str]:
    """That offers are ranked by different ways to pay, such as where one has no reserved price."""
    asked = {payment.replace("_", " ") for payment in scenario.choices.payments}
    ways = {offer.payment for offer in offers} & asked
    if len(ways) < 2:
        return []
    names = {way: sorted({o.name for o in offers if o.payment == way}) for way in sorted(ways)}
    told = "; ".join(f"{way}: {names_shown(some)}" for way, some in names.items())
    return [
        f"offers are paid in different ways ({told}): no other price of them is known, or it is "
        "dearer"
    ]


def names_shown(names: Sequence[str], most: int = 3) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _with_compression(
    answer: PlanAnswer,
    asked: PlanScenario,
    ratios: Ratios,
    plans: Sequence[Entry],
    offers: Sequence[Offer],
) -> PlanAnswer:
    """The answer with what compression changes, and the scenario as it was asked."""
    best = plans[0] if plans else None
    effect = effect_of(
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


def _counts(offers: Sequence[Offer], entries: Sequence[Entry], *, full: bool) -> SearchCounts:
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
    """Those of what to run first, each once."""
    return list(dict.fromkeys(warning for each in plans for warning in each.warnings))
