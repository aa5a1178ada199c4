"""Results in notebooks: as small HTML, as data frames, as figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from forecache.models.large_sweeps.sweep import SweptPoints
from forecache.models.results.columns import DOUBLE, INTEGER, TEXT, TRUTH
from forecache.sim.errors import InputError
from forecache.sim.installing import install_command

from . import document as parts
from .builders import document
from .document import NOTEBOOK, PAGE, WIDE_PX, Document, Part, TextTable, figures_in
from .page import page_columns
from .tidy import TidyTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from forecache.models.results.displayed import Displayed

MOST_ROWS = 12
_MOST_FACTS = 3

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


# --- small HTML ----------------------------------------------------------------------------------


def html_of(result: Displayed) -> str:
    """A headline, some lines and the first table of what a result shows, with its warnings.

    Colours are those of the text around it, so that it is readable on light and dark pages alike;
    where a page takes away styles, headline and table remain. All text is escaped.
    """
    made = document(result)
    lines, table = _beginning(made)
    noted = [part.warnings for part in _in_order(made.sections) if isinstance(part, parts.Warnings)]
    every = dict.fromkeys(text for texts in (made.warnings, *noted) for text in texts)
    warnings = [f"Warning: {text}" for text in every]
    paragraphs = [
        *([Markup('<p class="about">{}</p>').format(made.about)] if made.about else []),
        Markup("<p><b>{}</b></p>").format(made.headline),
        *(Markup("<p>{}</p>").format(text) for text in [*lines, *made.lines, *warnings] if text),
    ]
    body = Markup("").join([*paragraphs, _table_html(table, made.more) if table else Markup("")])
    return str(_STYLE + Markup('<div class="forecache">{}</div>').format(body))


def headline_of(result: Displayed) -> str:
    """The answer in a line."""
    return document(result).headline


def _beginning(made: Document) -> tuple[list[str], TextTable | None]:
    """What is said before the first table, and that table, from the answer on if there is one."""
    answers = [n for n, each in enumerate(made.sections) if each.tone in ("good", "bad")]
    lines: list[str] = []
    for part in _in_order(made.sections[answers[0] if len(answers) == 1 else 0 :]):
        match part:
            case parts.Text(style="strong"):
                lines.append(part.text)
            case parts.Facts(numeric=True) if part.rows:
                names, texts, notes = zip(*part.rows, strict=True)
                cells = [(names, False), (texts, True), (notes, False)]
                return lines, TextTable(
                    [parts.Column("", column, numeric=numeric) for column, numeric in cells]
                )
            case parts.Facts(in_lines=False):
                lines += [f"{name}: {text}" for name, text, *_ in part.rows[:_MOST_FACTS]]
            case TextTable() if page_columns(part) and part.columns[0].cells:
                return lines, part
    return lines, None


def _in_order(given: Sequence[Part]) -> Iterator[Part]:
    """Parts that a page shows, those inside others in their place."""
    for part in given:
        if part.on not in ("", PAGE, NOTEBOOK):
            continue
        match part:
            case parts.Section() | parts.Folded():
                yield from _in_order(part.parts)
            case parts.Beside():
                yield from _in_order([*part.left, *part.right])
            case _:
                yield part


def _table_html(table: TextTable, more: str) -> Markup:
    columns = page_columns(table)
    rows = table.rows(columns)
    words = [not column.numeric for column in columns]
    left = len(rows) - MOST_ROWS
    caption = f"{left} more rows: {more}" if left > 0 else f"{more} has all columns"
    head = _cells("th", [column.name for column in columns], words)
    body = Markup("").join(
        _group_row(table.groups.get(place, ""), len(columns))
        + Markup("<tr{}>{}</tr>").format(
            Markup(' class="marked"' if place == table.marked else ""), _cells("td", row, words)
        )
        for place, row in enumerate(rows[:MOST_ROWS])
    )
    return Markup(
        "<table><caption>{}</caption><thead><tr>{}</tr></thead><tbody>{}</tbody></table>"
    ).format(caption, head, body)


def _group_row(name: str, width: int) -> Markup:
    html = Markup('<tr><td class="word" colspan="{}"><b>{}</b></td></tr>')
    return html.format(width, name) if name else Markup("")


def _cells(tag: str, texts: Sequence[str], words: Sequence[bool]) -> Markup:
    return Markup("").join(
        Markup("<{0}{1}>{2}</{0}>").format(
            Markup(tag), Markup(' class="word"' if word else ""), escape(text)
        )
        for text, word in zip(texts, words, strict=True)
    )


# --- figures -------------------------------------------------------------------------------------


class FigureStack(tuple["Figure", ...]):
    """Figures that belong together, one below the other."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return "".join(each._repr_svg_() for each in self)  # type: ignore[attr-defined]


