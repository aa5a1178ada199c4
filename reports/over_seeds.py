"""Reading what several seeds say: means with intervals, differences between points of a sweep."""

from collections.abc import Sequence
from dataclasses import dataclass

from .estimates import estimate_text
from .runs import Comparison
from .shapes import Json, mapping, number, rows


@dataclass(frozen=True)
class Outcome:
    """One fact at all points of a sweep."""

    name: str
    """With its unit, where values are written without one."""
    rows: list[tuple[str, str, str]]
    """For each point what is given at it, the mean, the difference to the first point."""


def seeds_sentence(result: Json) -> str:
    """How many seeds there were; empty if only one."""
    seeds = number(result, "seeds") or 1
    first = number(mapping(result, "provenance"), "seed")
    if seeds < 2 or first is None:
        return ""
    return (
        f"Means over seeds {first:.0f} to {first + seeds - 1:.0f} with 95% intervals; "
        f"what happens over time is that of seed {first:.0f}"
    )


def outcomes(points: Sequence[Json], compared: Comparison) -> tuple[list[str], list[Outcome]]:
    """What differs between points that were run with the same seeds, fact by fact.

    Returns
    -------
    tuple
        Names of the three columns, and the facts.
    """
    labels = [", ".join(cells[: compared.leading]) for cells in compared.rows]
    columns = [
        ", ".join(compared.columns[: compared.leading]),
        "mean (95%)",
        f"difference to {labels[0]} (95%)",
    ]
    by_name = [{str(f.get("name")): f for f in rows(point, "facts")} for point in points]
    found = []
    names = zip(compared.columns, compared.heads, strict=True)
    for name, head in list(names)[compared.leading :]:
        facts = [facts.get(name, {}) for facts in by_name]
        unit = next((str(f["unit"]) for f in facts if f.get("unit")), "")
        shown = unit if head == name else ""
        cells = [
            (label, _mean(fact, shown), _difference(fact, shown))
            for label, fact in zip(labels, facts, strict=True)
        ]
        found.append(Outcome(head, cells))
    return columns, found


def _mean(fact: Json, unit: str) -> str:
    return estimate_text(fact.get("value"), fact.get("low"), fact.get("high"), unit)


def _difference(fact: Json, unit: str) -> str:
    against = mapping(fact, "against_first")
    if not against:
        return ""
    low, high = against.get("low"), against.get("high")
    return estimate_text(against.get("value"), low, high, unit, signed=True)
