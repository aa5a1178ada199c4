"""What `study` answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forecache.calibration.fit.report import CalibrationReport
from forecache.models.advice.node_answers import StudyTarget
from forecache.models.results.provenance import Provenance
from forecache.sim.plain import Result, where_set


@dataclass(frozen=True)
class HostNumber(Result):
    """A number of a host, with its 95% range and where it comes from."""

    name: str
    value: float | None
    unit: str
    low: float | None
    high: float | None
    kind: str


@dataclass(frozen=True)
class HostNumbers(Result):
    """The numbers of the host a study ran on."""

    id: str
    rows: list[HostNumber]
    latency_curve: list[list[float]]
    """Pairs of a working set in bytes and the ns of a dependent load."""


@dataclass(frozen=True)
class StudyProvenance(Provenance):
    """What made a study, besides versions and seed."""

    host: str
    engine: str
    elapsed_s: float
    bundle: str
    command: str


@dataclass(frozen=True)
class Study(Result):
    """A recommendation for this host and the scenario's, and what it rests on."""

    title: str
    created: str
    scenario_name: str
    warnings: list[str]
    targets: list[StudyTarget]
    calibration: CalibrationReport
    host_profile: HostNumbers
    provenance: StudyProvenance
    scenario: Mapping[str, Any] | None = where_set()
    """As it was given."""
    hashes: Mapping[str, str] | None = where_set()
    """SHA-256 of what the answer rests on, by name."""
    report: str | None = where_set()
    """Path of the HTML file."""
