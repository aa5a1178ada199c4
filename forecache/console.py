"""The console on standard output that all verbs print through."""

import os
import re
import sys
from typing import IO, NoReturn, cast

from rich.console import Console

_PIPE_COLUMNS = 120
"""What a file or a pipe gets."""

LISTING_COLUMNS = 200
"""A listing with sources is wider, so that a row stays one line."""


class _Console(Console):
    """A console that leaves it to the command line to end when the reader of a pipe goes away."""

    def on_broken_pipe(self) -> NoReturn:
        """Raise what was caught; rich itself would exit with 1, which here stands for a bug."""
        _, error, _ = sys.exc_info()
        raise error or BrokenPipeError


def console(*, pipe_columns: int = _PIPE_COLUMNS) -> Console:
    """Return a console on standard output, as wide as the terminal or as `COLUMNS` says.

    Parameters
    ----------
    pipe_columns
        Width where there is no terminal.
    """
    sized = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    file = None if sys.stdout.isatty() else cast(IO[str], _Trimmed(sys.stdout))
    return _Console(file=file, width=None if sized else pipe_columns, highlight=False)


class _Trimmed:
    """A stream whose lines end without the spaces that fill up a table; a terminal hides them."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write whole lines, which rich always does."""
        self._stream.write(re.sub(r" +$", "", text, flags=re.MULTILINE))
        return len(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)
