"""The engine profiles that come with forecache, and the observations they were fitted to.

    python -m evidence.counts.shipped          # fit all again, from evidence/bundles/
    python -m evidence.counts.shipped --check  # the same, but only say what would change

Bundles are kept in compact form: every repetition with all its counts and times, without latency
histograms, INFO texts, the raw repetitions of the host's capture and paths of the machine.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forecache.calibration.bundle.bundle import Bundle, require_new
from forecache.calibration.fit.calibrate import calibrate
from forecache.calibration.fit.work_model import INSTRUCTIONS, SCALES
from forecache.hwprofiles.files import dump_yaml, read_yaml, write_text_atomic
from forecache.hwprofiles.quantity import Quantity
from forecache.models.engines.profile import EngineProfile, Reuse, load_engine
from forecache.sim.errors import ForecacheError

Progress = Callable[[str], None]

BUNDLES = Path("evidence/bundles")
ENGINES = Path("models/engines")
ACCURACY = Path("docs/accuracy")

REUSED = {
    "redis-6.2": "redis-7.0",
    "valkey-7.2": "redis-7.0",
    "valkey-8.1": "valkey-8.0",
    "valkey-9.0": "valkey-8.0",
    "redis-8.0": "redis-7.0",
    "redis-8.2": "redis-7.0",
}
"""Profiles of versions that were not observed, and whose work they take."""

REUSE_REASONS = {
    "redis-6.2": "6.2 has the event loop, parser, dict and strings of 7.0, which changed scripts, "
    "append-only files and access control; it was not at hand to observe",
    "valkey-7.2": "Valkey 7.2 is Redis 7.2.4 under another name, which has the event loop, parser, "
    "I/O threads, dict and strings of 7.0; no build of it was at hand to observe",
    "valkey-8.1": "8.1 has the event loop, parser and command table of 8.0; it changed the hash "
    "table, which the memory layout of its own accounts for, and it was not at hand to observe",
    "valkey-9.0": "9.0 has the transport of 8.0 and the hash table of 8.1; at pipeline 1 it is as "
    "fast as 8.1 (GET 98.2 against 97.9 thousand a second, valkey issue 2580), its parsing of "
    "whole pipelines and its replies without copies are rules of its own, and it was not at hand "
    "to observe",
    "redis-8.0": "8.0 has the event loop, dict and objects of 7.0; the work of its commands is "
    "taken over, that of moving clients between threads is counted in its source, and it was not "
    "at hand to observe",
    "redis-8.2": "8.2 has the event loop, dict and objects of 7.0; the work of its commands is "
    "taken over, that of moving clients between threads is counted in its source, and it was not "
    "at hand to observe",
}

REUSE_RANGE = 1.25
"""How much wider the range of a number is that was observed on another version."""


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
    rules = load_engine(report["engine"]["name"], report["engine"]["version"])
    report["measured"] = measured_of(bundle)
    update = {"id": rules.id, "title": rules.title, "version": rules.version}
    return profile.model_copy(update=update), report


def measured_of(bundle: Bundle) -> dict[str, Any]:
    """When, where and how a bundle was measured, for the accuracy page."""
    return {
        "date": bundle.manifest.created[:10],
        "machine": bundle.manifest.machine.model_dump(mode="json"),
        "design": bundle.manifest.method.design,
        "warnings": bundle.manifest.warnings,
        "depth": bundle.manifest.depth,
    }


def reused(rules: EngineProfile, observed: EngineProfile) -> EngineProfile:
    """A profile with the work of another version, its ranges wider, and the record of it."""
    work = dict(rules.work)
    for name in (*INSTRUCTIONS, *SCALES):
        leaf = observed.work[name]
        assert leaf.value is not None and leaf.low is not None and leaf.high is not None
        work[name] = Quantity(
            value=leaf.value,
            unit=leaf.unit,
            kind="assumed",
            low=float(f"{leaf.low / REUSE_RANGE:.4g}"),
            high=float(f"{leaf.high * REUSE_RANGE:.4g}"),
            method=f"as observed of {observed.id}, in a range {REUSE_RANGE:g} times as wide",
        )
    record = Reuse.model_validate(
        {"from": observed.id, "to": rules.version, "reason": REUSE_REASONS[rules.id]}
    )
    origin = observed.observed
    if origin is not None and observed.engine != rules.engine:
        origin = origin.model_copy(update={"engine": observed.engine})
    return rules.model_copy(update={"work": work, "observed": origin, "reuse": record})


def text_of(profile: EngineProfile) -> str:
    """A profile as the text of its file."""
    return dump_yaml(profile.model_dump(mode="json", exclude_defaults=True, by_alias=True))


def fit_all(bundles: Path, *, progress: Progress | None = None) -> dict[Path, str]:
    """Contents of all files that follow from the committed bundles, by path."""
    files: dict[Path, str] = {}
    profiles = {}
    for folder in sorted(path for path in bundles.iterdir() if path.is_dir()):
        profile, report = refit(folder, progress=progress)
        profiles[profile.id] = profile
        files[ENGINES / f"{profile.id}.yaml"] = text_of(profile)
        files[ACCURACY / f"live-{profile.id}.json"] = json_text(report)
    for name, source in REUSED.items():
        if source in profiles:
            files[ENGINES / f"{name}.yaml"] = text_of(reused(load_engine(name), profiles[source]))
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


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m evidence.counts.shipped")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a file differs")
    parser.add_argument("--bundles", type=Path, default=BUNDLES)
    given = parser.parse_args(arguments)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        files = fit_all(given.bundles, progress=say)
    except ForecacheError as error:
        say(f"calibration: error: {error}")
        return error.exit_code
    changed = [
        path for path, text in files.items() if not path.is_file() or path.read_text() != text
    ]
    for path, text in files.items():
        state = "differs" if path in changed else "as committed"
        print(f"{path}: {state}")
        if not given.check:
            write_text_atomic(path, text)
    return 1 if given.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
