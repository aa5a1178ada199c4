"""What each part of an engine's work adds to a point's server CPU time, at the prior's numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forecache.hwprofiles.schema import HostSpeed
from forecache.models.engine import EngineProfile
from forecache.models.scenario import Scenario
from forecache.models.stages import (
    CommandKind,
    command_kinds,
    command_memory,
    command_structures,
    prefetch_batch,
)

from .points import ObservedPoint
from .scenarios import scenario_of

PARTS = (
    *("loop", "event", "get", "set", "get_bytes", "set_bytes", "kernel", "touch", "set_touch"),
    *("displaced", "prefetch", "wake"),
)

FALLBACK_TURNS_PER_READ = 0.03
"""Turns of the event loop per read where the engine doesn't count them: saturated loops with fifty
clients, as other versions report."""


@dataclass(frozen=True)
class PointCounts:
    """What one request of an observed point took, on average."""

    turns: float
    reads: float
    writes: float
    generator_wakes: float
    server_sleeps: float


def counts_of(point: ObservedPoint) -> PointCounts:
    """Observed counts per request; what an engine doesn't report is estimated."""
    reads = point.least_disturbed("reads_per_request")
    writes = point.least_disturbed("writes_per_request")
    pipeline = point.given.pipeline
    reads = 1.0 / pipeline if np.isnan(reads) else reads
    writes = 1.0 / pipeline if np.isnan(writes) else writes
    sleeps = point.least_disturbed("main_voluntary_switches_per_request")
    turns = point.least_disturbed("event_loops_per_request")
    if np.isnan(turns):
        turns = max(FALLBACK_TURNS_PER_READ * reads, sleeps)
    wakes = point.least_disturbed("generator_voluntary_switches_per_request")
    return PointCounts(
        turns=turns,
        reads=reads,
        writes=writes,
        generator_wakes=0.0 if np.isnan(wakes) else wakes,
        server_sleeps=sleeps,
    )


def engine_contributions(
    point: ObservedPoint, engine: EngineProfile, speed: HostSpeed
) -> dict[str, float]:
    """What each fitted part adds to a point's server CPU time per request, in ns.

    Parts are taken at the prior's numbers, so that a factor of one is the prior.
    """
    work = engine.engine_work()
    scenario = scenario_of(point.given, engine=engine.engine, engine_version=engine.version)
    counts = counts_of(point)
    kinds = command_kinds(scenario)
    rate = speed.user_ipc * speed.clock_ghz
    unix = scenario.transport == "unix_socket"
    recv_ns = speed.unix_recv_ns if unix else speed.tcp_recv_ns
    send_ns = speed.unix_send_ns if unix else speed.tcp_send_ns
    batch = min(prefetch_batch(scenario, engine), point.given.pipeline)
    batched = engine.whole_pipeline and batch > 1
    parts = dict.fromkeys(PARTS, 0.0)
    miss_share = 0.0
    for kind in kinds:
        _add_command(parts, kind, scenario, engine, speed, batch if batched else 1)
        memory = command_memory(kind, scenario, engine, work, speed)
        miss_share += kind.share * memory.miss_share
        size = kind.request_bytes(scenario.workload.key_bytes) + kind.reply_bytes
        parts["kernel"] += kind.share * size * speed.copy_ns_per_byte
    parts["loop"] = counts.turns * work.loop_instructions / rate
    parts["event"] = counts.reads * work.read_instructions / rate
    parts["event"] += counts.writes * work.write_instructions / rate
    parts["kernel"] += counts.turns * speed.epoll_wait_ns
    parts["kernel"] += counts.reads * (recv_ns + speed.epoll_event_ns) + counts.writes * send_ns
    parts["displaced"] = counts.reads * work.displaced_lines * miss_share * speed.dram_ns
    parts["wake"] = counts.generator_wakes * speed.wake_send_ns
    parts["wake"] += counts.server_sleeps * speed.block_ns
    if batched:
        parts["prefetch"] = work.prefetch_instructions_per_key / rate
    return parts


def _add_command(
    parts: dict[str, float],
    kind: CommandKind,
    scenario: Scenario,
    engine: EngineProfile,
    speed: HostSpeed,
    batch: int,
) -> None:
    """Add one kind of command to a point's parts."""
    work = engine.engine_work()
    rate = speed.user_ipc * speed.clock_ghz
    size = kind.value_bytes
    if kind.command == "get":
        parts["get"] += kind.share * (work.parse_instructions + work.get_instructions) / rate
        parts["get_bytes"] += kind.share * size * work.get_instructions_per_byte / rate
    else:
        whole = work.parse_instructions + work.set_instructions + work.value_instructions
        parts["set"] += kind.share * whole / rate
        per_byte = work.parse_instructions_per_byte + work.set_instructions_per_byte
        parts["set_bytes"] += kind.share * size * per_byte / rate
    memory = command_memory(kind, scenario, engine, work, speed)
    if batch > 1:
        waits = memory.prefetch_ns[batch] / batch + memory.prefetched_stall_ns
    else:
        waits = float(memory.stall_ns.mean())
    parts["touch"] += kind.share * waits
    if kind.command == "set" and batch <= 1:
        # The freed value is one of the structures; its share of the wait has a factor of its own.
        lines = command_structures(kind, scenario, engine, work)
        touches = sum(s.touches for s in lines)
        own = waits * lines[-1].touches / touches
        parts["touch"] -= kind.share * own
        parts["set_touch"] += kind.share * own
