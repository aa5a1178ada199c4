"""Costs per function and call in the files of valgrind's Callgrind.

The format is specified in the valgrind manual, "Callgrind Format Specification". Each part of a
profile writes its total down, which is held against the sum of what was read, so damage to a
function's own cost doesn't pass. Costs of calls have no such sum.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from forecache.hwprofiles.files import read_text

from .lines import Place, numbered, shown


@dataclass(frozen=True)
class FunctionCost:
    """What a function itself costs, over all parts: a count for every event, zeros included.

    `object` is the program or library, `file` the source file; `???` is Callgrind's word for one
    it doesn't know.
    """

    object: str
    file: str
    self: dict[str, int]


@dataclass(frozen=True)
class Call:
    """All calls of one function by another; `inclusive` is their cost with all they called."""

    caller: str
    callee: str
    count: int
    inclusive: dict[str, int]


@dataclass(frozen=True)
class CallgrindProfile:
    """A profile; `totals` is the sum over `functions`.

    Keys of `functions` are names. Where functions of different files or objects share one, all of
    these are keyed `name [object, file]`.
    """

    events: tuple[str, ...]
    totals: dict[str, int]
    functions: dict[str, FunctionCost]
    calls: tuple[Call, ...]


_HEADER = re.compile(r"([a-z]+):(.*)")
_POSITION = re.compile(r"(ob|fl|fi|fe|fn|cob|cfi|cfl|cfn|jfi|jfn)= *(.*)")
_NAMED = re.compile(r"\(([0-9]+)\)(?: +(.*))?")
_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,16}|[0-9]{1,20}")
_SUBPOSITION = re.compile(r"[+-]?(?:0x[0-9a-fA-F]{1,16}|[0-9]{1,20})|\*")
_JUMP = re.compile(r"(?:jump=[0-9]+|jcnd=[0-9]+[/ ][0-9]+) (.+)")
_EVENT = re.compile(r"[A-Za-z]\w*")
_POSITIONS = ("line", "instr", "instr line")
_IGNORED = ("version", "creator", "pid", "cmd", "part", "thread", "desc", "event", "target")
# Names of files, objects and functions are numbered apart; those called or jumped to share them.
_KIND = {"ob": "ob", "cob": "ob", "fn": "fn", "cfn": "fn", "jfn": "fn"}

_KeyT = TypeVar("_KeyT")
# Object, file, name.
_Function = tuple[str, str, str]


def read_callgrind(path: str | Path) -> CallgrindProfile:
    """Read a `callgrind.out` file."""
    return parse_callgrind(read_text(path), file=str(path))


def parse_callgrind(text: str, *, file: str) -> CallgrindProfile:
    """The costs of a profile of one or several parts, parts added up.

    Raises
    ------
    InputError
        A line that the format doesn't know, a part without `events:` or with others than the part
        before, or a part whose costs don't add up to its `totals:` line (without one, `summary:`).
    """
    reader = _Reader(file)
    for at, line in numbered(text, file=file):
        reader.take(at, line.rstrip())
    return reader.finish()


@dataclass
class _Part:
    """What a part of the file said so far."""

    events: tuple[str, ...] | None = None
    n_positions: int | None = None
    sums: dict[str, list[int]] = field(default_factory=dict)
    costs: list[int] = field(default_factory=list)
    has_body: bool = False


class _Reader:
    """Takes a file line by line."""

    def __init__(self, file: str) -> None:
        self.at = Place(file, 0)
        self.events: tuple[str, ...] | None = None
        self.part = _Part()
        self.n_parts = 0
        self.names: dict[tuple[str, str], str] = {}
        self.object = self.file = self.function_file = "???"
        self.function: _Function | None = None
        self.called: dict[str, str] = {}
        self.call_count: int | None = None
        self.self_costs: dict[_Function, list[int]] = {}
        self.call_costs: dict[tuple[_Function, _Function], list[int]] = {}

    def take(self, at: Place, line: str) -> None:
        """One line, of the header or of the body."""
        self.at = at
        if not line or line.startswith("#"):
            return
        if self.call_count is not None:
            self._call_cost(self.call_count, line)
        elif found := _POSITION.fullmatch(line):
            self._position(found[1], found[2])
        elif found := _HEADER.fullmatch(line):
            self._header(found[1], found[2].strip())
        elif line.startswith("calls="):
            self._call(line.removeprefix("calls=").split())
        elif found := _JUMP.fullmatch(line):
            self._subpositions(found[1].split())
        else:
            self._self_cost(line.split())

    def finish(self) -> CallgrindProfile:
        """The profile, when all lines are taken."""
        self._close()
        if self.events is None:
            raise Place(self.at.file, 0).wrong("no costs", valid="a callgrind.out file")
        return _profile(self.events, self.self_costs, self.call_costs)

    def _wrong(self, found: str, *, valid: str) -> Exception:
        return self.at.wrong(found, valid=valid)

    def _header(self, key: str, value: str) -> None:
        part = self.part
        if part.has_body and key != "totals":
            self._close()
            part = self.part
        if key == "events":
            events = tuple(value.split())
            if (
                part.events is not None
                or events != (self.events or events)
                or len(set(events)) < max(len(events), 1)
                or not all(_EVENT.fullmatch(event) for event in events)
            ):
                raise self._wrong(
                    f"the events {shown(value)}", valid="different names, the same in all parts"
                )
            part.events = self.events = events
            part.costs = [0] * len(events)
        elif key == "positions":
            if value not in _POSITIONS or part.n_positions is not None:
                raise self._wrong(
                    f"positions {shown(value)}", valid="once " + " or ".join(_POSITIONS)
                )
            part.n_positions = len(value.split())
        elif key in ("summary", "totals"):
            if part.events is None or key in part.sums:
                raise self._wrong(f"{key}:", valid="one behind `events:` in each part")
            part.sums[key] = self._numbers(value.split())
            part.has_body = part.has_body or key == "totals"
        elif key not in _IGNORED:
            raise self._wrong(shown(f"{key}: {value}"), valid="a line of the callgrind format")

    def _close(self) -> None:
        """Check a part's sums, and begin the next one."""
        part, self.part = self.part, _Part()
        if self.call_count is not None:
            raise self._wrong("a call without its cost", valid="a cost behind `calls=`")
        if not part.has_body and self.n_parts:
            # A header with nothing behind it, as at the end of a file that was cut.
            raise self._wrong("a part without costs", valid="a whole file")
        self.n_parts += 1
        # The summary is no sum: with --cache-sim=yes Callgrind 3.19 counts two more instructions.
        stated = part.sums.get("totals", part.sums.get("summary"))
        if stated is None:
            raise self._wrong("a part without `totals:`", valid="a whole file")
        if stated != part.costs:
            raise self._wrong(
                f"the total {_text(stated)} where the costs add up to {_text(part.costs)}",
                valid="a whole file, with the same in both",
            )

    def _position(self, spec: str, text: str) -> None:
        self.part.has_body = True
        name = self._name(_KIND.get(spec, "fl"), text)
        if spec in ("cob", "cfi", "cfl", "cfn"):
            self.called["cfi" if spec == "cfl" else spec] = name
        elif spec == "ob":
            self.object = name
        elif spec == "fn":
            # `fi=` and `fe=` say where code was inlined from; a function's own file is `fl=`.
            self.file = self.function_file
            self.function = (self.object, self.file, name)
        elif spec in ("fl", "fi", "fe"):
            self.file = name
            if spec == "fl":
                self.function_file = name

    def _name(self, kind: str, text: str) -> str:
        """A name, or what its number stands for."""
        found = _NAMED.fullmatch(text)
        if found is None:
            if not text:
                raise self._wrong("no name", valid="a name or a number in parentheses")
            return text
        key = (kind, found[1])
        known, name = self.names.get(key), found[2]
        if name is None:
            if known is None:
                raise self._wrong(shown(text), valid="a number that was given a name before")
            return known
        if known is not None and known != name:
            raise self._wrong(shown(text), valid=f"the first name of its number, {shown(known)}")
        self.names[key] = name
        return name

    def _numbers(self, fields: list[str]) -> list[int]:
        """A count for every event; those left out at the end are zero."""
        events = self.part.events
        if events is None:
            raise self._wrong("costs", valid="`events:` before them")
        if len(fields) > len(events) or not all(_NUMBER.fullmatch(text) for text in fields):
            raise self._wrong(shown(" ".join(fields)), valid=f"up to {len(events)} counts")
        numbers = [int(text, 16 if text.startswith("0x") else 10) for text in fields]
        if any(number >= 2**64 for number in numbers):
            raise self._wrong(shown(" ".join(fields)), valid="counts below 2^64")
        return numbers + [0] * (len(events) - len(numbers))

    def _subpositions(self, fields: list[str]) -> list[str]:
        """Check the positions a line begins with; the rest of its fields."""
        n = self.part.n_positions or 1
        if len(fields) < n or not all(_SUBPOSITION.fullmatch(text) for text in fields[:n]):
            raise self._wrong(shown(" ".join(fields)), valid="a line of the callgrind format")
        return fields[n:]

    def _self_cost(self, fields: list[str]) -> None:
        numbers = self._numbers(self._subpositions(fields))
        if self.function is None:
            raise self._wrong("a cost", valid="`fn=` before it")
        self.part.has_body = True
        _add(self.self_costs, self.function, numbers)
        self.part.costs = [a + b for a, b in zip(self.part.costs, numbers, strict=True)]

    def _call(self, fields: list[str]) -> None:
        self.part.has_body = True
        if self.function is None or "cfn" not in self.called or not fields:
            raise self._wrong("calls=", valid="`fn=` and `cfn=` before it, and a count")
        self.call_count = self.at.count(fields[0], "a number of calls")
        if self._subpositions(fields[1:]):
            raise self._wrong(shown(" ".join(fields)), valid="a count and a position")

    def _call_cost(self, count: int, line: str) -> None:
        numbers = self._numbers(self._subpositions(line.split()))
        assert self.function is not None
        callee = (
            self.called.get("cob", self.object),
            self.called.get("cfi", self.file),
            self.called["cfn"],
        )
        _add(self.call_costs, (self.function, callee), [count, *numbers])
        self.called, self.call_count = {}, None


