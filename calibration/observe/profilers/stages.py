"""Which stage of a request a function belongs to, from the maps in `calibration/observe/symbols/`.

An exact name beats a pattern, and a longer pattern a shorter one; an engine's own map beats the
common one. What compilers, linkers and profilers append to a name doesn't count.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path

from pydantic import Field

from forecache.hwprofiles.files import parse, read_yaml, shipped
from forecache.hwprofiles.quantity import Source
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError

from ...bundle.profiles import Stage

_COMMON = "common"
# `name@@GLIBC_2.34`, `name.constprop.0`, `name'2` of a recursion, `name [object, file]`.
_SUFFIX = re.compile(r"(@|'\d|\.(part|constprop|isra|lto_priv|cold|llvm)\b| \[).*$")


class SymbolMap(Record):
    """Functions of one engine generation by stage, and kernel functions by their system call."""

    id: str
    title: str
    engines: dict[str, list[str]]
    """Engine names, and the versions of each that have these functions: 7 stands for 7.0.15."""
    sources: dict[str, Source]
    stages: dict[Stage, list[str]]
    system_calls: dict[Stage, list[str]] = Field(default={})

    def covers(self, engine: str, version: str) -> bool:
        """Whether the map was made for a version of an engine."""
        return any(f"{version}.".startswith(f"{known}.") for known in self.engines.get(engine, []))

    def stage_of(self, function: str) -> Stage | None:
        """The stage of a function, or None when the map doesn't know it."""
        return _find(_SUFFIX.sub("", function), self._functions)

    def system_call_stage(self, function: str) -> Stage | None:
        """The stage of the system call that a kernel function begins, or None."""
        return _find(function, self._kernel)

    @cached_property
    def _functions(self) -> dict[str, Stage]:
        return _by_pattern(self.stages)

    @cached_property
    def _kernel(self) -> dict[str, Stage]:
        return _by_pattern(self.system_calls)


def _by_pattern(stages: Mapping[Stage, list[str]]) -> dict[str, Stage]:
    """Stages by name or pattern, the longest first."""
    pairs = [(name, stage) for stage, names in stages.items() for name in names]
    return dict(sorted(pairs, key=lambda pair: -len(pair[0])))


def _find(name: str, stages: Mapping[str, Stage]) -> Stage | None:
    if name in stages:
        return stages[name]
    return next((stage for pattern, stage in stages.items() if fnmatchcase(name, pattern)), None)


class Stages:
    """An engine's map on top of the common one.

    Parameters
    ----------
    engine, version
        As INFO reports them.

    Raises
    ------
    InputError
        No map covers that version; names those there are.
    """

    def __init__(self, engine: str, version: str) -> None:
        maps = symbol_maps()
        covering = [known for known in maps.values() if known.covers(engine, version)]
        if not covering:
            titles = ", ".join(known.title for known in maps.values() if known.engines)
            raise InputError(
                f"engine: found {engine} {version}, whose functions no map in "
                f"calibration/observe/symbols names; valid is {titles}."
            )
        self.generation = covering[0].id
        self._own = covering[0]
        self._common = maps[_COMMON]
        self.stage_of = lru_cache(maxsize=None)(self._stage_of)
        self.system_call_stage = lru_cache(maxsize=None)(self._common.system_call_stage)

    def _stage_of(self, function: str) -> Stage | None:
        return self._own.stage_of(function) or self._common.stage_of(function)


@lru_cache(maxsize=1)
def symbol_maps() -> dict[str, SymbolMap]:
    """The shipped maps by id."""
    return {
        name: _read(path)
        for name, path in shipped("forecache.calibration.observe", "symbols").items()
    }


def _read(path: Path) -> SymbolMap:
    return parse(SymbolMap, read_yaml(path), file=path)
