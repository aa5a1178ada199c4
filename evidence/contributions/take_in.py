"""The steps by which a contribution comes in: read, ask, predict, open, check, score, keep."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import forecache
from forecache.calibration.bundle.bundle import Bundle, whole_folder
from forecache.calibration.bundle.points import ObservedPoint
from forecache.hwprofiles.files import dump_yaml, read_yaml, write_text_atomic
from forecache.sim.errors import InputError

from ..blind.record import code_sha256, git, sha256, today
from ..counts.shipped import compact, json_text
from ..harness import Progress
from ..live.rounds import error, repeat
from .archive import Archive, read_archive
from .plausible import check
from .questions import Questions, predict, read_questions

FOLDER = Path("evidence/contributions/received")
"""A folder for each contribution: its bundle in compact form, and what was made of it."""
ABOUT, PREDICTIONS, SCORES, BUNDLE = "about.yaml", "predictions.json", "scores.json", "bundle"


@dataclass(frozen=True)
class Contribution:
    """What is kept of one.

    Attributes
    ----------
    about
        Who sent it, hashes, when it came and by which code it was predicted, and the doubts.
    points
        A row each: windows and prediction.
    """

    folder: Path
    about: Mapping[str, Any]
    points: list[Mapping[str, Any]]


def take_in(file: Path, *, progress: Progress) -> Path:
    """Check, predict and keep a contributor's file; the folder that it now has.

    The prediction is written before any measured number is parsed, by a function that is given the
    conditions of the points only. Nothing is kept of a file that is refused.

    Raises
    ------
    InputError
        One sentence: the file is damaged, altered, came in before, or is not plausible.
    """
    archive = read_archive(file)
    for earlier in received():
        if earlier.about["archive_sha256"] == archive.sha256:
            raise InputError(f"{file}: came in before, as {earlier.folder}; valid is a new file.")
    with tempfile.TemporaryDirectory(prefix="contribution-") as scratch:
        there = Path(scratch) / "bundle"
        archive.unpack(there)
        with _named_as_sent(there, file):
            questions = read_questions(there)
            out = FOLDER / _name(questions, archive)
            with whole_folder(out) as folder:
                rows = predict(questions, progress=progress)
                asked = {**questions.to_dict(), "predicted": rows}
                write_text_atomic(folder / PREDICTIONS, json_text(asked))
                # From here on measured numbers are looked at.
                bundle = Bundle.load(there)
                progress("checking what was measured")
                doubts = check(bundle)
                scores = [
                    {**_windows(point), **row}
                    for point, row in zip(bundle.points, rows, strict=True)
                ]
                write_text_atomic(folder / SCORES, json_text(scores))
                about = _about(bundle, archive, folder, doubts)
                write_text_atomic(folder / ABOUT, dump_yaml(about))
                compact(there, folder / BUNDLE)
    return out


@contextmanager
def _named_as_sent(there: Path, file: Path) -> Iterator[None]:
    """Messages name the contributor's file, not the folder that it was unpacked to."""
    try:
        yield
    except InputError as error:
        text = str(error).replace(f"{there}/", f"{file}: ").replace(str(there), str(file))
        raise InputError(text) from None
    except (RecursionError, MemoryError):
        raise InputError(f"{file}: is nested too deeply; valid is a bundle.") from None


def _name(questions: Questions, archive: Archive) -> str:
    """Of its folder: engine, host and the beginning of the archive's hash."""
    host = "".join(c if c.isalnum() else "-" for c in questions.host.id.lower())[:60]
    return f"{questions.engine.engine}-{questions.version}-{host}-{archive.sha256[:8]}"


def _windows(point: ObservedPoint) -> dict[str, Any]:
    """A point's windows that nothing disturbed, or all of them if there are fewer than two."""
    windows = point.quiet_repetitions()
    if len(windows) < 2:
        windows = point.repetitions
    return {
        "cpu_us": [each.server_cpu_ns_per_request / 1e3 for each in windows],
        "throughput_rps": [each.throughput_rps for each in windows],
        "p50_ms": [each.p50_ms for each in windows if each.p50_ms is not None],
    }


def _about(bundle: Bundle, archive: Archive, folder: Path, doubts: list[str]) -> dict[str, Any]:
    commit, manifest = git("rev-parse", "HEAD"), bundle.manifest
    return {
        "contributor": manifest.contributor,
        "licence": manifest.licence,
        "received": today(),
        "archive_sha256": archive.sha256,
        "predictions_sha256": sha256((folder / PREDICTIONS).read_bytes()),
        "scores_sha256": sha256((folder / SCORES).read_bytes()),
        "code_sha256": code_sha256(),
        "release": forecache.__version__,
        "commit": commit.decode().strip() if commit is not None else None,
        "host_known": "anchored"
        if bundle.host is not None and bundle.host.anchored
        else "profiled",
        "doubts": doubts,
    }


def received() -> list[Contribution]:
    """All that were taken in, by name."""
    found = []
    for file in sorted(FOLDER.glob(f"*/{ABOUT}")):
        scores = json.loads((file.parent / SCORES).read_text(encoding="utf-8"))
        found.append(Contribution(file.parent, read_yaml(file), scores))
    return found


def summary(points: list[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Errors by quantity: points, median, worst and bias, how far repeats differ, share inside."""
    found: dict[str, dict[str, float]] = {}
    for name, measured, predicted in (
        ("CPU time a request", "cpu_us", "predicted_us"),
        ("throughput", "throughput_rps", "predicted_rps"),
        ("median latency", "p50_ms", "predicted_p50_ms"),
    ):
        rows = [row for row in points if row[measured] and row[predicted] is not None]
        if not rows:
            continue
        errors = np.array([error(row[measured], row[predicted]) for row in rows])
        repeats = [repeat(row[measured]) for row in rows if len(row[measured]) > 1]
        found[name] = {
            "points": len(rows),
            "median": float(np.median(np.abs(errors))),
            "worst": float(np.max(np.abs(errors))),
            "bias": float(np.median(errors)),
            "repeat": float(np.median(repeats)) if repeats else float("nan"),
        }
        if name == "CPU time a request":
            inside = [row["low_us"] <= us <= row["high_us"] for row in rows for us in row[measured]]
            found[name]["inside"] = float(np.mean(inside))
    return found
