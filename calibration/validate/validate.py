"""Hold the model against measurements it was not fitted to.

At most the points marked `calibration` are fitted: a handful of factors that say how fast the
source's machine really was, each with a prior. All points are then predicted, with intervals, and
compared; what misses is reported as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from forecache.hwprofiles import load_host
from forecache.hwprofiles.files import named
from forecache.hwprofiles.schema import HostProfile
from forecache.models.advice.choice import KNEE
from forecache.models.engines.generator import GeneratorProfile, load_generator
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.prediction.effort import AskedRuns, Batch, check_count, check_runs
from forecache.models.prediction.predict import LATENCIES, Metrics, Prediction
from forecache.models.prediction.run_length import window
from forecache.models.prediction.simulation import pilot_run, run, times_of
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case
from forecache.models.step_times.inputs import NodeInputs
from forecache.sim.errors import InputError
from forecache.sim.executors import Submitted
from forecache.sim.statistics import student_t

from .counters import counter_checks, server_work
from .dataset import MeasuredCase, is_of_memory, load_dataset, read_dataset
from .factors import FIT_REQUESTS, HOST, FactorPosterior, factors_for, fit_posterior, may_be_fitted
from .memory_dataset import validate_memory
from .provenance import provenance_of
from .series import curves_of
from .set_operations import is_large_commands, validate_large_commands
from .slot_migration import is_migration, validate_migrations

Progress = Callable[[str], None]

REFERENCE_HOST = "graviton3"
"""Stands in for a host the source does not name; its speed is then free."""

REQUESTS = 40_000
DRAWS = 24
_REPLICATIONS = 3

_FIT_STEPS = 6
"""Steps of a fit, each with a simulation for every factor: what it takes most often."""

_METRICS = ("throughput_rps", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms")


def validate(
    path: str | Path,
    *,
    host: str | Path | None = None,
    engine: str | Path | None = None,
    seed: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Predict every point of a dataset; only calibration points are fitted.

    They are its own and those of the datasets it names as of the same machine. Durations of slot
    migrations and of large commands have models of their own (`slot_migration.py`,
    `set_operations.py`).

    Parameters
    ----------
    path
        Id of a shipped dataset, or path of a file.
    host, engine
        Name or file of a profile that takes the place of the dataset's own.

    Returns
    -------
    dict
        dataset, host, engine; fitted (name, factor, low, high, points, note); provenance, from
        `provenance_of`; points (index, given, role, observed, predicted with interval,
        relative_error, server, band, bottleneck); summary per metric over validation points
        (median_ape, max_ape, coverage, n), `by_band`; counters, from `counter_checks`; knee per
        series; warnings.

    Raises
    ------
    InputError
        The dataset or a profile can't be read.

    Of a dataset of memory the result has the shape that `memory_dataset.validate_memory` says.
    """
    asked, file = read_dataset(path)
    if is_migration(asked):
        return validate_migrations(asked, file)
    if is_of_memory(asked):
        if host is not None or engine is not None:
            raise InputError(f"{file}: found a host or an engine; valid with memory is neither.")
        return validate_memory(asked, file)
    if is_large_commands(asked):
        return validate_large_commands(asked, file)
    dataset, cases = load_dataset(path)
    systems = [system_of(case.scenario, host=host, engine=engine, path=path) for case in cases]
    paired = list(zip(cases, systems, strict=True))
    beside = {name: load_dataset(name)[1] for name in dataset.same_machine}
    known = [case for others in beside.values() for case in others]
    paired_known = [
        (case, system_of(case.scenario, host=host, engine=engine, path=path)) for case in known
    ]
    own, others = _calibration(paired), _calibration(paired_known)
    engines = {system.engine.id for system in systems}
    host_known = host is not None or dataset.scenario.get("host") is not None
    factors = factors_for([*cases, *known], host_known=host_known, several_engines=len(engines) > 1)
    count = len(own) + len(others)
    if progress is not None and factors and count:
        progress(f"fitting {len(factors)} factors to {count} calibration points")
    with named(path):
        _check_work(paired, [*own, *others] if factors else [], len(factors), seed, progress)
    posterior = fit_posterior(factors, [*own, *others], seed=seed)
    posterior = replace(posterior, points=tuple(case.index for case, _ in own))
    points = []
    with ThreadPoolExecutor() as pool, Submitted(pool) as calls:
        futures = [calls.submit(_predict, case, system, posterior, seed) for case, system in paired]
        for number, future in enumerate(futures, start=1):
            points.append(future.result())
            if progress is not None:
                progress(f"predicted {number} of {len(paired)} points")
    system = systems[0]
    provenance = provenance_of(cases, systems, posterior)
    provenance["same_machine_points"] = {
        name: [c.index for c in measured if may_be_fitted(c)] for name, measured in beside.items()
    }
    return {
        "dataset": {"id": dataset.id, "title": dataset.title, "file": Path(path).name},
        "host": {
            "id": system.host.id,
            "title": system.host.title,
            "named": host_known,
        },
        "engine": {"id": system.engine.id, "version": system.engine.version},
        "fitted": _fitted(posterior) if count else [],
        "provenance": provenance,
        "warnings": [
            *provenance["problems"],
            *_what_is_missing(cases, host_known=host_known, fitted=count, title=system.host.title),
        ],
        "points": points,
        "summary": summary_of(points),
        "counters": counter_checks(dataset, points),
        "knee": knees_of(points),
    }


