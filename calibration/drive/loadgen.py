"""The load generator: clients that drive an engine with GET and SET and count what comes back.

Closed loop: every connection sends a batch of `pipeline` requests, waits for all replies, thinks,
and sends again. Open loop: batches are due at Poisson times whatever the engine does, and latency
counts from the time a batch was due.
"""

import ctypes
import os
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from forecache.sim.errors import EngineError, InputError
from forecache.sim.histogram import LatencyHistogram
from forecache.sim.native import Layout, library, pointer

from ..bundle.points import Conditions, Popularity
from .connection import RESP, Address, ControlClient, Protocol, Started, connect_socket
from .proc import ThreadUsage, thread_usage

# --- what is sent ---------------------------------------------------------------------------------


_KEY_DIGITS = 12
_LARGEST_BATCH_BYTES = 256 * 1024 * 1024


def check_load(given: Conditions, *, first_key: int = 0) -> None:
    """Refuse a load that can't be sent, with an `InputError`."""
    largest = min(10 ** key_digits(given) - first_key, 2**32 - 1)
    limits: list[tuple[str, float, bool, str]] = [
        ("key_bytes", given.key_bytes, 1 <= given.key_bytes <= 65536, "1 to 65536"),
        ("keys", given.keys, 1 <= given.keys <= largest, f"1 to {largest} at this key_bytes"),
        ("get_fraction", given.get_fraction, 0 <= given.get_fraction <= 1, "0 to 1"),
        ("pipeline", given.pipeline, 1 <= given.pipeline <= 100_000, "1 to 100000"),
        ("clients", given.clients, 1 <= given.clients <= 10_000, "1 to 10000"),
        ("think_us", given.think_us, 0 <= given.think_us <= 1e8, "0 to 1e8"),
        (
            "generator_threads",
            given.generator_threads,
            1 <= given.generator_threads <= given.clients,
            "1 to clients",
        ),
        ("rate_rps", given.rate_rps or 1.0, (given.rate_rps or 1.0) > 0, "above 0"),
    ]
    for size, weight in given.sizes or ((-1, 1.0),):
        limits.append(("value_sizes", size, 0 <= size <= 64 * 2**20, "0 to 64 MiB"))
        limits.append(("value_sizes weight", weight, weight > 0, "above 0"))
    hot = given.popularity
    if hot.kind not in ("uniform", "zipf", "hot_set"):
        raise InputError(
            f"load: popularity: found {hot.kind!r}; valid is uniform, zipf or hot_set."
        )
    if hot.kind == "zipf":
        limits.append(("exponent", hot.exponent, 0 < hot.exponent <= 10, "above 0, to 10"))
    if hot.kind == "hot_set":
        for name in ("hot_keys_fraction", "hot_requests_fraction"):
            value = getattr(hot, name)
            limits.append((name, value, 0 < value < 1, "between 0 and 1"))
    for name, value, good, valid in limits:
        if not good:
            raise InputError(f"load: {name}: found {value}; valid is {valid}.")
    largest_batch = given.pipeline * (max(size for size, _ in given.sizes) + 64)
    if largest_batch > _LARGEST_BATCH_BYTES:
        raise InputError(
            f"load: pipeline of {given.pipeline} with values of up to "
            f"{max(size for size, _ in given.sizes)} bytes: found {largest_batch} bytes "
            f"in one batch; valid is at most {_LARGEST_BATCH_BYTES}."
        )


def key_digits(given: Conditions) -> int:
    """How many digits at the end of a key are its number."""
    return min(given.key_bytes, _KEY_DIGITS)


def scatter_stride(keys: int) -> int:
    """A multiplier coprime to the number of keys, near its golden section.

    rank * stride modulo keys then visits every key once and puts neighbours in rank far apart.
    """
    stride = max(int(keys * 0.6180339887), 1)
    while gcd(stride, keys) != 1:
        stride += 1
    return stride


def encode_commands(
    given: Conditions, protocol: Protocol = RESP
) -> tuple[bytes, list[tuple[int, int, int, int]]]:
    """The commands with zeros for the key's digits, end to end, and where each lies.

    Returns
    -------
    text : bytes
    commands : list of tuple
        The GET first, then a SET for each value size: the fields of `struct command` in
        `native/loadgen.h`.
    """
    digits = key_digits(given)
    prefix = (b"key:" + b"k" * given.key_bytes)[: given.key_bytes - digits]
    parts = [protocol.get(prefix, given.key_bytes)]
    # Letters, so that no engine stores the value as an integer.
    parts += [protocol.set_value(prefix, given.key_bytes, b"v" * size) for size, _ in given.sizes]
    weights = [weight for _, weight in given.sizes]
    shares = [0.0, *(sum(weights[: i + 1]) / sum(weights) for i in range(len(weights)))]
    commands = []
    text = b""
    for (start, end), share in zip(parts, shares, strict=True):
        command = start + b"0" * digits + end
        commands.append((len(text), len(command), len(start), round(share * 2**32)))
        text += command
    return text, commands


