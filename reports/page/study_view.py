"""What the page says about each target: a study turned into strings, rows and figures."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from forecache.models.advice.node_answers import StudyTarget
from forecache.models.advice.recommend import Recommendation
from forecache.models.results.points import Point

from .. import figures
from ..study_answer import Study
from ..text.formats import (
    UNKNOWN,
    count,
    is_number,
    milliseconds,
    percent,
    plain,
    probability,
    rate,
    rate_with_bounds,
    time_with_bounds,
)
from ..text.points import SETTING, by_threads, chosen_point, mean_percent, standing, target_warnings
from ..text.settings import setting_name, setting_text
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
from .basis_view import calibration_view, host_view
from .drawing import Drawer, FigureView


def study_view(study: Study) -> dict[str, Any]:
    """Return the template's context for a whole study."""
    drawer = Drawer()
    return {
        "title": study.title,
        "created": _moment(study.created),
        "scenario_name": study.scenario_name,
        "targets": [target_view(target, i, drawer) for i, target in enumerate(study.targets)],
        "warnings": study.warnings,
        "calibration": calibration_view(study.calibration, drawer),
        "host": host_view(study.host_profile, drawer),
        "provenance": provenance_rows(study.provenance.to_dict()),
        "unknown": UNKNOWN,
    }


def target_view(target: StudyTarget, index: int, drawer: Drawer) -> dict[str, Any]:
    """Return the template's context for one target."""
    recommendation, point = target.recommendation, chosen_point(target)
    return {
        "anchor": f"target-{index + 1}",
        "name": target.name,
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
        # What the sweep varies is no condition; the goal stands among the key facts.
        "scenario": _scenario(
            {k: value for k, value in target.scenario.items() if k not in (SETTING, "slo")}
        ),
        "warnings": target_warnings(target),
        "figures": _target_figures(target, point, drawer),
        "candidates": _candidates(target),
        "points": _points(target),
        "measure_next": tightening_phrases(recommendation.measure_next),
        "conf": recommendation.conf.strip("\n"),
        "conf_file": recommendation.conf_file,
        "benchmark_command": recommendation.benchmark_command.strip(),
        "no_benchmark_command": recommendation.no_benchmark_command,
    }


def _summary_setting(recommendation: Recommendation) -> str:
    chosen = setting_text(recommendation.chosen)
    met = recommendation.setting is not None
    return chosen if met else f"none meets the objective (closest: {chosen})"


def _subtitle(target: StudyTarget) -> str:
    host, engine = target.host, target.engine
    parts = [
        host.title,
        "" if "core" in host.title else f"{host.cores} core{'' if host.cores == 1 else 's'}",
        "profile measured here" if host.kind == "measured" else "profile from the catalogue",
        f"{engine.id} {engine.version}",
        depth_phrase(engine.depth),
    ]
    return " · ".join(part for part in parts if part)


def _target_figures(
    target: StudyTarget, point: Point, drawer: Drawer
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
        "latency": drawer.draw(
            lambda width: figures.latency_by_load(target, width_px=width),
            title="Latency against load",
            caption=_latency_caption(target, setting),
            label=f"Predicted p50 and p99 latency against offered load with {setting}.",
        ),
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


def _candidates(target: StudyTarget) -> list[dict[str, Any]]:
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


def _points(target: StudyTarget) -> list[list[str]]:
    return [
        [
            f"{x:g}",
            rate_with_bounds(point.throughput_rps),
            *(
                milliseconds(estimate.value) if estimate else UNKNOWN
                for estimate in (point.p50_ms, point.p99_ms, point.p999_ms)
            ),
            percent(point.main_thread_utilisation),
            mean_percent(point.io_thread_utilisation),
            percent(point.load_generator_utilisation),
            point.bottleneck,
            point.verdict.lower(),
            probability(point.objective_probability),
        ]
        for x, point in by_threads(target)
    ]


def _moment(created: str) -> str:
    """Return an ISO 8601 moment without its seconds."""
    return datetime.fromisoformat(created).strftime("%Y-%m-%d %H:%M %Z").strip()


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


def provenance_rows(source: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested names and values as labelled texts, one row each."""
    found: list[tuple[str, str]] = []
    for key, value in source.items():
        label = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            found.extend(provenance_rows(value, f"{label} "))
        elif str(key).endswith("_s") and is_number(value):
            found.append((label.removesuffix(" s"), f"{plain(value)} s"))
        else:
            found.append((label, plain(value)))
    return found
