"""From samples and call graphs to stages: who pays for what."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Literal

from pydantic import Field

from forecache.hwprofiles.files import parse, read_yaml, shipped
from forecache.hwprofiles.quantity import Source
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError

from ...bundle.profiles import Stage, StageWork, ThreadWork
from ..readers.callgrind import CallgrindProfile
from ..readers.perf import Frame, Sample

# --- which stage a function belongs to ------------------------------------------------------------

# Which stage of a request a function belongs to, from the maps in `calibration/observe/symbols/`.
#
# An exact name beats a pattern, and a longer pattern a shorter one; an engine's own map beats the
# common one. What compilers, linkers and profilers append to a name doesn't count.


_COMMON = "common"
# `name@@GLIBC_2.34`, `name.constprop.0`, `name'2` of a recursion, `name [object, file]`.
_SUFFIX = re.compile(r"(@|'\d|\.(part|constprop|isra|lto_priv|cold|llvm)\b| \[).*$")


class SymbolMap(Record):
    """Functions of one engine generation by stage, and kernel functions by their system call."""

    id: str
    title: str
    engines: dict[str, list[str]]
    """Engine names, and the versions of each that have these functions: 7 stands for 7.0.15."""
    sources: dict[str, Source]
    stages: dict[Stage, list[str]]
    system_calls: dict[Stage, list[str]] = Field(default={})

    def covers(self, engine: str, version: str) -> bool:
        """Whether the map was made for a version of an engine."""
        return any(f"{version}.".startswith(f"{known}.") for known in self.engines.get(engine, []))

    def stage_of(self, function: str) -> Stage | None:
        """The stage of a function, or None when the map doesn't know it."""
        return _find(_SUFFIX.sub("", function), self._functions)

    def system_call_stage(self, function: str) -> Stage | None:
        """The stage of the system call that a kernel function begins, or None."""
        return _find(function, self._kernel)

    @cached_property
    def _functions(self) -> dict[str, Stage]:
        return _by_pattern(self.stages)

    @cached_property
    def _kernel(self) -> dict[str, Stage]:
        return _by_pattern(self.system_calls)


def _by_pattern(stages: Mapping[Stage, list[str]]) -> dict[str, Stage]:
    """Stages by name or pattern, the longest first."""
    pairs = [(name, stage) for stage, names in stages.items() for name in names]
    return dict(sorted(pairs, key=lambda pair: -len(pair[0])))


def _find(name: str, stages: Mapping[str, Stage]) -> Stage | None:
    if name in stages:
        return stages[name]
    return next((stage for pattern, stage in stages.items() if fnmatchcase(name, pattern)), None)


class Stages:
    """An engine's map on top of the common one.

    Parameters
    ----------
    engine, version
        As INFO reports them.

    Raises
    ------
    InputError
        No map covers that version; names those there are.
    """

    def __init__(self, engine: str, version: str) -> None:
        maps = symbol_maps()
        covering = [known for known in maps.values() if known.covers(engine, version)]
        if not covering:
            titles = ", ".join(known.title for known in maps.values() if known.engines)
            raise InputError(
                f"engine: found {engine} {version}, whose functions no map in "
                f"calibration/observe/symbols names; valid is {titles}."
            )
        self.generation = covering[0].id
        self._own = covering[0]
        self._common = maps[_COMMON]
        self.stage_of = lru_cache(maxsize=None)(self._stage_of)
        self.system_call_stage = lru_cache(maxsize=None)(self._common.system_call_stage)

    def _stage_of(self, function: str) -> Stage | None:
        return self._own.stage_of(function) or self._common.stage_of(function)


@lru_cache(maxsize=1)
def symbol_maps() -> dict[str, SymbolMap]:
    """The shipped maps by id."""
    return {
        name: parse(SymbolMap, read_yaml(path), file=path)
        for name, path in shipped("forecache.calibration.observe", "symbols").items()
    }


# --- who pays for what ----------------------------------------------------------------------------


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
