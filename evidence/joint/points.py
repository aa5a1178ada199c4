"""The points of a joint fit, and what a point's throughput is at given numbers.

Every uncertain number is told by how many of its standard errors it lies from what was known
before, so that all of them are standard normal beforehand. A number of a host has the host's name
before it, one of an engine's work that of its threading policy, whose versions share what was
assumed of them; a load generator's has its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property
from multiprocessing import get_context
from typing import Any

import numpy as np

from forecache.calibration.validate.dataset import (
    MeasuredCase,
    list_datasets,
    load_dataset,
    why_not_predicted,
)
from forecache.calibration.validate.node_dataset import FIT_REQUESTS, system_of
from forecache.models.node.setup import NodeTimes
from forecache.models.prediction.run_length import Window, window
from forecache.models.prediction.simulation import pilot_run, run, times_of
from forecache.models.prediction.system import System
from forecache.models.prediction.uncertainty import Range, host_ranges, moved
from forecache.models.step_times.inputs import NodeInputs

Where = Mapping[str, float]
"""By name: how many standard errors a number lies from its prior value."""

OF_A_TENANT = frozenset({"l3_bytes", "dram_bandwidth_gb_per_s"})
"""Fields of a host whose ranges are those of one instance: what its neighbours leave."""

_SEED = 1


@dataclass(frozen=True)
class JointPoint:
    """A measured point of a named host, with the system at what was known before any fit."""

    dataset: str
    campaign: str
    """Datasets of one machine and engine have one."""
    case: MeasuredCase
    system: System

    @property
    def host(self) -> str:
        """The catalogue's id."""
        return self.system.host.base_id

    @property
    def engine(self) -> str:
        """Id of the engine's profile."""
        return self.system.engine.id

    @property
    def command(self) -> str:
        """Its commands, in one word for each mix."""
        return "+".join(sorted(self.case.scenario.workload.commands))

    @property
    def only_get_and_set(self) -> bool:
        """Whether there are no other commands."""
        return self.case.scenario.workload.only_get_and_set

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """(low, value, high) by name."""
        system, found = self.system, {}
        for name, bounds in host_ranges(system.host).items():
            owner = system.host.id if name in OF_A_TENANT else self.host
            found[f"{owner}.{name}"] = bounds
        for name, bounds in system.engine.uncertain().items():
            found[f"{system.engine.policy}.{name}"] = bounds
        if not self.only_get_and_set:
            for name, bounds in system.engine.uncertain_commands().items():
                found[f"commands.{name}"] = bounds
        for name, bounds in system.generator.uncertain().items():
            found[f"{system.generator.id}.{name}"] = bounds
        return {name: (low, best, high) for name, (low, best, high) in found.items() if high > low}

    def inputs(self, where: Where) -> NodeInputs:
        """The simulation's numbers, some of them elsewhere than they were thought to be."""
        at = {name: moved(self.ranges[name], z) for name, z in where.items() if name in self.ranges}
        system = self.system

        def own(*owners: str) -> dict[str, float]:
            return {
                name.rpartition(".")[2]: value
                for name, value in at.items()
                if name.rpartition(".")[0] in owners
            }

        nominal = system.numbers()
        numbers = replace(
            nominal,
            speed=system.host.speed(own(self.host, system.host.id)),
            work=system.engine.engine_work(own(system.engine.policy, "commands")),
            generator=replace(nominal.generator, **own(system.generator.id)),
        )
        return system.inputs_of(self.case.scenario, numbers)

    @cached_property
    def window(self) -> Window:
        """The same for all numbers."""
        inputs = self.inputs({})
        pilot = pilot_run(inputs, times_of(inputs), seed=1)
        return window(inputs, pilot, requests=FIT_REQUESTS)

    def log_throughput(self, where: Where, *, times: NodeTimes | None = None) -> float:
        """Logarithm of requests a second; random streams are the same at any numbers."""
        inputs = self.inputs(where)
        found = run(inputs, requests=FIT_REQUESTS, seed=_SEED, times=times, window_ps=self.window)
        return math.log(max(found.throughput_rps, 1.0))

    def slopes(self, names: Sequence[str], where: Where, step: float) -> dict[str, float]:
        """Change of `log_throughput` per standard error, by name, of the numbers that matter."""
        inputs = self.inputs(where)
        here, rate = _told(inputs, times_of(inputs)), self.log_throughput(where)
        found = {}
        for name in names:
            if name not in self.ranges:
                continue
            there = {**where, name: where.get(name, 0.0) + step}
            inputs = self.inputs(there)
            times = times_of(inputs)
            if _told(inputs, times) != here:
                found[name] = (self.log_throughput(there, times=times) - rate) / step
        return found


def _told(inputs: NodeInputs, times: NodeTimes) -> list[bytes]:
    """Everything that a simulation is told which follows from uncertain numbers."""
    speeds = inputs.speed, inputs.generator_speed
    network = [
        repr((s.network_gbit_per_s, s.network_one_way_us, s.network_packets_per_s)).encode()
        for s in speeds
    ]
    return [*(np.asarray(value).tobytes() for value in times), *network]


def joint_points(*, role: str | None = None) -> list[JointPoint]:
    """Points of all shipped datasets of loads on named catalogue hosts, their throughput known.

    Parameters
    ----------
    role
        Only those with this role.
    """
    found = []
    datasets = [
        each
        for each in list_datasets()
        if each.scenario.get("host") is not None and why_not_predicted(each) is None
    ]
    for dataset in datasets:
        campaign = min([dataset.id, *dataset.same_machine])
        for case in load_dataset(dataset.id)[1]:
            if "throughput_rps" not in case.observed or role not in (None, case.role):
                continue
            system = system_of(case.scenario, path=dataset.id, fitted=False)
            found.append(JointPoint(dataset.id, campaign, case, system))
    return found


def log_throughputs(points: Sequence[JointPoint], where: Where) -> np.ndarray:
    """(points,) of `JointPoint.log_throughput`."""
    [found] = log_throughputs_at(points, [where])
    return np.asarray(found)


def log_throughputs_at(points: Sequence[JointPoint], wheres: Sequence[Where]) -> np.ndarray:
    """(wheres, points) of `JointPoint.log_throughput`."""
    found = _each(_log_throughput, [(point, list(wheres)) for point in points])
    return np.array(found).reshape(len(points), len(wheres)).T


def sensitivities(
    points: Sequence[JointPoint], names: Sequence[str], where: Where, *, step: float
) -> np.ndarray:
    """(points, names) change of the logarithm of throughput per standard error of a number."""
    rows = _each(_slopes, [(point, list(names), where, step) for point in points])
    return np.array([[row.get(name, 0.0) for name in names] for row in rows])


def _log_throughput(task: tuple[JointPoint, Sequence[Where]]) -> list[float]:
    point, wheres = task
    return [point.log_throughput(where) for where in wheres]


def _slopes(task: tuple[JointPoint, Sequence[str], Where, float]) -> dict[str, float]:
    point, names, where, step = task
    return point.slopes(names, where, step)


def _each(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Results in the order of the tasks, found in as many processes as there are cores."""
    return list(_pool().map(function, tasks))


@cache
def _pool() -> ProcessPoolExecutor:
    """Begun once: its processes import everything, which takes them longer than most batches."""
    return ProcessPoolExecutor(mp_context=get_context("forkserver"))
