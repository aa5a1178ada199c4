"""What a host does to its cores while something is measured there, look by look.

Neighbours change by the minute, and with them how often the hypervisor takes a core away: within
five minutes such rates differed by ten times. A profile from before a measurement says little of
the tail that the measurement meets. Looks between its windows do.
"""

from __future__ import annotations

import time

from forecache.hwprofiles.capture.collect import Collected, look
from forecache.hwprofiles.capture.host import interruption_curve, wake_curve
from forecache.hwprofiles.capture.machine import busy_cpu_seconds, inspect_machine
from forecache.hwprofiles.schema import HostProfile
from forecache.sim.errors import InputError

LOOK_S = 0.7
"""Of busy CPUs; a run of wake-ups takes about as long again at most."""

MOST_OTHER = 0.04
"""CPUs that other programs may use during a look; ticks of 10 ms say how much they do. A program
that runs for its time slice of some milliseconds looks like a pause of the hypervisor."""


class HostWatch:
    """Looks at two cores of this host, which must be idle while it looks.

    Raises
    ------
    InputError
        Fewer than two cores run at once here.
    """

    def __init__(self) -> None:
        self._machine = inspect_machine()
        if self._machine.pair is None or self._machine.usable_cpus < 2:
            raise InputError("CPUs: found one that can be watched; valid is two that run at once.")
        self._pair = self._machine.pair
        self._found = Collected()
        self.disturbed = 0

    def look(self, *, duration_s: float = LOOK_S) -> None:
        """Watch both cores once more; what other programs disturb is left out and counted."""
        started, own, busy = self._clocks()
        found = Collected()
        look(self._pair, found, duration_s=duration_s)
        ended, own_after, busy_after = self._clocks()
        others = (busy_after - busy) - (own_after - own)
        if others > MOST_OTHER * (ended - started):
            self.disturbed += 1
            return
        for us, rates in found.interruptions_per_s.items():
            self._found.interruptions_per_s.setdefault(us, []).extend(rates)
        for name, samples in found.short.items():
            self._found.add(name, samples)

    def _clocks(self) -> tuple[float, float, float]:
        """Time, CPU time of this process, and of everything on the CPUs that are watched; in s."""
        busy_s, _ = busy_cpu_seconds(self._pair)
        return time.monotonic(), time.process_time(), busy_s

    def seen(self, host: HostProfile) -> HostProfile:
        """A profile of this host with the interruptions and wake-ups of all looks so far.

        Raises
        ------
        InputError
            Other programs disturbed every look.
        """
        if not self._found.interruptions_per_s:
            raise InputError(
                f"looks at the host: found {self.disturbed} that other programs disturbed and no "
                "other; valid is a machine where nothing else runs."
            )
        return host.model_copy(
            update={
                "interruptions": interruption_curve(self._machine, self._found),
                "wake_curve": wake_curve(self._machine, self._found),
            }
        )
