"""What an export of today's bill tells: caches with their lines, and lines that have no place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from forecache.sim.plain import Result


@dataclass(frozen=True)
class KnownField(Result):
    """A field of a scenario that was filled in, and how it is known."""

    field: str
    value: Any
    how: str


@dataclass(frozen=True)
class BilledLine(Result):
    """Lines of an export of one kind, added up."""

    what: str
    """Such as `nodes on demand`."""
    node_type: str
    """Empty where there is none."""
    quantity: float
    unit: str
    usd: float
    """As the export has it, unblended."""
    usd_per_month: float
    """Of 730 hours, with what was paid upfront spread over its term where the export tells it."""


@dataclass(frozen=True)
class BilledCache(Result):
    """A cache, as lines of the export name it."""

    name: str
    region: str
    engine: str
    """`redis`, `valkey` or `memcached`; empty where it is not told."""
    node_type: str
    """That with most hours; empty of a serverless cache."""
    nodes: int
    """At the end of the export."""
    shards: int | None
    """None where the export does not tell, as the next."""
    replicas: int | None
    lines: list[BilledLine]
    usd: float
    usd_per_month: float


@dataclass(frozen=True)
class UnplacedLine(Result):
    """Lines of an export of one kind that belong to no cache, and why."""

    product: str
    usage_type: str
    item_type: str
    why: str
    rows: int
    usd: float


@dataclass(frozen=True)
class ComparedLine(Result):
    """A part of today's bill against that of the best plan, in USD a month."""

    what: str
    today_usd: float | None
    """None where the export can't tell it."""
    plan_usd: float | None
    """None where no price of it is known."""


@dataclass(frozen=True)
class FromBill(Result):
    """What an export of a bill tells."""

    files: list[str]
    begins: str
    ends: str
    hours: float
    rows: int
    total_usd: float
    """Of all lines, unblended: what could be placed and what could not."""
    placed_usd: float
    unplaced_usd: float
    cache: str
    """The cache that is compared with plans."""
    caches: list[BilledCache]
    """The dearest first."""
    unplaced: list[UnplacedLine]
    """The largest amounts first."""
    known: list[KnownField]
    unknown: list[str]
    compared: list[ComparedLine]
    """Empty without a plan."""
