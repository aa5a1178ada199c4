"""What does not hold at a predicted point, and what is to be known of it besides.

A queue that settles is not enough. The data and what a saving child copies must fit into memory;
the main thread must not stand still for longer than clients wait; whoever runs beside the server
needs CPUs too; a load must not live on bandwidth that credit runs out for; and the objective must
be met. Each is told with what is needed and what there is.

A saving child is not simulated as a user of CPUs. Where it and everybody else need more of them
than there are, latencies are too good, and the point says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from forecache.hwprofiles.network import Bandwidth, bandwidth_of
from forecache.sim.effort import duration_words
from forecache.sim.words import chance, milliseconds, rate

from ..footprint.node import node_room, snapshot_child_s
from ..prediction.caveats import SELDOM_S
from ..prediction.pauses import longest_probable_ms
from ..prediction.predict import SERVER_CPU, TURNS, Prediction
from ..results.points import Unmet
from ..step_times.inputs import DISK_RANGES
from ..step_times.persistence import persistence_of, stalls_of
from .configuration import forks
from .objective import objective_bounds

LONGEST_STOP_S = 1.0
"""A stop that clients bear (assumed). AWS's samples for ElastiCache give a command two seconds
(*Configure a client-side timeout*, BestPractices.Clients.Redis.ClientTimeout), and who comes during
a stop also waits for those before it."""

NOTED_STOP_S = 0.1
"""Shorter forks are not spoken of."""

_CHILD_CPUS = 1.0
"""A saving child is a process with one thread that goes through all data without a pause."""

_MANY_TIMES = 4.0
"""A p99 that pauses of an unknown host may make so much longer is spoken of."""

_ROUNDING = 0.01
"""By which CPU time that a simulation counts may exceed the CPUs there are."""

_GIB = 2**30


def unmet_conditions(prediction: Prediction, *, probability: float | None) -> list[Unmet]:
    """What does not hold at a point.

    Parameters
    ----------
    probability
        Of meeting the scenario's objective; None without one.
    """
    found = [*_load(prediction), *_memory(prediction), *_stops(prediction), *_cpus(prediction)]
    return [*found, *_network(prediction), *_objective(prediction, probability)]


def verdict(queue: str, unmet: list[Unmet]) -> str:
    """The verdict on a point, from that on its queue and what does not hold."""
    return "UNFIT" if unmet and queue != "OVERLOADED" else queue


def point_remarks(prediction: Prediction, bottleneck: str) -> list[str]:
    """Remarks that a reader of a point needs, from its runs."""
    bearable = (stop for stop in _forks(prediction) if stop.needed <= LONGEST_STOP_S)
    found = [stop.sentence for stop in bearable if stop.needed >= NOTED_STOP_S]
    if bottleneck == TURNS:
        found.append(_turns(prediction))
    others = network_remark(prediction, bottleneck), _pauses(prediction)
    return [*found, *(each for each in others if each is not None)]


def _pauses(prediction: Prediction) -> str | None:
    """Remark that p99 depends on how often an unknown host takes a core away."""
    host = prediction.system.host
    p99_ms, longest_ms = prediction.mean("p99_ms"), longest_probable_ms(prediction, 0.99)
    if host.interruptions is not None or longest_ms is None or longest_ms < _MANY_TIMES * p99_ms:
        return None
    return (
        f"p99 assumes that {host.instance or host.id} never takes a core away. How often it does "
        "is not known; as on hosts that were profiled, p99 may be several times longer. Its "
        "interval includes that, the probability of meeting an objective does not; `forecache "
        "profile` measures it there"
    )


def _load(prediction: Prediction) -> Iterator[Unmet]:
    growth = prediction.backlog_growth()
    if growth is None:
        return
    served_rps = prediction.mean("throughput_rps")
    offered_rps = served_rps + growth.value
    yield Unmet(
        "load",
        offered_rps,
        served_rps,
        "1/s",
        f"overloaded: completes {rate(served_rps)} of {rate(offered_rps)}; the backlog grows by "
        f"{rate(growth.value)}, so latency has no steady value",
    )


def _memory(prediction: Prediction) -> Iterator[Unmet]:
    system = prediction.system
    room = node_room(prediction.case.scenario, system.engine, system.host)
    if room.shortfall is not None:
        needed, usable = room.needed_bytes / _GIB, room.limit.usable_bytes / _GIB
        yield Unmet("memory", needed, usable, "GiB", room.shortfall)


def _stops(prediction: Prediction) -> Iterator[Unmet]:
    """Stops of the main thread that clients don't bear."""
    if prediction.threads_alike:
        return  # One of several threads stops.
    for stop in [*_forks(prediction), *_slow_commands(prediction)]:
        if stop.needed > LONGEST_STOP_S:
            yield stop


def _forks(prediction: Prediction) -> Iterator[Unmet]:
    """The stop that the fork of each snapshot is."""
    kept, system = persistence_of(prediction.case.scenario), prediction.system
    if kept is None or kept.snapshot is None or not forks(system.engine):
        return
    every_s = kept.snapshot.every_s
    inputs = system.inputs(prediction.case.scenario)
    [stall] = [each for each in stalls_of(inputs) if each.fork]
    low, value, high = DISK_RANGES["fork_waits_per_page"]
    ends = (milliseconds(stall.duration_ms * end / value) for end in (low, high))
    seldom = ", so seldom that p99.9 may leave it out" if every_s > SELDOM_S else ""
    yield _stop(
        stall.duration_ms / 1000.0,
        every_s,
        f"the fork of a snapshot stops the server for about {milliseconds(stall.duration_ms)} "
        f"({' to '.join(ends)}) every {duration_words(every_s)}{seldom}",
    )


