"""A document as one self-contained HTML file: no script, no request, figures inline.

Jinja2 escapes every string; only figures, which this package draws, pass through as markup.
"""

import re
from functools import cache
from importlib.resources import files
from itertools import count, takewhile
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from . import figures
from .builders import document
from .builders.repeat import repeat_sections
from .document import PAGE, Column, Document, Figure, Section, Text, TextTable, words
from .text.formats import UNKNOWN
from .text.repeat import Question

_WORD_END = re.compile(r"([._])(?=\w)")
_CODE = re.compile(r"`([^`]+)`")


def render_html(answer: Any, question: Question | None = None) -> str:
    """Return an answer as a complete HTML page.

    Style and figures are inside it. It needs no script and loads nothing.

    Parameters
    ----------
    question
        What was asked; left out for an answer that holds it.
    """
    made, sections = document_to_read(answer, question)
    template = _environment().get_template("document.html.jinja")
    # Our own style sheet, not user text; escaping would break its quotes.
    css = Markup(_template_text("report.css"))
    return template.render(made=made, sections=sections, draw=Drawer().draw, css=css)


def document_to_read(
    answer: Any, question: Question | None = None
) -> tuple[Document, list[Section]]:
    """The document of an answer, and the sections of its page, how to repeat it among them."""
    made = document(answer)
    if question is None:
        assert made.question is not None
        question = made.question()
    every = [*made.sections, *repeat_sections(made, answer.provenance, question)]
    return made, [each for each in every if each.on in ("", PAGE)]


class Drawer:
    """Draws figures for one page and keeps their element ids apart."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def draw(self, figure: Figure) -> tuple[Markup, Markup] | None:
        """Draw at a wide and a narrow width; None when there is nothing to draw."""
        drawn = [figure.draw(width) for width in (figure.width_px, figures.NARROW_PX)]
        wide, narrow = (
            Markup(figures.inline_svg(each, prefix=f"f{next(self._numbers)}", label=figure.label))
            if each is not None
            else None
            for each in drawn
        )
        return None if wide is None or narrow is None else (wide, narrow)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_template_text),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["worded"] = _worded
    environment.filters["breakable"] = _breakable
    environment.filters["kind"] = lambda part: type(part).__name__
    environment.filters["page_columns"] = page_columns
    environment.filters["as_tables"] = as_tables
    environment.filters["first_texts"] = lambda parts: list(
        takewhile(lambda part: isinstance(part, Text), parts)
    )
    return environment


def page_columns(table: TextTable) -> list[Column]:
    """Columns that a page shows: those of which something is known."""
    return [
        column
        for column in table.columns
        if column.on in ("", PAGE) and any(cell != UNKNOWN for cell in column.cells)
    ]


_MOST_COLUMNS = 7


def as_tables(table: TextTable) -> list[TextTable]:
    """A table as it is; a comparison with too many columns turned by 90 degrees, four rows each."""
    columns = page_columns(table)
    if not table.targets or len(columns) <= _MOST_COLUMNS:
        return [table]
    rows, names = table.rows(columns), [column.name for column in columns]
    leading = ", ".join(names[: table.lead])
    return [
        TextTable(
            [
                words(leading, names[table.lead :]),
                *(Column(", ".join(row[: table.lead]), row[table.lead :]) for row in four),
            ]
        )
        for four in (rows[first : first + 4] for first in range(0, len(rows), 4))
    ]


def _worded(text: str) -> Markup:
    """A sentence, in which what stands between backticks is code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _breakable(name: str) -> Markup:
    """A dotted name that may take several lines, broken between its words only."""
    return Markup(_WORD_END.sub(r"\1<wbr>", str(escape(name))))


def _template_text(name: str) -> str:
    return files("forecache.reports").joinpath("templates", name).read_text(encoding="utf-8")
