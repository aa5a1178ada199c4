"""Progress of long work on standard error.

Nothing runs in the background: a refreshing thread would take time from the cores an observation
measures.
"""

import re
import sys
import time
from typing import TextIO

from forecache.sim.effort import duration_words

COUNTED = re.compile(r"([\d,]+) of ([\d,]+)")
"""In a step: how many are done, of how many."""
_LEAST_LEFT_S = 2.0
"""Less than this is not worth a word."""

# In a log, steps of one kind (the same first word) come at most this often.
_LOG_INTERVAL_S = 5.0


class TimeLeft:
    """How long the steps that count will take, from how long those before took."""

    def __init__(self) -> None:
        self._what = ""
        self._first = 0
        self._first_s = 0.0

    def words(self, message: str, now_s: float) -> str:
        """`, about 40 s left`; empty at the first step of a kind, and where nothing is counted."""
        counted = COUNTED.search(message)
        if counted is None:
            return ""
        done, most = (int(text.replace(",", "")) for text in counted.groups())
        what = COUNTED.sub("", message)
        if what != self._what or done <= self._first:
            self._what, self._first, self._first_s = what, done, now_s
            return ""
        left_s = (most - done) * (now_s - self._first_s) / (done - self._first)
        return f", about {duration_words(left_s)} left" if left_s >= _LEAST_LEFT_S else ""


class Progress:
    """Prints each step once; on a terminal the line of the current step is rewritten.

    A message that ends in a new line stays there. In a log, where every step is a line of its own,
    steps of one kind are thinned out.

    Parameters
    ----------
    stream
        Where to write; standard error by default.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._terminal = self._stream.isatty()
        self._start_s = time.monotonic()
        self._last = ""
        self._kind = ""
        self._kind_shown_s = 0.0
        self._left = TimeLeft()

    def __call__(self, message: str) -> None:
        """Show one step; the same message twice in a row is shown once."""
        stays = message.endswith("\n")
        message = " ".join(message.split())
        if not message or message == self._last:
            return
        self._last = message
        elapsed_s = time.monotonic() - self._start_s
        kind = message.split()[0]
        left = self._left.words(message, elapsed_s)
        again = kind == self._kind and elapsed_s - self._kind_shown_s < _LOG_INTERVAL_S
        if again and not self._terminal:
            return
        self._kind, self._kind_shown_s = kind, elapsed_s
        line = f"[{elapsed_s:5.1f} s] {message}{left}"
        try:
            if self._terminal:
                shown = line + "\n" if stays else line[: _terminal_columns() - 1]
                self._stream.write(f"\r\x1b[2K{shown}")
            else:
                self._stream.write(line + "\n")
            self._stream.flush()
        except OSError:
            # The reader of the messages is gone; the work itself goes on.
            self._terminal = False

    def close(self) -> None:
        """End the current line, so that what comes next starts on its own."""
        if self._terminal and self._last:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
        self._last = ""


def _terminal_columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns
