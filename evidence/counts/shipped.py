"""The engine profiles that come with forecache, and the observations they were fitted to.

Bundles are kept in compact form: every repetition with all its counts and times, without latency
histograms, INFO texts, the raw repetitions of the host's capture and paths of the machine.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from forecache.calibration.bundle.bundle import COMMANDS_FILE, Bundle, require_new
from forecache.calibration.fit.calibrate import calibrate
from forecache.calibration.fit.prior import is_counted
from forecache.calibration.fit.work_model import INSTRUCTIONS, SCALES
from forecache.hwprofiles.files import dump_yaml, read_yaml, write_text_atomic
from forecache.models.engines.profile import EngineProfile, load_engine, reused_leaf

from ..harness import Asked, Files

Progress = Callable[[str], None]

BUNDLES = Path("evidence/bundles")
ENGINES = Path("models/engines")
ACCURACY = Path("docs/accuracy")

ERRORS = ("discrepancy", "discrepancy_points", "memory_discrepancy")


def compact(path: str | Path, out: Path, *, histograms: bool = False) -> None:
    """Write a bundle again in compact form, without its histograms if these are not asked for.

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
            if not histograms:
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
    for name in ("profiles.jsonl", COMMANDS_FILE):
        if (bundle.path / name).is_file():
            shutil.copyfile(bundle.path / name, out / name)
    if bundle.host is not None:
        host = bundle.host.model_copy(update={"raw": None})
        (out / "host.yaml").write_text(host.to_yaml(), encoding="utf-8")


RELATIVES = {
    "redis-2.8": "redis-3.2",
    "redis-3.2": "redis-5.0",
    "redis-5.0": "redis-6.2",
    "redis-6.2": "redis-7.0",
    "redis-8.0": "redis-7.0",
    "redis-8.6": "redis-8.0",
    "valkey-8.1": "valkey-8.0",
}
"""Of which version's fit that of another begins with: bundles of the design `quick` alone tell too
little."""

ELSEWHERE = frozenset({"redis-2.8", "redis-3.2", "redis-5.0"})
"""Bundles of guests of another kind (Zen 3) than the one that `RELATIVES` begin with (Zen 5): their
fits keep the part of system calls and wake-ups that is their host's."""

WIDEN = 1.25
"""By how much the ranges of a relative's work are wider."""


def known_from(relative: EngineProfile, rules: EngineProfile) -> EngineProfile:
    """What a relative's fit says of the work of a version with these rules."""
    names = [
        n
        for n in [*INSTRUCTIONS, *SCALES]
        if rules.work[n].best > 0.0 and not is_counted(rules.work[n])
    ]
    work = {
        name: reused_leaf(
            relative.work[name], how=f"as observed of {relative.id}", widen=WIDEN, source=None
        )
        for name in names
    }
    update = {"id": relative.id, "work": {**rules.work, **work}, "reuse": None, "covariance": None}
    errors = {name: getattr(relative, name) for name in ERRORS}
    return rules.model_copy(update={**update, "host_covariance": None, **errors})


def refit(
    folder: Path, *, known: EngineProfile | None = None, progress: Progress | None = None
) -> tuple[EngineProfile, dict[str, Any]]:
    """Fit a committed bundle: the profile to ship, under the name of its rules, and the report.

    Parameters
    ----------
    known
        What the fit begins with, from `known_from`; by default `priors.yaml`.
    """
    bundle = Bundle.load(folder)
    same_host = folder.name not in ELSEWHERE
    profile, report = calibrate(bundle, known=known, same_host=same_host, progress=progress)
    rules = load_engine(report.engine.name, report.engine.version)
    update = {"id": rules.id, "title": rules.title, "version": rules.version}
    # Of the version, not of the build that was observed: the embedded one has libc's allocator.
    limits = ("read_limit_bytes", "large_read_limit_bytes")
    update |= {name: getattr(rules, name) for name in limits}
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
    """A fitted profile as it is shipped, by path."""
    data = profile.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    return {ENGINES / f"{profile.id}.yaml": dump_yaml(data)}


def fit_all(bundles: Path, *, progress: Progress | None = None) -> Files:
    """Contents of all files that follow from the committed bundles, by path.

    Profiles that reuse the work of these follow by themselves when they are loaded.
    """
    files: dict[Path, str] = {}
    fitted: dict[str, EngineProfile] = {}
    for folder in _relatives_first(path for path in bundles.iterdir() if path.is_dir()):
        relative = RELATIVES.get(folder.name)
        engine, _, version = folder.name.partition("-")
        known = None if relative is None else fitted[relative]
        if known is not None:
            known = known_from(known, load_engine(engine, version))
        profile, report = refit(folder, known=known, progress=progress)
        fitted[profile.id] = profile
        files |= files_of(profile)
        files[ACCURACY / f"live-{profile.id}.json"] = json_text(report)
    return files


def _relatives_first(folders: Iterable[Path]) -> list[Path]:
    """Bundles by name, those that others begin with before them."""

    def depth(name: str) -> int:
        return 1 + depth(RELATIVES[name]) if name in RELATIVES else 0

    return sorted(folders, key=lambda folder: (depth(folder.name), folder.name))


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
