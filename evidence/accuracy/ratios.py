"""Ratios of two predictions beside measured ones: how far off they are, by the kind of pair.

Pairs are of engines of every generation at the same random points (`evidence/generations/`), as
shipped and as calibrated on their host, and of held-out points of published datasets. The study
finds the numbers of `UNSHARED` in `models/advice/paired.py`: the smallest with which 95% of the
measured ratios lie in their intervals, of live engines and of datasets alike, and how many do where
a host or an engine is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

import numpy as np

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.validate.dataset import Noise
from forecache.calibration.validate.node_dataset import read_node_dataset
from forecache.models.advice.paired import (
    UNSHARED,
    PairKind,
    RatioSide,
    pair_kind,
    ratio_interval,
    ratio_parts,
    ratio_verdict,
)
from forecache.models.prediction.predict import SERVER_CPU, predict_cases
from forecache.models.scenario.sweeps import Case
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from ..counts.shipped import json_text
from ..harness import Asked, Files
from ..joint.prior import SHARED
from ..live import generations
from ..live.generations import LEAST_STEP
from ..live.rounds import repeat
from ..markdown import table
from .observed import ACCURACY, predicted_datasets

ARTEFACT = ACCURACY / "ratios.json"
KINDS: tuple[PairKind, ...] = get_args(PairKind)
LEVEL = 0.95
PUBLISHED = "published"
_Z95 = 1.959963984540054
_SAMPLE = 4000
"""Pairs of other points than the same one, of each profile and quantity: drawn, as there are half a
million."""
_OF_A_MEDIAN = math.sqrt(math.pi / 2.0)
"""Standard error of a median over that of a mean, of many normal windows."""


@dataclass(frozen=True)
class MeasuredPoint:
    """A measured value of one quantity, and what is predicted of it.

    Attributes
    ----------
    source
        Which profile of a live engine, or `published`.
    engine
        Its version.
    start
        Points with the same were measured on one start of the server, or are one series of a build.
    at
        What was asked of it: points that differ in the engine only have the same.
    measured
        Logarithm.
    own_noise, start_noise
        Relative standard errors of the measurement: by itself, and what one start has in common.
    clear_from
        A measured ratio further than this from 1 is clear, as far as this point goes.
    predicted
        Logarithm.
    """

    source: str
    quantity: str
    engine: str
    start: str
    at: str
    measured: float
    own_noise: float
    start_noise: float
    clear_from: float
    predicted: float
    side: RatioSide

    @property
    def host(self) -> str:
        """The host it was measured on."""
        return self.side.system.host.base_id


@dataclass(frozen=True)
class MeasuredPair:
    """A measured ratio beside the predicted one; all on the log scale.

    Attributes
    ----------
    known
        Half width of its 95% interval without the model's error.
    unshared
        Half width of the model's errors in it if the two have nothing in common.
    noise
        Half width of the 95% interval of the measured ratio.
    clear
        Whether the measured ratio is clearly not 1.
    """

    kind: PairKind
    source: str
    quantity: str
    hosts: frozenset[str]
    engines: frozenset[str]
    same_point: bool
    measured: float
    predicted: float
    known: float
    unshared: float
    noise: float
    clear: bool

    def half(self, factor: float) -> float:
        """Half width of the interval of the predicted ratio."""
        return math.hypot(self.known, factor * self.unshared)

    @property
    def error(self) -> float:
        """Predicted less measured."""
        return self.predicted - self.measured

    @property
    def sign(self) -> str:
        """What the verdict on the ratio says, beside what was measured."""
        ratio = ratio_interval(math.exp(self.predicted), self.half(UNSHARED[self.kind]))
        verdict = ratio_verdict(ratio)
        if verdict == NO_CLEAR_DIFFERENCE:
            return verdict
        return "right" if (verdict == "higher") == (self.measured > 0.0) else "wrong"


def measure(asked: Asked) -> Files:
    """Predict all points, and find how far ratios are off."""
    points = [*_live_points(asked), *_published_points(asked)]
    asked.progress(f"comparing pairs of {len(points)} points")
    return {ARTEFACT: json_text(summary(list(pairs_of(points))))}


def _live_points(asked: Asked) -> Iterator[MeasuredPoint]:
    """Engines of every generation, driven by benchmark tools."""
    for folder in sorted(generations.FOLDER.glob("*/*")):
        bundle = Bundle.load(folder / generations.CALIBRATION)
        for label, tool, points, predictions in generations.predictions_of(folder, bundle, asked):
            for point, prediction in zip(points, predictions, strict=True):
                windows = {
                    SERVER_CPU: [r.server_cpu_ns_per_request / 1e3 for r in point.repetitions],
                    "throughput_rps": [r.throughput_rps for r in point.repetitions],
                }
                start = prediction.system.host.variations()["start"].best
                for name, values in windows.items():
                    logs = np.log(values)
                    error = float(logs.std(ddof=1)) / math.sqrt(len(logs))
                    yield MeasuredPoint(
                        source=label,
                        quantity=name,
                        engine=folder.name,
                        start=f"{folder.name} {tool}",
                        at=f"{tool} {point.given.label()}",
                        measured=float(np.median(logs)),
                        own_noise=_OF_A_MEDIAN * error,
                        start_noise=start,
                        clear_from=2.0 * repeat(values),
                        predicted=math.log(prediction.mean(name)),
                        side=RatioSide.of(prediction, name),
                    )


def _published_points(asked: Asked) -> Iterator[MeasuredPoint]:
    """Held-out points of published datasets."""
    name = "throughput_rps"
    for dataset in predicted_datasets():
        asked.progress(f"predicting {dataset}")
        read = read_node_dataset(dataset)
        held_out = [pair for pair in read.paired if pair[0].role == "validation"]
        cases = [(Case(given=c.given, scenario=c.scenario), s) for c, s in held_out]
        for (case, system), prediction in zip(held_out, predict_cases(cases), strict=True):
            noise: Noise = case.noise
            asked_for = case.scenario.model_dump_json(
                exclude={"engine", "engine_version", "prefetch_batch"}
            )
            yield MeasuredPoint(
                source=PUBLISHED,
                quantity=name,
                engine=system.engine.id,
                start=f"{dataset} {system.engine.id}",
                at=asked_for,
                measured=math.log(case.observed[name]),
                own_noise=math.hypot(
                    noise.within_series, math.sqrt(1.0 - SHARED) * noise.between_series
                ),
                start_noise=math.sqrt(SHARED) * noise.between_series,
                clear_from=2.0 * noise.standard_error,
                predicted=math.log(prediction.mean(name)),
                side=RatioSide.of(prediction, name),
            )


def pairs_of(points: Sequence[MeasuredPoint]) -> Iterator[MeasuredPair]:
    """Pairs of one source and quantity: all that differ in the engine only, a sample of others."""
    random = np.random.default_rng(1)
    groups: dict[tuple[str, str], list[MeasuredPoint]] = {}
    for point in points:
        groups.setdefault((point.source, point.quantity), []).append(point)
    for (source, _), own in groups.items():
        if source == PUBLISHED:
            yield from (_pair(first, second) for first, second in combinations(own, 2))
            continue
        alike: dict[tuple[str, str], list[MeasuredPoint]] = {}
        for point in own:
            alike.setdefault((point.host, point.at), []).append(point)
        for same in alike.values():
            yield from (_pair(first, second) for first, second in combinations(same, 2))
        by_host: dict[str, list[MeasuredPoint]] = {}
        for point in own:
            by_host.setdefault(point.host, []).append(point)
        for candidates in (*by_host.values(), own):
            for first, second in random.choice(len(candidates), (_SAMPLE, 2)):
                one, other = candidates[first], candidates[second]
                if one.at != other.at:
                    yield _pair(one, other)


def _pair(first: MeasuredPoint, second: MeasuredPoint) -> MeasuredPair:
    if second.engine == generations.REFERENCE:
        first, second = second, first
    parts = ratio_parts(first.side, second.side)
    kind = pair_kind(first.side, second.side)
    noise = math.hypot(first.own_noise, second.own_noise)
    if (first.host, first.start) != (second.host, second.start):
        noise = math.hypot(noise, first.start_noise, second.start_noise)
    measured = second.measured - first.measured
    least = max(LEAST_STEP, math.hypot(first.clear_from, second.clear_from))
    return MeasuredPair(
        kind=kind,
        source=first.source,
        quantity=first.quantity,
        hosts=frozenset((first.host, second.host)),
        engines=frozenset((first.engine, second.engine)),
        same_point=first.at == second.at,
        measured=measured,
        predicted=second.predicted - first.predicted,
        known=math.hypot(parts.chance, parts.parameters),
        unshared=parts.model / UNSHARED[kind],
        noise=_Z95 * noise,
        clear=abs(math.expm1(measured)) > least,
    )


# --- what the artefact says -------------------------------------------------------------------


def summary(pairs: Sequence[MeasuredPair]) -> dict[str, Any]:
    """The artefact: by kind what is not shared and how many ratios are inside; signs by source."""
    kinds = {}
    for kind in KINDS:
        own = [pair for pair in pairs if pair.kind == kind]
        if own:
            kinds[kind] = _kind_summary(own, UNSHARED[kind])
    return {"kinds": kinds, "signs": _signs(pairs)}


def _kind_summary(pairs: Sequence[MeasuredPair], used: float) -> dict[str, Any]:
    by_source = {
        source: [pair for pair in pairs if pair.source == source]
        for source in dict.fromkeys(pair.source for pair in pairs)
    }
    return {
        "pairs": len(pairs),
        "unshared": unshared(pairs),
        "used": used,
        "sources": {
            source: {
                "pairs": len(own),
                "inside": _short(inside(own, used)),
                "half": _short(float(np.median([pair.half(used) for pair in own]))),
                "half_of_noise": _short(float(np.median([pair.noise for pair in own]))),
            }
            for source, own in by_source.items()
        },
        "left_out": {
            "host": _left_out(pairs, lambda pair: pair.hosts),
            "engine": _left_out(pairs, lambda pair: pair.engines),
        },
    }


def inside(pairs: Sequence[MeasuredPair], factor: float) -> float:
    """Share of measured ratios in the intervals of prediction and measurement together."""
    known = np.array([math.hypot(pair.known, pair.noise) for pair in pairs])
    modelled = factor * np.array([pair.unshared for pair in pairs])
    errors = np.abs([pair.error for pair in pairs])
    return float(np.mean(errors <= np.hypot(known, modelled)))


def unshared(pairs: Sequence[MeasuredPair]) -> float:
    """The least factor with which `LEVEL` of the measured ratios are inside.

    That is so of live pairs and of published ones, however many there are of either.
    """
    live = [pair for pair in pairs if pair.source != PUBLISHED]
    published = [pair for pair in pairs if pair.source == PUBLISHED]
    needed = [
        np.quantile(_factors(own), LEVEL, method="higher") for own in (live, published) if own
    ]
    return math.ceil(100.0 * max(needed)) / 100.0


def _factors(pairs: Sequence[MeasuredPair]) -> np.ndarray:
    """(pairs,) the least factor with which each is inside."""
    known = np.array([pair.known**2 + pair.noise**2 for pair in pairs])
    modelled = np.array([pair.unshared for pair in pairs])
    beyond = np.maximum(0.0, np.square([pair.error for pair in pairs]) - known)
    with np.errstate(divide="ignore"):
        found: np.ndarray = np.where(
            beyond > 0.0, np.sqrt(beyond) / np.maximum(modelled, 1e-12), 0.0
        )
    return found


def _left_out(
    pairs: Sequence[MeasuredPair], groups: Callable[[MeasuredPair], frozenset[str]]
) -> dict[str, Any]:
    """How many ratios are inside where the factor is found without their host or engine."""
    found, counted, covered = {}, 0, 0.0
    for name in sorted(set().union(*map(groups, pairs))):
        own = [pair for pair in pairs if name in groups(pair)]
        others = [pair for pair in pairs if name not in groups(pair)]
        if not others:
            continue
        factor = unshared(others)
        found[name] = {"pairs": len(own), "unshared": factor, "inside": _short(inside(own, factor))}
        counted += len(own)
        covered += len(own) * inside(own, factor)
    return {"inside": _short(covered / counted) if counted else None, "groups": found}


def _signs(pairs: Sequence[MeasuredPair]) -> list[dict[str, Any]]:
    """Verdicts on ratios that are clearly not 1: settings, versions and hosts at the same load."""
    found = []
    for source in dict.fromkeys(pair.source for pair in pairs):
        for kind in KINDS:
            clear = [
                pair
                for pair in pairs
                if pair.clear and (pair.source, pair.kind) == (source, kind) and _comparable(pair)
            ]
            if clear:
                signs = [pair.sign for pair in clear]
                counted = {w: signs.count(w) for w in ("right", "wrong", NO_CLEAR_DIFFERENCE)}
                found.append({"source": source, "kind": kind, "clear": len(clear), **counted})
    return found


def _comparable(pair: MeasuredPair) -> bool:
    """Whether a ratio is one that somebody decides by: not of two loads.

    Of live engines those of `docs/generations.md`: CPU time over that of its reference.
    """
    if pair.source == PUBLISHED:
        return pair.kind in ("settings", "versions", "families")
    return pair.same_point and pair.quantity == SERVER_CPU and generations.REFERENCE in pair.engines


def _short(value: float) -> float:
    return float(f"{value:.4g}")


# --- the section of docs/scores.md ------------------------------------------------------------


def ratios_section(out: Path) -> list[str]:
    """How far ratios of two predictions are off; nothing before the study ran."""
    path = out / ARTEFACT.name
    if not path.exists():
        return []
    result = json.loads(path.read_text(encoding="utf-8"))
    return [
        "## Ratios of two predictions",
        "",
        "What `compare`, `recommend`, `plan` and thread plans say of two predictions goes by their"
        " ratio. Both share draws and random streams; *not shared* is the standard error of the"
        " model that is left in the ratio, over that of two predictions with nothing in common"
        " (`UNSHARED` in `models/advice/paired.py`, found by `make evidence STUDY=ratios`). Pairs"
        " are of engines of every generation at random points ([generations.md](generations.md)),"
        " by CPU time and by throughput, and of held-out points of published datasets. Windows"
        " and starts of the server make a measured ratio uncertain too; *inside* is the share of"
        " measured ratios in 95% intervals of both together. *Without its host* and *without its"
        " engine* are those pairs whose number was found from pairs of others.",
        "",
        *_kind_table(result["kinds"]),
        "",
        "Half of these intervals in the median, on the log scale, and that of the measured ratio:",
        "",
        *_source_table(result["kinds"]),
        "",
        "Measured ratios that clearly differ from 1, and the verdict on the predicted one. Of live"
        " engines these are the clear steps of [generations.md](generations.md), of datasets pairs"
        " of one host and load.",
        "",
        *_sign_table(result["signs"]),
    ]


def _kind_table(kinds: dict[str, Any]) -> list[str]:
    rows = []
    for kind, found in kinds.items():
        left_out = [found["left_out"][group]["inside"] for group in ("host", "engine")]
        sources = found["sources"].values()
        pairs = sum(each["pairs"] for each in sources)
        share = sum(each["pairs"] * each["inside"] for each in sources) / pairs
        cells = [f"{x:.1%}" if x is not None else "–" for x in (share, *left_out)]
        rows.append([kind, f"{found['pairs']:,}", f"{found['unshared']:.2f}", *cells])
    header = ["pairs that differ in", ">pairs", ">not shared", ">inside"]
    return table([*header, ">without its host", ">without its engine"], rows)


def _source_table(kinds: dict[str, Any]) -> list[str]:
    rows = [
        [
            *(kind, source, f"{each['pairs']:,}", f"{each['inside']:.1%}"),
            *(f"±{each['half']:.0%}", f"±{each['half_of_noise']:.0%}"),
        ]
        for kind, found in kinds.items()
        for source, each in found["sources"].items()
    ]
    header = ["pairs that differ in", "profiles", ">pairs", ">inside", ">predicted", ">measured"]
    return table(header, rows)


def _sign_table(signs: Sequence[dict[str, Any]]) -> list[str]:
    rows = [[each["source"], each["kind"], *(str(each[name]) for name in _SIGNS)] for each in signs]
    return table(["profiles", "pairs that differ in", *(f">{name}" for name in _SIGNS)], rows)


_SIGNS = ("clear", "right", "wrong", NO_CLEAR_DIFFERENCE)
