"""Numbers in words, where more than one room says them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeGuard

UNKNOWN = "–"

NO_CLEAR_DIFFERENCE: Final = "no clear difference"
"""Of two values whose difference may be none, or is too small to be worth a word."""


def chance(probability: float) -> str:
    """A probability in whole percent, rounded down, so that none looks like what it just misses.

    `>99%` and `<1%` at the ends: no model is surer than that.
    """
    whole = math.floor(100.0 * probability + 1e-9)
    return ">99%" if whole >= 99 else "<1%" if whole < 1 else f"{whole}%"


def any_of(names: Sequence[str]) -> str:
    """`a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


@dataclass(frozen=True)
class Unit:
    """A display unit: divide by `divisor`, print `decimals` places, append `symbol`."""

    divisor: float
    decimals: int
    symbol: str

    def number(self, value: float | None) -> str:
        """Return the bare number in this unit."""
        if not is_number(value):
            return UNKNOWN
        text = f"{value / self.divisor:.{self.decimals}f}"
        return text.replace("-", "−") if float(text) else text.lstrip("-")


def is_number(value: object) -> TypeGuard[float]:
    """Tell whether `value` is a finite real number (booleans are not numbers here)."""
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    ) or _is_numpy_number(value)


def _is_numpy_number(value: object) -> bool:
    item = getattr(value, "item", None)
    if item is None or getattr(value, "ndim", 1) != 0:
        return False
    plain = item()
    return isinstance(plain, int | float) and not isinstance(plain, bool) and math.isfinite(plain)


def time_unit(value_ms: float | None) -> Unit:
    """Choose the unit for a latency given in milliseconds: µs, ms or s."""
    size = abs(value_ms) if is_number(value_ms) else 0.0
    if size >= 1000:
        return Unit(1e3, decimals(size / 1e3), " s")
    if size >= 0.0995:
        return Unit(1.0, 2 if size < 9.995 else 1 if size < 99.95 else 0, " ms")
    return Unit(1e-3, 0 if size >= 0.00995 or size == 0 else 2, " µs")


def milliseconds(value_ms: float | None) -> str:
    """Format a latency given in milliseconds, `0.93 ms` or `84 µs`."""
    return with_unit(value_ms, time_unit(value_ms))


def decimals(scaled: float) -> int:
    """How many decimals leave three digits."""
    return 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0


def with_unit(value: float | None, unit: Unit) -> str:
    """A number with its unit."""
    return unit.number(value) + unit.symbol if is_number(value) else UNKNOWN


def rate_unit(value_rps: float | None) -> Unit:
    """Choose the unit that shows a rate in requests a second with three digits."""
    size = abs(value_rps) if is_number(value_rps) else 0.0
    for divisor, symbol in ((1e6, " M/s"), (1e3, " k/s")):
        if size >= 0.9995 * divisor:
            return Unit(divisor, decimals(size / divisor), symbol)
    return Unit(1.0, 0 if size >= 10 or size == 0 else 2, " /s")


def rate(value_rps: float | None) -> str:
    """Format a rate in requests a second, `1.18 M/s`."""
    return with_unit(value_rps, rate_unit(value_rps))


def byte_size(size_bytes: float | None) -> str:
    """Format a size with binary prefixes, `512 B`, `32 MiB`."""
    if not is_number(size_bytes):
        return UNKNOWN
    size, symbol = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024:
            break
        size, symbol = size / 1024, larger
    return f"{size:.3g} {symbol}" if size < 1000 else f"{size:.0f} {symbol}"