def _check_work(
    points: Sequence[tuple[MeasuredCase, System]],
    fitted: Sequence[tuple[MeasuredCase, System]],
    factors: int,
    seed: int,
    progress: Progress | None,
) -> None:
    """Say how long fit and predictions take, or refuse them."""
    evaluations = _FIT_STEPS * (factors + 1)
    runs = [
        *((pair, (Batch(_REPLICATIONS, REQUESTS), Batch(DRAWS, FIT_REQUESTS))) for pair in points),
        *((pair, (Batch(evaluations, FIT_REQUESTS),)) for pair in fitted),
    ]
    check_count(len(points), sum(batch.runs for _, batches in runs for batch in batches))
    asked = []
    for (case, system), each in runs:
        inputs = system.inputs(case.scenario)
        asked.append(AskedRuns(inputs, pilot_run(inputs, times_of(inputs), seed=seed), each))
    check_runs(asked, points=len(points), progress=progress)


def _calibration(pairs: list[tuple[MeasuredCase, System]]) -> list[tuple[MeasuredCase, System]]:
    return [pair for pair in pairs if may_be_fitted(pair[0])]


def _what_is_missing(
    cases: Sequence[MeasuredCase], *, host_known: bool, fitted: int, title: str
) -> list[str]:
    """What the dataset leaves open, and how to close it: a sentence each."""
    missing = []
    if not host_known and not fitted:
        missing.append(
            f"the speed of the host is unknown: {title} stands in, and the intervals allow for any "
            "host of the catalogue; name the host (scenario.host or --host, with a name that "
            "`forecache catalog` lists or the file that `forecache profile` writes on it), or give "
            "some points that have throughput_rps the role calibration"
        )
    if all(case.role == "calibration" for case in cases):
        missing.append(
            "no point has role validation, so nothing was predicted without having been fitted and "
            "no errors are summed up"
            if fitted
            else "no point has role validation, so there is no summary of errors"
        )
    if not fitted and any(case.role == "calibration" for case in cases):
        missing.append("nothing was fitted: no point with role calibration has throughput_rps")
    return missing


def system_of(
    scenario: Scenario,
    *,
    host: str | Path | None = None,
    engine: str | Path | None = None,
    path: str | Path,
) -> System:
    """What a dataset's scenario names, or `host` and `engine` in its place.

    Raises
    ------
    InputError
        A profile can't be read; the message begins with `path`.
    """
    try:
        profile: HostProfile = load_host(str(host or scenario.host or REFERENCE_HOST))
        rules: EngineProfile = (
            load_engine(str(engine))
            if engine is not None
            else load_engine(scenario.engine, scenario.engine_version)
        )
        tool: GeneratorProfile = load_generator(scenario.load_generator.tool)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return System(profile, rules, tool)


def _predict(
    case: MeasuredCase, system: System, posterior: FactorPosterior, seed: int
) -> dict[str, Any]:
    """One point: nominal at the fitted factors, and draws of factors and of all ranges."""
    nominal_inputs = posterior.apply(system.inputs(case.scenario), posterior.mean)
    times = times_of(nominal_inputs)
    pilot = pilot_run(nominal_inputs, times, seed=seed)
    window_ps = window(nominal_inputs, pilot, requests=REQUESTS)
    nominal = [
        Metrics.of(
            run(
                nominal_inputs,
                requests=REQUESTS,
                seed=seed,
                replication=number,
                times=times,
                window_ps=window_ps,
            )
        )
        for number in range(_REPLICATIONS)
    ]
    drawn = []
    for draw in range(DRAWS):
        random = np.random.default_rng([seed, draw, 7])
        logs = posterior.draw(random)
        # What the factors cover is drawn from their posterior; other ranges keep their priors.
        inputs = _drawn_inputs(system, case.scenario, posterior, seed, draw)
        drawn.append(
            Metrics.of(
                run(
                    posterior.apply(inputs, logs),
                    requests=FIT_REQUESTS,
                    seed=seed,
                    replication=1000 + draw,
                )
            )
        )
    busy = Prediction(Case(given=case.given, scenario=case.scenario), system, nominal, [])
    busiest = max(busy.utilisation, key=busy.utilisation.__getitem__)
    predicted = {}
    errors = {}
    for name in case.observed:
        if name in LATENCIES and busy.overloaded:
            continue  # There is none to compare.
        value = float(np.mean([metrics.values[name] for metrics in nominal]))
        logs = np.log([max(metrics.values[name], 1e-12) for metrics in drawn])
        t = student_t(0.95, len(drawn) - 1)
        half = math.hypot(t * float(np.std(logs, ddof=1)), 1.96 * system.discrepancy)
        predicted[name] = {
            "value": value,
            "low": value * math.exp(-half),
            "high": value * math.exp(half),
        }
        errors[name] = value / case.observed[name] - 1.0
    return {
        "index": case.index,
        "given": case.given,
        "role": case.role,
        "observed": case.observed,
        "predicted": predicted,
        "relative_error": errors,
        "server": server_work(system, nominal_inputs, nominal),
        "band": band_of(busy.utilisation[busiest]),
        "bottleneck": busiest,
    }


