"""How far off the footprint is: 95% intervals of used and resident memory.

Uncertain are where tables and buffers stand (`Weight.least_bytes`, `most_bytes`), what a server
holds without data, and by how much the data of each type differ from the model. The last is known
from live servers: `errors.yaml` has a relative standard error for each type in each version that
was measured, and for versions that were not, from how far off versions were when they were first
measured. `make evidence STUDY=footprint-errors` writes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Literal

from forecache.hwprofiles.files import parse, read_yaml
from forecache.hwprofiles.record import Record
from forecache.sim.statistics import Estimate

from ..layouts.allocator import Allocator
from ..layouts.generations import Generation, is_managed, taken_as
from ..results.intervals import RelativeError, student_factor
from .limits import FRAGMENTATION_RANGE, Resident, resident
from .saving import child_of_memory
from .schema import MemoryScenario
from .weigh import PROCESS_RANGE_BYTES, Weight

SERVER_ERROR = 0.1
"""95% of what a server of a measured version holds without data (assumed: Valkey 9.1.2 starts with
8% more as one package than as another)."""

OTHER_SERVER_ERROR = 0.4
"""95% of the same of another version (derived: neighbouring versions that were measured differ by
a factor of 1.17 in the standard deviation, 1.43 at worst)."""

MANAGED_ERROR = 0.3
"""95% of the logarithm of what a service's own engine takes over what the open one takes (assumed:
ElastiCache for Valkey 7.2 took 16% more for values of 100 B, the calibration point of the
dataset memory-footprint; up to twice that)."""

AllocatorFamily = Literal["jemalloc", "libc"]


class VersionErrors(Record):
    """Errors by type of one version with one family of allocators."""

    engine: str
    version: str
    allocator: AllocatorFamily
    types: dict[str, RelativeError]


class FootprintErrors(Record):
    """Content of `errors.yaml`.

    Attributes
    ----------
    versions
        Those that were measured.
    others
        Of versions that were not, by type.
    """

    versions: list[VersionErrors]
    others: dict[str, RelativeError]

    def half_width(self, g: Generation, allocator: Allocator, type_: str, *, known: bool) -> float:
        """Half width of the 95% interval of the logarithm of some data.

        Parameters
        ----------
        known
            Whether the version is one that `g` is about, or a newer one.
        """
        own = [
            each
            for each in self.versions
            if known and each.engine == g.engine and each.version in g.versions
        ]
        family = allocator_family(allocator)
        for each in own:
            if each.allocator == family and type_ in each.types:
                return each.types[type_].half_width
        # A type that was measured of none is taken to be off as hashes were.
        others = self.others.get(type_, self.others["hash"])
        layout = own[0].types.get(type_, others) if own else others
        # Its layout is known by another allocator, the allocator by other versions.
        same = [
            each.types[type_]
            for each in self.versions
            if each.allocator == family and type_ in each.types
        ]
        return math.hypot(layout.half_width, *_pooled(same))


def _pooled(errors: Iterable[RelativeError]) -> list[float]:
    found = list(errors)
    if not found:
        return []
    points = sum(each.points for each in found)
    mean = sum(each.points * each.error**2 for each in found) / points
    return [student_factor(points) * math.sqrt(mean)]


def allocator_family(allocator: Allocator) -> AllocatorFamily:
    """jemalloc in all its versions, or glibc's malloc, whose blocks depend on their neighbours."""
    return "libc" if allocator.startswith("libc") else "jemalloc"


@lru_cache(maxsize=1)
def footprint_errors() -> FootprintErrors:
    """The shipped errors."""
    file = Path(str(resources.files(__package__) / "errors.yaml"))
    return parse(FootprintErrors, read_yaml(file), file="models/footprint/errors.yaml")


def used_interval(
    scenario: MemoryScenario,
    g: Generation,
    weight: Weight,
    *,
    growing: bool = False,
    errors: FootprintErrors | None = None,
) -> Estimate:
    """Used memory with its 95% interval, in bytes.

    Parameters
    ----------
    growing
        Whether tables may be moving with any number of keys, as while data grow.
    errors
        Others than those that are shipped.
    """
    known = taken_as(scenario.engine, scenario.engine_version) is None
    table = errors or footprint_errors()
    beside = weight.beside.startup + weight.beside.cluster + weight.beside.commands
    server = beside * (SERVER_ERROR if known and g.server_measured else OTHER_SERVER_ERROR)
    below, above = [server], [server]
    for type_, size in _bytes_by_type(scenario, weight).items():
        half = table.half_width(g, scenario.allocator or g.allocator, type_, known=known)
        if is_managed(scenario.engine):
            half = math.hypot(half, MANAGED_ERROR)
        below.append(size * math.expm1(-half))
        above.append(size * math.expm1(half))
    # A child stops moves (dict_can_resize in dict.c), so that they may end late.
    stalled = growing or scenario.forking is not None
    return Estimate(
        weight.used_bytes,
        max(0.0, weight.least_bytes - math.hypot(*below)),
        weight.most_bytes(stalled=stalled) + math.hypot(*above),
    )


def _bytes_by_type(scenario: MemoryScenario, weight: Weight) -> Mapping[str, float]:
    """Data with their share of the tables of keys."""
    keys = sum(weight.keys)
    table = weight.tables / keys if keys else 0.0
    found: dict[str, float] = {}
    for count, population, each in zip(weight.keys, scenario.data, weight.per_key, strict=True):
        size = count * (each.settled + table)
        found[population.type] = found.get(population.type, 0.0) + size
    return found


def resident_ends(
    scenario: MemoryScenario, used: Estimate, weight: Weight
) -> tuple[Resident, Resident]:
    """Ends of the 95% interval of resident memory."""
    given = "fragmentation" in scenario.model_fields_set
    shares = (scenario.fragmentation,) * 2 if given else FRAGMENTATION_RANGE
    child = child_of_memory(scenario)
    low, high = (
        resident(
            used_bytes,
            fragmentation=share,
            process_bytes=process,
            forking=child,
            untouched_bytes=min(used_bytes, weight.untouched_bytes),
        )
        for used_bytes, share, process in zip(
            (used.low, used.high), shares, PROCESS_RANGE_BYTES, strict=True
        )
    )
    return low, high
