"""What the page shows of an answer: figures, the rows of its table, the data file."""

from __future__ import annotations

import csv
import io
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from forecache.models.advice.paired import PairedQuantity
from forecache.models.advice.quick_estimate import ERROR, QuickEstimate
from forecache.models.results.points import LoadPoint, Point
from forecache.sim.statistics import Estimate

from .. import figures
from ..builders.node import change, judged
from ..figures.canvas import MUTED
from ..text.formats import (
    UNKNOWN,
    Unit,
    byte_size,
    dollars,
    margin,
    milliseconds,
    rate,
    rate_unit,
    rate_with_bounds,
    time_unit,
    time_with_bounds,
)
from ..text.points import point_warnings
from .job import (
    NAMES,
    Compared,
    Described,
    Estimated,
    Message,
    SimulatedLoads,
    SimulatedThreads,
    SimulationsDone,
)
from .plots import SIDE_COLOURS, SIDE_MARKERS, BusyBar, Horizontal, PlottedCurve, busy, curves

_HOURS_PER_MONTH = 730.0

WAITING = "…"
"""What only a simulation tells, before it has."""


def figure_titles(answer: Answer) -> dict[str, str]:
    """Names of the figures of an answer, with what each shows."""
    return {
        "throughput": "Throughput against io-threads",
        "latency": "Latency against io-threads",
        "load": "Latency against load",
        "served": "Throughput against load",
        "busy": "Who is busy",
        **{f"stages-{side.about.side}": _stages_title(answer, side) for side in answer.sides},
    }


def figures_after(changed: set[str], answer: Answer) -> list[str]:
    """Which figures to draw again, those first that are looked at first."""
    found: list[str] = []
    if "threads" in changed:
        found += ["throughput", "latency"]
    if "loads" in changed:
        found += ["load", "served"]
    if "looked_at" in changed:
        found.append("busy")
        found += [f"stages-{side.about.side}" for side in answer.sides if side.point is not None]
    return found


def draw(name: str, answer: Answer, *, width_px: float, drawing: int) -> str | None:
    """Draw one figure as `<svg>…</svg>`; None where nothing is known for it.

    Parameters
    ----------
    drawing
        A number that tells this drawing's elements from those of others on the page.
    """
    label = f"{figure_titles(answer)[name]}: {_in_words(name, answer)}."
    if name.startswith("stages-"):
        point = answer.sides[int(name.removeprefix("stages-"))].point
        figure = None if point is None else figures.stages(point, width_px=width_px)
        if figure is None:
            return None
        return figures.inline_svg(figure, prefix=f"d{drawing}", label=label)
    drawn: dict[str, Callable[..., str | None]] = {
        "throughput": partial(_throughput, by_load=False),
        "latency": partial(_latency, by_load=False),
        "load": partial(_latency, by_load=True),
        "served": partial(_throughput, by_load=True),
        "busy": _busy,
    }
    return drawn[name](answer, width_px=width_px, label=label)


def _in_words(name: str, answer: Answer) -> str:
    """What a screen reader says of a figure."""
    if name in ("throughput", "served"):
        by_load = name == "served"
        found = [_rate_curve(side, answer, by_load=by_load) for side in answer.sides]
        return "; ".join(
            f"{c.name} " + ", ".join(f"{rate(y)} at {x:g}" for x, y, _ in c.values) for c in found
        ).strip()
    if name in ("latency", "load"):
        lines = _latency_curves(answer, by_load=name == "load")
        return "; ".join(
            f"{c.name} " + ", ".join(f"{milliseconds(y)} at {x:.3g}" for x, y, _ in c.values)
            for c in lines
        )
    return "see the table for its numbers" if name == "busy" else "processor time by stage"


def _stages_title(answer: Answer, side: SideAnswer) -> str:
    name = f", {NAMES[side.about.side]}" if len(answer.sides) > 1 else ""
    return f"Where a request’s time goes{name}"


def _side_name(answer: Answer, side: SideAnswer) -> str:
    return NAMES[side.about.side] if len(answer.sides) > 1 else ""


def _rate_curve(side: SideAnswer, answer: Answer, *, by_load: bool) -> PlottedCurve:
    estimated: dict[float, float] = {x: e.throughput_rps for x, e in side.estimates.items()}
    simulated: dict[float, Estimate] = {x: p.throughput_rps for x, p in side.points.items()}
    if by_load:
        guessed = [] if side.loads else side.load_estimates
        estimated = {x: each.throughput_rps for x, each in guessed}
        simulated = {p.offered_rps: p.throughput_rps for p in side.loads}
    return PlottedCurve(
        _side_name(answer, side),
        SIDE_COLOURS[side.about.side],
        SIDE_MARKERS[side.about.side],
        estimated,
        simulated,
        looked_at=None if by_load else side.about.threads,
    )


