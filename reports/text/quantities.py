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
