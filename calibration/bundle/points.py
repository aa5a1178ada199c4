"""One observed point: what was given, and what each repetition showed."""

import statistics
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.record import Record as _Record

Command = Literal["get", "set", "mix"]
Role = Literal["fit", "holdout"]


@dataclass(frozen=True, kw_only=True)
class Popularity:
    """Which keys requests name.

    Attributes
    ----------
    kind
        `uniform`, `zipf` or `hot_set`.
    exponent
        Zipf: probability of rank r is proportional to r**-exponent.
    hot_keys_fraction, hot_requests_fraction
        Hot set: this share of the requests goes to this share of the keys.
    """

    kind: str = "uniform"
    exponent: float = 0.99
    hot_keys_fraction: float = 0.1
    hot_requests_fraction: float = 0.9


class Conditions(_Record):
    """Under which a point is observed.

    `command` says in a word what `get_fraction` says in a number. `value_bytes` is the size of
    every value, or the mean size where `value_sizes` lists (bytes, weight) pairs. `rate_share` sets
    the rate of an open loop by the throughput that the same conditions reach in a closed one, which
    the observation measures first. `role` says whether a fit may use the point.
    """

    command: Command
    get_fraction: float = Field(default=-1.0, le=1.0)
    pipeline: int = Field(default=1, ge=1)
    value_bytes: float = Field(default=16, ge=0)
    value_sizes: tuple[tuple[int, float], ...] | None = None
    key_bytes: int = Field(default=16, ge=1)
    keys: int = Field(default=1000, ge=1)
    popularity: Popularity = Popularity()
    clients: int = Field(default=50, ge=1)
    io_threads: int = Field(default=1, ge=1)
    transport: Literal["tcp", "unix"] = "tcp"
    arrival: Literal["closed_loop", "open_loop"] = "closed_loop"
    rate_rps: float | None = Field(default=None, gt=0)
    rate_share: float | None = Field(default=None, gt=0)
    think_us: float = Field(default=0.0, ge=0)
    generator_threads: int = Field(default=1, ge=1)
    role: Role = "fit"

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("get_fraction") is None:
            shares = {"get": 1.0, "set": 0.0, "mix": 0.5}
            data = {**data, "get_fraction": shares.get(data.get("command", ""), -1.0)}
        return data

    @model_validator(mode="after")
    def _agree(self) -> "Conditions":
        named = {1.0: "get", 0.0: "set"}.get(self.get_fraction, "mix")
        if named != self.command or self.get_fraction < 0:
            raise ValueError(
                f"a command that agrees with get_fraction (found {self.command} with "
                f"{self.get_fraction:g})"
            )
        rate = self.rate_rps is not None or self.rate_share is not None
        if rate != (self.arrival == "open_loop"):
            raise ValueError("rate_rps or rate_share with arrival open_loop, and only there")
        return self

    @property
    def data_set(self) -> tuple[Any, ...]:
        """What points must share to be measured on one loaded server."""
        return (self.io_threads, self.keys, self.key_bytes, self.sizes, self.transport)

    @property
    def closed_twin(self) -> "Conditions":
        """The same conditions in a closed loop; a fit may or may not use it."""
        changes = {"arrival": "closed_loop", "rate_rps": None, "rate_share": None, "role": "fit"}
        return self.model_copy(update=changes)

    @property
    def sizes(self) -> tuple[tuple[int, float], ...]:
        """Value sizes and weights, for one size as for many."""
        if self.value_sizes is None:
            return ((int(self.value_bytes), 1.0),)
        return self.value_sizes

    def label(self) -> str:
        """A short name, such as `get P16 v64 k100000 c50`."""
        parts = [self.command, f"P{self.pipeline}", f"v{self.value_bytes:g}", f"k{self.keys}"]
        parts.append(f"c{self.clients}")
        if self.io_threads > 1:
            parts.append(f"io{self.io_threads}")
        if self.transport != "tcp":
            parts.append(self.transport)
        if self.popularity.kind != "uniform":
            parts.append(self.popularity.kind)
        if self.rate_share is not None:
            parts.append(f"load{self.rate_share:.0%}")
        elif self.rate_rps is not None:
            parts.append(f"{self.rate_rps:g}rps")
        if self.think_us:
            parts.append(f"think{self.think_us:g}us")
        return " ".join(parts)

    def words(self) -> str:
        """The conditions in words: `GET of 16 B values, 1,000 keys, pipeline 1, 50 connections`."""
        parts = [
            f"{self.command.upper()} of {self.value_bytes:g} B values",
            f"{self.keys:,} keys",
            f"pipeline {self.pipeline}",
            f"{self.clients} connection{'s' * (self.clients != 1)}",
        ]
        if self.io_threads > 1:
            parts.append(f"io-threads {self.io_threads}")
        if self.transport != "tcp":
            parts.append(self.transport.replace("_", " "))
        if self.popularity.kind != "uniform":
            parts.append(f"{self.popularity.kind.replace('_', ' ')} popularity")
        if self.rate_share is not None:
            parts.append(f"{self.rate_share:.0%} of the load at saturation")
        elif self.rate_rps is not None:
            parts.append(f"{self.rate_rps:g} requests/s")
        if self.think_us:
            parts.append(f"think time {self.think_us:g} µs")
        return ", ".join(parts)


