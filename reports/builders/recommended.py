"""What `recommend` says: the setting to run, why not another, and how to install and check it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from forecache.models.advice.node_answers import Recommended, StudyTarget
from forecache.models.advice.paired import LEAST_DIFFERENCE, ratio_verdict
from forecache.models.advice.placement import cpu_list
from forecache.models.advice.recommend import Recommendation, Regret
from forecache.models.advice.thread_plan import PlanGain, ThreadPlan
from forecache.models.results.points import Point
from forecache.sim.statistics import Estimate
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from ..document import (
    PAGE,
    TERMINAL,
    WIDE_PX,
    Beside,
    Code,
    Column,
    Document,
    Facts,
    Figure,
    Folded,
    Part,
    Section,
    Text,
    TextTable,
    Warnings,
    words,
)
from ..text.formats import (
    bounds,
    count,
    dollars,
    is_number,
    is_wide,
    milliseconds,
    moment,
    percent,
    plain,
    probability,
    rate,
    rate_unit,
    sentence,
    time_with_bounds,
)
from ..text.points import (
    SETTING,
    basis_phrase,
    by_threads,
    chosen_point,
    depth_phrase,
    interval_parts,
    latency_knee_rps,
    limit_name,
    limit_phrase,
    standing,
    subtitle_phrase,
    target_warnings,
    tightening_phrases,
    unmet_of_chosen,
)
from ..text.settings import engine_name, setting_name, setting_text
from ..tidy import TidyTable, flat_table
from . import drawing
from .explained import intervals_section
from .node import (
    NAMES,
    busy_legend,
    change,
    points_table,
    quantity_columns,
    stages_table,
)

_BAR_CELLS = 8
_COMPARE = (
    "Run this against the configured server and compare its throughput and p99 with those above."
)
_EMIT = (
    "With `--emit DIR`, `forecache recommend` writes all of it, with systemd units and scripts for "
    "interrupts."
)


def recommended(answer: Recommended) -> Document:
    """The setting, its facts, the alternatives, how to install and check it."""
    advice, name = answer.recommendation, answer.host.id
    return Document(
        about=subtitle_phrase(answer, answer.points),
        title=f"How many I/O threads for {engine_name(answer.engine)}?",
        headline=action(advice),
        byline=[name, moment(answer.provenance.date)],
        contents=True,
        one_column=False,
        warnings=target_warnings(answer),
        sections=[target_section(answer), intervals_section([(name, answer)])],
        tables=recommended_tables(answer),
    )


def recommended_tables(answer: Recommended) -> dict[str, Any]:
    """Numbers of each point, of the settings that were not chosen, and of stages."""
    advice = answer.recommendation

    def points() -> TidyTable:
        chosen = [
            {"recommended": advice.setting is not None and point.given == advice.chosen}
            for point in answer.points
        ]
        return points_table(answer.points, more=chosen)

    curve = isinstance(answer, StudyTarget)
    return {
        "points": points,
        "regret": lambda: flat_table(advice.regret),
        "stages": lambda: stages_table(answer.points),
        **({"load_curve": lambda: points_table(answer.load_curve)} if curve else {}),  # type: ignore[attr-defined]
    }


def target_section(
    target: Recommended, *, name: str = "", number: int = 1, warnings: Sequence[str] = ()
) -> Section:
    """What to run on one host, of several with its name and what to know of it."""
    advice, point = target.recommendation, chosen_point(target)
    setting, met = setting_text(advice.chosen), standing(advice)
    figures = _figures(target, point, setting, name)
    conditions = _facts(_conditions(target.scenario))
    at_setting = Section(f"At the {met} setting", [Facts(key_facts(advice, point))], title_on=PAGE)
    why = "Why not another setting" if met == "recommended" else "The other settings"
    return Section(
        action(advice),
        [
            Text("; ".join(headline_facts(advice, point)), "strong"),
            Text(_subtitle(target), "muted", on=PAGE),
            *([Text(subtitle_phrase(target, target.points), "muted", on=TERMINAL)] if name else []),
            Text(knee_phrase(advice), on=TERMINAL),
            Warnings(warnings, on=PAGE),
            Beside(
                [
                    figures["scaling"],
                    Section("Workload", [Facts(conditions, in_lines=True)], on=PAGE),
                ],
                [at_setting],
            ),
            Beside(
                [figures[x] for x in ("latency", "utilisation") if x in figures], [], equal=True
            ),
            Folded("All predicted points", [_curve(target, point)]),
            *([Section(why, [_regret(advice)])] if advice.regret else []),
            *thread_plan_parts(advice.thread_plan),
            Beside([figures["stages"]], _checks(advice), equal=True),
            Warnings(warnings, on=TERMINAL),
        ],
        anchor=f"target-{number}",
        tone="good" if met == "recommended" else "bad",
        above=name,
    )


def _subtitle(target: Recommended) -> str:
    host, engine = target.host, target.engine
    parts = [
        host.title,
        "" if "core" in host.title else f"{host.cores} core{'' if host.cores == 1 else 's'}",
        basis_phrase(host),
        engine_name(engine),
        depth_phrase(engine.depth),
    ]
    return " · ".join(part for part in parts if part)


def _curve(target: Recommended, chosen: Point) -> TextTable:
    """A row for each setting, with bars of throughput."""
    points = [point for _, point in by_threads(target)]
    marked = points.index(chosen)
    highest = max(point.throughput_rps.value for point in points)
    threads = [f"{point.given[SETTING]:g}" for point in points]
    first, *others = quantity_columns(points, "recommend", on=TERMINAL)
    bars = [_bar(point.throughput_rps.value, highest) for point in points]
    return TextTable(
        [
            Column(
                setting_name(SETTING),
                [f"{'▶ ' if i == marked else ''}{text}" for i, text in enumerate(threads)],
            ),
            first,
            # Bars are left out before any number.
            words("", bars, drop=1, style="bar", on=TERMINAL),
            *(replace(each, drop=each.drop and each.drop + 1) for each in others),
            *quantity_columns(points, "page", on=PAGE),
        ],
        marked=marked,
        legend=_curve_legend,
    )


def _curve_legend(names: Sequence[str]) -> str:
    meets = "meets: how probable it is that the objective is met" if "meets" in names else ""
    return "\n".join(line for line in (busy_legend(names), meets) if line)


def _bar(value: float, highest: float) -> str:
    """Return a bar of at most eight cells, in steps of half a cell."""
    if highest <= 0:
        return ""
    halves = round(2 * _BAR_CELLS * max(0.0, min(1.0, value / highest)))
    return "━" * (halves // 2) + ("╸" if halves % 2 else "")


def _regret(advice: Recommendation) -> TextTable:
    """Each alternative with its loss of throughput and why it was not chosen."""
    rows = advice.regret
    return TextTable(
        [
            Column(setting_name(SETTING), [str(row.io_threads) for row in rows]),
            words("throughput", list(map(loss_phrase, rows)), wraps=True),
            words("why not", [x.why_not for x in rows], wraps=True, style="muted"),
        ],
        stacked=True,
    )


def _checks(advice: Recommendation) -> list[Part]:
    """Configuration, the benchmark that checks the prediction, and what would narrow it."""
    note, refused = advice.benchmark_note, advice.no_benchmark_command
    command = advice.benchmark_command.strip()
    check: list[Part] = [Text(refused)] if refused else []
    if command:
        check = [
            Text(_COMPARE, on=PAGE),
            Code(command, "benchmark command", shell=True),
            *([Text(note, "muted")] if note else []),
        ]
    configuration, no_plan = configuration_text(advice), no_plan_phrase(advice)
    configure: list[Part] = []
    if configuration:
        configure = [
            Code(configuration, f"{advice.conf_file} fragment"),
            *([Text(no_plan)] if no_plan else []),
        ]
    tighter = tightening_phrases(advice.measure_next)
    return [
        Section(advice.conf_file, configure),
        Section("Check it with", check),
        Section("To tighten this estimate", [Text(sentence(x)) for x in tighter]),
    ]


def _figures(target: Recommended, point: Point, setting: str, host: str) -> dict[str, Figure]:
    advice, name = target.recommendation, setting_name(SETTING)
    curve = ", ".join(f"{rate(p.throughput_rps.value)} at {x:g}" for x, p in by_threads(target))
    found = [
        Figure(
            "scaling",
            drawing("scaling", target),
            title=f"Throughput by {name}",
            caption=knee_phrase(advice),
            label=f"Predicted throughput by {name}: {curve}.",
            width_px=WIDE_PX,
        ),
        Figure(
            "utilisation",
            drawing("utilisation", target),
            title="Who is busy",
            caption=_limit_caption(advice, setting),
            label=f"Utilisation of main thread, I/O threads and load generator by {name}.",
        ),
        Figure(
            "stages",
            drawing("stages", point),
            title="Where a request’s time goes",
            caption=f"Each stage of a request with {setting}, by the thread that runs it.",
            label=f"Processor time of each stage of a request with {setting}.",
        ),
    ]
    if isinstance(target, StudyTarget):  # Only a study simulates latency against load.
        found.append(
            Figure(
                "latency",
                drawing("latency_by_load", target),
                title="Latency against load",
                caption=_latency_caption(target, setting),
                label=f"Predicted p50 and p99 latency against offered load with {setting}.",
            )
        )
    # In a study the curve has the name of its host.
    of = {"scaling": host} if host else {}
    return {each.name: replace(each, name=of.get(each.name, each.name)) for each in found}


def _latency_caption(target: StudyTarget, setting: str) -> str:
    knee_rps = latency_knee_rps(target.load_curve)
    text = f"With {setting}, load arriving at random (open loop)."
    if knee_rps is None:
        return text
    share = percent(knee_rps / target.recommendation.throughput_rps.value)
    return f"{text} p99 has doubled at {rate(knee_rps)}, {share} of capacity."


def _limit_caption(recommendation: Recommendation, setting: str) -> str:
    text = f"With {setting}, {limit_phrase(recommendation)}"
    coming = next_limit_phrase(recommendation)
    return f"{text}; next limit: {coming}." if coming else f"{text}."


def _conditions(scenario: Mapping[str, Any]) -> Mapping[str, Any]:
    """What clients ask for; all else stands in the scenario, below.

    What the sweep varies is no condition; the goal stands among the key facts.
    """
    if "workload" in scenario:
        return {"workload": scenario["workload"]}
    return {key: value for key, value in scenario.items() if key not in (SETTING, "slo")}


_CALLED = {"rate_rps": "offered load", "key_bytes": "key size", "value_bytes": "value size"}


def _facts(scenario: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Flatten a scenario to label–text pairs; absent values are left out."""
    found: list[tuple[str, str]] = []
    for key, value in scenario.items():
        label = _CALLED.get(str(key), str(key).replace("_", " "))
        if value is None or value == {}:
            continue
        if isinstance(value, Mapping) and str(key) == "workload":
            found.extend(_facts(value))
        elif str(key).endswith("_bytes") and is_number(value):
            found.append((prefix + label, f"{count(value)} B"))
        elif str(key) == "think_us" and is_number(value):
            found.append((prefix + "think time", f"{plain(value)} µs"))
        elif str(key) == "mix" and isinstance(value, Mapping):
            shares = [f"{percent(share)} {str(k).upper()}" for k, share in value.items()]
            found.append((prefix + label, ", ".join(shares)))
        elif isinstance(value, int | float):
            found.append((prefix + label, count(value)))
        else:
            found.append((prefix + label, plain(value).replace("_", " ")))
    return found


