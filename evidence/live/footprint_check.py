"""Used memory that real servers report, against what the footprint model says.

Each population of keys is written into a fresh server through its own protocol; then every key,
member and field is looked up once, which finishes the moves of all tables, and INFO is read.
Nothing is fitted to these populations; what a server holds without data was measured on the same
three.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forecache.calibration.drive.engine_process import EngineProcess, engine_version, find_engine
from forecache.calibration.drive.resp import RespClient
from forecache.calibration.observe.readers.info import info_fields, info_number
from forecache.calibration.validate.dataset import is_of_memory, list_datasets
from forecache.calibration.validate.memory_dataset import validate_memory
from forecache.models.footprint.baseline import process_bytes
from forecache.models.footprint.schema import (
    Hashes,
    Lists,
    MemoryScenario,
    Population,
    Sets,
    SortedSets,
    Strings,
)
from forecache.models.footprint.weigh import beside_of, node_of, weigh
from forecache.models.layouts.allocator import Allocator
from forecache.sim.errors import EngineError

from ..counts.shipped import json_text
from ..harness import EMBEDDED, Asked, Files
from .footprint_load import commands_of, load, look_up

ARTEFACT = Path("docs/accuracy/footprint.json")
ENGINES = ("redis-server", "valkey-server", EMBEDDED)

OWN_COMMANDS = 2
"""PING and INFO, which the check itself sends."""

_STEADY_S, _LONGEST_S = 0.25, 60.0
_POLL_S = 0.05


def _string(keys: int, key_bytes: int, value_bytes: int, **more: Any) -> Strings:
    return Strings(type="string", keys=keys, key_bytes=key_bytes, value_bytes=value_bytes, **more)


POPULATIONS: tuple[Population, ...] = (
    _string(40_000, 16, 16),
    _string(100_000, 16, 16),
    _string(70_000, 10, 8),
    _string(40_000, 16, 44),
    _string(70_000, 16, 64),
    _string(40_000, 16, 100),
    _string(40_000, 40, 200),
    _string(40_000, 130, 100),
    _string(20_000, 16, 1024),
    _string(2_000, 16, 9000),
    _string(60_000, 24, 5, integers=True),
    _string(60_000, 16, 16, ttl=1.0),
    _string(60_000, 16, 30, ttl=0.5),
    _string(50_000, 40, 40, ttl=1.0),
    _string(30_000, 16, 100, ttl=1.0),
    Sets(type="set", keys=5000, members=20, member_bytes=8, integers=True),
    Sets(type="set", keys=200, members=1000, member_bytes=8, integers=True),
    Sets(type="set", keys=2000, members=50, member_bytes=10),
    Sets(type="set", keys=500, members=300, member_bytes=20),
    Sets(type="set", keys=20, members=10_000, member_bytes=32, ttl=1.0),
    Sets(type="set", keys=20_000, members=1, ttl=0.5),
    Hashes(type="hash", keys=2000, fields=20, field_bytes=10, value_bytes=20),
    Hashes(type="hash", keys=2000, fields=20, field_bytes=10, value_bytes=100),
    Hashes(type="hash", keys=200, fields=700, value_bytes=20),
    Hashes(type="hash", keys=500, fields=130, field_bytes=40, value_bytes=100),
    Hashes(type="hash", keys=4, fields=50_000, value_bytes=20),
    Hashes(type="hash", keys=20_000, fields=5, value_bytes=20, ttl=0.5),
    SortedSets(type="sorted_set", keys=4000, members=20, member_bytes=10),
    SortedSets(type="sorted_set", keys=500, members=130, member_bytes=40),
    SortedSets(type="sorted_set", keys=200, members=700),
    SortedSets(type="sorted_set", keys=2, members=50_000),
    SortedSets(type="sorted_set", keys=20_000, members=5, ttl=1.0),
    Lists(type="list", keys=20_000, elements=3, element_bytes=50, ttl=1.0),
    Lists(type="list", keys=5000, elements=10),
    Lists(type="list", keys=100, elements=2000, element_bytes=20),
    Lists(type="list", keys=200, elements=500, element_bytes=100),
    Lists(type="list", keys=200, elements=20, element_bytes=3000),
    Lists(type="list", keys=50, elements=10, element_bytes=10_000),
)
"""Types, sizes on either side of what is embedded and packed, counts in many states of a table,
times to live."""

CLUSTER: tuple[Population, ...] = (
    _string(40_000, 16, 16),
    _string(100_000, 16, 100, ttl=0.5),
    _string(200_000, 16, 30),
)
"""In cluster mode, with all slots."""


def allocator_of(process: EngineProcess, said: str) -> Allocator:
    """Which allocator a running server uses: what it says, and whether it came with the engine."""
    if said == "libc":
        return "libc"
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    return "system_jemalloc" if "libjemalloc" in maps else "jemalloc"


def measure(binary: Path, population: Population, *, cluster: bool = False) -> dict[str, Any]:
    """One population in a fresh server: `used_memory` before and after, resident memory, allocator.

    Raises
    ------
    EngineError
        The server doesn't start, or stops answering.
    """
    config = {"cluster-enabled": "yes"} if cluster else {}
    port = free_bus_port() if cluster else None
    with EngineProcess(binary, config=config, port=port) as process, process.control() as control:
        if cluster:
            control.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            _wait_for_cluster(control)
        before = _used(control)
        with process.control() as loader:
            load(loader, population)
            look_up(loader, population)
        after = _steady(control)
        fields = info_fields(control.info("memory"))
        return {
            "before_bytes": before,
            "used_memory_bytes": after,
            "resident_bytes": int(info_number(fields, "used_memory_rss") or 0),
            "allocator": allocator_of(process, fields["mem_allocator"]),
        }


def free_bus_port() -> int:
    """A free port whose cluster bus, 10,000 above, is a port too."""
    for port in range(21_000, 45_000, 7):
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            return port
    raise EngineError("no free port for a cluster's bus between 21,000 and 45,000.")


def _wait_for_cluster(control: RespClient) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while time.monotonic() < deadline:
        if "cluster_state:ok" in str(control.command("CLUSTER", "INFO")):
            return
        time.sleep(_POLL_S)
    raise EngineError("the server's cluster state doesn't become ok.")


def _used(control: RespClient) -> int:
    return int(info_number(info_fields(control.info("memory")), "used_memory") or 0)


def _steady(control: RespClient) -> int:
    """Used memory when it has not changed for a while: the loader's buffers are gone."""
    start = since = time.monotonic()
    last = _used(control)
    while time.monotonic() - since < _STEADY_S and time.monotonic() - start < _LONGEST_S:
        time.sleep(_POLL_S)
        now = _used(control)
        if now != last:
            last, since = now, time.monotonic()
    return last


