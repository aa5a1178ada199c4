"""Reading plain data, such as the report of a calibration, of which parts may be missing.

A part that is missing or null yields an empty result here, so that the renderers can leave it out.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .formats import is_number

Json = Mapping[str, Any]


def mapping(source: object, key: str) -> Json:
    """Return `source[key]` when it is a mapping, else an empty one."""
    found = source.get(key) if isinstance(source, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def rows(source: object, key: str) -> list[Json]:
    """Return the mappings in the list `source[key]`, else an empty list."""
    found = source.get(key) if isinstance(source, Mapping) else None
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        return []
    return [row for row in found if isinstance(row, Mapping)]


def texts(source: object, key: str) -> list[str]:
    """Return the strings in the list `source[key]`, each once, in order."""
    found = source.get(key) if isinstance(source, Mapping) else None
    if isinstance(found, str):
        found = [found]
    if not isinstance(found, Sequence):
        return []
    return list(dict.fromkeys(str(text) for text in found if text))


def number(source: object, key: str) -> float | None:
    """Return `source[key]` as a float when it is a finite number."""
    found = source.get(key) if isinstance(source, Mapping) else None
    return float(found) if is_number(found) else None
