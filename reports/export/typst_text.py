"""A page as the source of a paper that Typst lays out.

The tree of the page is the document: each element becomes its counterpart in Typst, and every text
a string literal, so that none is taken for markup. What only a screen needs is left out, such as
navigation, and of the two widths of a figure the one that does not fit.
"""

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib.resources import files

# --- a page as a tree of elements, figures apart --------------------------------------------------

# Only pages of this project are read: their tags nest, and their figures are inline SVG.


_SVG = re.compile(r"<svg .*?</svg>", re.S)
_VOID = {"meta", "br", "wbr", "hr", "img"}
_BLANKS = re.compile(r"[ \t\n]+")


@dataclass
class Element:
    """An element with its children, which are elements and texts."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Element | str"] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        """Names of classes."""
        return self.attributes.get("class", "").split()

    def elements(self) -> Iterator["Element"]:
        """Children that are elements."""
        return (child for child in self.children if isinstance(child, Element))

    def find(self, tag: str) -> Iterator["Element"]:
        """All elements below with a tag, in order."""
        for child in self.elements():
            if child.tag == tag:
                yield child
            yield from child.find(tag)

    def text(self) -> str:
        """All text below, blanks as they are."""
        return "".join(c if isinstance(c, str) else c.text() for c in self.children)


def page_tree(page: str) -> tuple[Element, list[str]]:
    """The `main` element of a page, and its figures.

    Returns
    -------
    tree
        In place of each figure stands `img`, whose `src` is an index of the list.
    figures
        SVG as the page has it.
    """
    figures: list[str] = []

    def taken(match: re.Match[str]) -> str:
        figures.append(match[0])
        return f'<img src="{len(figures) - 1}">'

    parser = _Tree()
    parser.feed(_SVG.sub(taken, page))
    return next(parser.root.find("main")), figures


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


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("page")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(made)
        if tag not in _VOID:
            self._open.append(made)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        keeps = any(each.tag == "pre" for each in self._open)
        self._open[-1].children.append(data if keeps else _BLANKS.sub(" ", data))


_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_SCREEN_ONLY = {"nav", "style", "summary"}
_FEWEST_ROWS = 3
"""Of a table on a page."""

_INTRODUCED = {"pre", "table", "div", "figure", "dl", "ul", "aside"}
"""What a paragraph before it introduces: no page parts the two."""

_LISTING_WIDTH = 100
"""Letters of a listing's line."""

_MUTED = {"byline", "subtitle", "muted", "legend", "empty"}


def typst_source(tree: Element, *, title: str, date: tuple[int, int, int]) -> str:
    """The text of a Typst document.

    Parameters
    ----------
    tree
        From `page_tree`; the figure `img src="3"` is expected in `3.svg` beside the document.
    date
        Year, month and day, for the file's properties.
    """
    style = files("forecache.reports.export").joinpath("style.typ").read_text(encoding="utf-8")
    year, month, day = date
    head = (
        f"#set document(title: {quoted(title)}, "
        f"date: datetime(year: {year}, month: {month}, day: {day}))\n"
    )
    return f"{head}{style}\n{_blocks(tree)}"


def quoted(text: str) -> str:
    """A string literal of Typst."""
    return f'"{text.translate(_ESCAPED)}"'


def _blocks(parent: Element) -> str:
    """Everything below an element, block by block; texts between blocks are paragraphs."""
    found: list[str] = []
    line: list[str] = []

    def end_line() -> None:
        text = "".join(line).strip()
        if text and text.replace('#" "', ""):
            found.append(f"#par[{text}]\n")
        line.clear()

    for number, child in enumerate(parent.children):
        if isinstance(child, str):
            line.append(_text(child))
        elif child.tag in _BLOCKS:
            end_line()
            block = _BLOCKS[child.tag](child)
            introduces = child.tag == "p" and _next(parent, number) in _INTRODUCED
            found.append(f"#lead[{block}]\n" if introduces and block else block)
        elif child.tag not in _SCREEN_ONLY:
            line.append(_inline(child))
    end_line()
    return "".join(found)


