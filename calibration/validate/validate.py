"""Hold the model against measurements it was not fitted to.

At most the points marked `calibration` are fitted: a handful of factors that say how fast the
source's machine really was, each with a prior. All points are then predicted, with intervals, and
compared; what misses is reported as it is.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from forecache.hwprofiles.files import named
from forecache.hwprofiles.quantity import Origin, Source
from forecache.models.advice.objective import KNEE
from forecache.models.prediction.predict import LATENCIES, Progress
from forecache.models.prediction.system import System

from .comparison import (
    ComparedDataset,
    ComparedEngine,
    ComparedHost,
    ComparedPoint,
    DataProvenance,
    FittedFactor,
    Knee,
    ProfileOrigins,
    Validation,
    curves_of,
    summary_of,
)
from .dataset import Dataset, MeasuredCase, list_datasets
from .node_dataset import (
    FactorPosterior,
    check_work,
    may_be_fitted,
    predict_points,
    read_node_dataset,
)

_METRICS = ("throughput_rps", *LATENCIES)


def validate(
    path: str | Path,
    *,
    host: str | Path | None = None,
    engine: str | Path | None = None,
    seed: int = 1,
    progress: Progress | None = None,
) -> Validation:
    """Predict every point of a dataset; only calibration points are fitted.

    They are its own and those of the datasets it names as of the same machine.

    Parameters
    ----------
    path
        Id of a shipped dataset, or path of a file.
    host, engine
        Name or file of a profile that takes the place of the dataset's own.
    """
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


# --- where every number of a validation comes from ------------------------------------------------

# Where every number of a validation comes from, and that no held-out point is among its sources.
#
# A prediction is only held against a measurement if nothing in it was taken from that measurement:
# no number of the host's, engine's and load generator's profiles, no fitted factor, no bundle that
# an engine's work was fitted to. A source that also gives a dataset's measurements has to say which
# of its points were used (`Source.points`).


DIGITS = 5
"""A number with this many significant digits that turns up twice was copied."""

_NUMBER = re.compile(r"(?<![\w.])\d[\d_,]*(?:\.\d+)?(?![\w.]*\d)")
_PULL = re.compile(r"github\.com/[^/]+/([^/]+)/(?:pull|issues)/(\d+)")
_UNREAD = {"raw", "covariance", "host_covariance"}


def provenance_of(
    cases: Sequence[MeasuredCase],
    systems: Sequence[System],
    posterior: FactorPosterior,
    *,
    beside: Mapping[str, Sequence[MeasuredCase]],
) -> DataProvenance:
    """Origins of all numbers that a validation's predictions rest on.

    Parameters
    ----------
    beside
        Points of other datasets of the same machine, by dataset.
    """
    profiles: dict[str, ProfileOrigins] = {}
    problems = factor_problems(cases, posterior)
    for name, profile in _profiles(systems).items():
        observed = getattr(profile, "observed", None)
        profiles[name] = ProfileOrigins(
            dict(sorted(Counter(leaf.kind for _, leaf in leaves_of(profile)).items())),
            None if observed is None else observed.bundle,
            {dataset: sorted(points) for dataset, points in taken_points(profile).items()},
        )
        problems += profile_problems(name, profile)
    return DataProvenance(
        calibration_points=sorted(posterior.points),
        held_out_points=[case.index for case in cases if case.role == "validation"],
        profiles=profiles,
        problems=problems,
        same_machine_points={
            name: [case.index for case in measured if may_be_fitted(case)]
            for name, measured in beside.items()
        },
    )


def _profiles(systems: Sequence[System]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for system in systems:
        found[f"host {system.host.id}"] = system.host
        found[f"engine {system.engine.id}"] = system.engine
        found[f"load generator {system.generator.id}"] = system.generator
    return found


def leaves_of(profile: BaseModel) -> Iterator[tuple[str, Origin]]:
    """(path, leaf) of every number and curve of a profile."""
    yield from _leaves(profile, "")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Origin]]:
    if isinstance(value, Origin):
        yield path, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _leaves(getattr(value, name), f"{path}.{name}" if path else name)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")


def taken_points(profile: Any) -> dict[str, set[int]]:
    """Points by dataset that a profile's sources say its numbers rest on."""
    taken: dict[str, set[int]] = {}
    for source in profile.sources.values():
        for dataset, points in (source.points or {}).items():
            taken.setdefault(dataset, set()).update(points)
    return taken


# --- what breaks the rule -----------------------------------------------------------------------


