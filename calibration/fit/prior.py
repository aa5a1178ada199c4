"""What is known of an engine's work before a bundle is fitted.

Of an unobserved engine, or where a fit has to rest on its bundle alone, that are the ranges of
`priors.yaml`. Otherwise it is what an earlier fit left: its profile's work with the covariance of
the logarithms, so that what a new observation says is added to what is known. The numbers of the
host are begun anew each time: they are the host's. So is what its micro-benchmarks miss of system
calls and of waking up: it multiplies `kernel_scale` and `wake_scale` in everything observed there,
and `engine_part` takes it off again before the engine goes to another host.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files

import numpy as np
import yaml
from scipy.stats import chi2

from forecache.hwprofiles.files import parse
from forecache.hwprofiles.quantity import Quantity, kind_of_fit
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.prediction.system import UNCHECKED_DISCREPANCY
from forecache.models.prediction.uncertainty import Z95

from ..bundle.bundle import Bundle
from .regression import Posterior
from .report import Difference
from .work_model import FILLS, HOST_NAMES, IPC, SCALES, WorkModel

HOST_PRIOR_ERRORS = {IPC: 0.35, FILLS: 1.0}
"""Standard errors of the logarithms of the host's fitted numbers around its profile's: cores differ
by a factor of four in what they retire, and neighbours change within seconds."""

HOST_SCALE_ERRORS = {"kernel_scale": 0.25, "wake_scale": 0.3}
"""Standard errors of the logarithms of what a host's system calls and wake-ups cost an engine,
relative to the host's micro-benchmarks and common to all engines there. Fitted alone, seven engines
have kernel scales of 1.13 to 1.49 on guests with Zen 3, 4 and 5, but 1.8 to 2.0 on an Intel guest;
wake scales of 1.0 to 1.3 (`evidence/generations/`, each `calibration`)."""

_WORK = [number for number, name in enumerate(WorkModel.names) if name not in HOST_NAMES]
_WORK_NAMES = [WorkModel.names[number] for number in _WORK]


@dataclass(frozen=True)
class Prior:
    """Where a fit begins.

    Attributes
    ----------
    engine
        The rules of an engine, with the middle of `priors.yaml` as its work.
    mean, covariance : (factors,), (factors, factors)
        Of the logarithms of the factors on that, by `WorkModel.names`.
    known
        The profile that an earlier fit left; None where the general ranges are all there is.
    host : (factors,)
        Variance of each logarithm that is the host's and no engine's, part of `covariance`. Zero
        where nothing is known of the engine: its part can't be told from the host's.
    """

    engine: EngineProfile
    mean: np.ndarray
    covariance: np.ndarray
    known: EngineProfile | None = None
    host: np.ndarray = field(default_factory=lambda: np.zeros(len(WorkModel.names)))

    @property
    def errors(self) -> np.ndarray:
        """(factors,) standard errors of the logarithms."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def correlation(self) -> np.ndarray:
        """(factors, factors) correlation of the logarithms."""
        return np.asarray(self.covariance / np.outer(self.errors, self.errors))

    @property
    def of_engine(self) -> np.ndarray:
        """(factors, factors) covariance without the host's part."""
        return np.asarray(self.covariance - np.diag(self.host))

    def on_another_host(self) -> Prior:
        """The same for an engine on a host whose micro-benchmarks miss other costs than before."""
        errors = [HOST_SCALE_ERRORS.get(name, 0.0) for name in WorkModel.names]
        host = np.square(errors)
        return replace(self, covariance=self.of_engine + np.diag(host), host=host)

    def wider(self, factor: float) -> Prior:
        """The same with errors of the work larger by a factor, at most those of `priors.yaml`."""
        general = prior_errors()
        host = np.array([name in HOST_NAMES for name in WorkModel.names])
        before = np.sqrt(np.diag(self.of_engine))
        wide = np.maximum(before, np.minimum(factor * before, general))
        growth = np.where(host, 1.0, wide / before)
        of_engine = self.of_engine * np.outer(growth, growth)
        return replace(self, covariance=of_engine + np.diag(self.host))

    def engine_part(self, posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
        """What a fit on one host says of the engine on any: mean and covariance of logarithms.

        With engine e ~ N(m, C), what the host adds h ~ N(0, H) and a fit of s = e + h, given s the
        mean of e is m + C (C + H)^-1 (s - m) and its covariance C - C (C + H)^-1 C; both are
        averaged over the posterior of s.

        Returns
        -------
        tuple
            (factors,) and (factors, factors), by `WorkModel.names`.
        """
        if not self.host.any():
            return posterior.logs, posterior.covariance
        gain = self.of_engine @ np.linalg.inv(self.covariance)
        mean = self.mean + gain @ (posterior.logs - self.mean)
        left = self.of_engine - gain @ self.of_engine
        covariance = left + gain @ posterior.covariance @ gain.T
        return mean, np.asarray((covariance + covariance.T) / 2.0)

    def host_errors(self, posterior: Posterior) -> np.ndarray:
        """(factors,) standard errors of what the host adds, by `WorkModel.names`."""
        host = np.diag(self.host)
        gain = host @ np.linalg.inv(self.covariance)
        covariance = host - gain @ host + gain @ posterior.covariance @ gain.T
        return np.asarray(np.sqrt(np.diag(covariance)))


@cache
def priors() -> Mapping[str, Quantity]:
    """What is believed of each number before anything was observed, from `priors.yaml`."""
    data = yaml.safe_load(files(__package__).joinpath("priors.yaml").read_text("utf-8"))
    return {
        name: parse(
            Quantity, {"kind": "assumed", **leaf}, file=f"calibration/fit/priors.yaml: {name}"
        )
        for name, leaf in data.items()
    }


def prior_error(leaf: Quantity) -> float:
    """Standard error of the logarithm of a number whose range holds it with 95%."""
    assert leaf.low is not None and leaf.high is not None  # `assumed` has a range
    return math.log(leaf.high / leaf.low) / (2 * Z95)


def is_counted(leaf: Quantity) -> bool:
    """Whether a number of an engine was counted call by call, which no fit can know better."""
    return leaf.kind == "measured"


def prior_errors(rules: EngineProfile | None = None) -> np.ndarray:
    """(factors,) standard errors of the logarithms of `WorkModel.names` around `priors.yaml`.

    Parameters
    ----------
    rules
        Of an engine: what was counted of it is known as its profile says.
    """
    known = dict(priors())
    if rules is not None:
        known |= engine_priors(rules)
    return np.array(
        [prior_error(known[n]) if n in known else HOST_PRIOR_ERRORS[n] for n in WorkModel.names]
    )


def rests_on_prior(added: float) -> str:
    """What to say of a number of which data added less than half of what is known."""
    if added >= 0.5:
        return ""
    return f"; these data tell {max(0.0, added):.0%} of what is known of it"


def fitted_quantity(
    value: float,
    error: float,
    *,
    added: float,
    unit: str,
    source: str,
    method: str,
    digits: int = 4,
    z: float = Z95,
) -> Quantity:
    """A fitted number with its 95% range.

    Parameters
    ----------
    error
        Standard error of its logarithm.
    added
        Share that data added to what is known of it.
    z
        Standard errors to either end of the range.
    """

    def rounded(number: float) -> float:
        return float(f"{number:.{digits}g}")

    return Quantity(
        value=rounded(value),
        unit=unit,
        kind=kind_of_fit(added),
        source=source,
        method=method + rests_on_prior(added),
        low=rounded(value * math.exp(-z * error)),
        high=rounded(value * math.exp(z * error)),
    )


def engine_with_priors(name: str, version: str) -> EngineProfile:
    """The rules of an engine version, with `priors.yaml` in place of what a fit finds.

    A shipped profile may itself have been fitted; its numbers would count twice.
    """
    rules = load_engine(name, version)
    return rules.model_copy(update={"work": {**rules.work, **engine_priors(rules)}})


def engine_priors(rules: EngineProfile) -> dict[str, Quantity]:
    """`priors()` without the steps that an engine doesn't have, whose work is zero.

    What was counted of the engine stands in place of the general range.
    """
    return {
        name: rules.work[name] if is_counted(rules.work[name]) else leaf
        for name, leaf in priors().items()
        if rules.work[name].best > 0.0
    }


def difference_from(prior: Prior, general: Prior, alone: Posterior) -> Conflict:
    """How far a fit that began with the general prior is from what was known."""
    work = np.ix_(_WORK, _WORK)
    return find_conflict(
        _WORK_NAMES,
        alone.logs[_WORK] - prior.mean[_WORK],
        general=general.covariance[work],
        data=alone.covariance[work],
        known=prior.covariance[work],
    )


def general_prior(bundle: Bundle) -> Prior:
    """The prior of an engine of which nothing was observed before."""
    engine = bundle.manifest.engine
    rules = engine_with_priors(engine.name, engine.version)
    errors = prior_errors(rules)
    return Prior(rules, np.zeros(len(errors)), np.diag(errors**2))


def prior_from(known: EngineProfile) -> Prior:
    """The prior that an earlier fit left, or one whose work was taken over from a relative.

    Its covariance where it has one. A profile without has ranges only; they count as independent.
    Scales relate to micro-benchmarks and a memory model of the host, so they differ from host to
    host by more than a fit on one of them can know: those of `HOST_SCALE_ERRORS` by what the host
    adds (`Prior.on_another_host`), the others by what a prediction allows for the way to another
    host.
    """
    general, errors = {**priors(), **engine_priors(known)}, prior_errors(known)
    mean = np.zeros(len(errors))
    for index, name in zip(_WORK, _WORK_NAMES, strict=True):
        leaf = known.work[name]
        if leaf.low is not None and leaf.high is not None and leaf.low > 0.0:
            mean[index] = math.log(leaf.best / general[name].best)
            # Of a relative's work no less is known than of any engine's.
            errors[index] = min(prior_error(leaf), errors[index])
    covariance = np.diag(errors**2)
    if known.covariance and known.reuse is None:
        covariance[np.ix_(_WORK, _WORK)] = marginal_covariance(known, _WORK_NAMES)
        for name in set(SCALES) - set(HOST_SCALE_ERRORS):
            index = WorkModel.names.index(name)
            covariance[index, index] += UNCHECKED_DISCREPANCY**2
    rules = known.model_copy(update={"work": {**known.work, **engine_priors(known)}})
    return Prior(rules, mean, covariance, known)


def marginal_covariance(profile: EngineProfile, names: list[str]) -> np.ndarray:
    """(names, names) covariance of the logarithms of a profile's work, whatever the host is.

    `covariance` holds where the numbers of the host of the fit do; what not knowing these adds
    follows from `host_covariance`.
    """
    within = profile.covariance or {}
    matrix = np.array([[within[a].get(b, 0.0) for b in names] for a in names])
    host = profile.host_covariance or {}
    if host:
        across = np.array([[host[h].get(name, 0.0) for h in host] for name in names])
        own = np.array([[host[a].get(b, 0.0) for b in host] for a in host])
        matrix = matrix + across @ np.linalg.solve(own, across.T)
    # Stored with four digits: what rounding took from being symmetric and positive comes back.
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return np.asarray((vectors * np.maximum(values, 1e-8)) @ vectors.T)


def earlier_profile(bundle: Bundle) -> EngineProfile | None:
    """The shipped profile of a bundle's engine, unless it rests on that very bundle."""
    engine = bundle.manifest.engine
    profile = load_engine(engine.name, engine.version)
    rests_on = profile.observed
    if rests_on is None:
        return None
    same = (bundle.path.name, bundle.manifest.created[:10])
    return None if (rests_on.bundle, rests_on.date) == same else profile


# --- whether observations disagree with what was known --------------------------------------------

# Whether observations disagree with what was known before them.
#
# Both are fits that began with the same wide prior, one to the new data alone. If both are of one
# engine, the difference of their means is normal around zero. With P, D and K the covariances of
# the prior, of the data's fit and of the known one, its covariance is D + K - D P^-1 K - K P^-1 D:
# that of two independent estimates, less what both only have from the prior. The mean of a fit that
# begins with what was known tells less: it is pulled there, and points that disagree count as
# disturbed.


CONFLICT_LEVEL = 0.95
"""Data that are further from what was known than this share of data would be disagree with it."""

_TELLS = 0.1
"""Least share that data add to what is known of a direction, or of a number, to speak of it."""

_RANK = 1e-6


@dataclass(frozen=True)
class Conflict:
    """How far data are from what was known.

    Attributes
    ----------
    chi_squared, degrees
        Squared distance in standard errors, and in how many directions the data tell anything.
    differences
        The numbers furthest off first; those within their 95% are left out.
    """

    chi_squared: float
    degrees: int
    differences: list[Difference]

    @property
    def bound(self) -> float:
        """What the squared distance stays below with `CONFLICT_LEVEL`."""
        return float(chi2.ppf(CONFLICT_LEVEL, self.degrees)) if self.degrees else 0.0

    @property
    def disagree(self) -> bool:
        """Whether the data are further off than chance explains."""
        return self.chi_squared > self.bound

    @property
    def widening(self) -> float:
        """By how much all errors of the prior have to grow to explain the distance; at least 1.

        R. T. Birge, The calculation of errors by the method of least squares, 1932.
        """
        if not self.disagree:
            return 1.0
        return math.sqrt(max(1.0, self.chi_squared / self.degrees))


def find_conflict(
    names: Sequence[str],
    difference: np.ndarray,
    *,
    general: np.ndarray,
    data: np.ndarray,
    known: np.ndarray,
) -> Conflict:
    """Compare what data say alone with what was known.

    Parameters
    ----------
    names
        Of the numbers.
    difference : (numbers,)
        Logarithms of what the data say, less those of what was known.
    general, data, known : (numbers, numbers)
        Covariances of the logarithms: of the wide prior, of the data's fit that began with it, and
        of what was known.
    """
    root = np.linalg.cholesky(general)

    def whitened(matrix: np.ndarray) -> np.ndarray:
        scaled = np.linalg.solve(root, np.linalg.solve(root, matrix).T)
        return np.asarray((scaled + scaled.T) / 2.0)

    left, before = whitened(data), whitened(known)
    # Of a direction of which the data tell nothing both have the prior.
    rests, directions = np.linalg.eigh(left)
    told = directions[:, rests < 1.0 - _TELLS]
    variance = left + before - left @ before - before @ left
    values, axes = np.linalg.eigh(told.T @ variance @ told)
    kept = values > _RANK
    along = axes[:, kept].T @ told.T @ np.linalg.solve(root, difference)
    squared = float(np.sum(along**2 / values[kept]))

    errors = np.sqrt(np.maximum(np.diag(root @ variance @ root.T), _RANK))
    shares = 1.0 - np.diag(data) / np.diag(general)
    differences = [
        Difference(name, math.exp(log), abs(float(log)) / error)
        for name, log, error, share in zip(names, difference, errors, shares, strict=True)
        if share >= _TELLS and abs(log) > Z95 * error
    ]
    differences.sort(key=lambda each: -each.standard_errors)
    return Conflict(squared, int(kept.sum()), differences)