def _next(parent: Element, number: int) -> str:
    """The tag of the element after a child; empty where text comes first, or nothing."""
    for child in parent.children[number + 1 :]:
        if isinstance(child, Element):
            return child.tag
        if child.strip():
            return ""
    return ""


def _text(text: str) -> str:
    return f"#{quoted(text)}" if text else ""


def _inline(element: Element) -> str:
    """An element inside a line."""
    if element.tag in ("wbr", "br"):
        return '#"\u200b"' if element.tag == "wbr" else "#linebreak()"
    if "only-narrow" in element.classes or element.tag in _SCREEN_ONLY:
        return ""
    inside = "".join(_text(c) if isinstance(c, str) else _inline(c) for c in element.children)
    if element.tag == "code":
        return f"#raw({quoted(element.text())})"
    if element.tag in ("strong", "b"):
        return f"#strong[{inside}]"
    if element.tag in ("i", "em") or "muted" in element.classes:
        return f"#muted[{inside}]"
    if "kind" in element.classes:
        return f"#emph[{inside}]"
    return inside


def _children(element: Element) -> str:
    return "".join(_text(c) if isinstance(c, str) else _inline(c) for c in element.children).strip()


def _section(element: Element) -> str:
    # What repeats an answer stands on a page of its own, to be taken alone.
    apart = "#pagebreak(weak: true)\n" if element.attributes.get("id") == "repeat" else ""
    return apart + _blocks(element)


def _details(element: Element) -> str:
    """All of it, under what a page shows of it; that there is `more` needs no word."""
    [summary] = [child for child in element.elements() if child.tag == "summary"]
    text = summary.text().strip()
    title = "" if text.endswith("more") else f"#heading(level: 3, numbering: none)[{_text(text)}]\n"
    return title + _blocks(element)


def _div(element: Element) -> str:
    if "narrow" in element.classes:
        return ""
    if "grid" in element.classes:
        drawn = [child for child in element.elements() if child.tag == "figure"]
        if len(drawn) == 2:
            cells = "".join(f"[{_figure(each, half=True)}]" for each in drawn)
            others = Element("div", {}, [c for c in element.children if c not in drawn])
            return f"#sides{cells}\n{_blocks(others)}"
    return _blocks(element)


def _heading(level: int) -> Callable[[Element], str]:
    def made(element: Element) -> str:
        return f"#heading(level: {level})[{_children(element)}]\n"

    return made


def _title(element: Element) -> str:
    return f"#title-line[{_children(element)}]\n"


def _paragraph(element: Element) -> str:
    classes = element.classes
    if "facts" in classes:
        return f"#facts({', '.join(f'[{_children(c)}]' for c in element.elements())},)\n"
    if "workload" in classes:
        listed = ", ".join(f"[{_inline(each)}]" for each in element.elements())
        return f"#listed({listed},)\n"
    text = _children(element)
    if "eyebrow" in classes:
        return f"#eyebrow[{text}]\n"
    return f"#par[#muted[{text}]]\n" if _MUTED & set(classes) else f"#par[{text}]\n"


def _list(element: Element) -> str:
    items = "".join(f"[{_children(item)}], " for item in element.elements())
    return f"#list({items})\n"


def _pairs(element: Element) -> str:
    cells = []
    for row in element.find("div"):
        cells += [f"[{_children(cell)}]" for cell in row.elements()]
    return f"#pairs({', '.join(cells)})\n" if cells else ""


def _listing(element: Element) -> str:
    text = element.text().strip("\n")
    if "shell" in element.classes:
        text = "\n".join(_continued(line) for line in text.split("\n"))
    return f"#listing({quoted(text)})\n"


