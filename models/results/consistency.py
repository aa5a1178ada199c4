"""What must hold in every answer, whatever was asked.

Each verb hands its answer to one of these functions before it returns it. They state only what
follows from what the numbers mean, so that chance can't break it: quantiles in order, intervals
around their values, shares between 0 and 1, parts that add up, a verdict that agrees with the
numbers beside it. What needs a second answer to compare with, such as more throughput from more
clients, is checked over random scenarios by `verification/consistency`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

from forecache.sim.plain import plain
from forecache.sim.statistics import Estimate

from .points import ESTIMATE, POINT_QUANTITIES, QUANTILES, Point
from .series import Run

DOES_NOT_HOLD = ("UNFIT", "OVERLOADED")
VERDICTS = ("STABLE", "SATURATED", *DOES_NOT_HOLD)

_ESTIMATES = [each.name for each in POINT_QUANTITIES if each.type == ESTIMATE]
# The bandwidth of memory that requests ask for may exceed the peak; the means of I/O threads and
# the like, which are made for columns, follow from what is checked one by one.
_SHARES = [each.name for each in POINT_QUANTITIES if each.unit == "share" and each.of is None]
_ROUNDING = 1e-6
"""Relative error that sums of doubles may have."""

_NEVER_NEGATIVE = ("1/s", "ms", "s", "bytes", "GB", "share", "slots", "1/min")
"""Units of what can't be below zero."""


class Checked:
    """Says which answer contradicts itself."""

    def __init__(self, what: str) -> None:
        self._what = what

    def fail(self, how: str) -> None:
        """Raise RuntimeError: a fault of the program, never of its input."""
        raise RuntimeError(f"the answer contradicts itself: {self._what}: {how}")

    def share(self, name: str, value: float | None) -> None:
        """Between 0 and 1."""
        if value is not None and not -_ROUNDING <= value <= 1.0 + _ROUNDING:
            self.fail(f"{name} is {value:.6g}, which is not between 0 and 1")

    def not_negative(self, name: str, value: float | None) -> None:
        """Finite, and not below 0."""
        if value is not None and not 0.0 <= value < math.inf:
            self.fail(f"{name} is {value:.6g}")

    def estimate(self, name: str, found: Estimate | None) -> float | None:
        """Low, value and high in order."""
        if found is None:
            return None
        value, low, high = found.value, found.low, found.high
        self.not_negative(name, value)
        if low > value * (1.0 + _ROUNDING):
            self.fail(f"{name} is {value:.6g}, below the {low:.6g} of its interval")
        if high < value * (1.0 - _ROUNDING):
            self.fail(f"{name} is {value:.6g}, above the {high:.6g} of its interval")
        return value

    def in_order(self, values: Iterable[tuple[str, float | None]]) -> None:
        """None of these is above the next."""
        known = [(name, value) for name, value in values if value is not None]
        for (smaller, low), (larger, high) in pairwise(known):
            if low > high * (1.0 + _ROUNDING):
                self.fail(f"{smaller} is {low:.6g} and {larger} {high:.6g}")

    def sum(self, name: str, total: float, parts: Iterable[float]) -> None:
        """Parts add up to a total."""
        parts = list(parts)
        added = math.fsum(parts)
        size = math.fsum(abs(part) for part in parts)
        if abs(total - added) > _ROUNDING * max(size, abs(total)) + 1e-12:
            self.fail(f"{name} is {total:.9g}, its parts add up to {added:.9g}")


def check_point(point: Point) -> None:
    """Check a predicted point of a node.

    Raises
    ------
    RuntimeError
        It contradicts itself.
    """
    checked = Checked(f"point {point.given or ''}".strip())
    values = {name: checked.estimate(name, getattr(point, name)) for name in _ESTIMATES}
    checked.in_order((name, values[name]) for name in QUANTILES)
    for name in _SHARES:
        checked.share(name, getattr(point, name))
    for number, share in enumerate(point.io_thread_utilisation, start=1):
        checked.share(f"utilisation of I/O thread {number}", share)
    for stage in point.stages:
        checked.not_negative(f"stage {stage.stage!r}", stage.us_per_request)
    cpu_us = values["server_cpu_us_per_request"]
    checked.not_negative("spinning_cpu_us_per_request", point.spinning_cpu_us_per_request)
    if cpu_us is not None:
        steps_us = [stage.us_per_request for stage in point.stages]
        checked.sum("server_cpu_us_per_request", cpu_us, steps_us)
    _check_verdict(checked, point, values)


def _check_verdict(checked: Checked, point: Point, values: Mapping[str, float | None]) -> None:
    verdict, bottleneck = point.verdict, point.bottleneck
    if verdict not in VERDICTS:
        checked.fail(f"found verdict {verdict!r}")
    if verdict == "STABLE" and bottleneck != "none":
        checked.fail(f"verdict STABLE with bottleneck {bottleneck}")
    if verdict == "SATURATED" and bottleneck == "none":
        checked.fail("verdict SATURATED without a bottleneck")
    growth_rps = point.backlog_growth_rps.value if point.backlog_growth_rps else 0.0
    if verdict != "OVERLOADED" and growth_rps > 0:
        checked.fail(f"verdict {verdict} while the backlog grows by {growth_rps:.6g}/s")
    unmet = {each.what for each in point.unmet}
    if (verdict in DOES_NOT_HOLD) != bool(unmet):
        checked.fail(f"verdict {verdict} where {', '.join(sorted(unmet)) or 'nothing'} is unmet")
    if (verdict == "OVERLOADED") != ("load" in unmet):
        checked.fail(f"verdict {verdict}, and the load is {'un' * ('load' in unmet)}met")
    for each in point.unmet:
        if each.needed < each.available:
            checked.fail(f"{each.what} is unmet: {each.needed:.6g} of {each.available:.6g}")
    told = [name for name in QUANTILES if values[name] is not None]
    if verdict == "OVERLOADED" and told:
        checked.fail(f"OVERLOADED, which has no stationary latency, with {told[0]}")


def check_run(run: Run) -> None:
    """Check a run over time.

    Raises
    ------
    RuntimeError
        It contradicts itself.
    """
    for series in run.series:
        checked = Checked(f"series {series.name!r} of {series.panel}")
        for value in series.finite.tolist():
            if series.unit == "share" or series.panel == "utilisation":
                checked.share("a value", value)
            elif series.unit in _NEVER_NEGATIVE:
                checked.not_negative("a value", value)
    latency = {s.name: plain(s.values) for s in run.series if s.panel.startswith("latency")}
    ordered = [name for name in ("p50", "p99", "longest") if name in latency]
    checked = Checked("latency")
    for row in zip(*(latency[name] for name in ordered), strict=True):
        checked.in_order(zip(ordered, row, strict=True))
    for fact in run.facts:
        checked, value = Checked(f"fact {fact.name!r}"), plain(fact.value)
        if not isinstance(value, int | float):
            continue
        if fact.unit == "share":
            checked.share("it", value)
        elif fact.unit in _NEVER_NEGATIVE:
            checked.not_negative("it", value)
