"""Figures: what they draw, that they fit their width, and that files can be written."""

import re
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from forecache.calibration.fit.report import FitPoint
from forecache.models.results.points import Stage
from forecache.reports import figures
from forecache.reports.figures.canvas import log_ticks, round_ticks, spread_apart, thinned
from forecache.reports.study_answer import HostNumbers
from forecache.reports.text.points import latency_knee_rps
from tests.made_points import made_point, made_sensitivity
from tests.reports.study_fixture import (
    calibration,
    estimate,
    graviton_target,
    host_profile,
    local_target,
    made_load_point,
    recommendation,
)


def _texts(figure: Figure) -> list[str]:
    svg = figures.inline_svg(figure, prefix="t", label="test")
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def _cpu_points() -> list[FitPoint]:
    return [p for p in calibration().points if "ns" in p.quantity]


def test_scaling_marks_knee_recommendation_and_limits() -> None:
    figure = figures.scaling(graviton_target())
    assert figure is not None
    texts = _texts(figure)
    assert "recommended 6: 1.18 M/s" in texts
    assert "knee 6" in texts
    assert "I/O threads" in texts
    assert any("outside the calibrated range" in text for text in texts)


@pytest.mark.parametrize("width_px", [figures.HALF_PX, figures.NARROW_PX])
def test_sensitivity_names_every_input_with_its_interval(width_px: float) -> None:
    found = made_sensitivity()
    figure = figures.sensitivity(found, width_px=width_px)
    assert figure is not None
    texts = _texts(figure)
    assert "What moves throughput at io-threads 4" in texts
    assert {"host.tcp_send_ns", "49 others together", "60% (50–70)"} <= set(texts)
    assert {"Uncertain numbers", "What you can choose", "clients 160–2,600"} <= set(texts)
    nothing = replace(found, uncertain=replace(found.uncertain, indices=[]), choices=None)
    assert figures.sensitivity(nothing) is None


def test_scaling_without_warnings_shades_nothing() -> None:
    figure = figures.scaling(local_target())
    assert figure is not None
    assert not any("calibrated" in text for text in _texts(figure))
    assert "2 cores" in _texts(figure)


def test_scaling_keeps_knee_and_recommendation_apart() -> None:
    target = graviton_target(recommendation=replace(recommendation(), knee={"io_threads": 8}))
    figure = figures.scaling(target)
    assert figure is not None
    texts = _texts(figure)
    assert "knee 8" in texts
    assert "recommended 6: 1.18 M/s" in texts


def test_latency_knee_is_where_p99_doubles() -> None:
    curve = [
        made_load_point(rate, p99_ms=estimate(p99))
        for rate, p99 in ((100.0, 1.0), (200.0, 1.5), (300.0, 2.5))
    ]
    # Half way between 1.5 and 2.5.
    assert latency_knee_rps(curve) == pytest.approx(250.0)
    assert latency_knee_rps(curve[:2]) is None
    assert latency_knee_rps([]) is None


def test_latency_axis_is_linear_for_a_flat_curve_and_logarithmic_for_a_steep_one() -> None:
    flat = [made_load_point(r, p50_ms=estimate(1.0), p99_ms=estimate(2.0)) for r in (1e5, 2e5)]
    figure = figures.latency_by_load(graviton_target(load_curve=flat))
    assert figure is not None
    assert figure.axes[0].get_yscale() == "linear"
    steep = figures.latency_by_load(graviton_target())
    assert steep is not None
    assert steep.axes[0].get_yscale() == "log"


def test_overloaded_points_do_not_stretch_the_latency_axis() -> None:
    curve = [
        replace(point, p99_ms=estimate(120_000.0)) if point.overloaded else point
        for point in graviton_target().load_curve
    ]
    figure = figures.latency_by_load(graviton_target(load_curve=curve))
    assert figure is not None
    assert figure.axes[0].get_ylim()[1] < 1000
    assert "overloaded" in _texts(figure)


@pytest.mark.parametrize("width_px", [358, 548])
@pytest.mark.parametrize("knee_at", [0.02, 0.3, 0.6, 0.85, 0.97])
def test_labels_of_a_latency_curve_keep_apart_wherever_its_knee_is(
    knee_at: float, width_px: int
) -> None:
    loads = [10_000.0 * n for n in range(1, 101)]
    curve = [
        made_load_point(
            load,
            p50_ms=None,
            p99_ms=estimate(1.0 if load < knee_at * 1e6 else 9.0),
            verdict="OVERLOADED" if load > 0.95e6 else "STABLE",
        )
        for load in loads
    ]
    figure = figures.latency_by_load(graviton_target(load_curve=curve), width_px=width_px)
    assert figure is not None
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    [axes] = figure.axes
    shown = [t for t in [*axes.texts, *figure.texts] if t.get_text()]
    assert any(t.get_text().startswith("knee") for t in shown)
    boxes = {t.get_text(): t.get_window_extent(renderer) for t in shown}
    for (one, box), (other, second) in combinations(boxes.items(), 2):
        assert not box.overlaps(second), f"{one!r} lies on {other!r}"
    assert all(box.x0 >= 0 and box.x1 <= width_px for box in boxes.values())


