"""What the commands of a workload are: their shares, bytes, keys, and the work of those beyond GET
and SET.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import get_args

import numpy as np

from forecache.sim.errors import InputError
from forecache.sim.words import byte_size

from ..layouts.blocks import (
    INTSET_ENTRIES,
    NODE_MOST_BYTES,
    PACKED_ENTRIES,
    PACKED_ITEM_BYTES,
    listpack_entry_bytes,
    stream_node_entries,
)
from ..scenario.command_table import (
    COMMANDS,
    DESCRIBED_BY,
    CommandRow,
    DataType,
    Encoding,
    Term,
    Word,
    commands_on,
    later_commands,
)
from ..scenario.schema import Scenario
from ..scenario.workload import (
    Asked,
    AskedOther,
    Calling,
    Collection,
    Workload,
    WorkloadSets,
)

MOST_CYCLE_REQUESTS = 20_000_000
"""Requests of a rate profile or a trace."""

_TRACED_SLOTS = 256

ARGUMENTS_PARSED = 2
"""Of GET: what `parse_instructions` covers."""

_ASSUMED_BYTES = {
    **dict.fromkeys(("score", "index", "last", "offset", "number", "radius"), 6),
    "count": 2,
    "coordinate": 9,
    "unit": 2,
    "id": 15,
    "name": 16,
}
"""Of what isn't data as it is sent: whole numbers of about six digits, the id of an entry of a
stream (milliseconds since 1970), names of channels and of elements of a HyperLogLog."""

LONG_BYTES = 20 * 1024
"""From here on the rest of a value, request or reply is copied as fast as a core streams memory
(`dram_copy_ns_per_byte`), and the copy's instructions take no time beside that: a byte of a block
from DRAM took 0.12 ns in blocks of 4 KB, 0.09 in those of 10 KB and 0.03 in those of 100 KB and
more on a Zen 5 virtual machine. Engines were fitted to values of up to 16 KiB."""

WHOLE_ARGUMENT_BYTES = 32 * 1024
"""A value from this size on is stored in the buffer that it was read into (PROTO_MBULK_BIG_ARG in
server.h; Memcached too reads into the item, all that its buffer of 16 KiB does not hold)."""

_INTEGER_BYTES = len(b":0\r\n")

_SHA1_DIGITS = 40
"""Of the name by which EVALSHA calls a script."""

MOST_BYTES_ON_THE_WAY = 2**36
"""Bytes of values that all clients may ask for at a time."""


@dataclass(frozen=True)
class CommandKind:
    """One command code: what it is, how large its value, how often it comes.

    Attributes
    ----------
    value_bytes
        Of each value; of a hash, of each field's.
    items
        Keys, members, fields, elements or entries that it names or returns.
    size
        Members, fields, elements or entries that its collection has.
    item_bytes
        Of a member, an element or a field's name.
    integers
        Whether the members of a set are whole numbers.
    other
        What it takes, of a command that is not in the table.
    calls
        The commands of a transaction or a script, with their shares among all requests.
    """

    command: str
    value_bytes: int
    share: float
    items: int = 1
    size: int = 0
    item_bytes: int = 0
    other: AskedOther | None = None
    integers: bool = False
    calls: tuple[CommandKind, ...] = ()

    @property
    def row(self) -> CommandRow:
        """What the table of commands says of it."""
        if self.other is None:
            return COMMANDS[self.command]
        return _OTHERS[self.other.writes or any(call.row.writes for call in self.calls)]

    @property
    def data_type(self) -> DataType:
        """What its keys hold."""
        return self.row.type

    @property
    def keys(self) -> int:
        """Keys of the command, which a prefetching engine looks up together."""
        if self.calls:
            return 0
        if self.other is not None:
            return 1 if self.other.keys is None else self.other.keys
        if "key" in self.row.each:
            return self.items
        return self.row.words.count("key")

    @property
    def largest_bytes(self) -> int:
        """Of its values, or of the larger one of request and reply where no value is known."""
        if self.other is not None:
            return max(round(self.request_bytes(0)), self.reply_bytes)
        return self.items * (self.value_bytes + self.item_bytes)

    @property
    def stored_values(self) -> int:
        """Values of string keys it replaces."""
        return self.items if self.on_values == "set" else 0

    @property
    def on_values(self) -> str:
        """What it does with each value of a string: `get`, `set`, or else its own name."""
        return self.row.values or self.command

    @property
    def listpack(self) -> bool:
        """Whether its set, sorted set or hash is small enough for a listpack."""
        return self.encoding == "listpack"

    @property
    def encoding(self) -> Encoding:
        """How its key holds what it works on."""
        if self.data_type == "string":
            return "string"
        if self.data_type == "list":
            return "quicklist"
        if self.data_type == "stream":
            return "stream"
        if self.integers and self.size <= INTSET_ENTRIES:
            return "intset"
        longest = self.item_bytes
        if self.data_type == "hash":
            longest = max(longest, self.value_bytes)
        small = self.size <= PACKED_ENTRIES[self.data_type]
        return "listpack" if small and longest <= PACKED_ITEM_BYTES else "table"

    @property
    def packed_entries(self) -> int:
        """Entries of one packed block: all, or those of a node of a list or stream."""
        if self.data_type == "list":
            node = NODE_MOST_BYTES // listpack_entry_bytes(self.item_bytes)
            return min(self.size, max(1, node))
        if self.data_type == "stream":
            return min(self.size, stream_node_entries(self.value_bytes))
        return self.size

    @property
    def arguments(self) -> int:
        """Words of the request; not of a transaction, which has several."""
        if self.calling == "script":
            return 3 + round(sum(n * (call.arguments - 1) for call, n in self.times))
        return 1 + len(self.row.words) + self.items * len(self.row.each)

    @property
    def calling(self) -> Calling | None:
        """Whether it is a transaction or a script."""
        return None if self.other is None else self.other.calling

    @property
    def times(self) -> list[tuple[CommandKind, float]]:
        """The commands of a transaction or a script, and how often it calls each."""
        return [(call, call.share / self.share) for call in self.calls]

    @property
    def sent_value_bytes(self) -> int:
        """Bytes of the values, members and fields that a request brings beside its keys."""
        return self._data_bytes(self.row.words) + self.items * self._data_bytes(self.row.each)

    def _word_bytes(self, word: Word) -> int:
        """Bytes of any word but a key, without what the protocol adds."""
        if word == "entry":
            return self.value_bytes + self.item_bytes
        if word in _OF_ITEMS:
            return self.item_bytes
        return self.value_bytes if word == "value" else _ASSUMED_BYTES.get(word, len(word))

    def _data_bytes(self, words: Sequence[Word]) -> int:
        return sum(self._word_bytes(w) for w in words if w in _DATA)

    def _element_bytes(self, word: Word) -> int:
        """Bytes of an element of a reply as the protocol writes it."""
        if word == "integer":
            return _INTEGER_BYTES
        if word != "entry":
            return bulk_bytes(self._word_bytes(word))
        # An array of an id and of an array of a field and its value.
        parts = (_ASSUMED_BYTES["id"], self.item_bytes, self.value_bytes)
        return 2 * _header_bytes(2) + sum(bulk_bytes(part) for part in parts)

    @property
    def worked_share(self) -> float:
        """Share of the bytes of its values that take an engine instructions each to copy.

        The rest is copied as fast as memory streams (`LONG_BYTES`), or not at all.
        """
        if self.stored_values and self.value_bytes >= WHOLE_ARGUMENT_BYTES:
            return 0.0
        return min(1.0, LONG_BYTES / max(1, self.value_bytes))

    @property
    def returned_bytes(self) -> int:
        """Bytes of the values, members and fields that a reply brings."""
        return self.items * self._data_bytes(self.row.returned)

    @property
    def reply_values(self) -> int:
        """Bulk strings of the reply, or one for its status."""
        return self.items * len(self.row.reply) if isinstance(self.row.reply, tuple) else 1

    # Of each kind it is asked for at many places.
    @lru_cache(maxsize=1024, typed=True)  # noqa: B019
    def request_bytes(self, key_bytes: float) -> float:
        """Bytes of the request as the protocol writes it (RESP arrays of bulk strings)."""
        if self.other is not None and self.other.request_bytes is not None:
            return self.other.request_bytes
        if self.calls:
            return self._calling_bytes(key_bytes)
        key = _mean_bulk_bytes(key_bytes)

        def total(words: Sequence[Word]) -> float:
            others = sum(bulk_bytes(self._word_bytes(w)) for w in words if w != "key")
            return words.count("key") * key + others

        words = total(self.row.words) + self.items * total(self.row.each)
        return _header_bytes(self.arguments) + bulk_bytes(len(self.command)) + words

    def _calling_bytes(self, key_bytes: float) -> float:
        """Bytes of MULTI, the commands and EXEC, or of an EVALSHA with its commands' words."""
        sent = sum(n * call.request_bytes(key_bytes) for call, n in self.times)
        if self.calling == "transaction":
            return sent + 2 * _header_bytes(1) + bulk_bytes(len("MULTI")) + bulk_bytes(len("EXEC"))
        names = sum(
            n * (_header_bytes(call.arguments) + bulk_bytes(len(call.command)))
            for call, n in self.times
        )
        before = bulk_bytes(len("EVALSHA")) + bulk_bytes(_SHA1_DIGITS) + bulk_bytes(1)
        return _header_bytes(self.arguments) + before + sent - names

    @property
    def reply_bytes(self) -> int:
        """Bytes of the reply."""
        if self.other is not None and self.other.reply_bytes is not None:
            return self.other.reply_bytes
        if self.calling == "transaction":
            commands = sum(n for _, n in self.times)
            replies = sum(n * call.reply_bytes for call, n in self.times)
            around = len("+OK\r\n") + commands * len("+QUEUED\r\n") + _header_bytes(round(commands))
            return round(around + replies)
        if self.calls:
            return _INTEGER_BYTES
        reply = self.row.reply
        if reply == "integer":
            return _INTEGER_BYTES
        if not self.row.returned:
            return len(f"+{reply}\r\n")
        elements = self.items * sum(self._element_bytes(word) for word in self.row.returned)
        return elements + (_header_bytes(self.reply_values) if isinstance(reply, tuple) else 0)


