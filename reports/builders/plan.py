"""A capacity plan: what to run, what it costs, how long it lasts, and why nothing else."""

from collections.abc import Sequence
from dataclasses import replace

from forecache.models.cost.bill import BACKUPS, CLIENTS, REPLICAS
from forecache.models.plan.levers import BACKUPS_PART, NODES_PART
from forecache.models.plan.results import (
    AfterLoss,
    CompressedSize,
    CompressionEffect,
    DataTieringOffer,
    FrontPoint,
    Lever,
    Milestone,
    PlanAnswer,
    PlanSetting,
    RankedPlan,
    SearchCounts,
    ServerlessOffer,
    ShardState,
)
from forecache.models.prices.table import days_apart
from forecache.sim.statistics import Estimate
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from ..document import (
    NOTEBOOK,
    PAGE,
    TERMINAL,
    WIDE_PX,
    Column,
    Document,
    Facts,
    Figure,
    Items,
    Part,
    Section,
    Text,
    TextTable,
    words,
)
from ..text.formats import (
    UNKNOWN,
    byte_size,
    count,
    milliseconds,
    months_text,
    percent,
    probability,
    rate,
    sentence,
    time_with_bounds,
    usd,
)
from ..text.points import limited_by
from ..text.repeat import question
from ..tidy import flat_table, sweep_table
from . import drawing
from .cost import bill_table, not_priced_sentences
from .today import (
    bill_section,
    changes_table,
    growth_chapter,
    holds_load,
    next_chapter,
    parameters_chapter,
    sure_chapter,
    today_chapter,
    verdict_section,
)

_MOST_FRONT = 8
_MOST_OF_NONE = 12

_SHARP = 0.02
"""Width of the interval of a probability below which it is not told."""


def plan(answer: PlanAnswer) -> Document:
    """The best plan, the ranking, growth, failures, rejected ones, cost against headroom, today."""
    name = str(answer.scenario.get("name") or "Capacity plan")
    demand, ceiling = demand_phrase(answer), answer.ceiling
    of_today = answer.from_info is not None or answer.from_bill is not None
    sections = _study(answer) if of_today else _sections(answer)
    # The columns of a large sweep are of what to run and the next.
    ranks = range(len(answer.plans))
    each = [replace(answer, plans=answer.plans[rank:], keeps_today=False) for rank in ranks]
    return Document(
        about=f"{name}: {demand}",
        title=name,
        headline=sections[0].title,
        byline=["capacity plan", demand],
        contents=of_today,
        lines=[line for line in (marks_phrase(answer), answer.with_traffic) if line],
        warnings=list(dict.fromkeys([*answer.warnings, *(ceiling.warnings if ceiling else [])])),
        sections=sections,
        tables={
            "plans": lambda: sweep_table("plan", each, given=[{} for _ in each]),
            "front": lambda: flat_table(answer.front),
            "rejected": lambda: flat_table(answer.rejected),
            **({"levers": lambda: flat_table(answer.levers)} if answer.levers else {}),
        },
        question=lambda: question(
            "plan", answer.scenario, options={"--seed": answer.provenance.seed}
        ),
    )


def _sections(answer: PlanAnswer) -> list[Section]:
    """What to run, and why nothing else."""
    best, cost = answer.recommended, cost_phrase(answer)
    return [
        Section(
            headline(answer),
            [*([Text(cost, "strong")] if cost else []), Facts(plan_facts(answer))],
            tone="bad" if best is None else "good",
        ),
        *([] if best is None else [*_levers(answer, best), _ranked(answer), *_of_plan(best)]),
        *_compressed(answer),
        _rejected(answer),
        *_front(answer),
        _without_nodes(answer),
        Section("What was searched", _searched(answer), anchor="search"),
    ]


