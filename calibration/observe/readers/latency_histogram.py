"""The reply of LATENCY HISTOGRAM, as a list of RESP2 or as redis-cli and valkey-cli print it.

For every command it has the number of calls and a map from upper bounds in microseconds, about
powers of two, to the number of calls up to them (https://valkey.io/commands/latency-histogram/).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from forecache.hwprofiles.files import read_text

from ...drive.resp import Reply
from .lines import Place, numbered, shown

# `2) 1) "calls"`, `1# "get" => `, `4)  1) (integer) 1`: numbering, then a value.
_NUMBERING = re.compile(r"^(?:\s*[0-9]+[)#])*\s*")
_VALID = "command, calls, their number, histogram_usec, bounds and counts"


@dataclass(frozen=True)
class CommandLatencies:
    """How long the calls of a command took.

    Attributes
    ----------
    calls : int
    calls_up_to_us : dict
        From the upper bound of a bucket in microseconds to the number of calls at or below it;
        bounds that no call adds to are left out.
    """

    calls: int
    calls_up_to_us: dict[int, int]


def read_latency_histogram(path: str | Path) -> dict[str, CommandLatencies]:
    """Read what redis-cli printed into a file; see `parse_latency_histogram`."""
    return parse_latency_histogram(read_text(path), file=str(path))


def parse_latency_histogram(text: str, *, file: str) -> dict[str, CommandLatencies]:
    """Read the reply as a client prints it, by command: raw, numbered, or as a RESP3 map.

    Raises
    ------
    InputError
        It is no such reply, is cut, or its counts contradict each other.
    """
    return _commands(_printed_words(text, file), Place(file, 0))


def latencies_of_reply(
    reply: Reply, *, file: str = "LATENCY HISTOGRAM"
) -> dict[str, CommandLatencies]:
    """Read the reply as a RESP2 client gives it; `InputError` as for `parse_latency_histogram`."""
    whole = Place(file, 0)
    return _commands(((whole, word) for word in _reply_words(reply)), whole)


def _printed_words(text: str, file: str) -> Iterator[tuple[Place, str]]:
    for place, line in numbered(text, file=file):
        for part in line.split(" => "):
            word = _NUMBERING.sub("", part, count=1).strip().removeprefix("(integer) ")
            quoted = len(word) >= 2 and word.startswith('"') and word.endswith('"')
            if word:
                yield place, word[1:-1] if quoted else word


def _reply_words(reply: Reply) -> Iterator[str]:
    """The leaves of a nested reply, in order."""
    pending = [reply]
    while pending:
        item = pending.pop()
        if isinstance(item, str | int) or item is None:
            yield str(item)
        else:
            pending.extend(reversed(item))


def _commands(words: Iterator[tuple[Place, str]], whole: Place) -> dict[str, CommandLatencies]:
    commands: dict[str, CommandLatencies] = {}
    ahead = list(words)
    at = 0
    while at < len(ahead):
        place, name = ahead[at]
        if name in commands or [word for _, word in ahead[at + 1 : at + 4 : 2]] != [
            "calls",
            "histogram_usec",
        ]:
            raise place.wrong(f"{shown(name)} without its calls, or again", valid=_VALID)
        calls = ahead[at + 2][0].count(ahead[at + 2][1], "the number of calls")
        at += 4
        numbers: list[int] = []
        while at < len(ahead) and ahead[at][1].isdecimal():
            numbers.append(ahead[at][0].count(ahead[at][1], "a bound or count", lowest=1))
            at += 1
        bounds, counts = numbers[::2], numbers[1::2]
        ascending = all(low < high for column in (bounds, counts) for low, high in pairwise(column))
        if len(bounds) != len(counts) or not ascending or [calls][: calls > 0] != counts[-1:]:
            raise place.wrong(
                f"{shown(name)} with {calls} calls and {len(counts)} counts",
                valid="bounds and counts that ascend, the last count being that of the calls",
            )
        commands[name] = CommandLatencies(calls, dict(zip(bounds, counts, strict=True)))
    if not commands:
        raise whole.wrong("no command", valid=_VALID)
    return commands