def factor_problems(cases: Sequence[MeasuredCase], posterior: FactorPosterior) -> list[str]:
    """Held-out points among those the factors were fitted to."""
    roles = {case.index: case.role for case in cases}
    names = ", ".join(factor.name for factor in posterior.factors)
    return [
        f"fitted factors ({names}): points[{index}] is held out, and they were fitted to it"
        for index in posterior.points
        if roles.get(index) != "calibration"
    ]


def profile_problems(
    name: str, profile: Any, datasets: Sequence[Dataset] | None = None
) -> list[str]:
    """Numbers of a profile that rest on a held-out point, or don't say that they don't.

    Parameters
    ----------
    name
        What to call the profile.
    datasets
        Those whose points may not be used; None for the shipped ones.
    """
    known = {each.id: each for each in (datasets if datasets is not None else list_datasets())}
    problems: list[str] = []
    for key, source in profile.sources.items():
        where = f"{name}, source {key}"
        problems += _declared_problems(where, source, known)
        given = [dataset.id for dataset in known.values() if _gives(source, dataset)]
        if given and source.points is None:
            problems.append(
                f"{where}: it also gives the measurements of {', '.join(given)} and does not say "
                f"which were used; say points: {{{given[0]}: [...]}}, or {{}} for none"
            )
    for dataset in known.values():
        if any(_gives(source, dataset) for source in profile.sources.values()):
            continue
        problems += [
            f"{name}, {path}: its method speaks of {mention}, whose measurements are in "
            f"{dataset.id}; add it to the sources and say under points which were used"
            for path, leaf in leaves_of(profile)
            for mention in _mentions(leaf.method, dataset)
        ]
    copied = significant(_texts(profile))
    for dataset in known.values():
        for index, value in held_out_numbers(dataset):
            if value in copied:
                problems.append(
                    f"{name}: {value:.12g} is points[{index}] of {dataset.id}, held out"
                )
    return problems


def _declared_problems(where: str, source: Source, known: Mapping[str, Dataset]) -> Iterator[str]:
    for dataset, points in (source.points or {}).items():
        if dataset not in known:
            yield f"{where}: points of {dataset}, which is no dataset"
            continue
        roles = [point.role for point in known[dataset].points]
        for index in points:
            if index >= len(roles):
                yield f"{where}: points[{index}] of {dataset}, which has {len(roles)}"
            elif roles[index] != "calibration":
                yield f"{where}: points[{index}] of {dataset} is held out, and numbers rest on it"


def _address(url: str) -> str:
    """An address without what does not tell pages apart."""
    plain = re.sub(r"^https?://(www\.)?", "", url.lower())
    return re.split(r"[?#]", plain)[0].rstrip("/")


def _gives(source: Source, dataset: Dataset) -> bool:
    """Whether a source is, or is part of, one that a dataset's measurements come from."""
    for origin in dataset.sources:
        if source.url is not None and origin.url is not None:
            whole, part = _address(origin.url), _address(source.url)
            if part == whole or part.startswith(whole + "/"):
                return True
        if source.file is not None and source.file == origin.file:
            return True
    return False


def _mentions(text: str, dataset: Dataset) -> list[str]:
    """Words of a text that name a dataset or a pull request or issue it comes from."""
    found = [dataset.id] if dataset.id in text else []
    for source in dataset.sources:
        match = _PULL.search(source.url or "")
        if match is not None:
            number = rf"\b(?:PR|pull request|issue) #?{match[2]}\b"
            found += re.findall(number, text, re.IGNORECASE)
    return found


def _texts(profile: BaseModel) -> Iterator[str]:
    """Numbers and texts of a profile, but for the raw data of a capture and a covariance."""
    data = profile.model_dump(mode="json", exclude_none=True, exclude=_UNREAD)
    stack: list[Any] = [data]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += item.values()
        elif isinstance(item, list):
            stack += item
        elif isinstance(item, str | int | float):
            yield str(item)


def significant(texts: Iterable[str]) -> set[float]:
    """Numbers with at least `DIGITS` significant digits that the texts hold."""
    found = set()
    for text in texts:
        for match in _NUMBER.findall(text):
            plain = re.sub(r"[_,]", "", match)
            if len(plain.replace(".", "").strip("0")) >= DIGITS:
                found.add(float(plain))
    return found


def held_out_numbers(dataset: Dataset) -> Iterator[tuple[int, float]]:
    """(position, number) of what was measured at held-out points and is not a number anyone has."""
    for index, point in enumerate(dataset.points):
        if point.role == "validation":
            values = [value for value in point.observed.values() if value is not None]
            for value in significant(f"{value:.12g}" for value in values):
                yield index, value