def _across_threads(answer: Answer) -> Horizontal:
    counts = {x for side in answer.sides for x in (*side.estimates, *side.points)}
    return Horizontal("io-threads", ticks=sorted(counts))


def _across_loads(found: Sequence[PlottedCurve]) -> Horizontal:
    unit = rate_unit(max((x for curve in found for x, _, _ in curve.values), default=1.0))
    return Horizontal(f"offered load, {_requests(unit)}", unit.divisor)


def _requests(unit: Unit) -> str:
    """`k requests/s`."""
    return f"{unit.symbol.strip().removesuffix('/s')} requests/s".strip()


def _throughput(answer: Answer, *, by_load: bool, width_px: float, label: str) -> str | None:
    found = [_rate_curve(side, answer, by_load=by_load) for side in answer.sides]
    unit = rate_unit(max((end for curve in found for end in curve.ends), default=1.0))
    return curves(
        found,
        title=f"Throughput, {_requests(unit)}",
        unit=unit,
        across=_across_loads(found) if by_load else _across_threads(answer),
        width_px=width_px,
        label=label,
        from_zero=True,
    )


def _latency_curves(answer: Answer, *, by_load: bool) -> list[PlottedCurve]:
    """p99 of each side, and p50 where there is one side only."""
    found = []
    for side in answer.sides:
        number = side.about.side
        name = f"{_side_name(answer, side)} p99".strip()
        shown = [("p99_ms", name, SIDE_COLOURS[number])]
        if len(answer.sides) == 1:
            shown.insert(0, ("p50_ms", "p50", MUTED))
        for quantity, label, colour in shown:
            known: dict[float, Estimate] = {}
            if by_load:
                guessed = [(x, getattr(e, quantity)) for x, e in side.load_estimates]
                known = {p.offered_rps: e for p in side.loads if (e := getattr(p, quantity))}
                guessed = [] if side.loads else guessed
            else:
                guessed = [(x, getattr(e, quantity)) for x, e in side.estimates.items()]
                guessed = [(x, value) for x, value in guessed if x not in side.points]
                known = {x: e for x, p in side.points.items() if (e := getattr(p, quantity))}
            estimated = {x: value for x, value in guessed if value is not None}
            looked_at = None if by_load else side.about.threads
            marker = SIDE_MARKERS[number]
            found.append(PlottedCurve(label, colour, marker, estimated, known, looked_at))
    return found


def _latency(answer: Answer, *, by_load: bool, width_px: float, label: str) -> str | None:
    found = _latency_curves(answer, by_load=by_load)
    ends = [end for curve in found for end in curve.ends]
    unit = time_unit(max(ends, default=1.0))
    return curves(
        found,
        title=f"Latency, {unit.symbol.strip()}",
        unit=unit,
        across=_across_loads(found) if by_load else _across_threads(answer),
        width_px=width_px,
        label=label,
        goal=answer.sides[0].about.objective_ms,
    )


def _busy(answer: Answer, *, width_px: float, label: str) -> str | None:
    stations: dict[str, list[BusyBar]] = {}
    for side in answer.sides:
        number = side.about.side
        if side.point is not None:
            for name, share in _shares_of(side.point):
                stations.setdefault(name, []).append(BusyBar(number, share, True))
        elif side.estimate is not None:
            for name, share in _estimated_shares(side.estimate):
                stations.setdefault(name, []).append(BusyBar(number, share, False))
    return busy(list(stations.items()), width_px=width_px, label=label)


def _shares_of(point: Point) -> list[tuple[str, float]]:
    threads = point.io_thread_utilisation
    mean = sum(threads) / len(threads) if threads else None
    named = (
        ("main thread", point.main_thread_utilisation),
        ("worker threads" if point.threads_alike else "I/O threads", mean),
        ("load generator", point.load_generator_utilisation),
        ("network", point.network_utilisation),
        ("interrupts", point.interrupt_utilisation or None),
    )
    return [(name, share) for name, share in named if share is not None]


def _estimated_shares(estimate: QuickEstimate) -> list[tuple[str, float]]:
    found = [("main thread", estimate.main_thread_utilisation)]
    if estimate.io_threads > 1:
        found.append(("I/O threads", estimate.io_thread_utilisation))
    return [*found, ("load generator", estimate.load_generator_utilisation)]


