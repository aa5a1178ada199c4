"""The main job: from this host and a real engine on it to a recommendation and its report."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.servers import check_ready, engine_version, find_engine
from forecache.calibration.fit.calibrate import calibrate
from forecache.calibration.fit.prior import earlier_profile
from forecache.calibration.fit.report import CalibrationReport
from forecache.calibration.observe.design import (
    TIMINGS,
    Timing,
    brief_threaded_points,
    design_points,
)
from forecache.calibration.observe.observe import observe
from forecache.calibration.observe.spinning import refusal
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.capture.machine import busy_cpu_seconds
from forecache.hwprofiles.files import dump_yaml, read_text, write_text_atomic
from forecache.hwprofiles.named_files import NamedFiles, names_file
from forecache.hwprofiles.schema import HostProfile
from forecache.models.advice.answers import (
    check_threads_only,
    compare_threads,
    load_cases,
    load_curve,
    thread_candidates,
)
from forecache.models.advice.node_answers import NumberOrigin, StudyTarget
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.over_time.kept_runs import source_digest
from forecache.models.prediction.system import System
from forecache.models.results.displayed import provenance
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case
from forecache.sim.errors import InputError

from .builders.calibration import disagreements
from .page import render_html
from .study_answer import (
    ENGINE,
    HOST,
    STUDY,
    THIS_HOST,
    HostNumbers,
    Study,
    StudyProvenance,
    scenario_name,
    scenarios_again,
)
from .text.formats import sentence
from .text.repeat import (
    SOURCES,
    command_line,
    path_sha256,
    plain_mapping,
    scenario_text,
    texts_sha256,
)

Progress = Callable[[str], None]

REPORT = "report.html"


def study(
    scenario: str | Path | Mapping[str, Any],
    *,
    out: Path,
    engine: str | None = None,
    design: str = "quick",
    seed: int = 1,
    sensitivity: bool = False,
    progress: Progress | None = None,
) -> Study:
    """Profile this host, observe an engine on it, calibrate, predict, recommend, write the report.

    The engine that is observed here is the one predicted, on this host and on the scenario's:
    work is the engine's, speed the host's.

    Parameters
    ----------
    scenario
        Path or content of a scenario; its host is the second target.
    out
        Folder for report.html, study.json, host.yaml, engine.yaml, the observation bundle, for each
        target a scenario that predicts it again from these, and copies of files that the scenario
        names. It appears when everything is there; an earlier study there is replaced.
    engine
        Binary to observe; the embedded engine if left out.
    design
        `quick` or `full`, of the observation.
    sensitivity
        Also tell which inputs move each recommended setting.

    Raises
    ------
    InputError, EngineError
        Something it needs is missing or not valid. All of that is looked for before
        anything is measured.
    """
    say = progress or (lambda _line: None)
    started = time.monotonic()
    systems = load_cases(scenario)
    check_threads_only(systems, file=_name(scenario))
    _refuse_foreign(out)
    _check_workload(systems, check_ready(engine), file=_name(scenario))
    points, timing = _points(design, engine), TIMINGS[design]
    busy = others_cpus()
    step_s = expected_seconds(points, timing, busy_share=busy.share, sensitivity=sensitivity)
    say(expected_words(step_s, busy) + "\n")
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        host, bundle, profile, calibration = _measured(work, engine, points, timing, step_s, say)
        say(_step(4, step_s))
        there = systems[0][0].scenario.host or "scenario"
        inputs = {name: work / name for name in (HOST, ENGINE, "bundle")}
        targets = [
            _target(name, cases, seed=seed, sensitivity=sensitivity, progress=say)
            for name, cases in (
                (THIS_HOST, _here(systems, host, profile)),
                (Path(there).stem if names_file(there) else there, _there(systems, profile)),
            )
        ]
        own = Path(_name(scenario)).name
        files = NamedFiles(taken=[*inputs, own, STUDY, REPORT, *map(scenario_name, targets)])
        texts = {own: scenario_text(scenario, files)}
        again = scenarios_again(targets, files)
        for name, text in again.items():
            write_text_atomic(work / name, text)
        files.write(work)
        measured = {name: read_text(work / name) for name in (HOST, ENGINE)}
        made = provenance(seed=seed)
        options = {"--engine": engine, "--design": design, "--seed": seed}
        options |= {"--sensitivity": sensitivity, "--out": out.name}
        result = Study(
            title=f"How many I/O threads for {profile.engine} {profile.version}?",
            created=made.date,
            scenario_name=_name(scenario),
            warnings=[
                *(f"This host: {note}" for note in host.notes),
                *_observation_warnings(bundle, profile),
                *map(sentence, disagreements(calibration)),
            ],
            targets=targets,
            calibration=calibration,
            host_profile=_host_numbers(host),
            provenance=StudyProvenance(
                **vars(made),
                host=host.id,
                engine=profile.id,
                elapsed_s=round(time.monotonic() - started, 1),
                bundle="bundle/",
                command=command_line("study", [_name(scenario)], options),
            ),
            scenario=files.collect(plain_mapping(scenario)),
            hashes=texts_sha256(texts)
            | files.hashes
            | {name: path_sha256(path) for name, path in inputs.items()}
            | {SOURCES: source_digest()},
            inputs=texts | measured | again | files.texts,
        )
        write_text_atomic(work / STUDY, json.dumps(result.to_dict(), indent=1))
        write_text_atomic(work / REPORT, render_html(result))
        if out.exists():
            shutil.rmtree(out)
        work.chmod(0o755)
        work.rename(out)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    return replace(result, report=str(out / REPORT))


def _measured(
    work: Path,
    engine: str | None,
    points: Sequence[Conditions],
    timing: Timing,
    step_s: Sequence[float],
    say: Progress,
) -> tuple[HostProfile, Bundle, EngineProfile, CalibrationReport]:
    """This host, and an engine observed and calibrated on it, whose files are in `work`."""
    say(_step(1, step_s))
    host = capture_host(progress=say)
    write_text_atomic(work / HOST, host.to_yaml())
    say(_step(2, step_s))
    bundle = observe(
        engine=engine,
        design=points,
        out=work / "bundle",
        host=host,
        timing=timing,
        progress=say,
    )
    say(_step(3, step_s))
    profile, calibration = calibrate(bundle, host=host, known=earlier_profile(bundle), progress=say)
    text = dump_yaml(profile.model_dump(mode="json", exclude_none=True))
    write_text_atomic(work / ENGINE, text)
    return host, bundle, profile, calibration


def _points(design: str, engine: str | None) -> Sequence[Conditions]:
    """What to observe: points with I/O threads, too, where they can say what threads compute."""
    points = design_points(design)
    binary = find_engine(engine)
    policy = load_engine(*engine_version(binary)).threading
    can_tell = policy.threads_sleep or refusal() is None
    if len(os.sched_getaffinity(0)) < 2 or policy.hand_over == "none" or not can_tell:
        return points
    return [*points, *brief_threaded_points()]


def _step(number: int, step_s: Sequence[float]) -> str:
    """What a step does and takes, and what remains to be done after it."""
    remain = ", ".join(STEPS[number:])
    said = f"{number} of {len(STEPS)}: {STEPS[number - 1]}, about {rough(step_s[number - 1])}"
    return f"{said}; then {remain}" if remain else said


def _check_workload(
    systems: list[tuple[Case[Scenario], System]], rules: EngineProfile, *, file: str
) -> None:
    """Refuse a workload that the engine to observe doesn't know."""
    for case, system in systems:
        try:
            scenario = _with_engine(case, rules).scenario
            System(system.host, rules, system.generator).inputs(scenario)
        except InputError as error:
            raise InputError(f"{file}, with {rules.engine} {rules.version}: {error}") from None


