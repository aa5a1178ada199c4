"""What today's nodes and their bill say, and how far these nodes go."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from forecache.models.advice.objective import LATENCIES
from forecache.models.plan.forecast import months_until
from forecache.models.plan.results import (
    BilledCache,
    CapacityLimit,
    FromBill,
    FromInfo,
    KnownField,
    SettingChange,
    TodayAnswer,
)

from ..document import (
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
    listed,
    milliseconds,
    months_text,
    percent,
    probability,
    rate,
    rate_with_bounds,
    sentence,
)
from ..text.points import limited_by
from ..tidy import TidyTable, flat, tidy
from . import drawing
from .cost import amount_text
from .explained import measurements_section

_MOST_NODES = 6
_MOST_COMMANDS = 12
_MOST_UNPLACED = 15


def today(answer: TodayAnswer) -> Document:
    """What the files say, without a plan."""
    info, ceiling = answer.from_info, answer.ceiling
    chapters = [
        today_chapter(info, ceiling),
        growth_chapter(ceiling, {}),
        *([bill_section(answer.from_bill)] if answer.from_bill is not None else []),
        sure_chapter(info, ceiling, []),
        next_chapter(info, ceiling),
        parameters_chapter(info, []),
    ]
    first = verdict_section(info, ceiling, [])
    left = {} if ceiling is None else {node.name: node.headroom for node in ceiling.nodes}

    def nodes() -> TidyTable:
        more = {} if ceiling is None else {"headroom": None}
        return tidy(
            [
                flat(node) | more | ({"headroom": left[node.name]} if node.name in left else {})
                for node in info.nodes
            ]
        )

    def latencies() -> TidyTable:
        return tidy(
            [
                {
                    "command": each.command,
                    "node": each.node,
                    "calls": each.calls,
                    # p99.9 is p999, as everywhere else.
                    **{f"{n.replace('.', '')}_ms": v for n, v in each.quantiles_ms.items()},
                }
                for each in info.latencies
            ]
        )

    return Document(
        about="",
        headline=first.title if first.tone else "Today",
        warnings=[] if ceiling is None else ceiling.warnings,
        sections=[first, *(each for each in chapters if each.parts)],
        tables={"nodes": nodes, "latencies": latencies},
    )


def verdict_section(
    info: FromInfo | None, ceiling: CapacityLimit | None, then: Sequence[Part]
) -> Section:
    """Whether today's nodes hold the load, and what the files show to be wrong.

    Parameters
    ----------
    then
        What to do, between the two.
    """
    parts: list[Part] = [*then]
    verdict = "" if ceiling is None else _verdict_phrase(ceiling)
    if ceiling is not None and verdict:
        more = (_changes_phrase(ceiling), _lasts_phrase(ceiling))
        parts += [Text(sentence(each)) for each in more if each]
    if info is not None and info.needed and ceiling is None:
        needed = list(info.needed.values())
        if info.not_modelled and "demand.operations" in info.needed:
            most = list(info.not_modelled.items())[:_MOST_COMMANDS]
            shares = ", ".join(f"{name.upper()} {percent(share)}" for name, share in most)
            needed.append(f"Not modelled, of the execution time: {shares}")
        parts.append(Section("No capacity, headroom or plan: too little is known", [Items(needed)]))
    if info is not None and info.troubles:
        parts.append(Section("What these files show to be wrong", [Items(_troubles(info))]))
    if ceiling is None or not verdict:
        return Section("", parts)
    return Section(verdict, parts, tone="good" if holds_load(ceiling) else "bad")


def today_chapter(
    info: FromInfo | None,
    ceiling: CapacityLimit | None,
    *,
    slo: Mapping[str, float] | None = None,
) -> Section:
    """What today's nodes do, how far each goes, and where its time goes.

    Parameters
    ----------
    slo
        What is asked for; that of the ceiling without it.
    """
    parts: list[Part] = []
    objective = slo or (ceiling.objective if ceiling is not None else {})
    if ceiling is not None:
        parts.append(Text(f"{_ceiling_phrase(ceiling)}.", "strong"))
    if info is not None and info.nodes:
        parts += _nodes(info, ceiling)
    if ceiling is not None and ceiling.time:
        legend = (
            "corrected: predicted with the measurement taken into account, as all other answers are"
            if ceiling.corrected
            else "The load is too light to tell what a command costs: nothing was corrected by it"
        )
        title = "Where the main thread’s time goes"
        parts.append(Section(title, [_time(ceiling), Text(legend, "muted")]))
    if info is not None and info.latencies:
        parts.append(Section(_latency_heading(objective), [_latencies(info)]))
    return Section("Today", parts, anchor="today", begins_page=True)


GROWTHS = (0.1, 0.25, 0.5, 1.0)
"""Yearly, of the load where nothing tells it, and of data with it."""
_USUAL = 0.25


def growth_chapter(
    ceiling: CapacityLimit | None,
    limits: Mapping[str, Sequence[float]],
    *,
    told: float = 0.0,
    then: Sequence[Part] = (),
) -> Section:
    """When a growing load reaches what there is.

    Parameters
    ----------
    limits
        What else is reached at which multiples of today's: the best number, or with both ends.
    told
        Yearly growth that was told, if any.
    then
        What follows the table.
    """
    every = dict(limits)
    if ceiling is not None and ceiling.peak_rps > 0.0 and ceiling.ceiling_rps.value > 0.0:
        every = {"today": _stops(ceiling), **limits}
    meanings = {
        "today": "its nodes miss the objective, with the 95% interval",
        "today’s memory": "data fill it",
        "plan": "the nodes of the plan miss the objective",
        "plan’s memory": "data fill it",
    }
    rates = sorted({*GROWTHS, *([told] if told > 0.0 else [])})
    columns = [
        Column(name, [_years(factors, yearly) for yearly in rates], meaning=meanings[name])
        for name, factors in every.items()
    ]
    parts: list[Part] = []
    if columns:
        growth = Column("growth", [percent(each) for each in rates], meaning="of load and data")
        marked = rates.index(told) if told > 0.0 else None
        known = "" if told > 0.0 else "; the files do not tell how the load grows"
        parts = [
            Text(f"Years until a limit is reached, by the growth a year{known}."),
            TextTable([growth, *columns], marked=marked),
            Figure("growth", drawing("growth", every, rates), width_px=WIDE_PX, on=PAGE),
        ]
    return Section("Growth", [*parts, *then], anchor="growth", begins_page=True)


def _years(factors: Sequence[float], yearly: float) -> str:
    """Years until growth reaches a multiple, with the ends of its interval if these are given."""
    best, *ends = (months_until(factor, yearly) for factor in factors)
    shown = [">20" if each is None else f"{each / 12:.1f}" if each else "now" for each in ends]
    first = ">20" if best is None else f"{best / 12:.1f}" if best else "now"
    return f"{first} ({'–'.join(shown)})" if len(set(shown)) > 1 else first


def _lasts_phrase(ceiling: CapacityLimit) -> str:
    """How long today's nodes last at a usual growth."""
    if not holds_load(ceiling):
        return ""
    months = months_until(_stops(ceiling)[0], _USUAL)
    growing = f"Growing by {percent(_USUAL)} a year{'' if ceiling.times == 1.0 else ' from there'}"
    if months is None:
        return f"{growing}, the load does not reach that within 20 years"
    return f"{growing}, the load reaches that in {months_text(months)}"