def _continued(line: str) -> str:
    """A command in lines that fit, with a backslash where it goes on: it can be copied.

    One with quotes stays as it is: they may hold blanks.
    """
    if len(line) <= _LISTING_WIDTH or set("'\"") & set(line):
        return line
    pieces = textwrap.wrap(
        line,
        _LISTING_WIDTH - 2,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return " \\\n".join(pieces)


def _notes(element: Element) -> str:
    return f"#notes[{_blocks(element)}]\n"


def _figure(element: Element, *, half: bool = False) -> str:
    captions = [child for child in element.elements() if child.tag == "figcaption"]
    title = caption = ""
    for line in captions[0].elements() if captions else ():
        if line.tag == "p":
            caption = _children(line)
        else:
            title = _children(line)
    wanted = "narrow" if half else "wide"
    [image] = [
        img for child in element.elements() if wanted in child.classes for img in child.find("img")
    ]
    return f"#drawn([{title}], [{caption}], {quoted(image.attributes['src'] + '.svg')})\n"


def _table(element: Element) -> str:
    rows = [list(row.elements()) for row in element.find("tr")]
    if not rows:
        return ""
    heads = sum(1 for head in element.find("thead") for _ in head.find("tr"))
    width = max(sum(_span(cell) for cell in row) for row in rows)
    right = {
        place
        for row in rows[heads:]
        for place, cell in zip(_places(row), row, strict=True)
        if "num" in cell.classes
    }
    bars = {
        place
        for row in rows
        for place, cell in zip(_places(row), row, strict=True)
        if "bar" in cell.classes
    }
    columns = ", ".join("64pt" if place in bars else "auto" for place in range(width))
    aligned = ", ".join("right" if place in right else "left" for place in range(width))
    text = [f"#rows(({columns},), ({aligned},),"]
    for row in rows[:heads]:
        cells = ", ".join(_cell(cell, head=True) for cell in row)
        text.append(f"table.header(keep(1), {cells}),")
    for row, together in zip(rows[heads:], _together(rows[heads:]), strict=True):
        kept = f"keep({together}), " if together else ""
        text.append(f"{kept}{', '.join(_cell(cell, head=False) for cell in row)},")
    return "\n".join([*text, ")\n"])


def _together(rows: list[list[Element]]) -> list[int]:
    """(rows) how many rows no page may part, said of the first of them, and 0 of the others.

    So no row stands alone at the foot or at the top of a page, nor a group's name without a row.
    """
    last = len(rows) - 1
    with_next = [
        number < last
        and (number < _FEWEST_ROWS - 1 or number > last - _FEWEST_ROWS or len(row) == 1)
        for number, row in enumerate(rows)
    ]
    found: list[int] = []
    for number in range(len(rows)):
        if number > 0 and with_next[number - 1]:
            found.append(0)
            continue
        until = number
        while with_next[until]:
            until += 1
        found.append(until - number + 1)
    return found


def _cell(cell: Element, *, head: bool) -> str:
    if "bar" in cell.classes:
        [bar] = cell.elements()
        style = dict(each.split(":") for each in bar.attributes["style"].split(";"))
        return f"bar({float(style['width'].rstrip('%')) / 100:.3f})"
    text = _children(cell)
    return f"table.cell(colspan: {_span(cell)})[{f'#muted[{text}]' if head else text}]"


def _span(cell: Element) -> int:
    return int(cell.attributes.get("colspan", "1"))


def _places(row: list[Element]) -> list[int]:
    """The first column of each cell."""
    found, place = [], 0
    for cell in row:
        found.append(place)
        place += _span(cell)
    return found


_BLOCKS: dict[str, Callable[[Element], str]] = {
    "section": _section,
    "header": _section,
    "details": _details,
    "nav": lambda _: "",
    "style": lambda _: "",
    "div": _div,
    "h1": _title,
    "h2": _heading(1),
    "h3": _heading(2),
    "p": _paragraph,
    "ul": _list,
    "dl": _pairs,
    "pre": _listing,
    "aside": _notes,
    "figure": _figure,
    "table": _table,
}