def _study(answer: PlanAnswer) -> list[Section]:
    """What an operator asks of nodes that run, in the order in which a manager does."""
    best, ceiling, info = answer.recommended, answer.ceiling, answer.from_info
    slo = answer.scenario["objectives"]["slo"]
    cost, run, most = cost_phrase(answer), run_phrase(answer), most_of_bill_phrase(answer)
    brief: list[Part] = [Text(f"{run}: {cost}" if cost else run, "strong")]
    now = answer.today
    if now is not None and not (now.meets or now.is_open):
        brief.append(Text(f"What runs today misses what is asked: {now.why}."))
    brief += [Text(sentence(most))] if most else []
    to_do: list[Part] = [Text(run, "strong")]
    costs: list[Part] = []
    wrong: list[Part] = []
    after: list[Part] = []
    sure: list[tuple[str, str]] = []
    if ceiling is not None and ceiling.changes:
        table = changes_table("setting", ceiling.changes)
        to_do.append(Section("Other settings of today’s machines", [table]))
    if best is not None:
        ranked = _ranked(answer)
        to_do += [Section("The plan", [Facts(plan_facts(answer))]), ranked]
        bill, growth, failures = _of_plan(best, times=1.0 if ceiling is None else ceiling.times)
        costs = [Text(cost, "strong"), *([Text(sentence(most))] if most else []), bill]
        costs += _levers(answer, best)
        after = [growth] if growth.parts else []
        wrong = [Text(losses_phrase(best), "strong"), failures]
        if now is not None and now is not best:
            title = "The same with what runs today"
            wrong.append(Section(title, _list(list(map(failure_phrase, now.failures)))))
        sure = [
            ("p99 of the plan", time_with_bounds(best.horizon.p99_ms)),
            ("It meets the objective", f"with a probability of {_chance(best)}"),
        ]
    to_do += [*_compressed(answer), _rejected(answer)]
    costs += [*_front(answer), _without_nodes(answer)]
    if answer.from_bill is not None:
        costs.append(bill_section(answer.from_bill))
    first = verdict_section(info, ceiling, brief)
    if best is not None:
        shown = [part for part in _ranked(answer).parts if isinstance(part, TextTable)]
        parts = [*first.parts, *(replace(part, on=NOTEBOOK) for part in shown)]
        first = replace(first, parts=parts)
    if not first.title:
        first = replace(first, title=run, tone="bad" if best is None else "good", parts=[
            *([Text(cost, "strong")] if cost else []), *first.parts[1:]
        ])  # fmt: skip
    searched = Section("What was searched", _searched(answer))
    chapters = [
        today_chapter(info, ceiling, slo=slo),
        growth_chapter(ceiling, _reached(answer), told=_growth(answer), then=after),
        Section("What to do", to_do, anchor="do", begins_page=True),
        Section("What it costs", costs, anchor="costs", begins_page=True),
        Section("What may go wrong", wrong, anchor="failures", begins_page=True),
        sure_chapter(info, ceiling, sure),
        next_chapter(info, ceiling),
        parameters_chapter(info, [searched]),
    ]
    return [first, *(each for each in chapters if each.parts)]


def _growth(answer: PlanAnswer) -> float:
    """Of the load, a year, as the scenario says."""
    return float(answer.scenario["demand"].get("growth_per_year", 0.0))


def _reached(answer: PlanAnswer) -> dict[str, list[float]]:
    """At which multiples of today's load and data something is reached, by what it is."""
    found, best = {}, answer.recommended
    if (now := answer.today) is not None:
        found["today’s memory"] = [now.now.memory_usable_bytes / now.now.memory_needed_bytes]
    if best is not None and best is not answer.today:
        state = best.now
        if state.limit_rps is not None:
            found["plan"] = [state.limit_rps / state.rate_rps]
        found["plan’s memory"] = [state.memory_usable_bytes / state.memory_needed_bytes]
    return found


def _compressed(answer: PlanAnswer) -> list[Section]:
    effect = answer.compression
    if effect is None or answer.recommended is None:
        return []
    title = f"Clients compress values above {byte_size(effect.above_bytes)}: "
    title += f"{effect.algorithm}, level {effect.level}"
    return [Section(title, [Facts(compression_facts(effect))], anchor="compression")]


def _without_nodes(answer: PlanAnswer) -> Section:
    """A serverless cache, and nodes with an SSD."""
    tiering = answer.data_tiering
    sentences = [
        *(serverless_phrase(offer, answer) for offer in answer.serverless),
        *([data_tiering_phrase(tiering, answer)] if tiering else []),
    ]
    return Section("Serverless", _list(sentences), anchor="serverless")


