"""Answers about a node, for tests that need none in particular."""

from dataclasses import replace
from typing import Any

from forecache.models.advice.next_measurement import Gain, MeasureNext
from forecache.models.advice.node_answers import EngineSummary, HostSummary
from forecache.models.advice.recommend import Recommendation, Regret
from forecache.models.advice.sensitivity import ElementaryEffects, Indices, InputIndex, Sensitivity
from forecache.models.results.displayed import Provenance
from forecache.models.results.points import (
    MemoryBandwidth,
    NextBottleneck,
    Point,
    Stage,
    Uncertainty,
    Unmet,
)
from forecache.sim.statistics import Estimate


def about(value: float) -> Estimate:
    """An estimate known to a tenth."""
    return Estimate(value, 0.9 * value, 1.1 * value)


OVERLOAD = Unmet("load", 1.2e5, 1e5, "1/s", "overloaded: completes 100 k/s of 120 k/s")

SHORT_OF_MEMORY = Unmet(
    "memory", 18.9, 14.4, "GiB", "r7g.large leaves 14.4 GiB, which is too little"
)


def made_point(io_threads: int = 2, **changes: Any) -> Point:
    """A stable point that contradicts itself nowhere, but for the changes."""
    if changes.get("verdict") == "OVERLOADED":
        changes = {"unmet": [OVERLOAD]} | changes
    fields: dict[str, Any] = {
        "given": {"io_threads": io_threads},
        "throughput_rps": about(1e5),
        "mean_ms": about(0.2),
        "p50_ms": about(0.15),
        "p90_ms": about(0.3),
        "p99_ms": about(0.5),
        "p999_ms": about(0.9),
        "backlog_growth_rps": None,
        "main_thread_utilisation": 0.5,
        "io_thread_utilisation": [0.4],
        "load_generator_utilisation": 0.5,
        "network_utilisation": 0.5,
        "network_limits": {"bandwidth": 0.5, "packets": 0.2},
        "network_gbit_per_s": 10.0,
        "interrupt_utilisation": 0.0,
        "core_utilisation": 0.0,
        "quota_utilisation": 0.0,
        "throttled_periods": 0.0,
        "memory_bandwidth": MemoryBandwidth(2.0, 0.01, 1.02),
        "server_cpu_us_per_request": Estimate(0.5, 0.45, 0.55),
        "undisturbed_cpu_us_per_request": None,
        "spinning_cpu_us_per_request": 0.0,
        "stages": [Stage("read", "main", 0.5)],
        "active_threads": io_threads,
        "bottleneck": "none",
        "next_bottleneck": None,
        "verdict": "STABLE",
        "unmet": [],
        "limit_rps": None,
        "headroom_rps": None,
        "objective_probability": None,
        "warnings": [],
        "uncertainty": Uncertainty(0.004, 0.061, 0.07, 0.05),
        "p99_with_pauses_ms": None,
        "p999_with_pauses_ms": None,
    }
    return Point(**(fields | changes))


def made_recommendation(**changes: Any) -> Recommendation:
    """What is recommended of two settings, of which the one with 4 threads is to run."""
    regret = Regret(
        io_threads=1,
        throughput_loss=0.66,
        low=0.6,
        high=0.7,
        why_not="one thread reads every socket",
    )
    gain = Gain(
        what="profile graviton3 itself",
        commands=["forecache profile --out host.yaml"],
        needs_host=True,
        share=0.5,
        margin=0.21,
    )
    fields: dict[str, Any] = {
        "setting": {"io_threads": 4},
        "closest": None,
        "shortfall": None,
        "knee": {"io_threads": 4},
        "throughput_rps": about(734_000.0),
        "regret": [regret],
        "bottleneck": "main thread",
        "network_limits": {},
        "next_bottleneck": NextBottleneck("network", 900_000.0),
        "conf": "io-threads 4",
        "conf_file": "valkey.conf",
        "benchmark_command": "valkey-benchmark -c 650",
        "no_benchmark_command": "",
        "slo": None,
        "limit_rps": None,
        "headroom_rps": 100_000.0,
        "cost_usd_per_million_requests": None,
        "cost_note": "",
        "measure_next": MeasureNext("throughput at io-threads 4", 0.30, 0.16, [gain]),
    }
    return Recommendation(**(fields | changes))


def made_head() -> dict[str, Any]:
    """The fields that every answer about a node has."""
    return {
        "scenario": {"host": "graviton3"},
        "host": HostSummary("graviton3", "AWS Graviton3", cores=64, kind="catalogue"),
        "engine": EngineSummary("valkey-8.0", "Valkey 8.0", "8.0", "prior", None, None),
    }


PROVENANCE = Provenance("0.1.0", "3.11", "2.2", "x86_64", seed=1, date="2026-11-20")


def made_sensitivity() -> Sensitivity:
    """Uncertain numbers told by simulation, and one choice that overloads."""
    uncertain = Indices(
        basis="simulation",
        spread=0.1,
        indices=[
            InputIndex("host.tcp_send_ns", 1, Estimate(0.6, 0.5, 0.7), None),
            InputIndex("all others", 49, Estimate(0.08, 0.03, 0.17), None),
        ],
        chance=Estimate(0.0013, 0.001, 0.002),
        ranks=False,
        overloaded=0.0,
        samples=64,
        runs=1520,
        inert=46,
        screened=[ElementaryEffects("host.tcp_send_ns", 0.03, 0.02)],
    )
    choices = replace(
        uncertain,
        indices=[InputIndex("clients", 1, Estimate(0.9, 0.8, 1.0), [160, 650, 2600])],
        ranks=True,
        overloaded=0.2,
        inert=0,
    )
    return Sensitivity(
        quantity="throughput_rps",
        at={"io_threads": 4},
        uncertain=uncertain,
        surrogate_unexplained=0.047,
        choices=choices,
        measure_next=MeasureNext("throughput at io-threads 4", 0.3, 0.1, []),
    )
