"""A document as a PDF, laid out by Typst, with vector figures, its fonts and its scenario inside.

Every text becomes a string literal of Typst, so that none is taken for markup. What is folded on a
page is shown.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from forecache.sim.errors import InputError
from forecache.sim.installing import install_command

from . import document as parts
from . import figures
from .document import PAGE, Column, Document, Figure, Part, Section, TextTable, shown
from .page import as_tables, document_to_read, page_columns
from .text.formats import continued
from .text.repeat import Question

EXTRA = "paper"


def check_typst(option: str) -> None:
    """Refuse what needs Typst where it is not installed.

    Raises
    ------
    InputError
        It names the extra to install.
    """
    if find_spec("typst") is None:
        raise InputError(
            f"{option}: found no typst, which makes PDF; `{install_command(EXTRA)}` installs it."
        )


def pdf_of(answer: Any, question: Question | None = None) -> bytes:
    """An answer as a PDF, to which the files that the question needs are attached."""
    made, sections = document_to_read(answer, question)
    if question is None:
        assert made.question is not None
        question = made.question()
    return pdf_of_sections(made, sections, date=answer.provenance.date, attached=question.files)


def pdf_of_sections(
    made: Document,
    sections: Sequence[Section],
    *,
    date: str,
    attached: Sequence[tuple[str, str]] = (),
) -> bytes:
    """Some sections as a PDF.

    Parameters
    ----------
    date
        ISO 8601, for the file's properties.
    attached
        Names and texts of files to embed, such as the scenario.
    """
    writer = TypstWriter()
    title = made.title or made.about
    year, month, day = (int(part) for part in date[:10].split("-"))
    style = files("forecache.reports").joinpath("templates", "style.typ")
    source = (
        f"#set document(title: {quoted(title)}, "
        f"date: datetime(year: {year}, month: {month}, day: {day}))\n"
        f"{style.read_text(encoding='utf-8')}\n{writer.document(made, sections)}"
    )
    inside = {f"{number}.svg": svg for number, svg in enumerate(writer.figures)}
    for number, (name, text) in enumerate(attached):
        inside[f"attached-{number}"] = text
        content = f'read("attached-{number}", encoding: none)'
        source += f'#pdf.attach({quoted(name)}, {content}, mime-type: "application/yaml")\n'
    return compiled(source, inside)


def compiled(source: str, files: dict[str, str], **how: Any) -> bytes:
    """What Typst makes of a document with files beside it."""
    import matplotlib
    import typst

    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        document = Path(folder) / "document.typ"
        document.write_text(source, encoding="utf-8")
        made: bytes = typst.compile(
            str(document), root=folder, font_paths=[str(fonts)], ignore_system_fonts=True, **how
        )
    return made


_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_CODE = re.compile(r"`([^`]+)`")
_WORD_END = re.compile(r"([._])(?=\w)")

_FEWEST_ROWS = 3
"""Of a table on a page."""

_LISTING_WIDTH = 100
"""Letters of a listing's line."""


def quoted(text: str) -> str:
    """A string literal of Typst."""
    return f'"{text.translate(_ESCAPED)}"'


def _inline(text: str) -> str:
    """A text inside a line, in which what stands between backticks is code."""
    # Every second piece stood between backticks.
    pieces = _CODE.split(text)
    return "".join(
        f"#{'raw(' if code else ''}{quoted(piece)}{')' if code else ''}"
        for code, piece in ((place % 2, piece) for place, piece in enumerate(pieces))
        if piece
    )


class TypstWriter:
    """Writes parts of a document as the source of Typst, and keeps the figures that it names."""

    def __init__(self) -> None:
        self.figures: list[str] = []
        """SVG; the source expects that of number 3 in `3.svg`."""

    def document(self, made: Document, sections: Sequence[Section]) -> str:
        """Title, warnings and sections."""
        answer = next((each for each in sections if each.tone in ("good", "bad")), None)
        notes = parts.Warnings(made.warnings)
        head = [
            f"#title-line[{_inline(made.title or made.about)}]\n",
            *([f"#facts[#strong[{_inline(made.headline)}]]\n"] if made.leads else []),
            f"#par[#muted[{_inline(' · '.join([*made.byline, 'forecache']))}]]\n",
            *([] if answer else [self._part(notes)]),
        ]
        body = [self._section(each, notes if each is answer else None) for each in sections]
        return "".join([*head, *body])

    def _section(self, section: Section, notes: parts.Warnings | None) -> str:
        lines = ["#pagebreak(weak: true)\n"] if section.begins_page else []
        if section.above:
            lines.append(f"#eyebrow[{_inline(f'Results: {section.above}')}]\n")
        inside = list(section.parts)
        if notes is not None:
            texts = next((i for i, x in enumerate(inside) if not isinstance(x, parts.Text)), 0)
            inside.insert(texts, notes)
        return "".join([*lines, _heading(section, level=1), self.blocks(inside)])

    def blocks(self, given: Sequence[Part]) -> str:
        """What a page shows of some parts; a text stays with the block that it introduces."""
        own = shown(given, PAGE)
        lines = []
        for part, following in zip(own, [*own[1:], None], strict=True):
            block = self._part(part)
            plain = isinstance(following, parts.Text | Section) or following is None
            introduces = isinstance(part, parts.Text) and not plain
            lines.append(f"#lead[{block}]\n" if introduces and block else block)
        return "".join(lines)

    def _part(self, part: Part) -> str:
        match part:
            case parts.Text():
                text = _inline(part.text.strip())
                styled = {"": f"#par[{text}]", "muted": f"#par[#muted[{text}]]"}
                line = styled.get(part.style, f"#facts[{text}]")
                return f"{line}\n" if text else ""
            case Section():
                return _heading(part, level=2) + self.blocks(part.parts) if part.parts else ""
            case parts.Items():
                items = "".join(f"[{_inline(each)}], " for each in part.sentences if each)
                return f"#list({items})\n" if items else ""
            case parts.Facts():
                return _facts(part)
            case TextTable():
                return "".join(map(_table, as_tables(part)))
            case parts.Code():
                return _listing(part) if part.text.strip() else ""
            case parts.Warnings():
                inside = parts.Section(part.title, [parts.Items(part.warnings)])
                return f"#notes[{self._part(inside)}]\n" if part.warnings else ""
            case parts.Folded():
                title = f"#heading(level: 3, numbering: none)[{_inline(part.title)}]\n"
                return title + self.blocks(part.parts)
            case Figure():
                return self._figure(part)
            case parts.Beside():
                both = [x for x in part.left if isinstance(x, Figure)]
                if part.equal and not part.right and len(both) == len(part.left) == 2:
                    cells = "".join(f"[{self._figure(each, half=True)}]" for each in both)
                    return f"#sides{cells}\n"
                return self.blocks([*part.left, *part.right])
        return ""

    def _figure(self, figure: Figure, *, half: bool = False) -> str:
        # Wider ones would have letters too small for paper.
        drawn = figure.draw(figures.NARROW_PX if half else min(figure.width_px, figures.WIDE_PX))
        if drawn is None:
            return ""
        number = len(self.figures)
        svg = figures.inline_svg(drawn, prefix=f"f{number}", label=figure.label)
        self.figures.append(standalone_svg(svg))
        title, caption = _inline(figure.title), _inline(figure.caption)
        return f'#drawn([{title}], [{caption}], "{number}.svg")\n'


