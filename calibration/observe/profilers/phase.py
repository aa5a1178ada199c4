"""The part of an observation that profiles, after everything else was measured."""

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from forecache.sim.errors import ForecacheError

from ...bundle.points import Conditions
from ...bundle.profiles import Depth, Profile
from .choose import ProfilerChoice
from .session import Found

Say = Callable[[str], None]

# All evidence of a bundle together, compressed.
_MOST_EVIDENCE_BYTES = 200_000


@dataclass(frozen=True)
class Phase:
    """What was found, and the files with the counts per function, by name in the bundle."""

    depth: Depth = "clock"
    reason: str | None = None
    profiles: list[Profile] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)


def profile_phase(binary: Path, choice: ProfilerChoice, *, most_threads: int, say: Say) -> Phase:
    """Let every chosen profiler look at its points, each data set on a fresh server.

    Points with more threads than the engine can run are left out.

    A profiler that fails stops there, and the reason says so: what was measured before doesn't
    depend on it.
    """
    if not choice.profilers:
        return Phase(reason=choice.reason)
    say(choice.reason)
    reason = choice.reason
    found: list[Found] = []
    depth: Depth = "clock"
    for profiler in reversed(choice.profilers):
        try:
            points = [g for g in profiler.points() if g.io_threads <= most_threads]
            for group in _by_data_set(points):
                labels = ", ".join(given.label() for given in group)
                say(f"profiling with {profiler.name}: {labels}")
                found += profiler.profile(binary, group)
                depth = profiler.depth
        except ForecacheError as error:
            reason = f"{reason} {profiler.name} stopped: {error}"
            say(reason)
    profiles, files = _kept(found)
    return Phase(depth, reason, profiles, files)


def _by_data_set(points: Sequence[Conditions]) -> list[list[Conditions]]:
    ordered = sorted(points, key=lambda given: given.data_set)
    return [list(group) for _, group in groupby(ordered, key=lambda given: given.data_set)]


def _kept(found: Sequence[Found]) -> tuple[list[Profile], dict[str, bytes]]:
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
