"""Which figures a result has: those of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from forecache.models.advice.node_answers import Explained, Recommended, Simulated, StudyTarget
from forecache.models.plan.results import PlanAnswer
from forecache.models.results.displayed import Displayed
from forecache.models.results.latency import LatencyDistribution
from forecache.models.results.points import Point
from forecache.models.results.series import RunsOverTime
from forecache.sim.errors import InputError

from .. import figures
from ..text.formats import is_number
from ..text.points import chosen_point
from ..text.runs import moments_of, panels_of, point_title, ticks_of, without_idle

Figures = Mapping[str, Callable[[], Any]]


class FigureStack(tuple[Figure, ...]):
    """Figures that belong together, one below the other."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return "".join(each._repr_svg_() for each in self)  # type: ignore[attr-defined]


def figure_of(result: Displayed, name: str | None) -> Any:
    """A figure of a result; see `Displayed.plot`."""
    found = _figures_of(result)
    chosen = next(iter(found), "") if name is None else name
    drawn = found[chosen]() if chosen in found else None
    if drawn is not None:
        return drawn
    if not found:
        raise InputError("this result has no figure; valid is its table, to_frame().")
    raise InputError(
        f"field figure: found {chosen!r}, of which nothing is drawn; valid is {', '.join(found)}."
    )


def _figures_of(result: Displayed) -> Figures:
    for kind, figures_of in _FIGURES.items():
        if isinstance(result, kind):
            return figures_of(result)
    from .measured import measured_figures  # with all of calibration

    return measured_figures(result)


def _simulated(answer: Simulated) -> Figures:
    points = answer.points
    found: dict[str, Callable[[], Any]] = {
        key: partial(figures.throughput_by, points, key) for key in _numeric_sweeps(points)
    }
    if len(points) == 1:
        found["stages"] = lambda: figures.stages(points[0])
    return found


def _numeric_sweeps(points: list[Point]) -> list[str]:
    """The swept field, if it is a number and the only one: a curve has one point at a place."""
    keys = list(dict.fromkeys(key for point in points for key in point.given))
    numbers = all(is_number(point.given.get(key)) for key in keys for point in points)
    return keys if len(keys) == 1 and numbers else []


def _recommended(answer: Recommended) -> Figures:
    return {
        "scaling": lambda: figures.scaling(answer),
        "utilisation": lambda: figures.utilisation(answer),
        "stages": lambda: figures.stages(chosen_point(answer)),
    }


def _study_target(answer: StudyTarget) -> Figures:
    return {**_recommended(answer), "latency": lambda: figures.latency_by_load(answer)}


def _explained(answer: Explained) -> Figures:
    return {"stages": lambda: figures.stages(answer.points[answer.shown.point])}


def _planned(answer: PlanAnswer) -> Figures:
    return {"front": lambda: figures.front(answer.front)}


def _over_time(result: RunsOverTime) -> Figures:
    points = result.points
    if len(points) == 1:
        return {"point 0": lambda: _panels(result, 0)}
    names = [point_title(point) or f"point {number}" for number, point in enumerate(points)]
    return {name: partial(_panels, result, number) for number, name in enumerate(names)}


def _panels(result: RunsOverTime, number: int) -> FigureStack:
    """All panels of a point."""
    run = result.points[number].run
    panels, _ = without_idle(panels_of(run))
    moments, ticks = moments_of(run.marks), ticks_of(run)
    margin_px = figures.right_margin_px(panels, [row.name for row in ticks])
    drawn = []
    for panel in panels:
        positive = [
            float(x.finite[x.finite > 0].min()) for x in panel.lines if (x.finite > 0).any()
        ]
        figure = figures.over_time(
            panel,
            run.times_s,
            moments,
            highest=panel.highest,
            lowest_positive=min(positive, default=0.0),
            margin_px=margin_px,
            ticks=ticks,
            width_px=figures.WIDE_PX,
        )
        if figure is not None:
            drawn.append(figure)
    return FigureStack(drawn)


def _latency(result: LatencyDistribution) -> Figures:
    return {"ccdf": lambda: figures.latency_ccdf(result)}


_FIGURES: dict[type[Any], Callable[[Any], Figures]] = {
    StudyTarget: _study_target,
    Recommended: _recommended,
    Simulated: _simulated,
    Explained: _explained,
    PlanAnswer: _planned,
    RunsOverTime: _over_time,
    LatencyDistribution: _latency,
}
"""By type, subclasses before their bases."""
