"""The one reader of scenarios, given as the path of a file or as a mapping of the same shape.

From Python, numbers and lists may be those of NumPy, pandas, polars or Arrow; they become here what
a YAML file would have held, so that nothing below has to know of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecache.hwprofiles.named_files import read_with_files

from .kinds import check_kind

_LONGEST_RANGE = 100_000
"""Numbers of a `range` outside a sweep that are written out as a list."""


@dataclass(frozen=True)
class ScenarioFile:
    """A scenario that was read; whoever is given one does not read it again."""

    name: str
    """What messages call it: the path, or `scenario` of a mapping."""
    data: dict[str, Any]
    """Its fields, in which a field may be a sweep."""

    def kind(self, valid: Sequence[str]) -> str:
        """Which of the valid kinds it is of; refuses any other with an `InputError`."""
        return check_kind(self.data, file=self.name, valid=valid)


ScenarioSource = str | Path | Mapping[str, Any] | ScenarioFile


def read_scenario(source: ScenarioSource) -> ScenarioFile:
    """Read a scenario, unless it was read already; see `content_of`."""
    if isinstance(source, ScenarioFile):
        return source
    name = "scenario" if isinstance(source, Mapping) else str(source)
    return ScenarioFile(name, content_of(source))


def content_of(source: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a scenario, as plain data.

    A `range` in a sweep stays one, since it may be longer than memory.

    Parameters
    ----------
    source
        Path of a file, or its content. Lists may be tuples, ranges, arrays or series, and numbers
        scalars of NumPy. Paths in a file are relative to its folder, those in a mapping to the
        current one.

    Raises
    ------
    InputError
        The file can't be read, or names one that is in the current folder but not in its own.
    """
    if not isinstance(source, Mapping):
        return read_with_files(source)
    return {key: _written_out(value) for key, value in source.items()}


def _written_out(value: Any) -> Any:
    """A value as YAML would hold it; of a type that is not known here, as it is."""
    if isinstance(value, Mapping):
        if set(value) == {"sweep"} and isinstance(value["sweep"], range):
            return dict(value)
        return {key: _written_out(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_written_out(item) for item in value]
    if isinstance(value, range):
        return list(value) if len(value) <= _LONGEST_RANGE else value
    # NumPy, pandas and Arrow have the first, polars the second.
    for name in ("tolist", "to_list"):
        method = getattr(value, name, None)
        if callable(method) and not isinstance(value, type):
            return _written_out(method())
    return str(value) if isinstance(value, Path) else value
