"""Values that clients compress: what is stored, sent and paid for with CPU time.

What compressing values saves, and the CPU time it takes on this host, is measured with zstd, lz4
and gzip in frames of their own formats, each value by itself, through Python's bindings.

A plan is made for the values as they are stored. How much smaller they become is measured on a
sample, value size by value size, or given. Only strings are compressed; hashes, lists and others
stay as they are.
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
from typing import Any

from forecache.sim.errors import InputError
from forecache.sim.statistics import Estimate, mean_interval

from ..cost.schema import MOST_SHARDS
from ..engines.commands import command_kinds
from ..footprint.schema import Strings
from ..scenario.command_table import COMMANDS
from ..scenario.workload import ValueSizes, WeightedSizes, sizes_of
from .results import CompressedSize, CompressionEffect
from .schema import Algorithm, Compression, PlanDemand, PlanScenario
from .shard import Offer, memory_bound, memory_room, node_scenario

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


def load_codec(algorithm: Algorithm, level: int) -> Codec:
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


def sample_values(sample: bytes, value_bytes: int, *, lines: bool) -> list[bytes]:
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


def measure(codec: Codec, pieces: Sequence[bytes], value_bytes: int) -> CompressedValues:
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


_MOST_MEASURED = 8
"""Value sizes that are measured; others lie between two of them."""

_MOST_SIZES, _MOST_PARTS = 32, 8
"""Sizes that a scenario may have, and that one size becomes."""


@dataclass(frozen=True)
class Ratios:
    """How much smaller values become.

    Attributes
    ----------
    compression
        What the scenario says.
    sizes
        What was measured, the smallest size first; empty where the ratio is given.
    compressor, cpu_model
        What compressed and on what; None likewise.
    missing
        Sizes of which the sample has too few values.
    """

    compression: Compression
    sizes: Sequence[CompressedValues] = ()
    compressor: str | None = None
    cpu_model: str | None = None
    missing: Sequence[int] = ()

    def ratio(self, value_bytes: int) -> Estimate:
        """Bytes after for bytes before, on average."""
        if value_bytes <= self.compression.above_bytes:
            return Estimate(1.0, 1.0, 1.0)
        given = self.compression.given_ratio
        if given is not None:
            return given
        return self._between(value_bytes, [each.ratio for each in self.sizes])

    def client_ns(self, value_bytes: int, *, compress: bool) -> Estimate:
        """CPU time of a client for one value where it was measured; 0 if it stays as it is."""
        if value_bytes <= self.compression.above_bytes:
            return Estimate(0.0, 0.0, 0.0)
        name = "compress_ns" if compress else "decompress_ns"
        per_byte = [_times(getattr(each, name), 1.0 / each.value_bytes) for each in self.sizes]
        return _times(self._between(value_bytes, per_byte), value_bytes)

    def stored(
        self, value_bytes: int, *, parts: int, factor: float = 1.0
    ) -> list[tuple[int, float]]:
        """Sizes that values of one size become, with weights that add up to one.

        Parameters
        ----------
        parts
            How many sizes at most: values that compress alike are one.
        factor
            For ratios that are all smaller or larger.
        """
        if value_bytes <= self.compression.above_bytes:
            return [(value_bytes, 1.0)]
        mean = factor * self.ratio(value_bytes).value
        shares = [1.0] * parts
        if self.sizes:
            near = min(self.sizes, key=lambda each: abs(math.log(each.value_bytes / value_bytes)))
            shares = [
                sum(part) / len(part) / near.ratio.value for part in _parts(near.ratios, parts)
            ]
        sizes: dict[int, float] = {}
        for share in shares:
            size = max(1, round(value_bytes * min(1.0, mean * share)))
            sizes[size] = sizes.get(size, 0.0) + 1.0 / len(shares)
        return sorted(sizes.items())

    def _between(self, value_bytes: int, known: Sequence[Estimate]) -> Estimate:
        """A number at a size, interpolated over the logarithm of the measured sizes."""
        at = math.log(value_bytes)
        places = [math.log(each.value_bytes) for each in self.sizes]
        after = next((i for i, place in enumerate(places) if place >= at), len(places) - 1)
        before = max(0, after - 1)
        if at <= places[0] or before == after or at >= places[-1]:
            return known[0] if at <= places[0] else known[-1]
        share = (at - places[before]) / (places[after] - places[before])
        low, high = known[before], known[after]
        return Estimate(
            *((1.0 - share) * a + share * b for a, b in (
                (low.value, high.value), (low.low, high.low), (low.high, high.high)
            ))
        )  # fmt: skip


def _times(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.value * factor, estimate.low * factor, estimate.high * factor)


def _parts(values: Sequence[float], count: int) -> list[Sequence[float]]:
    """Parts of about the same length, none empty."""
    count = min(count, len(values))
    return [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]


def measured_ratios(demand: PlanDemand) -> Ratios | None:
    """Measure, or take as given, how much smaller values become; None if nothing is compressed.

    Raises
    ------
    InputError
        The sample can't be read or is too short, or a package is missing.
    """
    compression = demand.compression
    if compression is None:
        return None
    if compression.sample is None:
        return Ratios(compression)
    try:
        return _measured(demand, compression, compression.sample)
    except InputError as error:
        raise InputError(f"field 'demand.compression': {error}") from None


def _measured(demand: PlanDemand, compression: Compression, file: str) -> Ratios:
    sizes = [size for size in _sizes(demand) if size > compression.above_bytes]
    packer = load_codec(compression.algorithm, compression.level_used)
    if not sizes:
        return Ratios(compression, (), packer.name, None)
    sample, lines = read_sample(file), compression.values == "lines"
    found: list[CompressedValues] = []
    missing: list[int] = []
    for size in _chosen(sizes):
        pieces = sample_values(sample, size, lines=lines)
        if len(pieces) >= LEAST_PIECES:
            found.append(measure(packer, pieces, size))
        else:
            missing.append(size)
    if not found:
        what = "lines about as long" if lines else "pieces as long"
        raise InputError(
            f"{file}: found fewer than {LEAST_PIECES} {what} as a value of {min(sizes):,} bytes; "
            "valid is a longer sample."
        )
    from forecache.hwprofiles.capture.machine import inspect_machine  # which only this needs

    return Ratios(compression, found, packer.name, inspect_machine().cpu_model, missing)


def _sizes(demand: PlanDemand) -> list[int]:
    """All sizes of values."""
    sizes = {size for size, _ in sizes_of(demand.value_bytes)}
    for population in demand.data or []:
        if isinstance(population, Strings) and not population.integers:
            sizes |= {size for size, _ in sizes_of(population.value_bytes)}
    return sorted(sizes)


def _chosen(sizes: Sequence[int]) -> list[int]:
    """Sizes to measure: all, or as many between the smallest and the largest."""
    if len(sizes) <= _MOST_MEASURED:
        return list(sizes)
    step = (sizes[-1] / sizes[0]) ** (1.0 / (_MOST_MEASURED - 1))
    return [round(sizes[0] * step**i) for i in range(_MOST_MEASURED)]


def with_stored_values(plan: PlanScenario, ratios: Ratios, *, factor: float = 1.0) -> PlanScenario:
    """A plan for the values as they are stored.

    Parameters
    ----------
    factor
        For ratios that are all smaller or larger: the end of their interval.
    """
    demand = plan.demand
    data = demand.data
    if data is not None:
        data = [
            each.model_copy(update={"value_bytes": _stored(each.value_bytes, ratios, factor)})
            if isinstance(each, Strings) and not each.integers
            else each
            for each in data
        ]
    changes = {"value_bytes": _stored(demand.value_bytes, ratios, factor), "data": data}
    return plan.model_copy(update={"demand": demand.model_copy(update=changes)})


def _stored(value_bytes: ValueSizes, ratios: Ratios, factor: float) -> ValueSizes:
    """Sizes as they are stored."""
    sizes = sizes_of(value_bytes)
    if all(size <= ratios.compression.above_bytes for size, _ in sizes):
        return value_bytes
    parts = max(1, min(_MOST_PARTS, _MOST_SIZES // len(sizes)))
    found: dict[int, float] = {}
    for size, weight in sizes:
        for stored, share in ratios.stored(size, parts=parts, factor=factor):
            found[stored] = found.get(stored, 0.0) + weight * share
    if len(found) == 1:
        return next(iter(found))
    return WeightedSizes(values=sorted(found), weights=[found[size] for size in sorted(found)])


def ratio_spread(demand: PlanDemand, ratios: Ratios) -> tuple[float, float]:
    """Ends of the ratios' interval as factors of their means, weighted by bytes of values."""
    weights = [(size * weight, ratios.ratio(size)) for size, weight in sizes_of(demand.value_bytes)]
    packed = [
        (share * ratio.value, ratio)
        for (share, ratio), (size, _) in zip(weights, sizes_of(demand.value_bytes), strict=True)
        if size > ratios.compression.above_bytes
    ]
    total = sum(share for share, _ in packed)
    if not total:
        return 1.0, 1.0
    return (
        sum(share * ratio.low / ratio.value for share, ratio in packed) / total,
        sum(share * ratio.high / ratio.value for share, ratio in packed) / total,
    )


