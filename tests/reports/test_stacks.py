"""Stacked bars and ticks of a result over time, in a terminal and on a page."""

import io
import re
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from forecache.models.results.series import Run, Stack, Ticks
from forecache.reports.figures import inline_svg, over_time, stacked
from forecache.reports.page import render_html
from forecache.reports.terminal import print_answer
from forecache.reports.text.formats import quantity
from forecache.reports.text.runs import (
    highest_of,
    notes_of,
    panels_of,
    stacks_of,
    table_of,
    ticks_of,
    totals_of,
)
from tests.reports.series_fixture import as_result, as_run, point, result

Json = dict[str, Any]


def stack(hosts: int, *, title: str = "at noon", time_s: float = 300.0, of: int = 0) -> Json:
    """Hosts of 100 GB: the first is hot, of the last one nothing is taken."""
    totals = np.linspace(85, 0, hosts) if hosts > 1 else np.array([85.0])
    bars: list[Json] = [
        {"name": f"host {i}", "sizes": [0.6 * total, 0.4 * total, 0.0, 0.0]}
        for i, total in enumerate(totals.tolist())
    ]
    bars[0] |= {"sizes": [51.0, 29.0, 5.0, 0.0], "flag": "hot", "note": "a leaves for host 3"}
    if hosts > 3:
        bars[3]["note"] = "a comes from host 0"
    return {
        "title": title,
        "time_s": time_s,
        "unit": "GB",
        "what": "host",
        "count": of or hosts,
        "layers": [
            {"name": "others", "stands_out": False},
            {"name": "largest", "stands_out": False},
            {"name": "leaves next", "stands_out": True},
            {"name": "never there", "stands_out": True},
        ],
        "bars": bars,
        "limits": [{"name": "memory", "value": 100.0}, {"name": "hot above", "value": 80.0}],
    }


def fleet(hosts: int = 100) -> Json:
    """A point with bars at two times, and moves now and then."""
    found = point({})
    counts = np.zeros(len(found["series"]["time_s"]), dtype=int)
    counts[[10, 250, 251]] = [1, 3, 2]
    later = stack(hosts, title="in the end", time_s=599.0)
    return found | {
        "stacks": [later, stack(hosts)],
        "ticks": [{"name": "live migrations", "counts": counts.tolist()}],
    }


def printed(found: Json, width: int = 80) -> str:
    buffer = io.StringIO()
    print_answer(as_result(found), Console(file=buffer, width=width, force_terminal=False))
    return buffer.getvalue()


def typed(found: Json) -> Stack:
    [one] = as_run(point({}) | {"stacks": [found]}).stacks
    return one


def svg(found: Json, *, width_px: float = 1000.0) -> str:
    one = typed(found)
    figure = stacked(one, highest=highest_of(one), margin_px=150.0, width_px=width_px)
    assert figure is not None
    return inline_svg(figure, prefix="s", label="hosts")


# --- what is read ---------------------------------------------------------------------------------


def test_stacks_come_in_the_order_of_time() -> None:
    found = stacks_of(as_run(fleet()))
    assert [s.title for s in found] == ["at noon", "in the end"]
    assert totals_of(found[0])[0] == 85.0
    assert highest_of(found[0]) == 100.0
    assert notes_of(found[0]) == [
        "host 0, 85 GB: hot; a leaves for host 3",
        f"host 3, {quantity(totals_of(found[0])[3], 'GB')}: a comes from host 0",
    ]


def test_few_bars_are_a_row_each_and_many_are_tenths() -> None:
    few = typed(stack(4))
    columns, cells = table_of(few)
    assert columns == ["host", "in all", "leaves next", "largest", "others"]
    assert cells[0] == ["host 0", "85 GB", "5 GB", "29 GB", "51 GB"]
    assert [row[0] for row in cells] == ["host 0", "host 1", "host 2", "host 3"]
    many = typed(stack(500))
    _, tenths = table_of(many)
    assert len(tenths) == 10
    means = [float(row[1].removesuffix(" GB")) for row in tenths]
    assert np.mean(means) == pytest.approx(totals_of(many).mean(), rel=0.01)


def test_what_never_happened_has_no_ticks() -> None:
    ticks = [Ticks("seen", np.array([0, 2, 0])), Ticks("never", np.array([0, 0, 0]))]
    assert [row.name for row in ticks_of(Run(np.arange(3.0), [], [], ticks=ticks))] == ["seen"]


# --- drawn ----------------------------------------------------------------------------------------


