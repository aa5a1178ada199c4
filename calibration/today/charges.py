"""Where lines of a bill belong: to a cache and a kind of charge, or to nothing, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction

from forecache.models.cost.bill import BACKUPS, SUPPORT

from .export import ExportLine

SERVICE = "AmazonElastiCache"

ON_DEMAND = "nodes on demand"
RESERVED = "reserved nodes"
SAVINGS_PLAN = "nodes in a savings plan"
DURABILITY = "durable writes"
SERVERLESS = "serverless"
TRAFFIC = "traffic"
DISCOUNTS = "discounts"
NODE_CHARGES = (ON_DEMAND, RESERVED, SAVINGS_PLAN)
"""Each hour of a node is one of them."""

_REGION = re.compile(r"[A-Z]{2,4}[0-9]{0,2}-(.+)")
_NODE = re.compile(r"(?:(.+)-)?NodeUsage:(cache\.[a-z0-9.]+)")
_COMMITTED = re.compile(r"HeavyUsage:(cache\.[a-z0-9.]+)")
_SERVERLESS = re.compile(r"(?:ElastiCache:)?(?:CachedData|ElastiCacheProcessingUnits)(?::.*)?")
_BACKUP = re.compile(r"(?:ElastiCache:)?BackupUsage(?::.*)?")
_BYTES = re.compile(r"(?:DataTransfer|ElastiCache|.*-AWS)-[A-Za-z-]*Bytes(?:-.*)?")
_MEMBER = re.compile(r"(.+?)(?:-([0-9]{4}))?-([0-9]{3})")

_BY_ITEM = {
    "Usage": ON_DEMAND,
    "DiscountedUsage": RESERVED,
    "SavingsPlanCoveredUsage": SAVINGS_PLAN,
    "SavingsPlanNegation": SAVINGS_PLAN,
}
_NO_USAGE = {
    "Tax": "tax",
    "Credit": "a credit",
    "Refund": "a refund",
    "SavingsPlanUpfrontFee": "a commitment of the whole account",
    "SavingsPlanRecurringFee": "a commitment of the whole account",
}
_ENGINES = {"0001": "memcached", "0002": "redis", "valkey": "valkey", "redis": "redis"}
"""Ends of an operation such as CreateCacheCluster:0002."""

_HOUR_UNIT = "node-hours"


@dataclass(frozen=True)
class ChargePlace:
    """Where a line belongs: a kind of charge, and a type of node if it is of one."""

    what: str
    node_type: str = ""


@dataclass
class ChargeSum:
    """Lines of one kind, added up."""

    quantity: float = 0.0
    usd: Fraction = Fraction(0)
    effective_usd: Fraction = Fraction(0)
    rows: int = 0

    def add(self, line: ExportLine) -> None:
        """One more."""
        self.quantity += line.amount if line.item_type != "SavingsPlanNegation" else 0.0
        self.usd += line.usd
        self.effective_usd += line.effective_usd
        self.rows += 1


@dataclass
class CacheMember:
    """A node of a cache, with the time of its last hour that was billed."""

    shard: str
    ends: datetime


@dataclass
class Charged:
    """What was charged for one cache.

    Attributes
    ----------
    name, region, account
        As the export has them; lines without a resource belong to the cache of no name.
    charges
        By kind and type of node.
    members
        Its nodes by name.
    engines
        That were told.
    """

    name: str
    region: str
    account: str
    charges: dict[ChargePlace, ChargeSum] = field(default_factory=dict)
    members: dict[str, CacheMember] = field(default_factory=dict)
    engines: set[str] = field(default_factory=set)


@dataclass
class Charges:
    """All lines of some exports."""

    caches: dict[tuple[str, str, str], Charged] = field(default_factory=dict)
    unplaced: dict[tuple[str, str, str, str], ChargeSum] = field(default_factory=dict)
    total_usd: Fraction = Fraction(0)
    rows: int = 0
    begins: datetime | None = None
    ends: datetime | None = None

    @property
    def placed_usd(self) -> Fraction:
        """Of all lines that belong to caches."""
        return sum(
            (each.usd for cache in self.caches.values() for each in cache.charges.values()),
            Fraction(0),
        )

    @property
    def unplaced_usd(self) -> Fraction:
        """Of all others."""
        return sum((each.usd for each in self.unplaced.values()), Fraction(0))


def charges_of(lines: Iterable[ExportLine]) -> Charges:
    """Place every line."""
    found = Charges()
    for line in lines:
        found.rows += 1
        found.total_usd += line.usd
        where = place_of(line)
        if isinstance(where, str):
            key = line.product, line.usage_type, line.item_type, where
            found.unplaced.setdefault(key, ChargeSum()).add(line)
            continue
        found.begins = min(line.begins, found.begins or line.begins)
        found.ends = max(line.ends, found.ends or line.ends)
        _add(found, line, where)
    return found


def place_of(line: ExportLine) -> ChargePlace | str:
    """Where a line belongs, or why it belongs to no cache."""
    if line.item_type in _NO_USAGE:
        return _NO_USAGE[line.item_type]
    usage = _usage(line)
    if line.product != SERVICE:
        return _other_service(line, usage)
    if "Discount" in line.item_type and line.item_type != "DiscountedUsage":
        return ChargePlace(DISCOUNTS)
    if node := _NODE.fullmatch(usage):
        return _node(line, prefix=node[1] or "", node_type=node[2])
    if (committed := _COMMITTED.fullmatch(usage)) and line.item_type in ("RIFee", "Fee"):
        return ChargePlace(RESERVED, committed[1])
    if line.item_type != "Usage":
        return f"a line of the type {line.item_type[:40] or 'nothing'}"
    for pattern, what in ((_BACKUP, BACKUPS), (_SERVERLESS, SERVERLESS), (_BYTES, TRAFFIC)):
        if pattern.fullmatch(usage):
            return ChargePlace(what)
    return "a usage that is not known"


def group_of(resource: str) -> tuple[str, str]:
    """The cache of a node, and its shard: `orders-0002-001` is of shard 0002 of orders."""
    found = _MEMBER.fullmatch(resource)
    return (resource, "") if found is None else (found[1], found[2] or "")


def unit_of(where: ChargePlace) -> str:
    """In what a kind of charge is counted."""
    if where.what in (*NODE_CHARGES, SUPPORT, DURABILITY):
        return _HOUR_UNIT
    return {BACKUPS: "GB-months", TRAFFIC: "GB"}.get(where.what, "")


def _usage(line: ExportLine) -> str:
    """The type of a usage without its region: `NodeUsage:...` of `EU-NodeUsage:...`."""
    found = _REGION.fullmatch(line.usage_type)
    return found[1] if found else line.usage_type


def _node(line: ExportLine, *, prefix: str, node_type: str) -> ChargePlace | str:
    if prefix.startswith("ExtendedSupport"):
        return ChargePlace(SUPPORT, node_type)
    if prefix == "SyncDurability":
        return ChargePlace(DURABILITY, node_type)
    if prefix:
        return "a usage that is not known"
    if line.item_type in _BY_ITEM:
        return ChargePlace(_BY_ITEM[line.item_type], node_type)
    return f"a line of the type {line.item_type[:40] or 'nothing'}"


def _other_service(line: ExportLine, usage: str) -> str:
    if usage.startswith("DataTransfer-Regional-Bytes"):
        return "traffic between zones of the whole account: which part is of caches is not told"
    if line.product == "AmazonEC2" and "BoxUsage" in usage:
        return "an instance: whether a cache runs on it is not told"
    return "no line of ElastiCache"


def _add(found: Charges, line: ExportLine, where: ChargePlace) -> None:
    resource = _resource(line)
    name, shard = group_of(resource)
    region = line.region or "not told"
    key = name, region, line.account
    cache = found.caches.setdefault(key, Charged(name, region, line.account))
    cache.charges.setdefault(where, ChargeSum()).add(line)
    if where.what not in NODE_CHARGES:
        return
    engine = line.engine.lower() or _ENGINES.get(line.operation.rpartition(":")[2].lower(), "")
    if engine:
        cache.engines.add(engine)
    if resource:
        member = cache.members.setdefault(resource, CacheMember(shard, line.ends))
        member.ends = max(member.ends, line.ends)


def _resource(line: ExportLine) -> str:
    """The name of a node or cache; empty where a line is of none, such as a reservation's."""
    parts = line.resource.split(":")
    if len(parts) >= 7 and parts[0] == "arn":
        known = ("cluster", "replicationgroup", "serverlesscache")
        return parts[6] if parts[5] in known else ""
    return line.resource if ":" not in line.resource else ""
