"""Which plan comes first: the cheapest; of equal cost the better one, as far as that is known.

Numbers that differ by less than what is uncertain of them don't tell two plans apart. Of those that
nothing tells apart the simpler one comes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..advice.paired import capacity_ratio_half
from .race import Entry

LEAST_DIFFERENCE = 0.05
"""Of two probabilities to meet the objective that both are enough, so that it counts."""


def ranked(entries: Sequence[Entry]) -> list[Entry]:
    """Settled offers in the order in which they are told.

    The cheapest first. Of equal cost, as often as one is to be taken: of those whose probability to
    meet the objectives is the highest, or not known to be less, those that leave the most of what a
    node serves, or not known to be less; of these the simplest.
    """
    left, found = list(entries), list[Entry]()
    while left:
        least = min(map(_cents, left))
        best = _best([each for each in left if _cents(each) == least])
        found.append(best)
        left = [each for each in left if each is not best]
    return found


def tied(first: Entry, second: Entry) -> bool:
    """Whether two settled offers cost the same, and nothing that is known tells them apart."""
    return (
        _cents(first) == _cents(second)
        and not _is_likelier(first, second)
        and not _is_likelier(second, first)
        and not _has_more_headroom(first, second)
        and not _has_more_headroom(second, first)
    )


def _best(equal: Sequence[Entry]) -> Entry:
    """Of settled offers of the same cost."""
    likeliest = max(equal, key=lambda each: each.holding.probability)
    likely = [e for e in equal if not _is_likelier(likeliest, e)]
    roomiest = min(likely, key=lambda each: (each.holding.load, _simplicity(each)))
    return min((e for e in likely if not _has_more_headroom(roomiest, e)), key=_simplicity)


def _is_likelier(first: Entry, second: Entry) -> bool:
    """Whether the first meets the objectives with a higher probability, as far as draws tell."""
    one, other = first.holding.chance, second.holding.chance
    assert one is not None  # settled
    assert other is not None
    known_to = math.hypot(one.value - one.low, other.high - other.value)
    return one.value - other.value > max(LEAST_DIFFERENCE, known_to)


def _has_more_headroom(first: Entry, second: Entry) -> bool:
    """Whether the first leaves more of what a node serves, beyond what is uncertain of both."""
    one, other = first.holding, second.holding
    assert one.prediction is not None  # settled, with all draws
    assert other.prediction is not None
    less = math.log(other.load / one.load)
    return less > capacity_ratio_half(one.prediction, other.prediction)


def _cents(entry: Entry) -> int:
    return round(100 * entry.usd_per_month)


def _simplicity(entry: Entry) -> tuple[int, int, int, str, str]:
    """Few shards, replicas and threads first, then by name."""
    offer = entry.offer
    return entry.shards, offer.replicas, entry.threads[0], offer.name, offer.engine_words
