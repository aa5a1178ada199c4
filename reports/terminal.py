"""Results in a terminal: readable at 80 columns, with or without colour.

Every function prints to the rich console it is given and treats strings as text, never as rich
markup. Commands and configuration are printed unwrapped, so that they can be copied.
"""

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from .columns import Column, print_most_columns
from .console import print_warning, print_warnings
from .formats import (
    UNKNOWN,
    interval,
    margin,
    milliseconds,
    percent,
    plain,
    probability,
    rate_with_bounds,
)
from .shapes import (
    Json,
    all_warnings,
    chosen_point,
    io_utilisation,
    mapping,
    mean_percent,
    number,
    rows,
    setting_name,
    short_limit,
    standing,
    swept_key,
    swept_points,
    texts,
    threads_alike,
)
from .terminal_accuracy import print_accuracy, print_calibration, print_validation
from .terminal_points import print_legend, print_points
from .wording import (
    action,
    headline_facts,
    key_facts,
    knee_phrase,
    loss_phrase,
    ordered_candidates,
    tightening_phrases,
)

__all__ = [
    "print_answer",
    "print_calibration",
    "print_measurements",
    "print_points",
    "print_recommendation",
    "print_study",
    "print_subtitle",
    "print_validation",
]

_BAR_CELLS = 8
_LEGEND_MEETS = "meets: how probable it is that the objective is met"


def print_study(study: Json, console: Console) -> None:
    """Print what a study found: for each target the recommendation, then the accuracy."""
    title = str(study.get("title") or "Capacity study")
    console.print(Text(title, style="bold"), Text(str(study.get("created") or ""), style="dim"))
    for warning in texts(study, "warnings"):
        print_warning(warning, console)
    targets = rows(study, "targets")
    if not targets:
        console.print("This study holds no target, so there is nothing to recommend.")
    for target in targets:
        console.print()
        console.print(Rule(Text(str(target.get("name") or "target")), align="left", style="dim"))
        print_answer(target, console)
    calibration = mapping(study, "calibration")
    if calibration:
        console.print()
        console.print(Rule("Calibration", align="left", style="dim"))
        print_accuracy(calibration, console)


def print_answer(target: Json, console: Console) -> None:
    """Print what `forecache recommend` found for one host: subject, recommendation, warnings."""
    print_subtitle(target, console)
    print_recommendation(mapping(target, "recommendation"), console, points=rows(target, "points"))
    print_warnings(all_warnings(target), console)


def print_subtitle(target: Json, console: Console) -> None:
    """Print which host and engine a result is about; how many where its points sweep them."""
    host, engine = mapping(target, "host"), mapping(target, "engine")
    hosts = _different(target, "host")
    engines = _different(target, "engine", "engine_version")
    parts = [
        f"{hosts} hosts" if hosts > 1 else str(host.get("title") or host.get("id") or ""),
        f"{engines} engines"
        if engines > 1
        else " ".join(str(engine[key]) for key in ("id", "version") if engine.get(key)),
    ]
    text = ", ".join(part for part in parts if part)
    if text:
        console.print(Text(text, style="dim"))


def _different(target: Json, *keys: str) -> int:
    """Count the different values of swept fields."""
    given = [mapping(point, "given") for point in rows(target, "points")]
    return len({tuple(str(each.get(key)) for key in keys) for each in given})


def print_recommendation(
    recommendation: Json, console: Console, *, points: list[Json] | None = None
) -> None:
    """Print a recommendation: the setting, its facts, the alternatives, how to check it.

    Parameters
    ----------
    recommendation
        What `forecache recommend` found.
    console
        Where to print.
    points
        The predicted points it rests on; with them latency, utilisation and the curve are shown.
    """
    target = {"points": points or [], "recommendation": recommendation}
    point = chosen_point(target)
    met = standing(recommendation) == "recommended"
    console.print(Text(action(recommendation), style="bold green" if met else "bold yellow"))
    facts = headline_facts(recommendation, point)
    if facts:
        console.print(Text("; ".join(facts), style="bold"))
    knee = knee_phrase(recommendation)
    if knee:
        console.print(Text(knee))
    _print_facts(key_facts(recommendation, point), console)
    if points:
        console.print()
        _print_curve(target, console)
    _print_candidates(target, console)
    _print_checks(recommendation, console)


def _print_facts(facts: list[tuple[str, str]], console: Console) -> None:
    if not facts:
        return
    console.print()
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in facts:
        table.add_row(Text(label), Text(text))
    console.print(table)