class Repetition(_Record):
    """One measured window. `per_request` figures divide by the replies in the same window.

    CPU times come from /proc/PID/task/TID/schedstat. What this engine version or benchmark tool
    doesn't report is None, never zero.

    Attributes
    ----------
    started_s
        Since the start of the observation, to see drift.
    histogram
        Latencies, as `forecache.sim.histogram.LatencyHistogram.to_dict` writes them.
    main_thread_user_fraction
        User share of the main thread's CPU time, from INFO; the kernel samples it at its tick, so
        one window knows it to a few per cent only.
    main_thread_wait_ns_per_request
        Time the main thread was ready to run while something else had its core: other work on the
        machine. Not part of the CPU time.
    event_loops_per_request, reads_per_request, writes_per_request
        From INFO before and after, over the commands between, without INFO's own.
    io_threads_active
        `io_threads_active` of INFO after the window.
    main_thread_active_time_ns_per_request, io_threads_active_time_ns_per_request
        `used_active_time_*` of INFO (Valkey 9.1 on): time not spent in polling.
    main_thread_waiting_share, io_threads_waiting_shares
        Of the CPU time of the thread, or of each I/O thread, what it spends waiting for work and
        going round its event loop, as samples say; None where they don't.
    io_threads_polling_shares
        Of the CPU time of each I/O thread that spins, what it spends on polls for the main thread;
        None where samples don't say. They are no part of what it computes.
    stalled_share
        Open loop: share of slices of 20 ms in which a request took a millisecond or more: at
        moderate load the hypervisor had taken a core away.
    quiet_p50_ms, quiet_p90_ms, quiet_p99_ms
        Open loop: latencies of the other slices; None where there is none.
    host_steal_fraction, host_other_fraction
        Of the time of all our cores in the window: given by the hypervisor to other machines, and
        used by neither the engine nor the generator.
    main_core_steal_ns_per_request
        Time that the hypervisor took the main thread's core away, which the kernel of most virtual
        machines counts as CPU time of the thread that was running; its resolution is 10 ms.
    flags
        Why to be careful: `generator` (it was busier than the engine's busiest thread and nearly
        saturated), `oversubscribed` (more threads than cores), `misses`, `errors`, `disturbed`
        (other work took more than a tenth of the main thread's time or, with I/O threads, a third
        of all our cores'), `moved` (the cores weren't as far apart as when the host was profiled),
        `slowed` (a core took longer than it can for what keeps it busy).
    core_to_core_ns
        Before and after the window, what a line took between the two CPUs that a profile of the
        host looks at: hypervisors move virtual CPUs between cores that share a cache and cores that
        don't.
    core_answer_ns
        Before and after the window, what a GET in its caches took the slowest core: a virtual CPU
        may share its physical core with another machine's.
    """

    started_s: float
    requests: int = Field(ge=1)
    duration_s: float = Field(gt=0)
    throughput_rps: float = Field(gt=0)
    mean_ms: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    histogram: dict[str, Any] | None = None
    errors: int = 0
    misses: int = 0
    main_thread_cpu_ns_per_request: float = Field(gt=0)
    io_thread_cpu_ns_per_request: list[float] = Field(default_factory=list)
    other_thread_cpu_ns_per_request: float = 0.0
    main_thread_utilisation: float
    main_thread_user_fraction: float | None = None
    main_thread_wait_ns_per_request: float = 0.0
    main_voluntary_switches_per_request: float
    main_involuntary_switches_per_request: float
    event_loops_per_request: float | None = None
    reads_per_request: float | None = None
    writes_per_request: float | None = None
    io_threads_active: int | None = None
    main_thread_active_time_ns_per_request: float | None = None
    io_threads_active_time_ns_per_request: list[float] | None = None
    main_thread_waiting_share: float | None = None
    io_threads_waiting_shares: list[float] | None = None
    io_threads_polling_shares: list[float] | None = None
    prefetch_batches_per_request: float | None = None
    prefetch_entries_per_request: float | None = None
    generator_cpu_ns_per_request: float
    generator_utilisation: float
    generator_loops_per_request: float | None = None
    generator_events_per_request: float | None = None
    generator_reads_per_request: float | None = None
    generator_sends_per_request: float | None = None
    generator_voluntary_switches_per_request: float | None = None
    received_bytes_per_request: float | None = None
    sent_bytes_per_request: float | None = None
    latest_start_us: float = 0.0
    stalled_share: float | None = None
    quiet_p50_ms: float | None = None
    quiet_p90_ms: float | None = None
    quiet_p99_ms: float | None = None
    used_memory_bytes: int | None = None
    host_steal_fraction: float | None = None
    host_other_fraction: float | None = None
    main_core_steal_ns_per_request: float | None = None
    core_to_core_ns: tuple[float, float] | None = None
    core_answer_ns: tuple[float, float] | None = None
    flags: list[str] = Field(default_factory=list)

    @property
    def quiet(self) -> bool:
        """Whether neither other work, a move of the cores nor who shares them disturbed it."""
        return not {"disturbed", "moved", "slowed"} & set(self.flags)

    @property
    def server_cpu_ns_per_request(self) -> float:
        """CPU time of all threads that serve: main and I/O, not background ones."""
        return self.main_thread_cpu_ns_per_request + sum(self.io_thread_cpu_ns_per_request)

    @property
    def main_thread_computing_ns_per_request(self) -> float:
        """CPU time of the main thread without what it waited; with it where that isn't known.

        INFO's active time has the turns that found something.
        """
        if self.main_thread_active_time_ns_per_request is not None:
            active_ns = self.main_thread_active_time_ns_per_request
            return min(self.main_thread_cpu_ns_per_request, active_ns)
        return self.main_thread_cpu_ns_per_request * (1.0 - (self.main_thread_waiting_share or 0.0))

    @property
    def io_threads_computing_ns_per_request(self) -> float:
        """The same of all I/O threads together, without their polls where these are known."""
        cpu_ns = self.io_thread_cpu_ns_per_request
        none = [0.0] * len(cpu_ns)
        left_out = (self.io_threads_waiting_shares or none, self.io_threads_polling_shares or none)
        return sum(
            ns * max(0.0, 1.0 - waiting - polling)
            for ns, waiting, polling in zip(cpu_ns, *left_out, strict=True)
        )

    @property
    def waiting_ns_per_request(self) -> float:
        """CPU time of main and I/O threads in which they waited."""
        computing_ns = self.main_thread_computing_ns_per_request
        computing_ns += self.io_threads_computing_ns_per_request
        return self.server_cpu_ns_per_request - computing_ns


