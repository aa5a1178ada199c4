"""Measure one repetition of a point: a running load, a window, and everything before and after."""

import math
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecache.sim.histogram import LatencyHistogram

from ..bundle.points import Conditions, Repetition
from ..drive.connection import ControlClient
from ..drive.loadgen import LoadGenerator, LoadResult
from ..drive.proc import ThreadUsage, core_times_ns, thread_usage
from ..drive.servers import EngineThread, ServerProcess
from .design import Timing
from .readers.info import difference, info_fields, info_number, memory_used
from .spinning import Sampler, Samples, Shares, Spinning
from .tools import run_tool

# A generator this busy may be what limits the throughput.
_BUSY = 0.9
# A slice of an open loop in which a request took this long had a core taken away; longer slices
# would all have one, shorter ones would not show how a queue drains.
_SLICE_S = 0.02
_STALL_PS = 1_000_000_000
_DISTURBED = 0.1
# Of all our cores' time; what sampling takes itself is part of it.
_OTHERS = 0.35
# Requests, per place in the pipeline, that tell how fast a tool is.
_PILOT = 1000
# Requests of the shortest run of a tool.
_FEWEST = 5000


@dataclass(frozen=True)
class CorePlan:
    """Which cores do what. `oversubscribed`: there are more busy threads than cores."""

    main: int
    io: frozenset[int]
    generator: frozenset[int]
    oversubscribed: bool

    @property
    def all(self) -> frozenset[int]:
        """Every core of the plan."""
        return self.io | self.generator | {self.main}


def plan_cores(
    *, io_threads: int, generator_threads: int, allowed: Collection[int] | None = None
) -> CorePlan:
    """Deal out the cores we may use: the first to the main thread, the last to the generator.

    I/O threads share those between; where there are none left, those of the generator, so that the
    main thread stays alone on its core.
    """
    cores = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
    main = cores[0]
    if len(cores) == 1:
        return CorePlan(main, frozenset(cores), frozenset(cores), True)
    generator = frozenset(cores[max(1, len(cores) - generator_threads) :])
    between = frozenset(cores) - generator - {main}
    helpers = io_threads - 1
    io = between or generator
    short = len(generator) < generator_threads or (helpers > 0 and len(between) < helpers)
    return CorePlan(main, io, generator, short)


def pin_threads(process: ServerProcess, plan: CorePlan) -> None:
    """Put I/O threads on their cores; all others stay with the main thread, as started."""
    for thread in process.threads():
        if thread.role == "io":
            os.sched_setaffinity(thread.tid, plan.io)


class Watch:
    """Looks at the engine and the host before and after a load, and makes the repetition of it.

    INFO is asked for outside the span of the CPU times, so that it costs the measurement nothing.
    """

    def __init__(
        self,
        process: ServerProcess,
        control: ControlClient,
        plan: CorePlan,
        *,
        origin_s: float,
        spinning: Spinning | None = None,
    ) -> None:
        self._process = process
        self._control = control
        self._plan = plan
        self._spinning = spinning
        self._sampler: Sampler | None = None
        self._samples: Samples | None = None
        self._started_s = time.monotonic() - origin_s

    def begin(self) -> None:
        """First look: INFO, host, then the threads, main thread first."""
        if self._spinning is not None:
            self._sampler = Sampler(self._plan.io | {self._plan.main}, self._plan.generator)
        self._threads = self._process.threads()
        self._info_before = info_fields(self._control.info())
        self._cores_before = core_times_ns(self._plan.all)
        self._core_before = core_times_ns({self._plan.main})
        self._before = self._look()

    def end(self) -> None:
        """Second look, in the same order, so that the spans are as long; `finish` asks for INFO."""
        self._cores_after = core_times_ns(self._plan.all)
        self._core_after = core_times_ns({self._plan.main})
        self._after = self._look()

    def finish(self) -> None:
        """The last INFO, and an end to sampling."""
        self._info_after = info_fields(self._control.info())
        if self._sampler is not None:
            self._samples = self._sampler.stop()

    def _look(self) -> dict[EngineThread, ThreadUsage]:
        return {t: thread_usage(self._process.pid, t.tid) for t in self._threads}

    def repetition(
        self,
        given: Conditions,
        result: LoadResult,
        slices: Mapping[str, float | None] | None = None,
    ) -> Repetition:
        """Everything of one repetition, from the looks and what the clients' side says."""
        self._process.check_alive()
        used = {t: usage.since(self._before[t]) for t, usage in self._after.items()}
        client = result.fields() | dict(slices or {})
        steal, other = _host_fractions(
            self._cores_before,
            self._cores_after,
            sum(usage.cpu_ns for usage in used.values())
            + client["generator_cpu_ns_per_request"] * result.requests,
        )
        return repetition_of(
            given,
            client,
            used,
            (self._info_before, self._info_after),
            plan=self._plan,
            started_s=self._started_s,
            host_steal_fraction=steal,
            host_other_fraction=other,
            main_core_steal_ns=self._core_after[1] - self._core_before[1],
            waiting=(
                None
                if self._spinning is None or self._samples is None
                else self._spinning.shares(self._samples)
            ),
        )


