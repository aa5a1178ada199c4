"""Tables of comma-separated values: a record a line, an empty cell for what is not known."""

import csv
import io
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import BaseModel

from forecache.sim.errors import InputError

from .files import did_you_mean, parse, read_text

RowT = TypeVar("RowT", bound=BaseModel)


def read_rows(path: str | Path, model: type[RowT]) -> list[RowT]:
    """The rows of a table; its first line names the columns, lines that begin with `#` say more.

    Raises
    ------
    InputError
        One sentence about the first problem: file, line, column, what was found, what is valid.
    """
    lines = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    columns: list[str] = []
    rows: list[RowT] = []
    try:
        for cells in lines:
            where = f"{path}, line {lines.line_num}"
            if not cells or cells[0].startswith("#"):
                continue
            if not columns:
                columns = _columns(cells, model, where=where)
                continue
            if len(cells) != len(columns):
                raise InputError(
                    f"{where}: found {len(cells)} cells; valid is {len(columns)}, one for each of "
                    f"{', '.join(columns)}."
                )
            filled = {name: cell.strip() for name, cell in zip(columns, cells, strict=True)}
            data = {name: _value(model, name, cell) for name, cell in filled.items() if cell}
            rows.append(parse(model, data, file=where))
    except csv.Error as error:
        raise InputError(
            f"{path}, line {lines.line_num}: found {error}; valid are cells between commas."
        ) from None
    if not rows:
        raise InputError(f"{path}: found no rows; valid is a line of columns and a line a row.")
    return rows


def _columns(cells: list[str], model: type[BaseModel], *, where: str) -> list[str]:
    columns = [cell.strip() for cell in cells]
    for name in columns:
        if name not in model.model_fields:
            help_with_it = did_you_mean(name, model.model_fields)
            raise InputError(f"{where}: found the column {name!r}; {help_with_it}")
        if columns.count(name) > 1:
            raise InputError(f"{where}: found the column {name!r} twice; valid is once.")
    return columns


def _value(model: type[BaseModel], name: str, cell: str) -> object:
    """A cell as a number where its column holds numbers; what is none is left for the check."""
    annotation = model.model_fields[name].annotation
    kinds = get_args(annotation) or (annotation,)
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(cell)
            except ValueError:
                return cell
    return cell
