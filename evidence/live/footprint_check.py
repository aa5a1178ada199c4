"""Used memory that real servers report, against what the footprint model says.

Each population of keys is written into a fresh server through its own protocol; then every key,
member and field is looked up once, which finishes the moves of all tables, and INFO is read.
Layouts are not fitted to these populations; what a server holds without data was measured on the
same servers, and errors are those that they showed (`footprint_errors.py`). Besides the engines of
this machine those in the folder that the environment's `ENGINES` names are measured (`engines.py`
fills it).
"""

from __future__ import annotations

import json
import os
import re
import socket
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.servers import EngineProcess, engine_version, find_engine
from forecache.calibration.observe.readers.info import info_fields, info_number
from forecache.calibration.validate.dataset import list_datasets
from forecache.models.footprint.schema import (
    Hashes,
    Lists,
    Population,
    Sets,
    SortedSets,
    Strings,
)
from forecache.models.layouts.allocator import Allocator
from forecache.models.layouts.blocks import LARGE_ARGUMENT_BYTES
from forecache.models.layouts.generations import generation
from forecache.models.scenario.versions import version_numbers
from forecache.sim.errors import EngineError

from ..counts.shipped import json_text
from ..harness import EMBEDDED, Asked, Files, at_hand
from ..validation.memory import is_of_memory, validate_memory
from .engines import unpacked
from .footprint_errors import (
    errors_of,
    errors_yaml,
    residual,
    scenario_of,
    weight_of,
    with_intervals,
)
from .footprint_load import load, look_up
from .trials import kept

ARTEFACT = Path("docs/accuracy/footprint.json")
PROFILE = Path("models/footprint/errors.yaml")
ENGINES = ("redis-server", "valkey-server", EMBEDDED)

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
    _string(300, 16, 60_000),
    _string(20, 16, 3 << 20),
    _string(6, 16, 11 << 20),
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
        # From 4.0 on Redis asks glibc for the size of a block.
        asks = version_numbers(engine_version(process.binary)[1]) >= [4]
        return "libc" if asks else "libc_with_sizes"
    if said.startswith("jemalloc-3"):
        return "jemalloc_3"
    if "libjemalloc" not in Path(f"/proc/{process.pid}/maps").read_text():
        return "jemalloc"
    version = tuple(int(part) for part in re.findall(r"\d+", said)[:3])
    return "system_jemalloc_5.3.1" if version >= (5, 3, 1) else "system_jemalloc"


