"""What redis-benchmark and valkey-benchmark print: `--csv`, the text report, and `-q`.

The layouts are those of Redis 2.6 to 7 and Valkey 7.2 to 9; CSV and `-q` tell latencies from
version 6.2 on. Progress, which a carriage return overwrites, is skipped.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import read_text

from .lines import Place, numbered, shown

# Columns of the CSV, and of the text report's summary, which leaves the first two out.
_COLUMNS = {
    "test": "test",
    "rps": "throughput_rps",
    "avg_latency_ms": "mean_ms",
    "min_latency_ms": "min_ms",
    "p50_latency_ms": "p50_ms",
    "p95_latency_ms": "p95_ms",
    "p99_latency_ms": "p99_ms",
    "max_latency_ms": "max_ms",
}
_SUMMARY = {name.removesuffix("_latency_ms"): field for name, field in _COLUMNS.items()}
_QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
_CSV_NUMBER = re.compile(r"[-+0-9.eE]+|-?nan|-?inf")
_VALID_CSV = 'a test name and numbers, all quoted, such as "GET","74239.05"'

_TITLE = re.compile(r"====== (.+) ======")
_QUIET = re.compile(r"(.+): (\S+) requests per second(?:, p50=(\S+) msec)?")
_COMPLETED = re.compile(r"  (\S+) requests completed in (\S+) seconds")
_SETTINGS = {
    "clients": re.compile(r"  (\S+) parallel clients"),
    "payload_bytes": re.compile(r"  (\S+) bytes payload"),
    "threads": re.compile(r"  threads: (\S+)"),
}
_SHARE = re.compile(r"(\S+)% <= (\S+) milliseconds(?: \(cumulative count (\S+)\))?")
_RATE = re.compile(r"(?:  throughput summary: )?(\S+) requests per second")
_BY_PERCENTILE = "Latency by percentile distribution:"
_CUMULATIVE = "Cumulative distribution of latencies:"
_HEADINGS = {"Summary:", "  latency summary (msec):"}
_PROGRESS = re.compile(r".*: rps=.* \(overall: .*")
# A rate and a duration are printed with two decimals, a share with three or fewer.
_ROUNDING = 0.0051
_SHARE_ROUNDING = 0.00051
# With fewer requests the tool's own ways to round a rank may differ by a visible step.
_FEWEST_FOR_QUANTILES = 1000


@dataclass(frozen=True, slots=True)
class Share:
    """Share of the requests that took at most this long; old versions don't print the count."""

    fraction: float
    latency_ms: float
    count: int | None


@dataclass(frozen=True, kw_only=True)
class BenchmarkResult:
    """One test of a run; what the tool didn't print is None.

    Attributes
    ----------
    test : str
        As the tool titles it: `GET`, or the whole command line.
    threads : int, optional
        Of the tool; None for its single-threaded mode too.
    shares : tuple of Share
        The distribution by percentile, or the only one that old versions print.
    """

    test: str
    throughput_rps: float
    requests: int | None = None
    duration_s: float | None = None
    clients: int | None = None
    payload_bytes: int | None = None
    threads: int | None = None
    mean_ms: float | None = None
    min_ms: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    shares: tuple[Share, ...] = ()


def read_benchmark(path: str | Path) -> list[BenchmarkResult]:
    """Read everything a benchmark printed into a file; see `parse_benchmark`."""
    return parse_benchmark(read_text(path), file=str(path))


def parse_benchmark(text: str, *, file: str) -> list[BenchmarkResult]:
    """Read what a benchmark printed, one result per test in the order of the text.

    Raises
    ------
    InputError
        No result, a damaged or contradictory one, or a report that is cut short.
    """
    lines = [(place, line.rsplit("\r", 1)[-1]) for place, line in numbered(text, file=file)]
    is_csv = any(line.startswith('"') for _, line in lines)
    results = _parse_csv(lines) if is_csv else _parse_report(lines)
    if not results:
        raise Place(file, 0).wrong(
            "no result", valid='a line such as "GET","74239.05" or a report ====== GET ======'
        )
    return results


