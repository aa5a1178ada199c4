"""What was measured of a running server, in the terms of a prediction."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from forecache.hwprofiles.files import as_written, parse, read_text, read_yaml
from forecache.hwprofiles.record import Record
from forecache.models.prediction.predict import LATENCIES, SERVER_CPU
from forecache.models.results.points import QUANTILES
from forecache.models.scenario.schema import Scenario
from forecache.sim.errors import InputError

from ..observe.readers.benchmark import BenchmarkResult, parse_benchmark, parse_memtier
from ..observe.readers.info import info_fields
from ..observe.readers.lines import Place, shown_value
from ..today.commands import OPERATIONS, is_demand
from ..today.nodes import Look

QUANTITIES = ("throughput_rps", *LATENCIES, SERVER_CPU)
"""What can be compared, by the names of a prediction's metrics."""

CONDITIONS = {
    "engine": "engine",
    "engine_version": "engine_version",
    "io_threads": "io_threads",
    "tool": "load_generator.tool",
    "clients": "workload.clients",
    "pipeline": "workload.pipeline",
    "keys": "workload.keys",
    "value_bytes": "workload.value_bytes",
}
"""Under what it was measured: the names in a file, and the fields of a scenario."""


_Positive = Annotated[float, Field(gt=0, le=1e12)]
_Share = Annotated[float, Field(ge=0, le=1)]
Repeats = Annotated[
    list[_Positive],
    BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
    Field(min_length=1, max_length=10_000),
]
"""A number, or one of each repetition."""


class MeasuredFields(Record):
    """A file of numbers that somebody measured; each one number or a list, one a repetition."""

    throughput_rps: Repeats | None = None
    mean_ms: Repeats | None = None
    p50_ms: Repeats | None = None
    p90_ms: Repeats | None = None
    p99_ms: Repeats | None = None
    p999_ms: Repeats | None = None
    server_cpu_us: Repeats | None = None
    """CPU time of all threads of the server, per request."""
    main_active_us: _Positive | None = None
    """Time of the main thread with something to do, per request (used_active_time_main_thread)."""
    generator_cpu_us: _Positive | None = None
    """CPU time of the load generator, per request."""
    network_gbit_per_s: _Positive | None = None
    """What went over the server's network in its busier direction."""
    network_limit_gbit_per_s: _Positive | None = None
    """What that network carries, measured (iperf3) or promised."""
    network_allowance_exceeded: Annotated[int, Field(ge=0)] | None = None
    """Packets held back meanwhile because an instance's allowance was used up (`ethtool -S`)."""
    miss_share: _Share | None = None
    """Share of the GETs that found nothing."""
    engine: str | None = None
    engine_version: str | None = None
    io_threads: Annotated[int, Field(ge=1)] | None = None
    tool: str | None = None
    clients: Annotated[int, Field(ge=1)] | None = None
    pipeline: Annotated[int, Field(ge=1)] | None = None
    keys: Annotated[int, Field(ge=1)] | None = None
    value_bytes: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _some(self) -> MeasuredFields:
        if all(getattr(self, name) is None for name in QUANTITIES):
            raise ValueError(f"at least one of {', '.join(QUANTITIES)}")
        latencies = [getattr(self, n) for n in QUANTILES]
        known = [float(np.mean(each)) for each in latencies if each is not None]
        if known != sorted(known):
            raise ValueError("p50_ms, p90_ms, p99_ms and p999_ms ascending")
        return self


