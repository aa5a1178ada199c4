"""What an answer shows: sections of texts, facts, tables, figures, code and notes.

`builders/` makes a document of each kind of answer. The renderers, `terminal.py`, `page.py`,
`paper.py` and `notebook.py`, know these parts and no kind of answer. A part that only one of them
shows has its name in `on`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from forecache.models.results.series import Floats, Stack, Ticks

    from .text.repeat import Question
    from .text.runs import Moment, Panel
    from .tidy import TidyTable

TERMINAL: Literal["terminal"] = "terminal"
PAGE: Literal["page"] = "page"
NOTEBOOK: Literal["notebook"] = "notebook"
On = Literal["", "terminal", "page", "notebook"]
"""The only renderer that shows a part; all of them if it is empty. A paper is a page."""

HALF_PX, WIDE_PX, PLOT_PX = 548, 700, 1000
"""Widths of figures: one of two side by side, one above all else, a plot against time."""


@dataclass(frozen=True)
class Text:
    """A sentence or a phrase; what stands between backticks is code."""

    text: str
    style: Literal["", "muted", "strong"] = ""
    on: On = ""


@dataclass(frozen=True)
class Items:
    """A list of sentences; empty ones are left out."""

    sentences: Sequence[str]
    on: On = ""


@dataclass(frozen=True)
class Facts:
    """Pairs of a name and a text; a third text in a row is a note."""

    rows: Sequence[tuple[str, ...]]
    numeric: bool = False
    """Whether the texts are numbers, aligned to the right on a terminal."""
    in_lines: bool = False
    """Whether a page sets them one after another in a paragraph, as they are many and short."""
    on: On = ""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    cells: Sequence[str]
    numeric: bool = True
    """Whether it is aligned to the right, as numbers are."""
    wraps: bool = False
    """Whether a cell may take several lines."""
    cut: bool = False
    """Whether a cell may end in … on a terminal."""
    drop: int = 0
    """In which order columns are left out where a terminal is too narrow: 1 first, 0 never."""
    meaning: str = ""
    """What a short name stands for."""
    style: Literal["", "muted", "bar", "mark", "name", "kind"] = ""
    """`bar`: block characters, which say nothing aloud; `mark`: begins with ✓ ~ ✗ or ?; `name`:
    dotted names; `kind`: the kinds of `hwprofiles.quantity`."""
    on: On = ""


def words(name: str, cells: Sequence[str], **how: Any) -> Column:
    """A column of words, aligned to the left."""
    return Column(name, cells, numeric=False, **how)


@dataclass(frozen=True)
class TextTable:
    """Rows of texts."""

    columns: Sequence[Column]
    marked: int | None = None
    """The row that stands out."""
    strong: Sequence[int] = ()
    """Rows in bold, such as sums."""
    groups: Mapping[int, str] = field(default_factory=dict)
    """Names of groups of rows, by the first row of each."""
    lead: int = 0
    """How many columns say what a row is about: those are repeated where a terminal is too narrow
    for all others. With 0, rows become blocks of lines there."""
    narrower: Sequence[Column] = ()
    """Columns to show instead where a terminal is too narrow; the first one leads."""
    most: int | None = None
    """Rows that are shown at once; the others are folded, or only counted."""
    stacked: bool = False
    """Whether the cells of a row stand below each other on a narrow screen: for sentences."""
    targets: Sequence[str] = ()
    """Anchors of the sections that rows lead to."""
    legend: Callable[[Sequence[str]], str] | None = None
    """Makes the text below the table from the names of its columns, in place of their meanings."""
    on: On = ""

    def rows(self, columns: Sequence[Column]) -> list[tuple[str, ...]]:
        """Cells of some of its columns, row by row."""
        return list(zip(*(column.cells for column in columns), strict=True))

    def said_below(self, columns: Sequence[Column]) -> str:
        """What short names of these columns stand for; empty where there are none."""
        if self.legend is not None:
            return self.legend([column.name for column in columns])
        return "; ".join(f"{each.name}: {each.meaning}" for each in columns if each.meaning)


Draw: TypeAlias = "Callable[[float], Drawing | None]"
"""Draws a figure at a width in pixels; None where there is nothing to draw."""


@dataclass(frozen=True)
class Figure:
    """A figure, drawn when it is shown.

    Attributes
    ----------
    name
        What `plot` of an answer and files call it.
    label
        What a screen reader says.
    """

    name: str
    draw: Draw
    title: str = ""
    caption: str = ""
    label: str = ""
    width_px: int = HALF_PX
    sketch: Sequence[Part] = ()
    """What a terminal shows of it."""
    on: On = ""


@dataclass(frozen=True)
class Code:
    """Commands or configuration, to be copied."""

    text: str
    label: str = ""
    """What it is: a screen reader says it."""
    shell: bool = False
    """Whether they are commands."""
    on: On = ""


@dataclass(frozen=True)
class Warnings:
    """Warnings."""

    warnings: Sequence[str]
    title: str = "Before you rely on this"
    whole: bool = False
    """Whether a terminal shows all, however many there are."""
    on: On = ""


@dataclass(frozen=True)
class Sparklines:
    """Values over time on a terminal, a line each; a page has figures instead."""

    times_s: Floats
    panels: Sequence[Panel]
    moments: Sequence[Moment]
    ticks: Sequence[Ticks]
    idle: Sequence[str]
    """Names of values that are 0 all the time."""
    on: On = TERMINAL


@dataclass(frozen=True)
class StackLines:
    """Stacked bars at some times on a terminal, a line for each time."""

    stacks: Sequence[Stack]
    on: On = TERMINAL


@dataclass(frozen=True)
class Folded:
    """Parts that a page shows once the reader unfolds them."""

    title: str
    parts: Sequence[Part]
    on: On = ""


@dataclass(frozen=True)
class Beside:
    """Parts in two columns where there is room: the first is the main one unless they are equal."""

    left: Sequence[Part]
    right: Sequence[Part]
    equal: bool = False
    on: On = ""


@dataclass(frozen=True)
class Section:
    """Parts under a heading."""

    title: str
    parts: Sequence[Part]
    anchor: str = ""
    tone: Literal["", "plain", "good", "bad"] = ""
    """Of a title that is the answer: whether it meets what was asked for."""
    above: str = ""
    """Line above the title."""
    title_on: On = ""
    begins_page: bool = False
    """Whether it begins a page of a paper."""
    on: On = ""


Part: TypeAlias = (
    "Text | Items | Facts | TextTable | Figure | Code | Warnings | Sparklines | StackLines | Folded"
    " | Beside | Section"
)


@dataclass(frozen=True)
class Document:
    """An answer as it is shown.

    Attributes
    ----------
    about
        What it is about, in a line.
    headline
        What the answer is, in a line.
    title, byline
        What a page says at its head, with `about` in place of a title that is empty.
    more
        The method that has all of it in a notebook.
    """

    about: str
    headline: str
    sections: Sequence[Section]
    lines: Sequence[str] = ()
    """What a notebook says besides the beginning of the first section."""
    warnings: Sequence[str] = ()
    """They stand first on a page, and last on a terminal, where one reads upwards."""
    title: str = ""
    byline: Sequence[str] = ()
    contents: bool = False
    """Whether a page begins with links to its sections."""
    more: str = ".to_frame()"
    tables: Mapping[str, Callable[[], TidyTable]] = field(default_factory=dict)
    """Numbers by name, as data frames and files have them, the most important first."""
    question: Callable[[], Question] | None = None
    """Says what was asked, if the answer itself holds that."""
    measured: str = ""
    """What a reader must know about the measurements in the answer, in sentences."""
    needs: str = ""
    """The extra of forecache that the command needs."""
    one_column: bool = True
    """Whether a page is narrow, since no part of it stands beside another."""

    @property
    def leads(self) -> bool:
        """Whether the headline has to be said before all else, as no section says it."""
        said = [self.title or self.about, *(x.title for x in self.sections if x.tone)]
        return self.headline not in said


def shown(parts: Sequence[Part], on: str) -> list[Part]:
    """The parts that a renderer shows."""
    return [part for part in parts if part.on in ("", on)]


def figures_in(parts: Sequence[Part]) -> Iterator[Figure]:
    """All figures of some parts, in order."""
    for part in parts:
        if isinstance(part, Figure):
            yield part
        elif isinstance(part, Beside):
            yield from figures_in([*part.left, *part.right])
        elif isinstance(part, Section | Folded):
            yield from figures_in(part.parts)
