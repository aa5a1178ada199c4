"""A result as small HTML: a headline, some lines and one table.

Colours are those of the text around it, so that it is readable on light and dark pages alike; where
a page takes away styles, headline and table remain. All text is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

MOST_ROWS = 12

_STYLE = Markup(
    "<style>"
    ".forecache{font-size:13px;line-height:1.45;max-width:70em;overflow-x:auto}"
    ".forecache p{margin:0 0 4px}"
    ".forecache .about,.forecache caption{opacity:.7}"
    ".forecache table{font-size:inherit;border-collapse:collapse;margin:6px 0;"
    "font-variant-numeric:tabular-nums}"
    ".forecache th,.forecache td{background:none;color:inherit;text-align:right;border:0;"
    "border-bottom:1px solid rgba(128,128,128,.35);padding:2px 12px 2px 0;white-space:nowrap}"
    ".forecache th.word,.forecache td.word{text-align:left}"
    ".forecache tr.marked td{font-weight:bold}"
    ".forecache caption{caption-side:bottom;text-align:left}"
    "</style>"
)


@dataclass(frozen=True)
class Card:
    """What is shown of a result.

    Attributes
    ----------
    about
        What it is about, in muted text before the headline.
    header, rows
        Cells of the table, as text; of many rows the first are shown.
    marked
        The row in bold.
    more
        Which method has the rest.
    """

    headline: str
    about: str = ""
    lines: Sequence[str] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    marked: int | None = None
    warnings: Sequence[str] = field(default=())
    more: str = ".to_frame()"

    def html(self) -> str:
        """The fragment."""
        warnings = [f"Warning: {text}" for text in self.warnings]
        paragraphs = [
            *([Markup('<p class="about">{}</p>').format(self.about)] if self.about else []),
            Markup("<p><b>{}</b></p>").format(self.headline),
            *(Markup("<p>{}</p>").format(text) for text in [*self.lines, *warnings] if text),
        ]
        body = Markup("").join([*paragraphs, self._table()])
        return str(_STYLE + Markup('<div class="forecache">{}</div>').format(body))

    def _table(self) -> Markup:
        if not self.rows:
            return Markup("")
        shown = list(self.rows[:MOST_ROWS])
        words = [
            any(row[place][:1].isalpha() for row in shown) for place in range(len(self.header))
        ]
        left = len(self.rows) - len(shown)
        told = f"{left} more rows: {self.more}" if left else f"{self.more} has all columns"
        head = _cells("th", self.header, words)
        body = Markup("").join(
            Markup("<tr{}>{}</tr>").format(
                Markup(' class="marked"' if place == self.marked else ""),
                _cells("td", row, words),
            )
            for place, row in enumerate(shown)
        )
        return Markup(
            "<table><caption>{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>"
        ).format(told, head, body)


def _cells(tag: str, texts: Sequence[str], words: Sequence[bool]) -> Markup:
    return Markup("").join(
        Markup("<{0}{1}>{2}</{0}>").format(
            Markup(tag), Markup(' class="word"' if word else ""), escape(text)
        )
        for text, word in zip(texts, words, strict=True)
    )
