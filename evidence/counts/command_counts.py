"""Instructions of commands beyond GET and SET, counted by running the engine in valgrind.

The study `command-counts` keeps the counts in `evidence/counts/command_counts/`, where it counts
only what an engine's file doesn't have yet; `command-work` makes the section `commands` of the
shipped engine profiles from what lies there. A command that an engine doesn't know is left out of
both.
"""

from __future__ import annotations

from pathlib import Path

from forecache.calibration.bundle.profiles import read_counts
from forecache.calibration.drive.servers import engine_version, find_engine
from forecache.calibration.fit.command_work import command_leaves
from forecache.calibration.fit.fit import COUNTS
from forecache.calibration.observe.command_counts import count_commands
from forecache.hwprofiles.files import dump_yaml, parse, read_yaml
from forecache.models.engines.profile import EngineProfile
from forecache.models.scenario.versions import minor_version

from ..harness import EMBEDDED, Asked, Files

FOLDER = Path("evidence/counts/command_counts")
ENGINES = Path("models/engines")


def counted() -> dict[str, Path]:
    """The counts by the id of the profile of the version that was counted; others reuse these."""
    found = {}
    for path in sorted(FOLDER.glob("*.json")):
        engine, _, version = path.stem.partition("-")
        profile_id = f"{engine}-{minor_version(version)}"
        if (ENGINES / f"{profile_id}.yaml").exists():
            found[profile_id] = path
    return found


def artefact(asked: Asked) -> Files:
    """Count the commands of the engines at hand, but for those that are counted."""
    files = {}
    for engine in asked.engines(("redis-server", "valkey-server", EMBEDDED)):
        binary = find_engine(engine)
        out = FOLDER / f"{'-'.join(engine_version(binary))}.json"
        known = read_counts(out) if out.exists() else None
        files[out] = count_commands(binary, known=known, progress=asked.progress).text()
    return files


def profiles(_asked: Asked) -> Files:
    """The shipped engine profiles with the work of commands that was counted."""
    files = {}
    for profile_id, path_of_counts in counted().items():
        path = ENGINES / f"{profile_id}.yaml"
        counts = read_counts(path_of_counts)
        data = dict(read_yaml(path))
        source = {
            "title": f"forecache: instructions of commands on {path_of_counts.stem}, in valgrind",
            "file": path_of_counts.as_posix(),
            "accessed": counts.date,
        }
        data["sources"] = {**data["sources"], COUNTS: source}
        found = command_leaves(counts, source=COUNTS)
        data["commands"] = {name: leaf.model_dump(mode="json") for name, leaf in found.items()}
        parse(EngineProfile, data, file=path)
        files[path] = dump_yaml(data)
    return files
