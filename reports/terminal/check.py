"""What `forecache check` found, in a terminal."""

import math

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from forecache.calibration.check.answers import CheckAnswer, ComparedQuantity, GapCause
from forecache.sim.statistics import Estimate

from ..text.formats import Unit, percent, plain, rate_unit, time_unit, with_bounds
from ..text.settings import engine_name, setting_name
from .columns import Column, print_most_columns
from .console import print_warnings

_NAMES = {
    "throughput_rps": "throughput",
    "mean_ms": "mean latency",
    "p50_ms": "p50",
    "p90_ms": "p90",
    "p99_ms": "p99",
    "p999_ms": "p99.9",
    "server_cpu_us": "server CPU",
}


def print_check(answer: CheckAnswer, console: Console) -> None:
    """Print the verdict, quantity by quantity, the causes, and what follows."""
    engine = engine_name(answer.engine)
    console.print(Text(f"{answer.host.title}, {engine}{_point(answer.given)}", style="dim"))
    console.print(Text(f"measured: {', '.join(answer.sources)}", style="dim"))
    style = "bold green" if answer.holds else "bold yellow"
    console.print(Text(_verdict(answer), style=style))
    console.print()
    _print_quantities(answer.quantities, console)
    if answer.causes:
        title = "What explains the gap" if answer.outside else "What was otherwise"
        _print_causes(title, answer.causes, console)
    elif not answer.holds and not answer.differs:
        console.print()
        console.print(Text("Nothing that was tried explains the gap.", style="bold"))
    _print_list("Ruled out", answer.ruled_out, console)
    _print_list("Measure next", answer.measure_next, console)
    _print_updated(answer, console)
    unmet = [f"{answer.verdict.lower()}: {each.sentence}" for each in answer.unmet]
    print_warnings([*unmet, *answer.warnings], console)


def _verdict(answer: CheckAnswer) -> str:
    if answer.holds:
        return "The prediction holds."
    outside = [_NAMES[row.quantity] for row in answer.outside]
    if not outside:
        return "The numbers are inside, but another setting was measured than was predicted."
    verb = "is" if len(outside) == 1 else "are"
    return f"The prediction does not hold: {', '.join(outside)} {verb} outside the interval."


def _unit(row: ComparedQuantity) -> Unit:
    return _unit_of(row.quantity, row.predicted.value)


def _unit_of(quantity: str, value: float) -> Unit:
    if quantity == "throughput_rps":
        return rate_unit(value)
    if quantity == "server_cpu_us":
        return Unit(1.0, 2, " µs")
    return time_unit(value)


def _amount(quantity: str, value: float) -> str:
    unit = _unit_of(quantity, value)
    return unit.number(value) + unit.symbol if math.isfinite(value) else "without a bound"


def _print_quantities(rows: list[ComparedQuantity], console: Console) -> None:
    ranges = [
        ""
        if row.repetitions == 1
        else f"{_unit(row).number(row.lowest)}–{_unit(row).number(row.highest)}"
        for row in rows
    ]
    columns = [
        Column("", [_NAMES[row.quantity] for row in rows], to_the_right=False),
        Column("predicted (95%)", [with_bounds(row.predicted, _unit(row)) for row in rows]),
        Column("measured", [_unit(row).number(row.measured) + _unit(row).symbol for row in rows]),
        *([Column("repetitions", ranges)] if any(ranges) else []),
        Column("gap", [percent(row.ratio - 1.0, signed=True) for row in rows]),
        Column("", ["inside" if row.inside else "outside" for row in rows], to_the_right=False),
    ]
    print_most_columns(columns, console, dispensable=("repetitions",))


def _print_causes(title: str, causes: list[GapCause], console: Console) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for cause in causes:
        with_it = ", ".join(
            f"{_NAMES[name]} {_amount(name, value)}" for name, value in cause.predicted.items()
        )
        table.add_row(
            Text(percent(cause.explains)),
            Text(cause.evidence, style="bold" if cause.evidence == "measured" else "dim"),
            Text.assemble(
                (f"{cause.station}: ", "bold"), cause.what, (f" With it: {with_it}.", "dim")
            ),
        )
    console.print(Padding(table, (0, 0, 0, 1)))


def _print_list(title: str, lines: list[str], console: Console) -> None:
    if not lines:
        return
    console.print()
    console.print(Text(title, style="bold"))
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold", ratio=1)
    for line in lines:
        table.add_row(Text("-", style="dim"), Text(line))
    console.print(Padding(table, (0, 0, 0, 1)))


def _print_updated(answer: CheckAnswer, console: Console) -> None:
    if not answer.updated:
        return
    console.print()
    console.print(Text(f"Updated prediction of {answer.updated_for}", style="bold"))
    names = [name for name in _NAMES if any(name in each.quantities for each in answer.updated)]
    fields = list(answer.updated[0].given)
    columns = [
        Column(setting_name(field), [plain(each.given[field]) for each in answer.updated])
        for field in fields
    ]
    for name in names:
        cells = [_estimate(name, each.quantities.get(name)) for each in answer.updated]
        columns.append(Column(_NAMES[name], cells))
    later = [_NAMES[name] for name in reversed(names[1:])]
    print_most_columns(columns, console, dispensable=later if fields else ())


def _estimate(name: str, found: Estimate | None) -> str:
    return "–" if found is None else with_bounds(found, _unit_of(name, found.value))


def _point(given: dict[str, object]) -> str:
    if not given:
        return ""
    fields = (f"{setting_name(name)} {plain(value)}" for name, value in given.items())
    return f", {', '.join(fields)}"