def sure_chapter(
    info: FromInfo | None, ceiling: CapacityLimit | None, more: Sequence[tuple[str, str]]
) -> Section:
    """How sure it all is, and what it depends on.

    Parameters
    ----------
    more
        Name and text of what is uncertain besides.
    """
    facts: list[tuple[str, str]] = []
    if ceiling is not None:
        rps = ceiling.ceiling_rps
        known = "predicted from host and engine alone: the load is too light to correct it by"
        if ceiling.corrected:
            known = "corrected by what the nodes measured of themselves"
        elif not ceiling.time:
            known = "predicted from host and engine alone: the files tell no times"
        facts.append(("Limit of a node", f"{rate_with_bounds(rps)}, the 95% interval; {known}"))
        if ceiling.capacity_rps is not None:
            facts.append(("In saturation", rate_with_bounds(ceiling.capacity_rps)))
        if ceiling.probability is not None:
            asked = (
                f"{ceiling.times:g} times today’s peak" if ceiling.times != 1.0 else "today’s peak"
            )
            met = probability(ceiling.probability)
            facts.append((f"Holds {asked}", f"with a probability of {met}"))
    if info is not None and info.unknown and ceiling is not None:
        facts.append(("Assumed", f"{len(info.unknown)} things that the files do not say: below"))
    parts: list[Part] = [Facts([*facts, *more])] if [*facts, *more] else []
    if ceiling is not None and ceiling.otherwise:
        parts.append(Section("If the nodes were asked otherwise", _otherwise(ceiling)))
    return Section("How sure this is", parts, anchor="sure", begins_page=True)


