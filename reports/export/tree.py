"""A page as a tree of elements, figures apart.

Only pages of this project are read: their tags nest, and their figures are inline SVG.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

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
