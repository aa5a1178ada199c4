"""The load generator: clients that drive an engine with GET and SET and count what comes back.

Closed loop: every connection sends a batch of `pipeline` requests, waits for all replies, thinks,
and sends again. Open loop: batches are due at Poisson times whatever the engine does, and latency
counts from the time a batch was due.
"""

import os
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from forecache.sim.errors import EngineError
from forecache.sim.histogram import LatencyHistogram

from .connection import Address, connect_socket
from .load_memory import CONSTANTS, ThreadLoad, new_control
from .loadspec import LoadSpec
from .proc import ThreadUsage, thread_usage
from .started import Started

_JOIN_TIMEOUT_S = 5.0
_FAILURES = {
    CONSTANTS["CLOSED"]: "the engine closed a connection",
    CONSTANTS["PROTOCOL"]: "the engine sent something that is no reply to GET or SET",
    CONSTANTS["TIMED_OUT"]: "replies took too long",
    CONSTANTS["SYSTEM"]: "the system refused an epoll call",
}


@dataclass(frozen=True)
class LoadSnapshot:
    """Totals since the load started, at one moment.

    Attributes
    ----------
    time_ns
        CLOCK_MONOTONIC.
    counters
        As in `LoadGenerator.counters`.
    usage
        CPU time and switches of each generator thread.
    """

    time_ns: int
    counters: dict[str, int]
    usage: tuple[ThreadUsage, ...]


@dataclass(frozen=True, kw_only=True)
class LoadResult:
    """What a measured window showed, from the clients' side.

    Times are in the unit of the name; `per_request` figures are of the generator. A latency ends
    when the recv that held the end of its reply returned.
    """

    requests: int
    duration_s: float
    throughput_rps: float
    errors: int
    misses: int
    histogram: LatencyHistogram
    generator_cpu_ns_per_request: float
    generator_loops_per_request: float
    generator_events_per_request: float
    generator_reads_per_request: float
    generator_sends_per_request: float
    generator_voluntary_switches_per_request: float
    generator_utilisation: float
    received_bytes_per_request: float
    sent_bytes_per_request: float
    latest_start_us: float

    def fields(self) -> dict[str, Any]:
        """The fields of a `Repetition` that the clients' side knows."""
        fields = {name: value for name, value in vars(self).items() if name != "histogram"}
        quantiles = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}
        return (
            fields
            | {"histogram": self.histogram.to_dict(), "mean_ms": self.mean_ms}
            | {name: self.quantile_ms(q) for name, q in quantiles.items()}
        )

    @property
    def mean_ms(self) -> float:
        """Mean latency, exact."""
        return self.histogram.mean / 1e9

    def quantile_ms(self, q: float) -> float:
        """Latency quantile from the histogram."""
        return self.histogram.quantile(q) / 1e9


