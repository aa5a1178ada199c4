"""A tiny RESP2 client for control: PING, INFO, CONFIG, DBSIZE. Load comes from `loadgen`."""

from collections.abc import Sequence

from forecache.sim.errors import EngineError

from .connection import ControlClient

Reply = str | int | None | list["Reply"]


class RespClient(ControlClient):
    """One connection that sends a command and waits for its reply. Use as a context manager."""

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
