"""Figures of sweeps: which field goes where, what is drawn, and what a terminal shows of it."""

import io
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from rich.console import Console

from forecache.models.advice.node_answers import Simulated
from forecache.reports.builders import document
from forecache.reports.document import Figure, figures_in
from forecache.reports.figures import curves
from forecache.reports.terminal import print_answer
from forecache.reports.text.curves import MOST_LINES, Curves, curves_of
from forecache.sim.statistics import Estimate
from tests.made_points import PROVENANCE, about, made_head, made_point

HOSTS = ("c8g.4xlarge", "m7a.4xlarge")
VERSIONS = ("8.0", "8.1", "9.1")
THREADS = (1, 2, 4, 8)


def rate(host: str, version: str, threads: int) -> float:
    return 1e5 * threads * (2 if host == HOSTS[0] else 1) * float(version)


def answer(
    hosts: tuple[str, ...] = HOSTS,
    versions: tuple[str, ...] = VERSIONS,
    threads: tuple[int, ...] = THREADS,
    *,
    arrival: str = "closed_loop",
) -> Simulated:
    points = [
        made_point(
            given={"host": host, "engine_version": version, "io_threads": number},
            throughput_rps=about(rate(host, version, number)),
        )
        for host in hosts
        for version in versions
        for number in threads
    ]
    head = made_head()
    head["scenario"] |= {"workload": {"arrival": arrival}}
    return Simulated(**head, points=points, provenance=PROVENANCE)


def figures(result: Simulated) -> list[Figure]:
    return [each for each in figures_in(document(result).sections) if each.name != "stages"]


def laid_out(**columns: Any) -> Curves:
    """Curves of the product of some columns, by a rate that rises with the place of each value."""
    given: list[dict[str, Any]] = [{}]
    for key, values in columns.items():
        given = [each | {key: value} for each in given for value in values]
    places = [sum(list(columns[k]).index(v) for k, v in each.items()) for each in given]
    made = curves_of("Throughput", "1/s", given, [about(1e4 * (1 + place)) for place in places])
    assert made is not None
    return made


def test_numbers_go_along_the_axis_hosts_make_panels_and_versions_lines() -> None:
    made = laid_out(host=HOSTS, engine_version=VERSIONS, io_threads=THREADS)
    assert (made.axis, made.lines, made.panels) == ("io_threads", "engine_version", "host")
    assert list(made.by_panel) == list(HOSTS)
    assert made.names == list(VERSIONS)
    assert made.xs == list(THREADS)
    assert made.left_out == ""


def test_of_two_numbers_the_one_with_more_values_goes_along_the_axis() -> None:
    made = laid_out(clients=[50, 650], value_bytes=[64, 512, 4096])
    assert (made.axis, made.lines, made.panels) == ("value_bytes", "clients", "")


