"""Counters that `perf stat -x SEP` and `perf stat -j` print.

The CSV of perf quotes nothing, so a comma may stand inside an event's name
(`cpu/event=0x3c,umask=0/`). Fields are therefore recognised by their shape, and a line that fits
in no way or in more than one is refused. Layouts: man perf-stat, "CSV FORMAT" and "JSON FORMAT",
and the output of perf 6.1, which puts the variance behind the event's name.
"""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from forecache.hwprofiles.files import read_text
from forecache.sim.errors import InputError

from .lines import ABSENT, Place, numbered, shown


@dataclass(frozen=True)
class PerfMetric:
    """A number perf derives from a counter, `0.523 CPUs utilized`; its sign is free."""

    value: float
    unit: str


@dataclass(frozen=True, kw_only=True)
class Counter:
    """One counter of one interval and place.

    Attributes
    ----------
    value : float, optional
        As perf prints it: already scaled up where the counter was multiplexed. None when absent.
    absent : str, optional
        Why there is no value: `<not supported>` or `<not counted>`.
    unit : str
        Unit of the value, `msec` for one; empty for a plain count.
    run_ns : int, optional
        How long the event was counted.
    running_fraction : float, optional
        Share of the time the counter was scheduled, 0 to 1; below 1 the value is extrapolated.
    variance_fraction : float, optional
        Relative standard error over the repetitions of `-r`.
    interval_s : float, optional
        End of the interval of `-I`, from the start; None for a whole run and for its `summary`.
    where : str, optional
        CPU, core, die, socket, node, thread or control group, as perf writes it.
    metrics : tuple of Metric
        What perf derives; several when lines with nothing but a metric follow.
    """

    event: str
    value: float | None
    absent: str | None
    unit: str
    run_ns: int | None
    running_fraction: float | None
    variance_fraction: float | None = None
    interval_s: float | None = None
    where: str | None = None
    metrics: tuple[PerfMetric, ...] = ()

    @property
    def metric_value(self) -> float | None:
        """Value of the first metric."""
        return self.metrics[0].value if self.metrics else None

    @property
    def metric_unit(self) -> str | None:
        """Unit of the first metric."""
        return self.metrics[0].unit if self.metrics else None


def read_perf_stat(path: str | Path) -> list[Counter]:
    """Counters of a file that `perf stat -x SEP -o FILE` or `perf stat -j -o FILE` wrote.

    Raises
    ------
    InputError
        As `parse_perf_stat`, or the file can't be read.
    """
    return parse_perf_stat(read_text(path), file=str(path))


