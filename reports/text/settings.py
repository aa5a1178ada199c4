"""Swept fields and their values as a reader knows them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .formats import count, is_number, plain

# What a field is called in the engine's configuration or on the benchmark's command line.
_NAMES = {"io_threads": "io-threads", "rate_rps": "offered load", "value_bytes": "value"}


def setting_name(key: str) -> str:
    """Return the name a reader knows a setting by, `io-threads` for `io_threads`."""
    return _NAMES.get(key, key.replace("_", " "))


def setting_text(setting: Mapping[str, Any] | None) -> str:
    """Spell a setting out, `io-threads 6, pipeline 4`, leaving out unknown values."""
    return ", ".join(
        f"{setting_name(key)} {value_text(value)}"
        for key, value in (setting or {}).items()
        if value is not None
    )


def value_text(value: object) -> str:
    """Write the value of a setting."""
    if is_number(value):
        return count(value) if float(value).is_integer() else f"{value:,.6g}"
    return plain(value)


def varying_keys(given: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys whose values differ between settings; all of them when none does."""
    keys = list(dict.fromkeys(key for each in given for key in each))
    varying = [key for key in keys if len({repr(each.get(key)) for each in given}) > 1]
    return varying or keys


def short_names(keys: Sequence[str]) -> list[str]:
    """The last part of each dotted name where that tells it from the others."""
    ends = [key.rpartition(".")[2] for key in keys]
    return [end if ends.count(end) == 1 else key for key, end in zip(keys, ends, strict=True)]


# --- engines -------------------------------------------------------------------------------------


class NamedEngine(Protocol):
    """An engine in an answer: the id of its profile, and the version it stands for."""

    @property
    def id(self) -> str: ...

    @property
    def version(self) -> str: ...


def engine_name(engine: NamedEngine) -> str:
    """Return `valkey 9.1.2` for profile `valkey-9.1`, and `mine 9.1.2` for another.

    A profile that was fitted on a host has its id behind that of the engine.
    """
    on_host = re.fullmatch(r"([a-z]+-\d[\d.]*)-(.+)", engine.id)
    if on_host is not None:
        return f"{_name(on_host[1], engine.version)} as observed on {on_host[2]}"
    return _name(engine.id, engine.version)


def _name(profile: str, version: str) -> str:
    family, _, generation = profile.rpartition("-")
    same = version == generation or version.startswith(f"{generation}.")
    return f"{family if family and same else profile} {version}"
