"""The table of commands: what a mix, a plan's operations, INFO and the model know of each.

A row says what a command is; what it takes on an engine is measured and stands in the engine's
profile, one number for each term of its work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model

from forecache.hwprofiles.files import parse, read_yaml
from forecache.hwprofiles.record import Record

from .versions import version_numbers

DataType = Literal["string", "sorted_set", "hash", "list", "set", "stream"]

DESCRIBED_BY: dict[DataType, str] = {
    "sorted_set": "sorted_sets",
    "hash": "hashes",
    "list": "lists",
    "set": "sets",
    "stream": "streams",
}
"""The field of a workload that says what collections of a type are like."""

DATA = (
    *("key", "value", "member", "field", "element", "entry", "absent"),
    *("id", "score", "index", "last", "count", "offset", "number", "name", "integer"),
    *("coordinate", "radius", "unit"),
)
"""What a word of a request or an element of a reply holds: parts of the data (`absent` is a member
that isn't there, `entry` one of a stream with its id), places in them (`last` is that of the last
item from the first on, `offset` one of a bit), how many items are asked for, a number, or a name
of something else."""


def _known(word: str) -> str:
    if word not in DATA and word != word.upper():
        raise ValueError(f"one of {', '.join(DATA)}, or a word without small letters")
    return word


Word = Annotated[str, AfterValidator(_known)]
"""One of `DATA`, or a word that is sent as it stands here."""

Encoding = Literal["string", "listpack", "table", "intset", "quicklist", "stream"]

Term = Literal["call", "item", "entry", "seek", "byte"]
"""How work grows: constant, with each item, with each entry of a listpack that is searched once an
item, or once a command, with each byte of a value."""

Items = Literal["one", "keys", "members", "fields", "elements", "entries", "all"]


class CommandRow(Record):
    """One row.

    What tells commands apart is little: what their words are, how many items they name, what part
    of their key's data they touch, what they reply, and how their work grows with all that.

    Attributes
    ----------
    type
        What its keys hold; that of a command without a key doesn't count.
    words, each
        Words of the request after the name: those that come once, and those of each item.
    reply
        A status, an integer, one bulk string, or an array with these elements for each item.
    items
        How many keys, members, fields, elements or entries it has: one, as many as a scenario
        says, or all that the collection has.
    touches
        Which part of what its key holds: the value of a string, one line of it (`part`), nothing
        but its header (`head`), entries that are searched for, a range of them, the first or last
        one (`end`), their old places and the new ones, or all.
    holds
        What values or members are, where they aren't text: whole numbers, a dense HyperLogLog,
        places on Earth, or entries that half were delivered to a group `G`.
    expires
        Whether its keys have a time to live.
    work
        Terms of what executing it takes, by encoding; none of GET and SET, whose work is the
        engine's own. An engine that packs no sets has that of small ones under `listpack` as well.
    since
        The version of Redis that brought it; None of what all engines here have.
    also
        Other names under which INFO counts what takes as much.
    """

    type: DataType = "string"
    words: tuple[Word, ...] = ()
    each: tuple[Word, ...] = ()
    reply: Word | tuple[Word, ...]
    items: Items = "one"
    writes: bool = False
    touches: Literal["value", "part", "head", "search", "range", "end", "insert", "all"] = "value"
    holds: Literal["text", "numbers", "hyperloglog", "places", "delivered"] = "text"
    expires: bool = False
    work: dict[Encoding, tuple[Term, ...]] = Field(default={})
    since: str | None = None
    also: tuple[str, ...] = ()

    @property
    def returned(self) -> tuple[Word, ...]:
        """What the reply brings of each item."""
        if isinstance(self.reply, tuple):
            return self.reply
        return () if self.reply == "integer" or self.reply.isupper() else (self.reply,)

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


def later_commands(version: str) -> list[str]:
    """The commands that came after a version of Redis; none of Valkey's, which has them all."""
    asked = version_numbers(version)
    return [
        name for name, row in COMMANDS.items() if row.since and version_numbers(row.since) > asked
    ]


def record_by_command(field: Callable[[str, CommandRow], tuple[Any, Any]]) -> type[Record]:
    """A record with a field for each command: its type and what pydantic shall know of it."""
    fields: dict[str, Any] = {name: field(name, row) for name, row in COMMANDS.items()}
    return create_model("ByCommand", __base__=Record, **fields)


def optional(base: type[Record], row: CommandRow, meaning: str) -> tuple[Any, Any]:
    """A field that may be left out: a record that says how often, and how many items if any."""
    kind = base if row.items in ("one", "all") else with_items(base, row.items)
    return kind | None, Field(default=None, description=f"{meaning}.")


@cache
def with_items(base: type[Record], items: Items) -> type[Record]:
    """A record with a field for the number of items; that of keys has to be said."""
    default: Any = ... if items == "keys" else 1
    field = Field(default=default, ge=1, le=10_000, description=f"{items.title()} of one command.")
    fields: dict[str, Any] = {items: (int, field)}
    return create_model(
        f"{base.__name__}{items.title()}",
        __base__=base,
        __module__=base.__module__,  # where it has a name, by which workers find it
        __doc__=f"{(base.__doc__ or '').split(';')[0]}, and how many {items} it has.",
        **fields,
    )
