"""How far apart the cores are while something is measured, against when the host was profiled.

A hypervisor moves virtual CPUs between cores that share a cache and cores that don't, and a line
then takes five times as long from one to the other. A window that saw the cores elsewhere says
little of the host that was profiled.
"""

from __future__ import annotations

import os
import time

from forecache.hwprofiles import HostProfile
from forecache.hwprofiles.capture.cores import alike, distance_ns
from forecache.hwprofiles.capture.machine import pair_among

from ..bundle.points import Repetition
from .measure import CorePlan

_PAUSE_S = 0.25
"""Between two looks while the cores are elsewhere."""


class CoreDistance:
    """Waits for the cores to be where they were, and says of a window whether they were.

    Parameters
    ----------
    host
        Where they should be; without it, or if it wasn't measured, windows need only begin and end
        at the same distance.
    patience_s
        To wait in all.
    """

    def __init__(self, host: HostProfile | None, *, patience_s: float) -> None:
        known = host is not None and host.core_to_core_ns.kind == "measured"
        self._wanted_ns = host.core_to_core_ns.best if host is not None and known else None
        self.patience_s = patience_s
        """What is left of it."""

    def of(self, plan: CorePlan) -> float | None:
        """ns that a line takes between the two CPUs that a profile of the host looks at.

        None on one core. Hyperthreads of one core are no such pair.
        """
        pair = pair_among(plan.all)
        if pair is None:
            return None
        return distance_ns(pair, lambda cpu: os.sched_setaffinity(0, {cpu}))

    def wait(self, plan: CorePlan) -> float | None:
        """Wait until the cores are where they should be, or patience ends; the distance then."""
        found = self.of(plan)
        while found is not None and not self._right(found) and self.patience_s > 0.0:
            time.sleep(_PAUSE_S)
            self.patience_s -= _PAUSE_S
            found = self.of(plan)
        return found

    def noted(
        self, repetition: Repetition, before_ns: float | None, after_ns: float | None
    ) -> Repetition:
        """The repetition with the distances around it, and `moved` where they are wrong."""
        if before_ns is None or after_ns is None:
            return repetition
        right = alike(before_ns, after_ns) and self._right(before_ns) and self._right(after_ns)
        return repetition.model_copy(
            update={
                "core_to_core_ns": (round(before_ns, 1), round(after_ns, 1)),
                "flags": [*repetition.flags, *([] if right else ["moved"])],
            }
        )

    def _right(self, found_ns: float) -> bool:
        return self._wanted_ns is None or alike(found_ns, self._wanted_ns)
