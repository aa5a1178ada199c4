"""Commands that fill a server with keys of all types, and what its RDB file must tell of them."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from forecache.calibration.today.rdb import KeySizes

Command = list[str | int]


@dataclass
class Totals:
    """Of one type."""

    keys: int = 0
    key_bytes: int = 0
    elements: int = 0
    element_bytes: int = 0
    value_bytes: int = 0
    expiring: int = 0


@dataclass
class KnownKeys:
    """Commands, and totals by type; streams have no bytes, for their layout is the server's own."""

    commands: list[Command] = field(default_factory=list)
    totals: dict[str, Totals] = field(default_factory=dict)

    def add(
        self,
        kind: str,
        command: Command,
        *,
        elements: int,
        size: int,
        values: int = 0,
        ttl: int = 0,
    ) -> None:
        """A key, its size, and its time to live in ms."""
        key = str(command[1])
        total = self.totals.setdefault(kind, Totals())
        total.keys += 1
        total.key_bytes += len(key)
        total.elements += elements
        total.element_bytes += size
        total.value_bytes += values
        total.expiring += bool(ttl)
        self.commands.append(command)
        if ttl:
            self.commands.append(["PEXPIRE", key, ttl])


def known_keys(engine: str, version: tuple[int, int]) -> KnownKeys:
    """Keys of every type, small and large, with what this version can have."""
    found, draw = KnownKeys(), random.Random(7)

    def text(length: int) -> str:
        return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=length))

    _strings(found, text)
    _collections(found, text)
    _streams(found, idempotent=engine == "redis" and version >= (8, 6))
    if version >= ((9, 0) if engine == "valkey" else (7, 4)):
        _expiring_fields(found, text)
    if version >= (7, 0):
        code = "#!lua name=mylib\nredis.register_function('f', function(keys, args) return 1 end)"
        found.commands.append(["FUNCTION", "LOAD", code])
    return found


def _strings(found: KnownKeys, text: Callable[[int], str]) -> None:
    numbers = [0, -7, 127, 128, -32768, 70000, 2**31, -(2**63), "007", "+5", 2**63]
    texts = ["", "v", "v" * 70, text(63), text(300), "ab" * 2500, "x" * 20_000]
    for place, value in enumerate([*numbers, *texts]):
        key = "k" * (1 + 30 * place)
        ttl = 10**9 * (place % 3 == 0)
        found.add("string", ["SET", key, value], elements=1, size=len(str(value)), ttl=ttl)


def _collections(found: KnownKeys, text: Callable[[int], str]) -> None:
    items = [text(20) if i % 3 else str(i * 5000 - 20_000) for i in range(12)]
    found.add("list", ["RPUSH", "list", *items], elements=12, size=sum(map(len, items)), ttl=10**9)
    items = [text(1) * 25 for _ in range(500)]
    found.add("list", ["RPUSH", "long-list", *items], elements=500, size=12_500)
    items = ["x" * 9000, "y" * 70_000, "z"]
    found.add("list", ["RPUSH", "plain-list", *items], elements=3, size=79_001)
    for width, base in ((2, 100), (4, 100_000), (8, 10**12)):
        members = [base + i for i in range(9)]
        size = sum(len(str(each)) for each in members)
        command: Command = ["SADD", f"numbers-{width}", *members]
        found.add("set", command, elements=9, size=size, values=9 * width)
    items = [text(12) for _ in range(20)]
    found.add("set", ["SADD", "set", *items], elements=20, size=240)
    items = [text(80) for _ in range(10)]
    found.add("set", ["SADD", "large-set", *items], elements=10, size=800)
    for key, count, length in (("hash", 8, 10), ("large-hash", 9, 90)):
        fields = {f"f{i}": text(length) if i % 2 else str(i * 1000) for i in range(count)}
        found.add(
            "hash",
            ["HSET", key, *(each for pair in fields.items() for each in pair)],
            elements=count,
            size=sum(map(len, fields)),
            values=sum(map(len, fields.values())),
            ttl=10**9,
        )
    scored = {text(14): str(37 * i) for i in range(16)}
    command = ["ZADD", "ranks", *(each for name, score in scored.items() for each in (score, name))]
    digits = sum(map(len, scored.values()))
    found.add("sorted_set", command, elements=16, size=16 * 14, values=digits)
    scored = {text(78): f"{i}.5" for i in range(10)} | {"top": "inf", "low": "-inf"}
    command = ["ZADD", "board", *(each for name, score in scored.items() for each in (score, name))]
    found.add("sorted_set", command, elements=12, size=10 * 78 + 6)


def _streams(found: KnownKeys, *, idempotent: bool) -> None:
    first: Command = ["XADD", "stream", "1000-1", "temperature", 20]
    found.add("stream", first, elements=49, size=0)
    found.commands += [["XADD", "stream", f"{1000 + i}-1", "temperature", i] for i in range(1, 50)]
    found.commands += [
        ["XGROUP", "CREATE", "stream", "group", "0"],
        ["XREADGROUP", "GROUP", "group", "one", "COUNT", 7, "STREAMS", "stream", ">"],
        ["XREADGROUP", "GROUP", "group", "two", "COUNT", 3, "STREAMS", "stream", ">"],
        ["XDEL", "stream", "1005-1"],
    ]
    if idempotent:
        for producer, number in (("p1", "1"), ("p2", "2"), ("p2", "3")):
            found.commands.append(["XADD", "stream", "IDMP", producer, number, "*", "a", "b"])
        found.totals["stream"].elements += 3


def _expiring_fields(found: KnownKeys, text: Callable[[int], str]) -> None:
    for key, length in (("some-expire", 5), ("large-some-expire", 90)):
        fields = {f"e{i:03d}": text(length) for i in range(6)}
        command: Command = ["HSET", key, *(each for pair in fields.items() for each in pair)]
        found.add("hash", command, elements=6, size=24, values=6 * length)
        found.commands.append(["HEXPIRE", key, 10**6, "FIELDS", 2, "e000", "e003"])


def totals_of(keys: list[KeySizes]) -> dict[str, Totals]:
    """The same of what a reader found."""
    found: dict[str, Totals] = {}
    for key_bytes, expires, value in keys:
        total = found.setdefault(value.kind, Totals())
        total.keys += 1
        total.key_bytes += key_bytes
        total.elements += value.elements
        total.element_bytes += 0 if value.kind == "stream" else value.element_bytes
        total.value_bytes += value.value_bytes
        total.expiring += expires
    return found
