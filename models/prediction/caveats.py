"""Warnings about a prediction: what the model doesn't cover."""

from __future__ import annotations

from forecache.hwprofiles.network import bandwidth_of
from forecache.sim.effort import duration_words
from forecache.sim.words import any_of

from ..engines.commands import command_kinds
from ..engines.profile import EngineProfile
from ..node.setup import DRAWS as NODE_DRAWS
from ..scenario.command_table import DESCRIBED_BY
from ..scenario.schema import Scenario
from ..step_times.cores import sharing
from ..step_times.wire import only_the_main_thread
from .system import System

SELDOM_S = 60.0
"""Of what comes less often than this, a run contains few."""


def server_threads(scenario: Scenario, engine: EngineProfile) -> int:
    """Threads that run, of those asked for."""
    return min(scenario.io_threads, engine.max_io_threads)


def not_covered(scenario: Scenario, system: System) -> list[str]:
    """Why a prediction may be off: what the model doesn't cover."""
    speed, engine = system.host.speed(), system.engine
    warnings = [] if engine.taken_as_words is None else [engine.taken_as_words]
    if engine.reuse is not None:
        warnings.append(
            f"the CPU work of {engine.id} was not measured: that of {engine.reuse.origin} is used"
        )
    elif engine.observed is None:
        warnings.append(f"the CPU work of {engine.id} was not measured: all of it is assumed")
    elif engine.observed.host == system.host.id and not system.observed_here:
        warnings.append(
            f"{engine.id} was calibrated on another profile of such a host, captured "
            f"{engine.observed.captured}: `forecache observe` and `calibrate` with this one are "
            "more accurate"
        )
    policy = engine.threading
    if policy.caveat:
        warnings.append(policy.caveat.format(engine=engine.id))
    cores = sharing(scenario, speed.cores).server_cores
    if scenario.irq_cores and scenario.same_host:
        warnings.append("server and load generator share a host: irq_cores has no effect")
    if scenario.cores is not None and scenario.cores > cores:
        beside = " beside interrupt cores" if scenario.interrupt_cores else ""
        warnings.append(
            f"the scenario has {scenario.cores} cores, the host {cores}{beside}: {cores} are used"
        )
    siblings = _siblings(scenario, system)
    warnings += [] if siblings is None else [siblings]
    server = server_threads(scenario, engine)
    if server > cores:
        warnings.append(
            f"{server} threads of {engine.id} on {cores} CPU{'s' * (cores != 1)}: threads may have "
            f"to wait for one (the engine allows {engine.max_io_threads}, wherever it runs)"
        )
    if scenario.main_thread_pinned and policy.threads_alike:
        warnings.append(
            f"no thread of {engine.id} is the main thread: main_thread_pinned has no effect"
        )
    if scenario.io_threads > engine.max_io_threads:
        warnings.append(
            f"{engine.id} runs at most {engine.max_io_threads} threads here; more are ignored"
        )
    if only_the_main_thread(scenario, engine):
        warnings.append(f"{engine.id} serves TLS on its main thread: I/O threads stay idle")
    if scenario.prefetch_batch is not None and engine.prefetch_batch == 0:
        warnings.append(f"{engine.id} does not prefetch: prefetch_batch has no effect")
    if scenario.events_per_io_thread is not None and "events_per_io_thread" not in policy.settings:
        warnings.append(f"{engine.id} has no events_per_io_thread: it has no effect")
    replies = policy.replies_per_thread * server
    if server > 1 and scenario.workload.clients < replies:
        warnings.append(
            f"io-threads {server} are never used: they need {replies} replies that wait at a "
            f"time, and there are {scenario.workload.clients} clients"
        )
    if scenario.io_threads_do_reads is not None and "io_threads_do_reads" not in policy.settings:
        warnings.append(
            "io_threads_do_reads is a setting of fork-join threads (Redis 6 to 7.4, Valkey 7.2): "
            "it has no effect here"
        )
    workload = scenario.workload
    warnings += _assumed_collections(scenario)
    slow = workload.slow_command
    if slow is not None and slow.every_s is not None and slow.every_s > SELDOM_S:
        warnings.append(
            "slow commands come less than once a minute: a run contains few of them, so the tail "
            "is uncertain"
        )
    rare = [kind for kind in command_kinds(scenario) if kind.share < 0.5 / NODE_DRAWS]
    if rare:
        size = "" if rare[0].calls else f" of {rare[0].value_bytes} bytes"
        warnings.append(
            f"{rare[0].command}{size} is too rare to be simulated: shares below 1 in "
            f"{2 * NODE_DRAWS} are left out"
        )
    beyond = _beyond_baseline(scenario, system)
    return [*warnings, *_of_the_instance(scenario, system), *([] if beyond is None else [beyond])]


