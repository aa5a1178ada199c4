"""A node with asynchronous I/O threads: the compiled execution against the SimPy one.

Nine threads, 650 clients without pipelining, and a load generator of 50 threads on another host:
the setting of most published measurements. Both executions simulate the same requests. Compile
time is not counted but given beside.
"""

import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import interleaved_cpu_s, median_ratio

from forecache.models.node import layout
from forecache.models.node.reference import run_reference
from forecache.models.node.setup import NodeSetup
from forecache.models.node.simulate import run_compiled, simulate_node
from forecache.sim.native.toolchain import build
from verification.nodes.sample_node import sample_setup, sample_times

WINDOW_PS = 4 * 10**11
"""Simulated time of the compiled execution: 0.4 s, about a million requests."""

SIMPY_WINDOW_PS = 2 * 10**9
"""SimPy takes as long for this as the compiled execution for two hundred times as much."""

COMPILED, SINGLE, SHARED = "asynchronous", "single thread", "shared queues"
FORKED = "fork-join"
MULTIPLEXED, LOCKED = "multiplexed", "locked threads"
OWNING = "owning threads"
SIMPY = "asynchronous, SimPy"


def scenario(**changes: Any) -> NodeSetup:
    """The setting, for one policy and window."""
    usual = {"io_threads": 9, "clients": 650, "generators": 50, "end_ps": WINDOW_PS}
    return sample_setup(**usual | changes)


def compiled(policy: str, counts: list[int], **changes: Any) -> Callable[[int], None]:
    """One policy of the compiled execution, checks and result included."""

    def run(repetition: int) -> None:
        setup = scenario(replication=repetition, **changes)
        counts.append(simulate_node(policy, sample_times(), setup).completions)

    return run


def with_simpy(counts: list[int]) -> Callable[[int], None]:
    """The reference execution."""

    def run(repetition: int) -> None:
        setup = scenario(replication=repetition, end_ps=SIMPY_WINDOW_PS)
        counts.append(run_reference("asynchronous", sample_times(), setup).latency.count)

    return run


def agree() -> bool:
    """Whether both executions complete the same requests at the same times in this setting."""
    setup = scenario(end_ps=SIMPY_WINDOW_PS)
    node = layout.new_node(sample_times(), setup)
    run_compiled("asynchronous", node)
    return node.latency() == run_reference("asynchronous", sample_times(), setup).latency


def build_s() -> float:
    """CPU seconds that building the shared library takes, all policies together."""
    with tempfile.TemporaryDirectory() as empty:
        before_s = os.times()
        build(layout.SOURCES, Path(empty))
        after_s = os.times()
    return sum(after_s[2:4]) - sum(before_s[2:4])


def measure(repetitions: int) -> dict[str, Any]:
    """Median requests a second of each execution, and the ratio round by round."""
    names = (COMPILED, SINGLE, SHARED, FORKED, MULTIPLEXED, LOCKED, OWNING, SIMPY)
    counts: dict[str, list[int]] = {name: [] for name in names}
    shared = {"initial_active": 9, "whole_pipeline": 1, "job_capacity": 4096}
    competitors = {
        COMPILED: compiled("asynchronous", counts[COMPILED]),
        SINGLE: compiled("single_thread", counts[SINGLE], io_threads=1),
        SHARED: compiled("shared_queues", counts[SHARED], **shared),
        FORKED: compiled("fork_join", counts[FORKED]),
        MULTIPLEXED: compiled("multiplexed", counts[MULTIPLEXED], whole_pipeline=1),
        LOCKED: compiled("locked_threads", counts[LOCKED], item_locks=8192),
        OWNING: compiled("owning_threads", counts[OWNING]),
        SIMPY: with_simpy(counts[SIMPY]),
    }
    times_s = interleaved_cpu_s(competitors, repetitions)
    # The first call of each warmed up.
    rates = {
        name: [n / time_s for n, time_s in zip(counts[name][1:], times, strict=True)]
        for name, times in times_s.items()
    }
    return {
        "io_threads": 9,
        "clients": 650,
        "pipeline": 1,
        "generator_threads": 50,
        "repetitions": repetitions,
        "clock": "CPU time of the process",
        "engines": {
            name: {
                "requests": statistics.median(counts[name][1:]),
                "requests_per_s": statistics.median(values),
                "requests_per_s_all": values,
            }
            for name, values in rates.items()
        },
        "times_simpy": median_ratio(
            [1.0 / rate for rate in rates[SIMPY]], [1.0 / rate for rate in rates[COMPILED]]
        ),
        "same_completions": agree(),
        "build_s": build_s(),
    }


def table(result: dict[str, Any]) -> str:
    """The result for a person."""
    lines = [
        f"node, {result['clients']} clients, {result['io_threads']} threads where there are I/O "
        f"threads, median of {result['repetitions']} interleaved repetitions, {result['clock']}",
        f"  {'':<30}{'requests':>11}{'requests/s':>15}",
    ]
    for name, engine in result["engines"].items():
        lines.append(f"  {name:<30}{engine['requests']:>11,.0f}{engine['requests_per_s']:>15,.0f}")
    same = "the same" if result["same_completions"] else "NOT THE SAME"
    lines.append(f"  {result['times_simpy']:,.0f} times SimPy, {same} completions")
    lines.append(f"  building all policies, once: {result['build_s']:.1f} s")
    return "\n".join(lines)
