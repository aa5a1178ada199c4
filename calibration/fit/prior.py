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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files

import numpy as np
import yaml

from forecache.hwprofiles.files import parse
from forecache.hwprofiles.quantity import Quantity
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.prediction.system import UNCHECKED_DISCREPANCY

from ..bundle.bundle import Bundle
from .conflict import Conflict, conflict_of
from .regression import Posterior
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

_Z95 = 1.959963984540054


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
    return math.log(leaf.high / leaf.low) / (2 * _Z95)


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
        known |= priors_of(rules)
    return np.array(
        [prior_error(known[n]) if n in known else HOST_PRIOR_ERRORS[n] for n in WorkModel.names]
    )


def rests_on_prior(added: float) -> str:
    """What to say of a number of which data added less than half of what is known."""
    if added >= 0.5:
        return ""
    return f"; these data tell {max(0.0, added):.0%} of what is known of it"


def engine_with_priors(name: str, version: str) -> EngineProfile:
    """The rules of an engine version, with `priors.yaml` in place of what a fit finds.

    A shipped profile may itself have been fitted; its numbers would count twice.
    """
    rules = load_engine(name, version)
    return rules.model_copy(update={"work": {**rules.work, **priors_of(rules)}})


def priors_of(rules: EngineProfile) -> dict[str, Quantity]:
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
    return conflict_of(
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
    general, errors = {**priors(), **priors_of(known)}, prior_errors(known)
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
    rules = known.model_copy(update={"work": {**known.work, **priors_of(known)}})
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


def known_of(bundle: Bundle) -> EngineProfile | None:
    """The shipped profile of a bundle's engine, unless it rests on that very bundle."""
    engine = bundle.manifest.engine
    profile = load_engine(engine.name, engine.version)
    rests_on = profile.observed
    if rests_on is None:
        return None
    same = (bundle.path.name, bundle.manifest.created[:10])
    return None if (rests_on.bundle, rests_on.date) == same else profile
