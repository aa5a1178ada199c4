"""What runs of one point with several seeds say together: means, intervals, differences.

All points of a sweep meet the same seeds. What is drawn is addressed by who draws it and what for,
so that with one seed two policies meet the same demand (common random numbers), and the difference
between two points is known better than either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from forecache.sim.plain import plain
from forecache.sim.statistics import Estimate, mean_interval, paired_difference

from ..results.series import Fact, Run


def facts_over_seeds(runs: Sequence[Run], first: Sequence[Run] | None) -> list[Fact]:
    """Facts of one point over its seeds.

    Parameters
    ----------
    runs
        That of each seed; at least two.
    first
        Those of the first point of the sweep with the same seeds; None at that point itself.

    Returns
    -------
    list of Fact
        With `samples`. An interval is that of the mean over seeds; intervals that the runs have of
        their own add to it, as independent of chance. A note is kept if it is the same with all
        seeds, or says that not all had a value. Where fewer than two seeds have a number there is
        no interval of a mean; means and differences are over the seeds that have one.
    """
    tables = [_by_name(run.facts) for run in runs]
    bases = None if first is None else [_by_name(run.facts) for run in first]
    names = dict.fromkeys(name for table in tables for name in table)
    found = []
    for name in names:
        fact = _fact_over_seeds([table.get(name) for table in tables])
        if fact is None:
            continue
        if bases is not None:
            base = [table[name].value if name in table else None for table in bases]
            pairs = zip(fact.samples, base, strict=True)
            both = np.array([p for p in pairs if _is_number(p[0]) and _is_number(p[1])], float)
            if len(both) > 1:
                difference = paired_difference(both[:, 0], both[:, 1])
                fact = replace(fact, against_first=difference)
        found.append(fact)
    return found


def _by_name(facts: Sequence[Fact]) -> dict[tuple[str, int], Fact]:
    """Facts by their name; of several of one name the second is another fact than the first."""
    found: dict[tuple[str, int], Fact] = {}
    for fact in facts:
        place = sum(1 for name, _ in found if name == fact.name)
        found[fact.name, place] = replace(fact, value=plain(fact.value))
    return found


def _fact_over_seeds(facts: Sequence[Fact | None]) -> Fact | None:
    """One fact over all seeds; None if it only tells that some of them have nothing to say."""
    there = [fact for fact in facts if fact is not None]
    samples = [None if fact is None else fact.value for fact in facts]
    known = [value for value in samples if value is not None]
    if not known and len(there) < len(facts):
        return None
    notes = {fact.note for fact in there}
    note = notes.pop() if len(notes) == 1 else ""
    if known and len(known) < len(samples):
        note = f"{len(known)} of {len(samples)} seeds have it"
    value = known[0] if known else None
    fact = Fact(there[0].name, value, there[0].unit, note, samples)
    numbers = [value for value in known if _is_number(value)]
    if len(numbers) < len(known):
        counts = {text: known.count(text) for text in dict.fromkeys(known)}
        if len(counts) > 1:
            told = ", ".join(f"{text} ({count})" for text, count in counts.items())
            fact = replace(fact, value=told)
    elif len(numbers) > 1:
        # All alike, without the rounding of a sum.
        alike = Estimate(numbers[0], numbers[0], numbers[0])
        mean = alike if len(set(numbers)) == 1 else mean_interval(numbers)
        if (own := _own_widths(there)) is not None:
            below, above = (math.hypot(mean.half_width, each) for each in own)
            mean = Estimate(mean.value, mean.value - below, mean.value + above)
        fact = replace(fact, value=mean.value, low=mean.low, high=mean.high)
    return fact


def _own_widths(facts: Sequence[Fact]) -> Sequence[float] | None:
    """How far the intervals of the runs themselves reach below and above, in the mean."""
    ends = [
        (fact.value - fact.low, fact.high - fact.value)
        for fact in facts
        if _is_number(fact.value) and fact.low is not None and fact.high is not None
    ]
    found: list[float] | None = np.mean(ends, axis=0).tolist() if ends else None
    return found


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def warnings_over_seeds(runs: Sequence[Run]) -> list[str]:
    """Warnings of all seeds; of those that differ in numbers only, one, with how many have it."""
    seen: dict[str, tuple[str, int]] = {}
    for run in runs:
        for kind, text in {re.sub(r"[\d.,]+", "#", text): text for text in run.warnings}.items():
            first, count = seen.get(kind, (text, 0))
            seen[kind] = (first, count + 1)
    return [
        text if count == len(runs) else f"with {count} of {len(runs)} seeds: {text}"
        for text, count in seen.values()
    ]