def _searched(answer: PlanAnswer) -> list[Part]:
    return [
        Text(search_phrase(answer.search), "muted"),
        *(Text(f"Not offered: {x.what}: {x.why}.", "muted") for x in answer.not_offered),
    ]


def _list(sentences: Sequence[str]) -> list[Items]:
    return [Items(sentences)] if sentences else []


def _ranked(answer: PlanAnswer) -> Section:
    """All plans, then today's; the first column has the rank."""
    ranks = [f"{n} =" if plan.tied else f"{n}" for n, plan in enumerate(answer.plans, start=1)]
    plans = list(answer.plans)
    if answer.today is not None:
        ranks.append("now")
        plans.append(answer.today)
    replicas = [str(plan.setting.replicas) for plan in plans]
    traffic = [UNKNOWN if (cost := traffic_usd(plan)) is None else f"{cost:,.0f}" for plan in plans]
    columns = [
        words("", ranks),
        words("instance", [plan.setting.instance for plan in plans]),
        words(
            "engine", [f"{x.setting.engine} {x.setting.engine_version}" for x in plans], wraps=True
        ),
        Column("shards", [str(plan.setting.shards) for plan in plans]),
        Column("repl", replicas, drop=4, meaning="replicas of each shard"),
        Column("io", [str(plan.setting.io_threads) for plan in plans], meaning="io-threads"),
        Column("$/month", [f"{plan.usd_per_month:,.0f}" for plan in plans], meaning="of the nodes"),
        Column("traffic", traffic, meaning="between zones, $/month"),
        Column(
            "CPU free",
            [percent(plan.horizon.cpu_headroom) for plan in plans],
            drop=3,
            meaning="what the peak leaves of what a node serves",
        ),
        Column(
            "mem free",
            [percent(plan.horizon.memory_headroom) for plan in plans],
            drop=2,
            meaning="of its memory",
        ),
        Column("p99", [_p99(plan.horizon) for plan in plans]),
        Column(
            "meets",
            list(map(_meets, plans)),
            meaning="how probable it is that the objective is met",
        ),
        words(
            "first limit",
            [_short(plan.milestones[0]) if plan.milestones else UNKNOWN for plan in plans],
            wraps=True,
            drop=1,
            meaning="what growth reaches first",
        ),
    ]
    # These say nothing where all plans are alike: the headline and the bill have them.
    alike = {"repl": len(set(replicas)) == 1, "traffic": len(set(traffic)) == 1}
    table = TextTable(
        [column for column in columns if not alike.get(column.name, False)],
        marked=len(answer.plans) if answer.keeps_today else 0,
    )
    about = "p99, what is free and the probability are those at the horizon’s peak."
    marks = marks_phrase(answer)
    return Section(
        "Plans",
        [
            table,
            Text(about, "muted", on=PAGE),
            *([Text(marks, "muted")] if marks else []),
            *([Text(f"{answer.with_traffic}.")] if answer.with_traffic else []),
        ],
        anchor="plans",
        title_on=PAGE,
    )


def _levers(answer: PlanAnswer, best: RankedPlan) -> list[Section]:
    """What would cut most of the bill: what each costs, and what it does to latency and losses."""
    levers = answer.levers
    if not levers:
        return []
    plans = [best, *(lever.plan for lever in levers)]
    stale = [
        UNKNOWN if (x := each.replica_reads) is None or x.stale_p50_ms is None
        else milliseconds(x.stale_p50_ms.value)
        for each in plans
    ]  # fmt: skip
    table = TextTable(
        [
            words("", ["as planned", *(lever.what for lever in levers)], wraps=True),
            Column("$/month", [f"{each.bill_usd_per_month:,.0f}" for each in plans]),
            Column("saves", ["", *map(_saves, levers)]),
            Column("p99", [_p99(each.horizon) for each in plans], meaning="at the horizon’s peak"),
            Column("meets", list(map(_meets, plans))),
            Column("stale", stale, meaning="how old half the reads of a replica are at most"),
            Column("zone lost", list(map(_zone_lost, plans)), meaning="p99 after its loss"),
        ]
    )
    parts: list[Part] = [table, Items(list(map(lever_phrase, levers)))]
    return [Section("What would cut the bill", parts, anchor="levers")]


