"""What redis-benchmark, valkey-benchmark (CSV) and memtier_benchmark (JSON) print."""

import json
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator

from forecache.hwprofiles.files import parse
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError

from .lines import Place, numbered, shown

# --- redis-benchmark and valkey-benchmark ---------------------------------------------------------

# What redis-benchmark and valkey-benchmark print with `--csv`.
#
# The layouts are those of Redis 2.6 to 7 and Valkey 7.2 to 9; latencies are told from version 6.2
# on. Progress, which a carriage return overwrites, is skipped.


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
        results.append(_checked_result(found, place))
    if not results:
        raise Place(file, 0).wrong("no result", valid='a line such as "GET","74239.05"')
    return results


def _checked_result(found: dict[str, Any], place: Place) -> BenchmarkResult:
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


# --- memtier_benchmark ----------------------------------------------------------------------------

# What memtier_benchmark says of a run in its JSON (`--json-out-file`).
#
# Layouts of versions 1.2 to 2; latencies are in milliseconds. Of several runs (`--run-count`) their
# average is read. Where a command had no requests its latencies, printed as 0, are absent.


_AVERAGE = "AGGREGATED AVERAGE RESULTS"
_SECTIONS = ("ALL STATS", _AVERAGE)
_TOTALS = "Totals"
# Averages over runs let parts and whole differ a little; rates are printed with two decimals.
_TOLERANCE = 0.01
_ROUNDING = 0.0051
_PERCENTILE = re.compile(r"p[0-9.]+")


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """One kind of command, or all together; what a version doesn't print is None.

    Attributes
    ----------
    percentiles_ms : dict
        From the percentile (50.0, 99.9) to the latency.
    """

    throughput_rps: float
    requests: int | None = None
    misses_per_s: float | None = None
    mean_ms: float | None = None
    min_ms: float | None = None
    max_ms: float | None = None
    percentiles_ms: dict[float, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MemtierResult:
    """A run: its commands as memtier names them (`Sets`, `Gets`, `Hsets`), and all of them."""

    commands: dict[str, CommandResult]
    totals: CommandResult
    duration_s: float | None = None


def parse_memtier(text: str, *, file: str) -> MemtierResult:
    """Read the JSON of a run.

    Raises
    ------
    InputError
        It is none, a field is missing, damaged or given twice, or parts contradict the totals.
    """
    result = _from_json(text, file)
    parts = result.commands.values()
    whole = Place(file, 0)
    summed_rps = sum(part.throughput_rps for part in parts)
    if _differ(summed_rps, result.totals.throughput_rps, _ROUNDING * (len(parts) + 1)):
        raise whole.wrong(
            f"{summed_rps:g} requests per second of all commands",
            valid=f"{result.totals.throughput_rps:g} as in {_TOTALS}",
        )
    counts = [part.requests for part in parts if part.requests is not None]
    if result.totals.requests is not None and len(counts) == len(parts):
        if _differ(sum(counts), result.totals.requests, len(counts)):
            raise whole.wrong(
                f"{sum(counts)} requests of all commands",
                valid=f"{result.totals.requests} as in {_TOTALS}",
            )
    return result


def _differ(one: float, other: float, rounding: float) -> bool:
    return abs(one - other) > _TOLERANCE * max(one, other) + rounding


class _Reported(Record):
    """A part of the JSON, of which other fields don't matter here."""

    model_config = ConfigDict(extra="ignore")


class _Runtime(_Reported):
    total_ms: float = Field(alias="Total duration", ge=0, le=1e30)
    unit: Literal["MILLISECONDS"] = Field(default="MILLISECONDS", alias="Time unit")


class _Command(_Reported):
    throughput_rps: float = Field(alias="Ops/sec", ge=0, le=1e30)
    requests: int | None = Field(default=None, alias="Count", ge=0)
    misses_per_s: float | None = Field(default=None, alias="Misses/sec", ge=0)
    average_ms: float | None = Field(default=None, alias="Average Latency", ge=0)
    latency_ms: float | None = Field(default=None, alias="Latency", ge=0)
    min_ms: float | None = Field(default=None, alias="Min Latency", ge=0)
    max_ms: float | None = Field(default=None, alias="Max Latency", ge=0)
    percentiles: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default={}, alias="Percentile Latencies"
    )

    @field_validator("percentiles", mode="before")
    @classmethod
    def _without_histogram(cls, found: object) -> object:
        if not isinstance(found, dict):
            return found
        return {name: value for name, value in found.items() if _PERCENTILE.fullmatch(name)}


