"""Where the cores are and how fast, while something is measured.

A hypervisor moves virtual CPUs between cores that share a cache and cores that don't, and a line
then takes five times as long from one to the other. A virtual CPU may also share its physical core
with another machine's, and then takes 1.3 to 1.5 times as long for what keeps a core busy; no
kernel counts that as stolen. A window that saw either says little of the host that was profiled.
"""

from __future__ import annotations

import math
import os
import threading
import time
from typing import NamedTuple

from forecache.hwprofiles import HostProfile
from forecache.hwprofiles.capture.cores import (
    ANSWER_INSTRUCTIONS,
    alike,
    answer_samples,
    distance_ns,
)
from forecache.hwprofiles.capture.machine import pair_among

from ..bundle.points import Repetition
from .measure import CorePlan

_PAUSE_S = 0.25
"""Between two looks while the cores are elsewhere, or slow."""

_SLOWER = 1.15
"""A core that takes this much longer than it can shares itself with somebody: on Zen 5 a GET in the
caches took 18.2 to 19.4 ns or 23 to 29."""


class CoreLook(NamedTuple):
    """At the cores at one moment.

    Attributes
    ----------
    distance_ns
        That a line takes between the two CPUs that a profile of the host looks at. None on one
        core; hyperthreads of one core are no such pair.
    answer_ns
        That the slowest core takes for what keeps it busy, a GET in its caches.
    """

    distance_ns: float | None
    answer_ns: float


class CoreState:
    """Waits for the cores to be as they were, and says of a window whether they were.

    Parameters
    ----------
    host
        How far apart and how fast they should be; without it, or where it wasn't measured, windows
        need only begin and end at the same distance, and be as fast as cores were seen before.
    patience_s
        To wait in all.
    """

    def __init__(self, host: HostProfile | None, *, patience_s: float) -> None:
        known = host is not None and host.core_to_core_ns.kind == "measured"
        self._wanted_ns = host.core_to_core_ns.best if host is not None and known else None
        self._fastest_ns = math.inf
        if host is not None and host.user_ipc.kind == "measured":
            self._fastest_ns = ANSWER_INSTRUCTIONS / host.user_ipc.best / host.clock_ghz.best
        self.patience_s = patience_s
        """What is left of it."""

    def look(self, plan: CorePlan) -> CoreLook:
        """At the cores now, for some milliseconds."""
        pair = pair_among(plan.all)
        far = (
            None if pair is None else distance_ns(pair, lambda cpu: os.sched_setaffinity(0, {cpu}))
        )
        found = CoreLook(far, max(map(_answer_ns, plan.all)))
        self._fastest_ns = min(self._fastest_ns, found.answer_ns)
        return found

    def wait(self, plan: CorePlan) -> CoreLook:
        """Wait until the cores are as they should be, or patience ends; the last look."""
        found = self.look(plan)
        while not (self._near(found) and self._fast(found)) and self.patience_s > 0.0:
            time.sleep(_PAUSE_S)
            self.patience_s -= _PAUSE_S
            found = self.look(plan)
        return found

    def noted(self, repetition: Repetition, before: CoreLook, after: CoreLook) -> Repetition:
        """The repetition with the looks around it; `moved` and `slowed` where they are wrong."""
        flags = list(repetition.flags)
        found: dict[str, object] = {"core_answer_ns": _pair(before.answer_ns, after.answer_ns)}
        if before.distance_ns is not None and after.distance_ns is not None:
            found["core_to_core_ns"] = _pair(before.distance_ns, after.distance_ns)
            stayed = alike(before.distance_ns, after.distance_ns)
            if not (stayed and self._near(before) and self._near(after)):
                flags.append("moved")
        if not (self._fast(before) and self._fast(after)):
            flags.append("slowed")
        return repetition.model_copy(update={**found, "flags": flags})

    def _near(self, found: CoreLook) -> bool:
        anywhere = found.distance_ns is None or self._wanted_ns is None
        return anywhere or alike(found.distance_ns, self._wanted_ns)  # type: ignore[arg-type]

    def _fast(self, found: CoreLook) -> bool:
        return found.answer_ns < _SLOWER * self._fastest_ns


def _pair(before_ns: float, after_ns: float) -> tuple[float, float]:
    return round(before_ns, 1), round(after_ns, 1)


def _answer_ns(cpu: int) -> float:
    """Of one core, the shortest of a few."""
    found: list[float] = []

    def run() -> None:
        os.sched_setaffinity(0, {cpu})
        found.extend(answer_samples(repetitions=3))

    # In a thread of its own, as the caller stays where it is.
    looking = threading.Thread(target=run)
    looking.start()
    looking.join()
    return min(found)
