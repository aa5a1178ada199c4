"""A file of one node: which commands were asked, and what each replied.

Such a file is what `valkey-cli` or `redis-cli` print, with a line before each reply that begins
with `>` and names the command, or a transcript of a terminal, whose prompt does the same. What
comes before the first such line is taken to be INFO. Replies may be as tools print them to a
file (bare lines) or to a terminal (`1) "name"`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..observe.readers.lines import Place, numbered

ASKED = (
    *("INFO", "CONFIG", "MEMORY", "SLOWLOG", "COMMANDLOG", "CLUSTER"),
    *("ACL", "CLIENT", "COMMAND", "DBSIZE", "LATENCY", "MODULE", "ROLE"),
)
"""First words of commands that may have been asked; not all replies are read."""

_PROMPT = re.compile(r"[^\s>]{0,200}> ?([A-Za-z][^>]{0,200})")
_ITEM = re.compile(r"\s*(?:\d{1,9}[)#]\s+)+")
_PAIR = re.compile(r"(.+?) => (.*)")
_QUOTED = re.compile(r'"(.*)"', re.DOTALL)
_ESCAPED = re.compile(r"\\(x[0-9a-fA-F]{2}|.)")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b"}
_NOTHING = ("(empty array)", "(empty list or set)", "(nil)")

Line = tuple[Place, str]


@dataclass(frozen=True)
class Reply:
    """What a command replied.

    Attributes
    ----------
    command
        In capitals, with single blanks: `CONFIG GET *`.
    place
        Where the reply begins.
    lines
        Its lines, as they stand in the file.
    """

    command: str
    place: Place
    lines: tuple[Line, ...]

    @property
    def refused(self) -> str | None:
        """The error that came instead of a reply; None if it was one."""
        first = next((text.strip() for _, text in self.lines if text.strip()), "")
        text = first.removeprefix("(error) ")
        words = text.split(" ", 1)[0]
        return text if words in ("ERR", "NOPERM", "NOAUTH", "WRONGPASS", "LOADING") else None

    def items(self) -> list[Line]:
        """Elements of an array in their order, those of arrays in it too."""
        found: list[Line] = []
        for place, line in self.lines:
            item = _ITEM.match(line)
            text = line[item.end() :] if item else line
            if text.strip() in _NOTHING:
                continue
            pair = _PAIR.fullmatch(text) if item else None
            parts = pair.groups() if pair else (text,)
            found += [(place, _bare(part) if item else part) for part in parts]
        while found and not found[-1][1] and len(found) % 2:
            found.pop()  # the blank line with which a tool ends a reply
        return found


def replies_of(text: str, *, file: str) -> list[Reply]:
    """The replies in a file, in their order."""
    found: list[tuple[str, Place, list[Line]]] = [("INFO", Place(file, 1), [])]
    for place, line in numbered(text, file=file):
        prompt = _PROMPT.fullmatch(line.rstrip())
        if prompt and prompt[1].split()[0].upper() in ASKED:
            command = " ".join(prompt[1].split()).upper().replace('"', "").replace("'", "")
            found.append((command, Place(file, place.line + 1), []))
        else:
            found[-1][2].append((place, line))
    return [
        Reply(command, place, tuple(lines))
        for command, place, lines in found
        if any(text.strip() for _, text in lines)
    ]


def _bare(text: str) -> str:
    """An element without the marks of its type."""
    text = text.strip().removeprefix("(integer) ")
    quoted = _QUOTED.fullmatch(text)
    return _ESCAPED.sub(_letter, quoted[1]) if quoted else text


def _letter(match: re.Match[str]) -> str:
    code = match[1]
    if code.startswith("x") and len(code) == 3:
        return chr(int(code[1:], 16))
    return _LETTERS.get(code, code)
