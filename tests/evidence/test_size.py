"""How large the program is, counted from its sources."""

import ast
from pathlib import Path

from evidence.size import Counts, code_lines, counts

SOURCE = '''"""A module."""

import math
from pathlib import (
    Path,
)

# A comment.
LEAST = 1
"""What it is."""


def half(value: float) -> float:
    """Half of it."""
    return (
        value / 2
    )  # of course
'''


def test_code_is_neither_blank_nor_comment_docstring_nor_import() -> None:
    assert code_lines(ast.parse(SOURCE), SOURCE) == 5


def test_the_package_does_not_grow_unnoticed() -> None:
    """Whoever raises a limit says in the commit for what; whoever goes below lowers it."""
    limits = Counts(lines=100_010, modules=354, small=84, classes=877)
    found = counts(Path(__file__).parents[2])
    pairs = zip(Counts._fields, found, limits, strict=True)
    over = {name: (count, most) for name, count, most in pairs if count > most}
    assert not over, f"(found, limit): {over}"
