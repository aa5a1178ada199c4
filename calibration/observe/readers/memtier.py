"""What memtier_benchmark says of a run: its JSON (`--json-out-file`) and its text table.

Layouts of versions 1.2 to 2; latencies are in milliseconds. Of several runs (`--run-count`) their
average is read. Where a command had no requests its latencies, printed as 0 or nan, are absent.
"""

import json
import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import read_text
from forecache.sim.errors import InputError

from .lines import ABSENT, Place, numbered, shown

_AVERAGE = "AGGREGATED AVERAGE RESULTS"
_SECTIONS = ("ALL STATS", _AVERAGE)
_TOTALS = "Totals"
# Averages over runs let parts and whole differ a little; rates are printed with two decimals.
_TOLERANCE = 0.01
_ROUNDING = 0.0051
_PERCENTILE = re.compile(r"p([0-9.]+)")


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """One kind of command, or all together; what a version doesn't print is None.

    Attributes
    ----------
    percentiles_ms : dict
        From the percentile (50.0, 99.9) to the latency.
    requests_by_second : dict
        From the second of the run to its requests; empty in tables and old versions.
    """

    throughput_rps: float
    requests: int | None = None
    hits_per_s: float | None = None
    misses_per_s: float | None = None
    mean_ms: float | None = None
    min_ms: float | None = None
    max_ms: float | None = None
    kb_per_s: float | None = None
    percentiles_ms: dict[float, float] = field(default_factory=dict)
    requests_by_second: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MemtierResult:
    """A run: its commands as memtier names them (`Sets`, `Gets`, `Hsets`), and all of them."""

    commands: dict[str, CommandResult]
    totals: CommandResult
    duration_s: float | None = None
    threads: int | None = None
    clients_per_thread: int | None = None


def read_memtier(path: str | Path) -> MemtierResult:
    """Read a file that memtier_benchmark wrote; see `parse_memtier`."""
    return parse_memtier(read_text(path), file=str(path))


def parse_memtier(text: str, *, file: str) -> MemtierResult:
    """Read the JSON or the text table of a run.

    Raises
    ------
    InputError
        It is neither, a field is missing, damaged or given twice, or parts contradict the totals.
    """
    is_json = text.lstrip().startswith(("{", "["))
    result = _from_json(text, file) if is_json else _from_table(text, file)
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


def _from_json(text: str, file: str) -> MemtierResult:
    try:
        data = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{file}, line {error.lineno}: no JSON ({error.msg}); valid is memtier's JSON."
        ) from None
    except (ValueError, RecursionError) as error:
        raise Place(file, 0).wrong(f"no JSON ({error})", valid="memtier's JSON") from None
    root = _Fields(data, file, "")
    section = next((key for name in _SECTIONS for key in root.data if key.startswith(name)), None)
    stats = root.below(section or _SECTIONS[0])
    runtime = stats.below("Runtime") if "Runtime" in stats.data else None
    duration_s = None
    if runtime is not None:
        if (unit := runtime.data.get("Time unit", "MILLISECONDS")) != "MILLISECONDS":
            raise runtime.wrong("Time unit", unit, "MILLISECONDS")
        duration_s = runtime.decimal("Total duration") / 1e3
    # Beside the commands stand Runtime, and lists with the latency distribution of each.
    commands = {
        name: _command(stats.below(name), duration_s)
        for name, value in stats.data.items()
        if isinstance(value, dict) and name != _TOTALS and ("Ops/sec" in value or "Count" in value)
    }
    run = root.below("run information") if "run information" in root.data else None
    return MemtierResult(
        commands=commands,
        totals=_command(stats.below(_TOTALS), duration_s),
        duration_s=duration_s,
        threads=run.optional_count("Threads") if run else None,
        clients_per_thread=run.optional_count("Connections per thread") if run else None,
    )


def _command(fields: "_Fields", duration_s: float | None) -> CommandResult:
    throughput_rps = fields.decimal("Ops/sec")
    requests = fields.optional_count("Count")
    if requests is not None and duration_s:
        # The duration is rounded to milliseconds.
        rounding = throughput_rps * 0.001 / duration_s + _ROUNDING
        if _differ(requests / duration_s, throughput_rps, rounding):
            raise fields.wrong("Ops/sec", throughput_rps, f"{requests} in {duration_s:g} s")
    has_requests = throughput_rps > 0 if requests is None else requests > 0
    mean = "Average Latency" if "Average Latency" in fields.data else "Latency"
    percentiles_ms: dict[float, float] = {}
    if "Percentile Latencies" in fields.data:
        percentiles = fields.below("Percentile Latencies")
        for name in percentiles.data:
            if found := _PERCENTILE.fullmatch(name):
                percent = percentiles.place.decimal(found[1], "the percentile", highest=100.0)
                if percent in percentiles_ms:
                    raise percentiles.wrong(name, percentiles.data[name], "one of each percentile")
                percentiles_ms[percent] = percentiles.decimal(name)
    seconds = fields.below("Time-Serie") if "Time-Serie" in fields.data else None
    result = CommandResult(
        throughput_rps=throughput_rps,
        requests=requests,
        hits_per_s=fields.optional_decimal("Hits/sec"),
        misses_per_s=fields.optional_decimal("Misses/sec"),
        mean_ms=fields.optional_decimal(mean) if has_requests else None,
        min_ms=fields.optional_decimal("Min Latency") if has_requests else None,
        max_ms=fields.optional_decimal("Max Latency") if has_requests else None,
        kb_per_s=fields.optional_decimal("KB/sec"),
        percentiles_ms=percentiles_ms if has_requests else {},
        requests_by_second={
            fields.place.count(second, "the second"): seconds.below(second).count("Count")
            for second in seconds.data
        }
        if seconds
        else {},
    )
    return _checked(result, fields.place)