def _bar(value: float | None, highest: float) -> str:
    """Return a bar of at most eight cells, in steps of half a cell."""
    if value is None or highest <= 0:
        return ""
    halves = round(2 * _BAR_CELLS * max(0.0, min(1.0, value / highest)))
    return "━" * (halves // 2) + ("╸" if halves % 2 else "")


def _print_curve(target: Json, console: Console) -> None:
    """Print the throughput curve as a table with bars, the recommended row marked.

    What does not fit is left out, the bars first.
    """
    found = swept_points(target)
    chosen = chosen_point(target)
    points = [point for _, point in found]
    marked = next((i for i, point in enumerate(points) if chosen and point is chosen), None)
    estimates = [interval(point, "throughput_rps") for point in points]
    highest = max((e.value for e in estimates if e), default=0.0)
    p99 = [interval(point, "p99_ms") for point in points]
    alike = threads_alike(points)
    sure = [number(point, "objective_probability") for point in points]
    told = any(each is not None for each in sure)
    settings = [f"{'▶ ' if i == marked else ''}{x:g}" for i, (x, _) in enumerate(found)]
    main = [percent(number(point, "main_thread_utilisation")) for point in points]
    helpers = [mean_percent(io_utilisation(point)) for point in points]
    load = [percent(number(point, "load_generator_utilisation")) for point in points]
    bars = [_bar(e.value if e else None, highest) for e in estimates]
    columns = [
        Column(setting_name(swept_key(target)), settings),
        Column("requests/s (95%)", list(map(rate_with_bounds, estimates)), to_the_right=False),
        Column("", bars, to_the_right=False, style="blue"),
        Column("p99", [milliseconds(e.value) if e else UNKNOWN for e in p99]),
        *([] if alike else [Column("main", main)]),
        Column("work" if alike else "I/O", helpers),
        Column("load", load),
        *([Column("meets", list(map(probability, sure)))] if told else []),
        Column("limit", list(map(short_limit, points)), wraps=True, to_the_right=False),
    ]
    shown = print_most_columns(
        columns, console, dispensable=("", "load", "I/O", "work", "main"), marked=marked
    )
    print_legend(shown, console)
    if any(column.name == "meets" for column in shown):
        console.print(Text(_LEGEND_MEETS, style="dim"))


def _print_candidates(target: Json, console: Console) -> None:
    """Print each alternative with its loss of throughput and why it was not chosen."""
    key = swept_key(target)
    alternatives = [row for _, row, chosen in ordered_candidates(target) if not chosen]
    if not alternatives:
        return
    console.print()
    console.print(Text("Why not another setting", style="bold"))
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", max_width=24)
    table.add_column(overflow="fold", ratio=1)
    for row in alternatives:
        table.add_row(
            Text(plain(row.get(key))),
            Text(loss_phrase(row)),
            Text(str(row.get("why_not") or ""), style="dim"),
        )
    console.print(Padding(table, (0, 0, 0, 1)))


def _print_checks(recommendation: Json, console: Console) -> None:
    file = str(recommendation.get("conf_file") or "valkey.conf")
    check = "Check it with"
    for label, key in ((file, "conf"), (check, "benchmark_command")):
        text = str(recommendation.get(key) or "").strip()
        if text:
            console.print()
            console.print(Text(label, style="bold"))
            for line in text.splitlines():
                console.print(Text("  " + line, style="cyan"), soft_wrap=True)
    why_none = str(recommendation.get("no_benchmark_command") or "")
    if why_none:
        console.print()
        console.print(Text(check, style="bold"))
        console.print(Padding(Text(why_none), (0, 0, 0, 2)))
    advice = "; ".join(tightening_phrases(mapping(recommendation, "measure_next")))
    if advice:
        console.print()
        console.print(Text.assemble(("To tighten this estimate: ", "bold"), advice))


def print_measurements(result: Json, console: Console) -> None:
    """Print what `forecache explain` would measure next, and what each measurement would bring."""
    measure_next = mapping(result, "measure_next")
    if not measure_next:
        return
    known, own = number(measure_next, "margin"), number(measure_next, "model_margin")
    about = f"{measure_next.get('quantity')} is known to {margin(known)}"
    if own:
        about += f"; the model’s own error of {margin(own)} would remain"
    console.print()
    console.print(Text("To tighten this estimate", style="bold"))
    console.print(Text(about))
    for row in rows(measure_next, "measurements"):
        console.print()
        console.print(Text(f"{row.get('what')}: {margin(number(row, 'margin'))}"))
        for command in texts(row, "commands"):
            console.print(Text("  " + command, style="cyan"), soft_wrap=True)
