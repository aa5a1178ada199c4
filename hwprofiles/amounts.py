"""Numbers as people write them: `10KB`, `2ms`, `50k`, `80%`, `1500m`.

The name of a field says the unit of its number (`value_bytes`, `p99_ms`, `rate_rps`), and what is
written with a unit is converted into that one. Bytes are counted as in redis.conf: `1k` is 1,000,
`1kb` and `1Ki` are 1,024; a field in GB of 10^9 bytes has decimal units.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

_WRITTEN = re.compile(r"([-+]?\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d{1,2})?) ?([a-zA-Zµ%/]*)")


class _Dimension(NamedTuple):
    valid: str
    """What a field may hold, in a sentence about one that holds something else."""
    units: Mapping[str, Fraction | int]
    """What a number before each unit is multiplied by."""
    whole: str = ""
    """What a field of whole numbers may hold, where that is less."""


_PREFIXES = list(enumerate("kmgt", 1))
_THOUSANDS = {letter: 1000**n for n, letter in _PREFIXES}
_BINARY = {f"{letter}{end}": 1024**n for n, letter in _PREFIXES for end in ("b", "i", "ib")}
_DECIMAL = {f"{letter}b": 1000**n for n, letter in _PREFIXES}

_COUNT = _Dimension(
    "a number, such as 0.8, 80% or 50k",
    {"": 1, "%": Fraction(1, 100), "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9},
    "an integer, such as 4, 50k or 1.2M",
)
_RATE = _Dimension(
    "a number a second, such as 50k or 1.2M",
    {f"{n}{end}": _COUNT.units[n] for n in ("", "k", "K", "M") for end in ("", "/s", "rps", "qps")},
)
_TIME = _Dimension(
    "a time, such as 250us, 2ms, 1.5s or 5m",
    {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "sec": 10**9}
    | {"m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9},
)
_SIZE = _Dimension(
    "a size, such as 512, 10KB or 1.5Gi",
    {"b": 1} | _THOUSANDS | _BINARY,
    "a whole number of bytes, such as 512, 10KB or 1.5Gi",
)
_DECIMAL_SIZE = _Dimension("a size, such as 500MB or 1.5TB", dict(_SIZE.units) | _DECIMAL)
_CORES = _Dimension(
    "a number of cores, such as 1.5 or 1500m",
    {"": 1, "m": Fraction(1, 1000)},
    "a whole number of cores, such as 2 or 2000m",
)
_CLOCK = _Dimension("a clock, such as 3.1GHz", {"mhz": 1, "ghz": 1000})
_BANDWIDTH = _Dimension(
    "a bandwidth, such as 10Gbps",
    {f"{letter}{end}": 1000**n for n, letter in _PREFIXES for end in ("bit/s", "bps", "b/s")},
)

_FIELDS = (
    (r"(^|_)gbit_per_s$", _BANDWIDTH, "gbps"),
    (r"(^|_)(rps|qps|(?<!gb_)per_s|a_second)$|^operations$", _RATE, ""),
    (r"(_|^)per_|^weights$", _COUNT, ""),
    (r"_(ns|us|ms|s|min|h)$", _TIME, None),
    (r"^minutes$", _TIME, "min"),
    (r"(^|_)bytes$", _SIZE, "b"),
    (r"_mib$", _SIZE, "mib"),
    (r"_gib$", _SIZE, "gib"),
    (r"_gb$", _DECIMAL_SIZE, "gb"),
    (r"(^|_)cores$", _CORES, ""),
    (r"_ghz$", _CLOCK, "ghz"),
)
"""Ends of names of fields, the dimension, and the field's own unit; None: the end of its name."""


def number_in(text: str, fields: Sequence[str]) -> float | int | None:
    """The number that a text stands for, in the unit of its field; None if it is no such thing.

    The field has its name after those that it is in: of `value_bytes.low` the outer one has a unit.
    """
    written = _WRITTEN.fullmatch(text.strip())
    if written is None:
        return None
    dimension, own = _dimension(fields)
    number, unit = written[1].replace("_", ""), written[2]
    if dimension not in (_COUNT, _RATE):
        unit = unit.lower()
    factor = dimension.units.get(unit or own)
    if factor is None:
        return None
    value = Fraction(number) * factor / dimension.units[own]
    return int(value) if value.denominator == 1 else float(value)


def valid_number(fields: Sequence[str], *, whole: bool) -> str:
    """What a field may hold that is a number, or a whole one."""
    dimension, _ = _dimension(fields)
    return dimension.whole if whole and dimension.whole else dimension.valid


def _dimension(fields: Sequence[str]) -> tuple[_Dimension, str]:
    """What a field's number is of, and its unit: of the innermost field whose name says it."""
    for name in reversed(fields):
        for ends, dimension, own in _FIELDS:
            if found := re.search(ends, name):
                return dimension, found[1] if own is None else own
    return _COUNT, ""
