"""Instructions that large commands take per member, counted by running an engine in valgrind.

The study `large-command-counts` loads sets of three sizes and lengths of member, runs every command
of `models/over_time/large_commands` on them, and keeps the counts in
`evidence/counts/large_command_counts/`. A count is the difference between a small and a large set
of equal load, so that what a command does once cancels out. If a `redis-cli` lies beside the engine
it is counted too: what it does with each element of a reply. `large-command-work` makes the shipped
work of large commands from what lies there.

Counts are exact and need no clock; `models.large_commands.work` makes numbers per member of them.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from forecache.calibration.drive.connection import RespClient, connect_socket
from forecache.calibration.drive.servers import EngineProcess, engine_version, find_engine
from forecache.calibration.fit.command_work import counted_leaf
from forecache.calibration.observe.profilers.programs import run_program, version_of
from forecache.calibration.observe.readers.callgrind import read_callgrind
from forecache.hwprofiles.files import dump_yaml, parse
from forecache.models.over_time.large_commands.work import (
    COUNTED,
    LargeWork,
    Layout,
    moved_entries,
)
from forecache.models.results.intervals import relative_error
from forecache.sim.errors import EngineError

from ..harness import EMBEDDED, Asked, Files

GROWING_RESULT = (
    *("import_inline", "import_protocol", "sunion_same", "sunion_equal", "sunion_disjoint"),
    "sdiff_disjoint",
)
"""Commands that fill a table, which grows."""

FOLDER = Path("evidence/counts/large_command_counts")
MEASURED = Path("docs/accuracy/large-commands.json")
"""Commands on live engines, measured and predicted (`live/large_commands_check.py`)."""
ENGINES = Path("models/over_time/large_commands/engines")

_NO_STRING_INSTRUCTIONS = 1 << 30
PLAIN = [
    "env",
    "JE_MALLOC_CONF=quarantine:0,redzone:false,tcache:true",
    f"GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold={_NO_STRING_INSTRUCTIONS}"
    f":glibc.cpu.x86_rep_stosb_threshold={_NO_STRING_INSTRUCTIONS}",
]
"""The allocator of Redis 2.8 (jemalloc 3) changes its ways where it notices valgrind, and valgrind
counts a copy by one repeated instruction as an instruction for each byte."""

_DUMP_LIMIT_S = 120.0
_CLIENT_LIMIT_S = 300.0


@dataclass(frozen=True)
class Case:
    """Members of the sets, of the large ones of the same load, and bytes of a member."""

    members: int
    more: int
    member_bytes: int


CASES = (Case(3125, 25_000, 64), Case(2100, 16_800, 64), Case(3125, 25_000, 256))
"""Of a hash table of 2^k buckets, 76% and 51%; and longer members."""

COMMANDS = {
    "smembers": ("SMEMBERS", "A"),
    "sinter_same": ("SINTER", "A", "A"),
    "sinter_equal": ("SINTER", "A", "A2"),
    "sinter_disjoint": ("SINTER", "A", "B"),
    "sunion_same": ("SUNION", "A", "A"),
    "sunion_equal": ("SUNION", "A", "A2"),
    "sunion_disjoint": ("SUNION", "A", "B"),
    "sdiff_same": ("SDIFF", "A", "A"),
    "sdiff_equal": ("SDIFF", "A", "A2"),
    "sdiff_disjoint": ("SDIFF", "A", "B"),
}
"""`same` names one key twice, `equal` two keys with the same members."""


def member(number: int, member_bytes: int) -> str:
    """A member of that length: digits, then letters that are alike."""
    return f"{number * 2_654_435_761 % 2**32:010d}{number:010d}".ljust(member_bytes, "m")


def inline_import(key: str, numbers: range, member_bytes: int) -> bytes:
    """SADD lines as a person writes them into a file."""
    return "".join(f"SADD {key} {member(n, member_bytes)}\r\n" for n in numbers).encode()


def protocol_import(key: str, numbers: range, member_bytes: int) -> bytes:
    """The same in the protocol's own form."""
    head = f"*3\r\n$4\r\nSADD\r\n${len(key)}\r\n{key}\r\n${member_bytes}\r\n"
    return "".join(f"{head}{member(n, member_bytes)}\r\n" for n in numbers).encode()


