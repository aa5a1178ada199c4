"""What the data of a scenario weighs, and how many keys fit: the answer of `forecache memory`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import read_yaml
from forecache.sim.errors import InputError

from ..engines.commands import WRITES, command_kinds
from ..engines.profile import load_engine
from ..layouts.keys import Blocks
from ..results.consistency import check_memory
from ..scenario.kinds import NODE, check_kind
from ..scenario.schema import Persistence, Scenario
from ..scenario.sweeps import Case, expand
from ..scenario.workload import Workload
from .baseline import process_bytes
from .fitting import keys_that_fit, tightest_room
from .resident import resident
from .schema import Forking, Hashes, MemoryScenario, Population, SortedSets, Strings
from .weigh import KeyBytes, Weight, beside_of, node_of, weigh

MEMORY = "memory"

ScenarioSource = str | Path | Mapping[str, Any]


def memory(source: ScenarioSource) -> dict[str, Any]:
    """What the data of every point of a scenario weighs.

    Parameters
    ----------
    source
        A scenario of `kind: memory`, or one of a node, whose keys and values are taken; path of its
        file, or its content.

    Returns
    -------
    dict
        `kind`, `points` and `provenance`. Each point has `given`; `engine` (name, version,
        allocator); `node` (cluster, slots, shards); `keys` of one node; `used_memory_bytes` (value
        when tables have moved, low with idle connections, high while tables move and reply buffers
        are full); `rehashing_bytes`; `populations` (what they are, keys on the node, bytes_per_key
        and its `parts`); `beside` (what the node holds beside data, by part); `resident_bytes`,
        `forked_bytes` (value, low, high); `fits` (keys that do) and `room` (whether the scenario's
        do: fits, used, needed, usable and memory_bytes, shortfall), or None where nothing limits.

    Raises
    ------
    InputError
        The file or a field of it is not valid.
    """
    file = "scenario" if isinstance(source, Mapping) else str(source)
    data = dict(source) if isinstance(source, Mapping) else read_yaml(source)
    points = []
    for case in _cases(data, file=file):
        try:
            points.append({"given": case.given, **_point(case.scenario)})
            check_memory(points[-1])
        except InputError as error:
            raise InputError(f"{file}: {error}") from None
    from forecache import __version__

    made = {
        "forecache_version": __version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return {"kind": MEMORY, "points": points, "provenance": made}


def _cases(data: dict[str, Any], *, file: str) -> list[Case[MemoryScenario]]:
    if check_kind(data, file=file, valid=[MEMORY, NODE]) == MEMORY:
        return expand(data, file=file, schema=MemoryScenario)
    cases: list[Case[MemoryScenario]] = []
    for case in expand(data, file=file, schema=Scenario):
        try:
            scenario = of_node(case.scenario)
        except InputError as error:
            raise InputError(f"{file}: {error}") from None
        if all(scenario != other.scenario for other in cases):
            cases.append(Case(case.given, scenario))
    # What is swept but changes nothing here, such as io_threads, isn't told.
    varying = {
        name
        for name in {key for case in cases for key in case.given}
        if len({repr(case.given[name]) for case in cases}) > 1
    }
    return [
        Case({k: v for k, v in case.given.items() if k in varying}, case.scenario) for case in cases
    ]


def of_node(scenario: Scenario) -> MemoryScenario:
    """The memory of a node's scenario: its keys and values, connections and replicas.

    Raises
    ------
    InputError
        The engine isn't known.
    """
    engine = load_engine(scenario.engine, scenario.engine_version)
    workload = scenario.workload
    return MemoryScenario(
        name=scenario.name,
        engine=engine.engine,
        engine_version=scenario.engine_version or engine.version,
        clients=workload.clients,
        commands=len(workload.commands),
        replicas=scenario.replicas,
        host=scenario.host,
        forking=forking_of(scenario),
        data=_populations(workload),
    )


def forking_of(scenario: Scenario) -> Forking | None:
    """The child of a node's snapshots, if it makes any."""
    kept = scenario.persistence if isinstance(scenario.persistence, Persistence) else None
    if kept is None or kept.snapshot is None:
        return None
    return Forking(writes_per_s=_writes_per_s(scenario), child_s=kept.snapshot.child_s)


