"""Predictions of held-out points beside their measurements, and the partitions they fall into."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from forecache.calibration.fit.calibrate import LEVEL
from forecache.calibration.fit.report import LATENCIES, THROUGHPUT
from forecache.calibration.validate.comparison import label
from forecache.calibration.validate.dataset import UNKNOWN_NOISE, MeasuredCase, load_dataset
from forecache.models.engines.profile import load_engine

from ..live.rounds import repeat

QUANTITIES = {
    "throughput_rps": THROUGHPUT,
    "mean_ms": "mean latency",
    "p50_ms": LATENCIES["p50"],
    "p90_ms": "90th percentile of latency",
    "p99_ms": LATENCIES["p99"],
    "p999_ms": "99.9th percentile of latency",
}
"""Words for the quantities of a dataset, which are those of the live checks."""

ONE_THREAD = "one thread"
"""The policy of a point without I/O threads: the engine's own has nothing to decide."""

UNNAMED = "unnamed"
"""The host of a dataset whose source doesn't say."""

OBSERVED, ANCHORED, PROFILED, CATALOGUE = TIERS = (
    *("observed here", "anchored here", "profiled here"),
    "by catalogue",
)
"""What was known of an engine on a host, in the words of answers."""

LEAST_POINTS = 10
"""Fewer points are no partition of their own."""

_PUBLISHED_LEVEL = 0.95
_PIPELINES = ((1, "1"), (8, "2 to 8"), (32, "9 to 32"))


@dataclass(frozen=True)
class Place:
    """Which number was measured: `source` is a dataset's or a bundle's id."""

    source: str
    point: str
    quantity: str
    engine: str
    host: str
    policy: str
    pipeline: int

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from all others."""
        return self.source, self.point, self.quantity


@dataclass(frozen=True)
class Compared:
    """A measured number and its prediction.

    Attributes
    ----------
    measured, predicted
        In the unit of their source.
    low, high
        Ends of the prediction's interval of this level; None where it has none.
    tier
        What was known of the engine on the host, one of `TIERS`.
    repeat
        By how much repeats of the measurement differ, relative to it; None where nothing is known.
    """

    place: Place
    measured: float
    predicted: float
    low: float | None = None
    high: float | None = None
    level: float = _PUBLISHED_LEVEL
    tier: str = CATALOGUE
    repeat: float | None = None

    @property
    def error(self) -> float:
        """Absolute relative error."""
        return abs(self.predicted / self.measured - 1.0)


class Partition(NamedTuple):
    """Points of one quantity that share an engine, a host, a policy or a range of pipelines."""

    by: str
    value: str
    quantity: str

    def words(self) -> str:
        """Such as `throughput, engine valkey-8.0`."""
        return self.quantity if self.by == "all" else f"{self.quantity}, {self.by} {self.value}"


def partitions(places: Sequence[Place]) -> dict[Partition, list[int]]:
    """Positions of the places in each partition of `LEAST_POINTS` or more."""
    found: dict[Partition, list[int]] = {}
    for number, place in enumerate(places):
        for by, value in (
            ("all", ""),
            ("engine", place.engine),
            ("host", place.host),
            ("policy", place.policy),
            ("pipeline", pipelines(place.pipeline)),
        ):
            found.setdefault(Partition(by, value, place.quantity), []).append(number)
    return {each: own for each, own in found.items() if len(own) >= LEAST_POINTS}


def pipelines(pipeline: int) -> str:
    """The range of pipelines that one belongs to."""
    return next((words for most, words in _PIPELINES if pipeline <= most), "33 and more")


def live_points(out: Path) -> list[Compared]:
    """Held-out points of the live engines, from `live-*.json`."""
    found = []
    for path in sorted(out.glob("live-*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        engine = path.stem.removeprefix("live-")
        found += live_rows(report["points"], engine=engine, host=report["host"]["id"])
    return found


def live_rows(rows: Iterable[Mapping[str, Any]], *, engine: str, host: str) -> list[Compared]:
    """Held-out rows of a calibration's `points`; `engine` is also the name of the bundle."""
    rows = list(rows)
    pipeline = {
        row["given"]["point"]: row["conditions"].get("pipeline", 1)
        for row in rows
        if "conditions" in row
    }
    found = []
    for row in rows:
        if row["role"] != "holdout":
            continue
        point = row["given"]["point"]
        place = Place(engine, point, row["quantity"], engine, host, ONE_THREAD, pipeline[point])
        unit = "rps" if "observed_rps" in row else "ns"
        found.append(
            Compared(
                place,
                row[f"observed_{unit}"],
                row[f"predicted_{unit}"],
                row.get(f"low_{unit}"),
                row.get(f"high_{unit}"),
                LEVEL,
                OBSERVED,
            )
        )
    return found


def published_points(out: Path) -> list[Compared]:
    """Held-out points of the published datasets, from `published-*.json`."""
    found = []
    for path in sorted(out.glob("published-*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        dataset, cases = load_dataset(result["dataset"]["id"])
        for row in result["points"]:
            case = cases[row["index"]]
            if case.role != "validation":
                continue
            for name, estimate in row["predicted"].items():
                place = place_of(dataset.id, dataset.scenario.get("host"), case, name)
                interval = estimate["low"], estimate["high"]
                apart = None if case.noise == UNKNOWN_NOISE else case.noise.standard_error
                found.append(
                    Compared(
                        *(place, case.observed[name], estimate["value"], *interval),
                        # What sources say of repeats is about throughput.
                        repeat=apart if name == "throughput_rps" else None,
                    )
                )
    return found


def repeat_of(windows: Sequence[float]) -> float | None:
    """By how much the halves of these windows differ, as `repeat`; None of fewer than two."""
    return repeat(windows) if len(windows) > 1 else None


def tails_points(out: Path) -> list[Compared]:
    """p99 over all requests of random loads of captured hosts, from `tails.json`."""
    found = []
    for row in json.loads((out / "tails.json").read_text(encoding="utf-8"))["points"]:
        quantity = f"{QUANTITIES['p99_ms']}, {row['arrival'].replace('_', ' ')}"
        place = Place(
            *("tails", row["point"], quantity, row["engine"], row["host"], ONE_THREAD),
            pipeline=1,
        )
        interval = row["low_ms"], row["high_ms"]
        apart = repeat_of(row["halves_ms"])
        found.append(
            Compared(
                *(place, row["pooled_ms"], row["predicted_ms"], *interval),
                tier=OBSERVED,
                repeat=apart,
            )
        )
    return found


def place_of(dataset: str, host: str | None, case: MeasuredCase, quantity: str) -> Place:
    """Where a dataset's point belongs; `quantity` is its name in the dataset."""
    scenario = case.scenario
    engine = load_engine(scenario.engine, scenario.engine_version)
    return Place(
        source=dataset,
        point=f"{case.index}: {label(case.given)}",
        quantity=QUANTITIES[quantity],
        engine=engine.id,
        host=host or UNNAMED,
        policy=engine.policy if scenario.io_threads > 1 else ONE_THREAD,
        pipeline=scenario.workload.pipeline,
    )