def _heading(section: Section, *, level: int) -> str:
    has_title = section.title and section.title_on in ("", PAGE)
    return f"#heading(level: {level})[{_inline(section.title)}]\n" if has_title else ""


def _facts(facts: parts.Facts) -> str:
    rows = [row for row in facts.rows if row[1]]
    if facts.in_lines:
        listed = ", ".join(f"[#muted[{_inline(name)}] {_inline(text)}]" for name, text, *_ in rows)
        return f"#listed({listed},)\n" if rows else ""
    cells = []
    for name, text, *note in rows:
        value = f"#strong[{_inline(text)}]" if facts.numeric else _inline(text)
        more = f" #muted[{_inline(note[0])}]" if any(note) else ""
        cells += [f"[{_inline(name)}]", f"[{value}{more}]"]
    return f"#pairs({', '.join(cells)})\n" if cells else ""


def _listing(code: parts.Code) -> str:
    text = code.text.strip("\n")
    if code.shell:
        text = "\n".join(continued(line, _LISTING_WIDTH) for line in text.split("\n"))
    return f"#listing({quoted(text)})\n"


def _table(table: TextTable) -> str:
    columns = page_columns(table)
    rows = table.rows(columns)
    if not rows:
        return ""
    width = ", ".join(["auto"] * len(columns))
    aligned = ", ".join("right" if column.numeric else "left" for column in columns)
    text = [f"#rows(({width},), ({aligned},),"]
    if any(column.name for column in columns):
        heads = ", ".join(f"[#muted[{_inline(column.name)}]]" for column in columns)
        text.append(f"table.header(keep(1), {heads}),")
    lines: list[tuple[bool, str]] = []
    for place, row in enumerate(rows):
        if place in table.groups:
            name = f"table.cell(colspan: {len(columns)})[{_inline(table.groups[place])}]"
            lines.append((True, name))
        cells = ", ".join(f"[{_cell(x, y)}]" for x, y in zip(row, columns, strict=True))
        lines.append((False, cells))
    together = _together([is_name for is_name, _ in lines])
    for (_, line), rows_together in zip(lines, together, strict=True):
        kept = f"keep({rows_together}), " if rows_together else ""
        text.append(f"{kept}{line},")
    below = table.said_below(columns)
    legend = "".join(f"#par[#muted[{_inline(line)}]]\n" for line in below.splitlines())
    return "\n".join([*text, f")\n{legend}"])


def _cell(text: str, column: Column) -> str:
    if column.style == "kind":
        return f"#emph[{_inline(text)}]"
    if column.style == "name":
        return _inline(_WORD_END.sub("\\1\u200b", text))
    return _inline(text)


def _together(groups: Sequence[bool]) -> list[int]:
    """(rows) how many rows no page may part, said of the first of them, and 0 of the others.

    So no row stands alone at the foot or at the top of a page, nor a group's name without a row.
    """
    last = len(groups) - 1
    with_next = [
        number < last and (number < _FEWEST_ROWS - 1 or number > last - _FEWEST_ROWS or is_name)
        for number, is_name in enumerate(groups)
    ]
    found: list[int] = []
    for number in range(len(groups)):
        if number > 0 and with_next[number - 1]:
            found.append(0)
            continue
        until = number
        while with_next[until]:
            until += 1
        found.append(until - number + 1)
    return found


def standalone_svg(inline: str) -> str:
    """A figure of a page as a file of its own: with its own colours, font and name space."""
    text = re.sub(r"var\(--[\w-]+,\s*(#[0-9a-fA-F]+)\)", r"\1", inline)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    width, height = (size[1], size[2]) if size else ("100", "100")
    return text.replace(
        "<svg ",
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{width}" height="{height}" font-family="DejaVu Sans" ',
        1,
    )
