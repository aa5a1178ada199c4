"""What today's nodes and their bill say, and how far these nodes go."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from forecache.models.advice.objective import LATENCIES
from forecache.models.plan.results import (
    BilledCache,
    CapacityLimit,
    FromBill,
    FromInfo,
    KnownField,
    TodayAnswer,
)

from ..document import (
    PAGE,
    TERMINAL,
    Column,
    Document,
    Facts,
    Items,
    Part,
    Section,
    Text,
    TextTable,
    words,
)
from ..text.formats import UNKNOWN, byte_size, count, milliseconds, percent, rate
from ..text.points import limited_by
from ..tidy import TidyTable, flat, tidy
from .cost import amount_text

_MOST_NODES = 6
_MOST_COMMANDS = 12
_MOST_UNPLACED = 15


def today(answer: TodayAnswer) -> Document:
    """What the files say, without a plan."""
    info, ceiling = answer.from_info, answer.ceiling
    sections = [
        *today_sections(info, ceiling),
        *([bill_section(answer.from_bill)] if answer.from_bill is not None else []),
        *nodes_sections(info, ceiling),
    ]
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
        headline="Today" if ceiling is None else _ceiling_phrase(ceiling),
        warnings=[] if ceiling is None else ceiling.warnings,
        sections=sections,
        tables={"nodes": nodes, "latencies": latencies},
    )


def today_sections(info: FromInfo | None, ceiling: CapacityLimit | None) -> list[Section]:
    """Whether today's nodes hold the load, what is wrong, and where the time goes."""
    sections = []
    if ceiling is not None and (verdict := _verdict_phrase(ceiling)):
        changes = _changes_phrase(ceiling)
        sections.append(
            Section(verdict, [Text(changes)] if changes else [], tone="plain", anchor="verdict")
        )
    if info is not None and info.troubles:
        sections.append(Section("What these files show to be wrong", [Items(_troubles(info))]))
    if ceiling is not None and ceiling.time:
        legend = (
            "corrected: predicted with the measurement taken into account, as all other answers are"
            if ceiling.corrected
            else "The load is too light to tell what a command costs: nothing was corrected by it"
        )
        sections.append(Section("", [_time(ceiling), Text(legend, "muted")]))
    return sections


def nodes_sections(
    info: FromInfo | None, ceiling: CapacityLimit | None, *, slo: Mapping[str, float] | None = None
) -> list[Section]:
    """What today's nodes say, what they don't, and how far they go.

    Parameters
    ----------
    slo
        What is asked for; that of the ceiling without it.
    """
    if info is None or not (info.nodes or info.known):
        return []
    objective = slo or (ceiling.objective if ceiling is not None else {})
    sections = [
        Section(
            "Today, as its nodes tell", _nodes(info) if info.nodes else [Text("")], anchor="today"
        )
    ]
    if info.latencies:
        sections.append(Section(_latency_heading(objective), [_latencies(info)]))
    sections += [
        Section("What was filled in", [Facts(_known(info.known))]),
        Section("What these files do not say", [Items(info.unknown)]),
    ]
    if info.not_used:
        sections.append(Section("What they say and a plan does not use", [Items(info.not_used)]))
    if info.needed and ceiling is None:
        needed = list(info.needed.values())
        if info.not_modelled and "demand.operations" in info.needed:
            most = list(info.not_modelled.items())[:_MOST_COMMANDS]
            shares = ", ".join(f"{name.upper()} {percent(share)}" for name, share in most)
            needed.append(f"Not modelled, of the execution time: {shares}")
        title = "No capacity, headroom or plan: too little is known"
        sections.append(Section(title, [Items(needed)]))
    if ceiling is not None:
        sections.append(Section(_ceiling_phrase(ceiling), [Items(_ceiling_facts(ceiling))]))
    return sections


def _nodes(info: FromInfo) -> list[Part]:
    """The busiest nodes."""
    nodes = sorted(info.nodes, key=lambda node: -node.peak_rps)
    return [
        TextTable(
            [
                words("node", [node.name for node in nodes], wraps=True),
                words("role", [node.role for node in nodes], drop=1),
                Column("mean", [rate(node.rate_rps) for node in nodes]),
                Column("busiest", [rate(node.peak_rps) for node in nodes]),
                Column("memory", [byte_size(node.used_memory_bytes) for node in nodes]),
                Column("keys", [count(node.keys) for node in nodes], drop=2),
            ],
            most=_MOST_NODES,
        )
    ]


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


def _verdict_phrase(ceiling: CapacityLimit) -> str:
    """Whether today's nodes hold the load that is asked about, and where they stop."""
    if ceiling.peak_rps <= 0.0 or ceiling.ceiling_rps.value <= 0.0:
        return ""
    shards = ceiling.shards
    they = "shard" if shards == 1 else f"{shards} shards"
    load_rps, most = ceiling.times * ceiling.peak_rps * shards, ceiling.ceiling_rps
    load = "today’s peak" if ceiling.times == 1.0 else f"{ceiling.times:g} times the peak"
    busiest = max((each.rate_rps for each in ceiling.nodes), default=ceiling.peak_rps)
    busiest = max(busiest, ceiling.peak_rps)  # where it is much more than the mean, it stops first
    holds = ceiling.times * busiest <= most.value
    stop = [value / busiest for value in (most.value, most.low, most.high)]
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


def _changes_phrase(ceiling: CapacityLimit) -> str:
    """What other settings of the same machines would serve."""
    if not ceiling.changes:
        return ""
    best, *others = ceiling.changes
    first = f"{best.ratio:.2g} times as much with {best.what}"
    more = [f"{each.ratio:.2g} times with {each.what}" for each in others]
    return f"In saturation the same machines would serve {', '.join([first, *more])}"


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
        f"A node {does} {rate(rps.value)} ({rate(rps.low)} to {rate(rps.high)}); "
        f"in saturation {limited_by(ceiling.bottleneck)}"
    )


def _ceiling_facts(ceiling: CapacityLimit) -> list[str]:
    """Of what the ceiling is, and what is left to the busiest node."""
    found = [
        f"{ceiling.host}, {ceiling.engine} {ceiling.engine_version}, io-threads "
        f"{ceiling.io_threads}"
    ]
    if ceiling.nodes:
        busiest = ceiling.nodes[0]
        left = percent(busiest.headroom) if busiest.headroom > 0 else "nothing"
        found.append(f"{busiest.name}, the busiest: {rate(busiest.rate_rps)}, {left} left")
    return found


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
