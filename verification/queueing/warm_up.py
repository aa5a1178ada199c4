"""MSER-5 against transients whose end is known."""

import math

import numpy as np

from ..check import Check, Finding, within_range
from .mser import mser5, mser5_across
from .queues import EXPONENTIAL, open_queue

SEED = 20_250_103
SERIES = 400
LENGTH = 5_000
STEP_END = 600


def step() -> list[Finding]:
    """Noise that starts three standard deviations too high and drops after 600 observations."""
    cuts, raw, kept, accepted = [], [], [], 0
    for number in range(SERIES):
        series = np.random.default_rng([SEED, number]).normal(size=LENGTH)
        series[:STEP_END] += 3.0
        warm_up = mser5(series)
        accepted += warm_up.accepted
        cuts.append(warm_up.cut)
        raw.append(series.mean())
        kept.append(series[warm_up.cut :].mean())
    return [
        within_range("step of 600: median cut", 600.0, float(np.median(cuts)), 600.0, 660.0),
        within_range("step of 600: smallest cut", 600.0, float(min(cuts)), 595.0, math.inf),
        within_range("step of 600: accepted", 1.0, accepted / SERIES, 0.99, 1.0),
        within_range("step: bias left / bias before", 0.0, _ratio(kept, raw, 0.0), 0.0, 0.05),
    ]


def decay() -> list[Finding]:
    """Correlated noise on an exponential decay with a time constant of 200 observations."""
    raw, kept, accepted = [], [], 0
    for number in range(SERIES):
        rng = np.random.default_rng([SEED + 1, number])
        noise = rng.normal(size=LENGTH)
        for index in range(1, LENGTH):
            noise[index] += 0.5 * noise[index - 1]
        series = noise + 10.0 * np.exp(-np.arange(LENGTH) / 200.0)
        warm_up = mser5(series)
        accepted += warm_up.accepted
        raw.append(series.mean())
        kept.append(series[warm_up.cut :].mean())
    return [
        within_range("decay: accepted", 1.0, accepted / SERIES, 0.99, 1.0),
        within_range("decay: bias left / bias before", 0.0, _ratio(kept, raw, 0.0), 0.0, 0.1),
    ]


def steady() -> list[Finding]:
    """A series without a transient loses little."""
    cuts = [
        mser5(np.random.default_rng([SEED + 2, number]).normal(size=LENGTH)).cut
        for number in range(SERIES)
    ]
    share = float(np.median(cuts)) / LENGTH
    return [within_range("steady noise: median share cut", 0.0, share, 0.0, 0.1)]


def empty_queue() -> list[Finding]:
    """M/M/1 at load 0.9 starts empty, and its series is as correlated as they come.

    One run at a time, the cut itself biases the mean: it likes to fall before a stretch that is
    low by chance. Across the average of twenty runs it doesn't.
    """
    truth_ps = 1e6 / (1.0 - 0.9)
    customers, group, groups = 20_000, 20, 75
    completions_ps = np.zeros(customers, np.int64)
    sojourns_ps = np.zeros((group, customers), np.int64)
    alone, together = [], []
    for number in range(groups):
        for member in range(group):
            open_queue(
                *(SEED, number * group + member, customers, 1, 1e6 / 0.9, 1e6, EXPONENTIAL, 1.0),
                *(completions_ps, sojourns_ps[member]),
            )
            cut = mser5(sojourns_ps[member]).cut
            alone.append(sojourns_ps[member, cut:].mean())
        cut = mser5_across(sojourns_ps).cut
        together.append(sojourns_ps[:, cut:].mean())
    bias_alone = abs(float(np.mean(alone)) - truth_ps) / truth_ps
    bias_together = abs(float(np.mean(together)) - truth_ps) / truth_ps
    return [
        within_range("M/M/1, cut across 20 runs: bias / mean", 0.0, bias_together, 0.0, 0.015),
        within_range(
            "M/M/1: that bias / bias of single cuts", 0.0, bias_together / bias_alone, 0.0, 0.5
        ),
    ]


def _ratio(kept: list[float], raw: list[float], truth: float) -> float:
    return abs(float(np.mean(kept)) - truth) / abs(float(np.mean(raw)) - truth)


def mser() -> list[Finding]:
    """All four."""
    return step() + decay() + steady() + empty_queue()


CHECKS = [Check("mser5", "warm-up detection against known transients", mser)]