# --- the memory of a thread -----------------------------------------------------------------------

# The memory of a thread of the load generator, as `native/loadgen.h` declares it, and its loop.
#
# Python allocates it, fills in what to send, and reads the counters while the thread runs; the
# fields of a record are those of the C structure, by the same names.


SOURCES = Path(__file__).parent / "native"
_LAYOUT = Layout(SOURCES / "loadgen.h")
RECORDS = _LAYOUT.dtypes
CONSTANTS = _LAYOUT.constants

RECEIVE_BYTES = CONSTANTS["RECEIVE_BYTES"]
"""What one recv may return."""

_UNLIMITED = 2**40
"""Numbers of requests between the first ones of two threads."""

_SCANS = {"resp": "scan_replies", "memcached": "scan_text_replies"}
"""What counts the replies of a protocol, by the protocol's name."""

_words, _bytes = ctypes.c_int64, ctypes.c_void_p


@cache
def _functions() -> ctypes.CDLL:
    functions = library(SOURCES)
    functions.drive.argtypes = [_bytes]
    functions.encode_batch.argtypes = [_bytes, _words, _words]
    for name in _SCANS.values():
        getattr(functions, name).argtypes = [_bytes, _words, _bytes, _bytes]
    functions.zipf_rank.argtypes = [_words, ctypes.c_double, _words, _words, _words]
    for name in ("drive", "encode_batch", *_SCANS.values(), "zipf_rank"):
        getattr(functions, name).restype = _words
    return functions


def new_control() -> np.ndarray:
    """A control word for any number of threads: WARM_UP, MEASURE or STOP of `CONSTANTS`."""
    return np.array([CONSTANTS["WARM_UP"]], dtype=np.int64)


