"""What studies of trials share: medians of rounds, and profiles of the work that was fitted."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from forecache.models.results.intervals import relative_error

TrialT = TypeVar("TrialT")
MeasuredT = TypeVar("MeasuredT")

RATE_PER_NS = {
    "value": 15.4,
    "unit": "1/ns",
    "kind": "assumed",
    "low": 9.0,
    "high": 18.4,
    "method": "user_ipc that the bundle of Valkey 9.1 fitted × clock of that host",
}
"""Instructions of the host that trials ran on: scales their CPU times to other hosts."""


OTHER_HOSTS_PER_BYTE = 3.2
"""How many times as fast other machines move bytes: what the calibration point of moves key by key
in the dataset `slot-migration` takes against this host, which is a virtual machine in another one.
"""

CALIBRATED_BY = {"slot-migration": [0]}
"""The points of datasets that this rests on."""


def middle(rounds: Sequence[Mapping[TrialT, MeasuredT]], trial: TrialT) -> MeasuredT:
    """The median of each number over the rounds, of records that name their `trial`."""
    each = [asdict(seen[trial]) for seen in rounds]  # type: ignore[call-overload]
    numbers = {k: float(np.median([one[k] for one in each])) for k in each[0] if k != "trial"}
    return replace(rounds[0][trial], **numbers)  # type: ignore[type-var]


def measured_work(work: Mapping[str, float], *, time: str, wait: str) -> dict[str, dict[str, Any]]:
    """The numbers above zero as leaves of a profile.

    They are uncertain by factors of 1.5; by more to below where bytes count, which other hosts move
    faster.

    Parameters
    ----------
    time, wait
        The methods by which CPU times and waits, in ms, were found.
    """
    leaves = {}
    for name, value in work.items():
        if value <= 0:
            continue
        is_wait, per_byte = name.endswith("_ms"), "per_byte" in name
        below = OTHER_HOSTS_PER_BYTE if per_byte else 1.5
        leaves[name] = {
            "value": float(f"{value:.4g}"),
            "unit": "ms" if is_wait else "ns/B" if per_byte else "ns",
            "kind": "measured",
            "source": "trials",
            "low": float(f"{value / below:.4g}"),
            "high": float(f"{value * 1.5:.4g}"),
            "method": f"{wait if is_wait else time} over the calibration trials",
        }
    return leaves


def held_out(each: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Trials of one engine that nothing was fitted to."""
    return [row for row in each["trials"] if row["role"] == "validation"]


def log_errors(pairs: Iterable[tuple[float, float]]) -> list[float]:
    """Logarithms of predicted over measured."""
    return [math.log(predicted / measured) for measured, predicted in pairs]


def inside_others(logs: Sequence[float]) -> int:
    """How many comparisons lie in the 95% interval that the error of the others gives."""
    return sum(
        abs(log) <= relative_error([*logs[:number], *logs[number + 1 :]]).half_width
        for number, log in enumerate(logs)
    )


def kept(artefact: Path) -> dict[str, Any]:
    """What was measured last, if anything was."""
    if not artefact.exists():
        return {}
    found: dict[str, Any] = json.loads(artefact.read_text(encoding="utf-8"))
    return found
