"""Catalogue hosts fitted together to all calibration points, and what leaving some out costs.

Writes `learned.yaml` beside the profile of every host that has points, and an artefact with each
point's predictions: of the fit, and without its dataset, its host, its engine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from forecache.hwprofiles import load_host
from forecache.hwprofiles.schema import HostProfile
from forecache.models.advice.answers import load_cases
from forecache.models.prediction.predict import predict_cases
from forecache.models.prediction.system import System

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..joint.fit import JointFit, fit_jointly
from ..joint.left_out import GROUPS, Scored, honest_discrepancies, score
from ..joint.points import joint_points
from ..joint.shipped import learned_files
from ..markdown import table
from .curves import curves_of, curves_section
from .observed import ACCURACY

ARTEFACT = ACCURACY / "learned-hosts.json"
QUICKSTART = Path("examples/quickstart.yaml")
QUICKSTART_HOSTS = ("graviton3-c7g.4xlarge", "graviton4-c8g.4xlarge")
QUICKSTART_THREADS = 8
KINDS = ("fit", *GROUPS)


def measure(asked: Asked) -> Files:
    """Fit, leave out, and write the hosts' files."""
    points = joint_points()
    fit = fit_jointly(
        [point for point in points if point.case.role == "calibration"],
        last=_last_fit(ARTEFACT),
        progress=asked.progress,
    )
    asked.progress(f"predicting {len(points)} points, with and without what is left out")
    return _files(fit, score(fit, points))


def _files(fit: JointFit, scored: Sequence[Scored]) -> Files:
    plain, others = discrepancies = honest_discrepancies(scored, fit.discrepancy)
    files: dict[Path, str | bytes] = {
        Path(f"hwprofiles/hosts/{host}/learned.yaml"): text
        for host, text in learned_files(fit, discrepancies=discrepancies).items()
    }
    result = {
        "numbers": len(fit.names),
        "calibration_points": len(fit.points),
        "likely_discrepancy": _short(fit.discrepancy),
        "discrepancy": _short(plain),
        "commands_discrepancy": _short(others),
        "ends": [
            {k: _short(v) if isinstance(v, float) else v for k, v in asdict(end).items()}
            for end in fit.ends
        ],
        "at": {name: round(z, 3) for name, z in fit.where.items()},
        "points": [
            _plain(each, plain if each.point.only_get_and_set else others) for each in scored
        ],
    }
    return {**files, ARTEFACT: json_text(result)}


def _last_fit(path: Path) -> dict[str, float]:
    """Where the fit of an artefact ended, in standard errors by name; nothing if there is none."""
    if not path.exists():
        return {}
    return dict(json.loads(path.read_text(encoding="utf-8")).get("at", {}))


def _plain(scored: Scored, discrepancy: float) -> dict[str, Any]:
    point = scored.point
    return {
        "dataset": point.dataset,
        "index": point.case.index,
        "given": point.case.given,
        "role": point.case.role,
        "host": point.host,
        "engine": point.engine,
        "observed_rps": point.case.observed["throughput_rps"],
        "predicted": {
            kind: {
                "rps": _short(math.exp(scored.predicted[kind].log_rate)),
                "error": _short(scored.error(kind)),
                "uncertainty": _short(scored.uncertainty(kind)),
                "inside": scored.inside(kind, discrepancy),
            }
            for kind in KINDS
        },
    }


def quickstart(_asked: Asked) -> Files:
    """The quickstart's interval on two hosts, as they were known before the fit and after it."""
    found = []
    for name in QUICKSTART_HOSTS:
        for fitted in (False, True):
            host = load_host(name, fitted=fitted)
            found.append({"host": name, "fitted": fitted, **_interval(host)})
    return {ACCURACY / "quickstart-interval.json": json_text({"rows": found})}


