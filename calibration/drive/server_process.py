"""Start a server in a folder of its own, know its threads, and always stop it.

The server listens on loopback, persists nothing, and can't outlive us: it is stopped when its
context ends, and the kernel kills it when the thread that started it dies.
"""

import contextlib
import ctypes
import os
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
from typing import ClassVar

from forecache.sim.errors import EngineError

from .connection import Address, ControlClient
from .loadspec import LoadSpec
from .protocols import Protocol
from .started import Started

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
START_TIMEOUT_S = 20.0
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
        `main` (serves, alone or first of all), `io` (serves clients) or `other` (background jobs,
        allocator, Memcached's listener).
    """

    tid: int
    name: str
    role: str


class ServerProcess(Started):
    """A running server of one kind of engine. Use as a context manager.

    What the kinds do differently is in the methods that this class leaves out: the arguments they
    take, how to ask them, where they listen, and what their threads are.

    Parameters
    ----------
    binary
        The server, from `find_engine`.
    io_threads
        Threads as the engine counts them.
    port
        TCP port on 127.0.0.1; None takes a free one.
    cores
        Cores the server may use; None leaves it where we are.
    config
        More configuration, by name; None leaves out an option that the engine is given else.
    wrapper
        Command that runs the server, such as valgrind with its options. It must become the server's
        process, and may slow it down: the server then gets more time to start and to stop.

    Raises
    ------
    EngineError
        The server doesn't start or doesn't answer, with its last log line; or the port is in use.
    """

    environment: ClassVar[Mapping[str, str]] = {}
    """What its environment has besides ours."""

    slow_config: ClassVar[Mapping[str, str]] = {}
    """Configuration for a server that a wrapper slows down: work that its timer does depends on no
    request, but a slow server does more of it."""

    protocol: ClassVar[Protocol]
    """What it speaks."""

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
        """Process id, which is also the id of the thread that started first."""
        if self._process is None:
            raise EngineError(f"{self.binary.name} is not running.")
        return self._process.pid

    def config(self, name: str) -> str:
        """A setting it was asked to start with."""
        return str(self._config[name])

    @property
    def folder(self) -> Path:
        """Its own folder, which vanishes with it."""
        if self._folder is None:
            raise EngineError(f"{self.binary.name} is not running.")
        return self._folder

    @classmethod
    def cannot_make(cls, spec: LoadSpec, transport: str) -> str | None:
        """Why this kind of engine can't serve such a load, or None when it can."""
        raise NotImplementedError

    def address(self, transport: str) -> Address:
        """Where clients connect by `tcp` or `unix`."""
        raise NotImplementedError

    def control(self) -> ControlClient:
        """A new control connection."""
        raise NotImplementedError

    def _arguments(self) -> list[str]:
        """What follows the program's name on its command line."""
        raise NotImplementedError

    def _roles(self, names: Mapping[int, str]) -> Mapping[int, str]:
        """Role of each thread by its id; `names` has the threads' names by their ids, in order."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the server and wait until it answers."""
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

    def threads(self) -> list[EngineThread]:
        """The server's threads now, main first, then by id."""
        names = {}
        for entry in sorted(Path(f"/proc/{self.pid}/task").iterdir(), key=lambda p: int(p.name)):
            with contextlib.suppress(OSError):  # a thread may end while we look
                names[int(entry.name)] = (entry / "comm").read_text().strip()
        roles = self._roles(names)
        threads = [EngineThread(tid, name, roles[tid]) for tid, name in names.items()]
        return sorted(threads, key=lambda thread: thread.role != "main")

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
        # The log goes to a file, so that a chatty server never blocks on a full pipe.
        with (self._folder / "log").open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    [*self._wrapper, str(self.binary), *self._arguments()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C in a terminal is ours to handle: we stop the server in order.
                    start_new_session=True,
                    env={**os.environ, **self.environment},
                    preexec_fn=child_setup(self._cores),
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise EngineError(f"{self.binary} can't be started: {error}.") from None

    def _wait_until_ready(self) -> None:
        limit_s = START_TIMEOUT_S * self._patience
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            self.check_alive()
            try:
                with self.control() as client:
                    if client.is_ready():
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
