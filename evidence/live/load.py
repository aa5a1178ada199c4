"""Load on a live engine for a time, and the CPU time of processes."""

from __future__ import annotations

import time
from collections.abc import Collection

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.connection import Address
from forecache.calibration.drive.loadgen import LoadGenerator, LoadResult
from forecache.calibration.observe.measure import measure_slices
from forecache.sim.errors import EngineError


def run_load(
    given: Conditions,
    address: Address,
    *,
    duration_s: float,
    warm_up_s: float = 0.1,
    cores: Collection[int] | None = None,
) -> LoadResult:
    """Drive an engine for a time and return what the clients saw after the warm-up."""
    longest_s = warm_up_s + duration_s + 30.0
    with LoadGenerator(given, address, cores=cores, longest_s=longest_s) as load:
        time.sleep(warm_up_s)
        load.measure()
        before = load.snapshot()
        time.sleep(duration_s)
        after = load.snapshot()
    load.check()
    return load.result(before, after)


def run_sliced(
    given: Conditions,
    address: Address,
    *,
    duration_s: float,
    warm_up_s: float,
    cores: Collection[int] | None = None,
) -> tuple[LoadResult, dict[str, float | None]]:
    """The same, and what `measure_slices` says of slices in which the host kept still."""
    longest_s = warm_up_s + duration_s + 30.0
    with LoadGenerator(given, address, cores=cores, longest_s=longest_s) as load:
        time.sleep(warm_up_s)
        load.measure()
        before = load.snapshot()
        slices = measure_slices(load, duration_s)
        after = load.snapshot()
    load.check()
    return load.result(before, after), slices


def process_cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process.

    Exact for this very process. Of another one the kernel has what a thread used until its last
    tick, 1 to 10 ms ago, or until it last slept.
    """
    try:
        # Linux: the inverted id, then the kind of clock, the scheduler's own.
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError as error:
        raise EngineError(f"CPU time of process {pid} can't be read: {error}.") from None
