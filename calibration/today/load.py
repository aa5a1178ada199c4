"""The demand of a plan, as the metrics of today's nodes tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from forecache.models.plan.results import CurrentNode, KnownField
from forecache.sim.errors import InputError

from .charges import group_of
from .data import rounded
from .metrics import BYTES, NodeMetrics
from .sizes import size_in_memory

KEY_BYTES, VALUE_BYTES = 16, 512
"""Taken where nothing tells them."""

LAYOUTS = {"redis": ("redis", "7.0"), "valkey": ("valkey", "8.0")}
"""Whose blocks the data of ElastiCache are taken to lie in, by engine."""

_SEEN_SHARE = 0.02
"""Of the reads, what replicas serve at least so that it is told."""


@dataclass
class TodaysMetrics:
    """What metrics tell of a cache."""

    nodes: list[CurrentNode] = field(default_factory=list)
    demand: dict[str, Any] = field(default_factory=dict)
    known: list[KnownField] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    needed: dict[str, str] = field(default_factory=dict)
    """As `FromInfo.needed`."""

    def found(self, name: str, value: Any, how: str) -> Any:
        """Keep a field of the demand, and how it is known."""
        self.known.append(KnownField(f"demand.{name}", value, how))
        self.demand[name] = value
        return value


def todays_metrics(nodes: Sequence[NodeMetrics], *, engine: str, version: str) -> TodaysMetrics:
    """The demand that the nodes of one cache tell.

    Parameters
    ----------
    engine, version
        Of which a node of strings would use as much memory: those that the layout is known of.

    Raises
    ------
    InputError
        Nothing was asked of them.
    """
    found = TodaysMetrics()
    primaries = _primaries(nodes, found)
    total, peak, mean = _operations(primaries, found)
    if mean <= 0:
        raise InputError(
            f"{nodes[0].file}: found no GetTypeCmds or SetTypeCmds of a primary above 0; valid is "
            "a time in which clients asked for something."
        )
    period = max(node.period_s(m) for node in primaries for m in _COMMANDS if node.has(m))
    found.found(
        "peak_to_mean",
        min(1000.0, max(1.0, rounded(peak / mean))),
        f"the busiest of {total:,} times, each {_span(period)} long",
    )
    if period > 300:
        found.unknown.append(
            f"the busiest minutes: a value tells {_span(period)} (peak_to_mean may be higher)"
        )
    _data(primaries, found, engine=engine, version=version)
    clients = max((node.highest("CurrConnections") or 0.0 for node in primaries), default=0.0)
    if clients >= 1:
        found.found(
            "clients_per_node",
            int(min(100_000, clients)),
            "CurrConnections; not all of them need be in use",
        )
    _tell(nodes, primaries, found)
    names = {node.name for node in primaries}
    found.nodes = [_load(node, primary=node.name in names) for node in nodes]
    unseen = [n.name for n in found.nodes if n.role == "primary" and n.main_thread_busy is None]
    if unseen:
        found.needed["demand.operations"] = (
            f"{nodes[0].file}: found no EngineCPUUtilization of {unseen[0]}, without which nothing "
            "tells whether what it reads and writes takes as long as GET and SET, so that no "
            "capacity, headroom or plan can be given. Give that metric, INFO ALL of the nodes "
            "(--from-info), or a scenario of kind plan with demand.operations."
        )
    return found


_COMMANDS = ("GetTypeCmds", "SetTypeCmds")


def _primaries(nodes: Sequence[NodeMetrics], found: TodaysMetrics) -> list[NodeMetrics]:
    """Those that say so, or the first node of each shard."""
    told = [node for node in nodes if (node.mean("IsMaster") or 0.0) >= 0.5]
    if told:
        return told
    shards: dict[tuple[str, str], list[NodeMetrics]] = {}
    for node in nodes:
        shards.setdefault(group_of(node.name), []).append(node)
    if any(len(members) > 1 for members in shards.values()):
        found.unknown.append(
            "which nodes are primaries: there is no metric IsMaster, the first of each shard is "
            "taken"
        )
    return [min(members, key=lambda node: node.name) for members in shards.values()]


def _operations(primaries: Sequence[NodeMetrics], found: TodaysMetrics) -> tuple[int, float, float]:
    """Times, the busiest of them and the mean, in operations a second of all primaries."""
    operations: dict[str, float] = {}
    by_time: dict[datetime, float] = {}
    for metric, name in zip(_COMMANDS, ("get", "set"), strict=True):
        rate = 0.0
        for node in primaries:
            rates = node.rates(metric)
            rate += sum(rates.values()) / len(rates) if rates else 0.0
            for at, each in rates.items():
                by_time[at] = by_time.get(at, 0.0) + each
        if rate > 0:
            operations[name] = rounded(rate)
    if operations:
        found.found(
            "operations", operations, "GetTypeCmds and SetTypeCmds of primaries, on average"
        )
        found.unknown.append(
            "which commands they are: all that read count as GET, all that write as SET"
        )
    return len(by_time), max(by_time.values(), default=0.0), sum(operations.values())


def _data(
    primaries: Sequence[NodeMetrics], found: TodaysMetrics, *, engine: str, version: str
) -> None:
    """Keys, and the size of values with which they take the memory that is in use."""
    items = [node.mean("CurrItems") for node in primaries]
    keys = round(sum(each or 0.0 for each in items))
    found.unknown.append(f"the size of keys: {KEY_BYTES} bytes are taken (key_bytes)")
    found.demand["key_bytes"] = KEY_BYTES
    value = None
    if keys >= 1:
        found.found("keys", keys, "CurrItems of primaries, on average")
        value = _value_bytes(primaries, engine=engine, version=version)
    else:
        found.unknown.append("how many keys there are: no CurrItems; a million are taken (keys)")
    if value is None:
        value = VALUE_BYTES
        found.unknown.append(f"the size of values: {VALUE_BYTES} bytes are taken (value_bytes)")
        found.demand["value_bytes"] = value
    else:
        found.found("value_bytes", value, "BytesUsedForCache a key, as if all held strings")


def _value_bytes(primaries: Sequence[NodeMetrics], *, engine: str, version: str) -> int | None:
    """The size of values of the primary with most data; None where it can't be told."""
    fullest = max(primaries, key=lambda node: node.mean("BytesUsedForCache") or 0.0)
    used, keys = fullest.mean("BytesUsedForCache"), round(fullest.mean("CurrItems") or 0.0)
    if used is None or keys < 1:
        return None
    node = {
        "engine": engine,
        "engine_version": version,
        "clients": int(max(0.0, fullest.mean("CurrConnections") or 0.0)),
    }
    strings = {"type": "string", "keys": keys, "key_bytes": KEY_BYTES}
    return size_in_memory(node, lambda size: [strings | {"value_bytes": size}], used)


