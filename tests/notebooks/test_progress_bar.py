"""Progress in a notebook: a bar for what counts, gone at the end, and only where it is wanted."""

import xml.etree.ElementTree as ET
from typing import Any

import pytest

import forecache
from forecache import notebook
from forecache.notebook import ProgressBar, bar_html, in_notebook, with_progress_bar
from forecache.sim.errors import InputError

pytest.importorskip("IPython")


class Shown:
    """What a notebook was asked to show."""

    def __init__(self) -> None:
        self.html: list[str] = []

    def display(self, found: Any, *, display_id: bool) -> "Shown":
        assert display_id
        self.update(found)
        return self

    def update(self, found: Any) -> None:
        self.html.append(found.data)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    found = Shown()
    monkeypatch.setattr("IPython.display.display", found.display)
    monkeypatch.setattr(notebook, "in_notebook", lambda: True)
    return found


def test_this_is_no_notebook() -> None:
    assert not in_notebook()


@pytest.mark.parametrize(
    ("message", "attributes"),
    [
        ("simulated 3 of 12 points", {"value": "3", "max": "12"}),
        ("answered 1,200 of 100,000 points, 5 a second", {"value": "1200", "max": "100000"}),
        ("tracing requests", {}),
    ],
)
def test_what_counts_fills_a_bar(message: str, attributes: dict[str, str]) -> None:
    bar = ET.fromstring(bar_html(message, seconds=2.0)).find("progress")
    assert bar is not None
    assert {k: v for k, v in bar.attrib.items() if k != "aria-label"} == attributes
    assert bar.attrib["aria-label"] == message
    assert bar.tail == f" {message} (2 s)"


def test_text_of_a_step_is_escaped() -> None:
    assert "<b>" not in bar_html('reading <b> "x"', seconds=0.0)


def test_a_bar_is_gone_at_the_end(shown: Shown) -> None:
    bar = ProgressBar()
    bar("simulated 1 of 2 points")
    bar("simulated 2 of 2 points")
    bar.close()
    assert len(shown.html) == 4
    assert 'value="2"' in shown.html[2]
    assert shown.html[-1] == ""


def test_many_steps_change_the_bar_rarely(shown: Shown) -> None:
    bar = ProgressBar()
    for number in range(1, 1000):
        bar(f"simulated {number} of 1000 points")
    bar("simulated 1000 of 1000 points")
    assert len(shown.html) < 100
    assert 'value="1000"' in shown.html[-1]


def test_verbs_show_their_progress_unless_they_are_given_one(shown: Shown) -> None:
    told: list[str] = []

    @with_progress_bar
    def verb(*, progress: Any = None) -> int:
        progress("half 1 of 2")
        return 7

    assert verb(progress=told.append) == 7
    assert (told, shown.html) == (["half 1 of 2"], [])
    assert verb() == 7
    assert 'value="1"' in shown.html[1]


def test_a_bar_of_what_fails_is_gone_too(shown: Shown) -> None:
    with pytest.raises(InputError):
        forecache.simulate({"host": "nowhere"})
    assert shown.html == ["", ""]