def _saves(lever: Lever) -> str:
    saved = lever.saves_usd
    if saved.low == saved.high:
        return f"{saved.value:,.0f}"
    return f"{saved.low:,.0f}–{saved.high:,.0f}"


def _zone_lost(plan: RankedPlan) -> str:
    """What the loss of a zone leaves, for a narrow cell."""
    loss = next(each for each in plan.failures if each.what == "zone")
    if loss.serving == 0:
        return "all lost"
    if loss.p99_ms is None:
        return "overload"
    return milliseconds(loss.p99_ms.value) + ("" if loss.by_itself else " by hand")


def lever_phrase(lever: Lever) -> str:
    """What a lever does beside its price, in sentences."""
    plan = lever.plan
    found = [f"{lever.what}: {lever.risk}"]
    if lever.assumes:
        found.append(lever.assumes)
    if not plan.meets:
        found.append(f"misses the objectives: {plan.why}")
    return f"{'; '.join([*found, *replica_phrases(plan)])}."


def replica_phrases(plan: RankedPlan) -> list[str]:
    """How replicas are read from, in parts of a sentence; none where they are not."""
    read = plan.replica_reads
    if read is None:
        return []
    found = [
        f"{percent(read.crossing)} of reads cross zones, the busiest replica serves "
        f"{percent(read.reads)} of its shard’s and is {percent(read.writes_busy)} busy with "
        "its primary’s writes"
    ]
    if read.stale_p50_ms is not None and read.stale_p99_ms is not None:
        half, most = read.stale_p50_ms, read.stale_p99_ms
        found.append(
            f"a write is seen there after {time_with_bounds(half)} in the median, "
            f"{time_with_bounds(most)} at p99"
        )
    return found


def _of_plan(best: RankedPlan, *, times: float = 1.0) -> list[Section]:
    """Its bill, growth and failures.

    Parameters
    ----------
    times
        The multiple of today's load that it is for.
    """
    load = "today’s mean load" if times == 1.0 else f"{times:g} times today’s mean load"
    days = days_apart({line.what: line.source for line in best.bill})
    notes = [*not_priced_sentences(best.not_priced), terms_phrase(best), days]
    bill: list[Part] = []
    if best.bill:
        bill = [bill_table(best.bill), *(Text(x, "muted") for x in notes if x)]
    return [
        Section(f"The bill of a month, at {load}", bill, anchor="bill"),
        Section(
            "When growth uses up",
            _list([f"{x.what}: {months_text(x.months)}" for x in best.milestones]),
            anchor="growth",
        ),
        Section(
            "When something fails, at the peak",
            _list(list(map(failure_phrase, best.failures))),
            anchor="failures",
        ),
    ]


def _rejected(answer: PlanAnswer) -> Section:
    """The alternatives that were turned down."""
    title = "Why not, against plan 1" if answer.keeps_today else "Why not"
    most = len(answer.rejected)
    if not answer.plans:
        title = "Why nothing else does" if answer.keeps_today else "Why nothing does"
        most = _MOST_OF_NONE
    rejected = answer.rejected
    sentences = [f"{each.what}: {each.why}" for each in rejected[:most]]
    left = len(rejected) - len(sentences)
    costs = [UNKNOWN if x.usd_per_month is None else usd(x.usd_per_month) for x in rejected]
    table = TextTable(
        [
            words("alternative", [x.what for x in rejected], wraps=True),
            Column("a month", costs),
            words("why it was turned down", [x.why for x in rejected], wraps=True),
        ],
        on=PAGE,
    )
    more = [f"and {left} more"] if left else []
    parts: list[Part] = [table, Items([*sentences, *more], on=TERMINAL)]
    return Section(title, parts if rejected else [], anchor="rejected")