_VALUE_BYTES = {"numbers": 8, "hyperloglog": 16 + 2**14 * 6 // 8}
"""Of values that are counters, and of a dense HyperLogLog: its header and 16,384 registers of six
bits (hyperloglog.c)."""

_OF_ITEMS = ("member", "field", "element", "absent")
_DATA = (*_OF_ITEMS, "value", "entry")

_OTHERS = {
    writes: CommandRow(type="string", words=("key",), reply="OK", writes=writes)
    for writes in (False, True)
}
"""Rows of what is not in the table, whose execution time and bytes are given."""


def bulk_bytes(length: int) -> int:
    """Bytes of a bulk string on the wire, for a payload of the given size."""
    return 1 + len(str(length)) + 2 + length + 2


def _mean_bulk_bytes(length: float) -> float:
    """The same of a mean payload, which most payloads exceed by less than one byte."""
    return bulk_bytes(math.ceil(length)) - (math.ceil(length) - length)


def _header_bytes(elements: int) -> int:
    """The first line of an array."""
    return 1 + len(str(elements)) + 2


def command_kinds(scenario: Scenario) -> list[CommandKind]:
    """The commands of a workload with their shares, which add up to one."""
    workload = scenario.workload
    commands, sizes = tuple(workload.commands.items()), tuple(workload.sizes)
    return list(_command_kinds(commands, sizes, tuple(workload.collections.items())))


# Most points of a sweep have the same, and each asks for it at many places.
@lru_cache(maxsize=256)
def _command_kinds(
    commands: tuple[tuple[str, Asked], ...],
    sizes: tuple[tuple[int, float], ...],
    collections: tuple[tuple[DataType, Collection], ...],
) -> tuple[CommandKind, ...]:
    kinds: list[CommandKind] = []
    of_type = dict(collections)
    for command, asked in commands:
        if not isinstance(asked, AskedOther):
            kinds += _kinds_of(command, asked.share, asked.items, sizes, of_type)
        elif asked.calls:
            calls: list[CommandKind] = []
            for name, times in asked.calls.items():
                calls += _kinds_of(name, asked.share * times, 1, sizes, of_type)
            kinds.append(CommandKind(command, 0, asked.share, other=asked, calls=tuple(calls)))
        else:
            kinds += [CommandKind(command, size, asked.share * w, other=asked) for size, w in sizes]
    return tuple(kinds)


def _kinds_of(
    command: str,
    share: float,
    items: int,
    sizes: Sequence[tuple[int, float]],
    of_type: Mapping[DataType, Collection],
) -> list[CommandKind]:
    """A command of the table: on a collection one, on strings one of each size of their values."""
    row = COMMANDS[command]
    found = of_type.get(row.type)
    if found is None:
        fixed = _VALUE_BYTES.get(row.holds)
        each = sizes if fixed is None else ((fixed, 1.0),)
        return [CommandKind(command, size, share * weight, items) for size, weight in each]
    return [
        CommandKind(
            command,
            found.field_value_bytes,
            share,
            found.size if row.items == "all" else min(items, found.size),
            found.size,
            found.item_bytes,
            integers=isinstance(found, WorkloadSets) and found.integers,
        )
    ]


def executed_kinds(kinds: Sequence[CommandKind]) -> list[CommandKind]:
    """What an engine executes: the commands themselves of transactions and scripts."""
    return [each for kind in kinds for each in kind.calls or (kind,)]


def sent_kinds(kinds: Sequence[CommandKind]) -> list[CommandKind]:
    """What comes and is answered one by one: also the commands of transactions, not of scripts."""
    return [
        each
        for kind in kinds
        for each in (kind.calls if kind.calling == "transaction" else (kind,))
    ]


def traced_codes(kinds: Sequence[CommandKind]) -> dict[str, np.ndarray]:
    """Codes of each command, each as often among 256 as it comes, in an order drawn once."""
    found = {}
    for command in {kind.command for kind in kinds}:
        codes = [code for code, kind in enumerate(kinds) if kind.command == command]
        shares = np.array([kinds[code].share for code in codes])
        ends = np.rint(np.cumsum(shares) / shares.sum() * _TRACED_SLOTS)
        table = np.array(codes)[np.searchsorted(ends, np.arange(_TRACED_SLOTS), side="right")]
        found[command] = np.random.default_rng(1).permutation(table)
    return found


def check_bytes_on_the_way(scenario: Scenario) -> None:
    """Refuse requests whose values together are larger than any server could hold.

    Raises
    ------
    InputError
        Clients times pipeline times the mean bytes of a request's values are too many.
    """
    workload = scenario.workload
    kinds = command_kinds(scenario)
    each = sum(k.share * k.largest_bytes for k in kinds)
    found = workload.clients * workload.pipeline * each
    if found > MOST_BYTES_ON_THE_WAY:
        largest = max(kinds, key=lambda k: k.share * k.largest_bytes)
        field = DESCRIBED_BY.get(largest.data_type, "value_bytes")
        if largest.other is not None:
            field = "mix.other"
        raise InputError(
            f"field 'workload.{field}': found {byte_size(found)} on the way "
            f"({workload.clients} clients times pipeline {workload.pipeline} times "
            f"{byte_size(each)}); valid are {byte_size(MOST_BYTES_ON_THE_WAY)}, as they "
            "lie in the server's memory."
        )


def check_trace(scenario: Scenario) -> None:
    """Refuse a trace of commands that the mix doesn't know, and cycles too long to be simulated.

    Raises
    ------
    InputError
        There is one; names the first request.
    """
    workload = scenario.workload
    varying = workload.varying
    if varying.trace is not None:
        known = workload.commands
        for number, command in enumerate(varying.trace.commands, start=1):
            if command not in known:
                raise InputError(
                    f"{workload.trace}: found {command} as request {number}; valid is a command "
                    f"of the mix, which says its sizes: {', '.join(known)}."
                )
    requests = (varying.mean_rate_rps or 0.0) * varying.cycle_ps / 1e12
    if workload.bursts is None and requests > MOST_CYCLE_REQUESTS:
        raise InputError(
            f"workload: found {requests:.0f} requests until arrivals repeat themselves; valid are "
            f"{MOST_CYCLE_REQUESTS}, since a simulation holds all of them."
        )


def keys_of_type(workload: Workload, data_type: DataType) -> int:
    """How many keys hold data of a type."""
    if data_type == "string":
        return workload.keys
    found = workload.collections.get(data_type)
    return found.keys if found is not None else 0


# --- instructions ------------------------------------------------------------------------------

ARGUMENT = "argument_instructions"
"""Parsing each word of a request after the second."""

LOG, LOG_WORD = "log_instructions", "log_instructions_per_word"
"""Writing a command and each of its words into the buffer of the append-only file, or into that of
all replicas."""

_GROWTH: dict[Term, tuple[str, Callable[[CommandKind], int]]] = {
    "call": ("instructions", lambda _: 1),
    "item": ("instructions_per_item", lambda kind: kind.items),
    "entry": ("instructions_per_entry", lambda kind: kind.items * kind.size),
    "seek": ("instructions_per_entry", lambda kind: kind.packed_entries),
    "byte": ("instructions_per_byte", lambda kind: kind.value_bytes),
}
"""What the name of a term's number ends with, and how often the term comes in a command."""


_NAMED = {"scan": "scan_keys"}
"""What stands for a command in the names of its work where an engine's own work has that name."""


def _prefix(command: str, encoding: Encoding) -> str:
    name = _NAMED.get(command, command)
    return name if encoding == "string" else f"{name}_{encoding}"


@cache
def work_of(command: str) -> tuple[str, ...]:
    """Names of the numbers of one command, in all encodings."""
    return tuple(
        f"{_prefix(command, encoding)}_{_GROWTH[term][0]}"
        for encoding, terms in COMMANDS[command].work.items()
        for term in terms
    )


ALL_COMMANDS = (ARGUMENT, LOG, LOG_WORD)
"""Names of what all commands have."""

CALLING: Mapping[Calling, tuple[str, str]] = {
    how: (f"{how}_instructions", f"{how}_instructions_per_call") for how in get_args(Calling)
}
"""MULTI and EXEC, or an EVALSHA, and what comes with each command they call."""

COMMAND_WORK: tuple[str, ...] = (
    *ALL_COMMANDS,
    *(name for names in CALLING.values() for name in names),
    *(name for command in COMMANDS for name in work_of(command)),
)
"""Names of the work of commands beyond GET and SET, in user code: `..._instructions` of executing
one, `..._per_item` more for each key, member or field it names, `..._per_entry` more for each
entry of a listpack that it searches (once per item; ZRANGE seeks once), `..._per_byte` more for
each byte of a value that it looks through. An engine has those of the commands that were counted on
it."""


def log_instructions(kind: CommandKind, work: Mapping[str, float]) -> float:
    """Instructions of writing a command into one buffer."""
    return work[LOG] + kind.arguments * work[LOG_WORD]


def prefix_of(kind: CommandKind) -> str:
    """What the names of a kind's work begin with."""
    return _prefix(kind.command, kind.encoding)


def work_terms(kind: CommandKind) -> dict[str, int]:
    """How often each number of `COMMAND_WORK` comes in executing a command.

    Of a transaction or a script what it takes beyond its commands.
    """
    if kind.calling is not None:
        once, each = CALLING[kind.calling]
        return {once: 1, each: round(sum(times for _, times in kind.times))}
    growths = [_GROWTH[term] for term in kind.row.work.get(kind.encoding, ())]
    return {f"{prefix_of(kind)}_{name}": count(kind) for name, count in growths}


def execute_instructions(kind: CommandKind, work: Mapping[str, float]) -> float:
    """Instructions of executing a command beyond GET and SET.

    Parameters
    ----------
    work
        By the names of `COMMAND_WORK`.
    """
    total = 0.0
    for name, times in work_terms(kind).items():
        total += times * work.get(name, 0.0)
    return total


def repeated_instructions(kind: CommandKind, work: Mapping[str, float]) -> float:
    """Those of `execute_instructions` that grow with items, entries or bytes."""
    if kind.calling is not None:
        return 0.0
    once = f"{prefix_of(kind)}_{_GROWTH['call'][0]}"
    return execute_instructions(kind, work) - work.get(once, 0.0)


def instructions_per_item(kind: CommandKind, work: Mapping[str, float]) -> float:
    """Instructions of each further item; 0 of a command whose work doesn't grow with items."""
    return work.get(f"{prefix_of(kind)}_instructions_per_item", 0.0)


def counted_on(work: Mapping[str, object]) -> list[str]:
    """The commands of the table whose work is known, GET and SET among them.

    Parameters
    ----------
    work
        By the names of `COMMAND_WORK`, or some of them.
    """
    return [command for command in COMMANDS if _is_counted(command, work)]


def _is_counted(command: str, work: Mapping[str, object]) -> bool:
    return all(name in work for name in work_of(command))


def _later_than(scenario: Scenario) -> list[str]:
    """Commands that came after the scenario's version of Redis."""
    if scenario.engine != "redis" or scenario.engine_version is None:
        return []
    return later_commands(scenario.engine_version)


def check_commands(scenario: Scenario, work: Mapping[str, object], *, engine: str) -> None:
    """Refuse commands whose work on an engine is unknown.

    Raises
    ------
    InputError
        There is one.
    """
    for kind in command_kinds(scenario):
        how = kind.calling
        if how is not None and any(name not in work for name in CALLING[how]):
            raise InputError(
                f"field 'workload.mix.other': found a {how} ({kind.command}); valid with {engine} "
                f"is execution_us, since what a {how} takes was not counted on it."
            )
    for command in sorted(scenario.workload.executed, key=[*COMMANDS].index):
        if _is_counted(command, work):
            continue
        row, known = COMMANDS[command], counted_on(work)
        of_type = row.type.replace("_", " ")
        alike = [name for name in commands_on(row.type) if name in known]
        if not work:
            valid = "get and set, since no other command's work was counted on it"
        elif command in _later_than(scenario):
            valid = f"a command that it has, since {command} came with Redis {row.since}"
        elif alike:
            valid = (
                f"on a {of_type} one of {', '.join(alike)}, since {command} was not counted on it"
            )
        else:
            valid = f"commands on other data, since none on a {of_type} was counted on it"
        raise InputError(
            f"field 'workload.mix': found {command}; valid with {engine} is {valid}; `mix.other` "
            "takes any command by its execution time."
        )
