"""Values that clients compress: what is stored, sent and paid for with CPU time.

A plan is made for the values as they are stored. How much smaller they become is measured on a
sample, value size by value size, or given. Only strings are compressed; hashes, lists and others
stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from forecache.hwprofiles.capture.compression import (
    LEAST_PIECES,
    CompressedValues,
    codec,
    cut,
    measured,
    read_sample,
)
from forecache.hwprofiles.capture.machine import inspect_machine
from forecache.sim.errors import InputError
from forecache.sim.statistics import Estimate

from ...footprint.schema import Strings
from ...scenario.workload import ValueSizes, WeightedSizes, sizes_of
from ..results import CompressedSize
from ..schema import PlanDemand, PlanScenario
from .schema import Compression

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
        """A number of a size by those of the sizes around it, straight over its logarithm."""
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
    """As many parts of about the same length, none empty."""
    count = min(count, len(values))
    return [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]


def ratios_of(demand: PlanDemand) -> Ratios | None:
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
    packer = codec(compression.algorithm, compression.level_used)
    if not sizes:
        return Ratios(compression, (), packer.name, None)
    sample, lines = read_sample(file), compression.values == "lines"
    found: list[CompressedValues] = []
    missing: list[int] = []
    for size in _chosen(sizes):
        pieces = cut(sample, size, lines=lines)
        if len(pieces) >= LEAST_PIECES:
            found.append(measured(packer, pieces, size))
        else:
            missing.append(size)
    if not found:
        what = "lines about as long" if lines else "pieces as long"
        raise InputError(
            f"{file}: found fewer than {LEAST_PIECES} {what} as a value of {min(sizes):,} bytes; "
            "valid is a longer sample."
        )
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


def compressed(plan: PlanScenario, ratios: Ratios, *, factor: float = 1.0) -> PlanScenario:
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


def spread_of(demand: PlanDemand, ratios: Ratios) -> tuple[float, float]:
    """Ends of the ratios' interval, as factors of their means: by bytes of the values asked for."""
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


def sizes_told(ratios: Ratios) -> list[CompressedSize]:
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
