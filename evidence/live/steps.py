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
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.loadgen import preload
from forecache.calibration.drive.servers import EngineProcess
from forecache.calibration.fit.calibrate import calibrate
from forecache.calibration.fit.prior import earlier_profile
from forecache.calibration.observe.observe import anchored_by
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
from .cpu_windows import TOOL, Tool, Window, profile_of_most, settled, unmoved
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
SHORT = 5
"""Commands in a pipeline up to which most of a request is the kernel's."""
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
        pairs = (*NEIGHBOURS, CONTROL)
        host = capture_host(progress=asked.progress)
        points = points_of(rounds.seed())
        rows: list[Row] = []
        for pair in pairs:
            for data_set in dict.fromkeys(point.data_set for point in points):
                own = [point for point in points if point.data_set == data_set]
                asked.progress(f"{' and '.join(pair)}: {own[0].label()}")
                chosen = [rounds.engine_of(engines, id_) for id_ in pair]
                rows += _of_data_set(chosen, program, own, host.core_to_core_ns.best)
        host = profile_of_most(host, rows, asked.progress)
        folder = FOLDER / host.id
        rounds.keep_host(folder, host)
        rounds.keep_seed(folder, rounds.seed())
        write_text_atomic(folder / "measured.json", json_text(rows))
    return predict(asked)


def _of_data_set(
    engines: Sequence[Engine], program: Path, points: Sequence[Conditions], apart_ns: float
) -> Iterator[Row]:
    """All points of one data set, which both servers hold."""
    core, driver = sorted(os.sched_getaffinity(0))[:2]
    with ExitStack() as stack:
        servers = [stack.enter_context(EngineProcess(e.server, cores=[core])) for e in engines]
        tools = []
        for server, other in zip(servers, reversed(servers), strict=True):
            control = stack.enter_context(server.control())
            preload(points[0], server.address("tcp"), control=control, cores=[driver])
            tools.append(Tool(program, driver, server, besides=(other.pid,), window_s=WINDOW_S))
        for point in points:
            seen, distances = settled((core, driver), apart_ns, partial(_in_turn, tools, point))
            yield {
                "engines": [engine.id for engine in engines],
                "point": point.model_dump(include=set(_ASKED)),
                "apart_ns": distances,
                "cpu_us": [[round(window.cpu_us, 4) for window in own] for own in seen],
            }


def _in_turn(tools: Sequence[Tool], point: Conditions) -> tuple[list[Window], list[Window]]:
    """Windows of each, in `ORDER`."""
    words = [point.command, "key:__rand_int__"]
    words += ["v" * int(point.value_bytes)] if point.command == "set" else []
    options = ("-c", point.clients, "-P", point.pipeline, "-r", point.keys)
    seen: tuple[list[Window], list[Window]] = ([], [])
    for side in ORDER:
        seen[side].append(tools[side].window(words, *options))
    return seen


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
        measured = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
        rows = [row for row in measured if unmoved(row["apart_ns"], host)]
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
        moved = len(measured) - len(rows)
        hosts.append({**about, "seed": seed, "moved": moved, "points": rows})
    return {ARTEFACT: json_text(hosts)}


def _systems(host: HostProfile) -> dict[str, Systems]:
    """What two engines are predicted with, by profile: all if such a host had a round."""
    generator, known = load_generator(TOOL), generations.FOLDER / host.id

    @cache
    def anchored(id_: str) -> HostProfile:
        return anchored_by(Bundle.load(known / id_ / generations.CALIBRATION))

    @cache
    def observed(id_: str) -> System:
        bundle = Bundle.load(known / id_ / generations.CALIBRATION)
        engine, _ = calibrate(bundle, known=earlier_profile(bundle))
        return System(rounds.host_of(known / id_, bundle), engine, generator)

    def shipped_on(on: HostProfile, pair: list[str]) -> list[System]:
        return [System(on, rounds.shipped(id_), generator) for id_ in pair]

    def third(pair: list[str]) -> str:
        return next(id_ for id_ in generations.GENERATIONS if id_ not in pair)

    found: dict[str, Systems] = {"shipped": lambda pair: shipped_on(host, pair)}
    if known.is_dir():
        found["anchored"] = lambda pair: shipped_on(anchored(third(pair)), pair)
        found["observed"] = lambda pair: [observed(id_) for id_ in pair]
    return found


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
    found = [p.mean(SERVER_CPU) for p in predict_cases(cases, draws=0)]
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
    f"pipeline up to {SHORT}": lambda point: point["pipeline"] <= SHORT,
    "longer": lambda point: point["pipeline"] > SHORT,
    "values from 500 B": lambda point: point["value_bytes"] >= 500,
}


