"""The throughput that stations allow at other numbers than the nominal ones.

No station is busy for more than all of the time, and no more requests are under way than clients
have sent: the asymptotic bounds of operational analysis (P. J. Denning and J. P. Buzen, The
Operational Analysis of Queueing Network Models, ACM Computing Surveys 10(3), 1978). Which station
bounds a throughput may change from draw to draw, where several are nearly busy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..breakdown.explain import steps_of
from ..prediction.predict import Prediction
from ..prediction.simulation import times_near
from ..step_times.inputs import NodeInputs

RESOURCES = (
    *("main", "I/O", "worker", "generator", "waking", "packet", "bandwidth", "one way"),
    "interrupt",
)
"""What a request takes time of."""

_PS_PER_US = 1e6
_SERVER = ("main", "I/O", "worker")


def service_times_us(prediction: Prediction, inputs: NodeInputs) -> np.ndarray:
    """(resources,) time that a request takes of each at other numbers, with the run's counts.

    Of the network and of interrupts it is in proportion only: a packet, a KiB, an interrupt.
    """
    times = times_near(inputs, prediction.pilot)
    found = dict.fromkeys(RESOURCES, 0.0)
    for _, thread, time_us in steps_of(prediction, times=times):
        found[thread] += time_us
    generator_ps = times.generator_recv_ps + times.generator_reply_ps
    generator_ps += times.generator_request_ps + times.generator_send_ps
    waking_ps = times.wake_latency_ps.mean() + times.wake_send_ps + times.thread_wake_ps
    found["generator"] = generator_ps / _PS_PER_US
    found["waking"] = waking_ps / _PS_PER_US
    found["packet"] = times.packet_ps / _PS_PER_US
    found["bandwidth"] = times.wire_ps_per_kib / _PS_PER_US
    found["one way"] = 2 * times.one_way_ps / _PS_PER_US
    if inputs.scenario.interrupt_cores > 0:
        found["interrupt"] = times.softirq_ps / _PS_PER_US
    return np.array([found[name] for name in RESOURCES])


@dataclass(frozen=True)
class ThroughputBound:
    """The throughput that stations allow, relative to the nominal one.

    Attributes
    ----------
    busy : (stations, resources)
        Share of the time in which a station works with each resource, at the nominal numbers.
    constant : (stations,)
        The same of what no uncertain number changes.
    """

    busy: np.ndarray
    constant: np.ndarray

    def logs(self, changes: np.ndarray) -> np.ndarray:
        """(draws,) logarithm of the throughput, by `changes` (draws, resources) of log times."""
        return -np.log(self._utilisations(changes).max(axis=1))

    def elasticities(self, changes: np.ndarray) -> np.ndarray:
        """(resources,) mean elasticity of the throughput to each service time over draws.

        In one draw it is that resource's share of the work of the station that is the limit.
        """
        utilisations = self._utilisations(changes)
        limits = utilisations.argmax(axis=1)
        work = self.busy[limits] * np.exp(changes)
        return np.asarray(-(work / utilisations.max(axis=1)[:, None]).mean(axis=0))

    def _utilisations(self, changes: np.ndarray) -> np.ndarray:
        """(draws, stations), at the nominal throughput."""
        return np.asarray(self.constant + np.exp(changes) @ self.busy.T)


def throughput_bound(prediction: Prediction, nominal_us: np.ndarray) -> ThroughputBound:
    """The bound of a prediction's stations: each utilisation is throughput times service time.

    Time in which threads spin is no work. A station of several servers is all of them.

    Parameters
    ----------
    nominal_us : (resources,)
        From `service_times_us`.
    """
    scenario, workload = prediction.case.scenario, prediction.case.scenario.workload
    per_us = prediction.mean("throughput_rps") / 1e6
    taken = dict(zip(RESOURCES, (per_us * nominal_us).tolist(), strict=True))
    threads = max(1, len(prediction.io_thread_utilisation))
    groups, limits = prediction.system.sharing(scenario), prediction.network_limits
    # Of the server's threads every sleep was counted; a reply wakes a thread that is not at work.
    result = prediction.nominal[0].result
    wakes = result.counters["blocks"] / max(1, result.completions)
    wakes += 1.0 - prediction.utilisation["load generator"]
    in_flight = workload.clients * workload.pipeline
    travels = (*_SERVER, "generator", "one way")

    def of(servers: float, *names: str) -> dict[str, float]:
        return {name: taken[name] / servers for name in names}

    stations = [
        of(1, "main"),
        of(threads, "I/O"),
        of(threads, "worker"),
        of(groups.generator_cores or scenario.generator_threads, "generator"),
        of(groups.server_cores or math.inf, *_SERVER, *(("generator",) if groups.shared else ())),
        of(groups.quota_cores or math.inf, *_SERVER),
        {"packet": limits["packets"]},
        {"bandwidth": limits["bandwidth"]},
        {"interrupt": prediction.utilisation["interrupts"]},
        {**of(in_flight, *travels), "waking": wakes * taken["waking"] / in_flight},  # clients
        {},  # arrivals
    ]
    pauses = per_us * workload.think_us / in_flight
    arrivals = per_us * 1e6 / prediction.offered_rps if prediction.open_loop else 0.0
    busy = [[station.get(name, 0.0) for name in RESOURCES] for station in stations]
    constant = [0.0] * (len(stations) - 2)
    return ThroughputBound(np.array(busy), np.array([*constant, pauses, arrivals]))
