"""Estimates with their intervals as text, where the unit is only known by its name."""

import math

from .formats import is_number
from .quantities import is_count, is_price, quantity, quantity_unit

_SCALED_FROM = 1e7
"""Things counted are written in full below."""


def estimate_text(
    value: object, low: object, high: object, unit: str, *, signed: bool = False
) -> str:
    """Write a value with its 95% interval, `264 (240–288)`, `+1.2 ms (−0.3 to +2.7)`.

    Decimals are those that two digits of the half width take, but not more than four digits in all.
    Where that leaves nothing of a number, each has a unit of its own, `64 µs (32 µs–58 s)`. An
    interval without an upper end is `264 (240 or more)`. Without an interval, or with one that is
    a point, only the value is written.

    Parameters
    ----------
    signed
        Whether positive values have a sign: those of differences.
    """
    if is_number(value) and is_number(low) and (high is None or high == math.inf):
        return f"{quantity(value, unit)} ({quantity(low, unit)} or more)"
    if not (is_number(value) and is_number(low) and is_number(high)):
        return quantity(value, unit)
    if low == high:
        text = quantity(value, unit)
        return f"+{text}" if signed and value > 0 else f"−{text[1:]}" if text[0] == "-" else text
    size = max(abs(value), abs(low), abs(high))
    divisor, before, behind = 1.0, "", f" {unit}" if unit else ""
    if is_price(unit):
        before, behind = "$", unit.removeprefix("USD")
    elif not is_count(unit) or size >= _SCALED_FROM:
        chosen = quantity_unit(unit, size)
        divisor, behind = chosen.divisor, chosen.symbol
    half = (high - low) / 2
    decimals = max(0, min(1 - _places(half / divisor), 3 - _places(size / divisor)))

    least = 0.5 * 10.0**-decimals * divisor
    if 0.0 < min(value, low) < least and not (is_price(unit) or is_count(unit)):
        return f"{quantity(value, unit)} ({quantity(low, unit)}–{quantity(high, unit)})"

    def written(number: float) -> str:
        digits = f"{abs(number) / divisor:,.{decimals}f}"
        something = digits.strip("0.,")
        sign = "" if not something else "−" if number < 0 else "+" if signed else ""
        return f"{sign}{before}{digits}"

    until = " to " if signed or low < 0 else "–"
    return f"{written(value)}{behind} ({written(low)}{until}{written(high)})"


def _places(size: float) -> int:
    """The power of ten of a number's first digit."""
    return math.floor(math.log10(size))