@dataclass(frozen=True)
class Measured:
    """What was measured at one point.

    Attributes
    ----------
    values
        Of each quantity (`QUANTITIES`) a number for each repetition.
    conditions
        Under what, as far as it is known, by field of a scenario (`CONDITIONS`).
    main_active_us
        Time of the main thread with something to do, per request.
    generator_cpu_us
        CPU time of the load generator per request.
    network_gbit_per_s
        Of the busier direction.
    command_times_us
        Execution time by command, as INFO tells; empty where it doesn't.
    sources
        Where it comes from, in words.
    """

    values: dict[str, list[float]]
    conditions: dict[str, Any] = field(default_factory=dict)
    main_active_us: float | None = None
    generator_cpu_us: float | None = None
    network_gbit_per_s: float | None = None
    network_limit_gbit_per_s: float | None = None
    network_allowance_exceeded: int | None = None
    miss_share: float | None = None
    command_times_us: dict[str, float] = field(default_factory=dict)
    sources: tuple[str, ...] = ()

    def value(self, name: str) -> float | None:
        """The geometric mean of the repetitions."""
        found = self.values.get(name)
        return math.exp(float(np.mean(np.log(found)))) if found else None

    def variance(self, name: str) -> float:
        """Of the logarithm of that mean, as far as the repetitions tell; 0 for a single one."""
        found = self.values.get(name, [])
        return float(np.var(np.log(found), ddof=1)) / len(found) if len(found) > 1 else 0.0


def measured_from(given: MeasuredFields, *, source: str) -> Measured:
    """What a file of plain numbers says."""
    values = {n: getattr(given, n) for n in QUANTITIES if getattr(given, n) is not None}
    conditions = {
        path: getattr(given, name)
        for name, path in CONDITIONS.items()
        if getattr(given, name) is not None
    }
    return Measured(
        values, conditions, sources=(source,), **{name: getattr(given, name) for name in _SINGLE}
    )


def merge_measurements(parts: Sequence[Measured]) -> Measured:
    """Several files as one measurement: a quantity of several is one of several repetitions."""
    values: dict[str, list[float]] = {}
    conditions: dict[str, Any] = {}
    single: dict[str, Any] = {}
    for part in parts:
        for name, found in part.values.items():
            values.setdefault(name, []).extend(found)
        for path, value in part.conditions.items():
            if conditions.setdefault(path, value) != value:
                raise InputError(
                    f"{part.sources[0]}: found {path} {value!r}; valid is "
                    f"{conditions[path]!r} as in {parts[0].sources[0]}, for files of one point."
                )
        for name in _SINGLE:
            if getattr(part, name) is not None:
                single[name] = getattr(part, name)
    sources = tuple(source for part in parts for source in part.sources)
    times_us = next((part.command_times_us for part in parts if part.command_times_us), {})
    return Measured(values, conditions, command_times_us=times_us, sources=sources, **single)


_SINGLE = (
    *("main_active_us", "generator_cpu_us", "network_gbit_per_s", "network_limit_gbit_per_s"),
    *("network_allowance_exceeded", "miss_share"),
)


# --- two texts of INFO ---------------------------------------------------------------------------


_OWN_COMMANDS = 1
"""The first INFO itself is counted after its reply."""

_ACTIVE = "used_active_time_main_thread"
_KEYS = "keys="
_BITS = 8.0


