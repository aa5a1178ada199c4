"""What a fit says of the earlier one that it began with."""

from __future__ import annotations

from .fit import Calibration
from .report import KnownBefore


def known_before(fitted: Calibration) -> KnownBefore | None:
    """What was known before a fit, and where its data disagree; None without an earlier fit."""
    conflict, known = fitted.conflict, fitted.prior.known
    if conflict is None or known is None:
        return None
    return KnownBefore(
        engine=known.id,
        chi_squared=conflict.chi_squared,
        degrees=conflict.degrees,
        bound=conflict.bound,
        widening=conflict.widening,
        differences=conflict.differences,
        words=_words(fitted),
    )


def _words(fitted: Calibration) -> list[str]:
    conflict, known = fitted.conflict, fitted.prior.known
    assert conflict is not None and known is not None
    words = []
    if conflict.disagree:
        listed = ", ".join(
            f"{each.name}, which alone it puts at {each.factor:.2f} times what was known "
            f"({each.standard_errors:.1f} standard errors)"
            for each in conflict.differences
        )
        words.append(
            f"what was observed disagrees with what was known of {known.id}: "
            + (f"{listed}; " if listed else "")
            + f"together a squared distance of {conflict.chi_squared:.0f}, where chance explains "
            f"{conflict.bound:.0f}; the ranges of what was known were made "
            f"{conflict.widening:.1f} times as wide, so intervals may be wider than without this "
            "observation"
        )
    if fitted.misses_more and fitted.profile.discrepancy and known.discrepancy:
        words.append(
            f"the model misses these points by more than those of {known.id}: its own error is "
            f"{fitted.profile.discrepancy:.1%} (waits for memory "
            f"{fitted.profile.memory_discrepancy or 0:.0%}), where it was "
            f"{known.discrepancy:.1%} ({known.memory_discrepancy or 0:.0%}), so intervals may be "
            "wider than without this observation"
        )
    return words