def send_all(process: EngineProcess, data: bytes, *, replies: int) -> None:
    """Send requests in blocks as `--pipe` does and wait for a line of reply to each."""
    with closing(connect_socket(process.address("tcp"), timeout_s=_CLIENT_LIMIT_S)) as sock:
        seen = 0
        for first in range(0, len(data), 1 << 16):
            sock.sendall(data[first : first + (1 << 16)])
        while seen < replies:
            got = sock.recv(1 << 16)
            if not got or b"-ERR" in got:
                raise EngineError(f"the engine answered {got[:60]!r} to a bulk load.")
            seen += got.count(b"\n")


class Server:
    """A server in valgrind, and what it has counted since the last look."""

    def __init__(self, process: EngineProcess, out: Path) -> None:
        self.process = process
        self._out = out
        self._number = 0

    def dump(self) -> int:
        """Instructions since the last dump."""
        command = ["vgdb", f"--vgdb-prefix={self._out.parent}/vgdb", f"--pid={self.process.pid}"]
        run_program([*command, "dump"], timeout_s=_DUMP_LIMIT_S)
        self._number += 1
        profile = read_callgrind(f"{self._out}.{self._number}")
        return profile.totals["Ir"]


def count_server(binary: Path) -> list[dict[str, Any]]:
    """Instructions of each command on each size of set."""
    config = {"hz": "1"}
    rows = []
    with tempfile.TemporaryDirectory(prefix="forecache-valgrind-") as folder:
        out = Path(folder) / "counts"
        wrapper = [*PLAIN, "valgrind", "--quiet", "--tool=callgrind"]
        wrapper += [f"--callgrind-out-file={out}", f"--vgdb-prefix={folder}/vgdb"]
        with (
            EngineProcess(binary, config=config, wrapper=wrapper) as process,
            RespClient(process.control_address, timeout_s=_CLIENT_LIMIT_S) as control,
        ):
            server = Server(process, out)
            for case in CASES:
                for members in (case.members, case.more):
                    row = {"members": members, "member_bytes": case.member_bytes}
                    rows.append(row | {"instructions": dict(_commands(server, control, row))})
                    print(rows[-1], flush=True)
    return rows