def _add(table: dict[_KeyT, list[int]], key: _KeyT, numbers: list[int]) -> None:
    known = table.get(key)
    table[key] = numbers if known is None else [a + b for a, b in zip(known, numbers, strict=True)]


def _text(numbers: list[int]) -> str:
    return " ".join(str(number) for number in numbers[:4]) + (" ..." if len(numbers) > 4 else "")


def _profile(
    events: tuple[str, ...],
    self_costs: dict[_Function, list[int]],
    call_costs: dict[tuple[_Function, _Function], list[int]],
) -> CallgrindProfile:
    """The result, with functions by name."""
    everywhere = dict.fromkeys(self_costs)
    for caller, callee in call_costs:
        everywhere |= {caller: None, callee: None}
    bearers: dict[str, int] = {}
    for _, _, name in everywhere:
        bearers[name] = bearers.get(name, 0) + 1
    keys = {
        (obj, file, name): name if bearers[name] == 1 else f"{name} [{obj}, {file}]"
        for obj, file, name in everywhere
    }
    zeros = [0] * len(events)

    def by_event(numbers: list[int]) -> dict[str, int]:
        return dict(zip(events, numbers, strict=True))

    return CallgrindProfile(
        events=events,
        totals=by_event([sum(column) for column in zip(zeros, *self_costs.values(), strict=True)]),
        functions={
            key: FunctionCost(function[0], function[1], by_event(self_costs.get(function, zeros)))
            for function, key in keys.items()
        },
        calls=tuple(
            Call(keys[caller], keys[callee], numbers[0], by_event(numbers[1:]))
            for (caller, callee), numbers in call_costs.items()
        ),
    )
