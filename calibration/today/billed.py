"""What an export of today's bill tells: caches, their cost, what runs, and what has no place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from forecache.hwprofiles import list_instances
from forecache.hwprofiles.files import did_you_mean
from forecache.models.cost.bill import SUPPORT
from forecache.models.plan.results import (
    BilledCache,
    BilledLine,
    FromBill,
    KnownField,
    UnplacedLine,
)
from forecache.models.prices.table import (
    HOURS_A_MONTH,
    NODE_PRICES,
    load_prices,
    served_engine,
)
from forecache.sim.errors import InputError

from .charges import (
    DISCOUNTS,
    DURABILITY,
    NODE_CHARGES,
    ON_DEMAND,
    RESERVED,
    SERVERLESS,
    Charged,
    ChargePlace,
    Charges,
    ChargeSum,
    charges_of,
    unit_of,
)
from .export import export_lines

ENGINE, VERSION = "elasticache-redis", "7.1"
"""The managed engine whose work is known best; an export does not tell the version."""

_MOST_THREADS = 8
"""Taken of a node's threads, whose number the service does not publish."""

_OF_NODES = (*NODE_CHARGES, SUPPORT, DURABILITY, DISCOUNTS)
_LAST = timedelta(hours=25)
"""A node that was billed this long before the end at least is there no more."""


@dataclass
class TodaysBill:
    """An export, read: the answer's part, and fields of a plan's `today` and `choices`."""

    result: FromBill
    cache: BilledCache | None
    today: dict[str, Any] = field(default_factory=dict)
    choices: dict[str, Any] = field(default_factory=dict)


def todays_bill(
    files: Sequence[str | Path], *, cache: str | None = None, seen: Iterable[str] = ()
) -> TodaysBill:
    """What exports of a bill tell.

    Parameters
    ----------
    files
        Exports, each of other lines.
    cache
        The cache that is meant; the dearest of those in `seen`, or of all, without it.
    seen
        Caches of which there are metrics.
    """
    charges = charges_of(chain.from_iterable(export_lines(path) for path in files))
    if not charges.rows:
        raise InputError(f"{files[0]}: found no line of a bill; valid is one at least.")
    _give_to_the_only_one(charges)
    hours = _hours(charges)
    caches = sorted(
        (_cache(each, charges, hours) for each in charges.caches.values()),
        key=lambda each: -each.usd_per_month,
    )
    chosen = _chosen(caches, cache, set(seen), files)
    known: list[KnownField] = []
    unknown: list[str] = []
    today: dict[str, Any] = {}
    choices: dict[str, Any] = {}
    if chosen is not None:
        today, choices = _fields(chosen, known, unknown)
    _tell(charges, caches, chosen, unknown)
    result = FromBill(
        files=[str(path) for path in files],
        begins="" if charges.begins is None else charges.begins.isoformat(),
        ends="" if charges.ends is None else charges.ends.isoformat(),
        hours=hours,
        rows=charges.rows,
        total_usd=float(charges.total_usd),
        placed_usd=float(charges.placed_usd),
        unplaced_usd=float(charges.unplaced_usd),
        cache="" if chosen is None else chosen.name,
        caches=caches,
        unplaced=_unplaced(charges),
        known=known,
        unknown=unknown,
        compared=[],
    )
    return TodaysBill(result, chosen, today, choices)


def _hours(charges: Charges) -> float:
    """Hours that the lines of caches are of, one at least."""
    if charges.begins is None or charges.ends is None:
        return 0.0
    return max(1.0, (charges.ends - charges.begins).total_seconds() / 3600.0)


def _give_to_the_only_one(charges: Charges) -> None:
    """Lines without a resource, such as those of a reservation, are of the only cache there is."""
    named = [each for each in charges.caches.values() if each.name]
    nameless = [key for key, each in charges.caches.items() if not each.name]
    if len(named) != 1:
        return
    [only] = named
    for key in nameless:
        if charges.caches[key].region not in (only.region, "not told"):
            continue
        for where, added in charges.caches.pop(key).charges.items():
            held = only.charges.setdefault(where, ChargeSum())
            held.quantity += added.quantity
            held.usd += added.usd
            held.effective_usd += added.effective_usd
            held.rows += added.rows


def _cache(charged: Charged, charges: Charges, hours: float) -> BilledCache:
    by_type: dict[str, float] = {}
    for where, each in charged.charges.items():
        if where.what in NODE_CHARGES and where.node_type:
            by_type[where.node_type] = by_type.get(where.node_type, 0.0) + each.quantity
    monthly = HOURS_A_MONTH / hours
    lines = [_line(where, each, monthly) for where, each in charged.charges.items()]
    nodes, shards, replicas = _nodes(charged, charges, sum(by_type.values()) / hours)
    return BilledCache(
        name=charged.name or f"without a name in {charged.region}",
        region=charged.region,
        engine=next(iter(charged.engines)) if len(charged.engines) == 1 else "",
        node_type=max(by_type, key=lambda each: by_type[each], default=""),
        nodes=nodes,
        shards=shards,
        replicas=replicas,
        lines=sorted(lines, key=lambda each: -abs(each.usd_per_month)),
        usd=float(sum(each.usd for each in charged.charges.values())),
        usd_per_month=sum(line.usd_per_month for line in lines),
    )


def _line(where: ChargePlace, each: ChargeSum, monthly: float) -> BilledLine:
    return BilledLine(
        what=where.what,
        node_type=where.node_type,
        quantity=0.0 if where.what in (SERVERLESS, DISCOUNTS) else each.quantity,
        unit=unit_of(where),
        usd=float(each.usd),
        usd_per_month=float(each.effective_usd) * monthly,
    )


