"""Memcached as a server: its options, its threads, and how to ask it.

One worker thread (`-t 1`) does all the work of a request, so it counts as the main thread; the
listener, which only accepts connections, and the threads of the background are others.
"""

import os
import resource
from collections.abc import Mapping

from forecache.sim.errors import EngineError

from .connection import Address, ControlClient
from .loadspec import LoadSpec
from .protocols import MEMCACHED
from .server_process import ServerProcess

WORKER = "mc-worker"
"""Name of worker threads (thread.c)."""

# Pages of memory are taken when they are needed, so the limit may be beyond what there is.
_MEMORY_MIB = 1 << 20
_CONNECTIONS = 12_000
_OTHER_FILES = 64
_VALGRINDS_FILES = 12  # N_RESERVED_FDS of its coregrind
_MOST_KEY_BYTES = 250
_ITEM_BYTES = 1 << 20
"""An item takes a page of this size at most (-I); its header and suffix take up to 64 bytes."""
_ITEM_HEADER_BYTES = 64


class MemcachedClient(ControlClient):
    """Asks by `stats`; loads come from `loadgen`."""

    def is_ready(self) -> bool:
        """Whether it says its version."""
        return self._ask("version")[0].startswith(b"VERSION ")

    def keys_held(self) -> int:
        """`curr_items`."""
        try:
            return int(self.stats()["curr_items"])
        except (KeyError, ValueError):
            raise EngineError(f"{self.address} answered stats with no curr_items.") from None

    def info(self) -> str:
        """`stats`, its lines written as Redis writes those of INFO."""
        return "".join(f"{name}:{value}\n" for name, value in self.stats().items())

    def config(self) -> dict[str, str]:
        """`stats settings`."""
        return self.stats("settings")

    def stats(self, kind: str = "") -> dict[str, str]:
        """Counters by name."""
        lines = self._ask(f"stats {kind}".strip())
        parts = [line.decode(errors="replace").split(" ", 2) for line in lines[:-1]]
        return {part[1]: part[2] for part in parts if part[0] == "STAT" and len(part) == 3}

    def _ask(self, request: str) -> list[bytes]:
        """The lines of an answer: statistics, and the first line that is none."""
        lines: list[bytes] = []
        try:
            self._socket.sendall(request.encode() + b"\r\n")
            while not lines or lines[-1].startswith(b"STAT "):
                lines.append(self._read_line())
        except (OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise EngineError(f"the connection to {self.address} broke: {reason}.") from None
        if b"ERROR" in lines[-1].split(b" ")[0]:
            said = lines[-1].decode(errors="replace")
            raise EngineError(f"{self.address} refused {request}: {said}.")
        return lines


class MemcachedProcess(ServerProcess):
    """A running Memcached; `io_threads` are its worker threads (-t), all of which execute."""

    protocol = MEMCACHED

    @classmethod
    def cannot_make(cls, spec: LoadSpec, transport: str) -> str | None:
        """Unix sockets (it listens on one or on TCP), long keys and large values."""
        if transport != "tcp":
            return "Memcached is driven over TCP only"
        if spec.key_bytes > _MOST_KEY_BYTES:
            return f"Memcached's keys have at most {_MOST_KEY_BYTES} bytes"
        largest = max(size for size, _ in spec.value_sizes)
        if spec.key_bytes + largest + _ITEM_HEADER_BYTES > _ITEM_BYTES:
            return "Memcached's items have at most 1 MiB"
        return None

    def address(self, transport: str) -> Address:
        """Where clients connect, by `tcp`."""
        if transport != "tcp":
            raise EngineError(f"{self.binary.name} listens on TCP only here, not by {transport}.")
        return Address(port=self.port, protocol=self.protocol)

    def control(self) -> MemcachedClient:
        """A new control connection."""
        return MemcachedClient(self.address("tcp"))

    def _arguments(self) -> list[str]:
        options = {
            "-l": "127.0.0.1",
            "-p": str(self.port),
            "-U": "0",
            "-t": str(self.io_threads),
            "-m": str(_MEMORY_MIB),
            "-c": str(self._connections()),
            # It doesn't run as root unless it is told to.
            "-u": "root" if os.geteuid() == 0 else None,
        } | self._config
        given = {name: value for name, value in options.items() if value is not None}
        return [word for name, value in given.items() for word in (name, value)]

    def _connections(self) -> int:
        """How many it may take. It makes that its limit of open files, which valgrind, who keeps
        some for itself, doesn't let a program change."""
        files, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        if self._wrapper:
            return min(files, most_files - _VALGRINDS_FILES)
        unlimited = most_files == resource.RLIM_INFINITY
        return _CONNECTIONS if unlimited else min(_CONNECTIONS, most_files - _OTHER_FILES)

    def _roles(self, names: Mapping[int, str]) -> Mapping[int, str]:
        workers = [tid for tid, name in names.items() if name == WORKER]
        if not workers:
            raise EngineError(
                f"{self.binary}: found no thread named {WORKER}; valid is Memcached 1.6."
            )
        return {
            tid: "main" if tid == workers[0] else "io" if tid in workers else "other"
            for tid in names
        }
