"""Snapshots on this machine: how long children take, what they make the server copy, and the stop.

Three studies, each predicted and committed before it was measured. `children` compares the CPU time
of the child that a BGSAVE forks (INFO cpu, `used_cpu_user_children` and `_sys_`) with
`models/footprint/saving.py`. `copied-pages` stops a child by a signal, sends a known number of SETs
of random keys, and lets it go on: `rdb_last_cow_size`. `fork-stops` reads `latest_fork_usec` of
servers of 0.25 to 4 GiB, with small and with huge pages.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.servers import EngineProcess, engine_version, find_engine
from forecache.hwprofiles.capture.cores import ANSWER_INSTRUCTIONS, core_answer_ns
from forecache.hwprofiles.capture.memory import Buffer, copy_samples, latency_samples
from forecache.models.footprint.limits import PAGE_BYTES, copied_pages
from forecache.models.footprint.saving import (
    EXPECTED,
    SAVED_BYTE_NS,
    Writer,
    save_s,
    touched_by_writes,
)
from forecache.models.footprint.weigh import NodeFootprint, key_weight
from forecache.models.layouts.allocator import Allocator
from forecache.models.layouts.generations import Generation, generation
from forecache.models.scenario.versions import minor_version
from forecache.models.step_times.inputs import FORK_WAITS_PER_PAGE

from ..counts.save_counts import Case, content
from ..counts.save_work import population
from ..harness import Asked, Files
from ..markdown import table

FOLDER = Path("docs/accuracy/forks")
_CALM = {"answer_ns": 33.0, "near_ns": 17.0, "far_ns": 125.0, "stream_ns_per_byte": 0.05}
"""This machine while its neighbours are quiet."""


@dataclass(frozen=True, kw_only=True)
class Child:
    """Keys that a child saves."""

    case: Case
    keys: int
    compression: bool = True

    @property
    def name(self) -> str:
        """For people."""
        case = self.case
        what = f"{case.item_bytes} B" if case.type == "string" else f"{case.items} x 16 B"
        how = f", {case.content}" if case.type == "string" and case.item_bytes > 20 else ""
        return f"{case.type} {what}{how}{'' if self.compression else ', not compressed'}"


CHILDREN = (
    Child(case=Case(type="string"), keys=1_000_000),
    Child(case=Case(type="string", item_bytes=200), keys=400_000),
    Child(case=Case(type="string", item_bytes=1_000, content="text"), keys=100_000),
    Child(case=Case(type="string", item_bytes=1_000), keys=400_000, compression=False),
    Child(case=Case(type="string", item_bytes=10_000), keys=40_000, compression=False),
    Child(case=Case(type="hash", items=10), keys=150_000),
    Child(case=Case(type="hash", items=1_000), keys=400),
    Child(case=Case(type="set", items=1_000), keys=800),
    Child(case=Case(type="sorted_set", items=1_000), keys=500),
)

_LEFT = {"text": 0.63, "random": 1.0}

_FILL = """
local n, last, kind, items = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
math.randomseed(n)
for n = n, last do
  local key = string.format('%016.0f', (n * 2654435761) % 9007199254740881)
  if kind == 'string' then
    redis.call('SET', key, ARGV[1])
  else
    for i = 1, items do
      local name = string.sub(ARGV[1], 1 + (i % 40), 8 + (i % 40)) .. string.format('%08d', i)
      if kind == 'hash' then
        redis.call('HSET', key, name, string.sub(ARGV[1], 1 + i % 30, 16 + i % 30))
      elseif kind == 'set' then redis.call('SADD', key, name)
      else redis.call('ZADD', key, i * 7919 % 1000003, name) end
    end
  end
end
"""
"""Keys that don't follow one another, whose values are alike."""


