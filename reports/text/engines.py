"""Engines by the name that a reader knows."""

import re
from typing import Protocol


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