def _front(answer: PlanAnswer) -> list[Section]:
    """Cost of nodes against headroom, where there is a choice."""
    front = [point for point in answer.front if point.on_front]
    if len(front) < 2:
        return []
    costs = [usd(point.usd_per_month) for point in front]
    headroom = [percent(point.headroom) for point in front]
    spoken = "; ".join(
        f"{cost} a month leaves {free}" for cost, free in zip(costs, headroom, strict=True)
    )
    parts: list[Part] = [
        Figure(
            "front",
            drawing("front", answer.front),
            label=f"Headroom against the cost of nodes: {spoken}",
            width_px=WIDE_PX,
            on=PAGE,
        ),
        TextTable(
            [
                Column("nodes a month", costs),
                Column("free", headroom, meaning="the smaller of load and memory"),
                words("plan", list(map(front_name, front)), wraps=True),
            ],
            most=_MOST_FRONT,
        ),
    ]
    return [Section("What more money buys", parts, anchor="front")]


# --- sentences -----------------------------------------------------------------------------------


def demand_phrase(answer: PlanAnswer) -> str:
    """What is asked for, now and at the horizon."""
    months = _horizon_months(answer)
    now = f"{rate(answer.peak_rps)} at the peak"
    if answer.ceiling is not None and answer.ceiling.times != 1.0:
        now += f", {answer.ceiling.times:g} times today’s"
    if months <= 0:
        return now
    data = f", data × {answer.data_growth:.3g}" if answer.data_growth > 1 else ""
    return f"{now}, {rate(answer.horizon_rps)} in {months_text(months)}{data}"


def objective_phrase(answer: PlanAnswer) -> str:
    """What must hold."""
    slo = answer.scenario["objectives"]["slo"]
    bounds = [
        f"{name[:-3]} at most {slo[name]:g} ms"
        for name in ("p50_ms", "p99_ms", "p999_ms")
        if name in slo
    ]
    return f"{', '.join(bounds)} with {slo.get('probability', 0.95):.4g}"


def _horizon_months(answer: PlanAnswer) -> float:
    return float(answer.scenario["demand"].get("horizon_months", 0.0))


def setting_phrase(setting: PlanSetting) -> str:
    """What to run, in words: `16 shards of r7g.2xlarge, valkey 9.1, io-threads 6`."""
    replicas = ""
    if setting.replicas:
        replicas = f", {setting.replicas} replica{'s' * (setting.replicas > 1)} each"
    return (
        f"{setting.shards} shard{'s' * (setting.shards > 1)} of {setting.instance}{replicas}, "
        f"{setting.engine} {setting.engine_version}, io-threads {setting.io_threads}"
    )


def headline(answer: PlanAnswer) -> str:
    """The first line: what to run, and what most of its bill is unless that is nodes."""
    run, most = run_phrase(answer), most_of_bill_phrase(answer)
    return f"{run}: {most}" if most else run


def run_phrase(answer: PlanAnswer) -> str:
    """What to run."""
    best = answer.recommended
    if best is None:
        return "Nothing that may be chosen meets the objectives"
    verb = "Keep today’s" if answer.keeps_today else "Run"
    # What today's machines cost is not known, nor whether something else would cost less.
    if answer.today is None and answer.ceiling is not None and holds_load(answer.ceiling):
        verb = "Nothing has to change; bought anew, the cheapest is"
    return f"{verb} {setting_phrase(best.setting)}"


def most_of_bill_phrase(answer: PlanAnswer) -> str:
    """What most of the bill is, and what would cut it; empty where that is nodes."""
    part = answer.largest_part
    if answer.recommended is None or part is None or part.what == NODES_PART:
        return ""
    found = (
        f"{percent(part.share)} of its {usd(part.of_usd_per_month)} a month "
        f"{'are' if part.what == BACKUPS_PART else 'is'} {part.what}"
    )
    # What gives up no objective and rests on nothing that has to be measured first.
    kept = [lever for lever in answer.levers if lever.plan.meets and not lever.assumes]
    safe = [lever for lever in kept if not any("objectives" in name for name in lever.change)]
    if not safe or safe[0].saves_usd.value <= 0:
        return found
    return f"{found}; {safe[0].what} would save {usd(safe[0].saves_usd.value)}"


