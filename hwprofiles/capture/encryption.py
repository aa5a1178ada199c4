"""CPU time of TLS on this host: the library Python has, both ends in one thread, no network."""

import itertools
import shutil
import ssl
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SMALL_BYTES = 64
LARGE_BYTES = 16_000
"""What one record carries of a small and of a large message; 16,384 at most."""

_KEYS = {
    "ecdsa": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
    "rsa": ["-newkey", "rsa:2048"],
}
_KEY_S = 10.0
"""An idle core makes a key within a second."""
_MOST_FLIGHTS = 10
_CONNECTIONS = 64
"""Used in turn, as a server does: a connection's keys and buffers have left the nearest cache."""


class EncryptedLink:
    """A TLS connection whose ends hand their bytes over in memory.

    Attributes
    ----------
    handshake_ns
        What the server's part of the handshake took, waiting left out.
    """

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        self._to_server, self._to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._client = client.wrap_bio(self._to_client, self._to_server)
        started = time.perf_counter_ns()
        self._server = server.wrap_bio(self._to_server, self._to_client, server_side=True)
        self.handshake_ns = time.perf_counter_ns() - started
        for _ in range(_MOST_FLIGHTS):
            client_done = _continued(self._client)
            started = time.perf_counter_ns()
            server_done = _continued(self._server)
            self.handshake_ns += time.perf_counter_ns() - started
            if client_done and server_done:
                return
        raise ssl.SSLError(f"no connection after {_MOST_FLIGHTS} flights")

    def exchange(self, message: bytes) -> None:
        """Encrypt a message at the server and decrypt it at the client."""
        self._server.write(message)
        received = self._client.read(len(message))
        if len(received) != len(message):
            raise ssl.SSLError(f"{len(message)} bytes came as {len(received)}")


def _continued(end: ssl.SSLObject) -> bool:
    """Whether one end's handshake is over, after what it can do now."""
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def contexts(key: str) -> tuple[ssl.SSLContext, ssl.SSLContext] | None:
    """Settings of a server with a new `ecdsa` or `rsa` key, and of its client.

    None where there is no `openssl` command to make the key, or it fails or takes too long.
    """
    command = shutil.which("openssl")
    if command is None:
        return None
    with tempfile.TemporaryDirectory(prefix="forecache-") as folder:
        files = [str(Path(folder, name)) for name in ("key.pem", "certificate.pem")]
        try:
            made = subprocess.run(
                [command, "req", "-x509", *_KEYS[key], "-nodes", "-days", "1", "-subj"]
                + ["/CN=forecache", "-keyout", files[0], "-out", files[1]],
                capture_output=True,
                timeout=_KEY_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
        if made.returncode != 0:
            return None
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(files[1], files[0])
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    for context in (server, client):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    return server, client


def handshake_samples(
    server: ssl.SSLContext, client: ssl.SSLContext, *, repetitions: int = 30
) -> list[float]:
    """us of the server's part of full handshakes."""
    return [EncryptedLink(server, client).handshake_ns / 1000.0 for _ in range(repetitions)]


def record_samples(
    server: ssl.SSLContext, client: ssl.SSLContext, *, repetitions: int = 12, records: int = 100
) -> tuple[list[float], list[float]]:
    """(ns per record beyond its bytes, ns per byte), each of one end.

    What Python's calls and copies of the same size take is taken off.
    """
    links = itertools.cycle([EncryptedLink(server, client) for _ in range(_CONNECTIONS)])
    plain = ssl.MemoryBIO()

    def exchanged(message: bytes) -> None:
        next(links).exchange(message)

    def copied(message: bytes) -> None:
        plain.write(message)
        plain.read(len(message))

    by_record, by_byte = [], []
    for _ in range(repetitions):
        small, large = (
            (_each_ns(exchanged, bytes(size), records)
             - 2 * _each_ns(copied, bytes(size), records)) / 2
            for size in (SMALL_BYTES, LARGE_BYTES)
        )  # fmt: skip
        each = max(1e-3, (large - small) / (LARGE_BYTES - SMALL_BYTES))
        by_byte.append(each)
        by_record.append(max(1.0, small - SMALL_BYTES * each))
    return by_record, by_byte


def _each_ns(call: Callable[[bytes], None], message: bytes, times: int) -> float:
    """Median ns of a call."""
    samples = []
    for _ in range(times):
        started = time.perf_counter_ns()
        call(message)
        samples.append(time.perf_counter_ns() - started)
    return statistics.median(samples)
