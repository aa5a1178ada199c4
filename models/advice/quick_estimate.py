"""A quick estimate of a node: one brief run, for a page that must follow a hand.

It is no prediction. The run begins with all threads at work and lasts a few round trips, so that
neither the engine's decisions about threads nor the backlog of an open loop has settled, and it has
no interval. How far it is from what `simulate` answers was measured over random scenarios: `ERROR`.
"""

from __future__ import annotations

from dataclasses import dataclass

from forecache.sim.plain import Result

from ..node.setup import NodeTimes
from ..node.simulate import NodeResult, simulate_node
from ..prediction.node_setup import node_setup
from ..prediction.simulation import times_of
from ..prediction.system import System
from ..scenario.schema import Scenario
from ..scenario.workload import Arrivals
from ..step_times.inputs import NodeInputs

ERROR = {"throughput_rps": 0.1, "p99_ms": 0.2}
"""Relative error that nine of ten random scenarios stay below: 3.5% of throughput and 5.8% of p99,
rounded up, and 0.5% and 0.7% in the median (`python -m verification quick-estimates`), without
those that have `interruptions`. Open loops near their capacity are further off."""

_FIRST_PS = 500 * 10**6
"""Simulated time of the warm-up of a first run; what follows is measured for twice as long."""

_FEWEST = 1500
_ROUND_TRIPS = 3
"""Completions, and those of each client's requests, that a run measures at least."""

_MOST_EVENTS = 400_000
"""Of a run; beyond, the window stays as it is, so that an estimate takes tens of milliseconds."""

_LONGEST_PS = 10**12
_MARGIN = 1.3
_MOST_LONGER = 8.0


@dataclass(frozen=True)
class QuickEstimate(Result):
    """What one brief run says; see the module for what it is worth."""

    io_threads: int
    throughput_rps: float
    p50_ms: float | None
    """None where nothing completed, or an open loop gets less than it asks for."""
    p99_ms: float | None
    main_thread_utilisation: float
    io_thread_utilisation: float
    """Mean over the I/O threads; 0 without any."""
    load_generator_utilisation: float


def interruptions(scenario: Scenario) -> list[str]:
    """What of a scenario comes now and then, in words: a brief run may miss it or be filled by it.

    With any of it, an estimate is worth nothing: only a simulation tells.
    """
    workload = scenario.workload
    named = {
        "a CPU quota": scenario.cpu_quota_cores is not None,
        "persistence": scenario.persistence != "none",
        "slow commands": workload.slow_command is not None,
        "a rate that changes": workload.varying != Arrivals(),
        "other busy threads": scenario.other_busy_threads > 0,
    }
    return [name for name, present in named.items() if present]


def quick_estimate(scenario: Scenario, system: System) -> QuickEstimate:
    """Estimate throughput, latency and utilisation at the nominal numbers."""
    inputs = system.inputs(scenario)
    result = _brief_run(inputs, times_of(inputs))
    offered_rps = scenario.workload.mean_rate_rps
    behind = offered_rps is not None and result.throughput_rps < _KEPT_UP * offered_rps
    known = result.completions > 0 and not behind
    threads = list(result.io_thread_utilisation)
    return QuickEstimate(
        io_threads=scenario.io_threads,
        throughput_rps=result.throughput_rps,
        p50_ms=result.latency.quantile(0.5) / 1e9 if known else None,
        p99_ms=result.latency.quantile(0.99) / 1e9 if known else None,
        main_thread_utilisation=result.main_thread_utilisation,
        io_thread_utilisation=sum(threads) / len(threads) if threads else 0.0,
        load_generator_utilisation=result.load_generator_utilisation,
    )


_KEPT_UP = 0.93
"""Share of the offered load that counts as served, as few requests arrive in so short a window."""


def _brief_run(inputs: NodeInputs, times: NodeTimes) -> NodeResult:
    """A run that is made longer until it has measured enough, or has taken enough."""
    workload = inputs.scenario.workload
    enough = max(_FEWEST, _ROUND_TRIPS * workload.clients * workload.pipeline)
    if workload.mean_rate_rps is not None:
        enough = _FEWEST
    warmup_ps = _FIRST_PS
    while True:
        setup = node_setup(inputs, warmup_ps=warmup_ps, end_ps=3 * warmup_ps, seed=1, replication=0)
        setup = setup._replace(initial_active=setup.io_threads)
        result = simulate_node(inputs.engine.policy, times, setup)
        longer = min(_MOST_LONGER, max(2.0, _MARGIN * enough / max(1, result.completions)))
        if (
            result.completions >= enough
            or longer * result.events > _MOST_EVENTS
            or longer * warmup_ps > _LONGEST_PS
        ):
            return result
        warmup_ps = round(longer * warmup_ps)
