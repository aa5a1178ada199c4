"""The verb `plan`: ranked plans for a scenario of `kind: plan`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from itertools import pairwise

from forecache.hwprofiles.capture.compression import LEAST_PIECES
from forecache.hwprofiles.files import named, parse
from forecache.sim.errors import InfeasibleError
from forecache.sim.processes import workers

from ..advice.answers import ScenarioSource, name_of
from ..cost.beside import before_traffic
from ..prediction.predict import Progress
from ..results.consistency import Checked
from ..results.provenance import provenance
from ..scenario.kinds import check_kind
from ..scenario.source import content_of
from .bill.data_tiering import data_tiering_of
from .bill.lines import billed
from .compression.effect import effect_of
from .compression.ratios import Ratios, compressed, ratios_of
from .excuses import excuses_of, nothing_holds, one_thread_of, todays_excuse
from .front import front_of
from .offers import Offer, Refused, offers_of, todays_offer
from .prospects import prospects, prospects_of_today
from .race import BOUNDED, RACED, SETTLED, SIZED, Entry
from .ranking import tied
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
    file = name_of(source)
    data = content_of(source)
    check_kind(data, file=file, valid=["plan"])
    return parse(PlanScenario, data, file=file), file


def plan(
    source: ScenarioSource,
    *,
    seed: int = 1,
    full: bool = False,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> PlanAnswer:
    """Which machines, how many shards and which engine meet a demand, the cheapest first.

    Parameters
    ----------
    source
        Path of a scenario of `kind: plan`, or its content.
    full
        Try every number of shards and threads of every offer, which takes minutes: what the search
        is held against.

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
        found_offers, refused = offers_of(scenario, check_offer)
        offers = [billed(scenario, each) for each in found_offers]
        today = None
        if scenario.today is not None:
            today = billed(scenario, todays_offer(scenario, scenario.today, check_offer))
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
    if not answer.plans:
        first = answer.excuses[0]
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
    costs = [each.usd_per_month for each in answer.plans]
    checked.in_order([("a plan", cost) for cost in costs])
    for each in answer.plans:
        checked.sum("the cost of a plan", each.usd_per_month, [line.usd for line in each.bill])
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
    calls = [executor.submit(prospects, scenario, entry, seed) for entry in found.plans]
    ran = None if today is None else executor.submit(prospects_of_today, scenario, today, seed)
    alone = executor.submit(one_thread_of, scenario, found.plans[0], seed) if found.plans else None
    ties = [False, *(tied(*pair) for pair in pairwise(found.plans))]
    plans = [replace(call.result(), tied=tie) for call, tie in zip(calls, ties, strict=False)]
    runs_now = None if ran is None else ran.result()
    best_usd = before_traffic(plans[0].bill) if plans else None
    if plans and alone is not None:
        others = [*found.plans[1:], *found.others]
        excuses = excuses_of(scenario, found.plans[0], others, one_thread=alone.result())
        if runs_now is not None:
            excuses.append(todays_excuse(plans[0], runs_now))
    else:
        excuses = nothing_holds(found.others, refused)
    demand, months = scenario.demand, scenario.demand.horizon_months
    return PlanAnswer(
        kind="plan",
        scenario=dict(as_mapping(scenario)),
        peak_rps=demand.peak_rps,
        horizon_rps=demand.peak_rps * demand.growth(months),
        data_growth=demand.data_growth(months),
        plans=plans,
        excuses=excuses,
        front=front_of(scenario, found.entries),
        today=runs_now,
        serverless=serverless_of(scenario, offers, best_usd=best_usd),
        data_tiering=data_tiering_of(scenario, offers),
        not_offered=[NotOffered(each.what, each.why) for each in refused],
        search=_counts(offers, found.entries, full=full),
        warnings=_warnings(plans),
        provenance=provenance(seed=seed),
    )


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
    """Those of the best plan first, each once."""
    return list(dict.fromkeys(warning for each in plans for warning in each.warnings))
