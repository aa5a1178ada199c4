"""A tiny RESP2 client for control: PING, INFO, CONFIG, DBSIZE. Load comes from `loadgen`."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from forecache.sim.errors import EngineError

Reply = str | int | None | list["Reply"]


@dataclass(frozen=True)
class Address:
    """Where an engine listens: a TCP port on a host, or a Unix socket.

    Attributes
    ----------
    host, port
        TCP address; ignored when `unix_path` is given.
    unix_path
        Path of a Unix socket, or None for TCP.
    """

    host: str = "127.0.0.1"
    port: int = 6379
    unix_path: Path | None = None

    @property
    def transport(self) -> str:
        """`unix` or `tcp`."""
        return "tcp" if self.unix_path is None else "unix"

    def __str__(self) -> str:
        return str(self.unix_path) if self.unix_path else f"{self.host}:{self.port}"


def connect_socket(address: Address, *, timeout_s: float = 5.0) -> socket.socket:
    """Open a blocking stream socket; Nagle's algorithm is off, as in every Redis client.

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


class RespClient:
    """One connection that sends a command and waits for its reply. Use as a context manager."""

    def __init__(self, address: Address, *, timeout_s: float = 30.0) -> None:
        self.address = address
        self._socket = connect_socket(address, timeout_s=timeout_s)
        self._stream = self._socket.makefile("rb")

    def __enter__(self) -> "RespClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; harmless when repeated."""
        self._stream.close()
        self._socket.close()

    def command(self, *words: str | int) -> Reply:
        """Send one command and return its reply.

        Raises
        ------
        EngineError
            The engine answers with an error, closes the connection, or sends no valid RESP.
        """
        return self.pipeline([words])[0]

    def pipeline(self, commands: Sequence[Sequence[str | int]]) -> list[Reply]:
        """Send commands together and return their replies.

        Raises
        ------
        EngineError
            As for one command.
        """
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

    def _read_line(self) -> bytes:
        line = self._stream.readline(1 << 16)
        if not line:
            raise ConnectionResetError("the engine closed it")
        if not line.endswith(b"\r\n"):
            raise ValueError(f"no RESP reply but {line[:40]!r}")
        return line[:-2]

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