def measured_between(
    before: str, after: str, *, files: tuple[str, str], throughput_rps: float | None = None
) -> Measured:
    """CPU time per command, share of misses, bytes, version and keys, between two texts of INFO.

    Nothing is told about the rate of commands: the looks may be any time apart.

    Parameters
    ----------
    files
        What to call the two in messages.
    throughput_rps
        Measured by the load generator; with it bytes per command become a bandwidth.

    Raises
    ------
    InputError
        A field is missing or damaged, the second look is not after the first, or the server was
        started anew between them.
    """
    first, last = _look(before, files[0]), _look(after, files[1])
    if first.text("run_id") != last.text("run_id"):
        raise InputError(
            f"{files[1]}: found run_id {last.text('run_id')!r}; valid is "
            f"{first.text('run_id')!r} as in {files[0]}: between the two the server was started "
            "anew."
        )

    def delta(name: str) -> float:
        low, high = first.needed(name), last.needed(name)
        if high < low:
            raise InputError(
                f"{files[1]}: found {name} {high:g}; valid is at least {low:g} as in {files[0]}, "
                "which comes before."
            )
        return high - low

    commands = delta("total_commands_processed") - _OWN_COMMANDS
    if commands < 1:
        raise InputError(
            f"{files[1]}: found no command since {files[0]}; valid are two looks with the "
            "measurement between them."
        )
    cpu_s = delta("used_cpu_user") + delta("used_cpu_sys")
    if cpu_s <= 0.0:
        raise InputError(f"{files[1]}: found no CPU time since {files[0]}; valid is some.")
    asked = delta("keyspace_hits") + delta("keyspace_misses")
    sent = max(delta("total_net_output_bytes"), delta("total_net_input_bytes"))
    bandwidth = None
    if throughput_rps is not None:
        bandwidth = sent / commands * throughput_rps * _BITS / 1e9
    conditions: dict[str, Any] = dict(zip(("engine", "engine_version"), last.engine, strict=True))
    database = last.text("db0") or ""
    if database.startswith(_KEYS):
        keys = database.removeprefix(_KEYS).split(",")[0]
        conditions["workload.keys"] = last.place.count(keys, "keys of db0")
    # Unlike its CPU time it leaves out turns that found nothing (newer versions of Valkey).
    active_us = delta(_ACTIVE) / commands * 1e6 or None if _ACTIVE in first.fields else None
    return Measured(
        {SERVER_CPU: [cpu_s / commands * 1e6]},
        conditions,
        main_active_us=active_us,
        network_gbit_per_s=bandwidth or None,
        miss_share=delta("keyspace_misses") / asked if asked else None,
        command_times_us=_command_times_us(first, last),
        sources=(f"INFO ({files[0]}, {files[1]})",),
    )


def _look(text: str, file: str) -> Look:
    """A text of INFO as a look at a node; errors name the file."""
    place = Place(file, 0)
    return Look(place, {name: (place, value) for name, value in info_fields(text).items()})


def _command_times_us(first: Look, last: Look) -> dict[str, float]:
    """Execution time of each command that clients asked for; SETEX and the like are SET.

    Empty if INFO has no commandstats.
    """
    found: dict[str, float] = {}
    for name, count in last.commands.items():
        before_us = first.commands[name].time_us if name in first.commands else 0.0
        if is_demand(name) and count.time_us > before_us:
            command = OPERATIONS.get(name, name)
            found[command] = found.get(command, 0.0) + count.time_us - before_us
    return found


# --- files that a user may give: what tools print, INFO before and after, or plain numbers --------


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
        rate = merge_measurements(parts).value("throughput_rps") if parts else None
        texts = [read_text(path) for path in info]
        names = str(info[0]), str(info[1])
        between = measured_between(texts[0], texts[1], files=names, throughput_rps=rate)
        parts.append(_without_shared(between, parts))
    if not parts:
        raise InputError("found no measurement; valid is a file, INFO before and after, or --run.")
    return merge_measurements(parts)


def _without_shared(info: Measured, others: Sequence[Measured]) -> Measured:
    """INFO's numbers but for those that a file gives itself, which go first."""
    values = {n: v for n, v in info.values.items() if not any(n in o.values for o in others)}
    given = {path for other in others for path in other.conditions}
    conditions = {path: v for path, v in info.conditions.items() if path not in given}
    bandwidth = info.network_gbit_per_s
    if any(other.network_gbit_per_s is not None for other in others):
        bandwidth = None
    return replace(info, values=values, conditions=conditions, network_gbit_per_s=bandwidth)


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
    return measured_from(
        parse(MeasuredFields, as_written(MeasuredFields, read_yaml(path)), file=file), source=file
    )


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
    return Measured(benchmark_quantities(rows), sources=(file,))


def benchmark_quantities(rows: Sequence[BenchmarkResult]) -> dict[str, list[float]]:
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