def _nodes(charged: Charged, charges: Charges, mean: float) -> tuple[int, int | None, int | None]:
    """Nodes at the end, shards, and replicas of each, as far as names tell."""
    if not charged.members or charges.ends is None:
        return max(0, round(mean)), None, None
    last = [each for each in charged.members.values() if charges.ends - each.ends <= _LAST]
    members = last or list(charged.members.values())
    shards: dict[str, int] = {}
    for each in members:
        shards[each.shard] = shards.get(each.shard, 0) + 1
    if charged.engines == {"memcached"}:
        return len(members), len(members), 0
    return len(members), len(shards), max(shards.values()) - 1


def _chosen(
    caches: Sequence[BilledCache], name: str | None, seen: set[str], files: Sequence[str | Path]
) -> BilledCache | None:
    """The cache that is meant."""
    if name is not None:
        named = [each for each in caches if each.name == name]
        if not named:
            hint = did_you_mean(name, [each.name for each in caches]) if caches else "none is there"
            raise InputError(f"{files[0]}: found no cache {name!r}; {hint}")
        return named[0]
    with_nodes = [each for each in caches if each.node_type]
    measured = [each for each in with_nodes if each.name in seen]
    return next(iter(measured or with_nodes), None)


def _fields(
    cache: BilledCache, known: list[KnownField], unknown: list[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of `today` and `choices`."""
    table = load_prices(NODE_PRICES)
    cores = {f"cache.{each.name}": each.cores for each in list_instances()}

    def found(name: str, value: Any, how: str) -> Any:
        known.append(KnownField(name, value, how))
        return value

    choices = _region(cache, known, unknown)
    if cache.engine == "memcached":
        unknown.append("what ElastiCache for Memcached does: its nodes are not predicted")
        return {}, choices
    today: dict[str, Any] = {"engine": ENGINE, "engine_version": VERSION}
    if cache.engine == "valkey":
        unknown.append(f"the work of ElastiCache for Valkey: that of {ENGINE} {VERSION} is taken")
    elif any(line.what == SUPPORT for line in cache.lines):
        unknown.append(
            f"the work of a version beyond its support: that of {ENGINE} {VERSION} is taken"
        )
    else:
        unknown.append(f"the engine's version: {VERSION} is taken (today.engine_version)")
    shards = cache.shards or cache.nodes
    if cache.shards is None:
        unknown.append(
            f"how many of the {cache.nodes} nodes are replicas: the export names no nodes; none "
            "is taken (today.shards, today.replicas)"
        )
    how = "names of nodes in the export" if cache.shards else "node-hours"
    today["shards"] = found("today.shards", min(500, max(1, shards)), how)
    today["replicas"] = found("today.replicas", min(5, cache.replicas or 0), how)
    own = sum(line.usd_per_month for line in cache.lines if line.what in _OF_NODES)
    if cache.node_type not in cores or cache.node_type not in table.nodes.types:
        unknown.append(
            f"what a {cache.node_type} does: the catalogue has no host or price of it, so today's "
            "nodes are not predicted"
        )
        return today, choices
    today["instance"] = found("today.instance", cache.node_type, "usage types of the export")
    if own > 0 and cache.nodes:
        each = min(1e7, float(f"{own / cache.nodes:.6g}"))
        today["usd_per_month"] = found("today.usd_per_month", each, "the export, for a node")
    today["io_threads"] = min(_MOST_THREADS, cores[cache.node_type])
    unknown.append(
        f"how many threads a node runs: the service does not say; {today['io_threads']} are taken "
        "(today.io_threads)"
    )
    return today, choices


def _region(cache: BilledCache, known: list[KnownField], unknown: list[str]) -> dict[str, Any]:
    """The region, and how its prices differ from those of the table."""
    table = load_prices(NODE_PRICES)
    if cache.region in (table.region, "not told"):
        return {}
    for line in cache.lines:
        if line.what != ON_DEMAND or line.quantity <= 0 or line.usd <= 0:
            continue
        if line.node_type not in table.nodes.types:
            continue
        here = line.usd / line.quantity
        there = table.node_usd_per_hour(line.node_type, served_engine(cache.engine))
        factor = float(f"{here / there:.4g}")
        if not 0 < factor <= 10:
            continue
        how = f"what the export paid an hour of {line.node_type}, against {table.region}"
        known.append(KnownField("choices.region_factor", factor, how))
        return {"region": cache.region, "region_factor": factor}
    unknown.append(
        f"prices of {cache.region}: those of {table.region} are taken (choices.region_factor)"
    )
    return {}


def _tell(
    charges: Charges,
    caches: Sequence[BilledCache],
    chosen: BilledCache | None,
    unknown: list[str],
) -> None:
    """What else is not known."""
    others = [each for each in caches if each is not chosen]
    if chosen is not None and others:
        usd = sum(each.usd_per_month for each in others)
        unknown.append(
            f"what {len(others)} other caches need, which cost ${usd:,.0f} a month: {chosen.name} "
            "is planned for (--cache names another)"
        )
    if chosen is not None:
        free = [
            line
            for line in chosen.lines
            if line.what == RESERVED and line.quantity > 0 and line.usd_per_month == 0
        ]
        if free:
            unknown.append(
                "what reserved nodes cost: the export has no effective cost of them, and their "
                "fees name no cache"
            )
    if not charges.caches:
        unknown.append("what runs today: no line of the export is of ElastiCache")


def _unplaced(charges: Charges) -> list[UnplacedLine]:
    found = [
        UnplacedLine(product, usage, item, why, each.rows, float(each.usd))
        for (product, usage, item, why), each in charges.unplaced.items()
    ]
    return sorted(found, key=lambda each: (-abs(each.usd), each.product, each.usage_type))