def section() -> list[str]:
    """Its part of docs/generations.md."""
    text = [
        "## Steps between neighbours, both at once",
        "",
        "Two neighbouring versions run on one core with the same data, and windows of"
        f" {WINDOW_S:g} s of {TOOL} alternate between them, A B B A, so that slow drift of the"
        " host cancels. In the rounds above engines were measured one after another, and it does"
        f" not. {len(ORDER) // 2} windows of each at {2 * DATA_SETS} points of the round of the"
        " same seed. A step is the mean logarithm of the ratios of"
        f" adjacent windows, *clear* beyond {LEAST_STEP:.0%} and two standard errors. Predicted is"
        " what `compare` says of the CPU time. *Shipped* is on this host as profiled in this run;"
        " *anchored* is on the host as a third engine of the last round on such a host found it,"
        " *observed* with engines as that round calibrated them, on another day. Nothing was fitted"
        " to these steps; the widths of intervals (`UNSHARED`) come from rounds above, and on the"
        " Zen 5 host from the same points. That an engine counts as observed here with a host"
        " profile of the same day only was decided with the Zen 5 steps in view, and before those"
        " of Zen 3 were.",
    ]
    for host in json.loads(ARTEFACT.read_text(encoding="utf-8")):
        rows = [row for row in host["points"] if "shipped" in row]
        same = [abs(row["step"]) for row in host["points"] if "shipped" not in row]
        text += [
            "",
            f"### {host['title']}, {host['date']}, seed {host['seed']}",
            "",
            f"Points left out because the hypervisor had moved the CPUs since the profile:"
            f" {host['moved']} of {host['moved'] + len(host['points'])}.",
            "",
            f"{CONTROL[0]} beside itself: {np.median(same):.1%} in the median, {max(same):.1%} at"
            " most: two starts of one server differ too. Standard error of a step:"
            f" {np.median([row['error'] for row in rows]):.1%} in the median. *Needed* is the"
            " factor on half of the interval at which 95% of the measured steps would lie in it."
            " *Other sign* counts predicted ratios, called or not.",
            "",
            *_scores(rows),
            "",
            *_one_after_another(rows),
            "",
            "Median steps by kind of point, measured and predicted with shipped engines:",
            "",
            *_by_kind(rows),
            "",
            f"Where they are: means at pipelines up to {SHORT} and their standard errors. A part is"
            " what one kind of the second's numbers changes of the first engine: `instructions`,"
            " what waits for memory, `kernel_scale` and `wake_scale`; rules of the version are what"
            " is left. A *slope* of 1 says that measured steps have the part, 0 that they don't"
            " (least squares, steps taken as independent); below is the median error of the whole"
            " prediction, and of one without the part.",
            "",
            *_by_part(rows),
        ]
    return text


def _scores(rows: Sequence[Row]) -> list[str]:
    body = []
    clear = [row for row in rows if is_clear(row["step"], row["error"])]
    small = [row for row in rows if abs(np.expm1(row["step"])) <= LEAST_STEP]
    for label in (label for label in PROFILES if label in rows[0]):
        errors = np.abs([_log(row, label) - row["step"] for row in rows])
        halves = np.array([np.log(row[label]["high"] / row[label]["ratio"]) for row in rows])
        signs = [sign_of(row, label) for row in clear]
        called = sum(row[label]["verdict"] != NO_CLEAR_DIFFERENCE for row in small)
        opposite = sum(_log(row, label) * row["step"] < 0.0 for row in clear)
        cells = [f"{np.median(errors):.1%}", f"{np.mean(errors <= np.log1p(LEAST_STEP)):.0%}"]
        cells += [f"{np.mean(errors <= halves):.0%}", f"±{np.median(halves):.0%}"]
        cells += [f"{np.quantile(errors / halves, 0.95):.2f}"]
        counts = [signs.count(word) for word in ("right", "wrong", NO_CLEAR_DIFFERENCE)]
        body.append([label, *cells, *counts, opposite, f"{called} of {len(small)}"])
    header = ["profiles", ">median error", ">within 5%", ">inside 95% interval", ">half of it"]
    header += [">needed", f">{len(clear)} clear steps: called right", ">wrong"]
    header += [f">{NO_CLEAR_DIFFERENCE}", ">other sign", ">steps within 5% called"]
    return table(header, body)