def _checked(result: CommandResult, place: Place) -> CommandResult:
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


class _Fields:
    """A mapping inside the JSON, and the way to it, for errors."""

    def __init__(self, data: Any, file: str, way: str) -> None:
        self.place = Place(f"{file}, {way}" if way else file, 0)
        if not isinstance(data, dict):
            raise self.place.wrong(shown(repr(data)), valid="a mapping of fields")
        self.data: dict[str, Any] = data
        self._file = file
        self._way = way

    def wrong(self, name: str, found: object, valid: str) -> InputError:
        """The error for a field."""
        return self.place.wrong(f"{shown(repr(found))} as '{name}'", valid=valid)

    def _get(self, name: str) -> Any:
        if name not in self.data:
            raise InputError(
                f"{self._file}: field '{name}' is missing from memtier's result"
                f"{f' under {self._way}' if self._way else ''}; valid is the whole result."
            )
        return self.data[name]

    def below(self, name: str) -> "_Fields":
        """A mapping in this one."""
        return _Fields(self._get(name), self._file, f"{self._way}/{name}" if self._way else name)

    def decimal(self, name: str) -> float:
        """A field that is a number, not negative."""
        value = self._get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1e30:
            raise self.wrong(name, value, "a number from 0 to 1e30")
        return float(value)

    def optional_decimal(self, name: str) -> float | None:
        """A number, or None when there is no such field."""
        return self.decimal(name) if name in self.data else None

    def count(self, name: str) -> int:
        """A field that is a whole number, not negative."""
        value = self._get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**64:
            raise self.wrong(name, value, "a whole number from 0 to 2**64")
        return value

    def optional_count(self, name: str) -> int | None:
        """A whole number, or None when there is no such field."""
        return self.count(name) if name in self.data else None


_COLUMN = re.compile(r"Type|\S+/sec(?: (?:RX/TX|RX|TX))?|Avg\. Latency|p[0-9.]+ Latency|Latency")
_RUN = re.compile(r"([0-9]+)\s+(Threads|Connections per thread)")
_COLUMNS = {
    "Ops/sec": "throughput_rps",
    "Hits/sec": "hits_per_s",
    "Misses/sec": "misses_per_s",
    "Avg. Latency": "mean_ms",
    "Latency": "mean_ms",
    "KB/sec": "kb_per_s",
}
_RUN_FIELDS = {"Threads": "threads", "Connections per thread": "clients_per_thread"}


def _from_table(text: str, file: str) -> MemtierResult:
    run: dict[str, int] = {}
    rows: dict[str, CommandResult] = {}
    columns: list[str] | None = None
    heading = ""
    for place, line in numbered(text, file=file):
        words = line.split()
        if found := _RUN.fullmatch(line.strip()):
            run[_RUN_FIELDS[found[2]]] = place.count(found[1], found[2])
        elif line.strip().startswith(("ALL STATS", _AVERAGE, "BEST RUN", "WORST RUN", "RUN #")):
            heading = line.strip()
        elif words[:2] == ["Type", "Ops/sec"] and heading.startswith(_SECTIONS):
            columns = _COLUMN.findall(line)
            if rows or _COLUMN.sub("", line).strip() or len(set(columns)) < len(columns):
                raise place.wrong(shown(line), valid="one table with memtier's columns")
        elif columns and words and not line.startswith("-"):
            name, result = _row(columns, words, place)
            if name in rows:
                raise place.wrong(f"{shown(name)} for a second time", valid="each command once")
            rows[name] = result
            if name == _TOTALS:
                columns = None
    if _TOTALS not in rows:
        raise Place(file, 0).wrong(
            "no result", valid="memtier's JSON, or its table ALL STATS down to Totals"
        )
    totals = rows.pop(_TOTALS)
    return MemtierResult(commands=rows, totals=totals, **run)


def _row(columns: list[str], words: list[str], place: Place) -> tuple[str, CommandResult]:
    if len(words) != len(columns):
        raise place.wrong(f"{len(words)} columns", valid=f"{len(columns)} as in the header")
    values: dict[str, Any] = {}
    percentiles_ms: dict[float, float] = {}
    for column, word in zip(columns[1:], words[1:], strict=True):
        if word in ABSENT or word in ("nan", "-nan"):
            continue
        value = place.decimal(word, column)
        if found := _PERCENTILE.match(column):
            percent = place.decimal(found[1], "the percentile", highest=100.0)
            if percent in percentiles_ms:
                raise place.wrong(f"{shown(column)} again", valid="one of each percentile")
            percentiles_ms[percent] = value
        elif column in _COLUMNS:
            values[_COLUMNS[column]] = value
    if "throughput_rps" not in values:
        raise place.wrong("no Ops/sec", valid="a number in every row")
    if values["throughput_rps"] == 0.0:
        values.pop("mean_ms", None)
        percentiles_ms = {}
    return words[0], _checked(CommandResult(**values, percentiles_ms=percentiles_ms), place)
