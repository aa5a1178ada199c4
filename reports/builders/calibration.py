"""How well a fit describes what was observed, and predictions what others published."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from forecache.calibration.fit.report import CalibrationReport, Directions, FitPoint, FittedNumber
from forecache.calibration.validate.comparison import ComparedPoint, MetricErrors, Validation
from forecache.sim.statistics import Estimate

from ..document import (
    PAGE,
    WIDE_PX,
    Column,
    Document,
    Figure,
    Items,
    Part,
    Section,
    Text,
    TextTable,
    words,
)
from ..text.formats import (
    UNKNOWN,
    byte_size,
    is_rate,
    milliseconds,
    nanoseconds,
    percent,
    plain,
    rate,
    rate_with_bounds,
    time_with_bounds,
)
from ..text.points import depth_phrase
from ..text.settings import engine_name, setting_name, setting_text, varying_keys
from ..tidy import flat_table
from . import drawing

WORST_POINTS = 8
COMMON_NOTES = 3
"""As many notes that begin alike are told once, above the table."""

_ROLES = {"fit": "fitted", "calibration": "fitted", "holdout": "held out", "validation": "held out"}
_QUANTITIES = {"throughput_rps": "throughput"}

LABELS = "P pipeline, v value bytes, k keys, c clients"


def calibration(report: CalibrationReport) -> Document:
    """Errors, the largest of them, what the data can't tell, and what was fitted."""
    untold = report.identifiability
    return Document(
        about="",
        headline=_fit_phrase(report),
        warnings=[*report.warnings, *disagreements(report)],
        sections=[
            Section("", accuracy_parts(report)),
            Section("Largest errors", worst_parts(report, most=5)),
            Section(
                "What the data can't tell",
                untold_parts(untold.directions, untold.words) if untold.words else [],
            ),
            Section("What was fitted, and what was not", [_fitted(report.parameters)]),
            Section("", accuracy_figures(report), on=PAGE),
        ],
        tables={
            "points": lambda: flat_table(report.points),
            "parameters": lambda: flat_table(report.parameters),
        },
    )


def _fit_phrase(report: CalibrationReport) -> str:
    """How well the first quantity is predicted, at points held out where there are any."""
    rows = accuracy_rows(report)
    if not rows:
        return f"The work of {report.engine.id}, of which no point can be compared"
    held_out = [row for row in rows if row[1] == role_name("holdout")]
    quantity, role, middle, worst, number = (held_out or rows)[0]
    return f"{quantity}, {role}: median error {middle}, worst {worst}, {number} points"


def accuracy_parts(report: CalibrationReport) -> list[Part]:
    """Errors of fitted and held-out points."""
    depth = depth_phrase(report.engine.depth)
    about = f"Engine {engine_name(report.engine)}{f', {depth}' if depth else ''}"
    rows = accuracy_rows(report)
    quantity = words("quantity", [f"{name}, {role}" for name, role, *_ in rows], wraps=True)
    errors = [
        Column(name, [row[place] for row in rows])
        for place, name in enumerate(("median error", "worst", "n"), start=2)
    ]
    return [Text(about), TextTable([quantity, *errors])]


def worst_parts(report: CalibrationReport, *, most: int) -> list[Part]:
    """The points with the largest errors."""
    rows = worst_points(report)[:most]
    if not rows:
        return []
    given, _, roles, observed, predicted, errors = zip(*rows, strict=True)
    points = [f"{x.removeprefix('point ')} ({role})" for x, role in zip(given, roles, strict=True)]
    return [
        TextTable(
            [
                words("point", points, wraps=True),
                Column("observed", observed),
                Column("predicted", predicted),
                Column("error", errors),
            ]
        ),
        Text(LABELS, "muted"),
    ]


def untold_parts(directions: Directions, sentences: Sequence[str]) -> list[Part]:
    """How much of an engine's work the data determine, and what not."""
    return [Text(determined_text(directions)), Items(sentences)]


def accuracy_figures(report: CalibrationReport) -> list[Figure]:
    """Predicted against observed, a figure for each quantity."""
    return [
        Figure(
            quantity,
            drawing("accuracy", group, quantity=quantity),
            title=f"Predicted against observed: {quantity_name(quantity)}",
            caption="Shaded: within ±20%; inner lines: ±10%. Held-out points were not fitted.",
            label=f"Predicted against observed {quantity_name(quantity)}, fitted and held-out "
            "points.",
            width_px=WIDE_PX,
            on=PAGE,
        )
        for quantity, group in quantities(report.points).items()
    ]


