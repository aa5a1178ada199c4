"""What a step from one version to its neighbour costs, measured with both at once on one host.

Two servers share a core, each with the same data. Windows of valkey-benchmark on the other core
alternate between them, A B B A, while the other server sleeps: the host's drift of minutes, which
lies between engines measured one after another, cancels. Points are those of the study generations.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.engine_process import EngineProcess
from forecache.calibration.drive.preload import preload
from forecache.calibration.fit.calibrate import calibrate
from forecache.calibration.fit.prior import known_of
from forecache.calibration.observe.anchor import anchored_by
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.catalogue import load_host
from forecache.hwprofiles.files import write_text_atomic
from forecache.hwprofiles.schema import HostProfile
from forecache.models.advice.paired import paired_quantity
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import EngineProfile
from forecache.models.prediction.predict import SERVER_CPU, predict_cases
from forecache.models.prediction.system import System
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..markdown import table
from . import generations, rounds
from .cpu_windows import TOOL, Tool, Window
from .engines import Engine
from .generations import LEAST_STEP

FOLDER = Path("evidence/steps")
"""A folder per host: its profile, and what was measured."""
ARTEFACT = Path("docs/accuracy/steps.json")
NEIGHBOURS = (*generations.NEIGHBOURS, ("redis-8.6.3", "valkey-9.1.2"))
CONTROL = ("redis-7.0.15", "redis-7.0.15")
"""The same twice: what is measured of a step that is none."""
DATA_SETS = 10
ORDER = (0, 1, 1, 0) * 3
"""Which of the two is driven in each window."""
WINDOW_S = 0.2
PROFILES = ("shipped", "anchored", "observed")

_KERNEL = ("kernel_scale", "wake_scale")
PARTS = ("instructions", "waits", "kernel", "rules")
"""Of a predicted step: numbers of the work by what they price, and rules of the version."""

Row = dict[str, Any]
Systems = Callable[[list[str]], list[System]]
"""What two engines are predicted with, by their ids."""


def points_of(seed: int) -> list[Conditions]:
    """Of each data set the shortest and longest pipeline that valkey-benchmark has in a round."""
    own = generations.random_points(seed)[list(rounds.TOOLS).index(TOOL) :: len(rounds.TOOLS)]
    found: list[Conditions] = []
    for data_set in list(dict.fromkeys(point.data_set for point in own))[:DATA_SETS]:
        alike = sorted((p for p in own if p.data_set == data_set), key=lambda p: p.pipeline)
        found += [alike[0], alike[-1]]
    return found


def measure(asked: Asked) -> Files:
    """Measure on this host; `ENGINES` and `SEED` are as in the study generations."""
    with rounds.engines_at_hand() as (_, engines):
        program = rounds.tool_of(engines, TOOL)
        pairs = [
            pair
            for pair in (*NEIGHBOURS, CONTROL)
            if not asked.only or set(pair) <= set(asked.only)
        ]
        host = capture_host(progress=asked.progress)
        points = points_of(rounds.seed())
        rows: list[Row] = []
        for pair in pairs:
            for data_set in dict.fromkeys(point.data_set for point in points):
                own = [point for point in points if point.data_set == data_set]
                asked.progress(f"{' and '.join(pair)}: {own[0].label()}")
                chosen = [rounds.engine_of(engines, id_) for id_ in pair]
                rows += _of_data_set(chosen, program, own)
        folder = FOLDER / host.id
        rounds.keep_host(folder, host)
        rounds.keep_seed(folder, rounds.seed())
        write_text_atomic(folder / "measured.json", json_text(rows))
    return predict(asked)


def _of_data_set(
    engines: Sequence[Engine], program: Path, points: Sequence[Conditions]
) -> Iterator[Row]:
    """All points of one data set, which both servers hold."""
    core, driver = sorted(os.sched_getaffinity(0))[:2]
    with ExitStack() as stack:
        servers = [stack.enter_context(EngineProcess(e.server, cores=[core])) for e in engines]
        tools = []
        for server, other in zip(servers, reversed(servers), strict=True):
            control = stack.enter_context(server.control())
            spec = points[0].load_spec()
            preload(spec, server.address("tcp"), control=control, cores=[driver])
            tools.append(Tool(program, driver, server, besides=(other.pid,), window_s=WINDOW_S))
        for point in points:
            words = [point.command, "key:__rand_int__"]
            words += ["v" * int(point.value_bytes)] if point.command == "set" else []
            options = ("-c", point.clients, "-P", point.pipeline, "-r", point.keys)
            seen: tuple[list[Window], list[Window]] = ([], [])
            for side in ORDER:
                seen[side].append(tools[side].window(words, *options))
            yield {
                "engines": [engine.id for engine in engines],
                "point": point.model_dump(include=set(_ASKED)),
                "cpu_us": [[round(window.cpu_us, 4) for window in own] for own in seen],
                "kernel": [[round(window.kernel, 3) for window in own] for own in seen],
            }


_ASKED = ("command", "keys", "value_bytes", "pipeline", "clients")


def step_of(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Logarithm of the second's CPU time over the first's, and its standard error.

    Both are of pairs of adjacent windows. In the order A B B A, what drifts evenly raises one pair
    by as much as it lowers the next.
    """
    logs = np.log(np.asarray(second) / np.asarray(first))
    return float(logs.mean()), float(logs.std(ddof=1)) / float(np.sqrt(len(logs)))


