"""HdrHistogram interval logs (`.hlog`), and the compressed V2 histograms that they and others hold.

A histogram of this kind counts whole numbers, often microseconds or nanoseconds, in buckets whose
relative width is bounded by a number of significant decimal digits. Encoded it is a header and the
counts as ZigZag LEB128 numbers, a negative one standing for so many empty buckets, all of it
deflated (with a checksum) and in base64 (https://github.com/HdrHistogram/HdrHistogram, public
domain). Only version 2, in use since 2015, is read; it begins with HISTFAAAA.
"""

import base64
import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from forecache.hwprofiles.files import read_text, write_text_atomic
from forecache.sim.errors import InputError
from forecache.sim.histogram import SUB_BUCKETS, LatencyHistogram, bucket_of

from .lines import Place, numbered, shown

_COMPRESSED_COOKIE = 0x1C849304
_PLAIN_COOKIE = 0x1C849303
_WORD_SIZE_BITS = 0xF0
_COMPRESSED = struct.Struct(">Ii")
_PLAIN = struct.Struct(">Iiiiqqd")
_LARGEST_BYTES = 1 << 22
_LONGEST_VARINT = 9
_VALID = "a histogram in HdrHistogram's compressed V2 encoding, which begins with HISTFAAAA"


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many values lie from `low` to `high`, both included."""

    low: int
    high: int
    count: int

    @property
    def middle(self) -> int:
        """What stands for a value of this bucket."""
        return self.low + (self.high - self.low + 1) // 2


@dataclass(frozen=True)
class HdrHistogram:
    """Counted whole numbers, in a unit that the writer chose.

    Attributes
    ----------
    lowest, highest
        Values between these are told apart; from 1, and at least a factor of two apart.
    digits
        Significant decimal digits that are kept, 0 to 5.
    counts
        By bucket number; empty buckets are left out.

    Raises
    ------
    ValueError
        The range or the digits are none that HdrHistogram allows.
    """

    lowest: int
    highest: int
    digits: int
    counts: Mapping[int, int]

    def __post_init__(self) -> None:
        if not (1 <= self.lowest <= self.highest // 2 and self.highest < 2**63):
            raise ValueError(f"a range from {self.lowest} to {self.highest}")
        if not 0 <= self.digits <= 5:
            raise ValueError(f"{self.digits} significant digits")
        if self._unit_bits + self._half_bits > 61:
            raise ValueError(f"a range from {self.lowest} at {self.digits} significant digits")

    @classmethod
    def of(
        cls, values: Mapping[int, int], *, lowest: int = 1, highest: int = 2**62, digits: int = 3
    ) -> "HdrHistogram":
        """A histogram of values with their counts; values lie between 0 and `highest`."""
        layout = cls(lowest, highest, digits, {})
        counts: dict[int, int] = {}
        for value, count in values.items():
            number = layout.bucket_of(value)
            counts[number] = counts.get(number, 0) + count
        return cls(lowest, highest, digits, dict(sorted(counts.items())))

    # A value below 2**(unit_bits + half_bits + 1) lies in the first 2**(half_bits + 1) buckets,
    # 2**unit_bits wide; every doubling from there has 2**half_bits buckets of its own.
    @cached_property
    def _unit_bits(self) -> int:
        return self.lowest.bit_length() - 1

    @cached_property
    def _half_bits(self) -> int:
        resolved: int = 2 * 10**self.digits
        return (resolved - 1).bit_length() - 1

    @property
    def n_buckets(self) -> int:
        """How many buckets the range needs."""
        doublings = self.highest.bit_length() - (self._unit_bits + self._half_bits + 1)
        return (max(doublings, 0) + 2) << self._half_bits

    def bucket_of(self, value: int) -> int:
        """The number of the bucket a value falls into."""
        octave = max(value.bit_length() - (self._unit_bits + self._half_bits + 1), 0)
        return (octave << self._half_bits) + (value >> (octave + self._unit_bits))

    def bucket(self, number: int) -> Bucket:
        """A bucket by its number."""
        octave = max((number >> self._half_bits) - 1, 0)
        shift = octave + self._unit_bits
        low = (number - (octave << self._half_bits)) << shift
        return Bucket(low, low + (1 << shift) - 1, self.counts.get(number, 0))

    def buckets(self) -> Iterator[Bucket]:
        """The buckets that hold something, in ascending order."""
        return (self.bucket(number) for number in sorted(self.counts))

    @cached_property
    def count(self) -> int:
        """How many values were counted."""
        return sum(self.counts.values())

    @property
    def max(self) -> int | None:
        """The upper end of the highest bucket that holds something; None if there is none."""
        return self.bucket(max(self.counts)).high if self.counts else None

    @property
    def mean(self) -> float | None:
        """The mean, each value taken as the middle of its bucket; None if there is none."""
        total = sum(bucket.middle * bucket.count for bucket in self.buckets())
        return total / self.count if self.count else None

    def quantile(self, q: float) -> int | None:
        """The upper end of the bucket that holds the q-quantile (nearest rank); None if empty."""
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"a quantile lies between 0 and 1, not {q}")
        rank = max(1, math.ceil(q * self.count))
        seen = 0
        for bucket in self.buckets():
            seen += bucket.count
            if seen >= rank:
                return bucket.high
        return None

    def to_latencies(self, *, unit_ps: int) -> LatencyHistogram:
        """The same as a histogram of latencies, each value taken as the middle of its bucket.

        Raises
        ------
        InputError
            A value is too long for a `LatencyHistogram`, above 2**61 ps (26 days).
        """
        counts: dict[int, int] = {}
        sum_ps = max_ps = 0
        for bucket in self.buckets():
            value_ps = bucket.middle * unit_ps
            if value_ps >= 2**61:
                raise InputError(f"histogram: found {value_ps} ps; valid is less than 2**61 ps.")
            number = bucket_of(value_ps)
            counts[number] = counts.get(number, 0) + bucket.count
            sum_ps += value_ps * bucket.count
            max_ps = value_ps
        return LatencyHistogram.from_dict(
            {
                "sub_buckets_per_octave": SUB_BUCKETS,
                "sum_ps": sum_ps,
                "max_ps": max_ps,
                "counts": counts,
            }
        )


def decode_histogram(text: str, *, place: Place) -> HdrHistogram:
    """Read a histogram in base64.

    Raises
    ------
    InputError
        It is damaged, of another version, or of floating-point values; names `place`.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise place.wrong(f"{shown(text)} as base64", valid=_VALID) from None
    plain = _inflate(data, place)
    if len(plain) < _PLAIN.size:
        raise place.wrong(f"a histogram of {len(plain)} bytes", valid=_VALID)
    cookie, length, offset, digits, lowest, highest, ratio = _PLAIN.unpack_from(plain)
    if cookie & ~_WORD_SIZE_BITS != _PLAIN_COOKIE or length != len(plain) - _PLAIN.size:
        raise place.wrong(f"a histogram with the cookie {cookie:#x}", valid=_VALID)
    if offset != 0 or ratio != 1.0:
        raise place.wrong("a histogram of shifted values", valid="one of whole numbers")
    try:
        layout = HdrHistogram(lowest, highest, digits, {})
    except ValueError as error:
        raise place.wrong(f"a histogram with {error}", valid=_VALID) from None
    counts = _read_counts(plain[_PLAIN.size :], layout.n_buckets, place)
    return HdrHistogram(lowest, highest, digits, counts)


