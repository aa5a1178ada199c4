"""Two nodes side by side, in words."""

from forecache.models.advice.compare import NodeComparison, Side
from forecache.models.advice.paired import LEAST_DIFFERENCE, PairedQuantity
from forecache.models.prediction.predict import SERVER_CPU
from forecache.sim.statistics import Estimate
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from .formats import (
    UNKNOWN,
    byte_size,
    dollars,
    is_number,
    milliseconds,
    percent,
    rate_with_bounds,
    time_with_bounds,
)
from .points import point_warnings
from .wording import limit_phrase

_US_PER_MS = 1000.0

NAMES = {
    "throughput_rps": "requests/s",
    "p50_ms": "p50",
    "p99_ms": "p99",
    SERVER_CPU: "CPU a request",
    "limit_rps": "could serve",
    "used_memory_bytes": "used memory",
    "usd_per_month": "a month",
    "usd_per_million_requests": "a million requests",
}
LEGEND = (
    "change: of after over before, with the 95% interval of what the two do not share; "
    f"{NO_CLEAR_DIFFERENCE}: it holds 0, or the change is under {LEAST_DIFFERENCE:.0%}"
)
HEADER = ("", "before", "after", "change", "")
_RATES = frozenset({"throughput_rps", "limit_rps"})
_LESS_IS_BETTER = frozenset(NAMES) - _RATES


def side_phrase(side: Side) -> str:
    """`compare.yaml: redis-6.2 on c7g.4xlarge (…), io-threads 4; limited by …`."""
    threads = side.point.given.get("io_threads", side.scenario.get("io_threads", 1))
    about = f"{side.engine.id} on {side.host.title}, io-threads {threads}"
    verdict = "" if side.point.holds else f"; {side.point.verdict.lower()}"
    return f"{side.name}: {about}; {limit_phrase(side.point)}{verdict}"


def warnings(answer: NodeComparison) -> list[str]:
    """What does not hold on either side, and the warnings of both, each once."""
    sides = (answer.first, answer.second)
    return list(dict.fromkeys(text for side in sides for text in point_warnings([side.point])))


def rows(answer: NodeComparison) -> list[tuple[str, ...]]:
    """A row for each quantity, under `HEADER`."""
    return [
        (
            NAMES[each.quantity],
            _value(each.quantity, each.first),
            _value(each.quantity, each.second),
            change(each),
            judged(each),
        )
        for each in answer.differences
    ]


def change(difference: PairedQuantity) -> str:
    """`+38% (+31% to +45%)`; of no clear difference the interval alone, or `under 1%`."""
    ratio = difference.ratio
    if ratio is None or not is_number(ratio.value):
        return UNKNOWN
    clear = difference.verdict != NO_CLEAR_DIFFERENCE
    value = percent(ratio.value - 1.0, signed=True)
    if ratio.low == ratio.high:
        return value if clear or ratio.value == 1.0 else f"under {LEAST_DIFFERENCE:.0%}"
    low, high = (percent(end - 1.0, signed=True) for end in (ratio.low, ratio.high))
    return f"{value} ({low} to {high})" if clear else f"{low} to {high}"


def judged(difference: PairedQuantity) -> str:
    """`better`, `worse` or `no clear difference`; empty where there is nothing to compare."""
    if difference.verdict not in ("higher", "lower"):
        return difference.verdict or ""
    wanted = "lower" if difference.quantity in _LESS_IS_BETTER else "higher"
    return "better" if difference.verdict == wanted else "worse"


def _value(quantity: str, estimate: Estimate | None) -> str:
    if estimate is None:
        return UNKNOWN
    if quantity in _RATES:
        return rate_with_bounds(estimate)
    if quantity.endswith("_ms"):
        return time_with_bounds(estimate)
    if quantity == SERVER_CPU:
        return milliseconds(estimate.value / _US_PER_MS)
    return byte_size(estimate.value) if quantity.endswith("_bytes") else dollars(estimate.value)
