"""What every answer is: shown in a notebook, a data frame, drawn; and what made it.

Tables, HTML and figures are made by rooms above this one, which it must not know: whoever has them
hands them over with `display_with`. Importing `forecache` does that.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from forecache.sim.plain import Result


class Display(Protocol):
    """What is to be made of a result; see the methods of `Displayed`."""

    def frame(self, result: Displayed, table: str | None, library: str | None) -> Any:
        """A data frame."""

    def html(self, result: Displayed) -> str:
        """A fragment of HTML."""

    def headline(self, result: Displayed) -> str:
        """A line of text."""

    def figure(self, result: Displayed, name: str | None) -> Any:
        """A figure."""


_handed_over: list[Callable[[], Display]] = []


def display_with(load: Callable[[], Display]) -> None:
    """Have results shown by what `load` returns, which is called when the first one is."""
    _handed_over[:] = [load]


def _display() -> Display:
    return _handed_over[0]()


class Displayed(Result):
    """A result with a table, a figure and a face of its own in notebooks."""

    __slots__ = ()

    def to_frame(self, table: str | None = None, *, library: str | None = None) -> Any:
        """A tidy data frame: a row for each point or step, units in the names of columns.

        No cell holds a list or a mapping. Columns of points are those that `forecache sweep`
        writes to Parquet files.

        Parameters
        ----------
        table
            Which of its tables; the first that a message about a wrong one lists if left out.
        library
            `pandas` or `polars`; pandas, if it is installed, and polars otherwise.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame

        Raises
        ------
        InputError
            There is no such table, or the package is not installed.
        """
        return _display().frame(self, table, library)

    def plot(self, figure: str | None = None) -> Any:
        """The report's figure of it, which a notebook shows as SVG.

        Parameters
        ----------
        figure
            Which of its figures; the first that a message about a wrong one lists if left out.

        Returns
        -------
        matplotlib.figure.Figure
            Of several panels over time a tuple of them. `savefig` writes SVG, PDF or PNG.

        Raises
        ------
        InputError
            There is no such figure, or none at all.
        """
        return _display().figure(self, figure)

    def _repr_html_(self) -> str:
        return _display().html(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:  # noqa: ARG002
        """The same, and as text a line in place of every field."""
        text = f"<{type(self).__name__}: {_display().headline(self)}>"
        return {"text/plain": text, "text/html": self._repr_html_()}


@dataclass(frozen=True)
class Provenance(Result):
    """Versions, platform, seed and time."""

    forecache_version: str
    python: str
    numpy: str
    machine: str
    seed: int
    date: str


def provenance(*, seed: int) -> Provenance:
    """Of a result that is made here and now."""
    import numpy  # importing forecache imports this module

    from forecache import __version__

    return Provenance(
        forecache_version=__version__,
        python=platform.python_version(),
        numpy=numpy.__version__,
        machine=platform.machine(),
        seed=seed,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )
