"""A page as a PDF, laid out by Typst, with vector figures, its fonts and its scenario inside."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from forecache.sim.errors import InputError
from forecache.sim.installing import install_command

from .typst_text import page_tree, quoted, standalone_svg, typst_source

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


def pdf_of(page: str, *, date: str, attached: Sequence[tuple[str, str]] = ()) -> bytes:
    """A page of this project as a PDF.

    Parameters
    ----------
    page
        HTML, as `forecache.reports.page` renders it.
    date
        ISO 8601, for the file's properties.
    attached
        Names and texts of files to embed, such as the scenario.
    """
    tree, figures = page_tree(page)
    title = next(tree.find("h1")).text().strip()
    year, month, day = (int(part) for part in date[:10].split("-"))
    source = typst_source(tree, title=title, date=(year, month, day))
    inside = {f"{number}.svg": standalone_svg(svg) for number, svg in enumerate(figures)}
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
