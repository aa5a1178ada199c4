"""What was measured of a running server, in the terms of a prediction."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from forecache.hwprofiles.record import Record
from forecache.models.prediction.predict import LATENCIES, SERVER_CPU
from forecache.models.results.points import QUANTILES
from forecache.sim.errors import InputError

from ..observe.readers.info import info_fields
from ..observe.readers.lines import Place
from ..today.commands import OPERATIONS, is_demand

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


def _repeats(value: object) -> object:
    """One number as a list of one."""
    return value if isinstance(value, list) else [value]


_Positive = Annotated[float, Field(gt=0, le=1e12)]
_Share = Annotated[float, Field(ge=0, le=1)]
Repeats = Annotated[
    list[_Positive], BeforeValidator(_repeats), Field(min_length=1, max_length=10_000)
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


def together(parts: Sequence[Measured]) -> Measured:
    """Several files as one measurement: a quantity of several is one of several repetitions.

    Raises
    ------
    InputError
        They were measured under different conditions.
    """
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
_COMMAND = "cmdstat_"
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
    first, last = info_fields(before), info_fields(after)
    if first.get("run_id") != last.get("run_id"):
        raise InputError(
            f"{files[1]}: found run_id {last.get('run_id')!r}; valid is {first.get('run_id')!r} "
            f"as in {files[0]}: between the two the server was started anew."
        )

    def delta(name: str) -> float:
        low, high = _number(first, name, files[0]), _number(last, name, files[1])
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
    return Measured(
        {SERVER_CPU: [cpu_s / commands * 1e6]},
        conditions_of(last, file=files[1]),
        main_active_us=_active_us(delta, first, commands),
        network_gbit_per_s=bandwidth or None,
        miss_share=delta("keyspace_misses") / asked if asked else None,
        command_times_us=_command_times_us(first, last, files=files),
        sources=(f"INFO ({files[0]}, {files[1]})",),
    )


def _command_times_us(
    first: Mapping[str, str], last: Mapping[str, str], *, files: tuple[str, str]
) -> dict[str, float]:
    """Execution time of each command that clients asked for; SETEX and the like are SET.

    Empty if INFO has no commandstats.
    """
    found: dict[str, float] = {}
    for name in last:
        command = name.removeprefix(_COMMAND).lower()
        if not name.startswith(_COMMAND) or not is_demand(command):
            continue
        before_us, after_us = (
            _usec(fields.get(name), name, file)
            for fields, file in zip((first, last), files, strict=True)
        )
        if after_us > before_us:
            command = OPERATIONS.get(command, command)
            found[command] = found.get(command, 0.0) + after_us - before_us
    return found


def _usec(text: str | None, name: str, file: str) -> float:
    if text is None:
        return 0.0
    values = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    return Place(file, 0).decimal(values.get("usec", ""), f"usec of {name}", highest=1e20)


def conditions_of(fields: Mapping[str, str], *, file: str) -> dict[str, Any]:
    """Engine, version and number of keys that INFO names."""
    engine = "valkey" if "valkey_version" in fields else "redis"
    version = fields.get(f"{engine}_version", "")
    if not version or not version[0].isdigit() or len(version) > 20:
        raise InputError(
            f"{file}: found {engine}_version {version[:20]!r}; valid is a version, as 8.0.1."
        )
    found: dict[str, Any] = {"engine": engine, "engine_version": version}
    database = fields.get("db0", "")
    if database.startswith(_KEYS):
        text = database.removeprefix(_KEYS).split(",")[0]
        found["workload.keys"] = Place(file, 0).count(text, "keys of db0")
    return found


def _active_us(
    delta: Callable[[str], float], fields: Mapping[str, str], commands: float
) -> float | None:
    """Time of the main thread with something to do, per command; None where INFO has none.

    Unlike its CPU time it leaves out turns that found nothing (newer versions of Valkey).
    """
    if _ACTIVE not in fields:
        return None
    return delta(_ACTIVE) / commands * 1e6 or None


def _number(fields: Mapping[str, str], name: str, file: str) -> float:
    if name not in fields:
        raise InputError(f"{file}: field {name!r} is missing; valid is the whole text of INFO.")
    return Place(file, 0).decimal(fields[name], name)