def is_clear(step: float, error: float) -> bool:
    """Whether a step is beyond what has a sign, and beyond two standard errors."""
    return abs(float(np.expm1(step))) > LEAST_STEP and abs(step) > 2.0 * error


def predict(asked: Asked) -> Files:
    """Predict what was measured, with engines as shipped and as calibrated on such a host."""
    hosts = []
    for folder in sorted(path.parent for path in FOLDER.glob("*/measured.json")):
        host = load_host(str(folder / rounds.HOST_FILE))
        rows = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
        for row in rows:
            row["step"], row["error"] = step_of(*row["cpu_us"])
            row["round_step"] = _round_step(folder.name, row)
        pairs = [row for row in rows if tuple(row["engines"]) != CONTROL]
        for label, systems in _systems(host).items():
            asked.progress(f"{folder}: predicting, {label}")
            _add_predictions(pairs, label, systems)
        _add_parts(pairs, host)
        date = "" if host.captured is None else str(host.captured.date)[:10]
        about = {"id": folder.name, "title": host.title, "date": date}
        seed = json.loads((folder / rounds.SEED_FILE).read_text(encoding="utf-8"))
        hosts.append({**about, "seed": seed, "points": rows})
    return {ARTEFACT: json_text(hosts)}


def _systems(host: HostProfile) -> dict[str, Systems]:
    """By profile, what two engines are predicted with."""
    generator, known = load_generator(TOOL), generations.FOLDER / host.id

    @cache
    def bundle(id_: str) -> Bundle:
        return Bundle.load(known / id_ / generations.CALIBRATION)

    @cache
    def anchored(id_: str) -> HostProfile:
        return anchored_by(bundle(id_))

    @cache
    def observed(id_: str) -> System:
        engine, _ = calibrate(bundle(id_), known=known_of(bundle(id_)))
        return System(rounds.host_of(known / id_, bundle(id_)), engine, generator)

    def by_shipped(pair: list[str]) -> list[System]:
        return [System(host, rounds.shipped(id_), generator) for id_ in pair]

    def by_anchored(pair: list[str]) -> list[System]:
        other = next(id_ for id_ in generations.GENERATIONS if id_ not in pair)
        return [System(anchored(other), rounds.shipped(id_), generator) for id_ in pair]

    def by_observed(pair: list[str]) -> list[System]:
        return [observed(id_) for id_ in pair]

    found: dict[str, Systems] = {"shipped": by_shipped}
    return found | {"anchored": by_anchored, "observed": by_observed} if known.is_dir() else found


def _conditions(row: Row) -> Conditions:
    return Conditions(**row["point"], role="holdout")


def _add_predictions(rows: Sequence[Row], label: str, systems: Systems) -> None:
    """What `compare` says of the CPU time of each pair."""
    cases = [
        rounds.case_of(_conditions(row), system, tool=TOOL)
        for row in rows
        for system in systems(row["engines"])
    ]
    predictions = predict_cases(cases)
    for row, first, second in zip(rows, predictions[::2], predictions[1::2], strict=True):
        found = paired_quantity(first, second, SERVER_CPU)
        assert found.ratio is not None
        row[label] = {
            "ratio": found.ratio.value,
            "low": found.ratio.low,
            "high": found.ratio.high,
            "verdict": found.verdict,
        }


