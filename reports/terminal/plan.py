"""A capacity plan on a terminal."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from forecache.models.cost.bill import BillLine
from forecache.models.plan.results import (
    CapacityLimit,
    FromBill,
    FromInfo,
    PlanAnswer,
    RankedPlan,
    TodayAnswer,
)

from ..text.bills import (
    bill_rows,
    cache_rows,
    compared_rows,
    export_phrase,
    line_rows,
    not_priced_sentences,
    unplaced_rows,
)
from ..text.plans import (
    chosen_row,
    compression_facts,
    compression_heading,
    cost_phrase,
    data_tiering_phrase,
    demand_phrase,
    failure_phrase,
    front_rows,
    headline,
    marks_phrase,
    milestone_phrase,
    plan_facts,
    plan_title,
    ranked_legend,
    ranked_rows,
    rejected_heading,
    search_phrase,
    serverless_phrase,
    terms_phrase,
)
from ..text.today import (
    TIME_COLUMNS,
    ceiling_facts,
    ceiling_phrase,
    changes_phrase,
    known_rows,
    latency_heading,
    latency_rows,
    nodes_left,
    nodes_rows,
    not_modelled_fact,
    not_modelled_phrase,
    not_used_heading,
    time_legend,
    time_rows,
    trouble_rows,
    troubles_heading,
    unknown_heading,
    verdict_phrase,
)
from .columns import Column, print_most_columns
from .console import plain_table, print_warnings

_DISPENSABLE = ("first limit", "mem free", "CPU free", "repl")

_MOST_FRONT = 8
_MOST_OF_NONE = 12


def print_plan(answer: PlanAnswer, console: Console) -> None:
    """Print the best plan, the ranking, growth, failures, rejected ones, cost against headroom."""
    if answer.from_info is not None:
        print_told(answer, console)
        console.print()
    console.print(Text(f"{plan_title(answer)}: {demand_phrase(answer)}", style="dim"))
    best = answer.recommended
    style = "bold green" if best is not None else "bold yellow"
    console.print(Text(headline(answer), style=style))
    if best is not None:
        console.print(Text(cost_phrase(answer), style="bold"))
        console.print()
        _print_pairs(plan_facts(answer), console)
        console.print()
        _print_ranked(answer, console)
        _print_bill(best, console)
        if answer.compression is not None:
            console.print()
            console.print(Text(compression_heading(answer.compression), style="bold"))
            _print_pairs(compression_facts(answer.compression), console)
        _print_growth(best, console)
        _print_failures(best, console)
    _print_rejected(answer, console)
    _print_front(answer, console)
    _print_serverless(answer, console)
    for refused in answer.not_offered:
        console.print(Text(f"Not offered: {refused.what}: {refused.why}.", style="dim"))
    console.print(Text(search_phrase(answer.search), style="dim"))
    print_warnings(answer.warnings, console)


def print_told(answer: PlanAnswer | TodayAnswer, console: Console) -> None:
    """Print what files of today tell: nodes, and a bill."""
    if answer.from_bill is not None:
        print_from_bill(answer.from_bill, console)
    found = answer.from_info
    if found is not None and (found.nodes or found.known):
        if answer.from_bill is not None:
            console.print()
        slo = answer.scenario["objectives"]["slo"] if isinstance(answer, PlanAnswer) else None
        print_today(found, answer.ceiling, console, slo=slo)


def print_today(
    found: FromInfo,
    ceiling: CapacityLimit | None,
    console: Console,
    *,
    slo: Mapping[str, float] | None = None,
) -> None:
    """Print what today's nodes tell, what they don't, and how far they go.

    Parameters
    ----------
    slo
        What is asked for; that of the ceiling without it.
    """
    if ceiling is not None and (first := verdict_phrase(ceiling)):
        console.print(Text(first, style="bold"))
        print_sentences([changes_phrase(ceiling)], console)
        console.print()
    _print_troubles(found, console)
    if ceiling is not None and ceiling.time:
        _print_time(ceiling, console)
    console.print(Text("Today, as its nodes tell", style="bold"))
    if found.nodes:
        _print_nodes(found, console)
    if found.latencies:
        asked = slo or (ceiling.objective if ceiling is not None else {})
        console.print(Text(latency_heading(asked), style="bold"))
        names, rows = latency_rows(found)
        columns = [
            Column(name, [row[i] for row in rows], to_the_right=0 < i < len(names) - 1)
            for i, name in enumerate(names)
        ]
        print_most_columns(columns, console, dispensable=("slowest node", "calls"))
        console.print()
    print_known(known_rows(found.known), console)
    console.print()
    console.print(Text(unknown_heading(), style="bold"))
    print_sentences(found.unknown, console)
    if found.not_used:
        console.print()
        console.print(Text(not_used_heading(), style="bold"))
        print_sentences(found.not_used, console)
    if found.needed and ceiling is None:
        console.print()
        console.print(Text(not_modelled_phrase(found), style="bold yellow"))
        print_sentences(list(found.needed.values()), console)
        if found.not_modelled and "demand.operations" in found.needed:
            print_sentences(
                [f"Not modelled, of the execution time: {not_modelled_fact(found)}"], console
            )
    if ceiling is not None:
        console.print()
        console.print(Text(ceiling_phrase(ceiling), style="bold"))
        print_sentences(ceiling_facts(ceiling), console)
        print_warnings(ceiling.warnings, console)


def _print_troubles(found: FromInfo, console: Console) -> None:
    """Print what the files show to be wrong."""
    if rows := trouble_rows(found):
        console.print(Text(troubles_heading(), style="bold yellow"))
        print_sentences([f"{what}. {then}" for what, then in rows], console)
        console.print()


def _print_time(ceiling: CapacityLimit, console: Console) -> None:
    """Print where the main thread's time goes."""
    rows = time_rows(ceiling)
    columns = [
        Column(name, [row[i] for row in rows], wraps=i == 0, to_the_right=i > 0)
        for i, name in enumerate(TIME_COLUMNS)
    ]
    print_most_columns(columns, console, dispensable=("grows",))
    console.print(Text(time_legend(ceiling), style="dim"))
    console.print()


