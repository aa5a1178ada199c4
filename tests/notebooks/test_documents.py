"""The notebooks of the documentation run, and show what they showed when they were committed."""

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("pandas")

from tests.notebooks.execution import NOTEBOOKS, executed, kinds_of_outputs  # noqa: E402

MOST_BYTES = 200_000
BRIEF = """
from forecache.calibration.fit import calibrate as _calibrate, simulated_fit as _simulated
from forecache.models.prediction import predict as _predict

_calibrate.DRAWS = 2
_simulated.REQUESTS = _predict.DRAW_REQUESTS = 2_000
_predict.predict_cases.__kwdefaults__.update(draws=4, replications=2, requests=4_000)
"""
"""Shorter simulations: what a notebook shows is of the same kinds, only less exact."""


def test_the_notebooks_that_the_documentation_names_are_there(checkout: Path) -> None:
    text = (checkout / "docs" / "verbs.md").read_text(encoding="utf-8")
    assert {path.name for path in NOTEBOOKS} == set(re.findall(r"notebooks/([\w-]+\.ipynb)", text))
    assert len(NOTEBOOKS) == 3


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_shows_what_is_committed(path: Path) -> None:
    committed = nbformat.read(path, as_version=4)
    assert kinds_of_outputs(executed(path, before=BRIEF)) == kinds_of_outputs(committed)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_small_and_of_no_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < MOST_BYTES
    assert not re.search(r"(?<![\w.])/(tmp|work|home|root|Users)/", text)
    kinds = {kind for found in kinds_of_outputs(nbformat.reads(text, 4)) for kind in found}
    assert {"text/html", "image/svg+xml"} <= kinds
    assert "error" not in kinds
