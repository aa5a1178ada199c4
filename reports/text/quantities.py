"""Values whose unit is only known by its name, as results over time declare them.

`1/s`, `1/min` and other rates, `ms`, `s`, `us`, `ns`, `bytes`, `bytes/s`, `share` (a fraction,
shown in percent), `USD`, `USD/h` and other prices; any other unit, such as `ECPU/min`, is written
as it stands behind a number.
"""

import math

from .formats import Unit, count, dollars, is_number, nanosecond_unit, plain, rate_unit, time_unit

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
