"""Accuracy and parameters of a calibration as rows of text, for the page and the terminal."""

from collections.abc import Iterable
from statistics import median

from .formats import UNKNOWN, byte_size, nanoseconds, percent, plain, rate
from .shapes import Json, mapping, number, rows, texts

WORST_POINTS = 8

_ROLES = {
    "fit": "fitted",
    "calibration": "fitted",
    "holdout": "held out",
    "validation": "held out",
}
_UNITS = {"us": "µs", "gbit_per_s": "Gbit/s", "gb_per_s": "GB/s"}
_QUANTITIES = {"throughput_rps": "throughput"}


def observed_and_predicted(point: Json) -> tuple[float, float] | None:
    """Return the observed and predicted value of a calibration point, None when incomplete."""
    found: list[float] = []
    for stem in ("observed", "predicted"):
        value = next(
            (v for suffix in ("_ns", "_rps", "_ms", "") if (v := number(point, stem + suffix))),
            None,
        )
        if value is None or value <= 0:
            return None
        found.append(value)
    return found[0], found[1]


def is_rate(quantity: str) -> bool:
    """Tell whether a calibration quantity is a rate in requests a second, not a time in ns."""
    return "rps" in quantity.lower() or "throughput" in quantity.lower()


def role_name(role: object) -> str:
    """Return how a reader calls a role: `fitted`, `held out`."""
    return _ROLES.get(str(role), str(role))


def quantity_name(quantity: object) -> str:
    """Return how a reader calls a quantity."""
    name = str(quantity or "value").replace(" ns/request", " time per request")
    return _QUANTITIES.get(name, name)


def quantities(points: Iterable[Json]) -> dict[str, list[Json]]:
    """Group calibration points by the quantity they compare, in order of appearance."""
    groups: dict[str, list[Json]] = {}
    for point in points:
        groups.setdefault(str(point.get("quantity") or ""), []).append(point)
    return groups


def relative_error(point: Json) -> float | None:
    """Return predicted ÷ observed − 1, from the point itself or from its two values."""
    given = number(point, "relative_error")
    if given is not None:
        return given
    pair = observed_and_predicted(point)
    return pair[1] / pair[0] - 1 if pair else None


def accuracy_rows(calibration: Json) -> list[tuple[str, str, str, str, str]]:
    """Return (quantity, points, median error, worst error, how many) as text.

    With several quantities each has its own rows, worked out from the points; otherwise the rows
    are the calibration's own summary.
    """
    points = rows(calibration, "points")
    groups = quantities(points)
    if len(groups) < 2:
        name = quantity_name(next(iter(groups), ""))
        return [
            (
                name,
                role_name(role),
                percent(number(entry, "median_ape")),
                percent(number(entry, "max_ape")),
                plain(entry.get("n")),
            )
            for role, entry in mapping(calibration, "summary").items()
            if hasattr(entry, "get")
        ]
    found = []
    for quantity, group in groups.items():
        for role in dict.fromkeys(str(p.get("role") or "fit") for p in group):
            errors = [
                abs(e)
                for p in group
                if str(p.get("role") or "fit") == role and (e := relative_error(p)) is not None
            ]
            if errors:
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


def given_text(given: Json) -> str:
    """Spell out what a calibration point varied, `get, pipeline 4, 512 B values`."""
    parts = []
    for key, value in given.items():
        if value is None:
            continue
        if key == "value_bytes":
            parts.append(f"{byte_size(number(given, key))} values")
        elif key in ("command", "transport", "arrival"):
            parts.append(str(value).replace("_", " "))
        else:
            parts.append(f"{str(key).replace('_', ' ')} {plain(value)}")
    return ", ".join(parts) or UNKNOWN


def worst_points(calibration: Json) -> list[tuple[str, str, str, str, str, str]]:
    """Return the points with the largest errors.

    Returns
    -------
    list of (point, quantity, role, observed, predicted, error)
        At most `WORST_POINTS`, the worst first.
    """
    known = [
        (error, point)
        for point in rows(calibration, "points")
        if (error := relative_error(point)) is not None
    ]
    known.sort(key=lambda item: -abs(item[0]))
    table = []
    for error, point in known[:WORST_POINTS]:
        quantity = str(point.get("quantity") or "")
        pair = observed_and_predicted(point)
        show = rate if is_rate(quantity) else nanoseconds
        table.append(
            (
                given_text(mapping(point, "given")),
                quantity_name(quantity),
                role_name(point.get("role")),
                show(pair[0]) if pair else UNKNOWN,
                show(pair[1]) if pair else UNKNOWN,
                percent(error, signed=True),
            )
        )
    return table


def determined_text(calibration: Json) -> str:
    """Return how much of the engine's work the data determine, empty when unknown."""
    directions = mapping(mapping(calibration, "identifiability"), "directions")
    determined, total = number(directions, "determined"), number(directions, "total")
    if determined is None or total is None:
        return ""
    return (
        f"The data determine {determined:g} of {total:g} independent combinations of the engine's "
        "numbers; the others rest on what is known about engines in general."
    )


def untold(calibration: Json) -> list[str]:
    """Return a sentence for each thing that the data can't tell."""
    return texts(mapping(calibration, "identifiability"), "words")


def calibration_warnings(calibration: Json) -> list[str]:
    """Return what a calibration warns of, and in what the data disagree with what was known."""
    return [*texts(calibration, "warnings"), *disagreements(calibration)]


def disagreements(calibration: Json) -> list[str]:
    """Return a sentence for each thing in which the data disagree with what was known."""
    return texts(mapping(calibration, "known"), "words")


def parameter_rows(parameters: Iterable[Json]) -> list[dict[str, str]]:
    """Return the cells of a parameter table: name, value, unit, range, kind, note."""
    table = []
    for row in parameters:
        unit = str(row.get("unit") or "")
        is_size = unit.lower() in ("bytes", "b", "byte")
        show = (lambda value: byte_size(value)) if is_size else plain
        low, high = number(row, "low"), number(row, "high")
        table.append(
            {
                "name": str(row.get("name") or UNKNOWN),
                "value": show(row.get("value")),
                "unit": "" if is_size or unit in ("1", "none") else _UNITS.get(unit, unit),
                "range": f"{show(low)} – {show(high)}"
                if low is not None and high is not None
                else "",
                "kind": str(row.get("kind") or ""),
                "note": str(row.get("note") or ""),
            }
        )
    return table
