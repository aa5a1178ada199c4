"""Execute the notebooks of `docs/notebooks/`, as a user does who opens them there.

`python -m tests.notebooks.execution` executes them all and writes their outputs into them.
"""

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

_LONGEST_S = 600
"""Of a cell, on a machine that does much else; on an idle one it takes seconds."""


def executed(path: Path, *, before: str = "") -> Any:
    """The notebook with new outputs.

    Parameters
    ----------
    before
        What its kernel does first; it is no cell of the notebook.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        A cell raised.
    """
    notebook = nbformat.read(path, as_version=4)
    if before:
        notebook.cells.insert(0, nbformat.v4.new_code_cell(before))
    client = NotebookClient(
        notebook,
        timeout=_LONGEST_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
    )
    found = client.execute()
    if before:
        del found.cells[0]
    return found


def kinds_of_outputs(notebook: Any) -> list[list[str]]:
    """For each cell with code, what kinds of output it has."""
    return [
        sorted(kind for output in cell.outputs for kind in output.get("data", [output.output_type]))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def main() -> None:
    """Write new outputs into all notebooks."""
    for path in NOTEBOOKS:
        notebook = executed(path)
        # The rest differs from one machine to the next.
        notebook.metadata["language_info"] = {"name": "python"}
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
