"""What terminal, page and figures say of the points of a node."""

from collections.abc import Sequence
from dataclasses import replace

from forecache.models.advice.node_answers import (
    HostSummary,
    NodeAnswer,
    Recommended,
    Simulated,
    StudyTarget,
)
from forecache.models.advice.recommend import Recommendation
from forecache.models.results.points import Point, Unmet

from .formats import UNKNOWN, percent, plain
from .settings import engine_name, setting_name, setting_text, value_text, varying_keys

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

    That a point is overloaded is one of them; that a load curve goes beyond capacity is not, nor
    what else does not hold of settings that are not recommended.
    """
    chosen = target.recommendation.chosen
    points = []
    for point in target.points:
        told = [each for each in point.unmet if each.what in ("load", "memory")]
        if point.given == chosen:
            told = unmet_of_chosen(target.recommendation, point)
            told = [each for each in told if each.what != "objective"]
        points.append(replace(point, unmet=told))
    if not isinstance(target, StudyTarget):
        return point_warnings(points)
    of_points = point_warnings(points, known=target.warnings)
    known = {text for point in target.points for text in point.warnings}
    of_curve = (text for point in target.load_curve for text in point.warnings)
    further = [text for text in of_curve if text not in known]
    return list(dict.fromkeys([*target.warnings, *of_points, *further]))


def unmet_of_chosen(recommendation: Recommendation, point: Point) -> list[Unmet]:
    """What does not hold of the setting to run, with its thread plan.

    A saving child that has CPUs of its own there takes none of the server's.
    """
    plan = recommendation.thread_plan
    apart = plan is not None and any(line.startswith("bgsave") for line in plan.conf)
    return [each for each in point.unmet if not (apart and each.what == "CPUs")]


def point_warnings(points: Sequence[Point], *, known: Sequence[str] = ()) -> list[str]:
    """Collect what does not hold at points and their warnings, but those known, each once.

    With where they hold, unless it is everywhere.
    """
    told = ([*(each.sentence for each in point.unmet), *point.warnings] for point in points)
    return _with_places(points, [[text for text in each if text not in known] for each in told])


def unmet_phrases(points: Sequence[Point]) -> list[str]:
    """Say what does not hold, and at which points."""
    return _with_places(points, [[each.sentence for each in point.unmet] for point in points])


def _with_places(points: Sequence[Point], told: Sequence[Sequence[str]]) -> list[str]:
    """Each sentence once, with the points that it is told of unless these are all."""
    where: dict[str, list[int]] = {}
    for index, sentences in enumerate(told):
        for sentence in dict.fromkeys(sentences):
            where.setdefault(sentence, []).append(index)
    found = []
    for sentence, places in where.items():
        at = _places(points, places)
        found.append(f"{at}: {sentence}" if at else sentence)
    return found


def basis_phrase(host: HostSummary) -> str:
    """Say what is known of an engine on a host: `profiled here`."""
    return "by catalogue" if host.kind == "catalogue" else f"{host.kind} here"


def subtitle_phrase(answer: NodeAnswer, points: Sequence[Point]) -> str:
    """Which host and engine an answer is about; how many where its points sweep them."""
    hosts = _different(points, "host")
    engines = _different(points, "engine", "engine_version")
    if hosts <= 1 and engines <= 1:
        return about_phrase(answer)
    host = f"{hosts} hosts" if hosts > 1 else answer.host.title
    engine = f"{engines} engines" if engines > 1 else engine_name(answer.engine)
    return f"{host}, {engine}"


def about_phrase(answer: NodeAnswer) -> str:
    """Which host and engine an answer is about, and what is known of them."""
    about = f"{answer.host.title}, {engine_name(answer.engine)}"
    # The name of an engine that was observed here says so.
    observed = answer.host.kind == "observed"
    return about if observed else f"{about}, {basis_phrase(answer.host)}"


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
