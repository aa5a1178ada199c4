"""The text of INFO of Redis 5 to 8 and Valkey 7.2 to 9.

`info_fields` and `info_number` are for those who want a few fields of a live engine.
`parse_info` reads a whole text that somebody hands in, with the structure of its sections.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from forecache.hwprofiles.files import read_text

from .lines import Place, numbered, shown

_IO_THREAD = re.compile(r"used_active_time_io_thread_(0|[1-9][0-9]{0,3})")
_MODULE = "module"
# `usec_per_call` is printed with two decimals from a float of 24 bits.
_ROUNDING = 0.0051
_FLOAT = 1e-6


def info_fields(text: str) -> Mapping[str, str]:
    """The `name:value` lines of an INFO text; headings and blank lines are skipped."""
    pairs = (line.split(":", 1) for line in text.splitlines() if line and line[0] != "#")
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def info_number(fields: Mapping[str, str], name: str) -> float | None:
    """A number of INFO, or None when this version doesn't report it: absence is not zero."""
    try:
        return float(fields[name])
    except (KeyError, ValueError):
        return None


@dataclass(frozen=True)
class CommandStats:
    """A line of Commandstats: calls and the time the main thread executed them.

    `rejected` and `failed` came with Redis 6.2.
    """

    calls: int
    total_us: int
    rejected: int | None
    failed: int | None


@dataclass(frozen=True)
class Keyspace:
    """A line of Keyspace."""

    keys: int
    expires: int
    average_ttl_ms: int


@dataclass(frozen=True)
class Info:
    """Everything an INFO text says.

    Attributes
    ----------
    sections : dict
        Fields as text by lower-case section; `fields` has them all. Of several modules the last.
    commands : dict
        By command; a subcommand is `config|get`.
    percentiles_us : dict
        By command, from the percentile (50.0, 99.9) to microseconds. They are the upper ends of
        HdrHistogram buckets at whole microseconds: 0.001 means less than one.
    keyspaces : dict
        By number of the database.
    cpu_s : dict
        The section CPU in seconds, by field.
    io_threads_active_s : tuple
        Busy time of the I/O threads by their number, from Valkey 9 on; else empty.
    """

    sections: dict[str, dict[str, str]]
    commands: dict[str, CommandStats]
    percentiles_us: dict[str, dict[float, float]]
    keyspaces: dict[int, Keyspace]
    cpu_s: dict[str, float]
    io_threads_active_s: tuple[float, ...]

    @property
    def fields(self) -> dict[str, str]:
        """The fields of all sections."""
        return {
            name: value for section in self.sections.values() for name, value in section.items()
        }

    @property
    def engine(self) -> tuple[str, str] | None:
        """Name and version: `("valkey", "9.1.2")`; None without the section Server."""
        server = self.sections.get("server", {})
        for name in ("valkey", "redis"):
            if version := server.get(f"{name}_version"):
                return name, version
        return None


def read_info(path: str | Path) -> Info:
    """Read the text of INFO from a file; see `parse_info`."""
    return parse_info(read_text(path), file=str(path))


def parse_info(text: str, *, file: str) -> Info:
    """Read the text of one INFO, with any of its sections.

    Raises
    ------
    InputError
        A line is neither heading nor field, a field is given twice (two texts in one file), a
        number is none, or the time per call contradicts the calls.
    """
    info = Info({}, {}, {}, {}, {}, ())
    active_s: dict[int, float] = {}
    heading = ""
    section: dict[str, str] | None = None
    for place, line in numbered(text, file=file):
        if line.startswith("#"):
            heading = line[1:].strip().lower()
            if not heading or heading in info.sections:
                raise place.wrong(shown(line), valid="a section of one INFO, once")
            section = info.sections[heading] = {}
            continue
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if section is None or not colon or not name or name != name.strip():
            raise place.wrong(shown(line), valid="# Section, then lines name:value")
        if name in section and name != _MODULE:
            raise place.wrong(f"{shown(name)} for a second time", valid="the text of one INFO")
        section[name] = value = value.strip()
        if heading == "commandstats":
            info.commands[_named(name, "cmdstat_", place)] = _command_stats(value, place)
        elif heading == "latencystats":
            command = _named(name, "latency_percentiles_usec_", place)
            info.percentiles_us[command] = _percentiles_us(value, place)
        elif heading == "keyspace":
            number = place.count(_named(name, "db", place), "the database")
            if name != f"db{number}":
                raise place.wrong(shown(name), valid="db and a plain number")
            pairs = _pairs(value, place)
            counts = [_counted(pairs, key, place) for key in ("keys", "expires", "avg_ttl")]
            info.keyspaces[number] = Keyspace(*counts)
        elif heading == "cpu":
            info.cpu_s[name] = place.decimal(value, name)
            if found := _IO_THREAD.fullmatch(name):
                active_s[int(found[1])] = info.cpu_s[name]
    if section is None:
        raise Place(file, 0).wrong("no section", valid="# Section, then lines name:value")
    threads = tuple(active_s[number] for number in sorted(active_s))
    return replace(info, io_threads_active_s=threads)


def _named(name: str, prefix: str, place: Place) -> str:
    if not name.startswith(prefix) or name == prefix:
        raise place.wrong(shown(name), valid=f"{prefix} and a name")
    return name.removeprefix(prefix)


def _pairs(value: str, place: Place) -> dict[str, str]:
    """`a=1,b=2` as a mapping."""
    pairs: dict[str, str] = {}
    for pair in value.split(","):
        name, equals, number = pair.partition("=")
        if not equals or name in pairs:
            raise place.wrong(shown(value), valid="name=number,name=number")
        pairs[name] = number
    return pairs


def _counted(pairs: Mapping[str, str], name: str, place: Place) -> int:
    if name not in pairs:
        raise place.wrong(f"no {name}", valid=f"{name}= and a number")
    return place.count(pairs[name], name)


def _command_stats(value: str, place: Place) -> CommandStats:
    pairs = _pairs(value, place)
    calls, total_us = _counted(pairs, "calls", place), _counted(pairs, "usec", place)
    each_us = place.decimal(pairs.get("usec_per_call", ""), "usec_per_call")
    exact_us = total_us / calls if calls else 0.0
    if abs(each_us - exact_us) > _ROUNDING + _FLOAT * exact_us:
        raise place.wrong(
            f"{each_us:g} us per call of {calls} calls in {total_us} us", valid=f"{exact_us:.2f}"
        )
    rejected = _counted(pairs, "rejected_calls", place) if "rejected_calls" in pairs else None
    failed = _counted(pairs, "failed_calls", place) if "failed_calls" in pairs else None
    return CommandStats(calls, total_us, rejected, failed)


def _percentiles_us(value: str, place: Place) -> dict[float, float]:
    latencies: dict[float, float] = {}
    low_us = 0.0
    for name, text in _pairs(value, place).items():
        percent = place.decimal(_named(name, "p", place), "the percentile", highest=100.0)
        low_us = place.decimal(text, name, lowest=low_us)
        if percent <= max(latencies, default=-1.0):
            raise place.wrong(shown(value), valid="percentiles that ascend")
        latencies[percent] = low_us
    return latencies
