"""Figures of published measurements: a curve per series, or a row per point."""

from typing import Any

import pytest

from evidence.figures.published import published


def point(role: str = "validation", p50: bool = False, **given: Any) -> dict[str, Any]:
    observed = {"throughput_rps": 1000.0 * given.get("io_threads", 1)}
    if p50:
        observed["p50_ms"] = 0.4
    return {
        "index": 0,
        "given": given,
        "role": role,
        "observed": observed,
        "predicted": {
            k: {"value": v, "low": 0.9 * v, "high": 1.2 * v} for k, v in observed.items()
        },
    }


def curve(**fields: Any) -> list[dict[str, Any]]:
    roles = ["calibration", "validation", "validation", "validation"]
    return [
        point(role, io_threads=threads, **fields)
        for threads, role in zip((1, 2, 4, 8), roles, strict=True)
    ]


def dots(axes: Any) -> list[Any]:
    return [line for line in axes.lines if line.get_marker() == "o"]


def test_a_curve_per_series_and_a_row_per_quantity() -> None:
    points = curve(command="set", p50=True) + curve(command="get", p50=True)
    figure = published({"points": points})
    assert len(figure.axes) == 4
    for axes in figure.axes:
        measured = dots(axes)
        assert [line.get_xdata()[0] for line in measured] == [1, 2, 4, 8]
        # Only the fitted point is hollow.
        faces = {line.get_markerfacecolor() for line in measured[1:]}
        assert len(faces) == 1
        assert measured[0].get_markerfacecolor() not in faces
        assert axes.get_ylim()[0] == 0
    throughput = figure.axes[0]
    [line] = [line for line in throughput.lines if line.get_marker() in ("", "None")]
    assert list(line.get_ydata()) == pytest.approx([1, 2, 4, 8])


def test_points_that_differ_otherwise_get_a_row_each() -> None:
    points = [
        point("calibration", command="set", pipeline=1),
        point(command="set", pipeline=10),
        point(command="get", pipeline=10, p50=True),
    ]
    figure = published({"points": points})
    throughput, median = figure.axes
    labels = [tick.get_text() for tick in throughput.get_yticklabels()]
    assert labels == ["SET, pipeline 1", "SET, pipeline 10", "GET, pipeline 10"]
    assert [line.get_ydata()[0] for line in dots(throughput)] == [0, 1, 2]
    assert [line.get_ydata()[0] for line in dots(median)] == [2]


def test_fitted_points_alone_are_shown_too() -> None:
    """Their latency was not fitted."""
    figure = published({"points": [point("calibration", p50=True, io_threads=1)]})
    assert [len(dots(axes)) for axes in figure.axes] == [1, 1]
