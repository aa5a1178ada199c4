"""Calibration and validation in a terminal."""

import math
from collections.abc import Callable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from forecache.sim.statistics import Estimate

from ..text.accuracy import (
    accuracy_rows,
    calibration_warnings,
    determined_text,
    role_name,
    untold,
    worst_points,
)
from ..text.formats import (
    UNKNOWN,
    milliseconds,
    percent,
    plain,
    rate,
    rate_with_bounds,
    time_with_bounds,
)
from ..text.settings import setting_name, setting_text, varying_keys
from ..text.shapes import Json, mapping, number, rows, texts
from ..text.wording import depth_phrase
from .columns import Column, print_columns, widths
from .console import add_setting_column, plain_table, print_warnings

_WIDE = 120
"""Columns from which on a table has room for notes."""

_LABELS = "P pipeline, v value bytes, k keys, c clients"


def print_calibration(calibration: Json, console: Console) -> None:
    """Print how well a fit describes the observations and the parameters it found."""
    print_accuracy(calibration, console)
    worst = worst_points(calibration)[:5]
    if worst:
        console.print()
        console.print(Text("Largest errors", style="bold"))
        table = Table.grid(padding=(0, 2))
        table.add_column(overflow="fold")
        for _ in range(3):
            table.add_column(justify="right", no_wrap=True)
        for given, _, role, observed, predicted, error in worst:
            table.add_row(
                Text(f"{given.removeprefix('point ')} ({role})"), observed, f"→ {predicted}", error
            )
        console.print(Padding(table, (0, 0, 0, 1)))
        console.print(Text(_LABELS, style="dim"))
    print_warnings(calibration_warnings(calibration), console)
    _print_untold(calibration, console)
    parameters = rows(calibration, "parameters")
    if parameters:
        console.print()
        _print_parameters(parameters, console)


def print_accuracy(calibration: Json, console: Console) -> None:
    """Print the errors of fitted and held-out points."""
    engine = mapping(calibration, "engine")
    name = " ".join(str(engine[key]) for key in ("id", "version") if engine.get(key))
    if name:
        phrase = depth_phrase(engine.get("depth"))
        depth = f", {phrase}" if phrase else ""
        console.print(Text(f"Engine {name}{depth}"))
    found = accuracy_rows(calibration)
    if not found:
        console.print("The calibration lists no accuracy.")
        return
    table = plain_table()
    table.add_column("quantity", overflow="fold")
    table.add_column("points")
    for column in ("median error", "worst", "n"):
        table.add_column(column, justify="right", no_wrap=True)
    for cells in found:
        table.add_row(*(Text(cell) for cell in cells))
    console.print(table)


def _print_untold(calibration: Json, console: Console) -> None:
    sentences = untold(calibration)
    if not sentences:
        return
    console.print()
    console.print(Text("What the data can't tell", style="bold"))
    about = determined_text(calibration)
    if about:
        console.print(Text(about))
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold", ratio=1)
    for sentence in sentences:
        table.add_row(Text("-"), Text(sentence))
    console.print(table)


def _print_parameters(parameters: list[Json], console: Console) -> None:
    console.print(Text("What was fitted, and what was not", style="bold"))
    wide = console.width >= _WIDE
    table = plain_table()
    table.add_column("parameter", no_wrap=True)
    table.add_column("value (95%), origin", overflow="fold")
    if wide:
        table.add_column("note", overflow="fold")
    for row in parameters:
        low, high = number(row, "low"), number(row, "high")
        unit = str(row.get("unit") or "")
        text = plain(row.get("value")) + ("" if unit in ("", "1") else f" {unit}")
        if low is not None and high is not None:
            text += f" ({plain(low)}–{plain(high)})"
        cells = [str(row.get("name") or UNKNOWN), f"{text}, {row.get('kind') or 'unknown'}"]
        notes = [Text(str(row.get("note") or ""), style="dim")] if wide else []
        table.add_row(*(Text(cell) for cell in cells), *notes)
    console.print(table)
    if not wide:
        console.print(Text("How each was found: with --json, or in the profile.", style="dim"))


def print_validation(validation: Json, console: Console) -> None:
    """Print predictions against a dataset: every point, the errors by metric, the knee."""
    dataset, host = mapping(validation, "dataset"), mapping(validation, "host")
    engine = mapping(validation, "engine")
    console.print(Text(str(dataset.get("title") or dataset.get("id") or "dataset"), style="bold"))
    stands = " stands in for a host that is unnamed or has no profile"
    named = "" if host.get("named", True) else stands
    about = [f"{host['id']}{named}"] if host.get("id") else []
    about += [str(engine["id"])] if engine.get("id") else []
    if about:
        console.print(Text(", ".join(about), style="dim"))
    _print_factors(rows(validation, "fitted"), console)
    points = rows(validation, "points")
    fitted = mapping(validation, "provenance").get("calibration_points") or []
    if fitted:
        beside = mapping(mapping(validation, "provenance"), "same_machine_points")
        words = f"fitted to the throughput of {len(fitted)} of {len(points)} points"
        if beside:
            words += f", and of other datasets of the same machine: {', '.join(beside)}"
        console.print(Text(words, style="dim"))
    for metric in _metrics(points):
        _print_validated_metric(points, metric, console)
    summary = mapping(validation, "summary")
    if summary:
        console.print()
        console.print(Text("Errors at held-out points", style="bold"))
        table = plain_table()
        table.add_column("metric", no_wrap=True)
        for column in ("median error", "worst", "in interval", "n"):
            table.add_column(column, justify="right", no_wrap=True)
        for metric, entry in summary.items():
            table.add_row(
                Text(_metric_name(str(metric))),
                percent(number(entry, "median_ape")),
                percent(number(entry, "max_ape")),
                percent(number(entry, "coverage")),
                plain(entry.get("n") if hasattr(entry, "get") else None),
            )
        console.print(table)
    _print_counters(rows(validation, "counters"), console)
    knees = mapping(validation, "knee")
    if knees:
        console.print()
    for label in knees:
        knee = mapping(knees, label)
        found, expected = plain(knee.get("observed")), plain(knee.get("predicted"))
        console.print(Text(f"Knee ({label}): io-threads {found} observed, {expected} predicted"))
    print_warnings(texts(validation, "warnings"), console)


