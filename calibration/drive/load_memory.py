"""The memory of a thread of the load generator, as `native/loadgen.h` declares it, and its loop.

Python allocates it, fills in what to send, and reads the counters while the thread runs; the fields
of a record are those of the C structure, by the same names.
"""

import ctypes
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from forecache.sim.histogram import LatencyHistogram
from forecache.sim.native import Layout, library, pointer

from .loadspec import LoadSpec, encode_commands, key_digits, scatter_stride
from .protocols import RESP, Protocol

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
    spec
        What all threads send.
    number
        Of the thread.
    control
        From `new_control`.
    protocol
        What the engine speaks.
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
    """

    def __init__(
        self,
        spec: LoadSpec,
        number: int,
        control: np.ndarray,
        *,
        protocol: Protocol = RESP,
        requests: int | None = None,
        sequential: bool = False,
        longest_s: float = 60.0,
    ) -> None:
        self._functions = _functions()
        clients = spec.clients // spec.threads + (number < spec.clients % spec.threads)
        text, commands = encode_commands(spec, protocol)
        only = 0 if spec.get_fraction == 1 else 1 if _sends_one_set(spec) else -1
        self.histogram = LatencyHistogram()
        self.connections = np.zeros(clients, dtype=RECORDS["connection"])
        self._control = control
        self._text = np.frombuffer(text, dtype=np.uint8)
        self._commands = np.array(commands, dtype=RECORDS["command"])
        self._batch = _room_for_a_batch(spec.pipeline, self._text, self._commands, only)
        self._memory = np.zeros(1, dtype=RECORDS["load"])
        share = _UNLIMITED if requests is None else -(-requests // spec.threads)
        first = number * share
        last = first + share
        fields = {
            "protocol": CONSTANTS[protocol.name.upper()],
            "clients": clients,
            "pipeline": spec.pipeline,
            "keys": spec.keys,
            "sequential": sequential,
            "first": first,
            "limit": last if requests is None else min(last, requests),
            "seed": spec.seed,
            "stream": number,
            "open_loop": spec.rate_rps is not None,
            "think_ns": round(spec.think_us * 1000),
            "hot_keys": _hot_keys(spec),
            "key_digits": key_digits(spec),
            "first_key": spec.first_key,
            "n_commands": len(commands),
            "only_command": only,
            "deadline_ns": time.monotonic_ns() + round(longest_s * 1e9),
            "stride": scatter_stride(spec.keys),
            "get_fraction": spec.get_fraction,
            # Of this thread's share of the connections.
            "batches_per_ns": (spec.rate_rps or 0.0) * clients / spec.clients / spec.pipeline / 1e9,
            "zipf_exponent": spec.popularity.exponent if spec.popularity.kind == "zipf" else 0.0,
            "hot_share": spec.popularity.hot_requests_fraction,
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


def _sends_one_set(spec: LoadSpec) -> bool:
    return spec.get_fraction == 0 and len(spec.value_sizes) == 1


def _hot_keys(spec: LoadSpec) -> int:
    if spec.popularity.kind != "hot_set":
        return 0
    hot = round(spec.popularity.hot_keys_fraction * spec.keys)
    return min(max(hot, 1), max(spec.keys - 1, 1))


def _room_for_a_batch(
    pipeline: int, text: np.ndarray, commands: np.ndarray, only: int
) -> np.ndarray:
    """Room for a batch of the longest command; in a run of one command, filled once for all."""
    if only >= 0:
        start = int(commands[only]["offset"])
        return np.tile(text[start : start + int(commands[only]["length"])], pipeline)
    return np.zeros(pipeline * int(commands["length"].max()), dtype=np.uint8)