def encode_histogram(histogram: HdrHistogram) -> str:
    """The histogram in base64, as `decode_histogram` reads it."""
    payload = bytearray()
    following = 0
    for number in sorted(histogram.counts):
        if number > following:
            payload += _varint(following - number)
        payload += _varint(histogram.counts[number])
        following = number + 1
    header = _PLAIN.pack(
        _PLAIN_COOKIE | 0x10,
        len(payload),
        0,
        histogram.digits,
        histogram.lowest,
        histogram.highest,
        1.0,
    )
    packed = zlib.compress(header + payload)
    data = _COMPRESSED.pack(_COMPRESSED_COOKIE | 0x10, len(packed)) + packed
    return base64.b64encode(data).decode("ascii")


def _inflate(data: bytes, place: Place) -> bytes:
    if len(data) < _COMPRESSED.size:
        raise place.wrong(f"a histogram of {len(data)} bytes", valid=_VALID)
    cookie, length = _COMPRESSED.unpack_from(data)
    if cookie & ~_WORD_SIZE_BITS != _COMPRESSED_COOKIE:
        raise place.wrong(f"a histogram with the cookie {cookie:#x}", valid=_VALID)
    if length != len(data) - _COMPRESSED.size:
        raise place.wrong(f"{len(data) - _COMPRESSED.size} bytes of {length}", valid=_VALID)
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(data[_COMPRESSED.size :], _LARGEST_BYTES)
    except zlib.error:
        raise place.wrong("a damaged histogram", valid=_VALID) from None
    if not inflater.eof or inflater.unused_data:
        raise place.wrong(
            f"a histogram that is cut short or above {_LARGEST_BYTES} bytes", valid=_VALID
        )
    return plain