def _assumed_collections(scenario: Scenario) -> list[str]:
    """What collections are taken to be like where nothing is said of them."""
    return [
        f"{field} are not described: {found.keys:,} of {found.size:,} {found.items} are taken"
        for data_type, found in scenario.workload.collections.items()
        if getattr(scenario.workload, (field := DESCRIBED_BY[data_type])) is None
    ]


def _of_the_instance(scenario: Scenario, system: System) -> list[str]:
    """What an instance may not have: the processor, a burst; and by whose numbers it is taken."""
    host, found = system.host, []
    network = bandwidth_of(host.speed())
    if scenario.bandwidth == "burst" and network.burst_gbit_per_s <= network.baseline_gbit_per_s:
        found.append(f"{host.id} has no burst of its network: bandwidth has no effect")
    if host.processors:
        found.append(
            f"{host.instance} may run on {any_of(host.processors)}, as its provider chooses: "
            f"{host.processors[0]} is simulated"
        )
    found += [caveat.rstrip(".") for caveat in host.caveats]
    if host.reuse is not None:
        found.append(
            f"the profile of {host.base_id} is not complete: what it lacks is taken "
            f"from {host.reuse.origin}, in wider ranges ({host.reuse.reason})"
        )
    if host.captured is not None and host.peer_curve is None and host.speed().cores > 1:
        found.append(
            f"the profile of {host.id} does not say how much longer calls on sockets take when "
            "the peer works on another CPU, up to twice as long: `forecache profile` of today "
            "measures it"
        )
    return found


def _siblings(scenario: Scenario, system: System) -> str | None:
    """That threads may share physical cores, and what that costs them."""
    threads = server_threads(scenario, system.engine)
    cores = system.sharing(scenario.model_copy(update={"io_threads": threads})).physical_cores
    speed = system.host.topology.busy_sibling_speed
    if cores == 0 or speed is None:
        return None
    between = "" if speed.low is None else f" ({speed.low:.2g} to {speed.high:.2g})"
    return (
        f"a vCPU of {system.host.id} is a hyperthread and more threads than its {cores} physical "
        f"cores may be busy: one whose sibling is busy runs at {speed.best:.2g}{between} of its "
        f"speed, {speed.kind} here"
    )


def _beyond_baseline(scenario: Scenario, system: System) -> str | None:
    """That a load needs more than the baseline of the network, which bursts give for a while."""
    rate_rps = scenario.workload.mean_rate_rps
    if rate_rps is None or scenario.same_host or scenario.bandwidth == "burst":
        return None
    network = bandwidth_of(system.host.speed())
    kinds, key_bytes = command_kinds(scenario), scenario.workload.key_bytes
    replies = sum(kind.share * kind.reply_bytes for kind in kinds)
    requests = sum(kind.share * kind.request_bytes(key_bytes) for kind in kinds)
    gbit_per_s = rate_rps * max(replies, requests) * 8e-9
    if not network.baseline_gbit_per_s < gbit_per_s < network.burst_gbit_per_s:
        return None
    lasts_s = network.credit_gbit / (gbit_per_s - network.baseline_gbit_per_s)
    return (
        f"the load carries {gbit_per_s:.3g} Gbit/s, above the baseline of "
        f"{network.baseline_gbit_per_s:.3g} that is simulated; while there is credit it may burst "
        f"to {network.burst_gbit_per_s:.3g}, for about {duration_words(lasts_s)} (assumed), which "
        "`bandwidth: burst` simulates"
    )
