"""The table of commands: what a mix, a plan's operations, INFO and the model know of each.

A row says what a command is; what it takes on an engine is measured and stands in the engine's
profile, one number for each term of its work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, create_model

from forecache.hwprofiles.files import parse, read_yaml
from forecache.hwprofiles.record import Record

DataType = Literal["string", "sorted_set", "hash"]

DESCRIBED_BY: dict[str, str] = {"sorted_set": "sorted_sets", "hash": "hashes"}
"""The field of a workload that says what collections of a type are like."""

Word = Literal["key", "value", "member", "field", "score", "index"]
"""What a word of a request or an element of a reply holds."""

Encoding = Literal["string", "listpack", "table"]

Term = Literal["call", "item", "entry", "seek"]
"""How work grows: constant, with each item, with each entry of a listpack that is searched once an
item, or once a command."""


class CommandRow(Record):
    """One row.

    Attributes
    ----------
    type
        What its keys hold.
    words, each
        Words of the request after the name: those that come once, and those of each item.
    reply
        A status, an integer, one bulk string, or an array with these elements for each item.
    items
        How many keys, members or fields it has: one, as many as a scenario says, or all that the
        collection has.
    touches
        Which part of what its key holds: the value of a string, entries that are searched for, a
        range of them, their old places and the new ones, or all.
    work
        Terms of what executing it takes, by encoding; none of GET and SET, whose work is the
        engine's own.
    also
        Other names under which INFO counts what takes as much.
    """

    type: DataType
    words: tuple[Word, ...] = ()
    each: tuple[Word, ...] = ()
    reply: Literal["ok", "integer", "value"] | tuple[Word, ...]
    items: Literal["one", "keys", "members", "fields", "all"] = "one"
    writes: bool = False
    touches: Literal["value", "search", "range", "insert", "all"] = "value"
    work: dict[Encoding, tuple[Term, ...]] = Field(default={})
    also: tuple[str, ...] = ()

    @property
    def returned(self) -> tuple[Word, ...]:
        """What the reply brings of each item."""
        if isinstance(self.reply, tuple):
            return self.reply
        return ("value",) if self.reply == "value" else ()

    @property
    def values(self) -> Literal["get", "set"] | None:
        """What it does with whole values of strings: those of the reply or of the request."""
        if self.type != "string":
            return None
        if "value" in (*self.words, *self.each):
            return "set"
        return "get" if "value" in self.returned else None


class _Table(Record):
    """Content of `commands.yaml`."""

    commands: dict[str, CommandRow]


_FILE = Path(__file__).with_name("commands.yaml")

COMMANDS: Mapping[str, CommandRow] = parse(_Table, read_yaml(_FILE), file=_FILE).commands


def commands_on(*types: str) -> list[str]:
    """The commands on keys of these types."""
    return [name for name, row in COMMANDS.items() if row.type in types]


def record_by_command(field: Callable[[str, CommandRow], tuple[Any, Any]]) -> type[Record]:
    """A record with a field for each command: its type and what pydantic shall know of it."""
    fields: dict[str, Any] = {name: field(name, row) for name, row in COMMANDS.items()}
    return create_model("ByCommand", __base__=Record, **fields)


def optional(asked: Mapping[str, type], row: CommandRow, meaning: str) -> tuple[Any, Any]:
    """A field that may be left out, of the type that says how many items a command has."""
    if row.type in DESCRIBED_BY:
        meaning += f"; needs `{DESCRIBED_BY[row.type]}`"
    kind = asked.get(row.items, asked["one"])
    return kind | None, Field(default=None, description=f"{meaning}.")
