"""The engine profiles that come with forecache, and the observations they were fitted to.

Bundles are kept in compact form: every repetition with all its counts and times, without latency
histograms, INFO texts, the raw repetitions of the host's capture and paths of the machine.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forecache.calibration.bundle.bundle import Bundle, require_new
from forecache.calibration.fit.calibrate import calibrate
from forecache.hwprofiles.files import dump_yaml, read_yaml, write_text_atomic
from forecache.models.engines.profile import EngineProfile, load_engine

from ..harness import Asked, Files

Progress = Callable[[str], None]

BUNDLES = Path("evidence/bundles")
ENGINES = Path("models/engines")
ACCURACY = Path("docs/accuracy")

COVARIANCE = ("covariance", "host_covariance")
"""Fields of a fit that stand in a file of their own."""


def compact(path: str | Path, out: Path) -> None:
    """Write a bundle again in compact form.

    Raises
    ------
    InputError
        The bundle is damaged, or `out` exists.
    """
    bundle = Bundle.load(path)
    require_new(out)
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for point in bundle.points:
        data = point.model_dump(mode="json", exclude_defaults=True)
        data.pop("info", None)
        for repetition in data["repetitions"]:
            repetition.pop("histogram", None)
            for name, value in repetition.items():
                if isinstance(value, float):
                    repetition[name] = float(f"{value:.7g}")
        lines.append(json.dumps(data, separators=(",", ":")) + "\n")
    # No time and no name in the header, so that the same bundle gives the same bytes.
    with (
        (out / "points.jsonl.gz").open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as packed,
    ):
        packed.write("".join(lines).encode())
    manifest = read_yaml(bundle.path / "manifest.yaml")
    manifest["engine"]["path"] = Path(manifest["engine"]["path"]).name
    write_text_atomic(out / "manifest.yaml", dump_yaml(manifest))
    config = {name: text for name, text in bundle.config.items() if not text.startswith("/")}
    write_text_atomic(out / "config.yaml", dump_yaml(config))
    if (bundle.path / "profiles.jsonl").is_file():
        shutil.copyfile(bundle.path / "profiles.jsonl", out / "profiles.jsonl")
    if bundle.host is not None:
        host = bundle.host.model_copy(update={"raw": None})
        (out / "host.yaml").write_text(host.to_yaml(), encoding="utf-8")


def refit(
    folder: Path, *, progress: Progress | None = None
) -> tuple[EngineProfile, dict[str, Any]]:
    """Fit a committed bundle: the profile to ship, under the name of its rules, and the report."""
    bundle = Bundle.load(folder)
    profile, report = calibrate(bundle, progress=progress)
    rules = load_engine(report.engine.name, report.engine.version)
    update = {"id": rules.id, "title": rules.title, "version": rules.version}
    return profile.model_copy(update=update), {**report.to_dict(), "measured": measured_of(bundle)}


def measured_of(bundle: Bundle) -> dict[str, Any]:
    """When, where and how a bundle was measured, for the accuracy page."""
    return {
        "date": bundle.manifest.created[:10],
        "machine": bundle.manifest.machine.model_dump(mode="json"),
        "design": bundle.manifest.method.design,
        "warnings": bundle.manifest.warnings,
        "depth": bundle.manifest.depth,
    }


def files_of(profile: EngineProfile) -> dict[Path, str]:
    """A fitted profile as it is shipped: its file, and its covariance in one beside it, by path."""
    data = profile.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    covariance = {name: data.pop(name) for name in COVARIANCE}
    name = f"{profile.id}.yaml"
    return {ENGINES / name: dump_yaml(data), ENGINES / "covariance" / name: dump_yaml(covariance)}


def fit_all(bundles: Path, *, progress: Progress | None = None) -> Files:
    """Contents of all files that follow from the committed bundles, by path.

    Profiles that reuse the work of these follow by themselves when they are loaded.
    """
    files: dict[Path, str] = {}
    for folder in sorted(path for path in bundles.iterdir() if path.is_dir()):
        profile, report = refit(folder, progress=progress)
        files |= files_of(profile)
        files[ACCURACY / f"live-{profile.id}.json"] = json_text(report)
    return files


def json_text(data: Any) -> str:
    """JSON with six significant digits: more would be noise."""

    def shorten(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.6g}")
        if isinstance(value, dict):
            return {key: shorten(item) for key, item in value.items()}
        return [shorten(item) for item in value] if isinstance(value, list) else value

    return json.dumps(shorten(data), indent=1) + "\n"


def artefact(asked: Asked) -> Files:
    """Fit all again, from the committed observations; nothing is measured."""
    return fit_all(BUNDLES, progress=asked.progress)
