"""What a host does to its cores while something is measured there, look by look.

Neighbours change by the minute, and with them how often the hypervisor takes a core away: within
five minutes such rates differed by ten times. A profile from before a measurement says little of
the tail that the measurement meets. Looks between its windows do.
"""

from __future__ import annotations

from forecache.sim.errors import InputError

from ..schema import HostProfile
from .collect import Collected, look
from .host import interruption_curve, wake_curve
from .machine import inspect_machine

LOOK_S = 0.7
"""Of busy CPUs; a run of wake-ups takes about as long again at most."""


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

    def look(self, *, duration_s: float = LOOK_S) -> None:
        """Watch both cores once more."""
        look(self._pair, self._found, duration_s=duration_s)

    def seen(self, host: HostProfile) -> HostProfile:
        """A profile of this host with the interruptions and wake-ups of all looks so far."""
        return host.model_copy(
            update={
                "interruptions": interruption_curve(self._machine, self._found),
                "wake_curve": wake_curve(self._machine, self._found),
            }
        )
