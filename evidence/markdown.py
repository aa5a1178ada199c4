"""Tables of Markdown, and pages of which only a marked section is generated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from forecache.sim.errors import InputError

RIGHT = ">"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines of a table.

    Parameters
    ----------
    header
        One word a column; `>` in front of it sets the column to the right.
    rows
        As many cells each.

    Raises
    ------
    ValueError
        A row has more or fewer cells.
    """
    rules = ["--:" if name.startswith(RIGHT) else "---" for name in header]
    lines = [_row([name.removeprefix(RIGHT) for name in header]), f"|{'|'.join(rules)}|"]
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"a row of {len(header)} cells, not {row!r}")
        lines.append(_row([str(cell) for cell in row]))
    return lines


def _row(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def anchor(title: str) -> str:
    """The anchor that a heading gets: lower case, no punctuation, hyphens for spaces."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def with_section(page: Path, name: str, lines: Iterable[str]) -> str:
    """A page whose lines between `<!-- name:begin -->` and `<!-- name:end -->` are replaced.

    Raises
    ------
    InputError
        The page lacks one of the two markers.
    """
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
    before, found_begin, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise InputError(f"{page}: found no section {name}; valid is one between its two markers.")
    return before + begin + "".join(f"{line}\n" for line in lines) + end + after
