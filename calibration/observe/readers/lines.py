"""Where in a file a reader is, and the checked numbers it finds there.

Readers share three promises: a problem is an `InputError` that names file and line, a number is
finite and written in plain ASCII digits, and an absent value is None and never zero.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from forecache.sim.errors import InputError

# What tools print where they have no value; a blank counts as well.
ABSENT = frozenset({"", "<not supported>", "<not counted>", "N/A", "n/a", "---", "(null)"})

_INTEGER = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_DECIMAL = re.compile(
    r"[+-]?(?:[0-9]{1,24}(?:\.[0-9]{0,24})?|\.[0-9]{1,24})(?:[eE][+-]?[0-9]{1,2})?"
)
_LARGEST_COUNT = 2**64 - 1
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file; lines count from 1, and 0 stands for the file as a whole."""

    file: str
    line: int

    def wrong(self, found: str, *, valid: str) -> InputError:
        """The error to raise: `{file}, line {n}: found ...; valid is ...`."""
        line = f", line {self.line}" if self.line else ""
        return InputError(f"{self.file}{line}: found {found}; valid is {valid}.")

    def decimal(self, text: str, what: str, *, lowest: float = 0.0, highest: float = 1e30) -> float:
        """A decimal number in a range, both ends included; blanks around it are allowed.

        Raises
        ------
        InputError
            The text is no plain decimal number (`nan`, `inf`, `1_000`, `0x10` and more than 24
            digits are none), or out of the range.
        """
        text = text.strip()
        if _DECIMAL.fullmatch(text) and lowest <= (value := float(text)) <= highest:
            return value + 0.0  # -0.0 becomes 0.0
        raise self._no(what, text, valid=f"a number from {lowest:g} to {highest:g}")

    def count(self, text: str, what: str, *, lowest: int = 0, highest: int = _LARGEST_COUNT) -> int:
        """An integer in a range, both ends included; `InputError` as for `decimal`."""
        text = text.strip()
        if _INTEGER.fullmatch(text) and lowest <= (value := int(text)) <= highest:
            return value
        raise self._no(what, text, valid=f"an integer from {lowest} to {highest}")

    def _no(self, what: str, text: str, *, valid: str) -> InputError:
        return self.wrong(f"{shown(text)} as {what[:_SHOWN_CHARACTERS]}", valid=valid)

    def fraction_of_percent(self, text: str, what: str) -> float:
        """A share written in percent, with or without the sign, as a fraction from 0 to 1."""
        return self.decimal(text.strip().removesuffix("%"), f"{what} in percent", highest=100) / 100


def numbered(text: str, *, file: str) -> Iterator[tuple[Place, str]]:
    """Every line of a text with its place; only `\\n` and `\\r\\n` end a line."""
    for number, line in enumerate(text.split("\n"), start=1):
        yield Place(file, number), line.removesuffix("\r")


def shown_value(value: object) -> str:
    """A value of a field as an error shows it."""
    return shown(value) if isinstance(value, str) else shown(repr(value))[1:-1]


def shown(text: str) -> str:
    """A text as an error shows it: quoted, escaped, cut to a length that fits in a sentence."""
    quoted = repr(text)
    if len(quoted) <= _SHOWN_CHARACTERS:
        return quoted if text.strip() else "nothing"
    return quoted[: _SHOWN_CHARACTERS - 3] + "..."