def cost_phrase(answer: PlanAnswer) -> str:
    """What the nodes cost, against today's or, if these stay, against the cheapest plan's."""
    best, part = answer.recommended, answer.largest_part
    if best is None:
        return ""
    words = f"{usd(best.usd_per_month)} a month for {_nodes(best.setting)}"
    if part is not None and part.what == NODES_PART:
        words += f", {percent(part.share)} of the whole bill"
    if answer.keeps_today:
        others = [each for each in answer.plans if each.setting != best.setting]
        if not others:
            return words
        return f"{words}; the cheapest change costs {_against(others[0], best)}"
    return words if answer.today is None else f"{words}, {_against(best, answer.today, 'today’s ')}"


def _against(plan: RankedPlan, other: RankedPlan, whose: str = "") -> str:
    """By how much the nodes of a plan cost less or more than another's."""
    change = plan.usd_per_month / other.usd_per_month - 1.0
    if abs(change) < 0.0005:
        return f"as much as {whose or 'that '}".strip()
    more = f"{percent(abs(change))} {'less' if change < 0 else 'more'}"
    return f"{more} than {whose}{usd(other.usd_per_month)}" if whose else more


def besides_phrase(plan: RankedPlan) -> str:
    """What is paid beside the nodes, which plans are not ranked by; empty without any."""
    backups = [line.usd for line in plan.bill if line.what == BACKUPS]
    traffic = traffic_usd(plan)
    parts = [f"{usd(traffic)} for traffic between zones"] if traffic is not None else []
    parts += [f"{usd(sum(backups))} for backups"] if backups else []
    missing = [f"{each.what} (no price is known)" for each in plan.not_priced]
    return ", ".join(parts + missing)


def traffic_usd(plan: RankedPlan) -> float | None:
    """What traffic between zones costs a month; None where there is none or some has no price."""
    if any(each.what in (CLIENTS, REPLICAS) for each in plan.not_priced):
        return None
    lines = [line.usd for line in plan.bill if line.what in (CLIENTS, REPLICAS)]
    return sum(lines) if lines else None


def _nodes(setting: PlanSetting) -> str:
    return f"{setting.nodes} node{'s' * (setting.nodes > 1)}"


def plan_facts(answer: PlanAnswer) -> list[tuple[str, str]]:
    """Name and text of what matters of what to run; none where nothing is."""
    best = answer.recommended
    if best is None:
        return []
    horizon = best.horizon
    when = f" in {months_text(horizon.months)}" if horizon.months > 0 else ""
    facts = [
        (f"p99 at peak{when}", time_with_bounds(horizon.p99_ms)),
        ("Objective", f"{objective_phrase(answer)}: met with {_chance(best)}"),
        ("Load of a node", _load_phrase(best)),
        ("Memory of a node", _memory_phrase(best)),
        ("Why so many", f"{best.why}"),
        ("In saturation", limited_by(best.bottleneck)),
        ("Price", f"{usd(best.usd_per_node_month)} a node, {best.price_note}"),
        ("Besides", besides_phrase(best)),
        ("Replicas", "; ".join(replica_phrases(best))),
    ]
    return [(name, text) for name, text in facts if text]


def _chance(plan: RankedPlan) -> str:
    """The probability to meet the objective, what draws leave open of it, and why some miss."""
    state = plan.horizon
    words = probability(state.probability)
    if state.probability_high - state.probability_low >= _SHARP:
        low, high = probability(state.probability_low), probability(state.probability_high)
        words += f" ({low} to {high} by {state.draws} draws)"
    return f"{words}; {plan.missed_where}" if plan.missed_where else words


def _load_phrase(plan: RankedPlan) -> str:
    now, later = plan.now, plan.horizon
    words = f"{rate(now.rate_rps)} of {rate(now.capacity_rps)}, {percent(now.cpu_headroom)} free"
    if later.months > 0 and later.rate_rps != now.rate_rps:
        words += f"; {percent(later.cpu_headroom)} in {months_text(later.months)}"
    return words


def _memory_phrase(plan: RankedPlan) -> str:
    now, later = plan.now, plan.horizon
    words = (
        f"{byte_size(now.memory_needed_bytes)} of {byte_size(now.memory_usable_bytes)}, "
        f"{percent(now.memory_headroom)} free"
    )
    if later.months > 0 and later.memory_needed_bytes != now.memory_needed_bytes:
        words += f"; {percent(later.memory_headroom)} in {months_text(later.months)}"
    return words


