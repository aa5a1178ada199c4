"""Load on a live engine for a time."""

from __future__ import annotations

import time
from collections.abc import Collection

from forecache.calibration.drive.connection import Address
from forecache.calibration.drive.loadgen import LoadGenerator, LoadResult
from forecache.calibration.drive.loadspec import LoadSpec
from forecache.calibration.observe.measure import sliced


def run_load(
    spec: LoadSpec,
    address: Address,
    *,
    duration_s: float,
    warm_up_s: float = 0.1,
    cores: Collection[int] | None = None,
) -> LoadResult:
    """Drive an engine for a time and return what the clients saw after the warm-up."""
    longest_s = warm_up_s + duration_s + 30.0
    with LoadGenerator(spec, address, cores=cores, longest_s=longest_s) as load:
        time.sleep(warm_up_s)
        load.measure()
        before = load.snapshot()
        time.sleep(duration_s)
        after = load.snapshot()
    load.check()
    return load.result(before, after)


def run_sliced(
    spec: LoadSpec,
    address: Address,
    *,
    duration_s: float,
    warm_up_s: float,
    cores: Collection[int] | None = None,
) -> tuple[LoadResult, dict[str, float | None]]:
    """The same, and what `sliced` says of slices in which the host kept still."""
    longest_s = warm_up_s + duration_s + 30.0
    with LoadGenerator(spec, address, cores=cores, longest_s=longest_s) as load:
        time.sleep(warm_up_s)
        load.measure()
        before = load.snapshot()
        slices = sliced(load, duration_s)
        after = load.snapshot()
    load.check()
    return load.result(before, after), slices
