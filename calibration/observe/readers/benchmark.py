"""What redis-benchmark and valkey-benchmark print with `--csv`.

The layouts are those of Redis 2.6 to 7 and Valkey 7.2 to 9; latencies are told from version 6.2 on.
Progress, which a carriage return overwrites, is skipped.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .lines import Place, numbered, shown

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
_CSV_NUMBER = re.compile(r"[-+0-9.eE]+|-?nan|-?inf")
_VALID_CSV = 'a test name and numbers, all quoted, such as "GET","74239.05"'


@dataclass(frozen=True, kw_only=True)
class BenchmarkResult:
    """One test of a run; what the tool didn't print is None.

    Attributes
    ----------
    test : str
        As the tool titles it: `GET`, or the whole command line.
    """

    test: str
    throughput_rps: float
    mean_ms: float | None = None
    min_ms: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None


def parse_benchmark(text: str, *, file: str) -> list[BenchmarkResult]:
    """Read what a benchmark printed, one result per test in the order of the text.

    Raises
    ------
    InputError
        No result, or a damaged or contradictory one.
    """
    results = []
    columns: list[str] | None = None
    for place, whole_line in numbered(text, file=file):
        line = whole_line.rsplit("\r", 1)[-1]
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
    if not results:
        raise Place(file, 0).wrong("no result", valid='a line such as "GET","74239.05"')
    return results


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
    return result