def test_stages_are_grouped_by_thread_with_totals() -> None:
    stages = [Stage("read", "I/O", 0.75), Stage("execute", "main", 0.2), Stage("write", "I/O", 0.5)]
    figure = figures.stages(made_point(stages=stages))
    assert figure is not None
    texts = _texts(figure)
    assert "I/O threads: 1.25 µs" in texts
    assert "Main thread: 0.20 µs" in texts
    assert texts.index("write") < texts.index("execute")


def test_utilisation_names_each_line() -> None:
    figure = figures.utilisation(graviton_target())
    assert figure is not None
    text = " ".join(_texts(figure))
    for name in ("main thread", "I/O threads", "load generator"):
        assert name in text


@pytest.mark.parametrize("width_px", [figures.WIDE_PX, figures.HALF_PX, figures.NARROW_PX])
def test_figures_have_the_width_asked_for(width_px: int) -> None:
    drawn = [
        figures.scaling(graviton_target(), width_px=width_px),
        figures.latency_by_load(graviton_target(), width_px=width_px),
        figures.utilisation(graviton_target(), width_px=width_px),
        figures.stages(graviton_target().points[3], width_px=width_px),
        figures.memory_latency(host_profile(), width_px=width_px),
        figures.accuracy(_cpu_points(), quantity="ns", width_px=width_px),
    ]
    for figure in drawn:
        assert figure is not None
        assert figure.get_figwidth() * 72 == pytest.approx(width_px)
        svg = figures.inline_svg(figure, prefix="p", label="x")
        assert f'viewBox="0 0 {width_px} ' in svg


def test_nothing_to_draw_is_none() -> None:
    assert figures.latency_by_load(graviton_target(load_curve=[])) is None
    assert figures.stages(made_point(stages=[])) is None
    assert figures.memory_latency(HostNumbers("x", [], [[4096.0, 1.0]])) is None
    assert figures.accuracy([], quantity="ns") is None


def test_inline_svg_names_only_what_is_referred_to() -> None:
    figure = figures.scaling(graviton_target())
    assert figure is not None
    svg = figures.inline_svg(figure, prefix="abc", label='a "label" <here>')
    ids = re.findall(r'id="([^"]+)"', svg)
    assert ids
    assert all(name.startswith("abc-") for name in ids)
    assert 'aria-label="a &quot;label&quot; &lt;here&gt;"' in svg
    for forbidden in ("<style", "<metadata", "xmlns", "http", "<!--"):
        assert forbidden not in svg


@pytest.mark.parametrize("highest", [0.07, 0.93, 1.0, 1.34, 7.0, 142.0, 999.0, 1.2e6])
def test_round_ticks_cover_the_range_with_few_round_steps(highest: float) -> None:
    ticks = round_ticks(highest)
    assert ticks[0] == 0
    assert ticks[-1] >= highest * (1 - 1e-9)
    assert 3 <= len(ticks) <= 8


def test_log_ticks_stay_inside_and_are_few() -> None:
    for low, high in ((0.1, 10.0), (1.0, 1e6), (3.0, 4.0), (0.02, 0.9)):
        ticks = log_ticks(low, high)
        assert 1 <= len(ticks) <= 8
        assert all(low * 0.99 <= tick <= high * 1.01 for tick in ticks)


def test_thinned_keeps_the_ends() -> None:
    kept = thinned([float(i) for i in range(1, 65)], 300)
    assert kept[0] == 1
    assert kept[-1] == 64
    assert len(kept) < 20
    assert thinned([1.0, 2.0, 3.0], 300) == [1.0, 2.0, 3.0]


def test_labels_spread_apart_without_leaving_the_range() -> None:
    placed = spread_apart([0.9, 0.91, 0.92], 0.1, 0.0, 1.0)
    assert placed == sorted(placed)
    assert all(b - a >= 0.1 - 1e-9 for a, b in pairwise(placed))
    assert max(placed) <= 1.0


@pytest.mark.parametrize("reach", [0.25, 0.7, 1.5, 2.4, 8.0, 40.0])
def test_marks_of_relative_errors_have_room_for_their_labels(reach: float) -> None:
    point = {"given": {}, "role": "fit", "quantity": "throughput_rps", "observed_rps": 1e5}
    points = [
        FitPoint(**point, predicted_rps=1e5 * (1 + error), relative_error=error)
        for error in (reach / 1.1, 0.01)
    ]
    figure = figures.accuracy(points, quantity="throughput_rps")
    assert figure is not None
    axes = figure.axes[1]
    bottom, top = axes.get_ylim()
    height_px = axes.get_window_extent().height
    marks_px = [(y - bottom) / (top - bottom) * height_px for y in sorted(axes.get_yticks())]
    assert len(marks_px) >= 3
    assert min(upper - lower for lower, upper in pairwise(marks_px)) > 14