def _otherwise(ceiling: CapacityLimit) -> list[Part]:
    """What a node would serve if it were asked otherwise."""
    much = [x for x in ceiling.otherwise if not 1.0 / WORTH_IT < x.ratio < WORTH_IT]
    little = [each.what for each in ceiling.otherwise if each not in much]
    found: list[Part] = [changes_table("with", much)] if much else []
    if little:
        found.append(Text(f"Within the model’s error as today: {listed(little)}.", "muted"))
    return found


def next_chapter(info: FromInfo | None, ceiling: CapacityLimit | None) -> Section:
    """What to measure next."""
    parts: list[Part] = []
    if info is not None and info.look_next:
        parts.append(Items([sentence(each) for each in info.look_next]))
    if ceiling is not None and ceiling.measure_next is not None:
        parts.append(measurements_section(ceiling.measure_next))
    return Section("What to measure next", parts, anchor="next", begins_page=True)


def parameters_chapter(info: FromInfo | None, then: Sequence[Part]) -> Section:
    """What was filled in, what the files don't say, and what is not used."""
    parts: list[Part] = []
    if info is not None and (info.nodes or info.known):
        parts += [
            Section("What these files do not say", [Items(info.unknown)]),
            Section("What was filled in", [Facts(_known(info.known))]),
        ]
        if info.not_used:
            parts.append(Section("What they say and a plan does not use", [Items(info.not_used)]))
    return Section("Parameters", [*parts, *then], anchor="parameters", begins_page=True)


def _nodes(info: FromInfo, ceiling: CapacityLimit | None) -> list[Part]:
    """The busiest nodes, and what is left to each."""
    nodes = sorted(info.nodes, key=lambda node: -node.peak_rps)
    limits = [] if ceiling is None else ceiling.nodes
    left = {each.name: percent(max(0.0, each.headroom)) for each in limits}
    busy = [percent(node.times.busy) if node.times else UNKNOWN for node in nodes]
    of_limit = [left.get(node.name, UNKNOWN) for node in nodes]
    columns = [
        words("node", [node.name for node in nodes], wraps=True),
        words("role", [node.role for node in nodes], drop=1),
        Column("mean", [rate(node.rate_rps) for node in nodes]),
        Column("busiest", [rate(node.peak_rps) for node in nodes]),
        Column("busy", busy, drop=3, meaning="main thread, at the mean load"),
        Column("left", of_limit, meaning="of the limit, at the busiest moment"),
        Column("memory", [byte_size(node.used_memory_bytes) for node in nodes]),
        Column("keys", [count(node.keys) for node in nodes], drop=2),
    ]
    known = [each for each in columns if {*each.cells} != {UNKNOWN}]
    return [TextTable(known, most=_MOST_NODES)]


