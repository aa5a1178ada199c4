"""Is what a fit says of its own certainty true?

A fit reports Laplace's approximation: a normal distribution at the best fit. It is held against
samples of the posterior itself, which assume no shape, and against truths that are known because
the observations were made from them.
"""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from evidence.counts.shipped import BUNDLES as SHIPPED_BUNDLES
from evidence.counts.shipped import RELATIVES, known_from
from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions
from forecache.calibration.fit.fit import POINT_ERROR, fit_bundle
from forecache.calibration.fit.identifiability import expected_counts
from forecache.calibration.fit.prior import engine_with_priors, prior_errors
from forecache.calibration.fit.regression import Posterior, Problem, fit
from forecache.calibration.fit.work_model import WorkModel, work_model
from forecache.calibration.observe.design import design_points
from forecache.hwprofiles import load_host
from forecache.models.engines.profile import load_engine

from .check import Check, Finding, within_range
from .ensemble import sample_posterior

SEED = 20_261_120
STEPS = 3_000
EXPERIMENTS = 400
IDENTIFIED = 0.5
"""Prior weight below which a factor counts as told by the data."""
MEDIAN_SHIFT = 0.45
"""Standard errors by which the most probable values may lie off the means of samples: a third of
one with Memcached, whose two commands and user_ipc make up for each other in an uneven way, and
these samples know a mean to a tenth."""

_Z90 = 1.6448536269514722
BUNDLES = Path(__file__).parent.parent / SHIPPED_BUNDLES

# One spans all that is fitted; the other is what a hurried user observes: one small data set.
WELL = [
    given
    for given in design_points("full")
    if given.role == "fit" and given.arrival == "closed_loop" and not given.think_us
]
BADLY = [Conditions(command="get", pipeline=pipeline) for pipeline in (1, 2, 4, 8, 16, 32, 64, 128)]


@dataclass(frozen=True)
class _Synthetic:
    """Observations to be made of an engine whose factors are known."""

    name: str
    model: WorkModel
    errors: np.ndarray

    def drawn(self, number: int) -> tuple[np.ndarray, Problem]:
        """Factors drawn from their priors, and what observing them once says."""
        random = np.random.default_rng([SEED, number])
        widths = prior_errors()
        truth = widths * random.standard_normal(len(widths))
        noise = self.errors * random.standard_normal(len(self.errors))
        observed = self.model.log_cpu_ns(truth) + noise
        names = list(self.model.names)
        return truth, Problem(names, widths, self.model.log_cpu_ns, observed, self.errors)


def _synthetic(name: str, points: list[Conditions]) -> _Synthetic:
    engine = engine_with_priors("valkey", "9.1")
    counted = [(given, expected_counts(given)) for given in points]
    model = work_model(counted, engine, load_host("graviton3-c7g.4xlarge").speed())
    return _Synthetic(name, model, np.full(len(points), POINT_ERROR))


def _both() -> list[_Synthetic]:
    return [_synthetic("well identified", WELL), _synthetic("badly identified", BADLY)]


def _against_samples(name: str, posterior: Posterior) -> list[Finding]:
    samples = sample_posterior(posterior.problem, start=posterior.logs, seed=SEED, steps=STEPS)
    told = posterior.prior_weight < IDENTIFIED
    errors = np.sqrt(np.diag(posterior.covariance))[told]
    ratios = errors / samples.std(axis=0)[told]
    shifts = np.abs(posterior.logs[told] - samples.mean(axis=0)[told]) / errors
    worst = ratios[np.argmax(np.abs(np.log(ratios)))]
    about = f"{name}, {told.sum()} factors"
    # Costs are positive and add up: a small one can vanish, and then the tail of its factor, and of
    # those that make up for it, is longer than a normal one.
    return [
        within_range(f"{about}: median error", 1.0, float(np.median(ratios)), 0.85, 1.15),
        within_range(f"{about}: worst error", 1.0, float(worst), 0.5, 1.5),
        within_range(f"{about}: median shift", 0.0, float(np.median(shifts)), 0.0, MEDIAN_SHIFT),
        within_range(f"{about}: worst shift", 0.0, float(shifts.max()), 0.0, 0.9),
    ]


def of_laplace(share: float = 1.0) -> list[Finding]:
    """Laplace's standard errors over those of samples, and how far its means lie from theirs.

    For factors that data tell; shifts are in standard errors. A share of the shipped engines stands
    for all of them, the first and the last by name among them.
    """
    found = []
    for synthetic in _both():
        found += _against_samples(synthetic.name, fit(synthetic.drawn(0)[1]))
    shipped = sorted(BUNDLES.glob("*/"))
    some = np.linspace(0, len(shipped) - 1, max(2, math.ceil(share * len(shipped)))).round()
    for folder in (shipped[int(n)] for n in some):
        found += _against_samples(folder.name, _shipped_fit(folder))
    return found


def _shipped_fit(folder: Path) -> Posterior:
    """The fit of a shipped profile, which may begin with that of a relative."""
    known = None
    if folder.name in RELATIVES:
        known = known_from(load_engine(RELATIVES[folder.name]), load_engine(folder.name))
    return fit_bundle(Bundle.load(folder), known=known).posterior


def of_intervals() -> list[Finding]:
    """How often 90% intervals of factors that data tell hold the truth."""
    found = []
    for synthetic in _both():
        held: list[bool] = []
        for number in range(EXPERIMENTS):
            truth, problem = synthetic.drawn(number)
            posterior = fit(problem)
            told = posterior.prior_weight < IDENTIFIED
            errors = np.sqrt(np.diag(posterior.covariance))
            held += list((np.abs(posterior.logs - truth) <= _Z90 * errors)[told])
        subject = f"{synthetic.name}, {EXPERIMENTS} data sets: 90% intervals"
        found.append(within_range(subject, 0.9, float(np.mean(held)), 0.85, 0.95))
    return found


def check(share: float = 1.0) -> Check:
    """The check against samples with a share of the shipped engines."""
    says = "a fit's standard errors against samples of the posterior"
    return Check("posterior", says, partial(of_laplace, share))


CHECKS = [
    check(),
    Check("posterior-coverage", "90% intervals of fitted factors", of_intervals),
]
