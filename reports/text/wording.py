"""The sentences of a recommendation, shared by the page and the terminal."""

from forecache.models.advice.next_measurement import Gain, MeasureNext
from forecache.models.advice.paired import LEAST_DIFFERENCE, ratio_verdict
from forecache.models.advice.recommend import Recommendation, Regret
from forecache.models.results.points import Point, Uncertainty
from forecache.sim.statistics import Estimate
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from .formats import (
    bounds,
    dollars,
    is_wide,
    margin,
    milliseconds,
    percent,
    probability,
    rate,
    rate_unit,
    time_with_bounds,
)
from .points import unmet_of_chosen
from .settings import setting_text

# A measurement that takes less than this share off an interval is not worth the time.
_LEAST_NARROWING = 0.05

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


def action(recommendation: Recommendation) -> str:
    """Return the first part of the headline, `Run io-threads 6`.

    Where the data don't fit, or no setting meets the objective, nothing is told to be run.
    """
    chosen = setting_text(recommendation.chosen)
    if recommendation.shortfall:
        return f"Nothing to recommend: {recommendation.shortfall}; {chosen} would be best for them"
    if recommendation.setting is None:
        return f"No setting meets the objective; {chosen} comes closest"
    return f"Run {chosen}"


def throughput_phrase(estimate: Estimate) -> str:
    """Return `1.18 M requests/s (1.05–1.31)`."""
    unit = rate_unit(estimate.value)
    prefix = unit.symbol.removesuffix("/s").strip()
    words = [unit.number(estimate.value), *([prefix] if prefix else []), "requests/s"]
    return f"{' '.join(words)} ({bounds(estimate, unit)})"


def headline_facts(recommendation: Recommendation, point: Point) -> list[str]:
    """Return the facts that follow the headline: throughput, p99, what limits."""
    p99, growth = point.p99_ms, point.backlog_growth_rps
    facts = [
        throughput_phrase(recommendation.throughput_rps),
        f"p99 {milliseconds(p99.value)}" if p99 else "",
        f"the backlog grows by {rate(growth.value)}" if growth else "",
        limit_phrase(recommendation),
    ]
    return [fact for fact in facts if fact]


def knee_phrase(recommendation: Recommendation) -> str:
    """Say where the throughput curve stops rising."""
    knee = recommendation.knee
    which = "the recommended " if knee == recommendation.setting else ""
    return f"The curve’s knee is at {which}{setting_text(knee)}."


def next_limit_phrase(recommendation: Recommendation) -> str:
    """Say what would limit next and from which rate on; empty when it is not known.

    `main thread at 1.16 M/s`; `objective, missed beyond 1.05 M/s, main thread busiest`.
    """
    coming = recommendation.next_bottleneck
    if coming is None or coming.name == "none":
        return ""
    load = rate(coming.at_rps)
    if coming.peak_rps:
        load = f"{load} on average, {rate(coming.peak_rps)} at peaks"
    if coming.objective:
        return f"objective, missed beyond {load}, {coming.name} busiest"
    return f"{coming.name} at {load}"


def _held_phrase(recommendation: Recommendation, point: Point) -> str:
    """Say up to which load the objective holds, at a point beyond it; empty elsewhere."""
    limit_rps = recommendation.limit_rps
    if not recommendation.slo or limit_rps is None or limit_rps >= point.throughput_rps.value:
        return ""
    return f"holds up to {rate(limit_rps)}" if limit_rps > 0 else "holds at no load"


def loss_phrase(row: Regret) -> str:
    """Say what a candidate costs against the recommendation.

    `4% less (1–7%)`, `2% more (1–3%)`; `no clear difference (−3.0% to +1.0%)` where the interval
    holds zero, without it where either end is under 1%.
    """
    loss, low, high = row.throughput_loss, row.low, row.high
    word = "less" if loss > 0 else "more"
    if ratio_verdict(Estimate(1.0 - loss, 1.0 - high, 1.0 - low)) == NO_CLEAR_DIFFERENCE:
        if max(abs(low), abs(high)) < LEAST_DIFFERENCE:
            return NO_CLEAR_DIFFERENCE
        spread = f"{percent(-high, signed=True)} to {percent(-low, signed=True)}"
        return f"{NO_CLEAR_DIFFERENCE} ({spread})"
    least, most = (percent(end) for end in sorted((abs(low), abs(high))))
    return f"{percent(abs(loss))} {word} ({least.removesuffix('%')}–{most})"


