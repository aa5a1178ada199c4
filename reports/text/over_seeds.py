"""Reading what several seeds say: means with intervals, differences between points of a sweep."""

from collections.abc import Sequence
from dataclasses import dataclass

from forecache.models.advice.paired import LEAST_DIFFERENCE
from forecache.models.results.series import Fact, RunPoint, RunsOverTime
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from .estimates import estimate_text
from .formats import is_number
from .runs import Comparison


@dataclass(frozen=True)
class Outcome:
    """One fact at all points of a sweep."""

    name: str
    """With its unit, where values are written without one."""
    rows: list[tuple[str, str, str]]
    """For each point what is given at it, the mean, the difference to the first point."""


def seeds_sentence(result: RunsOverTime) -> str:
    """How many seeds there were; empty if only one."""
    first = result.provenance.seed
    if result.seeds < 2:
        return ""
    return (
        f"Means over seeds {first} to {first + result.seeds - 1} with 95% intervals; "
        f"what happens over time is that of seed {first}"
    )


def outcomes(points: Sequence[RunPoint], compared: Comparison) -> tuple[list[str], list[Outcome]]:
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
    by_name = [{fact.name: fact for fact in point.run.facts} for point in points]
    found = []
    names = zip(compared.columns, compared.heads, strict=True)
    for name, head in list(names)[compared.leading :]:
        facts = [facts.get(name, Fact(name, None)) for facts in by_name]
        unit = next((fact.unit for fact in facts if fact.unit), "")
        shown = unit if head == name else ""
        cells = [
            (label, _mean(fact, shown), _difference(fact, shown))
            for label, fact in zip(labels, facts, strict=True)
        ]
        found.append(Outcome(head, cells))
    return columns, found


def _mean(fact: Fact, unit: str) -> str:
    return estimate_text(fact.value, fact.low, fact.high, unit)


def _difference(fact: Fact, unit: str) -> str:
    """`+1.2 ms (+0.3 to +2.7)`, or `no clear difference (−0.3 to +2.7)`."""
    against = fact.against_first
    if against is None:
        return ""
    text = estimate_text(against.value, against.low, against.high, unit, signed=True)
    first = fact.value - against.value if is_number(fact.value) else 0.0
    holds_zero = against.low <= 0.0 <= against.high
    if not holds_zero and abs(against.value) >= LEAST_DIFFERENCE * abs(first):
        return text
    _, bracket, interval = text.partition("(")
    return f"{NO_CLEAR_DIFFERENCE} {bracket}{interval}".rstrip()
