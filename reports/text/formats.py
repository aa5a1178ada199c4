"""Numbers as an engineer writes them: 1.18 M/s, 0.93 ms, 84 µs, 12%, 32 MiB.

Every function takes None, NaN and infinity and returns `UNKNOWN`, so that a missing figure shows
as missing in a table instead of stopping the report.

Results over time declare units by name: `1/s`, `1/min` and other rates, `ms`, `s`, `us`, `ns`,
`bytes`, `bytes/s`, `share` (a fraction, shown in percent), `USD`, `USD/h` and other prices; any
other unit, such as `ECPU/min`, is written as it stands behind a number.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from forecache.sim.statistics import Estimate
from forecache.sim.words import UNKNOWN as UNKNOWN
from forecache.sim.words import Unit as Unit
from forecache.sim.words import byte_size as byte_size
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


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


_BLOCKS = "▁▂▃▄▅▆▇█"


def block(share: float) -> str:
    """A character as high as a share of 1, the lowest for 0."""
    return _BLOCKS[min(len(_BLOCKS) - 1, max(0, int(share * len(_BLOCKS))))]


_WORD = re.compile(r"(?:[^\s'\"]|'[^']*'|\"[^\"]*\")+")


def continued(line: str, width: int) -> str:
    """A command in lines that fit, with a backslash where it goes on: it can be copied.

    What stands between quotes is kept whole.
    """
    if len(line) <= width or line.lstrip().startswith("#"):
        return line
    lines = [""]
    for word in _WORD.findall(line):
        # Two for the blank and the backslash.
        if lines[-1].strip() and len(lines[-1]) + len(word) + 3 > width:
            lines.append(" ")
        lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n".join(lines)


def months_text(months: float | None) -> str:
    """A time from now on: `now`, `7 months`, `3.2 years`."""
    if months is None:
        return "not within 20 years"
    if months <= 0:
        return "now"
    if months < 2 * _YEAR_MONTHS:
        shown = round(months)
        return f"{shown} month{'s' * (shown != 1)}" if shown else "less than a month"
    return f"{months / _YEAR_MONTHS:.1f} years"


_YEAR_MONTHS = 12.0


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


def usd(value: float) -> str:
    """Dollars, with cents below a hundred."""
    return f"${value:,.0f}" if value >= 100 or value == 0 else f"${value:,.2f}"


def span(low: float | None, high: float | None) -> str:
    """Format the range of a number, `2.5 – 2.7`; empty when there is none."""
    return "" if low is None or high is None else f"{number(low)} – {number(high)}"


# --- values whose unit is only known by its name, as results over time declare them --------------


# Panels whose values without a unit are shares of a whole.
SHARE_PANELS = ("utilisation", "progress")

_SCALED = ("ms", "us", "ns", "s", "bytes", "bytes/s", "share", "%")


def quantity_unit(unit: str, size: float | None) -> Unit:
    """Choose the unit in which values of about `size` are shown with three digits.

    Parameters
    ----------
    unit
        The unit in which the values are given.
    size
        The greatest of them; None where there is none.
    """
    value = abs(size) if is_number(size) else 0.0
    if unit.startswith("1/"):
        chosen = rate_unit(value)
        return Unit(chosen.divisor, chosen.decimals, chosen.symbol.replace("/s", unit[1:]))
    if unit == "ms":
        return time_unit(value) if value else Unit(1.0, 0, " ms")
    if unit == "us":
        return _rescaled(nanosecond_unit(value * 1e3), 1e3)
    if unit == "ns":
        return nanosecond_unit(value)
    if unit == "s":
        return _seconds_unit(value)
    if unit in ("bytes", "bytes/s"):
        return _bytes_unit(value, unit.removeprefix("bytes"))
    if unit in ("share", "%"):
        divisor = 0.01 if unit == "share" else 1.0
        return Unit(divisor, 1 if 0 < value / divisor < 9.95 else 0, "%")
    return _plain_unit(value, f" {unit}" if unit else "")


def _rescaled(unit: Unit, factor: float) -> Unit:
    return Unit(unit.divisor / factor, unit.decimals, unit.symbol)


def _decimals(scaled: float) -> int:
    return 2 if 0 < scaled < 9.995 else 1 if 0 < scaled < 99.95 else 0


def _seconds_unit(value_s: float) -> Unit:
    if 0 < value_s < 0.9995:
        return _rescaled(time_unit(value_s * 1e3), 1e3)
    for divisor, symbol, least_s in ((86400.0, " d", 2 * 86400), (3600.0, " h", 2 * 3600)):
        if value_s >= least_s:
            return Unit(divisor, _decimals(value_s / divisor), symbol)
    if value_s >= 600:
        return Unit(60.0, _decimals(value_s / 60), " min")
    return Unit(1.0, _decimals(value_s), " s")


def _bytes_unit(value_bytes: float, per: str) -> Unit:
    divisor, symbol = 1.0, "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value_bytes < 999.5 * divisor:
            break
        divisor, symbol = divisor * 1024, larger
    decimals = 0 if divisor == 1 else _decimals(value_bytes / divisor)
    return Unit(divisor, decimals, f" {symbol}{per}")


def _plain_unit(value: float, symbol: str) -> Unit:
    for divisor, prefix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= 9.995 * divisor:
            return Unit(divisor, _decimals(value / divisor), prefix + symbol)
    if value == math.floor(value):
        return Unit(1.0, 0, symbol)
    return Unit(1.0, max(0, 2 - math.floor(math.log10(value))), symbol)


def is_rate(quantity: str) -> bool:
    """Tell whether a calibration quantity is a rate in requests a second, not a time in ns."""
    return "rps" in quantity.lower() or "throughput" in quantity.lower()


def is_count(unit: str) -> bool:
    """Whether values of this unit are things counted, which are written without a prefix."""
    return unit not in _SCALED and not unit.startswith("1/") and not is_price(unit)


def is_price(unit: str) -> bool:
    """Whether values of this unit are US dollars, for something or not."""
    return unit == "USD" or unit.startswith("USD/")


def quantity(value: object, unit: str) -> str:
    """Format one value with its unit, `1.18 M/s`, `281 s`, `40%`; text stays as it is."""
    if isinstance(value, str | bool) or not is_number(value):
        return plain(value)
    if is_price(unit):
        return dollars(value) + unit.removeprefix("USD")
    if is_count(unit) and 1e3 <= abs(value) < 1e7:
        return f"{count(round(value))} {unit}".rstrip()
    chosen = quantity_unit(unit, value)
    text = chosen.number(value)
    if value and not text.strip("0."):
        text = f"{value / chosen.divisor:.1g}".replace("-", "−")
    return text + chosen.symbol


# --- estimates with their intervals as text, where the unit is only known by its name -------------


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
