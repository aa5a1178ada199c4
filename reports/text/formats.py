"""Numbers as an engineer writes them: 1.18 M/s, 0.93 ms, 84 µs, 12%, 32 MiB.

Every function takes None, NaN and infinity and returns `UNKNOWN`, so that a missing figure shows
as missing in a table instead of stopping the report.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from forecache.sim.statistics import Estimate
from forecache.sim.words import UNKNOWN as UNKNOWN
from forecache.sim.words import Unit as Unit
from forecache.sim.words import chance, decimals, with_unit
from forecache.sim.words import is_number as is_number
from forecache.sim.words import milliseconds as milliseconds
from forecache.sim.words import rate as rate
from forecache.sim.words import rate_unit as rate_unit
from forecache.sim.words import time_unit as time_unit

WIDEST_MARGIN = 0.5
"""An interval of more than half its number to either side is told by its ends, not by ±: so wide a
one is lopsided, and ±311% says that a rate may be negative."""


def nanosecond_unit(value_ns: float | None) -> Unit:
    """Choose the unit for a time given in nanoseconds: ns, µs or ms."""
    size = abs(value_ns) if is_number(value_ns) else 0.0
    if size < 999.5:
        return Unit(1.0, 0 if size >= 99.5 else 1 if size >= 9.95 else 2, " ns")
    if size < 999.5e3:
        return Unit(1e3, decimals(size / 1e3), " µs")
    return Unit(1e6, decimals(size / 1e6), " ms")


def nanoseconds(value_ns: float | None) -> str:
    """Format a time given in nanoseconds, `412 ns` or `2.31 µs`."""
    return with_unit(value_ns, nanosecond_unit(value_ns))


def bounds(estimate: Estimate | None, unit: Unit) -> str:
    """Format the interval alone, `1.05–1.31`; empty without an estimate.

    One without an upper end, as of a latency that overload may leave without a bound, is
    `1.05 or more`.
    """
    if estimate is None:
        return ""
    if estimate.high == math.inf:
        return f"{unit.number(estimate.low)} or more"
    return f"{unit.number(estimate.low)}–{unit.number(estimate.high)}"


def is_wide(estimate: Estimate | None) -> bool:
    """Tell whether an interval is too wide for ±, half of it being more than half the number."""
    if estimate is None:
        return False
    return estimate.high - estimate.low > 2 * WIDEST_MARGIN * abs(estimate.value)


def margin(half_width: float | None) -> str:
    """Format the half width of an interval on the log scale: `±38%`, or `a factor of 3.3`."""
    if not is_number(half_width) or half_width <= WIDEST_MARGIN:
        return f"±{percent(half_width)}"
    return f"a factor of {math.exp(half_width):.2g}"


def sentence(text: str) -> str:
    """A phrase as a sentence: `No measurement would narrow it.`"""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def probability(share: float | None) -> str:
    """Format a probability, `97%`."""
    return chance(share) if is_number(share) else UNKNOWN


def with_bounds(estimate: Estimate | None, unit: Unit) -> str:
    """Format value, unit and interval, `1.18 M/s (1.05–1.31)`."""
    if estimate is None:
        return UNKNOWN
    return f"{unit.number(estimate.value)}{unit.symbol} ({bounds(estimate, unit)})"


def rate_with_bounds(estimate: Estimate | None) -> str:
    """Format a throughput estimate, `1.18 M/s (1.05–1.31)`."""
    return with_bounds(estimate, rate_unit(estimate.value if estimate else None))


def rate_with_margin(estimate: Estimate | None) -> str:
    """Format a throughput estimate with its relative half width, `1.18 M/s ±11%`.

    Where that says nothing, with its bounds.
    """
    if estimate is None:
        return UNKNOWN
    if not estimate.value:
        return rate(estimate.value)
    if is_wide(estimate):
        return rate_with_bounds(estimate)
    return f"{rate(estimate.value)} ±{percent(estimate.relative_half_width)}"


def time_with_bounds(estimate: Estimate | None) -> str:
    """Format a latency estimate in milliseconds, `0.93 ms (0.84–1.07)`."""
    return with_bounds(estimate, time_unit(estimate.value if estimate else None))


def percent(fraction: float | None, *, signed: bool = False) -> str:
    """Format a fraction as a percentage: one decimal below 10%, none above."""
    if not is_number(fraction):
        return UNKNOWN
    scaled = fraction * 100
    decimals = 1 if abs(scaled) < 9.95 else 0
    text = f"{scaled:.{decimals}f}"
    if float(text) == 0:
        return "0%"
    sign = "+" if signed and scaled > 0 else ""
    return f"{sign}{text}%".replace("-", "−")


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


def count(value: object) -> str:
    """Format an integer with its digits in groups, `3,000,000`; other values as their text."""
    if is_number(value) and float(value).is_integer():
        return f"{int(value):,}"
    return plain(value)


def number(value: float | None) -> str:
    """Format a number with four significant digits, a large integer whole in groups."""
    if not is_number(value):
        return UNKNOWN
    if abs(value) >= 1e4 and float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:.4g}"


def plain(value: object) -> str:
    """Format anything for a table cell: numbers with four digits, None as unknown."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_number(value):
        return (
            f"{int(value)}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"
        )
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {plain(inner)}" for key, inner in value.items()) or UNKNOWN
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ", ".join(plain(inner) for inner in value) or UNKNOWN
    text = str(value)
    return UNKNOWN if text in {"", "nan", "inf", "-inf"} else text


def dollars(value_usd: float | None) -> str:
    """Format US dollars: cents from one dollar on, none from 10,000 on, below three digits."""
    if not is_number(value_usd):
        return UNKNOWN
    size = abs(value_usd)
    digits = 0 if size >= 9999.995 else 2 if size >= 1 or size == 0 else None
    if digits is None:
        digits = 2 - math.floor(math.log10(size))
    return f"{'−' if value_usd < 0 else ''}${size:,.{digits}f}"


def moment(created: str) -> str:
    """Format an ISO 8601 moment without its seconds."""
    return datetime.fromisoformat(created).strftime("%Y-%m-%d %H:%M %Z").strip()
