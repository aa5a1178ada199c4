"""The gate's reference: predictions as they are now, and the line of reason that goes with them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

import forecache
from forecache.sim.errors import InputError

from ..accuracy.compared import live_points, partitions, published_points
from ..accuracy.decisions import decisions, summary_of
from ..accuracy.errors import coverage_of
from ..blind.record import code_sha256, sha256, today
from ..harness import REASON, Asked, Files
from .history import ARTEFACT, HISTORY
from .recompute import Predicted, recompute, to_lines

_RESULTS = Path("docs/accuracy")


def artefact(asked: Asked) -> Files:
    """Predict everything and append the reason, which the environment gives, to the history.

    Raises
    ------
    InputError
        Only a part was asked for: parts of different versions are no reference.
    """
    if asked.only:
        raise InputError("gate: found a part of the reference; valid is all of it.")
    points = recompute((), progress=asked.progress)
    lines = to_lines(points)
    entry = entry_of(points, lines, reason=os.environ[REASON].strip())
    before = HISTORY.read_text(encoding="utf-8") if HISTORY.is_file() else ""
    return {ARTEFACT: lines, HISTORY: before + json.dumps(entry) + "\n"}


def entry_of(points: list[Predicted], lines: str, *, reason: str) -> dict[str, Any]:
    """A line of the history: median errors now, with the coverage and decisions last published."""
    errors = np.array([point.error for point in points])
    published = [*live_points(_RESULTS), *published_points(_RESULTS)]
    coverage = {
        each.quantity: coverage_of([published[number] for number in own])
        for each, own in partitions([point.place for point in published]).items()
        if each.by == "all"
    }
    quantities = {
        each.quantity: {
            "points": len(own),
            "median_error": float(f"{np.median(errors[own]):.4g}"),
            "coverage": coverage.get(each.quantity),
        }
        for each, own in partitions([point.place for point in points]).items()
        if each.by == "all"
    }
    return {
        "date": today(),
        "release": forecache.__version__,
        "reason": reason,
        "artefact_sha256": sha256(lines.encode()),
        "code_sha256": code_sha256(),
        "quantities": quantities,
        "decisions": summary_of(decisions(_RESULTS)),
    }