def _interval(host: HostProfile) -> dict[str, float]:
    [(case, shipped)] = [
        pair for pair in load_cases(QUICKSTART) if pair[0].scenario.io_threads == QUICKSTART_THREADS
    ]
    system = System(host, shipped.engine, shipped.generator)
    [prediction] = predict_cases([(case, system)], draws=100)
    estimate, parts = prediction.interval("throughput_rps"), prediction.parts("throughput_rps")
    return {
        **{name: _short(getattr(estimate, name)) for name in ("value", "low", "high")},
        **{
            name: _short(getattr(parts, name))
            for name in ("monte_carlo", "parameters", "discrepancy", "windows")
        },
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


# --- the section of docs/scores.md --------------------------------------------------------------


def learned_section(out: Path) -> list[str]:
    """Errors of the joint fit, and without what is left out; nothing before the study ran."""
    path = out / ARTEFACT.name
    if not path.exists():
        return []
    result = json.loads(path.read_text(encoding="utf-8"))
    points = result["points"]
    lines = [
        "",
        "## Hosts of the catalogue, fitted together",
        "",
        f"{result['numbers']} uncertain numbers of hosts, engines and load generators, fitted"
        f" together to the throughput of {result['calibration_points']} calibration points"
        " (`make evidence STUDY=learned-hosts`). *Left out* is what is predicted without any"
        " calibration point of the dataset (with all others of its machine and engine), of the"
        " host or of the engine. *u* is the combined standard uncertainty of data, inputs and"
        f" simulation, without the model's own error, which is {result['discrepancy']:.1%} by"
        " left-out calibration points of GET and SET and"
        f" {result['commands_discrepancy']:.0%} by those of MGET; *inside* is the share in 95%"
        " intervals that have both.",
        "",
        *_ends(result.get("ends", [])),
        *_table(points),
        "",
        *_by_dataset(points),
        "",
        *_regret(points),
        "",
        *curves_section(points),
        "",
        *_quickstart_lines(out),
    ]
    return lines


def _ends(ends: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where each start led; nothing of a fit that had one start."""
    if not ends:
        return []
    rows = [
        [
            end["start"],
            str(end["steps"]),
            "yes" if end["to_its_end"] else "no",
            f"{end['began']:.0f}",
            f"{end['objective']:.1f}",
            f"{end['median_error']:.1%}",
        ]
        for end in ends
    ]
    header = ["start", ">steps", "until none gained", ">objective there", ">at its end"]
    return [
        "The fit goes downhill from several starts and keeps the end with the least objective"
        " ([models.md](models.md#hosts-of-the-catalogue)); it knows calibration points only. Ends"
        " whose objectives differ by one or two are equally good: windows have a grain.",
        "",
        *table([*header, ">median error at fitted points"], rows),
        "",
    ]


def _table(points: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = []
    for role, called in (("calibration", "fitted"), ("validation", "held out")):
        own = [point for point in points if point["role"] == role]
        for kind in KINDS:
            left = "nothing" if kind == "fit" else f"its {kind}"
            rows.append([called, left, str(len(own)), *_errors(own, kind)])
    header = ["points", "left out", ">number", ">median error", ">worst"]
    return table([*header, ">median abs(E)/u", ">abs(E)/u above 2", ">inside"], rows)


def _errors(points: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    found = [point["predicted"][kind] for point in points]
    errors = np.abs([each["error"] for each in found])
    ratios = errors / np.array([each["uncertainty"] for each in found])
    return [
        f"{np.median(errors):.1%}",
        f"{errors.max():.0%}",
        f"{np.median(ratios):.1f}",
        f"{np.mean(ratios > 2):.0%}",
        f"{np.mean([each['inside'] for each in found]):.0%}",
    ]


def _by_dataset(points: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = []
    for name in dict.fromkeys(point["dataset"] for point in points):
        own = [point for point in points if point["dataset"] == name]
        cells = [
            f"{np.median([abs(p['predicted'][kind]['error']) for p in own]):.1%}" for kind in KINDS
        ]
        inside = np.mean([point["predicted"]["dataset"]["inside"] for point in own])
        rows.append([f"`{name}`", str(len(own)), *cells, f"{inside:.0%}"])
    header = ["median error of all points", ">points", ">fit", ">without its dataset"]
    header += [">without its host", ">without its engine", ">inside without its dataset"]
    return table(header, rows)


def _regret(points: Sequence[Mapping[str, Any]]) -> list[str]:
    """What following the predictions costs, by what was left out."""
    rows = []
    for kind in KINDS:
        costs = [curve.regret(kind) for curve in curves_of(points)]
        if costs:
            rows.append(
                [
                    "nothing" if kind == "fit" else f"its {kind}",
                    str(len(costs)),
                    f"{np.median(costs):.1%}",
                    f"{max(costs):.1%}",
                ]
            )
    return [
        "What following these predictions gives up of the measured best throughput, over all curves"
        " of settings that differ in io-threads only:",
        "",
        *table(["left out", ">curves", ">median", ">worst"], rows),
    ]


def _quickstart_lines(out: Path) -> list[str]:
    path = out / "quickstart-interval.json"
    if not path.exists():
        return []
    rows = []
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        rows.append(
            [
                row["host"],
                "after the fit" if row["fitted"] else "before",
                f"{row['value'] / 1e6:.2f} ({row['low'] / 1e6:.2f}–{row['high'] / 1e6:.2f})",
                f"±{math.log(row['high'] / row['value']):.0%}",
                *(f"±{row[part]:.0%}" for part in ("parameters", "discrepancy", "windows")),
            ]
        )
    return [
        f"The quickstart of README at io-threads {QUICKSTART_THREADS} (`make evidence"
        " STUDY=quickstart-interval`), halves of its 95% interval on the log scale:",
        "",
        *table(
            ["host", "numbers", ">million requests/s", ">all", ">parameters", ">model", ">windows"],
            rows,
        ),
    ]
