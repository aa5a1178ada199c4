"""Measure one repetition of a point: a running load, a window, and everything before and after."""

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .design import Timing
from .engine_process import EngineProcess, EngineThread
from .loadgen import LoadGenerator, LoadResult
from .points import Given, Repetition
from .proc import ThreadUsage, core_times_ns, thread_usage
from .resp import RespClient, info_fields, info_number

# A generator this busy may be what limits the throughput.
_BUSY = 0.9
_DISTURBED = 0.1


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

    I/O threads share those between; where there are none left they may run anywhere.
    """
    cores = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
    main = cores[0]
    if len(cores) == 1:
        return CorePlan(main, frozenset(cores), frozenset(cores), True)
    generator = frozenset(cores[max(1, len(cores) - generator_threads) :])
    between = frozenset(cores) - generator - {main}
    helpers = io_threads - 1
    io = between or frozenset(cores)
    short = len(generator) < generator_threads or (helpers > 0 and len(between) < helpers)
    return CorePlan(main, io, generator, short)


def pin_threads(process: EngineProcess, plan: CorePlan) -> None:
    """Put I/O threads on their cores; all others stay with the main thread, as started."""
    for thread in process.threads():
        if thread.role == "io":
            os.sched_setaffinity(thread.tid, plan.io)


@dataclass(frozen=True)
class _ServerLook:
    """CPU use of the engine's threads at one moment, main thread first."""

    usage: Mapping[EngineThread, ThreadUsage]

    @classmethod
    def take(cls, process: EngineProcess, threads: Collection[EngineThread]) -> "_ServerLook":
        return cls({thread: thread_usage(process.pid, thread.tid) for thread in threads})

    def since(self, earlier: "_ServerLook") -> dict[EngineThread, ThreadUsage]:
        return {thread: used.since(earlier.usage[thread]) for thread, used in self.usage.items()}


def measure_repetition(
    given: Given,
    process: EngineProcess,
    control: RespClient,
    *,
    plan: CorePlan,
    timing: Timing,
    seed: int,
    origin_s: float,
) -> Repetition:
    """Run the load of a point once and measure its window.

    Parameters
    ----------
    origin_s
        `time.monotonic()` at the start of the observation.

    Raises
    ------
    EngineError
        The engine or a connection ends, or its CPU time can't be read.
    """
    spec = given.load_spec(seed=seed)
    warm_up_s = timing.warm_up_s if given.io_threads == 1 else timing.io_warm_up_s
    # More connections take longer to set up and to come into step.
    warm_up_s += given.clients * 1e-4
    longest_s = warm_up_s + timing.window_s + 30.0
    started_s = time.monotonic() - origin_s
    with LoadGenerator(
        spec, process.address(given.transport), cores=plan.generator, longest_s=longest_s
    ) as load:
        threads = process.threads()
        time.sleep(warm_up_s)
        info_before = info_fields(control.info())
        load.measure()
        cores_before = core_times_ns(plan.all)
        server_before = _ServerLook.take(process, threads)
        load_before = load.snapshot()
        time.sleep(timing.window_s)
        # The order of the looks is the same as before, so that both windows are as long.
        cores_after = core_times_ns(plan.all)
        server_after = _ServerLook.take(process, threads)
        load_after = load.snapshot()
        info_after = info_fields(control.info())
    load.check()
    process.check_alive()
    result = load.result(load_before, load_after)
    used = server_after.since(server_before)
    busy_ns = sum(usage.cpu_ns for usage in used.values()) + round(
        result.generator_cpu_ns_per_request * result.requests
    )
    host = _host_fractions(cores_before, cores_after, busy_ns)
    return _repetition(given, result, used, info_before, info_after, plan, host, started_s)


def _host_fractions(
    before: tuple[int, int, int], after: tuple[int, int, int], ours_ns: int
) -> tuple[float, float] | None:
    """(stolen, used by others) as fractions of the cores' time."""
    total, steal, idle = (b - a for a, b in zip(before, after, strict=True))
    if total <= 0:
        return None
    return steal / total, max(0.0, (total - idle - steal - ours_ns) / total)


