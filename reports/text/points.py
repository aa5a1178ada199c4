"""What terminal, page and figures say of the points of a node."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from forecache.models.advice.next_measurement import Gain, MeasureNext
from forecache.models.advice.node_answers import (
    HostSummary,
    NodeAnswer,
    Recommended,
    Simulated,
    StudyTarget,
)
from forecache.models.advice.recommend import Recommendation
from forecache.models.advice.sensitivity import Indices, InputIndex, Sensitivity
from forecache.models.results.points import LoadPoint, Point, Uncertainty, Unmet

from .formats import is_number, margin, percent, plain
from .settings import engine_name, setting_name, setting_text, short_names, value_text, varying_keys

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
        unmet = [each for each in point.unmet if each.what in ("load", "memory")]
        if point.given == chosen:
            unmet = unmet_of_chosen(target.recommendation, point)
            unmet = [each for each in unmet if each.what != "objective"]
        points.append(replace(point, unmet=unmet))
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
    sentences = ([*(each.sentence for each in point.unmet), *point.warnings] for point in points)
    return _with_places(
        points, [[text for text in each if text not in known] for each in sentences]
    )


def unmet_phrases(points: Sequence[Point]) -> list[str]:
    """Say what does not hold, and at which points."""
    return _with_places(points, [[each.sentence for each in point.unmet] for point in points])


def _with_places(points: Sequence[Point], by_point: Sequence[Sequence[str]]) -> list[str]:
    """Each sentence once, with the points that it is about unless these are all."""
    where: dict[str, list[int]] = {}
    for index, sentences in enumerate(by_point):
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
    own = engine_name(answer.engine)
    hosts = {str(point.given.get("host")) for point in points}
    # An engine may be given with its version.
    given = [str(point.given.get("engine", own.split()[0])).partition(" ") for point in points]
    versions = {
        (name, version or str(point.given.get("engine_version")))
        for (name, _, version), point in zip(given, points, strict=True)
    }
    engines = {name for name, _ in versions}
    if len(hosts) <= 1 and len(versions) <= 1:
        about = f"{answer.host.title}, {own}"
        # The name of an engine that was observed here says so.
        observed = answer.host.kind == "observed"
        return about if observed else f"{about}, {basis_phrase(answer.host)}"
    host = f"{len(hosts)} hosts" if len(hosts) > 1 else answer.host.title
    if len(versions) == 1:
        return f"{host}, {own}"
    engine = next(iter(engines)) if len(engines) == 1 else f"{len(engines)} engines"
    if len(versions) == len(engines):
        return f"{host}, {engine}"
    return f"{host}, {len(versions)} versions of {engine}"


def swept_columns(points: Sequence[Point]) -> list[tuple[str, list[str]]]:
    """Heading and cells of what the sweep varies, by the last part of its name where that tells."""
    keys = varying_keys([point.given for point in points])
    return [
        (setting_name(name).replace(".", " "), [plain(point.given.get(key)) for point in points])
        for key, name in zip(keys, short_names(keys), strict=True)
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


# --- what limits, and how sure it is --------------------------------------------------------------


_LEAST_NARROWING = 0.05
"""A measurement that takes less than this share off an interval is not worth the time."""

_LIMITS = {
    "load generator": "limited by the load generator, not the server",
    "interrupts": "limited by the interrupt cores",
    "cores": "limited by the cores, which the threads share",
    "clients": "limited by the number of clients",
    "turns": "limited by threads that take turns",
    "none": "nothing is saturated",
}

_DEPTHS = {
    "prior": "CPU work assumed, never measured",
    "clock": "CPU work fitted to measured CPU time",
    "instructions": "CPU work fitted to counted instructions",
    "counters": "CPU work fitted to hardware counters",
    "vtune": "CPU work fitted to a VTune profile",
}


def depth_phrase(depth: object) -> str:
    """Say what an engine profile rests on; empty when it is not known."""
    return _DEPTHS.get(str(depth), f"profiled to depth {depth}") if depth else ""


def limit_phrase(place: Point | Recommendation) -> str:
    """Say what limits a point or recommendation: `limited by the main thread`."""
    return limited_by(place.bottleneck) + _of_the_network(place)


def limited_by(bottleneck: str) -> str:
    """Say what limits: `limited by the main thread`."""
    return _LIMITS.get(bottleneck, f"limited by the {bottleneck}")


def limit_name(place: Point | Recommendation) -> str:
    """Name what limits a point or recommendation for a table cell."""
    if place.bottleneck == "none":
        return "nothing, no station is saturated"
    if place.bottleneck == "clients":
        return "the number of clients: each waits for its replies"
    if place.bottleneck == "turns":
        return "threads that take turns: each waits while another works"
    return place.bottleneck + _of_the_network(place)


def _of_the_network(place: Point | Recommendation) -> str:
    """Where the network limits, by what: ` (packets)`."""
    limits = place.network_limits
    if place.bottleneck != "network" or not limits:
        return ""
    return f" ({max(limits, key=limits.__getitem__)})"


def tightening_phrases(measure_next: MeasureNext) -> list[str]:
    """Say which measurement would narrow an answer most, and which does so without its host.

    `profile c7g.4xlarge itself (throughput at io-threads 6: ±38% would become ±20%)`; nothing
    where no measurement would help.
    """
    found, quantity = measure_next.measurements, measure_next.quantity
    if not found:
        return []
    best = found[0]
    before, after = margin(measure_next.margin), margin(best.margin)
    worth = narrowing(measure_next)
    if not worth:
        # Not worth the time: the rest is the model's own error.
        return [f"no measurement would noticeably narrow {quantity} ({before})"]
    phrases = [f"{best.what} ({quantity}: {before} would become {after})"]
    away = next((gain for gain in worth if not gain.needs_host), best)
    if away is not best:
        phrases.append(f"without that host, {away.what} ({margin(away.margin)})")
    return phrases


def narrowing(measure_next: MeasureNext) -> list[Gain]:
    """Measurements that would make the interval noticeably narrower, by what they bring."""
    most = (1.0 - _LEAST_NARROWING) * measure_next.margin
    return [gain for gain in measure_next.measurements if gain.margin <= most]


def known_phrase(measure_next: MeasureNext) -> str:
    """Say how well a quantity is known, and what of that no measurement narrows."""
    about = f"{measure_next.quantity} is known to {margin(measure_next.margin)}"
    if measure_next.model_margin:
        own = margin(measure_next.model_margin)
        about += f"; the model’s own error of {own} would remain"
    if not narrowing(measure_next):
        about += "; no measurement would noticeably narrow that"
    return about


INTERVAL_PARTS = {
    "monte_carlo": ("simulation", "chance in the simulated arrivals and popularities"),
    "parameters": ("parameters", "uncertain numbers of host, engine and load generator"),
    "discrepancy": ("model", "the model’s own error, estimated where it was calibrated"),
    "windows": ("measurement", "how far one measurement of a server is from its ordinary ones"),
}
"""By field of `Uncertainty`: what a part of an interval is called, and what it comes from."""


def interval_parts(spread: Uncertainty) -> list[tuple[str, str, str]]:
    """Name, half width and meaning of each part of an interval of throughput."""
    return [
        (name, margin(getattr(spread, field)), what)
        for field, (name, what) in INTERVAL_PARTS.items()
    ]


KNEE_MULTIPLE = 2.0


def latency_knee_rps(load_curve: Sequence[LoadPoint]) -> float | None:
    """Return the offered load at which p99 has doubled, interpolated between points.

    Returns
    -------
    float or None
        Requests a second; None when the curve does not reach the double of its first p99.
    """
    curve = [(point.offered_rps, point.p99_ms.value) for point in load_curve if point.p99_ms]
    if len(curve) < 2:
        return None
    goal_ms = KNEE_MULTIPLE * curve[0][1]
    for (x0, y0), (x1, y1) in pairwise(curve):
        if y0 < goal_ms <= y1:
            return x0 + (x1 - x0) * (goal_ms - y0) / (y1 - y0)
    return None


# --- which inputs move an answer -----------------------------------------------------------------


_QUANTITIES = {"throughput_rps": "throughput", "p99_ms": "p99"}


def sensitivity_title(found: Sensitivity) -> str:
    """Return which quantity of which setting is moved."""
    at = setting_text(found.at)
    return f"What moves {_QUANTITIES[found.quantity]}" + (f" at {at}" if at else "")


def sensitivity_groups(found: Sensitivity) -> list[tuple[str, Indices]]:
    """Return the sets of inputs with their names."""
    groups = [("Uncertain numbers", found.uncertain)]
    return groups + ([("What you can choose", found.choices)] if found.choices else [])


def input_name(index: InputIndex) -> str:
    """Return an input as a reader knows it: a number by its name, a field with what was tried."""
    if index.tried is not None:
        return f"{setting_name(index.name)} {_tried(index.tried)}"
    return f"{index.inputs} others together" if index.inputs > 1 else index.name


def _tried(values: Sequence[object]) -> str:
    numbers = [value for value in values if is_number(value)]
    if len(numbers) == len(values):
        return f"{value_text(min(numbers))}–{value_text(max(numbers))}"
    return ", ".join(map(value_text, values))


def share_with_bounds(index: InputIndex) -> str:
    """Return an index with its interval, `40% (34–46)`."""
    total = index.total
    return f"{percent(total.value)} ({100 * total.low:.0f}–{100 * total.high:.0f})"


def spread_phrase(name: str, indices: Indices) -> str:
    """Return by how much all inputs of a set move the quantity, as one standard deviation."""
    spread = "its rank" if indices.ranks else f"it by {margin(indices.spread)}"
    move = "move" if name.endswith("numbers") else "moves"
    chance = "" if indices.chance is None else f"; chance {_small(indices.chance.value)}"
    basis = f"{indices.runs:,} simulations{chance}"
    if indices.basis == "surrogate":
        basis = "by bounds and a regression, since simulating them takes too long"
    return f"{name} {move} {spread}, one standard deviation ({basis})"


def sensitivity_notes(found: Sensitivity) -> list[str]:
    """Return what a reader has to know about the indices."""
    uncertain = found.uncertain
    missed = _small(found.surrogate_unexplained)
    notes = [
        "Share: of the variance, what is left if all other inputs of the list are known "
        "(total-order Sobol index, 95% interval). Shares overlap where inputs act together, and "
        "can add to more than 100%.",
        f"Bounds and a regression miss {missed} of the first variance.",
    ]
    if uncertain.inert:
        notes.append(f"{uncertain.inert} more uncertain numbers change nothing here.")
    if uncertain.ranks or (found.choices is not None and found.choices.ranks):
        notes.append("At some inputs the server is overloaded: the shares are of the rank then.")
    if found.choices is None:
        notes.append("What you can choose takes too long to simulate.")
    return notes


def _small(share: float) -> str:
    return f"{share:.1%}" if share < 0.095 else percent(share)