def _commands(
    server: Server, control: RespClient, row: dict[str, int]
) -> Iterator[tuple[str, int]]:
    members, size = row["members"], row["member_bytes"]
    first, other = range(members), range(10**6, 10**6 + members)
    server.dump()
    send_all(server.process, inline_import("A", first, size), replies=members)
    yield "import_inline", server.dump()
    send_all(server.process, protocol_import("A2", first, size), replies=members)
    yield "import_protocol", server.dump()
    send_all(server.process, protocol_import("B", other, size), replies=members)
    # Whatever of the growth of the tables is left is done before anything else is counted.
    for key in ("A", "A2", "B"):
        for _ in range(2 * members // 100):
            control.pipeline([["SISMEMBER", key, "absent"]] * 100)
    server.dump()
    for name, words in COMMANDS.items():
        control.command(*words)
        yield name, server.dump()
    # Valkey from 8.0 on frees in the background unless told otherwise.
    control.command(
        "FLUSHDB", *([] if control.info("server").find("redis_version:2.") >= 0 else ["SYNC"])
    )
    yield "flushdb", server.dump()  # of three sets
    for start in range(0, members, 100):
        control.pipeline([["SET", f"key:{n:012d}", "v"] for n in range(start, start + 100)])
    server.dump()
    control.command("KEYS", "*")
    yield "keys", server.dump()
    control.command("FLUSHDB")
    server.dump()


def count_client(client: str, server: Path) -> list[dict[str, Any]]:
    """Instructions of the client for a reply, by its elements, written to a file.

    It takes its command from its standard input, as a script feeds it.
    """
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="forecache-valgrind-") as folder,
        EngineProcess(server) as process,
    ):
        for case in (CASES[0], CASES[2]):
            for members in (case.members, case.more):
                with process.control() as control:
                    control.command("FLUSHDB")
                load = protocol_import("A", range(members), case.member_bytes)
                send_all(process, load, replies=members)
                out = Path(folder) / f"client-{members}-{case.member_bytes}"
                run = [*PLAIN, "valgrind", "--quiet", "--tool=callgrind"]
                run.append(f"--callgrind-out-file={out}")
                counted = {}
                for name, text in (
                    ("reply", b"SMEMBERS A\n"),
                    ("pipe", inline_import("C", range(members), case.member_bytes)),
                ):
                    options = ["--pipe"] if name == "pipe" else []
                    done = subprocess.run(
                        [*run, client, "-p", str(process.port), *options],
                        input=text,
                        stdout=(Path(folder) / "answer").open("wb"),
                        stderr=subprocess.PIPE,
                        timeout=_CLIENT_LIMIT_S,
                        check=False,
                    )
                    if done.returncode:
                        raise EngineError(f"{client}: {done.stderr[-200:]!r}.")
                    counted[name] = read_callgrind(out).totals["Ir"]
                row = {"members": members, "member_bytes": case.member_bytes}
                rows.append(row | {"instructions": counted})
                print(rows[-1], flush=True)
    return rows


_RANGE = 1.15
"""Half width of the range of a count as a factor: counts of the sizes here differ by up to that."""
_METHOD = "difference of sets of 2,000 to 25,000 members in callgrind"

PROFILES: dict[str, dict[str, Any]] = {
    "redis-2.8.17": {
        "id": "redis-2.8",
        "versions": ["2.8", "3.0", "3.2"],
        "relatives": {},
        "layout": "objects",
        "lazy_free": False,
        "growth": "whole_copies",
    },
    "redis-7.0.15": {
        "id": "redis-7.0",
        "versions": ["4.0", "5.0", "6.0", "6.2", "7.0", "7.2", "7.4"],
        "relatives": {"valkey": ["7.2", "8.0"]},
        "layout": "dict",
        "lazy_free": True,
        "growth": "size_classes",
    },
    "valkey-9.1.2": {
        "id": "valkey-9.1",
        "versions": ["8.1", "9.0", "9.1"],
        "relatives": {},
        "layout": "hashtable",
        "lazy_free": True,
        "lazy_free_default": True,
        "growth": "size_classes",
    },
}
"""What files of `over_time/large_commands/engines` say beside counts. Layouts and what frees in the
background: t_set.c, dict.c, hashtable.c and config.c of each version; growth: huge_ralloc of the
jemalloc that comes with it."""


def solve(rows: list[dict[str, Any]], name: str, *, layout: Layout) -> dict[str, float]:
    """Instructions per member, byte and moved entry that all cases agree with.

    Each case gives the difference between its two sizes; `flushdb` is of three sets.
    """
    sets = 3 if name == "flushdb" else 1
    slopes, loads, sizes = [], [], []
    for small, large in pairwise(rows):
        if small["member_bytes"] != large["member_bytes"] or small["members"] > large["members"]:
            continue
        more = (large["members"] - small["members"]) * sets
        slopes.append((large["instructions"][name] - small["instructions"][name]) / more)
        factor = 2 if name == "sunion_disjoint" else 1
        moved = [moved_entries(layout, factor * row["members"]) for row in (small, large)]
        loads.append((moved[1] - moved[0]) / more)
        sizes.append(small["member_bytes"])
    growing = name in GROWING_RESULT and layout == "hashtable"
    by_bytes = (slopes[-1] - slopes[0]) / (sizes[-1] - sizes[0])
    if name in ("keys", "flushdb", "sdiff_same"):
        by_bytes = 0.0
    by_moved = max(0.0, (slopes[1] - slopes[0]) / (loads[1] - loads[0])) if growing else 0.0
    member = slopes[0] - by_bytes * sizes[0] - by_moved * loads[0]
    found = {"member": max(0.0, member), "byte": max(0.0, by_bytes)}
    return found | ({"moved": by_moved} if growing else {})