class ThreadLoad:
    """What one thread of the load generator works on.

    Parameters
    ----------
    given
        What all threads send; see `check_load`.
    number
        Of the thread.
    control
        From `new_control`.
    protocol
        What the engine speaks.
    seed
        Of all draws.
    first_key
        Number of the first key, whose text is that number in a fixed width.
    requests
        How many all threads send; None has no end.
    sequential
        Request number i names key i (loading) instead of a random key.
    longest_s
        Whatever happens, the loop ends after this time.

    Attributes
    ----------
    connections
        One record a connection, with its file descriptor in `socket`.
    histogram
        Latencies since `control` has been MEASURE.
    tid, started
        Of the thread that runs it: its kernel id, and whether it has begun or failed to.
    """

    def __init__(
        self,
        given: Conditions,
        number: int,
        control: np.ndarray,
        *,
        protocol: Protocol = RESP,
        seed: int = 1,
        first_key: int = 0,
        requests: int | None = None,
        sequential: bool = False,
        longest_s: float = 60.0,
    ) -> None:
        self._functions = _functions()
        self.tid, self.started = 0, threading.Event()
        clients = given.clients // given.generator_threads + (
            number < given.clients % given.generator_threads
        )
        text, commands = encode_commands(given, protocol)
        only = 0 if given.get_fraction == 1 else -1
        if given.get_fraction == 0 and len(given.sizes) == 1:
            only = 1
        self.histogram = LatencyHistogram()
        self.connections = np.zeros(clients, dtype=RECORDS["connection"])
        self._control = control
        self._text = np.frombuffer(text, dtype=np.uint8)
        self._commands = np.array(commands, dtype=RECORDS["command"])
        self._batch = _room_for_a_batch(given.pipeline, self._text, self._commands, only)
        self._memory = np.zeros(1, dtype=RECORDS["load"])
        share = _UNLIMITED if requests is None else -(-requests // given.generator_threads)
        first = number * share
        last = first + share
        hot_keys = 0
        if given.popularity.kind == "hot_set":
            hot_keys = max(1, round(given.popularity.hot_keys_fraction * given.keys))
            hot_keys = min(hot_keys, max(given.keys - 1, 1))
        fields = {
            "protocol": CONSTANTS[protocol.name.upper()],
            "clients": clients,
            "pipeline": given.pipeline,
            "keys": given.keys,
            "sequential": sequential,
            "first": first,
            "limit": last if requests is None else min(last, requests),
            "seed": seed,
            "stream": number,
            "open_loop": given.rate_rps is not None,
            "think_ns": round(given.think_us * 1000),
            "hot_keys": hot_keys,
            "key_digits": key_digits(given),
            "first_key": first_key,
            "n_commands": len(commands),
            "only_command": only,
            "deadline_ns": time.monotonic_ns() + round(longest_s * 1e9),
            "stride": scatter_stride(given.keys),
            "get_fraction": given.get_fraction,
            # Of this thread's share of the connections.
            "batches_per_ns": (given.rate_rps or 0.0)
            * clients
            / given.clients
            / given.pipeline
            / 1e9,
            "zipf_exponent": given.popularity.exponent if given.popularity.kind == "zipf" else 0.0,
            "hot_share": given.popularity.hot_requests_fraction,
            "commands": pointer(self._commands),
            "text": pointer(self._text),
            "batch": pointer(self._batch),
            "connections": pointer(self.connections),
            "histogram": pointer(self.histogram.counts),
            "control": pointer(control),
        }
        for name, value in fields.items():
            self._memory[name] = value

    def drive(self) -> None:
        """Run until told to stop, all requests are done, or the deadline; see `status`."""
        self._functions.drive(pointer(self._memory))

    @property
    def status(self) -> int:
        """RUNNING, FINISHED, CLOSED, PROTOCOL, TIMED_OUT or SYSTEM of `CONSTANTS`."""
        return int(self._memory["counters"]["status"][0])

    def counters(self) -> dict[str, int]:
        """What has been counted so far, by the names of `struct counters`."""
        return _counters(self._memory["counters"][0])

    def encoded(self, first: int, count: int) -> bytes:
        """What goes on the wire for a batch of at most `pipeline` requests, from number `first`."""
        length = self._functions.encode_batch(pointer(self._memory), first, count)
        return self._batch[:length].tobytes()


def scan_replies(
    pieces: Sequence[bytes], protocol: Protocol = RESP
) -> tuple[list[int], dict[str, int]]:
    """How many replies end in each piece of what a connection receives, and the counters.

    -1 stands for a piece that is no reply to GET or SET.
    """
    scan = np.zeros(1, dtype=RECORDS["scan"])
    counters = np.zeros(1, dtype=RECORDS["counters"])
    count = getattr(_functions(), _SCANS[protocol.name])
    done = [count(piece, len(piece), pointer(scan), pointer(counters)) for piece in pieces]
    return done, _counters(counters[0])


def zipf_rank(keys: int, exponent: float, *, seed: int, stream: int, number: int) -> int:
    """The rank, 0 to keys - 1, that a request of a thread draws by Zipf's law."""
    return int(_functions().zipf_rank(keys, exponent, seed, stream, number))


def _counters(record: Any) -> dict[str, int]:
    names = RECORDS["counters"].names or ()
    return dict(zip(names, record.tolist(), strict=True))


def _room_for_a_batch(
    pipeline: int, text: np.ndarray, commands: np.ndarray, only: int
) -> np.ndarray:
    """Room for a batch of the longest command; in a run of one command, filled once for all."""
    if only >= 0:
        start = int(commands[only]["offset"])
        return np.tile(text[start : start + int(commands[only]["length"])], pipeline)
    return np.zeros(pipeline * int(commands["length"].max()), dtype=np.uint8)


# --- threads that send ----------------------------------------------------------------------------


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
    """What a window showed from the clients' side, by the names of `Repetition`.

    `per_request` figures are of the generator. A latency ends when the recv that held the end of
    its reply returned. What a benchmark tool doesn't report is None.
    """

    requests: int
    throughput_rps: float
    duration_s: float = 0.0
    errors: int = 0
    misses: int = 0
    mean_ms: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    histogram: LatencyHistogram | None = None
    generator_cpu_ns_per_request: float = 0.0
    generator_utilisation: float = 0.0
    generator_loops_per_request: float | None = None
    generator_events_per_request: float | None = None
    generator_reads_per_request: float | None = None
    generator_sends_per_request: float | None = None
    generator_voluntary_switches_per_request: float | None = None
    received_bytes_per_request: float | None = None
    sent_bytes_per_request: float | None = None
    latest_start_us: float = 0.0

    def fields(self) -> dict[str, Any]:
        """These fields of a `Repetition`."""
        histogram = None if self.histogram is None else self.histogram.to_dict()
        return vars(self) | {"histogram": histogram}


_QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}