def marks_phrase(answer: PlanAnswer) -> str:
    """What marks in the table mean; empty without any."""
    found = []
    if any(plan.tied for plan in answer.plans):
        found.append(
            f"=: costs as much as the plan above, and there is {NO_CLEAR_DIFFERENCE} between the "
            "two; the simpler one stands first"
        )
    plans = [*answer.plans, *([] if answer.today is None else [answer.today])]
    if any(plan.is_open for plan in plans):
        found.append("?: the draws can't tell it from what is asked")
    return "; ".join(found)


def _meets(plan: RankedPlan) -> str:
    if plan.is_open:
        return f"{probability(plan.horizon.probability)}?"
    return probability(plan.horizon.probability) if plan.meets else "no"


def _p99(state: ShardState) -> str:
    return milliseconds(state.p99_ms.value) if state.p99_ms else "grows"


def _short(milestone: Milestone) -> str:
    """What growth reaches first, for a narrow cell: `memory 12 mo`."""
    months = milestone.months
    if months is None:
        return "> 20 y"
    time = f"{months:.0f} mo" if months < 24 else f"{months / 12:.1f} y"
    return f"{milestone.what.split()[0]} {time}"


def failure_phrase(loss: AfterLoss) -> str:
    """What a lost node or zone leaves, in a sentence."""
    nodes = f"{loss.nodes_lost} node{'s' * (loss.nodes_lost > 1)}"
    head = "A node" if loss.what == "node" else f"A zone ({nodes})"
    if loss.serving == 0:
        return f"{head}: {loss.note}."
    p99 = f"p99 {milliseconds(loss.p99_ms.value)}" if loss.p99_ms else "requests pile up"
    lost = f", {percent(loss.data_lost)} of the data are lost" if loss.data_lost else ""
    verdict = f"{'holds' if loss.holds else 'does not hold'} ({probability(loss.probability)})"
    if not loss.by_itself:
        verdict = f"{verdict} once that is done" if loss.holds else "does not hold by itself"
    return (
        f"{head}: {loss.note}; {rate(loss.rate_rps)} for each primary, "
        f"{percent(loss.cpu_headroom)} CPU and {percent(loss.memory_headroom)} memory free, {p99}"
        f"{lost}: {verdict}."
    )


def losses_phrase(plan: RankedPlan) -> str:
    """Which losses a plan gets over, in a sentence."""
    gone = [loss for loss in plan.failures if not loss.holds]
    kept = [loss.what for loss in plan.failures if loss.holds]
    found = [f"The plan holds the load without a {' and without a '.join(kept)}"] if kept else []
    if gone:
        found.append(f"The loss of a {' or a '.join(loss.what for loss in gone)} ends the service")
    return f"{'. '.join(found)}."


def front_name(point: FrontPoint) -> str:
    """What to run for it, in short."""
    setting = point.setting
    return (
        f"{setting.shards} × {setting.instance}, {setting.engine} {setting.engine_version}, "
        f"io-threads {setting.io_threads}; {point.limited_by} binds"
    )


def serverless_phrase(offer: ServerlessOffer, answer: PlanAnswer) -> str:
    """What a serverless cache would cost against the nodes of the first plan, in a sentence."""
    words = f"Serverless with {offer.engine}: {usd(offer.usd_per_month)} a month now"
    if _horizon_months(answer) > 0:
        later = months_text(_horizon_months(answer))
        words += f", {usd(offer.horizon_usd_per_month)} in {later}"
    if not answer.plans:
        return f"{words}."
    if offer.break_even_load is None:
        return f"{words}; cheaper than the nodes of plan 1 at any load."
    if offer.break_even_load == 0:
        return f"{words}; its data alone cost more than the nodes of plan 1."
    return (
        f"{words}; it costs as much as the nodes of plan 1 at {offer.break_even_load:.3g} times "
        f"{'these' if answer.ceiling is not None else 'today’s'} operations."
    )