def _drawn_inputs(
    system: System, scenario: Scenario, posterior: FactorPosterior, seed: int, draw: int
) -> NodeInputs:
    """A draw of the ranges, without those numbers that the fitted factors stand for."""
    drawn = system.inputs(scenario, draw=draw, seed=seed)
    if set(posterior.factors) <= {HOST}:
        return drawn
    nominal = system.inputs(scenario)
    kept = (
        "push_instructions",
        "pop_instructions",
        "done_instructions",
        "scan_instructions",
        "collect_instructions",
        "read_lines",
        "write_lines",
        "execute_lines",
        "done_lines",
        "set_lines",
        "shared_lines",
        "reply_lines_per_line",
        "touch_scale",
        "prefetch_instructions_per_key",
    )
    work = replace(nominal.work, **{name: getattr(drawn.work, name) for name in kept})
    if posterior.of_host:
        work = drawn.work
    unfitted = (
        *("l3_ns", "dram_ns", "parallel_misses"),
        *("network_one_way_us", "network_packets_per_s", "softirq_ns"),
    )
    speed = replace(nominal.speed, **{name: getattr(drawn.speed, name) for name in unfitted})
    return replace(
        nominal, work=work, speed=speed, generator=drawn.generator, generator_speed=speed
    )


def band_of(utilisation: float) -> str:
    """The band of utilisation an error is reported in."""
    if utilisation < 0.5:
        return "below 50%"
    if utilisation < 0.8:
        return "50 to 80%"
    if utilisation < 0.95:
        return "80 to 95%"
    return "saturated"


def _fitted(posterior: FactorPosterior) -> list[dict[str, Any]]:
    rows = []
    for index, factor in enumerate(posterior.factors):
        log, error = posterior.mean[index], math.sqrt(posterior.covariance[index, index])
        rows.append(
            {
                "name": factor.name,
                "factor": math.exp(log),
                "low": math.exp(log - 1.96 * error),
                "high": math.exp(log + 1.96 * error),
                "from_prior": min(1.0, (error / factor.prior_error) ** 2),
                "points": list(posterior.points),
                "note": factor.note,
            }
        )
    return rows


def summary_of(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Errors and coverage per metric over validation points, and per band of utilisation."""
    summary: dict[str, Any] = {}
    held_out = [point for point in points if point["role"] == "validation"]
    for name in _METRICS:
        having = [point for point in held_out if name in point["relative_error"]]
        if not having:
            continue
        summary[name] = _errors(having, name)
        bands = sorted({point["band"] for point in having})
        summary[name]["by_band"] = {
            band: _errors([p for p in having if p["band"] == band], name) for band in bands
        }
    return summary


def _errors(points: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    absolute = np.abs([point["relative_error"][name] for point in points])
    covered = [
        point["predicted"][name]["low"]
        <= point["observed"][name]
        <= point["predicted"][name]["high"]
        for point in points
    ]
    return {
        "median_ape": float(np.median(absolute)),
        "max_ape": float(absolute.max()),
        "coverage": float(np.mean(covered)),
        "n": len(points),
    }


def knees_of(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """First io_threads within 5% of the best, observed and predicted, per series.

    A series holds the points that differ in io_threads only; short ones have no knee.
    """
    knees = {}
    for name, members in curves_of(points).items():
        observed = [point["observed"]["throughput_rps"] for point in members]
        predicted = [point["predicted"]["throughput_rps"]["value"] for point in members]
        threads = [point["given"]["io_threads"] for point in members]
        knees[name] = {
            "observed": threads[
                next(i for i, x in enumerate(observed) if x >= KNEE * max(observed))
            ],
            "predicted": threads[
                next(i for i, x in enumerate(predicted) if x >= KNEE * max(predicted))
            ],
        }
    return knees