def _add_parts(rows: Sequence[Row], host: HostProfile) -> None:
    """Of the shipped step: what it is if the first engine has one part of the second's work only.

    What no number of the work makes, and what parts make together only, are rules.
    """
    generator, cases = load_generator(TOOL), []
    for row in rows:
        first, second = map(rounds.shipped, row["engines"])
        for engine in (first, *(_with_part(first, second, part) for part in PARTS[:-1])):
            system = System(host, engine, generator)
            cases.append(rounds.case_of(_conditions(row), system, tool=TOOL))
    found = [p.mean(SERVER_CPU) for p in predict_cases(cases, draws=0, replications=1)]
    for row, (own, *others) in zip(rows, np.reshape(found, (len(rows), -1)), strict=True):
        steps = [float(np.log(each / own)) for each in others]
        rest = float(np.log(row["shipped"]["ratio"])) - sum(steps)
        row["parts"] = dict(zip(PARTS, (*steps, rest), strict=True))


def _with_part(first: EngineProfile, second: EngineProfile, part: str) -> EngineProfile:
    """The first engine with such numbers of the second."""

    def part_of(name: str) -> str:
        return "kernel" if name in _KERNEL else "instructions" if "instr" in name else "waits"

    other = {name: q for name, q in second.work.items() if part_of(name) == part}
    return first.model_copy(update={"work": {**first.work, **other}})


def _round_step(host: str, row: Row) -> float | None:
    """The step at the same point where engines were measured one after another, if it was."""
    found = [_round().get((host, id_, _conditions(row).label())) for id_ in row["engines"]]
    return None if None in found else float(np.log(found[1] / found[0]))  # type: ignore[operator]


@cache
def _round() -> dict[tuple[str, str, str], float]:
    """CPU times of the last rounds of the study generations, by host, engine and point."""
    rows = json.loads(generations.ARTEFACT.read_text(encoding="utf-8"))["points"]
    return {
        (row["host"], row["engine"], row["point"]): float(np.median(row["cpu_us"]))
        for row in rows
        if row["tool"] == TOOL
    }


_KINDS: dict[str, Callable[[Row], bool]] = {
    "all": lambda _: True,
    "GET": lambda point: point["command"] == "get",
    "SET": lambda point: point["command"] == "set",
    "pipeline 1 and 2": lambda point: point["pipeline"] <= 2,
    "longer": lambda point: point["pipeline"] > 2,
    "values from 500 B": lambda point: point["value_bytes"] >= 500,
}


def section() -> list[str]:
    """Its part of docs/generations.md."""
    text = [
        "## Steps between neighbours, both at once",
        "",
        "Two neighbouring versions run on one core with the same data, and windows of"
        f" {WINDOW_S:g} s of {TOOL} alternate between them, A B B A, so that the host's drift"
        f" cancels, which lies between engines above: {len(ORDER) // 2} windows of each at 20"
        " points of the round of the same seed. A step is the mean logarithm of the ratios of"
        f" adjacent windows, *clear* beyond {LEAST_STEP:.0%} and two standard errors. Predicted is"
        " what `compare` says of the CPU time. *Shipped* is on this host as profiled in this run;"
        " *anchored* is on the host as a third engine of the round above found it, *observed* with"
        " engines as that round calibrated them, on another day. Nothing was fitted to these steps;"
        " the widths of intervals (`UNSHARED`) come from rounds above, whose points these are.",
    ]
    for host in json.loads(ARTEFACT.read_text(encoding="utf-8")):
        text += ["", f"### {host['title']}, {host['date']}, seed {host['seed']}", ""]
        rows = [row for row in host["points"] if "shipped" in row]
        same = [abs(row["step"]) for row in host["points"] if "shipped" not in row]
        text += [
            f"{CONTROL[0]} beside itself: {np.median(same):.1%} in the median, {max(same):.1%} at"
            f" most. Standard error of a step: {np.median([r['error'] for r in rows]):.1%} in the"
            " median.",
            "",
            *_scores(rows),
            "",
            "*Not needed* or missing of the interval: *needed* is by what its half would be"
            " multiplied for 95% of the measured steps to lie in it.",
            "",
            "Median steps by kind of point, measured and as shipped engines are predicted:",
            "",
            *_by_kind(rows),
            "",
            "Where they are, in shares of the first's CPU time: the kernel's share measured by"
            " ticks; of the prediction what one part of the second's numbers makes of the first"
            " engine (`instructions`; `kernel_scale` and `wake_scale`; what waits for memory), and"
            " the rest by rules of the version. *Off by* is the median of predicted less measured,"
            " *beside it* the median distance from that. *One after another* is how far the steps"
            " of the round are from these, in the median.",
            "",
            *_by_part(rows),
        ]
    return text


