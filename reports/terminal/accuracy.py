"""Calibration and validation in a terminal."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from forecache.calibration.fit.report import CalibrationReport, FittedNumber, WhatDataTell
from forecache.calibration.validate.comparison import (
    ComparedPoint,
    MetricErrors,
    Validation,
)
from forecache.sim.statistics import Estimate

from ..text.accuracy import (
    accuracy_rows,
    calibration_warnings,
    determined_text,
    role_name,
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
from ..text.settings import engine_name, setting_name, setting_text, varying_keys
from ..text.wording import depth_phrase
from .columns import Column, print_columns, widths
from .console import plain_table, print_warnings

_WIDE = 120
"""Columns from which on a table has room for notes."""

_LABELS = "P pipeline, v value bytes, k keys, c clients"

_LEGEND = (
    "u: standard error of what was measured, of the model’s inputs and of the simulation; |E|/u: "
    "how many of it the error is; above 2 the model is likely wrong"
)


def print_calibration(calibration: CalibrationReport, console: Console) -> None:
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
    _print_untold(calibration.identifiability, console)
    console.print()
    _print_parameters(calibration.parameters, console)


def print_accuracy(calibration: CalibrationReport, console: Console) -> None:
    """Print the errors of fitted and held-out points."""
    engine = calibration.engine
    phrase = depth_phrase(engine.depth)
    console.print(Text(f"Engine {engine_name(engine)}{f', {phrase}' if phrase else ''}"))
    table = plain_table()
    table.add_column("quantity", overflow="fold")
    table.add_column("points")
    for column in ("median error", "worst", "n"):
        table.add_column(column, justify="right", no_wrap=True)
    for cells in accuracy_rows(calibration):
        table.add_row(*(Text(cell) for cell in cells))
    console.print(table)


def _print_untold(told: WhatDataTell, console: Console) -> None:
    if not told.words:
        return
    console.print()
    console.print(Text("What the data can't tell", style="bold"))
    console.print(Text(determined_text(told.directions)))
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold", ratio=1)
    for sentence in told.words:
        table.add_row(Text("-"), Text(sentence))
    console.print(table)


def _print_parameters(parameters: list[FittedNumber], console: Console) -> None:
    console.print(Text("What was fitted, and what was not", style="bold"))
    wide = console.width >= _WIDE
    table = plain_table()
    table.add_column("parameter", no_wrap=True)
    table.add_column("value (95%), origin", overflow="fold")
    if wide:
        table.add_column("note", overflow="fold")
    for row in parameters:
        text = plain(row.value) + ("" if row.unit in ("", "1") else f" {row.unit}")
        if row.low is not None and row.high is not None:
            text += f" ({plain(row.low)}–{plain(row.high)})"
        notes = [Text(row.note, style="dim")] if wide else []
        table.add_row(Text(row.name), Text(f"{text}, {row.kind}"), *notes)
    console.print(table)
    if not wide:
        console.print(Text("How each was found: with --json, or in the profile.", style="dim"))


def print_validation(validation: Validation, console: Console) -> None:
    """Print predictions against a dataset: every point, the errors by metric, the knee."""
    points, host, origins = validation.points, validation.host, validation.provenance
    console.print(Text(validation.dataset.title, style="bold"))
    stands = "" if host.named else " stands in for a host that is unnamed or has no profile"
    console.print(Text(f"{host.id}{stands}, {validation.engine.id}", style="dim"))
    for factor in validation.fitted:
        bounds = f" ({factor.low:.2f}–{factor.high:.2f})"
        console.print(Text(f"fitted: {factor.name} ×{factor.factor:.2f}{bounds}"))
    if origins.calibration_points:
        fitted, beside = origins.calibration_points, origins.same_machine_points
        words = f"fitted to the throughput of {len(fitted)} of {len(points)} points"
        if beside:
            words += f", and of other datasets of the same machine: {', '.join(beside)}"
        console.print(Text(words, style="dim"))
    learned = _learned_points(validation)
    if learned:
        words = f"nothing fitted here: the host has learned from {learned} of {len(points)} points"
        console.print(Text(f"{words}, and from other datasets", style="dim"))
    bands = {point.band for point in points}
    if len(bands) == 1 and any(bands):
        console.print(Text(f"all points: {bands.pop()}", style="dim"))
    for metric in dict.fromkeys(metric for point in points for metric in point.predicted):
        _print_validated_metric(points, metric, console)
    if any(point.uncertainty for point in points):
        console.print(Text(_LEGEND, style="dim"))
    _print_summary(validation.summary, console)
    if validation.knee:
        console.print()
    for label, knee in validation.knee.items():
        found = f"io-threads {knee.observed} observed, {knee.predicted} predicted"
        console.print(Text(f"Knee ({label}): {found}"))
    print_warnings(list(dict.fromkeys(validation.warnings)), console)


def _learned_points(validation: Validation) -> int:
    """How many points of a dataset the host of the catalogue was fitted to."""
    profile = validation.provenance.profiles[f"host {validation.host.id}"]
    return len(profile.points.get(validation.dataset.id, ()))


def _print_summary(summary: Mapping[str, MetricErrors], console: Console) -> None:
    if not summary:
        return
    console.print()
    console.print(Text("Errors at held-out points", style="bold"))
    table = plain_table()
    table.add_column("metric", no_wrap=True)
    for column in ("median error", "worst", "in interval", "n"):
        table.add_column(column, justify="right", no_wrap=True)
    for metric, errors in summary.items():
        shares = (errors.median_ape, errors.max_ape, errors.coverage)
        table.add_row(Text(_metric_name(metric)), *map(percent, shares), str(errors.n))
    console.print(table)


def _metric_name(metric: str) -> str:
    names = {"throughput_rps": "throughput", "mean_ms": "mean latency"}
    return names.get(metric, metric.removesuffix("_ms"))


def _print_validated_metric(points: Sequence[ComparedPoint], metric: str, console: Console) -> None:
    given = [point.given for point in points]
    keys = varying_keys(given)
    console.print()
    console.print(Text(_metric_name(metric), style="bold"))
    show = rate if metric.endswith("_rps") else milliseconds
    roles = [role_name(point.role) for point in points]
    settings = [
        Column(setting_name(key), [plain(row.get(key)) for row in given], wraps=True)
        for key in keys
    ]
    errors = [percent(point.relative_error.get(metric), signed=True) for point in points]
    others = [
        Column("role", roles, to_the_right=False),
        Column("observed", [show(point.observed.get(metric)) for point in points]),
        Column(
            "predicted (95%)",
            [_predicted(point.predicted.get(metric), metric) for point in points],
        ),
        Column("error", errors),
    ]
    if any(point.uncertainty for point in points):
        ratios = [(point.error_over_uncertainty or {}).get(metric) for point in points]
        others += [
            Column("u", [percent((point.uncertainty or {}).get(metric)) for point in points]),
            Column("|E|/u", [UNKNOWN if r is None else f"{r:.1f}" for r in ratios]),
        ]
    bands = [point.band for point in points]
    if len(set(bands)) > 1:
        others.append(Column("band", bands, wraps=True, to_the_right=False))
    if not widths([*settings, *others], console.width, gap=2):
        # Settings take several lines rather than that a name is cut.
        named = [setting_text({key: row.get(key) for key in keys}) for row in given]
        settings = [Column("", named, wraps=True, to_the_right=False)]
    print_columns([*settings, *others], console, lead=len(settings))


def _predicted(estimate: Estimate | None, metric: str) -> str:
    """A predicted number with its interval."""
    if estimate is None:
        return UNKNOWN
    return (rate_with_bounds if metric.endswith("_rps") else time_with_bounds)(estimate)