def _parse_csv(lines: Iterable[tuple[Place, str]]) -> list[BenchmarkResult]:
    results = []
    columns: list[str] | None = None
    for place, line in lines:
        if '"' not in line:
            continue  # remarks, about a cluster for one
        if not (len(line) > 2 and line.startswith('"') and line.endswith('"')):
            raise place.wrong(shown(line), valid=_VALID_CSV)
        cells = line[1:-1].split('","')
        if cells[:2] == ["test", "rps"]:
            columns = cells
            if len(set(columns)) < len(columns):
                raise place.wrong(shown(line), valid="a header that names each column once")
            continue
        # Titles aren't escaped and may hold quotes and commas, so numbers are counted from the end.
        n_numbers = 0
        while n_numbers < len(cells) - 1 and _CSV_NUMBER.fullmatch(cells[-1 - n_numbers]):
            n_numbers += 1
        names = columns or list(_COLUMNS)[: 2 if n_numbers == 1 else None]
        if n_numbers != len(names) - 1:
            raise place.wrong(f"{shown(line)} with {n_numbers} numbers", valid=_VALID_CSV)
        found: dict[str, Any] = {"test": '","'.join(cells[: -len(names) + 1])}
        for name, cell in zip(names[1:], cells[-len(names) + 1 :], strict=True):
            if name in _COLUMNS:
                found[_COLUMNS[name]] = place.decimal(cell, name)
        results.append(_checked(found, place))
    return results


def _parse_report(lines: Iterable[tuple[Place, str]]) -> list[BenchmarkResult]:
    results = []
    report: _Report | None = None
    for place, line in lines:
        line = line.rstrip()
        if not line or _PROGRESS.fullmatch(line):
            continue
        title, quiet = _TITLE.fullmatch(line), _QUIET.fullmatch(line)
        if report is not None and (title or report.is_complete):
            results.append(report.result())
            report = None
        if title:
            report = _Report(place, title[1])
        elif report is not None:
            report.take(place, line)
        elif quiet:
            found = {"test": quiet[1], "throughput_rps": place.decimal(quiet[2], "the rate")}
            if quiet[3]:
                found["p50_ms"] = place.decimal(quiet[3], "p50")
            results.append(_checked(found, place))
        elif any(p.fullmatch(line) for p in (_COMPLETED, _SHARE, _RATE, *_SETTINGS.values())):
            raise place.wrong(shown(line), valid="====== TEST ====== before it")
    if report is not None:
        results.append(report.result())
    return results