def _writes_per_s(scenario: Scenario) -> float | None:
    """Keys written a second; None for a closed loop that writes, whose rate isn't known here."""
    written = sum(k.share * k.items for k in command_kinds(scenario) if k.command in WRITES)
    rate = scenario.workload.mean_rate_rps
    if rate is None:
        return None if written else 0.0
    return rate * written


def _populations(workload: Workload) -> list[Population]:
    found: list[Population] = []
    if {"get", "set", "mget", "mset"} & set(workload.commands):
        found.append(
            Strings(
                type="string",
                keys=workload.keys,
                key_bytes=workload.key_bytes,
                value_bytes=workload.value_bytes,
            )
        )
    if workload.sorted_sets is not None:
        of_sets = workload.sorted_sets.model_dump()
        found.append(SortedSets(type="sorted_set", key_bytes=workload.key_bytes, **of_sets))
    if workload.hashes is not None:
        of_hashes = workload.hashes.model_dump()
        found.append(Hashes(type="hash", key_bytes=workload.key_bytes, **of_hashes))
    return found


def _point(scenario: MemoryScenario) -> dict[str, Any]:
    node = node_of(scenario)
    weight = weigh(node, scenario.data, beside=beside_of(scenario, node), shards=scenario.shards)
    held = resident(
        weight.used_bytes,
        fragmentation=scenario.fragmentation,
        process_bytes=process_bytes(node.allocator),
        forking=scenario.forking,
    )
    fitting = keys_that_fit(scenario)
    room = tightest_room(scenario, weight.used_bytes)
    beside = weight.beside
    g = node.generation
    return {
        "engine": {
            "name": scenario.engine,
            "version": scenario.engine_version or g.versions[0],
            "allocator": node.allocator,
        },
        "node": {"cluster": node.cluster, "slots": node.slots, "shards": scenario.shards},
        "keys": sum(weight.keys),
        "used_memory_bytes": {
            "value": weight.used_bytes,
            "low": weight.low_bytes,
            "high": weight.high_bytes,
        },
        "rehashing_bytes": weight.rehashing_bytes,
        "populations": _population_rows(scenario, weight),
        "beside": {
            name: getattr(beside, name)
            for name in ("startup", "cluster", "clients", "commands", "replication")
        },
        "resident_bytes": held.resident,
        "forked_bytes": {
            "value": held.forked,
            "low": held.forked_low,
            "high": held.forked_high,
        },
        "fits": None if fitting is None else asdict(fitting),
        "room": None if room is None else room.plain(),
    }


def _population_rows(scenario: MemoryScenario, weight: Weight) -> list[dict[str, Any]]:
    """Each population with what a key of it weighs, its share of the tables included."""
    keys = sum(weight.keys)
    expiring = sum(n * p.ttl for n, p in zip(weight.keys, scenario.data, strict=True))
    table = weight.table.settled / keys if keys else 0.0
    expires = weight.expires_table.settled / expiring if expiring else 0.0
    found = []
    for count, population, each in zip(weight.keys, scenario.data, weight.per_key, strict=True):
        parts = parts_of(each, table=table, expires_table=population.ttl * expires)
        found.append(
            {
                "type": population.type,
                "what": population.model_dump(mode="json", exclude={"type", "keys"}),
                "keys": count,
                "bytes_per_key": sum(parts.values()),
                "parts": parts,
            }
        )
    return found


def parts_of(each: KeyBytes, *, table: float, expires_table: float) -> dict[str, float]:
    """What a key weighs by part: its share of the table of keys, its blocks, what keeps its time to
    live, and its collection."""
    blocks: Blocks = each.blocks
    return {
        "table": table,
        "entry": blocks.entry,
        "key": blocks.key,
        "object": blocks.object,
        "value": blocks.value + each.content.items + each.content.table,
        "expires": blocks.expires + expires_table,
    }
