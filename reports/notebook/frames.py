"""Tidy tables as data frames of pandas or polars."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from forecache.models.large_sweeps.columns import DOUBLE, INTEGER, TEXT, TRUTH
from forecache.models.large_sweeps.sweep import SweptPoints
from forecache.models.results.displayed import Displayed
from forecache.sim.errors import InputError
from forecache.sim.installing import install_command

from .tables import tables_of
from .tidy import TidyTable

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
        raise InputError("this result has no table; valid is to_dict().")
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
