"""How large the program is, counted from its sources."""

import ast

from evidence.size import code_lines

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
