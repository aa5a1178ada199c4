"""The load generator: clients that drive an engine with GET and SET and count what comes back.

Closed loop: every connection sends a batch of `pipeline` requests, waits for all replies, thinks,
and sends again. Open loop: batches are due at Poisson times whatever the engine does, and latency
counts from the time a batch was due.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forecache.sim.errors import EngineError
from forecache.sim.histogram import LatencyHistogram
from forecache.sim.rings import new_ring

from . import loadgen_wire as wire
from .loadspec import LoadSpec, encode_templates, load_settings
from .proc import ThreadUsage, thread_usage
from .resp import Address, connect_socket
from .started import Started

# One recv may return this much: large enough that a pipeline of small replies is one call.
RECEIVE_BYTES = 64 * 1024
_MOST_EVENTS = 512
_JOIN_TIMEOUT_S = 5.0

Notice = Callable[[str], None]


@dataclass(frozen=True)
class LoadSnapshot:
    """Totals since the load started, at one moment.

    Attributes
    ----------
    time_ns
        CLOCK_MONOTONIC.
    counters
        Sum over the threads, indexed by the names in `loadgen_wire`.
    usage
        CPU time and switches of each generator thread.
    """

    time_ns: int
    counters: np.ndarray
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
        self._control = np.array([wire.WARM_UP], dtype=np.int64)
        self._sockets: list[Any] = []
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        self._workers = [
            _Worker(spec, number, requests, sequential, longest_s) for number in range(spec.threads)
        ]

    def start(self) -> None:
        """Connect every client and set the threads going."""
        for worker in self._workers:
            for row in worker.states:
                sock = connect_socket(self.address)
                self._sockets.append(sock)
                sock.setblocking(False)
                row[wire.FD] = sock.fileno()
        for worker in self._workers:
            thread = threading.Thread(target=self._run, args=(worker,), daemon=True)
            self._threads.append(thread)
            thread.start()
        for worker in self._workers:
            worker.started.wait(_JOIN_TIMEOUT_S)

    def measure(self) -> None:
        """Begin to record latencies."""
        self._control[0] = wire.MEASURE

    def snapshot(self) -> LoadSnapshot:
        """Totals now. Raises `EngineError` when a connection broke."""
        self.check()
        usage = tuple(thread_usage(os.getpid(), worker.tid) for worker in self._workers)
        return LoadSnapshot(time.monotonic_ns(), self.counters(), usage)

    def counters(self) -> np.ndarray:
        """Totals over the threads, indexed by the names in `loadgen_wire`."""
        total = np.sum([worker.counters for worker in self._workers], axis=0)
        total[wire.LATE_NS] = max(worker.counters[wire.LATE_NS] for worker in self._workers)
        return np.asarray(total)

    def check(self) -> None:
        """Raise `EngineError` when a generator thread failed."""
        if self._failures:
            raise self._failures[0]
        reasons = {
            wire.CLOSED: "the engine closed a connection",
            wire.PROTOCOL: "the engine sent something that is no reply to GET or SET",
            wire.TIMED_OUT: "replies took too long",
            wire.SYSTEM: "the system refused an epoll call",
        }
        for worker in self._workers:
            status = int(worker.counters[wire.STATUS])
            if status in reasons:
                raise EngineError(f"load on {self.address}: {reasons[status]}.")

    def join(self) -> None:
        """Wait until a load with a number of requests is done."""
        for thread in self._threads:
            while thread.is_alive():  # short waits, so that Ctrl-C gets through
                thread.join(0.1)
        self.check()

    def stop(self) -> None:
        """Let replies on their way arrive, end the threads, close the connections."""
        self._control[0] = wire.STOP
        try:
            for thread in self._threads:
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
        delta = after.counters - before.counters
        requests = int(delta[wire.REQUESTS])
        each = 1.0 / max(requests, 1)
        used = [b.since(a) for a, b in zip(before.usage, after.usage, strict=True)]
        cpu_ns = sum(usage.cpu_ns for usage in used)
        return LoadResult(
            requests=requests,
            duration_s=duration_s,
            throughput_rps=requests / duration_s,
            errors=int(delta[wire.ERRORS]),
            misses=int(delta[wire.MISSES]),
            histogram=self._histogram(),
            generator_cpu_ns_per_request=cpu_ns * each,
            generator_loops_per_request=float(delta[wire.LOOPS]) * each,
            generator_events_per_request=float(delta[wire.EVENTS]) * each,
            generator_reads_per_request=float(delta[wire.RECVS]) * each,
            generator_sends_per_request=float(delta[wire.SENDS]) * each,
            generator_voluntary_switches_per_request=each
            * sum(usage.voluntary_switches for usage in used),
            generator_utilisation=cpu_ns / 1e9 / duration_s / len(used),
            received_bytes_per_request=float(delta[wire.RECEIVED_BYTES]) * each,
            sent_bytes_per_request=float(delta[wire.SENT_BYTES]) * each,
            latest_start_us=float(after.counters[wire.LATE_NS]) / 1e3,
        )

    def _histogram(self) -> LatencyHistogram:
        merged = LatencyHistogram()
        for worker in self._workers:
            merged = merged.merge(LatencyHistogram(worker.histogram))
        return merged

    def _run(self, worker: "_Worker") -> None:
        try:
            worker.tid = threading.get_native_id()
            if self._cores is not None:
                os.sched_setaffinity(0, self._cores)
            from .loadgen_kernel import drive  # compiled on first use, then read from a cache

            worker.started.set()
            drive(*worker.arguments(self._control))
        except BaseException as error:
            self._failures.append(error)
        finally:
            worker.started.set()


class _Worker:
    """The arrays of one generator thread."""

    def __init__(
        self,
        spec: LoadSpec,
        number: int,
        requests: int | None,
        sequential: bool,
        longest_s: float,
    ) -> None:
        clients = spec.clients // spec.threads + (number < spec.clients % spec.threads)
        self.tid = 0
        self.started = threading.Event()
        self.text, self.templates = encode_templates(spec)
        self.states = np.zeros((clients, wire.STATE), dtype=np.int64)
        self.counters = np.zeros(wire.COUNTERS, dtype=np.int64)
        self.histogram = LatencyHistogram().counts
        share = 2**40 if requests is None else -(-requests // spec.threads)
        first = number * share
        last = first + share if requests is None else min(first + share, requests)
        self.settings = load_settings(spec, number, clients, sequential, (first, last), longest_s)
        self.reals = np.zeros(wire.REALS, dtype=np.float64)
        self.reals[wire.GET_FRACTION] = spec.get_fraction
        # Batches per ns that are due on this thread's share of the connections.
        rate = (spec.rate_rps or 0.0) * clients / spec.clients
        self.reals[wire.RATE_PER_NS] = rate / spec.pipeline / 1e9
        if spec.popularity.kind == "zipf":
            self.reals[wire.ZIPF_EXPONENT] = spec.popularity.exponent
        self.reals[wire.HOT_SHARE] = spec.popularity.hot_requests_fraction
        # Room for a batch of the longest command; in a run of one command, filled once for all.
        row = int(self.settings[wire.UNIFORM_TEMPLATE])
        if row >= 0:
            start, length = self.templates[row, wire.T_OFFSET], self.templates[row, wire.T_LENGTH]
            self.out = np.tile(self.text[start : start + length], spec.pipeline)
        else:
            longest = int(self.templates[:, wire.T_LENGTH].max())
            self.out = np.zeros(spec.pipeline * longest, dtype=np.uint8)

    def arguments(self, control: np.ndarray) -> Sequence[Any]:
        """What `drive` takes."""
        from .loadgen_kernel import EVENT_WORDS

        load = (self.settings, self.reals, self.templates, self.text, self.out)
        return (
            load,
            control,
            self.counters,
            self.histogram,
            self.states,
            np.zeros(RECEIVE_BYTES, dtype=np.uint8),
            np.zeros(_MOST_EVENTS * EVENT_WORDS, dtype=np.int32),
            np.zeros(EVENT_WORDS, dtype=np.int32),
            new_ring(len(self.states)),
        )


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


def compile_load_generator(notice: Notice | None = None) -> None:
    """Compile the kernel now, or read it from the cache, so that no measurement waits for it."""
    from .loadgen_kernel import drive

    if drive.signatures:
        return
    if notice is not None:
        notice("preparing the load generator (compiled once, then cached)")
    worker = _Worker(LoadSpec(keys=1, clients=1), 0, 0, False, 1.0)
    # A socket number that can't be: the loop ends at its first call, after compilation.
    worker.states[0, wire.FD] = -1
    drive(*worker.arguments(np.array([wire.STOP], dtype=np.int64)))