def repetition_of(
    given: Conditions,
    client: Mapping[str, Any],
    used: Mapping[EngineThread, ThreadUsage],
    info: tuple[Mapping[str, str], Mapping[str, str]],
    *,
    plan: CorePlan,
    started_s: float,
    host_steal_fraction: float | None = None,
    host_other_fraction: float | None = None,
    main_core_steal_ns: int | None = None,
    waiting: Shares | None = None,
) -> Repetition:
    """A repetition from what was counted in its window.

    Parameters
    ----------
    client
        The fields of a `Repetition` that the clients' side knows.
    used
        What each thread of the server used in the window; one of them is `main`.
    info
        INFO before and after.
    waiting
        From `Spinning.shares`.
    """
    main = next(usage for t, usage in used.items() if t.role == "main")
    io_ns = [usage.cpu_ns for t, usage in used.items() if t.role == "io"]
    other_ns = sum(usage.cpu_ns for t, usage in used.items() if t.role == "other")
    each = 1.0 / max(client["requests"], 1)
    window_ns = client["duration_s"] * 1e9
    before, after = info
    active = info_number(after, "io_threads_active")
    return Repetition(
        started_s=started_s,
        **client,
        main_thread_cpu_ns_per_request=main.cpu_ns * each,
        io_thread_cpu_ns_per_request=[cpu_ns * each for cpu_ns in io_ns],
        other_thread_cpu_ns_per_request=other_ns * each,
        main_thread_utilisation=main.cpu_ns / window_ns,
        main_thread_wait_ns_per_request=main.wait_ns * each,
        main_voluntary_switches_per_request=main.voluntary_switches * each,
        main_involuntary_switches_per_request=main.involuntary_switches * each,
        io_threads_active=None if active is None else int(active),
        main_thread_waiting_share=None if waiting is None else _known(waiting.main[0]),
        io_threads_waiting_shares=(
            None if waiting is None else [_known(share) for share in waiting.io]
        ),
        io_threads_polling_shares=(
            None
            if waiting is None or waiting.io_polling is None
            else [_known(share) for share in waiting.io_polling]
        ),
        used_memory_bytes=memory_used(after),
        host_steal_fraction=host_steal_fraction,
        host_other_fraction=host_other_fraction,
        main_core_steal_ns_per_request=(
            None if main_core_steal_ns is None else main_core_steal_ns * each
        ),
        flags=_flags(
            given,
            client,
            main,
            max([main.cpu_ns, *io_ns]),
            window_ns,
            plan,
            (host_other_fraction or 0.0) if given.io_threads > 1 else 0.0,
        ),
        **info_rates(before, after),
    )


def _known(share: float) -> float:
    """A share of samples; a thread without any did nothing, so it had nothing to wait for."""
    return 0.0 if math.isnan(share) else round(share, 4)


def measure_repetition(
    given: Conditions,
    process: ServerProcess,
    control: ControlClient,
    *,
    plan: CorePlan,
    timing: Timing,
    seed: int,
    origin_s: float,
    spinning: Spinning | None = None,
) -> Repetition:
    """Run the load of a point once and measure a window of it after a warm-up.

    Parameters
    ----------
    origin_s
        `time.monotonic()` at the start of the observation.
    spinning
        What waiting threads look like, where threads spin.

    Raises
    ------
    EngineError
        The engine or a connection ends, or its CPU time can't be read.
    """
    warm_up_s = timing.warm_up_s if given.io_threads == 1 else timing.io_warm_up_s
    # More connections take longer to set up and to come into step.
    warm_up_s += given.clients * 1e-4
    longest_s = warm_up_s + timing.window_s + 30.0
    address = process.address(given.transport)
    watch = Watch(process, control, plan, origin_s=origin_s, spinning=spinning)
    with LoadGenerator(
        given, address, seed=seed, cores=plan.generator, longest_s=longest_s
    ) as load:
        time.sleep(warm_up_s)
        load.measure()
        watch.begin()
        before = load.snapshot()
        if given.arrival == "open_loop":
            slices = measure_slices(load, timing.loaded_window_s)
        else:
            time.sleep(timing.window_s)
            slices = {}
        watch.end()
        after = load.snapshot()
        watch.finish()
    load.check()
    return watch.repetition(given, load.result(before, after), slices)


