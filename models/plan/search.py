"""Best first: what may be cheapest is looked at more closely, until the cheapest plans are certain.

Every offer has a bound of its shards, and so of its cost. The offer whose bound is lowest is taken
one step further (`race.py`): sized, raced, settled, each of which may only raise the bound. Once a
settled one comes first, nothing that is left can be cheaper, and it is the next best plan. Offers
whose bill may be the lowest with what is paid besides nodes are settled too, so that the answer can
say whether that would change the order. Several
offers are taken at a time, always as many, so that the answer does not depend on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from ..prediction.predict import Progress
from .offers import Offer
from .race import SETTLED, Entry, bounded, enumerated, raced, settled, sized
from .ranking import ranked
from .schema import PlanScenario

AT_A_TIME = 4
"""Offers that are taken a step further at a time."""

RANKED = 5
"""Plans that are told."""

STEPS: tuple[Callable[[PlanScenario, Entry, int], Entry], ...] = (sized, raced, settled)


@dataclass(frozen=True)
class FoundPlans:
    """What a search found.

    Attributes
    ----------
    plans
        Settled offers, the best first (`ranking.py`).
    others
        All other offers, with what is known of them.
    """

    plans: list[Entry]
    others: list[Entry]

    @property
    def entries(self) -> list[Entry]:
        """All of them."""
        return [*self.plans, *self.others]


def search(
    plan: PlanScenario,
    offers: Sequence[Offer],
    *,
    seed: int,
    executor: Executor,
    full: bool = False,
    progress: Progress | None = None,
) -> FoundPlans:
    """The cheapest plans among some offers.

    Parameters
    ----------
    full
        Settle every offer by enumeration, without bounds of load and without races.
    """
    bounds = list(executor.map(bounded, [plan] * len(offers), offers))
    if full:
        _say(progress, f"enumerating {len(offers)} offers")
        count = len(bounds)
        done = list(executor.map(enumerated, [plan] * count, bounds, [seed] * count))
        return _ranked([each for each in done if not each.impossible], done)
    plans: list[Entry] = []
    waiting = sorted((each for each in bounds if not each.impossible), key=_rank)
    out = [each for each in bounds if each.impossible]
    while waiting:
        certain = len(plans) >= RANKED and _dearer(waiting, plans)
        if not certain and waiting[0].stage == SETTLED:
            plans.append(waiting.pop(0))
            continue
        taken = _cheaper_with_traffic(plans, waiting) if certain else _to_take(plans, waiting)
        if not taken:
            break
        _say(progress, f"{_words(taken[0])}, {len(plans)} of {RANKED} plans are certain")
        calls = [executor.submit(STEPS[each.stage], plan, each, seed) for each in taken]
        further = [call.result() for call in calls]
        left = [each for each in waiting if all(each is not other for other in taken)]
        out += [each for each in further if each.impossible]
        waiting = sorted([*left, *(e for e in further if not e.impossible)], key=_rank)
    return _ranked(plans, [*plans, *waiting, *out])


def _to_take(plans: Sequence[Entry], waiting: Sequence[Entry]) -> list[Entry]:
    """The offers to take a step further: those that may still be among the cheapest."""
    taken = [each for each in waiting if each.stage < SETTLED][:AT_A_TIME]
    settled = sorted(e.usd_per_month for e in [*plans, *waiting] if e.stage == SETTLED)
    if len(settled) < RANKED:
        return taken
    return [e for e in taken if e.usd_per_month <= settled[RANKED - 1]] or taken[:1]


def _cheaper_with_traffic(plans: Sequence[Entry], waiting: Sequence[Entry]) -> list[Entry]:
    """The offers to take further since their whole bill may be the lowest, dearer nodes or not."""
    bills = [(e.bill_usd, e) for e in [*plans, *waiting]]
    settled = [usd for usd, e in bills if usd is not None and e.stage == SETTLED]
    least = min(settled, default=math.inf)
    left = [(usd, n, e) for n, (usd, e) in enumerate(bills) if usd is not None and usd < least]
    return [e for _, _, e in sorted(left) if e.stage < SETTLED][:AT_A_TIME]


def _dearer(waiting: Sequence[Entry], plans: Sequence[Entry]) -> bool:
    """Whether all that is left costs more than the plans that are told: equal ones are ranked."""
    return not waiting or waiting[0].usd_per_month > plans[RANKED - 1].usd_per_month


def _ranked(plans: Sequence[Entry], everything: Sequence[Entry]) -> FoundPlans:
    best = ranked(plans)[:RANKED]
    others = [each for each in everything if all(each is not plan for plan in best)]
    return FoundPlans(best, sorted(others, key=_rank))


def _rank(entry: Entry) -> tuple[bool, float, int]:
    """The cheapest first, of equal ones those that are further."""
    return entry.impossible, entry.usd_per_month, -entry.stage


def _words(entry: Entry) -> str:
    what = ("sizing", "racing", "settling")[entry.stage]
    return f"{what} {entry.offer.words}"


def _say(progress: Progress | None, sentence: str) -> None:
    if progress is not None:
        progress(sentence)
