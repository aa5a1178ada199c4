"""From the file of a node's scenario to its cases, each with the system that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from forecache.hwprofiles import load_host
from forecache.hwprofiles.files import is_sweep
from forecache.sim.errors import InputError

from ..engines.commands import check_bytes_on_the_way, check_commands
from ..engines.generator import load_generator
from ..engines.profile import EngineProfile, load_engine
from ..prediction.system import NodeCase, System
from ..prices.table import check_region, host_of
from ..scenario.schema import Scenario
from ..scenario.source import NODE, ScenarioSource, read_scenario
from ..scenario.sweeps import Case, expand
from ..step_times.cores import check_cores, sharing
from ..step_times.persistence import check_persistence
from ..step_times.wire import check_abilities

MEMCACHED_TOOL = "memtier-benchmark"
"""The load generator of Memcached: the others speak the protocol of Redis only."""

MACHINE_FIELDS = ("host", "engine", "engine_version")
"""Fields whose lists ask `recommend` for a plan of one node (`plan/one_node.py`)."""


def machine_lists(data: Mapping[str, Any]) -> list[str]:
    """Fields of a node's scenario that are lists of hosts, engines or versions."""
    return [name for name in MACHINE_FIELDS if is_sweep(data.get(name))]


class Systems:
    """The systems that cases name; equal ones are one object, and each file is read once."""

    def __init__(self) -> None:
        self._host, self._engine = cache(load_host), cache(load_engine)
        self._generator = cache(load_generator)
        self._known: dict[tuple[str | None, ...], System] = {}

    def of(self, case: Case[Scenario]) -> NodeCase:
        """The case, with a load generator if it names none, and its system."""
        scenario = case.scenario
        name = scenario.host
        if name is None:
            raise InputError("field 'host': found nothing; valid is a host's name or file.")
        engine = self._engine(scenario.engine, scenario.engine_version)
        check_region(scenario.region, engine.engine)
        host = self._host(host_of(name, engine.engine), region=scenario.region)
        case = with_a_tool(case, engine)
        tool = case.scenario.load_generator.tool
        generator = self._generator(tool)
        check_cores(scenario, host.speed().cores)
        check_commands(scenario, engine.commands, engine=engine.id)
        check_persistence(scenario, engine)
        check_abilities(scenario, engine)
        check_bytes_on_the_way(scenario)
        names = name, scenario.region, scenario.engine, scenario.engine_version, tool
        if names not in self._known:
            self._known[names] = System(host, engine, generator)
        return case, self._known[names]


def load_cases(source: ScenarioSource) -> list[NodeCase]:
    """The cases of a scenario with the systems they name.

    Parameters
    ----------
    source
        Path of a scenario file, or its content.
    """
    given = read_scenario(source)
    given.kind([NODE])
    systems = Systems()
    cases = expand(given.data, file=given.name, schema=Scenario)
    try:
        found = [systems.of(case) for case in cases]
        if given.all_threads:
            return [each for case, system in found for each in thread_candidates(case, system)]
        return found
    except InputError as error:
        raise InputError(f"{given.name}: {error}") from None


def with_a_tool(case: Case[Scenario], engine: EngineProfile) -> Case[Scenario]:
    """The case with a load generator that speaks the engine's protocol, if it names none."""
    load = case.scenario.load_generator
    if engine.engine != "memcached" or load.tool.replace("_", "-") == MEMCACHED_TOOL:
        return case
    if "tool" in load.model_fields_set:
        raise InputError(
            f"field load_generator.tool: found {load.tool!r}, which does not speak the protocol of "
            f"{engine.engine}; valid is {MEMCACHED_TOOL}."
        )
    load = load.model_copy(update={"tool": MEMCACHED_TOOL})
    scenario = case.scenario.model_copy(update={"load_generator": load})
    return replace(case, scenario=scenario)


def thread_candidates(case: Case[Scenario], system: System) -> list[NodeCase]:
    """The thread counts worth comparing where nothing names them: all that fit the cores."""
    cores = sharing(case.scenario, system.host.speed().cores).server_cores
    top = max(1, min(system.engine.max_io_threads, cores, 16))
    named = case.scenario.io_threads
    counts = sorted({n for n in range(1, top + 1) if n <= 4 or n % 2 == 0} | {named})
    return [
        (
            Case(
                given={**case.given, "io_threads": count},
                scenario=case.scenario.model_copy(update={"io_threads": count}),
            ),
            system,
        )
        for count in counts
    ]
