"""Today's bill against that of the best plan, part by part."""

from __future__ import annotations

from forecache.models.cost.beside import BACKUPS, CLIENTS, NODES, REPLICAS, SUPPORT
from forecache.models.plan.billed import BilledCache, ComparedLine
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
    """The parts that one of them has; none without a cache or a plan."""
    if cache is None or not answer.plans:
        return []
    best, found = answer.plans[0].bill, []
    for what, charged, planned in _PARTS:
        today = [line.usd_per_month for line in cache.lines if line.what in charged]
        later = [line.usd for line in best if line.what in planned]
        if today or later:
            found.append(
                ComparedLine(what, sum(today) if today else None, sum(later) if later else None)
            )
    return found
