"""The claims of articles in words: names, numbers, errors."""

from __future__ import annotations

import math

from .judged import JudgedClaim

BAD = ("misses", "disagrees", "wrong")
"""Verdicts on what a model does not make."""


def named(claim: JudgedClaim) -> str:
    """A claim's id with its part."""
    return f"{claim.id} {claim.part}" if claim.part else claim.id


def claimed(claim: JudgedClaim) -> str:
    """The value or range with its unit; empty without one."""
    found = claim.claimed
    if found is None:
        return ""
    if found.value is not None:
        text = amount(found.value)
    elif found.low is None:
        text = f"at most {amount(found.high)}"
    elif found.high is None:
        text = f"at least {amount(found.low)}"
    else:
        text = f"{amount(found.low)} to {amount(found.high)}"
    return f"{text} {found.unit}"


def amount(value: float | None) -> str:
    """A number with four digits, or all of a large whole one; a dash for none."""
    if value is None:
        return "–"
    if abs(value) >= 1e4:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def error(claim: JudgedClaim) -> str:
    """The error in percent; a dash for none, `within` inside a range."""
    if claim.error is None:
        return "–"
    if math.isinf(claim.error):
        return "beyond"
    is_range = claim.claimed is None or claim.claimed.value is None
    return "within" if claim.error == 0.0 and is_range else f"{100 * claim.error:+.1f}%"