def _tell(
    nodes: Sequence[NodeMetrics], primaries: Sequence[NodeMetrics], found: TodaysMetrics
) -> None:
    """What plans don't take up."""
    others = [node for node in nodes if node not in primaries]
    reads = sum(_mean_rate(node, "GetTypeCmds") for node in others)
    if reads > _SEEN_SHARE * sum(_mean_rate(node, "GetTypeCmds") for node in primaries):
        found.unknown.append(
            f"how {reads:,.0f} reads a second of {len(others)} replicas would be served: plans "
            "read from primaries only, and these are not in the demand"
        )
    hits, misses = (sum(_mean_rate(n, m) for n in primaries) for m in ("CacheHits", "CacheMisses"))
    if misses > 0.01 * (hits + misses):
        found.unknown.append(
            f"what a miss costs: {misses / (hits + misses):.0%} of the look-ups find nothing; all "
            "are predicted as if they did"
        )
    if evicted := sum(_mean_rate(node, "Evictions") for node in primaries):
        found.unknown.append(
            f"how much data there would be without eviction: {evicted:,.3g} keys a second are"
            " evicted"
        )
    busiest = max((node.highest("EngineCPUUtilization") or 0.0 for node in primaries), default=0.0)
    if busiest:
        how = "EngineCPUUtilization at most; plans predict it anew"
        found.known.append(KnownField("busiest engine thread", f"{busiest:.3g}%", how))
    received, sent = (sum(_mean_rate(node, m) for node in primaries) / 1e6 for m in BYTES)
    if received + sent > 0:
        told = f"{received:.3g} MB/s in, {sent:.3g} MB/s out"
        how = "NetworkBytesIn and NetworkBytesOut of primaries, on average; not needed for a plan"
        found.known.append(KnownField("network", told, how))


def _load(node: NodeMetrics, *, primary: bool) -> CurrentNode:
    by_time: dict[datetime, float] = {}
    for metric in _COMMANDS:
        for at, each in node.rates(metric).items():
            by_time[at] = by_time.get(at, 0.0) + each
    rate = sum(_mean_rate(node, metric) for metric in _COMMANDS)
    return CurrentNode(
        name=node.name or "node",
        role="primary" if primary else "replica",
        rate_rps=rate,
        peak_rps=max(rate, *by_time.values()) if by_time else rate,
        used_memory_bytes=node.mean("BytesUsedForCache") or 0.0,
        keys=round(node.mean("CurrItems") or 0.0),
        main_thread_busy=_busy(node, by_time),
    )


def _busy(node: NodeMetrics, rates: Mapping[datetime, float]) -> float | None:
    """Share of the time in which the engine's thread was busy when most was asked."""
    levels = node.levels("EngineCPUUtilization")
    both = [at for at in rates if at in levels]
    return levels[max(both, key=lambda at: rates[at])] / 100.0 if both else None


def _mean_rate(node: NodeMetrics, metric: str) -> float:
    rates: Mapping[datetime, float] = node.rates(metric)
    return sum(rates.values()) / len(rates) if rates else 0.0


def _span(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 600 else f"{seconds / 60:,.0f} minutes"