def _fitted(parameters: Sequence[FittedNumber]) -> TextTable:
    values = []
    for row in parameters:
        text = plain(row.value) + ("" if row.unit in ("", "1") else f" {row.unit}")
        if row.low is not None and row.high is not None:
            text += f" ({plain(row.low)}–{plain(row.high)})"
        values.append(f"{text}, {row.kind}")
    return TextTable(
        [
            words("parameter", [row.name for row in parameters]),
            words("value (95%), origin", values, wraps=True),
            words("note", [row.note for row in parameters], wraps=True, style="muted", drop=1),
        ],
        legend=_fitted_legend,
    )


def _fitted_legend(names: Sequence[str]) -> str:
    return "" if "note" in names else "How each was found: with --json, or in the profile."


# --- words ---------------------------------------------------------------------------------------


def role_name(role: str) -> str:
    """Return how a reader calls a role: `fitted`, `held out`."""
    return _ROLES.get(role, role)


def quantity_name(quantity: str) -> str:
    """Return how a reader calls a quantity."""
    name = quantity.replace(" ns/request", " time per request")
    return _QUANTITIES.get(name, name)


def quantities(points: Iterable[FitPoint]) -> dict[str, list[FitPoint]]:
    """Group calibration points by the quantity they compare, in order of appearance."""
    groups: dict[str, list[FitPoint]] = {}
    for point in points:
        groups.setdefault(point.quantity, []).append(point)
    return groups


def accuracy_rows(calibration: CalibrationReport) -> list[tuple[str, str, str, str, str]]:
    """Return (quantity, points, median error, worst error, how many) as text."""
    found = []
    for quantity, group in quantities(calibration.points).items():
        for role in dict.fromkeys(point.role for point in group):
            errors = [abs(point.relative_error) for point in group if point.role == role]
            found.append(
                (
                    quantity_name(quantity),
                    role_name(role),
                    percent(median(errors)),
                    percent(max(errors)),
                    str(len(errors)),
                )
            )
    return found


def given_text(given: Mapping[str, Any]) -> str:
    """Spell out what a calibration point varied, `get, pipeline 4, 512 B values`."""
    parts = []
    for key, value in given.items():
        if value is None:
            continue
        if key == "value_bytes":
            parts.append(f"{byte_size(value)} values")
        elif key == "point":
            parts.append(str(value))
        elif key in ("command", "transport", "arrival"):
            parts.append(str(value).replace("_", " "))
        else:
            parts.append(f"{key.replace('_', ' ')} {plain(value)}")
    return ", ".join(parts) or UNKNOWN


def worst_points(calibration: CalibrationReport) -> list[tuple[str, str, str, str, str, str]]:
    """Return the points with the largest errors.

    Returns
    -------
    list of (point, quantity, role, observed, predicted, error)
        At most `WORST_POINTS`, the worst first.
    """
    worst = sorted(calibration.points, key=lambda point: -abs(point.relative_error))
    table = []
    for point in worst[:WORST_POINTS]:
        show = rate if is_rate(point.quantity) else nanoseconds
        table.append(
            (
                given_text(point.given),
                quantity_name(point.quantity),
                role_name(point.role),
                show(point.observed),
                show(point.predicted),
                percent(point.relative_error, signed=True),
            )
        )
    return table


def determined_text(directions: Directions) -> str:
    """Return how much of the engine's work the data determine."""
    return (
        f"The data determine {directions.determined} of {directions.total} independent "
        "combinations of the engine's numbers; the others rest on what is known about engines in "
        "general."
    )


def disagreements(calibration: CalibrationReport) -> list[str]:
    """Return a sentence for each thing in which the data disagree with what was known."""
    return calibration.known.words if calibration.known else []


def without_common_note(rows: list[dict[str, str]]) -> tuple[list[dict[str, str]], str]:
    """Take what many numbers of a fit have in their notes out of these, and say it once.

    Returns
    -------
    rows, sentence
        The sentence is empty where fewer than `COMMON_NOTES` notes begin alike.
    """
    begins = Counter(
        row["note"].split("; ")[0] for row in rows if row["kind"] in ("fitted", "prior")
    )
    common, times = max(begins.items(), key=lambda item: item[1], default=("", 0))
    if not common or times < COMMON_NOTES:
        return rows, ""
    shorter = [{**row, "note": row["note"].removeprefix(common).removeprefix("; ")} for row in rows]
    return shorter, f"Fitted and prior numbers whose note names no other data were {common}."


# --- predictions against a dataset ----------------------------------------------------------------


_LEGEND = (
    "u: standard error of what was measured, of the model’s inputs and of the simulation; |E|/u: "
    "how many of it the error is; above 2 the model is likely wrong"
)