@pytest.mark.parametrize("threads", [lambda n: n // 10, lambda n: min(n // 10, 2)])
def test_fields_that_vary_as_one_are_one(threads: Callable[[int], int]) -> None:
    given = [{"clients": n, "threads": threads(n), "host": h} for h in HOSTS for n in (10, 20, 30)]
    made = curves_of("Throughput", "1/s", given, [about(1.0 + n) for n in range(6)])
    assert made is not None
    assert (made.axis, made.lines, made.panels) == ("clients", "host", "")


def test_of_four_fields_the_one_that_matters_least_is_held_and_said() -> None:
    given, values = [], []
    for tls in (False, True):
        for version in VERSIONS:
            for host in HOSTS:
                for threads in THREADS:
                    given.append(
                        {"tls": tls, "engine_version": version, "host": host, "n": threads}
                    )
                    values.append(about(rate(host, version, threads) * (0.99 if tls else 1.0)))
    made = curves_of("Throughput", "1/s", given, values)
    assert made is not None
    assert (made.axis, made.lines, made.panels) == ("n", "engine_version", "host")
    assert made.left_out == "drawn at tls no"
    assert len(made.values) == len(HOSTS) * len(VERSIONS) * len(THREADS)


def test_more_lines_than_can_be_told_apart_are_thinned_with_both_ends() -> None:
    made = laid_out(clients=range(1, 20), pipeline=range(1, 12))
    assert made.axis == "clients"
    assert len(made.names) == MOST_LINES
    assert (made.names[0], made.names[-1]) == ("1", "11")
    assert made.left_out == "6 of 11 values of pipeline"


def test_what_is_not_known_is_no_point_and_nothing_to_compare_no_figure() -> None:
    given = [{"n": 1}, {"n": 2}, {"n": 3}]
    made = curves_of("p99", "ms", given, [about(1.0), None, about(3.0)])
    assert made is not None
    assert made.xs == [1, 3]
    assert curves_of("p99", "ms", given, [None, None, about(3.0)]) is None


def test_every_panel_has_the_lines_with_their_values() -> None:
    [throughput, p99] = figures(answer())
    assert (throughput.name, p99.name) == ("throughput_rps", "p99_ms")
    drawn = throughput.draw(700)
    assert drawn is not None
    assert [axes.get_title(loc="left") for axes in drawn.axes] == list(HOSTS)
    assert len({axes.get_ylim() for axes in drawn.axes}) == 1
    for host, axes in zip(HOSTS, drawn.axes, strict=True):
        lines = [tuple(line.get_ydata()) for line in axes.get_lines()]
        for version in VERSIONS:
            expected = [rate(host, version, number) / 1e6 for number in THREADS]
            assert any(line == pytest.approx(expected) for line in lines if len(line) == 4)
        assert [text.get_text() for text in axes.texts] == list(VERSIONS)


def test_labels_of_lines_keep_apart_and_inside_a_phone() -> None:
    drawn = figures(answer())[0].draw(358)
    assert drawn is not None
    for axes in drawn.axes:
        heights = sorted(text.xy[1] for text in axes.texts)  # type: ignore[attr-defined]
        gaps = [after - before for before, after in pairwise(heights)]
        assert min(gaps) * axes.bbox.height >= 12
        assert all(text.get_window_extent().x1 <= 358 for text in axes.texts)


def test_without_numbers_there_are_dots_with_bars() -> None:
    [throughput, _] = figures(answer(threads=(4,)))
    drawn = throughput.draw(700)
    assert drawn is not None
    [axes] = drawn.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == list(VERSIONS)
    places = sorted(line.get_xdata()[0] for line in axes.get_lines())
    expected = sorted(rate(host, version, 4) / 1e6 for host in HOSTS for version in VERSIONS)
    assert places == pytest.approx(expected)


def test_an_interval_without_an_end_goes_to_the_top_of_the_axis() -> None:
    given = [{"n": n, "host": host} for host in HOSTS for n in (1, 2)]
    made = curves_of("p99", "ms", given, [Estimate(1.0, 0.5, float("inf"))] * 3 + [about(2.0)])
    assert made is not None
    [axes] = curves(made, width_px=700).axes
    assert axes.get_ylim()[1] < 10


def test_an_open_loop_begins_with_its_latency() -> None:
    assert figures(answer(arrival="open_loop"))[0].name == "p99_ms"


def test_a_terminal_of_eighty_columns_has_a_line_for_each_line_of_the_figure() -> None:
    buffer = io.StringIO()
    print_answer(answer(), Console(file=buffer, width=80, force_terminal=False))
    lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
    assert (
        lines[0]
        == "24 points, up to 14.6 M/s at host c8g.4xlarge, engine version 9.1, io-threads 8"
    )
    assert max(map(len, lines)) <= 80
    start = lines.index("Throughput by io-threads, engine version and host, in M/s")
    assert lines[start + 1] == HOSTS[0]
    assert lines[start + 2].split() == ["engine", "version", *map(str, THREADS)]
    assert lines[start + 3].split() == ["8.0", "▁", "1.6", "▂", "3.2", "▄", "6.4", "█", "12.8"]
    assert lines[start + 6] == HOSTS[1]


def test_plot_of_the_answer_is_the_figure_of_the_page() -> None:
    drawn = answer().plot()
    assert len(drawn.axes) == len(HOSTS)
    assert drawn._repr_svg_().startswith("<svg")
