"""What the page says about each target: a study turned into strings, rows and figures."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from . import figures
from .basis_view import calibration_view, host_view
from .drawing import Drawer, FigureView
from .formats import (
    UNKNOWN,
    count,
    interval,
    milliseconds,
    percent,
    plain,
    probability,
    rate,
    rate_with_bounds,
    time_with_bounds,
)
from .shapes import (
    Json,
    all_warnings,
    chosen_point,
    chosen_setting,
    io_utilisation,
    mapping,
    number,
    rows,
    setting_name,
    setting_text,
    standing,
    swept_key,
    swept_points,
    texts,
)
from .wording import (
    action,
    depth_phrase,
    headline_facts,
    key_facts,
    knee_phrase,
    limit_name,
    limit_phrase,
    loss_phrase,
    next_limit_phrase,
    ordered_candidates,
    tightening_phrases,
)


def study_view(study: Json) -> dict[str, Any]:
    """Return the template's context for a whole study."""
    drawer = Drawer()
    targets = [target_view(target, i, drawer) for i, target in enumerate(rows(study, "targets"))]
    host = mapping(study, "host_profile")
    calibration = mapping(study, "calibration")
    return {
        "title": str(study.get("title") or "Capacity study"),
        "created": _moment(study.get("created")),
        "scenario_name": str(study.get("scenario_name") or ""),
        "targets": targets,
        "warnings": texts(study, "warnings"),
        "calibration": calibration_view(calibration, drawer) if calibration else None,
        "host": host_view(host, drawer) if host else None,
        "provenance": provenance_rows(mapping(study, "provenance")),
        "unknown": UNKNOWN,
    }


def target_view(target: Json, index: int, drawer: Drawer) -> dict[str, Any]:
    """Return the template's context for one target."""
    recommendation = mapping(target, "recommendation")
    point = chosen_point(target)
    key = swept_key(target)
    facts = headline_facts(recommendation, point)
    name = str(target.get("name") or f"target {index + 1}")
    p99 = interval(point, "p99_ms")
    return {
        "anchor": f"target-{index + 1}",
        "name": name,
        "subtitle": _subtitle(target),
        "action": action(recommendation),
        "facts": facts,
        "standing": standing(recommendation),
        "setting_column": setting_name(key),
        "summary": {
            "setting": _summary_setting(recommendation),
            "throughput": rate_with_bounds(interval(recommendation, "throughput_rps")),
            "p99": time_with_bounds(p99),
            "limit": limit_name(recommendation) or UNKNOWN,
            "next": next_limit_phrase(recommendation) or UNKNOWN,
        },
        "key_facts": key_facts(recommendation, point),
        # What the sweep varies is no condition; the goal stands among the key facts.
        "scenario": _scenario(
            {
                name: value
                for name, value in mapping(target, "scenario").items()
                if name not in (key, "slo")
            }
        ),
        "warnings": all_warnings(target),
        "figures": _target_figures(target, point, drawer),
        "candidates": _candidates(target),
        "points": _points(target),
        "measure_next": tightening_phrases(mapping(recommendation, "measure_next")),
        "conf": str(recommendation.get("conf") or "").strip("\n"),
        "conf_file": str(recommendation.get("conf_file") or "valkey.conf"),
        "benchmark_command": str(recommendation.get("benchmark_command") or "").strip(),
        "no_benchmark_command": str(recommendation.get("no_benchmark_command") or ""),
    }


def _summary_setting(recommendation: Json) -> str:
    closest = setting_text(mapping(recommendation, "closest"))
    if closest:
        return f"none meets the objective (closest: {closest})"
    return setting_text(mapping(recommendation, "setting")) or UNKNOWN


def _subtitle(target: Json) -> str:
    host, engine = mapping(target, "host"), mapping(target, "engine")
    title = str(host.get("title") or host.get("id") or "")
    cores = None if "core" in title else number(host, "cores")
    kinds = {"measured": "profile measured here", "catalogue": "profile from the catalogue"}
    kind = str(host.get("kind") or "")
    parts = [
        title,
        f"{cores:g} core{'' if cores == 1 else 's'}" if cores is not None else "",
        kinds.get(kind, kind),
        " ".join(str(engine[k]) for k in ("id", "version") if engine.get(k)),
        depth_phrase(engine.get("depth")),
    ]
    return " · ".join(part for part in parts if part)


def _target_figures(target: Json, point: Json, drawer: Drawer) -> dict[str, FigureView | None]:
    recommendation = mapping(target, "recommendation")
    setting = setting_text(chosen_setting(recommendation)) or "the recommended setting"
    name = setting_name(swept_key(target))
    curve = ", ".join(
        f"{rate(e.value)} at {x:g}"
        for x, p in swept_points(target)
        if (e := interval(p, "throughput_rps"))
    )
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