def validation(answer: Validation) -> Document:
    """Every point, the errors by metric, the knee."""
    points, host, origins = answer.points, answer.host, answer.provenance
    stands = "" if host.named else " stands in for a host that is unnamed or has no profile"
    parts: list[Part] = [
        Text(f"{host.id}{stands}, {answer.engine.id}", "muted"),
        *(
            Text(f"fitted: {each.name} ×{each.factor:.2f} ({each.low:.2f}–{each.high:.2f})")
            for each in answer.fitted
        ),
    ]
    if origins.calibration_points:
        fitted, beside = origins.calibration_points, origins.same_machine_points
        words = f"fitted to the throughput of {len(fitted)} of {len(points)} points"
        if beside:
            words += f", and of other datasets of the same machine: {', '.join(beside)}"
        parts.append(Text(words, "muted"))
    # How many points of the dataset the host of the catalogue was fitted to.
    learned = len(origins.profiles[f"host {host.id}"].points.get(answer.dataset.id, ()))
    if learned:
        words = f"nothing fitted here: the host has learned from {learned} of {len(points)} points"
        parts.append(Text(f"{words}, and from other datasets", "muted"))
    bands = {point.band for point in points}
    if len(bands) == 1 and any(bands):
        parts.append(Text(f"all points: {bands.pop()}", "muted"))
    metrics = list(dict.fromkeys(metric for point in points for metric in point.predicted))
    knees = [
        f"Knee ({label}): io-threads {knee.observed} observed, {knee.predicted} predicted"
        for label, knee in answer.knee.items()
    ]
    return Document(
        about=answer.dataset.title,
        headline=_errors_phrase(answer),
        warnings=list(dict.fromkeys(answer.warnings)),
        sections=[
            Section("", parts),
            *(Section(_metric_name(metric), _metric(points, metric)) for metric in metrics),
            *(
                [Section("", [Text(_LEGEND, "muted")])]
                if any(point.uncertainty for point in points)
                else []
            ),
            Section("Errors at held-out points", _summary(answer.summary)),
            *([Section("Knees", [Text(text) for text in knees])] if knees else []),
        ],
        tables={"points": lambda: flat_table(points)},
    )


def _errors_phrase(answer: Validation) -> str:
    """`throughput: median error 7.9%, worst 19%, 20 held-out points`."""
    phrases = [
        f"{_metric_name(name)}: median error {percent(each.median_ape)}, worst "
        f"{percent(each.max_ape)}, {each.n} held-out points"
        for name, each in answer.summary.items()
    ]
    return phrases[0] if phrases else f"{len(answer.points)} points, none of them held out"


def _summary(summary: Mapping[str, MetricErrors]) -> list[Part]:
    if not summary:
        return []
    errors = list(summary.values())
    return [
        TextTable(
            [
                words("metric", list(map(_metric_name, summary))),
                Column("median error", [percent(each.median_ape) for each in errors]),
                Column("worst", [percent(each.max_ape) for each in errors]),
                Column("in interval", [percent(each.coverage) for each in errors]),
                Column("n", [str(each.n) for each in errors]),
            ]
        )
    ]


def _metric_name(metric: str) -> str:
    names = {"throughput_rps": "throughput", "mean_ms": "mean latency"}
    return names.get(metric, metric.removesuffix("_ms"))


def _metric(points: Sequence[ComparedPoint], metric: str) -> list[Part]:
    given = [point.given for point in points]
    keys = varying_keys(given)
    show = rate if metric.endswith("_rps") else milliseconds
    settings = [
        Column(setting_name(key), [plain(row.get(key)) for row in given], wraps=True)
        for key in keys
    ]
    predicted = [_predicted(point.predicted.get(metric), metric) for point in points]
    errors = [percent(point.relative_error.get(metric), signed=True) for point in points]
    others = [
        words("role", [role_name(point.role) for point in points]),
        Column("observed", [show(point.observed.get(metric)) for point in points]),
        Column("predicted (95%)", predicted),
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
        others.append(words("band", bands, wraps=True))
    # What tells points apart takes several lines where a name would be cut.
    named = [setting_text({key: row.get(key) for key in keys}) for row in given]
    together = [words("", named, wraps=True)]
    return [TextTable([*settings, *others], lead=len(settings), narrower=[*together, *others])]


def _predicted(estimate: Estimate | None, metric: str) -> str:
    """A predicted number with its interval."""
    if estimate is None:
        return UNKNOWN
    return (rate_with_bounds if metric.endswith("_rps") else time_with_bounds)(estimate)
