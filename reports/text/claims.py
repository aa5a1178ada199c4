"""The claims of articles in words: names, numbers, errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

BAD = ("misses", "disagrees", "wrong")
"""Verdicts on what a model does not make."""


def named(row: Mapping[str, Any]) -> str:
    """A claim's id with its part."""
    return f"{row['id']} {row['part']}" if row.get("part") else str(row["id"])


def claimed(row: Mapping[str, Any]) -> str:
    """The value or range with its unit; empty without one."""
    found = row.get("claimed")
    if not found:
        return ""
    low, high = found.get("low"), found.get("high")
    if found.get("value") is not None:
        text = amount(found["value"])
    elif low is None:
        text = f"at most {amount(high)}"
    elif high is None:
        text = f"at least {amount(low)}"
    else:
        text = f"{amount(low)} to {amount(high)}"
    return f"{text} {found['unit']}"


def amount(value: float | None) -> str:
    """A number with four digits, or all of a large whole one; a dash for none."""
    if value is None:
        return "–"
    if abs(value) >= 1e4:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def error(row: Mapping[str, Any]) -> str:
    """The error in percent; a dash for none, `within` inside a range."""
    found = row["error"]
    if found is None:
        return "–"
    if math.isinf(found):
        return "beyond"
    is_range = (row.get("claimed") or {}).get("value") is None
    return "within" if found == 0.0 and is_range else f"{100 * found:+.1f}%"
