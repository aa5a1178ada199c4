"""The verb `cost` on a terminal."""

from rich.console import Console
from rich.text import Text

from .console import plain_table, print_warnings, varying_keys
from .formats import count, dollars, is_number, rate
from .shapes import Json, mapping, rows, setting_name


def print_cost(result: Json, console: Console) -> None:
    """Print the bills of every point: lines, total, price of a million requests, break-even."""
    prices = mapping(result, "prices")
    console.print(
        Text(f"{prices.get('title')}, prices of {prices.get('date')}, a month", style="dim")
    )
    points = rows(result, "points")
    for point in points:
        console.print()
        if len(points) > 1:
            given = mapping(point, "given")
            named = [f"{setting_name(key)} {given.get(key)}" for key in varying_keys(points)]
            console.print(Text(", ".join(named), style="bold"))
        _print_bills(point, console)
        sentence = break_even_sentence(point)
        if sentence:
            console.print(Text(sentence))
    print_warnings([str(w) for point in points for w in point.get("warnings", [])], console)


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
        total = Text(_usd(bill["usd"]), style="bold")
        table.add_row(Text(title, style="bold"), "", "", total, f"{each} per million requests")
        for line in rows(bill, "lines"):
            table.add_row(
                f"  {line['what']}",
                count(round(float(line["quantity"]), 1)),
                str(line["unit"]),
                _usd(line["usd"]),
                str(line["note"]),
            )
    console.print(table)


def _usd(value: object) -> str:
    return f"{value:,.2f}" if is_number(value) else "–"


def break_even_sentence(point: Json) -> str:
    """At which load both cost the same, in a sentence; empty without nodes to compare with."""
    found = mapping(point, "break_even")
    if not found:
        return ""
    load = found.get("load")
    if load is None:
        return "Serverless is cheaper at any load."
    if load == 0:
        return "The nodes are cheaper at any load: data and what is kept ready cost more already."
    return (
        f"Serverless is cheaper up to {load:.3g} times this load, "
        f"{rate(found.get('requests_per_s'))} on average."
    )