def predicted(
    engine: str,
    version: str,
    population: Population,
    *,
    allocator: Allocator,
    cluster: bool = False,
) -> dict[str, float]:
    """What the model says: used memory and the part of it that a server has anyway."""
    # In cluster mode CLUSTER ADDSLOTSRANGE and CLUSTER INFO too.
    commands = OWN_COMMANDS + commands_of(population) + (2 if cluster else 0)
    scenario = MemoryScenario(
        engine=engine,
        engine_version=version,
        allocator=allocator,
        cluster=cluster,
        commands=commands,
        data=[population],
    )
    node = node_of(scenario)
    weight = weigh(node, scenario.data, beside=beside_of(scenario, node))
    return {"used_memory_bytes": weight.used_bytes, "beside_bytes": weight.beside.total}


def check(
    binary: Path,
    populations: Sequence[Population] = POPULATIONS,
    *,
    in_cluster: Sequence[Population] = CLUSTER,
    say: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """All populations in one engine, measured and predicted.

    Returns
    -------
    dict
        engine (name, version, allocator); rows (data, cluster, measured_bytes, predicted_bytes,
        relative_error, beside_bytes, before_bytes, resident_bytes); summary (n, median_ape,
        max_ape, resident_ratio).

    Raises
    ------
    EngineError
        The server doesn't start, or stops answering.
    """
    name, version = engine_version(binary)
    allocator: Allocator = "jemalloc"
    found = []
    for population, cluster in [
        *((each, False) for each in populations),
        *((each, True) for each in in_cluster),
    ]:
        measured = measure(binary, population, cluster=cluster)
        allocator = measured["allocator"]
        model = predicted(name, version, population, allocator=allocator, cluster=cluster)
        total = measured["used_memory_bytes"]
        error = model["used_memory_bytes"] / total - 1.0
        found.append(
            {
                "data": population.model_dump(mode="json", exclude_defaults=True),
                "cluster": cluster,
                "measured_bytes": total,
                "predicted_bytes": round(model["used_memory_bytes"]),
                "relative_error": error,
                "beside_bytes": round(model["beside_bytes"]),
                "before_bytes": measured["before_bytes"],
                "resident_bytes": measured["resident_bytes"],
            }
        )
        say(f"{name} {version}: {population.type}, {population.keys} keys: {error:+.2%}")
    errors = [abs(row["relative_error"]) for row in found]
    return {
        "engine": {"name": name, "version": version, "allocator": allocator},
        "rows": found,
        "summary": {
            "n": len(errors),
            "median_ape": statistics.median(errors),
            "max_ape": max(errors),
            "resident_ratio": statistics.median(
                (row["resident_bytes"] - process_bytes(allocator)) / row["measured_bytes"]
                for row in found
            ),
        },
    }


def artefact(asked: Asked) -> Files:
    """All populations in the engines at hand, and the totals that others published."""
    engines = [check(find_engine(name), say=asked.progress) for name in asked.engines(ENGINES)]
    date = datetime.now(UTC).date().isoformat()
    published = [
        validate_memory(dataset, dataset.id).to_dict()
        for dataset in list_datasets()
        if is_of_memory(dataset)
    ]
    return {ARTEFACT: json_text({"date": date, "engines": engines, "published": published})}
