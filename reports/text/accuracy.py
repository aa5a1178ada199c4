"""Accuracy and parameters of a calibration as rows of text, for the page and the terminal."""

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from forecache.calibration.fit.report import CalibrationReport, Directions, FitPoint, FittedNumber
from forecache.models.advice.node_answers import NumberOrigin

from .formats import UNKNOWN, byte_size, nanoseconds, percent, plain, rate

WORST_POINTS = 8
COMMON_NOTES = 3
"""As many notes that begin alike are told once, above the table."""

_ROLES = {
    "fit": "fitted",
    "calibration": "fitted",
    "holdout": "held out",
    "validation": "held out",
}
_UNITS = {"us": "µs", "1/us": "1/µs", "gbit_per_s": "Gbit/s", "gb_per_s": "GB/s"}
_QUANTITIES = {"throughput_rps": "throughput"}


def is_rate(quantity: str) -> bool:
    """Tell whether a calibration quantity is a rate in requests a second, not a time in ns."""
    return "rps" in quantity.lower() or "throughput" in quantity.lower()


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


def calibration_warnings(calibration: CalibrationReport) -> list[str]:
    """Return what a calibration warns of, and in what the data disagree with what was known."""
    return [*calibration.warnings, *disagreements(calibration)]


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


def parameter_rows(
    parameters: Iterable[FittedNumber | NumberOrigin],
) -> list[dict[str, str]]:
    """Return the cells of a parameter table: name, value, unit, range, kind, note."""
    table = []
    for row in parameters:
        is_size = row.unit.lower() in ("bytes", "b", "byte")
        show = (lambda value: byte_size(value)) if is_size else plain
        known = row.low is not None and row.high is not None
        unitless = is_size or row.unit in ("1", "none")
        table.append(
            {
                "name": row.name,
                "value": show(row.value),
                "unit": "" if unitless else _UNITS.get(row.unit, row.unit),
                "range": f"{show(row.low)} – {show(row.high)}" if known else "",
                "kind": row.kind,
                "note": getattr(row, "note", ""),
            }
        )
    return table
