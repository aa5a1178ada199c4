"""Types of fields that several kinds of scenarios have."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator


def _quoted(version: object) -> object:
    """Refuse a number, which YAML makes of a version without quotes."""
    if isinstance(version, int | float):
        raise ValueError('a version in quotes, such as "8.1", which is not the number 8.10')
    return version


EngineVersion = Annotated[str, BeforeValidator(_quoted)]
"""A version such as `"8.1"`."""
