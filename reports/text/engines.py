"""Engines by the name that a reader knows."""

from typing import Protocol


class NamedEngine(Protocol):
    """An engine in an answer: the id of its profile, and the version it stands for."""

    @property
    def id(self) -> str: ...

    @property
    def version(self) -> str: ...


def engine_name(engine: NamedEngine) -> str:
    """Return `valkey 9.1.2` for profile `valkey-9.1`, and `mine 9.1.2` for another."""
    family, _, generation = engine.id.rpartition("-")
    same = engine.version == generation or engine.version.startswith(f"{generation}.")
    return f"{family if family and same else engine.id} {engine.version}"
