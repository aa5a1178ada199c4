"""The three steps of a blind round: seal the measurements, predict, score."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import forecache
from forecache.calibration.validate.dataset import (
    Dataset,
    list_datasets,
    load_dataset,
    read_dataset,
    why_not_predicted,
)
from forecache.calibration.validate.node_dataset import predict_points, read_node_dataset
from forecache.hwprofiles.files import dump_yaml, write_text_atomic
from forecache.hwprofiles.named_files import seen_from
from forecache.sim.errors import InputError

from ..counts.shipped import json_text
from ..harness import Progress
from . import record
from .record import PREDICTED, SCORED, SEALED, append, committed, sha256, step_of, steps


def folder(name: str) -> Path:
    """Where the files of a round are."""
    return record.ROUNDS / name


def seal(measurements: Path, *, note: str = "") -> Path:
    """Write what a dataset asks, without what was measured, and record the hash of its file.

    Whoever has the measurements does this, and nobody else opens the file until it is scored.

    Parameters
    ----------
    note
        What the record should say of the round, such as who has seen the measurements.

    Returns
    -------
    Path
        The questions: the dataset, null for every number of a point with role validation. What its
        sources note and the counters of its runs are left out: they may tell the answer.

    Raises
    ------
    InputError
        The file is no dataset, its id is taken, its measurements were opened before, or it has no
        point to predict.
    """
    dataset, file = read_dataset(measurements)
    _refuse_opened(dataset.id)
    found = sha256(measurements.read_bytes())
    for each in steps():
        if found == each.get("measurements_sha256"):
            raise InputError(f"{file}: found the measurements of round {each['round']}.")
    if not any(point.role == "validation" for point in dataset.points):
        raise InputError(f"{file}: found no point with role validation; valid is one or more.")
    out = folder(dataset.id) / "questions.yaml"
    if out.exists():
        raise InputError(f"{out}: exists already; valid is an id of a new round.")
    if (reason := why_not_predicted(dataset)) is not None:
        raise InputError(f"{file}: {reason}.")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomic(out, dump_yaml(seen_from(questions_of(dataset), out.parent)))
    append(dataset.id, SEALED, {"measurements_sha256": found, "note": note})
    return out


def questions_of(dataset: Dataset) -> dict[str, Any]:
    """A dataset with null for everything that was measured at points with role validation."""
    data = dataset.model_dump(mode="json")
    for source in data["sources"]:
        source.pop("note")
    for point in data["points"]:
        point.pop("whole_run_counters")
        if point["role"] == "validation":
            point["observed"] = dict.fromkeys(point["observed"])
    return data


def predict(name: str, *, seed: int = 1, progress: Progress) -> Path:
    """Predict the questions of a round, with intervals, and record the hash of what was predicted.

    Raises
    ------
    InputError
        There are no questions, the round was predicted before, or its data are open.
    """
    questions = folder(name) / "questions.yaml"
    dataset, file = read_dataset(questions)
    _refuse_opened(name)
    if step_of(name, PREDICTED) is not None:
        raise InputError(f"{name}: was predicted before; valid is one prediction a round.")
    if dataset.id != name:
        raise InputError(f"{file}: id: found {dataset.id!r}; valid is {name!r}.")
    for number, point in enumerate(dataset.points):
        if point.role == "validation" and any(v is not None for v in point.observed.values()):
            raise InputError(
                f"{file}: points[{number}].observed: found a measured number; valid is null, as"
                " long as the data are not open."
            )
    code = record.code_sha256()
    measured = read_node_dataset(questions, unopened=True)
    posterior = measured.fit(seed=seed)
    predicted = predict_points(measured, posterior, seed=seed, progress=progress)
    commit = record.git("rev-parse", "HEAD")
    facts: dict[str, Any] = {
        "questions_sha256": sha256(questions.read_bytes()),
        "code_sha256": code,
        "release": forecache.__version__,
        "commit": commit.decode().strip() if commit is not None else None,
        "seed": seed,
    }
    points = [
        {field: row[field] for field in ("index", "given", "role", "predicted")}
        for row in (each.to_dict() for each in predicted if each.held_out)
    ]
    out = folder(name) / "predictions.json"
    write_text_atomic(out, json_text({"round": name, **facts, "points": points}))
    append(name, PREDICTED, {"predictions_sha256": sha256(out.read_bytes()), **facts})
    return out


def score(name: str, measurements: Path) -> Path:
    """Open the measurements of a round and compare: once. From then on they are development data.

    Raises
    ------
    InputError
        The round was scored before, or was not predicted; its prediction is not committed, or is
        not the one recorded; the measurements are not those sealed, or answer other questions.
    """
    _refuse_opened(name)
    predicted = step_of(name, PREDICTED)
    if predicted is None:
        raise InputError(f"{name}: was not predicted; valid is a round that was.")
    files = {
        "questions": folder(name) / "questions.yaml",
        "predictions": folder(name) / "predictions.json",
    }
    for what, path in files.items():
        if not path.is_file() or sha256(path.read_bytes()) != predicted[f"{what}_sha256"]:
            raise InputError(f"{path}: is not the file that was recorded with the prediction.")
    for path in (*files.values(), record.RECORD):
        if not committed(path):
            raise InputError(f"{path}: is not committed; valid is a prediction that is.")
    sealed = step_of(name, SEALED)
    found = sha256(measurements.read_bytes())
    if sealed is not None and found != sealed["measurements_sha256"]:
        raise InputError(f"{measurements}: is not the file that was sealed.")
    if any(found == s.get("measurements_sha256") and s["round"] != name for s in steps()):
        raise InputError(f"{measurements}: belongs to another round.")
    asked = read_dataset(files["questions"])[0]
    dataset, cases = load_dataset(measurements)
    _require_answers(asked, dataset, measurements)
    predictions = json.loads(files["predictions"].read_text(encoding="utf-8"))
    rows = [_scored(point, cases[point["index"]].observed) for point in predictions["points"]]
    out = folder(name) / "scores.json"
    write_text_atomic(out, json_text({"round": name, "points": rows}))
    (folder(name) / "measurements.yaml").write_bytes(measurements.read_bytes())
    facts = {"measurements_sha256": found, "scores_sha256": sha256(out.read_bytes())}
    append(name, SCORED, facts)
    return out


def scored_datasets() -> dict[str, str | Path]:
    """Measurements of rounds that were scored, by id: development data, as all others."""
    names = [each["round"] for each in steps() if each["step"] == SCORED]
    return {name: folder(name) / "measurements.yaml" for name in names}


def _refuse_opened(name: str) -> None:
    """A dataset whose measurements anybody may have looked at is no blind round."""
    if step_of(name, SCORED) is not None:
        raise InputError(f"{name}: was scored before; valid is a round that was not.")
    if (folder(name) / "measurements.yaml").exists():
        raise InputError(f"{folder(name)}: holds its measurements; valid is a round without.")
    if name in {dataset.id for dataset in list_datasets()}:
        raise InputError(f"{name}: is a shipped dataset, so its data are open.")


def _require_answers(asked: Dataset, dataset: Dataset, file: Path) -> None:
    """The measurements answer what was asked, point by point."""
    if questions_of(dataset) != questions_of(asked):
        raise InputError(
            f"{file}: found other conditions, roles or quantities than in the questions; valid is"
            " the same dataset with its measurements."
        )
    fitted = [
        [point.observed for point in each.points if point.role == "calibration"]
        for each in (asked, dataset)
    ]
    if fitted[0] != fitted[1]:
        raise InputError(f"{file}: found other calibration points than in the questions.")


def _scored(point: dict[str, Any], observed: dict[str, float]) -> dict[str, Any]:
    """A predicted point beside what was measured."""
    quantities = {
        name: {
            "measured": observed[name],
            "predicted": estimate["value"],
            "relative_error": estimate["value"] / observed[name] - 1.0,
            "inside": estimate["low"] <= observed[name] <= estimate["high"],
            "log_width": math.log(estimate["high"] / estimate["low"]),
        }
        for name, estimate in point["predicted"].items()
        if name in observed
    }
    return {"index": point["index"], "given": point["given"], "quantities": quantities}