def log_error(found: dict[str, float]) -> float:
    """Logarithm of predicted over measured."""
    return math.log(found["predicted"] / found["measured"])


def errors_of(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """How far off the main thread's time and the whole time were, over commands of an engine."""
    each = list(rows)
    return {
        name: relative_error([log_error(row[quantity]) for row in each]).model_dump()
        for name, quantity in (("main_thread", "main_thread_ms"), ("lasts", "lasts_ms"))
    }


def profile_of(
    found: dict[str, Any], *, client: dict[str, Any] | None, errors: dict[str, Any]
) -> dict[str, Any]:
    """A file of `models/over_time/large_commands/engines` from counts.

    Parameters
    ----------
    errors
        Those of the engine's commands.
    """
    counted = f"{found['engine']}-{found['version']}"
    about = dict(PROFILES[counted])
    growth = about.pop("growth")
    layout: Layout = about["layout"]

    def leaves(rows: list[dict[str, Any]], name: str, source: str) -> dict[str, Any]:
        return {
            part: counted_leaf(value, _RANGE, source=source, method=_METHOD).model_dump(mode="json")
            for part, value in solve(rows, name, layout=layout).items()
        }

    data: dict[str, Any] = {
        **about,
        "engine": found["engine"],
        "version": ".".join(found["version"].split(".")[:2]),
        "sources": {"counts": _source(found)},
        "instructions": {name: leaves(found["server"], name, "counts") for name in COUNTED},
    }
    if client is not None:
        if client is not found:
            data["sources"]["client-counts"] = _source(client)
        source = "counts" if client is found else "client-counts"
        data["client"] = {
            name: leaves(client["client"], name, source) for name in ("reply", "pipe")
        } | {"growth": growth}
    data["errors"] = errors
    return data


def _source(found: dict[str, Any]) -> dict[str, str]:
    version = f"{found['engine']}-{found['version']}"
    return {
        "title": f"forecache: instructions of large commands on {version}, in valgrind",
        "file": f"{FOLDER}/{version}.json",
        "accessed": found["date"],
    }


def artefact(asked: Asked) -> Files:
    """Count the engines at hand, each with the client that lies beside it."""
    files = {}
    for engine in asked.engines(("redis-server", EMBEDDED)):
        binary = find_engine(engine)
        name, version = engine_version(binary)
        found: dict[str, Any] = {
            "engine": name,
            "version": version,
            "date": datetime.now(UTC).date().isoformat(),
            "tool": version_of(["valgrind", "--version"]),
            "server": count_server(binary),
        }
        client = binary.with_name("redis-cli")
        if client.exists():
            # Clients of all versions talk to the same server, so that they alone differ.
            found["client"] = count_client(str(client), find_engine("redis-server"))
        files[FOLDER / f"{name}-{version}.json"] = json.dumps(found, indent=1) + "\n"
    return files


def profiles(_asked: Asked) -> Files:
    """The shipped files from what was counted; a version whose client wasn't counted has 7.0's."""
    counts = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")
    }
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    files = {}
    for found in counts.values():
        client = found if "client" in found else counts["redis-7.0.15"]
        engine = f"{found['engine']} {'.'.join(found['version'].split('.')[:2])}."
        rows = [row for of in measured if of["engine"].startswith(engine) for row in of["rows"]]
        data = profile_of(found, client=client, errors=errors_of(rows))
        path = ENGINES / f"{data['id']}.yaml"
        parse(LargeWork, data, file=path)
        files[path] = dump_yaml(data)
    return files
