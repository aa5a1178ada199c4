"""Servers that are made to be in trouble, and healthy ones: what two looks at them show.

Swap can't be made here (`swapon` is refused in containers), so one of the looks is edited: its
resident memory is less than what is in use.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.servers import EngineProcess
from forecache.calibration.today.findings import troubles_of
from forecache.calibration.today.nodes import nodes_of
from forecache.sim.errors import EngineError

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import rounds
from .cpu_windows import TOOL, Tool
from .engines import Engine
from .quotas import control_group

ARTEFACT = Path("docs/accuracy/troubles.json")
ENGINE, REPLICATES = "valkey-9.1.2", "redis-7.0.15"
HEALTHY = ("redis-6.2.11", "redis-7.0.15", "redis-8.6.3", "valkey-8.1.1", "valkey-9.1.2")
APART_S, SETTLE_S = 6.0, 0.5
KEYS, VALUE_BYTES = 20_000, 1000
_LOAD = ("-c", 20, "-r", KEYS, "-d", VALUE_BYTES, "--rps", 20_000)

Row = dict[str, Any]


class Bench:
    """A server with keys, its control connection, and a tool on the other core."""

    def __init__(self, process: EngineProcess, control: RespClient, program: Path, cpu: int):
        self.process, self.control = process, control
        self.tool = Tool(program, cpu, process)

    @contextmanager
    def load(self, *words: object, options: tuple[object, ...] = _LOAD) -> Iterator[None]:
        """A load of the tool, GETs and SETs of keys unless it says otherwise."""
        asked = words or ("SET", "key:__rand_int__", "__data__", ";", "GET", "key:__rand_int__")
        with self.tool.running([str(word) for word in asked], *options):
            time.sleep(SETTLE_S)
            yield


def _backlog(bench: Bench, stack: ExitStack) -> None:
    bench.control.command("CONFIG", "SET", "repl-backlog-size", str(16 * 1024))
    replica = stack.enter_context(EngineProcess(bench.process.binary))
    asked = stack.enter_context(replica.control())
    asked.command("REPLICAOF", "127.0.0.1", str(bench.process.port))
    until = time.monotonic() + 20.0
    while "state=online" not in str(bench.control.command("INFO", "replication")):
        if time.monotonic() > until:
            return
        time.sleep(0.1)
    stack.enter_context(bench.load())


def _saves(bench: Bench, stack: ExitStack) -> None:
    bench.control.command("CONFIG", "SET", "rdb-key-save-delay", "20")
    stack.enter_context(bench.load())

    def save() -> None:
        with suppress(EngineError):  # the one before is not done
            bench.control.command("BGSAVE")

    stack.enter_context(_repeated(save, every_s=0.5))


def _one_connection(bench: Bench, stack: ExitStack) -> None:
    options = ("-c", 1, "-r", KEYS, "-d", VALUE_BYTES)
    stack.enter_context(bench.load("GET", "key:__rand_int__", options=options))


def _quota(bench: Bench, stack: ExitStack) -> None:
    group = stack.enter_context(control_group(0.5))
    (group / "cgroup.procs").write_text(str(bench.process.pid))
    # A group with a process in it can't be removed.
    out = (group.parent / "cgroup.procs").write_text
    stack.callback(out, str(bench.process.pid))
    stack.enter_context(bench.load(options=("-c", 20, "-r", KEYS, "-d", VALUE_BYTES)))


def _evictions(bench: Bench, stack: ExitStack) -> None:
    bench.control.command("CONFIG", "SET", "maxmemory", "16mb")
    bench.control.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    stack.enter_context(bench.load())


def _full(bench: Bench, stack: ExitStack) -> None:
    used = str(bench.control.command("INFO", "memory")).split("used_memory:")[1].split()[0]
    bench.control.command("CONFIG", "SET", "maxmemory", str(round(1.02 * int(used))))
    stack.enter_context(bench.load("GET", "key:__rand_int__"))


def _misses(bench: Bench, stack: ExitStack) -> None:
    options = ("-c", 20, "-r", 100 * KEYS, "--rps", 20_000)
    stack.enter_context(bench.load("GET", "key:__rand_int__", options=options))


def _reconnecting(bench: Bench, stack: ExitStack) -> None:
    options = ("-c", 20, "-r", KEYS, "-k", 0, "--rps", 2_000)
    stack.enter_context(bench.load("GET", "key:__rand_int__", options=options))


def _refused(bench: Bench, stack: ExitStack) -> None:
    stack.enter_context(bench.load())
    bench.control.command("CONFIG", "SET", "maxclients", "24")

    def ask() -> None:
        for _ in range(8):
            stack.enter_context(socket.create_connection(("127.0.0.1", bench.process.port)))

    stack.enter_context(_repeated(ask, every_s=2.0))


def _cut_off(bench: Bench, stack: ExitStack) -> None:
    bench.control.command("CONFIG", "SET", "client-output-buffer-limit", "normal 100kb 0 0")
    stack.enter_context(bench.load())

    def ask() -> None:
        client = stack.enter_context(socket.create_connection(("127.0.0.1", bench.process.port)))
        client.sendall(b"KEYS *\r\n" * 40)  # and reads nothing

    stack.enter_context(_repeated(ask, every_s=1.0))


def _monitoring(bench: Bench, stack: ExitStack) -> None:
    stack.enter_context(bench.load())
    stack.enter_context(_repeated(lambda: bench.control.command("KEYS", "none*"), every_s=0.5))


def _swapped(bench: Bench, stack: ExitStack) -> None:
    stack.enter_context(bench.load())


def _healthy(bench: Bench, stack: ExitStack) -> None:
    stack.enter_context(bench.load())


MADE: dict[str, tuple[str, Callable[[Bench, ExitStack], None]]] = {
    "a backlog of 16 KiB": ("full syncs", _backlog),
    "saves without end": ("saves", _saves),
    "one connection": ("connections", _one_connection),
    "half a CPU": ("kept waiting", _quota),
    "maxmemory, allkeys-lru": ("memory", _evictions),
    "maxmemory, noeviction": ("memory", _full),
    "keys that are not there": ("hits", _misses),
    "a connection a command": ("connections", _reconnecting),
    "more clients than maxclients": ("connections", _refused),
    "a client that does not read": ("cut off", _cut_off),
    "KEYS twice a second": ("monitoring", _monitoring),
    "swapped out (edited)": ("swapped", _swapped),
}
"""What is made of a server, and the kind of trouble that is to be found."""


@contextmanager
def _repeated(what: Callable[[], object], *, every_s: float) -> Iterator[None]:
    """Do something over and over, in a thread of its own."""
    ended = Event()

    def run() -> None:
        while not ended.wait(every_s):
            what()

    thread = Thread(target=run, daemon=True)
    what()
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def measure(asked: Asked) -> Files:
    """Make all of them; `ENGINES` is as in the study generations."""
    rows: list[Row] = []
    with rounds.engines_at_hand() as (scratch, engines):
        program = rounds.engine_of(engines, ENGINE).folder / TOOL
        for name, (kind, make) in MADE.items():
            asked.progress(name)
            engine = rounds.engine_of(engines, REPLICATES if make is _backlog else ENGINE)
            found = _looked(engine, program, make, scratch, edited=make is _swapped)
            rows.append({"made": name, "engine": engine.id, "kind": kind, "found": found})
        for id_ in HEALTHY:
            asked.progress(f"healthy: {id_}")
            engine = rounds.engine_of(engines, id_)
            found = _looked(engine, program, _healthy, scratch)
            rows.append({"made": "", "engine": id_, "kind": "", "found": found})
    return {ARTEFACT: json_text(rows)}


def _looked(
    engine: Engine,
    program: Path,
    make: Callable[[Bench, ExitStack], None],
    scratch: Path,
    *,
    edited: bool = False,
) -> list[list[str]]:
    """Kinds and sentences of the troubles that two looks at a server show."""
    core, driver = sorted(os.sched_getaffinity(0))[:2]
    with ExitStack() as stack:
        process = stack.enter_context(EngineProcess(engine.server, cores=[core]))
        # Looks have a connection of their own: what is made uses the other one in a thread.
        looks = stack.enter_context(process.control())
        bench = Bench(process, stack.enter_context(process.control()), program, driver)
        _fill(bench)
        with ExitStack() as made:
            make(bench, made)
            texts = [_info(looks)]
            time.sleep(APART_S)
            texts.append(_info(looks))
    if edited:
        texts[1] = "\n".join(_mostly_out(line) for line in texts[1].splitlines())
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        files = [Path(folder) / f"{n}.txt" for n in range(2)]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text, encoding="utf-8")
        return [[each.kind, each.what] for each in troubles_of(nodes_of(files))]


def _fill(bench: Bench) -> None:
    words = ["SET", "key:__rand_int__", "__data__"]
    options = ("-c", 20, "-P", 16, "-r", KEYS, "-d", VALUE_BYTES, "--sequential")
    bench.tool.run(words, *options, requests=KEYS)


def _info(client: RespClient) -> str:
    return str(client.command("INFO", "ALL"))


def _mostly_out(line: str) -> str:
    name, _, value = line.partition(":")
    return f"{name}:{int(value) // 10}" if name == "used_memory_rss" else line


def section() -> list[str]:
    """Its part of docs/generations.md."""
    text = [
        "## Servers in trouble",
        "",
        f"Servers that were made to be in trouble under a load, and {len(HEALTHY)} healthy ones:"
        f" what two looks at INFO, {APART_S:g} s apart, show of it."
        " `make evidence STUDY=troubles`.",
    ]
    if not ARTEFACT.exists():
        return [*text, "", "Not measured yet."]
    rows = json.loads(ARTEFACT.read_text(encoding="utf-8"))
    body = [
        [
            row["made"] or "healthy",
            row["engine"],
            "; ".join(f"*{kind}*: {what}" for kind, what in row["found"]) or "nothing",
            ("yes" if row["kind"] in [kind for kind, _ in row["found"]] else "no")
            if row["kind"]
            else ("yes" if not row["found"] else "no"),
        ]
        for row in rows
    ]
    return [*text, "", *table(("made", "engine", "found", "as it should be"), body)]
