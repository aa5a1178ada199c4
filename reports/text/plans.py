"""The words and rows of a capacity plan, shared by terminal and page."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from forecache.models.cost.bill import BACKUPS, CLIENTS, REPLICAS
from forecache.models.plan.results import (
    AfterLoss,
    CompressedSize,
    CompressionEffect,
    DataTieringOffer,
    FrontPoint,
    Milestone,
    PlanAnswer,
    PlanSetting,
    RankedPlan,
    SearchCounts,
    ServerlessOffer,
    ShardState,
)
from forecache.sim.statistics import Estimate
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from .formats import (
    UNKNOWN,
    byte_size,
    count,
    milliseconds,
    percent,
    probability,
    rate,
    time_with_bounds,
)
from .wording import limited_by

_YEAR = 12.0

_SHARP = 0.02
"""Width of the interval of a probability below which it is not told."""


def plan_title(answer: PlanAnswer) -> str:
    """The scenario's own name, or what it is."""
    return str(answer.scenario.get("name") or "Capacity plan")


def demand_phrase(answer: PlanAnswer) -> str:
    """What is asked for, now and at the horizon."""
    months = _horizon_months(answer)
    now = f"{rate(answer.peak_rps)} at the peak"
    if months <= 0:
        return now
    data = f", data × {answer.data_growth:.3g}" if answer.data_growth > 1 else ""
    return f"{now}, {rate(answer.horizon_rps)} in {months_text(months)}{data}"


def objective_phrase(answer: PlanAnswer) -> str:
    """What must hold."""
    asked = answer.scenario["objectives"]
    bounds = [
        f"{name[:-3]} at most {asked['slo'][name]:g} ms"
        for name in ("p50_ms", "p99_ms", "p999_ms")
        if name in asked["slo"]
    ]
    return f"{', '.join(bounds)} with {asked['slo'].get('probability', 0.95):.4g}"


def _horizon_months(answer: PlanAnswer) -> float:
    return float(answer.scenario["demand"].get("horizon_months", 0.0))


def months_text(months: float | None) -> str:
    """A time from now on: `now`, `7 months`, `3.2 years`."""
    if months is None:
        return "not within 20 years"
    if months <= 0:
        return "now"
    if months < 2 * _YEAR:
        shown = round(months)
        return f"{shown} month{'s' * (shown != 1)}" if shown else "less than a month"
    return f"{months / _YEAR:.1f} years"


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
    """The first line: what to run."""
    best = answer.recommended
    if best is None:
        return "Nothing that may be chosen meets the objectives"
    verb = "Keep today’s" if answer.keeps_today else "Run"
    return f"{verb} {setting_phrase(best.setting)}"


def cost_phrase(answer: PlanAnswer) -> str:
    """What the nodes cost, against today's or, if these stay, against the cheapest plan's."""
    best = answer.recommended
    if best is None:
        return ""
    words = f"{usd(best.usd_per_month)} a month for {_nodes(best.setting)}"
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


@dataclass(frozen=True)
class PlanColumn:
    """A column of the table of plans: its cell for a plan, and what its name stands for."""

    name: str
    cell: Callable[[RankedPlan], str]
    meaning: str = ""
    """Empty where the name says it."""
    numeric: bool = True
    wraps: bool = False


PLAN_COLUMNS = (
    PlanColumn("instance", lambda plan: plan.setting.instance, numeric=False),
    PlanColumn("engine", lambda plan: _engine(plan.setting), numeric=False, wraps=True),
    PlanColumn("shards", lambda plan: str(plan.setting.shards)),
    PlanColumn("repl", lambda plan: str(plan.setting.replicas), "replicas of each shard"),
    PlanColumn("io", lambda plan: str(plan.setting.io_threads), "io-threads"),
    PlanColumn("$/month", lambda plan: f"{plan.usd_per_month:,.0f}", "of the nodes"),
    PlanColumn("traffic", lambda plan: _dollars(traffic_usd(plan)), "between zones, $/month"),
    PlanColumn(
        "CPU free",
        lambda plan: percent(plan.horizon.cpu_headroom),
        "what the peak leaves of what a node serves",
    ),
    PlanColumn("mem free", lambda plan: percent(plan.horizon.memory_headroom), "of its memory"),
    PlanColumn("p99", lambda plan: _p99(plan.horizon)),
    PlanColumn(
        "meets",
        lambda plan: _meets(plan),
        "how probable it is that the objective is met",
    ),
    PlanColumn(
        "first limit",
        lambda plan: _short(plan.milestones[0]) if plan.milestones else UNKNOWN,
        "what growth reaches first",
        numeric=False,
        wraps=True,
    ),
)


