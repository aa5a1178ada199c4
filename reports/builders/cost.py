"""What a cache costs a month, as nodes and serverless."""

from collections.abc import Sequence

from forecache.models.cost.answer import CostAnswer, CostPoint
from forecache.models.cost.bill import BESIDES, BillLine, NotPriced
from forecache.models.prices.table import days_apart
from forecache.sim.statistics import exactly

from ..document import Column, Document, Figure, Part, Section, Text, TextTable, Warnings, words
from ..text.formats import count, dollars, plain, rate
from ..text.settings import setting_name, varying_keys
from ..tidy import flat, sweep_table, tidy
from .curves import CurveQuantity, curve_figures


def cost(answer: CostAnswer) -> Document:
    """A line per point where there are several, then the bill of each, with its break-even."""
    prices, points = answer.prices, answer.points
    keys = varying_keys([each.given for each in points]) if len(points) > 1 else []
    titles = [
        ", ".join(f"{setting_name(key)} {point.given.get(key)}" for key in keys) for point in points
    ]
    return Document(
        about=f"{prices.title}, prices of {prices.date}, a month",
        headline=_headline(points[0], titles[0]),
        sections=[
            *([Section("", [*_curves(points), _sweep(points, keys)])] if len(points) > 1 else []),
            *(Section(x, _point_parts(point)) for x, point in zip(titles, points, strict=True)),
        ],
        tables={
            "points": lambda: sweep_table("cost", points, given=[p.given for p in points]),
            "lines": lambda: tidy(
                [
                    flat(line, point=number, bill=name)
                    for number, point in enumerate(points)
                    for name, bill in (("serverless", point.serverless), ("nodes", point.nodes))
                    if bill is not None
                    for line in bill.lines
                ]
            ),
        },
    )


def _headline(point: CostPoint, title: str) -> str:
    at = f" with {title}" if title else ""
    nodes = f", {dollars(point.nodes.nodes_usd)} as nodes" if point.nodes else ""
    return f"{dollars(point.serverless.usd)} a month serverless{nodes}{at}"


def _curves(points: Sequence[CostPoint]) -> list[Figure]:
    """Both bills over the sweep."""
    serverless = [exactly(point.serverless.usd) for point in points]
    nodes = [exactly(point.nodes.nodes_usd) if point.nodes else None for point in points]
    quantities = [
        CurveQuantity("serverless_usd", "Serverless, a month", "USD", serverless),
        CurveQuantity("nodes_usd", "Nodes, a month", "USD", nodes),
    ]
    return curve_figures([point.given for point in points], quantities)


def _sweep(points: Sequence[CostPoint], keys: Sequence[str]) -> TextTable:
    """A row for each point."""
    nodes = [point.nodes for point in points]
    loads = [point.break_even.load if point.break_even else None for point in points]
    return TextTable(
        [
            *(Column(setting_name(k), [plain(p.given.get(k)) for p in points]) for k in keys),
            Column("serverless", [dollars(point.serverless.usd) for point in points]),
            Column("nodes", [dollars(each.nodes_usd if each else None) for each in nodes]),
            Column("number", [plain(each.count if each else None) for each in nodes]),
            Column("break-even load", list(map(plain, loads))),
        ],
        lead=len(keys),
    )


def _point_parts(point: CostPoint) -> list[Part]:
    missing = point.nodes.not_priced if point.nodes else []
    sentences = (
        *_needs_sentences(point),
        *not_priced_sentences(missing),
        _break_even_sentence(point),
        days_apart({line.what: line.source for line in _lines(point)}),
    )
    return [
        # Before any price: that what was asked for is not enough.
        Warnings(list(dict.fromkeys(point.warnings))),
        _bills(point),
        *(Text(sentence) for sentence in sentences if sentence),
    ]


def _lines(point: CostPoint) -> list[BillLine]:
    return [*point.serverless.lines, *(point.nodes.lines if point.nodes else [])]


