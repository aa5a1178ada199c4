"""Today's bill against that of the first plan, part by part."""

from __future__ import annotations

from forecache.models.cost.beside import BACKUPS, CLIENTS, NODES, REPLICAS, SUPPORT
from forecache.models.plan.bill.today import BilledCache, ComparedLine
from forecache.models.plan.results import PlanAnswer

from .charges import DISCOUNTS, DURABILITY, NODE_CHARGES, SERVERLESS, TRAFFIC

_PARTS = (
    ("nodes", NODE_CHARGES, (NODES,)),
    (SUPPORT, (SUPPORT,), (SUPPORT,)),
    (DURABILITY, (DURABILITY,), ()),
    (BACKUPS, (BACKUPS,), (BACKUPS,)),
    ("traffic between zones", (TRAFFIC,), (CLIENTS, REPLICAS)),
    (SERVERLESS, (SERVERLESS,), ()),
    (DISCOUNTS, (DISCOUNTS,), ()),
)
"""What is compared: kinds of charges of an export, lines of a plan's bill."""


def compared(cache: BilledCache | None, answer: PlanAnswer) -> list[ComparedLine]:
    """The parts that one of them has; none without a cache or a plan.

    Traffic between zones stands elsewhere in an export, of all the account together.
    """
    if cache is None or not answer.plans:
        return []
    best, found = answer.plans[0], []
    missing = {each.what for each in best.not_priced}
    for what, charged, planned in _PARTS:
        today = [line.usd_per_month for line in cache.lines if line.what in charged]
        later = [line.usd for line in best.bill if line.what in planned]
        if not today and not later:
            continue
        unknown_today = TRAFFIC in charged and not today
        unknown_later = bool(missing & set(planned))  # the sum of some of its lines is none
        found.append(
            ComparedLine(
                what,
                None if unknown_today else sum(today),
                None if unknown_later else sum(later),
            )
        )
    return found