class _Report:
    """The text report of one test, taken line by line."""

    def __init__(self, place: Place, test: str) -> None:
        self._place = place
        self._found: dict[str, Any] = {"test": test}
        self._shares: dict[str | None, list[Share]] = {}
        self._distribution: str | None = None
        self._summary: list[str] | None = None

    @property
    def is_complete(self) -> bool:
        """The new layout ends with the latencies, the old one with the rate."""
        last = "mean_ms" if _BY_PERCENTILE in self._shares else "throughput_rps"
        return last in self._found

    def take(self, place: Place, line: str) -> None:
        """One line that isn't empty."""
        if found := _COMPLETED.fullmatch(line):
            self._set(place, "requests", place.count(found[1], "the requests", lowest=1))
            self._set(place, "duration_s", place.decimal(found[2], "the duration"))
        elif found := _SHARE.fullmatch(line):
            self._take_share(place, found)
        elif found := _RATE.fullmatch(line):
            self._set(place, "throughput_rps", place.decimal(found[1], "the rate"))
        elif line in (_BY_PERCENTILE, _CUMULATIVE):
            if line in self._shares:
                raise place.wrong(f"a second {shown(line)}", valid="one in a report")
            self._distribution = line
            self._shares[line] = []
        elif set(words := line.split()) == set(list(_SUMMARY)[2:]):
            self._summary = words
        elif self._summary is not None:
            if len(words) != len(self._summary):
                raise place.wrong(shown(line), valid=f"numbers for {' '.join(self._summary)}")
            for name, word in zip(self._summary, words, strict=True):
                self._set(place, _SUMMARY[name], place.decimal(word, name))
            self._summary = None
        elif not self._take_setting(place, line) and line not in _HEADINGS:
            raise place.wrong(shown(line), valid="a line of a benchmark's report")

    def result(self) -> BenchmarkResult:
        """What the report says, if it is whole and doesn't contradict itself."""
        if not self.is_complete or not {"requests", "throughput_rps"} <= self._found.keys():
            raise self._place.wrong("a report that is cut short", valid="one up to its summary")
        by_percentile = next(iter(self._shares.values()), [])
        for shares in self._shares.values():
            if not shares or shares[-1].fraction != 1.0:
                raise self._place.wrong(
                    "a distribution that is cut short", valid="one that ends with 100%"
                )
            self._check_counts(shares, exactly=shares is self._shares.get(_CUMULATIVE))
        requests, duration_s = self._found["requests"], self._found["duration_s"]
        rate = self._found["throughput_rps"]
        # The rate has 24 bits, and a duration, before it is printed, is whole milliseconds.
        if abs(requests - rate * duration_s) > (_ROUNDING + 1e-6 * duration_s) * rate + 1e-6:
            raise self._place.wrong(
                f"{rate:g} requests per second for {requests} in {duration_s:g} s",
                valid="their quotient",
            )
        self._found["shares"] = tuple(by_percentile)
        return _checked(self._found, self._place)

    def _check_counts(self, shares: list[Share], *, exactly: bool) -> None:
        """Shares are counts over their total; by percentile they may also be less than that.

        Where a pipeline doesn't divide the requests, some are made that no distribution has.
        """
        total = shares[-1].count
        if total is None:
            return
        totals = {rows[-1].count for rows in self._shares.values() if rows}
        if not 0 < total <= self._found["requests"] or len(totals) > 1:
            raise self._place.wrong(
                f"a distribution of {total} of {self._found['requests']} requests",
                valid="as many in both, and at most all",
            )
        for share in shares:
            more = 100.0 * (share.fraction - (share.count or 0) / total)
            if more > _SHARE_ROUNDING or (exactly and -more > _SHARE_ROUNDING):
                raise self._place.wrong(
                    f"{100.0 * share.fraction:.3f}% for {share.count} of {total}",
                    valid="their quotient",
                )

    def _set(self, place: Place, name: str, value: float) -> None:
        if name in self._found:
            raise place.wrong(f"{name} for a second time", valid="one in a report")
        self._found[name] = value

    def _take_setting(self, place: Place, line: str) -> bool:
        """A setting is indented and comes before the distribution; many say nothing to us."""
        if self._shares or "throughput_rps" in self._found:
            return False
        for name, pattern in _SETTINGS.items():
            if found := pattern.fullmatch(line):
                self._set(place, name, place.count(found[1], name))
        return line.startswith("  ")

    def _take_share(self, place: Place, found: re.Match[str]) -> None:
        shares = self._shares.setdefault(self._distribution, [])
        before = shares[-1] if shares else Share(0.0, 0.0, 0)
        fraction = place.fraction_of_percent(found[1], "the share")
        latency_ms = place.decimal(found[2], "the latency", lowest=before.latency_ms)
        count = None
        if found[3] is not None:
            count = place.count(found[3], "the count", lowest=before.count or 0)
        if fraction < before.fraction or (count is None) != (self._distribution is None):
            raise place.wrong(shown(found[0]), valid="shares that ascend, with counts or without")
        shares.append(Share(fraction, latency_ms, count))


def _checked(found: dict[str, Any], place: Place) -> BenchmarkResult:
    """The result, if its rate is one and its latencies are in order."""
    result = BenchmarkResult(**found)
    if result.throughput_rps <= 0:
        raise place.wrong(f"{result.throughput_rps:g} requests per second", valid="some")
    quantiles = (result.min_ms, result.p50_ms, result.p95_ms, result.p99_ms, result.max_ms)
    known = [value for value in quantiles if value is not None]
    if any(low > high for low, high in pairwise(known)) or (
        known and result.mean_ms is not None and not known[0] <= result.mean_ms <= known[-1]
    ):
        raise place.wrong(
            "latencies out of order", valid="min, p50, p95, p99, max ascending, avg between"
        )
    if result.shares and (result.requests or 0) >= _FEWEST_FOR_QUANTILES:
        for name, q in _QUANTILES.items():
            value = getattr(result, name)
            at = bisect_left(result.shares, q - 1e-9, key=lambda share: share.fraction)
            low = result.shares[at if result.shares[at].fraction <= q else max(at - 1, 0)]
            if value is not None and not low.latency_ms <= value <= result.shares[at].latency_ms:
                raise place.wrong(f"{name} {value:g}", valid="as in the distribution")
    return result