def fill(client: RespClient, case: Case, keys: int) -> None:
    """Write keys from within the server."""
    value = content(random.Random(7), max(100, case.item_bytes), case.content)
    value = value[: case.item_bytes] if case.type == "string" else value
    each = max(1, 20_000 // max(1, case.items))
    for first in range(0, keys, each):
        last = min(keys, first + each) - 1
        client.command("EVAL", _FILL, 0, value, first, last, case.type, case.items)


def _info(client: RespClient) -> Mapping[str, str]:
    return dict(line.split(":", 1) for line in client.info("all").splitlines() if ":" in line)


_DEBIAN: Allocator = "system_jemalloc"
_ALLOCATORS: dict[str, Allocator] = {"5.0.6": "libc", "3.2.6": "libc"}
"""Of the builds that `engines.py` unpacks."""


def _generation(binary: Path) -> tuple[str, str, Generation]:
    engine, version = engine_version(binary)
    g = generation(engine, minor_version(version))
    return engine, version, g.model_copy(update={"allocator": _ALLOCATORS.get(version, _DEBIAN)})


# --- children -------------------------------------------------------------------------------------


_NEAR_BYTES, _FAR_BYTES = 8 << 20, 128 << 20


@cache
def _buffer() -> Buffer:
    return Buffer(_FAR_BYTES, huge=False)


def speed_now() -> dict[str, float]:
    """How fast cores and memory are now: both are shared with neighbours, who come and go."""
    waits = latency_samples(_buffer(), [_NEAR_BYTES, _FAR_BYTES], repetitions=1)
    return {
        "answer_ns": statistics.mean(core_answer_ns(cpu) for cpu in (0, 1)),
        "near_ns": waits[_NEAR_BYTES][0],
        "far_ns": waits[_FAR_BYTES][0],
        "stream_ns_per_byte": min(copy_samples(_buffer(), block_bytes=10_240, copies=1_000)),
    }


def here(speed: Mapping[str, float]) -> Writer:
    """A core of this machine (Zen 3, a guest), by what `speed_now` says."""
    return Writer(
        rate_per_ns=ANSWER_INSTRUCTIONS / speed["answer_ns"],
        own_ns=3.5 * speed["answer_ns"] / _CALM["answer_ns"],
        near_ns=speed["near_ns"],
        far_ns=speed["far_ns"],
        cache_bytes=32e6,
        stream_ns_per_byte=speed["stream_ns_per_byte"],
    )


def child_s(
    g: Generation, child: Child, *, speed: Mapping[str, float] = _CALM, waited: float | None = None
) -> float:
    """CPU time that a child is predicted to take."""
    one = population(child.case)
    data_bytes = child.keys * key_weight(NodeFootprint(g, g.allocator), one).settled
    doubts = EXPECTED._replace(
        left=_LEFT[child.case.content],
        waited=EXPECTED.waited if waited is None else waited,
        saved_byte_ns=SAVED_BYTE_NS * speed["answer_ns"] / _CALM["answer_ns"],
    )
    return save_s(
        g,
        [(child.keys, one)],
        data_bytes=data_bytes,
        writer=here(speed),
        compression=child.compression,
        doubts=doubts,
    )


def children_predicted(asked: Asked) -> Files:
    """Of every engine and case, what a calm core takes."""
    found = []
    for engine in asked.engines(()):
        name, version, g = _generation(find_engine(engine))
        for child in CHILDREN:
            row: dict[str, Any] = {"engine": name, "version": version, "child": child.name}
            low, high = (child_s(g, child, waited=waited) for waited in (0.4, 1.1))
            row["child_s"] = [round(each, 3) for each in (child_s(g, child), low, high)]
            found.append(row)
    return {FOLDER / "children-predicted.json": rows_text(found)}


def rows_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """A list, one row a line."""
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def children(asked: Asked) -> Files:
    """Save every case twice on every engine."""
    path = FOLDER / "children.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    for engine in asked.engines(()):
        binary = find_engine(engine)
        name, version, _ = _generation(binary)
        found = [row for row in found if (row["engine"], row["version"]) != (name, version)]
        for child in CHILDREN:
            row = {"engine": name, "version": version, "child": child.name, **_save(binary, child)}
            asked.progress(json.dumps(row))
            found.append(row)
    return {path: rows_text(found)}


_SAVES = 2


def _save(binary: Path, child: Child) -> dict[str, Any]:
    with (
        EngineProcess(binary) as process,
        RespClient(process.control_address, timeout_s=300.0) as client,
    ):
        client.command("CONFIG", "SET", "rdbcompression", "yes" if child.compression else "no")
        fill(client, child.case, child.keys)
        used = int(_info(client)["used_memory"])
        saves = []
        for _ in range(_SAVES):
            before, speeds = _info(client), [speed_now()]
            start = time.monotonic()
            client.command("BGSAVE")
            while _info(client)["rdb_bgsave_in_progress"] != "0":
                time.sleep(0.02)
            lasted_s = time.monotonic() - start
            time.sleep(0.05)
            after = _info(client)
            speeds.append(speed_now())
            user, system = (
                float(after[key]) - float(before[key])
                for key in ("used_cpu_user_children", "used_cpu_sys_children")
            )
            saves.append(
                {
                    "user_s": round(user, 3),
                    "system_s": round(system, 3),
                    "lasted_s": round(lasted_s, 2),
                    **{
                        name: round(statistics.mean(each[name] for each in speeds), 3)
                        for name in speeds[0]
                    },
                }
            )
        size = (process.folder / "dump.rdb").stat().st_size
    return {"used_bytes": used, "file_bytes": size, "saves": saves}


# --- copied pages ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Copies:
    """SETs while a child lives."""

    keys: int
    value_bytes: int
    writes: int


COPIES = tuple(
    Copies(keys=keys, value_bytes=value_bytes, writes=writes)
    for keys, value_bytes in ((300_000, 64), (1_000_000, 64), (300_000, 200), (300_000, 900))
    for writes in (0, 10_000, 50_000, 300_000)
)

_OWN_PAGES = 300
"""Pages that fork, child and a few connections write to without any SET (assumed, 100 to 600)."""


def copied_bytes(g: Generation, copies: Copies) -> float:
    """What `rdb_last_cow_size` is predicted to be."""
    case = Case(type="string", item_bytes=copies.value_bytes)
    each = key_weight(NodeFootprint(g, g.allocator), population(case)).settled
    pages = copied_pages(
        copies.keys * each,
        writes_per_s=copies.writes,
        child_s=1.0,
        touched=touched_by_writes(g, population(case), data_bytes=each, keys=copies.keys),
    )
    return (pages + _OWN_PAGES) * PAGE_BYTES


def copies_predicted(asked: Asked) -> Files:
    """Of every engine and case."""
    found = []
    for engine in asked.engines(()):
        name, version, g = _generation(find_engine(engine))
        found += [
            {
                "engine": name,
                "version": version,
                **asdict(copies),
                "copied_bytes": round(copied_bytes(g, copies)),
            }
            for copies in COPIES
        ]
    return {FOLDER / "copies-predicted.json": rows_text(found)}


def copies(asked: Asked) -> Files:
    """Every case on every engine."""
    path = FOLDER / "copies.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    for engine in asked.engines(()):
        binary = find_engine(engine)
        name, version, _ = _generation(binary)
        found = [row for row in found if (row["engine"], row["version"]) != (name, version)]
        for keys, value_bytes in dict.fromkeys((each.keys, each.value_bytes) for each in COPIES):
            some = [each for each in COPIES if (each.keys, each.value_bytes) == (keys, value_bytes)]
            with (
                EngineProcess(binary) as process,
                RespClient(process.control_address, timeout_s=300.0) as client,
            ):
                fill(client, Case(type="string", item_bytes=value_bytes), keys)
                for each in some:
                    copied, left = _copy(process, client, each)
                    row = {"engine": name, "version": version, **asdict(each)}
                    row |= {"copied_bytes": copied, "left_bytes": left}
                    asked.progress(json.dumps(row))
                    found.append(row)
    return {path: rows_text(found)}


def _key(number: int) -> str:
    """As `_FILL` writes it."""
    return f"{number * 2654435761 % 9007199254740881:016d}"


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(each) for each in text.split()]