def data_tiering_phrase(offer: DataTieringOffer, answer: PlanAnswer) -> str:
    """What nodes with an SSD would cost, in a sentence."""
    replicas = f" with {offer.replicas} replica{'s' * (offer.replicas > 1)} each"
    words = (
        f"Data tiering: {offer.shards} shard{'s' * (offer.shards > 1)} of {offer.instance}"
        f"{replicas if offer.replicas else ''} for {usd(offer.usd_per_month)} a month"
    )
    if answer.plans:
        words += f", {usd(answer.plans[0].usd_per_month)} the nodes of plan 1"
    return f"{words}; what reads from an SSD take is not simulated."


def terms_phrase(plan: RankedPlan) -> str:
    """What the nodes of a plan cost in each way in which they may be paid; empty without any."""
    known = [each for each in plan.terms if each.usd_per_month is not None]
    if not known:
        return ""
    nodes = plan.setting.nodes
    terms = [f"{each.payment} {usd(nodes * (each.usd_per_month or 0.0))}" for each in known]
    missing = [each.payment for each in plan.terms if each.usd_per_month is None]
    left = f"; no price is known of {_listed(missing)}" if missing else ""
    return f"The nodes a month: {', '.join(terms)}{left}."


def _listed(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def search_phrase(search: SearchCounts) -> str:
    """How much was looked at."""
    if search.enumerated:
        return f"{count(search.candidates)} candidates, every number of shards simulated in full"
    return (
        f"{count(search.candidates)} candidates in {count(search.offers)} offers: "
        f"{search.bounded} ruled out by bounds, {search.sized} once sized, {search.raced} after a "
        f"race, {search.settled} simulated in full"
    )


# --- what compression does -----------------------------------------------------------------------


def compression_facts(effect: CompressionEffect) -> list[tuple[str, str]]:
    """Name and text of each thing that changes."""
    facts = [
        (
            "Values",
            f"{_sizes(effect.stored_bytes)} on average, {byte_size(effect.value_bytes)} before",
        ),
        (
            "Network",
            f"{_sizes(effect.network_bytes)} an operation, "
            f"{byte_size(effect.network_bytes_without)} without",
        ),
    ]
    if effect.memory_bytes is not None:
        shards = effect.memory_shards_without
        facts.append(
            (
                "Memory of a node",
                f"{_sizes(effect.memory_bytes)}, {byte_size(effect.memory_bytes_without)} without, "
                + ("which no number of shards has" if shards is None else f"for which {shards} "
                   f"shard{'s are' if shards > 1 else ' is'} needed"),
            )
        )  # fmt: skip
    facts.append(("CPU of clients", _clients(effect)))
    facts += [(f"Sample, {count(each.value_bytes)} B", _size(each)) for each in effect.sizes]
    return facts


def _clients(effect: CompressionEffect) -> str:
    if effect.client_us is None or effect.client_cpus is None:
        return "not known: the ratio is given, nothing was measured"
    each = ", ".join(
        f"{name.upper()} {time_with_bounds(_ms(us))}" for name, us in effect.client_us.items()
    )
    cpus = effect.client_cpus
    return (
        f"{each}; at the peak {cpus.value:.3g} CPUs ({cpus.low:.3g}–{cpus.high:.3g}) of all "
        "clients. "
        f"On this machine ({effect.cpu_model or UNKNOWN}) with {effect.compressor}"
    )


def _size(each: CompressedSize) -> str:
    ratio = each.ratio
    return (
        f"{ratio.value:.3g} ({ratio.low:.3g}–{ratio.high:.3g}) of their bytes, {each.pieces} "
        "values; "
        f"{time_with_bounds(_ms(each.compress_us))} to compress, "
        f"{time_with_bounds(_ms(each.decompress_us))} to decompress"
    )


def _ms(us: Estimate) -> Estimate:
    return Estimate(us.value / 1e3, us.low / 1e3, us.high / 1e3)


def _sizes(size: Estimate) -> str:
    ends = [byte_size(size.low), byte_size(size.high)]
    if ends[0] == ends[1]:
        return byte_size(size.value)
    return f"{byte_size(size.value)} ({'–'.join(ends)})"
