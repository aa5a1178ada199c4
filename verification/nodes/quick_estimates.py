"""How far quick estimates are from predictions, over random scenarios."""

import math
import statistics
import time

from forecache.models.advice.cases import load_cases
from forecache.models.advice.quick_estimate import ERROR, interruptions, quick_estimate
from forecache.models.prediction.predict import predict_cases
from forecache.sim.errors import InputError

from ..check import Check, Finding, within_range
from ..consistency.draws import Draws
from ..consistency.scenarios import POLICIES, node

SEED = 19
COUNT = 140
"""Scenarios, of every threading policy as many."""

_HELD_BY = 0.9
_MOST_CPU_MS = 100.0


def errors(count: int = COUNT) -> tuple[dict[str, list[float]], list[float]]:
    """Relative errors by metric against a run of ordinary length, and CPU time in ms, sorted.

    Two values are as far apart as the larger exceeds the smaller.
    """
    found: dict[str, list[float]] = {name: [] for name in ERROR}
    taken_ms = []
    for number in range(count):
        data = node(Draws(SEED, "node", number), POLICIES[number % len(POLICIES)])
        try:
            [(case, system)] = load_cases(data)
            if interruptions(case.scenario):
                continue  # no estimate is shown of these
            start = time.thread_time()
            quick = quick_estimate(case.scenario, system)
            taken_ms.append(1000.0 * (time.thread_time() - start))
            [prediction] = predict_cases([(case, system)], draws=0, replications=1)
        except InputError:
            continue  # not every random mix goes with every engine
        for name, far in found.items():
            estimated, predicted = getattr(quick, name), prediction.mean(name)
            if estimated and 0.0 < predicted < math.inf:
                far.append(math.exp(abs(math.log(estimated / predicted))) - 1.0)
    return {name: sorted(far) for name, far in found.items()}, sorted(taken_ms)


def _findings() -> list[Finding]:
    found, taken_ms = errors()
    findings = []
    for name, far in found.items():
        held = far[math.ceil(_HELD_BY * len(far)) - 1]
        print(
            f"  {name}: {len(far)} scenarios, error {statistics.median(far):.1%} in the median, "
            f"{held:.1%} in nine of ten, {far[-1]:.0%} at worst; said ±{ERROR[name]:.0%}",
            flush=True,
        )
        subject = f"quick estimate of {name}: error that 90% of scenarios stay below"
        findings.append(within_range(subject, 0.0, held, 0.0, ERROR[name]))
    subject = "quick estimate: CPU time in ms, median"
    findings.append(within_range(subject, 0.0, statistics.median(taken_ms), 0.0, _MOST_CPU_MS))
    return findings


CHECKS = [
    Check("quick-estimates", "quick estimates of a page against runs of ordinary length", _findings)
]
