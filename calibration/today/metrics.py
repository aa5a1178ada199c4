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

from forecache.sim.errors import InputError

from ..observe.readers.lines import shown
from .export import Cells, cells_in, opened, plain, table_in

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
    names = [plain(column) for column in columns]
    named = any(name in names for name in _NAMES)
    return bool(set(names) & set(_TIMES)) and (
        named or any(_metric_of(column) for column in columns)
    )


def metrics_of(paths: Iterable[str | Path]) -> list[NodeMetrics]:
    """The nodes behind some files of metrics."""
    nodes: dict[str, NodeMetrics] = {}
    for path in paths:
        with opened(path) as text:
            read_metrics(text, nodes, file=str(path))
    return list(nodes.values())


def read_metrics(lines: Iterable[str], nodes: dict[str, NodeMetrics], *, file: str) -> None:
    """Add the values of a table to nodes, by name."""
    first, rows = table_in(lines, file=file)
    columns = first[1]
    names = [plain(column) for column in columns]
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
        name = plain(column)
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
        found.append(MetricColumn(plain(column), metric, statistic, node))
    return found


def _metric_of(column: str) -> str:
    """The metric that a column names; empty if none."""
    words = set(_WORDS.findall(column.replace("_", " ")))
    return next((metric for metric in METRICS if metric in words), "")
