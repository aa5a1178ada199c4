"""What a profiler found at one point, and the lines of `profiles.jsonl` that keep it.

Also what it counted of commands beyond GET and SET, which `commands.json` keeps.

What a profiler can't tell is None, never zero.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, Field, model_validator

from forecache.hwprofiles.files import parse, read_text
from forecache.hwprofiles.record import Record as _Record
from forecache.models.scenario.command_table import COMMANDS
from forecache.models.scenario.workload import Calling
from forecache.sim.errors import InputError

from .points import Conditions

Stage = Literal[
    "poll",
    "loop",
    "read",
    "parse",
    "lookup",
    "execute",
    "reply",
    "write",
    "memory",
    "hand_over",
    "other",
]
"""Steps of a request. `poll` is waiting for events, `loop` the event loop around it; `memory` is
allocation and copying whose caller isn't known; `other` includes what no symbol map names."""

Depth = Literal["clock", "instructions", "counters", "vtune"]


class StageWork(_Record):
    """One stage of one thread.

    Attributes
    ----------
    share
        Of the thread's samples: of its CPU time, or of its cycles. Idle time is in none.
    standard_error
        Of `share`, from the number of samples.
    kernel_share
        The part of `share` that was spent in the kernel.
    instructions_per_request, data_references_per_request, d1_misses_per_request, \
ll_misses_per_request
        In user code, counted by simulation. They may lie a little below zero where a stage's work
        doesn't grow with the requests: they are differences of two runs.
    """

    stage: Stage
    share: float | None = Field(default=None, ge=0, le=1)
    standard_error: float | None = Field(default=None, ge=0)
    kernel_share: float | None = Field(default=None, ge=0, le=1)
    instructions_per_request: float | None = None
    data_references_per_request: float | None = None
    d1_misses_per_request: float | None = None
    ll_misses_per_request: float | None = None


class ThreadWork(_Record):
    """One thread of the server; `share` is its part of all samples."""

    thread: str
    role: Literal["main", "io", "other"]
    samples: int | None = Field(default=None, ge=0)
    share: float | None = Field(default=None, ge=0, le=1)
    stages: list[StageWork] = Field(default_factory=list)


class CounterValue(_Record):
    """A hardware counter; `running_fraction` below 1 says that it was extrapolated."""

    event: str
    per_request: float | None = None
    running_fraction: float | None = Field(default=None, ge=0, le=1)


class CacheGeometry(_Record):
    """One simulated cache."""

    size_bytes: int = Field(gt=0)
    ways: int = Field(gt=0)
    line_bytes: int = Field(gt=0)


class Geometry(_Record):
    """The simulated caches: those of `host`, with `last_level` (L2 or L3) as the last one."""

    host: str
    last_level: Literal["L2", "L3"]
    l1: CacheGeometry
    ll: CacheGeometry


class Profile(_Record):
    """What one profiler found at one point.

    Attributes
    ----------
    tool
        Name and version of the program.
    given
        Conditions of the point.
    requests
        That the numbers rest on; None where a report made elsewhere doesn't say.
    samples, unattributed
        Number of samples, and the share of them, or of the instructions, that no map names.
    reads_per_request, writes_per_request, event_loops_per_request
        From the engine's own counters over the same requests.
    metrics
        Derived from the counters, such as instructions per cycle.
    evidence
        File of the bundle with the counts per function.
    """

    profiler: Literal["clock", "callgrind", "perf", "vtune"]
    tool: str
    given: Conditions
    requests: int | None = Field(default=None, ge=1)
    samples: int | None = Field(default=None, ge=0)
    unattributed: float | None = Field(default=None, ge=-1, le=1)
    reads_per_request: float | None = None
    writes_per_request: float | None = None
    event_loops_per_request: float | None = None
    geometry: Geometry | None = None
    threads: list[ThreadWork] = Field(default_factory=list)
    counters: list[CounterValue] = Field(default_factory=list)
    metrics: dict[str, float] = Field(default_factory=dict)
    evidence: str | None = None


