"""Counters that `perf stat -x ';'` prints of a whole run.

Layout: man perf-stat, "CSV FORMAT", and the output of perf 6.1. What perf derives from a counter
(`0.523;CPUs utilized`, behind it or on a line of its own) is checked and left out.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from forecache.hwprofiles.files import read_text

from .lines import ABSENT, Place, numbered, shown

SEPARATOR = ";"
"""For `-x`: names of events hold commas."""

_VALID = (
    "value;unit;event;run-time;share[;metric;unit], as `perf stat -x ';'` prints a counter, or the "
    "metric alone behind its counter"
)
_NOT_COUNTED = ("<not supported>", "<not counted>")
_VALUE = re.compile(r"[0-9]+(\.[0-9]+)?|<not supported>|<not counted>")
_RUNNING = re.compile(r"(?:100|[1-9]?[0-9])\.[0-9]{2}")
# A derived value that has none: the denominator of a ratio was zero.
_NO_METRIC = ABSENT | {"nan", "-nan", "inf", "-inf"}


@dataclass(frozen=True, kw_only=True)
class Counter:
    """One counter.

    Attributes
    ----------
    value : float, optional
        As perf prints it: already scaled up where the counter was multiplexed. None when absent.
    absent : str, optional
        Why there is no value: `<not supported>` or `<not counted>`.
    unit : str
        Unit of the value, `msec` for one; empty for a plain count.
    run_ns : int
        How long the event was counted.
    running_fraction : float
        Share of the time the counter was scheduled, 0 to 1; below 1 the value is extrapolated.
    """

    event: str
    value: float | None
    absent: str | None
    unit: str
    run_ns: int
    running_fraction: float


def read_perf_stat(path: str | Path) -> list[Counter]:
    """Counters of a file that `perf stat -x ';' -o FILE` wrote.

    Raises
    ------
    InputError
        As `parse_perf_stat`, or the file can't be read.
    """
    return parse_perf_stat(read_text(path), file=str(path))


def parse_perf_stat(text: str, *, file: str) -> list[Counter]:
    """Counters in the order of the text.

    Raises
    ------
    InputError
        A line that is neither a comment nor a counter, or there is no counter at all.
    """
    counters: list[Counter] = []
    for at, line in numbered(text, file=file):
        fields = [field.strip() for field in line.split(SEPARATOR)]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if counters and len(fields) >= 6 and not any(fields[:-2]) and fields[-1]:
            _check_metric(at, line, fields[-2], fields[-1])
        else:
            counters.append(_counter(at, line, fields))
    if not counters:
        raise Place(file, 0).wrong("no counter", valid="output of `perf stat -x ';'`")
    return counters


def _counter(at: Place, line: str, fields: list[str]) -> Counter:
    """The counter of a line."""
    if len(fields) not in (5, 7) or not fields[2] or not _VALUE.fullmatch(fields[0]):
        raise at.wrong(shown(line), valid=_VALID)
    value, unit, event, run, share, *metric = fields
    if not _RUNNING.fullmatch(share) or any(map(_VALUE.fullmatch, (unit, event))):
        raise at.wrong(shown(line), valid=_VALID)
    if metric:
        _check_metric(at, line, *metric)
    return Counter(
        event=event,
        value=None if value in _NOT_COUNTED else at.decimal(value, event),
        absent=value if value in _NOT_COUNTED else None,
        unit=unit,
        run_ns=at.count(run, "the run time"),
        running_fraction=at.fraction_of_percent(share, "the share of time"),
    )


def _check_metric(at: Place, line: str, value: str, unit: str) -> None:
    """What perf derives has a value and a unit, or neither."""
    if value not in _NO_METRIC and at.decimal(value, "a metric", lowest=-1e30) and unit in ABSENT:
        raise at.wrong(shown(line), valid=_VALID)