def figure_of(result: Displayed, name: str | None) -> Any:
    """A figure of a result; see `Displayed.plot`."""
    found: dict[str, list[parts.Figure]] = {}
    for figure in figures_in(document(result).sections):
        found.setdefault(figure.name, []).append(figure)
    if not found:
        raise InputError("this result has no figure; use its table, to_frame().")
    chosen = next(iter(found)) if name is None else name
    drawn = [each.draw(min(each.width_px, WIDE_PX)) for each in found.get(chosen, [])]
    figures = [each for each in drawn if each is not None]
    if not figures:
        raise InputError(
            f"field figure: found {chosen!r}, of which nothing is drawn; valid is "
            f"{', '.join(found)}."
        )
    return figures[0] if len(figures) == 1 else FigureStack(figures)


# --- data frames ---------------------------------------------------------------------------------


def tables_of(result: Displayed) -> Mapping[str, Callable[[], TidyTable]]:
    """The tables of a result, the most important first; each is made when it is asked for."""
    return document(result).tables


LIBRARIES = ("pandas", "polars")
_HOW = {
    "pandas": lambda: f"`{install_command('frames')}` installs it",
    "polars": lambda: "`python -m pip install polars` installs it",
}


def frame_of(result: Displayed, table: str | None, library: str | None) -> Any:
    """A table of a result as a data frame; see `Displayed.to_frame`."""
    if library is not None and library not in LIBRARIES:
        raise InputError(f"field library: found {library!r}; valid is {' or '.join(LIBRARIES)}.")
    name = library or next((each for each in LIBRARIES if find_spec(each)), LIBRARIES[0])
    try:
        package = import_module(name)
    except ImportError:
        raise InputError(f"data frames need the package {name}; {_HOW[name]()}.") from None
    if isinstance(result, SweptPoints):
        return package.read_parquet(_parts(Path(result.folder), name))
    found = tables_of(result)
    chosen = next(iter(found), "") if table is None else table
    if not found:
        raise InputError("this result has no tables; use to_dict().")
    if chosen not in found:
        raise InputError(f"field table: found {chosen!r}; valid is {', '.join(found)}.")
    make = _pandas if name == "pandas" else _polars
    return make(package, found[chosen]())


def _parts(folder: Path, library: str) -> Any:
    """The files of a sweep, in the order of its points."""
    files = sorted(str(path) for path in folder.glob("part-*.parquet"))
    return files if library == "polars" else str(folder)


_COUNTED = {INTEGER: ("int64", "Int64"), TRUTH: ("bool", "boolean")}
"""Without and with empty cells."""


def _pandas(pandas: Any, table: TidyTable) -> Any:
    columns = {}
    for (name, type_), cells in zip(table.columns, table.cells, strict=True):
        if type_ in _COUNTED:
            dtype = _COUNTED[type_][any(cell is None for cell in cells)]
        else:
            # Before pandas 3, "str" makes words of what is missing.
            words = "str" if int(pandas.__version__.partition(".")[0]) >= 3 else "object"
            dtype = "float64" if type_ == DOUBLE else words
        columns[name] = pandas.Series(cells, dtype=dtype)
    return pandas.DataFrame(columns)


def _polars(polars: Any, table: TidyTable) -> Any:
    types = {
        DOUBLE: polars.Float64,
        INTEGER: polars.Int64,
        TEXT: polars.String,
        TRUTH: polars.Boolean,
    }
    names = [name for name, _ in table.columns]
    return polars.DataFrame(
        dict(zip(names, table.cells, strict=True)),
        schema={name: types[type_] for name, type_ in table.columns},
    )
