"""The sentences of a recommendation, shared by the page and the terminal."""

from .formats import (
    Interval,
    bounds,
    dollars,
    interval,
    is_wide,
    margin,
    milliseconds,
    percent,
    probability,
    rate,
    rate_unit,
    time_with_bounds,
)
from .shapes import Json, chosen_setting, mapping, number, rows, setting_text, swept_key

# Below this loss of throughput two settings are the same for every practical purpose.
_NEGLIGIBLE_LOSS = 0.005
# Above it a difference is worth a word even where its interval holds zero.
_SMALL_LOSS = 0.03

_LIMITS = {
    "main thread": "limited by the main thread",
    "i/o threads": "limited by the I/O threads",
    "worker threads": "limited by the worker threads",
    "load generator": "limited by the load generator, not the server",
    "network": "limited by the network",
    "interrupts": "limited by the interrupt cores",
    "cores": "limited by the cores, which the threads share",
    "cpu quota": "limited by the CPU quota",
    "clients": "limited by the number of clients",
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


def limit_phrase(place: Json) -> str:
    """Say what limits a point or recommendation: `limited by the main thread`, or nothing."""
    bottleneck = place.get("bottleneck")
    if not bottleneck:
        return ""
    name = str(bottleneck)
    return _LIMITS.get(name.lower(), f"limited by {name}") + _of_the_network(place)


def limit_name(place: Json) -> str:
    """Name what limits a point or recommendation for a table cell; empty when it is not known."""
    name = str(place.get("bottleneck") or "")
    if name.lower() == "none":
        return "nothing, no station is saturated"
    if name.lower() == "clients":
        return "the number of clients: each waits for its replies"
    return name + _of_the_network(place)


def _of_the_network(place: Json) -> str:
    """Where the network limits, by what: ` (packets)`."""
    limits = {
        name: share
        for name in mapping(place, "network_limits")
        if (share := number(mapping(place, "network_limits"), name)) is not None
    }
    if str(place.get("bottleneck")).lower() != "network" or not limits:
        return ""
    return f" ({max(limits, key=limits.__getitem__)})"


def action(recommendation: Json) -> str:
    """Return the first part of the headline, `Run io-threads 6`.

    Where the data don't fit, or no setting meets the objective, nothing is told to be run.
    """
    closest = setting_text(mapping(recommendation, "closest"))
    if shortfall := recommendation.get("shortfall"):
        return f"Nothing to recommend: {shortfall}; {closest} would be best for them"
    if closest:
        return f"No setting meets the objective; {closest} comes closest"
    setting = setting_text(mapping(recommendation, "setting"))
    return f"Run {setting}" if setting else "No setting recommended"


def throughput_phrase(estimate: Interval | None) -> str:
    """Return `1.18 M requests/s (1.05–1.31)`; empty when the throughput is not known."""
    if estimate is None:
        return ""
    unit = rate_unit(estimate.value)
    prefix = unit.symbol.removesuffix("/s").strip()
    spread = bounds(estimate, unit)
    words = [unit.number(estimate.value), *([prefix] if prefix else []), "requests/s"]
    return " ".join(words) + (f" ({spread})" if spread else "")


def headline_facts(recommendation: Json, point: Json) -> list[str]:
    """Return the facts that follow the headline: throughput, p99, what limits."""
    p99, growth = interval(point, "p99_ms"), interval(point, "backlog_growth_rps")
    facts = [
        throughput_phrase(interval(recommendation, "throughput_rps")),
        f"p99 {milliseconds(p99.value)}" if p99 else "",
        f"the backlog grows by {rate(growth.value)}" if growth else "",
        limit_phrase(recommendation),
    ]
    return [fact for fact in facts if fact]


def headline(recommendation: Json, point: Json) -> str:
    """Return the whole headline.

    `Run io-threads 6: 1.18 M requests/s (1.05–1.31), p99 0.93 ms; limited by the main thread`
    """
    facts = headline_facts(recommendation, point)
    limit = limit_phrase(recommendation)
    figures = ", ".join(fact for fact in facts if fact != limit)
    text = action(recommendation)
    if figures:
        text += f": {figures}"
    return f"{text}; {limit}" if limit else text


def knee_phrase(recommendation: Json) -> str:
    """Say where the throughput curve stops rising; empty when it is not known."""
    knee = mapping(recommendation, "knee")
    if not setting_text(knee):
        return ""
    if knee == mapping(recommendation, "setting"):
        return f"The curve’s knee is at the recommended {setting_text(knee)}."
    return f"The curve’s knee is at {setting_text(knee)}."


def next_limit_phrase(recommendation: Json) -> str:
    """Say what would limit next and from which rate on; empty when it is not known.

    `main thread at 1.16 M/s`; `objective, missed beyond 1.05 M/s, main thread busiest`.
    """
    coming = mapping(recommendation, "next_bottleneck")
    name, at_rps = coming.get("name"), number(coming, "at_rps")
    if not name or str(name).lower() == "none":
        return ""
    if at_rps is None:
        return str(name)
    peak_rps = number(coming, "peak_rps")
    load = f"{rate(at_rps)} on average, {rate(peak_rps)} at peaks" if peak_rps else rate(at_rps)
    if coming.get("objective"):
        return f"objective, missed beyond {load}, {name} busiest"
    return f"{name} at {load}"


def _held_phrase(recommendation: Json, point: Json) -> str:
    """Say up to which load the objective holds, at a point beyond it; empty elsewhere."""
    limit_rps, served_rps = number(recommendation, "limit_rps"), interval(point, "throughput_rps")
    slo = mapping(recommendation, "slo")
    if not slo or limit_rps is None or served_rps is None or limit_rps >= served_rps.value:
        return ""
    return f"holds up to {rate(limit_rps)}" if limit_rps > 0 else "holds at no load"


def loss_phrase(row: Json) -> str:
    """Say what a candidate costs against the recommendation.

    `4% less (1–7%)`, `2% more (1–3%)`; when the interval holds zero, `probably 20% less` or, for
    small ones, `no clear difference`.
    """
    loss = number(row, "throughput_loss")
    if loss is None:
        return "not predicted"
    low, high = number(row, "low"), number(row, "high")
    if low is not None and high is not None and low <= 0 <= high:
        spread = f"{percent(-high, signed=True)} to {percent(-low, signed=True)}"
        if max(-low, high) < _NEGLIGIBLE_LOSS:
            return "no difference"
        if abs(loss) > _SMALL_LOSS:
            word = "less" if loss > 0 else "more"
            return f"probably {percent(abs(loss))} {word} ({spread})"
        return f"no clear difference ({spread})"
    if abs(loss) < _NEGLIGIBLE_LOSS:
        return "no difference"
    word = "less" if loss > 0 else "more"
    text = f"{percent(abs(loss))} {word}"
    if low is None or high is None:
        return text
    ends = sorted((abs(low), abs(high)))
    return f"{text} ({percent(ends[0]).removesuffix('%')}–{percent(ends[1])})"


def slo_phrase(recommendation: Json) -> str:
    """Say whether the service-level objective is met; empty when none was set."""
    slo = mapping(recommendation, "slo")
    goals = [
        f"{key.removesuffix('_ms')} ≤ {milliseconds(value)}"
        for key in slo
        if key.endswith("_ms") and (value := number(slo, key)) is not None
    ]
    if not goals:
        return ""
    met, sure = slo.get("met"), number(slo, "probability")
    verdict = "not evaluated" if met is None else "met" if met else "not met"
    if sure is not None and met:
        verdict = f"met with a probability of {probability(sure)}"
    elif sure is not None:
        asked = number(slo, "asked_probability")
        verdict = f"met with a probability of only {probability(sure)}, not {probability(asked)}"
    return f"{', '.join(goals)}: {verdict}"


def cost_phrase(recommendation: Json) -> str:
    """Return the cost of a million requests; empty when the price is not known."""
    cost = number(recommendation, "cost_usd_per_million_requests")
    if cost is None:
        return ""
    note = recommendation.get("cost_note")
    return f"{dollars(cost)} per million requests" + (f" ({note})" if note else "")


def tightening_phrases(measure_next: Json) -> list[str]:
    """Say which measurement would narrow an answer most, and which does so without its host.

    `profile c7g.4xlarge itself (throughput at io-threads 6: ±38% would become ±20%)`; nothing
    where no measurement would help.
    """
    found = [row for row in rows(measure_next, "measurements") if row.get("what")]
    if not found:
        return []
    best = found[0]
    before, after = margin(number(measure_next, "margin")), margin(number(best, "margin"))
    quantity = measure_next.get("quantity") or "the answer"
    if before == after:
        # Not worth the time: the rest is the model's own error.
        return [f"no measurement would noticeably narrow {quantity} ({before})"]
    phrases = [f"{best['what']} ({quantity}: {before} would become {after})"]
    away = next((row for row in found if not row.get("needs_host")), best)
    if away is not best:
        phrases.append(f"without that host, {away['what']} ({margin(number(away, 'margin'))})")
    return phrases


def key_facts(recommendation: Json, point: Json) -> list[tuple[str, str]]:
    """Return the label–value pairs shown beside the headline, leaving out what is unknown."""
    spread = mapping(point, "uncertainty")
    parts = [
        f"{margin(value)} {name}"
        for key, name in (
            ("monte_carlo", "simulation"),
            ("parameters", "parameters"),
            ("discrepancy", "model"),
        )
        if (value := number(spread, key)) is not None
    ]
    headroom = number(recommendation, "headroom_rps")
    p50, p99 = interval(point, "p50_ms"), interval(point, "p99_ms")
    throughput = interval(recommendation, "throughput_rps")
    tighter = tightening_phrases(mapping(recommendation, "measure_next"))
    wide = any(map(is_wide, (p50, p99, throughput)))
    facts = [
        ("Latency p50", time_with_bounds(p50) if p50 else ""),
        ("Latency p99", time_with_bounds(p99) if p99 else ""),
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


def _cpu_phrase(point: Json) -> str:
    """CPU time of a request on the server, and CPU time that threads spend spinning."""
    cpu_us = number(point, "server_cpu_us_per_request")
    if cpu_us is None:
        return ""
    spinning_us = number(point, "spinning_cpu_us_per_request") or 0.0
    spun = f", plus {spinning_us:.2f} µs of spinning" if spinning_us >= 0.005 else ""
    return f"{cpu_us:.2f} µs per request{spun}"


def ordered_candidates(target: Json) -> list[tuple[float | None, Json, bool]]:
    """Return the regret rows with the chosen setting among them, in sweep order.

    Returns
    -------
    list of (swept value, row, is chosen)
        The chosen setting appears as a row that holds only its setting.
    """
    key = swept_key(target)
    recommendation = mapping(target, "recommendation")
    setting = chosen_setting(recommendation)
    listed: list[tuple[float | None, Json, bool]] = [
        (number(row, key), row, False)
        for row in rows(recommendation, "regret")
        if any(row.get(name) != value for name, value in setting.items())
    ]
    if setting:
        listed.append((number(setting, key), setting, True))
    return sorted(listed, key=lambda item: (item[0] is None, item[0] or 0.0))