def sign_of(row: Row, label: str) -> str:
    """What the verdict on a step says, beside what was measured."""
    verdict = row[label]["verdict"]
    if verdict == NO_CLEAR_DIFFERENCE:
        return str(verdict)
    return "right" if (verdict == "higher") == (row["step"] > 0.0) else "wrong"


def _one_after_another(rows: Sequence[Row]) -> list[str]:
    """How much of the error of steps is in how the round measured them."""
    if any(row["round_step"] is None for row in rows):
        return []
    round_ = np.array([row["round_step"] for row in rows])
    shipped = np.array([_log(row, "shipped") for row in rows])
    errors = round_ - _measured(rows), shipped - _measured(rows), shipped - round_
    apart, once, in_turn = (f"{np.sqrt(np.mean(np.square(each))):.1%}" for each in errors)
    return [
        "The round, which measured engines one after another, has the same steps differ by"
        f" {apart} from these, as a root mean square. Shipped engines miss these by {once} and"
        f" those of the round by {in_turn}."
    ]


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
        kinds = [[row for row in own if holds(row["point"])] for holds in _KINDS.values()]
        both = [[(row["step"], _log(row, "shipped")) for row in kind] for kind in kinds]
        medians = [np.expm1(np.median(x, axis=0)) if x else () for x in both]
        body.append([name, *(", ".join(f"{x:+.1%}" for x in each) or "–" for each in medians)])
    return table(["step", *(f">{kind}" for kind in _KINDS)], body)


def _by_part(rows: Sequence[Row]) -> list[str]:
    """Means of steps with short pipelines; slopes and errors of all and of these."""
    short = [row for row in rows if row["point"]["pipeline"] <= SHORT]
    body = []
    for name, own in _of_pairs(short):
        each = np.column_stack([_measured(own), _parts(own).sum(axis=1), _parts(own)])
        errors = each.std(axis=0, ddof=1) / np.sqrt(len(own))
        cells = [f"{x:+.1%} ± {e:.1%}" for x, e in zip(each.mean(axis=0), errors, strict=True)]
        body.append([name, *cells])
    kinds = {"these points": short, "all points": rows}
    for kind, some in kinds.items():
        slopes = zip(*slopes_of(_measured(some), _parts(some)), strict=True)
        body.append([f"slope, {kind}", "", "", *(f"{x:.2f} ± {e:.2f}" for x, e in slopes)])
    for kind, some in kinds.items():
        whole, parts = _parts(some).sum(axis=1) - _measured(some), _parts(some)
        left = [np.median(np.abs(x)) for x in (whole, *(whole[:, None] - parts).T)]
        body.append([f"error without it, {kind}", "", *(f"{x:.1%}" for x in left)])
    return table(["step", ">measured", ">predicted", *(f">{part}" for part in PARTS)], body)


def _measured(rows: Sequence[Row]) -> np.ndarray:
    return np.array([row["step"] for row in rows])


def _parts(rows: Sequence[Row]) -> np.ndarray:
    """(rows, parts) of the predicted steps."""
    return np.array([[row["parts"][part] for part in PARTS] for row in rows])


def slopes_of(measured: np.ndarray, parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How much of each part is in the measured steps, by least squares, and standard errors."""
    slopes, *_ = np.linalg.lstsq(parts, measured, rcond=None)
    variance = np.sum((measured - parts @ slopes) ** 2) / (len(measured) - parts.shape[1])
    return slopes, np.sqrt(variance * np.diag(np.linalg.inv(parts.T @ parts)))
