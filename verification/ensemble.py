"""Samples of a posterior that assume nothing of its shape."""

from functools import partial

import emcee
import numpy as np

from forecache.calibration.fit.regression import Problem

WALKERS = 6
"""Walkers for each factor; an ensemble needs more than twice as many as factors."""


def sample_posterior(problem: Problem, *, start: np.ndarray, seed: int, steps: int) -> np.ndarray:
    """Sample a posterior with the affine-invariant ensemble sampler.

    J. Goodman, J. Weare, Ensemble samplers with affine invariance, 2010; D. Foreman-Mackey et al.,
    emcee: the MCMC hammer, 2013.

    Parameters
    ----------
    start : (factors,)
        Logarithms around which the walkers begin, a third of a prior's error apart.
    steps
        Of each walker. The first third is dropped.

    Returns
    -------
    numpy.ndarray
        (samples, factors) logarithms of the factors.
    """
    random = np.random.default_rng(seed)
    shape = (WALKERS * len(start), len(start))
    first = start + problem.prior_errors / 3 * random.standard_normal(shape)
    sampler = emcee.EnsembleSampler(*shape, partial(log_posterior, problem))
    state = np.random.RandomState(seed).get_state()
    sampler.run_mcmc(emcee.State(first, random_state=state), steps)
    return np.asarray(sampler.get_chain(discard=steps // 3, flat=True))


def log_posterior(problem: Problem, logs: np.ndarray) -> float:
    """Logarithm of the posterior density, up to a constant."""
    return -0.5 * float(np.sum(problem.residuals(logs) ** 2))
