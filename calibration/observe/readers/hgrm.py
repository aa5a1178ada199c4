"""Percentile tables of HdrHistogram (`.hgrm`), as many tools print them."""

import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import ceil, sqrt
from pathlib import Path

from forecache.hwprofiles.files import read_text, write_text_atomic

from .hdr import HdrHistogram
from .lines import Place, numbered, shown

_HEADER = ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
_MEAN = re.compile(r"\s*#\[Mean\s*=\s*(\S+?),\s*StdDeviation\s*=\s*(\S+?)\]\s*")
_COUNT = re.compile(r"\s*#\[Max\s*=\s*(\S+?),\s*Total count\s*=\s*(\S+?)\]\s*")
# Values are printed with three decimals, percentiles with six, inverses with two.
_VALUE_ROUNDING = 0.00051
_FRACTION_ROUNDING = 0.51e-6
_INVERSE_ROUNDING = 0.0051
_STEPS_PER_HALVING = 5


@dataclass(frozen=True, slots=True)
class PercentileRow:
    """So many values are at most `value`; they are the share `fraction` or a little more."""

    value: float
    fraction: float
    count: int


@dataclass(frozen=True)
class PercentileTable:
    """A distribution by its percentiles, in the unit of the file, which it doesn't name."""

    rows: tuple[PercentileRow, ...]
    mean: float

    @property
    def count(self) -> int:
        """How many values there are."""
        return self.rows[-1].count

    def quantile(self, q: float) -> float:
        """The q-quantile (nearest rank), or the next value in the table above it."""
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"a quantile lies between 0 and 1, not {q}")
        rank = max(1, ceil(q * self.count))
        return self.rows[bisect_left(self.rows, rank, key=lambda row: row.count)].value


def read_hgrm(path: str | Path) -> PercentileTable:
    """Read a percentile table; see `parse_hgrm`."""
    return parse_hgrm(read_text(path), file=str(path))


def parse_hgrm(text: str, *, file: str) -> PercentileTable:
    """Read the text of a percentile table; lines before its header are skipped.

    Raises
    ------
    InputError
        A line is no row, rows contradict each other or the mean and the number of values below
        them, or these are missing (the file is cut).
    """
    rows: list[PercentileRow] = []
    mean: float | None = None
    count: int | None = None
    started = False
    for place, line in numbered(text, file=file):
        started = started or line.split() == _HEADER
        if not started or not line.strip() or line.split() == _HEADER:
            continue
        if found := _MEAN.fullmatch(line):
            mean = place.decimal(found[1], "the mean")
        elif found := _COUNT.fullmatch(line):
            count = place.count(found[2], "the number of values")
        elif not line.lstrip().startswith("#"):
            if mean is not None or count is not None:
                raise place.wrong(shown(line), valid="one table in a file")
            rows.append(_row(line, rows[-1] if rows else None, place))
    whole = Place(file, 0)
    if not rows or mean is None or count is None:
        raise whole.wrong(
            f"{len(rows)} rows, {'no' if mean is None else 'a'} mean and "
            f"{'no' if count is None else 'a'} number of values",
            valid=f"a table {' '.join(_HEADER)} and its #[...] lines",
        )
    if rows[-1].count != count or rows[-1].fraction != 1.0:
        raise whole.wrong(
            f"{rows[-1].count} values up to the percentile {rows[-1].fraction:g}",
            valid=f"all {count} of the last line",
        )
    _check_mean(rows, mean, whole)
    return PercentileTable(tuple(rows), mean)


def _row(line: str, before: PercentileRow | None, place: Place) -> PercentileRow:
    fields = line.split()
    # Old versions print no inverse in the last row, where it is infinite.
    if not 3 <= len(fields) <= 4:
        raise place.wrong(shown(line), valid="value, percentile, count, 1/(1-percentile)")
    value = place.decimal(fields[0], "the value", lowest=before.value if before else 0.0)
    fraction = place.decimal(
        fields[1], "the percentile", lowest=before.fraction if before else 0.0, highest=1.0
    )
    count = place.count(fields[2], "the count", lowest=before.count if before else 1)
    if len(fields) == 4 and fields[3].lower() not in ("inf", "infinity"):
        inverse = place.decimal(fields[3], "1/(1-percentile)", lowest=1.0)
        # 1/inverse is 1 - fraction, to the roundings of both.
        apart = abs(1.0 - fraction - 1.0 / inverse)
        if apart > _FRACTION_ROUNDING + _INVERSE_ROUNDING / inverse**2:
            raise place.wrong(f"{fields[3]} beside {fields[1]}", valid="1/(1-percentile)")
    elif fraction < 1.0 - _FRACTION_ROUNDING:
        raise place.wrong(f"no 1/(1-percentile) beside {fields[1]}", valid="one beside each")
    return PercentileRow(value, fraction, count)


def _check_mean(rows: list[PercentileRow], mean: float, whole: Place) -> None:
    """What a row adds lies above the value of the row before it, up to its own."""
    steps = [PercentileRow(0.0, 0.0, 0), *rows]
    added = [(low.value, high.value, high.count - low.count) for low, high in pairwise(steps)]
    count = rows[-1].count
    lowest = sum(low * n for low, _, n in added) / count - 2 * _VALUE_ROUNDING
    highest = sum(high * n for _, high, n in added) / count + 2 * _VALUE_ROUNDING
    if not lowest <= mean <= highest:
        raise whole.wrong(
            f"the mean {mean:g}", valid=f"one from {lowest:.3f} to {highest:.3f}, as the rows say"
        )


def write_hgrm(path: str | Path, histogram: HdrHistogram, *, values_per_unit: int) -> None:
    """Write a percentile table of a histogram that isn't empty, five rows per halving of the rest.

    Values are divided by `values_per_unit`; 1,000 shows microseconds in milliseconds.
    """
    mean, count = histogram.mean, histogram.count
    if mean is None:
        raise ValueError("an empty histogram has no percentiles")
    buckets = list(histogram.buckets())
    up_to = list(accumulate(bucket.count for bucket in buckets))
    lines = [" ".join(f"{name:>15}" for name in _HEADER), ""]
    for halvings in range(count.bit_length()):
        for step in range(_STEPS_PER_HALVING):
            rest = 0.5**halvings * (1.0 - step / (2 * _STEPS_PER_HALVING))
            at = bisect_left(up_to, max(1, ceil((1.0 - rest) * count)))
            value = buckets[at].high / values_per_unit
            lines.append(f"{value:15.3f} {1.0 - rest:15.6f} {up_to[at]:15d} {1.0 / rest:15.2f}")
    squares = sum(b.count * (b.middle - mean) ** 2 for b in buckets)
    maximum = buckets[-1].high / values_per_unit
    lines += [
        f"{maximum:15.3f} {1.0:15.6f} {count:15d} {'inf':>15}",
        f"#[Mean    = {mean / values_per_unit:12.3f}, "
        f"StdDeviation   = {sqrt(squares / count) / values_per_unit:12.3f}]",
        f"#[Max     = {maximum:12.3f}, Total count    = {count:12d}]",
    ]
    write_text_atomic(path, "\n".join(lines) + "\n")
