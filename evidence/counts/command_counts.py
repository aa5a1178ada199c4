"""Instructions of commands beyond GET and SET, counted by running the engine in valgrind.

The study `command-counts` counts every command of `POINTS` and keeps the counts in
`evidence/counts/command_counts/`; `command-work` makes the section `commands` of the shipped engine
profiles from what lies there.

Counts are exact; each is the difference of two loads of different length. What remains uncertain is
how they depend on numbers of keys, members and fields, for which up to three numbers per command
stand; see `models.commands.COMMAND_WORK`. A skip list's depth makes no difference worth a number.
"""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from forecache.calibration.drive.engine_process import EngineProcess, engine_version, find_engine
from forecache.calibration.drive.resp import RespClient
from forecache.calibration.observe.measure import plan_cores
from forecache.calibration.observe.profilers.attribution import charge
from forecache.calibration.observe.profilers.callgrind import Counts
from forecache.calibration.observe.profilers.programs import version_of
from forecache.calibration.observe.profilers.session import Session
from forecache.calibration.observe.readers.callgrind import CallgrindProfile
from forecache.hwprofiles.files import dump_yaml, parse, read_yaml
from forecache.hwprofiles.quantity import Quantity
from forecache.models.engines.commands import (
    ARGUMENT,
    COMMAND_WORK,
    LOG,
    LOG_WORD,
    CommandKind,
    work_terms,
)
from forecache.models.engines.profile import EngineProfile
from forecache.models.scenario.command_table import COMMANDS, Word, commands_on
from forecache.sim.errors import EngineError

from ..harness import EMBEDDED, Asked, Files
from .leaf import counted_leaf

FOLDER = Path("evidence/counts/command_counts")
ENGINES = Path("models/engines")

_SHORT = 100
_LONG = 600
_PIPELINE = 10
_STRINGS = 1000
_ITEM_BYTES = 16
_COLLECTIONS = {"sorted_set": "z", "hash": "h"}

RANGE = 1.1
"""Half width of the range of a count as a factor: the count is exact, how it depends on sizes, on
scores and on what else the engine is asked to do, is not."""


@dataclass(frozen=True)
class Point:
    """One command as it is sent; `size` counts members of the sorted set or fields of the hash."""

    command: str
    items: int = 1
    size: int = 0

    def words(self, random: np.random.Generator) -> list[str]:
        """One command with keys, members and scores drawn at random."""
        row = COMMANDS[self.command]
        drawn = random.integers(0, self.size or _STRINGS, self.items)
        scores = random.integers(0, self.size, self.items) if "score" in row.each else drawn
        first = int(random.integers(0, self.size - self.items + 1)) if "index" in row.words else 0
        ranks = iter((first, first + self.items - 1))

        def said(word: Word, item: int) -> str:
            if word == "key":
                of_strings = row.type == "string"
                return _key(drawn[item]) if of_strings else f"{_COLLECTIONS[row.type]}{self.size}"
            if word in ("member", "field"):
                return _item(drawn[item])
            if word == "index":
                return str(next(ranks))
            return str(scores[item]) if word == "score" else "v" * _ITEM_BYTES

        asked = [(word, 0) for word in row.words]
        if row.each:
            asked += [(word, item) for item in range(self.items) for word in row.each]
        return [self.command, *(said(word, item) for word, item in asked)]


def _key(number: int) -> str:
    return f"key:{number:012d}"


def _item(number: int) -> str:
    return f"item:{number:011d}"


LISTPACK_SIZES = (8, 32, 128)
LARGE_SIZES = (1_000, 8_000, 64_000)

POINTS = [
    *(Point(command) for command in commands_on("string") if not COMMANDS[command].each),
    *(
        Point(command, items)
        for command in commands_on("string")
        if COMMANDS[command].each
        for items in (1, 4, 16, 64)
    ),
    *(Point(command, 1, m) for command in ("zadd", "hset") for m in LISTPACK_SIZES + LARGE_SIZES),
    *(Point(command, 8, m) for command in ("zadd", "hset") for m in (32, 8_000)),
    *(Point("zrange", n, m) for n in (1, 8) for m in LISTPACK_SIZES + LARGE_SIZES),
    *(Point("zrange", 64, m) for m in (128, *LARGE_SIZES)),
    *(Point("hget", 1, m) for m in LISTPACK_SIZES + LARGE_SIZES),
    *(Point("hgetall", m, m) for m in (8, 32, 128, 1_000, 4_000)),
]


