"""Results and progress in notebooks.

`models` and `calibration` answer; `reports` draws answers. This module hands one to the other, so
that an answer has `to_frame`, `plot` and a face of its own (`models/results/displayed.py`).
"""

from __future__ import annotations

import functools
import html
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .progress import COUNTED, TimeLeft

if TYPE_CHECKING:
    from forecache.models.results.displayed import Displayed

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class AnswerDisplay:
    """Tables, HTML and figures of answers, from `reports`."""

    def frame(self, result: Displayed, table: str | None, library: str | None) -> Any:
        """A table of a result as a data frame."""
        from forecache.reports.notebook import frame_of

        return frame_of(result, table, library)

    def html(self, result: Displayed) -> str:
        """Small HTML."""
        from forecache.reports.notebook import html_of

        return html_of(result)

    def headline(self, result: Displayed) -> str:
        """A line of text."""
        from forecache.reports.notebook import headline_of

        return headline_of(result)

    def figure(self, result: Displayed, name: str | None) -> Any:
        """The report's figure."""
        from forecache.reports.notebook import figure_of

        return figure_of(result, name)


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook. Nothing is imported to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


_SHORTEST_S = 0.1
"""Between two changes of the bar."""


class ProgressBar:
    """Progress as a bar below a notebook's cell, gone at the end; called with each step.

    A step that counts, "simulated 3 of 12 points", fills the bar as far.
    """

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._started_s = time.monotonic()
        self._shown_s = -_SHORTEST_S
        self._left = TimeLeft()
        self._handle = display(HTML(""), display_id=True)

    def __call__(self, message: str) -> None:
        """Show one step."""
        now_s = time.monotonic()
        counted = COUNTED.search(message)
        message += self._left.words(message, now_s)
        ends = counted is not None and counted[1] == counted[2]
        if now_s - self._shown_s < _SHORTEST_S and not ends:
            return
        self._shown_s = now_s
        self._handle.update(self._html(bar_html(message, seconds=now_s - self._started_s)))

    def close(self) -> None:
        """Take the bar away."""
        self._handle.update(self._html(""))


def bar_html(message: str, *, seconds: float) -> str:
    """A step as a bar with its text; without a count one that only says that something happens."""
    counted = COUNTED.search(message)
    done = ""
    if counted is not None:
        value, most = (int(text.replace(",", "")) for text in counted.groups())
        done = f' value="{value}" max="{max(1, most)}"'
    text = html.escape(" ".join(message.split()))
    return (
        f'<div style="font-size:13px"><progress{done} aria-label="{text}"></progress> '
        f"{text} ({seconds:.0f} s)</div>"
    )


def with_progress_bar(verb: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """A verb that shows its progress in a notebook, unless it is called with a `progress`."""

    @functools.wraps(verb)
    def called(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        if kwargs.get("progress") is not None or not in_notebook():
            return verb(*args, **kwargs)
        bar = ProgressBar()
        kwargs["progress"] = bar
        try:
            return verb(*args, **kwargs)
        finally:
            bar.close()

    return called