def _scores(rows: Sequence[Row]) -> list[str]:
    body = []
    clear = [row for row in rows if is_clear(row["step"], row["error"])]
    small = [row for row in rows if abs(np.expm1(row["step"])) <= LEAST_STEP]
    for label in (label for label in PROFILES if label in rows[0]):
        errors = np.array([_log(row, label) - row["step"] for row in rows])
        halves = np.array([np.log(row[label]["high"] / row[label]["ratio"]) for row in rows])
        signs = [sign_of(row, label) for row in clear]
        called = sum(row[label]["verdict"] != NO_CLEAR_DIFFERENCE for row in small)
        body.append(
            [
                *(label, f"{np.median(np.abs(np.expm1(errors))):.1%}"),
                f"{np.mean(np.abs(np.expm1(errors)) <= LEAST_STEP):.0%}",
                *(f"{np.mean(np.abs(errors) <= halves):.0%}", f"±{np.median(halves):.0%}"),
                f"{np.quantile(np.abs(errors) / halves, 0.95):.2f}",
                *(signs.count("right"), signs.count("wrong"), signs.count(NO_CLEAR_DIFFERENCE)),
                f"{called} of {len(small)}",
            ]
        )
    header = ["profiles", ">median error of the ratio", ">within 5%", ">inside 95% interval"]
    header += [">half of it", ">needed", f">{len(clear)} clear steps: right", ">wrong"]
    return table([*header, f">{NO_CLEAR_DIFFERENCE}", ">steps within 5% called"], body)


def sign_of(row: Row, label: str) -> str:
    """What the verdict on a step says, beside what was measured."""
    verdict = row[label]["verdict"]
    if verdict == NO_CLEAR_DIFFERENCE:
        return str(verdict)
    return "right" if (verdict == "higher") == (row["step"] > 0.0) else "wrong"


def _log(row: Row, label: str) -> float:
    return float(np.log(row[label]["ratio"]))


def _of_pairs(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for pair in NEIGHBOURS:
        own = [row for row in rows if tuple(row["engines"]) == pair]
        if own:
            yield " to ".join(pair), own


def _by_kind(rows: Sequence[Row]) -> list[str]:
    body = []
    for name, own in _of_pairs(rows):
        cells = []
        for holds in _KINDS.values():
            kind = [row for row in own if holds(row["point"])]
            both = [[row["step"], _log(row, "shipped")] for row in kind]
            cells.append(", ".join(f"{x:+.1%}" for x in np.expm1(np.median(both, axis=0))))
        body.append([name, *cells])
    return table(["step", *(f">{kind}" for kind in _KINDS)], body)


def _by_part(rows: Sequence[Row]) -> list[str]:
    body = []
    for name, own in _of_pairs(rows):
        measured = np.median([_user_and_kernel(row) for row in own], axis=0)
        parts = np.median([[row["parts"][part] for part in PARTS] for row in own], axis=0)
        errors = np.array([_log(row, "shipped") - row["step"] for row in own])
        off = float(np.median(errors))
        apart = [abs(row["round_step"] - row["step"]) for row in own if row["round_step"]]
        cells = [f"{x:+.1%}" for x in (*measured, *parts, off)]
        drift = f"{np.median(apart):.1%}" if apart else ""
        body.append([name, *cells, f"{np.median(np.abs(errors - off)):.1%}", drift])
    header = ["step", ">user, measured", ">kernel, measured", *(f">{part}" for part in PARTS)]
    return table([*header, ">off by", ">beside it", ">one after another"], body)


def _user_and_kernel(row: Row) -> tuple[float, float]:
    """What the second takes more of either, in shares of the first's CPU time."""
    cpu_us, kernel = np.array(row["cpu_us"]), np.array(row["kernel"])
    whole, of_kernel = cpu_us.mean(axis=1), (cpu_us * kernel).mean(axis=1)
    more = (of_kernel[1] - of_kernel[0]) / whole[0]
    return float((whole[1] - whole[0]) / whole[0] - more), float(more)
