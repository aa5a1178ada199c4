"""What the studies of live engines at random points share.

Engines, drivers and seed are asked for in the same way, bundles are kept in the same places, points
are predicted as they were driven, and errors stand in the same columns.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions
from forecache.calibration.fit.work_model import scenario_of
from forecache.hwprofiles.files import write_text_atomic
from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import Case
from forecache.sim.errors import InputError

from ..counts.shipped import compact
from .engines import Engine, unpack, unpacked

TOOLS = {"valkey-benchmark": ("valkey", "8.0.1"), "redis-benchmark": ("redis", "7.0.15")}
"""The drivers, and the engines that they come with."""

PROCESSORS = {
    "25-1": "Zen 3",
    "25-17": "Zen 4",
    "26-2": "Zen 5",
    "6-106": "Ice Lake",
    "6-167": "Xeon 6",
}
"""What processors are called whose family and model stand in the id of a captured host."""

MOST_BYTES = 2**30
"""Largest data set, values only: more keys than that are cut."""
LEVEL = 0.95
DRAWS = 20
REQUESTS = 20_000
HOST_FILE = "host.yaml"
SEED_FILE = "seed.json"
"""Of an engine's points, beside its bundles."""

Row = Mapping[str, Any]
"""A point of an artefact: `cpu_us` and `throughput_rps` of its windows, `predicted_us`, `low_us`,
`high_us` and `predicted_rps`.
"""

ERRORS_HEADER = (
    *(">CPU a request: median error", ">95th percentile", ">bias", ">repeat"),
    *(f">windows inside {LEVEL:.0%} interval", ">throughput: median error"),
)


def seed() -> int:
    """`SEED` of the environment, which draws the points."""
    found = os.environ.get("SEED", "1")
    if not found.isdecimal():
        raise InputError(f"SEED: found {found!r}; valid is a whole number.")
    return int(found)


@contextmanager
def engines_at_hand() -> Iterator[tuple[Path, list[Engine]]]:
    """A scratch folder, and the engines of the environment's folder `ENGINES`, or unpacked anew."""
    given = os.environ.get("ENGINES")
    with tempfile.TemporaryDirectory(prefix="forecache-live-") as scratch:
        found = unpacked(Path(given)) if given else unpack(Path(scratch) / "engines")
        yield Path(scratch), found


def engine_of(engines: Sequence[Engine], id_: str) -> Engine:
    """The engine of this id.

    Raises
    ------
    InputError
        It is not there.
    """
    for engine in engines:
        if engine.id == id_:
            return engine
    known = ", ".join(engine.id for engine in engines) or "empty"
    raise InputError(
        f"ENGINES: found no {id_} ({known}); valid is a folder that"
        " `python -m evidence.live.engines FOLDER` has filled."
    )


def shipped(id_: str) -> EngineProfile:
    """The shipped profile of an engine by its id, `redis-7.0.15`, say."""
    name, _, version = id_.rpartition("-")
    return load_engine(name, version)


def keep_host(folder: Path, host: HostProfile) -> None:
    """Write a host's profile, without what it was made of, into a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    text = host.model_copy(update={"raw": None}).to_yaml()
    write_text_atomic(folder / HOST_FILE, text)


def tool_of(engines: Sequence[Engine], tool: str) -> Path:
    """The driver, of the engine that it comes with."""
    return engine_of(engines, "-".join(TOOLS[tool])).folder / tool


def log_uniform(random: np.random.Generator, low: float, high: float) -> int:
    """A whole number, uniform in the logarithm."""
    return round(low * (high / low) ** random.random())


def span(between: tuple[int, int]) -> str:
    """The range that numbers were drawn from, in words."""
    low, high = between
    return f"{low:,} to {high:,}"


def keep(path: Path, out: Path, *, histograms: bool = False) -> None:
    """Write a bundle in compact form, in the place of one that is there."""
    if out.exists():
        shutil.rmtree(out)
    compact(path, out, histograms=histograms)


def keep_seed(folder: Path, of_points: int) -> None:
    """Write the seed of an engine's points."""
    write_text_atomic(folder / SEED_FILE, f"{of_points}\n")


def seeds_of(host: Path) -> list[int]:
    """Seeds of the points of a host's engines."""
    files = host.glob(f"*/{SEED_FILE}")
    return sorted({int(json.loads(path.read_text(encoding="utf-8"))) for path in files})


def host_of(path: Path, bundle: Bundle) -> HostProfile:
    """The host of a bundle, which needs one.

    Raises
    ------
    InputError
        It has none.
    """
    if bundle.host is None:
        raise InputError(f"{path}: has no host.yaml; valid is a bundle with its host.")
    return bundle.host


def case_of(
    given: Conditions, system: System, *, tool: str = "forecache", **changes: Any
) -> tuple[Case[Scenario], System]:
    """A point to be predicted for an engine on a host, with changes of its scenario."""
    engine = system.engine
    scenario = scenario_of(
        given, engine=engine.engine, engine_version=engine.version, tool=tool
    ).model_copy(update=changes)
    case = Case(given=given.model_dump(mode="json", exclude_defaults=True), scenario=scenario)
    return case, system


def error(windows: Sequence[float], predicted: float) -> float:
    """Of a prediction, against the median of a point's windows."""
    return float(predicted / np.median(windows)) - 1.0


def repeat(windows: Sequence[float]) -> float:
    """By how much the second half of a point's windows differs from the first, in the median."""
    half = len(windows) // 2
    return abs(statistics.median(windows[half:]) / statistics.median(windows[:half]) - 1.0)


def error_cells(rows: Sequence[Row]) -> list[str]:
    """Cells of `ERRORS_HEADER` for these points."""
    errors = [error(row["cpu_us"], row["predicted_us"]) for row in rows]
    rates = [error(row["throughput_rps"], row["predicted_rps"]) for row in rows]
    inside = [row["low_us"] <= us <= row["high_us"] for row in rows for us in row["cpu_us"]]
    return [
        f"{np.median(np.abs(errors)):.1%}",
        f"{np.quantile(np.abs(errors), 0.95):.1%}",
        f"{np.median(errors):+.1%}",
        f"{np.median([repeat(row['cpu_us']) for row in rows]):.1%}",
        f"{np.mean(inside):.0%}",
        f"{np.median(np.abs(rates)):.1%}",
    ]