_IF_THEY_DIFFER = ("repl", "traffic")
"""Columns that say nothing where all plans are alike: the headline and the bill have them."""


def chosen_row(answer: PlanAnswer) -> int | None:
    """Which row of the table is what to run; None where nothing is."""
    if answer.recommended is None:
        return None
    return len(answer.plans) if answer.keeps_today else 0


def ranked_rows(answer: PlanAnswer) -> tuple[list[PlanColumn], list[list[str]]]:
    """Columns and cells of all plans, then of today's; the first column tells the rank."""
    ranks = [f"{n} =" if plan.tied else f"{n}" for n, plan in enumerate(answer.plans, start=1)]
    told = dict(zip(ranks, answer.plans, strict=True))
    if answer.today is not None:
        told["now"] = answer.today
    columns = [
        column
        for column in PLAN_COLUMNS
        if column.name not in _IF_THEY_DIFFER or len(set(map(column.cell, told.values()))) > 1
    ]
    rank = PlanColumn("", lambda _plan: "", numeric=False)
    rows = [[name, *(column.cell(plan) for column in columns)] for name, plan in told.items()]
    return [rank, *columns], rows


def ranked_legend(columns: Iterable[PlanColumn]) -> str:
    """What short names of columns stand for."""
    return "; ".join(f"{each.name}: {each.meaning}" for each in columns if each.meaning)


def marks_phrase(answer: PlanAnswer) -> str:
    """What marks in the table mean; empty without any."""
    found = []
    if any(plan.tied for plan in answer.plans):
        found.append(
            f"=: costs as much as the plan above, and there is {NO_CLEAR_DIFFERENCE} between the "
            "two; the simpler one stands first"
        )
    told = [*answer.plans, *([] if answer.today is None else [answer.today])]
    if any(plan.is_open for plan in told):
        found.append("?: the draws can't tell it from what is asked")
    return "; ".join(found)


def _meets(plan: RankedPlan) -> str:
    if plan.is_open:
        return f"{probability(plan.horizon.probability)}?"
    return probability(plan.horizon.probability) if plan.meets else "no"


def _dollars(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _engine(setting: PlanSetting) -> str:
    return f"{setting.engine} {setting.engine_version}"


def _p99(state: ShardState) -> str:
    return milliseconds(state.p99_ms.value) if state.p99_ms else "grows"


def _short(milestone: Milestone) -> str:
    """What growth reaches first, for a narrow cell: `memory 12 mo`."""
    months = milestone.months
    if months is None:
        return "> 20 y"
    time = f"{months:.0f} mo" if months < 2 * _YEAR else f"{months / _YEAR:.1f} y"
    return f"{milestone.what.split()[0]} {time}"


def milestone_phrase(milestone: Milestone) -> str:
    """What growth reaches when."""
    return f"{milestone.what}: {months_text(milestone.months)}"


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


def rejected_heading(answer: PlanAnswer) -> str:
    """What stands above the alternatives that were turned down."""
    if not answer.plans:
        return "Why nothing else does" if answer.keeps_today else "Why nothing does"
    return "Why not, against plan 1" if answer.keeps_today else "Why not"


def front_rows(answer: PlanAnswer) -> list[tuple[str, str, str]]:
    """Cost, headroom and setting of the points on the front."""
    return [
        (usd(point.usd_per_month), percent(point.headroom), front_name(point))
        for point in answer.front
        if point.on_front
    ]


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
        "today’s operations."
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
    told = [f"{each.payment} {usd(nodes * (each.usd_per_month or 0.0))}" for each in known]
    missing = [each.payment for each in plan.terms if each.usd_per_month is None]
    left = f"; no price is known of {_listed(missing)}" if missing else ""
    return f"The nodes a month: {', '.join(told)}{left}."


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


def usd(value: float) -> str:
    """Dollars, with cents below a hundred."""
    return f"${value:,.0f}" if value >= 100 or value == 0 else f"${value:,.2f}"


# --- what compression does -----------------------------------------------------------------------


def compression_heading(effect: CompressionEffect) -> str:
    """What compresses which values."""
    above = byte_size(effect.above_bytes)
    return f"Clients compress values above {above}: {effect.algorithm}, level {effect.level}"


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