def size_results(ratios: Ratios) -> list[CompressedSize]:
    """What was measured, for the answer."""
    return [
        CompressedSize(
            each.value_bytes,
            each.pieces,
            each.ratio,
            _times(each.compress_ns, 1e-3),
            _times(each.decompress_ns, 1e-3),
        )
        for each in ratios.sizes
    ]


def compression_effect(
    plan: PlanScenario, ratios: Ratios, offer: Offer, *, shards: int | None
) -> CompressionEffect:
    """What compression changes of a plan.

    Parameters
    ----------
    plan
        With the values as clients have them.
    offer, shards
        Machine, engine and replicas of the best plan, and its shards; None where nothing holds.
    """
    low, high = ratio_spread(plan.demand, ratios)
    ends = [with_stored_values(plan, ratios, factor=factor) for factor in (1.0, low, high)]
    months = plan.demand.horizon_months
    memory = without = needed = None
    if shards is not None:
        rooms = [memory_room(each, offer, serving=shards, months=months) for each in ends]
        memory = Estimate(*(each.needed_bytes for each in rooms))
        without = memory_room(plan, offer, serving=shards, months=months).needed_bytes
        bound = memory_bound(plan, offer).shards
        needed = bound if bound <= MOST_SHARDS else None
    each_us = _client_us(plan, ratios)
    mean_us = None
    if each_us is not None:
        shares = {
            name: asked.share for name, asked in plan.demand.operations.mix().commands.items()
        }
        mean_us = _sum([(shares[name], each) for name, each in each_us.items()])
    said = ratios.compression
    return CompressionEffect(
        algorithm=said.algorithm,
        level=said.level_used,
        above_bytes=said.above_bytes,
        compressor=ratios.compressor,
        cpu_model=ratios.cpu_model,
        sizes=size_results(ratios),
        value_bytes=_mean_bytes(plan),
        stored_bytes=Estimate(*(_mean_bytes(each) for each in ends)),
        network_bytes_without=_network_bytes(plan, offer),
        network_bytes=Estimate(*(_network_bytes(each, offer) for each in ends)),
        memory_bytes_without=without,
        memory_bytes=memory,
        memory_shards_without=needed,
        client_us=each_us,
        client_us_per_operation=mean_us,
        client_cpus=None if mean_us is None else _sum([(plan.demand.peak_rps / 1e6, mean_us)]),
    )