def measure(binary: Path, population: Population, *, cluster: bool = False) -> dict[str, Any]:
    """One population in a fresh server: `used_memory` before and after, resident memory, allocator.

    Raises
    ------
    EngineError
        The server doesn't start, or stops answering.
    """
    _, version = engine_version(binary)
    config = {"cluster-enabled": "yes"} if cluster else {}
    port = free_bus_port() if cluster else None
    with EngineProcess(binary, config=config, port=port) as process, process.control() as control:
        if cluster:
            control.command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            _wait_for_cluster(control)
        before = _used(control)
        with process.control() as loader:
            load(loader, population)
            # SMISMEMBER and ZMSCORE came with 6.2.
            look_up(loader, population, one_by_one=version_numbers(version) < [6, 2])
        after = _steady(control)
        fields = info_fields(control.info("memory"))
        return {
            "before_bytes": before,
            "measured_bytes": after,
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


def check(
    binary: Path,
    populations: Sequence[Population] = POPULATIONS,
    *,
    in_cluster: Sequence[Population] | None = None,
    say: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """All populations in one engine, measured and predicted.

    Parameters
    ----------
    in_cluster
        Those in cluster mode; `CLUSTER` without it, where the model knows cluster mode.

    Returns
    -------
    dict
        engine (name, version, allocator); rows (data, cluster, before_bytes, measured_bytes,
        resident_bytes, and what `predicted` adds); summary (n, median_ape, max_ape).

    Raises
    ------
    EngineError
        The server doesn't start, or stops answering.
    """
    name, version = engine_version(binary)
    if in_cluster is None:
        in_cluster = CLUSTER if generation(name, version).slots is not None else ()
    allocator: Allocator = "jemalloc"
    found = []
    for population, cluster in [
        *((each, False) for each in populations),
        *((each, True) for each in in_cluster),
    ]:
        measured = measure(binary, population, cluster=cluster)
        allocator = measured.pop("allocator")
        found.append(
            {
                "data": population.model_dump(mode="json", exclude_defaults=True),
                "cluster": cluster,
                **measured,
            }
        )
        say(f"{name} {version}: {population.type}, {population.keys} keys")
    engine = {"name": name, "version": version, "allocator": allocator}
    return predicted({"engine": engine, "rows": found})


def predicted(measured: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured of an engine, predicted: bytes, errors, residuals of the data."""
    engine, rows = measured["engine"], []
    for row in measured["rows"]:
        _, weight = weight_of(scenario_of(engine, row))
        rows.append(
            {
                **row,
                "predicted_bytes": round(weight.used_bytes),
                "relative_error": weight.used_bytes / row["measured_bytes"] - 1.0,
                "beside_bytes": round(weight.beside.total),
                "residual": residual(engine, row),
            }
        )
    errors = [abs(row["relative_error"]) for row in rows]
    return {
        "engine": engine,
        "rows": rows,
        "summary": {
            "n": len(errors),
            "median_ape": statistics.median(errors),
            "max_ape": max(errors),
        },
    }


def servers() -> dict[str, str]:
    """The engines at hand by name, each with what `find_engine` finds it by."""
    folder = os.environ.get("ENGINES")
    found = {name: name for name in ENGINES if at_hand(name)}
    if folder:
        found |= {
            each.id: str(each.server) for each in unpacked(Path(folder)) if each.name != "memcached"
        }
    return found


def artefact(asked: Asked) -> Files:
    """All populations in the engines at hand; those of others stay. Then as `again`."""
    here = servers()
    new = [check(find_engine(here.get(n, n)), say=asked.progress) for n in asked.of(here)]
    return _files(_merged(kept(ARTEFACT).get("engines", []), new), datetime.now(UTC).date())


def again(_asked: Asked) -> Files:
    """What was measured last, predicted anew, and the totals that others published."""
    found = kept(ARTEFACT)
    engines = [predicted(each) for each in found["engines"]]
    return _files(engines, date.fromisoformat(found["date"]))


def profiles(_asked: Asked) -> Files:
    """The errors that live servers showed, as the file that the model reads."""
    found = kept(ARTEFACT)
    return {PROFILE: errors_yaml(errors_of(found["engines"]))}


def _files(engines: Sequence[Mapping[str, Any]], on: date) -> Files:
    published = [
        validate_memory(dataset, dataset.id).to_dict()
        for dataset in list_datasets()
        if is_of_memory(dataset)
    ]
    whole = with_intervals(engines)
    text = json_text({"date": on.isoformat(), "engines": whole, "published": published})
    return {ARTEFACT: text}


def _merged(
    before: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """What was measured now, and before of other engines; a first residual stays the first.

    A population that is measured in an engine for the first time was predicted without having seen
    it: its residual is the first, unless `footprint_errors` leaves such populations out.
    """
    first = {
        (_name(each), _population(row)): row.get("first_residual")
        for each in before
        for row in each["rows"]
    }
    found = {_name(each): each for each in before}
    for each in new:
        rows = [
            {**row, "first_residual": first.get((_name(each), _population(row)), _first(row))}
            for row in each["rows"]
        ]
        found[_name(each)] = {**each, "rows": rows}
    return list(found.values())


def _first(row: Mapping[str, Any]) -> float | None:
    """The residual of what was never measured before, if it counts as one."""
    large = row["data"].get("value_bytes", 0) >= LARGE_ARGUMENT_BYTES
    return None if large or row["cluster"] else row["residual"]


def _name(each: Mapping[str, Any]) -> tuple[str, str, str]:
    engine = each["engine"]
    return engine["name"], engine["version"], engine["allocator"]


def _population(row: Mapping[str, Any]) -> str:
    return json.dumps([row["data"], row["cluster"]], sort_keys=True)