# --- sentences ----------------------------------------------------------------------------------


def action(recommendation: Recommendation) -> str:
    """Return the first part of the headline, `Run io-threads 6`.

    Where the data don't fit, or no setting meets the objective, no setting is recommended.
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


def key_facts(recommendation: Recommendation, point: Point) -> list[tuple[str, str]]:
    """Return the label–value pairs shown beside the headline, leaving out what is unknown."""
    spread, headroom = point.uncertainty, recommendation.headroom_rps
    p50, p99, throughput = point.p50_ms, point.p99_ms, recommendation.throughput_rps
    parts = [f"{half} {name}" for name, half, _ in interval_parts(spread)]
    pauses_ms = point.p99_with_pauses_ms
    paused = f"p99 {milliseconds(pauses_ms)}, if the host pauses as when profiled"
    unmet = [each.what for each in unmet_of_chosen(recommendation, point)]
    others = [name for name in dict.fromkeys(unmet) if name != "objective"]
    verdict = f"{point.verdict.lower()}: {', '.join(others)}" if others else ""
    tighter = tightening_phrases(recommendation.measure_next)
    wide = any(map(is_wide, (p50, p99, throughput)))
    facts = [
        ("Latency p50", time_with_bounds(p50) if p50 else ""),
        ("Latency p99", time_with_bounds(p99) if p99 else ""),
        ("With pauses", paused if pauses_ms else ""),
        ("Verdict", verdict),
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


# --- a thread plan -------------------------------------------------------------------------------


def thread_plan_parts(plan: ThreadPlan | None) -> list[Part]:
    """Who gets which CPUs, what that gains, and how to install it."""
    if plan is None:
        return []
    each = "each a core" if plan.threads_per_core == 1 else f"{plan.threads_per_core} a core"
    title = f"Thread plan: {plan.cpus} CPUs, {each}"
    gain = gain_phrase(plan)
    texts = [*(Text(note, "muted") for note in plan.notes), *([Text(gain)] if gain else [])]
    parts: list[Part] = [Section(title, [Facts(cpu_rows(plan)), *texts])]
    if plan.start:
        parts.append(
            Section(
                "Start it with",
                [Code(plan.start, "start command", shell=True), Text(_EMIT, "muted")],
            )
        )
    return parts


_SAME = Estimate(1.0, 1.0, 1.0)
"""Of two that run the same simulation."""


def configuration_text(recommendation: Recommendation) -> str:
    """Lines of the engine's configuration file, those of the thread plan among them."""
    plan = recommendation.thread_plan
    lists = [] if plan is None else plan.conf
    return "\n".join([recommendation.conf.strip("\n"), *lists]).strip("\n")


