"""Loads of a cache beside a database: reads that fill what they miss, and writes that expire.

One connection, pipelines of `AT_ONCE` commands at a steady rate. What was hit is counted by the
server; the driver only needs to know which keys to fill, and when keys expire.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Sequence

import numpy as np

from forecache.calibration.drive.connection import Address, connect_socket
from forecache.sim.errors import EngineError

AT_ONCE = 50
_LATE_S = 1.0
_SIZE = re.compile(rb"\$(-1|\d+)\r\n")


def key_name(number: int) -> bytes:
    """Of 16 bytes."""
    return b"key:%012d" % number


def zipf_shares(keys: int, exponent: float) -> np.ndarray:
    """Share of requests by rank."""
    weights = np.arange(1, keys + 1, dtype=float) ** -exponent
    return weights / weights.sum()


def hot_shares(keys: int, *, hot_keys: float, hot_requests: float) -> np.ndarray:
    """The same of a hot set."""
    hot = round(keys * hot_keys)
    shares = np.full(keys, (1.0 - hot_requests) / (keys - hot))
    shares[:hot] = hot_requests / hot
    return shares


class Driver:
    """A client, its keys, and when they expire.

    Parameters
    ----------
    shares
        Of requests, by key.
    value_bytes
        Of each key's value.
    ttl_s
        Ends between which times to live are drawn evenly, a write at a time; None for none.
    timed
        Share of the keys that get one.
    """

    def __init__(
        self,
        address: Address,
        *,
        shares: Sequence[float] | np.ndarray,
        value_bytes: Sequence[int] | np.ndarray,
        ttl_s: tuple[float, float] | None = None,
        timed: float = 1.0,
        seed: int = 1,
    ) -> None:
        self.keys = len(shares)
        self._socket: socket.socket = connect_socket(address, timeout_s=60.0)
        self._rng = np.random.default_rng(seed)
        self._up_to = np.cumsum(shares)
        self._up_to[-1] = 1.0
        sizes = np.asarray(value_bytes)
        self._value = {int(size): b"x" * int(size) for size in np.unique(sizes)}
        self._size = sizes.tolist()
        self._ttl_s = ttl_s
        self._timed = (self._rng.random(self.keys) < timed) if ttl_s else np.zeros(self.keys, bool)
        self.expires_s = np.zeros(self.keys)
        """On `time.time()`; 0 for a key that was not written yet."""

        self.refused = 0
        """SETs for which there was no room."""

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def read_through(self, *, rate_rps: float, seconds: float) -> float:
        """GETs for a while, each miss followed by a SET; returns the rate that was kept."""
        return self._steadily(self._read_batch, rate_rps=rate_rps, seconds=seconds)

    def write(self, *, rate_rps: float, seconds: float) -> float:
        """SETs for a while; returns the rate that was kept."""
        return self._steadily(self.write_keys, rate_rps=rate_rps, seconds=seconds)

    def _steadily(
        self, batch: Callable[[Sequence[int]], None], *, rate_rps: float, seconds: float
    ) -> float:
        began = due = time.monotonic()
        sent = 0
        while due - began < seconds and time.monotonic() - began < seconds:
            drawn = self._draw(200 * AT_ONCE)
            for first in range(0, len(drawn), AT_ONCE):
                batch(drawn[first : first + AT_ONCE])
                sent += AT_ONCE
                due += AT_ONCE / rate_rps
                now = time.monotonic()
                if due > now:
                    time.sleep(due - now)
                elif now - due > _LATE_S:
                    due = now  # what was missed is not made up for
                if due - began >= seconds or now - began >= seconds:
                    break
        return sent / (time.monotonic() - began)

    def _draw(self, count: int) -> list[int]:
        found: list[int] = np.searchsorted(self._up_to, self._rng.random(count)).tolist()
        return found

    def _read_batch(self, numbers: Sequence[int]) -> None:
        get = b"*2\r\n$3\r\nGET\r\n$16\r\n%b\r\n"
        self._socket.sendall(b"".join([get % key_name(number) for number in numbers]))
        sizes: list[bytes] = []
        data = b""
        while True:
            data += self._receive()
            sizes = _SIZE.findall(data)
            if len(sizes) == len(numbers):
                last = sizes[-1]
                whole = data.rindex(b"$") + len(last) + 3 + (int(last) + 2 if last != b"-1" else 0)
                if len(data) >= whole:
                    break
        missed = [n for n, size in zip(numbers, sizes, strict=True) if size == b"-1"]
        if missed:
            self.write_keys(list(dict.fromkeys(missed)))

    def write_keys(self, numbers: Sequence[int], *, expire_at_s: float | None = None) -> None:
        """SET these, all of which end at one moment if one is given.

        Raises
        ------
        EngineError
            One was answered neither OK nor that memory is full.
        """
        now = time.time()
        parts = []
        draws = self._rng.random(len(numbers)).tolist()
        for number, unit in zip(numbers, draws, strict=True):
            value = self._value[self._size[number]]
            said = b"$3\r\nSET\r\n$16\r\n%b\r\n$%d\r\n%b\r\n" % (
                key_name(number),
                len(value),
                value,
            )
            left_s = None
            if expire_at_s is not None:
                left_s = expire_at_s - now
            elif self._ttl_s is not None and self._timed[number]:
                left_s = self._ttl_s[0] + unit * (self._ttl_s[1] - self._ttl_s[0])
            if left_s is None:
                parts.append(b"*3\r\n" + said)
            else:
                left_ms = max(1, round(1e3 * left_s))
                self.expires_s[number] = now + left_ms / 1e3
                digits = b"%d" % left_ms
                parts.append(b"*5\r\n%b$2\r\nPX\r\n$%d\r\n%b\r\n" % (said, len(digits), digits))
        self._socket.sendall(b"".join(parts))
        left = len(numbers)
        tail = b""
        while left:
            tail += self._receive()
            *lines, tail = tail.split(b"\r\n")
            for line in lines:
                if line.startswith(b"-OOM"):
                    self.refused += 1
                elif line != b"+OK":
                    raise EngineError(f"a SET was answered {line[:80]!r}.")
                left -= 1

    def alive(self) -> int:
        """Keys whose time has not ended."""
        return int(np.count_nonzero(self.expires_s > time.time()))

    def _receive(self) -> bytes:
        found = self._socket.recv(1 << 18)
        if not found:
            raise EngineError("the server closed the connection.")
        return found
