"""What was measured of a running server, in the terms of a prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from forecache.hwprofiles.record import Record
from forecache.models.prediction.predict import SERVER_CPU
from forecache.sim.errors import InputError

QUANTITIES = ("throughput_rps", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms", SERVER_CPU)
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
        latencies = [getattr(self, n) for n in ("p50_ms", "p90_ms", "p99_ms", "p999_ms")]
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