class ObservedPoint(_Record):
    """A point with every repetition, and the file with INFO after its last one."""

    given: Conditions
    repetitions: list[Repetition] = Field(min_length=1)
    info: str | None = None

    def quiet_repetitions(self) -> list[Repetition]:
        """Those that nothing disturbed, or all if something disturbed every one."""
        quiet = [r for r in self.repetitions if r.quiet]
        return quiet or list(self.repetitions)

    def ordinary(self, name: str) -> float:
        """A number of the repetition with the median server CPU time per request.

        It is that of a window that somebody else will measure. All numbers come from one
        repetition, or are the means of the middle two, so that counts and times belong together.
        nan where such a repetition doesn't have the number.
        """
        ordered = sorted(self.quiet_repetitions(), key=lambda r: r.server_cpu_ns_per_request)
        middle = {(len(ordered) - 1) // 2, len(ordered) // 2}
        values = [getattr(ordered[index], name) for index in middle]
        return float("nan") if None in values else statistics.fmean(values)

    @property
    def undisturbed(self) -> float:
        """CPU time per request of the least disturbed repetition, over that of an ordinary one."""
        least = min(r.server_cpu_ns_per_request for r in self.quiet_repetitions())
        return least / self.ordinary("server_cpu_ns_per_request")

    def median(self, name: str) -> float:
        """Median over the quiet repetitions of a number of `Repetition`; nan where none has it."""
        values = [getattr(repetition, name) for repetition in self.quiet_repetitions()]
        known = [float(value) for value in values if value is not None]
        return statistics.median(known) if known else float("nan")

    def spread(self, name: str) -> float:
        """(largest - smallest) / median over all repetitions; nan where one lacks the number."""
        values = [getattr(repetition, name) for repetition in self.repetitions]
        if any(value is None for value in values):
            return float("nan")
        middle = statistics.median(values)
        return (max(values) - min(values)) / middle if middle else float("nan")


# --- points that profilers look at ---------------------------------------------------------------

# The points that profilers look at.
#
# One coordinate changes at a time, so that what is done per request, per read, per event loop and
# per byte can be told apart.


_BASE = [
    Conditions(command=command, pipeline=pipeline, keys=1_000, value_bytes=value_bytes)
    for value_bytes in (16, 512)
    for command in ("get", "set")
    for pipeline in (1, 16)
]

# With I/O threads there is handing over besides.
CLOCK_POINTS = [*_BASE, Conditions(command="get", keys=1_000, io_threads=2)]

# One client: every event loop has one read.
CALLGRIND_POINTS = [*_BASE, Conditions(command="get", keys=1_000, clients=1)]

# More data than second-level caches hold, to see misses.
CACHE_POINTS = [
    Conditions(command=command, pipeline=16, keys=100_000, value_bytes=512)
    for command in ("get", "set")
]

COUNTER_POINTS = [*_BASE, *CACHE_POINTS]
