"""From samples and call graphs to stages: who pays for what."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal

from ...bundle.profiles import Stage, StageWork, ThreadWork
from ..readers.callgrind import CallgrindProfile
from ..readers.perf_script import Frame, Sample
from .stages import Stages

Role = Literal["main", "io", "other"]

# Kernel addresses lie in the upper half, on x86-64 as on aarch64.
_KERNEL = 1 << 63
# Costs climb through callers that no map names; deeper chains than this are cycles.
_DEEPEST = 64


class Attribution:
    """Samples by thread, stage and function.

    The stage of a sample in user code is that of its innermost function: without frame pointers
    the callers perf shows are not to be trusted. A sample in the kernel belongs to the stage of
    its system call, known from the kernel's own call chain, or, on the way in and out of the
    kernel, from the C library's function that made the call.
    """

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._counts: dict[int, Counter[tuple[Stage, bool]]] = {}
        self._names: dict[int, str] = {}
        self.functions: Counter[tuple[str, Stage, str]] = Counter()
        self.samples = 0
        self.unknown = 0

    def add(self, samples: Iterable[Sample]) -> "Attribution":
        """Count samples in."""
        for sample in samples:
            if not sample.frames:
                continue
            in_kernel = sample.frames[0].address >= _KERNEL
            stage = self._kernel_stage(sample.frames) if in_kernel else None
            if stage is None:
                user = next((f for f in sample.frames if f.address < _KERNEL), None)
                if user is not None and user.symbol is not None:
                    stage = self._stages.stage_of(user.symbol)
            self.samples += 1
            self.unknown += stage is None
            counts = self._counts.setdefault(sample.tid, Counter())
            counts[stage or "other", in_kernel] += 1
            self._names[sample.tid] = sample.comm
            name = sample.frames[0].symbol or "[unknown]"
            self.functions[sample.comm, stage or "other", name] += 1
        return self

    def _kernel_stage(self, frames: tuple[Frame, ...]) -> Stage | None:
        """The outermost kernel function that a system call begins with decides."""
        for frame in reversed(frames):
            if frame.address >= _KERNEL and frame.symbol is not None:
                stage = self._stages.system_call_stage(frame.symbol)
                if stage is not None:
                    return stage
        return None

    @property
    def unattributed(self) -> float:
        """Share of the samples that no map names."""
        return self.unknown / self.samples if self.samples else 0.0

    def threads(self, roles: Mapping[int, Role]) -> list[ThreadWork]:
        """Shares of every thread that ran, the busiest first; unknown threads are `other`."""
        works = []
        for tid, counts in self._counts.items():
            total = counts.total()
            works.append(
                ThreadWork(
                    thread=self._names[tid],
                    role=roles.get(tid, "other"),
                    samples=total,
                    share=total / self.samples,
                    stages=_shares(counts, total),
                )
            )
        return sorted(works, key=lambda work: -(work.samples or 0))

    def evidence(self) -> str:
        """`thread;stage;function count` lines, the largest first."""
        rows = self.functions.most_common()
        return "".join(f"{';'.join(key)} {count}\n" for key, count in rows)


def _shares(counts: "Counter[tuple[Stage, bool]]", total: int) -> list[StageWork]:
    """Shares with their binomial standard errors, the largest first."""
    by_stage: Counter[Stage] = Counter()
    for (stage, _), count in counts.items():
        by_stage[stage] += count
    return [
        StageWork(
            stage=stage,
            share=count / total,
            standard_error=math.sqrt(count / total * (1 - count / total) / total),
            kernel_share=counts[stage, True] / total,
        )
        for stage, count in by_stage.most_common()
    ]


def charge(
    profile: CallgrindProfile, stages: Stages
) -> tuple[dict[Stage, dict[str, float]], dict[str, float]]:
    """Events by stage, and the part of `other` that found no stage.

    A function with a stage of its own keeps its events. All others, including those of the stage
    `memory`, pass them on to their callers, in proportion to the events of the calls of each, until
    a function with a stage is reached.

    Parameters
    ----------
    profile
        A part of a Callgrind profile.
    stages
        The engine's symbol map.
    """
    own = {name: stages.stage_of(name) for name in profile.functions}
    callers: dict[str, dict[str, Mapping[str, int]]] = {}
    for call in profile.calls:
        if call.caller != call.callee:
            callers.setdefault(call.callee, {})[call.caller] = call.inclusive
    charged: dict[Stage, dict[str, float]] = {}
    lost: dict[str, float] = {}
    for event in profile.events:
        pending = {name: float(work.self[event]) for name, work in profile.functions.items()}
        for _ in range(_DEEPEST):
            passed: dict[str, float] = {}
            for name, amount in pending.items():
                if not amount:
                    continue
                stage = own[name]
                shares = {caller: work[event] for caller, work in callers.get(name, {}).items()}
                total = sum(shares.values())
                if stage is not None and (stage != "memory" or not total):
                    pay = charged.setdefault(stage, {})
                    pay[event] = pay.get(event, 0.0) + amount
                elif not total:
                    lost[event] = lost.get(event, 0.0) + amount
                else:
                    for caller, share in shares.items():
                        passed[caller] = passed.get(caller, 0.0) + amount * share / total
            pending = passed
        lost[event] = lost.get(event, 0.0) + sum(pending.values())
        other = charged.setdefault("other", {})
        other[event] = other.get(event, 0.0) + lost[event]
    return charged, lost