def _slow_commands(prediction: Prediction) -> Iterator[Unmet]:
    inputs = prediction.system.inputs(prediction.case.scenario)
    for stall in stalls_of(inputs):
        if not stall.fork:
            every_s = stall.mean_gap_s(prediction.mean("throughput_rps"))
            yield _stop(
                stall.duration_ms / 1000.0,
                every_s,
                f"a slow command stops the server for {milliseconds(stall.duration_ms)} every "
                f"{duration_words(every_s)}",
            )


def _stop(lasts_s: float, every_s: float, sentence: str) -> Unmet:
    return Unmet("stop", lasts_s, LONGEST_STOP_S, "s", sentence, every_s)


def _cpus(prediction: Prediction) -> Iterator[Unmet]:
    """CPUs that are needed while a child saves, where there are fewer.

    Without a list of its own the child inherits the server's CPUs, and is part of its quota.
    """
    scenario, system = prediction.case.scenario, prediction.system
    kept = persistence_of(scenario)
    if kept is None or kept.snapshot is None or not forks(system.engine):
        return
    groups = system.sharing(scenario)
    available = float(groups.server_cores)
    if groups.quota_cores:
        available = min(available, groups.quota_cores)
    needs = {
        "the server": prediction.mean(SERVER_CPU) * prediction.mean("throughput_rps") / 1e6,
        "its saving child": _CHILD_CPUS,
    }
    if groups.shared:
        busy = prediction.utilisation["load generator"]
        needs["the load generator"] = busy * scenario.generator_threads
    if groups.others:
        needs["other programs"] = float(groups.others)
    needed = sum(needs.values())
    if needed <= (1.0 + _ROUNDING) * available:
        return
    snapshot, inputs = kept.snapshot, system.inputs(scenario)
    child_s = snapshot_child_s(scenario, inputs.engine, inputs.work, inputs.speed)
    *first, last = (f"{who} {cpus:.2g}" for who, cpus in needs.items())
    whose = "of its quota of" if groups.quota_cores else "of"
    yield Unmet(
        "CPUs",
        needed,
        available,
        "CPUs",
        f"during a snapshot, for {duration_words(child_s)} of every "
        f"{duration_words(snapshot.every_s)}, {', '.join(first)} and {last} need {needed:.3g} "
        f"{whose} {available:.3g} CPU{'s' * (available != 1)}: latencies leave out that the child "
        "takes the server’s",
    )


def _network(prediction: Prediction) -> Iterator[Unmet]:
    """A rate that only the credit of a burst carries."""
    scenario = prediction.case.scenario
    network = _interface(prediction)
    if network is None or scenario.bandwidth != "burst" or not prediction.open_loop:
        return
    needed = prediction.offered_rps * prediction.wire_bits_per_request / 1e9
    baseline = network.baseline_gbit_per_s
    if baseline < needed:
        yield Unmet(
            "network",
            needed,
            baseline,
            "Gbit/s",
            f"the load carries {needed:.3g} Gbit/s, above the baseline of {baseline:.3g} that is "
            f"there for good: the simulated burst lasts {_lasts(network, needed)}",
        )


def _objective(prediction: Prediction, probability: float | None) -> Iterator[Unmet]:
    slo = prediction.case.scenario.slo
    if slo is None or probability is None or probability >= slo.probability:
        return
    asked = ", ".join(
        f"{n[:-3]} ≤ {milliseconds(most)}" for n, most in objective_bounds(prediction).items()
    )
    yield Unmet(
        "objective",
        slo.probability,
        probability,
        "probability",
        f"objective {asked}: met with a probability of {chance(probability)}, "
        f"{chance(slo.probability)} was asked for",
    )


def _turns(prediction: Prediction) -> str:
    """Which threads wait for which."""
    busy = prediction.utilisation
    served = [name for name in busy if busy[name] > 0.0 and name.endswith(("thread", "threads"))]
    if prediction.system.engine.threading.locks_items:
        how = "the threads wait for each other’s locks"
    elif len(served) > 1:
        how = f"the {' and the '.join(served)} take turns: each waits while the other works"
    else:
        how = "server and load generator take turns: each waits while the other works"
    return f"{how}, so more clients only wait longer (`forecache explain` shows where)"


def _interface(prediction: Prediction) -> Bandwidth | None:
    """That of the server; None where the load comes from its own host."""
    if prediction.case.scenario.same_host:
        return None
    return bandwidth_of(prediction.system.host.speed())


def network_remark(prediction: Prediction, bottleneck: str) -> str | None:
    """Which bandwidth was simulated, where that matters: the network limits, or credit is spent."""
    scenario, network = prediction.case.scenario, _interface(prediction)
    if network is None or network.burst_gbit_per_s <= network.baseline_gbit_per_s:
        return None
    baseline, burst = network.baseline_gbit_per_s, network.burst_gbit_per_s
    if scenario.bandwidth == "burst":
        used = prediction.mean("throughput_rps") * prediction.wire_bits_per_request / 1e9
        if used <= baseline or prediction.open_loop:
            return None
        return (
            f"the burst of {burst:.3g} Gbit/s is simulated; the load carries {used:.3g}, above the "
            f"baseline of {baseline:.3g}, for {_lasts(network, used)}"
        )
    if bottleneck != "network" or prediction.open_loop:
        return None
    return (
        f"the network’s baseline of {baseline:.3g} Gbit/s is simulated, which the load uses up; "
        f"`bandwidth: burst` simulates the {burst:.3g} that it has for {_lasts(network, burst)}"
    )


def _lasts(network: Bandwidth, gbit_per_s: float) -> str:
    """How long full credit lasts at a rate above the baseline, in words."""
    lasts_s = network.credit_gbit / (gbit_per_s - network.baseline_gbit_per_s)
    return f"about {duration_words(lasts_s)} (assumed)"