LOGGED_POINTS = [Point("set"), Point("mset", 16), Point("zadd", 1, 8_000), Point("hset", 1, 8_000)]
"""Writes that are counted again with an append-only file."""

_REWRITE_LIMIT_S = 120.0


def count(binary: Path) -> dict[str, Any]:
    """Instructions per command in parsing and in executing, for every point."""
    name, version = engine_version(binary)
    rows = []
    with tempfile.TemporaryDirectory(prefix="forecache-valgrind-") as folder:
        out = Path(folder) / "counts"
        wrapper = [
            *("valgrind", "--quiet", "--tool=callgrind"),
            *(f"--callgrind-out-file={out}", f"--vgdb-prefix={folder}/vgdb"),
        ]
        plan = plan_cores(io_threads=1, generator_threads=1)
        config = {"hz": "1", "dynamic-hz": "no"}
        with (
            EngineProcess(binary, cores={plan.main}, config=config, wrapper=wrapper) as process,
            process.control() as control,
        ):
            # Its instructions are work of their own; engines that fetch nothing don't know it.
            with suppress(EngineError):
                control.command("CONFIG", "SET", "prefetch-batch-max-size", 0)
            counts = Counts(Session(process, control, plan), out)
            _fill(control)
            settings = control.command("CONFIG", "GET", "*-max-listpack-*")
            for point in POINTS:
                rows.append(_count_one(point, counts, control))
                print(rows[-1], flush=True)
            _log_commands(control)
            logged = [_count_one(point, counts, control) for point in LOGGED_POINTS]
    return {
        "engine": name,
        "version": version,
        "date": datetime.now(UTC).date().isoformat(),
        "tool": version_of(["valgrind", "--version"]),
        "settings": settings,
        "logged": logged,
        "points": rows,
    }


def _log_commands(control: RespClient) -> None:
    """Switch the append-only file on, and wait for its first rewrite."""
    control.command("CONFIG", "SET", "appendfsync", "no")
    control.command("CONFIG", "SET", "appendonly", "yes")
    ends = time.monotonic() + _REWRITE_LIMIT_S
    while "aof_rewrite_in_progress:1" in control.info("persistence") or (
        "aof_rewrite_scheduled:1" in control.info("persistence")
    ):
        if time.monotonic() > ends:
            raise EngineError("the first rewrite of the append-only file takes too long.")
        time.sleep(0.5)


def _fill(control: RespClient) -> None:
    for number in range(_STRINGS):
        control.command("SET", _key(number), "v" * _ITEM_BYTES)
    for size in sorted({*LISTPACK_SIZES, *LARGE_SIZES, 4_000}):
        for first in range(0, size, 500):
            numbers = range(first, min(size, first + 500))
            control.command("ZADD", f"z{size}", *(w for n in numbers for w in (n, _item(n))))
            control.command("HSET", f"h{size}", *(w for n in numbers for w in (_item(n), "w" * 16)))