def parse_perf_stat(text: str, *, file: str) -> list[Counter]:
    """Counters in the order of the text; format and separator are found in it.

    Raises
    ------
    InputError
        A line that is neither a comment nor a counter, or there is no counter at all.
    """
    lines = [
        (at, line.strip(" "))
        for at, line in numbered(text, file=file)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise Place(file, 0).wrong("no counter", valid=_VALID)
    counters: list[Counter] = []
    if lines[0][1].startswith("{"):
        for at, line in lines:
            _take_json(at, line, counters)
    else:
        separator = _separator(lines)
        for at, line in lines:
            _take_csv(at, line, separator, counters)
    return counters


_VALID = "output of `perf stat -x ';'` or `perf stat -j`"
_NOT_COUNTED = ("<not supported>", "<not counted>")
# A derived value that has none: the denominator of a ratio was zero.
_NO_METRIC = ABSENT | {"nan", "-nan", "inf", "-inf"}

_VALUE = re.compile(r"[0-9]+(\.[0-9]+)?|<not supported>|<not counted>")
_NUMBER = re.compile(r"[+-]?[0-9.]+%?")
_INTERVAL = re.compile(r"[0-9]+\.[0-9]{9}|summary")
_WHERE = re.compile(r"(?=.*[A-Za-z_]).*[0-9]")
_RUNNING = re.compile(r"(?:100|[1-9]?[0-9])\.[0-9]{2}")
# The event's own run time and share stand next to each other on every line, never empty.
_RUN_AND_SHARE = re.compile(
    r"(?<=[0-9])([^\w\s.%<>#/+\-\"'\\(){}\[\]]{1,4}|\t)(?:100|[1-9]?[0-9])\.[0-9]{2}(?=\1|$)"
)


def _separator(lines: list[tuple[Place, str]]) -> str:
    """The separator of `-x`, from the first line that shows it."""
    at, line = lines[0]
    found = _RUN_AND_SHARE.findall(line)
    if not found:
        raise at.wrong(shown(line), valid=_VALID)
    return str(found[-1])


def _take_csv(at: Place, line: str, separator: str, counters: list[Counter]) -> None:
    """Add the counter of a line, or a metric of its own line to the last counter."""
    fields = [field.strip() for field in line.split(separator)]
    if separator == ",":
        fields = _join_event(fields)
    readings = [
        start for start in range(4) if _is_prefix(fields[:start]) and _is_counter(fields[start:])
    ]
    if len(readings) == 1:
        start = readings[0]
        counters.append(_counter(at, fields[:start], fields[start:]))
        return
    for start in range(4):
        rest = fields[start:]
        if len(rest) >= 6 and not any(rest[:-2]) and rest[-1] and _is_prefix(fields[:start]):
            interval_s, where = _prefix(at, fields[:start])
            _add_metric(at, rest[-2], rest[-1], counters, interval_s=interval_s, where=where)
            return
    valid = (
        "[interval] [place [count]] value unit event [group] [variance%] run-time share "
        f"[metric unit] between {separator!r}"
    )
    if separator == ",":
        valid += ", and `perf stat -x ';'` where names hold commas"
    raise at.wrong(shown(line), valid=valid)


def _join_event(fields: list[str]) -> list[str]:
    """Fields with the pieces of `pmu/a=1,b=2/modifier` put together again."""
    joined: list[str] = []
    is_open = False
    for field in fields:
        if is_open:
            joined[-1] += "," + field
        else:
            joined.append(field)
        if is_open or re.match(r"[A-Za-z_][\w.-]*/", field):
            is_open = joined[-1].count("/") % 2 == 1
    return joined


def _is_prefix(fields: list[str]) -> bool:
    """Whether fields are `[interval] [place [number of CPUs]]`."""
    if fields and _INTERVAL.fullmatch(fields[0]):
        fields = fields[1:]
    if not fields:
        return True
    counted = len(fields) == 1 or (len(fields) == 2 and fields[1].isdecimal())
    return counted and _WHERE.fullmatch(fields[0]) is not None


def _prefix(at: Place, fields: list[str]) -> tuple[float | None, str | None]:
    """Interval end and place of a prefix."""
    interval_s = None
    if fields and _INTERVAL.fullmatch(fields[0]):
        if fields[0] != "summary":
            interval_s = at.decimal(fields[0], "the interval")
        fields = fields[1:]
    return interval_s, fields[0] if fields else None


def _is_counter(fields: list[str]) -> bool:
    """Whether fields are `value unit event [group] [variance] run-time share [metric unit]`."""
    if len(fields) < 5 or not _VALUE.fullmatch(fields[0]):
        return False
    unit, event = fields[1:3]
    if not event or any(_VALUE.fullmatch(field) for field in (unit, event)):
        return False
    _, _, rest = _middle(fields)
    return (
        len(rest) in (2, 4)
        and rest[0].isdecimal()
        and _RUNNING.fullmatch(rest[1]) is not None
        and (len(rest) == 2 or (rest[2] in _NO_METRIC or _NUMBER.fullmatch(rest[2]) is not None))
    )


def _middle(fields: list[str]) -> tuple[str | None, str | None, list[str]]:
    """Control group, variance, and the fields behind them."""
    rest = fields[3:]
    group = variance = None
    if rest and rest[0] and not _NUMBER.fullmatch(rest[0]):
        group, *rest = rest
    if rest and rest[0].endswith("%"):
        variance, *rest = rest
    return group, variance, rest


def _counter(at: Place, prefix: list[str], fields: list[str]) -> Counter:
    """The counter of fields whose shapes were recognised."""
    value, unit, event = fields[:3]
    group, variance, rest = _middle(fields)
    interval_s, where = _prefix(at, prefix)
    metric = _metric(at, *rest[2:]) if len(rest) == 4 else None
    return Counter(
        event=event,
        value=None if value in _NOT_COUNTED else at.decimal(value, event),
        absent=value if value in _NOT_COUNTED else None,
        unit=unit,
        run_ns=at.count(rest[0], "the run time"),
        running_fraction=at.fraction_of_percent(rest[1], "the share of time"),
        variance_fraction=None if variance is None else _variance(at, variance),
        interval_s=interval_s,
        where=where or group,
        metrics=() if metric is None else (metric,),
    )


def _variance(at: Place, percent: str) -> float:
    # A standard error may exceed its mean.
    return at.decimal(percent.removesuffix("%"), "the variance in percent", highest=1e9) / 100


def _metric(at: Place, value: str, unit: str) -> PerfMetric | None:
    """A metric, or None where perf printed none; `0.0` without a unit is how JSON says none."""
    if value in _NO_METRIC:
        return None
    number = at.decimal(value, "a metric", lowest=-1e30)
    if unit in ABSENT:
        if number:
            raise at.wrong(f"a metric {shown(value)} without a unit", valid="both or neither")
        return None
    return PerfMetric(number, unit)


def _add_metric(
    at: Place,
    value: str,
    unit: str,
    counters: list[Counter],
    *,
    interval_s: float | None,
    where: str | None,
) -> None:
    """Give a metric that stands on its own line to the counter before it."""
    last = counters[-1] if counters else None
    if last is None or (last.interval_s, last.where) != (interval_s, where):
        raise at.wrong("a metric alone", valid="a metric behind its counter")
    metric = _metric(at, value, unit)
    if metric is not None:
        counters[-1] = replace(last, metrics=(*last.metrics, metric))


_PLACES = ("cpu", "thread", "core", "cluster", "cache", "die", "socket", "node", "cgroup")


def _take_json(at: Place, line: str, counters: list[Counter]) -> None:
    """Add the counter of a JSON line, or a metric alone to the last counter."""
    fields = _json_fields(at, line)

    def text(*names: str) -> str | None:
        found = [fields[name] for name in names if fields.get(name) is not None]
        if len(found) > 1:
            raise at.wrong(f"{' and '.join(names)} together", valid="one of them")
        return found[0] if found else None

    interval = text("interval", "timestamp")
    interval_s = None if interval is None else at.decimal(interval, "the interval")
    cpu = text("cpu")
    where = text(*_PLACES) if cpu is None or not cpu.isdecimal() else f"CPU{cpu}"
    value, event = text("counter-value"), text("event")
    metric_value, metric_unit = text("metric-value"), text("metric-unit")
    if (metric_value is None) != (metric_unit is None):
        raise at.wrong("a metric's value or unit alone", valid="both or neither")
    if value is None and event is None and metric_value is not None and metric_unit is not None:
        _add_metric(at, metric_value, metric_unit, counters, interval_s=interval_s, where=where)
        return
    run, running = text("event-runtime", "runtime"), text("pcnt-running")
    if value is None or not event or run is None or running is None:
        raise at.wrong(
            shown(line), valid="an object with counter-value, event, event-runtime, pcnt-running"
        )
    variance = text("variance")
    metric = None
    if metric_value is not None and metric_unit is not None:
        metric = _metric(at, metric_value, metric_unit)
    unit = text("unit") or ""
    counters.append(
        Counter(
            event=event,
            value=None if value in _NOT_COUNTED else at.decimal(value, event),
            absent=value if value in _NOT_COUNTED else None,
            unit="" if unit in ABSENT else unit,
            run_ns=at.count(run, "event-runtime"),
            running_fraction=at.fraction_of_percent(running, "pcnt-running"),
            variance_fraction=None if variance is None else _variance(at, variance),
            interval_s=interval_s,
            where=where,
            metrics=() if metric is None else (metric,),
        )
    )


def _json_fields(at: Place, line: str) -> dict[str, str]:
    """The fields of a line as text, numbers as they are written.

    perf leaves a comma before the closing brace in some versions.
    """

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise at.wrong("a key given twice", valid="each key once")
        return dict(pairs)

    try:
        found = json.loads(
            re.sub(r",\s*\}$", "}", line.rstrip()),
            object_pairs_hook=unique,
            parse_int=str,
            parse_float=str,
            parse_constant=str,
        )
    except InputError:
        raise
    except (ValueError, RecursionError):
        raise at.wrong(shown(line), valid="one JSON object") from None
    if not isinstance(found, dict) or not all(isinstance(item, str) for item in found.values()):
        raise at.wrong(shown(line), valid="a JSON object of texts and numbers")
    return found
