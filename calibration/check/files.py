"""The files a user may give: what tools print, INFO before and after, or plain numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import parse, read_text, read_yaml
from forecache.models.scenario.schema import Scenario
from forecache.sim.errors import InputError

from ..observe.readers.benchmark import BenchmarkResult, parse_benchmark
from ..observe.readers.lines import Place, shown_value
from ..observe.readers.memtier import parse_memtier
from .measured import Measured, MeasuredFields, measured_between, measured_from, together

_MEMTIER = ('"ALL STATS"', '"AGGREGATED')
_MEMTIER_LATENCIES = {50.0: "p50_ms", 90.0: "p90_ms", 99.0: "p99_ms", 99.9: "p999_ms"}


def read_measured(
    files: Sequence[str | Path],
    scenario: Scenario,
    *,
    info: tuple[str | Path, str | Path] | None = None,
) -> Measured:
    """What files say about one point, several files being repetitions of it.

    Parameters
    ----------
    scenario
        Whose commands are looked for where a tool tells each apart.
    info
        Files with the text of INFO before and after.
    """
    parts = [_read(path, scenario) for path in files]
    if info is not None:
        rate = together(parts).value("throughput_rps") if parts else None
        texts = [read_text(path) for path in info]
        names = str(info[0]), str(info[1])
        between = measured_between(texts[0], texts[1], files=names, throughput_rps=rate)
        parts.append(_without_shared(between, parts))
    if not parts:
        raise InputError("found no measurement; valid is a file, INFO before and after, or --run.")
    return together(parts)


def _without_shared(info: Measured, others: Sequence[Measured]) -> Measured:
    """INFO's numbers but for those that a file gives itself, which go first."""
    values = {n: v for n, v in info.values.items() if not any(n in o.values for o in others)}
    given = {path for other in others for path in other.conditions}
    conditions = {path: v for path, v in info.conditions.items() if path not in given}
    bandwidth = info.network_gbit_per_s
    if any(other.network_gbit_per_s is not None for other in others):
        bandwidth = None
    return Measured(
        values,
        conditions,
        main_active_us=info.main_active_us,
        network_gbit_per_s=bandwidth,
        miss_share=info.miss_share,
        command_times_us=info.command_times_us,
        sources=info.sources,
    )


def _read(path: str | Path, scenario: Scenario) -> Measured:
    """One file, recognised by what is in it."""
    text, file = read_text(path), str(path)
    head = text.lstrip()
    if "redis_version:" in text and "total_commands_processed:" in text:
        raise InputError(
            f"{file}: found the text of INFO; valid is a measurement here, and INFO with "
            "--info-before and --info-after."
        )
    if head.startswith("{") and any(name in text for name in _MEMTIER):
        return measured_by_memtier(text, file=file)
    # A mapping in YAML may begin with a quoted name, too; only CSV has commas between quotes.
    if any(line.lstrip("\r").startswith('"') and '","' in line for line in text.splitlines()):
        return measured_by_benchmark(text, scenario, file=file)
    return measured_from(parse(MeasuredFields, read_yaml(path), file=file), source=file)


def measured_by_benchmark(text: str, scenario: Scenario, *, file: str) -> Measured:
    """What `valkey-benchmark --csv` or `redis-benchmark --csv` printed of a scenario's command.

    Raises
    ------
    InputError
        Damaged, or the scenario mixes commands, which such a tool measures one by one.
    """
    results = parse_benchmark(text, file=file)
    gets = scenario.workload.get_fraction
    others = set(scenario.workload.commands) - {"get", "set"}
    if others or gets not in (0.0, 1.0):
        raise InputError(
            f"{file}: found results of a benchmark that sends one command at a time; valid for "
            "the scenario’s mix is memtier’s JSON, or a file of numbers."
        )
    command = "GET" if gets == 1.0 else "SET"
    rows = [row for row in results if row.test.split(" ")[0].upper() == command]
    if not rows:
        found = ", ".join(shown_value(row.test) for row in results[:4])
        raise InputError(f"{file}: found results of {found}; valid is one of {command}.")
    return Measured(values_of(rows), sources=(file,))


def values_of(rows: Sequence[BenchmarkResult]) -> dict[str, list[float]]:
    """Each quantity of results of one command."""
    values: dict[str, list[float]] = {}
    for name in ("throughput_rps", "mean_ms", "p50_ms", "p99_ms"):
        found = [getattr(row, name) for row in rows]
        # Latencies are printed with three decimals: one of zero says nothing.
        known = [value for value in found if value]
        if known:
            values[name] = known
    return values


def measured_by_memtier(text: str, *, file: str) -> Measured:
    """What memtier_benchmark wrote, over all commands, and what it was told to do.

    Raises
    ------
    InputError
        Damaged, or nothing was served.
    """
    result = parse_memtier(text, file=file)
    totals, gets = result.totals, result.commands.get("Gets")
    misses = None if gets is None else gets.misses_per_s
    if totals.throughput_rps <= 0:
        raise InputError(f"{file}: found no request; valid is some.")
    values = {"throughput_rps": totals.throughput_rps, "mean_ms": totals.mean_ms}
    for percentile, name in _MEMTIER_LATENCIES.items():
        values[name] = totals.percentiles_ms.get(percentile)
    known = {name: [value] for name, value in values.items() if value}
    return Measured(
        known,
        _memtier_conditions(json.loads(text), file=file),
        miss_share=min(1.0, misses / gets.throughput_rps) if gets and misses else None,
        sources=(file,),
    )


def _memtier_conditions(data: dict[str, Any], *, file: str) -> dict[str, Any]:
    """From memtier's `configuration`; what a version doesn't write is left out."""
    given = data.get("configuration")
    if given is None:
        return {}
    place = Place(f"{file}, configuration", 0)
    if not isinstance(given, dict):
        raise place.wrong(shown_value(given), valid="a mapping")

    def number(name: str) -> int | None:
        value = given.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
            raise place.wrong(f"{shown_value(value)} as '{name}'", valid="a whole number")
        return value

    found: dict[str, Any] = {"load_generator.tool": "memtier-benchmark"}
    clients, threads = number("clients"), number("threads")
    if clients and threads:
        found["workload.clients"] = clients * threads
    found["workload.pipeline"] = number("pipeline")
    size, ranges = number("data_size"), given.get("data_size_range", "0:0")
    if size and ranges == "0:0" and not given.get("data_size_list"):
        found["workload.value_bytes"] = size
    low, high = number("key_minimum"), number("key_maximum")
    if low is not None and high is not None and high >= low:
        found["workload.keys"] = high - low + 1
    return {path: value for path, value in found.items() if value}
