"""Which profilers to use: those asked for, or the deepest that this machine allows."""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from forecache.models.prediction.predict import Progress
from forecache.sim.errors import ForecacheError, InputError

from ...bundle.profiles import Depth, Geometry, Profile
from .callgrind import Callgrind
from .perf import Clock, Counters
from .session import ProfileEvidence, Profiler
from .vtune import Vtune

NAMES = ("none", "auto", "clock", "callgrind", "perf", "vtune")


@dataclass(frozen=True)
class ProfilerChoice:
    """The profilers to use, deepest first, and why these, in a sentence."""

    profilers: tuple[Profiler, ...]
    reason: str


def choose(name: str, *, geometry: Geometry | None = None) -> ProfilerChoice:
    """The profilers behind a name of `NAMES`.

    `auto` takes VTune, or else hardware counters, or else Callgrind and the CPU clock together:
    one counts what the other can't time.

    Parameters
    ----------
    geometry
        Caches for Callgrind to simulate; None counts instructions only.

    Raises
    ------
    InputError
        Nothing has that name, or it can't be used on this machine.
    """
    known: dict[str, Profiler] = {
        "vtune": Vtune(),
        "perf": Counters(),
        "callgrind": Callgrind(geometry=geometry),
        "clock": Clock(),
    }
    if name == "none":
        return ProfilerChoice((), "No profiler was asked for.")
    if name == "auto":
        return _deepest([(known["vtune"],), (known["perf"],), (known["callgrind"], known["clock"])])
    if name not in known:
        raise InputError(f"profiler: found {name!r}; valid is {', '.join(NAMES)}.")
    reason = known[name].refusal()
    if reason is not None:
        raise InputError(f"profiler: {name} can't be used here ({reason}); valid is auto or none.")
    return ProfilerChoice((known[name],), f"{name} was asked for.")


def _deepest(steps: Sequence[tuple[Profiler, ...]]) -> ProfilerChoice:
    """The first step of which anything can be used, and why not those before it."""
    reasons = []
    for step in steps:
        usable = []
        for profiler in step:
            reason = profiler.refusal()
            if reason is None:
                usable.append(profiler)
            else:
                reasons.append(f"{profiler.name}: {reason}")
        if usable:
            taken = " and ".join(profiler.name for profiler in usable)
            why = f", because deeper ones can't be used ({'; '.join(reasons)})" if reasons else ""
            return ProfilerChoice(tuple(usable), f"auto took {taken}{why}.")
    return ProfilerChoice(
        (), f"auto took no profiler, because none can be used ({'; '.join(reasons)})."
    )


# --- the part of an observation that profiles, after everything else was measured -----------------


# All evidence of a bundle together, compressed.
_MOST_EVIDENCE_BYTES = 200_000


@dataclass(frozen=True)
class Phase:
    """What was found, and the files with the counts per function, by name in the bundle."""

    depth: Depth = "clock"
    reason: str | None = None
    profiles: list[Profile] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)


def profile_phase(
    binary: Path, choice: ProfilerChoice, *, most_threads: int, say: Progress
) -> Phase:
    """Let every chosen profiler look at its points, each data set on a fresh server.

    Points with more threads than the engine can run are left out.

    A profiler that fails stops there, and the reason says so: what was measured before doesn't
    depend on it.
    """
    if not choice.profilers:
        return Phase(reason=choice.reason)
    say(choice.reason)
    reason = choice.reason
    found: list[ProfileEvidence] = []
    depth: Depth = "clock"
    for profiler in reversed(choice.profilers):
        try:
            points = [g for g in profiler.points() if g.io_threads <= most_threads]
            points.sort(key=lambda given: given.data_set)
            for _, same in groupby(points, key=lambda given: given.data_set):
                group = list(same)
                labels = ", ".join(given.label() for given in group)
                say(f"profiling with {profiler.name}: {labels}")
                found += profiler.profile(binary, group)
                depth = profiler.depth
        except ForecacheError as error:
            reason = f"{reason} {profiler.name} stopped: {error}"
            say(reason)
    profiles, files = _kept(found)
    return Phase(depth, reason, profiles, files)


def _kept(found: Sequence[ProfileEvidence]) -> tuple[list[Profile], dict[str, bytes]]:
    """Profiles with the names of their evidence, as far as there is room for it."""
    profiles: list[Profile] = []
    files: dict[str, bytes] = {}
    room = _MOST_EVIDENCE_BYTES
    for number, one in enumerate(found, start=1):
        data = gzip.compress(one.evidence.encode(), mtime=0)
        name = f"profiles/{number:03d}.txt.gz"
        if one.evidence and len(data) <= room:
            room -= len(data)
            files[name] = data
            profiles.append(one.profile.model_copy(update={"evidence": name}))
        else:
            profiles.append(one.profile)
    return profiles, files
