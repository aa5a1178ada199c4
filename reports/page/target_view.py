"""What the page says of what `recommend` answers: alone, or as a target of a study."""

from collections.abc import Mapping
from typing import Any

from forecache.models.advice.node_answers import Recommended, StudyTarget
from forecache.models.advice.recommend import Recommendation
from forecache.models.advice.thread_plan import ThreadPlan
from forecache.models.results.points import Point

from .. import figures
from ..text.formats import (
    UNKNOWN,
    count,
    is_number,
    moment,
    percent,
    plain,
    rate,
    rate_with_bounds,
    sentence,
    time_with_bounds,
)
from ..text.points import (
    SETTING,
    basis_phrase,
    by_threads,
    chosen_point,
    standing,
    target_warnings,
)
from ..text.repeat import Question, repeat_view
from ..text.settings import engine_name, setting_name, setting_text
from ..text.thread_plan import (
    configuration_text,
    cpu_rows,
    gain_phrase,
    no_plan_phrase,
    title_phrase,
)
from ..text.wording import (
    action,
    depth_phrase,
    headline_facts,
    key_facts,
    knee_phrase,
    limit_name,
    limit_phrase,
    loss_phrase,
    next_limit_phrase,
    tightening_phrases,
)
from .drawing import Drawer, FigureView
from .node_view import point_table
from .sensitivity_view import sensitivity_view


def recommended_view(answer: Recommended, question: Question) -> dict[str, Any]:
    """Return the template's context for what `recommend` answers."""
    drawer, name = Drawer(), answer.host.id
    return {
        "title": f"How many I/O threads for {engine_name(answer.engine)}?",
        "byline": [f"Scenario {question.scenarios[0][0]}", moment(answer.provenance.date)],
        "question": "",
        "targets": [target_view(answer, drawer, name=name)],
        "warnings": [],
        "sensitivity": sensitivity_view([(name, answer)], drawer),
        "calibration": None,
        "host": None,
        "method": [],
        "threats": [],
        "repeat": repeat_view(answer.provenance, question),
    }


def target_view(
    target: Recommended, drawer: Drawer, *, name: str, index: int = 0
) -> dict[str, Any]:
    """Return the template's context for one target."""
    recommendation, point = target.recommendation, chosen_point(target)
    return {
        "anchor": f"target-{index + 1}",
        "name": name,
        "subtitle": _subtitle(target),
        "action": action(recommendation),
        "facts": headline_facts(recommendation, point),
        "standing": standing(recommendation),
        "setting_column": setting_name(SETTING),
        "summary": {
            "setting": _summary_setting(recommendation),
            "throughput": rate_with_bounds(recommendation.throughput_rps),
            "p99": time_with_bounds(point.p99_ms),
            "limit": limit_name(recommendation),
            "next": next_limit_phrase(recommendation) or UNKNOWN,
        },
        "key_facts": key_facts(recommendation, point),
        "scenario": _scenario(_conditions(target.scenario)),
        "warnings": target_warnings(target),
        "figures": _target_figures(target, point, drawer),
        "candidates": _candidates(target),
        "points": _point_table(target),
        "thread_plan": _thread_plan(recommendation.thread_plan),
        "no_thread_plan": no_plan_phrase(recommendation),
        "measure_next": [sentence(x) for x in tightening_phrases(recommendation.measure_next)],
        "conf": configuration_text(recommendation),
        "conf_file": recommendation.conf_file,
        "benchmark_command": recommendation.benchmark_command.strip(),
        "benchmark_note": recommendation.benchmark_note,
        "no_benchmark_command": recommendation.no_benchmark_command,
    }


def _thread_plan(plan: ThreadPlan | None) -> dict[str, Any] | None:
    """Who gets which CPUs, and what that gains."""
    if plan is None:
        return None
    return {
        "title": title_phrase(plan),
        "cpus": cpu_rows(plan),
        "notes": plan.notes,
        "gain": gain_phrase(plan),
        "start": plan.start,
    }


def _summary_setting(recommendation: Recommendation) -> str:
    chosen = setting_text(recommendation.chosen)
    met = recommendation.setting is not None
    return chosen if met else f"none meets the objective (closest: {chosen})"


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