def _latency_caption(target: Json, setting: str) -> str:
    knee_rps = figures.latency_knee_rps(target)
    text = f"With {setting}, load arriving at random (open loop)."
    if knee_rps is None:
        return text
    capacity = interval(mapping(target, "recommendation"), "throughput_rps")
    share = f", {percent(knee_rps / capacity.value)} of capacity" if capacity else ""
    return f"{text} p99 has doubled at {rate(knee_rps)}{share}."


def _limit_caption(recommendation: Json, setting: str) -> str:
    limit = limit_phrase(recommendation)
    if not limit:
        return ""
    text = f"With {setting}, {limit}"
    coming = next_limit_phrase(recommendation)
    return f"{text}; next limit: {coming}." if coming else f"{text}."


def _candidates(target: Json) -> list[dict[str, Any]]:
    key = swept_key(target)
    throughput = {x: interval(p, "throughput_rps") for x, p in swept_points(target)}
    chosen = interval(mapping(target, "recommendation"), "throughput_rps")
    candidates = ordered_candidates(target)
    losses = [abs(number(row, "throughput_loss") or 0.0) for _, row, _ in candidates]
    most = max([*losses, 0.01])
    return [
        {
            "setting": plain(row.get(key)),
            "chosen": is_chosen,
            "throughput": rate_with_bounds(
                chosen if is_chosen else throughput.get(x) if x is not None else None
            ),
            "loss": "" if is_chosen else loss_phrase(row),
            "bar": round(100 * loss / most, 1),
            "gain": (number(row, "throughput_loss") or 0.0) < 0,
            "why_not": str(row.get("why_not") or ""),
        }
        for (x, row, is_chosen), loss in zip(candidates, losses, strict=True)
    ]


def _points(target: Json) -> list[list[str]]:
    table = []
    for x, point in swept_points(target):
        threads = io_utilisation(point)
        latencies = [
            milliseconds(e.value) if (e := interval(point, key)) else UNKNOWN
            for key in ("p50_ms", "p99_ms", "p999_ms")
        ]
        table.append(
            [
                f"{x:g}",
                rate_with_bounds(interval(point, "throughput_rps")),
                *latencies,
                percent(number(point, "main_thread_utilisation")),
                percent(sum(threads) / len(threads)) if threads else UNKNOWN,
                percent(number(point, "load_generator_utilisation")),
                str(point.get("bottleneck") or UNKNOWN),
                str(point.get("verdict") or UNKNOWN).lower(),
                probability(number(point, "objective_probability")),
            ]
        )
    return table


def _moment(created: object) -> str:
    """Return an ISO 8601 moment without its seconds; anything else as its text."""
    try:
        moment = datetime.fromisoformat(str(created))
    except ValueError:
        return str(created or "")
    return moment.strftime("%Y-%m-%d %H:%M %Z").strip()


_CALLED = {"rate_rps": "offered load", "key_bytes": "key size", "value_bytes": "value size"}


def _scenario(scenario: Json, prefix: str = "") -> list[tuple[str, str]]:
    """Flatten a scenario to label–text pairs; absent values are left out."""
    found: list[tuple[str, str]] = []
    for key, value in scenario.items():
        label = _CALLED.get(str(key), str(key).replace("_", " "))
        if value is None or value == {}:
            continue
        if isinstance(value, Mapping) and str(key) == "workload":
            found.extend(_scenario(value))
        elif str(key).endswith("_bytes") and number(scenario, str(key)) is not None:
            found.append((prefix + label, f"{count(value)} B"))
        elif str(key) == "think_us" and number(scenario, "think_us") is not None:
            found.append((prefix + "think time", f"{plain(value)} µs"))
        elif str(key) == "mix" and isinstance(value, Mapping):
            shares = [f"{percent(number(value, k))} {str(k).upper()}" for k in value]
            found.append((prefix + label, ", ".join(shares)))
        elif isinstance(value, int | float):
            found.append((prefix + label, count(value)))
        else:
            found.append((prefix + label, plain(value).replace("_", " ")))
    return found


def provenance_rows(source: Json, prefix: str = "") -> list[tuple[str, str]]:
    """Nested names and values as labelled texts, one row each."""
    found: list[tuple[str, str]] = []
    for key, value in source.items():
        label = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            found.extend(provenance_rows(value, f"{label} "))
        elif str(key).endswith("_s") and number(source, str(key)) is not None:
            found.append((label.removesuffix(" s"), f"{plain(value)} s"))
        else:
            found.append((label, plain(value)))
    return found