def _count_one(point: Point, counts: Counts, control: RespClient) -> dict[str, Any]:
    random = np.random.default_rng(1)
    few = max(1, 64 // point.items) if point.items > 64 else 1
    control.pipeline([point.words(random) for _ in range(_PIPELINE)])
    counts.dump()
    parts: list[CallgrindProfile] = []
    for commands in (_SHORT, _SHORT + _LONG):
        for _ in range(commands // _PIPELINE // few):
            control.pipeline([point.words(random) for _ in range(_PIPELINE)])
        parts.append(counts.dump())
    (short, _), (long, _) = (charge(part, counts.on.stages) for part in parts)
    more = (_SHORT + _LONG) // _PIPELINE // few - _SHORT // _PIPELINE // few

    def change(*stages: str) -> float:
        total = 0.0
        for stage in stages:
            after = long.get(stage, {})  # type: ignore[call-overload]
            before = short.get(stage, {})  # type: ignore[call-overload]
            total += after.get("Ir", 0.0) - before.get("Ir", 0.0)
        return float(total / (more * _PIPELINE))

    return {
        "command": point.command,
        "items": point.items,
        "size": point.size,
        "parse": round(change("parse"), 1),
        "execute": round(change("lookup", "execute", "reply", "memory"), 1),
    }


def leaves(counts: dict[str, Any], *, source: str) -> dict[str, Quantity]:
    """The work that counts of all points say, by the names of `COMMAND_WORK`.

    Each command in each encoding is a line through its points, by least squares of the relative
    error, with no coefficient below zero.
    """
    groups: dict[tuple[str, ...], list[tuple[list[float], float]]] = {}
    words: list[tuple[int, float]] = []
    for row in counts["points"]:
        kind = _kind_of(row)
        if kind.command in ("get", "mget"):
            words.append((kind.arguments, row["parse"]))
        if terms := work_terms(kind):
            counted = [float(times) for times in terms.values()]
            groups.setdefault(tuple(terms), []).append((counted, row["execute"]))
    arguments, parsing = np.array(words).T
    slope = np.polyfit(arguments, parsing, 1)[0]
    found = {ARGUMENT: _leaf(float(slope), 0.0, source, f"{len(words)} points")}
    for names, rows in groups.items():
        matrix = np.array([row[0] for row in rows])
        seen = np.array([row[1] for row in rows])
        fitted, _ = nnls(matrix / seen[:, None], np.ones(len(seen)))
        worst = float(np.max(np.abs(matrix @ fitted / seen - 1.0)))
        for name, value in zip(names, fitted, strict=True):
            how = f"{len(rows)} points, none further than {worst:.0%} from the line"
            found[name] = _leaf(float(value), worst, source, how)
    found |= _log_leaves(counts, source=source)
    return {name: found[name] for name in COMMAND_WORK}


def _log_leaves(counts: dict[str, Any], *, source: str) -> dict[str, Quantity]:
    """What the append-only file adds to a write, by its words."""
    plain = {(r["command"], r["items"], r["size"]): r for r in counts["points"]}
    terms, more = [], []
    for row in counts["logged"]:
        before = plain[row["command"], row["items"], row["size"]]
        terms.append([1.0, float(_kind_of(row).arguments)])
        more.append(row["execute"] + row["parse"] - before["execute"] - before["parse"])
    matrix, seen = np.array(terms), np.array(more)
    fitted, _ = nnls(matrix / seen[:, None], np.ones(len(seen)))
    worst = float(np.max(np.abs(matrix @ fitted / seen - 1.0)))
    how = f"{len(seen)} writes with and without a log, none further than {worst:.0%} from the line"
    names = zip((LOG, LOG_WORD), fitted, strict=True)
    return {name: _leaf(float(value), worst, source, how) for name, value in names}


def _kind_of(row: dict[str, Any]) -> CommandKind:
    collection = row["size"] > 0
    return CommandKind(
        row["command"],
        0 if COMMANDS[row["command"]].type == "sorted_set" else _ITEM_BYTES,
        share=1.0,
        items=row["items"],
        size=row["size"],
        item_bytes=_ITEM_BYTES if collection else 0,
    )


def _leaf(value: float, worst: float, source: str, how: str) -> Quantity:
    method = f"counted with callgrind, {how}"
    return counted_leaf(value, max(RANGE, 1.0 + worst), source=source, method=method)


SOURCE = "command-counts"

COUNTED = {
    "redis-7.0": "redis-7.0.15",
    "valkey-8.0": "valkey-8.0.1",
    "valkey-9.1": "valkey-9.1.2",
}
"""Engine profiles and the version whose commands were counted for them; others reuse these."""


def artefact(asked: Asked) -> Files:
    """Count the commands of the engines at hand."""
    files = {}
    for engine in asked.engines(("redis-server", "valkey-server", EMBEDDED)):
        found = count(find_engine(engine))
        rows = ",\n".join(f"  {json.dumps(row)}" for row in found.pop("points"))
        out = FOLDER / f"{found['engine']}-{found['version']}.json"
        files[out] = f'{json.dumps(found)[:-1]}, "points": [\n{rows}\n]}}\n'
    return files


def profiles(_asked: Asked) -> Files:
    """The shipped engine profiles with the work of commands that was counted."""
    files = {}
    for profile_id, counted in COUNTED.items():
        path = ENGINES / f"{profile_id}.yaml"
        counts = json.loads((FOLDER / f"{counted}.json").read_text(encoding="utf-8"))
        found = leaves(counts, source=SOURCE)
        data = dict(read_yaml(path))
        source = {
            "title": f"forecache: instructions of commands on {counted}, in valgrind",
            "file": f"{FOLDER}/{counted}.json",
            "accessed": counts["date"],
        }
        data["sources"] = {**data["sources"], SOURCE: source}
        data["commands"] = {name: leaf.model_dump(mode="json") for name, leaf in found.items()}
        parse(EngineProfile, data, file=path)
        files[path] = dump_yaml(data)
    return files