def _target_figures(
    target: Recommended, point: Point, drawer: Drawer
) -> dict[str, FigureView | None]:
    recommendation = target.recommendation
    setting, name = setting_text(recommendation.chosen), setting_name(SETTING)
    curve = ", ".join(f"{rate(p.throughput_rps.value)} at {x:g}" for x, p in by_threads(target))
    return {
        "scaling": drawer.draw(
            lambda width: figures.scaling(target, width_px=width),
            title=f"Throughput by {name}",
            caption=knee_phrase(recommendation),
            label=f"Predicted throughput by {name}: {curve}.",
            width_px=figures.WIDE_PX,
        ),
        "latency": _latency_figure(target, setting, drawer),
        "utilisation": drawer.draw(
            lambda width: figures.utilisation(target, width_px=width),
            title="Who is busy",
            caption=_limit_caption(recommendation, setting),
            label=f"Utilisation of main thread, I/O threads and load generator by {name}.",
        ),
        "stages": drawer.draw(
            lambda width: figures.stages(point, width_px=width),
            title="Where a request’s time goes",
            caption=f"Each stage of a request with {setting}, by the thread that runs it.",
            label=f"Processor time of each stage of a request with {setting}.",
        ),
    }


def _latency_figure(target: Recommended, setting: str, drawer: Drawer) -> FigureView | None:
    """Latency against load, which only a study simulates."""
    if not isinstance(target, StudyTarget):
        return None
    return drawer.draw(
        lambda width: figures.latency_by_load(target, width_px=width),
        title="Latency against load",
        caption=_latency_caption(target, setting),
        label=f"Predicted p50 and p99 latency against offered load with {setting}.",
    )


def _latency_caption(target: StudyTarget, setting: str) -> str:
    knee_rps = figures.latency_knee_rps(target.load_curve)
    text = f"With {setting}, load arriving at random (open loop)."
    if knee_rps is None:
        return text
    share = percent(knee_rps / target.recommendation.throughput_rps.value)
    return f"{text} p99 has doubled at {rate(knee_rps)}, {share} of capacity."


def _limit_caption(recommendation: Recommendation, setting: str) -> str:
    text = f"With {setting}, {limit_phrase(recommendation)}"
    coming = next_limit_phrase(recommendation)
    return f"{text}; next limit: {coming}." if coming else f"{text}."


def _candidates(target: Recommended) -> list[dict[str, Any]]:
    """A row for each setting, by io_threads; nothing is lost by the chosen one."""
    regret = {row.io_threads: row for row in target.recommendation.regret}
    most = max([*(abs(row.throughput_loss) for row in regret.values()), 0.01])
    found = []
    for threads, point in by_threads(target):
        row = regret.get(int(threads))
        loss = row.throughput_loss if row else 0.0
        found.append(
            {
                "setting": f"{threads:g}",
                "chosen": row is None,
                "throughput": rate_with_bounds(point.throughput_rps),
                "loss": loss_phrase(row) if row else "",
                "bar": round(100 * abs(loss) / most, 1),
                "gain": loss < 0,
                "why_not": row.why_not if row else "",
            }
        )
    return found


def _point_table(target: Recommended) -> dict[str, Any]:
    threads, points = zip(*by_threads(target), strict=True)
    return point_table(points, [(setting_name(SETTING), [f"{x:g}" for x in threads])])


def _conditions(scenario: Mapping[str, Any]) -> Mapping[str, Any]:
    """What clients ask for; all else stands in the scenario, below.

    What the sweep varies is no condition; the goal stands among the key facts.
    """
    if "workload" in scenario:
        return {"workload": scenario["workload"]}
    return {key: value for key, value in scenario.items() if key not in (SETTING, "slo")}


_CALLED = {"rate_rps": "offered load", "key_bytes": "key size", "value_bytes": "value size"}


def _scenario(scenario: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Flatten a scenario to label–text pairs; absent values are left out."""
    found: list[tuple[str, str]] = []
    for key, value in scenario.items():
        label = _CALLED.get(str(key), str(key).replace("_", " "))
        if value is None or value == {}:
            continue
        if isinstance(value, Mapping) and str(key) == "workload":
            found.extend(_scenario(value))
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