def _client_us(plan: PlanScenario, ratios: Ratios) -> dict[str, Estimate] | None:
    """CPU time of a client by command; None where nothing was measured."""
    if ratios.compressor is None:
        return None
    found = {}
    for name, asked in plan.demand.operations.mix().commands.items():
        if values := COMMANDS[name].values:
            found[name] = _sum(
                [
                    (
                        asked.items * share / 1e3,
                        ratios.client_ns(size, compress=values == "set"),
                    )
                    for size, share in sizes_of(plan.demand.value_bytes)
                ]
            )
    return found


def _sum(weighted: list[tuple[float, Estimate]]) -> Estimate:
    """A weighted sum of estimates that are all low or all high together."""
    return Estimate(
        *(
            sum(weight * getattr(each, end) for weight, each in weighted)
            for end in ("value", "low", "high")
        )
    )


def _mean_bytes(plan: PlanScenario) -> float:
    return sum(size * share for size, share in sizes_of(plan.demand.value_bytes))


def _network_bytes(plan: PlanScenario, offer: Offer) -> float:
    """Bytes of an operation's request and reply, on average."""
    kinds = command_kinds(node_scenario(plan, offer, offer.threads[0], serving=1))
    key_bytes = plan.demand.key_bytes
    return sum(each.share * (each.request_bytes(key_bytes) + each.reply_bytes) for each in kinds)
