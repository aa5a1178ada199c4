"""The ceiling of a node, predicted from its own INFO, and the load with which it is really missed.

A server runs under a light open loop of GETs. What it says of itself (INFO, twice) is all that
`plan --from-info` is given besides the calibrated profiles of host and engine. The prediction is
written down before the load is raised. Then the open loop is raised step by step. A ceiling is one
of a host that keeps still, so slices in which the host stalls are left out, as in `tails`.

The server has one core and the load generator the other.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forecache import plan
from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.connection import Address
from forecache.calibration.drive.loadgen import LoadGenerator, preload
from forecache.calibration.drive.servers import EngineProcess
from forecache.calibration.fit.calibrate import calibrate
from forecache.calibration.fit.prior import earlier_profile
from forecache.hwprofiles.capture import inspect_machine
from forecache.hwprofiles.capture.host import captured_id
from forecache.hwprofiles.files import dump_yaml, write_text_atomic
from forecache.sim.errors import InputError

from ..counts.shipped import json_text
from ..harness import Asked, Files, Progress
from ..markdown import table
from . import rounds, tails
from .engines import Engine
from .load import run_sliced

FOLDER = Path("evidence/ceiling")
"""A folder per host and in it one per engine, with what it said of itself and the prediction,
which was written before the load was raised."""
TOLD, PREDICTED = "node.txt", "predicted.json"
ARTEFACT = Path("docs/accuracy/ceiling.json")
ENGINES = ("redis-7.0.15", "valkey-8.1.1", "valkey-9.1.2")

KEYS, VALUE_BYTES, CLIENTS = 100_000, 256, 50
BASE_RPS, APART_S = 30_000.0, 10.0
OBJECTIVE_MS = 2.0
"""Of p99. It can't be seen itself, as slices in which a request takes a millisecond count as
stalled; but a queue that stalls most slices takes tens of milliseconds one step of load later."""
MOST_STALLED = 0.5
"""Share of slices with such a request that a host may have; with more it is the queue."""

FIRST_SHARE, STEP, MOST_STEPS = 0.7, 1.04, 20
"""Loads: from this share of the ceiling on, in such steps."""
WINDOWS, WINDOW_S, WARM_UP_S = 3, 1.5, 0.3
MISSES = 3
"""Steps in a row with which the objective is missed, after which the load is raised no more."""
KEPT_UP = 0.97
"""Of the load asked for, what must be served."""
_PRIVATE = re.compile(r"^(executable|config_file):.*$", re.MULTILINE)


class Node(NamedTuple):
    """An engine, what it was calibrated with on this host, and the folder of its results."""

    engine: Engine
    calibration: Bundle
    folder: Path


class Step(NamedTuple):
    """A load and what came of it: medians of the windows."""

    asked_rps: float
    served_rps: float
    p99_ms: float | None
    """Of slices in which the host kept still; None where there were none."""
    stalled_share: float

    @property
    def met(self) -> bool:
        """Whether the load was served and did not queue."""
        kept_up = self.served_rps >= KEPT_UP * self.asked_rps
        return kept_up and self.stalled_share <= MOST_STALLED


@dataclass(frozen=True)
class Raised:
    """A node whose load was raised."""

    host: str
    engine: str
    objective_ms: float
    ceiling_rps: float
    low_rps: float
    high_rps: float
    steps: tuple[Step, ...]


def measure(asked: Asked) -> Files:
    """Predict from INFO and raise the load; `ENGINES` is a folder of engines.

    Host and engines are as the study `tails` profiled and calibrated them here, in the same hour at
    best. What other hosts said stays.
    """
    host = captured_id(inspect_machine())
    with rounds.engines_at_hand() as (_, engines):
        chosen = [rounds.engine_of(engines, id_) for id_ in asked.only or ENGINES]
        rows = [row for row in _kept() if row["host"] != host]
        for engine in chosen:
            calibration = tails.FOLDER / host / engine.id / tails.CALIBRATION
            if not calibration.is_dir():
                raise InputError(
                    f"ceiling: found no {calibration}; valid is a host on which the study tails"
                    " was measured."
                )
            node = Node(engine, Bundle.load(calibration), FOLDER / host / engine.id)
            rows.append(asdict(_raised(node, progress=asked.progress)))
    return {ARTEFACT: json_text({"rows": rows})}


def _kept() -> list[dict[str, Any]]:
    if not ARTEFACT.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(ARTEFACT.read_text(encoding="utf-8"))["rows"]
    return rows


def _raised(node: Node, *, progress: Progress) -> Raised:
    """Predict the ceiling of a node under a light load, then raise the load."""
    server, generator = ([cpu] for cpu in sorted(os.sched_getaffinity(0))[:2])
    with EngineProcess(node.engine.server, cores=server) as process:
        address = process.address("tcp")
        with process.control() as control:
            preload(_load(BASE_RPS), address, control=control, cores=generator)
            told = _told(control, address, generator)
        write_text_atomic(node.folder / TOLD, told)
        predicted = _predicted(node, progress=progress)
        write_text_atomic(node.folder / PREDICTED, json.dumps(predicted, indent=2) + "\n")
        progress(f"{node.engine.id}: raising the load")
        step = partial(_step, address=address, cores=generator)
        return Raised(
            host=node.folder.parent.name,
            engine=node.engine.id,
            objective_ms=OBJECTIVE_MS,
            ceiling_rps=predicted["value"],
            low_rps=predicted["low"],
            high_rps=predicted["high"],
            steps=tuple(_steps(step, predicted["value"])),
        )


def _load(rate_rps: float) -> Conditions:
    return Conditions(
        command="get",
        keys=KEYS,
        value_bytes=VALUE_BYTES,
        clients=CLIENTS,
        arrival="open_loop",
        rate_rps=rate_rps,
    )


def _told(control: Any, address: Address, cores: Sequence[int]) -> str:
    """INFO twice, under the light load, without paths of this machine."""
    texts = []
    with LoadGenerator(_load(BASE_RPS), address, cores=cores, longest_s=APART_S + 30.0) as load:
        time.sleep(1.0)
        for wait_s in (APART_S, 0.0):
            texts.append(_PRIVATE.sub(r"\1:", control.info("everything")))
            time.sleep(wait_s)
    load.check()
    return "".join(f"> INFO EVERYTHING\n{text.replace(chr(13), '')}\n" for text in texts)


def _predicted(node: Node, *, progress: Progress) -> dict[str, float]:
    """The ceiling that `plan --from-info` reads from what the node said, and its interval."""
    known = earlier_profile(node.calibration)
    profile, _ = calibrate(node.calibration, known=known, progress=progress)
    host = rounds.host_of(node.folder, node.calibration)
    with tempfile.TemporaryDirectory(prefix="forecache-ceiling-") as scratch:
        host_file, engine_file = Path(scratch) / "host.yaml", Path(scratch) / "engine.yaml"
        host_file.write_text(host.to_yaml(), encoding="utf-8")
        plain = profile.model_dump(mode="json", exclude_defaults=True)
        engine_file.write_text(dump_yaml(plain), encoding="utf-8")
        answer = plan(
            {"kind": "plan", "objectives": {"slo": {"p99_ms": OBJECTIVE_MS}}},
            from_info=[node.folder / TOLD],
            host=str(host_file),
            node={
                "engine": str(engine_file),
                "load_generator": {"tool": "forecache", "threads": 1, "same_host": True},
            },
            search=False,
        )
    assert answer.ceiling is not None  # the host is known
    found = answer.ceiling.ceiling_rps
    return {"value": found.value, "low": found.low, "high": found.high}


def _steps(step: Callable[[float], Step], ceiling_rps: float) -> list[Step]:
    """Raise the load until the objective is missed for good."""
    steps: list[Step] = []
    for index in range(MOST_STEPS):
        steps.append(step(FIRST_SHARE * ceiling_rps * STEP**index))
        if len(steps) >= MISSES and not any(each.met for each in steps[-MISSES:]):
            break
    return steps


def _step(rate_rps: float, *, address: Address, cores: Sequence[int]) -> Step:
    seen = [
        run_sliced(_load(rate_rps), address, duration_s=WINDOW_S, warm_up_s=WARM_UP_S, cores=cores)
        for _ in range(WINDOWS)
    ]
    p99s_ms = [slices["quiet_p99_ms"] for _, slices in seen]
    known_ms = [p99_ms for p99_ms in p99s_ms if p99_ms is not None]
    return Step(
        rate_rps,
        float(np.median([result.throughput_rps for result, _ in seen])),
        float(np.median(known_ms)) if known_ms else None,
        float(np.median([slices["stalled_share"] or 0.0 for _, slices in seen])),
    )


def highest_met(steps: Sequence[Step]) -> float | None:
    """The highest load up to which the objective was met at every step, or None."""
    met = None
    for step in steps:
        if not step.met:
            break
        met = step.asked_rps
    return met


def lowest_missed(steps: Sequence[Step]) -> float | None:
    """The lowest load from which on the objective was missed at every step, or None."""
    missed = None
    for step in reversed(steps):
        if step.met:
            break
        missed = step.asked_rps
    return missed


def section() -> list[str]:
    """Its part of docs/generations.md."""
    body = []
    for row in _kept():
        steps = [Step(*each) for each in row["steps"]]
        met, missed = highest_met(steps), lowest_missed(steps)
        wide = (row["high_rps"] / row["low_rps"]) ** 0.5 - 1.0
        body.append(
            [
                *(f"`{row['host']}`", row["engine"]),
                f"{row['ceiling_rps']:,.0f}",
                f"{row['low_rps']:,.0f}–{row['high_rps']:,.0f}",
                f"±{wide:.0%}",
                "–" if met is None else f"{met:,.0f}",
                "–" if missed is None else f"{missed:,.0f}",
                "–" if met is None else f"{row['ceiling_rps'] / met - 1.0:+.0%}",
                "–" if met is None else _inside(met, missed, row),
            ]
        )
    header = [
        *("host", "engine", ">ceiling, requests/s", ">95% interval", ">half of it"),
        *(">met up to", ">missed from", ">error", ">interval holds"),
    ]
    return [
        "## The ceiling of a node",
        "",
        f"A server answers {BASE_RPS:,.0f} GETs a second of {KEYS:,} keys with {VALUE_BYTES} B from"
        f" {CLIENTS} connections. From its INFO alone, and profiles of host and engine that the"
        " study of tails calibrated in the same hour, `forecache plan --from-info` tells the"
        f" highest load with a p99 of {OBJECTIVE_MS:g} ms. That is written down"
        f" (`evidence/ceiling/`) before the open loop is raised by {STEP - 1.0:.0%} a step,"
        f" {WINDOWS} windows of {WINDOW_S:g} s each. A load is met if {KEPT_UP:.0%} of it are"
        " served, and if in most slices of 20 ms no request takes a millisecond: a host that keeps"
        " still has a p99 below that up to a load from which requests queue for tens of"
        " milliseconds. *Half of it* is that of the interval on the log scale. The error is that"
        " of the ceiling against the highest load met.",
        "",
        *table(header, body),
    ]


def _inside(met: float, missed: float | None, row: dict[str, Any]) -> str:
    """Which of both the interval holds."""
    holds = [row["low_rps"] <= rate <= row["high_rps"] for rate in (met, missed) if rate]
    return "both" if all(holds) else "one of them" if any(holds) else "none"