def no_plan_phrase(recommendation: Recommendation) -> str:
    """Say why there is no plan; empty where there is one, or where a service places the threads."""
    if recommendation.setting is not None or recommendation.thread_plan is not None:
        return ""
    return "No lists of CPUs: a thread plan is made only where a setting is recommended."


def cpu_rows(plan: ThreadPlan) -> list[tuple[str, str]]:
    """Who gets which CPUs; of lists that are the same, one row."""
    rows = [("server’s threads", plan.server)]
    if plan.interrupts or plan.background:
        rows.append(("interrupts", plan.interrupts))
    if plan.background == plan.neighbours:
        rows.append(("everything else", plan.background))
    else:
        rows.append(("background threads, children", plan.background))
        rows.append(("everything else", plan.neighbours))
    rows.append(("nobody (hyperthreads beside the server’s)", plan.idle))
    left = {"interrupts": "left to the kernel"}
    return [(who, cpu_list(cpus) or left[who]) for who, cpus in rows if cpus or who in left]


def gain_phrase(plan: ThreadPlan) -> str:
    """`Gain over threads left to the kernel: +38% (+31% to +45%)`; empty if nothing is kept apart.

    Of p99: `p99 −12% (−20% to −3%)`; an interval that includes zero is no clear difference.
    """
    if plan.gain is None:
        return ""
    return f"Gain over threads left to the kernel: {_amount(plan.gain)}"


def _amount(gain: PlanGain) -> str:
    found = next((each for each in gain.differences if each.quantity == gain.decides), None)
    if found is None:
        return f"{gain.verdict} ({gain.note})".replace("'", "’")
    text = change(found)
    if gain.verdict == NO_CLEAR_DIFFERENCE:
        text = NO_CLEAR_DIFFERENCE if found.ratio in (None, _SAME) else f"{gain.verdict} ({text})"
    return text if found.quantity == "throughput_rps" else f"{NAMES[found.quantity]} {text}"
