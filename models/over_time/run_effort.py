"""How long runs over time will take, and what memory, said or refused before they begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forecache.sim.effort import check_memory

from .cluster.schema import ClusterScenario
from .large_commands.scenario import LargeCommands
from .overcommit.schema import OvercommitScenario
from .serverless.schema import ServerlessScenario

_SURROGATE_S = 3.0
"""Simulating what one kind of node can do, where no earlier run left it."""

_STEP_S = 3e-4
"""A step of a cluster's load, with the events in between."""

_NODE_STEP_S = 1.2e-6
"""What each node adds to it."""

_CACHE_STEP_S = 6e-4
"""What a cache beside a database adds."""

_MACHINE_STEP_S = 1.5e-7
"""A machine of a fleet in a step."""

_ARRIVAL_S = 3e-4
"""A machine that comes, moves or goes."""

_LARGE_COMMANDS_S = 5.0

_BYTES_OF_A_MACHINE = 2_000.0
_BYTES_OF_A_BURST = 120.0


def work_of(scenario: Any) -> tuple[float, str]:
    """Seconds of one core that a run takes, estimated, and what it is of; 0 where unknown.

    Raises
    ------
    InputError
        It would take more memory than a run may.
    """
    estimate = _WORK.get(type(scenario))
    return (0.0, "a run") if estimate is None else estimate(scenario)


def _cluster(scenario: ClusterScenario) -> tuple[float, str]:
    nodes = scenario.cluster.shards * (1 + scenario.cluster.replicas)
    most = max([scenario.cluster.shards, *_shards_of(scenario)])
    each_s = _STEP_S + most * (1 + scenario.cluster.replicas) * _NODE_STEP_S
    if scenario.cache is not None:
        each_s += _CACHE_STEP_S
    clients = scenario.clients
    longest_s = max(clients.backoff.cap_s if clients.retries else 0.0, clients.timeout_s)
    steps_ahead = (longest_s + clients.connect_timeout_s) / scenario.step
    check_memory(
        8.0 * steps_ahead * nodes * (clients.retries + 1),
        "clients.timeout_s",
        found=clients.timeout_s,
        smaller="shorter time-outs and backoffs, or a longer step_s",
    )
    steps = scenario.duration_s / scenario.step
    return _SURROGATE_S + steps * each_s, (
        f"{scenario.duration_s:,.6g} s of a cluster with {scenario.cluster.shards} shards in "
        f"steps of {scenario.step:g} s"
    )


def _shards_of(scenario: ClusterScenario) -> list[int]:
    """What events make of the number of shards."""
    return [getattr(event, "shards", 1) for event in scenario.events]


def _serverless(scenario: ServerlessScenario) -> tuple[float, str]:
    nodes = 2 * max(scenario.shards, 30)
    each_s = 2 * _STEP_S + nodes * _NODE_STEP_S
    steps = scenario.duration_s / scenario.step_s
    return 6 * _SURROGATE_S + steps * each_s, (
        f"{scenario.duration_s:,.6g} s of a serverless cache in steps of {scenario.step_s:g} s"
    )


def _overcommit(scenario: OvercommitScenario) -> tuple[float, str]:
    machines, demand = scenario.machines, scenario.demand
    hours = scenario.duration_s / 3600.0
    come = machines.arrivals_per_hour * hours
    every = machines.count + come
    check_memory(
        _BYTES_OF_A_MACHINE * every,
        "machines.arrivals_per_hour" if come > machines.count else "machines.count",
        found=f"{every:,.4g} machines in all",
        smaller="fewer of them",
    )
    check_memory(
        _BYTES_OF_A_BURST * every * demand.bursts.per_day * hours / 24.0,
        "demand.bursts.per_day",
        found=f"{demand.bursts.per_day:g} for {every:,.4g} machines over {hours:,.4g} h",
        smaller="fewer of them",
    )
    steps = scenario.duration_s / scenario.step_s
    looks = scenario.duration_s / scenario.heat.look_every_s
    seconds = (
        steps * (_STEP_S + every * _MACHINE_STEP_S)
        + looks * (_STEP_S + scenario.hosts.count * _MACHINE_STEP_S)
        + every * _ARRIVAL_S
    )
    return seconds, (
        f"{hours:,.4g} h of {every:,.6g} machines on {scenario.hosts.count:,} hosts in steps of "
        f"{scenario.step_s:g} s"
    )


def _large_commands(scenario: LargeCommands) -> tuple[float, str]:
    return _LARGE_COMMANDS_S, f"{len(scenario.commands)} large commands"


_WORK: dict[type[Any], Callable[[Any], tuple[float, str]]] = {
    ClusterScenario: _cluster,
    ServerlessScenario: _serverless,
    OvercommitScenario: _overcommit,
    LargeCommands: _large_commands,
}