def measure_slices(load: LoadGenerator, window_s: float) -> dict[str, float | None]:
    """Wait for a window, slice by slice; the latencies of those in which the host kept still.

    Returns
    -------
    `stalled_share` and `quiet_p50_ms` to `quiet_p99_ms`, as in `Repetition`.
    """
    before, quiet = load.latencies(), LatencyHistogram()
    total = stalled = 0
    end_s = time.monotonic() + window_s
    while time.monotonic() < end_s:
        time.sleep(_SLICE_S)
        now = load.latencies()
        slice_, before = now.since(before), now
        total += 1
        if slice_.max_ps >= _STALL_PS:
            stalled += 1
        else:
            quiet = quiet.merge(slice_)
    known = quiet.count > 0
    return {
        "stalled_share": stalled / total,
        **{
            f"quiet_{name}_ms": quiet.quantile(q) / 1e9 if known else None
            for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
        },
    }


def measure_with_tool(
    tool: Path,
    given: Conditions,
    process: ServerProcess,
    control: ControlClient,
    *,
    plan: CorePlan,
    timing: Timing,
    origin_s: float,
    expected_rps: float | None = None,
    spinning: Spinning | None = None,
) -> Repetition:
    """Run a benchmark tool once; the window is its whole life, set-up of connections included.

    With I/O threads, which some engines start one by one under load, the window begins after a
    warm-up, and its requests are those that INFO counts.

    Parameters
    ----------
    expected_rps
        How fast the tool was at this point before, which says how many requests fill the window;
        None has a short run find out.
    spinning
        What waiting threads look like, where threads spin.
    """
    address = process.address(given.transport)
    if expected_rps is None:
        few = _PILOT * given.pipeline
        pilot = run_tool(tool, given, address, requests=few, cores=plan.generator)
        expected_rps = pilot.throughput_rps
    requests = max(round(expected_rps * timing.window_s), _FEWEST)
    watch = Watch(process, control, plan, origin_s=origin_s, spinning=spinning)
    watch.begin()
    result = run_tool(tool, given, address, requests=requests, cores=plan.generator)
    watch.end()
    watch.finish()
    return watch.repetition(given, result)


def _host_fractions(
    before: tuple[int, int, int], after: tuple[int, int, int], ours_ns: float
) -> tuple[float | None, float | None]:
    """Of the cores' time, the share stolen and the share used by others; None if none passed."""
    total, steal, idle = (b - a for a, b in zip(before, after, strict=True))
    if total <= 0:
        return None, None
    return steal / total, max(0.0, (total - idle - steal - ours_ns) / total)


def _flags(
    given: Conditions,
    client: Mapping[str, Any],
    main: ThreadUsage,
    busiest_ns: int,
    window_ns: float,
    plan: CorePlan,
    other_fraction: float,
) -> list[str]:
    saturated = client["generator_utilisation"] > max(_BUSY, busiest_ns / window_ns)
    reasons = {
        "generator": saturated and given.arrival == "closed_loop" and not given.think_us,
        "oversubscribed": plan.oversubscribed,
        "misses": client.get("misses", 0) > 0,
        "errors": client.get("errors", 0) > 0,
        # Where I/O threads and the generator share cores, waiting for one says nothing of others.
        "disturbed": main.wait_ns > _DISTURBED * window_ns or other_fraction > _OTHERS,
    }
    return [name for name, holds in reasons.items() if holds]


def info_rates(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, Any]:
    """What INFO counts, for each command between two looks at it.

    Between the two replies lie one write (of the first), one read and one event loop (of the
    second), and the first INFO as a command counted after its reply: one of each is ours.
    """

    commands = difference(before, after, "total_commands_processed")
    each = 1.0 / max((commands or 0.0) - 1.0, 1.0)

    def rate(name: str, ours: float = 0.0, scale: float = 1.0) -> float | None:
        change = difference(before, after, name)
        return None if change is None else max(change - ours, 0.0) * scale * each

    user = difference(before, after, "used_cpu_user_main_thread")
    system = difference(before, after, "used_cpu_sys_main_thread")
    user_fraction = None
    if user is not None and system is not None and user + system > 0:
        user_fraction = user / (user + system)
    io_active = [
        rate(name, scale=1e9)
        for name in sorted(after)
        if name.startswith("used_active_time_io_thread")
    ]
    return {
        "event_loops_per_request": rate("eventloop_cycles", ours=1.0),
        "reads_per_request": rate("total_reads_processed", ours=1.0),
        "writes_per_request": rate("total_writes_processed", ours=1.0),
        "main_thread_user_fraction": user_fraction,
        "main_thread_active_time_ns_per_request": rate("used_active_time_main_thread", scale=1e9),
        "io_threads_active_time_ns_per_request": [value for value in io_active if value is not None]
        or None,
        "prefetch_batches_per_request": rate("io_threaded_total_prefetch_batches"),
        "prefetch_entries_per_request": rate("io_threaded_total_prefetch_entries"),
    }
