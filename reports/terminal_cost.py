"""The verb `cost` on a terminal."""

from rich.console import Console
from rich.text import Text

from .console import plain_table, print_warning
from .formats import count, dollars, is_number, plain, rate
from .settings import setting_name, varying_keys
from .shapes import Json, mapping, number, rows, texts


def print_cost(result: Json, console: Console) -> None:
    """Print the bills of every point: lines, total, price of a million requests, break-even."""
    prices = mapping(result, "prices")
    console.print(
        Text(f"{prices.get('title')}, prices of {prices.get('date')}, a month", style="dim")
    )
    points = rows(result, "points")
    for point in points:
        console.print()
        # Before any price: that what was asked for is not enough.
        for warning in texts(point, "warnings"):
            print_warning(warning, console)
        if len(points) > 1:
            given = mapping(point, "given")
            keys = varying_keys([mapping(each, "given") for each in points])
            named = [f"{setting_name(key)} {given.get(key)}" for key in keys]
            console.print(Text(", ".join(named), style="bold"))
        _print_bills(point, console)
        for sentence in (*needs_sentences(point), break_even_sentence(point)):
            if sentence:
                console.print(Text(sentence))


def _print_bills(point: Json, console: Console) -> None:
    table = plain_table()
    table.add_column("")
    table.add_column("quantity", justify="right", no_wrap=True)
    table.add_column("")
    table.add_column("USD", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for title in ("serverless", "nodes"):
        bill = mapping(point, title)
        if not bill:
            continue
        each = dollars(bill.get("usd_per_million_requests"))
        # Of the cents that are shown, so that they add up.
        cents = sum(round(float(line["usd"]), 2) for line in rows(bill, "lines"))
        total = Text(_usd(cents), style="bold")
        table.add_row(Text(title, style="bold"), "", "", total, f"{each} per million requests")
        for line in rows(bill, "lines"):
            table.add_row(
                f"  {line['what']}",
                _quantity(float(line["quantity"])),
                str(line["unit"]),
                _usd(line["usd"]),
                str(line["note"]),
            )
    console.print(table)


def _quantity(value: float) -> str:
    """With thin groups, and a decimal where there are few."""
    return count(round(value)) if value >= 1000 else f"{value:.4g}"


def _usd(value: object) -> str:
    return f"{value:,.2f}" if is_number(value) else "–"


def needs_sentences(point: Json) -> list[str]:
    """What the nodes hold and serve of what is asked; none without nodes."""
    nodes = mapping(point, "nodes")
    shards = number(nodes, "shards") or 1
    return [
        f"{str(need.get('what')).capitalize()}: {_amount(need.get('asked'))} of "
        f"{_amount(shards * (number(need, 'each') or 0.0))} {need.get('unit')} "
        f"({need.get('basis')})."
        for need in rows(nodes, "needs")
    ]


def _amount(value: object) -> str:
    return count(round(value)) if is_number(value) and value >= 1000 else plain(value)


def break_even_sentence(point: Json) -> str:
    """At which load both cost the same, in a sentence; empty without nodes to compare with."""
    found = mapping(point, "break_even")
    if not found:
        return ""
    nodes, load = mapping(point, "nodes"), number(found, "load")
    meets = number(found, "load_if_enough")
    if load is None and meets is not None:
        return (
            f"Serverless is cheaper at any load. At {meets:.3g} times this one the bills would be "
            "equal, but these nodes cannot carry it, and more nodes cost more."
        )
    if load is None:
        return "Serverless is cheaper at any load."
    if load == 0:
        serves = number(nodes, "serves_load")
        upto = "at any load" if serves is None else f"up to {serves:.3g} times this load"
        return f"The nodes are cheaper {upto}: data and capacity kept ready alone cost more."
    shards = number(found, "shards") or 1
    more = f", which {shards:.0f} shards serve" if shards != number(nodes, "shards") else ""
    return (
        f"Serverless is cheaper up to {load:.3g} times this load, "
        f"{rate(number(found, 'requests_per_s'))} on average{more}."
    )
