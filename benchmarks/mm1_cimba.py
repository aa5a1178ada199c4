"""The M/M/1 model of `mm1` for the cimba package; importable only where that's installed.

cimba reads a model's annotations from the module's names, so the model can't be local to a
function.
"""

import cimba

CUSTOMERS = 1_000_000
LOAD = 0.8


class Queue(cimba.Model):  # type: ignore[misc]
    """A source, a first-in first-out store and a server that adds up the times in the system."""

    interarrival: cimba.Input[float] = cimba.inputs.dist.exponential(mean=1.0 / LOAD)
    service: cimba.Input[float] = cimba.inputs.dist.exponential(mean=1.0)
    line: cimba.Store[float]
    mean_time: cimba.Output[float]

    @cimba.process
    def source(self) -> None:
        """Put every customer's arrival time."""
        for _ in range(CUSTOMERS):
            cimba.hold(self.interarrival.next())
            self.line.put(cimba.now())

    @cimba.process
    def server(self) -> None:
        """Serve every customer."""
        total = 0.0
        for _ in range(CUSTOMERS):
            arrival = self.line.get()
            cimba.hold(self.service.next())
            total += cimba.now() - arrival
        self.mean_time = total / CUSTOMERS