def _refuse_foreign(out: Path) -> None:
    """Only an earlier study, or an empty folder, may be replaced."""
    if out.is_dir() and any(out.iterdir()) and not (out / STUDY).is_file():
        raise InputError(
            f"--out {out}: found files, but no {STUDY} of an earlier study; "
            "name a new folder or that of an earlier study."
        )


def _observation_warnings(bundle: Bundle, engine: EngineProfile) -> list[str]:
    """What was wrong with the observation that everything else rests on."""
    # What its version is taken as, predictions say.
    of_windows = [text for text in bundle.manifest.warnings if text != engine.taken_as_words]
    found = [f"While the engine was observed, {text}" for text in of_windows]
    if any("disturbed" in text for text in found):
        found.append("Repeat the study while nothing else runs: other load distorts the results")
    return [*found, *(f"Not observed: {text}" for text in bundle.manifest.left_out)]


def _name(scenario: str | Path | Mapping[str, Any]) -> str:
    return "scenario" if isinstance(scenario, Mapping) else str(scenario)


def _here(
    systems: list[tuple[Case[Scenario], System]], host: HostProfile, engine: EngineProfile
) -> list[tuple[Case[Scenario], System]]:
    """The scenario's workload on this host, at every number of threads its cores allow.

    Which cores are set apart for what is said of the scenario's host, which may have many more.
    """
    case, system = systems[0]
    scenario = _with_engine(case, engine).scenario
    load = scenario.load_generator.model_copy(update={"cores": None})
    here_only = {"host": host.id, "cores": None, "irq_cores": 0, "load_generator": load}
    scenario = scenario.model_copy(update={**here_only, "io_threads": 1})
    here = System(host, engine, system.generator)
    return thread_candidates(Case(given={}, scenario=scenario), here)


def _there(
    systems: list[tuple[Case[Scenario], System]], engine: EngineProfile
) -> list[tuple[Case[Scenario], System]]:
    """The scenario on its own host, with the engine that was observed here."""
    return [
        (_with_engine(case, engine), System(system.host, engine, system.generator))
        for case, system in systems
    ]


def _with_engine(case: Case[Scenario], engine: EngineProfile) -> Case[Scenario]:
    """The case with the engine that was observed, whatever the scenario names."""
    named = {"engine": engine.engine, "engine_version": engine.version}
    return replace(case, scenario=case.scenario.model_copy(update=named))


