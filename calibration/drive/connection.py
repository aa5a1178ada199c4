"""Where an engine listens, and a connection to ask it what it is and holds."""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from forecache.sim.errors import EngineError

from .protocols import RESP, Protocol

_LONGEST_LINE = 1 << 16


@dataclass(frozen=True)
class Address:
    """Where an engine listens: a TCP port on a host, or a Unix socket.

    Attributes
    ----------
    host, port
        TCP address; ignored when `unix_path` is given.
    unix_path
        Path of a Unix socket, or None for TCP.
    protocol
        What it speaks.
    """

    host: str = "127.0.0.1"
    port: int = 6379
    unix_path: Path | None = None
    protocol: Protocol = RESP

    @property
    def transport(self) -> str:
        """`unix` or `tcp`."""
        return "tcp" if self.unix_path is None else "unix"

    def __str__(self) -> str:
        return str(self.unix_path) if self.unix_path else f"{self.host}:{self.port}"


def connect_socket(address: Address, *, timeout_s: float = 5.0) -> socket.socket:
    """Open a blocking stream socket; Nagle's algorithm is off, as in every client.

    Raises
    ------
    EngineError
        Nothing answers at the address.
    """
    try:
        if address.unix_path is not None:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(timeout_s)
                sock.connect(str(address.unix_path))
            except OSError:
                sock.close()
                raise
        else:
            sock = socket.create_connection((address.host, address.port), timeout=timeout_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise EngineError(f"no engine answers at {address}: {error}.") from None
    return sock


class ControlClient:
    """One connection that asks and waits for the answer. Use as a context manager.

    Every method but `close` raises `EngineError` when the engine refuses, closes the connection, or
    sends what its protocol does not have.
    """

    def __init__(self, address: Address, *, timeout_s: float = 30.0) -> None:
        self.address = address
        self._socket = connect_socket(address, timeout_s=timeout_s)
        self._stream = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; harmless when repeated."""
        self._stream.close()
        self._socket.close()

    def is_ready(self) -> bool:
        """Whether the engine answers as one that has started."""
        raise NotImplementedError

    def keys_held(self) -> int:
        """How many keys it holds."""
        raise NotImplementedError

    def info(self) -> str:
        """What it counts and says of itself, as lines of `name:value`."""
        raise NotImplementedError

    def config(self) -> dict[str, str]:
        """Every configuration value as the engine reports it, which may not be as requested."""
        raise NotImplementedError

    def _read_line(self) -> bytes:
        """A line without its end; an `OSError` or `ValueError` says why there is none."""
        line = self._stream.readline(_LONGEST_LINE)
        if not line:
            raise ConnectionResetError("the engine closed it")
        if not line.endswith(b"\r\n"):
            raise ValueError(f"no line of a reply but {line[:40]!r}")
        return line[:-2]
