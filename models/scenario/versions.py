"""Versions of engines: as fields have them, and which are newer than all known ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated

from pydantic import BeforeValidator, model_validator

from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.record import Record

_VERSION = re.compile(r"\d{1,3}(\.\d{1,3}){1,3}(-[a-z0-9.]+)?")


def _quoted(version: object) -> object:
    """Refuse a number, which YAML makes of a version without quotes."""
    if isinstance(version, int | float):
        raise ValueError('a version in quotes, such as "8.1", which is not the number 8.10')
    return version


EngineVersion = Annotated[str, BeforeValidator(_quoted)]
"""A version such as `"8.1"`."""


def engine_and_version(name: str) -> tuple[str, str | None]:
    """`valkey 9.1` as an engine and its version; a name without one, or a path, as it is."""
    engine, _, version = name.rpartition(" ")
    return (engine, version) if engine and _VERSION.fullmatch(version) else (name, None)


class OfEngine(Record):
    """A record with an `engine` and an `engine_version`, which may stand together in the first."""

    @model_validator(mode="before")
    @classmethod
    def _version_apart(cls, value: object) -> object:
        if not isinstance(value, Mapping) or not isinstance(value.get("engine"), str):
            return value
        engine, version = engine_and_version(value["engine"])
        if version is None:
            return value
        if (other := value.get("engine_version")) is not None:
            valid = f"'{version}' beside the engine '{engine} {version}', or nothing"
            raise FieldError("engine_version", found=other, valid=valid)
        return {**value, "engine": engine, "engine_version": version}


def minor_version(version: str) -> str:
    """Major and minor number: 8.1 of 8.1.4."""
    return ".".join(version.split(".")[:2])


def newest(known: Iterable[str]) -> str:
    """The newest of some versions."""
    return max(known, key=version_numbers)


def is_newer(version: str, known: Iterable[str]) -> bool:
    """Whether a version is a later one than all known ones.

    What can only be a slip of the pen is none: a version without a minor number (`91` for 9.1), or
    one whose major number skips others (`80.1` for 8.0.1).
    """
    if not _VERSION.fullmatch(version):
        return False
    asked, latest = version_numbers(version)[:2], version_numbers(newest(known))[:2]
    return asked > latest and asked[0] <= latest[0] + 1


def find_version(version: str, known: Collection[str]) -> str | None:
    """The known version whose rules a version has, None if there is none.

    Its own; that of its release, 8.0 for 8.0.1; or the newest, where it is newer than all known.
    """
    for spelling in (version, minor_version(version)):
        if spelling in known:
            return spelling
    return newest(known) if known and is_newer(version, known) else None


def taken_as_newest(engine: str, version: str, known: str) -> str:
    """What every answer says of a version that is newer than all known ones."""
    return (
        f"{engine} {version} is newer than every version known here: it is taken as {engine} "
        f"{known}, the newest known one"
    )


def version_numbers(version: str) -> list[int]:
    """The numbers that a version begins with."""
    leading = re.match(r"\d+(\.\d+)*", version)
    return [int(part) for part in leading[0].split(".")] if leading else []