def _latency_heading(objective: Mapping[str, float]) -> str:
    """What stands above how long commands take, beside what is asked for."""
    bounds = [
        f"{name[:-3]} at most {bound:g} ms"
        for name, bound in objective.items()
        if name in LATENCIES
    ]
    beside = f"; clients are to see {' and '.join(bounds)}" if bounds else ""
    return f"Inside the server today, without waiting and network{beside}"


def _latencies(info: FromInfo) -> TextTable:
    rows = info.latencies
    names = list(dict.fromkeys(name for each in rows for name in each.quantiles_ms))
    return TextTable(
        [
            words("command", [each.command.upper() for each in rows]),
            Column("calls", [count(each.calls) for each in rows], drop=2),
            *(
                Column(name, [milliseconds(each.quantiles_ms.get(name)) for each in rows])
                for name in names
            ),
            words("slowest node", [each.node for each in rows], drop=1),
        ]
    )


def _known(known: Sequence[KnownField]) -> list[tuple[str, str, str]]:
    """Field, value, and how it is known."""
    return [(each.field.removeprefix("demand."), _value(each), each.how) for each in known]


def _value(known: KnownField) -> str:
    if isinstance(known.value, dict):
        return ", ".join(f"{name} {_words(value)}" for name, value in known.value.items())
    if isinstance(known.value, list):
        return "; ".join(_words(value) for value in known.value)
    return _words(known.value)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return count(round(value)) if value >= 1000 or isinstance(value, int) else f"{value:.4g}"
    if isinstance(value, dict):
        if "a_second" in value:
            items = ", ".join(
                f"{each} {name}" for name, each in value.items() if name != "a_second"
            )
            return f"{_words(value['a_second'])} of {items}"
        return ", ".join(f"{name} {_words(each)}" for name, each in value.items())
    return str(value)


def _time(ceiling: CapacityLimit) -> TextTable:
    """Where the main thread's time goes, in shares of the time."""

    def shown(share: float | None) -> str:
        return "" if share is None else f"{share:.2%}" if share < 0.1 else f"{share:.0%}"

    rows = ceiling.time
    return TextTable(
        [
            words("main thread, at the mean load", [each.part for each in rows], wraps=True),
            Column("measured", [shown(each.measured) for each in rows]),
            Column("predicted", [shown(each.predicted) for each in rows]),
            Column("corrected", [shown(each.after) for each in rows]),
            Column("grows", ["" if each.grows else "no" for each in rows], drop=1),
        ]
    )


def _troubles(info: FromInfo) -> list[str]:
    """What the files show to be wrong, what it costs, and what to set."""
    several = len({node.name for node in info.nodes}) > 1
    return [
        f"{f'{each.node}: {each.what}' if several else each.what[:1].upper() + each.what[1:]}. "
        f"{each.costs[:1].upper()}{each.costs[1:]}. To do: {each.remedy}."
        for each in info.troubles
    ]


def holds_load(ceiling: CapacityLimit) -> bool:
    """Whether today's nodes hold the load that is asked about."""
    return _stops(ceiling)[0] >= 1.0


def _stops(ceiling: CapacityLimit) -> list[float]:
    """At which multiple of the load that is asked about today's nodes stop: best, low and high.

    Where one node has much more to do than the mean, it stops first.
    """
    busiest = max((each.rate_rps for each in ceiling.nodes), default=0.0)
    asked_rps = ceiling.times * max(busiest, ceiling.peak_rps)
    most = ceiling.ceiling_rps
    return [value / asked_rps for value in (most.value, most.low, most.high)]


