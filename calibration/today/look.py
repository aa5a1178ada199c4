"""One look at a node: the text of INFO, with checked numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from forecache.sim.errors import InputError

from ..keyspace.values import Kind
from ..observe.readers.lines import Place, shown
from .replies import Reply

_WHOLE = "the text of INFO ALL or INFO EVERYTHING"
_COMMAND, _LATENCY = "cmdstat_", "latency_percentiles_usec_"
_DISTRIBUTION = re.compile(r"db[0-9]{1,9}_distrib_([a-z]+_[a-z]+)")
_DISTRIBUTIONS: Mapping[str, Kind] = {
    "strings_sizes": "string", "lists_items": "list", "sets_items": "set",
    "zsets_items": "sorted_set", "hashes_items": "hash",
}  # fmt: skip
_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}
_MOST_S = 1e10


@dataclass(frozen=True)
class CommandCount:
    """How often a command ran since the server started, and the time it took, in us."""

    calls: int
    time_us: float


@dataclass(frozen=True)
class DatabaseKeys:
    """Keys of a database, and how many of them have a time to live."""

    keys: int
    expires: int


@dataclass(frozen=True)
class Look:
    """The fields of an INFO, each with its place.

    Attributes
    ----------
    place
        Where it begins.
    fields
        Values by name.
    """

    place: Place
    fields: Mapping[str, tuple[Place, str]]

    def text(self, name: str) -> str | None:
        """A field, if there is one."""
        return self.fields[name][1] if name in self.fields else None

    def number(self, name: str) -> float | None:
        """A number that isn't negative; None where this version has no such field.

        Raises
        ------
        InputError
            The field is no such number.
        """
        if name not in self.fields:
            return None
        place, text = self.fields[name]
        return place.decimal(text, name, highest=1e20)

    def needed(self, name: str) -> float:
        """The same of a field that every version has."""
        found = self.number(name)
        if found is None:
            raise InputError(f"{self._where}: field {name!r} is missing; valid is {_WHOLE}.")
        return found

    @property
    def engine(self) -> tuple[str, str]:
        """Name and version.

        Raises
        ------
        InputError
            It names none.
        """
        name = "valkey" if "valkey_version" in self.fields else "redis"
        field = f"{name}_version"
        if field not in self.fields:
            raise InputError(f"{self._where}: field {field!r} is missing; valid is {_WHOLE}.")
        place, version = self.fields[field]
        if not version[:1].isdigit() or len(version) > 20 or not version.isascii():
            raise place.wrong(f"{shown(version)} as {field}", valid="a version, as 8.0.1")
        return name, version

    @property
    def run_id(self) -> str:
        """What tells one start of a server from all others; of old versions the port does."""
        return self.text("run_id") or f"port {self.text('tcp_port')}"

    @cached_property
    def time_s(self) -> float:
        """Since the server started."""
        return self.needed("uptime_in_seconds")

    @cached_property
    def clock_s(self) -> float | None:
        """Its clock to the microsecond, of versions that tell."""
        found = self.number("server_time_usec")
        return None if found is None else found / 1e6

    @cached_property
    def commands(self) -> Mapping[str, CommandCount]:
        """Commands by name, in small letters.

        Raises
        ------
        InputError
            There are none, or a line is damaged.
        """
        found = {}
        for name, (place, text) in self.fields.items():
            if not name.startswith(_COMMAND):
                continue
            values = _values(place, text, name)
            calls = place.count(values.get("calls", ""), f"calls of {name}")
            time_us = place.decimal(values.get("usec", ""), f"usec of {name}", highest=1e20)
            found[name.removeprefix(_COMMAND).lower()] = CommandCount(calls, time_us)
        if not found:
            raise InputError(
                f"{self._where}: found no line {_COMMAND}...; valid is {_WHOLE}: without a section "
                "INFO leaves out how often each command ran."
            )
        return found

    @cached_property
    def databases(self) -> list[DatabaseKeys]:
        """Those that have keys."""
        found = []
        for name, (place, text) in self.fields.items():
            if not name.startswith("db") or not name[2:].isdigit():
                continue
            values = _values(place, text, name)
            keys = place.count(values.get("keys", ""), f"keys of {name}")
            expires = place.count(
                values.get("expires", "0"), f"expires of {name}", lowest=0, highest=keys
            )
            found.append(DatabaseKeys(keys, expires))
        return found

    @cached_property
    def latencies_ms(self) -> Mapping[str, Mapping[str, float]]:
        """How long commands took inside the server since it started: quantiles by name (`p99`).

        Raises
        ------
        InputError
            A line is damaged.
        """
        found = {}
        for name, (place, text) in self.fields.items():
            if name.startswith(_LATENCY):
                found[name.removeprefix(_LATENCY).lower()] = {
                    quantile[:10]: place.decimal(value, f"{quantile} of {name}", highest=1e20) / 1e3
                    for quantile, value in _values(place, text, name).items()
                }
        return found

    @cached_property
    def key_sizes(self) -> list[tuple[Kind, int, int]]:
        """Type, size and number of keys by powers of two (Redis 8).

        A size stands for all up to twice it; it is the length of strings, else a number of
        elements.

        Raises
        ------
        InputError
            A line is damaged.
        """
        found = []
        for name, (place, text) in self.fields.items():
            match = _DISTRIBUTION.fullmatch(name)
            kind = None if match is None else _DISTRIBUTIONS.get(match[1])
            if kind is None:
                continue
            for size, keys in _values(place, text, name).items():
                unit = _UNITS.get(size[-1:], 0)
                digits = size[:-1] if unit else size
                number = place.count(digits, f"a size of {name}", highest=2**50) << unit
                found.append((kind, number, place.count(keys, f"keys of {name}", highest=10**12)))
        return found

    @property
    def replica(self) -> bool:
        """Whether the node follows another."""
        return self.text("role") == "slave"

    @property
    def _where(self) -> str:
        return f"{self.place.file}, line {self.place.line}"


def look_of(reply: Reply) -> Look:
    """The fields of an INFO.

    Raises
    ------
    InputError
        A line is no field.
    """
    fields: dict[str, tuple[Place, str]] = {}
    for place, line in reply.lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, colon, value = text.partition(":")
        if not colon or not name:
            raise place.wrong(shown(text), valid="name:value, as INFO has it")
        fields.setdefault(name, (place, value.strip()))
    look = Look(reply.place, fields)
    _ = look.engine, look.run_id  # refuses what is no INFO
    if not look.time_s <= _MOST_S:
        raise fields["uptime_in_seconds"][0].wrong(
            f"{look.time_s:g} as uptime_in_seconds", valid=f"at most {_MOST_S:g}"
        )
    return look


def _values(place: Place, text: str, name: str) -> dict[str, str]:
    """`calls=3,usec=4` as a mapping."""
    found = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals:
            raise place.wrong(f"{shown(part)} in {name[:60]}", valid="name=value,name=value")
        found[key] = value
    return found