def _repetition(
    given: Given,
    result: LoadResult,
    used: Mapping[EngineThread, ThreadUsage],
    info_before: Mapping[str, str],
    info_after: Mapping[str, str],
    plan: CorePlan,
    host: tuple[float, float] | None,
    started_s: float,
) -> Repetition:
    each = 1.0 / max(result.requests, 1)
    main = next(usage for thread, usage in used.items() if thread.role == "main")
    io_ns = [usage.cpu_ns for thread, usage in used.items() if thread.role == "io"]
    other_ns = sum(usage.cpu_ns for thread, usage in used.items() if thread.role == "other")
    window_ns = result.duration_s * 1e9
    memory = info_number(info_after, "used_memory")
    active = info_number(info_after, "io_threads_active")
    return Repetition(
        started_s=started_s,
        requests=result.requests,
        duration_s=result.duration_s,
        throughput_rps=result.throughput_rps,
        mean_ms=result.mean_ms,
        p50_ms=result.quantile_ms(0.5),
        p90_ms=result.quantile_ms(0.9),
        p99_ms=result.quantile_ms(0.99),
        p999_ms=result.quantile_ms(0.999),
        histogram=result.histogram.to_dict(),
        errors=result.errors,
        misses=result.misses,
        main_thread_cpu_ns_per_request=main.cpu_ns * each,
        io_thread_cpu_ns_per_request=[cpu_ns * each for cpu_ns in io_ns],
        other_thread_cpu_ns_per_request=other_ns * each,
        main_thread_utilisation=main.cpu_ns / window_ns,
        main_thread_wait_ns_per_request=main.wait_ns * each,
        main_voluntary_switches_per_request=main.voluntary_switches * each,
        main_involuntary_switches_per_request=main.involuntary_switches * each,
        io_threads_active=None if active is None else int(active),
        used_memory_bytes=None if memory is None else int(memory),
        generator_cpu_ns_per_request=result.generator_cpu_ns_per_request,
        generator_utilisation=result.generator_utilisation,
        generator_loops_per_request=result.generator_loops_per_request,
        generator_events_per_request=result.generator_events_per_request,
        generator_reads_per_request=result.generator_reads_per_request,
        generator_sends_per_request=result.generator_sends_per_request,
        generator_voluntary_switches_per_request=result.generator_voluntary_switches_per_request,
        received_bytes_per_request=result.received_bytes_per_request,
        sent_bytes_per_request=result.sent_bytes_per_request,
        latest_start_us=result.latest_start_us,
        host_steal_fraction=None if host is None else host[0],
        host_other_fraction=None if host is None else host[1],
        flags=_flags(given, result, main, max([main.cpu_ns, *io_ns]) / window_ns, plan),
        **_info_rates(info_before, info_after),
    )


def _flags(
    given: Given, result: LoadResult, main: ThreadUsage, busiest: float, plan: CorePlan
) -> list[str]:
    generator_bound = result.generator_utilisation > max(_BUSY, busiest)
    reasons = {
        "generator": generator_bound and given.arrival == "closed_loop" and not given.think_us,
        "oversubscribed": plan.oversubscribed,
        "misses": result.misses > 0,
        "errors": result.errors > 0,
        "disturbed": main.wait_ns > _DISTURBED * result.duration_s * 1e9,
    }
    return [name for name, holds in reasons.items() if holds]


def _info_rates(
    before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, float | list[float] | None]:
    """What INFO counts, for each command between two looks at it.

    Between the two replies lie one write (of the first), one read and one event loop (of the
    second), and the first INFO as a command counted after its reply: one of each is ours.
    """

    def delta(name: str) -> float | None:
        first, last = info_number(before, name), info_number(after, name)
        return None if first is None or last is None else last - first

    commands = delta("total_commands_processed")
    each = 1.0 / max((commands or 0.0) - 1.0, 1.0)

    def rate(name: str, ours: float = 0.0, scale: float = 1.0) -> float | None:
        change = delta(name)
        return None if change is None else max(change - ours, 0.0) * scale * each

    user, system = delta("used_cpu_user_main_thread"), delta("used_cpu_sys_main_thread")
    known = user is not None and system is not None and user + system > 0
    io_active = [
        rate(name, scale=1e9)
        for name in sorted(after)
        if name.startswith("used_active_time_io_thread")
    ]
    return {
        "event_loops_per_request": rate("eventloop_cycles", ours=1.0),
        "reads_per_request": rate("total_reads_processed", ours=1.0),
        "writes_per_request": rate("total_writes_processed", ours=1.0),
        "main_thread_user_fraction": user / (user + system) if known else None,  # type: ignore[operator]
        "main_thread_active_time_ns_per_request": rate("used_active_time_main_thread", scale=1e9),
        "io_threads_active_time_ns_per_request": [value for value in io_active if value is not None]
        or None,
        "prefetch_batches_per_request": rate("io_threaded_total_prefetch_batches"),
        "prefetch_entries_per_request": rate("io_threaded_total_prefetch_entries"),
    }
