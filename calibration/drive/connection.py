"""What an engine speaks, where it listens, and connections that ask what it is and holds.

Load comes from `loadgen`.
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from forecache.sim.errors import EngineError

_LONGEST_LINE = 1 << 16

# --- how GET and SET are written in what an engine speaks; `native/` counts the replies -----------

Parts = tuple[bytes, bytes]
"""What a command has before the digits of its key, and behind them."""


@dataclass(frozen=True)
class Protocol:
    """What an engine speaks.

    Attributes
    ----------
    name
        As `native/loadgen.h` has it, there in capitals.
    get
        A GET, by the start of the key and the length of the whole key.
    set_value
        A SET, by the same and the value.
    """

    name: str
    get: Callable[[bytes, int], Parts]
    set_value: Callable[[bytes, int, bytes], Parts]


def _resp_get(prefix: bytes, key_bytes: int) -> Parts:
    return b"*2\r\n$3\r\nGET\r\n$%d\r\n%s" % (key_bytes, prefix), b"\r\n"


def _resp_set(prefix: bytes, key_bytes: int, value: bytes) -> Parts:
    start = b"*3\r\n$3\r\nSET\r\n$%d\r\n%s" % (key_bytes, prefix)
    return start, b"\r\n$%d\r\n%s\r\n" % (len(value), value)


def _text_get(prefix: bytes, _key_bytes: int) -> Parts:
    return b"get " + prefix, b"\r\n"


def _text_set(prefix: bytes, _key_bytes: int, value: bytes) -> Parts:
    # No flags, and never to expire.
    return b"set " + prefix, b" 0 0 %d\r\n%s\r\n" % (len(value), value)


RESP = Protocol("resp", _resp_get, _resp_set)
"""Redis's protocol, in its second version."""

MEMCACHED = Protocol("memcached", _text_get, _text_set)
"""Memcached's text protocol (doc/protocol.txt)."""


# --- addresses and connections --------------------------------------------------------------------


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
    """Open a blocking stream socket; Nagle's algorithm is off, as in every client."""
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


# --- RESP, of Redis and Valkey --------------------------------------------------------------------


Reply = str | int | None | list["Reply"]


class RespClient(ControlClient):
    """One connection that sends a command and waits for its reply. Use as a context manager."""

    def command(self, *words: str | int) -> Reply:
        """Send one command and return its reply."""
        return self.pipeline([words])[0]

    def pipeline(self, commands: Sequence[Sequence[str | int]]) -> list[Reply]:
        """Send commands together and return their replies."""
        request = b""
        for words in commands:
            parts = [str(word).encode() for word in words]
            request += b"*%d\r\n" % len(parts)
            request += b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        replies: list[Reply] = []
        try:
            self._socket.sendall(request)
            for _ in commands:
                replies.append(self._read_reply())
            return replies
        except _ErrorReply as error:
            shown = " ".join(str(word) for word in commands[len(replies)][:3])
            raise EngineError(f"{self.address} refused {shown}: {error}.") from None
        except (OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise EngineError(f"the connection to {self.address} broke: {reason}.") from None

    def is_ready(self) -> bool:
        """Whether it answers PING, which it refuses while it loads data."""
        return self.command("PING") == "PONG"

    def keys_held(self) -> int:
        """DBSIZE."""
        reply = self.command("DBSIZE")
        if not isinstance(reply, int):
            raise EngineError(f"{self.address} answered DBSIZE with no number.")
        return reply

    def info(self, section: str = "all") -> str:
        """The text of INFO."""
        reply = self.command("INFO", section)
        if not isinstance(reply, str):
            raise EngineError(f"{self.address} answered INFO with no text.")
        return reply

    def config(self) -> dict[str, str]:
        """Every configuration value as the engine reports it, which may not be as requested."""
        reply = self.command("CONFIG", "GET", "*")
        if not isinstance(reply, list) or len(reply) % 2:
            raise EngineError(f"{self.address} answered CONFIG GET with no list of pairs.")
        return {str(name): str(value) for name, value in zip(reply[::2], reply[1::2], strict=True)}

    def _read_reply(self) -> Reply:
        line = self._read_line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode(errors="replace")
        if kind == b"-":
            raise _ErrorReply(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            size = int(rest)
            if size < 0:
                return None
            body = self._stream.read(size + 2)
            if len(body) < size + 2:
                raise ConnectionResetError("the engine closed it inside a reply")
            return body[:size].decode(errors="replace")
        if kind == b"*":
            return [self._read_reply() for _ in range(int(rest))] if int(rest) >= 0 else None
        raise ValueError(f"no RESP reply but {line[:40]!r}")


class _ErrorReply(Exception):
    """The engine's own `-ERR` line."""


# --- what starts when a `with` block begins and has stopped when it ends --------------------------


class Started:
    """Calls `start` and `stop` around a `with` block; a start that fails is stopped too."""

    def start(self) -> None:
        """Start it."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop it, however far the start came."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