def slo_phrase(recommendation: Recommendation) -> str:
    """Say whether the service-level objective is met; empty when none was set."""
    slo = recommendation.slo
    if slo is None:
        return ""
    goals = [f"{name} ≤ {milliseconds(bound)}" for name, bound in slo.bounds_ms.items()]
    verdict = f"met with a probability of {probability(slo.probability)}"
    if not slo.met:
        verdict = (
            f"met with a probability of only {probability(slo.probability)}, "
            f"not {probability(slo.asked_probability)}"
        )
    return f"{', '.join(goals)}: {verdict}"


def cost_phrase(recommendation: Recommendation) -> str:
    """Return the cost of a million requests; empty when the price is not known."""
    usd = recommendation.cost_usd_per_million_requests
    if usd is None:
        return ""
    note = recommendation.cost_note
    return f"{dollars(usd)} per million requests" + (f" ({note})" if note else "")


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


def key_facts(recommendation: Recommendation, point: Point) -> list[tuple[str, str]]:
    """Return the label–value pairs shown beside the headline, leaving out what is unknown."""
    spread, headroom = point.uncertainty, recommendation.headroom_rps
    p50, p99, throughput = point.p50_ms, point.p99_ms, recommendation.throughput_rps
    parts = [f"{half} {name}" for name, half, _ in interval_parts(spread)]
    tighter = tightening_phrases(recommendation.measure_next)
    wide = any(map(is_wide, (p50, p99, throughput)))
    facts = [
        ("Latency p50", time_with_bounds(p50) if p50 else ""),
        ("Latency p99", time_with_bounds(p99) if p99 else ""),
        ("With pauses", _pauses_phrase(point)),
        ("Verdict", _unmet_phrase(recommendation, point)),
        ("Objective", slo_phrase(recommendation)),
        ("The objective", _held_phrase(recommendation, point)),
        ("Limited by", limit_name(recommendation)),
        ("Next limit", next_limit_phrase(recommendation)),
        ("Headroom", f"{rate(headroom)} more" if headroom else ""),
        ("Server CPU", _cpu_phrase(point)),
        ("Cost", cost_phrase(recommendation)),
        ("Uncertainty", ", ".join(parts)),
        ("Wide intervals", "see “To tighten this estimate”" if tighter and wide else ""),
    ]
    return [(label, text) for label, text in facts if text]


def _unmet_phrase(recommendation: Recommendation, point: Point) -> str:
    """What does not hold besides the objective, `unfit: stop, CPUs`; empty where all does."""
    found = unmet_of_chosen(recommendation, point)
    names = [each.what for each in found if each.what != "objective"]
    return f"{point.verdict.lower()}: {', '.join(dict.fromkeys(names))}" if names else ""


def _pauses_phrase(point: Point) -> str:
    """p99 over all requests, where the host is known to pause."""
    p99_ms = point.p99_with_pauses_ms
    return f"p99 {milliseconds(p99_ms)}, if the host pauses as when profiled" if p99_ms else ""


def _cpu_phrase(point: Point) -> str:
    """CPU time of a request on the server, and CPU time that threads spend spinning."""
    cpu_us, spinning_us = point.server_cpu_us_per_request, point.spinning_cpu_us_per_request or 0.0
    if cpu_us is None:
        return ""
    spun = f", plus {spinning_us:.2f} µs of spinning" if spinning_us >= 0.005 else ""
    undisturbed_us = point.undisturbed_cpu_us_per_request
    best = f", {undisturbed_us:.2f} in an undisturbed window" if undisturbed_us else ""
    between = f"{cpu_us.value:.2f} µs per request ({cpu_us.low:.2f}–{cpu_us.high:.2f})"
    return f"{between}{best}{spun}"
