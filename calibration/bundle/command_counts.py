"""What a bundle says of commands beyond GET and SET: instructions that were counted of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from forecache.hwprofiles.files import parse, read_text
from forecache.hwprofiles.record import Record
from forecache.models.engines.commands import Way
from forecache.models.scenario.command_table import COMMANDS
from forecache.sim.errors import InputError

ITEM_BYTES = 16
"""Of a member, a field, an element or a value, where nothing else is said."""


def _known(command: str) -> str:
    if command not in COMMANDS:
        raise ValueError("a command of the table, such as get, set or incr")
    return command


class CountedPoint(Record):
    """Instructions of parsing one command, and of executing it.

    `size` counts what its collection has, `value_bytes` those of a string's value; `integers` says
    that members are whole numbers.
    """

    command: Annotated[str, AfterValidator(_known)]
    items: int
    size: int
    value_bytes: int = ITEM_BYTES
    integers: bool = False
    parse: float = Field(ge=0)
    execute: float = Field(gt=0)


class CountedCalls(Record):
    """The same of a transaction or a script that calls so many GETs."""

    how: Way
    calls: int = Field(ge=1)
    parse: float = Field(ge=0)
    execute: float = Field(gt=0)


class CommandCounts(Record):
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
    """Read a file of counts.

    Raises
    ------
    InputError
        It can't be read, or is no such file.
    """
    try:
        data = json.loads(read_text(file))
    except ValueError as error:
        raise InputError(f"{file}: found no JSON ({error}); valid is a file of counts.") from None
    return parse(CommandCounts, data, file=file)