def rows(answer: Answer) -> list[list[str]]:
    """The table: a label, a cell for each scenario, and of two the paired difference."""
    sides = answer.sides
    by_quantity = {each.quantity: each for each in answer.differences}

    def row(label: str, cells: Sequence[str], quantity: str = "") -> list[str]:
        return [label, *cells, *_difference(by_quantity.get(quantity), len(sides) > 1)]

    found = [
        row("", [_standing(side) for side in sides]),
        row("Throughput", [_rate(side) for side in sides], "throughput_rps"),
        row("Latency p50", [_time(side, "p50_ms") for side in sides], "p50_ms"),
        row("Latency p99", [_time(side, "p99_ms") for side in sides], "p99_ms"),
        row("Verdict", [_verdict(side) for side in sides]),
        row("Limited by", [_limit(side) for side in sides]),
        row("Next limit", [_next_limit(side) for side in sides]),
        row("Memory", [_memory(side) for side in sides], "used_memory_bytes"),
        row("Cost a month", [_monthly(side) for side in sides], "usd_per_month"),
        row("A million requests", [_per_million(side) for side in sides],
            "usd_per_million_requests"),
    ]  # fmt: skip
    return found


def _difference(found: PairedQuantity | None, is_wanted: bool) -> list[str]:
    if not is_wanted:
        return []
    return [UNKNOWN if found is None else f"{change(found)}: {judged(found)}"]


def _standing(side: SideAnswer) -> str:
    threads = f"io-threads {side.about.threads}"
    if side.point is not None:
        return f"{threads}: simulated, 95% intervals"
    if side.about.interruptions:
        return f"{threads}: simulating; {' and '.join(side.about.interruptions)} can’t be estimated"
    return f"{threads}: quick estimate"


def _rate(side: SideAnswer) -> str:
    if side.point is not None:
        return rate_with_bounds(side.point.throughput_rps)
    return _estimated(side, "throughput_rps", rate)


def _time(side: SideAnswer, quantity: str) -> str:
    if side.point is not None:
        return time_with_bounds(getattr(side.point, quantity))
    return _estimated(side, quantity, milliseconds)


def _estimated(side: SideAnswer, quantity: str, written: Callable[[float | None], str]) -> str:
    """`1.4 M/s ±10%`: the stated error, not an interval."""
    if side.estimate is None:
        return WAITING
    value = getattr(side.estimate, quantity)
    if value is None:
        return UNKNOWN
    error = ERROR.get(quantity, ERROR["p99_ms"])
    return f"{written(value)} {margin(error)}"


def _limit(side: SideAnswer) -> str:
    if side.point is None:
        return WAITING
    return "nothing yet" if side.point.bottleneck == "none" else side.point.bottleneck


def _verdict(side: SideAnswer) -> str:
    """The verdict, and what does not hold: `unfit: memory, CPUs`."""
    if side.point is None:
        return WAITING
    unmet = ", ".join(dict.fromkeys(each.what for each in side.point.unmet))
    return f"{side.point.verdict.lower()}: {unmet}" if unmet else side.point.verdict.lower()


def _next_limit(side: SideAnswer) -> str:
    if side.point is None:
        return WAITING
    coming = side.point.next_bottleneck
    return UNKNOWN if coming is None else f"{coming.name} at {rate(coming.at_rps)}"


def _memory(side: SideAnswer) -> str:
    room = side.about.room
    usable = byte_size(room.limit.usable_bytes)
    fits = "fits" if room.fits else "does not fit"
    return f"{byte_size(room.used_bytes)} used, {fits} into {usable}"


def _monthly(side: SideAnswer) -> str:
    price = side.about.price
    if price is None:
        return "no price known"
    return f"{dollars(price.usd_per_hour * _HOURS_PER_MONTH)} ({price.note})"


def _per_million(side: SideAnswer) -> str:
    price, served = side.about.price, side.point or side.estimate
    if price is None:
        return UNKNOWN
    if served is None:
        return WAITING
    found = served.throughput_rps
    rps = found.value if isinstance(found, Estimate) else found
    return dollars(price.usd_per_hour / 3600.0 / rps * 1e6) if rps > 0 else UNKNOWN


def warnings(answer: Answer) -> list[str]:
    """What is to be known before one relies on the settings that are looked at."""
    found: list[str] = []
    for side in answer.sides:
        name = _side_name(answer, side)
        unmet = [] if side.point is None else point_warnings([side.point])
        texts = [side.about.room.shortfall or "", *unmet]
        found += [f"{name}: {text}" if name else text for text in texts if text]
    return list(dict.fromkeys(found))


_COLUMNS = (
    *("scenario", "by", "io_threads", "offered_rps", "made_by"),
    *(
        f"{quantity}{end}"
        for quantity in ("throughput_rps", "p50_ms", "p99_ms")
        for end in ("", "_low", "_high")
    ),
)


