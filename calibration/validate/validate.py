"""Hold the model against measurements it was not fitted to.

At most the points marked `calibration` are fitted: a handful of factors that say how fast the
source's machine really was, each with a prior. All points are then predicted, with intervals, and
compared; what misses is reported as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from forecache.hwprofiles.files import named
from forecache.models.advice.choice import KNEE
from forecache.sim.errors import InputError

from .comparison import (
    ComparedDataset,
    ComparedEngine,
    ComparedHost,
    ComparedPoint,
    FittedFactor,
    Knee,
    Validation,
    summary_of,
)
from .counters import counter_checks
from .dataset import MeasuredCase, is_of_memory, read_dataset
from .factors import FactorPosterior
from .memory_dataset import validate_memory
from .node_dataset import check_work, predict_points, read_node_dataset
from .provenance import provenance_of
from .series import curves_of
from .set_operations import is_large_commands, validate_large_commands
from .slot_migration import is_migration, validate_migrations

Progress = Callable[[str], None]

_METRICS = ("throughput_rps", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms")


def validate(
    path: str | Path,
    *,
    host: str | Path | None = None,
    engine: str | Path | None = None,
    seed: int = 1,
    progress: Progress | None = None,
) -> Validation:
    """Predict every point of a dataset; only calibration points are fitted.

    They are its own and those of the datasets it names as of the same machine. Durations of slot
    migrations and of large commands have models of their own (`slot_migration.py`,
    `set_operations.py`).

    Parameters
    ----------
    path
        Id of a shipped dataset, or path of a file.
    host, engine
        Name or file of a profile that takes the place of the dataset's own.

    Raises
    ------
    InputError
        The dataset or a profile can't be read.
    """
    asked, file = read_dataset(path)
    if is_migration(asked):
        return validate_migrations(asked, file)
    if is_of_memory(asked):
        if host is not None or engine is not None:
            raise InputError(f"{file}: found a host or an engine; valid with memory is neither.")
        return validate_memory(asked, file)
    if is_large_commands(asked):
        return validate_large_commands(asked, file)
    measured = read_node_dataset(path, host=host, engine=engine)
    dataset, cases, systems = measured.dataset, measured.cases, measured.systems
    count = measured.fitted_points
    if progress is not None and measured.factors and count:
        progress(f"fitting {len(measured.factors)} factors to {count} calibration points")
    with named(path):
        check_work(measured, seed, progress)
    posterior = measured.fit(seed=seed)
    points = predict_points(measured, posterior, seed=seed, progress=progress)
    system = systems[0]
    provenance = provenance_of(cases, systems, posterior, beside=measured.beside)
    return Validation(
        dataset=ComparedDataset(dataset.id, dataset.title, Path(path).name),
        host=ComparedHost(system.host.id, system.host.title, measured.host_known),
        engine=ComparedEngine(system.engine.id, system.engine.version),
        fitted=_fitted(posterior) if count else [],
        provenance=provenance,
        warnings=[
            *dict.fromkeys(s.engine.taken_as_words for s in systems if s.engine.taken_as_words),
            *provenance.problems,
            *_what_is_missing(
                cases,
                host_known=measured.host_known,
                fitted=count or measured.learned,
                title=system.host.title,
            ),
        ],
        points=points,
        summary=summary_of(points, _METRICS),
        counters=counter_checks(dataset, points),
        knee=knees_of(points),
    )


def _what_is_missing(
    cases: Sequence[MeasuredCase], *, host_known: bool, fitted: int, title: str
) -> list[str]:
    """What the dataset leaves open, and how to close it: a sentence each."""
    missing = []
    if not host_known and not fitted:
        missing.append(
            f"the speed of the host is unknown: {title} stands in, and the intervals allow for any "
            "host of the catalogue; name the host (scenario.host or --host, with a name that "
            "`forecache catalog` lists or the file that `forecache profile` writes on it), or give "
            "some points that have throughput_rps the role calibration"
        )
    if all(case.role == "calibration" for case in cases):
        missing.append(
            "no point has role validation, so nothing was predicted without having been fitted and "
            "no errors are summed up"
            if fitted
            else "no point has role validation, so there is no summary of errors"
        )
    if not fitted and any(case.role == "calibration" for case in cases):
        missing.append("nothing was fitted: no point with role calibration has throughput_rps")
    return missing


def _fitted(posterior: FactorPosterior) -> list[FittedFactor]:
    rows = []
    for index, factor in enumerate(posterior.factors):
        log, error = posterior.mean[index], math.sqrt(posterior.covariance[index, index])
        rows.append(
            FittedFactor(
                name=factor.name,
                factor=math.exp(log),
                low=math.exp(log - 1.96 * error),
                high=math.exp(log + 1.96 * error),
                from_prior=min(1.0, (error / factor.prior_error) ** 2),
                points=list(posterior.points),
                note=factor.note,
            )
        )
    return rows


def knees_of(points: Sequence[ComparedPoint]) -> dict[str, Knee]:
    """First io_threads within 5% of the best, observed and predicted, per series.

    A series holds the points that differ in io_threads only; short ones have no knee.
    """

    def first(members: Sequence[ComparedPoint], throughput_rps: Sequence[float]) -> int:
        enough = KNEE * max(throughput_rps)
        index = next(i for i, found in enumerate(throughput_rps) if found >= enough)
        return int(members[index].given["io_threads"])

    return {
        name: Knee(
            first(members, [point.observed["throughput_rps"] for point in members]),
            first(members, [point.predicted["throughput_rps"].value for point in members]),
        )
        for name, members in curves_of(points).items()
    }
