"""The 99th percentile of closed loops as engines on a quiet host were measured, against intervals.

Latencies are taken in multiples of their mean, so that how fast engine and host are has no part in
it. The rule, a turn of all clients more or less, was chosen with Valkey 8.1 and Redis 7.0 in view
(and published curves); the other engines were not.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions
from forecache.calibration.fit.calibrate import calibrate
from forecache.calibration.fit.fit import fit_bundle
from forecache.calibration.fit.prior import earlier_profile
from forecache.calibration.fit.work_model import scenario_of
from forecache.models.prediction.predict import predict_cases
from forecache.models.prediction.system import System
from forecache.models.scenario.sweeps import Case
from forecache.sim.statistics import Estimate

from .check import Check, Finding, within_range

ROUND = Path(__file__).parents[1] / "evidence" / "generations" / "captured-amd-epyc-26-2-2cpus"
CHOSEN_WITH = ("redis-7.0.15", "valkey-8.1.1")
OTHER_ERROR = 0.1
"""What else is off, beside how many requests wait for a second turn."""
FEWEST_INSIDE = 0.88


def _saturates(given: Conditions) -> bool:
    return (given.arrival, given.io_threads, given.think_us) == ("closed_loop", 1, 0)


def inside(engine: Path) -> Iterator[bool]:
    """Of each closed loop of a calibration, whether the interval holds its 99th percentile."""
    bundle = Bundle.load(engine / "calibration")
    known = earlier_profile(bundle)
    profile, _ = calibrate(bundle, known=known)
    system = System(bundle.host, profile, fit_bundle(bundle, known=known).generator)
    points = [p for p in bundle.points if _saturates(p.given) and p.given.clients > 1]
    cases = [
        scenario_of(p.given, engine=profile.engine, engine_version=profile.version) for p in points
    ]
    predictions = predict_cases(
        [(Case(scenario=scenario, given={}), system) for scenario in cases],
        draws=0,
        replications=2,
    )
    for point, prediction in zip(points, predictions, strict=True):
        windows = [(w.p99_ms, w.mean_ms) for w in point.quiet_repetitions()]
        ratios = [p99 / mean for p99, mean in windows if p99 is not None and mean is not None]
        if ratios:
            p99_ms = prediction.mean("p99_ms")
            alone = Estimate(p99_ms, p99_ms * (1 - OTHER_ERROR), p99_ms * (1 + OTHER_ERROR))
            found = prediction.with_tail("p99_ms", alone)
            measured_ms = float(np.median(ratios)) * prediction.mean("mean_ms")
            yield found.low <= measured_ms <= found.high


def _findings() -> list[Finding]:
    found = {path.name: list(inside(path)) for path in sorted(ROUND.iterdir())}
    for name, each in found.items():
        print(f"  {name}: {sum(each)} of {len(each)} closed loops inside", flush=True)
    findings = []
    for what, names in (
        ("engines the rule was chosen with", set(CHOSEN_WITH)),
        ("other engines", set(found) - set(CHOSEN_WITH)),
    ):
        share = float(np.mean([held for name in names for held in found[name]]))
        findings.append(
            within_range(f"share of p99 inside, {what}", 0.95, share, FEWEST_INSIDE, 1.0)
        )
    return findings


CHECKS = [
    Check("late-clients", "p99 of closed loops, measured, against its interval", _findings),
]