def _read_counts(payload: bytes, n_buckets: int, place: Place) -> dict[int, int]:
    counts: dict[int, int] = {}
    number = at = total = 0
    while at < len(payload):
        word = 0
        for position in range(_LONGEST_VARINT):
            if at == len(payload):
                raise place.wrong("a histogram that ends inside a count", valid=_VALID)
            byte = payload[at]
            at += 1
            # The ninth byte has no continuation bit: it holds the last eight of 64 bits.
            last = position == _LONGEST_VARINT - 1
            word |= (byte if last else byte & 0x7F) << (7 * position)
            if byte < 0x80:
                break
        value = (word >> 1) ^ -(word & 1)
        if value > 0:
            counts[number] = value
            total += value
        number += -value if value < 0 else 1
        if number > n_buckets or total >= 2**63:
            raise place.wrong("a histogram with more counts than its range holds", valid=_VALID)
    return counts


def _varint(value: int) -> bytes:
    word = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while word >= 0x80 and len(encoded) < _LONGEST_VARINT - 1:
        encoded.append(word & 0x7F | 0x80)
        word >>= 7
    encoded.append(word)
    return bytes(encoded)


class Interval(NamedTuple):
    """One line of a log. The start counts from the log's own start, or is in seconds since 1970."""

    tag: str | None
    start_s: float
    length_s: float
    histogram: HdrHistogram


def read_hlog(path: str | Path) -> list[Interval]:
    """Read an interval log; see `parse_hlog`."""
    return parse_hlog(read_text(path), file=str(path))


def parse_hlog(text: str, *, file: str) -> list[Interval]:
    """Read the text of an interval log of version 1.

    The log repeats every interval's maximum, divided by a power of ten, for human readers. It must
    agree with the histogram, with the same power in every line.

    Raises
    ------
    InputError
        A line is no interval, a histogram is damaged, or there is no interval.
    """
    intervals = []
    powers = set(range(13))
    for place, line in numbered(text, file=file):
        if line.startswith("#[Histogram log format version "):
            version = line.removeprefix("#[Histogram log format version ")
            if not version.startswith("1."):
                raise place.wrong(f"the version {shown(version)}", valid="a log of version 1.2")
        if not line.strip() or line.startswith(("#", '"StartTimestamp"')):
            continue
        fields = line.split(",")
        tag = fields.pop(0).removeprefix("Tag=") if fields[0].startswith("Tag=") else None
        if len(fields) != 4:
            raise place.wrong(
                shown(line), valid="[Tag=name,]start,length,maximum,histogram, or a comment"
            )
        start_s = place.decimal(fields[0], "the start in seconds")
        length_s = place.decimal(fields[1], "the length in seconds")
        shown_max = place.decimal(fields[2], "the interval's maximum")
        histogram = decode_histogram(fields[3].strip(), place=place)
        powers &= {power for power in powers if _agrees(histogram, shown_max * 10.0**power, power)}
        if not powers:
            raise place.wrong(
                f"{shown(fields[2])} as the interval's maximum",
                valid=f"the histogram's, {histogram.max}, divided by a power of ten",
            )
        intervals.append(Interval(tag, start_s, length_s, histogram))
    if not intervals:
        raise Place(file, 0).wrong("no interval", valid="lines start,length,maximum,histogram")
    return intervals


def _agrees(histogram: HdrHistogram, maximum: float, power: int) -> bool:
    """Whether a maximum that was printed with three decimals lies in the highest bucket."""
    if not histogram.counts:
        return maximum == 0.0
    highest = histogram.bucket(max(histogram.counts))
    rounding = 0.00051 * 10.0**power
    return highest.low - rounding <= maximum <= highest.high + rounding


def write_hlog(path: str | Path, intervals: Iterable[Interval], *, values_per_unit: int) -> None:
    """Write an interval log; maxima are shown in units of so many values, 1,000,000 by custom."""
    lines = [
        "#[Histogram log format version 1.2]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    for tag, start_s, length_s, histogram in intervals:
        prefix = "" if tag is None else f"Tag={tag},"
        shown_max = (histogram.max or 0) / values_per_unit
        lines.append(
            f"{prefix}{start_s:.3f},{length_s:.3f},{shown_max:.3f},{encode_histogram(histogram)}"
        )
    write_text_atomic(path, "\n".join(lines) + "\n")