def _bills(point: CostPoint) -> TextTable:
    """Both bills; what is paid besides nodes apart, since serverless has it too."""
    million = point.requests_per_month / 1e6
    rows = _bill("serverless", point.serverless.lines, million)
    if point.nodes is not None:
        besides = [line for line in point.nodes.lines if line.what in BESIDES]
        rows += _bill("nodes", [e for e in point.nodes.lines if e not in besides], million)
        rows += _bill("besides", besides, 0.0) if besides else []
    what, quantities, units, usd, notes = zip(*rows, strict=True)
    return TextTable(
        [
            words("", what),
            Column("quantity", quantities),
            words("", units),
            Column("USD", usd),
            words("", notes, wraps=True),
        ],
        strong=[place for place, name in enumerate(what) if not name.startswith(" ")],
    )


def _bill(title: str, lines: Sequence[BillLine], million: float) -> list[tuple[str, ...]]:
    """Lines under their sum, and what that is of a million requests."""
    # Of the cents that are shown, so that they add up.
    cents = sum(round(line.usd, 2) for line in lines)
    usd = sum(line.usd for line in lines)
    each = f"{dollars(usd / million)} per million requests" if million else ""
    return [
        (title, "", "", f"{cents:,.2f}", each),
        *(
            (f"  {line.what}", amount_text(line.quantity), line.unit, f"{line.usd:,.2f}", line.note)
            for line in lines
        ),
    ]


def amount_text(value: float) -> str:
    """A quantity of a bill, with decimals where it is small."""
    return count(round(value)) if value >= 1000 else f"{value:.4g}"


def bill_table(lines: Sequence[BillLine]) -> TextTable:
    """What, quantity with its rate, USD, and note with the rate's source, of every line."""
    rates = [x if (x := line.usd_per_unit) is None else f" at {x:.5g}" for line in lines]
    return TextTable(
        [
            words("", [line.what for line in lines]),
            words(
                "quantity",
                [
                    f"{amount_text(line.quantity)} {line.unit}{rate or ''}"
                    for line, rate in zip(lines, rates, strict=True)
                ],
            ),
            Column("USD", [f"{line.usd:,.2f}" for line in lines]),
            words(
                "",
                ["; ".join(x for x in (line.note, line.source) if x) for line in lines],
                wraps=True,
            ),
        ]
    )


def not_priced_sentences(missing: Sequence[NotPriced]) -> list[str]:
    """What belongs to a bill and has no known price, a sentence each."""
    return [
        f"Not priced: {each.what}, {amount_text(each.quantity)} {each.unit}: {each.why}."
        for each in missing
    ]


def _needs_sentences(point: CostPoint) -> list[str]:
    """What the nodes hold and serve of what is asked; none without nodes."""
    if point.nodes is None:
        return []
    return [
        f"{need.what.capitalize()}: {_amount(need.asked)} of "
        f"{_amount(point.nodes.shards * need.each)} {need.unit} ({need.basis})."
        for need in point.nodes.needs
    ]


def _amount(value: float) -> str:
    return count(round(value)) if value >= 1000 else plain(value)


def _break_even_sentence(point: CostPoint) -> str:
    """At which load both cost the same, in a sentence; empty without nodes to compare with."""
    even, nodes = point.break_even, point.nodes
    if even is None or nodes is None:
        return ""
    load, meets = even.load, even.load_if_enough
    if load is None and meets is not None:
        return (
            f"Serverless is cheaper at any load. At {meets:.3g} times this one the bills would be "
            "equal, but these nodes cannot carry it, and more nodes cost more."
        )
    if load is None:
        return "Serverless is cheaper at any load."
    if load == 0:
        serves = nodes.serves_load
        upto = "at any load" if serves is None else f"up to {serves:.3g} times this load"
        return f"The nodes are cheaper {upto}: data and capacity kept ready alone cost more."
    more = f", which {even.shards} shards serve" if even.shards != nodes.shards else ""
    return (
        f"Serverless is cheaper up to {load:.3g} times this load, "
        f"{rate(even.requests_per_s)} on average{more}."
    )
