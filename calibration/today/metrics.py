"""CloudWatch metrics of caches as CSV: what was asked of each node over time.

Two layouts are read. Long: a line for each time, node (`CacheClusterId`) and metric, with a value
or a column for each statistic. Wide: a line for each time, with a column for each metric
(`GetTypeCmds`, `SetTypeCmds Sum`, `orders-001 GetTypeCmds`), of the node that the column or another
one names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from forecache.models.plan.results import CurrentNode, KnownField
from forecache.sim.errors import InputError

from ..observe.readers.lines import shown
from .bill import Cells, cache_and_shard, cells_in, open_text, plain_column, table_in
from .data import KEY_BYTES, VALUE_BYTES, four_digits, size_in_memory

COUNTS = ("GetTypeCmds", "SetTypeCmds", "CacheHits", "CacheMisses", "Evictions")
"""Metrics that count what happened in a minute."""

BYTES = ("NetworkBytesIn", "NetworkBytesOut")
"""The same in bytes."""

LEVELS = (
    *("EngineCPUUtilization", "BytesUsedForCache", "CurrItems", "CurrConnections", "IsMaster"),
)

METRICS = (*COUNTS, *BYTES, *LEVELS)

_MINUTE_S = 60.0
"""ElastiCache sends every metric once a minute."""

_MOST_PERIOD_S = 86_400.0
_TIMES = ("timestamp", "time", "date", "datetime", "label", "full_label", "start_time")
_NODES = (
    *("cache_cluster_id", "cachecluster_id", "cacheclusterid", "cluster_id", "cluster", "node"),
)
_NAMES = ("metric_name", "metricname", "metric")
_PERIODS = ("period", "period_s", "period_seconds")
_STATISTICS = {
    "sum": "sum",
    "average": "average",
    "avg": "average",
    "mean": "average",
    "maximum": "maximum",
    "max": "maximum",
}
_VALUES = ("value", "values")
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,60}", re.IGNORECASE)
_WORDS = re.compile(r"[A-Za-z0-9-]+")


@dataclass
class MetricSeries:
    """A metric of a node over time: by statistic, the values by time."""

    by_statistic: dict[str, dict[datetime, float]] = field(default_factory=dict)
    period_s: float | None = None

    def of(self, *statistics: str) -> tuple[str, Mapping[datetime, float]]:
        """The first of some statistics that is there, with its values; no values without one."""
        for name in statistics:
            if name in self.by_statistic:
                return name, self.by_statistic[name]
        return "", {}


@dataclass(frozen=True)
class MetricColumn:
    """A column of values: of which metric, statistic and node; empty where others tell."""

    name: str
    metric: str
    statistic: str
    node: str


class NodeMetrics:
    """The metrics of a node."""

    def __init__(self, name: str, file: str) -> None:
        self.name = name
        self.file = file
        self.series: dict[str, MetricSeries] = {}

    def has(self, metric: str) -> bool:
        """Whether there is any value of it."""
        return metric in self.series

    def mean(self, metric: str) -> float | None:
        """The mean of a level."""
        if metric not in self.series:
            return None
        _, values = self.series[metric].of("average", "")
        return sum(values.values()) / len(values) if values else None

    def highest(self, metric: str) -> float | None:
        """The highest value of a level."""
        if metric not in self.series:
            return None
        return max(self.series[metric].of("maximum", "average", "")[1].values(), default=None)

    def levels(self, metric: str) -> Mapping[datetime, float]:
        """A level by time: averages where there are any."""
        if metric not in self.series:
            return {}
        return self.series[metric].of("average", "", "maximum")[1]

    def rates(self, metric: str) -> dict[datetime, float]:
        """What a second counted, by time.

        A sum is of a period, an average that of the minutes in it.
        """
        if metric not in self.series:
            return {}
        series = self.series[metric]
        statistic, values = series.of("sum", "", "average")
        if not values:
            return {}
        seconds = _MINUTE_S if statistic == "average" else self.period_s(metric)
        return {at: value / seconds for at, value in values.items()}

    def period_s(self, metric: str) -> float:
        """The time from one value to the next."""
        series = self.series[metric]
        if series.period_s is not None:
            return series.period_s
        times = sorted(series.of("sum", "", "average")[1])
        steps = [(late - early).total_seconds() for early, late in pairwise(times)]
        if not steps:
            raise InputError(
                f"{self.file}: found {metric} of {self.name or 'the node'} at one time; valid are "
                "two times, or a column period."
            )
        return min(_MOST_PERIOD_S, median(steps))


def is_metrics(columns: Sequence[str]) -> bool:
    """Whether columns are those of metrics."""
    names = [plain_column(column) for column in columns]
    named = any(name in names for name in _NAMES)
    return bool(set(names) & set(_TIMES)) and (
        named or any(_metric_of(column) for column in columns)
    )


def metrics_of(paths: Iterable[str | Path]) -> list[NodeMetrics]:
    """The nodes behind some files of metrics."""
    nodes: dict[str, NodeMetrics] = {}
    for path in paths:
        with open_text(path) as text:
            read_metrics(text, nodes, file=str(path))
    return list(nodes.values())


def read_metrics(lines: Iterable[str], nodes: dict[str, NodeMetrics], *, file: str) -> None:
    """Add the values of a table to nodes, by name."""
    first, rows = table_in(lines, file=file)
    columns = first[1]
    names = [plain_column(column) for column in columns]
    time = next((name for name in _TIMES if name in names), "")
    long = next((name for name in _NAMES if name in names), "")
    values = _long_columns(columns) if long else _wide_columns(columns)
    if not time or not values:
        raise first[0].wrong(
            "no column of a time" if not time else "no column of values",
            valid="a table of CloudWatch metrics, with a time in each line",
        )
    taken = 0
    for cells in cells_in(first, rows, {time, long, *(column.name for column in values)}):
        if cells.texts[time].lower() in ("label", "full label", "statistic", "period"):
            continue  # what the console writes above its values
        at = cells.time(time)
        if at is None:
            raise cells.place.wrong(f"nothing as {cells.names[time]!r}", valid="a time")
        metric = cells.text(long) if long else ""
        if long and metric not in METRICS:
            continue
        for column in values:
            taken += _take(cells, column, at, column.metric or metric, nodes)
    if not taken:
        raise InputError(
            f"{file}: found no value of a metric that is read; valid are {', '.join(METRICS)}."
        )


def _take(
    cells: Cells, column: MetricColumn, at: datetime, metric: str, nodes: dict[str, NodeMetrics]
) -> bool:
    """Keep a value; whether there was one."""
    value = cells.number(column.name, lowest=0.0, highest=1e18)
    if value is None:
        return False
    name = column.node or cells.text(*_NODES)
    if name and not _ID.fullmatch(name):
        raise cells.place.wrong(f"{shown(name)} as a node", valid="letters, digits and -")
    node = nodes.setdefault(name, NodeMetrics(name, cells.place.file))
    series = node.series.setdefault(metric, MetricSeries())
    statistic = column.statistic or _STATISTICS.get(cells.text("statistic", "stat").lower(), "")
    held = series.by_statistic.setdefault(statistic, {})
    if held.get(at, value) != value:
        raise cells.place.wrong(
            f"{metric} of {name or 'a node'} twice at a time", valid="one value of each"
        )
    held[at] = value
    for period in _PERIODS:
        seconds = cells.number(period, lowest=1.0, highest=_MOST_PERIOD_S)
        if seconds is not None:
            series.period_s = seconds
    return True


def _long_columns(columns: Sequence[str]) -> list[MetricColumn]:
    """Columns of values, each of which may be of a statistic."""
    found = []
    for column in columns:
        name = plain_column(column)
        if name in _VALUES or name in _STATISTICS:
            found.append(MetricColumn(name, "", _STATISTICS.get(name, ""), ""))
    return found


def _wide_columns(columns: Sequence[str]) -> list[MetricColumn]:
    """Columns of metrics: what is left of their names is a statistic, or a node."""
    found = []
    for column in columns:
        metric = _metric_of(column)
        if not metric:
            continue
        statistic = node = ""
        for word in _WORDS.findall(column.replace("_", " ")):
            if word == metric:
                continue
            if word.lower() in _STATISTICS:
                statistic = _STATISTICS[word.lower()]
            elif not node:
                node = word
        found.append(MetricColumn(plain_column(column), metric, statistic, node))
    return found


def _metric_of(column: str) -> str:
    """The metric that a column names; empty if none."""
    words = set(_WORDS.findall(column.replace("_", " ")))
    return next((metric for metric in METRICS if metric in words), "")


# --- the demand that they tell --------------------------------------------------------------------


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
        min(1000.0, max(1.0, four_digits(peak / mean))),
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
        shards.setdefault(cache_and_shard(node.name), []).append(node)
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
            operations[name] = four_digits(rate)
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