class LoadGenerator(Started):
    """A load that runs in threads of its own while the caller measures. Context manager.

    Parameters
    ----------
    given
        What to send: see `check_load`. A rate makes an open loop.
    address
        Where to.
    seed, first_key
        As for `ThreadLoad`.
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
        given: Conditions,
        address: Address,
        *,
        seed: int = 1,
        first_key: int = 0,
        cores: Collection[int] | None = None,
        requests: int | None = None,
        sequential: bool = False,
        longest_s: float = 60.0,
    ) -> None:
        check_load(given, first_key=first_key)
        self.address = address
        self._cores = cores
        self._control = new_control()
        self._sockets: list[Any] = []
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        self._workers = [
            ThreadLoad(
                given,
                number,
                self._control,
                protocol=address.protocol,
                seed=seed,
                first_key=first_key,
                requests=requests,
                sequential=sequential,
                longest_s=longest_s,
            )
            for number in range(given.generator_threads)
        ]

    def start(self) -> None:
        """Connect every client and set the threads going."""
        for worker in self._workers:
            for connection in worker.connections:
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
        each = [worker.counters() for worker in self._workers]
        totals = {name: sum(counters[name] for counters in each) for name in each[0]}
        return totals | {"late_ns": max(counters["late_ns"] for counters in each)}

    def check(self) -> None:
        """Raise `EngineError` when a generator thread failed."""
        if self._failures:
            raise self._failures[0]
        for worker in self._workers:
            if failure := _FAILURES.get(worker.status):
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
        merged = LatencyHistogram()
        for worker in self._workers:
            merged = merged.merge(worker.histogram)
        return merged

    def result(self, before: LoadSnapshot, after: LoadSnapshot) -> LoadResult:
        """The window between two snapshots, with the latencies recorded since `measure`."""
        duration_s = (after.time_ns - before.time_ns) / 1e9
        delta = {name: count - before.counters[name] for name, count in after.counters.items()}
        requests = delta["requests"]
        each = 1.0 / max(requests, 1)
        used = [b.since(a) for a, b in zip(before.usage, after.usage, strict=True)]
        cpu_ns = sum(usage.cpu_ns for usage in used)
        histogram, latencies_ms = self.latencies(), dict[str, float]()
        if histogram.count:
            latencies_ms = {name: histogram.quantile(q) / 1e9 for name, q in _QUANTILES.items()}
            latencies_ms["mean_ms"] = histogram.mean / 1e9
        return LoadResult(
            requests=requests,
            duration_s=duration_s,
            throughput_rps=requests / duration_s,
            errors=delta["errors"],
            misses=delta["misses"],
            histogram=histogram,
            **latencies_ms,
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

    def _run(self, worker: ThreadLoad) -> None:
        try:
            worker.tid = threading.get_native_id()
            if self._cores is not None:
                os.sched_setaffinity(0, self._cores)
            worker.started.set()
            worker.drive()
        except BaseException as error:
            self._failures.append(error)
        finally:
            worker.started.set()


# --- a data set, loaded before anything is measured -----------------------------------------------


_CLIENTS = 4
_BATCH_BYTES = 64 * 1024
_LONGEST_PIPELINE = 128
_LONGEST_S = 300.0
# What one key costs beyond its bytes, at most: entry, object and string headers, bucket, and the
# roundings of the allocator (see the memory model in `forecache.models`).
_OVERHEAD_BYTES = 160


def memory_bytes(given: Conditions) -> int:
    """An upper estimate of the engine's memory for the data set, buffers included."""
    total = sum(weight for _, weight in given.sizes)
    value_bytes = sum(size * weight for size, weight in given.sizes) / total
    largest = max(size for size, _ in given.sizes)
    data = given.keys * (given.key_bytes + value_bytes * 1.25 + _OVERHEAD_BYTES)
    return round(data + given.clients * (given.pipeline * largest + 64 * 1024))


def preload(
    given: Conditions,
    address: Address,
    *,
    control: ControlClient,
    seed: int = 1,
    first_key: int = 0,
    cores: Collection[int] | None = None,
) -> None:
    """SET every key once, then GET as many at random, and see that all are there.

    The GETs do more than check: engines that grow their table step by step move a bucket with
    each command, and twice as many commands as keys leave nothing to move.

    Raises
    ------
    EngineError
        The engine refuses a SET, or keys are missing afterwards (`maxmemory` of Redis, `-m` of
        Memcached).
    """
    largest = max(size for size, _ in given.sizes)
    pipeline = max(1, min(_LONGEST_PIPELINE, _BATCH_BYTES // (largest + given.key_bytes + 32)))
    plain = {
        "pipeline": pipeline,
        "clients": min(_CLIENTS, given.keys),
        "rate_rps": None,
        "think_us": 0.0,
        "popularity": Popularity(),
        "generator_threads": 1,
    }
    for get_fraction in (0.0, 1.0):
        with LoadGenerator(
            given.model_copy(update={**plain, "get_fraction": get_fraction}),
            address,
            seed=seed,
            first_key=first_key,
            cores=cores,
            requests=given.keys,
            sequential=get_fraction == 0.0,
            longest_s=_LONGEST_S,
        ) as generator:
            generator.join()
            counters = generator.counters()
        errors, misses = counters["errors"], counters["misses"]
        if errors or misses:
            raise EngineError(
                f"loading {given.keys} keys into {address}: {errors} commands failed and "
                f"{misses} keys were missing afterwards."
            )
    found = control.keys_held()
    if found != given.keys:
        raise EngineError(f"loading {address}: the engine holds {found} keys, not {given.keys}.")
