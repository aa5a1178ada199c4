"""Which profilers to use: those asked for, or the deepest that this machine allows."""

from collections.abc import Sequence
from dataclasses import dataclass

from forecache.sim.errors import InputError

from ...bundle.profiles import Geometry
from .callgrind import Callgrind
from .clock import Clock
from .perf import Counters
from .session import Profiler
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
