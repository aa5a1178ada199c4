"""What a scenario file may be about, and simulating it whatever that is.

A file without `kind`, or with `kind: node`, is about one node in a steady state (`scenario.py`).
The other kinds run over minutes and hours and answer with a `Run` for each point of their sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from forecache.hwprofiles.files import read_yaml
from forecache.sim.errors import InputError

from . import answers
from .answers import ScenarioSource, provenance
from .cluster.cluster import run_cluster
from .cluster.schema import ClusterScenario
from .cost.schema import CostScenario
from .footprint.schema import MemoryScenario
from .large_commands.scenario import LargeCommands
from .large_commands.simulate import simulate_large_commands
from .overcommit.run import run_overcommit
from .overcommit.schema import OvercommitScenario
from .predict import Progress
from .scenario import Scenario
from .series import Run
from .sweeps import expand
from .verbs import NODE, check_kind


@dataclass(frozen=True)
class Kind:
    """A kind of scenario that runs over time."""

    schema: type[BaseModel]
    """Fields of its file; it has `name` and a `kind` of its own."""
    run: Callable[[Any, int, Progress], Run]
    """Simulates one scenario of that schema with a seed and something to report steps to; raises
    InputError for what the schema can't see."""


KINDS: dict[str, Kind] = {
    "cluster": Kind(ClusterScenario, run_cluster),
    "overcommit": Kind(OvercommitScenario, run_overcommit),
    "large_commands": Kind(LargeCommands, simulate_large_commands),
}
"""By the word that stands in the file."""

OTHER_VERBS: dict[str, tuple[type[BaseModel], str]] = {
    "memory": (MemoryScenario, "memory"),
    "cost": (CostScenario, "cost"),
}
"""Kinds that nothing runs for: their schema and the verb that answers them."""


def schemas() -> dict[str, type[BaseModel]]:
    """The schema of every kind of scenario."""
    found: dict[str, type[BaseModel]] = {NODE: Scenario}
    found |= {name: kind.schema for name, kind in KINDS.items()}
    return found | {name: schema for name, (schema, _) in OTHER_VERBS.items()}


def kind_of(data: Mapping[str, Any], *, file: str) -> str:
    """The kind of a scenario.

    Raises
    ------
    InputError
        There is no such kind, or another verb is for it.
    """
    return check_kind(data, file=file, valid=[NODE, *KINDS])


def runs_over_time(source: ScenarioSource) -> bool:
    """Whether a scenario answers with series over time; False for a node in a steady state.

    Raises
    ------
    InputError
        The file can't be read, or its kind is unknown.
    """
    file, data = _read(source)
    return kind_of(data, file=file) != NODE


def _read(source: ScenarioSource) -> tuple[str, dict[str, Any]]:
    """What to call a scenario in messages, and its fields."""
    if isinstance(source, Mapping):
        return "scenario", dict(source)
    return str(source), read_yaml(source)


def simulate(
    source: ScenarioSource, *, seed: int = 1, progress: Progress | None = None
) -> dict[str, Any]:
    """Simulate every point of a scenario of any kind.

    Returns
    -------
    dict
        For a node as `answers.simulate`. Otherwise `kind`, `scenario` (the fields of its first
        point), `points` (each with `given`, what the sweep says, and `Run.as_dict`) and
        `provenance`.

    Raises
    ------
    InputError
        The file or a field of it is not valid.
    """
    file, data = _read(source)
    name = kind_of(data, file=file)
    if name == NODE:
        return answers.simulate(source, seed=seed, progress=progress)
    report = progress or (lambda _line: None)
    points: list[dict[str, Any]] = []
    cases = expand(data, file=file, schema=KINDS[name].schema)
    for number, case in enumerate(cases, start=1):
        if len(cases) > 1:
            report(f"point {number} of {len(cases)}: {_words(case.given)}")
        try:
            run = KINDS[name].run(case.scenario, seed, report)
        except InputError as error:
            raise InputError(f"{file}: {error}") from None
        points.append({"given": case.given, **run.as_dict()})
    return {
        "kind": name,
        "scenario": cases[0].scenario.model_dump(mode="json", exclude_none=True),
        "points": points,
        "provenance": provenance(seed=seed),
    }


def _words(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in given.items())
