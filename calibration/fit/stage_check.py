"""Stage by stage: what profilers saw against what the fit says.

The fit knows the sum of all stages of many points; a profiler sees the parts of one. Where both
agree, the parts are right and not only their sum.
"""

from __future__ import annotations

from collections.abc import Mapping

from forecache.hwprofiles.speed import HostSpeed
from forecache.models.engines.commands import command_kinds
from forecache.models.engines.profile import EngineProfile
from forecache.models.step_times.workload_caches import command_waits, workload_caches

from ..bundle.profiles import Profile
from .fit import Calibration
from .instructions import GROUPS, tells_stages
from .report import StageCheck, StageShare
from .scenarios import scenario_of
from .work_model import PointCounts, inputs_of, instruction_counts

_GROUP_OF = {stage: group for group, stages in GROUPS.items() for stage in stages}

_INSTRUCTION_GROUP = {
    "loop_instructions": "events",
    "read_instructions": "events",
    "write_instructions": "write",
    "parse_instructions": "parse",
    "parse_instructions_per_byte": "parse",
}


def stage_checks(fitted: Calibration) -> list[StageCheck]:
    """Shares of stages per profile of the bundle, observed and fitted."""
    if not tells_stages(fitted.profile):
        return []
    checks = []
    speed = fitted.host.speed()
    for profile in fitted.bundle.profiles:
        if profile.given.io_threads != 1:
            continue
        if profile.profiler == "clock":
            seen = _time_shares(profile)
            model = stage_times_ns(profile, fitted.profile, speed)
            of = "CPU time"
        elif profile.profiler == "callgrind":
            seen = _instruction_shares(profile)
            model = _instructions(profile, fitted.profile)
            of = "instructions"
        else:
            continue
        if seen:
            checks.append(_check(profile, of, seen, model))
    return checks


def _check(
    profile: Profile, of: str, seen: Mapping[str, float], model: Mapping[str, float]
) -> StageCheck:
    total = sum(model.values())
    groups = []
    for group in GROUPS:
        observed, predicted = seen.get(group, 0.0), model.get(group, 0.0) / total
        groups.append(StageShare(group, observed, predicted, predicted - observed))
    return StageCheck(
        point=profile.given.label(),
        profiler=profile.profiler,
        of=of,
        unattributed=profile.unattributed,
        groups=groups,
        largest_difference=max(abs(group.difference) for group in groups),
    )


def _time_shares(profile: Profile) -> dict[str, float]:
    """Shares of the main thread's CPU time by group, of what was attributed."""
    shares: dict[str, float] = {}
    for thread in profile.threads:
        if thread.role == "main":
            for work in thread.stages:
                group = _GROUP_OF.get(work.stage)
                if group is not None and work.share is not None:
                    shares[group] = shares.get(group, 0.0) + work.share
    return _normalised(shares)


def _instruction_shares(profile: Profile) -> dict[str, float]:
    """Shares of the main thread's instructions by group, of what was attributed."""
    counts: dict[str, float] = {}
    for thread in profile.threads:
        if thread.role == "main":
            for work in thread.stages:
                group = _GROUP_OF.get(work.stage)
                if group is not None and work.instructions_per_request is not None:
                    counts[group] = counts.get(group, 0.0) + max(0.0, work.instructions_per_request)
    return _normalised(counts)


def _normalised(parts: Mapping[str, float]) -> dict[str, float]:
    total = sum(parts.values())
    return {name: part / total for name, part in parts.items()} if total > 0 else {}


def _counts(profile: Profile) -> PointCounts:
    """What one request took, from the engine's own counters; a load that never sleeps."""
    each = 1.0 / profile.given.pipeline
    writes = profile.writes_per_request or each
    return PointCounts(
        turns=profile.event_loops_per_request or 0.03 * each,
        reads=profile.reads_per_request or each,
        writes=writes,
        segments=writes,
        generator_wakes=0.03 * writes,
        server_sleeps=0.0,
    )


def _instructions(profile: Profile, engine: EngineProfile) -> dict[str, float]:
    """Fitted instructions per request by group, without copies of values."""
    scenario = scenario_of(profile.given, engine=engine.engine, engine_version=engine.version)
    work = engine.engine_work()
    done = instruction_counts(command_kinds(scenario), scenario, engine, _counts(profile))
    parts: dict[str, float] = {}
    for name, often in done.items():
        if not name.endswith("_per_byte"):
            group = _INSTRUCTION_GROUP.get(name, "command")
            parts[group] = parts.get(group, 0.0) + often * getattr(work, name)
    return parts


def stage_times_ns(profile: Profile, engine: EngineProfile, speed: HostSpeed) -> dict[str, float]:
    """Fitted CPU ns per request by group, at the counts of a profiled point."""
    inputs, counts = inputs_of(profile.given, engine, speed), _counts(profile)
    scenario, work, kinds = inputs.scenario, inputs.work, inputs.kinds
    done = instruction_counts(kinds, scenario, engine, counts)
    parts = dict.fromkeys(GROUPS, 0.0)
    for name, often in done.items():
        group = _INSTRUCTION_GROUP.get(name, "command")
        parts[group] += inputs.user_ns(often * getattr(work, name))
    caches = workload_caches(inputs)
    batch = min(inputs.prefetch_batch, scenario.workload.pipeline)
    for kind in kinds:
        waits = command_waits(kind, inputs, caches)
        later = work.stream_scale * waits.head_ns() + waits.tail_ns()
        if engine.whole_pipeline and batch > 1:
            walked = waits.together_ns(batch, speed.parallel_misses) / batch + waits.alone_ns()
        else:
            walked = waits.touching_ns()
        parts["command"] += kind.share * (walked + later)
        byte_ns = caches.copy_wait_ns / caches.copied_bytes
        request = kind.request_bytes(scenario.workload.key_bytes)
        parts["events"] += kind.share * request * (inputs.recv_ns_per_byte() + byte_ns)
        parts["write"] += kind.share * kind.reply_bytes * (inputs.send_ns_per_byte() + byte_ns)
    kernel = work.kernel_scale
    parts["events"] += kernel * counts.turns * speed.epoll_wait_ns
    parts["events"] += kernel * counts.reads * (speed.epoll_event_ns + speed.tcp_recv_ns)
    parts["write"] += kernel * counts.segments * speed.tcp_send_ns
    parts["write"] += work.wake_scale * counts.generator_wakes * speed.wake_send_ns
    return parts