def _copy(process: EngineProcess, client: RespClient, given: Copies) -> tuple[int, int]:
    """Bytes that are copied when all SETs are done, and `rdb_last_cow_size` at the child's end.

    They are the child's alone then. A child of Valkey 9 gives pages back as it goes.
    """
    chance = random.Random(given.writes)
    client.command("BGSAVE")
    while not (found := _children(process.pid)):
        time.sleep(0.001)
    os.kill(found[0], signal.SIGSTOP)
    value = content(random.Random(3), given.value_bytes, "random")
    sent = 0
    while sent < given.writes:
        some = min(1_000, given.writes - sent)
        client.pipeline([["SET", _key(chance.randrange(given.keys)), value] for _ in range(some)])
        sent += some
    copied = _private_bytes(found[0])
    os.kill(found[0], signal.SIGCONT)
    while _info(client)["rdb_bgsave_in_progress"] != "0":
        time.sleep(0.05)
    return copied, int(_info(client)["rdb_last_cow_size"])


def _private_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    [line] = [line for line in text.splitlines() if line.startswith("Private_Dirty:")]
    return int(line.split()[1]) * 1024


# --- the stop -------------------------------------------------------------------------------------


def _ran_ns(pid: int) -> int:
    """How long a main thread has had a CPU: what others took meanwhile doesn't count."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])


STOPS_GIB = (0.25, 0.5, 1.0, 2.0, 4.0)
_HUGE = {"MALLOC_CONF": "thp:always", "JE_MALLOC_CONF": "thp:always"}
_FORKS = 5


def stops(asked: Asked) -> Files:
    """Forks of every size, with small and huge pages."""
    path = FOLDER / "stops.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    for engine in asked.engines(()):
        binary = find_engine(engine)
        name, version, _ = _generation(binary)
        found = [row for row in found if (row["engine"], row["version"]) != (name, version)]
        for huge in (False, True):
            for row in _stops(binary, huge=huge):
                asked.progress(json.dumps(row))
                found.append({"engine": name, "version": version, **row})
    return {path: rows_text(found)}


def _stops(binary: Path, *, huge: bool) -> Iterator[dict[str, Any]]:
    config = {"disable-thp": "no"} if huge else {}
    wrapper = ["env", *(f"{name}={value}" for name, value in _HUGE.items())] if huge else []
    with (
        EngineProcess(binary, config=config, wrapper=wrapper) as process,
        RespClient(process.control_address, timeout_s=300.0) as client,
    ):
        held = 0
        value = "v" * 30_000
        for size_gib in STOPS_GIB:
            last = int(size_gib * 2**30 / 32_768)
            for first in range(held, last, 1_000):
                script = _FILL
                client.command(
                    "EVAL", script, 0, value, first, min(last, first + 1_000) - 1, "string", 0
                )
            held = last
            took, ran = [], []
            speed = speed_now()
            for _ in range(_FORKS):
                before = _ran_ns(process.pid)
                client.command("BGSAVE")
                ran.append(round((_ran_ns(process.pid) - before) / 1e3))
                for child in _children(process.pid):
                    os.kill(child, signal.SIGKILL)
                while _info(client)["rdb_bgsave_in_progress"] != "0":
                    time.sleep(0.05)
                took.append(int(_info(client)["latest_fork_usec"]))
            status = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            sizes = {
                line.split(":")[0]: int(line.split()[1]) * 1024
                for line in status.splitlines()
                if line.split(":")[0] in ("Rss", "AnonHugePages")
            }
            yield {
                "huge": huge,
                "gib": size_gib,
                "resident_bytes": sizes["Rss"],
                "huge_bytes": sizes["AnonHugePages"],
                "fork_us": took,
                "ran_us": ran,
                **{name: round(value, 3) for name, value in speed.items()},
            }


def stops_predicted(_asked: Asked) -> Files:
    """Milliseconds a GiB on this guest, with small and with huge pages: value, low, high."""
    found = {"small_pages": [20.0, 14.0, 28.0], "huge_pages": [0.4, 0.1, 1.5]}
    return {FOLDER / "stops-predicted.json": json.dumps(found) + "\n"}


# --- the page -------------------------------------------------------------------------------------

PAGE = Path("docs/forks.md")


def _read(name: str) -> list[dict[str, Any]]:
    path = FOLDER / f"{name}.json"
    found: list[dict[str, Any]] = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    )
    return found


def _generation_of(row: Mapping[str, Any]) -> Generation:
    g = generation(row["engine"], minor_version(row["version"]))
    return g.model_copy(update={"allocator": _ALLOCATORS.get(row["version"], _DEBIAN)})


def _mean(row: Mapping[str, Any], name: str) -> float:
    return statistics.mean(each[name] for each in row["saves"])


def lines_of_children() -> list[str]:
    """CPU time of children, predicted and measured."""
    predicted = {
        (row["engine"], row["version"], row["child"]): row["child_s"][0]
        for row in _read("children-predicted")
    }
    by_name = {child.name: child for child in CHILDREN}
    rows, errors, ratios = [], [], []
    for row in _read("children"):
        speed = {name: _mean(row, name) for name in _CALM}
        seen = _mean(row, "user_s") + _mean(row, "system_s")
        now = child_s(_generation_of(row), by_name[row["child"]], speed=speed)
        calm = predicted[row["engine"], row["version"], row["child"]]
        errors.append(now / seen - 1.0)
        ratios.append((row["engine"], row["version"], seen, now))
        rows.append(
            [
                f"{row['engine']} {row['version']}",
                row["child"],
                f"{calm:.2f}",
                f"{seen:.2f}",
                f"{now:.2f}",
                f"{now / seen - 1.0:+.0%}",
                f"{row['used_bytes'] / seen / 1e6:,.0f}",
            ]
        )
    header = ["engine", "keys", ">calm, s", ">measured, s", ">predicted, s", ">error", ">MB/s"]
    middle = statistics.median(map(abs, errors)) if errors else math.nan
    within = sum(abs(each) <= 0.2 for each in errors)
    return [
        "## How long a child takes",
        "",
        "Instructions of SAVE were counted in valgrind for every type, version, compression and "
        "checksum ("
        "`evidence/counts/save_counts/`). Below is the CPU time of the child of a BGSAVE (INFO "
        "cpu, `used_cpu_*_children`), two each. The machine was anything but calm: other programs "
        "kept both of its cores busy, a GET took 46 to 63 ns instead of 33, and a wait for DRAM "
        "400 to 490 ns instead of 125. *Calm* was predicted and committed before the measurement, "
        "for quiet neighbours. *Predicted* takes the speed of cores and memory from beside each "
        "save. After looking at these numbers and at the SAVEs of "
        "[full syncs](fleet.md), three were set: what a byte of the file takes in the "
        "kernel, how often compression waits for its table, and which share of a collection's "
        "blocks is waited for. *MB/s* is used memory by CPU time.",
        "",
        *table(header, rows),
        "",
        f"Median error {middle:.0%}; {within} of {len(errors)} within 20%. The SAVEs of full "
        "syncs, on a calmer machine, are off by less ([table](fleet.md)).",
        "",
    ]


def lines_of_copies() -> list[str]:
    """Pages that SETs copied, predicted and measured."""
    predicted = {
        (row["engine"], row["version"], row["keys"], row["value_bytes"], row["writes"]): row
        for row in _read("copies-predicted")
    }
    rows, first, again = [], [], []
    for row in _read("copies"):
        if not row["writes"]:
            continue
        given = Copies(**{name: row[name] for name in ("keys", "value_bytes", "writes")})
        before = predicted[(row["engine"], row["version"], *asdict(given).values())]
        now = copied_bytes(_generation_of(row), given)
        seen = row["copied_bytes"]
        first.append(abs(before["copied_bytes"] / seen - 1.0))
        again.append(abs(now / seen - 1.0))
        rows.append(
            [
                f"{row['engine']} {row['version']}",
                f"{given.keys:,} of {given.value_bytes} B",
                f"{given.writes:,}",
                f"{seen / 2**20:.1f}",
                f"{before['copied_bytes'] / 2**20:.1f}",
                f"{now / 2**20:.1f}",
                f"{now / seen - 1.0:+.1%}",
                f"{row.get('left_bytes', seen) / 2**20:.1f}",
            ]
        )
    header = ["engine", "keys", ">SETs", ">copied, MiB", ">predicted", ">with tables", ">error"]
    header.append(">`rdb_last_cow_size`")
    middle = [statistics.median(each) if each else math.nan for each in (first, again)]
    return [
        "## Pages that writes copy",
        "",
        "A child was stopped by a signal, SETs of random keys were sent, and the pages counted "
        "that were the child's alone (`Private_Dirty`); then it went on. *Predicted* was committed "
        "before; *with tables* also takes the size of the table of keys from the layout, where "
        "12 bytes a key were assumed first. A SET writes the blocks that it changes: the key's "
        "entry, its object and its string up to Redis 8.0 and Valkey 8.0, object and string in "
        "later ones, object and bucket where the value lies in the object. The new string takes "
        "the block that the last SET left, so that each kind of block costs a page of a random "
        "key, and small blocks share few pages.",
        "",
        *table(header, rows),
        "",
        f"Median error {middle[0]:.1%} as committed, {middle[1]:.1%} with tables; "
        f"{sum(each <= 0.1 for each in again)} of {len(again)} within 10%. A child of Valkey from "
        "8.1 on frees each string when it has saved it (valkey PR 905). Pages of large values go "
        "back, so `rdb_last_cow_size`, read at its end, is less than what was copied. That isn't "
        "modelled: the answer is what is copied if the child keeps its pages.",
        "",
    ]


def lines_of_stops() -> list[str]:
    """How long forks stop servers."""
    rows, errors = [], []
    for row in _read("stops"):
        seen = statistics.median(row["ran_us"]) / 1e3
        size = row["resident_bytes"]
        far = here({name: row[name] for name in _CALM}).far_ns
        small = (size - row["huge_bytes"]) / PAGE_BYTES + row["huge_bytes"] / 2**21
        told = small * FORK_WAITS_PER_PAGE * far / 1e6
        if not row["huge"]:
            errors.append(told / seen - 1.0)
        rows.append(
            [
                f"{row['engine']} {row['version']}",
                f"{size / 2**30:.2f}",
                f"{row['huge_bytes'] / 2**30:.2f}",
                f"{far:.0f}",
                f"{seen:.1f}",
                f"{min(row['ran_us']) / 1e3:.1f} to {max(row['ran_us']) / 1e3:.1f}",
                f"{told:.1f}",
                f"{told / seen - 1.0:+.0%}",
                f"{statistics.median(row['fork_us']) / 1e3:,.0f}",
            ]
        )
    header = ["engine", ">GiB", ">in huge pages", ">wait, ns", ">CPU time, ms", ">of five"]
    header += [">predicted, ms", ">error", ">`latest_fork_usec`, ms"]
    middle = statistics.median(map(abs, errors)) if errors else math.nan
    return [
        "## How long a fork stops the server",
        "",
        "CPU time of the main thread during BGSAVE (`schedstat`), the median of five, and "
        "`latest_fork_usec`, in which the thread also waits for its CPU: other programs wanted "
        "both. 20 ms a GiB (14 to 28) were predicted before, as on a calm guest; it took 38 to 71. "
        "What a page takes follows the wait for DRAM: 50 ns with waits of 100 on a physical "
        "machine, 73 with 140 on a c7g.2xlarge, 145 to 270 here. *Predicted* is half a wait a "
        "page, with the wait measured beside it; this rule was found after the measurement.",
        "",
        *table(header, rows),
        "",
        f"Median error with small pages {middle:.0%}. Huge pages count one for 512 small ones. "
        "Asked for them (`thp:always`), the jemalloc of Redis 7.0.15 here got them for nearly all "
        "data, and a fork took 1 to 8 ms a GiB; Valkey 9.1.2 got few, though its forks were "
        "shorter too.",
        "",
    ]


def pages() -> Files:
    """The page."""
    lines = [
        "# Snapshots: stops, children and copied pages",
        "",
        "What a fork stops, how long its child takes, and what that makes the server copy, "
        "predicted and measured. `make evidence STUDY=children`, `copied-pages` and `fork-stops` "
        "with `ONLY=PATH` of an engine measure again.",
        "",
        *lines_of_children(),
        *lines_of_copies(),
        *lines_of_stops(),
    ]
    return {PAGE: "\n".join(lines)}
