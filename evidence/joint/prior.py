"""What was known of the numbers before the fit, and of how measurements err: covariances.

Numbers are told in their own standard errors (`points.py`), so a covariance here is a correlation.
Most are independent. What the catalogue assumes of kernels was scaled from one host to the others,
and a host's calls share its kernel, its mitigations and its cores; what it assumes of instructions
per cycle is one proportion. Work of engines was fitted on x86 builds and is asked for elsewhere,
and engines that come from Redis share much of their code: what a compiler or an architecture
changes, it changes in all of them. Errors of such assumptions are partly common (shares assumed).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forecache.hwprofiles.parts import Kernel
from forecache.models.node.policies import POLICIES

from .points import JointPoint

FROM_REDIS = frozenset(POLICIES) - {"locked_threads"}
"""Threading policies of engines that come from Redis; Memcached does not."""

OF_A_FIELD = 0.25
"""Share of a kernel cost's variance that is the same on all hosts."""
OF_A_HOST = 0.25
"""Share of it that is common to all kernel costs of a host."""
OF_ALL_IPC = 0.5
"""Share of the variance of `user_ipc` that is the same on all hosts."""

OF_ALL_ENGINES = 0.5
"""Share of the variance of a number of an engine's work that is the same in all that come from
Redis."""

SHARED = 0.5
"""Share of an error's variance that points of one series have in common: of the machine's day,
those of one campaign, of the model, those of one dataset and command. The rest is each point's."""


def prior_covariance(names: Sequence[str]) -> np.ndarray:
    """(names, names) of numbers told in standard errors."""
    split = [name.rpartition(".") for name in names]
    kernel = np.array([field in Kernel.model_fields for _, _, field in split])
    ipc = np.array([field == "user_ipc" for _, _, field in split])
    owners = np.array([owner for owner, _, _ in split])
    fields = np.array([field for _, _, field in split])
    covariance = np.eye(len(names))
    same_field = fields[:, None] == fields[None, :]
    same_owner = owners[:, None] == owners[None, :]
    other = ~np.eye(len(names), dtype=bool)
    both_kernel = kernel[:, None] & kernel[None, :] & other
    covariance[both_kernel & same_field] += OF_A_FIELD
    covariance[both_kernel & same_owner] += OF_A_HOST
    covariance[ipc[:, None] & ipc[None, :] & other] += OF_ALL_IPC
    redis = np.isin(owners, sorted(FROM_REDIS))
    covariance[redis[:, None] & redis[None, :] & same_field & other] += OF_ALL_ENGINES
    return covariance


def error_covariance(points: Sequence[JointPoint], discrepancy: float) -> np.ndarray:
    """(points, points) covariance of measured less predicted logarithms at the right numbers.

    Parameters
    ----------
    discrepancy
        Relative standard error of the model.
    """
    within = np.array([point.case.noise.within_series for point in points])
    between = np.array([point.case.noise.between_series for point in points])
    campaigns = np.array([point.campaign for point in points])
    series = np.array([f"{point.dataset} {point.command}" for point in points])
    eye = np.eye(len(points))
    alike = SHARED * (campaigns[:, None] == campaigns[None, :]) + (1.0 - SHARED) * eye
    modelled = SHARED * (series[:, None] == series[None, :]) + (1.0 - SHARED) * eye
    noise: np.ndarray = np.diag(within**2) + alike * np.outer(between, between)
    return noise + modelled * discrepancy**2
