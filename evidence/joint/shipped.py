"""What a joint fit says of each host, as the file beside its profile."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from forecache.calibration.validate.dataset import read_dataset
from forecache.hwprofiles import load_host
from forecache.hwprofiles.completion import SOURCE, Learned, LearnedTogether, LearnedWork
from forecache.hwprofiles.files import dump_yaml
from forecache.hwprofiles.quantity import Quantity, Source, kind_of_fit
from forecache.hwprofiles.schema import HostProfile
from forecache.models.node.policies import POLICIES
from forecache.models.prediction.uncertainty import host_ranges, moved

from .fit import JointFit
from .points import OF_A_TENANT

HEADER = (
    "# Written by `make evidence STUDY=learned-hosts`; profile.yaml says what was known before.\n"
)

_KEPT_AS_THEY_ARE = frozenset({"clock_ghz", *OF_A_TENANT})
"""Numbers that belong to an instance or to how a machine was run, and not to its host."""

_LEAST_CORRELATION = 0.01
"""Smaller ones are left out. A point's throughput is a sum of many numbers, each of which it hardly
tells: without correlations below 0.02, Valkey 9.1 on Graviton3 would seem known 13% less well."""
_Z95 = 1.959963984540054


def learned_files(fit: JointFit, *, discrepancies: tuple[float, float]) -> dict[str, str]:
    """Contents of `learned.yaml` by id of host, for every host that has points.

    Parameters
    ----------
    discrepancies
        Relative standard errors of the model: of loads of GET and SET alone, and of others.
    """
    hosts = dict.fromkeys(point.host for point in fit.points)
    return {
        host: HEADER + dump_yaml(plain_learned(learned_of(fit, host, discrepancies)))
        for host in hosts
    }


def plain_learned(learned: Learned) -> dict[str, object]:
    """The file as plain data."""
    return learned.model_dump(mode="json", exclude_none=True)


def learned_of(fit: JointFit, host_id: str, discrepancies: tuple[float, float]) -> Learned:
    """What is known of a host, and of engines on it, after the fit."""
    host = load_host(host_id, fitted=False)
    column = {name: number for number, name in enumerate(fit.names)}
    errors = np.sqrt(np.diag(fit.covariance))
    fields = [name for name in sorted(_fittable(host)) if f"{host_id}.{name}" in column]
    work = [name for name in fit.names if name.rpartition(".")[0] in POLICIES]
    rows = [column[f"{host_id}.{name}"] for name in fields] + [column[name] for name in work]
    block = fit.covariance[np.ix_(rows, rows)]
    leaves = {}
    for name in fields:
        number = column[f"{host_id}.{name}"]
        path = host.field_paths[name]
        leaves[path] = _leaf(host, name, float(fit.mean[number]), float(errors[number]))
    posterior = LearnedTogether(
        discrepancy=_rounded(discrepancies[0]),
        commands_discrepancy=_rounded(discrepancies[1]),
        work={
            name: LearnedWork(
                mean=round(float(fit.mean[column[name]]), 3),
                error=round(float(errors[column[name]]), 3),
            )
            for name in work
        },
        correlation=_correlation([*fields, *work], block),
    )
    return Learned(source=_source(fit), leaves=leaves, posterior=posterior)


def _fittable(host: HostProfile) -> list[str]:
    """Fields with a range of the host itself, told by one leaf that no formula gives."""
    leaves = dict(host.quantities())
    paths = host.field_paths
    return [
        name
        for name in host_ranges(host)
        if name in paths
        and leaves[paths[name]].kind != "derived"
        and name not in _KEPT_AS_THEY_ARE
        and not name.startswith("network_")
    ]


def _leaf(host: HostProfile, name: str, mean: float, error: float) -> Quantity:
    before = dict(host.quantities())[host.field_paths[name]]
    bounds = host_ranges(host)[name]
    low, value, high = (moved(bounds, mean + z * error) for z in (-_Z95, 0.0, _Z95))
    added = max(0.0, 1.0 - error**2)
    called = f"{before.kind}, {before.source}" if before.source else before.kind
    return Quantity(
        value=_rounded(value),
        unit=before.unit,
        kind=kind_of_fit(added),
        source=SOURCE,
        low=_rounded(low),
        high=_rounded(high),
        method=(
            f"fitted together with all numbers that measured loads depend on; the data add "
            f"{added:.0%} of what is known. Before: {bounds[1]:.4g} ({bounds[0]:.4g} to "
            f"{bounds[2]:.4g}), {called}"
        ),
    )


def _correlation(names: Sequence[str], covariance: np.ndarray) -> dict[str, dict[str, float]]:
    """By pair, each once; no server has work of two threading policies."""
    policies = [name.rpartition(".")[0] for name in names]
    errors = np.sqrt(np.diag(covariance))
    matrix = covariance / np.outer(errors, errors)
    return {
        name: {
            other: round(float(np.clip(matrix[row, row + 1 + offset], -1.0, 1.0)), 3)
            for offset, other in enumerate(names[row + 1 :])
            if abs(matrix[row, row + 1 + offset]) >= _LEAST_CORRELATION
            and (not policies[row] or policies[row + 1 + offset] in ("", policies[row]))
        }
        for row, name in enumerate(names)
    }


def _source(fit: JointFit) -> Source:
    points: dict[str, list[int]] = {}
    for point in fit.points:
        points.setdefault(point.dataset, []).append(point.case.index)
    read = [source.accessed for name in points for source in read_dataset(name)[0].sources]
    return Source(
        title=f"Joint fit to {len(fit.points)} calibration points of {len(points)} datasets",
        file="calibration/validate/datasets/",
        accessed=max(str(each) for each in read if each is not None),
        points={name: sorted(own) for name, own in sorted(points.items())},
    )


def _rounded(value: float) -> float:
    digits = 3 - math.floor(math.log10(abs(value))) if value else 0
    return round(value, digits)
