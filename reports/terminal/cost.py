"""The verb `cost` on a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from forecache.models.cost.answer import CostAnswer, CostPoint
from forecache.models.cost.bill import BESIDES, BillLine

from ..text.bills import not_priced_sentences
from ..text.formats import count, dollars, plain, rate
from ..text.settings import setting_name, varying_keys
from .console import plain_table, print_warning


def print_cost(answer: CostAnswer, console: Console) -> None:
    """Print the bills of every point: lines, total, price of a million requests, break-even."""
    prices, points = answer.prices, answer.points
    console.print(Text(f"{prices.title}, prices of {prices.date}, a month", style="dim"))
    for point in points:
        console.print()
        # Before any price: that what was asked for is not enough.
        for warning in dict.fromkeys(point.warnings):
            print_warning(warning, console)
        if len(points) > 1:
            keys = varying_keys([each.given for each in points])
            named = [f"{setting_name(key)} {point.given.get(key)}" for key in keys]
            console.print(Text(", ".join(named), style="bold"))
        _print_bills(point, console)
        for sentence in (
            *needs_sentences(point),
            *not_priced_sentences(point.nodes.not_priced if point.nodes else []),
            break_even_sentence(point),
        ):
            if sentence:
                console.print(Text(sentence))


def _print_bills(point: CostPoint, console: Console) -> None:
    """Print both bills; what is paid besides nodes apart, since serverless has it too."""
    table = plain_table()
    table.add_column("")
    table.add_column("quantity", justify="right", no_wrap=True)
    table.add_column("")
    table.add_column("USD", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    million = point.requests_per_month / 1e6
    _add_bill(table, "serverless", point.serverless.lines, million)
    if point.nodes is not None:
        besides = [line for line in point.nodes.lines if line.what in BESIDES]
        _add_bill(table, "nodes", [e for e in point.nodes.lines if e not in besides], million)
        if besides:
            _add_bill(table, "besides", besides, 0.0)
    console.print(table)


def _add_bill(table: Table, title: str, lines: Sequence[BillLine], million: float) -> None:
    """Add lines under their sum, and what that is of a million requests."""
    # Of the cents that are shown, so that they add up.
    cents = sum(round(line.usd, 2) for line in lines)
    usd = sum(line.usd for line in lines)
    each = f"{dollars(usd / million)} per million requests" if million else ""
    table.add_row(Text(title, style="bold"), "", "", Text(_usd(cents), style="bold"), each)
    for line in lines:
        table.add_row(
            f"  {line.what}", _quantity(line.quantity), line.unit, _usd(line.usd), line.note
        )


def _quantity(value: float) -> str:
    """With thin groups, and a decimal where there are few."""
    return count(round(value)) if value >= 1000 else f"{value:.4g}"


def _usd(value: float) -> str:
    return f"{value:,.2f}"


def needs_sentences(point: CostPoint) -> list[str]:
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


def break_even_sentence(point: CostPoint) -> str:
    """At which load both cost the same, in a sentence; empty without nodes to compare with."""
    found, nodes = point.break_even, point.nodes
    if found is None or nodes is None:
        return ""
    load, meets = found.load, found.load_if_enough
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
    more = f", which {found.shards} shards serve" if found.shards != nodes.shards else ""
    return (
        f"Serverless is cheaper up to {load:.3g} times this load, "
        f"{rate(found.requests_per_s)} on average{more}."
    )
