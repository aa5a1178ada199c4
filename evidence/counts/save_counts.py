"""Instructions that writing data into a file takes, counted by running an engine in valgrind.

The study `save-counts` fills a server with keys of every type, saves them in the foreground (SAVE
runs the code that a forked child runs: `rdbSave`), and keeps the counts in
`evidence/counts/save_counts/`. Each count is the difference of two numbers of keys that are alike.
Compression is switched while the server runs; checksums need a server of their own. `save-work`
makes the numbers that the models read from what lies there.

Counts are exact and need no clock, so neighbours on the machine change nothing in them.
"""

from __future__ import annotations

import json
import random
import string
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.servers import EngineProcess, engine_version, find_engine
from forecache.calibration.observe.profilers.programs import version_of
from forecache.calibration.observe.readers.callgrind import read_callgrind
from forecache.sim.errors import EngineError

from ..harness import EMBEDDED, Asked, Files
from .large_command_counts import PLAIN

FOLDER = Path("evidence/counts/save_counts")

_LIMIT_S = 600.0
_FEW_KEYS, _MANY_KEYS, _MOST_BYTES = 20, 120, 1_000_000
"""Keys of the two saves of a case whose values are short; fewer where they are long."""

Content = Literal["random", "text", "same"]
"""What values are made of: letters at random, which don't compress; records with names of fields
and numbers; one letter."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Keys that are alike.

    Attributes
    ----------
    items
        Members, fields, elements or entries of each; 0 of a string.
    item_bytes
        Of each of them, or of a string; of a whole number its digits.
    value_bytes
        Of a field's value.
    """

    type: Literal["string", "list", "set", "hash", "sorted_set", "stream"]
    items: int = 0
    item_bytes: int = 16
    value_bytes: int = 16
    key_bytes: int = 16
    content: Content = "random"
    integers: bool = False
    ttl: bool = False

    @property
    def keys(self) -> tuple[int, int]:
        """Keys of the smaller and of the larger save."""
        each = max(1, self.items) * (self.item_bytes + 40)
        many = max(4, min(_MANY_KEYS, _MOST_BYTES // each))
        return max(1, many * _FEW_KEYS // _MANY_KEYS), many


CASES = (
    Case(type="string", item_bytes=8, integers=True),
    Case(type="string"),
    Case(type="string", ttl=True),
    Case(type="string", key_bytes=40),
    *(
        Case(type="string", item_bytes=size, content=content)
        for size in (100, 1_000, 10_000)
        for content in ("random", "text", "same")
    ),
    *(Case(type="list", items=items) for items in (20, 2_000)),
    Case(type="set", items=100, item_bytes=8, integers=True),
    *(Case(type="set", items=items) for items in (20, 1_000)),
    Case(type="set", items=1_000, item_bytes=100),
    *(Case(type="hash", items=items) for items in (10, 1_000)),
    Case(type="hash", items=200, value_bytes=100),
    *(Case(type="sorted_set", items=items) for items in (20, 1_000)),
    Case(type="stream", items=100),
)

CHECKED = tuple(
    case
    for case in CASES
    if case.content == "random" and not case.ttl and case.type in ("string", "set", "hash")
)
"""Those that are saved with checksums too."""

_LETTERS = string.ascii_letters + string.digits + "+/"


def content(chance: random.Random, length: int, kind: Content) -> str:
    """A value of that length."""
    if kind == "same":
        return "v" * length
    if kind == "random":
        return "".join(chance.choices(_LETTERS, k=length))
    text = ""
    while len(text) < length:
        name = "".join(chance.choices(string.ascii_lowercase, k=8))
        text += f'{{"id":{chance.randrange(10**9)},"name":"{name}","score":{chance.random():.4f}}},'
    return text[:length]


def commands(case: Case, numbers: range) -> Iterator[list[str | int]]:
    """What writes these keys."""
    chance = random.Random(f"{case} {numbers.start}")
    for number in numbers:
        scattered = number * 2_654_435_761 % 2**32
        key = f"{scattered:010d}".rjust(case.key_bytes, "k")
        if case.type == "string":
            value = (
                str(10 ** (case.item_bytes - 1) + number)
                if case.integers
                else content(chance, case.item_bytes, case.content)
            )
            ttl: list[str | int] = ["EX", 1_000_000] if case.ttl else []
            yield ["SET", key, value, *ttl]
            continue
        for first in range(0, case.items, 100):
            words: list[str | int] = []
            for item in range(first, min(first + 100, case.items)):
                name = (
                    str(10 ** (case.item_bytes - 1) + item)
                    if case.integers
                    else content(chance, case.item_bytes, case.content)
                )
                match case.type:
                    case "hash":
                        words += [name, content(chance, case.value_bytes, case.content)]
                    case "sorted_set":
                        words += [100_000 + chance.randrange(900_000), name]
                    case "stream":
                        yield ["XADD", key, "*", "field", name]
                    case _:
                        words.append(name)
            if words:
                yield [_WRITES[case.type], key, *words]


_WRITES = {"list": "RPUSH", "set": "SADD", "hash": "HMSET", "sorted_set": "ZADD"}


class _Server:
    """A server in valgrind, and what it has counted since the last look."""

    def __init__(self, process: EngineProcess, control: RespClient, out: Path) -> None:
        self.process, self.control, self._out = process, control, out
        self._number = 0

    def save(self) -> tuple[int, int]:
        """Instructions of a SAVE, the fewer of two, and bytes of the file.

        Now and then the allocator tidies up, or a timer's job falls into one.
        """
        return min(self._save() for _ in range(2))

    def _save(self) -> tuple[int, int]:
        self.control.command("SAVE")
        self._number += 1
        file = Path(f"{self._out}.{self._number}")
        counted = int(read_callgrind(file).totals["Ir"])
        file.unlink()
        return counted, (self.process.folder / "dump.rdb").stat().st_size

    def write(self, case: Case, numbers: range) -> None:
        """Add keys."""
        waiting: list[list[str | int]] = []
        for words in commands(case, numbers):
            waiting.append(words)
            if len(waiting) == 50:
                self.control.pipeline(waiting)
                waiting = []
        if waiting:
            self.control.pipeline(waiting)


def count(binary: Path, say: Any) -> list[dict[str, Any]]:
    """Instructions and bytes a key of every case, by what the file's writer is told to do."""
    rows: dict[Case, dict[str, Any]] = {}
    for checksum in (False, True):
        with tempfile.TemporaryDirectory(prefix="forecache-valgrind-") as folder:
            out = Path(folder) / "counts"
            wrapper = [*PLAIN, "nice", "-n", "2", "valgrind", "--quiet", "--tool=callgrind"]
            wrapper += [f"--callgrind-out-file={out}", f"--vgdb-prefix={folder}/vgdb"]
            # Only what happens within this function is counted, and written down when it returns.
            wrapper += ["--collect-atstart=no", "--toggle-collect=rdbSave", "--dump-after=rdbSave"]
            config = {"hz": "1", "rdbchecksum": "yes" if checksum else "no"}
            with (
                EngineProcess(binary, config=config, wrapper=wrapper) as process,
                RespClient(process.control_address, timeout_s=_LIMIT_S) as control,
            ):
                server = _Server(process, control, out)
                for case in CHECKED if checksum else CASES:
                    try:
                        found = _saves(server, case, (False,) if checksum else (False, True))
                    except EngineError as error:
                        if "unknown command" not in str(error):
                            raise
                        continue
                    row = rows.setdefault(case, {**asdict(case), "saves": []})
                    for compression, each in found.items():
                        row["saves"].append(
                            {"compression": compression, "checksum": checksum, **each}
                        )
                    say(json.dumps(row))
    return list(rows.values())


def _saves(
    server: _Server, case: Case, compressions: tuple[bool, ...]
) -> dict[bool, dict[str, float]]:
    few, many = case.keys
    seen: dict[bool, list[tuple[int, int]]] = {each: [] for each in compressions}
    server.control.command("FLUSHALL")
    for numbers in (range(few), range(few, many)):
        server.write(case, numbers)
        for compression in compressions:
            server.control.command(
                "CONFIG", "SET", "rdbcompression", "yes" if compression else "no"
            )
            seen[compression].append(server.save())
    return {
        compression: {
            "instructions": round((after[0] - before[0]) / (many - few), 1),
            "file_bytes": round((after[1] - before[1]) / (many - few), 2),
        }
        for compression, (before, after) in seen.items()
    }


def artefact(asked: Asked) -> Files:
    """Count the engines at hand."""
    files: dict[Path, str] = {}
    for engine in asked.engines(("redis-server", "valkey-server", EMBEDDED)):
        binary = find_engine(engine)
        name, version = engine_version(binary)
        found = {
            "engine": name,
            "version": version,
            "date": datetime.now(UTC).date().isoformat(),
            "tool": version_of(["valgrind", "--version"]),
        }
        rows = ",\n".join(f"  {json.dumps(row)}" for row in count(binary, asked.progress))
        files[FOLDER / f"{name}-{version}.json"] = (
            f'{json.dumps(found)[:-1]}, "cases": [\n{rows}\n]}}\n'
        )
    return files
