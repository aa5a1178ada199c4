"""Results as the plain data that JSON knows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from dataclasses import field, fields
from typing import Any

LEFT_OUT = "left out where unset"
IN_PYTHON_ALONE = "not part of to_dict"

ONLY_IN_PYTHON = {IN_PYTHON_ALONE: True}
"""Metadata of a field that JSON does not have."""


class Result:
    """Base of dataclasses that answers are made of: `to_dict` has a key for each field."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as `json.dumps` takes them; see `plain`."""
        return {
            each.name: plain(value)
            for each in fields(self)  # type: ignore[arg-type]
            if IN_PYTHON_ALONE not in each.metadata
            and not (_is_unset(value := getattr(self, each.name)) and LEFT_OUT in each.metadata)
        }


def _is_unset(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, Sized) and not len(value))


def where_set(default: Any = None) -> Any:
    """A field that `to_dict` leaves out where it is None, False or empty."""
    return field(default=default, metadata={LEFT_OUT: True})


def plain(value: Any) -> Any:
    """Turn a result into what JSON knows.

    Tuples and arrays become lists, numbers of NumPy become Python's, paths and dates text, and
    what is not a finite number becomes null, because JSON has no word for it.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "model_dump"):
        return plain(value.model_dump(mode="json"))
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)