def _verdict_phrase(ceiling: CapacityLimit) -> str:
    """Whether today's nodes hold the load that is asked about, and where they stop."""
    if ceiling.peak_rps <= 0.0 or ceiling.ceiling_rps.value <= 0.0:
        return ""
    shards = ceiling.shards
    they = "shard" if shards == 1 else f"{shards} shards"
    load_rps, most = ceiling.times * ceiling.peak_rps * shards, ceiling.ceiling_rps
    load = "today’s peak" if ceiling.times == 1.0 else f"{ceiling.times:g} times the peak"
    holds = holds_load(ceiling)
    stop = [ceiling.times * each for each in _stops(ceiling)]
    verb = ("holds" if holds else "does not hold") if shards == 1 else (
        "hold" if holds else "do not hold"
    )  # fmt: skip
    ends = "it stops" if shards == 1 else "they stop"
    return (
        f"Today’s {they} {verb} {load}, {rate(load_rps)}; {ends} at {rate(most.value * shards)}, "
        f"{_times(stop[0])} times the peak ({_times(stop[1])} to {_times(stop[2])}), "
        f"{limited_by(ceiling.bottleneck)}"
    )


def _times(value: float) -> str:
    return f"{value:.3g}" if value < 100 else count(round(value, -1))


WORTH_IT = 1.05
"""What another setting has to serve for what today's does; less is within the model's error."""


def _changes_phrase(ceiling: CapacityLimit) -> str:
    """What other settings of the same machines would serve."""
    worth = [each for each in ceiling.changes if each.ratio >= WORTH_IT]
    if not worth:
        return ""
    threads = [each for each in worth if each.what.startswith("io-threads")]
    others = [each for each in worth if each not in threads]
    best, *more = sorted([*threads[:1], *others[:1]], key=lambda each: -each.ratio)
    first = f"{best.ratio:.2g} times as much with {best.what}"
    found = [first, *(f"{each.ratio:.2g} times with {each.what}" for each in more)]
    return f"In saturation the same machines would serve {', '.join(found)}"


def changes_table(name: str, changes: Sequence[SettingChange]) -> TextTable:
    """What a node would serve with each change, against what it serves today."""
    near = [1.0 / WORTH_IT < each.ratio < WORTH_IT for each in changes]
    return TextTable(
        [
            words(name, [each.what for each in changes], wraps=True),
            Column("a node serves", [rate(each.capacity_rps) for each in changes]),
            Column("against today", [f"{each.ratio:.2f} times" for each in changes]),
            words("", ["within the model’s error" if each else "" for each in near]),
        ]
    )


def _ceiling_phrase(ceiling: CapacityLimit) -> str:
    """How far a node goes, in a sentence."""
    rps = ceiling.ceiling_rps
    bounds = " and ".join(
        f"{name[:-3]} at most {bound:g} ms" for name, bound in ceiling.objective.items()
    )
    if rps.value <= 0:
        return f"A node meets {bounds} at no load; in saturation {limited_by(ceiling.bottleneck)}"
    does = f"meets {bounds} up to" if bounds else "serves"
    return (
        f"A node ({ceiling.host}, {ceiling.engine} {ceiling.engine_version}, io-threads "
        f"{ceiling.io_threads}) {does} {rate(rps.value)} ({rate(rps.low)} to {rate(rps.high)}); "
        f"in saturation {limited_by(ceiling.bottleneck)}"
    )


# --- the bill ------------------------------------------------------------------------------------


def bill_section(bill: FromBill) -> Section:
    """Today's caches and their lines, against the first plan, and what has no place."""
    caches = [
        (_named(each), _nodes_phrase(each), f"{each.usd_per_month:,.2f}") for each in bill.caches
    ]
    tables = [
        ("", ("cache", "nodes", "USD a month"), caches),
        (
            f"{bill.cache}, a month of 730 hours",
            ("", "in the export", "USD a month"),
            _line_rows(bill) if bill.cache else [],
        ),
        ("Against plan 1, USD a month", ("", "today", "plan"), _compared_rows(bill)),
    ]
    parts: list[Part] = [
        Text(f"{_export_phrase(bill)}."),
        *(Section(title, [_amounts(names, rows)]) for title, names, rows in tables if rows),
    ]
    if bill.unplaced:
        names = ("", "why", "USD")
        few = _amounts(names, _unplaced_rows(bill, most=_MOST_UNPLACED))
        every = _amounts(names, _unplaced_rows(bill, most=len(bill.unplaced)))
        both = [replace(few, on=TERMINAL), replace(every, most=_MOST_UNPLACED, on=PAGE)]
        parts.append(Section("Lines that belong to no cache", both))
    if bill.known:
        parts.append(Section("What was filled in", [Facts(_known(bill.known))]))
    if bill.unknown:
        parts.append(Section("What these files do not say", [Items(bill.unknown)]))
    return Section("Today’s bill", parts, anchor="billed")