def _target(
    name: str,
    systems: list[tuple[Case[Scenario], System]],
    *,
    seed: int,
    sensitivity: bool = False,
    progress: Progress,
) -> StudyTarget:
    """Curve, recommendation, latency under load and what moves it, for one host."""
    if len(systems) == 1:
        systems = thread_candidates(*systems[0])
    answer, moved_by = compare_threads(
        systems,
        file=name,
        seed=seed,
        progress=progress,
        plans_threads=True,
        sensitivity=sensitivity,
    )
    advice = answer.recommendation
    threads = advice.chosen["io_threads"]
    case, system = next((c, s) for c, s in systems if c.scenario.io_threads == threads)
    progress(f"latency against load at io-threads {threads}")
    return StudyTarget(
        **vars(answer),
        name=name,
        load_curve=load_curve(system, case.scenario, advice.throughput_rps.value, seed=seed),
        warnings=sorted({warning for point in answer.points for warning in point.warnings}),
        sensitivity=moved_by,
    )


def _host_numbers(host: HostProfile) -> HostNumbers:
    """The host's numbers for the report's table, and its latency by working set."""
    rows = [NumberOrigin.of(name, leaf) for name, leaf in host.quantities()]
    curve = host.latency_curve
    points = [] if curve is None else [list(point) for point in curve.points]
    return HostNumbers(host.id, rows, points)


# --- how long it takes ---------------------------------------------------------------------------


STEPS = ("profiling this host", "observing a real engine", "calibrating", "predicting")

_LOOK_S = 0.5
_BUSY = 0.15
"""CPUs that others may use before it is worth a word; /proc/stat counts in ticks of 10 ms."""

# On two idle CPUs of Zen 5, in seconds. What only waits takes no longer on a busy machine.
_PROFILE_S, _LONGEST_PROFILE_S = 30.0, 45.0
_WINDOW_S = 0.07
"""Around each window: setting up its clients, and looks at the cores."""
_SAMPLED_S = 0.9
"""More around a window in which threads spin, whose samples are read afterwards."""
_LEARNING_S = 7.0
"""To see what spinning threads look like."""
_KEYS_PER_S = 500_000.0
_DATA_SET_S = 0.4
_START_S = 1.2
_FIT_S, _FIT_POINT_S = 1.0, 0.08
_PREDICT_S, _SENSITIVITY_S = 12.0, 180.0


class OtherWork(NamedTuple):
    """CPUs that other programs use, of those this process may use."""

    used: float
    cpus: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.used / self.cpus


def others_cpus() -> OtherWork:
    """Look for half a second at what other programs use."""
    cpus = sorted(os.sched_getaffinity(0))
    busy_s, started_s = busy_cpu_seconds(cpus)[0], time.monotonic()
    time.sleep(_LOOK_S)
    used = (busy_cpu_seconds(cpus)[0] - busy_s) / (time.monotonic() - started_s)
    return OtherWork(min(float(len(cpus)), max(0.0, used)), len(cpus))


def expected_seconds(
    points: Sequence[Conditions], timing: Timing, *, busy_share: float, sensitivity: bool = False
) -> tuple[float, ...]:
    """About what each of `STEPS` takes, in seconds.

    Parameters
    ----------
    busy_share
        Of the CPUs' time, what other programs take, from 0 to 1. What computes takes up to twice as
        long beside them.
    """
    slower = 1.0 + busy_share
    windows_s = computed_s = 0.0
    for given in points:
        threaded = given.io_threads > 1
        warm_up_s = timing.io_warm_up_s if threaded else timing.warm_up_s
        window_s = timing.window_s if given.arrival == "closed_loop" else timing.loaded_window_s
        windows_s += timing.repetitions * (warm_up_s + window_s + _WINDOW_S)
        computed_s += timing.repetitions * _SAMPLED_S if threaded else 0.0
    sets = {given.data_set: given for given in points}.values()
    computed_s += sum(_DATA_SET_S + given.keys / _KEYS_PER_S for given in sets)
    computed_s += _LEARNING_S if any(given.io_threads > 1 for given in points) else 0.0
    starts_s = timing.starts * _START_S
    return (
        # Half of it waits, or runs on one CPU.
        min(_PROFILE_S * (1.0 + busy_share / 2), _LONGEST_PROFILE_S),
        min(windows_s + computed_s * slower, timing.longest_s) + starts_s,
        (_FIT_S + _FIT_POINT_S * len(points)) * slower,
        (_PREDICT_S + (_SENSITIVITY_S if sensitivity else 0.0)) * slower,
    )


def expected_words(step_s: Sequence[float], others: OtherWork) -> str:
    """How long the study takes, and what makes it longer."""
    said = f"this takes about {rough(sum(step_s))}"
    if others.used < _BUSY:
        return said
    return f"{said}, since other programs use {others.used:.1f} of {others.cpus} CPUs"


def rough(seconds: float) -> str:
    """Seconds as a person would say them, to five seconds and from two minutes on to ten."""
    step = 5 if seconds < 120.0 else 10
    whole = max(step, step * math.ceil(seconds / step - 0.5))
    minutes, rest = divmod(whole, 60)
    words = [f"{minutes} min"] if minutes else []
    return " ".join([*words, f"{rest} s"] if rest else words)
