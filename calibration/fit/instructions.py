"""Instructions per request, as a profiler counted them, against those of the model.

CPU time alone knows instructions only divided by the rate at which they retire. Counted
instructions tell the two apart, and parsing from execution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from forecache.models.engines.commands import command_kinds
from forecache.models.engines.profile import EngineProfile

from ..bundle.profiles import Profile, Stage
from .scenarios import scenario_of
from .work_model import INSTRUCTIONS, PointCounts, events_per_batch, instruction_counts

GROUPS: dict[str, tuple[Stage, ...]] = {
    "events": ("poll", "loop", "read"),
    "write": ("write",),
    "parse": ("parse",),
    "command": ("lookup", "execute", "reply", "memory"),
}
"""Stages that the model doesn't tell apart. The event loop hands out events one by one, so part of
its instructions goes with the reads."""

WHOLE = "request"
"""The only group of an engine whose functions have no names."""

_GROUP_OF = {
    "loop_instructions": "events",
    "read_instructions": "events",
    "write_instructions": "write",
    "parse_instructions": "parse",
    "get_instructions": "command",
    "set_instructions": "command",
    "value_instructions": "command",
    "prefetch_instructions_per_key": "command",
}

LARGEST_VALUE_BYTES = 64
"""Copies of larger values are counted in time, not in instructions: one moves up to 64 bytes."""

COUNT_ERROR = 0.10
"""Relative standard error of a count: the count is exact, the model of it is not."""

_FEWEST = 20.0
"""Instructions per request below which a group is noise of the subtraction."""


def tells_stages(engine: EngineProfile) -> bool:
    """Whether what is counted of an engine can be told apart by stage.

    Memcached's own functions are static, and stripped programs, as distributions have them, don't
    name those; what they spend is known as a whole.
    """
    return engine.engine != "memcached"


def groups_of(engine: EngineProfile) -> dict[str, tuple[Stage, ...]]:
    """Stages of an engine by group: those of `GROUPS`, or all that requests cause in one."""
    return GROUPS if tells_stages(engine) else {WHOLE: tuple(chain(*GROUPS.values()))}


def _is_in(name: str, group: str) -> bool:
    return name in _GROUP_OF and group in (WHOLE, _GROUP_OF[name])


@dataclass(frozen=True)
class InstructionRows:
    """Observed instructions and what the model makes of them.

    Attributes
    ----------
    matrix : (rows, len(INSTRUCTIONS))
        Instructions per request at the prior's numbers.
    observed : (rows,)
    """

    matrix: np.ndarray
    observed: np.ndarray

    def log_instructions(self, logs: np.ndarray) -> np.ndarray:
        """(rows,) logarithms, by logarithms of factors of which the first are those of work."""
        return np.asarray(np.log(self.matrix @ np.exp(logs[: len(INSTRUCTIONS)])))


def instruction_rows(profiles: Sequence[Profile], engine: EngineProfile) -> InstructionRows:
    """What counted profiles say; none where no profiler counted instructions."""
    rows, observed = [], []
    work = engine.engine_work()
    for profile in profiles:
        counted = _instructions(profile)
        given = profile.given
        if not counted or given.value_bytes > LARGEST_VALUE_BYTES or given.io_threads != 1:
            continue
        served = events_per_batch(given, engine) / given.pipeline
        counts = PointCounts(
            turns=profile.event_loops_per_request or 0.0,
            reads=profile.reads_per_request or served,
            writes=profile.writes_per_request or served,
            segments=served,
            generator_wakes=0.0,
            server_sleeps=0.0,
        )
        scenario = scenario_of(given, engine=engine.engine, engine_version=engine.version)
        done = instruction_counts(command_kinds(scenario), scenario, engine, counts)
        for group, stages in groups_of(engine).items():
            total = sum(counted.get(stage, 0.0) for stage in stages)
            row = [
                done[name] * getattr(work, name) if _is_in(name, group) else 0.0
                for name in INSTRUCTIONS
            ]
            if total >= _FEWEST and sum(row) > 0:
                rows.append(row)
                observed.append(total)
    matrix = np.array(rows).reshape(-1, len(INSTRUCTIONS))
    return InstructionRows(matrix, np.array(observed))


def _instructions(profile: Profile) -> dict[Stage, float]:
    """Instructions per request of the main thread by stage, where they were counted."""
    return {
        work.stage: work.instructions_per_request
        for thread in profile.threads
        if thread.role == "main"
        for work in thread.stages
        if work.instructions_per_request is not None
    }