def test_a_figure_names_layers_that_are_there_limits_and_the_flagged_host() -> None:
    text = svg(stack(100))
    for name in ("others", "largest", "leaves next", "memory, 100 GB", "hot above, 80 GB"):
        assert f">{name}</text>" in text
    assert "never there" not in text
    assert ">host 0, 85 GB: hot; a leaves for host 3</text>" in text


def test_a_narrow_figure_says_less_but_not_nothing() -> None:
    long = stack(100)
    long["bars"][0]["note"] = "a machine with a name " * 9
    text = svg(long, width_px=358.0)
    assert "a machine with a name" not in text
    assert ">host 0: hot</text>" in text


def test_a_layer_is_one_shape_however_many_hosts() -> None:
    shapes = [len(re.findall(r"<path", svg(stack(hosts)))) for hosts in (20, 400)]
    # Rules, ticks and limits are few and alike; bars add none.
    assert abs(shapes[0] - shapes[1]) < 5
    assert len(svg(stack(500))) < 120_000


def test_bars_are_as_high_as_their_sizes() -> None:
    one = typed(stack(50))
    figure = stacked(one, highest=highest_of(one), margin_px=150.0, width_px=1000.0)
    assert figure is not None
    [axes] = figure.axes
    tops = [patch.get_path().vertices[:, 1].max() for patch in axes.patches]  # type: ignore[attr-defined]
    assert max(tops) == pytest.approx(85.0)
    assert axes.get_ylim()[1] >= 100.0


def test_empty_bars_are_no_figure() -> None:
    empty = stack(1)
    empty["bars"][0]["sizes"] = [0.0, 0.0, 0.0, 0.0]
    assert stacked(typed(empty), highest=100.0, margin_px=150.0, width_px=1000.0) is None
    assert "side by side, GB" not in render_html(as_result(result(point({}) | {"stacks": [empty]})))


def test_ticks_stand_below_the_plot_where_something_happened() -> None:
    found = as_run(fleet())
    [panel] = [p for p in panels_of(found) if p.name == "throughput"]
    figure = over_time(
        panel,
        found.times_s,
        [],
        highest=panel.highest,
        lowest_positive=1.0,
        margin_px=150.0,
        ticks=ticks_of(found),
    )
    assert figure is not None
    [axes] = figure.axes
    [rug] = axes.collections
    places = sorted(segment[0][0] for segment in rug.get_segments())  # type: ignore[attr-defined]
    assert places == [10.0, 250.0, 251.0]
    assert all(y <= 0 for segment in rug.get_segments() for y in segment[:, 1])  # type: ignore[attr-defined]


# --- page and terminal ----------------------------------------------------------------------------


def test_the_page_shows_bars_with_their_table_and_says_them_aloud() -> None:
    page = render_html(as_result(result(fleet())))
    assert page.count("Hosts side by side, GB") == 4  # two times, each wide and narrow
    assert "5:00 min, at noon" in page or "300 s, at noon" in page
    assert "100 hosts as a table" in page
    assert "<td>highest tenth</td>" in page
    assert re.search(r'aria-label="[^"]*100 hosts side by side; from 85 GB to 0 GB', page)
    assert "Ticks below the plots: live migrations, 6 in all" in page
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!#)', page)


def test_names_in_bars_are_text() -> None:
    found = fleet()
    found["stacks"][0]["bars"][0] |= {"name": "<b>", "note": "<script>x</script>"}
    assert "<script" not in render_html(as_result(result(found)))


@pytest.mark.parametrize("hosts", [1, 3, 100, 500])
def test_the_terminal_shows_a_line_for_each_time_within_80_columns(hosts: int) -> None:
    text = printed(result(fleet(hosts)))
    for line in text.splitlines():
        assert len(line) <= 80, line
    assert "full height 100 GB" in text
    assert re.search(r"^at noon .*85 GB.* 1 ", text, re.M)
    assert "host 0, 85 GB: hot; a leaves for host 3" in " ".join(text.split())
    [rug] = [line for line in text.splitlines() if line.startswith("live migrations, 6")]
    assert set(rug.removeprefix("live migrations, 6").strip()) >= {"█"}


def test_a_choice_of_bars_is_said_to_be_one() -> None:
    chosen = fleet() | {"stacks": [stack(100, of=3_000)]}
    assert "100 of 3,000 hosts, evenly chosen" in printed(result(chosen))
    assert "100 of them shown" in render_html(as_result(result(chosen)))