def _print_nodes(found: FromInfo, console: Console) -> None:
    names = ("node", "role", "mean", "busiest", "memory", "keys")
    rows = nodes_rows(found)
    columns = [
        Column(name, [row[i] for row in rows], wraps=i == 0, to_the_right=i > 1)
        for i, name in enumerate(names)
    ]
    print_most_columns(columns, console, dispensable=("role", "keys"))
    if nodes_left(found):
        console.print(Text(f"and {nodes_left(found)} more", style="dim"))
    console.print()


def _print_pairs(pairs: list[tuple[str, str]], console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold", ratio=1)
    for label, text in pairs:
        table.add_row(Text(label), Text(text))
    console.print(table)


def _print_ranked(answer: PlanAnswer, console: Console) -> None:
    described, rows = ranked_rows(answer)
    columns = [
        Column(each.name, list(cells), wraps=each.wraps, to_the_right=each.numeric)
        for each, cells in zip(described, zip(*rows, strict=True), strict=True)
    ]
    shown = print_most_columns(
        columns, console, dispensable=_DISPENSABLE, marked=chosen_row(answer)
    )
    names = {column.name for column in shown}
    legend = ranked_legend(each for each in described if each.name in names)
    console.print(Text(legend, style="dim"))
    if ties := marks_phrase(answer):
        console.print(Text(ties, style="dim"))
    if answer.with_traffic:
        console.print(Text(f"{answer.with_traffic}."))


def _print_bill(plan: RankedPlan, console: Console) -> None:
    if not plan.bill:
        return
    console.print()
    console.print(Text("The bill of a month, at today’s mean load", style="bold"))
    print_bill(plan.bill, console)
    print_sentences([*not_priced_sentences(plan.not_priced), terms_phrase(plan)], console)


def _print_growth(plan: RankedPlan, console: Console) -> None:
    if not plan.milestones:
        return
    console.print()
    console.print(Text("When growth uses up", style="bold"))
    for each in plan.milestones:
        console.print(Text(f"  {milestone_phrase(each)}"))


def _print_failures(plan: RankedPlan, console: Console) -> None:
    console.print()
    console.print(Text("When something fails, at the peak", style="bold"))
    print_sentences([failure_phrase(loss) for loss in plan.failures], console)


def _print_rejected(answer: PlanAnswer, console: Console) -> None:
    if not answer.rejected:
        return
    console.print()
    console.print(Text(rejected_heading(answer), style="bold"))
    shown = answer.rejected if answer.plans else answer.rejected[:_MOST_OF_NONE]
    print_sentences([f"{each.what}: {each.why}" for each in shown], console)
    left = len(answer.rejected) - len(shown)
    if left:
        console.print(Text(f"  and {left} more", style="dim"))


def _print_front(answer: PlanAnswer, console: Console) -> None:
    rows = front_rows(answer)
    if len(rows) < 2:
        return
    console.print()
    console.print(
        Text("Cost of nodes against headroom, the smaller of load and memory", style="bold")
    )
    table = plain_table()
    table.add_column("a month", justify="right", no_wrap=True)
    table.add_column("free", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in rows[:_MOST_FRONT]:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _print_serverless(answer: PlanAnswer, console: Console) -> None:
    console.print()
    for offer in answer.serverless:
        console.print(Text(serverless_phrase(offer, answer)))
    if answer.data_tiering is not None:
        console.print(Text(data_tiering_phrase(answer.data_tiering, answer)))


# --- bills ---------------------------------------------------------------------------------------


_MOST_UNPLACED = 15


def print_bill(lines: Sequence[BillLine], console: Console) -> None:
    """Print lines of a bill, each with its rate and source."""
    table = plain_table()
    table.add_column("")
    table.add_column("quantity", no_wrap=True)
    table.add_column("USD", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in bill_rows(lines):
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def print_from_bill(found: FromBill, console: Console) -> None:
    """Print today's caches and their lines, against the first plan, and what has no place."""
    console.print(Text("Today’s bill", style="bold"))
    console.print(Text(export_phrase(found)))
    _print_table(("cache", "nodes", "USD a month"), cache_rows(found), console)
    if found.cache:
        console.print()
        console.print(Text(f"{found.cache}, a month of 730 hours", style="bold"))
        _print_table(("", "in the export", "USD a month"), line_rows(found), console)
    if found.compared:
        console.print()
        console.print(Text("Against plan 1, USD a month", style="bold"))
        _print_table(("", "today", "plan"), compared_rows(found), console)
    if found.unplaced:
        console.print()
        console.print(Text("Lines that belong to no cache", style="bold"))
        rows = unplaced_rows(found, most=_MOST_UNPLACED)
        _print_table(("", "why", "USD"), rows, console)
    if found.known:
        console.print()
        print_known(known_rows(found.known), console)
    if found.unknown:
        console.print()
        console.print(Text(unknown_heading(), style="bold"))
        print_sentences(found.unknown, console)


def print_known(rows: Sequence[tuple[str, str, str]], console: Console) -> None:
    """Print fields that were filled in, and how each is known."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for field, value, how in rows:
        text = Text(value)
        text.append(f"  {how}", style="dim")
        table.add_row(Text(field.removeprefix("demand.")), text)
    console.print(table)


def print_sentences(sentences: Sequence[str], console: Console) -> None:
    """Print sentences, indented; empty ones are left out."""
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold", ratio=1)
    for sentence in sentences:
        if sentence:
            table.add_row(Text(" "), Text(sentence))
    console.print(table)


def _print_table(
    names: tuple[str, str, str], rows: Sequence[tuple[str, str, str]], console: Console
) -> None:
    table = plain_table()
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place == 2 else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
