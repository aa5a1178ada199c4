"""Held-out points of committed measurements, predicted again: nominal numbers, a few seeds.

What is left out, to be quick enough for every change: intervals (no run at drawn numbers), the fit
of the shipped engines to their bundles (the shipped profiles are used as they are), and datasets
without a held-out point or with a model of their own (memory, migrations, large commands).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.fit.calibrate import compare_points
from forecache.calibration.fit.fit import fit_generator, fitted_generator, is_usable
from forecache.calibration.fit.simulated_fit import REQUESTS, case_of
from forecache.calibration.validate.dataset import list_datasets, why_not_predicted
from forecache.calibration.validate.node_dataset import nominal_runs, read_node_dataset
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import Metrics, predict_cases
from forecache.models.prediction.system import System
from forecache.models.step_times.inputs import NodeInputs
from forecache.sim.errors import InputError
from forecache.sim.executors import Submitted

from ..accuracy.compared import Place, live_rows, place_of
from ..blind.rounds import scored_datasets
from ..harness import Progress

BUNDLES = Path("evidence/bundles")
SEEDS = (1, 2, 3)
"""Each is the whole way once, fits of a dataset's factors included: how they differ is chance."""

_LIVE_REPLICATIONS = 2
"""A seed's runs at a point of a live engine, as in the report of a calibration."""

_FARTHEST = 1000.0
"""The prediction of a latency that grows without bound, in measured ones."""


@dataclass(frozen=True)
class Predicted:
    """A measured number and its predictions, one a seed.

    Attributes
    ----------
    together
        Whether factors were fitted with the simulation in the loop: chance in them moves all
        points of the source together.
    """

    place: Place
    measured: float
    runs: tuple[float, ...]
    together: bool

    @property
    def mean(self) -> float:
        """Over the seeds, as a prediction's is over its replications."""
        return statistics.mean(self.runs)

    @property
    def error(self) -> float:
        """Absolute relative error of the mean."""
        return abs(self.mean / self.measured - 1.0)


def sources() -> dict[str, str | Path]:
    """What is predicted: bundles and datasets with held-out points, by id, and where they are."""
    found: dict[str, str | Path] = {path.name: path for path in sorted(BUNDLES.iterdir())}
    for dataset in list_datasets():
        held_out = any(point.role == "validation" for point in dataset.points)
        if held_out and why_not_predicted(dataset) is None:
            found[dataset.id] = dataset.id
    return found | scored_datasets()


def recompute(
    chosen: Sequence[str], *, seeds: Sequence[int] = SEEDS, progress: Progress
) -> list[Predicted]:
    """Predict the held-out points of these sources, or of all if none is named.

    Raises
    ------
    InputError
        There is no such source.
    """
    known = sources()
    unknown = sorted(set(chosen) - known.keys())
    if unknown:
        raise InputError(
            f"found source {', '.join(unknown)}; valid is one of {', '.join(sorted(known))}."
        )
    found = []
    for name, where in known.items():
        if chosen and name not in chosen:
            continue
        live, runs = where == BUNDLES / name, []
        for seed in seeds:
            progress(f"gate: {name}, seed {seed}")
            runs.append(_live(Path(where), seed) if live else _published(where, seed))
        found += _joined(runs, together=not live)
    return found


def _live(bundle_path: Path, seed: int) -> dict[Place, tuple[float, float]]:
    """(measured, predicted) at the held-out points of a bundle, with the shipped engine."""
    bundle = Bundle.load(bundle_path)
    if bundle.host is None:
        raise InputError(f"{bundle_path}: found no host.yaml; valid is a bundle with its host.")
    engine = load_engine(bundle_path.name)
    prior = load_generator("forecache")
    points = [point for point in bundle.points if is_usable(point)]
    fitted = [p for p in points if p.given.role == "fit" and p.given.rate_share is None]
    observed = engine.observed.speed if engine.observed is not None else {}
    posterior = fit_generator(fitted, prior, bundle.host.speed(observed))
    system = System(bundle.host, engine, fitted_generator(prior, posterior, bundle))
    held_out = [point for point in points if point.given.role == "holdout"]
    cases = [(case_of(point, system), system) for point in held_out]
    predictions = predict_cases(
        cases, seed=seed, draws=0, replications=_LIVE_REPLICATIONS, requests=REQUESTS
    )
    rows, _ = compare_points(held_out, predictions)
    return {
        row.place: (row.measured, row.predicted)
        for row in live_rows([row.to_dict() for row in rows], engine=engine.id, host=bundle.host.id)
    }


def _published(where: str | Path, seed: int) -> dict[Place, tuple[float, float]]:
    """(measured, predicted) at the held-out points of a dataset, its factors fitted anew."""
    measured = read_node_dataset(where)
    posterior = measured.fit(seed=seed)
    held_out = [pair for pair in measured.paired if pair[0].role == "validation"]
    inputs = [posterior.apply(s.inputs(c.scenario), posterior.mean) for c, s in held_out]
    with ThreadPoolExecutor() as pool, Submitted(pool) as calls:
        futures = [calls.submit(_one_run, each, seed) for each in inputs]
        runs = [future.result() for future in futures]
    return {
        place_of(measured.dataset.id, measured.dataset.scenario.get("host"), case, name): (
            value,
            metrics.values[name],
        )
        for (case, _), metrics in zip(held_out, runs, strict=True)
        for name, value in case.observed.items()
    }


def _one_run(inputs: NodeInputs, seed: int) -> Metrics:
    [metrics] = nominal_runs(inputs, seed=seed, replications=1)
    return metrics


def _joined(runs: Sequence[dict[Place, tuple[float, float]]], *, together: bool) -> list[Predicted]:
    """The same points of several seeds, together."""
    return [
        Predicted(
            place,
            measured,
            tuple(min(own[place][1], _FARTHEST * measured) for own in runs),
            together,
        )
        for place, (measured, _) in runs[0].items()
    ]


def to_lines(points: Iterable[Predicted]) -> str:
    """JSON, a line per point in the order of their keys, with six digits."""
    rows = []
    for each in sorted(points, key=lambda each: each.place.key):
        runs = [_six(run) for run in each.runs]
        numbers = {"measured": _six(each.measured), "runs": runs, "together": each.together}
        rows.append({**asdict(each.place), **numbers})
    return "".join(json.dumps(row) + "\n" for row in rows)


def from_lines(text: str) -> list[Predicted]:
    """What `to_lines` wrote."""
    found = []
    for line in text.splitlines():
        row = json.loads(line)
        measured, runs, together = row.pop("measured"), row.pop("runs"), row.pop("together")
        found.append(Predicted(Place(**row), measured, tuple(runs), together))
    return found


def _six(value: float) -> float:
    return float(f"{value:.6g}")
