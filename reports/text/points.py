"""What terminal, page and figures say of the points of a node."""

from collections.abc import Sequence

from forecache.models.advice.node_answers import NodeAnswer, Recommended, Simulated, StudyTarget
from forecache.models.advice.recommend import Recommendation
from forecache.models.results.points import Point

from .engines import engine_name
from .formats import UNKNOWN, percent, plain, rate
from .settings import setting_name, setting_text, value_text, varying_keys

SETTING = "io_threads"
"""The field that a recommendation is about."""

_SHORT_LIMITS = {
    "main thread": "main",
    "I/O threads": "I/O",
    "worker threads": "work",
    "load generator": "load",
}

_OUTSIDE_WORDS = ("outside", "extrapolat", "beyond")
"""A warning with one of them shades its point as out of range."""


def by_threads(target: Recommended | Simulated) -> list[tuple[float, Point]]:
    """Return (io_threads, point) in ascending order."""
    found = [(float(point.given[SETTING]), point) for point in target.points]
    return sorted(found, key=lambda pair: pair[0])


def chosen_point(target: Recommended) -> Point:
    """Return the point at the chosen setting."""
    chosen = target.recommendation.chosen
    return next(point for point in target.points if point.given == chosen)


def standing(recommendation: Recommendation) -> str:
    """Return what the chosen setting is: `recommended`, or only `closest` to the objective."""
    return "closest" if recommendation.setting is None else "recommended"


def is_outside(point: Point) -> bool:
    """Tell whether a point's warnings say that it lies outside the calibrated range."""
    return any(word in text.lower() for text in point.warnings for word in _OUTSIDE_WORDS)


def overload_phrase(point: Point) -> str:
    """Say what an overloaded point completes and how fast its backlog grows; else nothing."""
    growth = point.backlog_growth_rps
    if growth is None:
        return ""
    completes_rps = point.throughput_rps.value
    return (
        f"overloaded: completes {rate(completes_rps)} of {rate(completes_rps + growth.value)}; "
        f"the backlog grows by {rate(growth.value)}, so latency has no steady value"
    )


def mean_percent(shares: Sequence[float]) -> str:
    """Format the mean of some shares, as unknown where there are none."""
    return percent(sum(shares) / len(shares)) if shares else UNKNOWN


def short_limit(point: Point) -> str:
    """Name what limits a point in one short word where there is one."""
    return _SHORT_LIMITS.get(point.bottleneck, point.bottleneck)


def threads_alike(points: Sequence[Point]) -> bool:
    """Return whether the server has worker threads that are all alike, and no main thread."""
    return bool(points) and all(point.threads_alike for point in points)


def target_warnings(target: Recommended) -> list[str]:
    """Collect the warnings of a target, of its points and load curve, each once.

    That a point is overloaded is one of them; that a load curve goes beyond capacity is not.
    """
    if not isinstance(target, StudyTarget):
        return point_warnings(target.points)
    of_points = point_warnings(target.points, known=target.warnings)
    told = {text for point in target.points for text in point.warnings}
    of_curve = (text for point in target.load_curve for text in point.warnings)
    further = [text for text in of_curve if text not in told]
    return list(dict.fromkeys([*target.warnings, *of_points, *further]))


def point_warnings(points: Sequence[Point], *, known: Sequence[str] = ()) -> list[str]:
    """Collect the warnings of points, but those known, with where they hold unless it is at all."""
    where: dict[str, list[int]] = {}
    for index, point in enumerate(points):
        for warning in dict.fromkeys([*point.warnings, overload_phrase(point)]):
            if warning and warning not in known:
                where.setdefault(warning, []).append(index)
    found = []
    for warning, places in where.items():
        at = _places(points, places)
        found.append(f"{at}: {warning}" if at else warning)
    return found


def subtitle_phrase(answer: NodeAnswer, points: Sequence[Point]) -> str:
    """Which host and engine an answer is about; how many where its points sweep them."""
    hosts = _different(points, "host")
    engines = _different(points, "engine", "engine_version")
    host = f"{hosts} hosts" if hosts > 1 else answer.host.title
    engine = f"{engines} engines" if engines > 1 else engine_name(answer.engine)
    return f"{host}, {engine}"


def _different(points: Sequence[Point], *keys: str) -> int:
    """Count the different values of swept fields."""
    return len({tuple(str(point.given.get(key)) for key in keys) for point in points})


def swept_columns(points: Sequence[Point]) -> list[tuple[str, list[str]]]:
    """Heading and cells of what the sweep varies, by the last part of its name where that tells."""
    keys = varying_keys([point.given for point in points])
    ends = [key.rpartition(".")[2] for key in keys]
    return [
        (
            setting_name(end if ends.count(end) == 1 else key).replace(".", " "),
            [plain(point.given.get(key)) for point in points],
        )
        for key, end in zip(keys, ends, strict=True)
    ]


def _places(points: Sequence[Point], places: Sequence[int]) -> str:
    """Name some points among all by the one setting that tells them apart, else by all settings.

    Empty where they are all there are.
    """
    if len(places) == len(points):
        return ""
    given = [point.given for point in points]
    for key in dict.fromkeys(key for each in given for key in each):
        values = [value_text(each.get(key, "?")) for each in given]
        inside = dict.fromkeys(values[index] for index in places)
        outside = {value for index, value in enumerate(values) if index not in places}
        if not outside & inside.keys():
            return f"{setting_name(key)} {', '.join(inside)}"
    return "; ".join(dict.fromkeys(setting_text(given[index]) for index in places))
