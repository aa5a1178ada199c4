"""The same system with one thing otherwise: what a cause of a gap would make of a prediction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.step_times.inputs import NodeInputs


@dataclass(frozen=True)
class AlteredSystem(System):
    """A system whose server, load generator or network is another than its profiles say.

    Attributes
    ----------
    server_slower, generator_slower
        Factors on every time of the processor that the server, or the load generator, has.
    network_gbit_per_s
        What the network carries; None leaves what the host says.
    """

    server_slower: float = 1.0
    generator_slower: float = 1.0
    network_gbit_per_s: float | None = None

    def inputs(self, scenario: Scenario, *, draw: int | None = None, seed: int = 1) -> NodeInputs:
        """As of every system, with the changes."""
        found = super().inputs(scenario, draw=draw, seed=seed)
        network: dict[str, Any] = {}
        if self.network_gbit_per_s is not None:
            network = {"network_gbit_per_s": self.network_gbit_per_s}
        return replace(
            found,
            speed=replace(found.speed.slower(self.server_slower), **network),
            generator_speed=replace(found.generator_speed.slower(self.generator_slower), **network),
        )


def altered(system: System, **changes: Any) -> AlteredSystem:
    """A system with some of the changes that `AlteredSystem` knows."""
    return AlteredSystem(system.host, system.engine, system.generator, **changes)