def _from_json(text: str, file: str) -> MemtierResult:
    try:
        data = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{file}, line {error.lineno}: no JSON ({error.msg}); valid is memtier's JSON."
        ) from None
    except (ValueError, RecursionError) as error:
        raise Place(file, 0).wrong(f"no JSON ({error})", valid="memtier's JSON") from None
    sections = data if isinstance(data, dict) else {}
    section = next((key for name in _SECTIONS for key in sections if key.startswith(name)), None)
    stats = sections.get(section)
    if not isinstance(stats, dict) or _TOTALS not in stats:
        raise Place(file, 0).wrong(
            "no result", valid=f"{' or '.join(_SECTIONS)} with {_TOTALS} in memtier's JSON"
        )
    duration_s = None
    if "Runtime" in stats:
        duration_s = parse(_Runtime, stats["Runtime"], file=f"{file}, Runtime").total_ms / 1e3
    # Beside the commands stand Runtime, and lists with the latency distribution of each.
    commands = {
        name: _command(value, duration_s, Place(f"{file}, {name}", 0))
        for name, value in stats.items()
        if name == _TOTALS or (isinstance(value, dict) and ("Ops/sec" in value or "Count" in value))
    }
    totals = commands.pop(_TOTALS)
    return MemtierResult(commands=commands, totals=totals, duration_s=duration_s)


def _command(data: object, duration_s: float | None, place: Place) -> CommandResult:
    said = parse(_Command, data, file=place.file)
    requests, throughput_rps = said.requests, said.throughput_rps
    if requests is not None and duration_s:
        # The duration is rounded to milliseconds.
        rounding = throughput_rps * 0.001 / duration_s + _ROUNDING
        if _differ(requests / duration_s, throughput_rps, rounding):
            raise place.wrong(
                f"{throughput_rps:g} as Ops/sec", valid=f"{requests} in {duration_s:g} s"
            )
    if not (throughput_rps if requests is None else requests):
        return CommandResult(
            throughput_rps=throughput_rps, requests=requests, misses_per_s=said.misses_per_s
        )
    percentiles_ms = {
        place.decimal(name.removeprefix("p"), "the percentile", highest=100.0): latency_ms
        for name, latency_ms in said.percentiles.items()
    }
    result = CommandResult(
        throughput_rps=throughput_rps,
        requests=requests,
        misses_per_s=said.misses_per_s,
        mean_ms=said.latency_ms if said.average_ms is None else said.average_ms,
        min_ms=said.min_ms,
        max_ms=said.max_ms,
        percentiles_ms=percentiles_ms,
    )
    return _checked_command(result, place)


def _checked_command(result: CommandResult, place: Place) -> CommandResult:
    """The result, if its latencies are in order."""
    by_percentile = [latency for _, latency in sorted(result.percentiles_ms.items())]
    known = [value for value in (result.min_ms, *by_percentile, result.max_ms) if value is not None]
    mean_ms = result.mean_ms
    if any(low > high for low, high in pairwise(known)) or (
        mean_ms is not None
        and not (result.min_ms or 0.0) <= mean_ms <= (result.max_ms or float("inf"))
    ):
        raise place.wrong("latencies out of order", valid="ascending percentiles, mean between")
    return result


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a field is given twice")
    return data


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
