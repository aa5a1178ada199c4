"""What compressing values saves, and the CPU time it takes on this host.

zstd, lz4 and gzip in frames of their own formats, each value by itself, through Python's bindings.
"""

from __future__ import annotations

import gzip
import importlib
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from forecache.sim.errors import InputError
from forecache.sim.statistics import Estimate, mean_interval

Algorithm = Literal["zstd", "lz4", "gzip"]

LEVELS: dict[str, tuple[int, int, int]] = {"zstd": (1, 3, 22), "lz4": (0, 0, 12), "gzip": (1, 6, 9)}
"""Lowest, default and highest level."""

PACKAGES = {"zstd": "zstandard", "lz4": "lz4"}
"""What has to be installed; gzip comes with Python."""

LEAST_PIECES = 10
"""Values that a sample has to have, of each size."""

_MOST_PIECES = 200
_MOST_BYTES = 8 * 2**20
"""Of the pieces of one size together, unless `LEAST_PIECES` are more."""

_BATCHES = 10
_ROUNDS = 7
_ROUND_NS = 20_000_000
"""How long a measurement lasts at least, of which the spread is that between so many."""

_LIKE = math.sqrt(2.0)
"""By how much lines may be longer or shorter than the values they stand for."""


@dataclass(frozen=True)
class Codec:
    """A compressor at a level."""

    name: str
    """With its version."""
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]


@dataclass(frozen=True)
class CompressedValues:
    """Values of one size.

    Attributes
    ----------
    value_bytes
        Before compression.
    pieces
        How many were compressed.
    ratio
        Bytes after for bytes before, on average, with a 95% interval from batches of neighbouring
        pieces. A value that grows stays as it is.
    ratios
        Of each piece, the smallest first.
    compress_ns, decompress_ns
        CPU time of one value: the median round with the shortest and the longest.
    """

    value_bytes: int
    pieces: int
    ratio: Estimate
    ratios: tuple[float, ...]
    compress_ns: Estimate
    decompress_ns: Estimate


def codec(algorithm: Algorithm, level: int) -> Codec:
    """A compressor."""
    if algorithm == "gzip":
        zlib = importlib.import_module("zlib")
        return Codec(
            f"gzip with zlib {zlib.ZLIB_RUNTIME_VERSION}",
            lambda value: gzip.compress(value, level),
            gzip.decompress,
        )
    try:
        if algorithm == "zstd":
            return _zstd(importlib.import_module("zstandard"), level)
        return _lz4(importlib.import_module("lz4"), importlib.import_module("lz4.frame"), level)
    except ImportError:
        package = PACKAGES[algorithm]
        raise InputError(
            f"found {algorithm} without the package {package}, which compresses the sample; valid "
            f"with it (the extra forecache[compression]), or gzip."
        ) from None


def _zstd(library: Any, level: int) -> Codec:
    version = ".".join(map(str, library.ZSTD_VERSION))
    pack, unpack = library.ZstdCompressor(level=level), library.ZstdDecompressor()
    return Codec(f"zstd {version}", pack.compress, unpack.decompress)


def _lz4(library: Any, frame: Any, level: int) -> Codec:
    return Codec(
        f"lz4 {library.library_version_string()}",
        lambda value: frame.compress(value, compression_level=level),
        frame.decompress,
    )


def cut(sample: bytes, value_bytes: int, *, lines: bool) -> list[bytes]:
    """Pieces of a sample that stand for values of a size: spread over all of it, in its order.

    Parameters
    ----------
    lines
        Whether a value is a line; lines up to 1.4 times as long or as short count. Otherwise the
        sample is cut into pieces as long as the value.
    """
    near: list[bytes] = []
    if lines:
        shortest, longest = value_bytes / _LIKE, value_bytes * _LIKE
        near = [line for line in sample.splitlines() if shortest <= len(line) <= longest]
    count = len(near) if lines else len(sample) // value_bytes
    most = max(LEAST_PIECES, min(_MOST_PIECES, _MOST_BYTES // value_bytes))
    taken = min(count, most)
    places = [index * count // taken for index in range(taken)]
    if lines:
        return [near[place] for place in places]
    return [sample[place * value_bytes : (place + 1) * value_bytes] for place in places]


def measured(codec: Codec, pieces: Sequence[bytes], value_bytes: int) -> CompressedValues:
    """Compress and decompress pieces, and measure both.

    Raises
    ------
    ValueError
        There are fewer than `LEAST_PIECES`.
    """
    if len(pieces) < LEAST_PIECES:
        raise ValueError(f"{LEAST_PIECES} pieces, not {len(pieces)}")
    packed = [codec.compress(piece) for piece in pieces]
    ratios = [
        min(1.0, len(small) / len(piece)) for small, piece in zip(packed, pieces, strict=True)
    ]
    batches = [
        statistics.fmean(ratios[i * len(ratios) // _BATCHES : (i + 1) * len(ratios) // _BATCHES])
        for i in range(_BATCHES)
    ]
    spread = mean_interval(batches)
    mean = statistics.fmean(ratios)
    low, high = mean - spread.half_width, mean + spread.half_width
    # Lines differ in length: a value takes the time of its bytes.
    share = value_bytes * len(pieces) / sum(map(len, pieces))
    return CompressedValues(
        value_bytes,
        len(pieces),
        Estimate(mean, max(min(ratios), low), min(1.0, high)),
        tuple(sorted(ratios)),
        _each_ns(codec.compress, pieces, share),
        _each_ns(codec.decompress, packed, share),
    )


def _each_ns(call: Callable[[bytes], bytes], values: Sequence[bytes], share: float) -> Estimate:
    """CPU time of a call: median, shortest and longest of the rounds."""
    times, done = 1, 0.0
    while True:  # so many times over that a round is long enough for the clock
        done = _round_ns(call, values, times)
        if done >= _ROUND_NS or times >= 1 << 20:
            break
        times = max(times + 1, math.ceil(1.2 * times * _ROUND_NS / max(done, 1.0)))
        times = min(times, 1 << 20)
    rounds = [done, *(_round_ns(call, values, times) for _ in range(_ROUNDS - 1))]
    each = sorted(share * took / times / len(values) for took in rounds)
    return Estimate(statistics.median(each), each[0], each[-1])


def _round_ns(call: Callable[[bytes], bytes], values: Sequence[bytes], times: int) -> float:
    started = time.thread_time_ns()
    for _ in range(times):
        for value in values:
            call(value)
    return float(time.thread_time_ns() - started)


def read_sample(path: str | Path, *, most_bytes: int = 64 * 2**20) -> bytes:
    """The bytes of a sample, of a longer one the first."""
    try:
        with Path(path).open("rb") as stream:
            found = stream.read(most_bytes)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: can't be read: {reason}.") from None
    if not found:
        raise InputError(f"{path}: found nothing; valid is a file with values.")
    return found
