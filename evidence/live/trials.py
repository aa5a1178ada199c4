"""What studies of trials share: medians of rounds, and profiles of the work that was fitted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

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


def middle(rounds: Sequence[Mapping[TrialT, MeasuredT]], trial: TrialT) -> MeasuredT:
    """The median of each number over the rounds, of records that name their `trial`."""
    each = [asdict(seen[trial]) for seen in rounds]  # type: ignore[call-overload]
    numbers = {k: float(np.median([one[k] for one in each])) for k in each[0] if k != "trial"}
    return replace(rounds[0][trial], **numbers)  # type: ignore[type-var]


def measured_work(work: Mapping[str, float], *, time: str, wait: str) -> dict[str, dict[str, Any]]:
    """The numbers above zero as leaves of a profile, by factors of 1.5 uncertain.

    Parameters
    ----------
    time, wait
        The methods by which CPU times and waits, in ms, were found.
    """
    leaves = {}
    for name, value in work.items():
        if value <= 0:
            continue
        is_wait = name.endswith("_ms")
        leaves[name] = {
            "value": float(f"{value:.4g}"),
            "unit": "ms" if is_wait else "ns/B" if "per_byte" in name else "ns",
            "kind": "measured",
            "source": "trials",
            "low": float(f"{value / 1.5:.4g}"),
            "high": float(f"{value * 1.5:.4g}"),
            "method": f"{wait if is_wait else time} over the calibration trials",
        }
    return leaves


def kept(artefact: Path) -> dict[str, Any]:
    """What was measured last, if anything was."""
    if not artefact.exists():
        return {}
    found: dict[str, Any] = json.loads(artefact.read_text(encoding="utf-8"))
    return found