class LoadGenerator(Started):
    """A load that runs in threads of its own while the caller measures. Context manager.

    Parameters
    ----------
    spec
        What to send.
    address
        Where to.
    cores
        Cores the generator threads may use; None leaves them where we are.
    requests
        Stop after this many; None runs until stopped.
    sequential
        Request number i names key i (loading) instead of a random key.
    longest_s
        Whatever happens, the threads end after this time.
    """

    def __init__(
        self,
        spec: LoadSpec,
        address: Address,
        *,
        cores: Collection[int] | None = None,
        requests: int | None = None,
        sequential: bool = False,
        longest_s: float = 60.0,
    ) -> None:
        self.spec = spec
        self.address = address
        self._cores = cores
        self._control = new_control()
        self._sockets: list[Any] = []
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        self._workers = [
            _Worker(
                ThreadLoad(
                    spec,
                    number,
                    self._control,
                    protocol=address.protocol,
                    requests=requests,
                    sequential=sequential,
                    longest_s=longest_s,
                )
            )
            for number in range(spec.threads)
        ]

    def start(self) -> None:
        """Connect every client and set the threads going."""
        for worker in self._workers:
            for connection in worker.load.connections:
                sock = connect_socket(self.address)
                self._sockets.append(sock)
                sock.setblocking(False)
                connection["socket"] = sock.fileno()
        for worker in self._workers:
            thread = threading.Thread(target=self._run, args=(worker,), daemon=True)
            self._threads.append(thread)
            thread.start()
        for worker in self._workers:
            worker.started.wait(_JOIN_TIMEOUT_S)

    def measure(self) -> None:
        """Begin to record latencies."""
        self._control[0] = CONSTANTS["MEASURE"]

    def snapshot(self) -> LoadSnapshot:
        """Totals now. Raises `EngineError` when a connection broke."""
        self.check()
        usage = tuple(thread_usage(os.getpid(), worker.tid) for worker in self._workers)
        return LoadSnapshot(time.monotonic_ns(), self.counters(), usage)

    def counters(self) -> dict[str, int]:
        """Sums over the threads by the names of `struct counters`; `late_ns` is the largest."""
        each = [worker.load.counters() for worker in self._workers]
        totals = {name: sum(counters[name] for counters in each) for name in each[0]}
        return totals | {"late_ns": max(counters["late_ns"] for counters in each)}

    def check(self) -> None:
        """Raise `EngineError` when a generator thread failed."""
        if self._failures:
            raise self._failures[0]
        for worker in self._workers:
            if failure := _FAILURES.get(worker.load.status):
                raise EngineError(f"load on {self.address}: {failure}.")

    def join(self) -> None:
        """Wait until a load with a number of requests is done."""
        for thread in self._threads:
            while thread.is_alive():  # short waits, so that Ctrl-C gets through
                thread.join(0.1)
        self.check()

    def stop(self) -> None:
        """Let replies on their way arrive, end the threads, close the connections."""
        self._control[0] = CONSTANTS["STOP"]
        try:
            for worker, thread in zip(self._workers, self._threads, strict=False):
                # Ctrl-C may have come while it was being started, and until it runs there is
                # nothing to join.
                if worker.started.wait(_JOIN_TIMEOUT_S):
                    thread.join(_JOIN_TIMEOUT_S)
        finally:
            # A socket must not be closed under a running thread: its number may be used again.
            if not any(thread.is_alive() for thread in self._threads):
                for sock in self._sockets:
                    sock.close()
                self._sockets.clear()

    def latencies(self) -> LatencyHistogram:
        """A copy of what was recorded since `measure`."""
        return self._histogram()

    def result(self, before: LoadSnapshot, after: LoadSnapshot) -> LoadResult:
        """The window between two snapshots, with the latencies recorded since `measure`."""
        duration_s = (after.time_ns - before.time_ns) / 1e9
        delta = {name: count - before.counters[name] for name, count in after.counters.items()}
        requests = delta["requests"]
        each = 1.0 / max(requests, 1)
        used = [b.since(a) for a, b in zip(before.usage, after.usage, strict=True)]
        cpu_ns = sum(usage.cpu_ns for usage in used)
        return LoadResult(
            requests=requests,
            duration_s=duration_s,
            throughput_rps=requests / duration_s,
            errors=delta["errors"],
            misses=delta["misses"],
            histogram=self._histogram(),
            generator_cpu_ns_per_request=cpu_ns * each,
            generator_loops_per_request=delta["loops"] * each,
            generator_events_per_request=delta["events"] * each,
            generator_reads_per_request=delta["recvs"] * each,
            generator_sends_per_request=delta["sends"] * each,
            generator_voluntary_switches_per_request=each
            * sum(usage.voluntary_switches for usage in used),
            generator_utilisation=cpu_ns / 1e9 / duration_s / len(used),
            received_bytes_per_request=delta["received_bytes"] * each,
            sent_bytes_per_request=delta["sent_bytes"] * each,
            latest_start_us=after.counters["late_ns"] / 1e3,
        )

    def _histogram(self) -> LatencyHistogram:
        merged = LatencyHistogram()
        for worker in self._workers:
            merged = merged.merge(worker.load.histogram)
        return merged

    def _run(self, worker: "_Worker") -> None:
        try:
            worker.tid = threading.get_native_id()
            if self._cores is not None:
                os.sched_setaffinity(0, self._cores)
            worker.started.set()
            worker.load.drive()
        except BaseException as error:
            self._failures.append(error)
        finally:
            worker.started.set()


class _Worker:
    """One generator thread and what it works on."""

    def __init__(self, load: ThreadLoad) -> None:
        self.load = load
        self.tid = 0
        self.started = threading.Event()
