"""What memtier_benchmark says of a run in its JSON (`--json-out-file`).

Layouts of versions 1.2 to 2; latencies are in milliseconds. Of several runs (`--run-count`) their
average is read. Where a command had no requests its latencies, printed as 0, are absent.
"""

import json
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from forecache.sim.errors import InputError

from .lines import Place, shown

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
    return MemtierResult(
        commands=commands,
        totals=_command(stats.below(_TOTALS), duration_s),
        duration_s=duration_s,
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
    result = CommandResult(
        throughput_rps=throughput_rps,
        requests=requests,
        misses_per_s=fields.optional_decimal("Misses/sec"),
        mean_ms=fields.optional_decimal(mean) if has_requests else None,
        min_ms=fields.optional_decimal("Min Latency") if has_requests else None,
        max_ms=fields.optional_decimal("Max Latency") if has_requests else None,
        percentiles_ms=percentiles_ms if has_requests else {},
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
