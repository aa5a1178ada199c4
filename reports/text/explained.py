"""Where the time of a request goes, as rows and sentences for the terminal and the page."""

from collections.abc import Sequence

from forecache.models.advice.node_answers import Explained, ExplainedPoint, Shown
from forecache.models.advice.sensitivity import Indices, InputIndex, Sensitivity
from forecache.models.breakdown.latency import LatencyBreakdown

from .formats import count, is_number, margin, milliseconds, percent
from .settings import setting_name, setting_text, value_text
from .wording import limit_name

STAGE_COLUMNS = ("stage", "thread", ">µs per request", ">share")
STATION_COLUMNS = ("station", "thread", ">µs waiting", ">µs served", ">share")
"""A column of numbers starts with `>`."""

_WAITS_MUCH = 0.5
"""Share of a latency from which on a sentence says where requests wait."""

_MOST_WAITS = 3

_THREADS = {"main": "main thread", "I/O": "I/O threads", "worker": "worker threads"}

_LEAST_US = 0.0005
"""Shorter ones would be written as 0.000."""


def settings_of(answer: Explained) -> list[str]:
    """What tells each point apart: what is swept, or the number of I/O threads."""
    alone = {"io_threads": answer.scenario.get("io_threads", 1)}
    return [setting_text(point.given or alone) for point in answer.points]


def in_short(point: ExplainedPoint) -> str:
    """What a request takes at a point, in a line."""
    spent = point.server_cpu_us_per_request
    parts = ["no request" if spent is None else f"{spent.value:.2f} µs of CPU time"]
    if point.latency_breakdown:
        parts.append(f"latency {point.latency_breakdown.mean_us:.0f} µs")
    return ", ".join([*parts, f"limited by {limit_name(point)}"])


def which_phrase(shown: Shown, settings: list[str]) -> str:
    """Which of several points is told in detail."""
    which = "Of these, the first"
    if shown.recommended:
        which = "Of these, the recommended one, ▶"
    elif shown.closest:
        which = f"None meets the objective; {settings[shown.point]} comes closest and follows"
    return f"{which}, in detail"


def stages_title(setting: str) -> str:
    """Of the table of CPU time."""
    return f"{setting}: CPU time"


def stage_rows(point: ExplainedPoint) -> list[tuple[str, ...]]:
    """CPU time of each step of a request under `STAGE_COLUMNS`, the sum and spinning last."""
    spent, spinning_us = point.server_cpu_us_per_request, point.spinning_cpu_us_per_request or 0.0
    total_us = 0.0 if spent is None else spent.value
    found: list[tuple[str, ...]] = [
        (row.stage, row.thread, f"{row.us_per_request:.3f}", _share(row.us_per_request, total_us))
        for row in point.stages
        if row.us_per_request >= _LEAST_US
    ]
    found.append(("all", "", f"{total_us:.3f}", ""))
    if spinning_us >= _LEAST_US:
        found.append(("spinning, on top", "", f"{spinning_us:.3f}", ""))
    return found


def stations_title(setting: str, breakdown: LatencyBreakdown) -> str:
    """Of the table of latency."""
    many = breakdown.requests
    return f"{setting}: latency by station, from {count(many)} traced requests"


def station_rows(breakdown: LatencyBreakdown) -> list[tuple[str, ...]]:
    """A request's latency in the order in which it passes the stations, the sums last."""
    found: list[tuple[str, ...]] = []
    waited_us = served_us = 0.0
    for row in breakdown.stations:
        waited, served = (f"{row.us:.2f}", "") if row.waits else ("", f"{row.us:.2f}")
        waited_us += row.us if row.waits else 0.0
        served_us += 0.0 if row.waits else row.us
        share = _share(row.us, breakdown.mean_us)
        found.append((row.station, row.thread, waited, served, share))
    found.append((f"all: {breakdown.mean_us:.2f}", "", f"{waited_us:.2f}", f"{served_us:.2f}", ""))
    return found


def limit_sentences(point: ExplainedPoint) -> list[str]:
    """What limits a point, and how far what threads share is used, the most used first."""
    found = [f"Limited by: {limit_name(point)}", *_waits(point)]
    used = sorted(point.network_limits.items(), key=lambda item: -item[1])
    bandwidth = (
        "" if point.network_gbit_per_s is None else f" of {point.network_gbit_per_s:g} Gbit/s"
    )
    of = {"bandwidth": bandwidth}
    shares = [f"{name} {share:.0%}{of.get(name, '')}" for name, share in used if share > 0.0]
    if shares:
        found.append(f"Network: {', '.join(shares)}")
    if point.interrupt_utilisation:
        found.append(f"Interrupt cores: {point.interrupt_utilisation:.0%}")
    if point.quota_utilisation:
        found.append(
            f"CPU quota: {point.quota_utilisation:.0%}, with threads stopped in "
            f"{point.throttled_periods:.0%} of its periods"
        )
    memory = point.memory_bandwidth
    found.append(
        f"Memory: {memory.utilisation:.0%} of its bandwidth ({memory.gb_per_s:.2g} GB/s), "
        f"which makes it {memory.latency_factor - 1:.1%} slower than idle"
    )
    return found


def _waits(point: ExplainedPoint) -> list[str]:
    """Where a request waits most, and for which threads; nothing where it hardly waits."""
    if point.latency_breakdown is None:
        return []
    waits = sorted(
        (row for row in point.latency_breakdown.stations if row.waits), key=lambda row: -row.us
    )
    waited_us, whole_us = sum(row.us for row in waits), point.latency_breakdown.mean_us
    if not waited_us > _WAITS_MUCH * whole_us:
        return []
    most = "; ".join(
        f"{milliseconds(row.us / 1000)} {row.station.removeprefix('wait ')}, for the "
        f"{_THREADS.get(row.thread, row.thread)}"
        for row in waits[:_MOST_WAITS]
    )
    return [
        f"A request waits for {milliseconds(waited_us / 1000)} of the "
        f"{milliseconds(whole_us / 1000)} that it takes: {most}"
    ]


def _share(part_us: float, whole_us: float) -> str:
    return f"{part_us / whole_us if whole_us else 0.0:.0%}"


# --- which inputs move the answer ----------------------------------------------------------------


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


def basis_phrase(indices: Indices) -> str:
    """Return what the indices rest on, and what chance has to do with it."""
    if indices.basis == "surrogate":
        return "by bounds and a regression, since simulating them takes too long"
    chance = "" if indices.chance is None else f"; chance {_small(indices.chance.value)}"
    return f"{indices.runs:,} simulations{chance}"


def spread_phrase(name: str, indices: Indices) -> str:
    """Return by how much all inputs of a set move the quantity, as one standard deviation."""
    spread = "its rank" if indices.ranks else f"it by {margin(indices.spread)}"
    move = "move" if name.endswith("numbers") else "moves"
    return f"{name} {move} {spread}, one standard deviation ({basis_phrase(indices)})"


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