def write_profiles(file: Path, profiles: Iterable[Profile]) -> None:
    """Write one profile a line."""
    lines = [
        json.dumps(profile.model_dump(mode="json", exclude_none=True), separators=(",", ":")) + "\n"
        for profile in profiles
    ]
    file.write_text("".join(lines), encoding="utf-8")


def read_profiles(file: Path, *, expected: int) -> list[Profile]:
    """Read `profiles.jsonl`, which must have `expected` lines."""
    return parse_records(Profile, read_text(file), file=file, noun="profile", expected=expected)


# --- records of a bundle: JSON, one a line, as many as the manifest announces ---------------------


RecordT = TypeVar("RecordT", bound=BaseModel)


def parse_records(
    model: type[RecordT], text: str, *, file: Path, noun: str, expected: int
) -> list[RecordT]:
    """The records in a file's text, which must be `expected` lines."""
    records = []
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{file}, line {number}"
        try:
            data = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: no JSON ({error}); valid is one {noun} a line.") from None
        records.append(parse(model, data, file=where))
    if len(records) != expected or (text and not text.endswith("\n")):
        raise InputError(
            f"{file}, line {len(records) + 1}: the file ends after {len(records)} {noun}s; "
            f"manifest.yaml announces {expected}."
        )
    return records


# --- commands of the table -----------------------------------------------------------------------

ITEM_BYTES = 16
"""Of a member, a field, an element or a value, where nothing else is said."""


def _of_the_table(command: str) -> str:
    if command not in COMMANDS:
        raise ValueError("a command of the table, such as get, set or incr")
    return command


class CountedPoint(_Record):
    """Instructions of parsing one command, and of executing it.

    `size` counts what its collection has, `value_bytes` those of a string's value; `integers` says
    that members are whole numbers.
    """

    command: Annotated[str, AfterValidator(_of_the_table)]
    items: int
    size: int
    value_bytes: int = ITEM_BYTES
    integers: bool = False
    parse: float = Field(ge=0)
    execute: float = Field(gt=0)


class CountedCalls(_Record):
    """The same of a transaction or a script that calls so many GETs."""

    how: Calling
    calls: int = Field(ge=1)
    parse: float = Field(ge=0)
    execute: float = Field(gt=0)


class CommandCounts(_Record):
    """One engine's counts.

    `settings` are those that encodings depend on, `logged` are writes with an append-only file.
    """

    engine: str
    version: str
    build: str | None = None
    date: str
    tool: str
    settings: list[str]
    calling: tuple[CountedCalls, ...] = ()
    logged: tuple[CountedPoint, ...] = Field(min_length=2)
    points: list[CountedPoint]

    @model_validator(mode="after")
    def _whole(self) -> CommandCounts:
        places = {(point.command, point.items, point.size) for point in self.points}
        counted = {command for command, _, _ in places}
        if missing := [name for name in ("get", "mget") if name not in counted]:
            raise ValueError(f"points of get and mget among others: {missing[0]} is missing")
        if any((each.command, each.items, each.size) not in places for each in self.logged):
            raise ValueError("under logged only commands that were counted without a log as well")
        return self

    def text(self) -> str:
        """Content of its file, a point a line."""
        head = self.model_dump(mode="json", exclude={"points"}, exclude_defaults=True)
        rows = [point.model_dump(mode="json", exclude_defaults=True) for point in self.points]
        lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        return f'{json.dumps(head)[:-1]}, "points": [\n{lines}\n]}}\n'


def read_counts(file: Path) -> CommandCounts:
    """Read a file of counts."""
    try:
        data = json.loads(read_text(file))
    except ValueError as error:
        raise InputError(f"{file}: found no JSON ({error}); valid is a file of counts.") from None
    return parse(CommandCounts, data, file=file)