def _print_counters(checks: list[Json], console: Console) -> None:
    """What a profiler counted over whole runs, beside what the model says of them."""
    if not checks:
        return
    given = [mapping(check, "given") for check in checks]
    console.print()
    console.print(Text("Counters of whole runs, per request, not fitted", style="bold"))
    table = plain_table()
    for key in varying_keys(given):
        add_setting_column(table, key)
    for column in ("CPUs", "model", "cycles", "model", "instructions", "own code, model"):
        table.add_column(column, justify="right", overflow="fold")
    for check in checks:
        cpus, cycles = mapping(check, "cpus_used"), mapping(check, "cycles")
        instructions = mapping(check, "instructions")
        table.add_row(
            *(Text(plain(mapping(check, "given").get(key))) for key in varying_keys(given)),
            *(f"{number(cpus, side) or 0.0:.2f}" for side in ("measured", "predicted")),
            *(f"{number(cycles, side) or 0.0:,.0f}" for side in ("measured", "predicted")),
            f"{number(instructions, 'measured') or 0.0:,.0f}",
            f"{number(instructions, 'predicted_user') or 0.0:,.0f}",
        )
    console.print(table)
    console.print(
        Text("own code: without the kernel’s instructions and without spinning", style="dim")
    )


def _print_factors(fitted: list[Json], console: Console) -> None:
    for factor in fitted:
        value, low, high = (number(factor, key) for key in ("factor", "low", "high"))
        bounds = f" ({low:.2f}–{high:.2f})" if low is not None and high is not None else ""
        size = f"{value:.2f}" if value is not None else UNKNOWN
        console.print(Text(f"fitted: {factor.get('name') or 'factor'} ×{size}{bounds}"))


def _metrics(points: list[Json]) -> list[str]:
    return list(dict.fromkeys(str(m) for point in points for m in mapping(point, "predicted")))


def _metric_name(metric: str) -> str:
    names = {"throughput_rps": "throughput", "mean_ms": "mean latency"}
    if metric.endswith("_bytes"):
        return metric.removesuffix("_bytes").replace("_", " ") + ", bytes"
    return names.get(metric, metric.removesuffix("_ms"))


def _print_validated_metric(points: list[Json], metric: str, console: Console) -> None:
    keys = varying_keys([mapping(point, "given") for point in points])
    console.print()
    console.print(Text(_metric_name(metric), style="bold"))
    shown = {"ms": milliseconds, "rps": rate, "bytes": _bytes}
    show = shown.get(metric.rsplit("_", 1)[-1], plain)
    # Of memory nothing is ever fitted, and there are only states in between.
    fittable = not metric.endswith("_bytes")
    given = [mapping(point, "given") for point in points]
    settings = [
        Column(setting_name(key), [plain(row.get(key)) for row in given], wraps=True)
        for key in keys
    ]
    others = [
        Column("observed", [show(_observed(point, metric)) for point in points]),
        Column(
            "predicted (95%)" if fittable else "predicted",
            [_predicted(point, metric, show) for point in points],
        ),
        Column(
            "error",
            [percent(number(mapping(p, "relative_error"), metric), signed=True) for p in points],
        ),
    ]
    if fittable:
        roles = [role_name(point.get("role") or "") for point in points]
        others.insert(0, Column("role", roles, to_the_right=False))
    bands = [str(point.get("band") or "") for point in points]
    if any(bands):
        others.append(Column("band", bands, wraps=True, to_the_right=False))
    if not widths([*settings, *others], console.width, gap=2):
        # Settings take several lines rather than that a name is cut.
        named = [setting_text({key: row.get(key) for key in keys}) for row in given]
        settings = [Column("", named, wraps=True, to_the_right=False)]
    print_columns([*settings, *others], console, lead=len(settings))


def _observed(point: Json, metric: str) -> float | None:
    observed = mapping(point, "observed")
    return number(mapping(observed, metric), "value") or number(observed, metric)


def _predicted(point: Json, metric: str, show: Callable[[float | None], str]) -> str:
    """A predicted number, with its interval where it has one."""
    predicted = mapping(point, "predicted")
    estimate = mapping(predicted, metric)
    value, low, high = (number(estimate, end) for end in ("value", "low", "high"))
    if value is not None and low is not None and metric.endswith(("_rps", "_ms")):
        written = rate_with_bounds if metric.endswith("_rps") else time_with_bounds
        return written(Estimate(value, low, math.inf if high is None else high))
    return show(number(predicted, metric) if value is None else value)


def _bytes(size_bytes: float | None) -> str:
    return UNKNOWN if size_bytes is None else f"{size_bytes:,.0f}"