def data_file(answer: Answer) -> str:
    """Everything that the curves show, as CSV; an estimate has no interval."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for side in answer.sides:
        name, looked_at = NAMES[side.about.side], side.about.threads
        for threads in sorted({*side.estimates, *side.points}):
            found: Any = side.points.get(threads) or side.estimates[threads]
            writer.writerow([name, "io_threads", threads, "", *_cells(found)])
        loads: list[tuple[float, Any]] = [(p.offered_rps, p) for p in side.loads]
        for offered_rps, found in loads or side.load_estimates:
            writer.writerow([name, "load", looked_at, f"{offered_rps:.6g}", *_cells(found)])
    return text.getvalue()


def _cells(found: Point | QuickEstimate) -> list[str]:
    cells = ["simulation" if isinstance(found, Point) else "quick estimate"]
    for quantity in ("throughput_rps", "p50_ms", "p99_ms"):
        value = getattr(found, quantity)
        ends = [value.value, value.low, value.high] if isinstance(value, Estimate) else [value] * 1
        cells += ["" if end is None else f"{end:.6g}" for end in ends] + [""] * (3 - len(ends))
    return cells


def scenario_state(answer: Answer) -> list[dict[str, Any]]:
    """Of each side the scenario as YAML, what its controls show, its title, and whether it has
    quick estimates."""
    return [
        {
            "yaml": side.about.yaml,
            "values": side.about.values,
            "title": side.about.title,
            "estimated": not side.about.interruptions,
        }
        for side in answer.sides
    ]


# --- what is known of one state of the controls so far -------------------------------------------


MOST_RESULTS = 500


class Results:
    """Simulated results by key, those of longest ago left out."""

    def __init__(self, most: int = MOST_RESULTS) -> None:
        self._most = most
        self._found: OrderedDict[str, Any] = OrderedDict()

    @property
    def keys(self) -> frozenset[str]:
        """Of everything that is kept."""
        return frozenset(self._found)

    def kept(self, key: str, result: Any) -> Any:
        """The result, or what is kept by its key where there is none; it becomes the latest."""
        found = self._found.pop(key, None) if result is None else result
        self._found[key] = found
        while len(self._found) > self._most:
            self._found.popitem(last=False)
        return found


@dataclass
class SideAnswer:
    """What is known of one of the scenarios."""

    about: Described
    estimates: dict[int, QuickEstimate] = field(default_factory=dict)
    """By number of threads, as the next."""
    points: dict[int, Point] = field(default_factory=dict)
    load_estimates: list[tuple[float, QuickEstimate]] = field(default_factory=list)
    loads: list[LoadPoint] = field(default_factory=list)

    @property
    def point(self) -> Point | None:
        """The setting that is looked at, once simulated."""
        return self.points.get(self.about.threads)

    @property
    def estimate(self) -> QuickEstimate | None:
        """Its quick estimate."""
        return self.estimates.get(self.about.threads)


@dataclass
class Answer:
    """What is known of one scenario, or of two and their difference."""

    sides: list[SideAnswer] = field(default_factory=list)
    differences: list[PairedQuantity] = field(default_factory=list)
    progress: SimulationsDone | None = None

    def take(self, messages: Iterable[Message], results: Results) -> set[str]:
        """Add what messages say; return which parts of the page have changed with it.

        They are `scenario`, `threads`, `looked_at`, `loads`, `differences` and `progress`.
        """
        changed: set[str] = set()
        for message in messages:
            changed |= self._take(message, results)
        return changed

    def _take(self, message: Message, results: Results) -> set[str]:
        match message:
            case Described():
                self.sides.append(SideAnswer(message))
                return {"scenario"}
            case Estimated():
                side = self.sides[message.side]
                side.estimates |= {each.io_threads: each for each in message.by_threads}
                side.load_estimates += message.by_load
                if not message.by_threads:
                    return {"loads"}
                counts = {each.io_threads for each in message.by_threads}
                return {"threads"} | ({"looked_at"} if side.about.threads in counts else set())
            case SimulatedThreads():
                side = self.sides[message.side]
                side.points[message.threads] = results.kept(message.key, message.point)
                looked_at = message.threads == side.about.threads
                return {"threads", *(["looked_at"] if looked_at else [])}
            case SimulatedLoads():
                self.sides[message.side].loads = results.kept(message.key, message.points)
                return {"loads"}
            case Compared():
                self.differences = results.kept(message.key, message.differences)
                return {"differences"}
            case SimulationsDone():
                self.progress = message
                return {"progress"}
        return set()