def _amounts(names: Sequence[str], rows: Sequence[tuple[str, str, str]]) -> TextTable:
    """Rows that end with an amount."""
    cells = zip(names, zip(*rows, strict=True), strict=True)
    return TextTable(
        [
            Column(name, column, numeric=place == 2, wraps=place < 2)
            for place, (name, column) in enumerate(cells)
        ]
    )


def _export_phrase(found: FromBill) -> str:
    """Of when an export is, and how much of it is of caches."""
    when = ""
    if found.begins:
        days = found.hours / 24.0
        span = f"{days:.3g} days" if days >= 2 else f"{found.hours:.3g} hours"
        when = f", {span} from {found.begins[:10]}"
    return (
        f"{count(found.rows)} lines{when}: ${found.total_usd:,.2f}, of which "
        f"${found.placed_usd:,.2f} are of caches and ${found.unplaced_usd:,.2f} could not be placed"
    )


def _line_rows(found: FromBill) -> list[tuple[str, str, str]]:
    """Lines of the cache that is meant: kind, what the export has, cost a month."""
    rows = []
    for cache in found.caches:
        if cache.name != found.cache:
            continue
        for line in cache.lines:
            amount = f"{amount_text(line.quantity)} {line.unit}, " if line.quantity else ""
            what = f"{line.what} {line.node_type}".strip()
            rows.append((what, f"{amount}${line.usd:,.2f}", f"{line.usd_per_month:,.2f}"))
    return rows


def _compared_rows(found: FromBill) -> list[tuple[str, str, str]]:
    """Today's bill and the best plan's, part by part, and both sums."""

    def shown(value: float | None) -> str:
        return UNKNOWN if value is None else f"{value:,.2f}"

    rows = [(each.what, shown(each.today_usd), shown(each.plan_usd)) for each in found.compared]
    both = [
        (each.today_usd, each.plan_usd)
        for each in found.compared
        if each.today_usd is not None and each.plan_usd is not None
    ]
    sums = [sum(side) for side in zip(*both, strict=True)] if both else []
    name = "all" if len(both) == len(rows) else "all that both tell"
    return [*rows, (name, shown(sums[0]), shown(sums[1]))] if sums else rows


def _unplaced_rows(bill: FromBill, *, most: int) -> list[tuple[str, str, str]]:
    """Lines without a place, why, and their amounts; the sum of those beyond the most in one."""
    rows = [
        (f"{x.product} {x.usage_type}".strip() or x.item_type, x.why, f"{x.usd:,.2f}")
        for x in bill.unplaced[:most]
    ]
    left = bill.unplaced[most:]
    if left:
        usd = sum(each.usd for each in left)
        rows.append((f"{count(len(left))} more", "--json has them", f"{usd:,.2f}"))
    return rows


def _nodes_phrase(cache: BilledCache) -> str:
    if not cache.nodes:
        return "serverless" if any(line.what == "serverless" for line in cache.lines) else ""
    words = f"{cache.nodes} × {cache.node_type}, {cache.engine or 'engine not told'}"
    if cache.shards is None or cache.replicas is None:
        return words
    shards = f"{cache.shards} shard{'s' * (cache.shards != 1)}"
    replicas = f"{cache.replicas} replica{'s' * (cache.replicas > 1)} each"
    return f"{words}, {shards} {f'with {replicas}' if cache.replicas else 'without replicas'}"


def _named(cache: BilledCache) -> str:
    return cache.name if cache.name.endswith(cache.region) else f"{cache.name}, {cache.region}"
